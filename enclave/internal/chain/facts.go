package chain

import (
	"encoding/hex"

	"cloister/enclave/internal/fault"
)

// Facts are trees of what policies may read, in the terms of Go, since a chain
// knows no policies: bool, int64, uint64, *big.Int (not changed afterwards),
// string, Hex, []any, []string, Struct, Map, Dynamic; nil is absent, and reading
// it is an error of the policy.

// Struct is read by .name. The members that the schema of the policy language
// lists must be there, except the optional ones.
type Struct map[string]any

// Map is read by ['key'].
type Map map[string]any

// Hex is text in hexadecimal, lower case, which policies compare without regard
// to case.
type Hex string

// ZeroX is b as policies read it, with 0x.
func ZeroX(b []byte) Hex {
	return Hex(hex.AppendEncode(append(make([]byte, 0, 2+2*len(b)), "0x"...), b))
}

// Dynamic is typed by what it holds and not by the schema: arguments of calls,
// typed data, authorizations.
type Dynamic struct{ Value any }

const unsignedTransaction = "unsignedTransaction"

// Invalid refuses a transaction that is malformed, or not the signer's to sign.
func Invalid(format string, args ...any) error {
	f := fault.Field(unsignedTransaction, "invalid transaction: "+format, args...)
	f.Name = "INVALID_TRANSACTION"
	return f
}

// Unsupported refuses a transaction of a kind that is not read.
func Unsupported(format string, args ...any) error {
	f := fault.Field(unsignedTransaction, "unsupported transaction: "+format, args...)
	f.Name = "UNSUPPORTED_TRANSACTION_TYPE"
	return f
}
