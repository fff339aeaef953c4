package core

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"time"

	"cloister/attestation"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/org"
)

// liveKey is the boot's own key: made at boot, attested, never stored. It signs
// app proofs; its encryption half is for messages to this boot.
type liveKey struct {
	encrypt, sign *ecdsa.PrivateKey
	public        []byte // 130 bytes, encryption ‖ signing key, uncompressed
	publicHex     string
	rand          io.Reader
}

func newLiveKey(rand io.Reader) (*liveKey, error) {
	k := &liveKey{rand: rand}
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

var halfOrder = new(big.Int).Rsh(elliptic.P256().Params().N, 1)

// prove signs a claim as an app proof: r ‖ s with low s over SHA-256.
func (k *liveKey) prove(at time.Time, c attestation.Claim) (org.Proof, error) {
	text, err := attestation.EncodePayload(at, c)
	if err != nil {
		return org.Proof{}, fmt.Errorf("encoding a proof: %w", err)
	}
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(k.rand, k.sign, digest[:])
	if err != nil {
		return org.Proof{}, fmt.Errorf("signing a proof: %w", err)
	}
	if s.Cmp(halfOrder) > 0 {
		s.Sub(elliptic.P256().Params().N, s)
	}
	sig := make([]byte, 64)
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return org.Proof{Key: k.public, Payload: []byte(text), Signature: sig}, nil
}
