// Package sui makes Sui addresses: BLAKE2b-256 of the signature scheme's flag,
// 0 for ed25519, and the public key.
package sui

import (
	"encoding/hex"

	"golang.org/x/crypto/blake2b"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// Chain is Sui. The zero value is ready.
type Chain struct{}

// Formats lists ADDRESS_FORMAT_SUI.
func (Chain) Formats() []chain.Format { return []chain.Format{chain.Sui} }

// Address is 0x and 64 hexadecimal digits in lower case.
func (Chain) Address(f chain.Format, p chain.PublicKey) (string, error) {
	if f != chain.Sui {
		return "", fault.New(fault.InvalidArgument, "invalid address format")
	}
	if err := f.Accept(p.Curve()); err != nil {
		return "", err
	}
	sum := blake2b.Sum256(append([]byte{0}, p.Bytes()...))
	return "0x" + hex.EncodeToString(sum[:]), nil
}
