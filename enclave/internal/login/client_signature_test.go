package login_test

import (
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
)

// clientSigned signs a message as a client with the key would.
func clientSigned(t testing.TB, by *login.Signer, message string) *login.ClientSignature {
	t.Helper()
	sig, err := by.Sign(sha256.Sum256([]byte(message)))
	must(t, err)
	return &login.ClientSignature{PublicKey: by.Public().String(), Scheme: login.ClientSignatureScheme, Message: message, Signature: hex.EncodeToString(sig)}
}

func der(t testing.TB, raw string) string {
	t.Helper()
	b := unhex(t, raw)
	out, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(b[:32]), new(big.Int).SetBytes(b[32:])})
	must(t, err)
	return hex.EncodeToString(out)
}

// The signatures that the SDKs made hold, in both spellings, and no longer once the
// request is another.
func TestClientSignatureVectors(t *testing.T) {
	var f verificationVectors
	load(t, "verification_tokens.json", &f)
	keys := login.TokenKeys{Token: signer(t, f.Private).Public()}
	token, err := login.VerifyVerificationToken("f", f.Vectors[0].JWT, keys, nowMs)
	must(t, err)
	for _, v := range f.ClientSignatures {
		var m struct {
			Login            *struct{ PublicKey string }
			Signup, SignupV2 map[string]json.RawMessage
		}
		must(t, json.Unmarshal([]byte(v.Message), &m))
		verify := func(s *login.ClientSignature, change func(string) string) error {
			if m.Login != nil {
				return s.VerifyLogin("clientSignature", token, change(m.Login.PublicKey))
			}
			usage, in := login.SignupV1, m.Signup
			if in == nil {
				usage, in = login.SignupV2, m.SignupV2
			}
			text := func(name string) (s string) {
				if in[name] != nil {
					must(t, json.Unmarshal(in[name], &s))
				}
				return s
			}
			want := &login.Signup{APIKeys: []byte(change(string(in["apiKeys"]))), Authenticators: in["authenticators"], OauthProviders: in["oauthProviders"],
				Email: text("email"), PhoneNumber: text("phoneNumber")}
			return s.VerifySignup("clientSignature", token, usage, want)
		}
		same := func(s string) string { return s }
		raw := v.Signature
		asDER, upper := raw, raw
		asDER.Signature = der(t, raw.Signature)
		upper.Signature, upper.PublicKey = strings.ToUpper(raw.Signature), strings.ToUpper(raw.PublicKey)
		for _, s := range []login.ClientSignature{raw, asDER, upper} {
			if err := verify(&s, same); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
		}
		refused(t, v.Name, verify(&raw, func(s string) string { return strings.ReplaceAll(s, "0", "1") }), fault.InvalidArgument, "clientSignature", "than the request")
	}
	if len(f.ClientSignatures) != 6 {
		t.Error(len(f.ClientSignatures))
	}
}

const keyList = `[{"apiKeyName":"k","publicKey":"02ab","curveType":"API_KEY_CURVE_P256","expirationSeconds":"60"}]`

func TestClientSignatureRefused(t *testing.T) {
	by, unrelated := signer(t, "44"), signer(t, "55")
	token := verificationToken()
	token.PublicKey = by.Public().String()
	session := unrelated.Public().String()
	loginText := `{"login":{"publicKey":"` + session + `"},"tokenId":"` + tokenID + `","type":"USAGE_TYPE_LOGIN"}`
	must(t, clientSigned(t, by, loginText).VerifyLogin("f", token, session))
	signupText := `{"signupV2":{"apiKeys":` + keyList + `,"authenticators":[],"email":"user@example.com"},"tokenId":"` + tokenID + `","type":"USAGE_TYPE_SIGNUP"}`
	want := login.Signup{APIKeys: []byte(keyList), Email: "user@example.com"}
	must(t, clientSigned(t, by, signupText).VerifySignup("f", token, login.SignupV2, &want))

	change := func(text, old, now string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %s", text, old)
		}
		return strings.Replace(text, old, now, 1)
	}
	for name, c := range map[string]struct{ message, why string }{
		"another session key":      {change(loginText, session, by.Public().String()), "another publicKey"},
		"another token":            {change(loginText, tokenID, user), "another verification token"},
		"token in other case":      {change(loginText, tokenID, strings.ToUpper(tokenID)), "another verification token"},
		"no token":                 {change(loginText, `"tokenId":"`+tokenID+`",`, ""), "malformed"},
		"of a sign-up by type":     {change(loginText, "USAGE_TYPE_LOGIN", "USAGE_TYPE_SIGNUP"), "not about a login"},
		"of a sign-up":             {signupText, "not about a login"},
		"of both":                  {change(loginText, `{"login"`, `{"signup":{},"login"`), "not about a login"},
		"login null":               {change(loginText, `{"publicKey":"`+session+`"}`, "null"), "not about a login"},
		"no type":                  {change(loginText, `,"type":"USAGE_TYPE_LOGIN"`, ""), "malformed"},
		"key twice":                {change(loginText, `"publicKey"`, `"publicKey":"02","publicKey"`), "malformed"},
		"key twice, spelt apart":   {change(loginText, `"publicKey"`, `"public_key":"02","publicKey"`), "malformed"},
		"login twice":              {change(loginText, `{"login"`, `{"login":{"publicKey":"02"},"login"`), "malformed"},
		"unknown member":           {change(loginText, `{"login"`, `{"nonce":"1","login"`), "malformed"},
		"unknown member of login":  {change(loginText, `{"publicKey"`, `{"userId":"1","publicKey"`), "malformed"},
		"trailing":                 {loginText + "{}", "malformed"},
		"no JSON":                  {"login", "malformed"},
		"text":                     {`"` + tokenID + `"`, "malformed"},
		"deep":                     {change(loginText, session, strings.Repeat(`{"a":`, 1000)), "malformed"},
		"invalid UTF-8":            {loginText + "\xff", "malformed"},
		"too long":                 {loginText + strings.Repeat(" ", login.MaxMessage), "too long"},
		"nothing":                  {"", "malformed"},
		"only the session's key":   {session, "malformed"},
		"session key empty":        {change(loginText, session, ""), "malformed"},
		"session key with a space": {change(loginText, session, session+" "), "another publicKey"},
	} {
		refused(t, name, clientSigned(t, by, c.message).VerifyLogin("f", token, session), fault.InvalidArgument, "f", c.why)
	}
	refused(t, "no key asked for", clientSigned(t, by, loginText).VerifyLogin("f", token, ""), fault.InvalidArgument, "f", "another publicKey")

	other := `[{"apiKeyName":"k","publicKey":"02ac","curveType":"API_KEY_CURVE_P256","expirationSeconds":"60"}]`
	for name, c := range map[string]struct {
		message string
		change  func(s *login.Signup)
		why     string
	}{
		"other key":     {signupText, func(s *login.Signup) { s.APIKeys = []byte(other) }, "apiKeys"},
		"one key more":  {signupText, func(s *login.Signup) { s.APIKeys = []byte(strings.Replace(keyList, "]", ","+keyList[1:], 1)) }, "apiKeys"},
		"no keys":       {signupText, func(s *login.Signup) { s.APIKeys = nil }, "apiKeys"},
		"a member more": {signupText, func(s *login.Signup) { s.APIKeys = []byte(strings.Replace(keyList, "{", `{"x":"y",`, 1)) }, "apiKeys"},
		"a member less": {signupText, func(s *login.Signup) {
			s.APIKeys = []byte(strings.Replace(keyList, `,"expirationSeconds":"60"`, "", 1))
		}, "apiKeys"},
		"number for text":       {signupText, func(s *login.Signup) { s.APIKeys = []byte(strings.Replace(keyList, `"60"`, "60", 1)) }, "apiKeys"},
		"an authenticator":      {signupText, func(s *login.Signup) { s.Authenticators = []byte(`[{}]`) }, "authenticators"},
		"an identity":           {signupText, func(s *login.Signup) { s.OauthProviders = []byte(`[{"providerName":"x"}]`) }, "oauthProviders"},
		"another address":       {signupText, func(s *login.Signup) { s.Email = "evil@example.com" }, "contact"},
		"address in other case": {signupText, func(s *login.Signup) { s.Email = "User@example.com" }, "contact"},
		"no address":            {signupText, func(s *login.Signup) { s.Email = "" }, "contact"},
		"a number":              {signupText, func(s *login.Signup) { s.PhoneNumber = "+15005550006" }, "contact"},
		"old form":              {change(signupText, "signupV2", "signup"), nil, "not about a sign-up"},
		"both forms":            {change(signupText, "{", `{"signup":{},`), nil, "not about a sign-up"},
		"of a login":            {loginText, nil, "not about a sign-up"},
		"of a login by type":    {change(signupText, "SIGNUP", "LOGIN"), nil, "not about a sign-up"},
		"unknown member":        {change(signupText, `{"apiKeys"`, `{"wallet":{},"apiKeys"`), nil, "malformed"},
		"another token":         {change(signupText, tokenID, user), nil, "another verification token"},
	} {
		w := want
		if c.change != nil {
			c.change(&w)
		}
		refused(t, name, clientSigned(t, by, c.message).VerifySignup("f", token, login.SignupV2, &w), fault.InvalidArgument, "f", c.why)
	}
	refused(t, "new form where the old is due", clientSigned(t, by, signupText).VerifySignup("f", token, login.SignupV1, &want), fault.InvalidArgument, "f", "not about a sign-up")

	for name, c := range map[string]struct {
		change func(s *login.ClientSignature)
		why    string
	}{
		"scheme":            {func(s *login.ClientSignature) { s.Scheme = "CLIENT_SIGNATURE_SCHEME_API_SECP256K1" }, "unknown scheme"},
		"no scheme":         {func(s *login.ClientSignature) { s.Scheme = "" }, "unknown scheme"},
		"by a stranger":     {func(s *login.ClientSignature) { *s = *clientSigned(t, unrelated, loginText) }, "not the key of the verification token"},
		"stranger's, named": {func(s *login.ClientSignature) { s.Signature = clientSigned(t, unrelated, loginText).Signature }, "does not verify"},
		"other message":     {func(s *login.ClientSignature) { s.Message += " " }, "does not verify"},
		"no signature":      {func(s *login.ClientSignature) { s.Signature = "" }, "does not verify"},
		"zeros":             {func(s *login.ClientSignature) { s.Signature = strings.Repeat("0", 128) }, "does not verify"},
		"odd":               {func(s *login.ClientSignature) { s.Signature += "0" }, "does not verify"},
		"longer":            {func(s *login.ClientSignature) { s.Signature += "00" }, "does not verify"},
		"very long":         {func(s *login.ClientSignature) { s.Signature = strings.Repeat("0", 1<<20) }, "does not verify"},
		"0x":                {func(s *login.ClientSignature) { s.Signature = "0x" + s.Signature }, "does not verify"},
		"base64":            {func(s *login.ClientSignature) { s.Signature = "MEUCIQD" }, "does not verify"},
		"DER with a tail":   {func(s *login.ClientSignature) { s.Signature = der(t, s.Signature) + "00" }, "does not verify"},
	} {
		s := clientSigned(t, by, loginText)
		c.change(s)
		refused(t, name, s.VerifyLogin("f", token, session), fault.InvalidArgument, "f", c.why)
	}
	unbound := *token
	unbound.PublicKey, unbound.Legacy = "", true
	refused(t, "token of no key", clientSigned(t, by, loginText).VerifyLogin("f", &unbound, session), fault.InvalidArgument, "f", "not the key")
}

func TestEqualJSON(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`[]`, ``, true}, {`null`, `[]`, true}, {``, ``, true}, {`[{}]`, `[]`, false}, {`[null]`, `[]`, false}, {`[[]]`, `[null]`, true},
		{`{"a":1,"b":"x"}`, ` { "b" : "x" , "a" : 1 } `, true}, {`{"a":"é"}`, `{"a":"\u00e9"}`, true}, {`{"a":"/"}`, `{"a":"\/"}`, true},
		{`{"a":[]}`, `{}`, true}, {`{"a":null}`, `{"b":[]}`, true}, {`{"a":""}`, `{}`, false}, {`{"a":{}}`, `{}`, false}, {`{"a":false}`, `{}`, false},
		{`[1,2]`, `[2,1]`, false}, {`[1]`, `[1,1]`, false}, {`1`, `1.0`, false}, {`1`, `"1"`, false}, {`true`, `"true"`, false}, {`{"a":1}`, `[1]`, false}, {`{"A":1}`, `{"a":1}`, false},
		{`[`, `[`, false}, {`{"a":{"b":[{"c":null}]}}`, `{"a":{"b":[{}]}}`, true},
	} {
		if got := login.EqualJSON([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%s and %s: %t", c.a, c.b, got)
		}
		if got := login.EqualJSON([]byte(c.b), []byte(c.a)); got != c.want {
			t.Errorf("%s and %s: %t", c.b, c.a, got)
		}
	}
}

func TestBareSignature(t *testing.T) {
	by, unrelated := signer(t, "44"), signer(t, "55")
	key := by.Public().String()
	bound := verificationToken()
	bound.PublicKey = key
	unbound := verificationToken()
	unbound.PublicKey, unbound.Legacy = "", true
	const text = "eyJ.e30.x"
	good := clientSigned(t, by, text).Signature
	for name, v := range map[string]*login.VerificationToken{"bound": bound, "unbound": unbound} {
		for _, sig := range []string{good, der(t, good), strings.ToUpper(good)} {
			if err := login.VerifyBare("clientSignature", sig, text, v, key); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		refused(t, name, login.VerifyBare("clientSignature", clientSigned(t, unrelated, text).Signature, text, v, key), fault.InvalidArgument, "clientSignature", "does not verify")
		refused(t, name, login.VerifyBare("clientSignature", good, text+"x", v, key), fault.InvalidArgument, "clientSignature", "does not verify")
		refused(t, name, login.VerifyBare("clientSignature", "", text, v, key), fault.InvalidArgument, "clientSignature", "does not verify")
	}
	// Another session cannot be asked for with the signature.
	refused(t, "other session", login.VerifyBare("clientSignature", good, text, bound, unrelated.Public().String()), fault.InvalidArgument, "clientSignature", "not the key")
	refused(t, "other session", login.VerifyBare("clientSignature", good, text, unbound, unrelated.Public().String()), fault.InvalidArgument, "clientSignature", "does not verify")
	refused(t, "no session", login.VerifyBare("clientSignature", good, text, unbound, ""), fault.InvalidArgument, "publicKey", "invalid public key")
}

func TestPublicKeyRefused(t *testing.T) {
	good := signer(t, "11").Public().String()
	if p, err := login.ParsePublicKey("f", strings.ToUpper(good)); err != nil || p.String() != good {
		t.Error(err)
	}
	for name, text := range map[string]string{"nothing": "", "0x": "0x" + good, "a digit less": good[1:], "a digit more": good + "0", "no hex": strings.Repeat("g", 66), "off the curve": "02" + strings.Repeat("ff", 32),
		"uncompressed's prefix": "04" + good[2:], "hybrid": "06" + good[2:], "infinity": strings.Repeat("00", 33), "ed25519": strings.Repeat("11", 32), "long": strings.Repeat("02", 1<<20),
		"secp256k1": "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"} {
		_, err := login.ParsePublicKey("publicKey", text)
		refused(t, name, err, fault.InvalidArgument, "publicKey", "invalid public key")
	}
}
