package login

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"cloister/enclave/internal/der"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// ClientSignatureScheme is the one scheme of client signatures.
const ClientSignatureScheme = "CLIENT_SIGNATURE_SCHEME_API_P256"

// A ClientSignature says what a verification token is to be used for. The key that the token is
// bound to signs the text of the message as it came.
type ClientSignature struct {
	PublicKey string `json:"publicKey" rule:"required"`
	Scheme    string `json:"scheme" rule:"required"`
	Message   string `json:"message" rule:"required"`
	Signature string `json:"signature" rule:"required"`
}

// A Usage is the member of the message that describes a sign-up.
type Usage string

// The usages.
const (
	SignupV1 Usage = "signup"   // up to CREATE_SUB_ORGANIZATION_V7
	SignupV2 Usage = "signupV2" // since V8
)

// A Signup is the user in a request for a sub-organization: JSON arrays with members in
// camelCase, empty or null for none, and contacts.
type Signup struct {
	APIKeys, Authenticators, OauthProviders []byte
	Email, PhoneNumber                      string
}

// verifyLogin tells whether t's key has signed for a session of publicKey. Errors are
// *fault.Error about field.
func (s *ClientSignature) verifyLogin(field string, t *VerificationToken, publicKey string) error {
	m, err := s.verify(field, t)
	if err != nil {
		return err
	}
	switch {
	case m.Type != "USAGE_TYPE_LOGIN" || m.Login == nil || m.SignupV1 != nil || m.SignupV2 != nil:
		return mismatch(field, "the message is not about a login")
	case publicKey == "" || !strings.EqualFold(m.Login.PublicKey, publicKey):
		return mismatch(field, "the message names another publicKey than the request")
	}
	return nil
}

// verifySignup tells whether t's key has signed for exactly this user. Arrays and contacts are
// compared as JSON values; null and the empty array count as absent. Errors are *fault.Error
// about field.
func (s *ClientSignature) verifySignup(field string, t *VerificationToken, u Usage, want *Signup) error {
	m, err := s.verify(field, t)
	if err != nil {
		return err
	}
	got, other := m.SignupV1, m.SignupV2
	if u == SignupV2 {
		got, other = other, got
	}
	if m.Type != "USAGE_TYPE_SIGNUP" || m.Login != nil || got == nil || other != nil {
		return mismatch(field, "the message is not about a sign-up in the form of "+string(u))
	}
	for _, c := range []struct {
		name      string
		got, want []byte
	}{{"apiKeys", got.APIKeys, want.APIKeys}, {"authenticators", got.Authenticators, want.Authenticators},
		{"oauthProviders", got.OauthProviders, want.OauthProviders}} {
		if !equalJSON(c.got, c.want) {
			return mismatch(field, "the message has other "+c.name+" than the request")
		}
	}
	if got.Email != want.Email || got.PhoneNumber != want.PhoneNumber {
		return mismatch(field, "the message has another contact than the request")
	}
	return nil
}

func mismatch(field, why string) error {
	return fault.Field(field, "invalid client signature: %s", why)
}

type message struct {
	Login *struct {
		PublicKey string `json:"publicKey" rule:"required"`
	} `json:"login"`
	SignupV1 *signupMessage `json:"signup"`
	SignupV2 *signupMessage `json:"signupV2"`
	TokenID  string         `json:"tokenId" rule:"required"`
	Type     string         `json:"type" rule:"required"`
}

type signupMessage struct {
	APIKeys        strictjson.Raw `json:"apiKeys"`
	Authenticators strictjson.Raw `json:"authenticators"`
	OauthProviders strictjson.Raw `json:"oauthProviders"`
	Email          string         `json:"email"`
	PhoneNumber    string         `json:"phoneNumber"`
}

// verify verifies the signature under t's key, and that the message names t.
func (s *ClientSignature) verify(field string, t *VerificationToken) (*message, error) {
	switch {
	case s.Scheme != ClientSignatureScheme:
		return nil, mismatch(field, "unknown scheme")
	case !t.BoundTo(s.PublicKey):
		return nil, mismatch(field, "publicKey is not the key of the verification token")
	case len(s.Message) > MaxMessage:
		return nil, mismatch(field, "the message is too long")
	}
	key, err := ParsePublicKey(field, s.PublicKey)
	if err != nil {
		return nil, err
	}
	if !verifyHex(key, []byte(s.Message), s.Signature) {
		return nil, mismatch(field, "it does not verify")
	}
	m := new(message)
	if strictjson.Decode([]byte(s.Message), m, strictjson.Within(messageLimits)) != nil {
		return nil, mismatch(field, "the message is malformed")
	}
	if m.TokenID != t.ID {
		return nil, mismatch(field, "the message is about another verification token")
	}
	return m, nil
}

// verifyHex takes r and s in 128 digits, or DER.
func verifyHex(key PublicKey, message []byte, text string) bool {
	var b [der.MaxSize]byte
	if len(text) > 2*len(b) {
		return false
	}
	n, err := hex.Decode(b[:], []byte(text))
	if err != nil {
		return false
	}
	digest := sha256.Sum256(message)
	return key.verify(digest, b[:n]) || key.key != nil && ecdsa.VerifyASN1(key.key, digest[:], b[:n])
}

// verifyBare verifies a signature given as a mere string, over the text of the verification
// token t. It does not say which session it is for, so publicKey, the session's key, must have
// made it, and must be the key that the token is bound to, if any. Errors are *fault.Error about
// field.
func verifyBare(field, signature, tokenText string, t *VerificationToken, publicKey string) error {
	if t.PublicKey != "" && !t.BoundTo(publicKey) {
		return mismatch(field, "publicKey is not the key of the verification token")
	}
	key, err := ParsePublicKey("publicKey", publicKey)
	if err != nil {
		return err
	}
	if !verifyHex(key, []byte(tokenText), signature) {
		return mismatch(field, "it does not verify")
	}
	return nil
}

// equalJSON compares two values, numbers by their text; null, [] and nothing are equal. strictjson
// has read or written both.
func equalJSON(a, b strictjson.Raw) bool {
	if none(a) || none(b) {
		return none(a) && none(b)
	}
	if x, ok := a.Array(); ok {
		y, ok := b.Array()
		return ok && slices.EqualFunc(x, y, equalJSON)
	}
	if x, ok := a.Text(); ok {
		y, ok := b.Text()
		return ok && x == y
	}
	x, ok := a.Object()
	if !ok {
		return bytes.Equal(a, b) && strictjson.Decode(a, new(strictjson.Raw)) == nil
	}
	y, ok := b.Object()
	for name, v := range x {
		ok = ok && equalJSON(v, y[name])
	}
	for name, v := range y {
		_, there := x[name]
		ok = ok && (there || none(v))
	}
	return ok
}

// none tells whether a value counts as absent.
func none(v strictjson.Raw) bool {
	items, ok := v.Array()
	return len(v) == 0 || string(v) == "null" || ok && len(items) == 0
}
