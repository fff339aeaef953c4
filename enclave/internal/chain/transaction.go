package chain

import (
	"encoding/hex"
	"slices"
	"strings"

	"cloister/enclave/internal/fault"
)

// A SigningKey is the key that is asked to sign a transaction. Format and Address are of
// the address that named it: zero and empty for the id of a private key, which stands for
// every address that the key can have.
type SigningKey struct {
	Public  PublicKey
	Format  Format
	Address string
}

// A Reader is a chain whose transactions can be read.
type Reader interface {
	// Read takes an unsigned transaction apart, strictly: it refuses what it cannot
	// explain, and bytes that another reader would pass over. It answers only a
	// transaction that the signer can sign. The errors are *fault.Error with the field
	// `unsignedTransaction`: Invalid for what is malformed or not the signer's,
	// Unsupported for what the network may know and this reader does not.
	Read(unsigned []byte, by SigningKey) (Transaction, error)
}

// A Transaction has been read and can be signed. It is immutable and safe for
// concurrent use.
type Transaction interface {
	// Root names the facts to policies, such as eth.tx.
	Root() string
	// Facts are what policies may look at. An error of described is returned as it is.
	// The only other is Invalid, for a call that an interface describes and that does
	// not decode: nobody may decide about it unseen.
	Facts(described Described) (Struct, error)
	// Digests are what the signer's key must sign, in order, one or more.
	Digests() []Digest
	// Assemble answers the transaction with the signatures of Digests, in the form that
	// clients send on.
	Assemble(signatures []Signature) ([]byte, error)
}

// A Describer is a chain with interfaces of contracts: an ABI, an IDL.
type Describer interface {
	// Describe reads the text of an interface. What it answers is immutable. Errors
	// are for whoever uploaded the text.
	Describe(text string) (Description, error)
}

// A Description is an interface that the same chain's Describe has read.
type Description any

// Described finds the interface of a contract by its address: lower-case hex with 0x for
// Ethereum, base58 for Solana. It answers nil where there is none.
type Described func(address string) (Description, error)

// Scheme is a way to sign.
type Scheme uint8

// The schemes.
const (
	ECDSA   Scheme = 1 + iota // of 32 bytes, with secp256k1 or P-256; low s
	EdDSA                     // of a whole message, with ed25519
	Taproot                   // BIP-340 of 32 bytes, the key tweaked by BIP-341 without a script tree
	Schnorr                   // BIP-340 of 32 bytes, the key as it is
)

// SchemeOf is the scheme in which a key on curve c signs for an address in format f, zero
// for the id of a private key.
func SchemeOf(f Format, c Curve) Scheme {
	switch f {
	case BitcoinMainnetP2TR, BitcoinTestnetP2TR, BitcoinSignetP2TR, BitcoinRegtestP2TR:
		return Taproot
	case SparkMainnet, SparkRegtest:
		return Schnorr
	}
	if c == Ed25519 {
		return EdDSA
	}
	return ECDSA
}

// A Digest is what a key signs: a message for EdDSA, 32 bytes otherwise.
type Digest struct {
	Scheme  Scheme
	Message []byte
}

// A Signature is what the interface calls r, s and v. For ECDSA R and S are big-endian, S
// is at most half of the order, and V is the recovery id, 0 or 1. Otherwise R and S are
// the two halves of the 64 bytes and V is 0.
type Signature struct {
	R, S [32]byte
	V    byte
}

// Texts are r, s and v as the interface writes them: lower-case hex without 0x.
func (s Signature) Texts() (r, ss, v string) {
	return hex.EncodeToString(s.R[:]), hex.EncodeToString(s.S[:]), hex.EncodeToString([]byte{s.V})
}

// Facts are trees of bool, int64, uint64, *big.Int (not changed afterwards), string, Hex,
// []any, []string, Struct, Map and Dynamic; nil is absent, and reading it is an error of
// the policy.

// Struct is read by .name. The members that the schema of the policy language lists must
// be there, except the optional ones.
type Struct map[string]any

// Map is read by ['key'].
type Map map[string]any

// Hex is lower-case hexadecimal text, which policies compare without regard to case.
type Hex string

// ZeroX is b as policies read it, with 0x.
func ZeroX(b []byte) Hex {
	var text strings.Builder // no second copy: call data are long
	text.Grow(2 + hex.EncodedLen(len(b)))
	text.WriteString("0x")
	var digits [64]byte
	for part := range slices.Chunk(b, len(digits)/2) {
		text.Write(digits[:hex.Encode(digits[:], part)])
	}
	return Hex(text.String())
}

// Dynamic is typed by what it holds and not by the schema, such as the arguments of calls.
type Dynamic struct{ Value any }

const unsignedTransaction = "unsignedTransaction"

// Invalid refuses a transaction that is malformed, or not the signer's to sign.
func Invalid(format string, args ...any) error {
	f := fault.Field(unsignedTransaction, "invalid transaction: "+format, args...)
	f.Name = "INVALID_TRANSACTION"
	return f
}

// UnsupportedName is the name of errors by Unsupported.
const UnsupportedName = "UNSUPPORTED_TRANSACTION_TYPE"

// Unsupported refuses a transaction of a kind that is not read.
func Unsupported(format string, args ...any) error {
	f := fault.Field(unsignedTransaction, "unsupported transaction: "+format, args...)
	f.Name = UnsupportedName
	return f
}
