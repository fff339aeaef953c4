package auth_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
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
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret/secrettest"
)

// uncompressed is the long form of a compressed point.
func uncompressed(w *world, public string) string {
	b, err := hex.DecodeString(public)
	w.Must(err)
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), b)
	return "04" + hex.EncodeToString(x.FillBytes(make([]byte, 32))) + hex.EncodeToString(y.FillBytes(make([]byte, 32)))
}

// clientSecret encrypts a client secret as clients do: hex of nonce, one-time point,
// length and ciphertext.
func clientSecret(w *world, public, plain string) string {
	point, err := hex.DecodeString(uncompressed(w, public))
	w.Must(err)
	to, err := ecdh.P256().NewPublicKey(point)
	w.Must(err)
	once, err := ecdh.P256().GenerateKey(rand.Reader)
	w.Must(err)
	z, err := once.ECDH(to)
	w.Must(err)
	from := once.PublicKey().Bytes()
	mac := hmac.New(sha512.New, slices.Concat(from, point, z))
	mac.Write([]byte("qos_encryption_hmac_message"))
	block, err := aes.NewCipher(mac.Sum(nil)[:32])
	w.Must(err)
	gcm, err := cipher.NewGCM(block)
	w.Must(err)
	nonce := make([]byte, 12)
	sealed := gcm.Seal(nil, nonce, []byte(plain), slices.Concat(from, []byte{65}, point, []byte{65}))
	return hex.EncodeToString(slices.Concat(nonce, from, binary.LittleEndian.AppendUint32(nil, uint32(len(sealed))), sealed))
}

func TestProvidersByToken(t *testing.T) {
	w := activitytest.New(t)
	google, other := w.NewIssuer("https://accounts.google.com"), w.NewIssuer("https://other.example")
	add := func(ps ...object) object { return object{"userId": w.Root, "oauthProviders": ps} }
	w.Run("CREATE_OAUTH_PROVIDERS", add(activitytest.ByToken(google.Token("me", "web"))))
	// What a token proves, claims beside it may widen, in whatever order.
	w.Run("CREATE_OAUTH_PROVIDERS_V2", add(activitytest.Claims(other.URL, "you", "ios"), activitytest.ByToken(other.Token("you", "web")), activitytest.Claims(google.URL, "me", "ios")))
	want := []string{google.URL + " me web", other.URL + " you ios", other.URL + " you web", google.URL + " me ios"}
	var got []string
	for _, p := range w.UserOf(w.Root).OauthProviders {
		got = append(got, p.Issuer+" "+p.Subject+" "+p.Audience)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// As a sign-up does, and of new users.
	child := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("one", 1, activitytest.With(activitytest.RootUser("R"), "oauthProviders", []any{activitytest.ByToken(google.Token("new", "web")), activitytest.Claims(google.URL, "new", "ios")})))["subOrganizationId"])
	if p := child.UserOf(child.Root).OauthProviders; len(p) != 2 || p[0].Subject != "new" || p[1].Audience != "ios" {
		t.Errorf("%+v", p)
	}
	w.Run("CREATE_SUB_ORGANIZATION_V7", activitytest.SubOrganization("two", 1, activitytest.With(activitytest.RootUser("R"), "oauthProviders", []any{activitytest.ByToken(google.Token("newer", "web"))})))
	w.Run("CREATE_USERS_V3", object{"users": []any{activitytest.With(activitytest.User("U3"), "oauthProviders", []any{activitytest.ByToken(google.Token("u3", "web"))})}})
	w.Run("CREATE_USERS_V4", object{"users": []any{activitytest.With(activitytest.User("U4"), "oauthProviders", []any{activitytest.ByToken(google.Token("u4", "web"))})}})

	liar := w.UnknownIssuer(google.URL) // says that it is Google
	expired := func(t *login.IdentityToken) { t.ExpiresMs = w.Now - login.Skew }
	future := func(t *login.IdentityToken) { t.IssuedMs = w.Now + login.Skew + 1000 }
	token := google.Token("fresh", "web")
	head, rest, _ := strings.Cut(token, ".")
	body, sig, _ := strings.Cut(rest, ".")
	for name, c := range map[string]struct{ token, says string }{
		"another key":        {liar.Token("fresh", "web"), "no key for it"},
		"signature of other": {head + "." + body + "." + google.Token("u3", "web")[strings.LastIndexByte(google.Token("u3", "web"), '.')+1:], "does not verify"},
		"none":               {activitytest.Base64(`{"alg":"none"}`) + "." + body + ".", "alg must be"},
		"HMAC":               {activitytest.Base64(`{"alg":"HS256"}`) + "." + body + "." + sig, "alg must be"},
		"another kid":        {activitytest.Base64(`{"alg":"ES256","kid":"x"}`) + "." + body + "." + sig, "no key for it"},
		"claims twice":       {head + "." + activitytest.Base64(`{"iss":"https://accounts.google.com","sub":"a","sub":"b","aud":"web","iat":1,"exp":9999999999}`) + "." + sig, "claims are malformed"},
		"expired":            {google.Token("fresh", "web", expired), "it has expired"},
		"of the future":      {google.Token("fresh", "web", future), "it is of the future"},
		"no token":           {"x.y.z", "not a signed token"},
	} {
		_, err := w.Try("CREATE_OAUTH_PROVIDERS_V2", add(activitytest.ByToken(c.token)))
		if f := fault.Of(err); f == nil || f.Code != fault.InvalidArgument || f.Name != "INVALID_OIDC_TOKEN" || !strings.Contains(f.Message, c.says) || f.Violations[0].Field != "oauthProviders.0.oidcToken" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		params any
		says   string
	}{
		{add(activitytest.ByToken(google.Token("me", "web"))), "already exists"},
		{add(activitytest.ByToken(google.Token("new", "tv")), activitytest.ByToken(google.Token("new", "tv"))), "already exists"},
		{add(activitytest.ByToken(google.Token("me", "tv")), activitytest.Claims(other.URL, "me", "tv")), "must share iss and sub"},
		{add(activitytest.ByToken(google.Token("me", "tv")), activitytest.Claims(google.URL, "I", "tv")), "must share iss and sub"},
	} {
		w.Refuse("CREATE_OAUTH_PROVIDERS_V2", c.params, 3, c.says)
	}
	w.Refuse("CREATE_USERS_V4", object{"users": []any{activitytest.With(activitytest.User("U5"), "oauthProviders", []any{activitytest.ByToken(google.Token("u3", "web"))})}}, 3, "already exists")
	// One user's token proves nothing of another.
	w.Refuse("CREATE_USERS_V4", object{"users": []any{activitytest.With(activitytest.User("U5"), "oauthProviders", []any{activitytest.ByToken(google.Token("u5", "web"))}), activitytest.With(activitytest.User("U6"), "oauthProviders", []any{activitytest.Claims(google.URL, "u5", "ios")})}}, 3, "must share iss and sub")
	// What is not fetched yet is no refusal: it is fetched, and the activity runs again.
	if _, err := w.Try("CREATE_OAUTH_PROVIDERS_V2", add(activitytest.ByToken(w.UnknownIssuer("https://new.example").Token("me", "web")))); !errors.Is(err, activitytest.ErrNotYet) {
		t.Error(err)
	}
}

func TestSeveralAudiences(t *testing.T) {
	w := activitytest.New(t)
	i := w.NewIssuer("https://issuer.example")
	public := w.FreshP256()
	w.Identity(w.Root, i.URL, "me", "one")
	several := i.Sign(fmt.Sprintf(`{"iss":%q,"sub":"me","aud":["zero","one"],"iat":%d,"exp":%d,"nonce":%q}`, i.URL, w.Now/1000, w.Now/1000+60, login.Nonce(public)))
	w.Run("OAUTH_LOGIN", object{"oidcToken": several, "publicKey": public})
	w.Refuse("CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.Root, "oauthProviders": []any{activitytest.ByToken(several)}}, 3, "more than one audience")
	// Two users, each by one of the audiences.
	bob := w.NewUser(activitytest.User("Bob", activitytest.APIKey("b", w.FreshKey())))
	w.Identity(bob, i.URL, "me", "zero")
	w.Refuse("OAUTH_LOGIN", object{"oidcToken": several, "publicKey": public}, 5, "no user of the organization")
}

func TestOauthLogin(t *testing.T) {
	w := activitytest.New(t)
	i := w.NewIssuer("https://issuer.example")
	child := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("one", 1, activitytest.RootUser("R", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	two := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("two", 1, activitytest.RootUser("R", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	child.Identity(child.Root, i.URL, "me", "web")
	two.Identity(two.Root, i.URL, "you", "web")
	whose := child.Root
	child.User = w.User // a user of the parent asks
	public := w.FreshP256()
	r := child.Run("OAUTH_LOGIN", object{"oidcToken": i.Token("me", "web", activitytest.BoundTo(public)), "publicKey": strings.ToUpper(public), "expirationSeconds": "60"})
	s, err := login.VerifySession(r["session"].(string), w.Sessions.Public(), w.Now)
	if err != nil || s.UserID != whose || s.OrganizationID != child.ID.String() || s.PublicKey != public || s.ExpiresMs != w.Now+60_000 || s.Type != login.ReadWrite {
		t.Errorf("%+v, %v", s, err)
	}
	if k := child.UserOf(whose).APIKeys; k[len(k)-1].Type != "CREDENTIAL_TYPE_LOGIN" || k[len(k)-1].PublicKey != public {
		t.Errorf("%+v", k)
	}
	forged := w.UnknownIssuer(i.URL)
	for name, c := range map[string]struct {
		token string
		code  fault.Code
		says  string
	}{
		"no nonce":          {i.Token("me", "web"), 3, "nonce is not the hash"},
		"another nonce":     {i.Token("me", "web", activitytest.BoundTo(w.FreshP256())), 3, "nonce is not the hash"},
		"nonce is the key":  {i.Token("me", "web", func(t *login.IdentityToken) { t.Nonce = public }), 3, "nonce is not the hash"},
		"another audience":  {i.Token("me", "ios", activitytest.BoundTo(public)), 5, "no user of the organization"},
		"another subject":   {i.Token("I", "web", activitytest.BoundTo(public)), 5, "no user of the organization"},
		"of another's":      {i.Token("you", "web", activitytest.BoundTo(public)), 5, "no user of the organization"},
		"another issuer":    {w.NewIssuer("https://other.example").Token("me", "web", activitytest.BoundTo(public)), 5, "no user of the organization"},
		"forged":            {forged.Token("me", "web", activitytest.BoundTo(public)), 3, "no key for it"},
		"expired":           {i.Token("me", "web", activitytest.BoundTo(public), func(t *login.IdentityToken) { t.ExpiresMs = w.Now - login.Skew }), 3, "it has expired"},
		"of the future":     {i.Token("me", "web", activitytest.BoundTo(public), func(t *login.IdentityToken) { t.IssuedMs = w.Now + login.Skew + 1000 }), 3, "of the future"},
		"session's own":     {r["session"].(string), 3, "no iss"},
		"not signed at all": {"a.b", 3, "not a signed token"},
	} {
		_, err := child.Try("OAUTH_LOGIN", object{"oidcToken": c.token, "publicKey": public})
		if f := fault.Of(err); f == nil || f.Code != c.code || !strings.Contains(f.Message, c.says) || (f.Name == "INVALID_OIDC_TOKEN") != (c.code == 3) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, p := range []any{"", "02", activitytest.SomeKey, "04" + strings.Repeat("0", 128), public + "00"} {
		child.Refuse("OAUTH_LOGIN", object{"oidcToken": i.Token("me", "web", activitytest.BoundTo(public)), "publicKey": p}, 3, "public key")
	}
}

func TestOauth(t *testing.T) {
	w := activitytest.New(t)
	i := w.NewIssuer("https://issuer.example")
	w.Identity(w.Root, i.URL, "me", "web")
	private, err := bundle.NewPrivateKey(w.Rand)
	w.Must(err)
	short := w.PublicOf(private)
	long := uncompressed(w, short)
	for n, c := range []struct{ target, hashed string }{{short, short}, {long, short}, {long, long}, {strings.ToUpper(long), long}} {
		r := w.Run("OAUTH", object{"oidcToken": i.Token("me", "web", activitytest.BoundTo(c.hashed)), "targetPublicKey": c.target})
		sealed, err := bundle.ParseCompact(r["credentialBundle"].(string))
		w.Must(err)
		secret, err := sealed.Open(private)
		w.Must(err)
		k := w.UserOf(w.Root).APIKeys
		last := k[len(k)-1]
		if last.PublicKey != w.PublicOf(secret) || last.Type != "CREDENTIAL_TYPE_OAUTH_KEY_P256" || last.ID.String() != r["apiKeyId"] || r["userId"] != w.Root ||
			last.ExpirationSeconds != 900 || last.Name != "Oauth - 2023-11-14T22:13:20Z" || len(k) != n+2 {
			t.Errorf("%+v", last)
		}
	}
	w.Run("OAUTH", object{"oidcToken": i.Token("me", "web", activitytest.BoundTo(short)), "targetPublicKey": short, "apiKeyName": "mine", "expirationSeconds": "5", "invalidateExisting": true})
	if k := w.UserOf(w.Root).APIKeys; len(k) != 2 || k[1].Name != "mine" || k[1].ExpirationSeconds != 5 {
		t.Errorf("%+v", k)
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{object{"oidcToken": i.Token("me", "web"), "targetPublicKey": short}, 3, "nonce is not the hash"},
		{object{"oidcToken": i.Token("me", "web", activitytest.BoundTo(long)), "targetPublicKey": short}, 3, "nonce is not the hash"},
		{object{"oidcToken": i.Token("you", "web", activitytest.BoundTo(short)), "targetPublicKey": short}, 5, "no user of the organization"},
		{object{"oidcToken": i.Token("me", "web", activitytest.BoundTo(short))}, 3, "targetPublicKey"},
		{object{"oidcToken": i.Token("me", "web", activitytest.BoundTo(short)), "targetPublicKey": "02ff"}, 3, "invalid public key"},
		{object{"targetPublicKey": short}, 3, "oidcToken"},
	} {
		w.Refuse("OAUTH", c.params, c.code, c.says)
	}
}

func TestOauthFactor(t *testing.T) {
	w := activitytest.New(t)
	i := w.NewIssuer("https://issuer.example")
	policy := func(id any) object {
		return object{"userId": w.Root, "mfaPolicyName": "m", "condition": "true", "order": 1, "requiredAuthenticationMethods": []any{object{"any": []any{object{"type": "AUTHENTICATION_TYPE_OAUTH", "id": id}}}}}
	}
	w.Refuse("CREATE_MFA_POLICY", policy(nil), 3, "no credential that passes this step")
	id := activitytest.List(w.Run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.Root, "oauthProviders": []any{activitytest.ByToken(i.Token("me", "web"))}}), "providerIds")[0]
	w.Refuse("CREATE_MFA_POLICY", policy(activitytest.SomeID), 5, "oauth not found")
	w.Run("CREATE_MFA_POLICY", policy(id))
	u := w.UserOf(w.Root)
	proven := activity.IdentityCredential(&u.OauthProviders[0])
	if m := &u.MFAPolicies[0]; !activity.Satisfies(m, []org.VoteCredential{proven}) || activity.Satisfies(m, []org.VoteCredential{activity.APIKeyCredential(&u.APIKeys[0])}) {
		t.Error("the factor")
	}
	// It is what the policy asks for: it cannot go while it is the last.
	w.Refuse("DELETE_OAUTH_PROVIDERS", object{"userId": w.Root, "providerIds": []any{id}}, 3, "mfa policy")
}

func TestOAuth2Credentials(t *testing.T) {
	w := activitytest.New(t)
	public := w.PublicOf(w.Roles.ClientSecrets)
	create := func(client, secret string) object {
		return object{"provider": "OAUTH2_PROVIDER_X", "clientId": client, "encryptedClientSecret": clientSecret(w, public, secret)}
	}
	params := create("client", "s3cret")
	id := w.Run("CREATE_OAUTH2_CREDENTIAL", params)["oauth2CredentialId"].(string)
	kept := func() *org.OAuth2Credential {
		i, err := org.ParseID(id)
		w.Must(err)
		c, err := w.Tx().OAuth2Credential(i)
		w.Must(err)
		return c
	}
	opens := func(want string) {
		t.Helper()
		c := kept()
		s, err := w.Vault.Open(c.ID, c.Secret)
		if err != nil || string(secrettest.Bytes(s)) != want {
			t.Errorf("%v", err)
		}
	}
	opens("s3cret")
	if c := kept(); c.Encrypted != params["encryptedClientSecret"] || c.Provider != "OAUTH2_PROVIDER_X" || c.ClientID != "client" || c.CreatedMs != activitytest.Start {
		t.Errorf("%+v", c)
	}
	w.Now += 1000
	w.Run("UPDATE_OAUTH2_CREDENTIAL", activitytest.With(activitytest.With(create("client2", "other"), "provider", "OAUTH2_PROVIDER_DISCORD"), "oauth2CredentialId", id))
	opens("other")
	if c := kept(); c.Provider != "OAUTH2_PROVIDER_DISCORD" || c.ClientID != "client2" || c.CreatedMs != activitytest.Start || c.UpdatedMs != activitytest.Start+1000 {
		t.Errorf("%+v", c)
	}
	w.Run("CREATE_OAUTH2_CREDENTIAL", create("client2", "x")) // of the other provider
	child := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("one", 1, activitytest.RootUser("R", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	nobody := w.NewID().String()
	for _, c := range []struct {
		w      *world
		typ    string
		params any
		code   fault.Code
		name   string
		says   string
	}{
		{w, "CREATE_OAUTH2_CREDENTIAL", create("client2", "y"), 3, "", "update it"},
		{w, "UPDATE_OAUTH2_CREDENTIAL", activitytest.With(create("client2", "y"), "oauth2CredentialId", id), 3, "", "update it"},
		{w, "CREATE_OAUTH2_CREDENTIAL", activitytest.With(create("c", "y"), "provider", "OAUTH2_PROVIDER_GOOGLE"), 3, "INVALID_OAUTH2_PROVIDER", "provider"},
		{w, "CREATE_OAUTH2_CREDENTIAL", activitytest.With(create("c", "y"), "encryptedClientSecret", "00"), 3, "", "invalid client secret"},
		{w, "CREATE_OAUTH2_CREDENTIAL", activitytest.With(create("c", "y"), "encryptedClientSecret", clientSecret(w, w.FreshP256(), "y")), 3, "", "not encrypted to this enclave"},
		{w, "CREATE_OAUTH2_CREDENTIAL", create("", "y"), 3, "", "client_id must be set"},
		{w, "CREATE_OAUTH2_CREDENTIAL", create("a b", "y"), 3, "", "visible"},
		{w, "CREATE_OAUTH2_CREDENTIAL", create(strings.Repeat("a", 256), "y"), 3, "", "255"},
		{w, "UPDATE_OAUTH2_CREDENTIAL", activitytest.With(create("c", "y"), "oauth2CredentialId", nobody), 5, "OAUTH2_CREDENTIAL_NOT_FOUND", nobody},
		{w, "DELETE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": nobody}, 5, "OAUTH2_CREDENTIAL_NOT_FOUND", nobody},
		{w, "DELETE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": "x"}, 3, "", "UUID"},
		{w, "OAUTH2_AUTHENTICATE", authenticate(nobody), 5, "OAUTH2_CREDENTIAL_NOT_FOUND", nobody},
		{child, "CREATE_OAUTH2_CREDENTIAL", create("c", "y"), 3, "INVALID_ACTIVITY_CALLER", "parent"},
		{child, "UPDATE_OAUTH2_CREDENTIAL", activitytest.With(create("c", "y"), "oauth2CredentialId", id), 3, "INVALID_ACTIVITY_CALLER", "parent"},
		{child, "DELETE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": id}, 3, "INVALID_ACTIVITY_CALLER", "parent"},
		{child, "OAUTH2_AUTHENTICATE", authenticate(id), 3, "INVALID_ACTIVITY_CALLER", "parent"},
	} {
		_, err := c.w.Try(c.typ, c.params)
		if f := fault.Of(err); f == nil || f.Code != c.code || f.Name != c.name || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s %v: %v", c.typ, c.params, err)
		}
	}
	for n := range 18 {
		w.Run("CREATE_OAUTH2_CREDENTIAL", create(fmt.Sprint("more", n), "x"))
	}
	w.Refuse("CREATE_OAUTH2_CREDENTIAL", create("toomany", "x"), 8, "at most 20")
	w.Run("DELETE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": id})
	if kept() != nil {
		t.Error("it is still there")
	}
}

func authenticate(id string) object {
	return object{"oauth2CredentialId": id, "authCode": "code", "redirectUri": "https://app.example/back", "codeVerifier": strings.Repeat("v", 43), "nonce": login.Nonce(activitytest.SomeP256)}
}

func TestOAuth2Authenticate(t *testing.T) {
	w := activitytest.New(t)
	w.Providers.Sets[w.Roles.Issuer] = login.KeySetOf(w.Roles.Identities.Public())
	id := w.Run("CREATE_OAUTH2_CREDENTIAL", object{"provider": "OAUTH2_PROVIDER_X", "clientId": "client",
		"encryptedClientSecret": clientSecret(w, w.PublicOf(w.Roles.ClientSecrets), "s3cret")})["oauth2CredentialId"].(string)
	if _, err := w.Try("OAUTH2_AUTHENTICATE", authenticate(id)); !errors.Is(err, activitytest.ErrNotYet) {
		t.Error(err)
	}
	w.Providers.Exchanged = func(x *activity.Exchange) (*activity.Exchanged, error) {
		if x.Provider.Name != "OAUTH2_PROVIDER_X" || x.ClientID != "client" || string(secrettest.Bytes(x.Secret)) != "s3cret" || x.Code.AuthCode != "code" || x.Code.CodeVerifier != strings.Repeat("v", 43) {
			t.Errorf("%+v", x)
		}
		bearer := ""
		if x.BearerTo != "" {
			bearer = "to " + x.BearerTo
		}
		return &activity.Exchanged{Subject: "x:123", Bearer: bearer}, nil
	}
	token := w.Run("OAUTH2_AUTHENTICATE", activitytest.With(authenticate(id), "bearerTokenTargetPublicKey", activitytest.SomeP256))["oidcToken"].(string)
	var got object
	body, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	w.Must(err)
	w.Must(json.Unmarshal(body, &got))
	if fmt.Sprint(got) != fmt.Sprint(object{"iss": "https://cloister.example", "aud": "client", "sub": "x:123", "nonce": login.Nonce(activitytest.SomeP256), "iat": float64(w.Now / 1000), "exp": float64(w.Now/1000 + 300), "encrypted_bearer_token": "to " + activitytest.SomeP256}) {
		t.Errorf("%s", body)
	}
	// It registers and logs in as any other does.
	w.Run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.Root, "oauthProviders": []any{activitytest.ByToken(token)}})
	public := w.FreshP256()
	token = w.Run("OAUTH2_AUTHENTICATE", activitytest.With(authenticate(id), "nonce", login.Nonce(public)))["oidcToken"].(string)
	w.Run("OAUTH_LOGIN", object{"oidcToken": token, "publicKey": public})
	w.Providers.Exchanged = func(*activity.Exchange) (*activity.Exchanged, error) {
		return nil, fault.New(fault.InvalidArgument, "X refused the authorization code")
	}
	w.Refuse("OAUTH2_AUTHENTICATE", authenticate(id), 3, "refused the authorization code")
	for field, bad := range map[string]any{"authCode": "", "redirectUri": "", "codeVerifier": "short", "nonce": "", "oauth2CredentialId": "", "bearerTokenTargetPublicKey": "02"} {
		_, err := w.Try("OAUTH2_AUTHENTICATE", activitytest.With(authenticate(id), field, bad))
		if f := fault.Of(err); f == nil || f.Code != 3 || f.Violations[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	w.Roles.Issuer = ""
	w.Refuse("OAUTH2_AUTHENTICATE", authenticate(id), 14, "no URL under which")
}
