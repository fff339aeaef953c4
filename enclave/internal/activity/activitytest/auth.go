package activitytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/enclave/internal/stamp"
)

// ErrNotYet is the error of data that core would fetch before it runs the activity again.
var ErrNotYet = errors.New("not fetched yet")

// providers has the key sets of issuers and the test's results of other services.
type providers struct {
	Sets      map[string]*login.KeySet
	Exchanged func(*activity.Exchange) (*activity.Exchanged, error)
	Found     func(*activity.Image) error
	Session   func(ask func(base string) (*login.Request, error)) (string, error)
	Paid      func(*billing.Question) (*billing.Answer, error)
}

func newProviders() *providers { return &providers{Sets: map[string]*login.KeySet{}} }

// Keys returns the key sets in Sets.
func (o *providers) Keys(field, issuer string, has func(*login.KeySet) bool) (*login.KeySet, error) {
	set := o.Sets[issuer]
	switch {
	case set == nil:
		return nil, ErrNotYet
	case !has(set):
		return nil, login.NoIssuerKey(field)
	}
	return set, nil
}

// Exchange returns the test's result.
func (o *providers) Exchange(x *activity.Exchange) (*activity.Exchanged, error) {
	if o.Exchanged == nil {
		return nil, ErrNotYet
	}
	return o.Exchanged(x)
}

// OnRampSession returns the test's session.
func (o *providers) OnRampSession(ask func(base string) (*login.Request, error)) (string, error) {
	if o.Session == nil {
		return "", ErrNotYet
	}
	return o.Session(ask)
}

// Pay returns the test's answer.
func (o *providers) Pay(q *billing.Question) (*billing.Answer, error) {
	if o.Paid == nil {
		return nil, ErrNotYet
	}
	return o.Paid(q)
}

// Program succeeds unless the test sets an error.
func (o *providers) Program(i *activity.Image) error {
	if o.Found == nil {
		return nil
	}
	return o.Found(i)
}

func newRoles(w *World) *activity.ServiceKeys {
	r := &activity.ServiceKeys{Issuer: "https://cloister.example", Identities: newSigner(w)}
	var err error
	r.ClientSecrets, err = bundle.NewPrivateKey(w.Rand)
	w.Must(err)
	r.OnRamp, err = bundle.NewPrivateKey(w.Rand)
	w.Must(err)
	return r
}

func newSigner(w *World) *login.Signer {
	s, _ := newPair(w)
	return s
}

// BodyOf makes a request's body with a stamp verified by a new key.
func BodyOf(w *World, v any) stamp.Body {
	w.TB.Helper()
	body := JSON(v)
	key, err := ecdsa.GenerateKey(elliptic.P256(), w.Rand)
	w.Must(err)
	digest := sha256.Sum256(body)
	sig, err := ecdsa.SignASN1(w.Rand, key, digest[:])
	w.Must(err)
	header := JSON(Object{"publicKey": hex.EncodeToString(elliptic.MarshalCompressed(elliptic.P256(), key.X, key.Y)), "scheme": stamp.P256.String(), "signature": hex.EncodeToString(sig)})
	c, err := stamp.NewVerifier().Verify([]stamp.Header{{Name: "X-Stamp", Value: base64.RawURLEncoding.EncodeToString(header)}}, body)
	w.Must(err)
	return c.Body()
}

func newPair(w *World) (*login.Signer, *ecdsa.PrivateKey) {
	private, err := bundle.NewPrivateKey(w.Rand)
	w.Must(err)
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secrettest.Bytes(private))
	w.Must(err)
	s, err := login.NewSigner(private)
	w.Must(err)
	return s, key
}

// PublicOf returns the compressed public key of a private one.
func (w *World) PublicOf(private secret.Secret) string {
	s, err := login.NewSigner(private)
	w.Must(err)
	return s.Public().String()
}

// Issuer is an issuer of identity tokens.
type Issuer struct {
	World *World // whose clock it uses
	URL   string
	by    *login.Signer
	key   *ecdsa.PrivateKey
}

// UnknownIssuer makes an issuer whose keys are unknown to the world.
func (w *World) UnknownIssuer(url string) *Issuer {
	by, key := newPair(w)
	return &Issuer{w, url, by, key}
}

// NewIssuer makes an issuer whose keys the world has.
func (w *World) NewIssuer(url string) *Issuer {
	i := w.UnknownIssuer(url)
	w.Providers.Sets[url] = login.KeySetOf(i.by.Public())
	return i
}

// Token issues a token at the present time, with changes.
func (i *Issuer) Token(sub, aud string, change ...func(*login.IdentityToken)) string {
	t := &login.IdentityToken{Issuer: i.URL, Audience: aud, Subject: sub, IssuedMs: i.World.Now, ExpiresMs: i.World.Now + 300_000}
	for _, c := range change {
		c(t)
	}
	text, err := login.IssueIdentityToken(i.by, t)
	i.World.Must(err)
	return text
}

// BoundTo binds a token to a key by its nonce.
func BoundTo(public string) func(*login.IdentityToken) {
	return func(t *login.IdentityToken) { t.Nonce = login.Nonce(public) }
}

// ByToken are the parameters of a provider that an identity token proves.
func ByToken(token string) Object { return Object{"providerName": "p", "oidcToken": token} }

// Base64 is base64url without padding, as in tokens.
func Base64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// Sign signs claims that package login would not issue.
func (i *Issuer) Sign(claims string) string {
	token := i.Token("x", "x")
	head := token[:strings.IndexByte(token, '.')]
	text := head + "." + Base64(claims)
	digest := sha256.Sum256([]byte(text))
	r, sig, err := ecdsa.Sign(i.World.Rand, i.key, digest[:])
	i.World.Must(err)
	var b [64]byte
	r.FillBytes(b[:32])
	sig.FillBytes(b[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(b[:])
}

// FreshP256 returns the compressed public key of a new client.
func (w *World) FreshP256() string {
	k, err := ecdsa.GenerateKey(elliptic.P256(), w.Rand)
	w.Must(err)
	return hex.EncodeToString(elliptic.MarshalCompressed(elliptic.P256(), k.X, k.Y))
}
