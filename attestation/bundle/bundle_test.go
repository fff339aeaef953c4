package bundle_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/attestation/bundle"
)

const (
	organization = "05ff74cb-bf52-45c6-a81e-8d82099d7f78"
	user         = "ddd7f692-e7f5-4ebd-a4e9-4b03a2e975c0"
	other        = "874d46f8-9abf-4a19-a6da-c4e3db1311ac"
)

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func unhex(t testing.TB, s string) []byte { return must[[]byte](t)(hex.DecodeString(s)) }

type vector map[string]any

func (v vector) text(name string) string {
	s, _ := v[name].(string)
	return s
}

// plaintext is what the vector's message was made of.
func (v vector) plaintext(t testing.TB) string {
	if s := v.text("plaintext_utf8"); s != "" {
		return s
	}
	return string(unhex(t, v.text("plaintext_hex")))
}

func vectors(t testing.TB) []vector {
	var f struct{ Vectors []vector }
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile("testdata/hpke_bundles.json")), &f); err != nil || len(f.Vectors) < 15 {
		t.Fatal(len(f.Vectors), err)
	}
	return f.Vectors
}

func privateKey(t testing.TB, text string) *ecdh.PrivateKey {
	return must[*ecdh.PrivateKey](t)(ecdh.P256().NewPrivateKey(unhex(t, text)))
}

// An enclave signs messages as the real one does.
type enclave struct{ key *ecdsa.PrivateKey }

func newEnclave(t testing.TB) enclave {
	return enclave{must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
}

func (e enclave) signer(t testing.TB) string {
	return hex.EncodeToString(must[*ecdh.PublicKey](t)(e.key.PublicKey.ECDH()).Bytes())
}

func (e enclave) message(t testing.TB, inner string) string {
	sum := sha256.Sum256([]byte(inner))
	signature := must[[]byte](t)(ecdsa.SignASN1(rand.Reader, e.key, sum[:]))
	return fmt.Sprintf(`{"version":"v1.0.0","data":"%x","dataSignature":"%x","enclaveQuorumPublic":"%s"}`, inner, signature, e.signer(t))
}

func target(key *ecdh.PublicKey, organization, user string) string {
	return fmt.Sprintf(`{"targetPublic":"%x","organizationId":"%s","userId":"%s"}`, key.Bytes(), organization, user)
}

func export(t testing.TB, to *ecdh.PublicKey, organization string, secret []byte) string {
	enc, sender, err := hpke.NewSender(must[hpke.PublicKey](t)(hpke.NewDHKEMPublicKey(to)), hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	if err != nil {
		t.Fatal(err)
	}
	sealed := must[[]byte](t)(sender.Seal(append(slices.Clone(enc), to.Bytes()...), secret))
	return fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x","organizationId":"%s"}`, enc, sealed, organization)
}

// received decrypts what Seal made, as the enclave does.
func received(t testing.TB, key *ecdh.PrivateKey, text string) string {
	var m struct{ EncappedPublic, Ciphertext string }
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	k := must[hpke.PrivateKey](t)(hpke.NewDHKEMPrivateKey(key))
	r := must[*hpke.Recipient](t)(hpke.NewRecipient(unhex(t, m.EncappedPublic), k, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke")))
	return string(must[[]byte](t)(r.Open(append(unhex(t, m.EncappedPublic), key.PublicKey().Bytes()...), unhex(t, m.Ciphertext))))
}

// The published client and this package open and refuse the same messages, but for the version, which only this one reads.
func TestVectors(t *testing.T) {
	var signer string
	for _, v := range vectors(t) {
		if s := v.text("signer_public_key"); s != "" {
			signer = s
		}
	}
	opened, sealed := 0, 0
	for _, v := range vectors(t) {
		name := v.text("name")
		switch {
		case strings.HasPrefix(name, "export_") && v.text("target_private_key") != "":
			want := v.plaintext
			if name == "export_high_s" || name == "export_secret" {
				want = nil
			}
			got, err := bundle.Open(v.text("bundle"), signer, v.text("organization_id"), privateKey(t, v.text("target_private_key")))
			if err != nil || want != nil && string(got) != want(t) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			opened++
		case strings.HasPrefix(name, "import_"):
			key := privateKey(t, v.text("target_private_key"))
			text, err := bundle.Seal(v.text("import_bundle"), signer, v.text("organization_id"), v.text("user_id"), []byte(v.plaintext(t)))
			if err != nil || received(t, key, text) != v.plaintext(t) {
				t.Errorf("%s: %v", name, err)
			}
			if theirs := v.text("encrypted_bundle") + v.text("secret_payload"); received(t, key, theirs) != v.plaintext(t) {
				t.Errorf("%s: the published client's differs", name)
			}
			sealed++
		case name == "reject_import_no_override": // by the client's built-in key
		case strings.HasPrefix(name, "reject_import_"):
			if text, err := bundle.Seal(v.text("import_bundle"), signer, v.text("organization_id"), other, []byte("x")); err == nil {
				t.Errorf("%s: %s", name, text)
			}
		case name != "reject_export_no_override":
			organization := v.text("organization_id")
			if name == "reject_export_other_org" {
				organization = other
			}
			if _, err := bundle.EncapsulatedKey(v.text("bundle"), signer, organization); err == nil {
				t.Errorf("%s: taken", name)
			}
		}
	}
	if opened < 5 || sealed < 4 {
		t.Errorf("%d opened, %d sealed", opened, sealed)
	}
}

func TestSealed(t *testing.T) {
	e, key := newEnclave(t), must[*ecdh.PrivateKey](t)(ecdh.P256().GenerateKey(rand.Reader))
	m := e.message(t, target(key.PublicKey(), organization, user))
	for _, secret := range []string{"x", "legal winner thank year\npassphrase", strings.Repeat("y", bundle.MaxSecret)} {
		text, err := bundle.Seal(m, e.signer(t), organization, user, []byte(secret))
		if err != nil || received(t, key, text) != secret || len(secret) > 1 && strings.Contains(text, secret) {
			t.Errorf("%d bytes: %v", len(secret), err)
		}
	}
	one, _ := bundle.Seal(m, e.signer(t), organization, user, []byte("x"))
	two, _ := bundle.Seal(m, e.signer(t), organization, user, []byte("x"))
	if one == two {
		t.Error("a one-time key was used twice")
	}
	for _, n := range []int{0, bundle.MaxSecret + 1} {
		if text, err := bundle.Seal(m, e.signer(t), organization, user, make([]byte, n)); err == nil {
			t.Errorf("%d bytes: %s", n, text[:40])
		}
	}
	anybody := e.message(t, target(key.PublicKey(), organization, "")) // as of INIT_IMPORT_SECRETS
	if _, err := bundle.Seal(anybody, e.signer(t), organization, "", []byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := bundle.Seal(anybody, e.signer(t), organization, user, []byte("x")); !errors.Is(err, bundle.ErrUser) {
		t.Error(err)
	}
}

func TestOpened(t *testing.T) {
	e, key := newEnclave(t), must[*ecdh.PrivateKey](t)(ecdh.P256().GenerateKey(rand.Reader))
	for _, secret := range []string{"x", strings.Repeat("y", bundle.MaxSecret)} {
		m := e.message(t, export(t, key.PublicKey(), organization, []byte(secret)))
		if got, err := bundle.Open(m, e.signer(t), organization, key); err != nil || string(got) != secret {
			t.Errorf("%d bytes: %v", len(got), err)
		}
		enc, err := bundle.EncapsulatedKey(m, e.signer(t), organization)
		if err != nil || !strings.Contains(string(unhex(t, data(t, m))), hex.EncodeToString(enc.Bytes())) {
			t.Error(err)
		}
	}
}

func data(t testing.TB, message string) string {
	var m struct{ Data string }
	if err := json.Unmarshal([]byte(message), &m); err != nil {
		t.Fatal(err)
	}
	return m.Data
}

// refusal is the error by which both directions refuse a message; both must.
func refusal(t *testing.T, message, signer, organization, user string, key *ecdh.PrivateKey) error {
	t.Helper()
	_, open := bundle.Open(message, signer, organization, key)
	_, enc := bundle.EncapsulatedKey(message, signer, organization)
	_, seal := bundle.Seal(message, signer, organization, user, []byte("secret"))
	if open == nil || seal == nil {
		t.Errorf("taken: %v, %v", open, seal)
	}
	if enc != nil && enc.Error() != open.Error() {
		t.Errorf("Open refuses with %v, EncapsulatedKey with %v", open, enc)
	}
	for _, err := range []error{open, seal} {
		if strings.Contains(err.Error(), "secret") || len(err.Error()) > 200 {
			t.Errorf("an error that tells too much: %v", err)
		}
	}
	return errors.Join(open, seal)
}

func TestAnotherThanExpected(t *testing.T) {
	e, mallory := newEnclave(t), newEnclave(t)
	key := must[*ecdh.PrivateKey](t)(ecdh.P256().GenerateKey(rand.Reader))
	wrong := must[*ecdh.PrivateKey](t)(ecdh.P256().GenerateKey(rand.Reader))
	signer := e.signer(t)
	for kind, inner := range map[string]string{"target": target(key.PublicKey(), organization, user), "export": export(t, key.PublicKey(), organization, []byte("secret"))} {
		good := e.message(t, inner)
		if err := refusal(t, mallory.message(t, inner), signer, organization, user, key); !errors.Is(err, bundle.ErrSigner) {
			t.Errorf("%s of another signer: %v", kind, err)
		}
		// Somebody else's signature under the right name, and the right signature over something else.
		named := strings.Replace(mallory.message(t, inner), mallory.signer(t), signer, 1)
		swapped := strings.Replace(good, data(t, good), hex.EncodeToString([]byte(strings.Replace(inner, organization, other, 1))), 1)
		for _, forged := range []string{named, swapped} {
			if err := refusal(t, forged, signer, organization, user, key); !errors.Is(err, bundle.ErrSignature) {
				t.Errorf("%s, forged: %v", kind, err)
			}
		}
		for _, asked := range []string{other, "", strings.ToUpper(organization)} {
			if err := refusal(t, good, signer, asked, user, key); !errors.Is(err, bundle.ErrOrganization) {
				t.Errorf("%s for organization %q: %v", kind, asked, err)
			}
		}
	}
	m := e.message(t, target(key.PublicKey(), organization, user))
	for _, asked := range []string{other, "", strings.ToUpper(user)} {
		if _, err := bundle.Seal(m, signer, organization, asked, []byte("secret")); !errors.Is(err, bundle.ErrUser) {
			t.Errorf("for user %q: %v", asked, err)
		}
	}
	m = e.message(t, export(t, key.PublicKey(), organization, []byte("secret")))
	if _, err := bundle.Open(m, signer, organization, wrong); !errors.Is(err, bundle.ErrKey) {
		t.Errorf("with another key: %v", err)
	}
	x25519 := must[*ecdh.PrivateKey](t)(ecdh.X25519().GenerateKey(rand.Reader))
	if _, err := bundle.Open(m, signer, organization, x25519); err == nil {
		t.Error("opened with a key of another curve")
	}
	// An export is no target and a target no export.
	if _, err := bundle.Seal(m, signer, organization, user, []byte("secret")); err == nil {
		t.Error("sealed to an export")
	}
	if _, err := bundle.Open(e.message(t, target(key.PublicKey(), organization, user)), signer, organization, key); err == nil {
		t.Error("opened a target")
	}
}

// Each byte of a message is bound or refused: none can be changed.
func TestChangedAnywhere(t *testing.T) {
	e, key := newEnclave(t), must[*ecdh.PrivateKey](t)(ecdh.P256().GenerateKey(rand.Reader))
	for _, inner := range []string{target(key.PublicKey(), organization, user), export(t, key.PublicKey(), organization, []byte("secret"))} {
		good := e.message(t, inner)
		for i := range len(good) {
			for _, c := range []byte{good[i] ^ 1, good[i] ^ 0x20, 'f', '0', '"', 0} {
				if c == good[i] {
					continue
				}
				changed := good[:i] + string(rune(c)) + good[i+1:]
				_, open := bundle.Open(changed, e.signer(t), organization, key)
				_, seal := bundle.Seal(changed, e.signer(t), organization, user, []byte("secret"))
				if open == nil || seal == nil {
					t.Fatalf("changed at %d to %q: %v, %v", i, c, open, seal)
				}
			}
		}
	}
	// What the signer signed wrongly encrypted does not open either.
	inner := export(t, key.PublicKey(), organization, []byte("secret"))
	at := strings.Index(inner, `"ciphertext":"`) + len(`"ciphertext":"`)
	for i := at; inner[i] != '"'; i++ {
		changed := inner[:i] + string("0123456789abcdef"[(strings.IndexByte("0123456789abcdef", inner[i])+1)%16]) + inner[i+1:]
		if _, err := bundle.Open(e.message(t, changed), e.signer(t), organization, key); !errors.Is(err, bundle.ErrKey) {
			t.Fatalf("ciphertext changed at %d: %v", i, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	e, key := newEnclave(t), must[*ecdh.PrivateKey](t)(ecdh.P256().GenerateKey(rand.Reader))
	signer := e.signer(t)
	inner := target(key.PublicKey(), organization, user)
	good := e.message(t, inner)
	outer := map[string]string{
		"nothing": "", "no JSON": "x", "null": "null", "array": "[" + good + "]", "text": quoted(t, good), "trailing": good + "x", "twice": good + good,
		"too long": good + strings.Repeat(" ", bundle.MaxText), "much too long": strings.Repeat("[", 16<<20), "no UTF-8": "\xff" + good,
		"another member": strings.Replace(good, "{", `{"more":"",`, 1), "a member twice": strings.Replace(good, "{", `{"version":"v1.0.0",`, 1),
		"the same member in other letters": strings.Replace(good, "{", `{"Version":"v1.0.0",`, 1), "other letters": strings.Replace(good, `"version"`, `"Version"`, 1),
		"another version": strings.Replace(good, "v1.0.0", "v1.0.1", 1), "version is a number": strings.Replace(good, `"v1.0.0"`, "1", 1), "version is null": strings.Replace(good, `"v1.0.0"`, "null", 1),
		"data in capitals": strings.Replace(good, data(t, good), strings.ToUpper(data(t, good)), 1), "odd data": strings.Replace(good, `"data":"`, `"data":"0`, 1),
		"no data": strings.Replace(good, data(t, good), "", 1), "signer in capitals": strings.Replace(good, signer, strings.ToUpper(signer), 1),
	}
	for _, name := range []string{"version", "data", "dataSignature", "enclaveQuorumPublic"} {
		var m map[string]string
		if err := json.Unmarshal([]byte(good), &m); err != nil {
			t.Fatal(err)
		}
		delete(m, name)
		outer["without "+name] = string(must[[]byte](t)(json.Marshal(m)))
		m[name] = ""
		outer["empty "+name] = string(must[[]byte](t)(json.Marshal(m)))
	}
	for name, text := range outer {
		if err := refusal(t, text, signer, organization, user, key); err == nil {
			t.Error(name)
		}
	}
	// The signer's own mistakes.
	exported := export(t, key.PublicKey(), organization, []byte("secret"))
	point := hex.EncodeToString(key.PublicKey().Bytes())
	cut := strings.Index(exported, `"ciphertext":"`) + len(`"ciphertext":"`)
	for name, text := range map[string]string{
		"no JSON": "x", "null": "null", "empty": "{}", "another member": strings.Replace(inner, "{", `{"more":"",`, 1), "a member twice": strings.Replace(inner, "{", `{"userId":"`+user+`",`, 1),
		"without a user": strings.Replace(inner, `,"userId":"`+user+`"`, "", 1), "without an organization": strings.Replace(exported, `,"organizationId":"`+organization+`"`, "", 1),
		"compressed": strings.Replace(inner, point, "02"+point[2:66], 1), "off the curve": strings.Replace(inner, point, "04"+strings.Repeat("11", 64), 1), "infinity": strings.Replace(inner, point, strings.Repeat("00", 65), 1),
		"capitals": strings.Replace(inner, point, strings.ToUpper(point), 1), "no ciphertext": exported[:cut] + exported[strings.Index(exported, `","organizationId`):],
		"only a tag": exported[:cut] + strings.Repeat("00", 16) + exported[strings.Index(exported, `","organizationId`):],
		"too long":   exported[:cut] + strings.Repeat("00", bundle.MaxSecret+17) + exported[strings.Index(exported, `","organizationId`):],
	} {
		if err := refusal(t, e.message(t, text), signer, organization, user, key); err == nil {
			t.Error(name)
		}
	}
	// The trusted key itself.
	for name, wrong := range map[string]string{"nothing": "", "capitals": strings.ToUpper(signer), "0x": "0x" + signer, "compressed": "02" + signer[2:66], "a pair": signer + signer, "off the curve": "04" + strings.Repeat("11", 64)} {
		if err := refusal(t, good, wrong, organization, user, key); err == nil {
			t.Error(name)
		}
	}
}

func quoted(t testing.TB, s string) string { return string(must[[]byte](t)(json.Marshal(s))) }

// failing is a key whose exchange fails, as one in a device may.
type failing struct{ *ecdh.PrivateKey }

func (failing) ECDH(*ecdh.PublicKey) ([]byte, error) {
	return nil, errors.New("the device was removed")
}

func TestKeyThatFails(t *testing.T) {
	e, key := newEnclave(t), must[*ecdh.PrivateKey](t)(ecdh.P256().GenerateKey(rand.Reader))
	m := e.message(t, export(t, key.PublicKey(), organization, []byte("secret")))
	if _, err := bundle.Open(m, e.signer(t), organization, failing{key}); err == nil || !strings.Contains(err.Error(), "the device was removed") {
		t.Error(err)
	}
}

// FuzzSeal has an enclave sign anything, or anything be read as its message: only what it signed for this organization and user is believed.
func FuzzSeal(f *testing.F) {
	e, key := newEnclave(f), must[*ecdh.PrivateKey](f)(ecdh.P256().GenerateKey(rand.Reader))
	signer := e.signer(f)
	f.Add(target(key.PublicKey(), organization, user), true)
	for _, v := range vectors(f) {
		f.Add(v.text("import_bundle"), false)
		f.Add(v.text("import_bundle_data_json"), true)
	}
	f.Fuzz(func(t *testing.T, text string, sign bool) {
		if sign {
			text = e.message(t, text)
		}
		sealed, err := bundle.Seal(text, signer, organization, user, []byte("secret"))
		if err != nil {
			return
		}
		var inner struct{ TargetPublic, OrganizationID, UserID string }
		if !sign || json.Unmarshal(unhex(t, data(t, text)), &inner) != nil || inner.OrganizationID != organization || inner.UserID != user || strings.Contains(sealed, "secret") {
			t.Fatalf("sealed to %s", text)
		}
	})
}

// FuzzOpen: likewise.
func FuzzOpen(f *testing.F) {
	e, key := newEnclave(f), must[*ecdh.PrivateKey](f)(ecdh.P256().GenerateKey(rand.Reader))
	signer := e.signer(f)
	f.Add(export(f, key.PublicKey(), organization, []byte("secret")), true)
	for _, v := range vectors(f) {
		f.Add(v.text("bundle"), false)
		f.Add(v.text("data_json"), true)
	}
	f.Fuzz(func(t *testing.T, text string, sign bool) {
		if sign {
			text = e.message(t, text)
		}
		_, enc := bundle.EncapsulatedKey(text, signer, organization)
		secret, err := bundle.Open(text, signer, organization, key)
		if err == nil && (enc != nil || !sign || len(secret) == 0 || len(secret) > bundle.MaxSecret) {
			t.Fatalf("opened %s", text)
		}
		if enc == nil && !sign {
			t.Fatalf("believed %s", text)
		}
	})
}
