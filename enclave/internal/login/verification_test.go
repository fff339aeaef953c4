package login_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
)

type verificationVectors struct {
	Private string `json:"token_signer_private_key"`
	Client  string `json:"client_private_key"`
	Public  string `json:"client_public_key"`
	Vectors []struct {
		Name   string
		JWT    string
		Verify struct{ Accepted bool } `json:"sdk_verify_override"`
	}
	ClientSignatures []struct {
		Name      string
		Message   string
		Signature login.ClientSignature `json:"client_signature"`
	} `json:"client_signatures"`
	Nonce []struct {
		PublicKey string `json:"public_key"`
		Nonce     string
		Wrong     string `json:"sha256_over_bytes_must_not_be_used"`
	} `json:"oauth_nonce"`
}

func verificationToken() *login.VerificationToken {
	return &login.VerificationToken{ID: tokenID, OrganizationID: organization, Type: login.Email, Contact: "user@example.com",
		PublicKey: "02a775cf7a8fa4e13bcad7783c06b934dab1573b03b42b9681bda0d3cb5614ab9b", ExpiresMs: nowMs + 3_600_000}
}

func TestVerificationVectors(t *testing.T) {
	var f verificationVectors
	load(t, "verification_tokens.json", &f)
	s := signer(t, f.Private)
	keys := login.TokenKeys{Token: s.Public(), Legacy: signer(t, "33").Public()}
	issued := 0
	for _, v := range f.Vectors {
		got, err := login.VerifyVerificationToken("verificationToken", v.JWT, keys, nowMs)
		if (err == nil) != v.Verify.Accepted {
			t.Errorf("%s: %v", v.Name, err)
		}
		if err != nil {
			text := "invalid verification token"
			if v.Name == "expired" {
				text = "verification token has expired"
			}
			refused(t, v.Name, err, fault.InvalidArgument, "verificationToken", text)
			continue
		}
		ours, err := login.IssueVerificationToken(s, got)
		must(t, err)
		h, c, _ := parts(t, ours)
		wantH, wantC, _ := parts(t, v.JWT)
		var a, b map[string]string
		must(t, json.Unmarshal([]byte(c), &a))
		must(t, json.Unmarshal([]byte(wantC), &b))
		plain := !strings.HasPrefix(v.Name, "contact_") // those need escapes, which the vectors lack on purpose
		if h != wantH || plain && c != wantC || a["contact"] != b["contact"] || strings.ContainsAny(strings.Split(ours, ".")[1], "-_") {
			t.Errorf("%s:\n%s\n%s", v.Name, c, wantC)
		}
		if !got.BoundTo(f.Public) || !got.BoundTo(strings.ToUpper(f.Public)) || got.BoundTo("") || got.BoundTo(f.Public[:64]) || got.Legacy {
			t.Errorf("%s: %+v", v.Name, got)
		}
		issued++
	}
	if issued != 4 {
		t.Errorf("%d accepted", issued)
	}
}

func TestLegacyToken(t *testing.T) {
	by, token := signer(t, "33"), signer(t, "11")
	keys := login.TokenKeys{Token: token.Public(), Legacy: by.Public()}
	for _, key := range []string{"", verificationToken().PublicKey} {
		v := verificationToken()
		v.Legacy, v.PublicKey, v.ExpiresMs = true, key, nowMs+999
		text, err := login.IssueVerificationToken(by, v)
		must(t, err)
		h, c, _ := parts(t, text)
		want := `{"contact":"user@example.com","exp":` + strconv.Itoa(nowMs/1000) + `,"id":"` + tokenID + `","organization_id":"` + organization + `",`
		if key != "" {
			want += `"public_key":"` + key + `",`
		}
		if want += `"verification_type":"OTP_TYPE_EMAIL"}`; h != `{"alg":"ES256","typ":"JWT"}` || c != want {
			t.Errorf("%s\n%s", c, want)
		}
		got, err := login.VerifyVerificationToken("f", text, keys, nowMs-1)
		must(t, err)
		if v.ExpiresMs = nowMs; *got != *v {
			t.Errorf("%+v", got)
		}
		_, err = login.VerifyVerificationToken("f", text, keys, nowMs)
		refused(t, "over", err, fault.InvalidArgument, "f", "has expired")
		_, err = login.VerifyVerificationToken("f", text, login.TokenKeys{Token: by.Public(), Legacy: token.Public()}, nowMs-1)
		refused(t, "keys swapped", err, fault.InvalidArgument, "f", "invalid verification token")
	}
}

func TestVerificationTokenRefused(t *testing.T) {
	by, legacy := signer(t, "11"), signer(t, "33")
	keys := login.TokenKeys{Token: by.Public(), Legacy: legacy.Public()}
	const head = `{"typ":"JWT","alg":"ES256"}`
	good := `{"exp":"4102444800000","id":"i","organization_id":"o","verification_type":"OTP_TYPE_SMS","contact":"+15005550006","public_key":"02"}`
	if _, err := login.VerifyVerificationToken("f", login.SignText(by, head, good, false), keys, nowMs); err != nil {
		t.Fatal(err)
	}
	change := func(old, now string) string {
		return login.SignText(by, head, strings.Replace(good, old, now, 1), false)
	}
	own, err := login.IssueSession(by, session())
	must(t, err)
	identity, err := login.IssueIdentityToken(by, &login.IdentityToken{Issuer: "i", Audience: "a", Subject: "s", ExpiresMs: nowMs * 2})
	must(t, err)
	cases := map[string]string{
		"nothing": "", "double digest": login.SignText(by, head, good, true), "signed by the legacy key": login.SignText(legacy, head, good, false),
		"number by the key of strings": change(`"4102444800000"`, "4102444800"), "string by the key of numbers": login.SignText(legacy, head, good, false),
		"exp of milliseconds as number": change(`"4102444800000"`, "4102444800000"), "exp signed": change(`"4102444800000"`, `"+4102444800000"`), "exp negative": change(`"4102444800000"`, `"-1"`),
		"exp hex": change(`"4102444800000"`, `"0x3bb"`), "exp huge": change(`"4102444800000"`, `"99999999999999999999"`), "exp of 2^53": change(`"4102444800000"`, `"9007199254740992"`),
		"exp empty": change(`"4102444800000"`, `""`), "exp null": change(`"4102444800000"`, `null`), "no exp": change(`"exp":"4102444800000",`, ""), "exp twice": change("{", `{"exp":"1",`),
		"exp spaces": change(`"4102444800000"`, `" 4102444800000"`), "alg none": login.SignText(by, `{"typ":"JWT","alg":"none"}`, good, false), "alg HS256": login.SignText(by, `{"typ":"JWT","alg":"HS256"}`, good, false),
		"typ": login.SignText(by, `{"typ":"JOSE","alg":"ES256"}`, good, false), "crit": login.SignText(by, `{"typ":"JWT","alg":"ES256","crit":["x"]}`, good, false),
		"unknown type": change("OTP_TYPE_SMS", "OTP_TYPE_FAX"), "contact twice by escape": change("{", `{"cont\u0061ct":"+1",`), "session": own, "identity token": identity,
	}
	for _, name := range []string{"id", "organization_id", "verification_type", "contact", "public_key"} {
		cases["no "+name] = change(`"`+name+`":`, `"x`+name+`":`)
		cases[name+" number"] = change(`"`+name+`":`, `"`+name+`":1,"x":`)
		cases[name+" empty"] = change(`"`+name+`":`, `"`+name+`":"","x":`)
	}
	for name, text := range cases {
		_, err := login.VerifyVerificationToken("verificationToken", text, keys, nowMs)
		refused(t, name, err, fault.InvalidArgument, "verificationToken", "invalid verification token")
	}
	lgood := `{"contact":"c@example.com","exp":4102444800,"id":"i","organization_id":"o","verification_type":"OTP_TYPE_EMAIL"}`
	for name, claims := range map[string]string{"no organization": strings.Replace(lgood, `"organization_id":"o",`, "", 1), "fraction": strings.Replace(lgood, "4102444800", "4102444800.9", 1),
		"true": strings.Replace(lgood, "4102444800", "true", 1), "key number": strings.Replace(lgood, "{", `{"public_key":1,`, 1)} {
		_, err := login.VerifyVerificationToken("f", login.SignText(legacy, head, claims, false), keys, nowMs)
		refused(t, "legacy "+name, err, fault.InvalidArgument, "f", "invalid verification token")
	}
	for name, change := range map[string]func(v *login.VerificationToken){
		"no id": func(v *login.VerificationToken) { v.ID = "" }, "no organization": func(v *login.VerificationToken) { v.OrganizationID = "" }, "no type": func(v *login.VerificationToken) { v.Type = "" },
		"no contact": func(v *login.VerificationToken) { v.Contact = "" }, "no key": func(v *login.VerificationToken) { v.PublicKey = "" }, "no expiry": func(v *login.VerificationToken) { v.ExpiresMs = 0 },
	} {
		v := verificationToken()
		change(v)
		if text, err := login.IssueVerificationToken(by, v); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
	if (*login.VerificationToken)(nil).BoundTo("02") || (*login.Identity)(nil).BoundTo("02") || (&login.VerificationToken{Legacy: true}).BoundTo("") {
		t.Error("no token is bound to a key")
	}
}

// What a token says is told to nobody but to who has proven to hold its key.
func TestProofOfPossession(t *testing.T) {
	by, unrelated := signer(t, "44"), signer(t, "55")
	key, session := by.Public().String(), unrelated.Public().String()
	const text = "eyJ.e30.x"
	bound, unbound, legacy := verificationToken(), verificationToken(), verificationToken()
	bound.PublicKey, legacy.PublicKey = key, key
	unbound.PublicKey, unbound.Legacy, legacy.Legacy = "", true, true
	loginText := `{"login":{"publicKey":"` + session + `"},"tokenId":"` + tokenID + `","type":"USAGE_TYPE_LOGIN"}`
	signupText := `{"signup":{"email":"user@example.com"},"tokenId":"` + tokenID + `","type":"USAGE_TYPE_SIGNUP"}`
	signupV2Text := strings.Replace(signupText, `"signup"`, `"signupV2"`, 1)
	signed := func(message string) *login.ClientSignature { return clientSigned(t, by, message) }
	forged := clientSigned(t, unrelated, loginText)
	forged.PublicKey = key
	want := &login.Signup{Email: "user@example.com"}
	type proof = func(u *login.UnprovenToken) (*login.VerificationToken, error)
	logIn := func(s *login.ClientSignature, publicKey string, first bool) proof {
		return func(u *login.UnprovenToken) (*login.VerificationToken, error) {
			return u.ForLogin("clientSignature", s, publicKey, first)
		}
	}
	signUp := func(s *login.ClientSignature, usage login.Usage) proof {
		return func(u *login.UnprovenToken) (*login.VerificationToken, error) {
			return u.ForSignup("clientSignature", s, usage, want)
		}
	}
	stamped := func(publicKey string) proof {
		return func(u *login.UnprovenToken) (*login.VerificationToken, error) { return u.ByStamp(publicKey) }
	}
	for name, c := range map[string]struct {
		token      *login.VerificationToken
		prove      proof
		field, why string // of the refusal
	}{
		"log-in":                            {bound, logIn(signed(loginText), session, false), "", ""},
		"first log-in":                      {bound, logIn(signed(loginText), session, true), "", ""},
		"log-in, bare":                      {bound, logIn(signed(text), key, true), "", ""},
		"log-in by whoever has it":          {unbound, logIn(nil, session, true), "", ""},
		"log-in, legacy and bound":          {legacy, logIn(signed(loginText), session, true), "", ""},
		"log-in unsigned":                   {bound, logIn(nil, session, true), "clientSignature", "bound to a key"},
		"log-in unsigned, legacy and bound": {legacy, logIn(nil, key, true), "clientSignature", "bound to a key"},
		"second log-in unsigned":            {bound, logIn(nil, session, false), "clientSignature", "must be given"},
		"second log-in, legacy":             {legacy, logIn(signed(loginText), session, false), "verificationToken", "invalid verification token"},
		"second log-in, unbound":            {unbound, logIn(nil, session, false), "verificationToken", "invalid verification token"},
		"log-in, another session":           {bound, logIn(signed(loginText), key, false), "clientSignature", "another publicKey"},
		"log-in, forged":                    {bound, logIn(forged, session, false), "clientSignature", "does not verify"},
		"log-in, a stranger's":              {bound, logIn(clientSigned(t, unrelated, loginText), session, false), "clientSignature", "not the key"},
		"log-in, bare, another session":     {bound, logIn(signed(text), session, true), "clientSignature", "of the session's key"},
		"log-in, bare, a stranger's":        {bound, logIn(clientSigned(t, unrelated, text), session, true), "clientSignature", "not the key"},
		"second log-in, bare":               {bound, logIn(signed(text), key, false), "clientSignature", "malformed"},
		"log-in by a sign-up":               {bound, logIn(signed(signupText), session, true), "clientSignature", "not about a login"},
		"sign-up":                           {bound, signUp(signed(signupText), login.SignupV1), "", ""},
		"second sign-up":                    {bound, signUp(signed(signupV2Text), login.SignupV2), "", ""},
		"sign-up by whoever has it":         {unbound, signUp(nil, login.SignupV1), "", ""},
		"sign-up unsigned":                  {bound, signUp(nil, login.SignupV1), "clientSignature", "bound to a key"},
		"sign-up, legacy and bound":         {legacy, signUp(nil, login.SignupV1), "clientSignature", "bound to a key"},
		"second sign-up unsigned":           {bound, signUp(nil, login.SignupV2), "clientSignature", "must be given"},
		"second sign-up, legacy":            {legacy, signUp(signed(signupV2Text), login.SignupV2), "verificationToken", "invalid verification token"},
		"sign-up by a log-in":               {bound, signUp(signed(loginText), login.SignupV1), "clientSignature", "not about a sign-up"},
		"stamped":                           {bound, stamped(key), "", ""},
		"stamped, upper case":               {bound, stamped(strings.ToUpper(key)), "", ""},
		"stamped by whoever has it":         {unbound, stamped(session), "", ""},
		"stamped by a stranger":             {bound, stamped(session), "verificationToken", "has not stamped"},
		"stamped by nobody":                 {bound, stamped(""), "verificationToken", "has not stamped"},
		"stamped, legacy and bound":         {legacy, stamped(session), "verificationToken", "has not stamped"},
	} {
		got, err := c.prove(login.Unproven(text, c.token))
		if c.why == "" {
			if err != nil || *got != *c.token {
				t.Errorf("%s: %+v %v", name, got, err)
			}
			continue
		}
		if got != nil {
			t.Errorf("%s: the token is told", name)
		}
		refused(t, name, err, fault.InvalidArgument, c.field, c.why)
	}
	u := login.Unproven(text, bound)
	if !u.IssuedBy(organization) || u.IssuedBy("") || !u.About(login.Email, "User@Example.com") || u.About(login.SMS, "user@example.com") || u.About(login.Email, "") || u.About(login.Email, "b@example.com") {
		t.Error("what the token is about")
	}
}
