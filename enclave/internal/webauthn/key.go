package webauthn

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"math/big"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"cloister/enclave/internal/tally"
)

// Algorithms by their COSE numbers.
const (
	algES256 = -7
	algEdDSA = -8
	algRS256 = -257
)

// Members of a COSE_Key and their values.
const (
	coseType      = 1
	coseAlgorithm = 3
	typeOKP       = 1
	typeEC2       = 2
	typeRSA       = 3
	curveP256     = 1
	curveEd25519  = 6
)

// key verifies signatures by one algorithm.
type key struct {
	alg    int64
	public crypto.PublicKey // *ecdsa.PublicKey on P-256, *rsa.PublicKey or ed25519.PublicKey
}

const errKey = Refusal("public key is malformed or of another algorithm than ES256, RS256 and EdDSA")

// parseKey reads a COSE_Key with just the members that its type has.
func parseKey(raw []byte) (*key, error) {
	m := coseKey{}
	if decoding.Unmarshal(raw, &m) != nil {
		return nil, errKey
	}
	var public crypto.PublicKey
	ok := false
	kty, alg := m.number(coseType), m.number(coseAlgorithm)
	switch {
	case kty == typeEC2 && alg == algES256 && len(m) == 5:
		public, ok = m.p256()
	case kty == typeOKP && alg == algEdDSA && len(m) == 4:
		public, ok = m.ed25519()
	case kty == typeRSA && alg == algRS256 && len(m) == 4:
		public, ok = m.rsa()
	}
	if !ok {
		return nil, errKey
	}
	return &key{alg, public}, nil
}

// keyOf is a certificate's key for an algorithm, if it is a key of that algorithm.
func keyOf(public crypto.PublicKey, alg int64) (*key, bool) {
	ok := false
	switch p := public.(type) {
	case *ecdsa.PublicKey:
		ok = alg == algES256 && p.Curve == elliptic.P256()
	case *rsa.PublicKey:
		ok = alg == algRS256 && usable(p)
	case ed25519.PublicKey:
		ok = alg == algEdDSA
	}
	return &key{alg, public}, ok
}

type coseKey map[int64]cbor.RawMessage

// number is 0 for a member that is missing or no number.
func (m coseKey) number(label int64) (n int64) {
	if decoding.Unmarshal(m[label], &n) != nil {
		return 0
	}
	return n
}

// bytes is nil for a member that is missing or no byte string.
func (m coseKey) bytes(label int64) []byte {
	var s cbor.ByteString
	if decoding.Unmarshal(m[label], &s) != nil {
		return nil
	}
	return []byte(s)
}

func (m coseKey) p256() (crypto.PublicKey, bool) {
	x, y := m.bytes(-2), m.bytes(-3)
	if m.number(-1) != curveP256 || len(x) != 32 || len(y) != 32 {
		return nil, false
	}
	p, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
	return p, err == nil
}

func (m coseKey) ed25519() (crypto.PublicKey, bool) {
	x := m.bytes(-2)
	return ed25519.PublicKey(x), m.number(-1) == curveEd25519 && len(x) == ed25519.PublicKeySize
}

func (m coseKey) rsa() (crypto.PublicKey, bool) {
	n, e := m.bytes(-1), m.bytes(-2)
	if len(n) == 0 || n[0] == 0 || string(e) != "\x01\x00\x01" {
		return nil, false
	}
	p := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537}
	return p, usable(p)
}

func usable(p *rsa.PublicKey) bool {
	bits := p.N.BitLen()
	return bits >= 2048 && bits <= 4096 && p.N.Bit(0) == 1 && p.E == 65537
}

func (k *key) verify(message, signature []byte) bool {
	if len(signature) > MaxSignature {
		return false
	}
	tally.SignaturesVerified.Add(1)
	digest := sha256.Sum256(message)
	switch p := k.public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(p, digest[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(p, crypto.SHA256, digest[:], signature) == nil
	case ed25519.PublicKey:
		return ed25519.Verify(p, message, signature)
	}
	return false
}
