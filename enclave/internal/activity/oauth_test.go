package activity_test

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
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

// errNotYet is what core turns into a fetch.
var errNotYet = errors.New("not fetched yet")

// providers knows the keys of issuers, and what an exchange comes to.
type providers struct {
	keys      map[string]*login.KeySet
	exchanged func(*activity.Exchange) (*activity.Exchanged, error)
}

func newProviders() *providers { return &providers{keys: map[string]*login.KeySet{}} }

func (o *providers) Keys(field, issuer string, has func(*login.KeySet) bool) (*login.KeySet, error) {
	set := o.keys[issuer]
	switch {
	case set == nil:
		return nil, errNotYet
	case !has(set):
		return nil, login.NoIssuerKey(field)
	}
	return set, nil
}

func (o *providers) Exchange(x *activity.Exchange) (*activity.Exchanged, error) {
	if o.exchanged == nil {
		return nil, errNotYet
	}
	return o.exchanged(x)
}

func newRoles(w *world) *activity.Roles {
	r := &activity.Roles{Issuer: "https://cloister.example", Identities: newSigner(w)}
	var err error
	r.ClientSecrets, err = bundle.NewPrivateKey(w.rand)
	w.must(err)
	r.OnRamp, err = bundle.NewPrivateKey(w.rand)
	w.must(err)
	return r
}

func newSigner(w *world) *login.Signer {
	s, _ := newPair(w)
	return s
}

func newPair(w *world) (*login.Signer, *ecdsa.PrivateKey) {
	private, err := bundle.NewPrivateKey(w.rand)
	w.must(err)
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secrettest.Bytes(private))
	w.must(err)
	s, err := login.NewSigner(private)
	w.must(err)
	return s, key
}

// publicOf is the compressed public key of a private one.
func publicOf(w *world, private secret.Secret) string {
	s, err := login.NewSigner(private)
	w.must(err)
	return s.Public().String()
}

// uncompressed is the long form of a compressed point.
func uncompressed(w *world, public string) string {
	b, err := hex.DecodeString(public)
	w.must(err)
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), b)
	return "04" + hex.EncodeToString(x.FillBytes(make([]byte, 32))) + hex.EncodeToString(y.FillBytes(make([]byte, 32)))
}

// clientSecret encrypts a client secret as clients do: hex of nonce, one-time point,
// length and ciphertext.
func clientSecret(w *world, public, plain string) string {
	point, err := hex.DecodeString(uncompressed(w, public))
	w.must(err)
	to, err := ecdh.P256().NewPublicKey(point)
	w.must(err)
	once, err := ecdh.P256().GenerateKey(rand.Reader)
	w.must(err)
	z, err := once.ECDH(to)
	w.must(err)
	from := once.PublicKey().Bytes()
	mac := hmac.New(sha512.New, slices.Concat(from, point, z))
	mac.Write([]byte("qos_encryption_hmac_message"))
	block, err := aes.NewCipher(mac.Sum(nil)[:32])
	w.must(err)
	gcm, err := cipher.NewGCM(block)
	w.must(err)
	nonce := make([]byte, 12)
	sealed := gcm.Seal(nil, nonce, []byte(plain), slices.Concat(from, []byte{65}, point, []byte{65}))
	return hex.EncodeToString(slices.Concat(nonce, from, binary.LittleEndian.AppendUint32(nil, uint32(len(sealed))), sealed))
}

// issuer is somebody who issues identity tokens.
type issuer struct {
	w   *world
	url string
	by  *login.Signer
	key *ecdsa.PrivateKey
}

// stranger is one whose keys are not known.
func stranger(w *world, url string) *issuer {
	by, key := newPair(w)
	return &issuer{w, url, by, key}
}

// newIssuer is one whose keys are known.
func newIssuer(w *world, url string) *issuer {
	i := stranger(w, url)
	w.providers.keys[url] = login.KeySetOf(i.by.Public())
	return i
}

// token issues a token of now, changed.
func (i *issuer) token(sub, aud string, change ...func(*login.IdentityToken)) string {
	t := &login.IdentityToken{Issuer: i.url, Audience: aud, Subject: sub, IssuedMs: i.w.now, ExpiresMs: i.w.now + 300_000}
	for _, c := range change {
		c(t)
	}
	text, err := login.IssueIdentityToken(i.by, t)
	i.w.must(err)
	return text
}

// boundTo gives a token the nonce of a key.
func boundTo(public string) func(*login.IdentityToken) {
	return func(t *login.IdentityToken) { t.Nonce = login.Nonce(public) }
}

func byToken(token string) object { return object{"providerName": "p", "oidcToken": token} }

func TestProvidersByToken(t *testing.T) {
	w := newWorld(t)
	google, other := newIssuer(w, "https://accounts.google.com"), newIssuer(w, "https://other.example")
	add := func(ps ...object) object { return object{"userId": w.root, "oauthProviders": ps} }
	w.run("CREATE_OAUTH_PROVIDERS", add(byToken(google.token("me", "web"))))
	// What a token proves, claims beside it may widen, in whatever order.
	w.run("CREATE_OAUTH_PROVIDERS_V2", add(claims(other.url, "you", "ios"), byToken(other.token("you", "web")), claims(google.url, "me", "ios")))
	want := []string{google.url + " me web", other.url + " you ios", other.url + " you web", google.url + " me ios"}
	var got []string
	for _, p := range userOf(w, w.root).OauthProviders {
		got = append(got, p.Issuer+" "+p.Subject+" "+p.Audience)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// As a sign-up does, and of new users.
	child := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("one", 1, with(rootUser("R"), "oauthProviders", []any{byToken(google.token("new", "web")), claims(google.url, "new", "ios")})))["subOrganizationId"])
	if p := userOf(child, child.root).OauthProviders; len(p) != 2 || p[0].Subject != "new" || p[1].Audience != "ios" {
		t.Errorf("%+v", p)
	}
	w.run("CREATE_SUB_ORGANIZATION_V7", subOrganization("two", 1, with(rootUser("R"), "oauthProviders", []any{byToken(google.token("newer", "web"))})))
	w.run("CREATE_USERS_V3", object{"users": []any{with(user("U3"), "oauthProviders", []any{byToken(google.token("u3", "web"))})}})
	w.run("CREATE_USERS_V4", object{"users": []any{with(user("U4"), "oauthProviders", []any{byToken(google.token("u4", "web"))})}})

	liar := stranger(w, google.url) // says that it is Google
	expired := func(t *login.IdentityToken) { t.ExpiresMs = w.now - login.Skew }
	future := func(t *login.IdentityToken) { t.IssuedMs = w.now + login.Skew + 1000 }
	token := google.token("fresh", "web")
	head, rest, _ := strings.Cut(token, ".")
	body, sig, _ := strings.Cut(rest, ".")
	for name, c := range map[string]struct{ token, says string }{
		"another key":        {liar.token("fresh", "web"), "no key for it"},
		"signature of other": {head + "." + body + "." + google.token("u3", "web")[strings.LastIndexByte(google.token("u3", "web"), '.')+1:], "does not verify"},
		"none":               {encoded(`{"alg":"none"}`) + "." + body + ".", "alg must be"},
		"HMAC":               {encoded(`{"alg":"HS256"}`) + "." + body + "." + sig, "alg must be"},
		"another kid":        {encoded(`{"alg":"ES256","kid":"x"}`) + "." + body + "." + sig, "no key for it"},
		"claims twice":       {head + "." + encoded(`{"iss":"https://accounts.google.com","sub":"a","sub":"b","aud":"web","iat":1,"exp":9999999999}`) + "." + sig, "claims are malformed"},
		"expired":            {google.token("fresh", "web", expired), "it has expired"},
		"of the future":      {google.token("fresh", "web", future), "it is of the future"},
		"no token":           {"x.y.z", "not a signed token"},
	} {
		_, err := w.try("CREATE_OAUTH_PROVIDERS_V2", add(byToken(c.token)))
		if f := fault.Of(err); f == nil || f.Code != fault.InvalidArgument || f.Name != "INVALID_OIDC_TOKEN" || !strings.Contains(f.Message, c.says) || f.Violations[0].Field != "oauthProviders.0.oidcToken" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		params any
		says   string
	}{
		{add(byToken(google.token("me", "web"))), "already exists"},
		{add(byToken(google.token("new", "tv")), byToken(google.token("new", "tv"))), "already exists"},
		{add(byToken(google.token("me", "tv")), claims(other.url, "me", "tv")), "must share iss and sub"},
		{add(byToken(google.token("me", "tv")), claims(google.url, "I", "tv")), "must share iss and sub"},
	} {
		w.refused("CREATE_OAUTH_PROVIDERS_V2", c.params, 3, c.says)
	}
	w.refused("CREATE_USERS_V4", object{"users": []any{with(user("U5"), "oauthProviders", []any{byToken(google.token("u3", "web"))})}}, 3, "already exists")
	// One user's token proves nothing of another.
	w.refused("CREATE_USERS_V4", object{"users": []any{with(user("U5"), "oauthProviders", []any{byToken(google.token("u5", "web"))}), with(user("U6"), "oauthProviders", []any{claims(google.url, "u5", "ios")})}}, 3, "must share iss and sub")
	// What is not fetched yet is no refusal: it is fetched, and the activity runs again.
	if _, err := w.try("CREATE_OAUTH_PROVIDERS_V2", add(byToken(stranger(w, "https://new.example").token("me", "web")))); !errors.Is(err, errNotYet) {
		t.Error(err)
	}
}

func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestSeveralAudiences(t *testing.T) {
	w := newWorld(t)
	i := newIssuer(w, "https://issuer.example")
	public := w.freshP256()
	identity(w, w.root, i.url, "me", "one")
	several := i.signed(fmt.Sprintf(`{"iss":%q,"sub":"me","aud":["zero","one"],"iat":%d,"exp":%d,"nonce":%q}`, i.url, w.now/1000, w.now/1000+60, login.Nonce(public)))
	w.run("OAUTH_LOGIN", object{"oidcToken": several, "publicKey": public})
	w.refused("CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.root, "oauthProviders": []any{byToken(several)}}, 3, "more than one audience")
	// Two users, each by one of the audiences.
	bob := newUser(w, user("Bob", apiKey("b", w.freshKey())))
	identity(w, bob, i.url, "me", "zero")
	w.refused("OAUTH_LOGIN", object{"oidcToken": several, "publicKey": public}, 5, "no user of the organization")
}

// signed signs claims that login would not write.
func (i *issuer) signed(claims string) string {
	token := i.token("x", "x")
	head := token[:strings.IndexByte(token, '.')]
	text := head + "." + encoded(claims)
	digest := sha256.Sum256([]byte(text))
	r, sig, err := ecdsa.Sign(rand.Reader, i.key, digest[:])
	i.w.must(err)
	var b [64]byte
	r.FillBytes(b[:32])
	sig.FillBytes(b[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(b[:])
}

func TestOauthLogin(t *testing.T) {
	w := newWorld(t)
	i := newIssuer(w, "https://issuer.example")
	child := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("one", 1, rootUser("R", apiKey("r", w.freshKey()))))["subOrganizationId"])
	two := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("two", 1, rootUser("R", apiKey("r", w.freshKey()))))["subOrganizationId"])
	identity(child, child.root, i.url, "me", "web")
	identity(two, two.root, i.url, "you", "web")
	whose := child.root
	child.user = w.user // a user of the parent asks
	public := w.freshP256()
	r := child.run("OAUTH_LOGIN", object{"oidcToken": i.token("me", "web", boundTo(public)), "publicKey": strings.ToUpper(public), "expirationSeconds": "60"})
	s, err := login.VerifySession(r["session"].(string), w.sessions.Public(), w.now)
	if err != nil || s.UserID != whose || s.OrganizationID != child.id.String() || s.PublicKey != public || s.ExpiresMs != w.now+60_000 || s.Type != login.ReadWrite {
		t.Errorf("%+v, %v", s, err)
	}
	if k := userOf(child, whose).APIKeys; k[len(k)-1].Type != "CREDENTIAL_TYPE_LOGIN" || k[len(k)-1].PublicKey != public {
		t.Errorf("%+v", k)
	}
	forged := stranger(w, i.url)
	for name, c := range map[string]struct {
		token string
		code  fault.Code
		says  string
	}{
		"no nonce":          {i.token("me", "web"), 3, "nonce is not the hash"},
		"another nonce":     {i.token("me", "web", boundTo(w.freshP256())), 3, "nonce is not the hash"},
		"nonce is the key":  {i.token("me", "web", func(t *login.IdentityToken) { t.Nonce = public }), 3, "nonce is not the hash"},
		"another audience":  {i.token("me", "ios", boundTo(public)), 5, "no user of the organization"},
		"another subject":   {i.token("I", "web", boundTo(public)), 5, "no user of the organization"},
		"of another's":      {i.token("you", "web", boundTo(public)), 5, "no user of the organization"},
		"another issuer":    {newIssuer(w, "https://other.example").token("me", "web", boundTo(public)), 5, "no user of the organization"},
		"forged":            {forged.token("me", "web", boundTo(public)), 3, "no key for it"},
		"expired":           {i.token("me", "web", boundTo(public), func(t *login.IdentityToken) { t.ExpiresMs = w.now - login.Skew }), 3, "it has expired"},
		"of the future":     {i.token("me", "web", boundTo(public), func(t *login.IdentityToken) { t.IssuedMs = w.now + login.Skew + 1000 }), 3, "of the future"},
		"session's own":     {r["session"].(string), 3, "no iss"},
		"not signed at all": {"a.b", 3, "not a signed token"},
	} {
		_, err := child.try("OAUTH_LOGIN", object{"oidcToken": c.token, "publicKey": public})
		if f := fault.Of(err); f == nil || f.Code != c.code || !strings.Contains(f.Message, c.says) || (f.Name == "INVALID_OIDC_TOKEN") != (c.code == 3) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, p := range []any{"", "02", someKey, "04" + strings.Repeat("0", 128), public + "00"} {
		child.refused("OAUTH_LOGIN", object{"oidcToken": i.token("me", "web", boundTo(public)), "publicKey": p}, 3, "public key")
	}
}

func TestOauth(t *testing.T) {
	w := newWorld(t)
	i := newIssuer(w, "https://issuer.example")
	identity(w, w.root, i.url, "me", "web")
	private, err := bundle.NewPrivateKey(w.rand)
	w.must(err)
	short := publicOf(w, private)
	long := uncompressed(w, short)
	for n, c := range []struct{ target, hashed string }{{short, short}, {long, short}, {long, long}, {strings.ToUpper(long), long}} {
		r := w.run("OAUTH", object{"oidcToken": i.token("me", "web", boundTo(c.hashed)), "targetPublicKey": c.target})
		sealed, err := bundle.ParseCompact(r["credentialBundle"].(string))
		w.must(err)
		secret, err := sealed.Open(private)
		w.must(err)
		k := userOf(w, w.root).APIKeys
		last := k[len(k)-1]
		if last.PublicKey != publicOf(w, secret) || last.Type != "CREDENTIAL_TYPE_OAUTH_KEY_P256" || last.ID.String() != r["apiKeyId"] || r["userId"] != w.root ||
			last.ExpirationSeconds != 900 || last.Name != "Oauth - 2023-11-14T22:13:20Z" || len(k) != n+2 {
			t.Errorf("%+v", last)
		}
	}
	w.run("OAUTH", object{"oidcToken": i.token("me", "web", boundTo(short)), "targetPublicKey": short, "apiKeyName": "mine", "expirationSeconds": "5", "invalidateExisting": true})
	if k := userOf(w, w.root).APIKeys; len(k) != 2 || k[1].Name != "mine" || k[1].ExpirationSeconds != 5 {
		t.Errorf("%+v", k)
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{object{"oidcToken": i.token("me", "web"), "targetPublicKey": short}, 3, "nonce is not the hash"},
		{object{"oidcToken": i.token("me", "web", boundTo(long)), "targetPublicKey": short}, 3, "nonce is not the hash"},
		{object{"oidcToken": i.token("you", "web", boundTo(short)), "targetPublicKey": short}, 5, "no user of the organization"},
		{object{"oidcToken": i.token("me", "web", boundTo(short))}, 3, "targetPublicKey"},
		{object{"oidcToken": i.token("me", "web", boundTo(short)), "targetPublicKey": "02ff"}, 3, "invalid public key"},
		{object{"targetPublicKey": short}, 3, "oidcToken"},
	} {
		w.refused("OAUTH", c.params, c.code, c.says)
	}
}

func TestOauthFactor(t *testing.T) {
	w := newWorld(t)
	i := newIssuer(w, "https://issuer.example")
	policy := func(id any) object {
		return object{"userId": w.root, "mfaPolicyName": "m", "condition": "true", "order": 1, "requiredAuthenticationMethods": []any{object{"any": []any{object{"type": "AUTHENTICATION_TYPE_OAUTH", "id": id}}}}}
	}
	w.refused("CREATE_MFA_POLICY", policy(nil), 3, "no credential that passes this step")
	id := list(w.run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.root, "oauthProviders": []any{byToken(i.token("me", "web"))}}), "providerIds")[0]
	w.refused("CREATE_MFA_POLICY", policy(someID), 5, "oauth not found")
	w.run("CREATE_MFA_POLICY", policy(id))
	u := userOf(w, w.root)
	proven := activity.IdentityCredential(&u.OauthProviders[0])
	if m := &u.MFAPolicies[0]; !activity.Satisfies(m, []org.VoteCredential{proven}) || activity.Satisfies(m, []org.VoteCredential{activity.APIKeyCredential(&u.APIKeys[0])}) {
		t.Error("the factor")
	}
	// It is what the policy asks for: it cannot go while it is the last.
	w.refused("DELETE_OAUTH_PROVIDERS", object{"userId": w.root, "providerIds": []any{id}}, 3, "mfa policy")
}

func TestOAuth2Credentials(t *testing.T) {
	w := newWorld(t)
	public := publicOf(w, w.roles.ClientSecrets)
	create := func(client, secret string) object {
		return object{"provider": "OAUTH2_PROVIDER_X", "clientId": client, "encryptedClientSecret": clientSecret(w, public, secret)}
	}
	params := create("client", "s3cret")
	id := w.run("CREATE_OAUTH2_CREDENTIAL", params)["oauth2CredentialId"].(string)
	kept := func() *org.OAuth2Credential {
		i, err := org.ParseID(id)
		w.must(err)
		c, err := w.tx().OAuth2Credential(i)
		w.must(err)
		return c
	}
	opens := func(want string) {
		t.Helper()
		c := kept()
		s, err := w.vault.Open(c.ID, c.Secret)
		if err != nil || string(secrettest.Bytes(s)) != want {
			t.Errorf("%v", err)
		}
	}
	opens("s3cret")
	if c := kept(); c.Encrypted != params["encryptedClientSecret"] || c.Provider != "OAUTH2_PROVIDER_X" || c.ClientID != "client" || c.CreatedMs != start {
		t.Errorf("%+v", c)
	}
	w.now += 1000
	w.run("UPDATE_OAUTH2_CREDENTIAL", with(with(create("client2", "other"), "provider", "OAUTH2_PROVIDER_DISCORD"), "oauth2CredentialId", id))
	opens("other")
	if c := kept(); c.Provider != "OAUTH2_PROVIDER_DISCORD" || c.ClientID != "client2" || c.CreatedMs != start || c.UpdatedMs != start+1000 {
		t.Errorf("%+v", c)
	}
	w.run("CREATE_OAUTH2_CREDENTIAL", create("client2", "x")) // of the other provider
	child := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("one", 1, rootUser("R", apiKey("r", w.freshKey()))))["subOrganizationId"])
	nobody := w.newID().String()
	for _, c := range []struct {
		w      *world
		typ    string
		params any
		code   fault.Code
		name   string
		says   string
	}{
		{w, "CREATE_OAUTH2_CREDENTIAL", create("client2", "y"), 3, "", "update it"},
		{w, "UPDATE_OAUTH2_CREDENTIAL", with(create("client2", "y"), "oauth2CredentialId", id), 3, "", "update it"},
		{w, "CREATE_OAUTH2_CREDENTIAL", with(create("c", "y"), "provider", "OAUTH2_PROVIDER_GOOGLE"), 3, "INVALID_OAUTH2_PROVIDER", "provider"},
		{w, "CREATE_OAUTH2_CREDENTIAL", with(create("c", "y"), "encryptedClientSecret", "00"), 3, "", "invalid client secret"},
		{w, "CREATE_OAUTH2_CREDENTIAL", with(create("c", "y"), "encryptedClientSecret", clientSecret(w, w.freshP256(), "y")), 3, "", "not encrypted to this enclave"},
		{w, "CREATE_OAUTH2_CREDENTIAL", create("", "y"), 3, "", "client_id must be set"},
		{w, "CREATE_OAUTH2_CREDENTIAL", create("a b", "y"), 3, "", "visible"},
		{w, "CREATE_OAUTH2_CREDENTIAL", create(strings.Repeat("a", 256), "y"), 3, "", "255"},
		{w, "UPDATE_OAUTH2_CREDENTIAL", with(create("c", "y"), "oauth2CredentialId", nobody), 5, "OAUTH2_CREDENTIAL_NOT_FOUND", nobody},
		{w, "DELETE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": nobody}, 5, "OAUTH2_CREDENTIAL_NOT_FOUND", nobody},
		{w, "DELETE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": "x"}, 3, "", "UUID"},
		{w, "OAUTH2_AUTHENTICATE", authenticate(nobody), 5, "OAUTH2_CREDENTIAL_NOT_FOUND", nobody},
		{child, "CREATE_OAUTH2_CREDENTIAL", create("c", "y"), 3, "INVALID_ACTIVITY_CALLER", "parent"},
		{child, "UPDATE_OAUTH2_CREDENTIAL", with(create("c", "y"), "oauth2CredentialId", id), 3, "INVALID_ACTIVITY_CALLER", "parent"},
		{child, "DELETE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": id}, 3, "INVALID_ACTIVITY_CALLER", "parent"},
		{child, "OAUTH2_AUTHENTICATE", authenticate(id), 3, "INVALID_ACTIVITY_CALLER", "parent"},
	} {
		_, err := c.w.try(c.typ, c.params)
		if f := fault.Of(err); f == nil || f.Code != c.code || f.Name != c.name || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s %v: %v", c.typ, c.params, err)
		}
	}
	for n := range 18 {
		w.run("CREATE_OAUTH2_CREDENTIAL", create(fmt.Sprint("more", n), "x"))
	}
	w.refused("CREATE_OAUTH2_CREDENTIAL", create("toomany", "x"), 8, "at most 20")
	w.run("DELETE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": id})
	if kept() != nil {
		t.Error("it is still there")
	}
}

func authenticate(id string) object {
	return object{"oauth2CredentialId": id, "authCode": "code", "redirectUri": "https://app.example/back", "codeVerifier": strings.Repeat("v", 43), "nonce": login.Nonce(someP256)}
}

func TestOAuth2Authenticate(t *testing.T) {
	w := newWorld(t)
	w.providers.keys[w.roles.Issuer] = login.KeySetOf(w.roles.Identities.Public())
	id := w.run("CREATE_OAUTH2_CREDENTIAL", object{"provider": "OAUTH2_PROVIDER_X", "clientId": "client",
		"encryptedClientSecret": clientSecret(w, publicOf(w, w.roles.ClientSecrets), "s3cret")})["oauth2CredentialId"].(string)
	if _, err := w.try("OAUTH2_AUTHENTICATE", authenticate(id)); !errors.Is(err, errNotYet) {
		t.Error(err)
	}
	w.providers.exchanged = func(x *activity.Exchange) (*activity.Exchanged, error) {
		if x.Provider.Name != "OAUTH2_PROVIDER_X" || x.ClientID != "client" || string(secrettest.Bytes(x.Secret)) != "s3cret" || x.Code.AuthCode != "code" || x.Code.CodeVerifier != strings.Repeat("v", 43) {
			t.Errorf("%+v", x)
		}
		bearer := ""
		if x.BearerTo != "" {
			bearer = "to " + x.BearerTo
		}
		return &activity.Exchanged{Subject: "x:123", Bearer: bearer}, nil
	}
	token := w.run("OAUTH2_AUTHENTICATE", with(authenticate(id), "bearerTokenTargetPublicKey", someP256))["oidcToken"].(string)
	var got object
	body, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	w.must(err)
	w.must(json.Unmarshal(body, &got))
	if fmt.Sprint(got) != fmt.Sprint(object{"iss": "https://cloister.example", "aud": "client", "sub": "x:123", "nonce": login.Nonce(someP256), "iat": float64(w.now / 1000), "exp": float64(w.now/1000 + 300), "encrypted_bearer_token": "to " + someP256}) {
		t.Errorf("%s", body)
	}
	// It registers and logs in as any other does.
	w.run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.root, "oauthProviders": []any{byToken(token)}})
	public := w.freshP256()
	token = w.run("OAUTH2_AUTHENTICATE", with(authenticate(id), "nonce", login.Nonce(public)))["oidcToken"].(string)
	w.run("OAUTH_LOGIN", object{"oidcToken": token, "publicKey": public})
	w.providers.exchanged = func(*activity.Exchange) (*activity.Exchanged, error) {
		return nil, fault.New(fault.InvalidArgument, "X refused the authorization code")
	}
	w.refused("OAUTH2_AUTHENTICATE", authenticate(id), 3, "refused the authorization code")
	for field, bad := range map[string]any{"authCode": "", "redirectUri": "", "codeVerifier": "short", "nonce": "", "oauth2CredentialId": "", "bearerTokenTargetPublicKey": "02"} {
		_, err := w.try("OAUTH2_AUTHENTICATE", with(authenticate(id), field, bad))
		if f := fault.Of(err); f == nil || f.Code != 3 || f.Violations[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	w.roles.Issuer = ""
	w.refused("OAUTH2_AUTHENTICATE", authenticate(id), 14, "no URL under which")
}
