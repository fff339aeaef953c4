package login_test

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/mail"
	"net/url"
	"strings"
	"testing"
	"text/template"
	"unicode/utf8"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/secret"
)

// forUsers tells whether an error may be shown: short, and without what was sent.
func forUsers(t *testing.T, err error) {
	t.Helper()
	e := fault.Of(err)
	if e == nil || len(e.Message) > 400 || !utf8.ValidString(e.Message) {
		t.Fatalf("%v", err)
	}
}

// FuzzTokens: our own tokens cannot be altered; what verifies was signed.
func FuzzTokens(f *testing.F) {
	var s sessionVectors
	load(f, "session_jwt.json", &s)
	var v verificationVectors
	load(f, "verification_tokens.json", &v)
	sessions, tokens := signer(f, s.Private).Public(), login.TokenKeys{Token: signer(f, v.Private).Public(), Legacy: signer(f, "33").Public()}
	signed := map[string]bool{}
	add := func(text string) {
		f.Add(text)
		signed[text[:strings.LastIndexByte(text, '.')]] = true
	}
	for _, x := range s.Vectors {
		add(x.JWT)
	}
	for _, x := range v.Vectors {
		add(x.JWT)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err1 := login.VerifySession(text, sessions, nowMs)
		b, err2 := login.VerifyVerificationToken("f", text, tokens, nowMs)
		if err1 != nil {
			forUsers(t, err1)
		}
		if err2 != nil {
			forUsers(t, err2)
		}
		if err1 == nil && err2 == nil || (err1 == nil || err2 == nil) && !signed[text[:strings.LastIndexByte(text, '.')]] {
			t.Fatalf("%q: %+v %+v", text, a, b)
		}
	})
}

// FuzzIdentity: a token and a key set of anybody's. What is taken has been issued
// and is of now.
func FuzzIdentity(f *testing.F) {
	var j struct {
		Keys    json.RawMessage
		Vectors []struct {
			Token string
			Keys  json.RawMessage
		}
	}
	load(f, "jose.json", &j)
	for i, v := range j.Vectors {
		if i%5 == 0 || v.Keys != nil {
			f.Add(v.Token, []byte(v.Keys))
		}
	}
	f.Add("", []byte(j.Keys))
	f.Fuzz(func(t *testing.T, text string, raw []byte) {
		if len(raw) == 0 {
			raw = j.Keys
		}
		set, err := login.ParseKeySet("f", raw)
		if err != nil {
			forUsers(t, err)
			return
		}
		if set.Len() > login.MaxKeys {
			t.Fatal(set.Len())
		}
		u, err := login.ParseIdentityToken("f", text)
		if err != nil {
			forUsers(t, err)
			return
		}
		i, err := u.Verify(set, nowMs)
		if err != nil {
			forUsers(t, err)
			return
		}
		if !u.KnownTo(set) || i.Issuer == "" || i.Subject == "" || len(i.Audiences) == 0 || i.ExpiresMs+login.Skew <= nowMs || i.IssuedMs > nowMs+login.Skew || i.For("") || i.BoundTo("") {
			t.Fatalf("%+v", i)
		}
	})
}

// FuzzClaims: claims of a genuine issuer, which encoding/json reads alike.
func FuzzClaims(f *testing.F) {
	for _, claims := range []string{`{"iss":"i","aud":"a","sub":"s","iat":1,"exp":4102444800}`, `{"iss":"i","aud":["a","b"],"sub":"s","iat":1.5,"exp":4102444800,"nbf":0,"nonce":"n","tknonce":"t","email":"e","email_verified":true}`, `{}`, `[]`} {
		f.Add(claims)
	}
	by := signer(f, "11")
	set := login.KeySetOf(by.Public())
	f.Fuzz(func(t *testing.T, claims string) {
		i, err := verifyIdentity(login.SignText(by, `{"alg":"ES256"}`, claims, false), set, "i", "a", nowMs)
		if err != nil {
			forUsers(t, err)
			return
		}
		var c struct {
			Iss, Sub string
			Aud      any
			Exp, Iat float64
		}
		if err := json.Unmarshal([]byte(claims), &c); err != nil {
			t.Fatal(err)
		}
		var exact map[string]any
		if err := json.Unmarshal([]byte(claims), &exact); err != nil || exact["sub"] != i.Subject || exact["iss"] != "i" || exact["exp"].(float64) < float64(nowMs/1000-60) {
			t.Fatalf("%s: %+v", claims, i)
		}
	})
}

// FuzzIssuer: discovery documents and URLs. What is to be fetched has a host, no
// user, and is encrypted.
func FuzzIssuer(f *testing.F) {
	f.Add("https://a.test", `{"issuer":"https://a.test","jwks_uri":"https://a.test/jwks"}`)
	f.Add("http://127.0.0.1:9000/x", `{"issuer":"http://127.0.0.1:9000/x","jwks_uri":"http://[::1]:9000/jwks?a=b"}`)
	f.Fuzz(func(t *testing.T, issuer, document string) {
		for _, loopback := range []bool{false, true} {
			check := func(text string) {
				u, err := url.Parse(text)
				if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || strings.ContainsAny(text, " \r\n\t\x00#") || u.Scheme != "https" && !(loopback && u.Scheme == "http" && strings.Contains("127.0.0.1 ::1 localhost", u.Hostname())) {
					t.Fatalf("%q", text)
				}
			}
			if where, err := login.DiscoveryURL("f", issuer, loopback); err != nil {
				forUsers(t, err)
			} else {
				check(where)
			}
			if where, err := login.ParseDiscovery("f", []byte(document), issuer, loopback); err != nil {
				forUsers(t, err)
			} else {
				check(where)
			}
		}
	})
}

// FuzzClientMessage: a message that the token's holder signed. What is taken as a
// log-in is for that key, as encoding/json reads it.
func FuzzClientMessage(f *testing.F) {
	var v verificationVectors
	load(f, "verification_tokens.json", &v)
	for _, c := range v.ClientSignatures {
		f.Add(c.Message)
	}
	by := signer(f, "44")
	token := verificationToken()
	token.PublicKey = by.Public().String()
	session := "0313f6bdf15a3fcd949332436deed9cef56b45604adee9e3054ee4bec273025c73"
	want := &login.Signup{APIKeys: []byte(keyList), Email: "user@example.com"}
	f.Fuzz(func(t *testing.T, message string) {
		s := clientSigned(t, by, message)
		var m struct {
			Login struct{ PublicKey string }
			Type  string
		}
		if err := s.VerifyLogin("f", token, session); err != nil {
			forUsers(t, err)
		} else if !json.Valid([]byte(message)) {
			t.Fatalf("%q", message)
		} else if _ = json.Unmarshal([]byte(message), &m); m.Type != "USAGE_TYPE_LOGIN" && !strings.Contains(message, `\u`) {
			t.Fatalf("%q", message)
		}
		for _, u := range []login.Usage{login.SignupV1, login.SignupV2} {
			if err := s.VerifySignup("f", token, u, want); err != nil {
				forUsers(t, err)
			} else if !json.Valid([]byte(message)) {
				t.Fatalf("%q", message)
			}
		}
	})
}

// FuzzEqualJSON: a value equals itself, and both ways round. One that is no UTF-8 is none, though encoding/json takes it for one.
func FuzzEqualJSON(f *testing.F) {
	f.Add(`{"a":[1,{"b":null}]}`, `{"a":[1,{}]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 10_000 {
			return
		}
		if utf8.ValidString(a) && json.Valid([]byte(a)) && !login.EqualJSON([]byte(a), []byte(a)) {
			t.Fatal(a)
		}
		if login.EqualJSON([]byte(a), []byte(b)) != login.EqualJSON([]byte(b), []byte(a)) {
			t.Fatal(a, b)
		}
	})
}

// FuzzTemplate: what we take as a template Go takes too, and both write the same.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"Your OTP is {{.OtpCode}}", `{{ .OtpCode }}{{ index .TemplateVariables "key" }}`, "{{", "}}", `{{index .TemplateVariables "é"}}{{.AppName}}`} {
		f.Add(text, "value")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		ours, err := login.ParseTemplate("f", text)
		if err != nil {
			forUsers(t, err)
			return
		}
		got, err := login.PasscodeText(ours, "App", "ABC123XYZ")
		if err != nil {
			forUsers(t, err)
			got = ""
		}
		go2, err := template.New("").Parse(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var want bytes.Buffer
		if err := go2.Execute(&want, map[string]any{"OtpCode": "ABC123XYZ", "AppName": "App", "MagicLink": "", "Bundle": "", "LogoUrl": "", "TemplateVariables": map[string]string{}}); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got != "" && got != want.String() {
			t.Fatalf("%q: %q, %q", text, got, want.String())
		}
		c, err := login.PasscodeMail(&login.Words{AppName: "App", Template: ours, Variables: map[string]string{"key": value}}, "ABC123XYZ", 1000)
		if err != nil {
			forUsers(t, err)
		} else if len(c.HTML) > login.MaxContent {
			t.Fatal(len(c.HTML))
		}
	})
}

// FuzzWords: variables, links, contacts and codes of anybody's.
func FuzzWords(f *testing.F) {
	for _, text := range []string{`{"a":"b"}`, "https://a.test/%s", "user@example.com", "+15005550006", "ABC123XYZ", "javascript:%s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := login.ParseVariables("f", text); err != nil {
			forUsers(t, err)
		} else if len(m) > 100 {
			t.Fatal(len(m))
		}
		if l, err := login.ParseMagicLink("f", text); err != nil {
			forUsers(t, err)
		} else if link := l.To("CODE"); text != "" && (strings.Count(link, "CODE") != strings.Count(text, "CODE")+1 || strings.ContainsAny(link, "\"<>\r\n ")) {
			t.Fatalf("%q: %q", text, link)
		}
		for _, kind := range []login.ContactType{login.Email, login.SMS} {
			if err := login.CheckContact("f", kind, text); err != nil {
				forUsers(t, err)
			} else if strings.ContainsAny(text, "\r\n<>, ;\x00") || len(text) > 255 {
				t.Fatalf("%q", text)
			}
		}
		if code := login.Passcode("ABC123XYZ"); code.Matches(text) && !strings.EqualFold(strings.NewReplacer("i", "1", "I", "1", "l", "1", "L", "1").Replace(strings.Trim(text, " ")), string(code)) {
			t.Fatalf("%q", text)
		}
	})
}

// FuzzMail: a header of what anybody gives is refused or read as it was meant.
func FuzzMail(f *testing.F) {
	f.Add("Ours", "Sign in to App", "no-reply@ours.test", "text")
	f.Add("a\r\nBcc: x@y", "\xff", "é@x", "--=_\r\n.")
	f.Fuzz(func(t *testing.T, name, subject, address, text string) {
		m := &login.Mail{From: login.Sender{Address: address, Name: name}, To: "user@example.com", Content: login.Content{Subject: subject, Text: text, HTML: text}, ID: tokenID, SentMs: nowMs}
		raw, err := m.Bytes()
		if err != nil {
			return
		}
		read, err := mail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if len(read.Header) != 8 {
			t.Fatalf("%v", read.Header)
		}
		from, err := read.Header.AddressList("From")
		if err != nil || len(from) != 1 || from[0].Address != address || from[0].Name != name {
			t.Fatalf("%q: %+v, %v", name, from, err)
		}
		if got, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject")); err != nil || strings.TrimSpace(got) != strings.TrimSpace(subject) {
			t.Fatalf("%q: %q, %v", subject, got, err)
		}
	})
}

// FuzzSealed: envelopes, compact bundles, attempts and providers' answers.
func FuzzSealed(f *testing.F) {
	for _, v := range bundleVectors(f) {
		f.Add(v["encrypted_hex"] + v["encrypted"] + v["encrypted_otp_bundle"])
	}
	f.Add(`{"token_type":"bearer","access_token":"a"}`)
	f.Add(`{"data":{"id":"1"}}`)
	private := mustSecret(f, unhex(f, vectorNamed(f, "oauth2_client_secret")["enclave_private_key"]))
	x, discord := provider(f, "X"), provider(f, "DISCORD")
	f.Fuzz(func(t *testing.T, text string) {
		for _, open := range []func() (secret.Secret, error){
			func() (secret.Secret, error) { return login.OpenClientSecret("f", text, private) },
			func() (secret.Secret, error) { return login.OpenOnRampSecret("f", text, private) },
			func() (secret.Secret, error) { return x.AccessToken(200, []byte(text)) },
			func() (secret.Secret, error) {
				_, err := login.OpenAttempt("f", text, private)
				return secret.Secret{}, err
			},
		} {
			if s, err := open(); err != nil {
				forUsers(t, err)
				if s.Len() != 0 {
					t.Fatal("a secret with an error")
				}
			}
		}
		for _, p := range []login.OAuth2Provider{x, discord} {
			if id, err := p.Subject(200, []byte(text)); err != nil {
				forUsers(t, err)
			} else if _, digits, _ := strings.Cut(id, ":"); digits == "" || strings.Trim(digits, "0123456789") != "" {
				t.Fatal(id)
			}
		}
	})
}
