package eth

import "cloister/enclave/internal/chain"

// Call is the unexported method under test.
func (i *Interface) Call(data []byte) (name string, selector [4]byte, args chain.Map, ok bool) {
	if len(data) < len(selector) {
		return "", selector, nil, false
	}
	if name, args = i.call(data); name != "" {
		selector = [4]byte(data)
	}
	return name, selector, args, args != nil
}

// Selectors are those of an interface's functions.
func Selectors(i *Interface) (out [][4]byte) {
	for s := range i.functions {
		out = append(out, s)
	}
	return out
}
