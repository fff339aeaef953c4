package keys

// nonces is the generator of RFC 6979, section 3.2, with HMAC-SHA256. It lives
// on the stack of a function inside do.
type nonces struct{ k, v [32]byte }

// newNonces starts the generator for private key x and the digest z, both as 32
// bytes; z is already reduced modulo the order (bits2octets).
func newNonces(x, z *[32]byte) (g nonces) {
	for i := range g.v {
		g.v[i] = 1
	}
	var m [32 + 1 + 64]byte
	copy(m[33:], x[:])
	copy(m[65:], z[:])
	for round := range byte(2) {
		copy(m[:], g.v[:])
		m[32] = round
		mac256(&g.k, g.k[:], m[:])
		mac256(&g.v, g.k[:], g.v[:])
	}
	clear(m[:])
	return g
}

// next gives the next candidate. The caller takes the first that lies in
// [1, order-1]; after one that was refused it calls refuse.
func (g *nonces) next(out *[32]byte) {
	mac256(&g.v, g.k[:], g.v[:])
	*out = g.v
}

// refuse moves the state on past a candidate.
func (g *nonces) refuse() {
	var m [33]byte
	copy(m[:], g.v[:])
	mac256(&g.k, g.k[:], m[:])
	mac256(&g.v, g.k[:], g.v[:])
}

// factor gives a value as secret as the nonce and independent of it: the MAC,
// under the generator's key, of a message that the RFC never uses.
func (g *nonces) factor(out *[32]byte) {
	mac256(out, g.k[:], []byte("blinding factor"))
}
