package login_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/secret"
)

func provider(t testing.TB, name string) login.OAuth2Provider {
	t.Helper()
	p, ok := login.OAuth2ProviderOf("OAUTH2_PROVIDER_" + name)
	if !ok {
		t.Fatal(name)
	}
	return p
}

func code() *login.Code {
	return &login.Code{AuthCode: "VGNibzFWSWREZm01bjN1N3dicWlNUG1oa2xRRVNNdmVHelJGY2hPWGxNd2dxOjE2MjIxNjA4MjU4MjU6MToxOmFjOjE", RedirectURI: "https://www.example.com/cb?a=b&c=d", CodeVerifier: strings.Repeat("aZ9-._~", 7), Nonce: login.Nonce("02ab")}
}

// The requests, as net/http reads them.
func TestExchange(t *testing.T) {
	for name, want := range map[string]struct{ token, user string }{
		"X":       {"https://api.x.com/2/oauth2/token", "https://api.x.com/2/users/me"},
		"DISCORD": {"https://discord.com/api/v10/oauth2/token", "https://discord.com/api/v10/users/@me"},
	} {
		p := provider(t, name)
		c := code()
		const clientSecret = "s3cr+t /:=&%é"
		r, err := p.Exchange(c, "client:1", mustSecret(t, []byte(clientSecret)))
		must(t, err)
		form, err := url.ParseQuery(string(r.Body))
		must(t, err)
		if r.Method != "POST" || r.URL != want.token || len(form) != 4 || form.Get("grant_type") != "authorization_code" || form.Get("code") != c.AuthCode ||
			form.Get("redirect_uri") != c.RedirectURI || form.Get("code_verifier") != c.CodeVerifier {
			t.Errorf("%s: %+v", name, form)
		}
		h := http.Header{}
		for _, f := range r.Header {
			if bytes.ContainsAny(f.Value, "\r\n\x00") {
				t.Errorf("%s: %q", f.Name, f.Value)
			}
			h.Add(f.Name, string(f.Value))
		}
		id, pass, ok := (&http.Request{Header: h}).BasicAuth()
		id, err1 := url.QueryUnescape(id)
		pass, err2 := url.QueryUnescape(pass)
		if !ok || err1 != nil || err2 != nil || id != "client:1" || pass != clientSecret || h.Get("Content-Type") != "application/x-www-form-urlencoded" || h.Get("Accept") != "application/json" {
			t.Errorf("%s: %v", name, h)
		}
		r.Wipe()
		for _, f := range r.Header {
			if strings.Contains(string(f.Value), "Basic") {
				t.Errorf("%s is left", f.Name)
			}
		}
		if bytes.Contains(r.Body, []byte("code")) {
			t.Error("the body is left")
		}
		who := p.WhoAmI(mustSecret(t, []byte("token-1")))
		if who.Method != "GET" || who.URL != want.user || who.Body != nil || string(who.Header[len(who.Header)-1].Value) != "Bearer token-1" {
			t.Errorf("%s: %+v", name, who)
		}
	}
	for _, name := range []string{"", "OAUTH2_PROVIDER_GOOGLE", "OAUTH2_PROVIDER_x", "X"} {
		if _, ok := login.OAuth2ProviderOf(name); ok {
			t.Error(name)
		}
	}
}

// Secrets are encoded as net/url encodes texts.
func TestAppendForm(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	if got, want := string(login.AppendForm(nil, all)), url.QueryEscape(string(all)); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	// What X shows as an example of basic authentication.
	got := base64.StdEncoding.EncodeToString(login.AppendForm(login.AppendForm(nil, []byte("Aladdin")), []byte("_-")))
	if got != base64.StdEncoding.EncodeToString([]byte("Aladdin_-")) {
		t.Error(got)
	}
}

func TestExchangeRefused(t *testing.T) {
	p := provider(t, "X")
	for name, c := range map[string]struct {
		change     func(c *login.Code)
		field, why string
	}{
		"no code": {func(c *login.Code) { c.AuthCode = "" }, "authCode", "auth_code must be set"}, "no uri": {func(c *login.Code) { c.RedirectURI = "" }, "redirectUri", "redirect_uri must be set"},
		"no verifier": {func(c *login.Code) { c.CodeVerifier = "" }, "codeVerifier", "code_verifier must be set"}, "no nonce": {func(c *login.Code) { c.Nonce = "" }, "nonce", "nonce must be set"},
		"code long": {func(c *login.Code) { c.AuthCode = strings.Repeat("a", 4097) }, "authCode", "at most"}, "uri long": {func(c *login.Code) { c.RedirectURI = strings.Repeat("a", 2049) }, "redirectUri", "at most"}, "nonce long": {func(c *login.Code) { c.Nonce = strings.Repeat("a", 257) }, "nonce", "at most"},
		"verifier long": {func(c *login.Code) { c.CodeVerifier = strings.Repeat("a", 129) }, "codeVerifier", "at most"}, "verifier short": {func(c *login.Code) { c.CodeVerifier = strings.Repeat("a", 42) }, "codeVerifier", "43 to 128"},
		"verifier with another letter": {func(c *login.Code) { c.CodeVerifier += "+" }, "codeVerifier", "43 to 128"}, "code with a break": {func(c *login.Code) { c.AuthCode += "\r\nX: y" }, "authCode", "visible"}, "uri with a space": {func(c *login.Code) { c.RedirectURI += " " }, "redirectUri", "visible"},
		"nonce with a NUL": {func(c *login.Code) { c.Nonce += "\x00" }, "nonce", "visible"}, "code in other letters": {func(c *login.Code) { c.AuthCode = "é" }, "authCode", "visible"},
	} {
		in := code()
		c.change(in)
		_, err := p.Exchange(in, "client", mustSecret(t, []byte("s")))
		refused(t, name, err, fault.InvalidArgument, c.field, c.why)
	}
	for _, id := range []string{"", "a b", "a\r\n", strings.Repeat("a", 2000)} {
		_, err := p.Exchange(code(), id, mustSecret(t, []byte("s")))
		refused(t, "client "+id[:min(len(id), 9)], err, fault.InvalidArgument, "clientId", "client_id must be set")
	}
	_, err := p.Exchange(code(), "client", secret.Secret{})
	refused(t, "no secret", err, fault.FailedPrecondition, "", "no client secret")
}

func TestAnswers(t *testing.T) {
	x, discord := provider(t, "X"), provider(t, "DISCORD")
	good := `{"token_type":"bearer","expires_in":7200,"access_token":"VGV.a-b_c~1+/=","scope":"tweet.read users.read"}`
	s, err := x.AccessToken(200, []byte(good))
	if err != nil || plain(s) != "VGV.a-b_c~1+/=" {
		t.Error(err)
	}
	if _, err := discord.AccessToken(200, []byte(strings.Replace(good, "bearer", "Bearer", 1))); err != nil {
		t.Error(err)
	}
	change := func(old, now string) string { return strings.Replace(good, old, now, 1) }
	for name, body := range map[string]string{
		"nothing": "", "HTML": "<html>", "array": "[]", "null": "null", "trailing": good + "x", "token twice": change("{", `{"access_token":"evil",`), "no token": change("access_token", "token"), "token empty": change("VGV.a-b_c~1+/=", ""), "token number": change(`"VGV.a-b_c~1+/="`, "1"),
		"token with a break": change("VGV.", `VGV\r\nX: y`), "token with a space": change("VGV.", "VGV "), "token in other letters": change("VGV.", "é"), "token long": change("VGV.", strings.Repeat("a", 2049)), "no type": change("token_type", "type"), "type mac": change("bearer", "mac"), "type null": change(`"bearer"`, "null"),
		"large": good + strings.Repeat(" ", login.MaxAnswer), "error": `{"error":"invalid_request"}`, "deep": change("7200", strings.Repeat("[", 100)+strings.Repeat("]", 100)),
	} {
		_, err := x.AccessToken(200, []byte(body))
		refused(t, name, err, fault.Unavailable, "", "OAUTH2_PROVIDER_X gave an answer that cannot be used")
	}
	for _, status := range []int{0, 100, 201, 204, 301, 302, 404, 429, 500, 503} {
		_, err := x.AccessToken(status, []byte(good))
		refused(t, "status", err, fault.Unavailable, "", "cannot be used")
	}
	for _, status := range []int{400, 401, 403} { // what was sent may stand in the answer
		_, err := x.AccessToken(status, []byte(`{"error":"invalid_grant","error_description":"the secret was hunter2"}`))
		refused(t, "status", err, fault.InvalidArgument, "", "refused the authorization code")
		if strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		p          login.OAuth2Provider
		body, want string
	}{
		{x, `{"data":{"id":"2244994945","name":"X Dev","username":"xdev"}}`, "x:2244994945"}, {discord, `{"id":"80351110224678912","username":"Nelly","discriminator":"1337","avatar":null,"verified":true}`, "discord:80351110224678912"},
		{x, `{"id":"1"}`, ""}, {x, `{"data":[{"id":"1"}]}`, ""}, {x, `{"data":{"id":1}}`, ""}, {x, `{"data":{"id":"1","id":"2"}}`, ""}, {x, `{"data":null}`, ""}, {x, `{"errors":[{"title":"x"}]}`, ""}, {x, `{"data":{"id":""}}`, ""}, {x, `{"data":{"id":"1 "}}`, ""},
		{x, `{"data":{"id":"-1"}}`, ""}, {x, `{"data":{"id":"a"}}`, ""}, {x, `{"data":{"id":"１"}}`, ""}, {x, `{"data":{"id":"` + strings.Repeat("1", 33) + `"}}`, ""}, {x, ``, ""}, {discord, `{"data":{"id":"1"}}`, ""}, {discord, `{"id":"1:2"}`, ""}, {discord, `{"id":null}`, ""}, {discord, `[]`, ""},
		{discord, `{"id":"1"}{"id":"2"}`, ""}, {discord, `{"id":"1","\u0069d":"2"}`, ""},
	} {
		got, err := c.p.Subject(200, []byte(c.body))
		if got != c.want {
			t.Errorf("%s: %s, %v", c.body, got, err)
		}
		if c.want == "" {
			refused(t, c.body, err, fault.Unavailable, "", "cannot be used")
		}
	}
	_, err = discord.Subject(401, []byte(`{"message":"401: Unauthorized","code":0}`))
	refused(t, "401", err, fault.InvalidArgument, "", "refused")
}

func TestEncryptBearerToken(t *testing.T) {
	private, err := bundle.NewPrivateKey(rand.Reader)
	must(t, err)
	var public string
	private.Use(func(b []byte) { public = publicHex(t, b) })
	text, err := login.EncryptBearerToken("bearerTokenTargetPublicKey", public, mustSecret(t, []byte("token-1")))
	must(t, err)
	m, err := bundle.ParseCompact(text)
	must(t, err)
	if s, err := m.Open(private); err != nil || plain(s) != "token-1" {
		t.Error(err)
	}
	_, err = login.EncryptBearerToken("bearerTokenTargetPublicKey", "04", mustSecret(t, []byte("x")))
	refused(t, "no key", err, fault.InvalidArgument, "bearerTokenTargetPublicKey", "invalid public key")
	if _, err := login.EncryptBearerToken("f", public, secret.Secret{}); err == nil {
		t.Error("nothing was encrypted")
	}
}
