package keys

import (
	"crypto/ed25519"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/p256"
)

// verified is how curveKeys verify with the library's verifier. Every signature is verified
// before it leaves: RFC 6979 and RFC 8032 sign one message with the same nonce every time,
// and of two such signatures, one of them hit by a fault, the key can be computed.
// keySecp256k1.verify says why ECDSA on secp256k1 does not come here.
type verified struct{}

func (verified) verify(s *Signature, p chain.PublicKey, scheme chain.Scheme, message []byte) bool {
	var b [64]byte
	switch {
	case scheme == chain.EdDSA && p.Curve() == chain.Ed25519:
		return ed25519.Verify(p.Bytes(), message, join(&b, s)) && s.V == 0
	case scheme == chain.ECDSA && p.Curve() == chain.P256:
		key, err := p256.ParsePublicKey(p.Bytes())
		return err == nil && p256.Verify(key, [32]byte(message), join(&b, s))
	case scheme == chain.Schnorr && p.Curve() == chain.Secp256k1:
		return verifySchnorr(p.Bytes()[1:33], message, s)
	case scheme == chain.Taproot:
		x, ok := p.Taproot()
		return ok && verifySchnorr(x[:], message, s)
	}
	return false
}

func verifySchnorr(x, digest []byte, s *Signature) bool {
	var b [64]byte
	key, err := schnorr.ParsePubKey(x)
	if err != nil {
		return false
	}
	sig, err := schnorr.ParseSignature(join(&b, s))
	return err == nil && s.V == 0 && sig.Verify(digest, key)
}

func join(b *[64]byte, s *Signature) []byte {
	copy(b[:32], s.R[:])
	copy(b[32:], s.S[:])
	return b[:]
}
