package stamp_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/stamp"
)

// FuzzVerify feeds header values. A value that is accepted must decode with
// encoding/json to the parts that the Caller shows, and every other value is
// refused with a small printable error.
func FuzzVerify(f *testing.F) {
	for _, x := range stampVectors(f) {
		if x.Header == "X-Stamp" {
			f.Add(x.Value, []byte(x.Body))
		}
	}
	f.Add("", []byte{})
	f.Add("e30", []byte("{}"))
	v := stamp.NewVerifier()
	f.Fuzz(func(t *testing.T, value string, body []byte) {
		c, err := v.Verify(xstamp(value), body)
		if err != nil {
			e := fault.Of(err)
			if c != nil || e == nil || e.Code != fault.Unauthenticated || len(e.Message) > 120 || strings.ContainsFunc(e.Message, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("%v, %v", c, err)
			}
			return
		}
		text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(value, "="))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]string
		if err := json.Unmarshal(text, &m); err != nil || len(m) != 3 {
			t.Fatalf("%q: %v", text, err)
		}
		key := m["publicKey"] + m["public_key"]
		if !strings.EqualFold(key, c.PublicKey()) || m["scheme"] != c.Scheme().String() || m["signature"] != c.Signature() ||
			!bytes.Equal(c.Body().Bytes(), body) || c.Fingerprint() != sha256.Sum256(body) {
			t.Fatalf("%q: %+v", text, c)
		}
	})
}
