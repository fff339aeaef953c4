package auth_test

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

func proxyOf(w *world) *org.AuthProxy {
	w.TB.Helper()
	p, err := w.Tx().OnlyAuthProxy()
	w.Must(err)
	return p
}

func TestEnableAuthProxy(t *testing.T) {
	w := activitytest.New(t)
	user := activitytest.MustID(w.Run("ENABLE_AUTH_PROXY", object{})["userId"])
	p, o := proxyOf(w), w.Organization()
	if p.User != user || o.Users != 2 || o.Policies != 1 || o.Features["FEATURE_NAME_AUTH_PROXY"] != p.ID.String() {
		t.Fatalf("%+v %+v", p, o)
	}
	want := org.AuthProxy{ID: p.ID, User: user, Key: p.Key, Policy: p.Policy, Sealed: p.Sealed, Origins: []string{"*"}, Methods: []string{"email", "sms", "passkey", "wallet", "social"},
		OTPSeconds: 300, OTPLength: 9, TokenSeconds: 3600, SessionSeconds: 900, CreatedMs: activitytest.Start, UpdatedMs: activitytest.Start}
	if !reflect.DeepEqual(*p, want) {
		t.Errorf("%+v", p)
	}
	u, err := w.Tx().User(user)
	w.Must(err)
	if len(u.APIKeys) != 1 || !u.APIKeys[0].Proxy || u.APIKeys[0].ID != p.Key || u.APIKeys[0].Type != "CREDENTIAL_TYPE_API_KEY_P256" || u.APIKeys[0].ExpirationSeconds != 0 {
		t.Errorf("%+v", u)
	}
	// The private half opens under the key's id alone, and is the public one's.
	private, err := w.Vault.Open(p.Key, p.Sealed)
	w.Must(err)
	s, err := login.NewSigner(private)
	w.Must(err)
	private.Use(func(b []byte) {
		if s.Public().String() != u.APIKeys[0].PublicKey {
			t.Error("another key")
		}
		if strings.Contains(string(p.Sealed), string(b)) || strings.Contains(hex.EncodeToString(p.Sealed), hex.EncodeToString(b)) {
			t.Error("the record holds the key in the clear")
		}
	})
	if _, err := w.Vault.Open(p.User, p.Sealed); err == nil {
		t.Error("opens under another id")
	}
	found, err := w.Tx().Credential("API_KEY_CURVE_P256", u.APIKeys[0].PublicKey)
	if w.Must(err); found.User != user || found.Key != p.Key {
		t.Errorf("%+v", found)
	}
	w.Refuse("ENABLE_AUTH_PROXY", object{}, 9, "enabled already: "+p.ID.String())
	sub, _ := w.Family()
	for _, kind := range []string{"ENABLE_AUTH_PROXY", "DISABLE_AUTH_PROXY", "UPDATE_AUTH_PROXY_CONFIG"} {
		sub.Refuse(kind, object{}, 3, "proxy of its parent")
	}
	for typ, params := range map[string]object{"SET_ORGANIZATION_FEATURE": {"name": "FEATURE_NAME_AUTH_PROXY", "value": "x"}, "REMOVE_ORGANIZATION_FEATURE": {"name": "FEATURE_NAME_AUTH_PROXY"}} {
		w.Refuse(typ, params, 3, "enable_auth_proxy")
	}
}

// TestProxyPolicy asks the policies about every kind, as the proxy's user: what the
// policy that comes with the proxy allows is what the proxy does.
func TestProxyPolicy(t *testing.T) {
	w := activitytest.New(t)
	w.Run("ENABLE_AUTH_PROXY", object{})
	p, tx := proxyOf(w), w.Tx()
	state := activity.PolicyState(tx, w.Organization())
	allowed := map[[2]string]bool{{"AUTH", "CREATE"}: true, {"OTP", "CREATE"}: true, {"OTP", "VERIFY"}: true, {"ORGANIZATION", "CREATE"}: true}
	n := 0
	for _, k := range policy.Kinds() {
		d, err := policy.Decide(state, policy.Request{Organization: w.ID, Activity: w.NewID(), Type: "ACTIVITY_TYPE_" + k.Name, Kind: k.Name, Resource: k.Resource, Action: k.Action,
			RootQuorum: k.RootQuorum, Initiator: p.User, NowMs: w.Now, Approvals: []policy.Approval{{User: p.User}}})
		w.Must(err)
		if want := allowed[[2]string{k.Resource, k.Action}]; (d.Outcome == policy.Allow) != want {
			t.Errorf("%s: %v", k.Name, d.Outcome)
		}
		n++
	}
	if n < 100 {
		t.Errorf("%d kinds", n)
	}
	// Nobody else is allowed anything by it.
	other := w.NewID()
	d, err := policy.Decide(state, policy.Request{Organization: w.ID, Activity: w.NewID(), Kind: "INIT_OTP", Resource: "OTP", Action: "CREATE", Initiator: other, NowMs: w.Now, Approvals: []policy.Approval{{User: other}}})
	if w.Must(err); d.Outcome == policy.Allow {
		t.Error("somebody else may")
	}
}

// The kinds that the proxy's key may stamp are those that its policy is for.
func TestProxiedKinds(t *testing.T) {
	var got []string
	for _, v := range kinds.Live {
		if v.Kind.ByProxy && !slices.Contains(got, v.Kind.Name) {
			got = append(got, v.Kind.Name)
		}
	}
	for _, name := range got {
		if !slices.Contains([]string{"INIT_OTP", "VERIFY_OTP", "OTP_LOGIN", "OAUTH2_AUTHENTICATE", "OAUTH_LOGIN", "CREATE_SUB_ORGANIZATION"}, name) {
			t.Errorf("%s", name)
		}
	}
	if !slices.Contains(got, "CREATE_SUB_ORGANIZATION") {
		t.Error(got)
	}
}

func TestDisableAuthProxy(t *testing.T) {
	w := activitytest.New(t)
	before := w.Organization()
	w.Refuse("DISABLE_AUTH_PROXY", object{}, 9, "not enabled")
	w.Run("ENABLE_AUTH_PROXY", object{})
	p := proxyOf(w)
	u, err := w.Tx().User(p.User)
	w.Must(err)
	w.Run("DISABLE_AUTH_PROXY", object{})
	o := w.Organization()
	if proxyOf(w) != nil || o.Users != before.Users || o.Policies != before.Policies || len(o.Features) != 0 {
		t.Errorf("%+v", o)
	}
	tx := w.Tx()
	if gone, err := tx.User(p.User); gone != nil || err != nil {
		t.Errorf("%+v %v", gone, err)
	}
	if gone, err := tx.Policy(p.Policy); gone != nil || err != nil {
		t.Errorf("%+v %v", gone, err)
	}
	if gone, err := tx.Credential("API_KEY_CURVE_P256", u.APIKeys[0].PublicKey); gone != nil || err != nil {
		t.Errorf("%+v %v", gone, err)
	}
	for what, name := range map[byte]string{org.NameUser: u.Name, org.NamePolicy: u.Name} {
		if id, err := tx.IDByName(what, name); !id.Zero() || err != nil {
			t.Errorf("%c %s is taken", what, name)
		}
	}
	// A user of the root quorum cannot be taken from it on the way.
	user := w.Run("ENABLE_AUTH_PROXY", object{})["userId"]
	w.Run("UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{w.Root, user}})
	w.Refuse("DISABLE_AUTH_PROXY", object{}, 3, "root quorum")
}

func TestEnablingNeedsCapacity(t *testing.T) {
	w := activitytest.New(t)
	for i := range 100 {
		w.Run("CREATE_POLICY_V3", object{"policyName": fmt.Sprint(i), "effect": "EFFECT_DENY", "condition": "false", "notes": ""})
	}
	w.Refuse("ENABLE_AUTH_PROXY", object{}, 8, "at most 100 policies")
	w = activitytest.New(t)
	for i := range 99 {
		w.Run("CREATE_USERS_V4", object{"users": []any{activitytest.User(fmt.Sprint(i), activitytest.APIKey("k", w.FreshKey()))}})
	}
	w.Refuse("ENABLE_AUTH_PROXY", object{}, 8, "at most 100 users")
}

func TestDeletedOrganizationHasNoProxy(t *testing.T) {
	w := activitytest.New(t)
	w.Run("ENABLE_AUTH_PROXY", object{})
	w.Run("DELETE_ORGANIZATION", object{"organizationId": w.ID.String()})
	if p := proxyOf(w); p != nil {
		t.Errorf("%+v", p)
	}
}

func TestUpdateAuthProxyConfig(t *testing.T) {
	w := activitytest.New(t)
	w.Refuse("UPDATE_AUTH_PROXY_CONFIG", object{}, 9, "not enabled")
	w.Run("ENABLE_AUTH_PROXY", object{})
	before := *proxyOf(w)
	w.Now += 1000
	if id := w.Run("UPDATE_AUTH_PROXY_CONFIG", object{})["configId"]; id != before.ID.String() {
		t.Error(id)
	}
	want := before
	want.UpdatedMs = w.Now
	if got := proxyOf(w); !reflect.DeepEqual(*got, want) {
		t.Errorf("nothing was asked: %+v", got)
	}
	w.Run("UPDATE_AUTH_PROXY_CONFIG", object{
		"allowedOrigins": []any{"https://app.example.com", "http://localhost:3000", "capacitor://localhost", "chrome-extension://abcdefgh"}, "allowedAuthMethods": []any{"email", "google"},
		"sendFromEmailAddress": "hello@example.com", "sendFromEmailSenderName": "Hello", "replyToEmailAddress": "reply@example.com", "emailAuthTemplateId": "", "otpTemplateId": "",
		"emailCustomizationParams": object{"appName": "App", "logoUrl": "https://example.com/l.png", "magicLinkTemplate": "app://in/%s", "templateVariables": `{"a":"b"}`, "templateId": ""},
		"smsCustomizationParams":   object{"template": "{{ .OtpCode }} is your code"},
		"walletKitSettings":        object{"enabledSocialProviders": []any{"google", "x"}, "oauthClientIds": object{"google": "g", "apple": "a"}, "oauthRedirectUrl": "https://app.example.com/back"},
		"otpExpirationSeconds":     600, "verificationTokenExpirationSeconds": 86400, "sessionExpirationSeconds": 2592000, "otpAlphanumeric": false, "otpLength": 6,
		"verificationTokenRequiredForGetAccountPii": true, "socialLinkingClientIds": []any{"g"}, "captchaEnabled": false,
	})
	want = org.AuthProxy{ID: want.ID, User: want.User, Key: want.Key, Policy: want.Policy, Sealed: want.Sealed, CreatedMs: want.CreatedMs, UpdatedMs: w.Now,
		Origins: []string{"https://app.example.com", "http://localhost:3000", "capacitor://localhost", "chrome-extension://abcdefgh"}, Methods: []string{"email", "google"},
		SenderEmail: "hello@example.com", SenderName: "Hello", ReplyTo: "reply@example.com", AppName: "App", LogoURL: "https://example.com/l.png", MagicLink: "app://in/%s", Variables: `{"a":"b"}`,
		SMSTemplate: "{{ .OtpCode }} is your code", OTPSeconds: 600, OTPLength: 6, OTPNumeric: true, TokenSeconds: 86400, SessionSeconds: 2592000, TokenForPII: true,
		LinkingClients: []string{"g"}, SocialProviders: []string{"google", "x"}, OAuthClients: map[string]string{"google": "g", "apple": "a"}, OAuthRedirect: "https://app.example.com/back"}
	if got := proxyOf(w); !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v\n%+v", got, want)
	}
	// One field, and the others stay; an empty text, an empty list and an empty client
	// id take back.
	w.Run("UPDATE_AUTH_PROXY_CONFIG", object{"otpLength": 8, "replyToEmailAddress": "", "socialLinkingClientIds": []any{}, "allowedOrigins": []any{"*"},
		"emailCustomizationParams": object{"logoUrl": ""}, "walletKitSettings": object{"oauthClientIds": object{"apple": "", "discord": "d"}}})
	want.OTPLength, want.ReplyTo, want.LinkingClients, want.Origins, want.LogoURL = 8, "", nil, []string{"*"}, ""
	want.OAuthClients = map[string]string{"google": "g", "discord": "d"}
	if got := proxyOf(w); !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v\n%+v", got, want)
	}
}

func TestAuthProxyConfigsThatAreRefused(t *testing.T) {
	w := activitytest.New(t)
	w.Run("ENABLE_AUTH_PROXY", object{})
	long := strings.Repeat("x", 5000)
	var many []any
	for i := range 101 {
		many = append(many, fmt.Sprintf("https://a%d.example", i))
	}
	mail := func(k, v string) object { return object{"emailCustomizationParams": object{k: v}} }
	kit := func(k string, v any) object { return object{"walletKitSettings": object{k: v}} }
	cases := []struct {
		params any
		code   fault.Code
		says   string
	}{
		{object{"allowedOrigins": []any{}}, 3, "at least 1 element"},
		{object{"allowedOrigins": many}, 3, "at most 100"},
		{object{"allowedOrigins": []any{"*", "https://a.example"}}, 3, "must stand alone"},
		{object{"allowedOrigins": []any{"https://a.example", "https://a.example"}}, 3, "named twice"},
		{object{"otpExpirationSeconds": 0}, 3, "1 to 600"},
		{object{"otpExpirationSeconds": 601}, 3, "1 to 600"},
		{object{"otpExpirationSeconds": -1}, 3, "1 to 600"},
		{object{"otpExpirationSeconds": 1 << 40}, 3, ""},
		{object{"otpExpirationSeconds": 1.5}, 3, ""},
		{object{"verificationTokenExpirationSeconds": 0}, 3, "1 to 86400"},
		{object{"verificationTokenExpirationSeconds": 86401}, 3, "1 to 86400"},
		{object{"sessionExpirationSeconds": 0}, 3, "1 to 2592000"},
		{object{"sessionExpirationSeconds": 2592001}, 3, "1 to 2592000"},
		{object{"otpLength": 5}, 3, ""},
		{object{"otpLength": 10}, 3, ""},
		{object{"otpLength": 0}, 3, "6 to 9"},
		{object{"otpLength": nil, "otp_length": 6, "otpAlphanumeric": "yes"}, 3, ""},
		{object{"otpLength": 6, "otp_length": 6}, 3, "repeated field"},
		{object{"allowedAuthMethods": []any{"email", "email"}}, 3, "named twice"},
		{object{"allowedAuthMethods": []any{"EMAIL"}}, 3, "must be one of"},
		{object{"allowedAuthMethods": []any{"password"}}, 3, "must be one of"},
		{object{"sendFromEmailAddress": "x"}, 3, ""},
		{object{"sendFromEmailAddress": "a@example.com\r\nBcc: b@example.com"}, 3, ""},
		{object{"replyToEmailAddress": "x y@example.com"}, 3, ""},
		{object{"sendFromEmailSenderName": "a\r\nb"}, 3, "sendFromEmailSenderName"},
		{object{"sendFromEmailSenderName": strings.Repeat("x", 256)}, 3, "sendFromEmailSenderName"},
		{mail("appName", "a\nb"), 3, "emailCustomizationParams.appName"},
		{mail("appName", " a"), 3, "emailCustomizationParams.appName"},
		{mail("appName", strings.Repeat("x", 256)), 3, "emailCustomizationParams.appName"},
		{mail("logoUrl", "http://example.com/l.png"), 3, "https URL"},
		{mail("logoUrl", "javascript:alert(1)"), 3, "https URL"},
		{mail("logoUrl", "https://example.com/"+long), 3, "https URL"},
		{mail("magicLinkTemplate", "https://example.com/"), 3, "contains %s once"},
		{mail("magicLinkTemplate", "https://example.com/%s/%s"), 3, "contains %s once"},
		{mail("magicLinkTemplate", "javascript:%s"), 3, "contains %s once"},
		{mail("templateVariables", "{"), 3, "failed to unmarshal template variables"},
		{mail("templateVariables", `{"a":1}`), 3, "failed to unmarshal template variables"},
		{mail("templateVariables", `{"a":"b","a":"c"}`), 3, "failed to unmarshal template variables"},
		{mail("templateId", "x"), 12, "UNIMPLEMENTED"},
		{object{"emailAuthTemplateId": "x"}, 12, "UNIMPLEMENTED"},
		{object{"otpTemplateId": activitytest.SomeID}, 12, "UNIMPLEMENTED"},
		{object{"otpTemplateId": "x"}, 3, ""},
		{object{"captchaEnabled": true}, 12, "UNIMPLEMENTED"},
		{object{"smsCustomizationParams": object{"template": "no code"}}, 3, "{{ .OtpCode }}"},
		{object{"smsCustomizationParams": object{"template": "{{ .OtpCode }} {{ range . }}"}}, 3, "invalid template"},
		{object{"smsCustomizationParams": object{"template": "{{ .OtpCode }}" + long + long}}, 3, "bytes"},
		{kit("enabledSocialProviders", []any{"myspace"}), 3, "must be one of"},
		{kit("enabledSocialProviders", []any{"x", "x"}), 3, "named twice"},
		{kit("oauthClientIds", object{"myspace": "x"}), 3, "members must be of"},
		{kit("oauthClientIds", object{"google": "a b"}), 3, "invalid client id"},
		{kit("oauthClientIds", object{"google": long}), 3, "invalid client id"},
		{kit("oauthClientIds", []any{"google"}), 3, ""},
		{kit("oauthClientIds", object{"google": 7}), 3, ""},
		{object{"socialLinkingClientIds": []any{""}}, 3, "invalid client id"},
		{object{"socialLinkingClientIds": []any{"a", "a"}}, 3, "named twice"},
		{object{"socialLinkingClientIds": many}, 3, "at most 100"},
		{object{"walletKitSettings": object{"more": 1}}, 3, "unknown field"},
		{object{"more": 1}, 3, "unknown field"},
		{"[]", 3, ""},
	}
	for _, origin := range []string{"", "example.com", "https://", "https://app.example.com/", "https://app.example.com/x", "HTTPS://app.example.com", "https://App.example.com", "https://app.example.com:443",
		"http://app.example.com:80", "https://app.example.com:0", "https://app.example.com:99999", "https://user@app.example.com", "https://*.example.com", "https://app.example.com?x", "https://app.example.com#x",
		"null", "https://app.example.com,https://b.example", " https://app.example.com", "https://app.exämple.com", "javascript:alert(1)", "https:///x", "https://a..b", "https://" + strings.Repeat("a", 300) + ".example"} {
		cases = append(cases, struct {
			params any
			code   fault.Code
			says   string
		}{object{"allowedOrigins": []any{"https://ok.example", origin}}, 3, "invalid origin"})
	}
	for _, u := range []string{"javascript:alert(1)", "data:text/html,x", "http://example.com", "app", "//x", "https://example.com/a b", "file:///etc/passwd", long} {
		cases = append(cases, struct {
			params any
			code   fault.Code
			says   string
		}{kit("oauthRedirectUrl", u), 3, "must be a URL"})
	}
	before := *proxyOf(w)
	for _, c := range cases {
		_, err := w.Try("UPDATE_AUTH_PROXY_CONFIG", c.params)
		e := fault.Of(err)
		if e == nil || e.Code != c.code || !strings.Contains(e.Message, c.says) && !(len(e.Violations) == 1 && e.Violations[0].Field == c.says) {
			t.Errorf("%s: %v, want %d %q", activitytest.JSON(c.params), err, c.code, c.says)
		}
	}
	if got := proxyOf(w); !reflect.DeepEqual(*got, before) {
		t.Errorf("%+v", got)
	}
	t.Logf("%d refused", len(cases))
}

// The proxy does not sign anybody up by a credential with which another
// sub-organization of the same parent is found. Others may.
func TestProxyTakesCredentialsOnce(t *testing.T) {
	w := activitytest.New(t)
	w.Run("ENABLE_AUTH_PROXY", object{})
	k := w.FreshKey()
	sub := func() object {
		return object{"subOrganizationName": "Sub", "rootQuorumThreshold": 1, "rootUsers": []any{activitytest.RootUser("Ada", activitytest.APIKey("k", k))}}
	}
	w.Run("CREATE_SUB_ORGANIZATION_V8", sub())
	w.Run("CREATE_SUB_ORGANIZATION_V8", sub()) // the root user
	p := proxyOf(w)
	u, err := w.Tx().User(p.User)
	w.Must(err)
	c := activity.APIKeyCredential(&u.APIKeys[0])
	w.Stamped = &c
	_, err = w.Try("CREATE_SUB_ORGANIZATION_V8", sub())
	if e := fault.Of(err); e == nil || e.Code != 3 || e.Violations[0].Field != "rootUsers.0.apiKeys.0.publicKey" {
		t.Errorf("%v", err)
	}
	k = strings.ToUpper(k)
	w.Refuse("CREATE_SUB_ORGANIZATION_V8", sub(), 3, "another sub-organization")
	k = w.FreshKey()
	w.Run("CREATE_SUB_ORGANIZATION_V8", sub())
}
