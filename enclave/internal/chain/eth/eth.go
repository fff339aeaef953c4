// Package eth is Ethereum: addresses, transactions before and after they are signed, the
// interfaces of contracts and the data of calls, typed data and authorizations. It reads
// all of them strictly.
package eth

import (
	"encoding/hex"

	"cloister/enclave/internal/chain"
)

// Chain is Ethereum. The zero value is ready.
type Chain struct{}

// Addresses are 0x and 40 hexadecimal digits, whose case is the checksum of EIP-55.
var Addresses = chain.Addresses{chain.Ethereum: func(p chain.PublicKey) (string, error) {
	account := p.KeccakAccount()
	return checksumAddress(account[:]), nil
}}

// checksumAddress writes 20 bytes as EIP-55 text: a letter is a capital when the
// digit at its place in the hash of the lower-case text is 8 or more.
func checksumAddress(account []byte) string {
	var text [42]byte
	copy(text[:], "0x")
	digits := text[2:]
	hex.Encode(digits, account)
	sum := chain.Keccak(digits)
	for i, c := range digits {
		nibble := sum[i/2] >> (4 * (1 - i%2)) & 15
		if c >= 'a' && nibble >= 8 {
			digits[i] = c - ('a' - 'A')
		}
	}
	return string(text[:])
}
