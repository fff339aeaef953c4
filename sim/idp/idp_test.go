package idp_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"cloister/sim/idp"
)

func TestCodeFlow(t *testing.T) {
	for _, alg := range idp.Algorithms {
		w := start(t)
		to := w.signIn(w.p.Issuer+"/authorize", values(codeFlow, "id_token_signed_response_alg", alg), ada)
		q := to.Query()
		if !strings.HasPrefix(to.String(), callback+"?") || q.Get("state") != "a state & more" || q.Get("iss") != w.p.Issuer {
			t.Fatal(to)
		}
		status, out := w.token(w.p.Issuer+"/token", exchange(q.Get("code")))
		if status != 200 || out["token_type"] != "Bearer" || out["expires_in"] != 3600.0 {
			t.Fatal(status, out)
		}
		got := w.verified(out["id_token"].(string), alg)
		want := map[string]any{"iss": w.p.Issuer, "aud": "app", "sub": got["sub"], "nonce": "a nonce", "email": "ada@example.com", "email_verified": true,
			"name": "Ada Lovelace", "iat": float64(w.now.Unix()), "exp": float64(w.now.Unix() + 600)}
		if !maps.Equal(got, want) || len(got["sub"].(string)) != 24 {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		a, b := w.send(w.request("GET", w.p.Issuer+"/userinfo", "", "Authorization", "Bearer "+out["access_token"].(string)))
		if want := `{"email":"ada@example.com","email_verified":true,"name":"Ada Lovelace","sub":"` + got["sub"].(string) + `"}`; a.StatusCode != 200 || strings.TrimSpace(b) != want {
			t.Errorf("userinfo: %d %s", a.StatusCode, b)
		}
	}
}

// An identity token without a code, as wallet kits ask Google for it.
func TestImplicit(t *testing.T) {
	w := start(t)
	to := w.signIn(w.p.Issuer+"/authorize", implicit, values(ada, "email", "Ada@example.com", "verified", ""))
	v, err := url.ParseQuery(to.EscapedFragment())
	if err != nil || to.RawQuery != "" || v.Get("state") != "provider=google&flow=popup" {
		t.Fatal(to, err)
	}
	got := w.verified(v.Get("id_token"), "RS256")
	if got["nonce"] != "1663bba492a3" || got["email_verified"] != false {
		t.Error(got)
	}
	again := w.verified(must(url.ParseQuery(w.signIn(w.p.Issuer+"/authorize", implicit, ada).EscapedFragment())).Get("id_token"), "RS256")
	if got["sub"] != again["sub"] {
		t.Errorf("one address is %v and %v", got["sub"], again["sub"])
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What goes back to the application as an error, and where.
func TestAuthorizeErrors(t *testing.T) {
	for _, c := range []struct {
		name       string
		usual      url.Values
		change     []string
		code, join string
	}{
		{"no response type", codeFlow, []string{"response_type", ""}, "unsupported_response_type", "?"},
		{"a token", codeFlow, []string{"response_type", "token"}, "unsupported_response_type", "?"},
		{"not openid", codeFlow, []string{"scope", "email"}, "invalid_scope", "?"},
		{"no PKCE", codeFlow, []string{"code_challenge", ""}, "invalid_request", "?"},
		{"plain PKCE", codeFlow, []string{"code_challenge_method", "plain"}, "invalid_request", "?"},
		{"HMAC", codeFlow, []string{"id_token_signed_response_alg", "HS256"}, "invalid_request", "?"},
		{"none", codeFlow, []string{"id_token_signed_response_alg", "none"}, "invalid_request", "?"},
		{"form_post", codeFlow, []string{"response_mode", "form_post"}, "invalid_request", "?"},
		{"without a person", codeFlow, []string{"prompt", "none"}, "login_required", "?"},
		{"without a person, in the fragment", codeFlow, []string{"prompt", "none", "response_mode", "fragment"}, "login_required", "#"},
		{"to a registered place", codeFlow, []string{"prompt", "none", "redirect_uri", registered}, "login_required", "?"},
		{"to one that has a query", codeFlow, []string{"prompt", "none", "redirect_uri", callback + "?a=b"}, "login_required", "&"},
		{"no nonce", implicit, []string{"nonce", ""}, "invalid_request", "#"},
		{"a token in the query", implicit, []string{"response_mode", "query"}, "invalid_request", "#"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			q := values(c.usual, c.change...)
			for _, method := range []string{"GET", "POST"} {
				a, _ := w.send(w.request(method, w.p.Issuer+"/authorize?"+q.Encode(), ada.Encode(), "Content-Type", "application/x-www-form-urlencoded"))
				to := a.Header.Get("Location")
				rest, ok := strings.CutPrefix(to, q.Get("redirect_uri")+c.join)
				v, err := url.ParseQuery(rest)
				if a.StatusCode != 303 || !ok || err != nil || v.Get("error") != c.code || v.Get("state") != c.usual.Get("state") || v.Has("code") || v.Has("id_token") {
					t.Errorf("%s: %d to %s", method, a.StatusCode, to)
				}
			}
		})
	}
}

// What is told to the person at the browser and redirected nowhere.
func TestNoRedirect(t *testing.T) {
	for _, c := range []struct{ name, query string }{
		{"no client", values(codeFlow, "client_id", "").Encode()},
		{"nowhere", values(codeFlow, "redirect_uri", "").Encode()},
		{"elsewhere", values(codeFlow, "redirect_uri", "https://evil.example/").Encode()},
		{"almost here", values(codeFlow, "redirect_uri", "http://127.0.0.1.evil.example/").Encode()},
		{"almost localhost", values(codeFlow, "redirect_uri", "http://localhost.evil.example/").Encode()},
		{"here as a user", values(codeFlow, "redirect_uri", "http://127.0.0.1@evil.example/").Encode()},
		{"elsewhere behind a backslash", values(codeFlow, "redirect_uri", `http://evil.example\@127.0.0.1/`).Encode()},
		{"another machine's address", values(codeFlow, "redirect_uri", "http://10.0.0.1/").Encode()},
		{"a script", values(codeFlow, "redirect_uri", "javascript:alert(1)//127.0.0.1").Encode()},
		{"a fragment", values(codeFlow, "redirect_uri", callback+"#x").Encode()},
		{"a header's end", values(codeFlow, "redirect_uri", callback+"\r\nX: y").Encode()},
		{"a policy's end", values(codeFlow, "redirect_uri", "http://localhost:1;script-src/").Encode()},
		{"more than what is registered", values(codeFlow, "redirect_uri", registered+"/x").Encode()},
		{"a state without end", values(codeFlow, "state", strings.Repeat("x", 1025)).Encode()},
		{"two clients", codeFlow.Encode() + "&client_id=evil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			for _, method := range []string{"GET", "POST"} {
				a, b := w.send(w.request(method, w.p.Issuer+"/authorize?"+c.query, ada.Encode(), "Content-Type", "application/x-www-form-urlencoded"))
				if a.StatusCode != 400 || a.Header.Get("Location") != "" || !strings.Contains(b, "This cannot go on") {
					t.Errorf("%s: %d to %q: %s", method, a.StatusCode, a.Header.Get("Location"), b)
				}
			}
		})
	}
}

func TestTokenRefuses(t *testing.T) {
	basic := []string{"Authorization", "Basic a25vd246aXRzK3NlY3JldA=="} // known:its+secret
	for _, c := range []struct {
		name   string
		client string // the code's; empty: app
		change []string
		head   []string
		after  time.Duration
		error  string
	}{
		{"another verifier", "", []string{"code_verifier", strings.Repeat("x", 43)}, nil, 0, "invalid_grant"},
		{"no verifier", "", []string{"code_verifier", ""}, nil, 0, "invalid_grant"},
		{"the challenge for a verifier", "", []string{"code_verifier", challenge}, nil, 0, "invalid_grant"},
		{"another redirect", "", []string{"redirect_uri", "http://localhost:3001/callback"}, nil, 0, "invalid_grant"},
		{"no redirect", "", []string{"redirect_uri", ""}, nil, 0, "invalid_grant"},
		{"another client", "", []string{"client_id", "other"}, nil, 0, "invalid_grant"},
		{"no client", "", []string{"client_id", ""}, nil, 0, "invalid_client"},
		{"another code", "", []string{"code", "x"}, nil, 0, "invalid_grant"},
		{"late", "", nil, nil, time.Minute, "invalid_grant"},
		{"another grant", "", []string{"grant_type", "password"}, nil, 0, "unsupported_grant_type"},
		{"a known client without its secret", "known", []string{"client_id", "known"}, nil, 0, "invalid_client"},
		{"a known client with a wrong secret", "known", []string{"client_id", "known", "client_secret", "x"}, nil, 0, "invalid_client"},
		{"two clients", "", nil, basic, 0, "invalid_client"},
		{"a secret given twice", "known", []string{"client_id", "known", "client_secret", "its secret"}, basic, 0, "invalid_client"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			client := c.client
			if client == "" {
				client = "app"
			}
			code := w.signIn(w.p.Issuer+"/authorize", values(codeFlow, "client_id", client), ada).Query().Get("code")
			w.now = w.now.Add(c.after)
			status, out := w.token(w.p.Issuer+"/token", exchange(code, c.change...), c.head...)
			if status/100 != 4 || out["error"] != c.error || out["access_token"] != nil || out["id_token"] != nil {
				t.Errorf("%d %v", status, out)
			}
		})
	}
	t.Run("with its secret", func(t *testing.T) {
		w := start(t)
		for _, way := range []struct {
			change, head []string
		}{{[]string{"client_id", ""}, basic}, {[]string{"client_id", "known"}, basic}, {[]string{"client_id", "known", "client_secret", "its secret"}, nil}} {
			code := w.signIn(w.p.Issuer+"/authorize", values(codeFlow, "client_id", "known"), ada).Query().Get("code")
			if status, out := w.token(w.p.Issuer+"/token", exchange(code, way.change...), way.head...); status != 200 {
				t.Errorf("%v: %d %v", way, status, out)
			}
		}
	})
}

// A code works once; used again it takes the access token with it. A failed try
// uses it up as well.
func TestCodeOnce(t *testing.T) {
	w := start(t)
	code := w.signIn(w.p.Issuer+"/authorize", codeFlow, ada).Query().Get("code")
	_, out := w.token(w.p.Issuer+"/token", exchange(code))
	info := func() int {
		a, _ := w.send(w.request("GET", w.p.Issuer+"/userinfo", "", "Authorization", "Bearer "+out["access_token"].(string)))
		return a.StatusCode
	}
	if status := info(); status != 200 {
		t.Fatal(status)
	}
	if status, again := w.token(w.p.Issuer+"/token", exchange(code)); status != 400 || again["error"] != "invalid_grant" {
		t.Errorf("%d %v", status, again)
	}
	if status := info(); status != 401 {
		t.Errorf("the stolen code's token: %d", status)
	}
	code = w.signIn(w.p.Issuer+"/authorize", codeFlow, ada).Query().Get("code")
	_, _ = w.token(w.p.Issuer+"/token", exchange(code, "code_verifier", strings.Repeat("x", 43)))
	if status, _ := w.token(w.p.Issuer+"/token", exchange(code)); status != 400 {
		t.Errorf("after a failed try: %d", status)
	}
}

// Codes and tokens of one provider are nothing to another, and tokens end.
func TestTokensApart(t *testing.T) {
	w := start(t)
	plain := values(codeFlow, "scope", "users.read", "nonce", "")
	secret := []string{"Authorization", "Basic YXBwOnM="} // app:s
	x, discord := w.p.X(), w.p.Discord()
	for _, at := range []string{discord.Token, w.p.Issuer + "/token"} {
		code := w.signIn(x.Authorize, plain, ada).Query().Get("code")
		if status, out := w.token(at, exchange(code), secret...); status != 400 {
			t.Errorf("%s: %d %v", at, status, out)
		}
	}
	code := w.signIn(x.Authorize, plain, ada).Query().Get("code")
	if status, _ := w.token(x.Token, exchange(code)); status != 401 {
		t.Errorf("without a secret: %d", status)
	}
	status, out := w.token(x.Token, exchange(code), secret...)
	if status != 200 || out["id_token"] != nil {
		t.Fatal(status, out)
	}
	me := func(at string) (int, string) {
		a, b := w.send(w.request("GET", at, "", "Authorization", "Bearer "+out["access_token"].(string)))
		return a.StatusCode, strings.TrimSpace(b)
	}
	for at, want := range map[string]int{x.User: 200, discord.User: 401, w.p.Issuer + "/userinfo": 401} {
		if status, b := me(at); status != want {
			t.Errorf("%s: %d %s", at, status, b)
		}
	}
	w.now = w.now.Add(time.Hour)
	if status, _ := me(x.User); status != 401 {
		t.Errorf("an hour later: %d", status)
	}
	if to := w.signIn(x.Authorize, plain, ada); to.Query().Has("iss") {
		t.Error(to)
	}
}

func TestSignInPage(t *testing.T) {
	w := start(t)
	const evil = `"><script>alert(1)</script>`
	q := values(codeFlow, "client_id", evil, "login_hint", evil, "state", evil)
	a, b := w.send(w.request("GET", w.p.Issuer+"/authorize?"+q.Encode(), ""))
	policy := a.Header.Get("Content-Security-Policy")
	if a.StatusCode != 200 || strings.Contains(b, "<script") || !strings.Contains(b, "ada@example.com") {
		t.Errorf("%d %s", a.StatusCode, b)
	}
	if !strings.HasPrefix(policy, "default-src 'none'; style-src 'self';") || !strings.HasSuffix(policy, "form-action 'self' http://localhost:3000") || strings.Contains(policy, "script") {
		t.Errorf("policy %q", policy)
	}
	for name, body := range map[string]string{"no address": "name=x", "two addresses": "email=a@example.com,b@example.com", "a name around it": "email=A+<a@example.com>", "a long one": "email=" + strings.Repeat("a", 250) + "@example.com"} {
		a, b := w.send(w.request("POST", w.p.Issuer+"/authorize?"+codeFlow.Encode(), body, "Content-Type", "application/x-www-form-urlencoded"))
		if a.StatusCode != 200 || !strings.Contains(b, "That is not an e-mail address") {
			t.Errorf("%s: %d %s", name, a.StatusCode, b)
		}
	}
	a, _ = w.send(w.request("POST", w.p.Issuer+"/authorize?"+codeFlow.Encode(), "cancel=1", "Content-Type", "application/x-www-form-urlencoded"))
	if to := a.Header.Get("Location"); !strings.HasPrefix(to, callback+"?error=access_denied&") {
		t.Errorf("cancelled: %d to %s", a.StatusCode, to)
	}
	a, _ = w.send(w.request("POST", w.p.Issuer+"/authorize?"+codeFlow.Encode(), ada.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site"))
	if a.StatusCode != 403 {
		t.Errorf("another site's page signs in: %d", a.StatusCode)
	}
}

func TestIssue(t *testing.T) {
	w := start(t)
	issue := func(body string, head ...string) (int, string) {
		a, b := w.send(w.request("POST", w.p.Issuer+"/issue", body, head...))
		var out struct{ IDToken string }
		_ = json.Unmarshal([]byte(b), &out)
		return a.StatusCode, out.IDToken
	}
	_, token := issue(`{"sub":"s","aud":"a","nonce":"n","email":"e@example.com","alg":"ES256","expiresIn":60}`)
	if got, want := w.verified(token, "ES256"), (map[string]any{"iss": w.p.Issuer, "sub": "s", "aud": "a", "nonce": "n", "email": "e@example.com", "email_verified": false,
		"iat": float64(w.now.Unix()), "exp": float64(w.now.Unix() + 60)}); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	_, token = issue(`{"sub":"s","aud":"a","expiresIn":-60}`)
	if got := w.verified(token, "RS256"); got["exp"] != float64(w.now.Unix()-60) || got["iat"] != got["exp"] {
		t.Errorf("expired: %v", got)
	}
	for _, body := range []string{``, `[]`, `{"aud":"a"}`, `{"sub":"s"}`, `{"sub":"s","aud":"a","alg":"HS256"}`, `{"sub":"s","aud":"a","alg":"none"}`,
		`{"sub":"s","aud":"a","expiresIn":1e10}`, `{"sub":"s","aud":"a","iss":"https://accounts.google.com"}`} {
		if status, token := issue(body); status != 400 || token != "" {
			t.Errorf("%s: %d %s", body, status, token)
		}
	}
	if status, _ := issue(`{"sub":"s","aud":"a"}`, "Origin", "http://evil.example"); status != 403 {
		t.Errorf("another site's page: %d", status)
	}
}

// Pages of other origins may read what every provider lets them read, and no more.
func TestOrigins(t *testing.T) {
	w := start(t)
	for path, want := range map[string]string{"/.well-known/openid-configuration": "*", "/jwks": "*", "/userinfo": "*", "/authorize?" + codeFlow.Encode(): ""} {
		a, _ := w.send(w.request("GET", w.p.Issuer+path, "", "Origin", "http://localhost:3000"))
		if got := a.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	if a, _ := w.send(w.request("OPTIONS", w.p.Issuer+"/userinfo", "", "Origin", "http://localhost:3000")); a.StatusCode != 204 || !strings.Contains(a.Header.Get("Access-Control-Allow-Headers"), "authorization") {
		t.Errorf("preflight: %d %v", a.StatusCode, a.Header)
	}
	if a, _ := w.send(w.request("OPTIONS", w.p.Issuer+"/issue", "", "Origin", "http://localhost:3000")); a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("other origins may issue tokens")
	}
	r := w.request("GET", w.p.Issuer+"/jwks", "")
	r.Host = "evil.example"
	if a, _ := w.send(r); a.StatusCode != 421 {
		t.Errorf("a name made to point here: %d", a.StatusCode)
	}
}

func TestKeysKept(t *testing.T) {
	b := must(keys.Marshal())
	again := must(must(idp.ParseKeys(b)).Marshal())
	if string(again) != string(b) {
		t.Error("keys changed by being kept")
	}
	var half struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(b, &half); err != nil {
		t.Fatal(err)
	}
	half.Keys = half.Keys[:1]
	for name, text := range map[string]string{"nothing": "", "no keys": `{"keys":[]}`, "half": string(must(json.Marshal(half)))} {
		if _, err := idp.ParseKeys([]byte(text)); err == nil {
			t.Errorf("%s: parsed", name)
		}
	}
}

func TestNew(t *testing.T) {
	for name, c := range map[string]idp.Config{
		"no issuer":          {},
		"a slash at the end": {Issuer: "http://127.0.0.1:1/idp/"},
		"a query":            {Issuer: "http://127.0.0.1:1/idp?x"},
		"a relative place":   {Issuer: "http://127.0.0.1:1/idp", RedirectURIs: []string{"/callback"}},
		"a policy's end":     {Issuer: "http://127.0.0.1:1/idp", RedirectURIs: []string{"https://a.example;script-src *"}},
	} {
		if _, err := idp.New(c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
