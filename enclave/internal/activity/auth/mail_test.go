package auth_test

import (
	"regexp"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var bundled = regexp.MustCompile(`(?m)^    ([1-9A-HJ-NP-Za-km-z]{50,})$`)

// mailedBundle is the encrypted key in the mail of the last run.
func mailedBundle(w *world) string {
	w.TB.Helper()
	m := bundled.FindStringSubmatch(mailOf(w).Text)
	if m == nil {
		w.TB.Fatalf("no bundle in %q", mailOf(w).Text)
	}
	return m[1]
}

func TestEmailAuth(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": mailbox})
	s.User = w.User // one of the parent asks
	private, to := keyPair(w)
	custom := object{"appName": "App", "magicLinkTemplate": "https://app.example/?b=%s"}
	for typ, in := range map[string]object{
		"EMAIL_AUTH":    {"email": mailbox, "targetPublicKey": to},
		"EMAIL_AUTH_V2": {"email": mailbox, "targetPublicKey": to, "emailCustomization": object{"logoUrl": "https://app.example/l.png"}},
		"EMAIL_AUTH_V3": {"email": strings.ToUpper(mailbox), "targetPublicKey": to, "emailCustomization": custom},
	} {
		r := s.Run(typ, in)
		k := keyOf(s, s.Root, publicOf(w, private, mailedBundle(s)))
		if k == nil || k.ID.String() != r["apiKeyId"] || k.Type != "CREDENTIAL_TYPE_EMAIL_AUTH_KEY_P256" || k.ExpirationSeconds != 900 || !strings.HasPrefix(k.Name, "Email Auth - ") {
			t.Errorf("%s: %+v", typ, k)
		}
		if s.Last.Sends[0].ExpiresMs != s.Now+900_000 {
			t.Errorf("%s: sent until %d", typ, s.Last.Sends[0].ExpiresMs)
		}
		if typ == "EMAIL_AUTH_V3" && !strings.Contains(mailOf(s).Text, "https://app.example/?b="+mailedBundle(s)) {
			t.Errorf("no link in %q", mailOf(s).Text)
		}
	}
	in := object{"email": mailbox, "targetPublicKey": to, "emailCustomization": custom, "apiKeyName": "Mine", "expirationSeconds": "60", "invalidateExisting": true}
	s.Run("EMAIL_AUTH_V3", in)
	if k := keyOf(s, s.Root, publicOf(w, private, mailedBundle(s))); k.Name != "Mine" || k.ExpirationSeconds != 60 {
		t.Errorf("%+v", k)
	}
	if n := len(s.UserOf(s.Root).APIKeys); n != 2 {
		t.Errorf("%d keys are left", n)
	}
	for _, c := range []struct {
		params object
		code   fault.Code
		says   string
	}{
		{varied(in, "email", "b@example.org"), 5, "not exactly one user"},
		{varied(in, "email", "b"), 3, "email"},
		{varied(in, "targetPublicKey", "04"), 3, "invalid public key"},
		{varied(in, "emailCustomization", nil), 3, "emailCustomization"},
		{varied(in, "emailCustomization", object{}), 3, "appName"},
		{varied(in, "emailCustomization", varied(custom, "templateId", "x")), 3, "no such template"},
		{varied(in, "expirationSeconds", "0"), 3, "must be a number of seconds"},
	} {
		s.Refuse("EMAIL_AUTH_V3", c.params, c.code, c.says)
	}
	s.Capabilities = activity.Capabilities{}
	s.Refuse("EMAIL_AUTH_V3", in, 9, "sends no mail")
	s.Capabilities = w.Capabilities
	s.Run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_EMAIL_AUTH"})
	s.Refuse("EMAIL_AUTH_V3", in, 9, "FEATURE_NAME_EMAIL_AUTH is not enabled")
	w.Refuse("EMAIL_AUTH_V3", in, 9, "FEATURE_NAME_EMAIL_AUTH is not enabled") // nor where nobody has turned it on
}

func TestRecovery(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": mailbox})
	private, to := keyPair(w)
	custom := object{"appName": "App"}
	in := object{"email": mailbox, "targetPublicKey": to, "emailCustomization": custom}
	passkey := activitytest.PasskeyOf(s, "new")
	s.Refuse("RECOVER_USER", object{"userId": s.Root, "authenticator": passkey}, 3, "by the key that was mailed")
	s.Run("INIT_USER_EMAIL_RECOVERY", object{"email": mailbox, "targetPublicKey": to})
	own := s.User
	s.User = w.User // one of the parent asks
	s.Run("INIT_USER_EMAIL_RECOVERY_V2", in)
	s.User = own
	if m := mailOf(s); m.Subject != "Recover your account at App" {
		t.Errorf("%+v", m)
	}
	k := keyOf(s, s.Root, publicOf(w, private, mailedBundle(s)))
	if k == nil || k.Type != auth.TypeRecovery || k.ExpirationSeconds != 900 {
		t.Fatalf("%+v", k)
	}
	if n := len(s.UserOf(s.Root).APIKeys); n != 2 { // the newest ends the others
		t.Errorf("%d keys", n)
	}
	cred := activity.APIKeyCredential(k)
	s.Stamped = &cred
	s.Run("RECOVER_USER", object{"userId": s.Root, "authenticator": passkey})
	if u := s.UserOf(s.Root); len(u.Authenticators) != 1 || len(u.APIKeys) != 1 || keyOf(s, s.Root, k.PublicKey) != nil {
		t.Errorf("%+v", u)
	}
	s.Stamped = nil
	s.Run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY"})
	s.Refuse("INIT_USER_EMAIL_RECOVERY_V2", in, 9, "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY is not enabled")
	s.Run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_EMAIL_RECOVERY"})
	s.Refuse("INIT_USER_EMAIL_RECOVERY_V2", in, 9, "FEATURE_NAME_EMAIL_RECOVERY is not enabled")
}

// What a user of a sub-organization has sent bears the name of the organization above, and no word, link or sender of his.
func TestWordsOfEndUsers(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": mailbox})
	_, to := keyPair(w)
	custom := object{"logoUrl": "https://evil.example/l.png", "magicLinkTemplate": "https://evil.example/?b=%s"}
	named := varied(custom, "appName", "Your bank")
	from := object{"sendFromEmailAddress": "bank@allowed.example", "sendFromEmailSenderName": "Your bank", "replyToEmailAddress": "evil@example.net"}
	with := func(in object) object {
		more := object{}
		for k, v := range from {
			more[k] = v
		}
		for k, v := range in {
			more[k] = v
		}
		return more
	}
	for typ, in := range map[string]object{
		"INIT_OTP":                    with(object{"otpType": "OTP_TYPE_EMAIL", "contact": mailbox, "emailCustomization": named}),
		"INIT_OTP_V2":                 with(object{"otpType": "OTP_TYPE_EMAIL", "contact": mailbox, "appName": "Your bank", "emailCustomization": custom}),
		"INIT_OTP_V3":                 with(object{"otpType": "OTP_TYPE_EMAIL", "contact": mailbox, "appName": "Your bank", "emailCustomization": custom}),
		"INIT_OTP_AUTH":               with(object{"otpType": "OTP_TYPE_EMAIL", "contact": mailbox, "emailCustomization": named}),
		"INIT_OTP_AUTH_V2":            with(object{"otpType": "OTP_TYPE_EMAIL", "contact": mailbox, "emailCustomization": named}),
		"INIT_OTP_AUTH_V3":            with(object{"otpType": "OTP_TYPE_EMAIL", "contact": mailbox, "appName": "Your bank", "emailCustomization": custom}),
		"EMAIL_AUTH_V2":               with(object{"email": mailbox, "targetPublicKey": to, "emailCustomization": named}),
		"EMAIL_AUTH_V3":               with(object{"email": mailbox, "targetPublicKey": to, "emailCustomization": named}),
		"INIT_USER_EMAIL_RECOVERY":    with(object{"email": mailbox, "targetPublicKey": to, "emailCustomization": named}),
		"INIT_USER_EMAIL_RECOVERY_V2": with(object{"email": mailbox, "targetPublicKey": to, "emailCustomization": named}),
	} {
		s.Run(typ, in)
		m := mailOf(s)
		if all := m.Subject + m.Text + m.HTML + m.From + m.Name + m.ReplyTo; strings.Contains(all, "bank") || strings.Contains(all, "evil") || !strings.Contains(m.Text, "Top") || m.From != w.Capabilities.Sender.Address {
			t.Errorf("%s: %+v", typ, m)
		}
		s.Now += 10 * org.PasscodeWindowMs
	}
	s.Run("INIT_OTP_V3", object{"otpType": "OTP_TYPE_SMS", "contact": "+15551234567", "appName": "Your bank", "smsCustomization": object{"template": "Call +1900 with {{ .OtpCode }}"}})
	if text := textOf(s); strings.Contains(text.Body, "1900") || strings.Contains(text.Body, "bank") || !strings.Contains(text.Body, "Top") {
		t.Errorf("%+v", text)
	}
	// Who is above says what he likes, and so does an organization of the top level.
	s.User = w.User
	s.Run("EMAIL_AUTH_V3", with(object{"email": mailbox, "targetPublicKey": to, "emailCustomization": named}))
	if m := mailOf(s); !strings.Contains(m.Text, "Your bank") || !strings.Contains(m.Text, "evil.example") || m.From != "bank@allowed.example" {
		t.Errorf("%+v", m)
	}
}
