package activity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/hex"
)

// somePublic is the public key of another P-256 key each time.
func somePublic(w *world) string {
	k, err := ecdsa.GenerateKey(elliptic.P256(), w.rand)
	w.must(err)
	return hex.EncodeToString(elliptic.MarshalCompressed(elliptic.P256(), k.X, k.Y))
}

// notP256 is G of secp256k1, whose x is no P-256 point's.
const notP256 = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
