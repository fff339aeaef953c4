package rig_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// family is an organization with a world outside, and users below it who log in at
// a provider.
type family struct {
	rateClient
	w    *world
	c    *clocktest.Clock
	id   string
	root laptop.KeyPair
	idp  *provider
}

func newFamily(t *testing.T) *family {
	w, c := newWorldOutside(t), clocktest.New()
	o := w.options()
	o.Clock = c
	f := &family{rateClient: rateClient{t, rig.Start(t, o)}, w: w, c: c}
	f.id, f.root, f.idp = f.Credentials.OrganizationID, f.Credentials.RootAPIKey, w.provider("accounts.example")
	return f
}

// later moves the enclave's clock.
func (f *family) later(d time.Duration) { f.c.Pass(d) }

// signUp makes a sub-organization whose user is known by a token alone.
func (f *family) signUp(name, token string) string {
	f.t.Helper()
	return rig.Text(f.done(f.root, f.id, "CREATE_SUB_ORGANIZATION_V8", f.family(name, token)), "subOrganizationId")
}

func (f *family) family(name, token string) map[string]any {
	return map[string]any{"subOrganizationName": name, "rootQuorumThreshold": 1, "rootUsers": []any{map[string]any{
		"userName": "User", "apiKeys": []any{}, "authenticators": []any{}, "oauthProviders": []any{map[string]any{"providerName": "idp", "oidcToken": token}}}}}
}

// none is the machine code of what has none.
const none = "<nil>"

// logIn asks for a session of a sub-organization by a token, as the parent.
func (f *family) logIn(sub, token string, key laptop.KeyPair) answered {
	f.t.Helper()
	return f.submit(f.root, sub, "OAUTH_LOGIN", map[string]any{"oidcToken": token, "publicKey": key.PublicKey})
}

// bound is a token for a key.
func (f *family) bound(sub string, key laptop.KeyPair, more ...any) string {
	return f.idp.token(f.idp.claims(f.c.Now(), sub, "web", append([]any{"nonce", nonceOf(key.PublicKey)}, more...)...))
}

// Sign-up and log-in by a provider's token: the keys are fetched once.
func TestOAuthSignUpAndLogIn(t *testing.T) {
	f := newFamily(t)
	if f.w.dials.Load() != 0 {
		t.Error("somebody was asked before anybody wanted it")
	}
	sub := f.signUp("one", f.idp.token(f.idp.claims(f.c.Now(), "me", "web")))
	key := newKey(t)
	got := f.logIn(sub, f.bound("me", key), key)
	claims := claimsOf(t, rig.Text(got.result(t), "session"))
	if claims["organization_id"] != sub || claims["public_key"] != key.PublicKey || claims["session_type"] != "SESSION_TYPE_READ_WRITE" {
		t.Errorf("%v", claims)
	}
	if got := f.ask(key, sub, "whoami"); got.status != 200 || rig.Text(got.m, "userId") != claims["user_id"] {
		t.Errorf("%v", got)
	}
	f.done(key, sub, "CREATE_WALLET", map[string]any{"walletName": "W", "accounts": []any{}})
	// An elliptic key of the same set, tknonce in place of nonce, an audience in a list.
	second := newKey(t)
	es := f.idp.signed(`{"alg":"ES256","kid":"e1"}`, f.idp.claims(f.c.Now(), "me", "web", "tknonce", nonceOf(second.PublicKey), "aud", []any{"web"}))
	if got := f.logIn(sub, es, second); got.status != 200 {
		t.Errorf("%v", got)
	}
	if n := f.idp.asked.Load(); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
	// The credential bundle of old.
	target := newKey(t)
	r := f.done(f.root, sub, "OAUTH", map[string]any{"oidcToken": f.bound("me", target), "targetPublicKey": target.PublicKey})
	if rig.Text(r, "userId") != claims["user_id"] || rig.Text(r, "credentialBundle") == "" {
		t.Errorf("%v", r)
	}
	// The session's own user may widen his identity with claims that share issuer and subject.
	f.done(key, sub, "CREATE_OAUTH_PROVIDERS_V2", map[string]any{"userId": claims["user_id"], "oauthProviders": []any{
		map[string]any{"providerName": "ios", "oidcClaims": map[string]any{"iss": f.idp.url, "sub": "me", "aud": "ios"}}}})
	got = f.submit(key, sub, "CREATE_OAUTH_PROVIDERS_V2", map[string]any{"userId": claims["user_id"], "oauthProviders": []any{
		map[string]any{"providerName": "again", "oidcToken": f.idp.token(f.idp.claims(f.c.Now(), "me", "ios"))}}})
	f.refuses("an identity that is held", got, 400, "OAUTH_PROVIDER_ALREADY_EXISTS")
}

// A token leads to the sub-organization whose user it is about.
func TestSubOrganizationByToken(t *testing.T) {
	f := newFamily(t)
	look := func(key laptop.KeyPair, token string) answered {
		body := fmt.Appendf(nil, `{"organizationId":%q,"filterType":"OIDC_TOKEN","filterValue":%q}`, f.id, token)
		return f.call(wire.EndpointQuery, "list_suborgs", body, f.stamped(key, body))
	}
	token := f.idp.token(f.idp.claims(f.c.Now(), "me", "web"))
	f.refuses("a stranger", look(newKey(t), token), 401, "PUBLIC_KEY_NOT_FOUND")
	if f.w.dials.Load() != 0 {
		t.Error("a stranger had somebody asked")
	}
	if got := look(f.root, token); got.status != 200 || rig.Text(got.m, "organizationIds") != "[]" {
		t.Errorf("%v", got)
	}
	sub := f.signUp("one", token)
	if got := look(f.root, token); got.status != 200 || rig.Text(got.m, "organizationIds", "0") != sub {
		t.Errorf("%v", got)
	}
	forger := f.w.provider("forger.example")
	f.refuses("forged", look(f.root, forger.signed(`{"alg":"RS256","kid":"r1"}`, f.idp.claims(f.c.Now(), "me", "web"))), 400, "INVALID_OIDC_TOKEN", "does not verify")
	f.refuses("no token", look(f.root, "x"), 400, "INVALID_OIDC_TOKEN", "not a signed token")
	f.w.leads("unknown.example", "127.0.0.1:1")
	f.refuses("away", look(f.root, f.idpAt("https://unknown.example").token(f.idp.claims(f.c.Now(), "me", "web", "iss", "https://unknown.example"))), 503, none, "could not be reached")
}

// What a hostile client, or a host that carries his requests, may try with tokens.
func TestHostileTokens(t *testing.T) {
	f := newFamily(t)
	now := f.c.Now
	one, two := f.signUp("one", f.idp.token(f.idp.claims(now(), "me", "web"))), f.signUp("two", f.idp.token(f.idp.claims(now(), "you", "web")))
	key := newKey(t)
	good := f.bound("me", key)
	head, rest, _ := strings.Cut(good, ".")
	body, sig, _ := strings.Cut(rest, ".")
	forger := f.w.provider("forger.example") // says that it is the provider
	forged := func(header string) string {
		return forger.signed(header, f.idp.claims(now(), "me", "web", "nonce", nonceOf(key.PublicKey)))
	}
	hmacOf := func(header string, with []byte) string {
		signed := b64([]byte(header)) + "." + body
		m := hmac.New(sha256.New, with)
		m.Write([]byte(signed))
		return signed + "." + b64(m.Sum(nil))
	}
	keySet := []byte(f.idp.keys.Load().(string))
	duplicate := fmt.Sprintf(`{"iss":%q,"sub":"you","sub":"me","aud":"web","iat":%d,"exp":%d,"nonce":%q}`, f.idp.url, now().Unix(), now().Unix()+60, nonceOf(key.PublicKey))
	const bad, nobody = "INVALID_OIDC_TOKEN", none
	for what, c := range map[string]struct {
		token  string
		status int
		code   string
		says   string
	}{
		"alg none":                   {b64([]byte(`{"alg":"none"}`)) + "." + body + ".", 400, bad, "alg must be"},
		"alg none, signed":           {b64([]byte(`{"alg":"none"}`)) + "." + body + "." + sig, 400, bad, "alg must be"},
		"HMAC with the key set":      {hmacOf(`{"alg":"HS256","kid":"r1"}`, keySet), 400, bad, "alg must be"},
		"HMAC with the modulus":      {hmacOf(`{"alg":"HS256","kid":"r1"}`, f.idp.rsa.N.Bytes()), 400, bad, "alg must be"},
		"RS256 over an HMAC":         {hmacOf(`{"alg":"RS256","kid":"r1"}`, f.idp.rsa.N.Bytes()), 400, bad, "signature does not verify"},
		"another's key":              {forged(`{"alg":"RS256","kid":"r1"}`), 400, bad, "signature does not verify"},
		"another's key, no kid":      {forged(`{"alg":"RS256"}`), 400, bad, "signature does not verify"},
		"a kid that is not there":    {forged(`{"alg":"RS256","kid":"r2"}`), 400, bad, "no key for it"},
		"a key in the header":        {forged(`{"alg":"RS256","kid":"r1","jwk":` + asJSON(t, forger.jwkRSA("r1")) + `}`), 400, bad, "signature does not verify"},
		"a key's URL in the header":  {forged(`{"alg":"RS256","kid":"r1","jku":"https://forger.example/keys"}`), 400, bad, "signature does not verify"},
		"the other kind of key":      {f.idp.signed(`{"alg":"ES256","kid":"r1"}`, f.idp.claims(now(), "me", "web")), 400, bad, "no key for it"},
		"crit":                       {f.idp.signed(`{"alg":"RS256","kid":"r1","crit":["x"]}`, f.idp.claims(now(), "me", "web")), 400, bad, "crit"},
		"claims of another":          {head + "." + b64([]byte(strings.Replace(asJSON(t, f.idp.claims(now(), "me", "web")), "me", "you", 1))) + "." + sig, 400, bad, "signature does not verify"},
		"a claim twice":              {f.idp.token(duplicate), 400, bad, "malformed"},
		"another audience":           {f.bound("me", key, "aud", "ios"), 404, nobody, "no user of the organization"},
		"no audience":                {f.bound("me", key, "aud", nil), 400, bad, "no aud"},
		"no subject":                 {f.bound("", key), 400, bad, "no sub"},
		"another nonce":              {f.bound("me", newKey(t)), 400, bad, "nonce"},
		"no nonce":                   {f.idp.token(f.idp.claims(now(), "me", "web")), 400, bad, "nonce"},
		"the key as nonce":           {f.bound("me", key, "nonce", key.PublicKey), 400, bad, "nonce"},
		"expired":                    {f.bound("me", key, "exp", now().Add(-61*time.Second).Unix()), 400, bad, "expired"},
		"no end":                     {f.bound("me", key, "exp", nil), 400, bad, "no exp"},
		"of the future":              {f.bound("me", key, "iat", now().Add(2*time.Minute).Unix()), 400, bad, "of the future"},
		"not yet":                    {f.bound("me", key, "nbf", now().Add(2*time.Minute).Unix()), 400, bad, "not valid yet"},
		"another sub-organization's": {f.bound("you", key), 404, nobody, "no user of the organization"},
		"another issuer's":           {forger.token(forger.claims(now(), "me", "web", "nonce", nonceOf(key.PublicKey))), 404, nobody, "no user of the organization"},
		"too long":                   {f.bound("me", key, "x", strings.Repeat("x", 17<<10)), 400, bad, "too long"},
	} {
		for range often() {
			f.refuses(what, f.logIn(one, c.token, key), c.status, c.code, c.says)
		}
	}
	if got := f.ask(key, one, "whoami"); got.status != 401 {
		t.Errorf("%v", got)
	}
	// What is good is good still, and it is no token for the neighbour.
	if got := f.logIn(one, good, key); got.status != 200 {
		t.Errorf("%v", got)
	}
	if got := f.logIn(two, good, key); got.status != 404 {
		t.Errorf("%v", got)
	}
}

// A host that leads the enclave elsewhere: it may withhold keys, and supplies none.
func TestSubstitutedKeys(t *testing.T) {
	f := newFamily(t)
	sub := f.signUp("one", f.idp.token(f.idp.claims(f.c.Now(), "me", "web")))
	key := newKey(t)
	// The interceptor speaks for every name, with keys of its own.
	evil := f.w.provider("evil.example")
	evil.url = f.idp.url
	liar, liarKey := authority(t, "a root of the host's")
	at := f.w.serve(liar, liarKey, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			_, _ = rw.Write([]byte(evil.keys.Load().(string)))
			return
		}
		_, _ = rw.Write([]byte(f.idp.discovery.Load().(string)))
	}))
	forged := func() string { return evil.token(evil.claims(f.c.Now(), "me", "web", "nonce", nonceOf(key.PublicKey))) }
	f.later(7 * time.Hour) // what was fetched has aged
	f.w.leads("accounts.example", at)
	for n := range often() { // of as many issuers: a failure is remembered for a while
		name := fmt.Sprintf("issuer-%d.example", n)
		f.w.leads(name, at)
		before := f.w.dials.Load()
		liar := f.idpAt("https://" + name)
		got := f.submit(f.root, f.id, "CREATE_SUB_ORGANIZATION_V8", f.family(name, liar.token(liar.claims(f.c.Now(), "me", "web"))))
		f.refuses(name, got, 503, none, "certificate does not hold")
		if f.w.dials.Load() == before {
			t.Errorf("%s: nobody was asked", name)
		}
	}
	for range 3 {
		f.refuses("TLS intercepted", f.logIn(sub, forged(), key), 503, none, "certificate does not hold")
	}
	f.later(6 * time.Second) // or the last failure would be told again
	f.w.leads("accounts.example", "")
	f.refuses("forged keys", f.logIn(sub, forged(), key), 400, "INVALID_OIDC_TOKEN", "signature does not verify")
	if got := f.logIn(sub, f.bound("me", key), key); got.status != 200 {
		t.Errorf("%v", got)
	}
	// A failure in between does not end what is believed, and its time does.
	f.w.leads("accounts.example", "127.0.0.1:1")
	f.later(time.Hour)
	second := newKey(t)
	if got := f.logIn(sub, f.bound("me", second), second); got.status != 200 {
		t.Errorf("%v", got)
	}
	f.later(6 * time.Hour)
	f.refuses("away", f.logIn(sub, f.bound("me", second), second), 503, none, "could not be reached")
}

// What providers may answer wrongly.
func TestHostileDocuments(t *testing.T) {
	f := newFamily(t)
	big := strings.Repeat(" ", 300<<10)
	for what, c := range map[string]struct {
		change func(p *provider)
		status int
		says   string
	}{
		"another issuer": {func(p *provider) {
			p.discovery.Store(asJSON(t, map[string]any{"issuer": "https://other.example", "jwks_uri": p.url + "/keys"}))
		}, 400, "another issuer"},
		"a slash more": {func(p *provider) {
			p.discovery.Store(asJSON(t, map[string]any{"issuer": p.url + "/", "jwks_uri": p.url + "/keys"}))
		}, 400, "another issuer"},
		"issuer twice": {func(p *provider) {
			p.discovery.Store(fmt.Sprintf(`{"issuer":"https://other.example","issuer":%q,"jwks_uri":"%s/keys"}`, p.url, p.url))
		}, 400, "malformed"},
		"no document": {func(p *provider) { p.discovery.Store("<html>") }, 400, "malformed"},
		"keys over http": {func(p *provider) {
			p.discovery.Store(asJSON(t, map[string]any{"issuer": p.url, "jwks_uri": "http" + p.url[5:] + "/keys"}))
		}, 400, "no key set at an https URL"},
		"keys inside": {func(p *provider) {
			p.discovery.Store(asJSON(t, map[string]any{"issuer": p.url, "jwks_uri": "https://10.1.2.3/keys"}))
		}, 400, "public name"},
		"keys moved": {func(p *provider) {
			p.discovery.Store(asJSON(t, map[string]any{"issuer": p.url, "jwks_uri": p.url + "/moved"}))
		}, 503, "not what it should be"},
		"an oversized document": {func(p *provider) { p.discovery.Store(p.discovery.Load().(string) + big) }, 503, "too large"},
		"a large document":      {func(p *provider) { p.discovery.Store(p.discovery.Load().(string) + big[:100<<10]) }, 400, "too large"},
		"an oversized key set":  {func(p *provider) { p.keys.Store(p.keys.Load().(string) + big) }, 503, "too large"},
		"a key set with a secret": {func(p *provider) {
			p.keys.Store(asJSON(t, map[string]any{"keys": []any{map[string]any{"kty": "oct", "k": "AA", "kid": "r1"}}}))
		}, 400, "no key for it"},
		"no keys":            {func(p *provider) { p.keys.Store(`{"keys":[]}`) }, 400, "no key for it"},
		"keys that are none": {func(p *provider) { p.keys.Store(`[]`) }, 400, "malformed"},
		"deep":               {func(p *provider) { p.keys.Store(strings.Repeat(`{"keys":[`, 10000)) }, 400, "malformed"},
	} {
		p := f.w.provider(strings.ReplaceAll(what, " ", "-") + ".example")
		c.change(p)
		got := f.submit(f.root, f.id, "CREATE_SUB_ORGANIZATION_V8", f.family(what, p.token(p.claims(f.c.Now(), "me", "web"))))
		code := "INVALID_OIDC_TOKEN"
		if c.status == 503 {
			code = none
		}
		f.refuses(what, got, c.status, code, c.says)
	}
	// Two keys of one id are tried both, as RFC 7517 only says that there should not be two.
	p := f.w.provider("two-keys.example")
	p.keys.Store(asJSON(t, map[string]any{"keys": []any{f.idp.jwkRSA("r1"), p.jwkRSA("r1"), p.jwkRSA("r1")}}))
	if got := f.submit(f.root, f.id, "CREATE_SUB_ORGANIZATION_V8", f.family("two keys", p.token(p.claims(f.c.Now(), "me", "web")))); got.status != 200 {
		t.Errorf("two keys of one id: %v", got)
	}
	// Issuers that may not be asked at all. A simulator asks those on its own machine.
	before := f.w.dials.Load()
	for _, url := range []string{"http://accounts.example", "https://127.0.0.2", "https://[fd00::1]", "https://10.0.0.1:8443", "https://intranet", "https://accounts.example?x", "https://user@accounts.example",
		"https://accounts.example#x", "ftp://accounts.example", "accounts.example", "https://169.254.169.254/latest", "https://metadata.localhost", "https://0x7f.1"} {
		p := *f.idpAt(url)
		got := f.submit(f.root, f.id, "CREATE_SUB_ORGANIZATION_V8", f.family(url, p.token(p.claims(f.c.Now(), "me", "web"))))
		f.refuses(url, got, 400, "INVALID_OIDC_TOKEN", "public name")
	}
	if n := f.w.dials.Load() - before; n != 0 {
		t.Errorf("%d streams", n)
	}
}

// idpAt is the provider under another URL.
func (f *family) idpAt(url string) *provider {
	return &provider{w: f.w, url: url, rsa: f.idp.rsa, p256: f.idp.p256}
}

// Who is a stranger, or is not allowed, makes the enclave ask nobody.
func TestNobodyIsAskedForStrangers(t *testing.T) {
	f := newFamily(t)
	token := f.idp.token(f.idp.claims(f.c.Now(), "me", "web"))
	body := f.BodyOf(f.id, "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8", f.family("one", token))
	for n := range often() {
		f.refuses("a stranger", f.submitBody(newKey(t), "CREATE_SUB_ORGANIZATION_V8", body), 401, "PUBLIC_KEY_NOT_FOUND")
		key := newKey(t)
		in := f.BodyOf(f.id, "ACTIVITY_TYPE_STAMP_LOGIN", map[string]any{"publicKey": key.PublicKey})
		f.refuses("attested by somebody unknown", f.attested(key, "STAMP_LOGIN", in, f.bound(fmt.Sprint(n), key)), 401, "PUBLIC_KEY_NOT_FOUND")
	}
	_, clerk := f.user("Clerk")
	f.refuses("who is not allowed", f.submitBody(clerk, "CREATE_SUB_ORGANIZATION_V8", body), 403, "REQUEST_NOT_AUTHORIZED")
	if n := f.w.dials.Load(); n != 0 {
		t.Errorf("%d streams", n)
	}
}

// attested sends a body stamped by a key for which a token vouches.
func (f *family) attested(key laptop.KeyPair, typ string, body []byte, token string) answered {
	f.t.Helper()
	return f.call(wire.EndpointSubmit, strings.ToLower(typ), body, f.attestation(key, body, token))
}

func (f *family) attestation(key laptop.KeyPair, body []byte, token string) wire.Header {
	return f.attestationBy("OIDC", key, body, token)
}

// attestationBy is the header of a stamp by a key for which a token vouches: of the scheme OIDC or VERIFICATION_TOKEN.
func (f *family) attestationBy(scheme string, key laptop.KeyPair, body []byte, token string) wire.Header {
	d, ok := new(big.Int).SetString(key.PrivateKey, 16)
	if !ok {
		f.t.Fatal("no private key")
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d.FillBytes(make([]byte, 32)))
	if err != nil {
		f.t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	sig, err := ecdsa.SignASN1(rand.Reader, private, sum[:])
	if err != nil {
		f.t.Fatal(err)
	}
	b, err := json.Marshal(map[string]string{"publicKeyAttestation": token, "scheme": "STAMP_ATTESTED_SCHEME_P256_" + scheme, "publicKey": key.PublicKey, "signature": hex.EncodeToString(sig)})
	if err != nil {
		f.t.Fatal(err)
	}
	return wire.Header{Name: "X-Stamp-Attested", Value: b64(b)}
}

// A token vouches for a key: that starts a session, in the sub-organization itself
// or found below its parent.
func TestAttestedLogIn(t *testing.T) {
	f := newFamily(t)
	now := f.c.Now
	one := f.signUp("one", f.idp.token(f.idp.claims(now(), "me", "web")))
	f.signUp("two", f.idp.token(f.idp.claims(now(), "you", "web")))
	f.later(7 * time.Hour) // the keys must be fetched again
	session := func(at string, key, by laptop.KeyPair, token string) answered {
		return f.attested(by, "STAMP_LOGIN", f.BodyOf(at, "ACTIVITY_TYPE_STAMP_LOGIN", map[string]any{"publicKey": key.PublicKey}), token)
	}
	for _, at := range []string{one, f.id} {
		key, by := newKey(t), newKey(t)
		claims := claimsOf(t, rig.Text(session(at, key, by, f.bound("me", by)).result(t), "session"))
		if claims["organization_id"] != one || claims["public_key"] != key.PublicKey {
			t.Errorf("%v", claims)
		}
		if got := f.ask(key, one, "whoami"); got.status != 200 || rig.Text(got.m, "organizationId") != one {
			t.Errorf("%v", got)
		}
	}
	key, by := newKey(t), newKey(t)
	good := f.bound("me", by)
	forger := f.w.provider("forger.example")
	unknown := "could not find public key in organization or its parent organization"
	for what, c := range map[string]struct {
		at, token  string
		code, says string
	}{
		"another's nonce":      {one, f.bound("me", key), "SIGNATURE_INVALID", "not bound to publicKey"},
		"another subject":      {one, f.bound("I", by), "PUBLIC_KEY_NOT_FOUND", unknown},
		"the neighbour's":      {one, f.bound("you", by), "PUBLIC_KEY_NOT_FOUND", unknown},
		"forged":               {one, forger.signed(`{"alg":"RS256","kid":"r1"}`, f.idp.claims(now(), "me", "web", "nonce", nonceOf(by.PublicKey))), "PUBLIC_KEY_NOT_FOUND", unknown},
		"forged, below":        {f.id, forger.signed(`{"alg":"RS256","kid":"r1"}`, f.idp.claims(now(), "me", "web", "nonce", nonceOf(by.PublicKey))), "PUBLIC_KEY_NOT_FOUND", unknown},
		"nobody's, below":      {f.id, f.bound("I", by), "PUBLIC_KEY_NOT_FOUND", unknown},
		"an unknown key":       {one, forger.signed(`{"alg":"RS256","kid":"r9"}`, f.idp.claims(now(), "me", "web", "nonce", nonceOf(by.PublicKey))), "PUBLIC_KEY_NOT_FOUND", unknown},
		"another organization": {"6ba7b810-9dad-41d1-80b4-00c04fd430c8", good, "PUBLIC_KEY_NOT_FOUND", unknown},
		"expired":              {one, f.bound("me", by, "exp", now().Add(-61*time.Second).Unix()), "INVALID_OIDC_TOKEN", "it has expired"},
		"of the future":        {one, f.bound("me", by, "iat", now().Add(2*time.Minute).Unix()), "INVALID_OIDC_TOKEN", "of the future"},
		"no token":             {one, "x", "INVALID_OIDC_TOKEN", "not a signed token"},
		"none":                 {one, b64([]byte(`{"alg":"none"}`)) + good[strings.IndexByte(good, '.'):], "INVALID_OIDC_TOKEN", "alg must be"},
	} {
		for range often() {
			f.refuses(what, session(c.at, key, by, c.token), 401, c.code, c.says)
		}
	}
	// An outsider cannot tell an identity that is not there from a token that proves nothing.
	a, b := session(one, key, by, f.bound("I", by)), session(one, key, by, forger.signed(`{"alg":"RS256","kid":"r1"}`, f.idp.claims(now(), "me", "web", "nonce", nonceOf(by.PublicKey))))
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v\n%v", a, b)
	}
	// It speaks for nothing else.
	for _, typ := range []string{"CREATE_READ_ONLY_SESSION", "CREATE_WALLET", "REJECT_ACTIVITY", "OAUTH_LOGIN", "NOTHING"} {
		got := f.attested(by, typ, f.BodyOf(one, "ACTIVITY_TYPE_"+typ, map[string]any{}), good)
		f.refuses(typ, got, 401, "SIGNATURE_INVALID", "for nothing else")
	}
	query := fmt.Appendf(nil, `{"organizationId":%q}`, one)
	f.refuses("a query", f.call(wire.EndpointQuery, "whoami", query, f.attestation(by, query, good)), 401, "SIGNATURE_INVALID", "for nothing else")
	body := f.BodyOf(one, "ACTIVITY_TYPE_STAMP_LOGIN", map[string]any{"publicKey": key.PublicKey})
	other := f.attestation(by, []byte("another body"), good)
	f.refuses("another body", f.call(wire.EndpointSubmit, "stamp_login", body, other), 401, "SIGNATURE_INVALID")
}

// A step of MFA that a token passes.
func TestOAuthFactor(t *testing.T) {
	f := newFamily(t)
	user := f.Credentials.RootUserID
	f.done(f.root, f.id, "CREATE_OAUTH_PROVIDERS_V2", map[string]any{"userId": user, "oauthProviders": []any{
		map[string]any{"providerName": "idp", "oidcToken": f.idp.token(f.idp.claims(f.c.Now(), "me", "web"))}}})
	f.done(f.root, f.id, "CREATE_MFA_POLICY", map[string]any{"userId": user, "mfaPolicyName": "M", "condition": "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "order": 1,
		"requiredAuthenticationMethods": []any{map[string]any{"any": []any{map[string]any{"type": "AUTHENTICATION_TYPE_API_KEY"}}}, map[string]any{"any": []any{map[string]any{"type": "AUTHENTICATION_TYPE_OAUTH"}}}}})
	asked := f.submit(f.root, f.id, "CREATE_USER_TAG", map[string]any{"userTagName": "T", "userIds": []any{}})
	if s := rig.Text(asked.m, "activity", "status"); s != "ACTIVITY_STATUS_AUTHENTICATORS_NEEDED" {
		t.Fatalf("%v", asked)
	}
	vote := map[string]any{"fingerprint": rig.Text(asked.m, "activity", "fingerprint")}
	again := f.submit(f.root, f.id, "APPROVE_ACTIVITY", vote)
	if s := rig.Text(again.m, "activity", "status"); s != "ACTIVITY_STATUS_AUTHENTICATORS_NEEDED" {
		t.Errorf("the same key passes both steps: %v", again)
	}
	by := newKey(t)
	f.refuses("a stranger's token", f.attested(by, "APPROVE_ACTIVITY", f.BodyOf(f.id, "ACTIVITY_TYPE_APPROVE_ACTIVITY", vote), f.bound("you", by)), 401, "PUBLIC_KEY_NOT_FOUND")
	got := f.attested(by, "APPROVE_ACTIVITY", f.BodyOf(f.id, "ACTIVITY_TYPE_APPROVE_ACTIVITY", vote), f.bound("me", by))
	if s := rig.Text(got.m, "activity", "status"); s != "ACTIVITY_STATUS_COMPLETED" {
		t.Errorf("%v", got)
	}
}

// On the way through a consensus a token may expire: then the activity fails, and
// says so.
func TestTokenExpiresWhileOthersVote(t *testing.T) {
	f := newFamily(t)
	clerk, clerkKey := f.user("Clerk")
	f.done(f.root, f.id, "UPDATE_ROOT_QUORUM", map[string]any{"threshold": 2, "userIds": []any{f.Credentials.RootUserID, clerk}})
	for _, c := range []struct {
		wait   time.Duration
		status string
	}{{0, "ACTIVITY_STATUS_COMPLETED"}, {10 * time.Minute, "ACTIVITY_STATUS_FAILED"}} {
		name := "sub " + c.status
		asked := f.submit(f.root, f.id, "CREATE_SUB_ORGANIZATION_V8", f.family(name, f.idp.token(f.idp.claims(f.c.Now(), name, "web"))))
		if s := rig.Text(asked.m, "activity", "status"); s != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
			t.Fatalf("%v", asked)
		}
		if c.wait == 0 && f.w.dials.Load() != 0 {
			t.Error("the issuer was asked before the quorum had agreed")
		}
		f.later(c.wait)
		got := f.submit(clerkKey, f.id, "APPROVE_ACTIVITY", map[string]any{"fingerprint": rig.Text(asked.m, "activity", "fingerprint")})
		if s := rig.Text(got.m, "activity", "status"); s != c.status || c.wait > 0 && !strings.Contains(rig.Text(got.m, "activity", "failure", "message"), "it has expired") {
			t.Errorf("%v", got)
		}
	}
}

// Many issuers at once: who waits for others' waits for no stranger's.
func TestManyIssuers(t *testing.T) {
	f := newFamily(t)
	sites := make([]*provider, 12)
	for i := range sites {
		sites[i] = f.w.provider(fmt.Sprintf("issuer-%d.example", i))
	}
	token := func(i int) string { return sites[i].token(sites[i].claims(f.c.Now(), "me", "web")) }
	var all []any
	for i := range sites {
		all = append(all, map[string]any{"userName": fmt.Sprint("User ", i), "apiKeys": []any{}, "authenticators": []any{}, "userTags": []any{}, "oauthProviders": []any{map[string]any{"providerName": "p", "oidcToken": token(i)}}})
	}
	f.refuses("twelve issuers in one request", f.submit(f.root, f.id, "CREATE_USERS_V4", map[string]any{"users": all}), 429, none, "more than 10 issuers")
	// What was fetched for it is known now.
	f.done(f.root, f.id, "CREATE_USERS_V4", map[string]any{"users": all})
	var waits sync.WaitGroup
	shared := f.w.provider("shared.example")
	for i := range 20 {
		waits.Go(func() {
			got := f.submit(f.root, f.id, "CREATE_SUB_ORGANIZATION_V8", f.family(fmt.Sprint("sub ", i), shared.token(shared.claims(f.c.Now(), fmt.Sprint(i), "web"))))
			if got.status != 200 {
				t.Errorf("%v", got)
			}
		})
	}
	waits.Wait()
	if n := shared.asked.Load(); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// A session that was ended does not come back by a token from before, however it was ended and wherever the token is shown.
func TestEndedSessionStaysEnded(t *testing.T) {
	f := newFamily(t)
	sub := f.signUp("one", f.bound("me", newKey(t)))
	owner := newKey(t)
	if got := f.logIn(sub, f.bound("me", owner), owner); got.status != 200 {
		t.Fatalf("%v", got)
	}
	me := rig.Text(f.ask(owner, sub, "whoami").m, "userId")
	more := newKey(t)
	f.done(owner, sub, "CREATE_API_KEYS_V2", map[string]any{"userId": me, "apiKeys": []any{map[string]any{"apiKeyName": "k", "publicKey": more.PublicKey, "curveType": "API_KEY_CURVE_P256"}}})
	key := func(public string) string { // its id
		keys, _ := rig.Get(f.ask(more, sub, "list_users").m, "users", "0", "apiKeys").([]any)
		for _, k := range keys {
			if m, _ := k.(map[string]any); rig.Text(m, "credential", "publicKey") == public {
				return rig.Text(m, "apiKeyId")
			}
		}
		t.Fatalf("no key %s", public)
		return ""
	}
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	target := hex.EncodeToString(private.PublicKey().Bytes())
	for what, end := range map[string]func(stolen laptop.KeyPair){
		"by a log-in with a token": func(laptop.KeyPair) {
			k := newKey(t)
			token := f.bound("me", k)
			got := f.submit(f.root, sub, "OAUTH_LOGIN", map[string]any{"oidcToken": token, "publicKey": k.PublicKey, "invalidateExisting": true})
			if got.status != 200 || f.ask(k, sub, "whoami").status != 200 {
				t.Errorf("the token of the log-in that ends the others: %v", got)
			}
			if got := f.logIn(sub, token, k); got.status != 200 {
				t.Errorf("the same token in the same second: %v", got)
			}
		},
		"by a log-in with a stamp": func(laptop.KeyPair) { f.loginAlone(more, sub) },
		"by a session made in the enclave": func(laptop.KeyPair) {
			f.done(more, sub, "CREATE_READ_WRITE_SESSION_V2", map[string]any{"targetPublicKey": target, "invalidateExisting": true})
		},
		"by its deletion": func(stolen laptop.KeyPair) {
			f.done(more, sub, "DELETE_API_KEYS", map[string]any{"userId": me, "apiKeyIds": []any{key(stolen.PublicKey)}})
		},
	} {
		stolen, by := newKey(t), newKey(t)
		token, attest := f.bound("me", stolen), f.bound("me", by)
		if got := f.logIn(sub, token, stolen); got.status != 200 || f.ask(stolen, sub, "whoami").status != 200 {
			t.Fatalf("%s: %v", what, got)
		}
		f.later(4 * time.Second)
		end(stolen)
		if what != "by a session made in the enclave" && f.ask(stolen, sub, "whoami").status != 401 { // which ends those of its type
			t.Errorf("%s: the session goes on", what)
		}
		for _, wait := range []time.Duration{0, 4 * time.Minute} {
			f.later(wait)
			f.refuses(what+", the same token", f.logIn(sub, token, stolen), 400, "INVALID_OIDC_TOKEN", "issued before sessions or an identity of the user were ended")
			f.refuses(what+", OAUTH", f.submit(f.root, sub, "OAUTH", map[string]any{"oidcToken": f.idp.token(f.idp.claims(f.c.Now().Add(-time.Hour/2), "me", "web", "nonce", nonceOf(target), "exp", f.c.Now().Add(time.Hour).Unix())),
				"targetPublicKey": target}), 400, "INVALID_OIDC_TOKEN", "issued before")
			for _, at := range []string{sub, f.id} {
				body := f.BodyOf(at, "ACTIVITY_TYPE_STAMP_LOGIN", map[string]any{"publicKey": stolen.PublicKey})
				f.refuses(what+", an attested stamp", f.attested(by, "STAMP_LOGIN", body, attest), 401, "INVALID_OIDC_TOKEN", "issued before")
			}
		}
		if got := f.logIn(sub, f.bound("me", stolen), stolen); got.status != 200 {
			t.Errorf("%s: a new token: %v", what, got)
		}
	}
	// An identity that is taken away and given again does not bring back what its old tokens could do.
	stolen := newKey(t)
	token := f.bound("me", stolen)
	identity := rig.Text(f.ask(more, sub, "list_users").m, "users", "0", "oauthProviders", "0", "providerId")
	f.later(time.Second)
	f.done(more, sub, "DELETE_OAUTH_PROVIDERS", map[string]any{"userId": me, "providerIds": []any{identity}})
	if got := f.logIn(sub, token, stolen); got.status != 404 {
		t.Errorf("without the identity: %v", got)
	}
	f.done(more, sub, "CREATE_OAUTH_PROVIDERS_V2", map[string]any{"userId": me, "oauthProviders": []any{map[string]any{"providerName": "idp", "oidcToken": f.bound("me", more)}}})
	f.refuses("the identity again", f.logIn(sub, token, stolen), 400, "INVALID_OIDC_TOKEN", "issued before")
	if got := f.logIn(sub, f.bound("me", stolen), stolen); got.status != 200 {
		t.Errorf("a new token: %v", got)
	}
}

// loginAlone logs in and ends the user's other sessions.
func (f *family) loginAlone(key laptop.KeyPair, organization string) laptop.KeyPair {
	f.t.Helper()
	k := newKey(f.t)
	f.done(key, organization, "STAMP_LOGIN", map[string]any{"publicKey": k.PublicKey, "invalidateExisting": true})
	return k
}
