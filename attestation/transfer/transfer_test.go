package transfer_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"cloister/attestation/bundle"
	"cloister/attestation/transfer"
)

const (
	organization = "05ff74cb-bf52-45c6-a81e-8d82099d7f78"
	user         = "ddd7f692-e7f5-4ebd-a4e9-4b03a2e975c0"
	words        = "legal winner thank year wave sausage worth useful legal winner thank yellow" // of BIP-39's test vectors
	seed         = "52f913cee3bfe896a486b0b7476dda86152e483d41a9f126bed8ef6f81bd4da9"
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

// ask puts a question as the page does, in JSON.
func ask(t testing.TB, question string) *transfer.Answer {
	t.Helper()
	var q transfer.Question
	if err := json.Unmarshal([]byte(question), &q); err != nil {
		t.Fatal(err)
	}
	return must[*transfer.Answer](t)(q.Answer())
}

func quoted(t testing.TB, v any) string { return string(must[[]byte](t)(json.Marshal(v))) }

// A world is an enclave's signer and a key of the browser's.
type world struct {
	enclave *ecdsa.PrivateKey
	key     *ecdh.PrivateKey
	signer  string
}

func newWorld(t testing.TB) world {
	w := world{enclave: must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)), key: must[*ecdh.PrivateKey](t)(ecdh.P256().GenerateKey(rand.Reader))}
	w.signer = hex.EncodeToString(must[*ecdh.PublicKey](t)(w.enclave.PublicKey.ECDH()).Bytes())
	return w
}

func (w world) message(t testing.TB, inner string) string {
	sum := sha256.Sum256([]byte(inner))
	signature := must[[]byte](t)(ecdsa.SignASN1(rand.Reader, w.enclave, sum[:]))
	return fmt.Sprintf(`{"version":"v1.0.0","data":"%x","dataSignature":"%x","enclaveQuorumPublic":"%s"}`, inner, signature, w.signer)
}

func (w world) export(t testing.TB, secret string) string {
	to := w.key.PublicKey()
	enc, sender, err := hpke.NewSender(must[hpke.PublicKey](t)(hpke.NewDHKEMPublicKey(to)), hpke.HKDFSHA256(), hpke.AES256GCM(), []byte("turnkey_hpke"))
	if err != nil {
		t.Fatal(err)
	}
	sealed := must[[]byte](t)(sender.Seal(append(slices.Clone(enc), to.Bytes()...), []byte(secret)))
	return w.message(t, fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x","organizationId":"%s"}`, enc, sealed, organization))
}

// open does both steps, with the key exchange between them.
func (w world) open(t testing.TB, message, form string) *transfer.Answer {
	t.Helper()
	about := fmt.Sprintf(`"bundle":%s,"signer":"%s","organization":"%s"`, quoted(t, message), w.signer, organization)
	first := ask(t, `{"encapsulated":{`+about+`}}`)
	if first.Refused != "" {
		return first
	}
	enc := must[*ecdh.PublicKey](t)(ecdh.P256().NewPublicKey(must[[]byte](t)(hex.DecodeString(first.EncapsulatedKey))))
	shared := must[[]byte](t)(w.key.ECDH(enc))
	return ask(t, fmt.Sprintf(`{"open":{%s,"publicKey":"%x","shared":"%x","form":"%s"}}`, about, w.key.PublicKey().Bytes(), shared, form))
}

func TestOpen(t *testing.T) {
	w := newWorld(t)
	raw := must[[]byte](t)(hex.DecodeString(seed))
	for _, c := range []struct{ secret, form, text, passphrase string }{
		{words, "mnemonic", words, ""},
		{words + "\nTREZOR and more", "mnemonic", words, "TREZOR and more"},
		{string(raw), "hex", seed, ""},
		{string(raw), "ethereum", "0x" + seed, ""},
		{string(raw), "solana", "2fDXMtRBqXAWBs6FPBFGtpCdDNhBz66sdTNYTnDj1sXc7crphmQZFSZr2GMbCrmmRkTFRB3vhuAoecKLik7xMor5", ""}, // as the published client writes it
	} {
		if a := w.open(t, w.export(t, c.secret), c.form); a.Refused != "" || a.Secret != c.text || a.Passphrase != c.passphrase {
			t.Errorf("%s: %+v", c.form, a)
		}
	}
	for _, c := range []struct{ secret, form string }{{words, "hex"}, {string(raw), "mnemonic"}, {string(raw[:31]), "ethereum"}, {string(raw), "base58"}, {string(raw), ""}, {"legal winner", "mnemonic"}} {
		if a := w.open(t, w.export(t, c.secret), c.form); a.Refused != transfer.RefusedBundle || a.Secret != "" || strings.Contains(a.Why, "legal") {
			t.Errorf("%s: %+v", c.form, a)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	w, mallory := newWorld(t), newWorld(t)
	good := w.export(t, words)
	about := func(message, signer, organization string) string {
		return fmt.Sprintf(`"bundle":%s,"signer":"%s","organization":"%s"`, quoted(t, message), signer, organization)
	}
	flipped := strings.Replace(good, `"data":"7b`, `"data":"7c`, 1)
	for name, c := range map[string]struct{ about, want string }{
		"another signer": {about(mallory.export(t, words), w.signer, organization), "signer"}, "changed": {about(flipped, w.signer, organization), "signature"},
		"another organization": {about(good, w.signer, user), "organization"}, "no bundle": {about("", w.signer, organization), "bundle"}, "no signer": {about(good, "", organization), "bundle"},
	} {
		if a := ask(t, `{"encapsulated":{`+c.about+`}}`); a.Refused != c.want || a.EncapsulatedKey != "" || a.Why == "" {
			t.Errorf("%s: %+v", name, a)
		}
		if a := ask(t, fmt.Sprintf(`{"open":{%s,"publicKey":"%x","shared":"%s","form":"mnemonic"}}`, c.about, w.key.PublicKey().Bytes(), seed)); a.Refused != c.want || a.Secret != "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	here := about(good, w.signer, organization)
	for name, c := range map[string]struct{ public, shared, want string }{
		"another exchange": {hex.EncodeToString(w.key.PublicKey().Bytes()), seed, "key"}, "another key": {hex.EncodeToString(mallory.key.PublicKey().Bytes()), seed, "key"},
		"no key": {"", seed, "bundle"}, "no point": {strings.Repeat("04", 65), seed, "bundle"}, "no hex": {"zz", seed, "bundle"},
		"no exchange": {hex.EncodeToString(w.key.PublicKey().Bytes()), "", "bundle"}, "a short one": {hex.EncodeToString(w.key.PublicKey().Bytes()), seed[2:], "bundle"},
	} {
		if a := ask(t, fmt.Sprintf(`{"open":{%s,"publicKey":"%s","shared":"%s","form":"mnemonic"}}`, here, c.public, c.shared)); a.Refused != c.want || a.Secret != "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// sealed is what the enclave gets of a secret.
func (w world) sealed(t testing.TB, secret string) (string, *transfer.Answer) {
	t.Helper()
	target := w.message(t, fmt.Sprintf(`{"targetPublic":"%x","organizationId":"%s","userId":"%s"}`, w.key.PublicKey().Bytes(), organization, user))
	a := ask(t, fmt.Sprintf(`{"seal":{"bundle":%s,"signer":"%s","organization":"%s","user":"%s","secret":%s}}`, quoted(t, target), w.signer, organization, user, secret))
	if a.Refused != "" {
		return "", a
	}
	var m struct{ EncappedPublic, Ciphertext string }
	if err := json.Unmarshal([]byte(a.Bundle), &m); err != nil {
		t.Fatal(err)
	}
	as := w.message(t, fmt.Sprintf(`{"encappedPublic":"%s","ciphertext":"%s","organizationId":"%s"}`, m.EncappedPublic, m.Ciphertext, organization))
	return string(must[[]byte](t)(bundle.Open(as, w.signer, organization, w.key))), a
}

func TestSeal(t *testing.T) {
	w := newWorld(t)
	raw := string(must[[]byte](t)(hex.DecodeString(seed)))
	base := base58.Encode(ed25519.NewKeyFromSeed([]byte(raw)))
	for secret, want := range map[string]string{
		`{"mnemonic":"` + words + `"}`: words, `{"mnemonic":"  ` + strings.ReplaceAll(strings.ToUpper(words), " ", `\n `) + `\t"}`: words,
		`{"mnemonic":"` + words + `","passphrase":" a ~ b "}`:     words + "\n a ~ b ",
		`{"privateKey":"` + seed + `","curve":"CURVE_SECP256K1"}`: raw, `{"privateKey":" 0x` + strings.ToUpper(seed) + `\n","curve":"CURVE_P256"}`: raw,
		`{"privateKey":"` + seed + `","curve":"CURVE_ED25519"}`: raw, `{"privateKey":"` + base + `","curve":"CURVE_ED25519"}`: raw,
	} {
		if got, a := w.sealed(t, secret); got != want {
			t.Errorf("%s: %+v", secret, a)
		}
		if a := ask(t, `{"check":`+secret+`}`); *a != (transfer.Answer{}) {
			t.Errorf("%s: %+v", secret, a)
		}
	}
}

func TestSecretsRefused(t *testing.T) {
	w := newWorld(t)
	base := base58.Encode(ed25519.NewKeyFromSeed(must[[]byte](t)(hex.DecodeString(seed))))
	const order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	mnemonic := func(s string) string { return `{"mnemonic":` + quoted(t, s) + `}` }
	key := func(s, curve string) string {
		return fmt.Sprintf(`{"privateKey":%s,"curve":"%s"}`, quoted(t, s), curve)
	}
	for secret, want := range map[string]string{
		"{}": "Enter", `{"mnemonic":"` + words + `","privateKey":"` + seed + `"}`: "Enter", mnemonic(" "): "not 0", mnemonic(words + " legal"): "not 13", mnemonic(strings.Repeat("abandon ", 27)): "not 27",
		mnemonic(strings.Replace(words, "thank", "thanks", 1)): "Word 3", mnemonic(strings.Replace(words, "yellow", "legal", 1)): "checksum", mnemonic(strings.Replace(words, "legal winner", "winner legal", 1)): "checksum",
		mnemonic(strings.Repeat("abandon ", 12)): "checksum", mnemonic(strings.Repeat("a", 5000)): "too long", mnemonic(strings.Replace(words, "thank", "th\x00nk", 1)): "Word 3",
		`{"mnemonic":"` + words + `","passphrase":"ü"}`: "passphrase", `{"mnemonic":"` + words + `","passphrase":"a\nb"}`: "passphrase", `{"mnemonic":"` + words + `","passphrase":"` + strings.Repeat("x", 257) + `"}`: "passphrase",
		key(seed[1:], "CURVE_SECP256K1"): "64 hex", key(seed+"00", "CURVE_SECP256K1"): "64 hex", key("0x0x"+seed, "CURVE_SECP256K1"): "64 hex", key(base, "CURVE_SECP256K1"): "64 hex", key("zz", "CURVE_ED25519"): "64 hex",
		key(base[:80], "CURVE_ED25519"): "64 hex", key(base58.Encode([]byte(strings.Repeat("x", 64))), "CURVE_ED25519"): "do not belong", key(base58.Encode(make([]byte, 63)), "CURVE_ED25519"): "64 hex",
		key(strings.Repeat("0", 64), "CURVE_SECP256K1"): "zero", key(order, "CURVE_SECP256K1"): "zero", key(strings.Repeat("f", 64), "CURVE_P256"): "zero", key(strings.Repeat("0", 64), "CURVE_P256"): "zero",
		key(seed, ""): "curve", key(seed, "CURVE_ED448"): "curve",
	} {
		a := ask(t, `{"check":`+secret+`}`)
		if a.Refused != transfer.RefusedSecret || !strings.Contains(a.Why, want) {
			t.Errorf("%.80s: %+v, want %q", secret, a, want)
		}
		for _, part := range []string{"thanks", "yellow", "abandon", seed[2:10], base[:8]} {
			if strings.Contains(a.Why, part) {
				t.Errorf("%.80s: tells a part of it: %s", secret, a.Why)
			}
		}
		if _, sealed := w.sealed(t, secret); sealed.Refused != a.Refused || sealed.Why != a.Why || sealed.Bundle != "" {
			t.Errorf("%.80s: sealed: %+v", secret, sealed)
		}
	}
	if a := ask(t, `{"seal":{"bundle":"","signer":"","organization":"`+organization+`","secret":{"mnemonic":"`+words+`"}}}`); a.Refused != transfer.RefusedBundle {
		t.Errorf("for nobody: %+v", a)
	}
}

func TestQuestions(t *testing.T) {
	for _, q := range []transfer.Question{{}, {Check: &transfer.Secret{}, Open: &transfer.OpenQuestion{}}} {
		if a, err := q.Answer(); err == nil {
			t.Errorf("%+v", a)
		}
	}
}

// FuzzSecret: what is taken is words with a right checksum, or 32 bytes.
func FuzzSecret(f *testing.F) {
	f.Add(words, "", "", "")
	f.Add(words, "x", "", "")
	f.Add("", "", seed, "CURVE_SECP256K1")
	f.Add("", "", base58.Encode([]byte(strings.Repeat("x", 64))), "CURVE_ED25519")
	f.Fuzz(func(t *testing.T, mnemonic, passphrase, key, curve string) {
		b, err := (&transfer.Secret{Mnemonic: mnemonic, Passphrase: passphrase, PrivateKey: key, Curve: curve}).Bytes()
		if err != nil {
			return
		}
		if key != "" && len(b) != 32 || key == "" && len(strings.Fields(strings.Split(string(b), "\n")[0]))%3 != 0 {
			t.Fatalf("%q became %q", mnemonic+key, b)
		}
	})
}
