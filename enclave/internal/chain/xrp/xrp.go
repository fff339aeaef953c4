// Package xrp makes classic addresses of the XRP Ledger: RIPEMD-160 of SHA-256
// of the compressed public key, with version 0 and a checksum, in base58 with
// the ledger's own alphabet.
package xrp

import (
	"crypto/sha256"

	"github.com/mr-tron/base58"
	"golang.org/x/crypto/ripemd160" //lint:ignore SA1019 the network's addresses are defined with it

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

var alphabet = base58.NewAlphabet("rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz")

// Chain is the XRP Ledger. The zero value is ready.
type Chain struct{}

// Formats lists ADDRESS_FORMAT_XRP.
func (Chain) Formats() []chain.Format { return []chain.Format{chain.Xrp} }

// Address is r and 24 to 34 more characters.
func (Chain) Address(f chain.Format, p chain.PublicKey) (string, error) {
	if f != chain.Xrp {
		return "", fault.New(fault.InvalidArgument, "invalid address format")
	}
	if err := f.Accept(p.Curve()); err != nil {
		return "", err
	}
	inner := sha256.Sum256(p.Compressed())
	h := ripemd160.New()
	h.Write(inner[:])
	b := h.Sum([]byte{0})
	once := sha256.Sum256(b)
	twice := sha256.Sum256(once[:])
	return base58.EncodeAlphabet(append(b, twice[:4]...), alphabet), nil
}
