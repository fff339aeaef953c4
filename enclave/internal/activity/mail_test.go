package activity_test

import (
	"regexp"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/fault"
)

var bundled = regexp.MustCompile(`(?m)^    ([1-9A-HJ-NP-Za-km-z]{50,})$`)

// mailed is the encrypted key in the mail of the last run.
func (w *world) mailed() string {
	w.t.Helper()
	m := bundled.FindStringSubmatch(w.mail().Text)
	if m == nil {
		w.t.Fatalf("no bundle in %q", w.mail().Text)
	}
	return m[1]
}

func TestEmailAuth(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": mailbox})
	private, to := w.keyPair()
	custom := object{"appName": "App", "magicLinkTemplate": "https://app.example/?b=%s"}
	for typ, in := range map[string]object{
		"EMAIL_AUTH":    {"email": mailbox, "targetPublicKey": to},
		"EMAIL_AUTH_V2": {"email": mailbox, "targetPublicKey": to, "emailCustomization": object{"logoUrl": "https://app.example/l.png"}},
		"EMAIL_AUTH_V3": {"email": strings.ToUpper(mailbox), "targetPublicKey": to, "emailCustomization": custom},
	} {
		r := s.run(typ, in)
		k := keyOf(s, s.root, w.publicOf(private, s.mailed()))
		if k == nil || k.ID.String() != r["apiKeyId"] || k.Type != "CREDENTIAL_TYPE_EMAIL_AUTH_KEY_P256" || k.ExpirationSeconds != 900 || !strings.HasPrefix(k.Name, "Email Auth - ") {
			t.Errorf("%s: %+v", typ, k)
		}
		if s.last.Sends[0].ExpiresMs != s.now+900_000 {
			t.Errorf("%s: sent until %d", typ, s.last.Sends[0].ExpiresMs)
		}
		if typ == "EMAIL_AUTH_V3" && !strings.Contains(s.mail().Text, "https://app.example/?b="+s.mailed()) {
			t.Errorf("no link in %q", s.mail().Text)
		}
	}
	in := object{"email": mailbox, "targetPublicKey": to, "emailCustomization": custom, "apiKeyName": "Mine", "expirationSeconds": "60", "invalidateExisting": true}
	s.run("EMAIL_AUTH_V3", in)
	if k := keyOf(s, s.root, w.publicOf(private, s.mailed())); k.Name != "Mine" || k.ExpirationSeconds != 60 {
		t.Errorf("%+v", k)
	}
	if n := len(userOf(s, s.root).APIKeys); n != 2 {
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
		s.refused("EMAIL_AUTH_V3", c.params, c.code, c.says)
	}
	s.outside = activity.Outside{}
	s.refused("EMAIL_AUTH_V3", in, 9, "sends no mail")
	s.outside = w.outside
	s.run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_EMAIL_AUTH"})
	s.refused("EMAIL_AUTH_V3", in, 9, "FEATURE_NAME_EMAIL_AUTH is not enabled")
	w.refused("EMAIL_AUTH_V3", in, 9, "FEATURE_NAME_EMAIL_AUTH is not enabled") // nor where nobody has turned it on
}

func TestRecovery(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": mailbox})
	private, to := w.keyPair()
	custom := object{"appName": "App"}
	in := object{"email": mailbox, "targetPublicKey": to, "emailCustomization": custom}
	passkey := passkeyOf(s, "new")
	s.refused("RECOVER_USER", object{"userId": s.root, "authenticator": passkey}, 3, "by the key that was mailed")
	s.run("INIT_USER_EMAIL_RECOVERY", object{"email": mailbox, "targetPublicKey": to})
	s.run("INIT_USER_EMAIL_RECOVERY_V2", in)
	if m := s.mail(); m.Subject != "Recover your account at App" {
		t.Errorf("%+v", m)
	}
	k := keyOf(s, s.root, w.publicOf(private, s.mailed()))
	if k == nil || k.Type != auth.TypeRecovery || k.ExpirationSeconds != 900 {
		t.Fatalf("%+v", k)
	}
	if n := len(userOf(s, s.root).APIKeys); n != 2 { // the newest ends the others
		t.Errorf("%d keys", n)
	}
	cred := activity.APIKeyCredential(k)
	s.stamped = &cred
	s.run("RECOVER_USER", object{"userId": s.root, "authenticator": passkey})
	if u := userOf(s, s.root); len(u.Authenticators) != 1 || len(u.APIKeys) != 1 || keyOf(s, s.root, k.PublicKey) != nil {
		t.Errorf("%+v", u)
	}
	s.stamped = nil
	s.run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY"})
	s.refused("INIT_USER_EMAIL_RECOVERY_V2", in, 9, "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY is not enabled")
	s.run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_EMAIL_RECOVERY"})
	s.refused("INIT_USER_EMAIL_RECOVERY_V2", in, 9, "FEATURE_NAME_EMAIL_RECOVERY is not enabled")
}
