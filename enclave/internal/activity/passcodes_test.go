package activity_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
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
	w := newWorld(t)
	w.outside = activity.Outside{Mail: true, Text: true, Sender: login.Sender{Address: "codes@cloister.example", Name: "Codes"}, Domains: []string{"allowed.example"}}
	w.turnOn("FEATURE_NAME_OTP_EMAIL_AUTH")
	w.turnOn("FEATURE_NAME_SMS_AUTH")
	return w
}

func (w *world) turnOn(name string) {
	w.run("SET_ORGANIZATION_FEATURE", object{"name": name, "value": ""})
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

// mail is the one mail of the last run.
func (w *world) mail() *org.Mail {
	w.t.Helper()
	if len(w.last.Sends) != 1 || w.last.Sends[0].Kind != org.SendMail {
		w.t.Fatalf("sends %v", w.last.Sends)
	}
	m, err := org.DecodeMail(w.last.Sends[0].Content)
	w.must(err)
	return m
}

func (w *world) texted() *org.Text {
	w.t.Helper()
	if len(w.last.Sends) != 1 || w.last.Sends[0].Kind != org.SendText {
		w.t.Fatalf("sends %v", w.last.Sends)
	}
	m, err := org.DecodeText(w.last.Sends[0].Content)
	w.must(err)
	return m
}

var codes = regexp.MustCompile(`(?m)^    ([0-9A-Z]{6,9})$`)

// code is the one that a mail brings.
func (w *world) code() string {
	w.t.Helper()
	m := codes.FindStringSubmatch(w.mail().Text)
	if m == nil {
		w.t.Fatalf("no code in %q", w.mail().Text)
	}
	return m[1]
}

// otp has a code sent in the way of version 2, and answers its id and the code.
func (w *world) otp(wish object) (id, code string) {
	w.t.Helper()
	id = w.run("INIT_OTP_V2", wish)["otpId"].(string)
	if wish["otpType"] == "OTP_TYPE_SMS" {
		words := strings.Fields(w.texted().Body)
		return id, words[len(words)-1]
	}
	return id, w.code()
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
		wish      object
	}{
		{"INIT_OTP", `[0-9A-HJKMNP-TV-Z]{9}`, varied(byMail(), "appName", nil)},
		{"INIT_OTP_V2", `[0-9]{6}`, varied(byMail(), "otpLength", 6, "alphanumeric", false)},
		{"INIT_OTP_V3", `[0-9A-HJKMNP-TV-Z]{7}`, varied(byMail(), "otpLength", 7, "emailCustomization", custom)},
		{"INIT_OTP", `[0-9A-HJKMNP-TV-Z]{9}`, varied(byMail(), "appName", nil, "emailCustomization", varied(custom, "appName", "App"))},
		{"INIT_OTP_AUTH", `[0-9A-HJKMNP-TV-Z]{9}`, varied(byMail(), "appName", nil)},
		{"INIT_OTP_AUTH_V2", `[0-9]{8}`, varied(byMail(), "appName", nil, "otpLength", 8, "alphanumeric", false)},
		{"INIT_OTP_AUTH_V3", `[0-9A-HJKMNP-TV-Z]{9}`, byMail()},
	} {
		wish := varied(c.wish, "contact", fmt.Sprintf("s%d@example.org", i))
		r := w.run(c.typ, wish)
		m := w.mail()
		if !regexp.MustCompile(`\n    ` + c.code + `\n`).MatchString(m.Text) {
			t.Errorf("%s: %q", c.typ, m.Text)
		}
		if m.To != wish["contact"] || m.From != "codes@cloister.example" || !strings.HasPrefix(m.Subject, "Sign in to ") || w.last.Sends[0].ExpiresMs != w.now+300_000 {
			t.Errorf("%s: %+v", c.typ, m)
		}
		if _, bundled := r["otpEncryptionTargetBundle"]; bundled != (c.typ == "INIT_OTP_V3") {
			t.Errorf("%s: %v", c.typ, r)
		}
	}
	w.run("INIT_OTP_V2", varied(byMail(), "contact", "other@example.org", "sendFromEmailAddress", "us@allowed.example", "sendFromEmailSenderName", "Us", "expirationSeconds", "600"))
	if m := w.mail(); m.From != "us@allowed.example" || m.Name != "Us" || w.last.Sends[0].ExpiresMs != w.now+600_000 {
		t.Errorf("%+v", m)
	}
	w.run("INIT_OTP_V2", varied(byMail(), "contact", "more@example.org", "sendFromEmailAddress", "us@elsewhere.example"))
	if m := w.mail(); m.From != "codes@cloister.example" {
		t.Errorf("%+v", m)
	}
	w.run("INIT_OTP_V2", varied(byText(), "smsCustomization", object{"template": "App: {{ .OtpCode }}"}))
	if m := w.texted(); m.To != phone || !strings.HasPrefix(m.Body, "App: ") {
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
		w.refused("INIT_OTP_V3", c.params, c.code, c.says)
	}
	w.run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_OTP_EMAIL_AUTH"})
	w.refused("INIT_OTP_V3", byMail(), 9, "FEATURE_NAME_OTP_EMAIL_AUTH is not enabled")
	w.run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_SMS_AUTH"})
	w.refused("INIT_OTP_V3", byText(), 9, "FEATURE_NAME_SMS_AUTH is not enabled")
	w.turnOn("FEATURE_NAME_OTP_EMAIL_AUTH")
	w.turnOn("FEATURE_NAME_SMS_AUTH")
	w.outside = activity.Outside{}
	w.refused("INIT_OTP_V3", byMail(), 9, "sends no mail")
	w.refused("INIT_OTP_V3", byText(), 9, "sends no text messages")
}

// The same contact, or the same identifier whatever the contact, gets three codes in
// three minutes; and of a contact three can be tried.
func TestPasscodesAreCounted(t *testing.T) {
	w := mailWorld(t)
	var ids, sent []string
	for range 3 {
		id, code := w.otp(varied(byMail(), "contact", "Someone@Example.org", "expirationSeconds", "600"))
		ids, sent = append(ids, id), append(sent, code)
		w.now++
	}
	w.refused("INIT_OTP_V2", byMail(), 3, "Max number of OTPs have been initiated")
	w.otp(varied(byMail(), "contact", "other@example.org"))
	w.now += 180_000
	w.otp(byMail()) // the fourth that could be tried ends the first
	w.refused("VERIFY_OTP", object{"otpId": ids[0], "otpCode": sent[0]}, 3, "Invalid OTP code")
	w.run("VERIFY_OTP", object{"otpId": ids[1], "otpCode": sent[1]})
	for i := range 3 {
		w.otp(varied(byMail(), "contact", fmt.Sprintf("x%d@example.org", i), "userIdentifier", "10.0.0.1"))
	}
	w.refused("INIT_OTP_V2", varied(byMail(), "contact", "x4@example.org", "userIdentifier", "10.0.0.1"), 3, "Max number of OTPs have been initiated")
	w.otp(varied(byMail(), "contact", "x4@example.org", "userIdentifier", "10.0.0.2"))
	w.now += 600_000
	for i := range 4 { // what is long over is swept
		w.otp(varied(byMail(), "contact", fmt.Sprintf("y%d@example.org", i)))
		w.now += 600_000
	}
	for _, text := range ids {
		id, err := org.ParseID(text)
		w.must(err)
		if p, err := w.tx().Passcode(id); p != nil || err != nil {
			t.Errorf("%s is still there: %v", text, err)
		}
	}
}

func TestVerifyOTP(t *testing.T) {
	w := mailWorld(t)
	tokens := login.TokenKeys{Token: w.tokens.token.Public(), Legacy: w.tokens.legacy.Public()}
	id, code := w.otp(byMail())
	key := w.freshP256()
	r := w.run("VERIFY_OTP", object{"otpId": id, "otpCode": " " + strings.ToLower(code) + " ", "publicKey": key, "expirationSeconds": "60"})
	read, err := login.ReadVerificationToken("t", r["verificationToken"].(string), tokens, w.now)
	w.must(err)
	tok, err := read.ByStamp(key)
	w.must(err)
	if !tok.Legacy || tok.Contact != mailbox || tok.OrganizationID != w.id.String() || tok.PublicKey != key || tok.ExpiresMs > w.now+60_000 || tok.Type != login.Email {
		t.Errorf("%+v", tok)
	}
	w.refused("VERIFY_OTP", object{"otpId": id, "otpCode": code}, 3, "Invalid OTP code") // once
	for _, c := range []struct {
		params object
		says   string
	}{
		{object{"otpId": w.newID().String(), "otpCode": "123456"}, "Invalid OTP code"},
		{object{"otpId": "x", "otpCode": "123456"}, "Invalid OTP code"},
		{object{"otpCode": "123456"}, "otpId"},
		{object{"otpId": id}, "otpCode"},
		{object{"otpId": id, "otpCode": "123456", "publicKey": "00"}, "invalid public key"},
		{object{"otpId": id, "otpCode": "123456", "expirationSeconds": "86401"}, "1 to 86400"},
	} {
		w.refused("VERIFY_OTP", c.params, 3, c.says)
	}
}

// Three wrong tries end a code, and nothing gives them back.
func TestTriesAreCounted(t *testing.T) {
	for _, right := range []int{1, 2, 3, 4} {
		w := mailWorld(t)
		id, code := w.otp(byMail())
		for i := 1; i < right; i++ {
			if _, err := w.try("VERIFY_OTP", object{"otpId": id, "otpCode": wrong(code)}); fault.Of(err) == nil || fault.Of(err).Message != "Invalid OTP code" {
				t.Fatalf("a wrong code: %v", err)
			}
		}
		_, err := w.try("VERIFY_OTP", object{"otpId": id, "otpCode": code})
		if (err == nil) != (right <= 3) {
			t.Errorf("right at the %dth: %v", right, err)
		}
	}
	for name, later := range map[string]func(*world){
		"expired": func(w *world) { w.now += 300_000 }, "a restart": func(w *world) { w.boot = w.newID() },
	} {
		w := mailWorld(t)
		id, code := w.otp(byMail())
		later(w)
		if _, err := w.try("VERIFY_OTP", object{"otpId": id, "otpCode": code}); fault.Of(err) == nil || fault.Of(err).Message != "Invalid OTP code" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// client is somebody's key pair.
type client struct {
	key    *ecdsa.PrivateKey
	public string
}

func (w *world) client() *client {
	k, err := ecdsa.GenerateKey(elliptic.P256(), w.rand)
	w.must(err)
	return &client{k, hex.EncodeToString(elliptic.MarshalCompressed(elliptic.P256(), k.X, k.Y))}
}

// signs is a client signature over a message.
func (w *world) signs(c *client, message any) object {
	m := text(message)
	sum := sha256.Sum256(m)
	r, s, err := ecdsa.Sign(w.rand, c.key, sum[:])
	w.must(err)
	raw := make([]byte, 64)
	r.FillBytes(raw[:32])
	s.FillBytes(raw[32:])
	return object{"publicKey": c.public, "scheme": "CLIENT_SIGNATURE_SCHEME_API_P256", "message": string(m), "signature": hex.EncodeToString(raw)}
}

// encrypted is an attempt to the target in a bundle.
func (w *world) encrypted(targetBundle, code, public string) string {
	w.t.Helper()
	var outer struct{ Data, EnclaveQuorumPublic string }
	var inner struct{ TargetPublic string }
	w.must(json.Unmarshal([]byte(targetBundle), &outer))
	if outer.EnclaveQuorumPublic != w.tokens.targets.PublicKey() {
		w.t.Errorf("signed by %s", outer.EnclaveQuorumPublic)
	}
	data, err := hex.DecodeString(outer.Data)
	w.must(err)
	w.must(json.Unmarshal(data, &inner))
	return w.sealTo(inner.TargetPublic, string(text(object{"otp_code": code, "public_key": public})))
}

// token gives a verification token about a contact, bound to c, in the encrypted
// way.
func (w *world) token(wish object, c *client) (text, id string) {
	w.t.Helper()
	r := w.run("INIT_OTP_V3", wish)
	var code string
	if wish["otpType"] == "OTP_TYPE_SMS" {
		words := strings.Fields(w.texted().Body)
		code = words[len(words)-1]
	} else {
		code = w.code()
	}
	v := w.run("VERIFY_OTP_V2", object{"otpId": r["otpId"], "encryptedOtpBundle": w.encrypted(r["otpEncryptionTargetBundle"].(string), code, c.public)})
	text = v["verificationToken"].(string)
	read, err := login.ReadVerificationToken("t", text, login.TokenKeys{Token: w.tokens.token.Public(), Legacy: w.tokens.legacy.Public()}, w.now)
	w.must(err)
	tok, err := read.ByStamp(c.public)
	w.must(err)
	if tok.Legacy || tok.PublicKey != c.public {
		w.t.Fatalf("%+v", tok)
	}
	return text, tok.ID
}

func TestVerifyEncryptedOTP(t *testing.T) {
	w := mailWorld(t)
	c := w.client()
	w.token(byMail(), c)
	r := w.run("INIT_OTP_V3", varied(byMail(), "contact", "b@example.org"))
	code, target := w.code(), r["otpEncryptionTargetBundle"].(string)
	other := w.run("INIT_OTP_V3", varied(byMail(), "contact", "c@example.org"))
	in := func(sealed string) object { return object{"otpId": r["otpId"], "encryptedOtpBundle": sealed} }
	for _, x := range []struct {
		typ    string
		params object
		says   string
	}{
		{"VERIFY_OTP", object{"otpId": r["otpId"], "otpCode": code}, "Invalid OTP code"}, // the ways are not mixed; a try
		{"VERIFY_OTP_V2", in(w.encrypted(other["otpEncryptionTargetBundle"].(string), code, c.public)), "Invalid OTP code"},
	} {
		if _, err := w.try(x.typ, x.params); fault.Of(err) == nil || fault.Of(err).Message != x.says {
			t.Errorf("%s: %v", x.typ, err)
		}
	}
	w.run("VERIFY_OTP_V2", in(w.encrypted(target, code, c.public)))
	w.refused("VERIFY_OTP_V2", in(w.encrypted(target, code, c.public)), 3, "Invalid OTP code")
	w.refused("VERIFY_OTP_V2", in("{}"), 3, "Invalid OTP code")
	plain, code := w.otp(varied(byMail(), "contact", "d@example.org"))
	if _, err := w.try("VERIFY_OTP_V2", object{"otpId": plain, "encryptedOtpBundle": w.encrypted(target, code, c.public)}); fault.Of(err) == nil {
		t.Errorf("a plain passcode is verified encrypted: %v", err)
	}
}

// mailSub is a sub-organization whose one user has the mailbox.
func mailSub(w *world, contact object) *world {
	u := rootUser("U", apiKey("a", w.freshKey()))
	for k, v := range contact {
		u[k] = v
	}
	return w.sub(w.run("CREATE_SUB_ORGANIZATION_V7", subOrganization("Sub", 1, u))["subOrganizationId"])
}

func loginMessage(session, token string) object {
	return object{"login": object{"publicKey": session}, "tokenId": token, "type": "USAGE_TYPE_LOGIN"}
}

func TestOTPLogin(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": "Someone@example.org"})
	c, session := w.client(), w.freshP256()
	tok, id := w.token(byMail(), c)
	in := object{"verificationToken": tok, "publicKey": session, "clientSignature": w.signs(c, loginMessage(session, id)), "expirationSeconds": "77"}
	stranger, another := w.client(), w.freshP256()
	for says, bad := range map[string]object{
		"another publicKey":           varied(in, "publicKey", another),
		"invalid client signature":    varied(in, "clientSignature", w.signs(stranger, loginMessage(session, id))),
		"not about a login":           varied(in, "clientSignature", w.signs(c, object{"signupV2": object{}, "tokenId": id, "type": "USAGE_TYPE_SIGNUP"})),
		"invalid verification token":  varied(in, "verificationToken", tok[:len(tok)-4]+"AAAA"),
		"missing field `clientSignat": varied(in, "clientSignature", nil),
		"invalid public key":          varied(in, "publicKey", "00"),
		"session profile":             varied(in, "sessionProfileId", w.newID().String()),
	} {
		if says == "session profile" {
			s.refused("OTP_LOGIN_V2", bad, 5, says)
			continue
		}
		s.refused("OTP_LOGIN_V2", bad, 3, says)
	}
	s.refused("OTP_LOGIN", varied(in, "clientSignature", nil), 3, "is bound to a key")
	got, err := login.VerifySession(s.run("OTP_LOGIN_V2", in)["session"].(string), w.sessions.Public(), w.now)
	w.must(err)
	if got.OrganizationID != s.id.String() || got.UserID != s.root || got.PublicKey != session || got.ExpiresMs != w.now+77_000 {
		t.Errorf("%+v", got)
	}
	if u := userOf(s, s.root); !u.EmailVerified {
		t.Error("the contact is not verified")
	}
	again := w.freshP256()
	s.refused("OTP_LOGIN_V2", varied(in, "publicKey", again, "clientSignature", w.signs(c, loginMessage(again, id))), 3, "invalid verification token") // once

	// By telephone, in clear, and by somebody who is not there, or twice.
	phoned := mailSub(w, object{"userPhoneNumber": phone, "userName": "P"})
	otp, code := w.otp(byText())
	legacy := w.run("VERIFY_OTP", object{"otpId": otp, "otpCode": code})["verificationToken"]
	s.refused("OTP_LOGIN", object{"verificationToken": legacy, "publicKey": again}, 5, "not exactly one user")
	phoned.refused("OTP_LOGIN_V2", object{"verificationToken": legacy, "publicKey": again, "clientSignature": w.signs(c, loginMessage(again, id))}, 3, "invalid verification token")
	phoned.run("OTP_LOGIN", object{"verificationToken": legacy, "publicKey": again})
	phoned.refused("OTP_LOGIN", object{"verificationToken": legacy, "publicKey": w.freshP256()}, 3, "invalid verification token")

	// A token of a sub-organization is good there only; a restart ends tokens; so does time.
	s.outside = w.outside
	s.now = w.now
	own, ownID := s.token(varied(byMail(), "contact", "someone@example.org"), c)
	sign := func(id string) object {
		return object{"publicKey": another, "clientSignature": w.signs(c, loginMessage(another, id))}
	}
	w.refused("OTP_LOGIN_V2", varied(sign(ownID), "verificationToken", own), 3, "invalid verification token")
	phoned.refused("OTP_LOGIN_V2", varied(sign(ownID), "verificationToken", own), 3, "invalid verification token")
	boot := s.boot
	s.boot = w.newID()
	s.refused("OTP_LOGIN_V2", varied(sign(ownID), "verificationToken", own), 3, "expired")
	s.boot, s.now = boot, s.now+3_600_000
	s.refused("OTP_LOGIN_V2", varied(sign(ownID), "verificationToken", own), 3, "expired")
	s.now -= 3_600_000
	s.run("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_OTP_EMAIL_AUTH"})
	s.refused("OTP_LOGIN_V2", varied(sign(ownID), "verificationToken", own), 9, "FEATURE_NAME_OTP_EMAIL_AUTH is not enabled")
}

// A bare signature, as version 1 takes it, is of the session's key over the token.
func TestBareSignature(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": "someone@example.org"})
	c, stranger := w.client(), w.client()
	tok, id := w.token(byMail(), c)
	bare := func(c *client, token string) object {
		sum := sha256.Sum256([]byte(token))
		der, err := ecdsa.SignASN1(w.rand, c.key, sum[:])
		w.must(err)
		return object{"publicKey": c.public, "scheme": "CLIENT_SIGNATURE_SCHEME_API_P256", "message": token, "signature": hex.EncodeToString(der)}
	}
	in := object{"verificationToken": tok, "publicKey": c.public, "clientSignature": bare(c, tok)}
	for says, bad := range map[string]object{
		"must be of the session's key": varied(in, "publicKey", w.freshP256()),
		"invalid client signature: pu": varied(in, "publicKey", stranger.public, "clientSignature", bare(stranger, tok)),
		"does not verify":              varied(in, "clientSignature", varied(bare(stranger, tok), "publicKey", c.public)),
		"message is malformed":         varied(in, "clientSignature", bare(c, tok+"x")),
	} {
		s.refused("OTP_LOGIN", bad, 3, says)
	}
	s.refused("OTP_LOGIN_V2", in, 3, "message is malformed")
	s.refused("OTP_LOGIN", varied(in, "clientSignature", w.signs(c, loginMessage(w.freshP256(), id))), 3, "another publicKey")
	s.run("OTP_LOGIN", in)
	s.refused("OTP_LOGIN", in, 3, "invalid verification token") // once
}

func TestSignupWithToken(t *testing.T) {
	w := mailWorld(t)
	c := w.client()
	key := apiKey("a", w.freshKey())
	u := varied(rootUser("U", key), "userEmail", mailbox)
	tok, id := w.token(byMail(), c)
	says := object{"apiKeys": []any{key}, "authenticators": []any{}, "email": mailbox}
	message := object{"signupV2": says, "tokenId": id, "type": "USAGE_TYPE_SIGNUP"}
	in := varied(subOrganization("Sub", 1, u), "verificationToken", tok, "clientSignature", w.signs(c, message))
	for why, bad := range map[string]object{
		"must be given with":        varied(in, "clientSignature", nil),
		"there is none":             varied(in, "verificationToken", nil),
		"about another contact":     varied(in, "rootUsers", []any{varied(u, "userEmail", "b@example.org")}),
		"other apiKeys":             varied(in, "rootUsers", []any{varied(u, "apiKeys", []any{apiKey("b", w.freshKey())})}),
		"in the form of signupV2":   varied(in, "clientSignature", w.signs(c, object{"signup": says, "tokenId": id, "type": "USAGE_TYPE_SIGNUP"})),
		"invalid client signature":  varied(in, "clientSignature", w.signs(w.client(), message)),
		"invalid verification toke": varied(in, "verificationToken", "a.b.c"),
	} {
		w.refused("CREATE_SUB_ORGANIZATION_V8", bad, 3, why)
	}
	s := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", in)["subOrganizationId"])
	if u := userOf(s, s.root); !u.EmailVerified {
		t.Error("the contact is not verified")
	}
	// Once for a sign-up, and then once for a log-in.
	other := varied(subOrganization("Other", 1, varied(u, "apiKeys", []any{})), "verificationToken", tok)
	other["clientSignature"] = w.signs(c, object{"signupV2": object{"email": mailbox}, "tokenId": id, "type": "USAGE_TYPE_SIGNUP"})
	w.refused("CREATE_SUB_ORGANIZATION_V8", other, 3, "invalid verification token")
	session := w.freshP256()
	s.run("OTP_LOGIN_V2", object{"verificationToken": tok, "publicKey": session, "clientSignature": w.signs(c, loginMessage(session, id))})
	// The contact is taken.
	tok, id = w.token(byMail(), c)
	other["verificationToken"] = tok
	other["clientSignature"] = w.signs(c, object{"signupV2": object{"email": mailbox}, "tokenId": id, "type": "USAGE_TYPE_SIGNUP"})
	w.refused("CREATE_SUB_ORGANIZATION_V8", other, 6, "exists already")
	// Version 7 takes legacy tokens, which need no signature.
	otp, code := w.otp(byText())
	legacy := w.run("VERIFY_OTP", object{"otpId": otp, "otpCode": code})["verificationToken"]
	p := varied(rootUser("P"), "userPhoneNumber", phone)
	w.refused("CREATE_SUB_ORGANIZATION_V8", varied(subOrganization("P", 1, p), "verificationToken", legacy, "clientSignature", w.signs(c, message)), 3, "invalid verification token")
	s = w.sub(w.run("CREATE_SUB_ORGANIZATION_V7", varied(subOrganization("P", 1, p), "verificationToken", legacy))["subOrganizationId"])
	if u := userOf(s, s.root); !u.PhoneVerified {
		t.Error("the number is not verified")
	}
}

// apiKeyOf is the credential of a stamp by a client's key.
func apiKeyOf(c *client) *org.VoteCredential {
	return &org.VoteCredential{Type: "CREDENTIAL_TYPE_API_KEY_P256", PublicKey: c.public}
}

func TestContactsAreVerifiedByToken(t *testing.T) {
	w := mailWorld(t)
	c := w.client()
	w.stamped = apiKeyOf(c)
	tok, _ := w.token(byMail(), c)
	w.refused("UPDATE_USER_EMAIL", object{"userId": w.root, "userEmail": "b@example.org", "verificationToken": tok}, 3, "about another contact")
	w.refused("UPDATE_USER_PHONE_NUMBER", object{"userId": w.root, "userPhoneNumber": phone, "verificationToken": tok}, 3, "about another contact")
	w.refused("UPDATE_USER_EMAIL", object{"userId": w.root, "userEmail": "", "verificationToken": tok}, 3, "about another contact")
	w.run("UPDATE_USER_EMAIL", object{"userId": w.root, "userEmail": mailbox, "verificationToken": tok})
	if u := userOf(w, w.root); !u.EmailVerified || u.Email != mailbox {
		t.Errorf("%+v", u)
	}
	w.refused("UPDATE_USER_EMAIL", object{"userId": w.root, "userEmail": mailbox, "verificationToken": tok}, 3, "invalid verification token")
}

// A token that is bound to a key verifies a contact only in a request that this key
// has stamped; one that is bound to none is good for whoever has it.
func TestBoundTokensVerifyByTheirKeyAlone(t *testing.T) {
	w := mailWorld(t)
	for _, x := range []struct {
		typ  string
		wish object
		in   object
	}{
		{"UPDATE_USER_EMAIL", byMail(), object{"userId": w.root, "userEmail": mailbox}},
		{"UPDATE_USER_PHONE_NUMBER", byText(), object{"userId": w.root, "userPhoneNumber": phone}},
	} {
		c := w.client()
		tok, _ := w.token(x.wish, c)
		in := varied(x.in, "verificationToken", tok)
		for name, by := range map[string]*org.VoteCredential{
			"another key":                  apiKeyOf(w.client()),
			"nothing":                      {},
			"the same digits on secp256k1": {Type: "CREDENTIAL_TYPE_API_KEY_SECP256K1", PublicKey: c.public},
			"a mailbox":                    {Type: "CREDENTIAL_TYPE_EMAIL"},
		} {
			w.stamped = by
			w.refused(x.typ, in, 3, "bound to a key that has not stamped")
			if u := userOf(w, w.root); u.EmailVerified && x.typ == "UPDATE_USER_EMAIL" || u.PhoneVerified {
				t.Errorf("%s, stamped by %s: verified", x.typ, name)
			}
		}
		w.stamped = apiKeyOf(c) // nothing of it was used up
		w.run(x.typ, in)
	}
	w.stamped = apiKeyOf(w.client())
	otp, code := w.otp(varied(byMail(), "contact", "b@example.org"))
	w.run("UPDATE_USER_EMAIL", object{"userId": w.root, "userEmail": "b@example.org", "verificationToken": w.run("VERIFY_OTP", object{"otpId": otp, "otpCode": code})["verificationToken"]})
	if u := userOf(w, w.root); !u.EmailVerified || !u.PhoneVerified {
		t.Errorf("%+v", u)
	}
}

// These are all types that take a verification token. A new one belongs here, in what
// TestBoundTokens… tell of it, and in enclave/README.md.
func TestTypesThatTakeAToken(t *testing.T) {
	want := []string{"CREATE_SUB_ORGANIZATION_V7", "CREATE_SUB_ORGANIZATION_V8", "OTP_LOGIN", "OTP_LOGIN_V2", "UPDATE_USER_EMAIL", "UPDATE_USER_PHONE_NUMBER"}
	var got []string
	for typ, v := range kinds.Live {
		intent, _ := v.Shapes()
		if _, takes := intent.FieldByName("VerificationToken"); takes {
			got = append(got, strings.TrimPrefix(typ, "ACTIVITY_TYPE_"))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// A contact that is verified in one sub-organization is verified in no other: not by a
// token, and not by a log-in, which it lets in all the same.
func TestContactsAreClaimedOnce(t *testing.T) {
	w := mailWorld(t)
	first, c := mailSub(w, object{"userEmail": mailbox}), w.client()
	second := mailSub(w, object{"userEmail": "b@example.org", "userName": "V"})
	verify := func(s *world, says string) {
		t.Helper()
		s.stamped = apiKeyOf(c)
		tok, _ := w.token(byMail(), c)
		in := object{"userId": s.root, "userEmail": strings.ToUpper(mailbox), "verificationToken": tok}
		if says == "" {
			s.run("UPDATE_USER_EMAIL", in)
			return
		}
		s.refused("UPDATE_USER_EMAIL", in, 6, says)
	}
	verify(first, "")
	verify(second, "exists already")
	w.now += org.PasscodeWindowMs
	first.now, second.now = w.now, w.now
	verify(first, "") // one's own is no obstacle
	// Without a token anybody may name any contact. Who shows to have it gets in, but
	// log-ins that name no sub-organization stay led to the first.
	second.run("UPDATE_USER_EMAIL", object{"userId": second.root, "userEmail": mailbox})
	session := w.freshP256()
	tok, id := w.token(byMail(), c)
	second.run("OTP_LOGIN_V2", object{"verificationToken": tok, "publicKey": session, "clientSignature": w.signs(c, loginMessage(session, id))})
	_, to := w.keyPair()
	w.now += org.PasscodeWindowMs
	first.now, second.now, second.outside = w.now, w.now, w.outside
	second.run("OTP_AUTH", object{"otpId": second.run("INIT_OTP_AUTH_V3", byMail())["otpId"], "otpCode": second.code(), "targetPublicKey": to})
	if userOf(second, second.root).EmailVerified || !userOf(first, first.root).EmailVerified {
		t.Error("the contact is verified in the second one too")
	}
	// Given up by the first, it is free.
	first.run("UPDATE_USER_EMAIL", object{"userId": first.root, "userEmail": ""})
	verify(second, "")
}

// keyPair is one to which a client wants something encrypted.
func (w *world) keyPair() (private secret.Secret, public string) {
	w.t.Helper()
	private, err := bundle.NewPrivateKey(w.rand)
	w.must(err)
	private.Use(func(b []byte) {
		k, kerr := ecdh.P256().NewPrivateKey(b)
		w.must(kerr)
		public = hex.EncodeToString(k.PublicKey().Bytes())
	})
	return private, public
}

// publicOf is the public half, compressed, of the key in a credential bundle.
func (w *world) publicOf(private secret.Secret, text any) string {
	w.t.Helper()
	k := w.opened(private, text).PublicKey().Bytes()
	return hex.EncodeToString(append([]byte{2 | k[64]&1}, k[1:33]...))
}

func TestOTPAuth(t *testing.T) {
	w := mailWorld(t)
	s := mailSub(w, object{"userEmail": mailbox})
	private, to := w.keyPair()
	otp := s.run("INIT_OTP_AUTH_V3", byMail())["otpId"]
	code := s.code()
	in := object{"otpId": otp, "otpCode": code, "targetPublicKey": to}
	s.refused("OTP_AUTH", varied(in, "targetPublicKey", "00"), 3, "invalid public key")
	if _, err := s.try("VERIFY_OTP", object{"otpId": otp, "otpCode": code}); fault.Of(err) == nil {
		t.Error("a code for a credential gives a token")
	}
	r := s.run("OTP_AUTH", in)
	k := keyOf(s, s.root, w.publicOf(private, r["credentialBundle"]))
	if k == nil || k.Type != "CREDENTIAL_TYPE_OTP_AUTH_KEY_P256" || k.ExpirationSeconds != 900 || !strings.HasPrefix(k.Name, "OTP Auth - ") {
		t.Errorf("%+v", k)
	}
	s.refused("OTP_AUTH", in, 3, "Invalid OTP code")
	plain, code := s.otp(varied(byMail(), "contact", "b@example.org"))
	s.refused("OTP_AUTH", object{"otpId": plain, "otpCode": code, "targetPublicKey": to}, 3, "Invalid OTP code")
}

func TestSandbox(t *testing.T) {
	w := mailWorld(t)
	in := varied(byMail(), "contact", "user@example.com", "otpLength", 6, "alphanumeric", false)
	w.run("INIT_OTP_V2", in)
	if w.code() == "000000" {
		t.Error("a sandbox that nobody asked for")
	}
	w.outside.Sandbox = true
	id := w.run("INIT_OTP_V2", in)["otpId"]
	if len(w.last.Sends) != 0 {
		t.Error("something is sent to the sandbox")
	}
	w.run("VERIFY_OTP", object{"otpId": id, "otpCode": "000000"})
	w.refused("INIT_OTP_V2", varied(in, "otpLength", 7), 3, "sandbox")
	id, code := w.otp(varied(byMail(), "otpLength", 6, "alphanumeric", false))
	if code == "000000" {
		t.Fatal("drawn by chance")
	}
	if _, err := w.try("VERIFY_OTP", object{"otpId": id, "otpCode": "000000"}); err == nil {
		t.Error("the sandbox's code opens another contact's")
	}
}
