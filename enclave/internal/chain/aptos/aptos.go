// Package aptos makes Aptos addresses: SHA3-256 of the public key and the
// scheme's number, 0 for a single ed25519 key.
package aptos

import (
	"crypto/sha3"
	"encoding/hex"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// Chain is Aptos. The zero value is ready.
type Chain struct{}

// Formats lists ADDRESS_FORMAT_APTOS.
func (Chain) Formats() []chain.Format { return []chain.Format{chain.Aptos} }

// Address is 0x and 64 hexadecimal digits in lower case, leading zeros kept.
func (Chain) Address(f chain.Format, p chain.PublicKey) (string, error) {
	if f != chain.Aptos {
		return "", fault.New(fault.InvalidArgument, "invalid address format")
	}
	if err := f.Accept(p.Curve()); err != nil {
		return "", err
	}
	sum := sha3.Sum256(append(p.Bytes(), 0))
	return "0x" + hex.EncodeToString(sum[:]), nil
}
