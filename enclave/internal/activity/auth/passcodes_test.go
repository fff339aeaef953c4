package auth_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
)

const (
	mailbox = "someone@example.org"
	phone   = "+15551234567"
)

// mailWorld is a world that can send, in which codes let people in.
func mailWorld(t testing.TB) *world {
	w := activitytest.New(t)
	w.Capabilities = activity.Capabilities{Mail: true, Text: true, Sender: login.Sender{Address: "codes@cloister.example", Name: "Codes"}, Domains: []string{"allowed.example"}}
	enable(w, "FEATURE_NAME_OTP_EMAIL_AUTH")
	enable(w, "FEATURE_NAME_SMS_AUTH")
	return w
}

func enable(w *world, name string) {
	w.Run("SET_ORGANIZATION_FEATURE", object{"name": name, "value": ""})
}

func byMail() object {
	return object{"otpType": "OTP_TYPE_EMAIL", "contact": mailbox, "appName": "App"}
}
func byText() object { return object{"otpType": "OTP_TYPE_SMS", "contact": phone, "appName": "App"} }

func varied(o object, more ...any) object {
	c := object{}
	for k, v := range o {
		c[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		if more[i+1] == nil {
			delete(c, more[i].(string))
		} else {
			c[more[i].(string)] = more[i+1]
		}
	}
	return c
}

// mailOf is the one mail of the last run.
func mailOf(w *world) *org.Mail {
	w.TB.Helper()
	if len(w.Last.Sends) != 1 || w.Last.Sends[0].Kind != org.SendMail {
		w.TB.Fatalf("sends %v", w.Last.Sends)
	}
	m, err := org.DecodeMail(w.Last.Sends[0].Content)
	w.Must(err)
	return m
}

func textOf(w *world) *org.Text {
	w.TB.Helper()
	if len(w.Last.Sends) != 1 || w.Last.Sends[0].Kind != org.SendText {
		w.TB.Fatalf("sends %v", w.Last.Sends)
	}
	m, err := org.DecodeText(w.Last.Sends[0].Content)
	w.Must(err)
	return m
}

var codes = regexp.MustCompile(`(?m)^    ([0-9A-Z]{6,9})$`)

// codeOf is the one that a mail brings.
func codeOf(w *world) string {
	w.TB.Helper()
	m := codes.FindStringSubmatch(mailOf(w).Text)
	if m == nil {
		w.TB.Fatalf("no code in %q", mailOf(w).Text)
	}
	return m[1]
}

// passcode has a code sent in the way of version 2, and answers its id and the code.
func passcode(w *world, options object) (id, code string) {
	w.TB.Helper()
	id = w.Run("INIT_OTP_V2", options)["otpId"].(string)
	if options["otpType"] == "OTP_TYPE_SMS" {
		words := strings.Fields(textOf(w).Body)
		return id, words[len(words)-1]
	}
	return id, codeOf(w)
}

func wrong(code string) string {
	if code[0] == '2' {
		return "3" + code[1:]
	}
	return "2" + code[1:]
}

func TestPasscodesAreSent(t *testing.T) {
	w := mailWorld(t)
	custom := object{"logoUrl": "https://app.example/l.png", "magicLinkTemplate": "https://app.example/#%s", "templateVariables": `{"a":"b"}`}
	for i, c := range []struct {
		typ, code string
		options   object
	}{
		{"INIT_OTP", `[0-9A-HJKMNP-TV-Z]{9}`, varied(byMail(), "appName", nil)},
		{"INIT_OTP_V2", `[0-9]{6}`, varied(byMail(), "otpLength", 6, "alphanumeric", false)},
		{"INIT_OTP_V3", `[0-9A-HJKMNP-TV-Z]{7}`, varied(byMail(), "otpLength", 7, "emailCustomization", custom)},
		{"INIT_OTP", `[0-9A-HJKMNP-TV-Z]{9}`, varied(byMail(), "appName", nil, "emailCustomization", varied(custom, "appName", "App"))},
		{"INIT_OTP_AUTH", `[0-9A-HJKMNP-TV-Z]{9}`, varied(byMail(), "appName", nil)},
		{"INIT_OTP_AUTH_V2", `[0-9]{8}`, varied(byMail(), "appName", nil, "otpLength", 8, "alphanumeric", false)},
		{"INIT_OTP_AUTH_V3", `[0-9A-HJKMNP-TV-Z]{9}`, byMail()},
	} {
		options := varied(c.options, "contact", fmt.Sprintf("s%d@example.org", i))
		r := w.Run(c.typ, options)
		m := mailOf(w)
		if !regexp.MustCompile(`\n    ` + c.code + `\n`).MatchString(m.Text) {
			t.Errorf("%s: %q", c.typ, m.Text)
		}
		if m.To != options["contact"] || m.From != "codes@cloister.example" || !strings.HasPrefix(m.Subject, "Sign in to ") || w.Last.Sends[0].ExpiresMs != w.Now+300_000 {
			t.Errorf("%s: %+v", c.typ, m)
		}
		if _, bundled := r["otpEncryptionTargetBundle"]; bundled != (c.typ == "INIT_OTP_V3") {
			t.Errorf("%s: %v", c.typ, r)
		}
	}
	w.Run("INIT_OTP_V2", varied(byMail(), "contact", "other@example.org", "sendFromEmailAddress", "us@allowed.example", "sendFromEmailSenderName", "Us", "expirationSeconds", "600"))
	if m := mailOf(w); m.From != "us@allowed.example" || m.Name != "Us" || w.Last.Sends[0].ExpiresMs != w.Now+600_000 {
		t.Errorf("%+v", m)
	}
	w.Run("INIT_OTP_V2", varied(byMail(), "contact", "more@example.org", "sendFromEmailAddress", "us@elsewhere.example"))
	if m := mailOf(w); m.From != "codes@cloister.example" {
		t.Errorf("%+v", m)
	}
	w.Run("INIT_OTP_V2", varied(byText(), "smsCustomization", object{"template": "App: {{ .OtpCode }}"}))
	if m := textOf(w); m.To != phone || !strings.HasPrefix(m.Body, "App: ") {
		t.Errorf("%+v", m)
	}
}

func TestPasscodesRefused(t *testing.T) {
	w := mailWorld(t)
	for _, c := range []struct {
		params object
		code   fault.Code
		says   string
	}{
		{varied(byMail(), "otpType", "EMAIL"), 3, "otpType"},
		{varied(byMail(), "otpType", nil), 3, "otpType"},
		{varied(byMail(), "contact", ""), 3, "contact"},
		{varied(byMail(), "contact", "nobody"), 3, ""},
		{varied(byMail(), "contact", phone), 3, ""},
		{varied(byMail(), "contact", "a@b"), 3, ""},
		{varied(byText(), "contact", mailbox), 3, ""},
		{varied(byText(), "contact", "0555"), 3, ""},
		{varied(byMail(), "appName", nil), 3, "appName"},
		{varied(byMail(), "otpLength", 5), 3, "otpLength"},
		{varied(byMail(), "otpLength", 10), 3, "otpLength"},
		{varied(byMail(), "expirationSeconds", "601"), 3, "1 to 600"},
		{varied(byMail(), "expirationSeconds", "0"), 3, "1 to 600"},
		{varied(byMail(), "expirationSeconds", "-1"), 3, "1 to 600"},
		{varied(byMail(), "expirationSeconds", "x"), 3, "expiration"},
		{varied(byMail(), "emailCustomization", object{"appName": "A"}), 3, "unknown field"},
		{varied(byMail(), "emailCustomization", object{"templateId": "t"}), 3, "no such template"},
		{varied(byMail(), "emailCustomization", object{"logoUrl": "http://x.example/"}), 3, "https"},
		{varied(byMail(), "emailCustomization", object{"magicLinkTemplate": "https://x.example/"}), 3, "invalid magic link template"},
		{varied(byMail(), "emailCustomization", object{"magicLinkTemplate": "javascript:%s"}), 3, "invalid magic link template"},
		{varied(byMail(), "emailCustomization", object{"templateVariables": "[]"}), 3, "template variables"},
		{varied(byText(), "smsCustomization", object{"template": "{{ .Code }}"}), 3, "template"},
		{varied(byText(), "smsCustomization", object{"template": "no code"}), 3, "OtpCode"},
		{varied(byMail(), "userIdentifier", strings.Repeat("x", 1025)), 3, "at most 1024 bytes"},
		{varied(byMail(), "sendFromEmailAddress", "x"), 3, "sendFromEmailAddress"},
	} {
		w.Refuse("INIT_OTP_V3", c.params, c.code, c.says)
	}
	w.Run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_OTP_EMAIL_AUTH"})
	w.Refuse("INIT_OTP_V3", byMail(), 9, "FEATURE_NAME_OTP_EMAIL_AUTH is not enabled")
	w.Run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_SMS_AUTH"})
	w.Refuse("INIT_OTP_V3", byText(), 9, "FEATURE_NAME_SMS_AUTH is not enabled")
	enable(w, "FEATURE_NAME_OTP_EMAIL_AUTH")
	enable(w, "FEATURE_NAME_SMS_AUTH")
	w.Capabilities = activity.Capabilities{}
	w.Refuse("INIT_OTP_V3", byMail(), 9, "sends no mail")
	w.Refuse("INIT_OTP_V3", byText(), 9, "sends no text messages")
	w.Capabilities.Mail, w.Capabilities.Text = true, true
	w.Refuse("INIT_OTP_V3", varied(byText(), "otpType", "OTP_TYPE_WHATSAPP"), 9, "OTP_TYPE_WHATSAPP is not enabled")
	w.Capabilities.WhatsApp = true
	w.Refuse("INIT_OTP_V3", varied(byText(), "otpType", "OTP_TYPE_WHATSAPP", "contact", "someone@example.org"), 3, "invalid phone number")
	w.Run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_SMS_AUTH"})
	w.Refuse("INIT_OTP_V3", varied(byText(), "otpType", "OTP_TYPE_WHATSAPP"), 9, "FEATURE_NAME_SMS_AUTH is not enabled")
}

// A telephone number is one contact: codes by SMS and by WhatsApp count together.
func TestPasscodesByWhatsAppCountWithTextMessages(t *testing.T) {
	w := mailWorld(t)
	w.Capabilities.WhatsApp = true
	both := []object{byText(), varied(byText(), "otpType", "OTP_TYPE_WHATSAPP")}
	for i := range 3 {
		w.Run("INIT_OTP_V2", both[i%2])
		w.Now++
	}
	for _, in := range both {
		w.Refuse("INIT_OTP_V2", in, 3, "Max number of OTPs have been initiated")
	}
}

// The same contact, or the same identifier whatever the contact, gets three codes in
// three minutes; and of a contact three can be tried.
func TestPasscodesAreCounted(t *testing.T) {
	w := mailWorld(t)
	var ids, sent []string
	for range 3 {
		id, code := passcode(w, varied(byMail(), "contact", "Someone@Example.org", "expirationSeconds", "600"))
		ids, sent = append(ids, id), append(sent, code)
		w.Now++
	}
	w.Refuse("INIT_OTP_V2", byMail(), 3, "Max number of OTPs have been initiated")
	passcode(w, varied(byMail(), "contact", "other@example.org"))
	w.Now += 180_000
	passcode(w, byMail()) // the fourth that could be tried ends the first
	w.Refuse("VERIFY_OTP", object{"otpId": ids[0], "otpCode": sent[0]}, 3, "Invalid OTP code")
	w.Run("VERIFY_OTP", object{"otpId": ids[1], "otpCode": sent[1]})
	for i := range 3 {
		passcode(w, varied(byMail(), "contact", fmt.Sprintf("x%d@example.org", i), "userIdentifier", "10.0.0.1"))
	}
	w.Refuse("INIT_OTP_V2", varied(byMail(), "contact", "x4@example.org", "userIdentifier", "10.0.0.1"), 3, "Max number of OTPs have been initiated")
	passcode(w, varied(byMail(), "contact", "x4@example.org", "userIdentifier", "10.0.0.2"))
	w.Now += 600_000
	for i := range 4 { // what is long over is swept
		passcode(w, varied(byMail(), "contact", fmt.Sprintf("y%d@example.org", i)))
		w.Now += 600_000
	}
	for _, text := range ids {
		id, err := org.ParseID(text)
		w.Must(err)
		if p, err := w.Tx().Passcode(id); p != nil || err != nil {
			t.Errorf("%s is still there: %v", text, err)
		}
	}
}

func TestVerifyOTP(t *testing.T) {
	w := mailWorld(t)
	tokens := login.TokenKeys{Token: w.Tokens.Token.Public(), Legacy: w.Tokens.Legacy.Public()}
	id, code := passcode(w, byMail())
	key := w.FreshP256()
	r := w.Run("VERIFY_OTP", object{"otpId": id, "otpCode": " " + strings.ToLower(code) + " ", "publicKey": key, "expirationSeconds": "60"})
	read, err := login.ReadVerificationToken("t", r["verificationToken"].(string), tokens, w.Now)
	w.Must(err)
	tok, err := read.ByStamp(key)
	w.Must(err)
	if !tok.Legacy || tok.Contact != mailbox || tok.OrganizationID != w.ID.String() || tok.PublicKey != key || tok.ExpiresMs > w.Now+60_000 || tok.Type != login.Email {
		t.Errorf("%+v", tok)
	}
	w.Refuse("VERIFY_OTP", object{"otpId": id, "otpCode": code}, 3, "Invalid OTP code") // once
	for _, c := range []struct {
		params object
		says   string
	}{
		{object{"otpId": w.NewID().String(), "otpCode": "123456"}, "Invalid OTP code"},
		{object{"otpId": "x", "otpCode": "123456"}, "Invalid OTP code"},
		{object{"otpCode": "123456"}, "otpId"},
		{object{"otpId": id}, "otpCode"},
		{object{"otpId": id, "otpCode": "123456", "publicKey": "00"}, "invalid public key"},
		{object{"otpId": id, "otpCode": "123456", "expirationSeconds": "86401"}, "1 to 86400"},
	} {
		w.Refuse("VERIFY_OTP", c.params, 3, c.says)
	}
}

// Three wrong tries end a code, and nothing gives them back.
func TestTriesAreCounted(t *testing.T) {
	for _, right := range []int{1, 2, 3, 4} {
		w := mailWorld(t)
		id, code := passcode(w, byMail())
		for i := 1; i < right; i++ {
			if _, err := w.Try("VERIFY_OTP", object{"otpId": id, "otpCode": wrong(code)}); fault.Of(err) == nil || fault.Of(err).Message != "Invalid OTP code" {
				t.Fatalf("a wrong code: %v", err)
			}
		}
		_, err := w.Try("VERIFY_OTP", object{"otpId": id, "otpCode": code})
		if (err == nil) != (right <= 3) {
			t.Errorf("right at the %dth: %v", right, err)
		}
	}
	for name, later := range map[string]func(*world){
		"expired": func(w *world) { w.Now += 300_000 }, "a restart": func(w *world) { w.Boot = w.NewID() },
	} {
		w := mailWorld(t)
		id, code := passcode(w, byMail())
		later(w)
		if _, err := w.Try("VERIFY_OTP", object{"otpId": id, "otpCode": code}); fault.Of(err) == nil || fault.Of(err).Message != "Invalid OTP code" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// client is somebody's key pair.
type client struct {
	key    *ecdsa.PrivateKey
	public string
}

func newClient(w *world) *client {
	k, err := ecdsa.GenerateKey(elliptic.P256(), w.Rand)
	w.Must(err)
	return &client{k, hex.EncodeToString(elliptic.MarshalCompressed(elliptic.P256(), k.X, k.Y))}
}

// signs is a client signature over a message.
func signs(w *world, c *client, message any) object {
	m := activitytest.JSON(message)
	sum := sha256.Sum256(m)
	r, s, err := ecdsa.Sign(w.Rand, c.key, sum[:])
	w.Must(err)
	raw := make([]byte, 64)
	r.FillBytes(raw[:32])
	s.FillBytes(raw[32:])
	return object{"publicKey": c.public, "scheme": "CLIENT_SIGNATURE_SCHEME_API_P256", "message": string(m), "signature": hex.EncodeToString(raw)}
}

// encrypted is an attempt to the target in a bundle.
func encrypted(w *world, targetBundle, code, public string) string {
	w.TB.Helper()
	var outer struct{ Data, EnclaveQuorumPublic string }
	var inner struct{ TargetPublic string }
	w.Must(json.Unmarshal([]byte(targetBundle), &outer))
	if outer.EnclaveQuorumPublic != w.Tokens.Targets.PublicKey() {
		w.TB.Errorf("signed by %s", outer.EnclaveQuorumPublic)
	}
	data, err := hex.DecodeString(outer.Data)
	w.Must(err)
	w.Must(json.Unmarshal(data, &inner))
	return w.SealTo(inner.TargetPublic, string(activitytest.JSON(object{"otp_code": code, "public_key": public})))
}

// tokenFor gives a verification token about a contact, bound to c, in the encrypted
// way.
func tokenFor(w *world, options object, c *client) (text, id string) {
	w.TB.Helper()
	r := w.Run("INIT_OTP_V3", options)
	var code string
	if options["otpType"] == "OTP_TYPE_SMS" {
		words := strings.Fields(textOf(w).Body)
		code = words[len(words)-1]
	} else {
		code = codeOf(w)
	}
	v := w.Run("VERIFY_OTP_V2", object{"otpId": r["otpId"], "encryptedOtpBundle": encrypted(w, r["otpEncryptionTargetBundle"].(string), code, c.public)})
	text = v["verificationToken"].(string)
	read, err := login.ReadVerificationToken("t", text, login.TokenKeys{Token: w.Tokens.Token.Public(), Legacy: w.Tokens.Legacy.Public()}, w.Now)
	w.Must(err)
	tok, err := read.ByStamp(c.public)
	w.Must(err)
	if tok.Legacy || tok.PublicKey != c.public {
		w.TB.Fatalf("%+v", tok)
	}
	return text, tok.ID
}

func TestVerifyEncryptedOTP(t *testing.T) {
	w := mailWorld(t)
	c := newClient(w)
	tokenFor(w, byMail(), c)
	r := w.Run("INIT_OTP_V3", varied(byMail(), "contact", "b@example.org"))
	code, target := codeOf(w), r["otpEncryptionTargetBundle"].(string)
	other := w.Run("INIT_OTP_V3", varied(byMail(), "contact", "c@example.org"))
	in := func(sealed string) object { return object{"otpId": r["otpId"], "encryptedOtpBundle": sealed} }
	for _, x := range []struct {
		typ    string
		params object
		says   string
	}{
		{"VERIFY_OTP", object{"otpId": r["otpId"], "otpCode": code}, "Invalid OTP code"}, // the ways are not mixed; a try
		{"VERIFY_OTP_V2", in(encrypted(w, other["otpEncryptionTargetBundle"].(string), code, c.public)), "Invalid OTP code"},
	} {
		if _, err := w.Try(x.typ, x.params); fault.Of(err) == nil || fault.Of(err).Message != x.says {
			t.Errorf("%s: %v", x.typ, err)
		}
	}
	w.Run("VERIFY_OTP_V2", in(encrypted(w, target, code, c.public)))
	w.Refuse("VERIFY_OTP_V2", in(encrypted(w, target, code, c.public)), 3, "Invalid OTP code")
	w.Refuse("VERIFY_OTP_V2", in("{}"), 3, "Invalid OTP code")
	plain, code := passcode(w, varied(byMail(), "contact", "d@example.org"))
	if _, err := w.Try("VERIFY_OTP_V2", object{"otpId": plain, "encryptedOtpBundle": encrypted(w, target, code, c.public)}); fault.Of(err) == nil {
		t.Errorf("a plain passcode is verified encrypted: %v", err)
	}
}

// mailSub is a sub-organization whose one user has the mailbox.
func mailSub(w *world, contact object) *world {
	u := activitytest.RootUser("U", activitytest.APIKey("a", w.FreshKey()))
	for k, v := range contact {
		u[k] = v
	}
	return w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V7", activitytest.SubOrganization("Sub", 1, u))["subOrganizationId"])
}

func loginMessage(session, token string) object {
	return object{"login": object{"publicKey": session}, "tokenId": token, "type": "USAGE_TYPE_LOGIN"}
}

func TestOTPLogin(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": "Someone@example.org"})
	c, session := newClient(w), w.FreshP256()
	tok, id := tokenFor(w, byMail(), c)
	in := object{"verificationToken": tok, "publicKey": session, "clientSignature": signs(w, c, loginMessage(session, id)), "expirationSeconds": "77"}
	unrelated, another := newClient(w), w.FreshP256()
	for says, bad := range map[string]object{
		"another publicKey":           varied(in, "publicKey", another),
		"invalid client signature":    varied(in, "clientSignature", signs(w, unrelated, loginMessage(session, id))),
		"not about a login":           varied(in, "clientSignature", signs(w, c, object{"signupV2": object{}, "tokenId": id, "type": "USAGE_TYPE_SIGNUP"})),
		"invalid verification token":  varied(in, "verificationToken", tok[:len(tok)-4]+"AAAA"),
		"missing field `clientSignat": varied(in, "clientSignature", nil),
		"invalid public key":          varied(in, "publicKey", "00"),
		"session profile":             varied(in, "sessionProfileId", w.NewID().String()),
	} {
		if says == "session profile" {
			s.Refuse("OTP_LOGIN_V2", bad, 5, says)
			continue
		}
		s.Refuse("OTP_LOGIN_V2", bad, 3, says)
	}
	s.Refuse("OTP_LOGIN", varied(in, "clientSignature", nil), 3, "is bound to a key")
	got, err := login.VerifySession(s.Run("OTP_LOGIN_V2", in)["session"].(string), w.Sessions.Public(), w.Now)
	w.Must(err)
	if got.OrganizationID != s.ID.String() || got.UserID != s.Root || got.PublicKey != session || got.ExpiresMs != w.Now+77_000 {
		t.Errorf("%+v", got)
	}
	if u := s.UserOf(s.Root); !u.EmailVerified {
		t.Error("the contact is not verified")
	}
	again := w.FreshP256()
	s.Refuse("OTP_LOGIN_V2", varied(in, "publicKey", again, "clientSignature", signs(w, c, loginMessage(again, id))), 3, "invalid verification token") // once

	// By telephone, in clear, and by somebody who is not there, or twice.
	phoned := mailSub(w, object{"userPhoneNumber": phone, "userName": "P"})
	otp, code := passcode(w, byText())
	legacy := w.Run("VERIFY_OTP", object{"otpId": otp, "otpCode": code})["verificationToken"]
	s.Refuse("OTP_LOGIN", object{"verificationToken": legacy, "publicKey": again}, 5, "not exactly one user")
	phoned.Refuse("OTP_LOGIN_V2", object{"verificationToken": legacy, "publicKey": again, "clientSignature": signs(w, c, loginMessage(again, id))}, 3, "invalid verification token")
	phoned.Run("OTP_LOGIN", object{"verificationToken": legacy, "publicKey": again})
	phoned.Refuse("OTP_LOGIN", object{"verificationToken": legacy, "publicKey": w.FreshP256()}, 3, "invalid verification token")

	// A token of a sub-organization is good there only; a restart ends tokens; so does time.
	s.Capabilities = w.Capabilities
	s.Now = w.Now
	own, ownID := tokenFor(s, varied(byMail(), "contact", "someone@example.org"), c)
	sign := func(id string) object {
		return object{"publicKey": another, "clientSignature": signs(w, c, loginMessage(another, id))}
	}
	w.Refuse("OTP_LOGIN_V2", varied(sign(ownID), "verificationToken", own), 3, "invalid verification token")
	phoned.Refuse("OTP_LOGIN_V2", varied(sign(ownID), "verificationToken", own), 3, "invalid verification token")
	boot := s.Boot
	s.Boot = w.NewID()
	s.Refuse("OTP_LOGIN_V2", varied(sign(ownID), "verificationToken", own), 3, "expired")
	s.Boot, s.Now = boot, s.Now+3_600_000
	s.Refuse("OTP_LOGIN_V2", varied(sign(ownID), "verificationToken", own), 3, "expired")
	s.Now -= 3_600_000
	s.Run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_OTP_EMAIL_AUTH"})
	s.Refuse("OTP_LOGIN_V2", varied(sign(ownID), "verificationToken", own), 9, "FEATURE_NAME_OTP_EMAIL_AUTH is not enabled")
}

// A bare signature, as version 1 takes it, is of the session's key over the token.
func TestBareSignature(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": "someone@example.org"})
	c, unrelated := newClient(w), newClient(w)
	tok, id := tokenFor(w, byMail(), c)
	bare := func(c *client, token string) object {
		sum := sha256.Sum256([]byte(token))
		der, err := ecdsa.SignASN1(w.Rand, c.key, sum[:])
		w.Must(err)
		return object{"publicKey": c.public, "scheme": "CLIENT_SIGNATURE_SCHEME_API_P256", "message": token, "signature": hex.EncodeToString(der)}
	}
	in := object{"verificationToken": tok, "publicKey": c.public, "clientSignature": bare(c, tok)}
	for says, bad := range map[string]object{
		"must be of the session's key": varied(in, "publicKey", w.FreshP256()),
		"invalid client signature: pu": varied(in, "publicKey", unrelated.public, "clientSignature", bare(unrelated, tok)),
		"does not verify":              varied(in, "clientSignature", varied(bare(unrelated, tok), "publicKey", c.public)),
		"message is malformed":         varied(in, "clientSignature", bare(c, tok+"x")),
	} {
		s.Refuse("OTP_LOGIN", bad, 3, says)
	}
	s.Refuse("OTP_LOGIN_V2", in, 3, "message is malformed")
	s.Refuse("OTP_LOGIN", varied(in, "clientSignature", signs(w, c, loginMessage(w.FreshP256(), id))), 3, "another publicKey")
	s.Run("OTP_LOGIN", in)
	s.Refuse("OTP_LOGIN", in, 3, "invalid verification token") // once
}

func TestSignupWithToken(t *testing.T) {
	w := mailWorld(t)
	c := newClient(w)
	key := activitytest.APIKey("a", w.FreshKey())
	u := varied(activitytest.RootUser("U", key), "userEmail", mailbox)
	tok, id := tokenFor(w, byMail(), c)
	says := object{"apiKeys": []any{key}, "authenticators": []any{}, "email": mailbox}
	message := object{"signupV2": says, "tokenId": id, "type": "USAGE_TYPE_SIGNUP"}
	in := varied(activitytest.SubOrganization("Sub", 1, u), "verificationToken", tok, "clientSignature", signs(w, c, message))
	for why, bad := range map[string]object{
		"must be given with":        varied(in, "clientSignature", nil),
		"there is none":             varied(in, "verificationToken", nil),
		"about another contact":     varied(in, "rootUsers", []any{varied(u, "userEmail", "b@example.org")}),
		"other apiKeys":             varied(in, "rootUsers", []any{varied(u, "apiKeys", []any{activitytest.APIKey("b", w.FreshKey())})}),
		"in the form of signupV2":   varied(in, "clientSignature", signs(w, c, object{"signup": says, "tokenId": id, "type": "USAGE_TYPE_SIGNUP"})),
		"invalid client signature":  varied(in, "clientSignature", signs(w, newClient(w), message)),
		"invalid verification toke": varied(in, "verificationToken", "a.b.c"),
	} {
		w.Refuse("CREATE_SUB_ORGANIZATION_V8", bad, 3, why)
	}
	s := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", in)["subOrganizationId"])
	if u := s.UserOf(s.Root); !u.EmailVerified {
		t.Error("the contact is not verified")
	}
	// Once for a sign-up, and then once for a log-in.
	other := varied(activitytest.SubOrganization("Other", 1, varied(u, "apiKeys", []any{})), "verificationToken", tok)
	other["clientSignature"] = signs(w, c, object{"signupV2": object{"email": mailbox}, "tokenId": id, "type": "USAGE_TYPE_SIGNUP"})
	w.Refuse("CREATE_SUB_ORGANIZATION_V8", other, 3, "invalid verification token")
	session := w.FreshP256()
	s.Run("OTP_LOGIN_V2", object{"verificationToken": tok, "publicKey": session, "clientSignature": signs(w, c, loginMessage(session, id))})
	// The contact is taken.
	tok, id = tokenFor(w, byMail(), c)
	other["verificationToken"] = tok
	other["clientSignature"] = signs(w, c, object{"signupV2": object{"email": mailbox}, "tokenId": id, "type": "USAGE_TYPE_SIGNUP"})
	w.Refuse("CREATE_SUB_ORGANIZATION_V8", other, 6, "exists already")
	// Version 7 takes legacy tokens, which need no signature.
	otp, code := passcode(w, byText())
	legacy := w.Run("VERIFY_OTP", object{"otpId": otp, "otpCode": code})["verificationToken"]
	p := varied(activitytest.RootUser("P"), "userPhoneNumber", phone)
	w.Refuse("CREATE_SUB_ORGANIZATION_V8", varied(activitytest.SubOrganization("P", 1, p), "verificationToken", legacy, "clientSignature", signs(w, c, message)), 3, "invalid verification token")
	s = w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V7", varied(activitytest.SubOrganization("P", 1, p), "verificationToken", legacy))["subOrganizationId"])
	if u := s.UserOf(s.Root); !u.PhoneVerified {
		t.Error("the number is not verified")
	}
}

// apiKeyOf is the credential of a stamp by a client's key.
func apiKeyOf(c *client) *org.VoteCredential {
	return &org.VoteCredential{Type: "CREDENTIAL_TYPE_API_KEY_P256", PublicKey: c.public}
}

func TestContactsAreVerifiedByToken(t *testing.T) {
	w := mailWorld(t)
	c := newClient(w)
	w.Stamped = apiKeyOf(c)
	tok, _ := tokenFor(w, byMail(), c)
	w.Refuse("UPDATE_USER_EMAIL", object{"userId": w.Root, "userEmail": "b@example.org", "verificationToken": tok}, 3, "about another contact")
	w.Refuse("UPDATE_USER_PHONE_NUMBER", object{"userId": w.Root, "userPhoneNumber": phone, "verificationToken": tok}, 3, "about another contact")
	w.Refuse("UPDATE_USER_EMAIL", object{"userId": w.Root, "userEmail": "", "verificationToken": tok}, 3, "about another contact")
	w.Run("UPDATE_USER_EMAIL", object{"userId": w.Root, "userEmail": mailbox, "verificationToken": tok})
	if u := w.UserOf(w.Root); !u.EmailVerified || u.Email != mailbox {
		t.Errorf("%+v", u)
	}
	w.Refuse("UPDATE_USER_EMAIL", object{"userId": w.Root, "userEmail": mailbox, "verificationToken": tok}, 3, "invalid verification token")
}

// A token that is bound to a key verifies a contact only in a request that this key
// has stamped; one that is bound to none is good for whoever has it.
func TestBoundTokensVerifyByTheirKeyAlone(t *testing.T) {
	w := mailWorld(t)
	for _, x := range []struct {
		typ     string
		options object
		in      object
	}{
		{"UPDATE_USER_EMAIL", byMail(), object{"userId": w.Root, "userEmail": mailbox}},
		{"UPDATE_USER_PHONE_NUMBER", byText(), object{"userId": w.Root, "userPhoneNumber": phone}},
	} {
		c := newClient(w)
		tok, _ := tokenFor(w, x.options, c)
		in := varied(x.in, "verificationToken", tok)
		for name, by := range map[string]*org.VoteCredential{
			"another key":                  apiKeyOf(newClient(w)),
			"nothing":                      {},
			"the same digits on secp256k1": {Type: "CREDENTIAL_TYPE_API_KEY_SECP256K1", PublicKey: c.public},
			"a mailbox":                    {Type: "CREDENTIAL_TYPE_EMAIL"},
		} {
			w.Stamped = by
			w.Refuse(x.typ, in, 3, "bound to a key that has not stamped")
			if u := w.UserOf(w.Root); u.EmailVerified && x.typ == "UPDATE_USER_EMAIL" || u.PhoneVerified {
				t.Errorf("%s, stamped by %s: verified", x.typ, name)
			}
		}
		w.Stamped = apiKeyOf(c) // nothing of it was used up
		w.Run(x.typ, in)
	}
	w.Stamped = apiKeyOf(newClient(w))
	otp, code := passcode(w, varied(byMail(), "contact", "b@example.org"))
	w.Run("UPDATE_USER_EMAIL", object{"userId": w.Root, "userEmail": "b@example.org", "verificationToken": w.Run("VERIFY_OTP", object{"otpId": otp, "otpCode": code})["verificationToken"]})
	if u := w.UserOf(w.Root); !u.EmailVerified || !u.PhoneVerified {
		t.Errorf("%+v", u)
	}
}

// A contact that is verified in one sub-organization is verified in no other: not by a
// token, and not by a log-in, which it lets in all the same.
func TestContactsAreClaimedOnce(t *testing.T) {
	w := mailWorld(t)
	first, c := mailSub(w, object{"userEmail": mailbox}), newClient(w)
	second := mailSub(w, object{"userEmail": "b@example.org", "userName": "V"})
	verify := func(s *world, says string) {
		t.Helper()
		s.Stamped = apiKeyOf(c)
		tok, _ := tokenFor(w, byMail(), c)
		in := object{"userId": s.Root, "userEmail": strings.ToUpper(mailbox), "verificationToken": tok}
		if says == "" {
			s.Run("UPDATE_USER_EMAIL", in)
			return
		}
		s.Refuse("UPDATE_USER_EMAIL", in, 6, says)
	}
	verify(first, "")
	verify(second, "exists already")
	w.Now += org.PasscodeWindowMs
	first.Now, second.Now = w.Now, w.Now
	verify(first, "") // one's own is no obstacle
	// Without a token anybody may name any contact. Who shows to have it gets in, but
	// log-ins that name no sub-organization stay led to the first.
	second.Run("UPDATE_USER_EMAIL", object{"userId": second.Root, "userEmail": mailbox})
	session := w.FreshP256()
	tok, id := tokenFor(w, byMail(), c)
	second.Run("OTP_LOGIN_V2", object{"verificationToken": tok, "publicKey": session, "clientSignature": signs(w, c, loginMessage(session, id))})
	_, to := keyPair(w)
	w.Now += org.PasscodeWindowMs
	first.Now, second.Now, second.Capabilities = w.Now, w.Now, w.Capabilities
	second.Run("OTP_AUTH", object{"otpId": second.Run("INIT_OTP_AUTH_V3", byMail())["otpId"], "otpCode": codeOf(second), "targetPublicKey": to})
	if second.UserOf(second.Root).EmailVerified || !first.UserOf(first.Root).EmailVerified {
		t.Error("the contact is verified in the second one too")
	}
	// Given up by the first, it is free.
	first.Run("UPDATE_USER_EMAIL", object{"userId": first.Root, "userEmail": ""})
	verify(second, "")
}

// keyPair is one to which a client wants something encrypted.
func keyPair(w *world) (private secret.Secret, public string) {
	w.TB.Helper()
	private, err := bundle.NewPrivateKey(w.Rand)
	w.Must(err)
	private.Use(func(b []byte) {
		k, kerr := ecdh.P256().NewPrivateKey(b)
		w.Must(kerr)
		public = hex.EncodeToString(k.PublicKey().Bytes())
	})
	return private, public
}

// publicOf is the public half, compressed, of the key in a credential bundle.
func publicOf(w *world, private secret.Secret, text any) string {
	w.TB.Helper()
	k := openedBy(w, private, text).PublicKey().Bytes()
	return hex.EncodeToString(append([]byte{2 | k[64]&1}, k[1:33]...))
}

func TestOTPAuth(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": mailbox})
	private, to := keyPair(w)
	otp := s.Run("INIT_OTP_AUTH_V3", byMail())["otpId"]
	code := codeOf(s)
	in := object{"otpId": otp, "otpCode": code, "targetPublicKey": to}
	s.Refuse("OTP_AUTH", varied(in, "targetPublicKey", "00"), 3, "invalid public key")
	if _, err := s.Try("VERIFY_OTP", object{"otpId": otp, "otpCode": code}); fault.Of(err) == nil {
		t.Error("a code for a credential gives a token")
	}
	r := s.Run("OTP_AUTH", in)
	k := keyOf(s, s.Root, publicOf(w, private, r["credentialBundle"]))
	if k == nil || k.Type != "CREDENTIAL_TYPE_OTP_AUTH_KEY_P256" || k.ExpirationSeconds != 900 || !strings.HasPrefix(k.Name, "OTP Auth - ") {
		t.Errorf("%+v", k)
	}
	s.Refuse("OTP_AUTH", in, 3, "Invalid OTP code")
	plain, code := passcode(s, varied(byMail(), "contact", "b@example.org"))
	s.Refuse("OTP_AUTH", object{"otpId": plain, "otpCode": code, "targetPublicKey": to}, 3, "Invalid OTP code")
}

func TestSandbox(t *testing.T) {
	w := mailWorld(t)
	in := varied(byMail(), "contact", "user@example.com", "otpLength", 6, "alphanumeric", false)
	w.Run("INIT_OTP_V2", in)
	if codeOf(w) == "000000" {
		t.Error("a sandbox that nobody asked for")
	}
	w.Capabilities.Sandbox = true
	id := w.Run("INIT_OTP_V2", in)["otpId"]
	if len(w.Last.Sends) != 0 {
		t.Error("something is sent to the sandbox")
	}
	w.Run("VERIFY_OTP", object{"otpId": id, "otpCode": "000000"})
	w.Refuse("INIT_OTP_V2", varied(in, "otpLength", 7), 3, "sandbox")
	id, code := passcode(w, varied(byMail(), "otpLength", 6, "alphanumeric", false))
	if code == "000000" {
		t.Fatal("drawn by chance")
	}
	if _, err := w.Try("VERIFY_OTP", object{"otpId": id, "otpCode": "000000"}); err == nil {
		t.Error("the sandbox's code opens another contact's")
	}
}
