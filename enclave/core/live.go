package core

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"cloister/attestation"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/p256"
)

// bootKey is one of the boot's own keys: made at boot, attested, never stored.
// The live key signs app proofs and replies; the setup key receives the root secret.
// Both lie in memory for the whole boot, so that signing erases nothing.
type bootKey struct {
	encrypt   *ecdh.PrivateKey
	sign      *ecdsa.PrivateKey
	public    []byte // 130 bytes, encryption ‖ signing key, uncompressed
	publicHex string
}

// newBootKey draws both private keys itself: the library's generators take no
// randomness but the kernel's.
func newBootKey(rand io.Reader, kind string) (*bootKey, error) {
	k := new(bootKey)
	e, err := boot.NewScalar(rand)
	if err != nil {
		return nil, fmt.Errorf("making a boot key: %w", err)
	}
	s, err := boot.NewScalar(rand)
	if err != nil {
		return nil, fmt.Errorf("making a boot key: %w", err)
	}
	defer clear(e[:])
	defer clear(s[:])
	insecure.Record(kind, e[:], s[:])
	erase.Do(func() { k.encrypt, err = ecdh.P256().NewPrivateKey(e[:]) })
	if err != nil {
		return nil, fmt.Errorf("making a boot key: %w", err)
	}
	var point [p256.PointSize]byte
	if k.sign, point, err = p256.NewKey(s[:]); err != nil {
		return nil, fmt.Errorf("making a boot key: %w", err)
	}
	k.public = append(k.encrypt.PublicKey().Bytes(), point[:]...)
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
	sig, err := p256.Sign(k.sign, sha256.Sum256(text))
	if err != nil {
		return nil, fmt.Errorf("signing with the live key: %w", err)
	}
	return sig[:], nil
}
