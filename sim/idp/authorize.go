package idp

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Bounds of what is asked.
const (
	maxURI  = 2048 // bytes
	maxText = 1024 // bytes of any other parameter
	maxForm = 1 << 16
	idLife  = 10 * time.Minute // of identity tokens
)

// A request is what an application asks for, checked.
type request struct {
	flavour            *flavour // nil: the OpenID provider
	clientID, redirect string
	kind, mode         string // response_type and response_mode
	state, nonce       string
	challenge          string
	alg                string // of the identity token
	scope              string
}

// A wrong is an error that goes back to the application by redirection.
type wrong struct{ code, description string }

// ask reads a request. Until client and redirect URI are known to be good the
// error is for the person at the browser, and nothing is redirected.
func (p *Provider) ask(f *flavour, q url.Values) (r request, bad *wrong, err error) {
	for name, values := range q {
		if len(values) > 1 || len(values[0]) > maxText && name != "redirect_uri" {
			return r, nil, fmt.Errorf("%.40s is given twice or too long", name)
		}
	}
	r = request{flavour: f, clientID: q.Get("client_id"), redirect: q.Get("redirect_uri"), kind: q.Get("response_type"), mode: q.Get("response_mode"),
		state: q.Get("state"), nonce: q.Get("nonce"), challenge: q.Get("code_challenge"), alg: cmp.Or(q.Get("id_token_signed_response_alg"), Algorithms[0]), scope: q.Get("scope")}
	if r.clientID == "" {
		return r, nil, fmt.Errorf("client_id must be set")
	}
	if !p.mayRedirect(r.redirect) {
		return r, nil, fmt.Errorf("redirect_uri must be set, and be on this machine or registered with -idp-redirect-uris")
	}
	return r, r.wrong(q), nil
}

// wrong tells what the application did wrong, and settles how to tell it.
func (r *request) wrong(q url.Values) *wrong {
	usual := map[string]string{"code": "query", "id_token": "fragment"}[r.kind]
	r.mode = cmp.Or(r.mode, usual)
	switch {
	case usual == "" || r.flavour != nil && r.kind != "code":
		r.mode = "query"
		return &wrong{"unsupported_response_type", "response_type must be code or id_token"}
	case r.mode != usual && (r.mode != "fragment" || r.kind != "code"):
		r.mode = usual
		return &wrong{"invalid_request", "response_mode must be query or fragment, and fragment for id_token"}
	case r.flavour == nil && !slices.Contains(strings.Fields(r.scope), "openid"):
		return &wrong{"invalid_scope", "scope must have openid"}
	case !slices.Contains(Algorithms, r.alg):
		return &wrong{"invalid_request", "id_token_signed_response_alg must be RS256 or ES256"}
	case r.kind == "id_token" && r.nonce == "":
		return &wrong{"invalid_request", "nonce must be set for id_token"}
	case r.kind == "code" && (q.Get("code_challenge_method") != "S256" || len(r.challenge) != 43):
		return &wrong{"invalid_request", "code_challenge must be set, with code_challenge_method S256"}
	case q.Get("prompt") == "none":
		return &wrong{"login_required", "somebody must sign in"}
	}
	return nil
}

// mayRedirect takes registered URIs as they are, and any on this machine.
func (p *Provider) mayRedirect(text string) bool {
	if slices.Contains(p.RedirectURIs, text) {
		return true
	}
	u, err := url.Parse(text)
	if err != nil || !plain(text) || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.Contains(text, "#") || u.Opaque != "" {
		return false
	}
	if port := u.Port(); strings.Trim(port, "0123456789") != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// back is where the browser goes with an answer.
func (r *request) back(v url.Values) string {
	if r.state != "" {
		v.Set("state", r.state)
	}
	join := "?"
	switch {
	case r.mode == "fragment":
		join = "#"
	case strings.Contains(r.redirect, "?"):
		join = "&"
	}
	return r.redirect + join + v.Encode()
}

func (p *Provider) authorize(f *flavour) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if req, ok := p.parseRequest(w, r, f, q); ok {
			p.show(w, &req, q, signInPage{Email: q.Get("login_hint"), Verified: true})
		}
	}
}

// parseRequest reads a request, and answers itself if it is not good.
func (p *Provider) parseRequest(w http.ResponseWriter, r *http.Request, f *flavour, q url.Values) (request, bool) {
	req, bad, err := p.ask(f, q)
	switch {
	case err != nil:
		p.fail(w, err.Error())
	case bad != nil:
		http.Redirect(w, r, req.back(url.Values{"error": {bad.code}, "error_description": {bad.description}}), http.StatusSeeOther)
	default:
		return req, true
	}
	return req, false
}

// signIn takes the form of the sign-in page. Everything that was asked is in its URL, and is checked again.
func (p *Provider) signIn(f *flavour) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		req, ok := p.parseRequest(w, r, f, q)
		if !ok {
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			p.fail(w, "the form cannot be read")
			return
		}
		if r.PostForm.Get("cancel") != "" {
			http.Redirect(w, r, req.back(url.Values{"error": {"access_denied"}, "error_description": {"nobody signed in"}}), http.StatusSeeOther)
			return
		}
		who := person{strings.TrimSpace(r.PostForm.Get("email")), strings.TrimSpace(r.PostForm.Get("name")), r.PostForm.Get("verified") != ""}
		if a, err := mail.ParseAddress(who.email); err != nil || a.Address != who.email || len(who.email) > 255 || len(who.name) > 255 {
			p.show(w, &req, q, signInPage{Email: who.email, Name: who.name, Verified: who.verified, Trouble: "That is not an e-mail address."})
			return
		}
		answer, err := p.grant(&req, who)
		if err != nil {
			p.fail(w, "the token could not be signed")
			return
		}
		http.Redirect(w, r, req.back(answer), http.StatusSeeOther)
	}
}

func (p *Provider) grant(r *request, who person) (url.Values, error) {
	if r.kind == "code" {
		v := url.Values{"code": {p.grants.code(grant{request: *r, who: who})}}
		if r.flavour == nil {
			v.Set("iss", p.Issuer) // RFC 9207
		}
		return v, nil
	}
	token, err := p.identity(r, who)
	return url.Values{"id_token": {token}}, err
}

func (p *Provider) identity(r *request, who person) (string, error) {
	now := p.Now()
	return p.Keys.sign(r.alg, &claims{Issuer: p.Issuer, Subject: who.subject(), Audience: r.clientID, Nonce: r.nonce, IssuedAt: now.Unix(),
		Expires: now.Add(idLife).Unix(), Email: who.email, EmailVerified: &who.verified, Name: who.name})
}
