package leak_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/sim/laptop"
	"cloister/sim/passcode"
	"cloister/sim/rig"
)

// codeLength is what an organization gets that says nothing: nine letters of base 32,
// 45 bits.
const codeLength = 9

// newCode is a control in the shape of a passcode.
func newCode() *secret {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	b := make([]byte, codeLength)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = alphabet[b[i]%32]
	}
	return &secret{"control", b}
}

// A login is one passcode and how it is used.
type login struct {
	contact, field, typ string
	byProxy             bool // through the auth proxy, or stamped by the organization's key
	encrypted           bool
	code                string
}

// logins are n, by mail and by text and in both ways.
func logins(n int, encrypted bool) []*login {
	all := make([]*login, n)
	for i := range all {
		l := &login{contact: fmt.Sprintf("someone%d-%v@example.org", i, encrypted), field: "userEmail", typ: "OTP_TYPE_EMAIL", byProxy: i/2%2 == 0, encrypted: encrypted}
		if i%2 == 0 {
			l.contact, l.field, l.typ = fmt.Sprintf("+1555123%04d", i), "userPhoneNumber", "OTP_TYPE_SMS"
			if encrypted {
				l.contact = fmt.Sprintf("+1555124%04d", i)
			}
		}
		all[i] = l
	}
	return all
}

// run asks for the passcode, verifies it and logs in with the token.
func (l *login) run(s *stack, o *outside) error {
	sub, err := s.result(&s.tenants[0], "create_sub_organization", "CREATE_SUB_ORGANIZATION_V7", "createSubOrganizationResultV7", map[string]any{"subOrganizationName": l.contact, "rootQuorumThreshold": 1,
		"rootUsers": []any{map[string]any{"userName": "U", l.field: l.contact, "apiKeys": []any{}, "authenticators": []any{}, "oauthProviders": []any{}}}})
	if err != nil {
		return err
	}
	options := map[string]any{"otpType": l.typ, "contact": l.contact}
	if !l.byProxy {
		options["appName"], options["alphanumeric"], options["otpLength"] = "App", true, codeLength
	}
	otp, err := l.ask(s, "otp_init", "init_otp", "INIT_OTP", 2, s.tenants[0].OrganizationID, options)
	if err != nil {
		return err
	}
	if l.code, err = o.code(l.contact); err != nil {
		return err
	}
	client, err := passcode.NewClient()
	if err != nil {
		return err
	}
	attempt := map[string]any{"otpId": otp["otpId"], "otpCode": l.code}
	if l.encrypted {
		delete(attempt, "otpCode")
		if attempt["encryptedOtpBundle"], err = passcode.Encrypt(rig.Text(otp, "otpEncryptionTargetBundle"), s.credentials.Keys.OTP, l.code, client.Public); err != nil {
			return err
		}
	}
	verified, err := l.ask(s, "otp_verify", "verify_otp", "VERIFY_OTP", 1, s.tenants[0].OrganizationID, attempt)
	if err != nil {
		return err
	}
	session, err := laptop.NewKey()
	if err != nil {
		return err
	}
	token := rig.Text(verified, "verificationToken")
	in := map[string]any{"verificationToken": token, "publicKey": session.PublicKey}
	if l.encrypted {
		if in["clientSignature"], err = client.SignLogIn(token, session.PublicKey); err != nil {
			return err
		}
	}
	if l.byProxy {
		in["organizationId"] = rig.Text(sub, "subOrganizationId")
	}
	got, err := l.ask(s, "otp_login", "otp_login", "OTP_LOGIN", 1, rig.Text(sub, "subOrganizationId"), in)
	if err == nil && rig.Text(got, "session") == "" {
		err = errors.New("no session")
	}
	return err
}

// ask sends a step in the way of the log-in: to the auth proxy at one path, or as an
// activity at another. The encrypted form is one version above the older one.
func (l *login) ask(s *stack, path, op, typ string, version int, organization string, body map[string]any) (map[string]any, error) {
	if l.byProxy {
		if l.encrypted {
			path += "_v2"
		}
		return s.visit(path, body)
	}
	if l.encrypted {
		version++
	}
	if version > 1 {
		typ = fmt.Sprintf("%s_V%d", typ, version)
	}
	m, err := s.submit(&laptop.Organization{OrganizationID: organization, RootAPIKey: s.tenants[0].RootAPIKey}, op, "ACTIVITY_TYPE_"+typ, body)
	if err != nil {
		return nil, err
	}
	for _, r := range rig.Get(m, "activity", "result").(map[string]any) {
		return r.(map[string]any), nil
	}
	return nil, fmt.Errorf("%s: no result: %v", typ, m)
}

// codes are the passcodes as they are searched for: as they were sent and in lower
// case, each in all encodings.
func codes(kind string, all []*login) (secrets []*secret) {
	for _, l := range all {
		secrets = append(secrets, &secret{kind, []byte(l.code)})
		if lower := strings.ToLower(l.code); lower != l.code {
			secrets = append(secrets, &secret{kind, []byte(lower)})
		}
	}
	return secrets
}

// asksForAll has the activities of a type shown again, in the list and each by itself.
func (s *stack) asksForAll(typ string, want int) {
	s.t.Helper()
	m := s.query(&s.tenants[0], "list_activities", map[string]any{"filterByType": []string{typ}, "paginationOptions": map[string]any{"limit": "100"}})
	all := m["activities"].([]any)
	for _, a := range all {
		got := s.query(&s.tenants[0], "get_activity", map[string]any{"activityId": a.(map[string]any)["id"]})
		if status := rig.Get(got, "activity", "status"); status != "ACTIVITY_STATUS_COMPLETED" {
			s.t.Errorf("%s: %v", typ, status)
		}
	}
	if len(all) != want {
		s.t.Errorf("%d activities %s, want %d", len(all), typ, want)
	}
}

// With the encrypted forms no passcode is anywhere in the host, its files or what it
// carries; in the older forms a code is where its user's own request is, and nowhere
// else: no reply, proof, list or later look at the activity repeats it.
func TestPasscodesLeak(t *testing.T) {
	o := newOutside(t)
	with := o.settings()
	with.organizations, with.control, with.clients = 1, newCode(), true
	s := up(t, build(t, "cloister/sim", "", "GOEXPERIMENT=runtimesecret"), build(t, "cloister/host", ""), with)
	s.half()
	for _, f := range []string{"FEATURE_NAME_OTP_EMAIL_AUTH", "FEATURE_NAME_SMS_AUTH"} {
		if _, err := s.result(&s.tenants[0], "set_organization_feature", "SET_ORGANIZATION_FEATURE", "setOrganizationFeatureResult", map[string]any{"name": f, "value": ""}); err != nil {
			t.Fatal(err)
		}
	}
	encrypted, inClear := logins(60, true), logins(12, false)
	all := slices.Concat(encrypted, inClear)
	each(t, len(all), func(i int) error { return all[i].run(s, o) })

	s.asksForAll("ACTIVITY_TYPE_VERIFY_OTP", len(inClear))
	s.plantInStore("leak-control-after")
	s.pass()
	o.plant(t, s.control)
	if _, err := s.log.Write(planted(s.control)); err != nil {
		t.Fatal(err)
	}
	searched := codes("encrypted passcode", encrypted)
	scan := newScanner(append(slices.Clip(searched), s.control))
	found := map[find]int{}
	clean(t, "memory of the host", scan.memory(t, s.host.Process.Pid, found), len(searched), found)
	found = map[find]int{}
	clean(t, "traffic of clients, host and enclave", scan.files(t, s.traffic, nothing, found), len(searched), found)

	plain := codes("passcode in clear", inClear)
	scan = newScanner(append(slices.Clip(plain), s.control))
	found = map[find]int{}
	scan.memory(t, s.host.Process.Pid, found)
	t.Logf("counted: memory of the host: %d of %d passcodes that came in clear", distinct(found), len(inClear)) // it forgets them in its own time
	for place, want := range map[string]int{
		"client-*-in visitor-*-in": len(inClear), "enclave-*-in": len(inClear), // their users' own requests
		"client-*-out visitor-*-out": 0, "enclave-*-out": 0, // no reply repeats them, nor does anything else that the enclave says
	} {
		found := map[find]int{}
		size := scan.files(t, s.traffic, but(place), found)
		if got := distinct(found); got != want || size == 0 {
			t.Errorf("%s: %d passcodes that came in clear, want %d", place, got, want)
		}
		t.Logf("counted: traffic %s: %.1f MB: %d of %d passcodes that came in clear", place, float64(size)/1e6, distinct(found), len(inClear))
	}
	both := slices.Concat(searched, plain)
	scan = newScanner(append(slices.Clip(both), s.control))
	s.restsClean(scan, len(both))
	found = map[find]int{}
	clean(t, "traffic to mail server and gateway", scan.files(t, o.traffic, nothing, found), len(both), found)
	t.Logf("counted: %d passcodes of %d letters verified encrypted, %d in clear; half by mail, half by text; half through the auth proxy", len(encrypted), codeLength, len(inClear))
}

// distinct is how many secrets were found besides the control.
func distinct(found map[find]int) int {
	seen := map[*secret]bool{}
	for f := range found {
		if f.secret.kind != "control" {
			seen[f.secret] = true
		}
	}
	return len(seen)
}

// but skips files whose names have none of the shapes, which have spaces between them.
func but(shapes string) func(string) bool {
	return func(path string) bool {
		return !slices.ContainsFunc(strings.Fields(shapes), func(shape string) bool {
			ok, err := filepath.Match(shape, filepath.Base(path))
			return ok || err != nil
		})
	}
}
