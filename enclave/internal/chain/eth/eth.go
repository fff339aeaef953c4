// Package eth is Ethereum: addresses, transactions before and after they are signed, the
// interfaces of contracts and the data of calls, typed data and authorizations. It reads
// all of them strictly.
package eth

import (
	"cloister/enclave/internal/chain"
)

// Chain is Ethereum. The zero value is ready.
type Chain struct{}

// Addresses are 0x and 40 hexadecimal digits, whose case is the checksum of EIP-55.
var Addresses = chain.Addresses{chain.Ethereum: func(p chain.PublicKey) (string, error) {
	account := p.KeccakAccount()
	return chain.ChecksumAddress(account[:]), nil
}}
