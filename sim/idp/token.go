package idp

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"cloister/sim/loopback"
)

func (p *Provider) token(f *flavour) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			refuse(w, http.StatusBadRequest, "invalid_request", "the body must be a form")
			return
		}
		client, ok := p.client(r, f)
		if !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="idp"`)
			refuse(w, http.StatusUnauthorized, "invalid_client", "client id or secret is wrong")
			return
		}
		v := r.PostForm
		if v.Get("grant_type") != "authorization_code" {
			refuse(w, http.StatusBadRequest, "unsupported_grant_type", "grant_type must be authorization_code")
			return
		}
		g, ok := p.grants.exchange(f, v.Get("code"), client, v.Get("redirect_uri"), v.Get("code_verifier"))
		if !ok {
			refuse(w, http.StatusBadRequest, "invalid_grant", "the code is not good, or used, or was asked for with another client_id, redirect_uri or code_challenge")
			return
		}
		out := map[string]any{"access_token": g.access, "token_type": "Bearer", "expires_in": int(tokenLife / time.Second), "scope": g.scope}
		if f == nil {
			id, err := p.identity(&g.request, g.who)
			if err != nil {
				refuse(w, http.StatusInternalServerError, "server_error", "the token could not be signed")
				return
			}
			out["id_token"] = id
		}
		loopback.Answer(w, http.StatusOK, out)
	}
}

// client is who asks for a token. Providers without identity tokens have clients
// with secrets only, who give them by basic authentication.
func (p *Provider) client(r *http.Request, f *flavour) (string, bool) {
	id, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if user, password, ok := r.BasicAuth(); ok {
		// RFC 6749, section 2.3.1: each in form encoding.
		a, err := url.QueryUnescape(user)
		b, err2 := url.QueryUnescape(password)
		if err != nil || err2 != nil || id != "" && id != a || secret != "" {
			return "", false
		}
		id, secret = a, b
	} else if f != nil {
		return "", false
	}
	want, known := p.Clients[id]
	switch {
	case id == "":
		return "", false
	case known:
		return id, subtle.ConstantTimeCompare([]byte(secret), []byte(want)) == 1
	}
	return id, f == nil || secret != ""
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

func (p *Provider) signedIn(w http.ResponseWriter, r *http.Request, f *flavour) (person, bool) {
	who, ok := p.grants.personOf(f, bearer(r))
	if !ok {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		refuse(w, http.StatusUnauthorized, "invalid_token", "the access token is not good")
	}
	return who, ok
}

func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	if who, ok := p.signedIn(w, r, nil); ok {
		loopback.Answer(w, http.StatusOK, map[string]any{"sub": who.subject(), "email": who.email, "email_verified": who.verified, "name": who.name})
	}
}

// me says who somebody is as X and Discord have it.
func (p *Provider) me(f *flavour) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, ok := p.signedIn(w, r, f)
		if !ok {
			return
		}
		username, _, _ := strings.Cut(who.email, "@")
		if f.path == "x" {
			loopback.Answer(w, http.StatusOK, map[string]any{"data": map[string]string{"id": who.number(), "name": who.name, "username": username}})
			return
		}
		loopback.Answer(w, http.StatusOK, map[string]any{"id": who.number(), "username": username, "global_name": who.name, "email": who.email, "verified": who.verified})
	}
}

// issue makes any identity token of this issuer, for tests and scripts. No real provider has the like.
func (p *Provider) issue(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Subject       string `json:"sub"`
		Audience      string `json:"aud"`
		Nonce         string `json:"nonce"`
		Email         string `json:"email"`
		EmailVerified bool   `json:"emailVerified"`
		Name          string `json:"name"`
		ExpiresIn     *int64 `json:"expiresIn"` // seconds; 600 if not given, negative for a token that has expired
		Alg           string `json:"alg"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxForm))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "the body must be a JSON object with sub, aud, nonce, email, emailVerified, name, expiresIn, alg")
		return
	}
	in.Alg = cmp.Or(in.Alg, Algorithms[0])
	life := int64(idLife / time.Second)
	if in.ExpiresIn != nil {
		life = *in.ExpiresIn
	}
	const most = 10 * 365 * 24 * 3600
	if in.Subject == "" || in.Audience == "" || !slices.Contains(Algorithms, in.Alg) || life > most || life < -most {
		refuse(w, http.StatusBadRequest, "invalid_request", "sub and aud must be set, alg be RS256 or ES256, expiresIn at most ten years")
		return
	}
	now := p.Now().Unix()
	c := &claims{Issuer: p.Issuer, Subject: in.Subject, Audience: in.Audience, Nonce: in.Nonce, IssuedAt: now + min(0, life), Expires: now + life, Email: in.Email, Name: in.Name}
	if in.Email != "" {
		c.EmailVerified = &in.EmailVerified
	}
	token, err := p.Keys.sign(in.Alg, c)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error", "the token could not be signed")
		return
	}
	loopback.Answer(w, http.StatusOK, map[string]string{"idToken": token})
}
