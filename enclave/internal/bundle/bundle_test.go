package bundle_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"io"
	"math/big"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

// verified judges a server's message: the strict verifier of the standard
// library, low s, and the one DER encoding.
func verified(t testing.TB, m message) bool {
	t.Helper()
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), unhex(t, m.EnclaveQuorumPublic))
	must(t, err)
	digest := sha256.Sum256(unhex(t, m.Data))
	return ecdsa.VerifyASN1(key, digest[:], unhex(t, m.DataSignature))
}

const (
	organization = "05ff74cb-bf52-45c6-a81e-8d82099d7f78"
	user         = "ddd7f692-e7f5-4ebd-a4e9-4b03a2e975c0"
)

func newSigner(t testing.TB) *bundle.Signer {
	t.Helper()
	k, err := bundle.NewPrivateKey(rand.Reader)
	must(t, err)
	s, err := bundle.NewSigner(k)
	must(t, err)
	return s
}

// newPair makes a private key and its public key as texts of both lengths.
func newPair(t testing.TB) (private secret.Secret, long, short string) {
	t.Helper()
	private, err := bundle.NewPrivateKey(rand.Reader)
	must(t, err)
	point := uncompressed(t, secrettest.Bytes(private))
	return private, hex.EncodeToString(point), hex.EncodeToString(append([]byte{2 | point[64]&1}, point[1:33]...))
}

func TestExport(t *testing.T) {
	s := newSigner(t)
	private, long, short := newPair(t)
	seen := map[string]bool{}
	for _, text := range []string{long, short, strings.ToUpper(long), strings.ToUpper(short)} {
		to, err := bundle.ParsePublicKey("targetPublicKey", text)
		must(t, err)
		for _, what := range []string{"x", "legal winner", strings.Repeat("y", secret.MaxSize)} {
			b, err := s.Export(organization, to, mustSecret(t, []byte(what)))
			must(t, err)
			m, inner := parse(t, b)
			if !verified(t, m) || m.EnclaveQuorumPublic != s.PublicKey() || m.Version != "v1.0.0" || inner["organizationId"] != organization || len(inner) != 3 {
				t.Fatalf("%s", b)
			}
			var sig struct{ R, S *big.Int }
			if _, err := asn1.Unmarshal(unhex(t, m.DataSignature), &sig); err != nil || new(big.Int).Lsh(sig.S, 1).Cmp(elliptic.P256().Params().N) > 0 {
				t.Errorf("high s or other DER: %v", err)
			}
			got, err := opened(t, secrettest.Bytes(private), `{"encappedPublic":"`+inner["encappedPublic"]+`","ciphertext":"`+inner["ciphertext"]+`"}`)
			if err != nil || got != what {
				t.Errorf("opened %d bytes, %v", len(got), err)
			}
			if seen[inner["encappedPublic"]] {
				t.Error("a one-time key was used twice")
			}
			seen[inner["encappedPublic"]] = true
		}
	}
	to, _ := bundle.ParsePublicKey("f", long)
	if b, err := s.Export(organization, to, secret.Secret{}); err == nil {
		t.Errorf("nothing was sealed: %s", b)
	}
	if b, err := s.Export(organization, bundle.PublicKey{}, mustSecret(t, []byte("x"))); err == nil {
		t.Errorf("sealed to nobody: %s", b)
	}
}

func TestTarget(t *testing.T) {
	s := newSigner(t)
	private, long, _ := newPair(t)
	b, err := s.Target(organization, user, private)
	must(t, err)
	m, inner := parse(t, b)
	if !verified(t, m) || inner["targetPublic"] != long || inner["organizationId"] != organization || inner["userId"] != user || len(inner) != 3 {
		t.Errorf("%s", b)
	}
	if again, _ := s.Target(organization, user, private); again != b {
		t.Error("one target has two messages")
	}
	private.Wipe()
	if _, err := s.Target(organization, user, private); err == nil {
		t.Error("a wiped key has a target")
	}
}

func TestSignerRefuses(t *testing.T) {
	for name, b := range map[string][]byte{"zero": make([]byte, 32), "short": make([]byte, 31), "long": make([]byte, 33), "none": nil,
		"order": unhex(t, "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551")} {
		if _, err := bundle.NewSigner(secrettest.Of(b)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestPublicKeyRefused(t *testing.T) {
	_, long, short := newPair(t)
	flipped := []byte(long)
	flipped[129] ^= 1
	for name, text := range map[string]string{
		"nothing": "", "0x": "0x" + long, "a digit less": long[1:], "a digit more": long + "0", "no hex": strings.Repeat("g", 130), "spaces": " " + long + " ",
		"without the prefix": long[2:], "hybrid": "06" + long[2:], "off the curve": string(flipped), "infinity": strings.Repeat("00", 65),
		"infinity of one byte": "00", "short off the curve": "02" + strings.Repeat("ff", 32), "short without prefix": short[2:], "short with 04": "04" + short[2:],
		"pair of 130 bytes": long + long, "of another curve": "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
		"long beyond the prime": "04" + strings.Repeat("ff", 64), "very long": strings.Repeat("04", 1<<20),
	} {
		_, err := bundle.ParsePublicKey("targetPublicKey", text)
		if e := fault.Of(err); e == nil || e.Code != fault.InvalidArgument || len(e.Violations) != 1 || e.Violations[0].Field != "targetPublicKey" || len(e.Message) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClientBundleRefused(t *testing.T) {
	private, long, _ := newPair(t)
	r := newReference(t, unhex(t, strings.Repeat("11", 32)), unhex(t, long))
	good := r.client(t, []byte("secret"))
	if got, err := opened(t, secrettest.Bytes(private), good); err != nil || got != "secret" {
		t.Fatal(got, err)
	}
	enc, ciphertext := hex.EncodeToString(r.enc), hex.EncodeToString(r.seal(t, []byte("secret")))
	of := func(e, c string) string { return `{"encappedPublic":"` + e + `","ciphertext":"` + c + `"}` }
	for name, text := range map[string]string{
		"empty": "", "no JSON": "x", "null": "null", "array": "[" + good + "]", "text": `"` + enc + `"`, "trailing": good + "x", "twice": good + good,
		"unknown member": strings.Replace(good, "{", `{"more":"",`, 1), "repeated member": strings.Replace(good, "{", `{"ciphertext":"00",`, 1),
		"no ciphertext": `{"encappedPublic":"` + enc + `"}`, "no key": `{"ciphertext":"` + ciphertext + `"}`, "null member": `{"encappedPublic":null,"ciphertext":"` + ciphertext + `"}`,
		"number": `{"encappedPublic":4,"ciphertext":"` + ciphertext + `"}`, "server's message": `{"version":"v1.0.0","data":"00","dataSignature":"00","enclaveQuorumPublic":"04"}`,
		"compressed key": of("02"+enc[2:66], ciphertext), "0x": of("0x"+enc, ciphertext), "off the curve": of("04"+strings.Repeat("11", 64), ciphertext),
		"infinity": of(strings.Repeat("00", 65), ciphertext), "odd ciphertext": of(enc, ciphertext[1:]), "tag only": of(enc, ciphertext[:32]), "no hex": of(enc, "zz"),
		"empty ciphertext": of(enc, ""), "too long": of(enc, strings.Repeat("00", bundle.MaxCiphertext+1)), "much too long": strings.Repeat(" ", 1<<20) + good,
		"bytes that are no text": "\xff" + good,
	} {
		m, err := bundle.ParseClient("encryptedBundle", text)
		e := fault.Of(err)
		if m != nil || e == nil || e.Code != fault.InvalidArgument || len(e.Violations) != 1 || e.Violations[0].Field != "encryptedBundle" || len(e.Message) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Each byte of what opens is bound.
	for i := 0; i < len(ciphertext); i += 2 {
		b := unhex(t, ciphertext)
		b[i/2] ^= 1
		if _, err := opened(t, secrettest.Bytes(private), of(enc, hex.EncodeToString(b))); !errors.Is(err, bundle.ErrOpen) {
			t.Errorf("altered at %d: %v", i/2, err)
		}
	}
	for name, text := range map[string]string{"another key": of(long, ciphertext), "shortened": of(enc, ciphertext[:len(ciphertext)-2]), "longer": of(enc, ciphertext+"00")} {
		if _, err := opened(t, secrettest.Bytes(private), text); !errors.Is(err, bundle.ErrOpen) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m, _ := bundle.ParseClient("f", good)
	private.Wipe()
	if _, err := m.Open(private); err == nil {
		t.Error("opened with a wiped key")
	}
}

func TestCompact(t *testing.T) {
	private, long, _ := newPair(t)
	to, _ := bundle.ParsePublicKey("f", long)
	text, err := bundle.SealCompact(to, mustSecret(t, []byte("credential")))
	must(t, err)
	m, err := bundle.ParseCompact(text)
	must(t, err)
	if s, err := m.Open(private); err != nil || plain(s) != "credential" {
		t.Error(err)
	}
	if _, err := bundle.SealCompact(to, secret.Secret{}); err == nil {
		t.Error("nothing was sealed")
	}
	raw, _ := base58.Decode(text)
	for name, text := range map[string]string{"empty": "", "cut": text[1:], "a letter more": text + "1", "no base58": text[:10] + "0" + text[11:], "hex": long,
		"short": base58.Encode(raw[:4]), "sum only": base58.Encode(raw[len(raw)-4:]), "without sum": base58.Encode(raw[:len(raw)-4]), "long": strings.Repeat("2", bundle.MaxCompact+1)} {
		if _, err := bundle.ParseCompact(text); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A source that gives only what is no scalar is broken, not waited for.
func TestBrokenRandomness(t *testing.T) {
	for name, r := range map[string]io.Reader{"zeros": zeros{}, "nothing": strings.NewReader("")} {
		if _, err := bundle.NewPrivateKey(r); err == nil {
			t.Errorf("%s: a key", name)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// FuzzClient: what is taken is bounded and read as it was written.
func FuzzClient(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.text("encrypted_bundle") + v.text("encrypted_otp_bundle") + v.text("secret_payload"))
	}
	f.Add(`{"encappedPublic":"","ciphertext":""}`)
	private := mustSecret(f, unhex(f, "7e64b346168cd99ec09c8f75c4c61342ce2fc9ed3ab33319c2e0cb39f4123297"))
	f.Fuzz(func(t *testing.T, text string) {
		m, err := bundle.ParseClient("f", text)
		if err != nil {
			if e := fault.Of(err); e == nil || e.Code != fault.InvalidArgument || len(e.Message) > 200 {
				t.Fatal(err)
			}
			return
		}
		enc, ciphertext := m.Parts()
		if len(enc.Bytes()) != 65 || len(ciphertext) <= 16 || len(ciphertext) > bundle.MaxCiphertext || len(text) > bundle.MaxText {
			t.Fatalf("%d bytes of ciphertext", len(ciphertext))
		}
		if s, err := m.Open(private); err == nil && s.Len() == 0 || err != nil && s.Len() != 0 {
			t.Fatal(err)
		}
	})
}

// FuzzCompact: what is taken has one text.
func FuzzCompact(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.text("bundle") + v.text("encrypted"))
	}
	private := mustSecret(f, unhex(f, "b16e31173f5616cf09d8893b0566f5f53a7d27b1c134d46f92dc05d3eb20ca30"))
	f.Fuzz(func(t *testing.T, text string) {
		m, err := bundle.ParseCompact(text)
		if err != nil {
			return
		}
		if _, ciphertext := m.Parts(); len(ciphertext) <= 16 || len(ciphertext) > len(text) {
			t.Fatalf("%d bytes of ciphertext", len(ciphertext))
		}
		_, _ = m.Open(private)
	})
}

// FuzzPublicKey: what is taken is a point, the same for both of its texts.
func FuzzPublicKey(f *testing.F) {
	f.Add("046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")
	f.Add("036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := bundle.ParsePublicKey("f", text)
		if err != nil {
			return
		}
		long := hex.EncodeToString(p.Bytes())
		if !strings.EqualFold(long, text) && !strings.EqualFold(long[2:66], text[2:]) {
			t.Fatalf("%s became %s", text, long)
		}
	})
}

func BenchmarkExport(b *testing.B) {
	s := newSigner(b)
	_, long, _ := newPair(b)
	to, err := bundle.ParsePublicKey("f", long)
	must(b, err)
	what := mustSecret(b, []byte(strings.Repeat("x", 160)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Export(organization, to, what); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	private, long, _ := newPair(b)
	m, err := bundle.ParseClient("f", newReference(b, unhex(b, strings.Repeat("11", 32)), unhex(b, long)).client(b, []byte("secret")))
	must(b, err)
	b.ReportAllocs()
	for b.Loop() {
		s, err := m.Open(private)
		if err != nil {
			b.Fatal(err)
		}
		s.Wipe()
	}
}
