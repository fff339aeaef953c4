// Package plain makes the two addresses that belong to no chain: the public key
// itself, in lower-case hexadecimal without 0x.
package plain

import (
	"encoding/hex"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// Chain gives a public key as its own address. The zero value is ready.
type Chain struct{}

// Formats lists ADDRESS_FORMAT_UNCOMPRESSED and ADDRESS_FORMAT_COMPRESSED.
func (Chain) Formats() []chain.Format {
	return []chain.Format{chain.Uncompressed, chain.Compressed}
}

// Address is 130 digits uncompressed; compressed 66 digits, or 64 for ed25519,
// which has no uncompressed form.
func (Chain) Address(f chain.Format, p chain.PublicKey) (string, error) {
	if f != chain.Uncompressed && f != chain.Compressed {
		return "", fault.New(fault.InvalidArgument, "invalid address format")
	}
	if err := f.Accept(p.Curve()); err != nil {
		return "", err
	}
	if f == chain.Uncompressed {
		return hex.EncodeToString(p.Bytes()), nil
	}
	return hex.EncodeToString(p.Compressed()), nil
}
