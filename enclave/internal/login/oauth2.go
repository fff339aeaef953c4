package login

import (
	"encoding/base64"
	"net/url"
	"strings"

	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
)

// An OAuth2Provider tells who a user is only to the holder of an access token.
type OAuth2Provider struct {
	Name string // OAUTH2_PROVIDER_…
	// TokenURL exchanges codes for access tokens, UserURL tells whose an access token is. A
	// simulator may replace both.
	TokenURL, UserURL string

	prefix  string // of subjects
	wrapped bool   // the answer has the user in the member data
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

// A Request is one HTTP request. Its header and body may hold secrets: Wipe it after sending.
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

// Wipe overwrites header values and body.
func (r *Request) Wipe() {
	for i := range r.Header {
		clear(r.Header[i].Value)
	}
	clear(r.Body)
}

// A Code is what a user brings back from a provider's page, with the parameters of its request.
type Code struct{ AuthCode, RedirectURI, CodeVerifier, Nonce string }

// Check bounds a code. Errors are *fault.Error.
func (c *Code) Check() error {
	for _, m := range []struct {
		name, field, value string
		most               int
	}{{"auth_code", "authCode", c.AuthCode, 4096}, {"redirect_uri", "redirectUri", c.RedirectURI, MaxURL},
		{"code_verifier", "codeVerifier", c.CodeVerifier, 128}, {"nonce", "nonce", c.Nonce, maxNonce}} {
		switch {
		case m.value == "":
			return fault.Field(m.field, "%s must be set", m.name)
		case len(m.value) > m.most || !isVisible(m.value):
			return fault.Field(m.field, "must be at most %d visible ASCII characters", m.most)
		}
	}
	// RFC 7636: 43 to 128 unreserved characters.
	if len(c.CodeVerifier) < 43 || !isAlphanumeric(c.CodeVerifier, unreserved) {
		return fault.Field("codeVerifier", "must be 43 to 128 letters, digits, and - . _ ~")
	}
	return nil
}

// unreserved characters of URLs, besides letters and digits.
const unreserved = "-._~"

// Exchange is the request that turns a code into an access token. Client id and secret go into
// basic authentication, as both providers expect, each in the form encoding that RFC 6749
// demands.
func (p *OAuth2Provider) Exchange(c *Code, clientID string, secret secret.Secret) (*Request, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if clientID == "" || len(clientID) > maxName || !isVisible(clientID) {
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

// appendForm is url.QueryEscape for secrets: it makes no strings, and dst must have room.
func appendForm(dst, b []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range b {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', strings.IndexByte(unreserved, c) >= 0:
			dst = append(dst, c)
		case c == ' ':
			dst = append(dst, '+')
		default:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

// AccessToken reads the answer to Exchange. Whoever holds an access token can use it, so it is a
// Secret.
func (p *OAuth2Provider) AccessToken(status int, body []byte) (secret.Secret, error) {
	o, err := p.answer(status, body)
	if err != nil {
		return secret.Secret{}, err
	}
	kind, _ := o.text("token_type")
	token, ok := o.name("access_token", maxAccess)
	if !ok || !strings.EqualFold(kind, "Bearer") || !isVisible(token) {
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

// answer reads the object that a provider answered. The user does not see the provider's error
// text, which may repeat what was sent.
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

// EncryptBearerToken encrypts an access token to a client as a credential bundle.
func EncryptBearerToken(field, targetPublicKey string, token secret.Secret) (string, error) {
	to, err := bundle.ParsePublicKey(field, targetPublicKey)
	if err != nil {
		return "", err
	}
	return bundle.SealCompact(to, token)
}
