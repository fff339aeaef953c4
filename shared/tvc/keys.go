package tvc

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Sizes in bytes.
const (
	PointSize     = 65 // an uncompressed P-256 point
	PairSize      = 2 * PointSize
	SignatureSize = 64 // r ‖ s
	SeedSize      = 32 // seed of a pair, such as a quorum key
)

// A Pair is the two public keys of an operator, an app or an enclave, both on P-256.
type Pair struct {
	Encryption *ecdh.PublicKey
	Signing    *ecdsa.PublicKey
}

// ParsePair parses a pair: 130 bytes in lower-case hex, encryption ‖ signing key.
func ParsePair(text string) (Pair, error) {
	raw, err := unhex("key", text)
	if err != nil {
		return Pair{}, err
	}
	if len(raw) != PairSize {
		return Pair{}, errors.New("key: not two uncompressed P-256 points")
	}
	return parsePoints(raw)
}

func parsePoints(raw []byte) (Pair, error) {
	encryption, err := ecdh.P256().NewPublicKey(raw[:PointSize])
	if err != nil {
		return Pair{}, errors.New("key: encryption key is not on P-256")
	}
	signing, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw[PointSize:])
	if err != nil {
		return Pair{}, errors.New("key: signing key is not on P-256")
	}
	return Pair{encryption, signing}, nil
}

func checkPair(name, text string) error {
	if _, err := ParsePair(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Keys is a pair with its private keys, which are derived from a seed. This package doesn't erase private keys: callers must
// protect them and the seed as their secrets demand.
type Keys struct {
	Encryption *ecdh.PrivateKey
	Signing    *ecdsa.PrivateKey
	Public     [PairSize]byte
}

// HKDF salts by which the two private keys are derived from a seed.
const (
	saltEncryption = "qos_p256_encrypt"
	saltSigning    = "qos_p256_sign"
)

// NewKeys derives a pair from a seed of SeedSize bytes. It fails for one seed in 2^32, which gives no valid scalar.
func NewKeys(seed []byte) (*Keys, error) {
	if len(seed) != SeedSize {
		return nil, errors.New("seed is not 32 bytes")
	}
	var k Keys
	scalar, err := hkdf.Key(sha512.New, seed, []byte(saltEncryption), "", 32)
	if err == nil {
		k.Encryption, err = ecdh.P256().NewPrivateKey(scalar)
		clear(scalar)
	}
	if err == nil {
		scalar, err = hkdf.Key(sha512.New, seed, []byte(saltSigning), "", 32)
	}
	if err == nil {
		k.Signing, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
		clear(scalar)
	}
	if err != nil {
		return nil, errors.New("seed gives no keys")
	}
	point, err := k.Signing.PublicKey.Bytes()
	if err != nil {
		return nil, errors.New("seed gives no keys")
	}
	copy(k.Public[copy(k.Public[:], k.Encryption.PublicKey().Bytes()):], point)
	return &k, nil
}

// DrawKeys derives a pair from a random seed, which it doesn't keep.
func DrawKeys(rand io.Reader) (*Keys, error) {
	var seed [SeedSize]byte
	defer clear(seed[:])
	for range 4 {
		if _, err := io.ReadFull(rand, seed[:]); err != nil {
			return nil, fmt.Errorf("drawing keys: %w", err)
		}
		if k, err := NewKeys(seed[:]); err == nil {
			return k, nil
		}
	}
	return nil, errors.New("randomness gives no keys")
}

// Hex returns the public keys as in manifests: encryption ‖ signing key, lower-case hex.
func (k *Keys) Hex() string { return hex.EncodeToString(k.Public[:]) }

// unhex decodes lower-case hex.
func unhex(name, text string) ([]byte, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || hex.EncodeToString(raw) != text {
		return nil, fmt.Errorf("%s: not lower-case hex", name)
	}
	return raw, nil
}

func checkHex(name, text string, size int) error {
	raw, err := unhex(name, text)
	if err == nil && len(raw) != size {
		err = fmt.Errorf("%s: not %d bytes", name, size)
	}
	return err
}
