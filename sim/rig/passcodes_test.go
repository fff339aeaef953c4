package rig_test

import (
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/authenticator"
	"cloister/sim/inbox"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// post is a rig whose mail and text messages arrive in an inbox.
type post struct {
	*rig.Rig
	t   *testing.T
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
	sms := httptest.NewServer(box.Handler(gateway))
	t.Cleanup(sms.Close)
	o.Configuration, err = json.Marshal(map[string]any{
		"mail": map[string]any{"host": "127.0.0.1", "port": mail.Addr().(*net.TCPAddr).Port, "security": "plain", "sender": map[string]any{"address": "codes@cloister.example"}},
		"text": map[string]any{"url": sms.URL + "/sms", "user": gateway.User, "password": gateway.Password, "from": "+15550100"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &post{rig.Start(t, o), t, box}
}

// next waits for a message to somebody and takes what it says in the part that holds
// of.
func (p *post) next(to string, of *regexp.Regexp) string {
	p.t.Helper()
	clocktest.Until(p.t, "something arrives for "+to, func() bool { return len(p.box.Messages(to)) > 0 })
	text := p.box.Messages(to)[0].Text
	found := of.FindStringSubmatch(text)
	if found == nil {
		p.t.Fatalf("no %v in %q", of, text)
	}
	p.box.Clear()
	return found[1]
}

var (
	codeIn   = regexp.MustCompile(`(?m)(?:^ {4}| is )([0-9A-HJKMNP-TV-Z]{6,9})\s*$`)
	bundleIn = regexp.MustCompile(`(?m)^ {4}([1-9A-HJ-NP-Za-km-z]{50,})\s*$`)
)

func (p *post) code(to string) string { return p.next(to, codeIn) }

// done is the result of an activity of organization, stamped by key.
func (p *post) done(organization, op, typ string, parameters any, key laptop.KeyPair) map[string]any {
	p.t.Helper()
	status, m := p.in(organization, op, typ, parameters, key)
	if status != 200 || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
		p.t.Fatalf("%s: %d %v", typ, status, m)
	}
	for _, r := range rig.Get(m, "activity", "result").(map[string]any) {
		return r.(map[string]any)
	}
	p.t.Fatalf("%s: no result", typ)
	return nil
}

func (p *post) in(organization, op, typ string, parameters any, key laptop.KeyPair) (int, map[string]any) {
	p.t.Helper()
	return p.send(wire.EndpointSubmit, op, p.BodyOf(organization, "ACTIVITY_TYPE_"+typ, parameters), key)
}

func (p *post) send(endpoint wire.Endpoint, op string, body []byte, key laptop.KeyPair) (int, map[string]any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	reply, err := p.Send(ctx, endpoint, op, body, key)
	if err != nil {
		p.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(reply.Body, &m); err != nil {
		p.t.Fatal(err)
	}
	return int(reply.Status), m
}

func newKeyPair(t *testing.T) laptop.KeyPair {
	t.Helper()
	k, err := laptop.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

type object = map[string]any

// Sign-up and log-in by mail and by telephone, from the parent's key, through a host
// that carries bytes: the same token signs up once and logs in once.
func TestPasscodesEndToEnd(t *testing.T) {
	p := startPost(t, rig.Options{})
	top, root := p.Credentials.OrganizationID, p.Credentials.RootAPIKey
	for _, f := range []string{"FEATURE_NAME_OTP_EMAIL_AUTH", "FEATURE_NAME_SMS_AUTH"} {
		p.done(top, "set_organization_feature", "SET_ORGANIZATION_FEATURE", object{"name": f, "value": ""}, root)
	}
	for _, c := range []struct{ typ, contact, field string }{
		{"OTP_TYPE_EMAIL", "someone@example.org", "userEmail"}, {"OTP_TYPE_SMS", "+15551234567", "userPhoneNumber"},
	} {
		otp := p.done(top, "init_otp", "INIT_OTP_V2", object{"otpType": c.typ, "contact": c.contact, "appName": "App"}, root)
		tok := p.done(top, "verify_otp", "VERIFY_OTP", object{"otpId": otp["otpId"], "otpCode": p.code(c.contact)}, root)["verificationToken"]
		sub := rig.Text(p.done(top, "create_sub_organization", "CREATE_SUB_ORGANIZATION_V7", object{"subOrganizationName": c.contact, "rootQuorumThreshold": 1,
			"verificationToken": tok, "rootUsers": []any{object{"userName": "U", c.field: c.contact, "apiKeys": []any{}, "authenticators": []any{}, "oauthProviders": []any{}}}}, root), "subOrganizationId")
		session := newKeyPair(t)
		body := p.BodyOf(sub, "ACTIVITY_TYPE_OTP_LOGIN", object{"verificationToken": tok, "publicKey": session.PublicKey})
		status, first := p.send(wire.EndpointSubmit, "otp_login", body, root)
		if status != 200 {
			t.Fatalf("otp_login: %d %v", status, first)
		}
		if status, again := p.send(wire.EndpointSubmit, "otp_login", body, root); status != 200 || rig.Text(again, "activity", "id") != rig.Text(first, "activity", "id") {
			t.Errorf("the same body again: %d %v", status, again)
		}
		if got := rig.Text(first, "activity", "organizationId"); got != sub {
			t.Errorf("the activity is of %s", got)
		}
		status, who := p.send(wire.EndpointQuery, "whoami", []byte(fmt.Sprintf(`{"organizationId":%q}`, sub)), session)
		if status != 200 || rig.Text(who, "organizationId") != sub {
			t.Errorf("whoami: %d %v", status, who)
		}
		if status, m := p.in(sub, "otp_login", "OTP_LOGIN", object{"verificationToken": tok, "publicKey": newKeyPair(t).PublicKey}, root); status != 400 {
			t.Errorf("a second log-in: %d %v", status, m)
		}
	}
}

// Who may start a log-in below: users of the parent whom its policies let, at once.
func TestLoginsFromAbove(t *testing.T) {
	p := startPost(t, rig.Options{Organizations: 1})
	top, root := p.Credentials.OrganizationID, p.Credentials.RootAPIKey
	p.done(top, "set_organization_feature", "SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_OTP_EMAIL_AUTH", "value": ""}, root)
	sub := rig.Text(p.done(top, "create_sub_organization", "CREATE_SUB_ORGANIZATION_V7", object{"subOrganizationName": "Sub", "rootQuorumThreshold": 1,
		"rootUsers": []any{object{"userName": "U", "userEmail": "someone@example.org", "apiKeys": []any{}, "authenticators": []any{}, "oauthProviders": []any{}}}}, root), "subOrganizationId")
	agent := newKeyPair(t)
	users := p.done(top, "create_users", "CREATE_USERS_V3", object{"users": []any{object{"userName": "Agent", "apiKeys": []any{object{"apiKeyName": "k", "publicKey": agent.PublicKey,
		"curveType": "API_KEY_CURVE_P256"}}, "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}}}}, root)
	token := func() any {
		otp := p.done(top, "init_otp", "INIT_OTP_V2", object{"otpType": "OTP_TYPE_EMAIL", "contact": "someone@example.org", "appName": "App"}, root)
		return p.done(top, "verify_otp", "VERIFY_OTP", object{"otpId": otp["otpId"], "otpCode": p.code("someone@example.org")}, root)["verificationToken"]
	}
	tok := token()
	logIn := func(key laptop.KeyPair) (int, map[string]any) {
		return p.in(sub, "otp_login", "OTP_LOGIN", object{"verificationToken": tok, "publicKey": newKeyPair(t).PublicKey}, key)
	}
	if status, m := logIn(agent); status != 403 {
		t.Errorf("without a policy: %d %v", status, m)
	}
	var others []struct{ RootAPIKey laptop.KeyPair }
	b, err := os.ReadFile(filepath.Join(p.Dir.Path, "organizations.json"))
	if err == nil {
		err = json.Unmarshal(b, &others)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]laptop.KeyPair{"nobody": newKeyPair(t), "another's root": others[0].RootAPIKey} {
		if status, m := logIn(key); status != 401 || rig.Text(m, "turnkeyErrorCode") != "PUBLIC_KEY_NOT_FOUND" {
			t.Errorf("%s: %d %v", name, status, m)
		}
	}
	if status, m := p.in(sub, "create_wallet", "CREATE_WALLET", object{"walletName": "w", "accounts": []any{}}, root); status != 400 || rig.Text(m, "turnkeyErrorCode") != "ORGANIZATION_MISMATCH" {
		t.Errorf("another kind: %d %v", status, m)
	}
	allow := object{"policyName": "logins", "effect": "EFFECT_ALLOW", "consensus": "approvers.any(user, user.id == '" + rig.Text(users, "userIds", "0") + "')", "condition": "activity.resource == 'AUTH'", "notes": ""}
	p.done(top, "create_policy", "CREATE_POLICY_V3", allow, root)
	if status, m := logIn(agent); status != 200 {
		t.Fatalf("with a policy: %d %v", status, m)
	}
	// Two of the parent's root users must agree: nobody below could vote on it.
	second := newKeyPair(t)
	added := p.done(top, "create_users", "CREATE_USERS_V3", object{"users": []any{object{"userName": "Second", "apiKeys": []any{object{"apiKeyName": "k", "publicKey": second.PublicKey,
		"curveType": "API_KEY_CURVE_P256"}}, "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}}}}, root)
	tok = token()
	p.done(top, "update_root_quorum", "UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{p.Credentials.RootUserID, rig.Text(added, "userIds", "0")}}, root)
	if status, m := logIn(second); status != 400 || !strings.Contains(rig.Text(m, "message"), "must be allowed at once") {
		t.Errorf("half a quorum: %d %v", status, m)
	}
	if status, m := logIn(agent); status != 200 {
		t.Errorf("by the policy still: %d %v", status, m)
	}
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
	top, root := p.Credentials.OrganizationID, p.Credentials.RootAPIKey
	for _, f := range []string{"EMAIL_RECOVERY", "ROOT_USER_EMAIL_RECOVERY", "EMAIL_AUTH"} {
		p.done(top, "set_organization_feature", "SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_" + f, "value": ""}, root)
	}
	const address = "someone@example.org"
	p.done(top, "update_user_email", "UPDATE_USER_EMAIL", object{"userId": p.Credentials.RootUserID, "userEmail": address}, root)
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	to := object{"email": address, "targetPublicKey": hex.EncodeToString(private.PublicKey().Bytes()), "emailCustomization": object{"appName": "App"}}
	whoami := func(key laptop.KeyPair) int {
		status, _ := p.send(wire.EndpointQuery, "whoami", []byte(fmt.Sprintf(`{"organizationId":%q}`, top)), key)
		return status
	}
	p.done(top, "email_auth", "EMAIL_AUTH_V3", to, root)
	mailed := openBundle(t, private, p.next(address, bundleIn))
	if status, m := p.in(top, "create_wallet", "CREATE_WALLET", object{"walletName": "w", "accounts": []any{}}, mailed); status != 200 || whoami(mailed) != 200 {
		t.Errorf("by the key of a mail: %d %v", status, m)
	}
	p.done(top, "init_user_email_recovery", "INIT_USER_EMAIL_RECOVERY_V2", to, root)
	recovery := openBundle(t, private, p.next(address, bundleIn))
	if whoami(recovery) != 200 {
		t.Error("who recovers cannot ask who he is")
	}
	if status, m := p.send(wire.EndpointQuery, "list_wallets", []byte(fmt.Sprintf(`{"organizationId":%q}`, top)), recovery); status != 403 {
		t.Errorf("a query: %d %v", status, m)
	}
	for _, c := range []struct {
		op, typ string
		params  object
	}{
		{"create_wallet", "CREATE_WALLET", object{"walletName": "x", "accounts": []any{}}},
		{"stamp_login", "STAMP_LOGIN", object{"publicKey": newKeyPair(t).PublicKey}},
		{"create_api_keys", "CREATE_API_KEYS_V2", object{"userId": p.Credentials.RootUserID, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": newKeyPair(t).PublicKey, "curveType": "API_KEY_CURVE_P256"}}}},
		{"approve_activity", "APPROVE_ACTIVITY", object{"fingerprint": "sha256:" + strings.Repeat("0", 64)}},
	} {
		if status, m := p.in(top, c.op, c.typ, c.params, recovery); status != 403 {
			t.Errorf("%s: %d %v", c.typ, status, m)
		}
	}
	// Nor below: what a parent's users may start and read there, they may with their own keys.
	sub := rig.Text(p.done(top, "create_sub_organization", "CREATE_SUB_ORGANIZATION_V7", object{"subOrganizationName": "Sub", "rootQuorumThreshold": 1, "rootUsers": []any{
		object{"userName": "U", "userEmail": address, "apiKeys": []any{}, "authenticators": []any{}, "oauthProviders": []any{}}}}, root), "subOrganizationId")
	if status, m := p.in(sub, "email_auth", "EMAIL_AUTH_V3", to, recovery); status != 403 {
		t.Errorf("a log-in below: %d %v", status, m)
	}
	if status, m := p.send(wire.EndpointQuery, "list_wallets", []byte(fmt.Sprintf(`{"organizationId":%q}`, sub)), recovery); status != 403 {
		t.Errorf("a query below: %d %v", status, m)
	}
	passkey, err := authenticator.New(authenticator.ES256, "example.org", "https://example.org")
	if err != nil {
		t.Fatal(err)
	}
	made, err := passkey.Register([]byte("challenge"), authenticator.None)
	if err != nil {
		t.Fatal(err)
	}
	recover := func(key laptop.KeyPair) (int, object) {
		return p.in(top, "recover_user", "RECOVER_USER", object{"userId": p.Credentials.RootUserID, "authenticator": made.Params("recovered")}, key)
	}
	if status, m := recover(root); status != 400 || !strings.Contains(rig.Text(m, "message"), "by the key that was mailed") {
		t.Errorf("by another key: %d %v", status, m)
	}
	if status, m := recover(recovery); status != 200 {
		t.Errorf("%d %v", status, m)
	}
	if whoami(recovery) != 401 {
		t.Error("the key outlives the recovery")
	}
}

// token gives a verification token about a contact that is bound to a key.
func (p *post) token(organization string, by laptop.KeyPair, options object, bound laptop.KeyPair) string {
	p.t.Helper()
	otp := p.done(organization, "init_otp", "INIT_OTP_V2", options, by)
	return p.done(organization, "verify_otp", "VERIFY_OTP", object{"otpId": otp["otpId"], "otpCode": p.code(options["contact"].(string)), "publicKey": bound.PublicKey}, by)["verificationToken"].(string)
}

// attested sends an activity stamped by a key for which a verification token vouches.
func (p *post) attested(organization, op, typ string, parameters any, key laptop.KeyPair, token string) (int, map[string]any) {
	p.t.Helper()
	body := p.BodyOf(organization, "ACTIVITY_TYPE_"+typ, parameters)
	raw, err := hex.DecodeString(key.PrivateKey)
	if err != nil {
		p.t.Fatal(err)
	}
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		p.t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	sig, err := ecdsa.SignASN1(rand.Reader, private, sum[:])
	if err != nil {
		p.t.Fatal(err)
	}
	head, err := json.Marshal(object{"publicKeyAttestation": token, "scheme": "STAMP_ATTESTED_SCHEME_P256_VERIFICATION_TOKEN", "publicKey": key.PublicKey, "signature": hex.EncodeToString(sig)})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	reply, err := p.Link.Call(ctx, &wire.Call{Endpoint: wire.EndpointSubmit, Op: op, Body: body, Head: []wire.Header{{Name: "X-Stamp-Attested", Value: base64.RawURLEncoding.EncodeToString(head)}}})
	if err != nil {
		p.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(reply.Body, &m); err != nil {
		p.t.Fatal(err)
	}
	return int(reply.Status), m
}

// What newer clients do: the token's key itself stamps the log-in, and names the parent
// or the sub-organization. It logs in once, and approves as often as it is asked.
func TestTokensVouch(t *testing.T) {
	dir := t.TempDir()
	p := startPost(t, rig.Options{Dir: dir})
	top, root := p.Credentials.OrganizationID, p.Credentials.RootAPIKey
	p.done(top, "set_organization_feature", "SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_OTP_EMAIL_AUTH", "value": ""}, root)
	const address = "someone@example.org"
	options := object{"otpType": "OTP_TYPE_EMAIL", "contact": address, "appName": "App"}
	bound := newKeyPair(t)
	token := p.token(top, root, options, bound)
	if status, m := p.attested(top, "stamp_login", "STAMP_LOGIN", object{"publicKey": newKeyPair(t).PublicKey}, bound, token); status != 401 {
		t.Errorf("nobody has the contact: %d %v", status, m)
	}
	owner := newKeyPair(t)
	sub := rig.Text(p.done(top, "create_sub_organization", "CREATE_SUB_ORGANIZATION_V7", object{"subOrganizationName": "Sub", "rootQuorumThreshold": 1,
		"rootUsers": []any{object{"userName": "U", "userEmail": address, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": owner.PublicKey, "curveType": "API_KEY_CURVE_P256"}},
			"authenticators": []any{}, "oauthProviders": []any{}}}}, root), "subOrganizationId")
	session := newKeyPair(t)
	logIn := func(at string, by laptop.KeyPair, token string) (int, map[string]any) {
		return p.attested(at, "stamp_login", "STAMP_LOGIN", object{"publicKey": session.PublicKey}, by, token)
	}
	if status, m := logIn(top, bound, token); status != 401 {
		t.Errorf("the contact is not verified, so the parent does not find it: %d %v", status, m)
	}
	if status, m := logIn(sub, newKeyPair(t), token); status != 401 {
		t.Errorf("another key: %d %v", status, m)
	}
	if status, m := logIn(sub, bound, token[:len(token)-4]+"AAAA"); status != 401 {
		t.Errorf("a forged token: %d %v", status, m)
	}
	if status, m := p.attested(sub, "create_wallet", "CREATE_WALLET", object{"walletName": "w", "accounts": []any{}}, bound, token); status != 401 {
		t.Errorf("another kind: %d %v", status, m)
	}
	if status, m := logIn(sub, bound, token); status != 200 {
		t.Fatalf("%d %v", status, m)
	}
	if status, who := p.send(wire.EndpointQuery, "whoami", []byte(fmt.Sprintf(`{"organizationId":%q}`, sub)), session); status != 200 {
		t.Errorf("whoami: %d %v", status, who)
	}
	if status, m := logIn(sub, bound, token); status != 400 || !strings.Contains(rig.Text(m, "message"), "invalid verification token") {
		t.Errorf("a second log-in: %d %v", status, m)
	}
	// Now the contact is verified, and the parent leads there.
	token = p.token(top, root, options, bound)
	if status, m := logIn(top, bound, token); status != 200 || rig.Text(m, "activity", "organizationId") != sub {
		t.Errorf("by the parent: %d %v", status, m)
	}
	// A step of MFA.
	user := rig.Text(p.done(sub, "create_user_tag", "CREATE_USER_TAG", object{"userTagName": "first", "userIds": []any{}}, owner), "userTagId")
	if user == "" {
		t.Fatal("no tag")
	}
	_, who := p.send(wire.EndpointQuery, "whoami", []byte(fmt.Sprintf(`{"organizationId":%q}`, sub)), owner)
	p.done(sub, "create_mfa_policy", "CREATE_MFA_POLICY", object{"userId": who["userId"], "mfaPolicyName": "M", "condition": "activity.type == 'ACTIVITY_TYPE_CREATE_USER_TAG'", "order": 1,
		"requiredAuthenticationMethods": []any{object{"any": []any{object{"type": "AUTHENTICATION_TYPE_EMAIL_OTP"}}}}}, owner)
	_, asked := p.in(sub, "create_user_tag", "CREATE_USER_TAG", object{"userTagName": "second", "userIds": []any{}}, owner)
	if s := rig.Text(asked, "activity", "status"); s != "ACTIVITY_STATUS_AUTHENTICATORS_NEEDED" {
		t.Fatalf("%v", asked)
	}
	vote := object{"fingerprint": rig.Text(asked, "activity", "fingerprint")}
	if status, m := p.attested(sub, "approve_activity", "APPROVE_ACTIVITY", vote, bound, token); status != 200 || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
		t.Errorf("the factor: %d %v", status, m)
	}
	// What was issued before a restart vouches for nobody.
	token = p.token(top, root, options, bound)
	p.Stop()
	p = startPost(t, rig.Options{Dir: dir})
	if status, m := logIn(sub, bound, token); status != 401 || !strings.Contains(rig.Text(m, "message"), "expired") {
		t.Errorf("after a restart: %d %v", status, m)
	}
}

// boundedPost is an organization with a user of policies, and a session of its root user that a profile bounds to log-ins.
type boundedPost struct {
	*post
	rateClient
	top     string
	root    laptop.KeyPair
	clerk   laptop.KeyPair
	profile string
	session laptop.KeyPair
	clock   *clocktest.Clock
}

const sandboxAddress = "user@example.com"

func startBoundedPost(t *testing.T) *boundedPost {
	c := clocktest.New()
	r := rig.Start(t, rig.Options{Clock: c, Configuration: []byte(`{"sandbox":true,"mail":{"host":"127.0.0.1","port":1,"security":"plain","sender":{"address":"codes@cloister.example"}}}`)})
	p := &boundedPost{post: &post{Rig: r, t: t}, rateClient: rateClient{t, r}, top: r.Credentials.OrganizationID, root: r.Credentials.RootAPIKey, clock: c}
	for _, f := range []string{"OTP_EMAIL_AUTH", "EMAIL_AUTH"} {
		p.rateClient.done(p.root, p.top, "SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_" + f, "value": ""})
	}
	p.rateClient.done(p.root, p.top, "UPDATE_USER_EMAIL", object{"userId": r.Credentials.RootUserID, "userEmail": sandboxAddress})
	_, p.clerk = p.user("Clerk")
	p.rateClient.done(p.root, p.top, "CREATE_POLICY_V3", object{"policyName": "two", "effect": "EFFECT_ALLOW", "consensus": "approvers.count() >= 2", "condition": "activity.kind == 'CREATE_USER_TAG'", "notes": ""})
	p.profile = rig.Text(p.rateClient.done(p.root, p.top, "CREATE_SESSION_PROFILE", object{"sessionProfileName": "Codes", "scope": "activity.resource in ['OTP', 'AUTH']"}), "sessionProfileId")
	p.session, _ = p.login(p.root, p.top, "sessionProfileId", p.profile)
	return p
}

// options is what a code is asked for with.
func (p *boundedPost) options() object {
	return object{"otpType": "OTP_TYPE_EMAIL", "contact": sandboxAddress, "appName": "App", "otpLength": 6, "alphanumeric": false}
}

// otp has one key ask for a code and another exchange it for a token bound to a key.
func (p *boundedPost) otp(by, verifies, bound laptop.KeyPair) string {
	p.rateClient.t.Helper()
	p.clock.Pass(time.Minute + time.Second) // three codes in three minutes
	id := p.rateClient.done(by, p.top, "INIT_OTP_V2", p.options())["otpId"]
	return rig.Text(p.rateClient.done(verifies, p.top, "VERIFY_OTP", object{"otpId": id, "otpCode": "000000", "publicKey": bound.PublicKey}), "verificationToken")
}

// waiting is the vote on a new activity of the clerk's that waits.
func (p *boundedPost) waiting(name string) object {
	p.rateClient.t.Helper()
	asked := p.submit(p.clerk, p.top, "CREATE_USER_TAG", object{"userTagName": name, "userIds": []any{}})
	if s := rig.Text(asked.m, "activity", "status"); s != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
		p.rateClient.t.Fatalf("%v", asked)
	}
	return object{"fingerprint": rig.Text(asked.m, "activity", "fingerprint")}
}

// What a bounded session can have made is bounded like itself: a token that it got, a token for a code that it asked for, a session
// by such a code.
func TestBoundedSessionsTokens(t *testing.T) {
	p := startBoundedPost(t)
	vote := p.waiting("tag")
	p.refuses("the session itself", p.submit(p.session, p.top, "APPROVE_ACTIVITY", vote), 403, "REQUEST_NOT_AUTHORIZED")
	for what, by := range map[string][2]laptop.KeyPair{"a token that it got": {p.session, p.session}, "a code that it asked for": {p.session, p.root}, "a code that it exchanged": {p.root, p.session}} {
		bound := newKey(t)
		token := p.otp(by[0], by[1], bound)
		if status, m := p.attested(p.top, "approve_activity", "APPROVE_ACTIVITY", vote, bound, token); status != 403 {
			t.Errorf("%s: %d %v", what, status, m)
		}
		k := newKey(t)
		if status, m := p.attested(p.top, "stamp_login", "STAMP_LOGIN", object{"publicKey": k.PublicKey}, bound, token); status != 200 {
			t.Errorf("%s, to log in: %d %v", what, status, m)
		}
		p.refuses(what+", by the session that came of it", p.submit(k, p.top, "APPROVE_ACTIVITY", vote), 403, "REQUEST_NOT_AUTHORIZED")
	}
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	options := p.options()
	options["emailCustomization"] = object{"appName": "App"}
	delete(options, "appName")
	p.clock.Pass(time.Minute + time.Second)
	legacy := p.rateClient.done(p.session, p.top, "INIT_OTP_AUTH_V2", options)["otpId"]
	got := p.rateClient.done(p.root, p.top, "OTP_AUTH", object{"otpId": legacy, "otpCode": "000000", "targetPublicKey": hex.EncodeToString(private.PublicKey().Bytes())})
	mailed := openBundle(t, private, got["credentialBundle"].(string))
	p.refuses("a session by a code that it asked for", p.submit(mailed, p.top, "APPROVE_ACTIVITY", vote), 403, "REQUEST_NOT_AUTHORIZED")
	free := newKey(t)
	if status, m := p.attested(p.top, "approve_activity", "APPROVE_ACTIVITY", vote, free, p.otp(p.root, p.root, free)); status != 200 || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
		t.Errorf("a token of nobody bounded: %d %v", status, m)
	}
}

// Tokens and codes from before sessions were ended log nobody in and vouch for nobody.
func TestTokensEndWithSessions(t *testing.T) {
	p := startBoundedPost(t)
	bound := newKey(t)
	token := p.otp(p.root, p.root, bound)
	free := func() any { // a token that is bound to no key
		p.clock.Pass(time.Minute + time.Second)
		id := p.rateClient.done(p.root, p.top, "INIT_OTP_V2", p.options())["otpId"]
		return p.rateClient.done(p.root, p.top, "VERIFY_OTP", object{"otpId": id, "otpCode": "000000"})["verificationToken"]
	}
	unbound, last := free(), free()
	options := p.options()
	options["emailCustomization"] = object{"appName": "App"}
	delete(options, "appName")
	p.clock.Pass(time.Minute + time.Second)
	legacy := p.rateClient.done(p.root, p.top, "INIT_OTP_AUTH_V2", options)["otpId"]
	vote := p.waiting("tag")
	p.clock.Pass(time.Second)
	k := newKey(t)
	p.rateClient.done(p.root, p.top, "OTP_LOGIN", object{"verificationToken": last, "publicKey": k.PublicKey, "invalidateExisting": true})
	if got := p.ask(k, p.top, "whoami"); got.status != 200 {
		t.Errorf("the log-in that ended the others: %v", got)
	}
	p.refuses("a log-in", p.submit(p.root, p.top, "OTP_LOGIN", object{"verificationToken": unbound, "publicKey": newKey(t).PublicKey}), 400, "<nil>", "verification token has expired")
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.refuses("a code", p.submit(p.root, p.top, "OTP_AUTH", object{"otpId": legacy, "otpCode": "000000", "targetPublicKey": hex.EncodeToString(private.PublicKey().Bytes())}), 400, "<nil>", "Invalid OTP code")
	for typ, in := range map[string]object{"STAMP_LOGIN": {"publicKey": newKey(t).PublicKey}, "APPROVE_ACTIVITY": vote} {
		if status, m := p.attested(p.top, strings.ToLower(typ), typ, in, bound, token); status != 401 || !strings.Contains(rig.Text(m, "message"), "expired") {
			t.Errorf("%s: %d %v", typ, status, m)
		}
	}
	if status, m := p.attested(p.top, "approve_activity", "APPROVE_ACTIVITY", vote, bound, p.otp(p.root, p.root, bound)); status != 200 {
		t.Errorf("a new token: %d %v", status, m)
	}
}
