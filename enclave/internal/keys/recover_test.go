//lint:file-ignore SA1019 the test needs points of P-256, of public values only

package keys_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/asn1"
	"math/big"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/keys"
)

// verifyP256 verifies with crypto/ecdsa and recovers the public key from r, s
// and v by the textbook: Q = r⁻¹(sR − zG).
func verifyP256(t testing.TB, p chain.PublicKey, digest []byte, sig keys.Signature) bool {
	t.Helper()
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), p.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	c := elliptic.P256()
	n := c.Params().N
	r, s := new(big.Int).SetBytes(sig.R[:]), new(big.Int).SetBytes(sig.S[:])
	der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
	if err != nil || !ecdsa.VerifyASN1(key, digest, der) || new(big.Int).Lsh(s, 1).Cmp(n) > 0 || sig.V > 1 {
		return false
	}
	x, y := elliptic.UnmarshalCompressed(c, append([]byte{2 | sig.V}, sig.R[:]...))
	if x == nil {
		return false
	}
	inv := new(big.Int).ModInverse(r, n)
	u1 := new(big.Int).Mul(new(big.Int).Sub(n, new(big.Int).Mod(new(big.Int).SetBytes(digest), n)), inv)
	u2 := new(big.Int).Mul(s, inv)
	ax, ay := c.ScalarBaseMult(u1.Mod(u1, n).Bytes())
	bx, by := c.ScalarMult(x, y, u2.Mod(u2, n).Bytes())
	qx, qy := c.Add(ax, ay, bx, by)
	return bytes.Equal(elliptic.Marshal(c, qx, qy), p.Bytes())
}

// lowP256 is the lower of s and order-s, in hexadecimal.
func lowP256(s string) string {
	v, _ := new(big.Int).SetString(s, 16)
	n := elliptic.P256().Params().N
	if new(big.Int).Lsh(v, 1).Cmp(n) > 0 {
		v.Sub(n, v)
	}
	return new(big.Int).Add(v, new(big.Int).Lsh(big.NewInt(1), 256)).Text(16)[1:]
}
