// Package tron makes Tron addresses and reads Tron transactions.
//
// A transaction comes as Transaction.raw, the protocol buffer that the SDKs call
// raw_data_hex, and its signature is over SHA-256 of these bytes. A node reads the buffer
// and writes it anew before it checks the signature. So it must be as nodes write it:
// fields in the order of their numbers, shortest varints, no zeros written out. Anything
// else is refused, in the parameters of the contract too, so that the facts of a
// transaction tell every one of its bytes.
//
// The signer need not be the owner that the transaction names: an account may let other
// keys sign under any of its permissions, and only the network knows which. Policies see
// the owner.
package tron

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"

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
	return chain.Base58Check(prefix, p.KeccakAccount()), nil
}}

// ParseAddress reads an address as wallets write it, T….
func ParseAddress(address string) (account [20]byte, err error) {
	b, err := base58.Decode(address)
	if err != nil || len(b) != 25 || b[0] != prefix || text(b[:21]) != address {
		return account, errors.New("must be an address of Tron: T… in base58 with its checksum")
	}
	return [20]byte(b[1:21]), nil
}

// text writes the 21 bytes of an address.
func text(address []byte) string { return chain.Base58Check(address[0], [20]byte(address[1:])) }

// maxSize bounds a transaction, as the network does.
const maxSize = 500 << 10

// Sizes that tie a transaction to a block, in bytes.
const (
	blockNumberSize = 2 // of the block's number the last
	blockHashSize   = 8 // of its hash those from the ninth
)

type transaction struct {
	raw   []byte
	facts chain.Struct
}

// Read takes Transaction.raw apart, which holds exactly one contract. Any
// secp256k1 key may sign.
func (Chain) Read(unsigned []byte, by chain.SigningKey) (chain.Transaction, error) {
	if by.Public.Curve() != chain.Secp256k1 || chain.SchemeOf(by.Format, chain.Secp256k1) != chain.ECDSA {
		return nil, chain.Invalid("Tron is signed with ECDSA by a secp256k1 key, which signWith does not name")
	}
	if len(unsigned) > maxSize {
		return nil, chain.Invalid("over %d bytes", maxSize)
	}
	raw := bytes.Clone(unsigned)
	facts, err := rawData.read(raw)
	if err != nil {
		return nil, err
	}
	switch {
	case len(facts["contract"].([]any)) != 1:
		return nil, chain.Invalid("raw_data must hold one contract")
	case len(facts["ref_block_bytes"].(chain.Hex)) != 2*blockNumberSize:
		return nil, chain.Invalid("raw_data.ref_block_bytes must be %d bytes", blockNumberSize)
	case len(facts["ref_block_hash"].(chain.Hex)) != 2*blockHashSize:
		return nil, chain.Invalid("raw_data.ref_block_hash must be %d bytes", blockHashSize)
	case facts["expiration"] == int64(0):
		return nil, chain.Invalid("raw_data.expiration is missing")
	}
	return &transaction{raw, facts}, nil
}

func (*transaction) Root() string { return "tron.tx" }

// Facts are the fields of raw_data. The tree is shared and not to be changed.
func (t *transaction) Facts(chain.Described) (chain.Struct, error) { return t.facts, nil }

func (t *transaction) Digests() []chain.Digest {
	sum := sha256.Sum256(t.raw)
	return []chain.Digest{{Scheme: chain.ECDSA, Message: sum[:]}}
}

var errSignatures = errors.New("a Tron transaction takes one signature")

// Assemble makes the Transaction that nodes take, raw_data as it was and the
// signature r‖s‖v with v 0 or 1.
func (t *transaction) Assemble(signatures []chain.Signature) ([]byte, error) {
	if len(signatures) != 1 {
		return nil, errSignatures
	}
	const rawData, signature = 1<<wireBits | wireBytes, 2<<wireBits | wireBytes
	const signatureSize, tagsAndLengths = 65, 6
	s := &signatures[0]
	b := make([]byte, 0, len(t.raw)+signatureSize+tagsAndLengths)
	b = binary.AppendUvarint(append(b, rawData), uint64(len(t.raw)))
	b = append(append(b, t.raw...), signature, signatureSize)
	b = append(append(b, s.R[:]...), s.S[:]...)
	return append(b, s.V), nil
}
