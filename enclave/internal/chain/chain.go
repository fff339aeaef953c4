// Package chain says what the rest of the enclave may know of a blockchain: the
// curves, the address formats and which of the two go together, public keys,
// and the interface that each chain's own package fills.
//
// It promises that an address is made only for a point on the curve that the
// format names, and that a format of the published interface which has no
// package yet is answered with UNIMPLEMENTED, never with a guess. It sees no
// private key, no organization and no policy: bytes in, text out. A chain's
// package imports this one and never another chain.
//
// The set of chains in use is a literal list that the caller hands to NewSet.
package chain

import (
	"fmt"

	"cloister/enclave/internal/fault"
)

// A Chain gives addresses to public keys.
type Chain interface {
	// Formats lists the address formats that the chain can make.
	Formats() []Format
	// Address is the text of the key's address. The error is a *fault.Error
	// (InvalidArgument) when the format is not the chain's or the key is on
	// another curve than the format needs.
	Address(Format, PublicKey) (string, error)
}

// A Set finds the chain of a format. The zero value knows none. It is
// immutable and safe for concurrent use.
type Set struct{ by [formats]Chain }

// NewSet makes a Set of chains. It panics when two chains claim one format or a
// chain claims none of the interface's: both are errors of the program.
func NewSet(chains ...Chain) *Set {
	s := new(Set)
	for _, c := range chains {
		for _, f := range c.Formats() {
			if !f.known() || s.by[f] != nil {
				panic(fmt.Sprintf("chain: %v claimed twice or unknown", f))
			}
			s.by[f] = c
		}
	}
	return s
}

// Address makes the address of p in format f. The errors are *fault.Error:
// InvalidArgument for a format that is none or a key on a curve that the format
// does not allow, Unimplemented for a format without a chain in the set.
func (s *Set) Address(f Format, p PublicKey) (string, error) {
	if err := f.Accept(p.Curve()); err != nil {
		return "", err
	}
	c := s.by[f]
	if c == nil {
		return "", fault.New(fault.Unimplemented, "UNIMPLEMENTED: %v", f)
	}
	return c.Address(f, p)
}

// Has reports whether the set can make addresses in format f.
func (s *Set) Has(f Format) bool { return f.known() && s.by[f] != nil }

// MatchKey brings an address to the form under which it is looked up: 0x and 40
// (Ethereum) or 64 (Sui, Aptos) hexadecimal digits in lower case, any other text
// as it is. Two addresses name the same account exactly when their match keys are
// equal, where other forms of one account, such as TON's bounceable one, count as
// other addresses. The argument may be anything; it need not be an address.
func MatchKey(address string) string {
	var low [2 + 64]byte
	if len(address) != 2+40 && len(address) != len(low) || address[:2] != "0x" {
		return address
	}
	for i := range len(address) {
		c := address[i]
		switch {
		case 'A' <= c && c <= 'F':
			c += 'a' - 'A'
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', i == 1:
		default:
			return address
		}
		low[i] = c
	}
	return string(low[:len(address)])
}
