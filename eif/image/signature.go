package image

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// A Signature says who signed an image. It changes PCR8 and nothing else.
type Signature struct {
	// Certificate is the signer's, self-signed or not: PCR8 is the measurement of
	// this very certificate, so no chain is looked at.
	Certificate *x509.Certificate
}

// MaxCertificate is the longest signing certificate in bytes of PEM.
const MaxCertificate = 16 << 10

const signatureSize = 96 // r‖s of P-384

// The section is CBOR as Rust's serde writes it: byte strings are arrays of integers there, and structures
// are maps in the order of their members, which QEMU's loader relies on.
type (
	pcrSignature struct {
		Certificate []uint16 `cbor:"signing_certificate"` // PEM
		Signature   []uint16 `cbor:"signature"`           // COSE_Sign1
	}
	pcrInfo struct {
		Index uint64   `cbor:"register_index"`
		Value []uint16 `cbor:"register_value"`
	}
	sign1 struct {
		_           struct{} `cbor:",toarray"`
		Protected   []byte
		Unprotected map[uint64]uint64
		Payload     []byte
		Signature   []byte
	}
	toBeSigned struct {
		_         struct{} `cbor:",toarray"`
		Context   string
		Protected []byte
		External  []byte
		Payload   []byte
	}
)

// protected is the COSE header {1: -35}: ES384.
var protected = []byte{0xa1, 0x01, 0x38, 0x22}

var strict = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxNestedLevels: 8, MaxArrayElements: MaxSignature, MaxMapPairs: 16,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// Sign signs the image with a P-384 key and the certificate of its public half, in PEM, which must be valid
// at now: nitro-cli refuses an image whose certificate is not. The signature is deterministic (RFC 6979), so
// the same image, key and certificate give the same file. An earlier signature is replaced.
func (m *Image) Sign(certificate []byte, key *ecdsa.PrivateKey, now time.Time) error {
	cert, err := parseCertificate(certificate)
	if err != nil {
		return err
	}
	if key.Curve != elliptic.P384() || !key.PublicKey.Equal(cert.PublicKey) {
		return errors.New("image: the key is not that of the certificate")
	}
	if now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
		return errors.New("image: the certificate is not valid now")
	}
	m.Signature, m.signature = nil, nil
	if _, err := m.sections(); err != nil {
		return err
	}
	pcr0 := m.measure().PCR0
	payload, err := cbor.Marshal(pcrInfo{0, integers(pcr0[:])})
	if err != nil {
		return err
	}
	digest, err := digestOf(payload)
	if err != nil {
		return err
	}
	der, err := key.Sign(nil, digest, crypto.SHA384)
	if err != nil {
		return err
	}
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &pair); err != nil {
		return err
	}
	raw := make([]byte, signatureSize)
	pair.R.FillBytes(raw[:signatureSize/2])
	pair.S.FillBytes(raw[signatureSize/2:])
	cose, err := cbor.Marshal(sign1{Protected: protected, Unprotected: map[uint64]uint64{}, Payload: payload, Signature: raw})
	if err != nil {
		return err
	}
	section, err := cbor.Marshal([]pcrSignature{{integers(certificate), integers(cose)}})
	if err != nil {
		return err
	}
	m.Signature, m.signature = &Signature{Certificate: cert}, section
	return nil
}

// parseSignature accepts one signature that its own certificate verifies and that is over this PCR0.
func parseSignature(raw []byte, pcr0 PCR) (*Signature, error) {
	var all []pcrSignature
	if err := strict.Unmarshal(raw, &all); err != nil || len(all) != 1 {
		return nil, errors.New("not one signature as nitro-cli writes it")
	}
	text, ok := octets(all[0].Certificate)
	if !ok {
		return nil, errors.New("certificate is not of bytes")
	}
	cert, err := parseCertificate(text)
	if err != nil {
		return nil, err
	}
	envelope, ok := octets(all[0].Signature)
	var cose sign1
	if !ok || strict.Unmarshal(envelope, &cose) != nil {
		return nil, errors.New("not a COSE_Sign1")
	}
	if !bytes.Equal(cose.Protected, protected) || len(cose.Unprotected) != 0 || len(cose.Signature) != signatureSize {
		return nil, errors.New("not a COSE_Sign1 of ES384")
	}
	var info pcrInfo
	if err := strict.Unmarshal(cose.Payload, &info); err != nil {
		return nil, errors.New("payload is not a register")
	}
	value, ok := octets(info.Value)
	if !ok || info.Index != 0 || !bytes.Equal(value, pcr0[:]) {
		return nil, errors.New("not over the PCR0 of this image")
	}
	digest, err := digestOf(cose.Payload)
	if err != nil {
		return nil, err
	}
	r, s := new(big.Int).SetBytes(cose.Signature[:signatureSize/2]), new(big.Int).SetBytes(cose.Signature[signatureSize/2:])
	if !ecdsa.Verify(cert.PublicKey.(*ecdsa.PublicKey), digest, r, s) {
		return nil, errors.New("does not verify")
	}
	return &Signature{Certificate: cert}, nil
}

// parseCertificate takes one certificate in PEM, alone, with a P-384 key.
func parseCertificate(text []byte) (*x509.Certificate, error) {
	if len(text) > MaxCertificate {
		return nil, errors.New("signing certificate is too long")
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" || len(block.Headers) != 0 || len(bytes.TrimSpace(rest)) != 0 {
		return nil, errors.New("signing certificate is not one certificate in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, errors.New("signing certificate is malformed")
	}
	if k, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || k.Curve != elliptic.P384() {
		return nil, errors.New("signing certificate has no P-384 key")
	}
	return cert, nil
}

// ParseKey reads a P-384 private key in PEM, in the form of PKCS #8 or SEC 1.
func ParseKey(text []byte) (*ecdsa.PrivateKey, error) {
	// openssl ecparam writes a block with the curve's parameters before the key.
	block, rest := pem.Decode(text)
	if block != nil && block.Type == "EC PARAMETERS" {
		block, rest = pem.Decode(rest)
	}
	if block == nil || len(bytes.TrimSpace(rest)) != 0 {
		return nil, errors.New("not one private key in PEM")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return nil, errors.New("not a private key in PEM, or an encrypted one")
	}
	k, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok || k.Curve != elliptic.P384() {
		return nil, errors.New("not a P-384 private key")
	}
	return k, nil
}

func digestOf(payload []byte) ([]byte, error) {
	text, err := cbor.Marshal(toBeSigned{Context: "Signature1", Protected: protected, External: []byte{}, Payload: payload})
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum384(text)
	return sum[:], nil
}

func integers(b []byte) []uint16 {
	out := make([]uint16, len(b))
	for i, v := range b {
		out[i] = uint16(v)
	}
	return out
}

func octets(v []uint16) ([]byte, bool) {
	out := make([]byte, len(v))
	for i, n := range v {
		if n > 0xff {
			return nil, false
		}
		out[i] = byte(n)
	}
	return out, true
}
