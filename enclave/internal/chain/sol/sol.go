// Package sol makes Solana addresses, the ed25519 public key in base58 with
// Bitcoin's alphabet; reads Solana transactions, legacy and version 0; and reads
// IDLs of Anchor's and Shank's form, which tell what the instructions of a program mean.
//
// A transaction is the wire form that nodes take: a slot of 64 bytes for each required
// signature, then the message, which is what is signed. Lengths are compact-u16 in their
// shortest form. The reader refuses what a node would refuse by the bytes alone, and what
// a policy could not see: instructions of the System program and token transfers that do
// not decode to the last byte, and batches of the token programs.
package sol

import (
	"errors"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
)

// Chain is Solana. The zero value is ready.
type Chain struct{}

// Addresses are the base58 text of the 32 bytes, 32 to 44 characters.
var Addresses = chain.Addresses{chain.Solana: func(p chain.PublicKey) (string, error) { return base58.Encode(p.Bytes()), nil }}

// AddressText is the address of an account.
func AddressText(account [32]byte) string { return base58.Encode(account[:]) }

var errAddress = errors.New("not the base58 text of 32 bytes")

// ParseAddress reads the address of an account or a program.
func ParseAddress(text string) (account [32]byte, err error) {
	if len(text) < 32 || len(text) > 44 {
		return account, errAddress
	}
	b, err := base58.Decode(text)
	if err != nil || len(b) != len(account) {
		return account, errAddress
	}
	return [32]byte(b), nil
}
