package rig_test

import (
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hpke"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math/big"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/sim/authenticator"
	"cloister/sim/client"
	"cloister/sim/inbox"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// post is the root user of a rig whose mail and text messages arrive in an inbox.
type post struct {
	*client.User
	rig *rig.Rig
	box *inbox.Box
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
	sms := rig.ServeHTTP(t, box.Handler(gateway))
	o.Configuration, err = json.Marshal(object{
		"mail":     object{"host": "127.0.0.1", "port": mail.Addr().(*net.TCPAddr).Port, "security": "plain", "sender": object{"address": "codes@cloister.example"}},
		"text":     object{"url": sms + "/sms", "user": gateway.User, "password": gateway.Password, "from": "+15550100"},
		"whatsapp": object{"url": sms + "/sms", "user": gateway.User, "password": gateway.Password, "from": "+15550101"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := rig.Start(t, o)
	return &post{r.Root(), r, box}
}

// enable turns features of an organization on.
func enable(u *client.User, features ...string) {
	u.Test.Helper()
	for _, f := range features {
		u.Do("SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_" + f, "value": ""})
	}
}

// next waits for a message to somebody and takes what it says in the part that holds
// of.
func (p *post) next(to string, of *regexp.Regexp) string {
	p.Test.Helper()
	clocktest.Until(p.Test, "something arrives for "+to, func() bool { return len(p.box.Messages(to)) > 0 })
	text := p.box.Messages(to)[0].Text
	found := of.FindStringSubmatch(text)
	if found == nil {
		p.Test.Fatalf("no %v in %q", of, text)
	}
	p.box.Clear()
	return found[1]
}

var (
	codeIn   = regexp.MustCompile(`(?m)(?:^ {4}| is )([0-9A-HJKMNP-TV-Z]{6,9})\s*$`)
	bundleIn = regexp.MustCompile(`(?m)^ {4}([1-9A-HJ-NP-Za-km-z]{50,})\s*$`)
)

func (p *post) code(to string) string { return p.next(to, codeIn) }

// below makes a sub-organization whose user has an e-mail address or telephone number.
func (p *post) below(field, contact string, more object, keys ...laptop.KeyPair) *client.User {
	p.Test.Helper()
	root := client.NewRootUser("U", keys...)
	root[field] = contact
	in := client.SubOrganization(contact, root)
	maps.Copy(in, more)
	made := p.Do("CREATE_SUB_ORGANIZATION_V7", in)
	u := p.As(client.Text(made, "subOrganizationId"), client.Text(made, "rootUserIds", "0"), laptop.KeyPair{})
	if len(keys) > 0 {
		u.Key = keys[0]
	}
	return u
}

type object = map[string]any

// Sign-up and log-in by mail and by telephone, from the parent's key, through a host
// that carries bytes: the same token signs up once and logs in once.
func TestPasscodesEndToEnd(t *testing.T) {
	p := startPost(t, rig.Options{})
	enable(p.User, "OTP_EMAIL_AUTH", "SMS_AUTH")
	for _, c := range []struct{ typ, contact, field, to string }{
		{"OTP_TYPE_EMAIL", "someone@example.org", "userEmail", "someone@example.org"}, {"OTP_TYPE_SMS", "+15551234567", "userPhoneNumber", "+15551234567"},
		{"OTP_TYPE_WHATSAPP", "+15551234568", "userPhoneNumber", "whatsapp:+15551234568"},
	} {
		otp := p.Do("INIT_OTP_V2", object{"otpType": c.typ, "contact": c.contact, "appName": "App"})
		tok := p.Do("VERIFY_OTP", object{"otpId": otp["otpId"], "otpCode": p.code(c.to)})["verificationToken"]
		sub := p.below(c.field, c.contact, object{"verificationToken": tok})
		session, above := sub.As(sub.Organization, "", client.NewKey()), sub.As(sub.Organization, "", p.Key)
		body := above.Body("OTP_LOGIN", object{"verificationToken": tok, "publicKey": session.Key.PublicKey})
		first := submit(above, "OTP_LOGIN", body)
		if first.Status != 200 {
			t.Fatalf("otp_login: %v", first)
		}
		again := submit(above, "OTP_LOGIN", body)
		if again.Status != 200 || again.Text("activity", "id") != first.Text("activity", "id") {
			t.Errorf("the same body again: %v", again)
		}
		if got := first.Text("activity", "organizationId"); got != sub.Organization {
			t.Errorf("the activity is of %s", got)
		}
		if who := session.Query("whoami", nil); who.Status != 200 || who.Text("organizationId") != sub.Organization {
			t.Errorf("whoami: %v", who)
		}
		second := above.Submit("OTP_LOGIN", object{"verificationToken": tok, "publicKey": client.NewKey().PublicKey})
		wants(t, "a second log-in", second, 400, "")
	}
}

// Who may start a log-in below: users of the parent whom its policies let, at once.
func TestLoginsFromAbove(t *testing.T) {
	p := startPost(t, rig.Options{Organizations: 1})
	enable(p.User, "OTP_EMAIL_AUTH")
	sub := p.below("userEmail", "someone@example.org", nil)
	agent := p.NewUser("Agent")
	token := func() any {
		otp := p.Do("INIT_OTP_V2", object{"otpType": "OTP_TYPE_EMAIL", "contact": "someone@example.org", "appName": "App"})
		return p.Do("VERIFY_OTP", object{"otpId": otp["otpId"], "otpCode": p.code("someone@example.org")})["verificationToken"]
	}
	tok := token()
	logIn := func(key laptop.KeyPair) client.Reply {
		in := object{"verificationToken": tok, "publicKey": client.NewKey().PublicKey}
		return p.As(sub.Organization, "", key).Submit("OTP_LOGIN", in)
	}
	wants(t, "without a policy", logIn(agent.Key), 403, "")
	p.Do("CREATE_POLICY_V3", client.Policy("For wallets only", "ALLOW", "activity.resource == 'WALLET'", "true"))
	// The parent's user is told which policy came nearest. The entry is the sub-organization's, whose users may not read it.
	denied := logIn(agent.Key)
	if denied.Status != 403 || !strings.Contains(denied.String(), `"policyName":"For wallets only"`) || !strings.Contains(denied.String(), `"expression":"activity.resource == 'WALLET'"`) {
		t.Error(denied)
	}
	kept := p.As(sub.Organization, "", p.Key).Query("list_activities", object{"filterByStatus": []any{"ACTIVITY_STATUS_FAILED"}})
	if kept.Status != 200 || strings.Contains(kept.String(), "wallets only") || strings.Count(kept.String(), `"policyEvaluations":[]`) == 0 {
		t.Error(kept)
	}
	for name, key := range map[string]laptop.KeyPair{"nobody": client.NewKey(), "another's root": p.rig.Others()[0].Key} {
		wants(t, name, logIn(key), 401, "PUBLIC_KEY_NOT_FOUND")
	}
	wallet := p.As(sub.Organization, "", p.Key).Submit("CREATE_WALLET", client.Wallet("w"))
	wants(t, "another kind", wallet, 400, "ORGANIZATION_MISMATCH")
	consensus := "approvers.any(user, user.id == '" + agent.User + "')"
	p.Do("CREATE_POLICY_V3", client.Policy("logins", "ALLOW", "activity.resource == 'AUTH'", consensus))
	if got := logIn(agent.Key); got.Status != 200 {
		t.Fatalf("with a policy: %v", got)
	}
	// Two of the parent's root users must agree: nobody below could vote on it.
	second := p.NewUser("Second")
	tok = token()
	p.Do("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{p.User.User, second.User}})
	wants(t, "half a quorum", logIn(second.Key), 400, "", "must be allowed at once")
	wants(t, "by the policy still", logIn(agent.Key), 200, "")
}

// openBundle is the key pair in a credential bundle.
func openBundle(t *testing.T, private *ecdh.PrivateKey, text string) laptop.KeyPair {
	t.Helper()
	n := new(big.Int)
	for _, c := range text {
		n.Mul(n, big.NewInt(58)).Add(n, big.NewInt(int64(strings.IndexRune("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", c))))
	}
	raw := n.Bytes() // begins with 2 or 3; four bytes of checksum at the end
	x, y := elliptic.UnmarshalCompressed(elliptic.P256(), raw[:33])
	enc := make([]byte, 65)
	enc[0] = 4
	x.FillBytes(enc[1:33])
	y.FillBytes(enc[33:])
	k, err := hpke.NewDHKEMPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	r, err := hpke.NewRecipient(enc, k, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := r.Open(append(append([]byte{}, enc...), private.PublicKey().Bytes()...), raw[33:len(raw)-4])
	if err != nil {
		t.Fatal(err)
	}
	own, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), plain)
	if err != nil {
		t.Fatal(err)
	}
	return laptop.KeyPair{PublicKey: hex.EncodeToString(elliptic.MarshalCompressed(elliptic.P256(), own.X, own.Y)), PrivateKey: hex.EncodeToString(plain)}
}

// The key of a recovery adds one passkey and does nothing else; one of another mail
// logs in.
func TestMailedKeys(t *testing.T) {
	p := startPost(t, rig.Options{})
	enable(p.User, "EMAIL_RECOVERY", "ROOT_USER_EMAIL_RECOVERY", "EMAIL_AUTH")
	const address = "someone@example.org"
	p.Do("UPDATE_USER_EMAIL", object{"userId": p.User.User, "userEmail": address})
	private, target := encapsulation(t)
	to := object{"email": address, "targetPublicKey": target, "emailCustomization": object{"appName": "App"}}
	mail := func(typ string) *client.User {
		p.Do(typ, to)
		return p.As(p.Organization, "", openBundle(t, private, p.next(address, bundleIn)))
	}
	mailed := mail("EMAIL_AUTH_V3")
	wants(t, "by the key of a mail", mailed.Submit("CREATE_WALLET", client.Wallet("w")), 200, "")
	wants(t, "by the key of a mail, whoami", mailed.Query("whoami", nil), 200, "")
	recovery := mail("INIT_USER_EMAIL_RECOVERY_V2")
	wants(t, "who recovers asks who he is", recovery.Query("whoami", nil), 200, "")
	wants(t, "a query", recovery.Query("list_wallets", nil), 403, "")
	for typ, in := range map[string]object{
		"CREATE_WALLET":      client.Wallet("x"),
		"STAMP_LOGIN":        {"publicKey": client.NewKey().PublicKey},
		"CREATE_API_KEYS_V2": {"userId": p.User.User, "apiKeys": []any{client.APIKey("k", client.NewKey())}},
		"APPROVE_ACTIVITY":   {"fingerprint": "sha256:" + strings.Repeat("0", 64)},
	} {
		wants(t, typ, recovery.Submit(typ, in), 403, "")
	}
	// Nor below: what a parent's users may start and read there, they may with their own keys.
	below := p.As(p.below("userEmail", address, nil).Organization, "", recovery.Key)
	wants(t, "a log-in below", below.Submit("EMAIL_AUTH_V3", to), 403, "")
	wants(t, "a query below", below.Query("list_wallets", nil), 403, "")
	passkey, err := authenticator.New(authenticator.ES256, "example.org", "https://example.org")
	if err != nil {
		t.Fatal(err)
	}
	made, err := passkey.Register([]byte("challenge"), authenticator.None)
	if err != nil {
		t.Fatal(err)
	}
	in := object{"userId": p.User.User, "authenticator": made.Params("recovered")}
	wants(t, "by another key", p.Submit("RECOVER_USER", in), 400, "", "by the key that was mailed")
	wants(t, "by the key that was mailed", recovery.Submit("RECOVER_USER", in), 200, "")
	wants(t, "the key outlives the recovery", recovery.Query("whoami", nil), 401, "")
}

// encapsulation is a key to which an enclave encrypts, and its public part in hex.
func encapsulation(t *testing.T) (*ecdh.PrivateKey, string) {
	t.Helper()
	k, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k, hex.EncodeToString(k.PublicKey().Bytes())
}

// token gives a verification token about a contact that is bound to a key.
func (p *post) token(options object, bound laptop.KeyPair) string {
	p.Test.Helper()
	otp := p.Do("INIT_OTP_V2", options)
	return p.Do("VERIFY_OTP", object{"otpId": otp["otpId"], "otpCode": p.code(options["contact"].(string)), "publicKey": bound.PublicKey})["verificationToken"].(string)
}

// vouched is a user who stamps by a key for which a verification token vouches.
func vouched(u *client.User, organization string, key laptop.KeyPair, token string) *client.User {
	return attested(u.As(organization, "", key), "VERIFICATION_TOKEN", token)
}

// What newer clients do: the token's key itself stamps the log-in, and names the parent
// or the sub-organization. It logs in once, and approves as often as it is asked.
func TestTokensVouch(t *testing.T) {
	dir := t.TempDir()
	p := startPost(t, rig.Options{Dir: dir})
	enable(p.User, "OTP_EMAIL_AUTH")
	const address = "someone@example.org"
	options := object{"otpType": "OTP_TYPE_EMAIL", "contact": address, "appName": "App"}
	bound, session := client.NewKey(), client.NewKey()
	logIn := func(at string, by laptop.KeyPair, token string) client.Reply {
		return vouched(p.User, at, by, token).Submit("STAMP_LOGIN", object{"publicKey": session.PublicKey})
	}
	top, token := p.Organization, p.token(options, bound)
	nobody := vouched(p.User, top, bound, token).Submit("STAMP_LOGIN", object{"publicKey": client.NewKey().PublicKey})
	wants(t, "nobody has the contact", nobody, 401, "")
	owner := p.below("userEmail", address, nil, client.NewKey())
	sub := owner.Organization
	wants(t, "the contact is not verified, so the parent does not find it", logIn(top, bound, token), 401, "")
	wants(t, "another key", logIn(sub, client.NewKey(), token), 401, "")
	wants(t, "a forged token", logIn(sub, bound, token[:len(token)-4]+"AAAA"), 401, "")
	wants(t, "another kind", vouched(p.User, sub, bound, token).Submit("CREATE_WALLET", client.Wallet("w")), 401, "")
	if got := logIn(sub, bound, token); got.Status != 200 {
		t.Fatalf("%v", got)
	}
	wants(t, "whoami", p.As(sub, "", session).Query("whoami", nil), 200, "")
	wants(t, "a second log-in", logIn(sub, bound, token), 400, "", "invalid verification token")
	// Now the contact is verified, and the parent leads there.
	token = p.token(options, bound)
	if got := logIn(top, bound, token); got.Status != 200 || got.Text("activity", "organizationId") != sub {
		t.Errorf("by the parent: %v", got)
	}
	// A step of MFA.
	owner.Do("CREATE_USER_TAG", client.Tag("first"))
	owner.Do("CREATE_MFA_POLICY", object{"userId": owner.User, "mfaPolicyName": "M", "condition": "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "order": 1,
		"requiredAuthenticationMethods": []any{object{"any": []any{object{"type": "AUTHENTICATION_TYPE_EMAIL_OTP"}}}}})
	asked := owner.Submit("CREATE_USER_TAG", client.Tag("second"))
	if asked.State() != "AUTHENTICATORS_NEEDED" {
		t.Fatalf("%v", asked)
	}
	vote := voteOn(asked)
	if got := vouched(p.User, sub, bound, token).Submit("APPROVE_ACTIVITY", vote); !got.Completed() {
		t.Errorf("the factor: %v", got)
	}
	// What was issued before a restart vouches for nobody.
	token = p.token(options, bound)
	p.rig.Stop()
	p = startPost(t, rig.Options{Dir: dir})
	wants(t, "after a restart", logIn(sub, bound, token), 401, "", "expired")
}

// boundedPost is the root user of an organization with a user of policies, and a session of the root user that a profile bounds
// to log-ins.
type boundedPost struct {
	*client.User
	clerk, session *client.User
	clock          *clocktest.Clock
}

const sandboxAddress = "user@example.com"

func startBoundedPost(t *testing.T) *boundedPost {
	c := clocktest.New()
	r := rig.Start(t, rig.Options{Clock: c, Configuration: []byte(`{"sandbox":true,"mail":{"host":"127.0.0.1","port":1,"security":"plain","sender":{"address":"codes@cloister.example"}}}`)})
	p := &boundedPost{User: r.Root(), clock: c}
	enable(p.User, "OTP_EMAIL_AUTH", "EMAIL_AUTH")
	p.Do("UPDATE_USER_EMAIL", object{"userId": p.User.User, "userEmail": sandboxAddress})
	p.clerk = p.NewUser("Clerk")
	p.Do("CREATE_POLICY_V3", client.Policy("two", "ALLOW", "activity.kind == 'CREATE_USER_TAG'", "approvers.count() >= 2"))
	profile := p.Do("CREATE_SESSION_PROFILE", object{"sessionProfileName": "Codes", "scope": "activity.resource in ['OTP', 'AUTH']"})["sessionProfileId"]
	p.session = p.logIn(client.NewKey(), "STAMP_LOGIN", object{"sessionProfileId": profile})
	return p
}

// logIn starts a session with a key, and returns who has it.
func (p *boundedPost) logIn(key laptop.KeyPair, typ string, in object) *client.User {
	p.Test.Helper()
	in["publicKey"] = key.PublicKey
	p.Do(typ, in)
	return p.As(p.Organization, p.User.User, key)
}

// options is what a code is asked for with.
func (p *boundedPost) options() object {
	return object{"otpType": "OTP_TYPE_EMAIL", "contact": sandboxAddress, "appName": "App", "otpLength": 6, "alphanumeric": false}
}

// otp has one user ask for a code and another exchange it for a token, bound to a key if one is given.
func (p *boundedPost) otp(by, verifies *client.User, bound ...laptop.KeyPair) string {
	p.Test.Helper()
	p.clock.Pass(time.Minute + time.Second) // three codes in three minutes
	in := object{"otpId": by.Do("INIT_OTP_V2", p.options())["otpId"], "otpCode": "000000"}
	for _, k := range bound {
		in["publicKey"] = k.PublicKey
	}
	return client.Text(verifies.Do("VERIFY_OTP", in), "verificationToken")
}

// legacy has a user ask for a code that OTP_AUTH takes, and returns its id.
func (p *boundedPost) legacy(by *client.User) any {
	p.Test.Helper()
	options := p.options()
	options["emailCustomization"] = object{"appName": "App"}
	delete(options, "appName")
	p.clock.Pass(time.Minute + time.Second)
	return by.Do("INIT_OTP_AUTH_V2", options)["otpId"]
}

// vouched is a user who stamps by a key for which a verification token vouches.
func (p *boundedPost) vouched(key laptop.KeyPair, token string) *client.User {
	return vouched(p.User, p.Organization, key, token)
}

// waiting is the vote on a new activity of the clerk's that waits.
func (p *boundedPost) waiting(name string) object {
	p.Test.Helper()
	asked := p.clerk.Submit("CREATE_USER_TAG", client.Tag(name))
	if asked.State() != "CONSENSUS_NEEDED" {
		p.Test.Fatalf("%v", asked)
	}
	return voteOn(asked)
}

// What a bounded session can have made is bounded like itself: a token that it got, a token for a code that it asked for, a session
// by such a code.
func TestBoundedSessionsTokens(t *testing.T) {
	p := startBoundedPost(t)
	vote := p.waiting("tag")
	wants(t, "the session itself", p.session.Submit("APPROVE_ACTIVITY", vote), 403, "REQUEST_NOT_AUTHORIZED")
	for what, by := range map[string][2]*client.User{"a token that it got": {p.session, p.session}, "a code that it asked for": {p.session, p.User}, "a code that it exchanged": {p.User, p.session}} {
		bound, k := client.NewKey(), client.NewKey()
		token := p.otp(by[0], by[1], bound)
		wants(t, what, p.vouched(bound, token).Submit("APPROVE_ACTIVITY", vote), 403, "")
		wants(t, what+", to log in", p.vouched(bound, token).Submit("STAMP_LOGIN", object{"publicKey": k.PublicKey}), 200, "")
		wants(t, what+", by the session that came of it", p.As(p.Organization, "", k).Submit("APPROVE_ACTIVITY", vote), 403, "REQUEST_NOT_AUTHORIZED")
	}
	private, target := encapsulation(t)
	got := p.Do("OTP_AUTH", object{"otpId": p.legacy(p.session), "otpCode": "000000", "targetPublicKey": target})
	mailed := p.As(p.Organization, "", openBundle(t, private, got["credentialBundle"].(string)))
	wants(t, "a session by a code that it asked for", mailed.Submit("APPROVE_ACTIVITY", vote), 403, "REQUEST_NOT_AUTHORIZED")
	free := client.NewKey()
	if got := p.vouched(free, p.otp(p.User, p.User, free)).Submit("APPROVE_ACTIVITY", vote); !got.Completed() {
		t.Errorf("a token of nobody bounded: %v", got)
	}
}

// Tokens and codes from before sessions were ended log nobody in and vouch for nobody.
func TestTokensEndWithSessions(t *testing.T) {
	p := startBoundedPost(t)
	bound := client.NewKey()
	token := p.otp(p.User, p.User, bound)
	unbound, last := p.otp(p.User, p.User), p.otp(p.User, p.User) // tokens that are bound to no key
	legacy := p.legacy(p.User)
	vote := p.waiting("tag")
	p.clock.Pass(time.Second)
	in := p.logIn(client.NewKey(), "OTP_LOGIN", object{"verificationToken": last, "invalidateExisting": true})
	wants(t, "the log-in that ended the others", in.Query("whoami", nil), 200, "")
	late := p.Submit("OTP_LOGIN", object{"verificationToken": unbound, "publicKey": client.NewKey().PublicKey})
	wants(t, "a log-in", late, 400, none, "verification token has expired")
	_, target := encapsulation(t)
	late = p.Submit("OTP_AUTH", object{"otpId": legacy, "otpCode": "000000", "targetPublicKey": target})
	wants(t, "a code", late, 400, none, "Invalid OTP code")
	for typ, in := range map[string]object{"STAMP_LOGIN": {"publicKey": client.NewKey().PublicKey}, "APPROVE_ACTIVITY": vote} {
		wants(t, typ, p.vouched(bound, token).Submit(typ, in), 401, "", "expired")
	}
	wants(t, "a new token", p.vouched(bound, p.otp(p.User, p.User, bound)).Submit("APPROVE_ACTIVITY", vote), 200, "")
}
