//lint:file-ignore SA1019 only crypto/elliptic adds two points, and here all is public

package p256

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"math/big"
)

// RecoveryID is the parity of y of the nonce's point, whose x is r, for a signature by key.
// The point is (digest·G + r·key) / s, which takes public values alone. ok is false for
// another x: the signature is not by key, or, with a chance of 2^-128, x is not below the
// order.
func RecoveryID(key *ecdsa.PublicKey, digest [32]byte, s *Signature) (id byte, ok bool) {
	c := elliptic.P256()
	r := new(big.Int).SetBytes(s[:ScalarSize])
	w := new(big.Int).ModInverse(new(big.Int).SetBytes(s[ScalarSize:]), order)
	if w == nil {
		return 0, false
	}
	u := new(big.Int).SetBytes(digest[:])
	u.Mod(u.Mul(u, w), order)
	v := w.Mod(w.Mul(w, r), order)
	gx, gy := c.ScalarBaseMult(u.Bytes())
	kx, ky := c.ScalarMult(key.X, key.Y, v.Bytes())
	x, y := c.Add(gx, gy, kx, ky)
	return byte(y.Bit(0)), x.Cmp(r) == 0
}
