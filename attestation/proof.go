package attestation

import (
	"bytes"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"time"
)

// Scheme is the only signature scheme of app proofs.
const Scheme = "SIGNATURE_SCHEME_EPHEMERAL_KEY_P256"

// An AppProof is a statement signed by an enclave's live key.
type AppProof struct {
	Scheme       string `json:"scheme"`       // Scheme
	PublicKey    string `json:"publicKey"`    // the live key, 130 bytes, lower-case hex
	ProofPayload string `json:"proofPayload"` // JSON text; its exact bytes are signed
	Signature    string `json:"signature"`    // r‖s, 64 bytes, lower-case hex
}

// A Proof is a verified app proof.
type Proof struct {
	// Time is the enclave's clock when it signed, to the millisecond.
	Time time.Time
	// Claim is the signed statement.
	Claim Claim
	// Boot is the boot whose live key signed it.
	Boot *Boot
}

// VerifyAppProofSignature checks scheme, key and signature of an app proof, but neither its content nor whose
// key it is. A high s is accepted: the second signature that follows from one states nothing new.
func VerifyAppProofSignature(a AppProof) error {
	if a.Scheme != Scheme {
		return errors.New("app proof: unknown scheme")
	}
	pub, err := parsePair("publicKey", a.PublicKey)
	if err != nil {
		return fmt.Errorf("app proof: %w", err)
	}
	return verifySignature(pub, a)
}

func verifySignature(pub *ecdsa.PublicKey, a AppProof) error {
	if len(a.ProofPayload) > MaxPayload {
		return errors.New("app proof: payload is too long")
	}
	sig, err := parseHex("signature", a.Signature, signatureSize)
	if err != nil {
		return fmt.Errorf("app proof: %w", err)
	}
	if !hasSigned(pub, []byte(a.ProofPayload), sig) {
		return errors.New("app proof: signature is wrong")
	}
	return nil
}

// VerifyAppProof verifies a boot proof under the policy, and an app proof of that boot.
func VerifyAppProof(a AppProof, b BootProof, p Policy) (*Proof, error) {
	boot, err := VerifyBootProof(b, p)
	if err != nil {
		return nil, err
	}
	return boot.VerifyAppProof(a)
}

// VerifyAppProof verifies an app proof of this boot: the live key's signature over the exact text, a known
// claim, a time that fits the boot and the policy, and, where the claim states one, the manifest's freshness.
func (b *Boot) VerifyAppProof(a AppProof) (*Proof, error) {
	if b.signing == nil {
		return nil, errors.New("app proof: boot was not verified")
	}
	if a.Scheme != Scheme {
		return nil, errors.New("app proof: unknown scheme")
	}
	if a.PublicKey != b.PublicKeyHex {
		return nil, errors.New("app proof: not signed by the live key of this boot")
	}
	if err := verifySignature(b.signing, a); err != nil {
		return nil, err
	}
	at, claim, err := ParsePayload(a.ProofPayload)
	if err != nil {
		return nil, err
	}
	if err := b.checkTime("app proof", at); err != nil {
		return nil, err
	}
	if f := claim.Fresh(); f != nil && b.Manifest != nil &&
		(f.Mode != b.Manifest.Freshness.Mode || !b.Manifest.allowsSource(f.SeedSource)) {
		return nil, errors.New("app proof: freshness is not the manifest's")
	}
	return &Proof{Time: at, Claim: claim, Boot: b}, nil
}

// checkTime checks the time of a text that the live key signed against boot, root and policy.
func (b *Boot) checkTime(what string, at time.Time) error {
	if at.Before(b.Document.Time.Add(-Skew)) {
		return fmt.Errorf("%s: older than its boot", what)
	}
	if at.Before(b.root.cert.NotBefore) || at.After(b.root.cert.NotAfter) {
		return fmt.Errorf("%s: outside the validity of the root", what)
	}
	return b.policy.checkAge(what, at, b.policy.MaxProofAge)
}

// EncryptionKey is the live key's encryption half, an uncompressed P-256 point of 65 bytes.
func (b *Boot) EncryptionKey() []byte { return bytes.Clone(b.Document.PublicKey[:pointSize]) }
