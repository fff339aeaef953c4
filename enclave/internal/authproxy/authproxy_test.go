package authproxy_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/authproxy"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/enclave/internal/stamp"
)

type object = map[string]any

// described is the published description of the proxy.
type described struct {
	Endpoints map[string]struct {
		Op, Request, Response, ForwardsInferred string
		EmptyBodyAllowed                        bool
	}
	Types map[string]map[string]string
}

func description(t *testing.T) (d described) {
	t.Helper()
	b, err := os.ReadFile("testdata/auth_proxy.json")
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// more are members that we take and the newest description does not have: those of
// the first description, and what older clients put into bodies.
var more = map[string][]string{"InitOtpRequest": {"captchaToken"}, "InitOtpV2Request": {"captchaToken"}, "SignupRequest": {"captchaToken"}, "SignupV2Request": {"captchaToken"}, "WalletParams": {"path", "curve"}}

func TestEndpointsFollowTheDescription(t *testing.T) {
	d := description(t)
	if len(d.Endpoints) != len(authproxy.Endpoints()) {
		t.Errorf("%d endpoints, %d described", len(authproxy.Endpoints()), len(d.Endpoints))
	}
	for path, want := range d.Endpoints {
		e, err := authproxy.Find(strings.TrimPrefix(path, "/v1/"))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if e.Type != want.ForwardsInferred || e.Empty != want.EmptyBodyAllowed {
			t.Errorf("%s: %q, empty %v", path, e.Type, e.Empty)
		}
		d.compare(t, want.Request, e.Shape())
	}
	for _, op := range []string{"", "otp_inits", "Signup", "create_wallet", "../account"} {
		if _, err := authproxy.Find(op); fault.Of(err) == nil || fault.Of(err).Code != fault.NotFound {
			t.Errorf("%q: %v", op, err)
		}
	}
}

func (d *described) compare(t *testing.T, typ string, shape reflect.Type) {
	have := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(shape) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			have[name] = f.Type
		}
	}
	for name, notation := range d.Types[typ] {
		f, ok := have[name]
		delete(have, name)
		if !ok {
			t.Errorf("%s.%s is missing", typ, name)
			continue
		}
		for f.Kind() == reflect.Pointer || f.Kind() == reflect.Slice {
			f = f.Elem()
		}
		if f.Kind() == reflect.Uint8 { // raw: an older form is taken beside the described one
			f = reflect.TypeFor[user.ClientSignature]()
		}
		if inner, ok := strings.CutPrefix(strings.TrimRight(strings.TrimPrefix(notation, "[]"), "!?"), "@"); ok {
			d.compare(t, inner, f)
		}
	}
	for name := range have {
		if !slices.Contains(more[typ], name) {
			t.Errorf("%s.%s is not described", typ, name)
		}
	}
}

var organization = org.ID{1, 2, 3}

// config is a configuration with everything in it.
func config() *authproxy.Config {
	return &authproxy.Config{Organization: organization, Name: "Acme", AuthProxy: &org.AuthProxy{
		Origins: []string{"https://app.example.com"}, Methods: []string{"email", "sms", "passkey", "wallet", "social"}, SenderEmail: "from@example.com", SenderName: "From", ReplyTo: "reply@example.com",
		AppName: "App", LogoURL: "https://example.com/l.png", MagicLink: "https://example.com/%s", Variables: `{"a":"b"}`, SMSTemplate: "{{ .OtpCode }}", OTPSeconds: 120, OTPLength: 6, OTPNumeric: true,
		TokenSeconds: 240, SessionSeconds: 360, SocialProviders: []string{"google"},
	}}
}

const token = "verification.token.text"

// identity has the form of an identity token, signed by nobody.
var identity = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"k"}`)) + "." +
	base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://idp.example","sub":"s","aud":"a","exp":2}`)) + "." + strings.Repeat("A", 86)

// samples are a body of each endpoint that asks for an activity, and the parameters
// that become of it.
var samples = map[string][2]string{
	"otp_init": {`{"otpType":"OTP_TYPE_EMAIL","contact":"Ada@example.com","captchaToken":"x"}`,
		`{"otpType":"OTP_TYPE_EMAIL","contact":"Ada@example.com","appName":"App","otpLength":6,"alphanumeric":false,"expirationSeconds":"120","emailCustomization":{"logoUrl":"https://example.com/l.png",` +
			`"magicLinkTemplate":"https://example.com/%s","templateVariables":"{\"a\":\"b\"}"},"sendFromEmailAddress":"from@example.com","sendFromEmailSenderName":"From","replyToEmailAddress":"reply@example.com"}`},
	"otp_init_v2": {`{"otpType":"OTP_TYPE_SMS","contact":"+15551234567"}`,
		`{"otpType":"OTP_TYPE_SMS","contact":"+15551234567","appName":"App","otpLength":6,"alphanumeric":false,"expirationSeconds":"120","smsCustomization":{"template":"{{ .OtpCode }}"}}`},
	"otp_verify":    {`{"otpId":"i","otpCode":"c","public_key":"036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"}`, `{"otpId":"i","otpCode":"c","expirationSeconds":"240","publicKey":"036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"}`},
	"otp_verify_v2": {`{"otpId":"i","encryptedOtpBundle":"b"}`, `{"otpId":"i","encryptedOtpBundle":"b","expirationSeconds":"240"}`},
	"otp_login":     {`{"verificationToken":"` + token + `","publicKey":"036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296","invalidateExisting":true}`, `{"verificationToken":"` + token + `","publicKey":"036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296","expirationSeconds":"360","invalidateExisting":true}`},
	"otp_login_v2": {`{"verificationToken":"` + token + `","publicKey":"036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296","clientSignature":{"publicKey":"p","scheme":"CLIENT_SIGNATURE_SCHEME_API_P256","message":"m","signature":"s"}}`,
		`{"verificationToken":"` + token + `","publicKey":"036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296","expirationSeconds":"360","clientSignature":{"publicKey":"p","scheme":"CLIENT_SIGNATURE_SCHEME_API_P256","message":"m","signature":"s"}}`},
	"oauth_login": {`{"oidcToken":"` + identity + `","publicKey":"036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"}`, `{"oidcToken":"` + identity + `","publicKey":"036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296","expirationSeconds":"360"}`},
	"signup": {`{"userEmail":"a@example.com","userPhoneNumber":"+15551234567","verificationToken":"t","oauthProviders":[{"providerName":"g","oidcToken":"` + identity + `"}],"apiKeys":[{"apiKeyName":"n","publicKey":"036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296","curveType":"API_KEY_CURVE_P256","expirationSeconds":"60"}]}`,
		`{"subOrganizationName":"sub-org-7","rootUsers":[{"userName":"user-7","userEmail":"a@example.com","userPhoneNumber":"+15551234567","apiKeys":[{"apiKeyName":"n","publicKey":"036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296","curveType":"API_KEY_CURVE_P256","expirationSeconds":"60"}],` +
			`"authenticators":[],"oauthProviders":[{"providerName":"g","oidcToken":"` + identity + `"}]}],"rootQuorumThreshold":1,"verificationToken":"t"}`},
	"signup_v2": {`{"userPhoneNumber":"+15551234567","organizationName":"O","verificationToken":"t","apiKeys":null,"authenticators":[],"oauthProviders":[{"providerName":"g","oidcClaims":{"iss":"i","sub":"s","aud":"a"}}],` +
		`"wallet":{"walletName":"W","accounts":[],"mnemonicLength":24},"clientSignature":{"publicKey":"p","scheme":"CLIENT_SIGNATURE_SCHEME_API_P256","message":"m","signature":"s"}}`,
		`{"subOrganizationName":"O","rootUsers":[{"userName":"user-7","userPhoneNumber":"+15551234567","apiKeys":[],"authenticators":[],"oauthProviders":[{"providerName":"g","oidcClaims":{"iss":"i","sub":"s","aud":"a"}}]}],` +
			`"rootQuorumThreshold":1,"wallet":{"walletName":"W","accounts":[],"mnemonicLength":24},"verificationToken":"t","clientSignature":{"publicKey":"p","scheme":"CLIENT_SIGNATURE_SCHEME_API_P256","message":"m","signature":"s"}}`},
}

func read(t *testing.T, op, body string) (*authproxy.Request, error) {
	t.Helper()
	e, err := authproxy.Find(op)
	if err != nil {
		t.Fatal(err)
	}
	return e.Read([]byte(body))
}

func TestBodiesBecomeActivities(t *testing.T) {
	for op, s := range samples {
		r, err := read(t, op, s[0])
		if err != nil {
			t.Errorf("%s: %v", op, err)
			continue
		}
		got, err := r.Submit(config(), organization, 7)
		if err != nil {
			t.Errorf("%s: %v", op, err)
			continue
		}
		proofs := ""
		if strings.HasPrefix(op, "signup") {
			proofs = `,"generateAppProofs":true`
		}
		want := `{"type":"` + r.Type + `","timestampMs":"7","organizationId":"` + organization.String() + `","parameters":` + s[1] + proofs + `}`
		if string(got) != want {
			t.Errorf("%s:\n%s, want\n%s", op, got, want)
		}
		// What comes out is taken by the activity, where that is live.
		sub, err := activity.ParseStored(stamp.StoredBody(got))
		if err != nil {
			t.Errorf("%s: %v", op, err)
			continue
		}
		if v, err := kinds.Live.Lookup(activity.OpOf(r.Type), r.Type); err == nil {
			if !v.Kind.ByProxy {
				t.Errorf("%s: %s is none of the proxy's", op, r.Type)
			}
			if _, err := v.Decode(sub.Parameters); err != nil && !strings.Contains(err.Error(), "not a signed token") { // the samples' tokens are none
				t.Errorf("%s: %v", op, err)
			}
		}
	}
	for _, e := range authproxy.Endpoints() {
		if _, ok := samples[e.Op]; !ok && e.Type != "" && e.Op != "oauth2_authenticate" {
			t.Errorf("%s has no sample", e.Op)
		}
	}
}

func TestDefaultsOfPasscodes(t *testing.T) {
	c := config()
	c.AuthProxy = &org.AuthProxy{Methods: []string{"email", "sms"}, OTPLength: 9, OTPSeconds: 300}
	for body, want := range map[string]string{
		`{"otpType":"OTP_TYPE_EMAIL","contact":"a@example.com"}`: `{"otpType":"OTP_TYPE_EMAIL","contact":"a@example.com","appName":"Acme","otpLength":9,"alphanumeric":true,"expirationSeconds":"300"}`,
		`{"otp_type":"OTP_TYPE_SMS","contact":"+15551234567"}`:   `{"otpType":"OTP_TYPE_SMS","contact":"+15551234567","appName":"Acme","otpLength":9,"alphanumeric":true,"expirationSeconds":"300"}`,
	} {
		r, err := read(t, "otp_init", body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Submit(c, organization, 1)
		if err != nil || !bytes.Contains(got, []byte(`"parameters":`+want+`}`)) {
			t.Errorf("%s %v", got, err)
		}
	}
}

func TestOAuth2NeedsTheOrganizationsCredential(t *testing.T) {
	r, err := read(t, "oauth2_authenticate", `{"provider":"OAUTH2_PROVIDER_X","authCode":"a","redirectUri":"r","codeVerifier":"c","nonce":"n","client_id":"i"}`)
	if err != nil || r.Client == nil || r.Client.Provider != "OAUTH2_PROVIDER_X" || r.Client.ClientID != "i" {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := r.Submit(config(), organization, 1); fault.Of(err) == nil || fault.Of(err).Violations[0].Field != "clientId" {
		t.Errorf("%v", err)
	}
	r.Client.Credential = org.ID{9}
	got, err := r.Submit(config(), organization, 1)
	want := `"parameters":{"oauth2CredentialId":"` + r.Client.Credential.String() + `","authCode":"a","redirectUri":"r","codeVerifier":"c","nonce":"n"}}`
	if err != nil || !strings.HasSuffix(string(got), want) {
		t.Errorf("%s %v", got, err)
	}
}

func TestContactsOfPasscodes(t *testing.T) {
	for body, want := range map[string]string{
		`{"otpType":"OTP_TYPE_EMAIL","contact":"Ada@Example.com"}`: "OTP_TYPE_EMAIL ada@example.com",
		`{"otpType":"OTP_TYPE_SMS","contact":"+15551234567"}`:      "OTP_TYPE_SMS +15551234567",
	} {
		if r, err := read(t, "otp_init_v2", body); err != nil || r.Contact != want {
			t.Errorf("%v %v", r, err)
		}
	}
}

func TestMethodsThatAreNotAllowed(t *testing.T) {
	for _, c := range []struct {
		op, body string
		methods  []string
		says     string
	}{
		{"otp_init", samples["otp_init"][0], []string{"sms", "passkey"}, "email is not among the allowed auth methods"},
		{"otp_init_v2", samples["otp_init_v2"][0], []string{"email"}, "sms is not among the allowed auth methods"},
		{"oauth_login", samples["oauth_login"][0], []string{"email", "passkey"}, "OAUTH disallowed"},
		{"signup", samples["signup"][0], []string{"email", "passkey"}, "OAUTH disallowed"},
		{"signup_v2", samples["signup_v2"][0], []string{"email", "passkey"}, "OAUTH disallowed"},
		{"account", `{"filterType":"OIDC_TOKEN","filterValue":"x"}`, []string{"email"}, "OAUTH disallowed"},
		{"signup", `{"authenticators":[{"authenticatorName":"a","challenge":"c","attestation":{"credentialId":"c","clientDataJson":"c","attestationObject":"c","transports":[]}}]}`, []string{"email", "social"},
			"passkey is not among the allowed auth methods"},
		{"oauth2_authenticate", `{"provider":"OAUTH2_PROVIDER_X","authCode":"a","redirectUri":"r","codeVerifier":"c","nonce":"n","clientId":"i"}`, nil, "OAUTH disallowed"},
	} {
		r, err := read(t, c.op, c.body)
		if err != nil {
			t.Fatal(err)
		}
		p := config()
		p.Methods = c.methods
		if err := p.Allows(r); fault.Of(err) == nil || fault.Of(err).Code != fault.PermissionDenied || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.op, err)
		}
	}
}

func TestBodiesThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", authproxy.MaxBody)
	n := 0
	for op, bodies := range map[string][]string{
		"otp_init": {`{}`, `{"otpType":"OTP_TYPE_EMAIL"}`, `{"contact":"a@example.com"}`, `{"otpType":"EMAIL","contact":"a@example.com"}`, `{"otpType":"OTP_TYPE_SMS","contact":"a@example.com"}`,
			`{"otpType":"OTP_TYPE_EMAIL","contact":"+15551234567"}`, `{"otpType":"OTP_TYPE_EMAIL","contact":"a@b"}`, `{"otpType":"OTP_TYPE_EMAIL","contact":"a@example.com\r\nBcc: b@example.com"}`,
			`{"otpType":"OTP_TYPE_EMAIL","contact":"a@example.com","otpLength":4}`, `{"otpType":"OTP_TYPE_EMAIL","contact":"a@example.com","appName":"Evil"}`,
			`{"otpType":"OTP_TYPE_EMAIL","contact":"a@example.com","emailCustomization":{"magicLinkTemplate":"https://evil.example/%s"}}`, `{"otpType":"OTP_TYPE_EMAIL","contact":["a@example.com"]}`,
			`{"otpType":"OTP_TYPE_EMAIL","otp_type":"OTP_TYPE_EMAIL","contact":"a@example.com"}`, `{"otpType":"OTP_TYPE_EMAIL","contact":"a@example.com","userIdentifier":"x"}`},
		"otp_verify":    {`{}`, `{"otpId":"i"}`, `{"otpCode":"c"}`, `{"otpId":"i","otpCode":123}`, `{"otpId":"i","otpCode":"c","expirationSeconds":"86400"}`, `{"otpId":"","otpCode":"c"}`, `{"otpId":"i","otpCode":"c","publicKey":"k","public_key":"k"}`},
		"otp_verify_v2": {`{}`, `{"otpId":"i"}`, `{"otpId":"i","otpCode":"c"}`, `{"otpId":"i","encryptedOtpBundle":{}}`},
		"otp_login": {`{}`, `{"verificationToken":"t"}`, `{"publicKey":"k"}`, `{"verificationToken":"t","publicKey":"k","expirationSeconds":"99999999"}`, `{"verificationToken":"t","publicKey":"k","organizationId":"x"}`,
			`{"verificationToken":"t","publicKey":"k","clientSignature":["00"]}`, `{"verificationToken":"t","publicKey":"k","clientSignature":{"publicKey":"p"}}`, `{"verificationToken":"t","publicKey":"k","sessionProfileId":"x"}`,
			`{"verificationToken":"t","publicKey":"k","invalidateExisting":"yes"}`, `{"verificationToken":"t","publicKey":"k","organizationId":"6ba7b8109dad41d180b400c04fd430c8"}`},
		"otp_login_v2": {`{}`, `{"verificationToken":"t","publicKey":"k"}`, `{"verificationToken":"t","publicKey":"k","clientSignature":null}`,
			`{"verificationToken":"t","publicKey":"k","clientSignature":{"publicKey":"p","scheme":"OTHER","message":"m","signature":"s"}}`},
		"oauth_login":         {`{}`, `{"oidcToken":"t"}`, `{"publicKey":"k"}`, `{"oidcToken":"t","publicKey":"k","clientSignature":{}}`, `{"oidcToken":"t","publicKey":"k","organizationId":"x"}`},
		"oauth2_authenticate": {`{}`, `{"provider":"OAUTH2_PROVIDER_GOOGLE","authCode":"a","redirectUri":"r","codeVerifier":"c","nonce":"n","clientId":"i"}`, `{"provider":"OAUTH2_PROVIDER_X","authCode":"a"}`},
		"account":             {`{}`, `{"filterType":"EMAIL"}`, `{"filterType":"email","filterValue":"x"}`, `{"filterType":"","filterValue":"x"}`},
		"signup":              {`{"oauthProviders":[{"providerName":"g"}]}`, `{"oauthProviders":[{"providerName":"g","oidcClaims":{"iss":"i","sub":"s","aud":"a"}}]}`, `{"rootUsers":[]}`, `{"rootQuorumThreshold":0}`, `{"disableEmailAuth":true}`},
		"wallet_kit_config":   {`{"organizationId":"x"}`},
	} {
		for _, body := range append(bodies, "", "null", "[]", "{", "{}x", `"x"`, "\xff", `{"a":"\ud800"}`, `{"`+long+`":1}`, strings.Repeat(`{"a":`, 50)) {
			if body == "" && op == "wallet_kit_config" {
				continue
			}
			n++
			if r, err := read(t, op, body); fault.Of(err) == nil || fault.Of(err).Code != fault.InvalidArgument {
				t.Errorf("%s: %.80s: %v %v", op, body, r, err)
			}
		}
	}
	t.Logf("%d refused", n)
}

func TestOrigins(t *testing.T) {
	c := config()
	for origin, want := range map[string]bool{"https://app.example.com": true, "": false, "https://app.example.com.": false, "https://app.example.co": false, "*": false, "null": false} {
		if c.Accepts(origin) != want {
			t.Errorf("%q", origin)
		}
	}
	c.Origins = []string{"*"}
	for _, origin := range []string{"", "null", "https://any.example"} {
		if !c.Accepts(origin) {
			t.Errorf("%q", origin)
		}
	}
	c.Origins = nil
	if c.Accepts("") || c.Accepts("https://any.example") {
		t.Error("no list is not any origin")
	}
}

func TestProviders(t *testing.T) {
	for _, c := range []struct {
		methods, social []string
		texts           bool
		want            string
	}{
		{nil, []string{"google"}, true, ""},
		{[]string{"wallet", "passkey", "sms", "email"}, nil, false, "email passkey wallet"},
		{[]string{"wallet", "passkey", "sms", "email"}, nil, true, "email sms passkey wallet"},
		{[]string{"social"}, []string{"discord", "google"}, true, "google discord"},
		{[]string{"apple"}, []string{"discord"}, true, "apple"},
		{[]string{"social", "apple"}, []string{"apple", "x", "facebook"}, true, "facebook apple x"},
	} {
		p := config()
		p.Methods, p.SocialProviders, p.Texts = c.methods, c.social, c.texts
		if got := strings.Join(p.Providers(), " "); got != c.want {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// signers sign verification tokens of both forms.
func signers(t *testing.T) (*login.Signer, *login.Signer, login.TokenKeys) {
	t.Helper()
	var all [2]*login.Signer
	for i := range all {
		var err error
		if all[i], err = login.NewSigner(secrettest.Of(bytes.Repeat([]byte{byte(i + 1)}, 32))); err != nil {
			t.Fatal(err)
		}
	}
	return all[0], all[1], login.TokenKeys{Token: all[0].Public(), Legacy: all[1].Public()}
}

const now = 1_700_000_000_000

func TestAccountsThatNeedAToken(t *testing.T) {
	by, legacy, keys := signers(t)
	issue := func(change func(*login.VerificationToken)) *string {
		v := &login.VerificationToken{ID: "6ba7b810-9dad-41d1-80b4-00c04fd430c8", OrganizationID: organization.String(), Type: login.Email, Contact: "Ada@example.com", PublicKey: "02", ExpiresMs: now + 1000}
		if change != nil {
			change(v)
		}
		s := by
		if v.Legacy {
			s = legacy
		}
		text, err := login.IssueVerificationToken(s, v)
		if err != nil {
			t.Fatal(err)
		}
		return &text
	}
	c := config()
	c.TokenForPII = true
	some := "some"
	for i, x := range []struct {
		filter, value string
		token, oidc   *string
		code          fault.Code
	}{
		{"EMAIL", "ada@EXAMPLE.com", issue(nil), nil, 0},
		{"EMAIL", "ada@example.com", issue(func(v *login.VerificationToken) { v.Legacy = true }), nil, 0},
		{"PHONE_NUMBER", "+15551234567", issue(func(v *login.VerificationToken) { v.Type, v.Contact = login.SMS, "+15551234567" }), nil, 0},
		{"NAME", "x", nil, nil, 0}, {"PUBLIC_KEY", "x", nil, nil, 0}, {"CREDENTIAL_ID", "x", nil, nil, 0}, {"OIDC_TOKEN", "x", nil, nil, 0},
		// A name may be a contact.
		{"USERNAME", "Ada", nil, nil, 3}, {"USERNAME", "Ada", &some, nil, 3}, {"USERNAME", "Ada", nil, &some, 3}, {"USERNAME", "Ada", issue(nil), nil, 3},
		{"USERNAME", "ada@example.com", nil, nil, 3}, {"USERNAME", "ada@example.com", &some, nil, 3}, {"USERNAME", "+15551234567", nil, nil, 3},
		{"USERNAME", "ada@example.com ", nil, nil, 3}, {"USERNAME", "<ada@example.com>", issue(nil), nil, 3}, {"USERNAME", "15551234567", nil, nil, 3},
		{"USERNAME", "bob@example.com", issue(nil), nil, 3},
		{"USERNAME", "ada@example.com", issue(nil), nil, 0},
		{"USERNAME", "+15551234567", issue(func(v *login.VerificationToken) { v.Type, v.Contact = login.SMS, "+15551234567" }), nil, 0},
		{"USERNAME", "+15551234567", issue(nil), nil, 3},
		{"NAME", "ada@example.com", nil, nil, 3}, {"NAME", "ada@example.com", issue(nil), nil, 0}, {"NAME", "+15551234567", nil, nil, 3},
		{"NAME", "Wallet of <ada@example.com>", nil, nil, 3}, {"NAME", "Wallet of Ada@example.com", issue(nil), nil, 0}, {"NAME", "user:ada@example.com", nil, nil, 3}, {"NAME", "ada@example.com’s", nil, nil, 3}, {"NAME", "o'ada@example.com", issue(nil), nil, 3},
		{"NAME", "ada@example.com and bob@example.com", issue(nil), nil, 3}, {"NAME", "sub-org-1700000000000", nil, nil, 0},
		{"EMAIL", "ada@example.com", nil, nil, 3},
		{"EMAIL", "ada@example.com", &some, nil, 3},
		{"EMAIL", "ada@example.com", nil, &some, 0}, // once that is verified
		{"USERNAME", "ada@example.com", nil, &some, 0},
		{"EMAIL", "ada@example.com", &some, &some, 3},
		{"EMAIL", "bob@example.com", issue(nil), nil, 3},
		{"PHONE_NUMBER", "ada@example.com", issue(nil), nil, 3},
		{"EMAIL", "ada@example.com", issue(func(v *login.VerificationToken) { v.OrganizationID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8" }), nil, 3},
		{"EMAIL", "ada@example.com", issue(func(v *login.VerificationToken) { v.ExpiresMs = now }), nil, 3},
		{"EMAIL", "+15551234567", issue(func(v *login.VerificationToken) { v.Type, v.Contact = login.SMS, "+15551234567" }), nil, 3},
	} {
		a := &authproxy.AccountLookup{FilterType: x.filter, FilterValue: x.value, VerificationToken: x.token, OidcToken: x.oidc}
		linked, err := a.Admit(c, keys, now)
		if linked != (strings.Contains(x.value, "@") && x.token == nil && x.oidc != nil) {
			t.Errorf("%d: linked %v", i, linked)
		}
		if x.code == 0 && err != nil || x.code != 0 && (fault.Of(err) == nil || fault.Of(err).Code != x.code) {
			t.Errorf("%d: %v", i, err)
		}
		free := config()
		if linked, err := a.Admit(free, keys, now); linked || err != nil {
			t.Errorf("%d, nothing demanded: %v", i, err)
		}
	}
	forged, err := login.IssueVerificationToken(legacy, &login.VerificationToken{ID: "x", OrganizationID: organization.String(), Type: login.Email, Contact: "ada@example.com", PublicKey: "02", ExpiresMs: now + 1000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&authproxy.AccountLookup{FilterType: "EMAIL", FilterValue: "ada@example.com", VerificationToken: &forged}).Admit(c, keys, now); err == nil {
		t.Error("a token of the wrong key")
	}
	c.LinkingClients = []string{"client"}
	good := login.Identity{Issuer: "https://accounts.google.com", Audiences: []string{"other", "client"}, Email: "Ada@example.com", EmailVerified: true}
	for i, change := range []func(a *authproxy.AccountLookup, i *login.Identity){
		func(*authproxy.AccountLookup, *login.Identity) {},
		func(_ *authproxy.AccountLookup, i *login.Identity) {
			i.Issuer = "https://accounts.google.com.evil.example"
		},
		func(_ *authproxy.AccountLookup, i *login.Identity) { i.Audiences = []string{"other"} },
		func(_ *authproxy.AccountLookup, i *login.Identity) { i.Email = "bob@example.com" },
		func(_ *authproxy.AccountLookup, i *login.Identity) { i.EmailVerified = false },
		func(a *authproxy.AccountLookup, _ *login.Identity) { a.FilterType = "PHONE_NUMBER" },
		func(a *authproxy.AccountLookup, _ *login.Identity) { a.FilterType = "PUBLIC_KEY" },
		func(a *authproxy.AccountLookup, _ *login.Identity) {
			a.FilterType, a.FilterValue = "NAME", "ada@example.com, bob@example.com"
		},
		func(a *authproxy.AccountLookup, _ *login.Identity) {
			a.FilterType, a.FilterValue = "USERNAME", "bob@example.com"
		},
	} {
		a, who := &authproxy.AccountLookup{FilterType: "EMAIL", FilterValue: "ada@example.com"}, good
		change(a, &who)
		if err := a.AdmitLinked(c, &who); (err == nil) != (i == 0) {
			t.Errorf("linked %d: %v", i, err)
		}
	}
}

func TestAccountQueries(t *testing.T) {
	for filter, want := range map[string]string{"EMAIL": "list_verified_suborgs", "PHONE_NUMBER": "list_verified_suborgs", "NAME": "list_suborgs", "USERNAME": "list_suborgs", "CREDENTIAL_ID": "list_suborgs",
		"PUBLIC_KEY": "list_suborgs", "OIDC_TOKEN": "list_suborgs"} {
		a := &authproxy.AccountLookup{FilterType: filter, FilterValue: `va"lue`}
		op, body := a.Query(config())
		if op != want || string(body) != `{"organizationId":"`+organization.String()+`","filterType":"`+filter+`","filterValue":"va\"lue","paginationOptions":{"limit":"1"}}` {
			t.Errorf("%s: %s %s", filter, op, body)
		}
	}
	a := &authproxy.AccountLookup{}
	for reply, want := range map[string]string{`{"organizationIds":[]}`: "{}", `{"organizationIds":["x"]}`: `{"organizationId":"x"}`} {
		if got, err := a.Cut([]byte(reply)); err != nil || string(got) != want {
			t.Errorf("%s %v", got, err)
		}
	}
	for _, reply := range []string{"", "{", `{"organizationIds":["x","y"]}`, `{"more":1}`} {
		if got, err := a.Cut([]byte(reply)); err == nil || fault.Of(err) != nil {
			t.Errorf("%s: %s %v", reply, got, err)
		}
	}
}

func TestAnswersAreCut(t *testing.T) {
	done := func(result string) string {
		return `{"activity":{"id":"a","status":"ACTIVITY_STATUS_COMPLETED","intent":{"x":{"secret":1}},"result":` + result + `,"votes":[{"message":"m"}],"appProofs":[{"p":1}]}}`
	}
	for _, c := range []struct{ op, reply, want string }{
		{"otp_init", done(`{"initOtpResult":{"otpId":"o"}}`), `{"otpId":"o"}`},
		{"otp_init_v2", done(`{"initOtpResultV2":{"otpEncryptionTargetBundle":"{\"a\":1}","otpId":"o"}}`), `{"otpId":"o","otpEncryptionTargetBundle":"{\"a\":1}"}`},
		{"otp_verify", done(`{"verifyOtpResult":{"verificationToken":"t"}}`), `{"verificationToken":"t"}`},
		{"otp_login_v2", done(`{"otpLoginResult":{"session":"s"}}`), `{"session":"s"}`},
		{"oauth2_authenticate", done(`{"oauth2AuthenticateResult":{"oidcToken":"s"}}`), `{"oidcToken":"s"}`},
		{"signup", done(`{"createSubOrganizationResultV7":{"subOrganizationId":"s","wallet":{"walletId":"w","addresses":["a"]},"rootUserIds":["u"]}}`),
			`{"organizationId":"s","userId":"u","wallet":{"walletId":"w","addresses":["a"]},"appProofs":[{"p":1}]}`},
		{"signup_v2", strings.Replace(done(`{"x":{"subOrganizationId":"s","rootUserIds":["u"]}}`), `,"appProofs":[{"p":1}]`, "", 1), `{"organizationId":"s","userId":"u"}`},
	} {
		e, _ := authproxy.Find(c.op)
		r := &authproxy.Request{Endpoint: e}
		if got, err := r.Cut([]byte(c.reply)); err != nil || string(got) != c.want {
			t.Errorf("%s: %s %v", c.op, got, err)
		}
	}
	e, _ := authproxy.Find("signup")
	r := &authproxy.Request{Endpoint: e}
	for _, status := range []string{"CONSENSUS_NEEDED", "AUTHENTICATORS_NEEDED", "PENDING", "FAILED", "REJECTED"} {
		_, err := r.Cut([]byte(`{"activity":{"id":"act","status":"ACTIVITY_STATUS_` + status + `","result":{}}}`))
		if f := fault.Of(err); f == nil || f.Code != fault.PermissionDenied || !strings.HasSuffix(f.Message, "activityId=act") {
			t.Errorf("%s: %v", status, err)
		}
	}
	for _, reply := range []string{"", "{}x", done(`{}`), done(`{"a":{},"b":{}}`), done(`{"a":{}}`), done(`{"a":{"subOrganizationId":"s","rootUserIds":[]}}`), done(`{"a":{"subOrganizationId":"s","rootUserIds":["a","b"]}}`),
		done(`{"a":{"rootUserIds":["a"]}}`), done(`[]`)} {
		if got, err := r.Cut([]byte(reply)); err == nil || fault.Of(err) != nil {
			t.Errorf("%s: %s %v", reply, got, err)
		}
	}
}

func TestFieldsAreCalledAsTheCallerCalledThem(t *testing.T) {
	r := new(authproxy.Request)
	in := fault.Field("rootUsers.0.apiKeys.1.publicKey", "bad")
	got := fault.Of(r.TranslateError(in))
	if got.Violations[0].Field != "apiKeys.1.publicKey" || in.Violations[0].Field != "rootUsers.0.apiKeys.1.publicKey" {
		t.Errorf("%+v %+v", got, in)
	}
	if err := r.TranslateError(os.ErrClosed); err != os.ErrClosed {
		t.Error(err)
	}
}

func TestHolder(t *testing.T) {
	for typ, want := range map[login.ContactType]byte{login.Email: org.ChildVerifiedEmail, login.SMS: org.ChildVerifiedPhone} {
		h := authproxy.HolderOf(&login.VerificationToken{Type: typ, Contact: "Ada@example.com"})
		if h.What != want || (h.Value == "ada@example.com") != (typ == login.Email) {
			t.Errorf("%s: %+v", typ, h)
		}
	}
	hs := authproxy.HoldersOf(&login.Identity{Issuer: "i", Subject: "s", Audiences: []string{"a", "b"}})
	if len(hs) != 2 || hs[1] != (authproxy.Holder{What: org.ChildIdentity, Value: org.IdentityText("i", "s", "b"), Attempt: (&login.Identity{}).Attempt()}) {
		t.Errorf("%+v", hs)
	}
}

// FuzzRead reads bodies of every endpoint. What is taken becomes a body that an
// activity's envelope takes, with the configuration's parameters and no other
// organization than the one that it is for.
func FuzzRead(f *testing.F) {
	ops := make([]string, 0, len(authproxy.Endpoints()))
	for _, e := range authproxy.Endpoints() {
		ops = append(ops, e.Op)
	}
	for i, op := range ops {
		f.Add(uint8(i), []byte(samples[op][0]))
	}
	f.Add(uint8(slices.Index(ops, "account")), []byte(`{"filter_type":"NAME","filterValue":"x"}`))
	f.Add(uint8(slices.Index(ops, "signup")), []byte(`{"apiKeys":[{}],"wallet":{"path":"m/0","curve":"CURVE_TYPE_ED25519"}}`))
	f.Fuzz(func(t *testing.T, i uint8, body []byte) {
		e, err := authproxy.Find(ops[int(i)%len(ops)])
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Read(body)
		if err != nil {
			if fault.Of(err) == nil || len(err.Error()) > 1000 {
				t.Fatalf("%v", err)
			}
			return
		}
		if r.Account != nil {
			_, b := r.Account.Query(config())
			var m object
			if err := json.Unmarshal(b, &m); err != nil || m["organizationId"] != organization.String() || len(m) != 4 {
				t.Fatalf("%s", b)
			}
			return
		}
		if e.Type == "" {
			if !json.Valid(r.Answer(config())) {
				t.Fatal(e.Op)
			}
			return
		}
		b, err := r.Submit(config(), organization, 7)
		if err != nil {
			if fault.Of(err) == nil {
				t.Fatalf("%v", err)
			}
			return
		}
		s, err := activity.ParseStored(stamp.StoredBody(b))
		if err != nil || s.Organization != organization || s.TimestampMs != 7 || s.Type != e.Type || s.WantsProofs != e.Proofs {
			t.Fatalf("%s: %v", b, err)
		}
		var params object
		if err := json.Unmarshal(s.Parameters, &params); err != nil {
			t.Fatal(err)
		}
		known := []string{"otpType", "contact", "appName", "otpLength", "alphanumeric", "expirationSeconds", "emailCustomization", "smsCustomization", "sendFromEmailAddress", "sendFromEmailSenderName",
			"replyToEmailAddress", "otpId", "otpCode", "publicKey", "encryptedOtpBundle", "verificationToken", "invalidateExisting", "clientSignature", "oidcToken", "subOrganizationName", "rootUsers",
			"rootQuorumThreshold", "wallet", "oauth2CredentialId"}
		for name := range maps.Keys(params) {
			if !slices.Contains(known, name) {
				t.Fatalf("%s: %s", name, b)
			}
		}
	})
}

// FuzzCut cuts what no activity ever answered.
func FuzzCut(f *testing.F) {
	f.Add(uint8(0), []byte(`{"activity":{"status":"ACTIVITY_STATUS_COMPLETED","result":{"a":{"otpId":"x"}}}}`))
	f.Add(uint8(8), []byte(`{"activity":{"status":"ACTIVITY_STATUS_COMPLETED","result":{"a":{"subOrganizationId":"x","rootUserIds":["u"]}},"appProofs":[]}}`))
	f.Fuzz(func(t *testing.T, i uint8, reply []byte) {
		es := authproxy.Endpoints()
		e := es[int(i)%len(es)]
		if e.Type == "" {
			return
		}
		b, err := (&authproxy.Request{Endpoint: e}).Cut(reply)
		if err == nil && !json.Valid(b) {
			t.Fatalf("%s", b)
		}
	})
}

// The client's signature of a log-in is an object, or as the interface was first
// described the hex of a signature over the token.
func TestSignatureOfALogIn(t *testing.T) {
	e, err := authproxy.Find("otp_login")
	if err != nil {
		t.Fatal(err)
	}
	const key = "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
	body := func(member, signature string) []byte {
		return []byte(`{"verificationToken":"` + token + `","publicKey":"` + key + `","` + member + `":` + signature + `}`)
	}
	whole := `{"publicKey":"` + key + `","scheme":"CLIENT_SIGNATURE_SCHEME_API_P256","message":"{}","signature":"00ff"}`
	bare := `{"publicKey":"` + key + `","scheme":"CLIENT_SIGNATURE_SCHEME_API_P256","message":"` + token + `","signature":"00ff"}`
	for signature, want := range map[string]string{whole: whole, snakeSignature(whole): whole, `"00ff"`: bare, `null`: "", `""`: ""} {
		for _, member := range []string{"clientSignature", "client_signature"} {
			r, err := e.Read(body(member, signature))
			if err != nil {
				t.Errorf("%s %s: %v", member, signature, err)
				continue
			}
			b, err := r.Submit(config(), organization, 7)
			if err != nil {
				t.Fatal(err)
			}
			var m struct {
				Parameters struct{ ClientSignature json.RawMessage }
			}
			if err := json.Unmarshal(b, &m); err != nil || string(m.Parameters.ClientSignature) != want {
				t.Errorf("%s %s: %s, want %s", member, signature, m.Parameters.ClientSignature, want)
			}
		}
	}
	for _, signature := range []string{"7", "true", "[]", `["00ff"]`, "{}", `{"signature":"00ff"}`, whole[:len(whole)-1] + `,"more":1}`, whole[:len(whole)-1] + `,"signature":"00"}`,
		strings.Replace(whole, "API_P256", "OTHER", 1)} {
		if _, err := e.Read(body("clientSignature", signature)); fault.Of(err) == nil || fault.Of(err).Code != fault.InvalidArgument {
			t.Errorf("%s: %v", signature, err)
		}
	}
	v2, err := authproxy.Find("otp_login_v2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v2.Read(body("clientSignature", `"00ff"`)); fault.Of(err) == nil {
		t.Errorf("version 2 takes a bare signature: %v", err)
	}
}

func snakeSignature(s string) string { return strings.Replace(s, "publicKey", "public_key", 1) }
