package stamp

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	secp256k1ecdsa "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

	"cloister/enclave/internal/der"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/p256"
	"cloister/enclave/internal/strictjson"
	"cloister/enclave/internal/tally"
)

// A Scheme is a signature scheme of a stamp. The zero value is none.
type Scheme uint8

// The schemes. Those before WebAuthn are used in X-Stamp.
const (
	P256 Scheme = iota + 1
	Secp256k1
	Secp256k1EIP191
	Ed25519
	WebAuthn
	AttestedP256
)

// schemes are the public names of each scheme, of its curve (API_KEY_CURVE_…) and of its credential type.
var schemes = [...]struct{ name, curve, credential string }{
	{},
	P256:            {"SIGNATURE_SCHEME_TK_API_P256", "API_KEY_CURVE_P256", "CREDENTIAL_TYPE_API_KEY_P256"},
	Secp256k1:       {"SIGNATURE_SCHEME_TK_API_SECP256K1", "API_KEY_CURVE_SECP256K1", "CREDENTIAL_TYPE_API_KEY_SECP256K1"},
	Secp256k1EIP191: {"SIGNATURE_SCHEME_TK_API_SECP256K1_EIP191", "API_KEY_CURVE_SECP256K1", "CREDENTIAL_TYPE_API_KEY_SECP256K1"},
	Ed25519:         {"SIGNATURE_SCHEME_TK_API_ED25519", "API_KEY_CURVE_ED25519", "CREDENTIAL_TYPE_API_KEY_ED25519"},
	WebAuthn:        {"SIGNATURE_SCHEME_TK_WEBAUTHN", "WEBAUTHN", "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR"},
	AttestedP256:    {"SIGNATURE_SCHEME_TK_ATTESTED_P256", "API_KEY_CURVE_P256", ""},
}

// String is the scheme's name in votes and records, SIGNATURE_SCHEME_TK_….
func (s Scheme) String() string {
	if int(s) < len(schemes) {
		return schemes[s].name
	}
	return ""
}

// schemeOf finds a scheme of X-Stamp by name; the zero Scheme if there is none.
func schemeOf(name string) Scheme {
	for s := P256; s < WebAuthn; s++ {
		if schemes[s].name == name {
			return s
		}
	}
	return 0
}

// apiKeyStamp is the JSON inside X-Stamp.
type apiKeyStamp struct {
	PublicKey string `json:"publicKey" rule:"required"`
	Scheme    string `json:"scheme" rule:"required"`
	Signature string `json:"signature" rule:"required"`
}

// parseStamp parses a header value: base64url, with or without padding, of the
// JSON of a stamp.
func parseStamp(value string) (s apiKeyStamp, err error) {
	encoding := rawURL
	if strings.HasSuffix(value, "=") {
		encoding = paddedURL
	}
	text, err := encoding.DecodeString(value)
	// encoding/base64 ignores line breaks.
	if err != nil || strings.ContainsAny(value, "\r\n") {
		return s, errNotExtracted(apiKey, "not base64url")
	}
	if strictjson.Decode(text, &s, strictjson.Within(strictjson.Limits{Depth: 1, Values: 4})) != nil {
		return s, errNotExtracted(apiKey, "not an object of publicKey, scheme and signature")
	}
	return s, nil
}

var (
	rawURL    = base64.RawURLEncoding.Strict()
	paddedURL = base64.URLEncoding.Strict()
)

// verifyAPIKey verifies the value of X-Stamp over c's body and completes c.
func (v *Verifier) verifyAPIKey(c *Caller, value string) error {
	s, err := parseStamp(value)
	if err != nil {
		return err
	}
	if c.scheme = schemeOf(s.Scheme); c.scheme == 0 {
		return errMalformed("unknown scheme")
	}
	return v.verifyKey(c, s.PublicKey, s.Signature)
}

// verifyKey verifies a signature over c's body by c's scheme, both texts being hex, and completes c.
func (v *Verifier) verifyKey(c *Caller, publicKey, signature string) error {
	var keyBytes [pointSize]byte
	size := pointSize
	if c.scheme == Ed25519 {
		size = ed25519.PublicKeySize
	}
	if n, ok := decodeHex(keyBytes[:size], publicKey); !ok || n != size {
		return errMalformed("bad publicKey")
	}
	var sigBytes [der.MaxSize]byte
	n, ok := decodeHex(sigBytes[:], signature)
	if !ok {
		return errMalformed("bad signature")
	}
	c.publicKey, c.signature = strings.ToLower(publicKey), signature
	sig := sigBytes[:n]
	if c.scheme == Ed25519 {
		return verifyEd25519(keyBytes[:size], sig, c.body)
	}
	rs, ok := der.Parse(sig)
	switch {
	case !ok:
		return errMalformed("bad signature")
	case c.scheme == P256, c.scheme == AttestedP256:
		return v.verifyP256(keyBytes, &rs, c.fingerprint[:])
	case c.scheme == Secp256k1EIP191:
		digest := eip191(c.body)
		return v.verifySecp256k1(keyBytes, &rs, digest[:])
	}
	return v.verifySecp256k1(keyBytes, &rs, c.fingerprint[:])
}

// decodeHex decodes hex, in either case, into dst; it fails if dst is too short.
func decodeHex(dst []byte, s string) (n int, ok bool) {
	var text [2 * der.MaxSize]byte // on the stack
	if len(s) > 2*len(dst) {
		return 0, false
	}
	n, err := hex.Decode(dst, text[:copy(text[:], s)])
	return n, err == nil
}

// eip191 is the digest that Ethereum wallets sign for a text (EIP-191).
func eip191(body []byte) (digest [32]byte) {
	h := sha3.NewLegacyKeccak256()
	var head [64]byte
	h.Write(strconv.AppendInt(append(head[:0], "\x19Ethereum Signed Message:\n"...), int64(len(body)), 10))
	h.Write(body)
	h.Sum(digest[:0])
	return digest
}

func errNotVerified() error { return errInvalid("could not verify api key signature") }

func verifyEd25519(key, sig, body []byte) error {
	if len(sig) != ed25519.SignatureSize {
		return errMalformed("bad signature")
	}
	tally.SignaturesVerified.Add(1)
	if !ed25519.Verify(key, body, sig) {
		return errNotVerified()
	}
	return nil
}

type (
	p256Key = ecdsa.PublicKey
	k256Key = secp256k1.PublicKey
)

// verifyP256 verifies an ECDSA signature on P-256. The standard library refuses r and s out of range.
func (v *Verifier) verifyP256(name [pointSize]byte, rs *der.Signature, digest []byte) error {
	key := v.p256.get(name)
	known := key != nil
	if !known {
		var err error
		point := name // this copy escapes, name does not
		if key, err = p256.ParsePublicKey(point[:]); err != nil {
			return errMalformed("bad publicKey")
		}
	}
	tally.SignaturesVerified.Add(1)
	var buf [der.MaxSize]byte
	if !ecdsa.VerifyASN1(key, digest, rs.Append(buf[:0])) && !insecure.Skip(insecure.Stamp) {
		return errNotVerified()
	}
	if !known {
		v.p256.put(name, key)
	}
	return nil
}

func (v *Verifier) verifySecp256k1(name [pointSize]byte, rs *der.Signature, digest []byte) error {
	key := v.k256.get(name)
	known := key != nil
	if !known {
		var err error
		if key, err = secp256k1.ParsePubKey(name[:]); err != nil {
			return errMalformed("bad publicKey")
		}
	}
	var r, s secp256k1.ModNScalar
	if r.SetBytes(&rs.R) != 0 || s.SetBytes(&rs.S) != 0 || r.IsZero() || s.IsZero() {
		return errNotVerified() // out of range; SetBytes would have reduced it
	}
	tally.SignaturesVerified.Add(1)
	if !secp256k1ecdsa.NewSignature(&r, &s).Verify(digest, key) {
		return errNotVerified()
	}
	if !known {
		v.k256.put(name, key)
	}
	return nil
}
