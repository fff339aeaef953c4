package core

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"cloister/attestation"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/p256"
)

// liveKey is the boot's own key: made at boot, attested, never stored. It signs
// app proofs and replies; its encryption half is for messages to this boot.
type liveKey struct {
	encrypt, sign *ecdsa.PrivateKey
	public        []byte // 130 bytes, encryption ‖ signing key, uncompressed
	publicHex     string
}

func newLiveKey(rand io.Reader) (*liveKey, error) {
	k := new(liveKey)
	for _, p := range []**ecdsa.PrivateKey{&k.encrypt, &k.sign} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand)
		if err != nil {
			return nil, fmt.Errorf("making a boot key: %w", err)
		}
		insecure.RecordKey("live-key", key)
		b, err := key.PublicKey.Bytes()
		if err != nil {
			return nil, fmt.Errorf("making a boot key: %w", err)
		}
		*p = key
		k.public = append(k.public, b...)
	}
	k.publicHex = hex.EncodeToString(k.public)
	return k, nil
}

// prove signs a claim as an app proof. The signature's nonce
// is that of RFC 6979: no randomness is needed and it is a fifth cheaper than
// the library's hedged one; that a fault in the arithmetic could then give the
// key away is left to the hardware, which is trusted, and the key dies with the
// boot.
func (k *liveKey) prove(at time.Time, c attestation.Claim) (org.Proof, error) {
	text, err := attestation.EncodePayload(at, c)
	if err != nil {
		return org.Proof{}, fmt.Errorf("encoding a proof: %w", err)
	}
	sig, err := k.signText([]byte(text))
	if err != nil {
		return org.Proof{}, err
	}
	return org.Proof{Key: k.public, Payload: []byte(text), Signature: sig}, nil
}

// signText signs a proof's payload or the text of a reply: r ‖ s with low s over
// SHA-256. The two never are the same bytes, since only one is JSON.
func (k *liveKey) signText(text []byte) ([]byte, error) {
	sig, err := p256.Sign(k.sign, sha256.Sum256(text))
	if err != nil {
		return nil, fmt.Errorf("signing with the live key: %w", err)
	}
	return sig[:], nil
}
