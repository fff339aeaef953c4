// Package idp is the simulator's identity provider: a small OpenID provider for trying OAuth on a laptop
// without an account anywhere. It lets everybody be whoever they say, so nothing that matters may trust it.
//
// Below its issuer URL it has discovery, keys, an authorization endpoint with a sign-in page, the
// code flow with PKCE, identity tokens without a code as wallet kits ask for them, and userinfo.
// It also has the endpoints of two providers that know only OAuth 2.0, in the shape of X and
// Discord, and one that makes any token for scripts.
package idp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloister/sim/loopback"
)

// Config is what a Provider is made of.
type Config struct {
	Issuer string // its URL, without a slash at the end
	Keys   *Keys
	Now    func() time.Time
	// RedirectURIs are where codes and tokens may go besides loopback.
	RedirectURIs []string
	// Clients are client ids with the secret that each must give. Others may be used
	// as well, with any secret.
	Clients map[string]string
}

// A Provider is an identity provider.
type Provider struct {
	Config
	path   string // of the issuer: the pages work under each name of this machine
	grants *grants
}

// New checks the configuration and makes a provider.
func New(c Config) (*Provider, error) {
	u, err := url.Parse(c.Issuer)
	if err != nil || u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(c.Issuer, "/") {
		return nil, fmt.Errorf("%q is no issuer", c.Issuer)
	}
	for _, r := range c.RedirectURIs {
		if u, err := url.Parse(r); err != nil || u.Scheme == "" || u.Fragment != "" || !plain(r) {
			return nil, fmt.Errorf("%q is no redirect URI", r)
		}
	}
	return &Provider{c, u.Path, &grants{now: c.Now, codes: map[string]*grant{}, tokens: map[string]*grant{}}}, nil
}

// plain tells whether a URI has only characters that stand for themselves in a header.
func plain(s string) bool {
	return s != "" && len(s) <= maxURI && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"'<>;,\`, c) })
}

// oauth2 are the providers without identity tokens: the paths below the issuer and
// what the interface calls them.
var oauth2 = [...]*flavour{{"x", "X"}, {"discord", "Discord"}}

// A flavour is one of them.
type flavour struct{ path, title string }

// An Endpoint is where a provider without identity tokens is asked.
type Endpoint struct{ Authorize, Token, User string }

// X and Discord are the endpoints that stand for theirs.
func (p *Provider) X() Endpoint       { return p.endpoint(oauth2[0]) }
func (p *Provider) Discord() Endpoint { return p.endpoint(oauth2[1]) }

func (p *Provider) endpoint(f *flavour) Endpoint {
	at := p.Issuer + "/" + f.path
	return Endpoint{at + "/authorize", at + "/token", at + "/users/me"}
}

// Handler serves everything below the issuer's path, which it expects cut off.
func (p *Provider) Handler() http.Handler {
	m := http.NewServeMux()
	for pattern, h := range map[string]http.HandlerFunc{"GET /.well-known/openid-configuration": p.discovery, "GET /jwks": p.jwks, "GET /userinfo": p.userinfo, "POST /token": p.token(nil)} {
		_, path, _ := strings.Cut(pattern, " ")
		m.HandleFunc(pattern, open(h))
		m.HandleFunc("OPTIONS "+path, open(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	}
	m.HandleFunc("GET /authorize", p.authorize(nil))
	m.Handle("POST /authorize", loopback.SameOrigin(p.signIn(nil)))
	m.HandleFunc("GET /style.css", style)
	m.Handle("POST /issue", loopback.SameOrigin(http.HandlerFunc(p.issue)))
	for _, f := range oauth2 {
		m.HandleFunc("GET /"+f.path+"/authorize", p.authorize(f))
		m.Handle("POST /"+f.path+"/authorize", loopback.SameOrigin(p.signIn(f)))
		m.HandleFunc("POST /"+f.path+"/token", p.token(f))
		m.HandleFunc("GET /"+f.path+"/users/me", p.me(f))
	}
	return m
}

// open lets pages of any origin read an answer, as they may of every provider's. None of it goes by cookies.
func open(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "authorization, content-type",
			"Access-Control-Allow-Methods": "GET, POST", "Cross-Origin-Resource-Policy": "cross-origin"} {
			w.Header().Set(name, value)
		}
		h(w, r)
	}
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	loopback.Answer(w, http.StatusOK, map[string]any{
		"issuer": p.Issuer, "authorization_endpoint": p.Issuer + "/authorize", "token_endpoint": p.Issuer + "/token",
		"userinfo_endpoint": p.Issuer + "/userinfo", "jwks_uri": p.Issuer + "/jwks",
		"response_types_supported": []string{"code", "id_token"}, "response_modes_supported": []string{"query", "fragment"},
		"grant_types_supported": []string{"authorization_code", "implicit"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": Algorithms, "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic", "client_secret_post"},
		"scopes_supported":                               []string{"openid", "email", "profile"},
		"claims_supported":                               []string{"iss", "sub", "aud", "exp", "iat", "nonce", "email", "email_verified", "name"},
		"authorization_response_iss_parameter_supported": true,
		"claims_parameter_supported":                     false, "request_parameter_supported": false, "request_uri_parameter_supported": false,
	})
}

func (p *Provider) jwks(w http.ResponseWriter, _ *http.Request) {
	loopback.Answer(w, http.StatusOK, p.Keys.public())
}

// refuse answers an error as RFC 6749, section 5.2, has it.
func refuse(w http.ResponseWriter, status int, code, description string) {
	loopback.Answer(w, status, map[string]string{"error": code, "error_description": description})
}
