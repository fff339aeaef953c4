package attestation

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/hex"
	"errors"
	"fmt"

	"cloister/attestation/commitment"
)

// SetupNonceSize is the size in bytes of the nonce in a setup document, which its reader chooses.
const SetupNonceSize = 32

// A SetupAnswer is the reply of an enclave that waits for its root secret: its identity
// and its manifest, attested for the caller's nonce.
type SetupAnswer struct {
	Document string `json:"document"` // attestation document, standard base64
	Envelope string `json:"envelope"` // EncodeEnvelope of the manifest and its approvals, standard base64
	// Predecessor is the manifest before this one, standard base64; absent for a first one.
	Predecessor string `json:"predecessor,omitempty"`
}

// ParseSetupAnswer reads the JSON of a SetupAnswer, strictly. It verifies nothing.
func ParseSetupAnswer(raw []byte) (*SetupAnswer, error) {
	return parseJSON[SetupAnswer]("setup document", raw, 2*(MaxEnvelope+MaxManifest+MaxDocument))
}

// A Setup is a verified enclave that waits for its root secret.
type Setup struct {
	Document *Document
	Manifest *Manifest
	// ManifestHash is the SHA-256 of the manifest's bytes.
	ManifestHash [32]byte
	// Predecessor is the manifest before this one; nil for a first one.
	Predecessor *Manifest
	Approvals   []ManifestApproval
	// PublicKeyHex is the setup key, 130 bytes in lower-case hex: encryption ‖ signing key.
	PublicKeyHex string
	// Nonce is the nonce that the caller sent.
	Nonce [SetupNonceSize]byte
}

// VerifySetup verifies the answer of an enclave that waits for its root secret, for an operator who is about to
// send a share of it: the document under the policy's root, made for this nonce; no debug image; setup key and
// manifest committed in PCR16, with registers 0 to 16 locked and no other; the manifest approved by the
// threshold of Policy.Operators, which must be named; its predecessor, where it has one, of the same
// deployment (CheckSuccession); and the image pinned by PCR 0, 1 and 2 or by the manifest's hash, and equal
// to the manifest's.
//
// A policy with AllowDebug, AllowUnpinned or ForeignManifest is an error: such an enclave keeps no secret.
func VerifySetup(a SetupAnswer, nonce [SetupNonceSize]byte, p Policy) (*Setup, error) {
	s, err := verifySetup(a, nonce, p)
	if err != nil {
		return nil, fmt.Errorf("setup document: %w", err)
	}
	return s, nil
}

func verifySetup(a SetupAnswer, nonce [SetupNonceSize]byte, p Policy) (*Setup, error) {
	if p.AllowDebug || p.AllowUnpinned || p.ForeignManifest {
		return nil, errors.New("policy allows what no secret may be given to")
	}
	if !p.Operators.Named() {
		return nil, errors.New("policy names no operators whose approval counts")
	}
	raw, err := parseBase64("document", a.Document, MaxDocument)
	if err != nil {
		return nil, err
	}
	envelope, err := parseBase64("envelope", a.Envelope, MaxEnvelope)
	if err != nil {
		return nil, err
	}
	manifest, approvals, err := ParseEnvelope(envelope)
	if err != nil {
		return nil, err
	}
	root, err := p.root()
	if err != nil {
		return nil, err
	}
	doc, err := p.verifyDocument(raw, root)
	if err != nil {
		return nil, err
	}
	s := &Setup{Document: doc, ManifestHash: Hash(manifest), Approvals: approvals, PublicKeyHex: hex.EncodeToString(doc.PublicKey), Nonce: nonce}
	if err := checkPair("setup key", s.PublicKeyHex); err != nil {
		return nil, err
	}
	switch {
	case !bytes.Equal(doc.Nonce, nonce[:]):
		return nil, errors.New("made for another nonce: it may be old")
	case !bytes.Equal(doc.UserData, s.ManifestHash[:]):
		return nil, errors.New("user_data is not the hash of the manifest")
	case len(doc.PCRs) != commitment.SetupPCR+1:
		return nil, errors.New("not exactly the registers up to PCR16 are locked")
	case doc.PCRs[commitment.SetupPCR] != commitment.SetupRegister(s.PublicKeyHex, s.ManifestHash):
		return nil, errors.New("PCR16 does not commit to setup key and manifest")
	}
	// The manifest is checked like that of a boot proof.
	b := &Boot{Document: doc, ManifestHash: s.ManifestHash, policy: p}
	if s.Manifest, err = ParseManifest(manifest); err != nil {
		return nil, err
	}
	b.Manifest = s.Manifest
	for _, step := range []func() error{b.checkHash, b.checkImage, b.checkPinned} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if err := p.Operators.CheckApprovals(s.Manifest, s.ManifestHash, approvals); err != nil {
		return nil, err
	}
	return s, s.checkPredecessor(a.Predecessor)
}

func (s *Setup) checkPredecessor(text string) error {
	if s.Manifest.Predecessor == "" {
		if text != "" {
			return errors.New("a predecessor that the manifest does not name")
		}
		return s.Manifest.CheckOwnApprovals(s.ManifestHash, s.Approvals)
	}
	raw, err := parseBase64("predecessor", text, MaxManifest)
	if err != nil {
		return err
	}
	if s.Predecessor, err = ParseManifest(raw); err != nil {
		return fmt.Errorf("predecessor: %w", err)
	}
	return s.Predecessor.CheckSuccession(Hash(raw), s.Manifest, s.ManifestHash, s.Approvals)
}

// SealTo encrypts to the encryption half of a boot key (260 hex digits) with HPKE (RFC 9180), base mode:
// DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. The result is the encapsulated key (65
// bytes) and the ciphertext. It opens only under the same info.
func SealTo(bootKeyHex string, info, plain []byte) ([]byte, error) {
	if err := checkPair("boot key", bootKeyHex); err != nil {
		return nil, err
	}
	point, err := hex.DecodeString(bootKeyHex[:2*pointSize])
	if err != nil {
		return nil, err
	}
	return SealToPoint(point, info, plain)
}

// SealToPoint is SealTo for an uncompressed P-256 point of 65 bytes.
func SealToPoint(point, info, plain []byte) ([]byte, error) {
	k, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return nil, errors.New("not an uncompressed P-256 point")
	}
	pk, err := hpke.NewDHKEMPublicKey(k)
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	box, err := hpke.Seal(pk, hpke.HKDFSHA256(), hpke.AES256GCM(), info, plain)
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	return box, nil
}

// ErrBox is the only error of OpenBox; it does not say why a box does not open.
var ErrBox = errors.New("box does not open: it was made for another key or purpose, or altered")

// OpenBox decrypts a box that SealTo or SealToPoint made for this P-256 key and info. Its only error is ErrBox.
func OpenBox(key *ecdh.PrivateKey, info, box []byte) ([]byte, error) {
	if key == nil || key.Curve() != ecdh.P256() || len(box) < pointSize+16 {
		return nil, ErrBox
	}
	sk, err := hpke.NewDHKEMPrivateKey(key)
	if err != nil {
		return nil, ErrBox
	}
	plain, err := hpke.Open(sk, hpke.HKDFSHA256(), hpke.AES256GCM(), info, box)
	if err != nil {
		return nil, ErrBox
	}
	return plain, nil
}
