package stamp_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"sync"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/stamp"
)

const body = `{"organizationId":"05ff74cb-bf52-45c6-a81e-8d82099d7f78"}`

// known returns a vector by name.
func known(t testing.TB, name string) vector {
	for _, x := range stampVectors(t) {
		if x.Name == name {
			return x
		}
	}
	t.Fatal(name)
	return vector{}
}

func TestHeaders(t *testing.T) {
	x := known(t, "p256_node_query")
	good := stamp.Header{Name: "X-Stamp", Value: x.Value}
	v := stamp.NewVerifier()
	for _, name := range []string{"X-Stamp", "x-stamp", "X-STAMP", "x-StAmP"} {
		if _, err := v.Verify([]stamp.Header{{Name: "Accept", Value: "*/*"}, {Name: name, Value: x.Value}}, []byte(x.Body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, headers := range [][]stamp.Header{nil, {{Name: "X-Stam", Value: x.Value}}, {{Name: "X-Stamp ", Value: x.Value}}, {{Name: "X-\u017ftamp", Value: x.Value}}, {{Name: "X_Stamp", Value: x.Value}}, {{Name: "Authorization", Value: x.Value}}} {
		c, err := v.Verify(headers, []byte(x.Body))
		f := fault.Of(err)
		if c != nil || f == nil || f.Code != fault.Unauthenticated || f.Name != "SIGNATURE_MISSING" || f.Message != "no valid authentication signature found for request" {
			t.Errorf("%q: %v", headers, err)
		}
	}
	for _, other := range []string{"X-Stamp", "x-stamp", "X-Stamp-Webauthn", "X-Stamp-WebAuthn", "x-stamp-attested", "X-Session"} {
		for _, value := range []string{x.Value, ""} {
			for _, headers := range [][]stamp.Header{{good, {Name: other, Value: value}}, {{Name: other, Value: value}, good}} {
				_, err := v.Verify(headers, []byte(x.Body))
				refusedAs(t, err, "malformed activity stamp: more than one")
			}
		}
	}
	_, err := v.Verify([]stamp.Header{{Name: "X-Stamp-Attested", Value: strings.Repeat("x", stamp.MaxHeader+1)}}, []byte(x.Body))
	refusedAs(t, err, "malformed activity stamp: header too large")
	for _, name := range []string{"X-Session"} {
		c, err := v.Verify([]stamp.Header{{Name: strings.ToLower(name), Value: "x"}}, []byte(x.Body))
		if f := fault.Of(err); c != nil || f == nil || f.Code != fault.Unimplemented || f.Message != "UNIMPLEMENTED: "+name || f.Name != "" {
			t.Errorf("%s: %v", name, err)
		}
		_, err = v.Verify([]stamp.Header{{Name: name, Value: strings.Repeat("x", stamp.MaxHeader+1)}}, []byte(x.Body))
		refusedAs(t, err, "malformed activity stamp: header too large")
	}
}

func TestTolerated(t *testing.T) {
	x := known(t, "p256_node_query")
	d := x.Decoded
	v := stamp.NewVerifier()
	orders := map[string]string{
		"reordered":  `{"signature":"` + d.Signature + `","scheme":"` + d.Scheme + `","publicKey":"` + d.PublicKey + `"}`,
		"spaced":     ` { "publicKey" : "` + d.PublicKey + `", "scheme":"` + d.Scheme + `","signature":"` + d.Signature + "\"}\n",
		"spaced 1":   ` { "publicKey" : "` + d.PublicKey + `", "scheme":"` + d.Scheme + `","signature":"` + d.Signature + "\"} \n",
		"spaced 2":   ` { "publicKey" : "` + d.PublicKey + `", "scheme":"` + d.Scheme + `","signature":"` + d.Signature + "\"}  \n",
		"snake":      `{"public_key":"` + d.PublicKey + `","scheme":"` + d.Scheme + `","signature":"` + d.Signature + `"}`,
		"upper case": `{"publicKey":"` + strings.ToUpper(d.PublicKey) + `","scheme":"` + d.Scheme + `","signature":"` + strings.ToUpper(d.Signature) + `"}`,
		"large":      strings.Repeat(" ", 8000) + `{"publicKey":"` + d.PublicKey + `","scheme":"` + d.Scheme + `","signature":"` + d.Signature + `"}`,
	}
	for name, text := range orders {
		for _, e := range []*base64.Encoding{base64.RawURLEncoding, base64.URLEncoding} {
			c, err := v.Verify(xstamp(e.EncodeToString([]byte(text))), []byte(x.Body))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if c.PublicKey() != d.PublicKey || !strings.EqualFold(c.Signature(), d.Signature) {
				t.Errorf("%s: %s %s", name, c.PublicKey(), c.Signature())
			}
		}
	}
	if c, err := v.Verify(xstamp(x.Value), []byte(x.Body)); err != nil || string(c.Body().Bytes()) != x.Body {
		t.Error(err)
	}
}

func TestUnreadable(t *testing.T) {
	x := known(t, "p256_node_query")
	d := x.Decoded
	enc := base64.RawURLEncoding.EncodeToString
	text, _ := base64.RawURLEncoding.DecodeString(x.Value)
	s := string(text)
	two := enc([]byte(s + " ")) // a text whose padded form ends in ==
	for len(two)%4 != 2 {
		s += " "
		two = enc([]byte(s))
	}
	last := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", two[len(two)-1])
	bits := two[:len(two)-1] + string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last+1])
	member := func(pub, scheme, sig string) string { return enc([]byte(`{` + pub + scheme + sig + `}`)) }
	pub, scheme, sig := `"publicKey":"`+d.PublicKey+`",`, `"scheme":"`+d.Scheme+`",`, `"signature":"`+d.Signature+`"`
	if !accepted(stamp.NewVerifier(), member(pub, scheme, sig), x.Body) || !accepted(stamp.NewVerifier(), two, x.Body) || !accepted(stamp.NewVerifier(), two+"==", x.Body) {
		t.Fatal("the pattern itself is refused")
	}
	cases := map[string]string{
		"empty":              "",
		"not base64":         "!!!!",
		"plain JSON":         s,
		"standard alphabet":  strings.Repeat("+/", 20),
		"line break":         x.Value[:20] + "\n" + x.Value[20:],
		"carriage return":    x.Value[:20] + "\r\n" + x.Value[20:],
		"break at the end":   x.Value + "\n",
		"space":              x.Value[:20] + " " + x.Value[20:],
		"too little padding": two + "=",
		"too much padding":   two + "===",
		"padding inside":     two[:8] + "=" + two[8:],
		"only padding":       "====",
		"left-over bits":     bits,
		"one digit more":     enc([]byte("abc")) + "A",
		"not JSON":           enc([]byte("hello")),
		"array":              enc([]byte("[]")),
		"null":               enc([]byte("null")),
		"two values":         enc([]byte(s + "{}")),
		"cut":                enc([]byte(s[:len(s)-10])),
		"extra member":       member(pub, scheme, `"x":"",`+sig),
		"nested":             member(pub, scheme, `"signature":{"signature":"`+d.Signature+`"}`),
		"repeated member":    member(pub+pub, scheme, sig),
		"both forms":         member(pub, `"public_key":"`+d.PublicKey+`",`+scheme, sig),
		"other case":         member(strings.Replace(pub, "publicKey", "PublicKey", 1), scheme, sig),
		"no key":             member("", scheme, sig),
		"null key":           member(`"publicKey":null,`, scheme, sig),
		"empty key":          member(`"publicKey":"",`, scheme, sig),
		"no scheme":          member(pub, "", sig),
		"no signature":       member(pub, strings.TrimSuffix(scheme, ","), ""),
		"number":             member(pub, scheme, `"signature":1`),
		"bad UTF-8":          member(pub, "\"scheme\":\"\xff\",", sig),
	}
	for name, value := range cases {
		_, err := stamp.NewVerifier().Verify(xstamp(value), []byte(x.Body))
		f := fault.Of(err)
		if f == nil || !strings.HasPrefix(f.Message, "could not extract api key stamp") || f.Code != fault.Unauthenticated || f.Name != "SIGNATURE_INVALID" || len(f.Message) > 120 {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := stamp.NewVerifier().Verify(xstamp(strings.Repeat("A", stamp.MaxHeader+1)), []byte(x.Body))
	refusedAs(t, err, "malformed activity stamp: header too large")
	t.Logf("%d unreadable headers refused", len(cases))
}

func TestMalformed(t *testing.T) {
	const (
		p256 = "SIGNATURE_SCHEME_TK_API_P256"
		k256 = "SIGNATURE_SCHEME_TK_API_SECP256K1"
		ed   = "SIGNATURE_SCHEME_TK_API_ED25519"
	)
	x := known(t, "p256_node_query").Decoded
	e := known(t, "ed25519_go_activity").Decoded
	uncompressed := "04" + strings.Repeat("11", 64)
	cases := map[string]parts{
		"scheme unknown":       {x.PublicKey, "SIGNATURE_SCHEME_TK_API_P384", x.Signature},
		"scheme lower case":    {x.PublicKey, strings.ToLower(p256), x.Signature},
		"scheme of webauthn":   {x.PublicKey, "SIGNATURE_SCHEME_TK_WEBAUTHN", x.Signature},
		"scheme with space":    {x.PublicKey, p256 + " ", x.Signature},
		"key with 0x":          {"0x" + x.PublicKey[:64], p256, x.Signature},
		"key uncompressed":     {uncompressed, p256, x.Signature},
		"key not hex":          {strings.Repeat("zz", 33), p256, x.Signature},
		"key non-ASCII":        {strings.Repeat("é", 33), p256, x.Signature},
		"key short":            {x.PublicKey[:64], p256, x.Signature},
		"key long":             {x.PublicKey + "00", p256, x.Signature},
		"key odd":              {x.PublicKey[:65], p256, x.Signature},
		"key prefix 04":        {"04" + x.PublicKey[2:], p256, x.Signature},
		"key prefix 00":        {"00" + x.PublicKey[2:], p256, x.Signature},
		"key off the curve":    {"02" + strings.Repeat("00", 31) + "07", p256, x.Signature},
		"key over the prime":   {"02" + strings.Repeat("ff", 32), p256, x.Signature},
		"k1 off the curve":     {"02" + strings.Repeat("00", 31) + "05", k256, x.Signature},
		"k1 over the prime":    {"02" + strings.Repeat("ff", 32), k256, x.Signature},
		"k1 uncompressed":      {uncompressed, k256, x.Signature},
		"k1 hybrid prefix":     {"06" + x.PublicKey[2:], k256, x.Signature},
		"ed key long":          {x.PublicKey, ed, e.Signature},
		"signature not hex":    {x.PublicKey, p256, strings.Repeat("zz", 70)},
		"signature odd":        {x.PublicKey, p256, x.Signature[:139]},
		"signature raw":        {x.PublicKey, p256, strings.Repeat("11", 64)},
		"signature too long":   {x.PublicKey, p256, strings.Repeat("11", 73)},
		"signature huge":       {x.PublicKey, p256, strings.Repeat("11", 4000)},
		"ed signature as DER":  {e.PublicKey, ed, x.Signature},
		"ed signature short":   {e.PublicKey, ed, e.Signature[:126]},
		"ed signature long":    {e.PublicKey, ed, e.Signature + "00"},
		"signature with tail":  {x.PublicKey, p256, x.Signature + "00"},
		"signature without r":  {x.PublicKey, p256, "300202" + "00"},
		"signature of nothing": {x.PublicKey, p256, "3000"},
	}
	for name, p := range cases {
		v := stamp.NewVerifier()
		_, err := v.Verify(xstamp(header(p)), []byte(body))
		f := fault.Of(err)
		if f == nil || !strings.HasPrefix(f.Message, "malformed activity stamp: ") || f.Code != fault.Unauthenticated || f.Name != "SIGNATURE_INVALID" {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(err.Error(), p.Signature) || strings.Contains(err.Error(), p.PublicKey) {
			t.Errorf("%s: the error repeats what was sent", name)
		}
		if stamp.CachedP256(v)+stamp.CachedSecp256k1(v) != 0 {
			t.Errorf("%s: a key was kept", name)
		}
	}
	_, err := stamp.NewVerifier().Verify(xstamp(header(x)), []byte(body+" "))
	refusedAs(t, err, "could not verify api key signature")
	t.Logf("%d malformed stamps refused", len(cases))
}

func TestOnlyProvenKeysAreKept(t *testing.T) {
	v := stamp.NewVerifier()
	for _, name := range []string{"p256_node_query", "secp256k1_go_activity"} {
		x := known(t, name)
		for range 3 {
			if accepted(v, x.Value, x.Body+" ") {
				t.Error(name)
			}
		}
	}
	if stamp.CachedP256(v) != 0 || stamp.CachedSecp256k1(v) != 0 {
		t.Error("a key came in with a signature that failed")
	}
	for _, x := range stampVectors(t) {
		if x.Header == "X-Stamp" {
			first, second := accepted(v, x.Value, x.Body), accepted(v, x.Value, x.Body)
			if first != second || first != (x.Expect == "accept") {
				t.Errorf("%s: %v, then %v", x.Name, first, second)
			}
		}
	}
	if stamp.CachedP256(v) == 0 || stamp.CachedSecp256k1(v) == 0 {
		t.Error("no key was kept")
	}
}

func TestKeyCache(t *testing.T) {
	name := func(i int) (n [33]byte) { n[0], n[1], n[2] = 2, byte(i), byte(i>>8); return n }
	value := make([]int, 1000)
	for i := range value {
		value[i] = i
	}
	c := stamp.NewKeyCache(8)
	for i := range 8 {
		c.Put(name(i), &value[i])
	}
	for i := range 8 {
		if got := c.Get(name(i)); got == nil || *got != i {
			t.Errorf("%d: %v", i, got)
		}
	}
	// Strangers pass through while two keys are in use: these two stay.
	for i := 8; i < 1000; i++ {
		if c.Get(name(3)) == nil || c.Get(name(5)) == nil {
			t.Fatalf("a key in use was dropped for stranger %d", i)
		}
		c.Put(name(i), &value[i])
		c.Put(name(i), &value[0])
		if got := c.Get(name(i)); i%3 == 0 && (got == nil || *got != i) {
			t.Fatalf("%d: %v", i, got)
		}
		if c.Len() > 8 {
			t.Fatalf("%d keys kept", c.Len())
		}
	}
	if c.Get(name(0)) != nil {
		t.Error("an unused key stayed")
	}
}

func TestConcurrent(t *testing.T) {
	v := stamp.NewVerifier()
	vectors := stampVectors(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, x := range vectors {
				if x.Header == "X-Stamp" && accepted(v, x.Value, x.Body) != (x.Expect == "accept") {
					t.Errorf("%s: not as expected", x.Name)
				}
			}
		})
	}
	wg.Wait()
}

func TestEmptyAndOddBodies(t *testing.T) {
	pub, priv := ed25519Pair()
	v := stamp.NewVerifier()
	for _, b := range []string{"", "\x00\xff", strings.Repeat("x", 1<<20)} {
		p := parts{pub, "SIGNATURE_SCHEME_TK_API_ED25519", hex.EncodeToString(ed25519.Sign(priv, []byte(b)))}
		c, err := v.Verify(xstamp(header(p)), []byte(b))
		if err != nil || string(c.Body().Bytes()) != b {
			t.Errorf("%d bytes: %v", len(b), err)
		}
		if accepted(v, header(p), b+"x") {
			t.Errorf("%d bytes: accepted with one more", len(b))
		}
	}
}
