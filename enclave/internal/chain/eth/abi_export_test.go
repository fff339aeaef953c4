package eth

import "cloister/enclave/internal/chain"

// Call is the unexported method under test.
func (i *Interface) Call(data []byte) (string, [4]byte, chain.Map, bool) { return i.call(data) }

// Selectors are those of an interface's functions.
func Selectors(i *Interface) (out [][4]byte) {
	for s := range i.functions {
		out = append(out, s)
	}
	return out
}
