package login_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
)

func jwk(members string) string { return `{"keys":[{` + members + `}]}` }

// modulus is an odd number of so many bits.
func modulus(bits int) string {
	b := make([]byte, (bits+7)/8)
	b[0] = 1 << ((bits - 1) % 8)
	b[len(b)-1] |= 1
	return base64.RawURLEncoding.EncodeToString(b)
}

func TestParseKeySet(t *testing.T) {
	ec := strings.TrimSuffix(strings.TrimPrefix(string(login.MarshalKeySet(signer(t, "11").Public())), `{"keys":[{`), `}]}`)
	x := strings.Split(strings.Split(ec, `"x":"`)[1], `"`)[0]
	ed := `"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"`
	rsa := func(bits int, e string) string { return `"kty":"RSA","n":"` + modulus(bits) + `","e":"` + e + `"` }
	change := func(old, now string) string { return jwk(strings.Replace(ec, old, now, 1)) }
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"ours": {jwk(ec), 1}, "Ed25519": {jwk(ed), 1}, "RSA 2048": {jwk(rsa(2048, "AQAB")), 1}, "RSA 8192": {jwk(rsa(8192, "AQAB")), 1}, "none": {`{"keys":[]}`, 0}, "more members of the set": {`{"x":{},"keys":[{` + ec + `}]}`, 1},
		"more members of a key": {jwk(ec + `,"x5c":["a"],"issuer":"i"`), 1}, "null members": {jwk(ec + `,"x5t":null,"key_ops":null`), 1}, "among others": {`{"keys":[{"kty":"oct","k":"AA"},{"kty":"unknown"},{},1,"x",null,[],{` + ec + `}]}`, 1},
		"RSA 2047": {jwk(rsa(2047, "AQAB")), 0}, "RSA 8193": {jwk(rsa(8193, "AQAB")), 0}, "RSA of 1 MB": {jwk(`"kty":"RSA","e":"AQAB","n":"` + strings.Repeat("A", 100_000) + `"`), 0},
		"exponent 1": {jwk(rsa(2048, "AQ")), 0}, "exponent 3": {jwk(rsa(2048, "Aw")), 0}, "exponent even": {jwk(rsa(2048, "AQAA")), 0}, "exponent 0": {jwk(rsa(2048, "AA")), 0}, "exponent large": {jwk(rsa(2048, "AQAAAAAAAQAB")), 0},
		"exponent missing": {jwk(`"kty":"RSA","n":"` + modulus(2048) + `"`), 0}, "modulus even": {jwk(`"kty":"RSA","e":"AQAB","n":"` + base64.RawURLEncoding.EncodeToString(append([]byte{0x80}, make([]byte, 255)...)) + `"`), 0},
		"modulus padded": {jwk(strings.Replace(rsa(2048, "AQAB"), `","e"`, `==","e"`, 1)), 0}, "modulus in plain base64": {jwk(strings.Replace(rsa(2048, "AQAB"), `"n":"g`, `"n":"+`, 1)), 0},
		"private": {jwk(ec + `,"d":"AAAA"`), 0}, "private, null": {jwk(ec + `,"d":null`), 0}, "symmetric": {jwk(`"kty":"oct","k":"AAAA","kid":"x"`), 0}, "for encryption": {change(`"sig"`, `"enc"`), 0}, "use number": {change(`"sig"`, `1`), 0},
		"no use": {change(`"use":"sig",`, ``), 1}, "ops verify": {jwk(ec + `,"key_ops":["sign","verify"]`), 1}, "ops sign": {jwk(ec + `,"key_ops":["sign"]`), 0}, "ops none": {jwk(ec + `,"key_ops":[]`), 0}, "ops text": {jwk(ec + `,"key_ops":"verify"`), 0},
		"kid number": {jwk(strings.Replace(ec, `"kid":"`, `"kid":1,"y1":"`, 1)), 0}, "kid empty": {jwk(strings.Replace(ec, `"kid":"`, `"kid":"","y1":"`, 1)), 0}, "kid long": {jwk(strings.Replace(ec, `"kid":"`, `"kid":"`+strings.Repeat("k", 300), 1)), 0},
		"alg empty": {change(`"ES256"`, `""`), 0}, "P-384": {change("P-256", "P-384"), 0}, "no curve": {change(`"crv":"P-256",`, ""), 0}, "EC as RSA": {change(`"EC"`, `"RSA"`), 0}, "off the curve": {change(x, strings.Repeat("A", 43)), 0},
		"x short": {change(x, x[:40]), 0}, "x long": {change(x, "AA"+x), 0}, "x with a zero": {change(x, base64.RawURLEncoding.EncodeToString(append([]byte{0}, make([]byte, 32)...))), 0}, "x with a break": {change(x, x[:20]+`\n`+x[20:]), 0}, "x number": {change(`"`+x+`"`, "5"), 0},
		"Ed25519 short": {jwk(strings.Replace(ed, "11qYAY", "1qYAY", 1)), 0}, "X25519": {jwk(strings.Replace(ed, "Ed25519", "X25519", 1)), 0}, "Ed448": {jwk(strings.Replace(ed, "Ed25519", "Ed448", 1)), 0},
	} {
		s, err := login.ParseKeySet("oidcToken", []byte(c.text))
		if err != nil || s.Len() != c.want {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	hundred := strings.TrimSuffix(strings.Repeat(`{`+ec+`},`, login.MaxKeys), ",")
	if s, err := login.ParseKeySet("f", []byte(`{"keys":[`+hundred+`]}`)); err != nil || s.Len() != 100 {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"nothing": "", "null": "null", "array": "[]", "text": `"keys"`, "no keys": "{}", "keys null": `{"keys":null}`, "keys object": `{"keys":{}}`, "trailing": `{"keys":[]}x`, "keys twice": `{"keys":[],"keys":[]}`, "keys twice by escape": `{"keys":[],"k\u0065ys":[]}`,
		"member of a key twice": jwk(ec + `,"kty":"EC"`), "invalid UTF-8": jwk("\"\xff\":1"), "101 keys": `{"keys":[` + hundred + `,{` + ec + `}]}`, "deep": `{"keys":[` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `]}`,
		"large": `{"keys":[]}` + strings.Repeat(" ", login.MaxKeySet), "many values": `{"keys":[],"x":[` + strings.Repeat("1,", 60_000) + `1]}`, "two sets": `{"keys":[]},"value":{"keys":[]}`, "HTML": "<html>",
	} {
		_, err := login.ParseKeySet("oidcToken", []byte(text))
		refused(t, name, err, fault.InvalidArgument, "oidcToken", "invalid OIDC token: the issuer's key set is")
	}
}

// A key is chosen by the token's key id and algorithm; of several with one id each is tried, as far as that is bounded.
func TestKeyOfToken(t *testing.T) {
	a, b := signer(t, "11"), signer(t, "22")
	claims := `{"iss":"i","aud":"a","sub":"s","iat":1,"exp":4102444800}`
	key := func(s *login.Signer, kid, more string) string {
		text := strings.TrimSuffix(strings.TrimPrefix(string(login.MarshalKeySet(s.Public())), `{"keys":[{`), `}]}`)
		return `{` + strings.Replace(text, `"kid":"`+s.Public().ID()+`"`, kid, 1) + more + `}`
	}
	c := signer(t, "33")
	several := func(n int) string {
		all := key(b, `"kid":"b"`, "")
		for i := 1; i < n; i++ {
			all = key(signer(t, fmt.Sprint(40+i)), `"kid":"b"`, "") + "," + all
		}
		return all
	}
	for name, c := range map[string]struct {
		header, keys, why string
	}{
		"by kid":                {`{"alg":"ES256","kid":"b"}`, key(a, `"kid":"a"`, "") + "," + key(b, `"kid":"b"`, ""), ""},
		"kid of the other":      {`{"alg":"ES256","kid":"a"}`, key(a, `"kid":"a"`, "") + "," + key(b, `"kid":"b"`, ""), "signature does not verify"},
		"kid in other case":     {`{"alg":"ES256","kid":"B"}`, key(b, `"kid":"b"`, ""), "no key for it"},
		"unknown kid":           {`{"alg":"ES256","kid":"c"}`, key(b, `"kid":"b"`, ""), "no key for it"},
		"kid, key without":      {`{"alg":"ES256","kid":"b"}`, key(b, `"x5t":"b"`, ""), "no key for it"},
		"no kid, one key":       {`{"alg":"ES256"}`, key(b, `"kid":"b"`, ""), ""},
		"no kid, two keys":      {`{"alg":"ES256"}`, key(a, `"kid":"a"`, "") + "," + key(b, `"kid":"b"`, ""), "it has no kid, and the issuer has more than one key"},
		"no kid, one key twice": {`{"alg":"ES256"}`, key(b, `"kid":"a"`, "") + "," + key(b, `"kid":"b"`, ""), ""},
		"kid twice":             {`{"alg":"ES256","kid":"b"}`, key(a, `"kid":"b"`, "") + "," + key(b, `"kid":"b"`, ""), ""},
		"kid twice, one key":    {`{"alg":"ES256","kid":"b"}`, key(b, `"kid":"b"`, "") + "," + key(b, `"kid":"b"`, `,"x5t":"b"`), ""},
		"kid twice, of others":  {`{"alg":"ES256","kid":"b"}`, key(a, `"kid":"b"`, "") + "," + key(c, `"kid":"b"`, ""), "signature does not verify"},
		"kid four times":        {`{"alg":"ES256","kid":"b"}`, several(4), ""},
		"kid five times":        {`{"alg":"ES256","kid":"b"}`, several(5), "more than 4 keys of its key id"},
		"kid twice, one other":  {`{"alg":"ES256","kid":"b"}`, `{"kid":"b","kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},` + key(b, `"kid":"b"`, ""), ""},
		"another algorithm":     {`{"alg":"RS256","kid":"b"}`, key(b, `"kid":"b"`, ""), "no key for it"},
		"HMAC":                  {`{"alg":"HS256","kid":"b"}`, key(b, `"kid":"b"`, ""), "alg must be"},
		"none":                  {`{"alg":"none","kid":"b"}`, key(b, `"kid":"b"`, ""), "alg must be"},
		"no alg":                {`{"kid":"b"}`, key(b, `"kid":"b"`, ""), "no alg"},
	} {
		set, err := login.ParseKeySet("f", []byte(`{"keys":[`+c.keys+`]}`))
		must(t, err)
		text := login.SignText(b, c.header, claims, false)
		_, err = verifyIdentity(text, set, "i", "a", nowMs)
		if c.why == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.why != "" {
			refused(t, name, err, fault.InvalidArgument, "oidcToken", c.why)
		}
		if u, err := login.ParseIdentityToken("f", text); err == nil && u.KnownTo(set) == strings.Contains(c.why, "no key") {
			t.Errorf("%s: known is %t", name, u.KnownTo(set))
		}
	}
}
