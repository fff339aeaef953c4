package attestation

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/hf/nitrite"
)

// A Document is a verified attestation document of a Nitro security module.
type Document struct {
	// ModuleID names the instance and the enclave: 1 to 255 bytes.
	ModuleID string
	// Time is the module's clock when it signed the document, to the millisecond.
	Time time.Time
	// PCRs holds the locked measurements by index, 0 to 31.
	PCRs map[int][pcrSize]byte
	// PublicKey, UserData and Nonce were chosen by the enclave; nil means absent.
	PublicKey, UserData, Nonce []byte
	// Debug reports that PCR 0, 1 and 2 are zero: the image runs in debug mode, and
	// the parent instance can read its console. Only true under Policy.AllowDebug.
	Debug bool
	// Simulator reports that the certificates lead to Policy.SimulatorRootPEM.
	Simulator bool
}

// VerifyDocument verifies an attestation document: its form, its signature, its certificate chain at the document's
// own time (a leaf is valid for three hours, a stored document is used for ever), and that it is of no debug image.
// It uses these members of the policy: the root, Chains, AllowDebug, ExpectedPCRs (compared if set), Now and MaxBootAge.
//
// raw is CBOR of at most MaxDocument bytes, with or without tag 18. PublicKey, UserData and Nonce are not
// interpreted. Do not identify a document by its bytes: other signatures over the same content may exist.
func VerifyDocument(raw []byte, p Policy) (*Document, error) {
	root, err := p.root()
	if err != nil {
		return nil, err
	}
	return p.verifyDocument(raw, root)
}

func (p Policy) verifyDocument(raw []byte, root trust) (*Document, error) {
	doc, err := verifyUnder(raw, root, p.Chains)
	if err != nil {
		return nil, fmt.Errorf("attestation document: %w", err)
	}
	if err := p.checkMeasurements(doc); err != nil {
		return nil, err
	}
	if err := p.checkAge("boot", doc.Time, p.MaxBootAge); err != nil {
		return nil, err
	}
	return doc, nil
}

// document is the payload as the security module writes it.
type document struct {
	ModuleID    string            `cbor:"module_id"`
	Digest      string            `cbor:"digest"`
	Timestamp   uint64            `cbor:"timestamp"`
	PCRs        map[uint64][]byte `cbor:"pcrs"`
	Certificate []byte            `cbor:"certificate"`
	CABundle    [][]byte          `cbor:"cabundle"`
	PublicKey   []byte            `cbor:"public_key"`
	UserData    []byte            `cbor:"user_data"`
	Nonce       []byte            `cbor:"nonce"`
}

// cose is a COSE_Sign1 array. The unprotected part is not signed, so it must be
// the empty map that the module writes.
type cose struct {
	_           struct{} `cbor:",toarray"`
	Protected   []byte
	Unprotected cbor.RawMessage
	Payload     []byte
	Signature   []byte
}

var (
	protectedES384   = []byte{0xa1, 0x01, 0x38, 0x22} // {1: -35}
	emptyMap         = []byte{0xa0}
	strictCOSE       = mustDecMode(cbor.IndefLengthForbidden)
	strictPayload    = mustDecMode(cbor.IndefLengthAllowed) // the real module writes an open-ended map
	errMalformed     = errors.New("malformed")
	errNoDebugImages = errors.New("measurements are zero: a debug image")
)

// mustDecMode makes a decoder of constant options. It panics on invalid ones, so already when the program starts.
func mustDecMode(indef cbor.IndefLengthMode) cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       indef,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		MaxArrayElements:  16,
		MaxMapPairs:       pcrCount,
		MaxNestedLevels:   4,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}

// verifyUnder verifies a document under one root. It decodes strictly before it calls
// the library, which accepts documents that we refuse, and panics on some.
func verifyUnder(raw []byte, root trust, chains *Chains) (doc *Document, err error) {
	if len(raw) == 0 || len(raw) > MaxDocument {
		return nil, fmt.Errorf("%d bytes, want 1 to %d", len(raw), MaxDocument)
	}
	if raw[0] == 0xd2 { // tag 18, COSE_Sign1
		raw = raw[1:]
	}
	parsed, err := decodeDocument(raw)
	if err != nil {
		return nil, err
	}
	if err := parsed.check(); err != nil {
		return nil, err
	}
	at := time.UnixMilli(int64(parsed.Timestamp)).UTC()
	err = guard(func() error {
		if leaf := chains.leaf(parsed, root, at); leaf != nil {
			return verifyCOSE(raw, leaf)
		}
		err := verifySignatureAndChain(raw, parsed, root, at)
		if err == nil {
			chains.addChain(parsed, root, at)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	doc = &Document{
		ModuleID: parsed.ModuleID, Time: at, PCRs: make(map[int][pcrSize]byte, len(parsed.PCRs)),
		PublicKey: parsed.PublicKey, UserData: parsed.UserData, Nonce: parsed.Nonce, Simulator: root.simulator,
	}
	for i, v := range parsed.PCRs {
		doc.PCRs[int(i)] = [pcrSize]byte(v)
	}
	return doc, nil
}

func decodeDocument(raw []byte) (document, error) {
	var c cose
	var d document
	if err := strictCOSE.Unmarshal(raw, &c); err != nil {
		return d, fmt.Errorf("%w COSE_Sign1", errMalformed)
	}
	if !bytes.Equal(c.Protected, protectedES384) {
		return d, errors.New("algorithm is not ES384")
	}
	if !bytes.Equal(c.Unprotected, emptyMap) {
		return d, errors.New("unprotected header is not empty")
	}
	if len(c.Signature) != 2*pcrSize {
		return d, errors.New("signature is not 96 bytes")
	}
	if err := strictPayload.Unmarshal(c.Payload, &d); err != nil {
		return d, fmt.Errorf("%w payload", errMalformed)
	}
	return d, nil
}

// check checks the payload against the format, sizes first, and its certificates
// for the module's algorithms: a leaf on P-521 would make the library panic.
func (d document) check() error {
	switch {
	case d.ModuleID == "" || len(d.ModuleID) > maxModuleID:
		return errors.New("module_id is missing or too long")
	case d.Digest != "SHA384":
		return errors.New("digest is not SHA384")
	case d.Timestamp == 0 || d.Timestamp > maxExactInt:
		return errors.New("timestamp is out of range")
	case len(d.PCRs) == 0 || len(d.PCRs) > pcrCount:
		return errors.New("there are not 1 to 32 PCRs")
	case len(d.CABundle) == 0 || len(d.CABundle) > maxBundle:
		return errors.New("cabundle is empty or too long")
	case len(d.PublicKey) > maxPublicKey || len(d.UserData) > maxUserData || len(d.Nonce) > maxNonce:
		return errors.New("public_key, user_data or nonce is too long")
	}
	for i, v := range d.PCRs {
		if i >= pcrCount || len(v) != pcrSize {
			return errors.New("a PCR has a wrong index or is not 48 bytes")
		}
	}
	for _, der := range d.CABundle {
		if _, err := checkCert(der); err != nil {
			return fmt.Errorf("cabundle: %w", err)
		}
	}
	leaf, err := checkCert(d.Certificate)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	if leaf.IsCA || leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return errors.New("certificate: not for signing documents")
	}
	return nil
}

func checkCert(der []byte) (*x509.Certificate, error) {
	if len(der) == 0 || len(der) > maxCert {
		return nil, errors.New("length is not 1 to 1024")
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%w certificate", errMalformed)
	}
	return c, checkP384(c)
}

func checkP384(c *x509.Certificate) error {
	pub, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok || pub.Curve != elliptic.P384() || c.SignatureAlgorithm != x509.ECDSAWithSHA384 {
		return errors.New("not P-384 with SHA-384")
	}
	return nil
}

// ErrNotAWS is the error for a document that does not lead to the AWS root, if the policy names no simulator's. Most often it is a simulator's document.
var ErrNotAWS = errors.New("not signed by AWS; for a simulator's document its root has to be named")

// verifySignatureAndChain verifies with the library. It uses the result only without an error, since
// the library also returns results beside one, and only if both of us decoded the same payload.
func verifySignatureAndChain(raw []byte, ours document, root trust, at time.Time) error {
	res, err := nitrite.Verify(raw, nitrite.VerifyOptions{Roots: root.pool, CurrentTime: at})
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown && root.simulator {
		return errors.New("not signed under the simulator's root that you named")
	} else if unknown {
		return ErrNotAWS
	}
	if err != nil {
		return fmt.Errorf("signature or chain: %w", err)
	}
	if res == nil || res.Document == nil || !res.SignatureOK {
		return errors.New("signature or chain: not verified")
	}
	d := res.Document
	same := d.ModuleID == ours.ModuleID && d.Timestamp == ours.Timestamp && len(d.PCRs) == len(ours.PCRs) &&
		bytes.Equal(d.PublicKey, ours.PublicKey) && bytes.Equal(d.UserData, ours.UserData) && bytes.Equal(d.Nonce, ours.Nonce)
	for i, v := range d.PCRs {
		same = same && bytes.Equal(v, ours.PCRs[uint64(i)])
	}
	if !same {
		return errors.New("two readings of the payload differ")
	}
	return nil
}

// guard turns a panic of a dependency into an error.
func guard(f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("verification broke off on malformed input")
		}
	}()
	return f()
}
