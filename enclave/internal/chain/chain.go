// Package chain says what the rest of the enclave may know of a blockchain: curves,
// address formats and which of the two go together, public keys, addresses, and the
// interfaces that the chains' own packages fill.
//
// It promises that an address is made only for a point on a curve that the format
// allows. A format of the published interface that no package makes is answered with
// UNIMPLEMENTED. It sees no private key, no organization and no policy. A chain's
// package imports this one and never another chain.
package chain

import (
	"fmt"
	"strings"

	"cloister/enclave/internal/fault"
)

// Addresses are formats of addresses, and what makes the text of each for a key on a
// curve that the format allows.
type Addresses map[Format]func(PublicKey) (string, error)

// Join puts the addresses of networks together. It panics when two have one format, or
// one has a format that is none of the interface's: both are errors of the program.
func Join(networks ...Addresses) Addresses {
	all := Addresses{}
	for _, n := range networks {
		for f, make := range n {
			if !f.isKnown() || all[f] != nil {
				panic(fmt.Sprintf("chain: %v claimed twice or unknown", f))
			}
			all[f] = make
		}
	}
	return all
}

// Address makes the address of p in format f. The errors are *fault.Error:
// InvalidArgument for a format that is none or a key on a curve that the format
// does not allow, Unimplemented for a format that is not in a.
func (a Addresses) Address(f Format, p PublicKey) (string, error) {
	if err := f.Accept(p.Curve()); err != nil {
		return "", err
	}
	if a[f] == nil {
		return "", fault.New(fault.Unimplemented, "UNIMPLEMENTED: %v", f)
	}
	return a[f](p)
}

// MatchKey brings an address to the form under which it is looked up: what IgnoresCase in lower case, any other text as it
// is. Addresses with one match key name one account. Another form of an account, such as
// TON's bounceable one, has another match key. The argument may be any text.
func MatchKey(address string) string {
	if !IgnoresCase(address) {
		return address
	}
	return strings.ToLower(address)
}

// IgnoresCase tells whether the letters of an address mean the same in either case: of 0x and 40 (Ethereum) or 64 (Sui,
// Aptos) hexadecimal digits, and of a public key's 66 or 130.
func IgnoresCase(address string) bool {
	digits, prefixed := strings.CutPrefix(address, "0x")
	switch len(digits) {
	case 40, 64:
		if !prefixed {
			return false
		}
	case 66, 130:
		if prefixed {
			return false
		}
	default:
		return false
	}
	return strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}
