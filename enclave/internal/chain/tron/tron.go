// Package tron makes Tron addresses and reads Tron transactions.
//
// An address is the last 20 bytes of the Keccak-256 of the point's 64 bytes after
// the byte 41, in base58 with a checksum.
//
// A transaction comes as Transaction.raw, the protocol buffer that the SDKs call
// raw_data_hex, and its signature is over SHA-256 of just these bytes. A node
// reads the buffer and writes it anew before it checks the signature. So it must
// be as nodes write it: fields in the order of their numbers, shortest varints,
// no zeros written out. Whatever else is refused, in the parameters of the
// contract as well, and the facts of a transaction tell every one of its bytes.
//
// The signer need not be the owner that the transaction names: by its permissions
// an account lets other keys sign, under every permission and that of the owner as
// well, and who may is known to the network alone. Policies see the owner.
package tron

import (
	"crypto/sha256"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
)

// prefix begins the 21 bytes of every address; the test networks use it too.
const prefix = 0x41

const addressSize = 21

// Chain is Tron. The zero value is ready.
type Chain struct{}

var _ chain.Reader = Chain{}

// Addresses are T and 33 more characters.
var Addresses = chain.Addresses{chain.Tron: func(p chain.PublicKey) (string, error) {
	account := p.KeccakAccount()
	return text(append([]byte{prefix}, account[:]...)), nil
}}

// text writes the 21 bytes of an address with the checksum of base58check.
func text(address []byte) string {
	once := sha256.Sum256(address)
	twice := sha256.Sum256(once[:])
	var b [addressSize + 4]byte
	copy(b[copy(b[:], address):], twice[:])
	return base58.Encode(b[:])
}
