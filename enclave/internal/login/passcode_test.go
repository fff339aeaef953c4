package login_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/secret/secrettest"
)

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

func TestNewPasscode(t *testing.T) {
	for _, alphanumeric := range []bool{false, true} {
		letters := crockford[:10]
		if alphanumeric {
			letters = crockford
		}
		for length := login.MinPasscode; length <= login.MaxPasscode; length++ {
			seen := map[login.Passcode]bool{}
			for range 200 {
				p, err := login.NewPasscode(rand.Reader, length, alphanumeric)
				must(t, err)
				if len(p) != length || strings.Trim(string(p), letters) != "" || seen[p] && length > 7 {
					t.Fatal(string(p))
				}
				if seen[p] = true; !p.Matches(string(p)) {
					t.Fatal(string(p))
				}
			}
		}
	}
	for _, length := range []int{-1, 0, 5, 10, 1 << 40} {
		if p, err := login.NewPasscode(rand.Reader, length, true); err == nil {
			t.Errorf("%d: %s", length, string(p))
		}
	}
	// A source that gives only what is not fair is broken, not waited for.
	for name, r := range map[string]io.Reader{"ones": bytes.NewReader(bytes.Repeat([]byte{255}, 1<<10)), "end": bytes.NewReader([]byte{1, 2})} {
		if p, err := login.NewPasscode(r, 6, false); err == nil {
			t.Errorf("%s: %s", name, string(p))
		}
	}
}

// every gives each byte in turn.
type every struct{ next byte }

func (e *every) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = e.next
		e.next++
	}
	return len(b), nil
}

// Of all bytes each letter comes from equally many.
func TestPasscodeHasNoBias(t *testing.T) {
	for alphanumeric, want := range map[bool]int{false: 25, true: 8} {
		counts := map[byte]int{}
		for first := range 256 {
			p, err := login.NewPasscode(io.MultiReader(bytes.NewReader([]byte{byte(first)}), &every{}), 6, alphanumeric)
			must(t, err)
			if first < 250 || alphanumeric {
				counts[p[0]]++
			} else if string(p) != "012345" {
				t.Errorf("%d began %s", first, string(p))
			}
		}
		for letter, n := range counts {
			if n != want {
				t.Errorf("%c: %d, want %d", letter, n, want)
			}
		}
	}
}

func TestPasscodeMatches(t *testing.T) {
	for _, c := range []struct {
		code    login.Passcode
		entered string
		want    bool
	}{
		{"ABC123XYZ", "ABC123XYZ", true}, {"ABC123XYZ", "abc123xyz", true}, {"ABC123XYZ", " ABC123XYZ ", true}, {"ABC123XYZ", "ABCI23XYZ", true}, {"ABC123XYZ", "abcl23xyz", true}, {"ABC103XYZ", "ABCiO3XYZ", true},
		{"111000", "IlLoO0", true}, {"000000", "000000", true}, {"000000", "oooooo", true},
		{"ABC123XYZ", "ABC123XY", false}, {"ABC123XYZ", "ABC123XYZZ", false}, {"ABC123XYZ", "ABC 123XYZ", false}, {"ABC123XYZ", "ABC-123XYZ", false}, {"ABC123XYZ", "", false}, {"ABC123XYZ", "VBC123XYZ", false},
		{"123456", "12345", false}, {"123456", "123456\x00", false}, {"123456", "123456\n", false}, {"123456", "１２３４５６", false}, {"000000", "00000", false}, {"000000", "0000000", false},
		{"123456", strings.Repeat(" ", 1<<20) + "123456", false}, {"123456", strings.Repeat("1", 1<<20), false}, {"ABCDEF", "ABCDEf", true}, {"VVVVVV", "UUUUUU", false}, {"KKKKKK", "\u212a\u212aKKKK", false},
		{"", "", false}, {"", " ", false}, {"1", "1", false}, {"1234567890", "1234567890", false},
	} {
		if got := c.code.Matches(c.entered); got != c.want {
			t.Errorf("%s and %.20q: %t", string(c.code), c.entered, got)
		}
	}
}

// A code does not get into a log by accident.
func TestPasscodeDoesNotPrint(t *testing.T) {
	p := login.Passcode("SECRETXYZ")
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "code", p, "in", struct{ P login.Passcode }{p})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&b, verb+verb, p, struct{ P login.Passcode }{p})
	}
	if raw, err := json.Marshal(p); err == nil {
		t.Errorf("%s", raw)
	}
	if strings.Contains(b.String(), "SECRET") || strings.Contains(b.String(), "534543") {
		t.Error(b.String())
	}
}

// The vectors' bundles open, and what is in them is what was entered.
func TestOpenAttemptVectors(t *testing.T) {
	n := 0
	for _, v := range bundleVectors(t) {
		if v["encrypted_otp_bundle"] == "" || v["target_private_key"] == "" {
			continue
		}
		a, err := login.OpenAttempt("encryptedOtpBundle", v["encrypted_otp_bundle"], mustSecret(t, unhex(t, v["target_private_key"])))
		if err != nil || a.Entered != "ABC123XYZ" || a.PublicKey.String() != "02a775cf7a8fa4e13bcad7783c06b934dab1573b03b42b9681bda0d3cb5614ab9b" {
			t.Errorf("%s: %+v, %v", v["name"], a, err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d bundles", n)
	}
}

// sealed is what a client sends to a target.
func sealed(t testing.TB, target *ecdh.PublicKey, plain string) string {
	t.Helper()
	pk, err := hpke.NewDHKEMPublicKey(target)
	must(t, err)
	enc, s, err := hpke.NewSender(pk, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	must(t, err)
	c, err := s.Seal(append(bytes.Clone(enc), target.Bytes()...), []byte(plain))
	must(t, err)
	return fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x"}`, enc, c)
}

func TestOpenAttemptRefused(t *testing.T) {
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	must(t, err)
	key := signer(t, "11").Public().String()
	good := `{"otp_code":"123456","public_key":"` + key + `"}`
	open := func(text string) error {
		_, err := login.OpenAttempt("encryptedOtpBundle", text, mustSecret(t, private.Bytes()))
		return err
	}
	must(t, open(sealed(t, private.PublicKey(), good)))
	for name, plain := range map[string]string{
		"no JSON": "123456", "empty object": "{}", "no code": `{"public_key":"` + key + `"}`, "no key": `{"otp_code":"123456"}`, "code twice": `{"otp_code":"1",` + good[1:], "code number": strings.Replace(good, `"123456"`, "123456", 1),
		"code long": strings.Replace(good, "123456", strings.Repeat("1", 65), 1), "unknown member": strings.Replace(good, "{", `{"x":"y",`, 1), "bad key": strings.Replace(good, key, "02", 1),
		"key off the curve": strings.Replace(good, key, "02"+strings.Repeat("ff", 32), 1), "trailing": good + "x", "bytes": "\xff", "camelCase": `{"otpCode":"123456","publicKey":"` + key + `"}`, "null": "null",
	} {
		refused(t, name, open(sealed(t, private.PublicKey(), plain)), fault.InvalidArgument, "encryptedOtpBundle", "invalid")
	}
	for name, text := range map[string]string{"nothing": "", "no bundle": "123456", "array": "[]"} {
		refused(t, name, open(text), fault.InvalidArgument, "encryptedOtpBundle", "invalid bundle")
	}
	unrelated, err := ecdh.P256().GenerateKey(rand.Reader)
	must(t, err)
	refused(t, "another target", open(sealed(t, unrelated.PublicKey(), good)), fault.InvalidArgument, "", "Invalid OTP code")
	// One answer, byte for byte, whatever was wrong with a code.
	if a, b := open(sealed(t, unrelated.PublicKey(), good)), error(login.InvalidPasscode()); fmt.Sprintf("%+v", *fault.Of(a)) != fmt.Sprintf("%+v", *fault.Of(b)) {
		t.Error(a, b)
	}
}

// The target of a passcode is signed as an import's is.
func TestTargetOfPasscode(t *testing.T) {
	private, err := bundle.NewPrivateKey(rand.Reader)
	must(t, err)
	s, err := bundle.NewSigner(secrettest.Of(bytes.Repeat([]byte{0x11}, 32)))
	must(t, err)
	text, err := s.Target(organization, "", private)
	must(t, err)
	if !strings.Contains(text, `"version":"v1.0.0"`) {
		t.Error(text)
	}
}
