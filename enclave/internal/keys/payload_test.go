package keys_test

import (
	"bytes"
	"strings"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
)

// refused checks code and beginning of a message.
func refused(t *testing.T, what string, err error, code fault.Code, stem string) {
	t.Helper()
	if e := fault.Of(err); e == nil || e.Code != code || !strings.HasPrefix(e.Message, stem) {
		t.Errorf("%s: %v, want %d %q", what, err, code, stem)
	}
}

func TestDecodePayload(t *testing.T) {
	const text, hexadecimal = "PAYLOAD_ENCODING_TEXT_UTF8", "PAYLOAD_ENCODING_HEXADECIMAL"
	for _, c := range []struct{ encoding, payload, want string }{
		{hexadecimal, "0x00fFA1", "\x00\xff\xa1"}, {hexadecimal, "00ffa1", "\x00\xff\xa1"}, {hexadecimal, "", ""}, {hexadecimal, "0x", ""},
		{text, "0x00", "0x00"}, {text, "clöister ✓", "clöister ✓"}, {text, "", ""},
		{hexadecimal, strings.Repeat("00", keys.MaxPayload), strings.Repeat("\x00", keys.MaxPayload)},
	} {
		if b, err := keys.DecodePayload(c.encoding, c.payload); err != nil || string(b) != c.want {
			t.Errorf("%s %.20q: %x, %v", c.encoding, c.payload, b, err)
		}
	}
	for _, bad := range []string{"0", "0x0", "xyz0", "0X00", "0x0x00", " 00", "00 ", "00\n", "0g", "00-1", "é0"} {
		_, err := keys.DecodePayload(hexadecimal, bad)
		refused(t, bad, err, fault.InvalidArgument, "invalid payload encoding")
		if strings.Contains(err.Error(), bad) && len(bad) > 2 {
			t.Errorf("%q is in the message", bad)
		}
	}
	for _, bad := range []string{"\xff", "a\xc3", "\xed\xa0\x80"} {
		_, err := keys.DecodePayload(text, bad)
		refused(t, bad, err, fault.InvalidArgument, "invalid payload encoding")
	}
	for _, e := range []string{"", "HEXADECIMAL", "payload_encoding_hexadecimal", "PAYLOAD_ENCODING_HEXADECIMAL ", "PAYLOAD_ENCODING_BASE64", "PAYLOAD_ENCODING_UNSPECIFIED", "PAYLOAD_ENCODING_EIP712"} {
		_, err := keys.DecodePayload(e, "00")
		refused(t, e, err, fault.InvalidArgument, "invalid payload encoding")
	}
	_, err := keys.DecodePayload(hexadecimal, strings.Repeat("0", 2*keys.MaxPayload+2))
	refused(t, "long", err, fault.InvalidArgument, "payload too large")
	_, err = keys.DecodePayload(text, strings.Repeat("0", keys.MaxPayload+1))
	refused(t, "long", err, fault.InvalidArgument, "payload too large")
}

func TestHashFunctions(t *testing.T) {
	for h := keys.HashNoOp; h <= keys.HashNotApplicable; h++ {
		if got, err := keys.ParseHashFunction(h.String()); err != nil || got != h {
			t.Errorf("%v: %v, %v", h, got, err)
		}
	}
	for _, bad := range []string{"", "HASH_FUNCTION_", "NO_OP", "HASH_FUNCTION_SHA512", "HASH_FUNCTION_no_op", "HASH_FUNCTION_NO_OP\x00", keys.HashFunction(0).String(), keys.HashFunction(5).String()} {
		h, err := keys.ParseHashFunction(bad)
		refused(t, bad, err, fault.InvalidArgument, "invalid hash function")
		if h != 0 {
			t.Errorf("%q gave %v", bad, h)
		}
	}
}

func TestDigestRefuses(t *testing.T) {
	digest := make([]byte, 32)
	for _, c := range []chain.Curve{chain.Secp256k1, chain.P256} {
		for _, n := range []int{0, 1, 20, 31, 33, 64} {
			_, err := keys.Digest(c, keys.HashNoOp, make([]byte, n))
			refused(t, c.String(), err, fault.InvalidArgument, "expected a 32-bytes-long digest")
		}
		for _, h := range []keys.HashFunction{0, keys.HashNotApplicable, 5, 255} {
			_, err := keys.Digest(c, h, digest)
			refused(t, c.String(), err, fault.InvalidArgument, "invalid hash function")
		}
	}
	for _, h := range []keys.HashFunction{0, keys.HashNoOp, keys.HashSHA256, keys.HashKeccak256, 5} {
		_, err := keys.Digest(chain.Ed25519, h, digest)
		refused(t, "ed25519", err, fault.InvalidArgument, "invalid hash function")
	}
	for _, c := range []chain.Curve{0, 4} {
		_, err := keys.Digest(c, keys.HashSHA256, digest)
		refused(t, "no curve", err, fault.InvalidArgument, "invalid curve")
	}
	_, err := keys.Digest(chain.Ed25519, keys.HashNotApplicable, make([]byte, keys.MaxPayload+1))
	refused(t, "long", err, fault.InvalidArgument, "payload too large")
	if m, err := keys.Digest(chain.Ed25519, keys.HashNotApplicable, []byte("any length")); err != nil || string(m) != "any length" {
		t.Errorf("ed25519: %v", err)
	}
}

func TestParsePath(t *testing.T) {
	for _, good := range []string{"m", "m/0", "m/0'", "m/44'/60'/0'/0/0", "m/2147483647'/2147483647", "m/8797555'/0'/0'", "m" + strings.Repeat("/2147483647'", keys.MaxPathSteps)} {
		if p, err := keys.ParsePath(good); err != nil || p.String() != good {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "M", "/", "m/", "m//0", "m/0/", "0", "44'/60'", "/m", "mm", "m0", "m/m", "m/'", "m/0''", "m/0'0", "m/0h", "m/0H", "m/0’", "m/-1", "m/+1", "m/00", "m/01'",
		"m/1_0", "m/0x1", "m/1e3", "m/2147483648", "m/2147483648'", "m/4294967296", "m/99999999999999999999", " m/0", "m/0 ", "m/ 0", "m/0\n", "m/0\x00", "m/٣", "n/0", "m/0/../1", "m\\0",
		"m" + strings.Repeat("/0", keys.MaxPathSteps+1), "m" + strings.Repeat("/2147483647'", keys.MaxPathSteps+1), "m/" + strings.Repeat("0", 500)} {
		p, err := keys.ParsePath(bad)
		refused(t, bad, err, fault.InvalidArgument, "invalid path")
		if p.String() != "" || err.Error() != "invalid path" {
			t.Errorf("%q left %q and %q", bad, p, err)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"m", "m/44'/60'/0'/0/0", "m/0h", "m//", "m/2147483648"} {
		f.Add(s)
	}
	seed := bytes.Repeat([]byte{1}, 64)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := keys.ParsePath(s)
		if err != nil {
			if fault.Of(err) == nil {
				t.Error("no fault")
			}
			return
		}
		if p.String() != s || len(s) > keys.MaxPathText || strings.Count(s, "/") > keys.MaxPathSteps || strings.Trim(s, "m/'0123456789") != "" {
			t.Errorf("%q was taken as %q", s, p)
		}
		if _, _, ok := keys.DeriveFromSeed(seed, chain.Ed25519, s); !ok {
			t.Errorf("%q derives nothing", s)
		}
	})
}

func FuzzDecodePayload(f *testing.F) {
	for _, s := range []string{"0x00", "00ff", "text", "0", "\xff"} {
		f.Add("PAYLOAD_ENCODING_HEXADECIMAL", s)
		f.Add("PAYLOAD_ENCODING_TEXT_UTF8", s)
		f.Add("PAYLOAD_ENCODING_EIP712", s)
	}
	f.Fuzz(func(t *testing.T, encoding, s string) {
		b, err := keys.DecodePayload(encoding, s)
		if err != nil {
			if fault.Of(err) == nil || b != nil {
				t.Errorf("%v with %d bytes", err, len(b))
			}
			return
		}
		if encoding == "PAYLOAD_ENCODING_TEXT_UTF8" && string(b) != s || len(b) > keys.MaxPayload || len(b) > len(s) {
			t.Errorf("%q became %q", s, b)
		}
		for _, c := range []chain.Curve{0, chain.Secp256k1, chain.P256, chain.Ed25519} {
			for h := keys.HashFunction(0); h < 6; h++ {
				m, err := keys.Digest(c, h, b)
				if err == nil && c != chain.Ed25519 && len(m) != 32 {
					t.Errorf("%v %v: a digest of %d bytes", c, h, len(m))
				}
			}
		}
	})
}
