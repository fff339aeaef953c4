package core

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"cloister/attestation"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/p256"
)

// bootKey is one of the boot's own keys: made at boot, attested, never stored.
// The live key signs app proofs and replies; the setup key receives the root secret.
// Both lie in memory for the whole boot, so that signing erases nothing.
type bootKey struct {
	open      boot.Opener
	sign      *p256.Signer
	public    []byte // 130 bytes, encryption ‖ signing key, uncompressed
	publicHex string
}

// newBootKey draws both private keys itself: the library's generators take no
// randomness but the kernel's.
func newBootKey(rand io.Reader) (*bootKey, error) {
	k := new(bootKey)
	var point [p256.PointSize]byte
	encrypt, err := boot.NewScalar(rand)
	if err == nil {
		defer encrypt.Wipe()
		k.open, k.public, err = boot.NewOpener(encrypt)
	}
	sign, serr := boot.NewScalar(rand)
	if serr == nil {
		defer sign.Wipe()
		k.sign, point, serr = p256.NewSigner(sign)
	}
	if err = errors.Join(err, serr); err != nil {
		return nil, fmt.Errorf("making a boot key: %w", err)
	}
	k.public = append(k.public, point[:]...)
	k.publicHex = hex.EncodeToString(k.public)
	return k, nil
}

// prove signs a claim as an app proof. The signature's nonce
// is that of RFC 6979: no randomness is needed and it is a fifth cheaper than
// the library's hedged one; that a fault in the arithmetic could then give the
// key away is left to the hardware, which is trusted, and the key dies with the
// boot.
func (k *bootKey) prove(at time.Time, c attestation.Claim) (org.Proof, error) {
	text, err := attestation.EncodePayload(at, c)
	if err != nil {
		return org.Proof{}, fmt.Errorf("encoding a proof: %w", err)
	}
	payload := []byte(text)
	sig, err := k.signText(payload)
	if err != nil {
		return org.Proof{}, err
	}
	return org.Proof{Key: k.public, Payload: payload, Signature: sig}, nil
}

// signText signs a proof's payload or the text of a reply: r ‖ s with low s over
// SHA-256. The two never are the same bytes, since only one is JSON.
func (k *bootKey) signText(text []byte) ([]byte, error) {
	sig, err := k.sign.Sign(sha256.Sum256(text))
	if err != nil {
		return nil, fmt.Errorf("signing with the live key: %w", err)
	}
	return sig[:], nil
}
