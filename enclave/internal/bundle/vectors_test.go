package bundle_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

type vector map[string]any

func (v vector) text(name string) string {
	s, _ := v[name].(string)
	return s
}

func vectors(t testing.TB) map[string]vector {
	t.Helper()
	raw, err := os.ReadFile("testdata/hpke_bundles.json")
	must(t, err)
	var f struct{ Vectors []vector }
	must(t, json.Unmarshal(raw, &f))
	m := map[string]vector{}
	for _, v := range f.Vectors {
		m[v.text("name")] = v
	}
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

func mustSecret(t testing.TB, b []byte) secret.Secret {
	t.Helper()
	s, err := secret.From(bytes.Clone(b))
	must(t, err)
	return s
}

func plain(s secret.Secret) string { return string(secrettest.Bytes(s)) }

// reference is RFC 9180 once more, from its text and with a given one-time key:
// what crypto/hpke draws by itself.
type reference struct {
	enc, dh, shared, context, key, nonce, aad []byte
}

func labeled(suite, label string, rest ...[]byte) []byte {
	return append([]byte("HPKE-v1"+suite+label), bytes.Join(rest, nil)...)
}

func extract(t testing.TB, suite string, salt []byte, label string, ikm []byte) []byte {
	b, err := hkdf.Extract(sha256.New, labeled(suite, label, ikm), salt)
	must(t, err)
	return b
}

func expand(t testing.TB, suite string, prk []byte, label string, info []byte, n int) []byte {
	length := binary.BigEndian.AppendUint16(nil, uint16(n))
	b, err := hkdf.Expand(sha256.New, prk, string(append(length, labeled(suite, label, info)...)), n)
	must(t, err)
	return b
}

func newReference(t testing.TB, ephemeral, receiver []byte) *reference {
	e, err := ecdh.P256().NewPrivateKey(ephemeral)
	must(t, err)
	to, err := ecdh.P256().NewPublicKey(receiver)
	must(t, err)
	r := &reference{enc: e.PublicKey().Bytes()}
	r.dh, err = e.ECDH(to)
	must(t, err)
	r.aad = append(bytes.Clone(r.enc), receiver...)
	const kem, suite = "KEM\x00\x10", "HPKE\x00\x10\x00\x01\x00\x02"
	r.shared = expand(t, kem, extract(t, kem, nil, "eae_prk", r.dh), "shared_secret", r.aad, 32)
	r.context = append([]byte{0}, append(extract(t, suite, nil, "psk_id_hash", nil), extract(t, suite, nil, "info_hash", []byte("turnkey_hpke"))...)...)
	s := extract(t, suite, r.shared, "secret", nil)
	r.key = expand(t, suite, s, "key", r.context, 32)
	r.nonce = expand(t, suite, s, "base_nonce", r.context, 12)
	return r
}

func (r *reference) seal(t testing.TB, plain []byte) []byte {
	block, err := aes.NewCipher(r.key)
	must(t, err)
	gcm, err := cipher.NewGCM(block)
	must(t, err)
	return gcm.Seal(nil, r.nonce, plain, r.aad)
}

func (r *reference) client(t testing.TB, plain []byte) string {
	return fmt.Sprintf(`{"encappedPublic":"%x","ciphertext":"%x"}`, r.enc, r.seal(t, plain))
}

func uncompressed(t testing.TB, private []byte) []byte {
	k, err := ecdh.P256().NewPrivateKey(private)
	must(t, err)
	return k.PublicKey().Bytes()
}

func opened(t testing.TB, private []byte, text string) (string, error) {
	t.Helper()
	m, err := bundle.ParseClient("encryptedBundle", text)
	if err != nil {
		return "", err
	}
	s, err := m.Open(mustSecret(t, private))
	if err != nil {
		return "", err
	}
	return plain(s), nil
}

// Every step of the deterministic vector, byte for byte.
func TestDeterministicVector(t *testing.T) {
	v := vectors(t)["hpke_deterministic"]
	r := newReference(t, unhex(t, v.text("ephemeral_private_key")), unhex(t, v.text("receiver_public_key")))
	ciphertext := r.seal(t, []byte(v.text("plaintext_utf8")))
	for name, got := range map[string][]byte{"enc": r.enc, "dh": r.dh, "kem_shared_secret": r.shared, "key_schedule_context": r.context,
		"key": r.key, "base_nonce": r.nonce, "aad": r.aad, "ciphertext": ciphertext} {
		if hex.EncodeToString(got) != v.text(name) {
			t.Errorf("%s: %x, want %s", name, got, v.text(name))
		}
	}
	got, err := opened(t, unhex(t, v.text("receiver_private_key")), r.client(t, []byte(v.text("plaintext_utf8"))))
	if err != nil || got != v.text("plaintext_utf8") {
		t.Errorf("opened %q, %v", got, err)
	}
}

type message struct {
	Version             string `json:"version"`
	Data                string `json:"data"`
	DataSignature       string `json:"dataSignature"`
	EnclaveQuorumPublic string `json:"enclaveQuorumPublic"`
}

func parse(t testing.TB, text string) (m message, inner map[string]string) {
	t.Helper()
	must(t, json.Unmarshal([]byte(text), &m))
	must(t, json.Unmarshal(unhex(t, m.Data), &inner))
	return m, inner
}

// What the enclave signs: given the same inner document, ours is the vector's,
// to the last byte of the signature.
func TestServerVectors(t *testing.T) {
	all := vectors(t)
	for name, field := range map[string]string{"export_wallet_mnemonic": "bundle", "export_wallet_mnemonic_with_passphrase": "bundle",
		"export_private_key_hex": "bundle", "export_private_key_solana": "bundle", "import_wallet": "import_bundle", "import_private_key_hex": "import_bundle",
		"import_private_key_hex_0x": "import_bundle", "import_private_key_solana": "import_bundle", "import_secret": "import_bundle",
		"otp_target_with_org": "otp_encryption_target_bundle"} {
		v := all[name]
		private := v.text("signer_private_key")
		if private == "" {
			private = v.text("otp_signer_private_key")
		}
		s, err := bundle.NewSigner(secrettest.Of(unhex(t, private)))
		must(t, err)
		m, inner := parse(t, v.text(field))
		data := unhex(t, m.Data)
		var ours []byte
		if inner["encappedPublic"] != "" {
			ours = bundle.Exported(unhex(t, inner["encappedPublic"]), unhex(t, inner["ciphertext"]), inner["organizationId"])
		} else {
			ours = bundle.TargetOf(unhex(t, inner["targetPublic"]), inner["organizationId"], inner["userId"])
		}
		if !bytes.Equal(ours, data) {
			t.Errorf("%s: inner document\n%s, want\n%s", name, ours, data)
		}
		text, err := s.Message(ours)
		must(t, err)
		got, _ := parse(t, text)
		if !verified(t, got) || !verified(t, m) {
			t.Errorf("%s: a signature does not verify", name)
		}
		if text != v.text(field) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// Exports of the vectors open with the client's key to what the SDK decrypts.
func TestExportVectors(t *testing.T) {
	for name, v := range vectors(t) {
		if !strings.HasPrefix(name, "export_") || v.text("target_private_key") == "" {
			continue
		}
		_, inner := parse(t, v.text("bundle"))
		got, err := opened(t, unhex(t, v.text("target_private_key")), fmt.Sprintf(`{"encappedPublic":"%s","ciphertext":"%s"}`, inner["encappedPublic"], inner["ciphertext"]))
		must(t, err)
		want := v.text("sdk_decrypts_to")
		if p := v.text("plaintext_hex"); p != "" {
			want = string(unhex(t, p))
		}
		if sdk, ok := v["sdk"].(map[string]any); ok {
			want = string(unhex(t, sdk["ok"].(string)))
		}
		if got != want {
			t.Errorf("%s: %x", name, got)
		}
	}
}

// What the SDK encrypted to a target opens with the target's private key, and
// what it could not make is what a host has no way to forge.
func TestClientVectors(t *testing.T) {
	n := 0
	for name, v := range vectors(t) {
		text := v.text("encrypted_bundle") + v.text("encrypted_otp_bundle") + v.text("secret_payload")
		if text == "" {
			continue
		}
		n++
		private := unhex(t, v.text("target_private_key"))
		want := v.text("plaintext_utf8")
		if p := v.text("plaintext_hex"); p != "" {
			want = string(unhex(t, p))
		}
		got, err := opened(t, private, text)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		private[31] ^= 1
		if _, err := opened(t, private, text); err == nil {
			t.Errorf("%s opens with another key", name)
		}
	}
	if n != 7 {
		t.Errorf("%d vectors", n)
	}
}

func TestCompactVectors(t *testing.T) {
	all := vectors(t)
	v := all["credential_bundle"]
	private := unhex(t, v.text("target_private_key"))
	m, err := bundle.ParseCompact(v.text("bundle"))
	must(t, err)
	s, err := m.Open(mustSecret(t, private))
	if err != nil || hex.EncodeToString(secrettest.Bytes(s)) != v.text("sdk_decrypts_to") {
		t.Errorf("credential: %v", err)
	}
	// Sealed with the vector's one-time key, the text is the vector's.
	r := newReference(t, unhex(t, v.text("ephemeral_private_key")), unhex(t, v.text("target_public_key")))
	enc, ciphertext := m.Parts()
	if !bytes.Equal(r.enc, enc.Bytes()) || !bytes.Equal(r.seal(t, unhex(t, v.text("credential_private_key_hex"))), ciphertext) {
		t.Error("another ciphertext")
	}
	if _, err := bundle.ParseCompact(all["reject_credential_bundle_checksum"].text("bundle")); err == nil {
		t.Error("a wrong checksum is taken")
	}
	v = all["on_ramp_secret"]
	m, err = bundle.ParseCompact(v.text("encrypted"))
	must(t, err)
	s, err = m.Open(mustSecret(t, unhex(t, v.text("onramp_private_key"))))
	if err != nil || plain(s) != v.text("plaintext_utf8") {
		t.Errorf("on-ramp: %v", err)
	}
}
