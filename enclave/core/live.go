package core

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"errors"
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

var halfOrder = new(big.Int).Rsh(elliptic.P256().Params().N, 1)

// prove signs a claim as an app proof: r ‖ s with low s over SHA-256. The nonce
// is that of RFC 6979: no randomness is needed and it is a fifth cheaper than
// the library's hedged one; that a fault in the arithmetic could then give the
// key away is left to the hardware, which is trusted, and the key dies with the
// boot.
func (k *liveKey) prove(at time.Time, c attestation.Claim) (org.Proof, error) {
	text, err := attestation.EncodePayload(at, c)
	if err != nil {
		return org.Proof{}, fmt.Errorf("encoding a proof: %w", err)
	}
	digest := sha256.Sum256([]byte(text))
	der, err := k.sign.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return org.Proof{}, fmt.Errorf("signing a proof: %w", err)
	}
	sig := make([]byte, 64)
	if err := rawSignature(sig, der); err != nil {
		return org.Proof{}, err
	}
	return org.Proof{Key: k.public, Payload: []byte(text), Signature: sig}, nil
}

// rawSignature turns the library's DER into r ‖ s with low s.
func rawSignature(dst, der []byte) error {
	var rs struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(der, &rs); err != nil || len(rest) > 0 {
		return errors.New("signature of another form")
	}
	if rs.S.Cmp(halfOrder) > 0 {
		rs.S.Sub(elliptic.P256().Params().N, rs.S)
	}
	rs.R.FillBytes(dst[:32])
	rs.S.FillBytes(dst[32:])
	return nil
}
