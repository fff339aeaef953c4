package login

import (
	"encoding/base64"
	"net/url"
	"strings"

	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
)

// An OAuth2Provider is one that tells who somebody is only to the holder of an
// access token.
type OAuth2Provider struct {
	// Name is as the interface has it.
	Name string
	// TokenURL and UserURL are where codes become access tokens, and where these
	// say whose they are. A simulator may put others in their place.
	TokenURL, UserURL string

	prefix  string // of subjects
	wrapped bool   // the user stands in the member data
}

var oauth2Providers = [...]OAuth2Provider{
	{Name: "OAUTH2_PROVIDER_X", TokenURL: "https://api.x.com/2/oauth2/token", UserURL: "https://api.x.com/2/users/me", prefix: "x:", wrapped: true},
	{Name: "OAUTH2_PROVIDER_DISCORD", TokenURL: "https://discord.com/api/v10/oauth2/token", UserURL: "https://discord.com/api/v10/users/@me", prefix: "discord:"},
}

// OAuth2ProviderOf finds a provider by its name.
func OAuth2ProviderOf(name string) (OAuth2Provider, bool) {
	for _, p := range oauth2Providers {
		if p.Name == name {
			return p, true
		}
	}
	return OAuth2Provider{}, false
}

// A Request is one HTTP request. Its header and body may hold secrets: Wipe it when
// it is sent.
type Request struct {
	Method, URL string
	Header      []HeaderField
	Body        []byte
}

// A HeaderField is a field of a request's header, without line breaks.
type HeaderField struct {
	Name  string
	Value []byte
}

// Wipe overwrites what may be secret.
func (r *Request) Wipe() {
	for i := range r.Header {
		clear(r.Header[i].Value)
	}
	clear(r.Body)
}

// A Code is what somebody brings back from a provider's page, and what it was asked
// for with.
type Code struct{ AuthCode, RedirectURI, CodeVerifier, Nonce string }

// Check bounds a code. The errors are *fault.Error.
func (c *Code) Check() error {
	for _, m := range []struct {
		name, field, value string
		most               int
	}{{"auth_code", "authCode", c.AuthCode, 4096}, {"redirect_uri", "redirectUri", c.RedirectURI, MaxURL},
		{"code_verifier", "codeVerifier", c.CodeVerifier, 128}, {"nonce", "nonce", c.Nonce, maxNonce}} {
		switch {
		case m.value == "":
			return fault.Field(m.field, "%s must be set", m.name)
		case len(m.value) > m.most || !visible(m.value):
			return fault.Field(m.field, "must be at most %d visible ASCII characters", m.most)
		}
	}
	// RFC 7636: 43 to 128 unreserved characters.
	if len(c.CodeVerifier) < 43 || strings.ContainsFunc(c.CodeVerifier, func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~", r)
	}) {
		return fault.Field("codeVerifier", "must be 43 to 128 letters, digits, and - . _ ~")
	}
	return nil
}

// visible tells whether s is ASCII without spaces and controls.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// Exchange is the request that turns a code into an access token. Client id and
// secret go into basic authentication, as both providers have it of clients with a
// secret, each in the form encoding that RFC 6749 demands.
func (p *OAuth2Provider) Exchange(c *Code, clientID string, secret secret.Secret) (*Request, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if clientID == "" || len(clientID) > maxName || !visible(clientID) {
		return nil, fault.Field("clientId", "client_id must be set")
	}
	r := &Request{Method: "POST", URL: p.TokenURL, Body: []byte("grant_type=authorization_code&code=" + url.QueryEscape(c.AuthCode) +
		"&redirect_uri=" + url.QueryEscape(c.RedirectURI) + "&code_verifier=" + url.QueryEscape(c.CodeVerifier))}
	var basic []byte
	secret.Use(func(b []byte) {
		if len(b) == 0 {
			return
		}
		pair := appendForm(append(appendForm(make([]byte, 0, 3*(len(clientID)+len(b))+1), []byte(clientID)), ':'), b)
		basic = make([]byte, 0, len("Basic ")+base64.StdEncoding.EncodedLen(len(pair)))
		basic = base64.StdEncoding.AppendEncode(append(basic, "Basic "...), pair)
		clear(pair)
	})
	if basic == nil {
		return nil, fault.WithCode(fault.FailedPrecondition, "OAUTH2_PROVIDER_NOT_CONFIGURED", "the OAuth 2.0 credential has no client secret")
	}
	r.Header = append(requestFields(), HeaderField{"Content-Type", []byte("application/x-www-form-urlencoded")}, HeaderField{"Authorization", basic})
	return r, nil
}

func requestFields() []HeaderField {
	return []HeaderField{{"Accept", []byte("application/json")}, {"User-Agent", []byte("cloister")}}
}

// appendForm is url.QueryEscape for secrets: without strings, into room that is
// there.
func appendForm(dst, b []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range b {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == '~':
			dst = append(dst, c)
		case c == ' ':
			dst = append(dst, '+')
		default:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

// AccessToken reads the answer to Exchange. It is the access token's holder who
// owns it, so it comes as a Secret.
func (p *OAuth2Provider) AccessToken(status int, body []byte) (secret.Secret, error) {
	o, err := p.answer(status, body)
	if err != nil {
		return secret.Secret{}, err
	}
	kind, _, ok := o.text("token_type")
	if !ok || !strings.EqualFold(kind, "Bearer") {
		return secret.Secret{}, p.errUnusable()
	}
	token, ok := o.name("access_token", maxAccess)
	if !ok || !visible(token) {
		return secret.Secret{}, p.errUnusable()
	}
	return secret.From([]byte(token))
}

// WhoAmI is the request that asks whose an access token is.
func (p *OAuth2Provider) WhoAmI(token secret.Secret) *Request {
	var bearer []byte
	token.Use(func(b []byte) { bearer = append(append(make([]byte, 0, len("Bearer ")+len(b)), "Bearer "...), b...) })
	return &Request{Method: "GET", URL: p.UserURL, Header: append(requestFields(), HeaderField{"Authorization", bearer})}
}

// Subject reads the answer to WhoAmI: the provider's prefix and the user's number.
func (p *OAuth2Provider) Subject(status int, body []byte) (string, error) {
	o, err := p.answer(status, body)
	if err != nil {
		return "", err
	}
	if p.wrapped {
		var ok bool
		if o, ok = parseObject(o["data"], fetchedLimits); !ok {
			return "", p.errUnusable()
		}
	}
	id, ok := o.name("id", 32)
	if !ok || strings.Trim(id, "0123456789") != "" {
		return "", p.errUnusable()
	}
	return p.prefix + id, nil
}

// answer reads the object that a provider answered. What it says of an error does
// not go on to the user: it may repeat what was sent.
func (p *OAuth2Provider) answer(status int, body []byte) (object, error) {
	switch {
	case status == 400 || status == 401 || status == 403:
		return nil, fault.New(fault.InvalidArgument, "%s refused the authorization code, or the client id and secret", p.Name)
	case status != 200 || len(body) > MaxAnswer:
		return nil, p.errUnusable()
	}
	o, ok := parseObject(body, fetchedLimits)
	if !ok {
		return nil, p.errUnusable()
	}
	return o, nil
}

func (p *OAuth2Provider) errUnusable() error {
	return fault.New(fault.Unavailable, "%s gave an answer that cannot be used; try again", p.Name)
}

// EncryptBearerToken encrypts an access token for a client as a credential bundle.
func EncryptBearerToken(field, targetPublicKey string, token secret.Secret) (string, error) {
	to, err := bundle.ParsePublicKey(field, targetPublicKey)
	if err != nil {
		return "", err
	}
	return bundle.SealCompact(to, token)
}
