package login

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"slices"
)

// An IdentityToken is one that the enclave issues itself, for a provider that has
// only OAuth 2.0.
type IdentityToken struct {
	Issuer   string // ours
	Audience string // the client id at the provider
	Subject  string // such as x:123
	Nonce    string // as the client gave it
	IssuedMs uint64
	// ExpiresMs is when it ends; the token says the whole second before that.
	ExpiresMs uint64
	// EncryptedBearerToken is the provider's access token, encrypted to the client
	// as a credential bundle; empty for none.
	EncryptedBearerToken string
}

// IssueIdentityToken makes the token's text, an ordinary ES256 token that anybody
// can verify with our key set.
func IssueIdentityToken(by *Signer, t *IdentityToken) (string, error) {
	if t.Issuer == "" || t.Audience == "" || t.Subject == "" || t.ExpiresMs < 1000 {
		return "", errors.New("an identity token that lacks something")
	}
	var p payload
	p = p.text("iss", t.Issuer).text("aud", t.Audience).text("sub", t.Subject)
	if t.Nonce != "" {
		p = p.text("nonce", t.Nonce)
	}
	p = p.number("iat", t.IssuedMs/1000).number("exp", t.ExpiresMs/1000)
	if t.EncryptedBearerToken != "" {
		p = p.text("encrypted_bearer_token", t.EncryptedBearerToken)
	}
	return by.token(`{"alg":"ES256","typ":"JWT","kid":"`+by.public.ID()+`"}`, p, digest)
}

// An Unverified is an identity token of which nothing is proven. It serves to find
// the issuer's keys, and nothing else before Verify.
type Unverified struct {
	field  string
	token  *jws
	issuer string
}

// algorithms of identity tokens. HMAC is not among them, whose key would be one
// that everybody may know, nor is none.
var algorithms = []string{"RS256", "ES256", "PS256", "EdDSA"}

// ParseIdentityToken reads an identity token. The errors of this and of Verify are
// *fault.Error about field.
func ParseIdentityToken(field, text string) (*Unverified, error) {
	t, err := parseJWS(text)
	if err != nil {
		return nil, errOIDC(field, err.Error())
	}
	if !slices.Contains(algorithms, t.alg) {
		return nil, errOIDC(field, "alg must be RS256, ES256, PS256 or EdDSA")
	}
	iss, ok := t.claims.name("iss", maxName)
	if !ok {
		return nil, errOIDC(field, "it has no iss")
	}
	return &Unverified{field, t, iss}, nil
}

// Issuer is who the token says has issued it.
func (u *Unverified) Issuer() string { return u.issuer }

// KnownTo tells whether a key set has a key that may have signed the token. If not
// the issuer may have a new one: see MayFetch.
func (u *Unverified) KnownTo(s *KeySet) bool { return len(s.candidates(u.token)) > 0 }

// An Identity is what an issuer asserts of somebody, verified.
type Identity struct {
	Issuer, Subject string
	Audiences       []string
	// Email and EmailVerified are as the issuer has them, empty and false if it has
	// not.
	Email               string
	EmailVerified       bool
	IssuedMs, ExpiresMs uint64

	nonce, tknonce string
}

// Verify holds the token against the keys of its issuer: who calls it has fetched
// them from Issuer. The signature, and the times with a minute's tolerance, are
// judged here; whether the token is for us, and for which key, by For and BoundTo.
func (u *Unverified) Verify(s *KeySet, nowMs uint64) (*Identity, error) {
	switch keys := s.candidates(u.token); {
	case len(keys) == 0:
		return nil, NoIssuerKey(u.field)
	case len(keys) > 1:
		return nil, errOIDC(u.field, "the issuer has more than one key for it")
	case !keys[0].verify(u.token):
		return nil, errOIDC(u.field, "its signature does not verify")
	}
	return u.read(nowMs)
}

// Claims are of whom and for whom the token says it is, if it is well formed and in
// time. Nothing of it is proven: it serves to find out whether anybody is meant at
// all before the issuer's keys are fetched. The errors are those of Verify.
func (u *Unverified) Claims(nowMs uint64) (subject string, audiences []string, err error) {
	i, err := u.read(nowMs)
	if err != nil {
		return "", nil, err
	}
	return i.Subject, i.Audiences, nil
}

// read takes the claims apart, as if they were proven.
func (u *Unverified) read(nowMs uint64) (*Identity, error) {
	c := u.token.claims
	i := &Identity{Issuer: u.issuer}
	var there, ok bool
	if i.Subject, ok = c.name("sub", maxSubject); !ok {
		return nil, errOIDC(u.field, "it has no sub")
	}
	if i.Audiences, ok = c.audiences(); !ok {
		return nil, errOIDC(u.field, "it has no aud")
	}
	if i.ExpiresMs, there, ok = c.seconds("exp"); !there || !ok {
		return nil, errOIDC(u.field, "it has no exp")
	}
	if i.IssuedMs, there, ok = c.seconds("iat"); !there || !ok {
		return nil, errOIDC(u.field, "it has no iat")
	}
	notBefore, _, ok := c.seconds("nbf")
	switch {
	case !ok:
		return nil, errOIDC(u.field, "it has a bad nbf")
	case nowMs >= i.ExpiresMs+Skew:
		return nil, errOIDC(u.field, "it has expired")
	case i.IssuedMs > nowMs+Skew:
		return nil, errOIDC(u.field, "it is of the future")
	case notBefore > nowMs+Skew:
		return nil, errOIDC(u.field, "it is not valid yet")
	}
	for name, into := range map[string]*string{"nonce": &i.nonce, "tknonce": &i.tknonce} {
		if *into, _, ok = c.text(name); !ok {
			return nil, errOIDC(u.field, "it has a bad "+name)
		}
	}
	i.Email, _ = c.name("email", maxContact)
	i.EmailVerified = i.Email != "" && string(c["email_verified"]) == "true"
	return i, nil
}

// audiences are those of a string or an array.
func (o object) audiences() ([]string, bool) {
	if one, ok := o.name("aud", maxName); ok {
		return []string{one}, true
	}
	items, there, ok := o.array("aud")
	if !there || !ok || len(items) == 0 || len(items) > maxAudiences {
		return nil, false
	}
	all := make([]string, len(items))
	for i := range items {
		if all[i], ok = (object{"aud": items[i]}).name("aud", maxName); !ok {
			return nil, false
		}
	}
	return all, true
}

// For tells whether the token is for an audience.
func (i *Identity) For(audience string) bool {
	return audience != "" && slices.Contains(i.Audiences, audience)
}

// BoundTo tells whether the token was asked for with a key in mind: its nonce or
// tknonce is the key's Nonce.
func (i *Identity) BoundTo(publicKey string) bool {
	if i == nil || publicKey == "" {
		return false
	}
	want := []byte(Nonce(publicKey))
	return subtle.ConstantTimeCompare([]byte(i.nonce), want)|subtle.ConstantTimeCompare([]byte(i.tknonce), want) == 1
}

// Nonce is lower-case hex of SHA-256 of a public key's text, which clients give as
// 66 lower-case hex digits.
func Nonce(publicKey string) string {
	sum := sha256.Sum256([]byte(publicKey))
	return hex.EncodeToString(sum[:])
}
