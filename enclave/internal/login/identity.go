package login

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
)

// An IdentityToken is an identity token that the enclave issues, for a provider that has only
// OAuth 2.0.
type IdentityToken struct {
	Issuer   string // ours
	Audience string // the client id at the provider
	Subject  string // such as x:123
	Nonce    string // as the client gave it
	IssuedMs uint64
	// ExpiresMs is when it ends, rounded down to a whole second in the token.
	ExpiresMs uint64
	// EncryptedBearerToken is the provider's access token, encrypted to the client as a
	// credential bundle; empty for none.
	EncryptedBearerToken string
}

// IssueIdentityToken makes the token's text: ES256, verified with our key set.
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
	return by.token(`{"alg":"ES256","typ":"JWT","kid":"`+by.public.ID()+`"}`, p, sha256.Sum256)
}

// An Unverified is an identity token in which nothing is proven. Before Verify it serves only
// to find the issuer's keys.
type Unverified struct {
	field  string
	token  *jws
	issuer string
}

// algorithms of identity tokens. There is no none, and no HMAC, whose key could be a public one.
var algorithms = []string{"RS256", "ES256", "PS256", "EdDSA"}

// ParseIdentityToken reads an identity token. Its errors and those of the Unverified are
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
	return &Unverified{field, t, CanonicalIssuer(iss)}, nil
}

// issuerNames are other names that issuers document as theirs: for Google's, "Verify the Google ID token on your server side".
var issuerNames = map[string]string{"accounts.google.com": "https://accounts.google.com"}

// CanonicalIssuer is the name under which an issuer publishes its keys, for any name that is its own. Identities are kept
// under that one.
func CanonicalIssuer(name string) string {
	if known, ok := issuerNames[name]; ok {
		return known
	}
	return name
}

// Issuer is the issuer that the token names.
func (u *Unverified) Issuer() string { return u.issuer }

// KnownTo tells whether a key set has a key that may have signed the token. If not, the issuer
// may have a new key.
func (u *Unverified) KnownTo(s *KeySet) bool { return len(s.candidates(u.token)) > 0 }

// An Identity is a verified statement of an issuer about somebody.
type Identity struct {
	Issuer, Subject     string
	Audiences           []string
	Email               string // empty if the issuer gives none
	EmailVerified       bool
	IssuedMs, ExpiresMs uint64

	nonce, tknonce string
}

// Attempt names the attempt to log in that the token is of: all tokens that are bound to one key in one way have the same. It
// is not the token's text, which can be spelt anew.
func (i *Identity) Attempt() [32]byte {
	return sha256.Sum256([]byte(i.nonce + "," + i.tknonce))
}

// Attempt is what Identity.Attempt will be, if the token is true.
func (u *Unverified) Attempt(nowMs uint64) (attempt [32]byte, err error) {
	i, err := u.read(nowMs)
	if err != nil {
		return attempt, err
	}
	return i.Attempt(), nil
}

// Verify verifies the token's signature with the keys that the caller has fetched from Issuer,
// and its times within Skew. For and BoundTo tell for whom and for which key the token is.
func (u *Unverified) Verify(s *KeySet, nowMs uint64) (*Identity, error) {
	switch keys := s.candidates(u.token); {
	case len(keys) == 0:
		return nil, NoIssuerKey(u.field)
	case len(keys) > 1 && u.token.kid == "":
		return nil, errOIDC(u.field, "it has no kid, and the issuer has more than one key for its algorithm")
	case len(keys) > maxTried:
		return nil, errOIDC(u.field, "the issuer has more than "+strconv.Itoa(maxTried)+" keys of its key id")
	case !slices.ContainsFunc(keys, func(k *issuerKey) bool { return k.verify(u.token) }):
		return nil, errOIDC(u.field, "its signature does not verify")
	}
	return u.read(nowMs)
}

// Claims are the subject and the audiences that a well-formed token names in time. Nothing of
// it is proven: it tells whether the token can mean anybody, before the issuer's keys are
// fetched.
func (u *Unverified) Claims(nowMs uint64) (subject string, audiences []string, err error) {
	i, err := u.read(nowMs)
	if err != nil {
		return "", nil, err
	}
	return i.Subject, i.Audiences, nil
}

// Says is what the token says of itself, proven or not and whatever the time is: for readers.
func (u *Unverified) Says() (*Identity, error) {
	i, _, err := u.claims()
	return i, err
}

// claims reads the claims, and the time before which the token is not valid.
func (u *Unverified) claims() (who *Identity, notBefore uint64, err error) {
	c := u.token.claims
	i := &Identity{Issuer: u.issuer}
	var ok bool
	if i.Subject, ok = c.name("sub", maxSubject); !ok {
		return nil, 0, errOIDC(u.field, "it has no sub")
	}
	if i.Audiences, ok = c.audiences(); !ok {
		return nil, 0, errOIDC(u.field, "it has no aud")
	}
	for _, at := range []struct {
		name   string
		wanted bool
		into   *uint64
	}{{"exp", true, &i.ExpiresMs}, {"iat", true, &i.IssuedMs}, {"nbf", false, &notBefore}} {
		switch _, there := c[at.name]; {
		case at.wanted && !c.hasMember(at.name):
			return nil, 0, errOIDC(u.field, "it has no "+at.name)
		case !there:
			continue
		}
		if *at.into, ok = c.seconds(at.name); !ok {
			return nil, 0, errOIDC(u.field, "its "+at.name+" is no number of seconds since 1970")
		}
	}
	for name, into := range map[string]*string{"nonce": &i.nonce, "tknonce": &i.tknonce} {
		if *into, ok = c.text(name); !ok {
			return nil, 0, errOIDC(u.field, "it has a bad "+name)
		}
	}
	i.Email, _ = c.name("email", maxContact)
	i.EmailVerified = i.Email != "" && string(c["email_verified"]) == "true"
	return i, notBefore, nil
}

// read reads the claims, proven or not, and checks the times.
func (u *Unverified) read(nowMs uint64) (*Identity, error) {
	i, notBefore, err := u.claims()
	if err != nil {
		return nil, err
	}
	switch {
	case nowMs >= i.ExpiresMs+Skew:
		return nil, errOIDC(u.field, "it has expired")
	case i.IssuedMs > nowMs+Skew:
		return nil, errOIDC(u.field, "it is of the future")
	case notBefore > nowMs+Skew:
		return nil, errOIDC(u.field, "it is not valid yet")
	}
	return i, nil
}

// audiences reads aud, a string or an array.
func (o object) audiences() ([]string, bool) {
	if one, ok := o.name("aud", maxName); ok {
		return []string{one}, true
	}
	items, ok := o["aud"].Array()
	if !ok || len(items) == 0 || len(items) > maxAudiences {
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

// BoundTo tells whether the token was requested for a key: its nonce or tknonce is the key's
// Nonce.
func (i *Identity) BoundTo(publicKey string) bool {
	if i == nil || publicKey == "" {
		return false
	}
	want := []byte(Nonce(publicKey))
	return subtle.ConstantTimeCompare([]byte(i.nonce), want)|subtle.ConstantTimeCompare([]byte(i.tknonce), want) == 1
}

// Nonce is lower-case hex of SHA-256 of a public key's text, which clients give in 66 lower-case
// hex digits.
func Nonce(publicKey string) string {
	sum := sha256.Sum256([]byte(publicKey))
	return hex.EncodeToString(sum[:])
}
