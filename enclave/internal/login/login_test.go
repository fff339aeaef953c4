package login_test

import (
	"crypto/ecdh"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	must(t, err)
	must(t, json.Unmarshal(b, into))
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

func mustSecret(t testing.TB, b []byte) secret.Secret {
	t.Helper()
	s, err := secret.From(b)
	must(t, err)
	return s
}

func plain(s secret.Secret) (text string) {
	s.Use(func(b []byte) { text = string(b) })
	return text
}

// signer is the one of a private key in hex, or of a repeated byte.
func signer(t testing.TB, private string) *login.Signer {
	t.Helper()
	if len(private) == 2 {
		private = strings.Repeat(private, 32)
	}
	s, err := login.NewSigner(secrettest.Of(unhex(t, private)))
	must(t, err)
	return s
}

// refused tells whether err is a user's error about a field, of a code, that names
// what is expected and is short.
func refused(t testing.TB, name string, err error, code fault.Code, field, text string) {
	t.Helper()
	e := fault.Of(err)
	switch {
	case e == nil:
		t.Errorf("%s: taken, or no error for users: %v", name, err)
	case e.Code != code || !strings.Contains(e.Message, text) || len(e.Message) > 400:
		t.Errorf("%s: %d %s", name, e.Code, e.Message)
	case field != "" && (len(e.Violations) != 1 || e.Violations[0].Field != field):
		t.Errorf("%s: about %v", name, e.Violations)
	}
}

const (
	organization = "05ff74cb-bf52-45c6-a81e-8d82099d7f78"
	user         = "ddd7f692-e7f5-4ebd-a4e9-4b03a2e975c0"
	tokenID      = "360360c5-557e-4abd-aef7-3fa13fa22ff2"
	nowMs        = 1767225600000
)

// publicHex is the public half of a private key, uncompressed.
func publicHex(t testing.TB, private []byte) string {
	t.Helper()
	k, err := ecdh.P256().NewPrivateKey(private)
	must(t, err)
	return hex.EncodeToString(k.PublicKey().Bytes())
}

// What clients look for in messages, as they look for it.
func TestTexts(t *testing.T) {
	for text, e := range map[string]*fault.Error{"Invalid OTP code": login.InvalidPasscode(), "Max number of OTPs have been initiated": login.TooManyPasscodes(), "OAUTH disallowed": login.OAuthDisallowed()} {
		if e.Message != text {
			t.Errorf("%q, want %q", e.Message, text)
		}
	}
	if e := login.TooManyPasscodes(); e.Name != "MAX_OTP_INITIATED" || e.Code.HTTPStatus() != 400 || login.InvalidPasscode().Code.HTTPStatus() != 400 || login.OAuthDisallowed().Code.HTTPStatus() != 403 {
		t.Errorf("%+v", e)
	}
	u, err := login.ParseIdentityToken("f", login.SignText(signer(t, "11"), `{"alg":"ES256"}`, `{"iss":"https://a.test"}`, false))
	if err != nil || u.Issuer() != "https://a.test" {
		t.Error(err)
	}
}
