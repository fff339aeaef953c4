package rig_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
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
	return familyIn(w, c, o)
}

func familyIn(w *world, c *clocktest.Clock, o rig.Options) *family {
	f := &family{rateClient: rateClient{w.t, rig.Start(w.t, o)}, w: w, c: c}
	f.id, f.root, f.idp = f.Credentials.OrganizationID, f.Credentials.RootAPIKey, w.provider("accounts.example")
	return f
}

// later moves the enclave's clock.
func (f *family) later(d time.Duration) { f.c.Pass(d) }

// wants holds a reply against a status, a machine code, if one is given, and words.
func wants(t testing.TB, what string, got client.Reply, status int, code string, words ...string) {
	t.Helper()
	for _, w := range append(words, "") {
		if got.JSON() == nil || got.Status != status || code != "" && got.Text("turnkeyErrorCode") != code || !strings.Contains(got.Text("message"), w) {
			t.Errorf("%s: %v, want %d %s %q", what, got, status, code, w)
		}
	}
}

// signUp makes a sub-organization whose user is known by a token alone.
func (f *family) signUp(name, token string) string {
	f.t.Helper()
	return client.Text(f.Root().Do("CREATE_SUB_ORGANIZATION_V8", f.family(name, token)), "subOrganizationId")
}

func (f *family) family(name, token string) object {
	return object{"subOrganizationName": name, "rootQuorumThreshold": 1, "rootUsers": []any{object{
		"userName": "User", "apiKeys": []any{}, "authenticators": []any{}, "oauthProviders": []any{object{"providerName": "idp", "oidcToken": token}}}}}
}

// none is the machine code of what has none.
const none = "<nil>"

// logIn asks for a session of a sub-organization by a token, as the parent.
func (f *family) logIn(sub, token string, key laptop.KeyPair) client.Reply {
	f.t.Helper()
	return f.as(sub, f.root).Submit("OAUTH_LOGIN", object{"oidcToken": token, "publicKey": key.PublicKey})
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
	key := client.NewKey()
	got := f.logIn(sub, f.bound("me", key), key)
	claims := claimsOf(t, client.Text(got.Result(), "session"))
	if claims["organization_id"] != sub || claims["public_key"] != key.PublicKey || claims["session_type"] != "SESSION_TYPE_READ_WRITE" {
		t.Errorf("%v", claims)
	}
	if got := f.as(sub, key).Query("whoami", nil); got.Status != 200 || got.Text("userId") != claims["user_id"] {
		t.Errorf("%v", got)
	}
	f.as(sub, key).Do("CREATE_WALLET", client.Wallet("W"))
	// An elliptic key of the same set, tknonce in place of nonce, an audience in a list.
	second := client.NewKey()
	es := f.idp.signed(`{"alg":"ES256","kid":"e1"}`, f.idp.claims(f.c.Now(), "me", "web", "tknonce", nonceOf(second.PublicKey), "aud", []any{"web"}))
	wants(t, "a log-in", f.logIn(sub, es, second), 200, "")
	if n := f.idp.asked.Load(); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
	// The credential bundle of old.
	target := client.NewKey()
	r := f.as(sub, f.root).Do("OAUTH", object{"oidcToken": f.bound("me", target), "targetPublicKey": target.PublicKey})
	if bundle := client.Text(r, "credentialBundle"); client.Text(r, "userId") != claims["user_id"] || bundle == none || bundle == "" {
		t.Errorf("%v", r)
	}
	// The session's own user may widen his identity with claims that share issuer and subject.
	f.as(sub, key).Do("CREATE_OAUTH_PROVIDERS_V2", object{"userId": claims["user_id"], "oauthProviders": []any{
		object{"providerName": "ios", "oidcClaims": object{"iss": f.idp.url, "sub": "me", "aud": "ios"}}}})
	got = f.as(sub, key).Submit("CREATE_OAUTH_PROVIDERS_V2", object{"userId": claims["user_id"], "oauthProviders": []any{
		object{"providerName": "again", "oidcToken": f.idp.token(f.idp.claims(f.c.Now(), "me", "ios"))}}})
	wants(t, "an identity that is held", got, 400, "OAUTH_PROVIDER_ALREADY_EXISTS")
}

// A token leads to the sub-organization whose user it is about.
func TestSubOrganizationByToken(t *testing.T) {
	f := newFamily(t)
	look := func(key laptop.KeyPair, token string) client.Reply {
		return f.as(f.id, key).Query("list_suborgs", object{"filterType": "OIDC_TOKEN", "filterValue": token})
	}
	token := f.idp.token(f.idp.claims(f.c.Now(), "me", "web"))
	wants(t, "a stranger", look(client.NewKey(), token), 401, "PUBLIC_KEY_NOT_FOUND")
	if f.w.dials.Load() != 0 {
		t.Error("a stranger had somebody asked")
	}
	if got := look(f.root, token); got.Status != 200 || got.Text("organizationIds") != "[]" {
		t.Errorf("%v", got)
	}
	sub := f.signUp("one", token)
	if got := look(f.root, token); got.Status != 200 || got.Text("organizationIds", "0") != sub {
		t.Errorf("%v", got)
	}
	forger := f.w.provider("forger.example")
	wants(t, "forged", look(f.root, forger.signed(`{"alg":"RS256","kid":"r1"}`, f.idp.claims(f.c.Now(), "me", "web"))), 400, "INVALID_OIDC_TOKEN", "does not verify")
	wants(t, "no token", look(f.root, "x"), 400, "INVALID_OIDC_TOKEN", "not a signed token")
	f.w.leads("unknown.example", "127.0.0.1:1")
	wants(t, "away", look(f.root, f.idpAt("https://unknown.example").token(f.idp.claims(f.c.Now(), "me", "web", "iss", "https://unknown.example"))), 503, none, "could not be reached")
}

// What a hostile client, or a host that carries his requests, may try with tokens.
func TestHostileTokens(t *testing.T) {
	f := newFamily(t)
	now := f.c.Now
	one, two := f.signUp("one", f.idp.token(f.idp.claims(now(), "me", "web"))), f.signUp("two", f.idp.token(f.idp.claims(now(), "you", "web")))
	key := client.NewKey()
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
		"another nonce":              {f.bound("me", client.NewKey()), 400, bad, "nonce"},
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
			wants(t, what, f.logIn(one, c.token, key), c.status, c.code, c.says)
		}
	}
	wants(t, "whoami", f.as(one, key).Query("whoami", nil), 401, "")
	// What is good is good still, and it is no token for the neighbour.
	wants(t, "a log-in", f.logIn(one, good, key), 200, "")
	wants(t, "a log-in", f.logIn(two, good, key), 404, "")
}

// A host that leads the enclave elsewhere: it may withhold keys, and supplies none.
func TestSubstitutedKeys(t *testing.T) {
	f := newFamily(t)
	sub := f.signUp("one", f.idp.token(f.idp.claims(f.c.Now(), "me", "web")))
	key := client.NewKey()
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
		got := f.Root().Submit("CREATE_SUB_ORGANIZATION_V8", f.family(name, liar.token(liar.claims(f.c.Now(), "me", "web"))))
		wants(t, name, got, 503, none, "certificate does not hold")
		if f.w.dials.Load() == before {
			t.Errorf("%s: nobody was asked", name)
		}
	}
	for range 3 {
		wants(t, "TLS intercepted", f.logIn(sub, forged(), key), 503, none, "certificate does not hold")
	}
	f.later(6 * time.Second) // or the last failure would be told again
	f.w.leads("accounts.example", "")
	wants(t, "forged keys", f.logIn(sub, forged(), key), 400, "INVALID_OIDC_TOKEN", "signature does not verify")
	wants(t, "a log-in", f.logIn(sub, f.bound("me", key), key), 200, "")
	// A failure in between does not end what is believed, and its time does.
	f.w.leads("accounts.example", "127.0.0.1:1")
	f.later(time.Hour)
	second := client.NewKey()
	wants(t, "a log-in", f.logIn(sub, f.bound("me", second), second), 200, "")
	f.later(6 * time.Hour)
	wants(t, "away", f.logIn(sub, f.bound("me", second), second), 503, none, "could not be reached")
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
			p.discovery.Store(asJSON(t, object{"issuer": "https://other.example", "jwks_uri": p.url + "/keys"}))
		}, 400, "another issuer"},
		"a slash more": {func(p *provider) {
			p.discovery.Store(asJSON(t, object{"issuer": p.url + "/", "jwks_uri": p.url + "/keys"}))
		}, 400, "another issuer"},
		"issuer twice": {func(p *provider) {
			p.discovery.Store(fmt.Sprintf(`{"issuer":"https://other.example","issuer":%q,"jwks_uri":"%s/keys"}`, p.url, p.url))
		}, 400, "malformed"},
		"no document": {func(p *provider) { p.discovery.Store("<html>") }, 400, "malformed"},
		"keys over http": {func(p *provider) {
			p.discovery.Store(asJSON(t, object{"issuer": p.url, "jwks_uri": "http" + p.url[5:] + "/keys"}))
		}, 400, "no key set at an https URL"},
		"keys inside": {func(p *provider) {
			p.discovery.Store(asJSON(t, object{"issuer": p.url, "jwks_uri": "https://10.1.2.3/keys"}))
		}, 400, "public name"},
		"keys moved": {func(p *provider) {
			p.discovery.Store(asJSON(t, object{"issuer": p.url, "jwks_uri": p.url + "/moved"}))
		}, 503, "not what it should be"},
		"an oversized document": {func(p *provider) { p.discovery.Store(p.discovery.Load().(string) + big) }, 503, "too large"},
		"a large document":      {func(p *provider) { p.discovery.Store(p.discovery.Load().(string) + big[:100<<10]) }, 400, "too large"},
		"an oversized key set":  {func(p *provider) { p.keys.Store(p.keys.Load().(string) + big) }, 503, "too large"},
		"a key set with a secret": {func(p *provider) {
			p.keys.Store(asJSON(t, object{"keys": []any{object{"kty": "oct", "k": "AA", "kid": "r1"}}}))
		}, 400, "no key for it"},
		"no keys":            {func(p *provider) { p.keys.Store(`{"keys":[]}`) }, 400, "no key for it"},
		"keys that are none": {func(p *provider) { p.keys.Store(`[]`) }, 400, "malformed"},
		"deep":               {func(p *provider) { p.keys.Store(strings.Repeat(`{"keys":[`, 10000)) }, 400, "malformed"},
	} {
		p := f.w.provider(strings.ReplaceAll(what, " ", "-") + ".example")
		c.change(p)
		got := f.Root().Submit("CREATE_SUB_ORGANIZATION_V8", f.family(what, p.token(p.claims(f.c.Now(), "me", "web"))))
		code := "INVALID_OIDC_TOKEN"
		if c.status == 503 {
			code = none
		}
		wants(t, what, got, c.status, code, c.says)
	}
	// Two keys of one id are tried both, as RFC 7517 only says that there should not be two.
	p := f.w.provider("two-keys.example")
	p.keys.Store(asJSON(t, object{"keys": []any{f.idp.jwkRSA("r1"), p.jwkRSA("r1"), p.jwkRSA("r1")}}))
	wants(t, "two keys of one id", f.Root().Submit("CREATE_SUB_ORGANIZATION_V8", f.family("two keys", p.token(p.claims(f.c.Now(), "me", "web")))), 200, "")
	// Issuers that may not be asked at all. A simulator asks those on its own machine.
	before := f.w.dials.Load()
	for _, url := range []string{"http://accounts.example", "https://127.0.0.2", "https://[fd00::1]", "https://10.0.0.1:8443", "https://intranet", "https://accounts.example?x", "https://user@accounts.example",
		"https://accounts.example#x", "ftp://accounts.example", "accounts.example", "https://169.254.169.254/latest", "https://metadata.localhost", "https://0x7f.1"} {
		p := *f.idpAt(url)
		got := f.Root().Submit("CREATE_SUB_ORGANIZATION_V8", f.family(url, p.token(p.claims(f.c.Now(), "me", "web"))))
		wants(t, url, got, 400, "INVALID_OIDC_TOKEN", "public name")
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
	const typ = "CREATE_SUB_ORGANIZATION_V8"
	body := f.Root().Body(typ, f.family("one", token))
	for n := range often() {
		wants(t, "a stranger", submit(f.as(f.id, client.NewKey()), typ, body), 401, "PUBLIC_KEY_NOT_FOUND")
		key := client.NewKey()
		unknown := f.attested(f.id, key, f.bound(fmt.Sprint(n), key)).Submit("STAMP_LOGIN", object{"publicKey": key.PublicKey})
		wants(t, "attested by somebody unknown", unknown, 401, "PUBLIC_KEY_NOT_FOUND")
	}
	wants(t, "who is not allowed", submit(f.Root().NewUser("Clerk"), typ, body), 403, "REQUEST_NOT_AUTHORIZED")
	if n := f.w.dials.Load(); n != 0 {
		t.Errorf("%d streams", n)
	}
}

// attested is a user who stamps by a key for which a provider's token vouches.
func (f *family) attested(organization string, key laptop.KeyPair, token string) *client.User {
	return attested(f.as(organization, key), "OIDC", token)
}

// attested has a user stamp by a key for which a token vouches: of the scheme OIDC or VERIFICATION_TOKEN.
func attested(u *client.User, scheme, token string) *client.User {
	u.Stamp = func(body []byte) ([]wire.Header, error) {
		raw, err := hex.DecodeString(u.Key.PrivateKey)
		if err != nil {
			return nil, err
		}
		private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(body)
		sig, err := ecdsa.SignASN1(rand.Reader, private, sum[:])
		head := asJSON(u.Test, object{"publicKeyAttestation": token, "scheme": "STAMP_ATTESTED_SCHEME_P256_" + scheme, "publicKey": u.Key.PublicKey, "signature": hex.EncodeToString(sig)})
		return []wire.Header{{Name: "X-Stamp-Attested", Value: b64([]byte(head))}}, err
	}
	return u
}

// A token vouches for a key: that starts a session, in the sub-organization itself
// or found below its parent.
func TestAttestedLogIn(t *testing.T) {
	f := newFamily(t)
	now := f.c.Now
	one := f.signUp("one", f.idp.token(f.idp.claims(now(), "me", "web")))
	f.signUp("two", f.idp.token(f.idp.claims(now(), "you", "web")))
	f.later(7 * time.Hour) // the keys must be fetched again
	session := func(at string, key, by laptop.KeyPair, token string) client.Reply {
		return f.attested(at, by, token).Submit("STAMP_LOGIN", object{"publicKey": key.PublicKey})
	}
	for _, at := range []string{one, f.id} {
		key, by := client.NewKey(), client.NewKey()
		claims := claimsOf(t, client.Text(session(at, key, by, f.bound("me", by)).Result(), "session"))
		if claims["organization_id"] != one || claims["public_key"] != key.PublicKey {
			t.Errorf("%v", claims)
		}
		if got := f.as(one, key).Query("whoami", nil); got.Status != 200 || got.Text("organizationId") != one {
			t.Errorf("%v", got)
		}
	}
	key, by := client.NewKey(), client.NewKey()
	good := f.bound("me", by)
	forger := f.w.provider("forger.example")
	unknown := "could not find public key in organization or its parent organization"
	for what, c := range map[string]struct {
		at, token  string
		code, says string
	}{
		"another's nonce": {one, f.bound("me", key), "SIGNATURE_INVALID", "not bound to publicKey"},
		"another subject": {one, f.bound("I", by), "PUBLIC_KEY_NOT_FOUND", unknown},
		"the neighbour's": {one, f.bound("you", by), "PUBLIC_KEY_NOT_FOUND", unknown},
		"forged":          {one, forger.signed(`{"alg":"RS256","kid":"r1"}`, f.idp.claims(now(), "me", "web", "nonce", nonceOf(by.PublicKey))), "PUBLIC_KEY_NOT_FOUND", unknown},
		"forged, below":   {f.id, forger.signed(`{"alg":"RS256","kid":"r1"}`, f.idp.claims(now(), "me", "web", "nonce", nonceOf(by.PublicKey))), "PUBLIC_KEY_NOT_FOUND", unknown},
		"nobody's, below": {f.id, f.bound("I", by), "PUBLIC_KEY_NOT_FOUND", unknown},
		"an unknown key":  {one, forger.signed(`{"alg":"RS256","kid":"r9"}`, f.idp.claims(now(), "me", "web", "nonce", nonceOf(by.PublicKey))), "PUBLIC_KEY_NOT_FOUND", unknown},
		"expired":         {one, f.bound("me", by, "exp", now().Add(-61*time.Second).Unix()), "INVALID_OIDC_TOKEN", "it has expired"},
		"of the future":   {one, f.bound("me", by, "iat", now().Add(2*time.Minute).Unix()), "INVALID_OIDC_TOKEN", "of the future"},
		"no token":        {one, "x", "INVALID_OIDC_TOKEN", "not a signed token"},
		"none":            {one, b64([]byte(`{"alg":"none"}`)) + good[strings.IndexByte(good, '.'):], "INVALID_OIDC_TOKEN", "alg must be"},
	} {
		for range often() {
			wants(t, what, session(c.at, key, by, c.token), 401, c.code, c.says)
		}
	}
	wants(t, "another organization", session("6ba7b810-9dad-41d1-80b4-00c04fd430c8", key, by, good), 404, "ORGANIZATION_NOT_FOUND")
	// An outsider cannot tell an identity that is not there from a token that proves nothing.
	a, b := session(one, key, by, f.bound("I", by)), session(one, key, by, forger.signed(`{"alg":"RS256","kid":"r1"}`, f.idp.claims(now(), "me", "web", "nonce", nonceOf(by.PublicKey))))
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%v\n%v", a, b)
	}
	// It speaks for nothing else.
	for _, typ := range []string{"CREATE_READ_ONLY_SESSION", "CREATE_WALLET", "REJECT_ACTIVITY", "OAUTH_LOGIN", "NOTHING"} {
		wants(t, typ, f.attested(one, by, good).Submit(typ, object{}), 401, "SIGNATURE_INVALID", "for nothing else")
	}
	wants(t, "a query", f.attested(one, by, good).Query("whoami", nil), 401, "SIGNATURE_INVALID", "for nothing else")
	other := f.attested(one, by, good)
	stamp := other.Stamp
	other.Stamp = func([]byte) ([]wire.Header, error) { return stamp([]byte("another body")) }
	wants(t, "another body", other.Submit("STAMP_LOGIN", object{"publicKey": key.PublicKey}), 401, "SIGNATURE_INVALID")
}

// A step of MFA that a token passes.
func TestOAuthFactor(t *testing.T) {
	f := newFamily(t)
	user := f.Credentials.RootUserID
	f.Root().Do("CREATE_OAUTH_PROVIDERS_V2", object{"userId": user, "oauthProviders": []any{
		object{"providerName": "idp", "oidcToken": f.idp.token(f.idp.claims(f.c.Now(), "me", "web"))}}})
	f.Root().Do("CREATE_MFA_POLICY", object{"userId": user, "mfaPolicyName": "M", "condition": "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "order": 1,
		"requiredAuthenticationMethods": []any{object{"any": []any{object{"type": "AUTHENTICATION_TYPE_API_KEY"}}}, object{"any": []any{object{"type": "AUTHENTICATION_TYPE_OAUTH"}}}}})
	asked := f.Root().Submit("CREATE_USER_TAG", client.Tag("T"))
	if asked.State() != "AUTHENTICATORS_NEEDED" {
		t.Fatalf("%v", asked)
	}
	vote := voteOn(asked)
	again := f.Root().Submit("APPROVE_ACTIVITY", vote)
	if again.State() != "AUTHENTICATORS_NEEDED" {
		t.Errorf("the same key passes both steps: %v", again)
	}
	by := client.NewKey()
	wants(t, "a stranger's token", f.attested(f.id, by, f.bound("you", by)).Submit("APPROVE_ACTIVITY", vote), 401, "PUBLIC_KEY_NOT_FOUND")
	f.attested(f.id, by, f.bound("me", by)).Do("APPROVE_ACTIVITY", vote)
}

// On the way through a consensus a token may expire: then the activity fails, and
// says so.
func TestTokenExpiresWhileOthersVote(t *testing.T) {
	f := newFamily(t)
	clerk := f.Root().NewUser("Clerk")
	f.Root().Do("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{f.Credentials.RootUserID, clerk.User}})
	for _, c := range []struct {
		wait   time.Duration
		status string
	}{{0, "COMPLETED"}, {10 * time.Minute, "FAILED"}} {
		name := "sub " + c.status
		asked := f.Root().Submit("CREATE_SUB_ORGANIZATION_V8", f.family(name, f.idp.token(f.idp.claims(f.c.Now(), name, "web"))))
		if asked.State() != "CONSENSUS_NEEDED" {
			t.Fatalf("%v", asked)
		}
		if c.wait == 0 && f.w.dials.Load() != 0 {
			t.Error("the issuer was asked before the quorum had agreed")
		}
		f.later(c.wait)
		got := clerk.Submit("APPROVE_ACTIVITY", voteOn(asked))
		if got.State() != c.status || c.wait > 0 && !strings.Contains(got.Text("activity", "failure", "message"), "it has expired") {
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
		all = append(all, object{"userName": fmt.Sprint("User ", i), "apiKeys": []any{}, "authenticators": []any{}, "userTags": []any{}, "oauthProviders": []any{object{"providerName": "p", "oidcToken": token(i)}}})
	}
	wants(t, "twelve issuers in one request", f.Root().Submit("CREATE_USERS_V4", object{"users": all}), 429, none, "more than 10 issuers")
	// What was fetched for it is known now.
	f.Root().Do("CREATE_USERS_V4", object{"users": all})
	var waits sync.WaitGroup
	shared := f.w.provider("shared.example")
	for i := range 20 {
		waits.Go(func() {
			got := f.Root().Submit("CREATE_SUB_ORGANIZATION_V8", f.family(fmt.Sprint("sub ", i), shared.token(shared.claims(f.c.Now(), fmt.Sprint(i), "web"))))
			if got.Status != 200 {
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
	sub := f.signUp("one", f.bound("me", client.NewKey()))
	owner := f.as(sub, client.NewKey())
	if got := f.logIn(sub, f.bound("me", owner.Key), owner.Key); got.Status != 200 {
		t.Fatalf("%v", got)
	}
	me := owner.Query("whoami", nil).Text("userId")
	owner.User = me
	more := owner.NewKey()
	key := func(public string) string { // its id
		keys, _ := more.Query("list_users", nil).Get("users", "0", "apiKeys").([]any)
		for _, k := range keys {
			if m, _ := k.(object); client.Text(m, "credential", "publicKey") == public {
				return client.Text(m, "apiKeyId")
			}
		}
		t.Fatalf("no key %s", public)
		return ""
	}
	_, target := encapsulation(t)
	for what, end := range map[string]func(stolen laptop.KeyPair){
		"by a log-in with a token": func(laptop.KeyPair) {
			k := client.NewKey()
			token := f.bound("me", k)
			got := f.as(sub, f.root).Submit("OAUTH_LOGIN", object{"oidcToken": token, "publicKey": k.PublicKey, "invalidateExisting": true})
			if got.Status != 200 || f.as(sub, k).Query("whoami", nil).Status != 200 {
				t.Errorf("the token of the log-in that ends the others: %v", got)
			}
			wants(t, "the same token in the same second", f.logIn(sub, token, k), 200, "")
		},
		"by a log-in with a stamp": func(laptop.KeyPair) {
			more.Do("STAMP_LOGIN", object{"publicKey": client.NewKey().PublicKey, "invalidateExisting": true})
		},
		"by a session made in the enclave": func(laptop.KeyPair) {
			more.Do("CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": target, "invalidateExisting": true})
		},
		"by its deletion": func(stolen laptop.KeyPair) {
			more.Do("DELETE_API_KEYS", object{"userId": me, "apiKeyIds": []any{key(stolen.PublicKey)}})
		},
	} {
		stolen, by := client.NewKey(), client.NewKey()
		token, attest := f.bound("me", stolen), f.bound("me", by)
		if got := f.logIn(sub, token, stolen); got.Status != 200 || f.as(sub, stolen).Query("whoami", nil).Status != 200 {
			t.Fatalf("%s: %v", what, got)
		}
		f.later(4 * time.Second)
		end(stolen)
		if what != "by a session made in the enclave" && f.as(sub, stolen).Query("whoami", nil).Status != 401 { // which ends those of its type
			t.Errorf("%s: the session goes on", what)
		}
		for _, wait := range []time.Duration{0, 4 * time.Minute} {
			f.later(wait)
			wants(t, what+", the same token", f.logIn(sub, token, stolen), 400, "INVALID_OIDC_TOKEN", "issued before sessions or an identity of the user were ended")
			earlier := f.idp.claims(f.c.Now().Add(-time.Hour/2), "me", "web", "nonce", nonceOf(target), "exp", f.c.Now().Add(time.Hour).Unix())
			got := f.as(sub, f.root).Submit("OAUTH", object{"oidcToken": f.idp.token(earlier), "targetPublicKey": target})
			wants(t, what+", OAUTH", got, 400, "INVALID_OIDC_TOKEN", "issued before")
			for _, at := range []string{sub, f.id} {
				got := f.attested(at, by, attest).Submit("STAMP_LOGIN", object{"publicKey": stolen.PublicKey})
				wants(t, what+", an attested stamp", got, 401, "INVALID_OIDC_TOKEN", "issued before")
			}
		}
		wants(t, what+": a new token", f.logIn(sub, f.bound("me", stolen), stolen), 200, "")
	}
	// An identity that is taken away and given again does not bring back what its old tokens could do.
	stolen := client.NewKey()
	token := f.bound("me", stolen)
	identity := more.Query("list_users", nil).Text("users", "0", "oauthProviders", "0", "providerId")
	f.later(time.Second)
	more.Do("DELETE_OAUTH_PROVIDERS", object{"userId": me, "providerIds": []any{identity}})
	wants(t, "without the identity", f.logIn(sub, token, stolen), 404, "")
	more.Do("CREATE_OAUTH_PROVIDERS_V2", object{"userId": me, "oauthProviders": []any{object{"providerName": "idp", "oidcToken": f.bound("me", more.Key)}}})
	wants(t, "the identity again", f.logIn(sub, token, stolen), 400, "INVALID_OIDC_TOKEN", "issued before")
	wants(t, "a new token", f.logIn(sub, f.bound("me", stolen), stolen), 200, "")
}
