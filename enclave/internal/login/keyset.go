package login

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"math/big"
	"slices"

	"cloister/enclave/internal/p256"
	"cloister/enclave/internal/strictjson"
	"cloister/enclave/internal/tally"
)

// Sizes of RSA moduli in bits, and the exponent, that issuers use. Smaller ones are weak, larger
// ones only cost time.
const (
	minRSA      = 2048
	maxRSA      = 8192
	exponentRSA = 65537
)

// A KeySet is the keys of an issuer that verify tokens. It is immutable.
type KeySet struct{ keys []issuerKey }

type issuerKey struct {
	kid string // empty if it has none
	alg string // empty for all that the key can do
	key crypto.PublicKey
}

// ParseKeySet reads an issuer's JWK set. Keys that cannot verify an identity token are left out,
// as RFC 7517 asks: other types, curves, sizes and uses, private and symmetric keys, and anything
// that is no key. An empty set verifies nothing. Errors are *fault.Error about field.
func ParseKeySet(field string, raw []byte) (*KeySet, error) {
	if len(raw) > MaxKeySet {
		return nil, errOIDC(field, "the issuer's key set is too large")
	}
	o, ok := parseObject(raw, fetchedLimits)
	items, isArray := o["keys"].Array()
	if !ok || !isArray || len(items) > MaxKeys {
		return nil, errOIDC(field, "the issuer's key set is malformed")
	}
	s := new(KeySet)
	for _, item := range items {
		if k, ok := parseKey(item); ok {
			s.keys = append(s.keys, k)
		}
	}
	return s, nil
}

// parseKey reads a JWK.
func parseKey(raw strictjson.Raw) (k issuerKey, ok bool) {
	members, ok := raw.Object()
	if !ok {
		return k, false
	}
	o := object(members)
	for _, name := range []string{"d", "k"} { // a published secret proves nothing
		if _, there := o[name]; there {
			return k, false
		}
	}
	if !o.mayVerify() {
		return k, false
	}
	if k.kid, ok = o.keyID(); !ok {
		return k, false
	}
	if k.alg, ok = o.text("alg"); !ok || o.hasMember("alg") && k.alg == "" {
		return k, false
	}
	switch kty, _ := o.text("kty"); kty {
	case "RSA":
		k.key, ok = o.rsa()
	case "EC":
		k.key, ok = o.p256()
	case "OKP":
		k.key, ok = o.ed25519()
	default:
		ok = false
	}
	return k, ok
}

// mayVerify looks at the members use and key_ops.
func (o object) mayVerify() bool {
	use, ok := o.text("use")
	if !ok || o.hasMember("use") && use != "sig" {
		return false
	}
	ops, _ := o["key_ops"].Array()
	return !o.hasMember("key_ops") || slices.ContainsFunc(ops, func(raw strictjson.Raw) bool {
		op, _ := raw.Text()
		return op == "verify"
	})
}

// bytes is a member in base64url, of at most most bytes.
func (o object) bytes(name string, most int) []byte {
	text, ok := o.text(name)
	if !ok || len(text) > base64URL.EncodedLen(most) {
		return nil
	}
	b, err := base64URL.DecodeString(text)
	if err != nil || base64URL.EncodeToString(b) != text { // the library skips line breaks
		return nil
	}
	return b
}

func (o object) rsa() (*rsa.PublicKey, bool) {
	n, e := new(big.Int).SetBytes(o.bytes("n", maxRSA/8)), new(big.Int).SetBytes(o.bytes("e", 8))
	if n.BitLen() < minRSA || n.BitLen() > maxRSA || n.Bit(0) == 0 || !e.IsInt64() || e.Int64() != exponentRSA {
		return nil, false
	}
	return &rsa.PublicKey{N: n, E: exponentRSA}, true
}

func (o object) p256() (*ecdsa.PublicKey, bool) {
	crv, _ := o.text("crv")
	x, y := o.bytes("x", p256.ScalarSize), o.bytes("y", p256.ScalarSize)
	if crv != "P-256" || len(x) != p256.ScalarSize || len(y) != p256.ScalarSize {
		return nil, false
	}
	key, err := p256.ParsePublicKey(slices.Concat([]byte{4}, x, y))
	return key, err == nil
}

func (o object) ed25519() (ed25519.PublicKey, bool) {
	crv, _ := o.text("crv")
	x := o.bytes("x", ed25519.PublicKeySize)
	return x, crv == "Ed25519" && len(x) == ed25519.PublicKeySize
}

func (k *issuerKey) equal(other *issuerKey) bool {
	key, ok := k.key.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(other.key)
}

// allowsAlgorithm tells whether the key is for an algorithm.
func (k *issuerKey) allowsAlgorithm(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch k.key.(type) {
	case *rsa.PublicKey:
		return alg == "RS256" || alg == "PS256"
	case *ecdsa.PublicKey:
		return alg == "ES256"
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

func (k *issuerKey) verify(t *jws) bool {
	digest := sha256.Sum256(t.signed)
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		tally.SignaturesVerified.Add(1)
		if t.alg == "PS256" {
			return rsa.VerifyPSS(key, crypto.SHA256, digest[:], t.signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
		}
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], t.signature) == nil
	case *ecdsa.PublicKey:
		return PublicKey{key: key}.verify(digest, t.signature)
	case ed25519.PublicKey:
		tally.SignaturesVerified.Add(1)
		return ed25519.Verify(key, t.signed, t.signature)
	}
	return false
}

// maxTried is how many keys of one key id are tried: RFC 7517 only says that issuers should not have two.
const maxTried = 4

// candidates are the keys that may have signed t: they fit its algorithm and have its key id, if
// it names one. A key that is listed twice is one.
func (s *KeySet) candidates(t *jws) (found []*issuerKey) {
	if s == nil {
		return nil
	}
	for i := range s.keys {
		if k := &s.keys[i]; (t.kid == "" || k.kid == t.kid) && k.allowsAlgorithm(t.alg) && !slices.ContainsFunc(found, k.equal) {
			found = append(found, k)
		}
	}
	return found
}

// MarshalKeySet is the JWK set of our own keys.
func MarshalKeySet(keys ...PublicKey) []byte {
	out := []byte(`{"keys":[`)
	comma := ""
	for _, k := range keys {
		x, y, ok := k.coordinates()
		if !ok {
			continue
		}
		out = append(out, comma+`{"kty":"EC","crv":"P-256","x":"`+x+`","y":"`+y+`","use":"sig","alg":"ES256","kid":"`+k.ID()+`"}`...)
		comma = ","
	}
	return append(out, "]}"...)
}

// ID is the key's id in our tokens: the thumbprint of RFC 7638.
func (p PublicKey) ID() string {
	x, y, _ := p.coordinates()
	sum := sha256.Sum256([]byte(`{"crv":"P-256","kty":"EC","x":"` + x + `","y":"` + y + `"}`))
	return base64URL.EncodeToString(sum[:])
}

func (p PublicKey) coordinates() (x, y string, ok bool) {
	if p.key == nil {
		return "", "", false
	}
	b, err := p.key.Bytes()
	if err != nil || len(b) != p256.PointSize {
		return "", "", false
	}
	return base64URL.EncodeToString(b[1 : 1+p256.ScalarSize]), base64URL.EncodeToString(b[1+p256.ScalarSize:]), true
}

// KeySetOf is the key set of our own keys, for tokens that we issued.
func KeySetOf(keys ...PublicKey) *KeySet {
	s := new(KeySet)
	for _, k := range keys {
		if k.key != nil {
			s.keys = append(s.keys, issuerKey{k.ID(), "ES256", k.key})
		}
	}
	return s
}
