// Package cosmos makes the addresses of Cosmos Hub and of Sei, which differ in
// the prefix: RIPEMD-160 of SHA-256 of the compressed public key, in Bech32
// (BIP-173).
package cosmos

import (
	"crypto/sha256"

	"github.com/btcsuite/btcd/btcutil/bech32"
	"golang.org/x/crypto/ripemd160" //lint:ignore SA1019 the network's addresses are defined with it

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// Chain is Cosmos Hub and Sei. The zero value is ready.
type Chain struct{}

// Formats lists ADDRESS_FORMAT_COSMOS and ADDRESS_FORMAT_SEI.
func (Chain) Formats() []chain.Format { return []chain.Format{chain.Cosmos, chain.Sei} }

// Address is lower-case Bech32 of 20 bytes, with the prefix cosmos or sei.
func (Chain) Address(f chain.Format, p chain.PublicKey) (string, error) {
	prefix := ""
	switch f {
	case chain.Cosmos:
		prefix = "cosmos"
	case chain.Sei:
		prefix = "sei"
	default:
		return "", fault.New(fault.InvalidArgument, "invalid address format")
	}
	if err := f.Accept(p.Curve()); err != nil {
		return "", err
	}
	inner := sha256.Sum256(p.Compressed())
	h := ripemd160.New()
	h.Write(inner[:])
	return bech32.EncodeFromBase256(prefix, h.Sum(nil))
}
