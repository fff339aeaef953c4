package login_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
)

// verifyIdentity is what a log-in does with an identity token.
func verifyIdentity(text string, set *login.KeySet, issuer, audience string, nowMs uint64) (*login.Identity, error) {
	u, err := login.ParseIdentityToken("oidcToken", text)
	if err != nil {
		return nil, err
	}
	i, err := u.Verify(set, nowMs)
	if err != nil {
		return nil, err
	}
	if i.Issuer != issuer || !i.For(audience) {
		return nil, fault.Field("oidcToken", "invalid OIDC token: of another issuer or for another audience")
	}
	return i, nil
}

// Where jose takes a token and we do not, it says here why. The other way round
// there are two keys of one id alone, of which each is tried.
var stricter = map[string]string{
	"padded":                  "a token's parts have no padding",
	"aud with a number":       "audiences are strings",
	"sub empty":               "a subject is at least one letter",
	"sub number":              "a subject is a string",
	"sub long":                "OpenID Connect allows 255",
	"iat ahead":               "jose looks at iat only if a greatest age is set",
	"iat far ahead":           "the same",
	"nonce number":            "a nonce is a string",
	"claims exp twice":        "a member twice has two meanings",
	"claims sub twice":        "a member twice has two meanings",
	"claims twice inside":     "a member twice has two meanings",
	"claims BOM":              "JSON begins without one",
	"claims deep":             "bounded",
	"header alg twice":        "a member twice has two meanings",
	"header kid twice":        "a member twice has two meanings",
	"header typ at+jwt":       "an access token is no identity token",
	"header zip":              "of encrypted tokens only",
	"set exponent 3":          "65537 is what issuers use",
	"sub twice by escape":     "a member twice has two meanings",
	"claims sub twice by esc": "a member twice has two meanings",
}

func TestJose(t *testing.T) {
	var f struct {
		NowMs            uint64 `json:"now_ms"`
		Issuer, Audience string
		Keys             json.RawMessage
		Vectors          []struct {
			Name, Token string
			Keys        json.RawMessage
			Accepted    bool
			Error       string
		}
	}
	load(t, "jose.json", &f)
	same, apart := 0, 0
	for _, v := range f.Vectors {
		raw := f.Keys
		if v.Keys != nil {
			raw = v.Keys
		}
		set, err := login.ParseKeySet("oidcToken", raw)
		must(t, err)
		i, err := verifyIdentity(v.Token, set, f.Issuer, f.Audience, f.NowMs)
		if err != nil {
			refused(t, v.Name, err, fault.InvalidArgument, "oidcToken", "invalid OIDC token: ")
		}
		explained := false
		for name := range stricter {
			explained = explained || strings.HasPrefix(v.Name, name)
		}
		switch {
		case (err == nil) == v.Accepted:
			same++
		case err == nil && v.Name == "set kid twice":
			apart++
		case err == nil:
			t.Errorf("%s: taken, jose says %s: %+v", v.Name, v.Error, i)
		case !explained:
			t.Errorf("%s: jose takes it: %v", v.Name, err)
		default:
			apart++
		}
	}
	if same < 330 || apart == 0 {
		t.Errorf("%d alike, %d apart", same, apart)
	}
}

// Wycheproof's signatures, with the algorithms that there are here. Its payloads
// are no claims, so signatures are judged alone.
func TestWycheproof(t *testing.T) {
	for _, name := range []string{"json_web_signature_test.json", "json_web_key_test.json"} {
		var f struct {
			TestGroups []struct {
				Comment         string
				Public, Private json.RawMessage
				Tests           []struct {
					TcID                 int
					Comment, JWS, Result string
				}
			}
		}
		load(t, name, &f)
		valid, invalid := 0, 0
		for _, g := range f.TestGroups {
			set, err := login.ParseKeySet("f", wycheproofSet(t, g.Public, g.Private))
			must(t, err)
			for _, c := range g.Tests {
				got, want := login.VerifyJWS(c.JWS, set), c.Result == "valid"
				switch {
				case got && !want && c.Comment == "rejectsKeyWithRocaVulnerability":
					// Whether an issuer's key was drawn badly is not judged here.
				case got && !want:
					t.Errorf("%s %d %s %s: taken", name, c.TcID, g.Comment, c.Comment)
				case !got && want && !unknownAlgorithm(c.JWS):
					t.Errorf("%s %d %s %s: refused", name, c.TcID, g.Comment, c.Comment)
				case got:
					valid++
				default:
					invalid++
				}
			}
		}
		if want := map[bool]int{true: 16, false: 1}[name == "json_web_signature_test.json"]; valid != want || invalid < 20 {
			t.Errorf("%s: %d valid, %d invalid", name, valid, invalid)
		}
	}
}

// wycheproofSet is the set of a group: its public keys, or its private ones without
// what is private, except symmetric ones.
func wycheproofSet(t *testing.T, public, private json.RawMessage) []byte {
	raw := public
	if raw == nil {
		raw = private
	}
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	must(t, json.Unmarshal(raw, &set))
	if set.Keys == nil {
		var one map[string]any
		must(t, json.Unmarshal(raw, &one))
		set.Keys = append(set.Keys, one)
	}
	for _, k := range set.Keys {
		for _, name := range []string{"d", "p", "q", "dp", "dq", "qi"} {
			delete(k, name)
		}
	}
	out, err := json.Marshal(set)
	must(t, err)
	return out
}

// unknownAlgorithm tells whether a token is of an algorithm that is not taken here.
func unknownAlgorithm(token string) bool {
	head, _, _ := strings.Cut(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(head)
	var h struct{ Alg string }
	return json.Unmarshal(raw, &h) != nil || !slices.Contains([]string{"RS256", "PS256", "ES256", "EdDSA"}, h.Alg)
}

func identityToken() *login.IdentityToken {
	return &login.IdentityToken{Issuer: "https://auth.cloister.test", Audience: "client-1", Subject: "x:123", Nonce: login.Nonce("02ab"), IssuedMs: nowMs, ExpiresMs: nowMs + 300_999}
}

// What we issue verifies with the key set and discovery document that we publish.
func TestOwnIdentityToken(t *testing.T) {
	by, old := signer(t, "11"), signer(t, "22")
	in := identityToken()
	in.EncryptedBearerToken = "w99a5xV6A75TfoAUkZn869fVyDYvgVsKrawMALZXmrauZd8hEv66EkPU1Z42CUaHESQjcA5bqd8dynTGBMLWB9ewtXWPEVbZvocB4Tw2K1vQVp7uwjf"
	text, err := login.IssueIdentityToken(by, in)
	must(t, err)
	h, c, _ := parts(t, text)
	if h != `{"alg":"ES256","typ":"JWT","kid":"`+by.Public().ID()+`"}` || c != `{"iss":"https://auth.cloister.test","aud":"client-1","sub":"x:123","nonce":"`+in.Nonce+
		`","iat":1767225600,"exp":1767225900,"encrypted_bearer_token":"`+in.EncryptedBearerToken+`"}` || strings.ContainsAny(strings.Split(text, ".")[1], "-_") {
		t.Errorf("%s %s", h, c)
	}
	published, err := login.ParseKeySet("f", login.MarshalKeySet(login.PublicKey{}, old.Public(), by.Public()))
	must(t, err)
	if published.Len() != 2 {
		t.Errorf("%d keys", published.Len())
	}
	for name, set := range map[string]*login.KeySet{"published": published, "own": login.KeySetOf(login.PublicKey{}, by.Public(), old.Public())} {
		i, err := verifyIdentity(text, set, in.Issuer, in.Audience, nowMs)
		if err != nil || i.Subject != "x:123" || i.ExpiresMs != nowMs+300_000 || i.IssuedMs != nowMs || !i.BoundTo("02ab") || i.BoundTo("02ac") || i.BoundTo("") || i.EmailVerified {
			t.Errorf("%s: %+v, %v", name, i, err)
		}
	}
	_, err = verifyIdentity(text, login.KeySetOf(old.Public()), in.Issuer, in.Audience, nowMs)
	refused(t, "another key", err, fault.InvalidArgument, "oidcToken", "no key for it")
	_, err = verifyIdentity(text, nil, in.Issuer, in.Audience, nowMs)
	refused(t, "no set", err, fault.InvalidArgument, "oidcToken", "no key for it")
	where, err := login.DiscoveryURL("f", in.Issuer, false)
	must(t, err)
	if where != in.Issuer+"/.well-known/openid-configuration" {
		t.Error(where)
	}
	keySet, err := login.ParseDiscovery("f", login.MarshalDiscovery(in.Issuer, in.Issuer+"/jwks"), in.Issuer, false)
	if err != nil || keySet != in.Issuer+"/jwks" {
		t.Errorf("%s, %v", keySet, err)
	}
	for name, change := range map[string]func(i *login.IdentityToken){"no issuer": func(i *login.IdentityToken) { i.Issuer = "" }, "no audience": func(i *login.IdentityToken) { i.Audience = "" },
		"no subject": func(i *login.IdentityToken) { i.Subject = "" }, "no expiry": func(i *login.IdentityToken) { i.ExpiresMs = 0 }} {
		in := identityToken()
		change(in)
		if text, err := login.IssueIdentityToken(by, in); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// Tokens of the other kinds are no identity tokens, though the key may be the same.
func TestOtherTokensAreNoIdentity(t *testing.T) {
	by := signer(t, "11")
	verification, err := login.IssueVerificationToken(by, verificationToken())
	must(t, err)
	legacy := verificationToken()
	legacy.Legacy = true
	old, err := login.IssueVerificationToken(by, legacy)
	must(t, err)
	own, err := login.IssueSession(by, session())
	must(t, err)
	set, err := login.ParseKeySet("f", []byte(strings.Replace(string(login.MarshalKeySet(by.Public())), `"kid":"`+by.Public().ID()+`"`, `"x5t":"a"`, 1)))
	must(t, err)
	for name, text := range map[string]string{"verification": verification, "legacy": old, "session": own, "nothing": "", "long": strings.Repeat("A", login.MaxToken+1)} {
		_, err := verifyIdentity(text, set, "", "", nowMs)
		refused(t, name, err, fault.InvalidArgument, "oidcToken", "invalid OIDC token")
		if e := fault.Of(err); e != nil && e.Name != "INVALID_OIDC_TOKEN" {
			t.Errorf("%s: %s", name, e.Name)
		}
	}
}

func TestNonce(t *testing.T) {
	var f verificationVectors
	load(t, "verification_tokens.json", &f)
	for _, v := range f.Nonce {
		if got := login.Nonce(v.PublicKey); got != v.Nonce || got == v.Wrong {
			t.Errorf("%s: %s", v.PublicKey, got)
		}
	}
	if got := login.Nonce("0394e549c71fa99dd5cf752fba623090be314949b74e4cdf7ca72031dd638e281a"); got != "1663bba492a323085b13895634a3618792c4ec6896f3c34ef3c26396df22ef82" {
		t.Errorf("the documented example: %s", got)
	}
	by := signer(t, "11")
	key := f.Nonce[0].PublicKey
	for claims, want := range map[string]bool{
		`"nonce":"` + f.Nonce[0].Nonce + `"`: true, `"tknonce":"` + f.Nonce[0].Nonce + `"`: true, `"nonce":"x","tknonce":"` + f.Nonce[0].Nonce + `"`: true, `"nonce":"` + f.Nonce[0].Nonce + `","tknonce":"x"`: true,
		`"nonce":"` + strings.ToUpper(f.Nonce[0].Nonce) + `"`: false, `"nonce":"` + f.Nonce[0].Wrong + `"`: false, `"nonce":""`: false, `"nonce":null`: false, `"Nonce":"` + f.Nonce[0].Nonce + `"`: false, `"x":1`: false,
		`"nonce":"` + key + `"`: false, `"nonce":"` + f.Nonce[0].Nonce + ` "`: false,
	} {
		text := login.SignText(by, `{"alg":"ES256","kid":"`+by.Public().ID()+`"}`, `{"iss":"i","aud":"a","sub":"s","iat":1,"exp":4102444800,`+claims+`}`, false)
		i, err := verifyIdentity(text, login.KeySetOf(by.Public()), "i", "a", nowMs)
		must(t, err)
		if i.BoundTo(key) != want {
			t.Errorf("%s: %t", claims, !want)
		}
	}
}

func TestEmailOfIdentity(t *testing.T) {
	by := signer(t, "11")
	for claims, want := range map[string]bool{
		`"email":"a@b.com","email_verified":true`: true, `"email":"a@b.com","email_verified":false`: false, `"email":"a@b.com"`: false, `"email":"a@b.com","email_verified":"true"`: false, `"email":"a@b.com","email_verified":1`: false,
		`"email_verified":true`: false, `"email":null,"email_verified":true`: false, `"email":5,"email_verified":true`: false, `"email":"a\u0000@b.com","email_verified":true`: false,
	} {
		text := login.SignText(by, `{"alg":"ES256"}`, `{"iss":"i","aud":"a","sub":"s","iat":1,"exp":4102444800,`+claims+`}`, false)
		i, err := verifyIdentity(text, login.KeySetOf(by.Public()), "i", "a", nowMs)
		must(t, err)
		if i.EmailVerified != want || want != (i.EmailVerified && i.Email == "a@b.com") {
			t.Errorf("%s: %+v", claims, i)
		}
	}
}

// TestTimesOfTokens reads numbers of seconds in every form that JSON has, and says what is wrong with others.
func TestTimesOfTokens(t *testing.T) {
	s := signer(t, "11")
	set := login.KeySetOf(s.Public())
	const now = 1_800_000_000
	try := func(iat, exp, nbf string) error {
		claims := `{"iss":"i","aud":"a","sub":"s"`
		for _, c := range [][2]string{{"iat", iat}, {"exp", exp}, {"nbf", nbf}} {
			if c[1] != "" {
				claims += `,"` + c[0] + `":` + c[1]
			}
		}
		_, err := verifyIdentity(login.SignText(s, `{"alg":"ES256"}`, claims+"}", false), set, "i", "a", now*1000)
		return err
	}
	for _, exp := range []string{"1800000300", "1800000300.0", "1800000300.25", "1.8000003e9", "1.8000003E+9", "18000003e2", "1800000300000e-3", "1.800000300123456789e+09"} {
		if err := try("1.8e9", exp, ""); err != nil {
			t.Errorf("exp %s: %v", exp, err)
		}
		if err := try("1.8e9", exp, "1.79e9"); err != nil {
			t.Errorf("exp %s with nbf: %v", exp, err)
		}
	}
	for _, c := range []struct{ iat, exp, nbf, why string }{
		{"", "1800000300", "", "it has no iat"}, {"1800000000", "", "", "it has no exp"},
		{"1800000000", "-1", "", "its exp is no number of seconds"}, {"1800000000", `"1800000300"`, "", "its exp is no number"}, {"1800000000", "null", "", "it has no exp"}, {"1800000000", "1800000300", "null", "its nbf is no number"},
		{"1800000000", "true", "", "its exp is no number"}, {"1800000000", "1e12", "", "its exp is no number"}, {"1800000000", "1e999999999", "", "its exp is no number"},
		{"1800000000", "1e31", "", "its exp is no number"}, {"1800000000", "0." + strings.Repeat("0", 50) + "1", "", "its exp is no number"}, {"{}", "1800000300", "", "its iat is no number"},
		{"1800000000", "1800000300", "[]", "its nbf is no number"}, {"1.8e9", "1.7e9", "", "it has expired"},
		{"1.9e9", "2e9", "", "it is of the future"}, {"1.8e9", "2e9", "1.9e9", "it is not valid yet"},
	} {
		refused(t, fmt.Sprint(c), try(c.iat, c.exp, c.nbf), fault.InvalidArgument, "oidcToken", c.why)
	}
}

// TestNamesOfIssuers: Google signs as accounts.google.com as well, and is one issuer.
func TestNamesOfIssuers(t *testing.T) {
	s := signer(t, "11")
	for name, want := range map[string]string{
		"accounts.google.com": "https://accounts.google.com", "https://accounts.google.com": "https://accounts.google.com",
		"https://accounts.google.com/": "https://accounts.google.com/", "Accounts.google.com": "Accounts.google.com", "https://issuer.example": "https://issuer.example",
	} {
		u, err := login.ParseIdentityToken("oidcToken", login.SignText(s, `{"alg":"ES256"}`, `{"iss":"`+name+`","aud":"a","sub":"s","iat":1,"exp":2}`, false))
		must(t, err)
		if u.Issuer() != want {
			t.Errorf("%s: %s", name, u.Issuer())
		}
	}
}
