package login_test

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
)

// bundleVectors are texts by name.
func bundleVectors(t testing.TB) []map[string]string {
	t.Helper()
	var f struct{ Vectors []map[string]any }
	load(t, "hpke_bundles.json", &f)
	out := make([]map[string]string, len(f.Vectors))
	for i, v := range f.Vectors {
		out[i] = map[string]string{}
		for name, value := range v {
			out[i][name], _ = value.(string)
		}
	}
	return out
}

func vectorNamed(t testing.TB, name string) map[string]string {
	t.Helper()
	for _, v := range bundleVectors(t) {
		if v["name"] == name {
			return v
		}
	}
	t.Fatal("no vector " + name)
	return nil
}

func TestClientSecret(t *testing.T) {
	v := vectorNamed(t, "oauth2_client_secret")
	private, text := unhex(t, v["enclave_private_key"]), v["encrypted_hex"]
	open := func(text string) (string, error) {
		s, err := login.OpenClientSecret("encryptedClientSecret", text, mustSecret(t, append([]byte(nil), private...)))
		return plain(s), err
	}
	for _, same := range []string{text, strings.ToUpper(text)} {
		if got, err := open(same); err != nil || got != v["plaintext_utf8"] {
			t.Errorf("%q, %v", got, err)
		}
	}
	// Each byte is bound.
	for i := range len(text) / 2 {
		b := unhex(t, text)
		b[i] ^= 1
		_, err := open(hex.EncodeToString(b))
		refused(t, "altered", err, fault.InvalidArgument, "encryptedClientSecret", "invalid client secret")
	}
	length := func(b []byte, n int) string {
		binary.LittleEndian.PutUint32(b[77:], uint32(n))
		return hex.EncodeToString(b)
	}
	raw := unhex(t, text)
	for name, text := range map[string]string{
		"nothing": "", "odd": text[1:], "no hex": "zz" + text[2:], "0x": "0x" + text, "cut": text[:len(text)-2], "longer": text + "00", "head only": text[:162], "tag only": length(unhex(t, text)[:97], 16), "no ciphertext": length(unhex(t, text)[:81], 0),
		"huge length": length(unhex(t, text), -1), "big-endian length": hex.EncodeToString(raw[:77]) + "00000023" + hex.EncodeToString(raw[81:]), "long": strings.Repeat("00", 4097), "very long": strings.Repeat("0", 1<<20),
		"point at infinity": hex.EncodeToString(raw[:12]) + strings.Repeat("00", 65) + hex.EncodeToString(raw[77:]), "off the curve": hex.EncodeToString(raw[:12]) + "04" + strings.Repeat("11", 64) + hex.EncodeToString(raw[77:]),
		"a compact bundle": vectorNamed(t, "on_ramp_secret")["encrypted"],
	} {
		_, err := open(text)
		refused(t, name, err, fault.InvalidArgument, "encryptedClientSecret", "invalid client secret")
	}
	_, err := login.OpenClientSecret("f", text, mustSecret(t, unhex(t, strings.Repeat("11", 32))))
	refused(t, "another key", err, fault.InvalidArgument, "f", "not encrypted to this enclave's key")
	wiped := mustSecret(t, unhex(t, v["enclave_private_key"]))
	wiped.Wipe()
	_, err = login.OpenClientSecret("f", text, wiped)
	refused(t, "a wiped key", err, fault.InvalidArgument, "f", "not encrypted")
}

func TestOnRampSecret(t *testing.T) {
	v := vectorNamed(t, "on_ramp_secret")
	private := mustSecret(t, unhex(t, v["onramp_private_key"]))
	got, err := login.OpenOnRampSecret("encryptedSecretApiKey", v["encrypted"], private)
	if err != nil || plain(got) != v["plaintext_utf8"] {
		t.Errorf("%v", err)
	}
	for name, text := range map[string]string{"nothing": "", "cut": v["encrypted"][1:], "hex": vectorNamed(t, "oauth2_client_secret")["encrypted_hex"], "long": strings.Repeat("2", 1<<20)} {
		_, err := login.OpenOnRampSecret("encryptedSecretApiKey", text, private)
		refused(t, name, err, fault.InvalidArgument, "encryptedSecretApiKey", "invalid secret")
	}
	_, err = login.OpenOnRampSecret("f", v["encrypted"], mustSecret(t, unhex(t, strings.Repeat("11", 32))))
	refused(t, "another key", err, fault.InvalidArgument, "f", "not encrypted to this enclave's key")
}
