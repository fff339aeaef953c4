package login_test

import (
	"bytes"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/secret/secrettest"
)

type sessionVectors struct {
	Private string `json:"notarizer_private_key"`
	Session string `json:"session_public_key"`
	Vectors []struct {
		Name   string
		JWT    string
		Claims json.RawMessage
		Verify bool            `json:"verify_with_override"`
		Parse  json.RawMessage `json:"parse_session"`
	}
}

func parts(t testing.TB, token string) (header, claims string, signature []byte) {
	t.Helper()
	p := strings.Split(token, ".")
	if len(p) != 3 {
		t.Fatal(token)
	}
	var b [3][]byte
	for i := range p {
		var err error
		b[i], err = base64.RawURLEncoding.DecodeString(p[i])
		must(t, err)
	}
	return string(b[0]), string(b[1]), b[2]
}

// The vectors' outcomes, and the same bytes from our issuer where it has the same
// claims. Signatures are equal but for the half of s.
func TestSessionVectors(t *testing.T) {
	var f sessionVectors
	load(t, "session_jwt.json", &f)
	s := signer(t, f.Private)
	order := elliptic.P256().Params().N
	issued := 0
	for _, v := range f.Vectors {
		got, err := login.VerifySession(v.JWT, s.Public(), nowMs)
		// What the clients' parser refuses for lack of a claim is no session here
		// either; what it cannot decode is, as only they are held to plain base64.
		lacks := strings.Contains(string(v.Parse), "missing required")
		if want := v.Verify && !lacks; (err == nil) != want {
			t.Errorf("%s: %v", v.Name, err)
		}
		if err != nil {
			refused(t, v.Name, err, fault.Unauthenticated, "", "could not verify session")
			continue
		}
		if got.ExpiresMs != 4102444800000 || got.PublicKey != f.Session || got.UserID != user || got.OrganizationID != organization {
			t.Errorf("%s: %+v", v.Name, got)
		}
		if got.Reads() != (v.Name == "valid_read_only_type") || (got.Scope == "test") != (v.Name == "valid_with_profile_and_scope") {
			t.Errorf("%s: %+v", v.Name, got)
		}
		if !strings.HasPrefix(v.Name, "valid_") {
			continue
		}
		ours, err := login.IssueSession(s, got)
		must(t, err)
		h, c, sig := parts(t, ours)
		wantH, wantC, wantSig := parts(t, v.JWT)
		if h != wantH || c != wantC {
			t.Errorf("%s:\n%s\n%s", v.Name, c, wantC)
		}
		low, high := new(big.Int).SetBytes(sig[32:]), new(big.Int).SetBytes(wantSig[32:])
		if low.Cmp(new(big.Int).Rsh(order, 1)) > 0 {
			t.Errorf("%s: high s", v.Name)
		}
		if !bytes.Equal(sig[:32], wantSig[:32]) || low.Cmp(high) != 0 && high.Add(high, low).Cmp(order) != 0 {
			t.Errorf("%s: another signature", v.Name)
		}
		issued++
	}
	if issued != 4 {
		t.Errorf("%d issued", issued)
	}
}

func session() *login.Session {
	return &login.Session{ExpiresMs: nowMs + 900_000, PublicKey: "02" + strings.Repeat("ab", 32), Type: login.ReadWrite, UserID: user, OrganizationID: organization}
}

// With a profile the type is its name, whatever letters that has.
func TestSessionWithProfile(t *testing.T) {
	by := signer(t, "11")
	for _, name := range []string{"trading", "???~~~>>>\x7f", "zoë 漢字 😀", `"\` + "\n\t\x00", login.ReadOnly, strings.Repeat("~", 300), "\u2028</script>"} {
		s := session()
		s.Type, s.ProfileID, s.Scope = name, tokenID, "eth.tx.value > 5 && wallet.label == '"+name+"'"
		token, err := login.IssueSession(by, s)
		must(t, err)
		if strings.ContainsAny(strings.Split(token, ".")[1], "-_") {
			t.Errorf("%q: %s", name, token)
		}
		got, err := login.VerifySession(token, by.Public(), nowMs)
		must(t, err)
		if *got != *s || got.Reads() {
			t.Errorf("%q: %+v", name, got)
		}
		_, claims, _ := parts(t, token)
		if at := strings.Index(claims, `,"organization_id":"`+organization+`","session_profile_id":"`+tokenID+`","scope":"`); at < 0 {
			t.Errorf("%q: %s", name, claims)
		}
	}
}

// Whatever stands in it, the payload is plain base64 and says what was meant.
func TestPayloadLetters(t *testing.T) {
	by := signer(t, "11")
	random := rand.New(rand.NewPCG(1, 2))
	letters := []rune("ab >?~\x7f\"\\\n\x00é漢😀\ufffd\U0010ffff")
	draw := func() string {
		s := make([]rune, 1+random.IntN(60))
		for i := range s {
			s[i] = letters[random.IntN(len(letters))]
		}
		return string(s)
	}
	for range 300 {
		s := session()
		s.Type, s.ProfileID, s.Scope = draw(), tokenID, draw()
		token, err := login.IssueSession(by, s)
		must(t, err)
		payload := strings.Split(token, ".")[1]
		if strings.ContainsAny(payload, "-_") {
			t.Fatalf("%q %q", s.Type, s.Scope)
		}
		raw, err := base64.RawStdEncoding.DecodeString(payload)
		must(t, err)
		var claims map[string]any
		if err := json.Unmarshal(raw, &claims); err != nil || claims["session_type"] != s.Type || claims["scope"] != s.Scope {
			t.Fatalf("%s, %v", raw, err)
		}
		for _, c := range raw {
			if c < ' ' || c > '}' {
				t.Fatalf("%q", raw)
			}
		}
	}
}

func TestSessionTimes(t *testing.T) {
	by := signer(t, "11")
	s := session()
	s.ExpiresMs = nowMs + 1999
	token, err := login.IssueSession(by, s)
	must(t, err)
	got, err := login.VerifySession(token, by.Public(), nowMs+999)
	must(t, err)
	if got.ExpiresMs != nowMs+1000 {
		t.Error(got.ExpiresMs)
	}
	_, err = login.VerifySession(token, by.Public(), nowMs+1000)
	refused(t, "over", err, fault.Unauthenticated, "", "expired api key")
	refused(t, "over", err, fault.Unauthenticated, "", "could not find public key in organization or its parent organization")
}

func TestSessionRefused(t *testing.T) {
	by, other := signer(t, "11"), signer(t, "22")
	const head = `{"alg":"ES256","typ":"JWT"}`
	good := `{"exp":4102444800,"public_key":"02","session_type":"SESSION_TYPE_READ_ONLY","user_id":"u","organization_id":"o"}`
	sign := func(header, claims string) string { return login.SignText(by, header, claims, true) }
	if _, err := login.VerifySession(sign(head, good), by.Public(), nowMs); err != nil {
		t.Fatal(err)
	}
	change := func(old, now string) string { return sign(head, strings.Replace(good, old, now, 1)) }
	verification, err := login.IssueVerificationToken(by, verificationToken())
	must(t, err)
	identity, err := login.IssueIdentityToken(by, &login.IdentityToken{Issuer: "i", Audience: "a", Subject: "s", ExpiresMs: nowMs * 2})
	must(t, err)
	token := sign(head, good)
	for name, text := range map[string]string{
		"nothing": "", "dots": "..", "two parts": token[:strings.LastIndexByte(token, '.')], "four parts": token + ".AA", "padded": token + "=",
		"line break": token[:10] + "\n" + token[10:], "long": token + strings.Repeat("A", login.MaxToken),
		"single digest": login.SignText(by, head, good, false), "another key": login.SignText(other, head, good, true),
		"alg none": sign(`{"alg":"none","typ":"JWT"}`, good), "alg HS256": sign(`{"alg":"HS256","typ":"JWT"}`, good), "no alg": sign(`{"typ":"JWT"}`, good),
		"alg twice": sign(`{"alg":"none","alg":"ES256"}`, good), "crit": sign(`{"alg":"ES256","crit":["exp"]}`, good), "typ": sign(`{"alg":"ES256","typ":"at+jwt"}`, good),
		"exp string": change("4102444800", `"4102444800"`), "exp fraction": change("4102444800", "4102444800.5"), "exp negative": change("4102444800", "-4102444800"),
		"exp exponent": change("4102444800", "41e8"), "exp huge": change("4102444800", "41024448000000000000"), "no exp": change(`"exp":4102444800,`, ""),
		"exp twice": change(`{`, `{"exp":1,`), "user twice": change(`{`, `{"user_id":"v",`), "user twice by escape": change(`{`, `{"\u0075ser_id":"v",`),
		"no user": change(`"user_id":"u",`, ""), "user empty": change(`"user_id":"u"`, `"user_id":""`), "user null": change(`"user_id":"u"`, `"user_id":null`), "user number": change(`"user_id":"u"`, `"user_id":1`),
		"no organization": change(`,"organization_id":"o"`, ""), "no key": change(`"public_key":"02",`, ""), "no type": change(`"session_type":"SESSION_TYPE_READ_ONLY",`, ""),
		"scope number": change("}", `,"scope":1}`), "profile array": change("}", `,"session_profile_id":[]}`),
		"array": sign(head, "["+good+"]"), "trailing": sign(head, good+"x"), "bytes": sign(head, "\xff"), "deep": change("}", `,"x":`+strings.Repeat("[", 50)+strings.Repeat("]", 50)+"}"),
		"verification token": verification, "identity token": identity,
	} {
		_, err := login.VerifySession(text, by.Public(), nowMs)
		refused(t, name, err, fault.Unauthenticated, "", "could not verify session")
	}
	if _, err := login.VerifySession(token, login.PublicKey{}, nowMs); err == nil {
		t.Error("verified by no key")
	}
	for i := range token { // each letter counts
		b := []byte(token)
		if b[i] == 'A' {
			b[i] = 'B'
		} else {
			b[i] = 'A'
		}
		if _, err := login.VerifySession(string(b), by.Public(), nowMs); err == nil {
			t.Errorf("altered at %d", i)
		}
	}
	for name, change := range map[string]func(s *login.Session){
		"no expiry": func(s *login.Session) { s.ExpiresMs = 999 }, "no key": func(s *login.Session) { s.PublicKey = "" }, "no type": func(s *login.Session) { s.Type = "" },
		"no user": func(s *login.Session) { s.UserID = "" }, "no organization": func(s *login.Session) { s.OrganizationID = "" },
		"too long": func(s *login.Session) { s.ProfileID, s.Scope = tokenID, strings.Repeat("é", login.MaxToken) },
	} {
		s := session()
		change(s)
		if token, err := login.IssueSession(by, s); err == nil {
			t.Errorf("%s: %s", name, token)
		}
	}
}

func TestNewSignerRefuses(t *testing.T) {
	for name, b := range map[string][]byte{"zero": make([]byte, 32), "short": make([]byte, 31), "none": nil, "order": unhex(t, "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551")} {
		if _, err := login.NewSigner(secrettest.Of(b)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
