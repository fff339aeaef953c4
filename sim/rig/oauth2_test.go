package rig_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
)

const verifier = "a-verifier-of-the-client-that-is-43-letters-long"

// oauth2 is an OAuth 2.0 provider as RFC 6749 and 7636 have it: a code is good once,
// for its client, its redirect and who knows its verifier.
type oauth2 struct {
	mu     sync.Mutex
	codes  map[string]string // S256 challenges of codes not used yet
	given  int               // access tokens
	asked  int               // for one
	answer http.HandlerFunc  // in place of the right one, if set
	slow   chan struct{}     // waited for before the first answer, if set
}

func (o *oauth2) issue(code string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	sum := sha256.Sum256([]byte(verifier))
	o.codes[code] = b64(sum[:])
}

func (o *oauth2) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/me") || strings.HasSuffix(r.URL.Path, "/@me") {
		user := r.Header.Get("Authorization")
		if !strings.HasPrefix(user, "Bearer access-") {
			rw.WriteHeader(401)
			return
		}
		if r.Host == "api.x.com" {
			fmt.Fprint(rw, `{"data":{"id":"123","name":"N","username":"n"}}`)
		} else {
			fmt.Fprint(rw, `{"id":"456","username":"n"}`)
		}
		return
	}
	o.mu.Lock()
	o.asked++
	answer, slow := o.answer, o.slow
	o.mu.Unlock()
	if slow != nil {
		<-slow
	}
	if answer != nil {
		answer(rw, r)
		return
	}
	id, secret, _ := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	o.mu.Lock()
	defer o.mu.Unlock()
	challenge, known := o.codes[r.PostFormValue("code")]
	delete(o.codes, r.PostFormValue("code"))
	if id != "client" || secret != "s3cr+t /%" || r.PostFormValue("grant_type") != "authorization_code" || r.PostFormValue("redirect_uri") != "https://app.example/back" || !known || challenge != b64(sum[:]) {
		rw.WriteHeader(400)
		fmt.Fprint(rw, `{"error":"invalid_grant","error_description":"<script>"}`)
		return
	}
	o.given++
	fmt.Fprintf(rw, `{"token_type":"bearer","expires_in":7200,"access_token":"access-%d","scope":"users.read"}`, o.given)
}

func (o *oauth2) counts() (asked, given int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked, o.given
}

func uncompressed(t *testing.T, public string) []byte {
	b, err := hex.DecodeString(public)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 65 {
		return b
	}
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), b)
	return slices.Concat([]byte{4}, x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32)))
}

// clientSecret encrypts a client secret as clients do.
func clientSecret(t *testing.T, public, plain string) string {
	point := uncompressed(t, public)
	to, err1 := ecdh.P256().NewPublicKey(point)
	once, err2 := ecdh.P256().GenerateKey(rand.Reader)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	z, err := once.ECDH(to)
	if err != nil {
		t.Fatal(err)
	}
	from := once.PublicKey().Bytes()
	mac := hmac.New(sha512.New, slices.Concat(from, point, z))
	mac.Write([]byte("qos_encryption_hmac_message"))
	block, err := aes.NewCipher(mac.Sum(nil)[:32])
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, 12)
	sealed := gcm.Seal(nil, nonce, []byte(plain), slices.Concat(from, []byte{65}, point, []byte{65}))
	return hex.EncodeToString(slices.Concat(nonce, from, binary.LittleEndian.AppendUint32(nil, uint32(len(sealed))), sealed))
}

// told is what everybody is told at the boot endpoint.
func (f *family) told(op string) client.Reply {
	u := f.Root()
	u.Stamp = func([]byte) ([]wire.Header, error) { return nil, nil }
	return u.Post(wire.EndpointBoot, op, nil)
}

// published are the keys that the enclave tells of.
func (f *family) published() object { return f.told("keys").JSON() }

// credential makes one at a provider.
func (f *family) credential(provider string) string {
	f.t.Helper()
	return client.Text(f.Root().Do("CREATE_OAUTH2_CREDENTIAL", object{"provider": provider, "clientId": "client",
		"encryptedClientSecret": clientSecret(f.t, client.Text(f.published(), "fetcherEncrypt"), "s3cr+t /%")}), "oauth2CredentialId")
}

func exchange(credential, code string, key laptop.KeyPair, more ...string) object {
	m := object{"oauth2CredentialId": credential, "authCode": code, "redirectUri": "https://app.example/back", "codeVerifier": verifier, "nonce": nonceOf(key.PublicKey)}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

func newOAuth2(f *family) *oauth2 {
	o := &oauth2{codes: map[string]string{}}
	f.w.site("api.x.com", o)
	f.w.site("discord.com", o)
	return o
}

// A code becomes an identity token of the enclave's own, which signs up and logs in.
func TestOAuth2(t *testing.T) {
	f := newFamily(t)
	o := newOAuth2(f)
	for provider, subject := range map[string]string{"OAUTH2_PROVIDER_X": "x:123", "OAUTH2_PROVIDER_DISCORD": "discord:456"} {
		credential, key := f.credential(provider), client.NewKey()
		o.issue(provider)
		token := client.Text(f.Root().Do("OAUTH2_AUTHENTICATE", exchange(credential, provider, key)), "oidcToken")
		claims := claimsOf(t, token)
		if claims["iss"] != "https://cloister.example" || claims["aud"] != "client" || claims["sub"] != subject || claims["nonce"] != nonceOf(key.PublicKey) || claims["exp"].(float64)-claims["iat"].(float64) != 300 {
			t.Errorf("%v", claims)
		}
		dials := f.w.dials.Load()
		sub := f.signUp(provider, token)
		wants(t, "a log-in", f.logIn(sub, token, key), 200, "")
		wants(t, "whoami", f.as(sub, key).Query("whoami", nil), 200, "")
		if f.w.dials.Load() != dials {
			t.Error("the enclave asked outside for its own keys")
		}
		f.later(6 * time.Minute)
		wants(t, "a token past its time", f.logIn(sub, token, key), 400, "INVALID_OIDC_TOKEN", "it has expired")
	}
	// Anybody can verify it by what the host serves, as OpenID Connect has it.
	doc := f.told("discovery_openid")
	if doc.Text("issuer") != "https://cloister.example" || doc.Text("jwks_uri") != "https://cloister.example/.well-known/jwks.json" {
		t.Errorf("%v", doc)
	}
	o.issue("again")
	key := client.NewKey()
	token := client.Text(f.Root().Do("OAUTH2_AUTHENTICATE", exchange(f.list()[0], "again", key, "bearerTokenTargetPublicKey", client.NewKey().PublicKey)), "oidcToken")
	if s, _ := claimsOf(t, token)["encrypted_bearer_token"].(string); s == "" {
		t.Error("no bearer token")
	}
	jwk, _ := f.told("discovery_openid_keys").Get("keys", "0").(object)
	verify(t, token, jwk)
	// It is the key that the boot proof vouches for.
	point := uncompressed(t, client.Text(f.published(), "otp"))
	if jwk["x"] != b64(point[1:33]) || jwk["y"] != b64(point[33:]) {
		t.Errorf("%v", jwk)
	}
}

// list are the OAuth 2.0 credentials.
func (f *family) list() (ids []string) {
	all, _ := f.Root().Query("list_oauth2_credentials", nil).Get("oauth2Credentials").([]any)
	for _, c := range all {
		ids = append(ids, client.Text(c, "oauth2CredentialId"))
	}
	return ids
}

// verify is ES256 by the standard library alone.
func verify(t *testing.T, token string, jwk object) {
	t.Helper()
	i := strings.LastIndexByte(token, '.')
	sig, err := b64d(token[i+1:])
	if err != nil || len(sig) != 64 {
		t.Fatal(err)
	}
	x, err1 := b64d(jwk["x"].(string))
	y, err2 := b64d(jwk["y"].(string))
	key, err3 := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
	sum := sha256.Sum256([]byte(token[:i]))
	if err1 != nil || err2 != nil || err3 != nil || !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		t.Errorf("%v %v %v: the signature does not verify", err1, err2, err3)
	}
	head, _ := b64d(token[:strings.IndexByte(token, '.')])
	var h map[string]string
	if json.Unmarshal(head, &h) != nil || h["alg"] != "ES256" || h["kid"] != jwk["kid"] {
		t.Errorf("%s", head)
	}
}

// What may go wrong with codes.
func TestHostileCodes(t *testing.T) {
	f := newFamily(t)
	o := newOAuth2(f)
	credential, key := f.credential("OAUTH2_PROVIDER_X"), client.NewKey()
	o.issue("one")
	f.Root().Do("OAUTH2_AUTHENTICATE", exchange(credential, "one", key))
	refused := "OAUTH2_PROVIDER_X refused the authorization code"
	for n := range often() {
		wants(t, "a code again", f.Root().Submit("OAUTH2_AUTHENTICATE", exchange(credential, "one", key)), 400, none, refused)
		o.issue("two")
		wrong := fmt.Sprintf("%s%d", strings.Repeat("w", 43), n)
		wants(t, "another verifier", f.Root().Submit("OAUTH2_AUTHENTICATE", exchange(credential, "two", key, "codeVerifier", wrong)), 400, none, refused)
	}
	o.issue("three")
	wants(t, "another redirect", f.Root().Submit("OAUTH2_AUTHENTICATE", exchange(credential, "three", key, "redirectUri", "https://evil.example")), 400, none, refused)
	before, _ := o.counts()
	wants(t, "no verifier", f.Root().Submit("OAUTH2_AUTHENTICATE", exchange(credential, "three", key, "codeVerifier", "short")), 400, none, "43 to 128")
	wants(t, "no credential", f.Root().Submit("OAUTH2_AUTHENTICATE", exchange(f.id, "three", key)), 404, "OAUTH2_CREDENTIAL_NOT_FOUND")
	sub := f.Root().NewSubOrganization("Sub")
	wants(t, "in a sub-organization", sub.Submit("OAUTH2_AUTHENTICATE", exchange(credential, "three", key)), 400, "INVALID_ACTIVITY_CALLER")
	clerk := f.Root().NewUser("Clerk")
	wants(t, "who is not allowed", clerk.Submit("OAUTH2_AUTHENTICATE", exchange(credential, "three", key)), 403, "REQUEST_NOT_AUTHORIZED")
	if after, _ := o.counts(); after != before {
		t.Errorf("the provider was asked %d times for nothing", after-before)
	}
	// Answers that are none.
	for what, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"no JSON": {func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "access_token=a") }, "cannot be used"},
		"a redirect": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://evil.example", http.StatusTemporaryRedirect)
		}, "cannot be used"},
		"broken": {func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) }, "cannot be used"},
		"twice": {func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(rw, `{"token_type":"bearer","access_token":"a","access_token":"b"}`)
		}, "cannot be used"},
		"another kind": {func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(rw, `{"token_type":"mac","access_token":"a"}`)
		}, "cannot be used"},
		"oversized": {func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, strings.Repeat(" ", 300<<10)) }, "too large"},
		"unknown to whom": {func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(rw, `{"token_type":"bearer","access_token":"other"}`)
		}, "refused"},
	} {
		o.mu.Lock()
		o.answer = c.answer
		o.mu.Unlock()
		status := 503
		if c.says == "refused" {
			status = 400
		}
		wants(t, what, f.Root().Submit("OAUTH2_AUTHENTICATE", exchange(credential, "x", key)), status, none, c.says)
	}
	o.mu.Lock()
	o.answer = nil
	o.mu.Unlock()
	liar, liarKey := authority(t, "a root of the host's")
	f.w.leads("api.x.com", f.w.serve(liar, liarKey, o))
	_, given := o.counts()
	for range often() {
		wants(t, "TLS intercepted", f.Root().Submit("OAUTH2_AUTHENTICATE", exchange(credential, "three", key)), 503, none, "certificate does not hold")
	}
	if _, after := o.counts(); after != given {
		t.Error("the interceptor got something")
	}
}

// One body and one vote exchange one code once, however often they come.
func TestOneExchange(t *testing.T) {
	f := newFamily(t)
	o := newOAuth2(f)
	credential, key := f.credential("OAUTH2_PROVIDER_X"), client.NewKey()
	o.issue("one")
	o.mu.Lock()
	slow := make(chan struct{})
	o.slow = slow
	o.mu.Unlock()
	body := f.Root().Body("OAUTH2_AUTHENTICATE", exchange(credential, "one", key))
	var all sync.WaitGroup
	tokens := make([]string, 8)
	for i := range tokens {
		all.Go(func() {
			got := submit(f.Root(), "OAUTH2_AUTHENTICATE", body)
			tokens[i] = got.Text("activity", "result", "oauth2AuthenticateResult", "oidcToken")
		})
	}
	clocktest.Until(t, "the provider is asked", func() bool {
		asked, _ := o.counts()
		return asked > 0
	})
	o.mu.Lock()
	o.slow = nil
	o.mu.Unlock()
	close(slow)
	all.Wait()
	for _, token := range tokens {
		if token == none || token != tokens[0] {
			t.Errorf("%q", tokens)
		}
	}
	if asked, given := o.counts(); asked != 1 || given != 1 {
		t.Errorf("asked %d times, given %d", asked, given)
	}
	// Behind a consensus, which asks for it only at its end.
	clerk := f.Root().NewUser("Clerk")
	f.Root().Do("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{f.Credentials.RootUserID, clerk.User}})
	o.issue("two")
	asked := f.Root().Submit("OAUTH2_AUTHENTICATE", exchange(credential, "two", key))
	if n, _ := o.counts(); n != 1 || asked.State() != "CONSENSUS_NEEDED" {
		t.Fatalf("%v", asked)
	}
	got := clerk.Submit("APPROVE_ACTIVITY", voteOn(asked))
	if n, _ := o.counts(); n != 2 || got.State() != "COMPLETED" {
		t.Errorf("%v", got)
	}
}
