package proxy_test

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/sim/client"
	"cloister/sim/inbox"
	"cloister/sim/passcode"
	"cloister/sim/rig"
)

// post is a world whose mail and text messages arrive in an inbox.
type post struct {
	*world
	box     *inbox.Box
	options rig.Options
}

func newPost(t *testing.T) *post {
	t.Helper()
	return startPost(t, rig.Options{})
}

func startPost(t *testing.T, o rig.Options) *post {
	t.Helper()
	box := inbox.NewBox(time.Now)
	mail, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = box.ServeMail(ctx, mail) }()
	gateway := inbox.Gateway{User: "cloister", Password: "simulator"}
	sms := httptest.NewServer(box.Handler(gateway))
	t.Cleanup(sms.Close)
	configuration := text(object{
		"mail":     object{"host": "127.0.0.1", "port": mail.Addr().(*net.TCPAddr).Port, "security": "plain", "sender": object{"address": "codes@cloister.example"}},
		"text":     object{"url": sms.URL + "/sms", "user": gateway.User, "password": gateway.Password, "from": "+15550100"},
		"whatsapp": object{"url": sms.URL + "/sms", "user": gateway.User, "password": gateway.Password, "from": "+15550101"},
	})
	o.Rates, o.Configuration = unlimited, []byte(configuration)
	p := &post{newWorld(t, o), box, o}
	p.options.Dir = p.Dir.Path
	return p
}

// restarted starts host and enclave again where they were.
func (p *post) restarted() {
	p.t.Helper()
	p.world = newWorld(p.t, p.options)
}

// passcode has a code sent by mail.
func (p *post) passcode(to string) (otp, code string) {
	p.t.Helper()
	otp = client.Text(p.ok("otp_init", object{"otpType": "OTP_TYPE_EMAIL", "contact": to}), "otpId")
	return otp, p.code(to)
}

// token verifies a mailbox, in clear.
func (p *post) token(to string) string {
	p.t.Helper()
	otp, code := p.passcode(to)
	return client.Text(p.ok("otp_verify", object{"otpId": otp, "otpCode": code}), "verificationToken")
}

// code waits for a message to somebody and takes the code in it.
func (p *post) code(to string) string {
	p.t.Helper()
	clocktest.Until(p.t, "something arrives for "+to, func() bool { return len(p.box.Messages(to)) > 0 })
	m := p.box.Messages(to)[0]
	if m.Code == "" {
		p.t.Fatalf("no code in %q", m.Text)
	}
	p.box.Clear()
	return m.Code
}

// signsUp makes somebody with a verified mailbox. The token has signed up and can log
// in still.
func (p *post) signsUp(to string) (sub, token string) {
	p.t.Helper()
	token = p.token(to)
	return client.Text(p.ok("signup", signup(object{"userEmail": to, "verificationToken": token})), "organizationId"), token
}

func (p *post) client() *passcode.Client {
	p.t.Helper()
	c, err := passcode.NewClient()
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// signs is a client signature over a message.
func (p *post) signs(c *passcode.Client, message any) object {
	p.t.Helper()
	signature, err := c.Sign(text(message))
	if err != nil {
		p.t.Fatal(err)
	}
	return signature
}

// encrypted is an attempt to the target of a passcode, whose bundle is signed by the
// key that clients pin.
func (p *post) encrypted(bundle, code, public string) string {
	p.t.Helper()
	attempt, err := passcode.Encrypt(bundle, p.Credentials.Keys.OTP, code, public)
	if err != nil {
		p.t.Fatal(err)
	}
	return attempt
}

// claims are those of a token, whoever signed it.
func (p *post) claims(token any) object {
	p.t.Helper()
	m, err := passcode.Claims(token.(string))
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

// whoami asks with a session's key.
func (p *post) whoami(organization string, k client.KeyPair) object {
	p.t.Helper()
	return p.root.As(organization, "", k).Read("whoami", nil)
}

// Sign-up and log-in through the proxy alone, in both generations of the client: the
// one whose attempts come in clear, and the one that encrypts them.
func TestPasscodesThroughTheProxy(t *testing.T) {
	for _, c := range []struct{ typ, contact, field, to string }{
		{"OTP_TYPE_EMAIL", "someone@example.org", "userEmail", "someone@example.org"}, {"OTP_TYPE_SMS", "+15551234567", "userPhoneNumber", "+15551234567"},
		{"OTP_TYPE_WHATSAPP", "+15551234567", "userPhoneNumber", "whatsapp:+15551234567"},
	} {
		t.Run(c.typ, func(t *testing.T) {
			p := newPost(t)
			options := object{"otpType": c.typ, "contact": c.contact}
			// Signing up, in clear.
			otp := p.ok("otp_init", options)["otpId"]
			token := p.ok("otp_verify", object{"otpId": otp, "otpCode": p.code(c.to)})["verificationToken"]
			if got := p.ok("account", object{"filterType": map[string]string{"userEmail": "EMAIL", "userPhoneNumber": "PHONE_NUMBER"}[c.field], "filterValue": c.contact, "verificationToken": token}); len(got) != 0 {
				t.Errorf("an account: %v", got)
			}
			made := p.ok("signup", object{c.field: c.contact, "verificationToken": token, "apiKeys": list(), "authenticators": list(), "oauthProviders": list()})
			sub := made["organizationId"].(string)
			session := client.NewKey()
			jwt := p.claims(p.ok("otp_login", object{"verificationToken": token, "publicKey": session.PublicKey})["session"])
			if jwt["organization_id"] != sub || jwt["public_key"] != session.PublicKey {
				t.Errorf("%v", jwt)
			}
			if who := p.whoami(sub, session); who["userId"] != made["userId"] {
				t.Errorf("whoami: %v", who)
			}
			p.refused("a second log-in", p.ask("otp_login", object{"verificationToken": token, "publicKey": client.NewKey().PublicKey}), 400, "invalid verification token")
			// Logging in again, encrypted.
			init := p.ok("otp_init_v2", options)
			cl := p.client()
			token = p.ok("otp_verify_v2", object{"otpId": init["otpId"], "encryptedOtpBundle": p.encrypted(init["otpEncryptionTargetBundle"].(string), p.code(c.to), cl.Public)})["verificationToken"]
			session = client.NewKey()
			in := object{"verificationToken": token, "publicKey": session.PublicKey,
				"clientSignature": p.signs(cl, object{"login": object{"publicKey": session.PublicKey}, "tokenId": p.claims(token)["id"], "type": "USAGE_TYPE_LOGIN"})}
			// The host puts a key of its own in the place of the client's.
			thief := client.NewKey()
			stolen := object{"verificationToken": token, "publicKey": thief.PublicKey, "clientSignature": in["clientSignature"]}
			p.refused("a host's own key", p.ask("otp_login_v2", stolen), 400, "another publicKey")
			p.refused("without a signature", p.ask("otp_login", object{"verificationToken": token, "publicKey": thief.PublicKey}), 400, "is bound to a key")
			jwt = p.claims(p.ok("otp_login_v2", in)["session"])
			if jwt["organization_id"] != sub {
				t.Errorf("%v", jwt)
			}
			if who := p.whoami(sub, session); who["userId"] != made["userId"] {
				t.Errorf("whoami: %v", who)
			}
			// Nobody signs up twice with one contact.
			p.refused("a second sign-up", p.ask("signup_v2", object{c.field: c.contact, "verificationToken": token, "apiKeys": list(), "authenticators": list(), "oauthProviders": list(),
				"clientSignature": p.signs(cl, object{"signupV2": object{map[string]string{"userEmail": "email", "userPhoneNumber": "phoneNumber"}[c.field]: c.contact}, "tokenId": p.claims(token)["id"], "type": "USAGE_TYPE_SIGNUP"})}),
				409, "exists already")
		})
	}
}

// Codes that are guessed.
func TestPasscodesAreNotGuessed(t *testing.T) {
	p := newPost(t)
	const contact = "someone@example.org"
	for i := range 50 {
		to := fmt.Sprintf("s%d@example.org", i)
		otp, code := p.passcode(to)
		for range 3 {
			p.refused("a guess", p.ask("otp_verify", object{"otpId": otp, "otpCode": "AAAAAA"}), 400, "Invalid OTP code")
		}
		p.refused("the right code too late", p.ask("otp_verify", object{"otpId": otp, "otpCode": code}), 400, "Invalid OTP code")
	}
	unknown := p.ask("otp_verify", object{"otpId": "019cd79e-4d5e-7ae5-befe-593d423aed3b", "otpCode": "AAAAAA"})
	p.refused("an unknown id", unknown, 400, "Invalid OTP code")
	// A code is asked for alike whether or not somebody has the contact.
	p.ok("signup", object{"userEmail": contact, "apiKeys": list(key(client.NewKey())), "authenticators": list(), "oauthProviders": list()})
	for _, to := range []string{contact, "nobody@example.org"} {
		if got := p.ok("otp_init", object{"otpType": "OTP_TYPE_EMAIL", "contact": to}); len(got) != 1 || got["otpId"] == "" {
			t.Errorf("%s: %v", to, got)
		}
	}
}

// An organization switches the forms off whose codes pass the host in clear: by a
// policy, which binds the proxy's user like any other.
func TestClearFormsCanBeSwitchedOff(t *testing.T) {
	p := newPost(t)
	p.root.Do("CREATE_POLICY_V3", client.Policy("No codes in clear", "DENY",
		"activity.type in ['ACTIVITY_TYPE_INIT_OTP', 'ACTIVITY_TYPE_INIT_OTP_V2', 'ACTIVITY_TYPE_VERIFY_OTP', 'ACTIVITY_TYPE_OTP_LOGIN']", ""))
	options := object{"otpType": "OTP_TYPE_EMAIL", "contact": "someone@example.org"}
	denied := p.ask("otp_init", options)
	p.refused("a code to be verified in clear", denied, 403, "not authorized")
	// Whoever calls may not read policies, so he does not learn which one refused. The organization's users do.
	if strings.Contains(denied.String(), "policyId") || !strings.Contains(denied.String(), `"message":"policy engine denied request explicitly","policyEvaluations":[]`) {
		t.Error(denied)
	}
	if kept := p.root.Query("list_activities", object{"filterByStatus": list("ACTIVITY_STATUS_FAILED")}); !strings.Contains(kept.String(), "No codes in clear") {
		t.Error(kept)
	}
	p.refused("an attempt in clear", p.ask("otp_verify", object{"otpId": "019cd79e-4d5e-7ae5-befe-593d423aed3b", "otpCode": "AAAAAA"}), 403, "not authorized")
	init := p.ok("otp_init_v2", options)
	cl := p.client()
	token := p.ok("otp_verify_v2", object{"otpId": init["otpId"], "encryptedOtpBundle": p.encrypted(init["otpEncryptionTargetBundle"].(string), p.code("someone@example.org"), cl.Public)})["verificationToken"]
	p.ok("signup_v2", object{"userEmail": "someone@example.org", "verificationToken": token, "apiKeys": list(), "authenticators": list(), "oauthProviders": list(),
		"clientSignature": p.signs(cl, object{"signupV2": object{"email": "someone@example.org"}, "tokenId": p.claims(token)["id"], "type": "USAGE_TYPE_SIGNUP"})})
}
