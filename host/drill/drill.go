// Package drill checks a signature against its key and address without trusting the enclave.
package drill

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"

	secp256k1 "github.com/decred/dcrd/dcrec/secp256k1/v4"
	k1 "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/mr-tron/base58"
	"golang.org/x/crypto/sha3"
)

// Prefix begins whatever a drill has signed, before it is hashed, so that no signature of it is worth anything: under a manifest
// of a drill the enclave signs nothing else. It is attestation.DrillPrefix.
const Prefix = "\xbfcloister drill 1\n"

// A Key is the key of an address, as the interface lists it.
type Key struct {
	Curve     string // CURVE_SECP256K1, CURVE_P256 or CURVE_ED25519
	PublicKey string // hex; points compressed or not
	Format    string // ADDRESS_FORMAT_…; may be empty
	Address   string // may be empty
}

// Hash is the hash function that a payload signed for Verify is to name.
func (k *Key) Hash() (string, error) {
	switch k.Curve {
	case "CURVE_SECP256K1":
		return "HASH_FUNCTION_KECCAK256", nil
	case "CURVE_P256":
		return "HASH_FUNCTION_SHA256", nil
	case "CURVE_ED25519":
		return "HASH_FUNCTION_NOT_APPLICABLE", nil
	}
	return "", fmt.Errorf("curve %q", k.Curve)
}

// Verify verifies the signature (r, s) of payload, hashed as Hash says, under the public key.
// Addresses of Ethereum and Solana it also computes from the public key, and compares; computed
// tells that. Other addresses are taken as they are listed.
func (k *Key) Verify(payload []byte, r, s string) (computed bool, err error) {
	public, err := hex.DecodeString(k.PublicKey)
	if err != nil {
		return false, errors.New("public key is not hexadecimal")
	}
	sig, err := hex.DecodeString(r + s)
	if err != nil || len(r) != 64 || len(s) != 64 {
		return false, errors.New("signature is not two times 32 bytes")
	}
	switch k.Curve {
	case "CURVE_SECP256K1":
		return k.secp256k1(public, payload, sig)
	case "CURVE_P256":
		return false, p256(public, payload, sig)
	case "CURVE_ED25519":
		if len(public) != ed25519.PublicKeySize || !ed25519.Verify(public, payload, sig) {
			return false, errWrong
		}
		if k.Format != "ADDRESS_FORMAT_SOLANA" {
			return false, nil
		}
		if base58.Encode(public) != k.Address {
			return false, errAddress
		}
		return true, nil
	}
	return false, fmt.Errorf("curve %q", k.Curve)
}

var (
	errWrong   = errors.New("the signature is not of this public key")
	errAddress = errors.New("the address is not of this public key")
)

func (k *Key) secp256k1(public, payload, sig []byte) (computed bool, err error) {
	key, err := secp256k1.ParsePubKey(public)
	if err != nil {
		return false, errors.New("public key is no point")
	}
	var r, s secp256k1.ModNScalar
	if r.SetByteSlice(sig[:32]) || s.SetByteSlice(sig[32:]) || !k1.NewSignature(&r, &s).Verify(keccak(payload), key) {
		return false, errWrong
	}
	if k.Format != "ADDRESS_FORMAT_ETHEREUM" {
		return false, nil
	}
	if !strings.EqualFold("0x"+hex.EncodeToString(keccak(key.SerializeUncompressed()[1:])[12:]), k.Address) {
		return false, errAddress
	}
	return true, nil
}

func keccak(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}

func p256(public, payload, sig []byte) error {
	if x, y := elliptic.UnmarshalCompressed(elliptic.P256(), public); x != nil {
		public = append(append([]byte{4}, x.FillBytes(make([]byte, 32))...), y.FillBytes(make([]byte, 32))...)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), public)
	if err != nil {
		return errors.New("public key is no point")
	}
	sum := sha256.Sum256(payload)
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return errWrong
	}
	return nil
}
