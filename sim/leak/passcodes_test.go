package leak_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/sim/client"
	"cloister/sim/passcode"
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
	ctx, top, root := context.Background(), s.tenants[0], client.NewRootUser("U")
	root[l.field] = l.contact
	sub, err := top.Client.Do(ctx, "CREATE_SUB_ORGANIZATION_V7", client.SubOrganization(l.contact, root))
	if err != nil {
		return err
	}
	options := client.Object{"otpType": l.typ, "contact": l.contact}
	if !l.byProxy {
		options["appName"], options["alphanumeric"], options["otpLength"] = "App", true, codeLength
	}
	otp, err := l.ask(s, "otp_init", "INIT_OTP", 2, top.Organization, options)
	if err != nil {
		return err
	}
	if l.code, err = o.code(l.contact); err != nil {
		return err
	}
	keys, err := passcode.NewClient()
	if err != nil {
		return err
	}
	attempt := client.Object{"otpId": otp["otpId"], "otpCode": l.code}
	if l.encrypted {
		delete(attempt, "otpCode")
		if attempt["encryptedOtpBundle"], err = passcode.Encrypt(client.Text(otp, "otpEncryptionTargetBundle"), s.credentials.Keys.OTP, l.code, keys.Public); err != nil {
			return err
		}
	}
	verified, err := l.ask(s, "otp_verify", "VERIFY_OTP", 1, top.Organization, attempt)
	if err != nil {
		return err
	}
	session := client.NewKey()
	token := client.Text(verified, "verificationToken")
	in := client.Object{"verificationToken": token, "publicKey": session.PublicKey}
	if l.encrypted {
		if in["clientSignature"], err = keys.SignLogIn(token, session.PublicKey); err != nil {
			return err
		}
	}
	if l.byProxy {
		in["organizationId"] = client.Text(sub, "subOrganizationId")
	}
	got, err := l.ask(s, "otp_login", "OTP_LOGIN", 1, client.Text(sub, "subOrganizationId"), in)
	if token, _ := got["session"].(string); err == nil && token == "" {
		err = errors.New("no session")
	}
	return err
}

// ask sends a step in the way of the log-in: to the auth proxy at one path, or as an
// activity. The encrypted form is one version above the older one.
func (l *login) ask(s *stack, path, typ string, version int, organization string, body client.Object) (client.Object, error) {
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
	c := s.tenants[0].Client.As(organization, "", s.tenants[0].Key)
	c.Proofs = true
	return c.Do(context.Background(), typ, body)
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
	top := s.tenants[0]
	m := top.Read("list_activities", client.Object{"filterByType": []string{typ}, "paginationOptions": client.Object{"limit": "100"}})
	all := m["activities"].([]any)
	for _, a := range all {
		got := top.Read("get_activity", client.Object{"activityId": client.Get(a, "id")})
		if status := client.Get(got, "activity", "status"); status != "ACTIVITY_STATUS_COMPLETED" {
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
	s := up(t, build(t, "runtimesecret"), with)
	s.half()
	for _, f := range []string{"FEATURE_NAME_OTP_EMAIL_AUTH", "FEATURE_NAME_SMS_AUTH"} {
		s.tenants[0].Do("SET_ORGANIZATION_FEATURE", client.Object{"name": f, "value": ""})
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
	clean(t, "memory of the host", scan.memory(t, s.host.Cmd.Process.Pid, found), len(searched), found)
	found = map[find]int{}
	clean(t, "traffic of clients, host and enclave", scan.files(t, s.traffic, nothing, found), len(searched), found)

	plain := codes("passcode in clear", inClear)
	scan = newScanner(append(slices.Clip(plain), s.control))
	found = map[find]int{}
	scan.memory(t, s.host.Cmd.Process.Pid, found)
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
