package webauthn_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"cloister/enclave/internal/webauthn"
	"cloister/sim/authenticator"
)

var corpus = flag.String("corpus", "", "write all cases with their verdicts to this file, for other implementations to judge")

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// A verdict is a case as others get to judge it.
type verdict struct {
	Name              string   `json:"name"`
	Kind              string   `json:"kind"` // registration or assertion
	RPID              string   `json:"rpId"`
	Origins           []string `json:"origins"`
	Challenge         string   `json:"challenge"`
	CredentialID      string   `json:"credentialId"`
	ClientDataJSON    string   `json:"clientDataJson"`
	AttestationObject string   `json:"attestationObject,omitempty"`
	AuthenticatorData string   `json:"authenticatorData,omitempty"`
	Signature         string   `json:"signature,omitempty"`
	KnownID           string   `json:"knownId,omitempty"`
	PublicKey         string   `json:"publicKey,omitempty"`
	Counter           uint32   `json:"counter"`
	Accepted          bool     `json:"accepted"`
	Why               string   `json:"why,omitempty"`
	Apart             string   `json:"apart,omitempty"` // why others may say otherwise
}

// judged holds an answer against what was expected of it.
func judged(t *testing.T, name, why string, err error) {
	t.Helper()
	var r webauthn.Refusal
	switch {
	case err != nil && !errors.As(err, &r):
		t.Errorf("%s: not a Refusal: %v", name, err)
	case why == unknown:
	case (why == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), why):
		t.Errorf("%s: want %q, got %v", name, why, err)
	}
}

func TestCases(t *testing.T) {
	var out []verdict
	taken, refused := 0, 0
	note := func(v verdict, err error, list string) {
		v.RPID, v.Challenge, v.Accepted, v.Origins = rpID, encode(challenge), err == nil, []string{page}
		if list != "" {
			v.Origins = strings.Split(list, ",")
		}
		if taken++; err != nil {
			v.Why = err.Error()
			taken--
			refused++
		}
		out = append(out, v)
	}
	for _, c := range registrations() {
		k, err := webauthn.Register(c.r, origins(c.list))
		judged(t, c.name, c.why, err)
		if err == nil {
			checkCredential(t, c, k)
		} else if k != nil {
			t.Errorf("%s: a credential beside an error", c.name)
		}
		if strings.HasPrefix(c.name, "flipped packed") && err == nil {
			t.Errorf("%s: accepted", c.name)
		}
		note(verdict{Name: c.name, Kind: "registration", CredentialID: encode(c.r.CredentialID), ClientDataJSON: encode(c.r.ClientDataJSON),
			AttestationObject: encode(c.r.AttestationObject), Apart: c.apart}, err, c.list)
	}
	for _, c := range assertions() {
		n, err := webauthn.Assert(c.a, challenge, c.c, c.counter, origins(c.list))
		judged(t, c.name, c.why, err)
		if err != nil && n != 0 || err == nil && n < c.counter {
			t.Errorf("%s: counter %d", c.name, n)
		}
		if c.why == unknown && err == nil {
			t.Errorf("%s: accepted", c.name)
		}
		note(verdict{Name: c.name, Kind: "assertion", CredentialID: encode(c.a.CredentialID), ClientDataJSON: encode(c.a.ClientDataJSON),
			AuthenticatorData: encode(c.a.AuthenticatorData), Signature: encode(c.a.Signature), KnownID: encode(c.c.ID), PublicKey: encode(c.c.PublicKey),
			Counter: c.counter, Apart: c.apart}, err, c.list)
	}
	t.Logf("%d accepted, %d refused", taken, refused)
	if *corpus != "" {
		b, err := json.Marshal(out)
		if err == nil {
			err = os.WriteFile(*corpus, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func checkCredential(t *testing.T, c registration, k *webauthn.Credential) {
	t.Helper()
	format := "none"
	for _, f := range []string{"packed", "fido-u2f"} {
		if !c.unjudged && bytes.Contains(c.r.AttestationObject, []byte(f)) {
			format = f
		}
	}
	if !bytes.Equal(k.ID, c.r.CredentialID) || k.Format != format || k.RPIDHash != sha256.Sum256([]byte(rpID)) || k.Origin != page ||
		!bytes.Contains(c.r.AttestationObject, k.PublicKey) || !bytes.Contains(c.r.AttestationObject, k.AAGUID[:]) {
		t.Errorf("%s: %+v", c.name, k)
	}
}

// What is registered signs, and what it signs is bound to the challenge.
func TestRegisterThenAssert(t *testing.T) {
	for alg, name := range algorithms {
		a := newPasskey(alg)
		a.Counter, a.AAGUID = 41, [16]byte{1, 2, 3}
		k, err := webauthn.Register(registered(must(a.Register(challenge, authenticator.Packed))), webauthn.Origins{})
		if err != nil || k.Counter != 42 || k.AAGUID != a.AAGUID {
			t.Fatalf("%s: %+v, %v", name, k, err)
		}
		s := must(a.Assert([]byte("other")))
		in := webauthn.Assertion{CredentialID: s.CredentialID, AuthenticatorData: s.AuthenticatorData, ClientDataJSON: s.ClientDataJSON, Signature: s.Signature}
		before := bytes.Clone(s.AuthenticatorData)
		if n, err := webauthn.Assert(in, []byte("other"), k, k.Counter, webauthn.Origins{}); err != nil || n != 43 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if _, err := webauthn.Assert(in, challenge, k, k.Counter, webauthn.Origins{}); err == nil {
			t.Errorf("%s: accepted for another challenge", name)
		}
		if _, err := webauthn.Assert(in, nil, k, k.Counter, webauthn.Origins{}); err == nil {
			t.Errorf("%s: accepted for no challenge", name)
		}
		if !bytes.Equal(before, s.AuthenticatorData) {
			t.Error("what was given is changed")
		}
	}
}

func TestOrigins(t *testing.T) {
	hash := func(id string) [32]byte { return sha256.Sum256([]byte(id)) }
	android := "android:apk-key-hash:" + strings.Repeat("A", 43)
	for _, c := range []struct {
		origin, rpID string
		ok           bool
	}{
		{"https://cloister.test", "cloister.test", true}, {"https://a.cloister.test", "cloister.test", true}, {"https://a.b.cloister.test:8443", "cloister.test", true},
		{"https://a.b.cloister.test", "b.cloister.test", true}, {"https://xn--bcher-kva.test", "xn--bcher-kva.test", true}, {"https://a_b.cloister.test", "cloister.test", true},
		{"http://localhost", "localhost", true}, {"http://localhost:3000", "localhost", true}, {"https://localhost:3000", "localhost", true}, {"http://a.localhost:3000", "localhost", true},
		{"https://intranet", "intranet", true}, {android, "cloister.test", true},
		{"https://cloister.test", "a.cloister.test", false}, {"https://cloister.test", "test", false}, {"https://evil.test", "cloister.test", false},
		{"https://evilcloister.test", "cloister.test", false}, {"https://cloister.test.evil.test", "cloister.test", false}, {"http://cloister.test", "cloister.test", false},
		{"http://localhost.evil.test", "localhost.evil.test", false}, {"http://evillocalhost", "evillocalhost", false}, {"http://127.0.0.1", "127.0.0.1", false}, {"https://127.0.0.1", "127.0.0.1", false},
		{"https://[::1]", "::1", false}, {"https://Cloister.test", "cloister.test", false}, {"HTTPS://cloister.test", "cloister.test", false}, {"https://cloister.test/", "cloister.test", false},
		{"https://cloister.test:443", "cloister.test", false}, {"http://localhost:80", "localhost", false}, {"https://cloister.test:", "cloister.test", false}, {"https://cloister.test:0", "cloister.test", false},
		{"https://cloister.test:08443", "cloister.test", false}, {"https://cloister.test:65536", "cloister.test", false}, {"https://cloister.test:1:2", "cloister.test", false},
		{"https://user@cloister.test", "cloister.test", false}, {"https://cloister.test.", "cloister.test.", false}, {"https://.cloister.test", "cloister.test", false}, {"https://", "", false},
		{"https://cloister.test?x", "cloister.test", false}, {"https://cloister.test#x", "cloister.test", false}, {"https://clo ister.test", "clo ister.test", false}, {"null", "", false}, {"", "", false},
		{"https://" + strings.Repeat("a", 64) + ".test", strings.Repeat("a", 64) + ".test", false}, {"https://" + strings.Repeat("a.", 127) + "test", strings.Repeat("a.", 127) + "test", false},
		{"https://b\u00fccher.test", "b\u00fccher.test", false}, {"ftp://cloister.test", "cloister.test", false}, {"chrome-extension://abc", "abc", false},
		{"android:apk-key-hash:", "cloister.test", false}, {"android:apk-key-hash:AAAA", "cloister.test", false}, {"android:apk-key-hash:" + strings.Repeat("A", 44), "cloister.test", false}, {"ios:bundle-id:x", "cloister.test", false},
	} {
		if got := (webauthn.Origins{}).Accept(c.origin, hash(c.rpID)); got != c.ok {
			t.Errorf("%s for %s: %v", c.origin, c.rpID, got)
		}
		if webauthn.NoOrigins().Accept(c.origin, hash(c.rpID)) {
			t.Errorf("%s accepted where none is", c.origin)
		}
	}
	for _, c := range []struct {
		list, origin string
		ok           bool
	}{
		{page, page, true}, {page, "https://b.cloister.test", false}, {page, "https://x.app.cloister.test", false}, {page, page + ":8443", false}, {page, android, false}, {page, "http://app.cloister.test", false},
		{" HTTPS://App.Cloister.Test/ ", page, true}, {page + ":443", page, true}, {page + ":8443", page + ":8443", true}, {page + ":8443", page, false}, {page + "," + android, android, true},
		{"https://a.test , " + page, page, true}, {"http://localhost:80", "http://localhost", true}, {android, page, false}, {android, "android:apk-key-hash:" + strings.Repeat("B", 42) + "A", false},
	} {
		// The id of the relying party does not matter then.
		if got := must(webauthn.ParseOrigins(c.list)).Accept(c.origin, hash("anything")); got != c.ok {
			t.Errorf("%s in %s: %v", c.origin, c.list, got)
		}
	}
	for _, list := range []string{"", " ", ",", page + ",", "," + page, "*", "https://*.cloister.test", "cloister.test", "http://cloister.test", "https://cloister.test/path", "https://cloister.test//", "https://127.0.0.1",
		"javascript:x", page + ";" + page, page + " " + page, "android:apk-key-hash:x", strings.Repeat(page+",", 100) + page} {
		o, err := webauthn.ParseOrigins(list)
		if err == nil || o.Accept(page, hash(rpID)) {
			t.Errorf("%q: %v", list, err)
		}
	}
	if o, err := webauthn.ParseOrigins(strings.Repeat(page+",", 99) + page); err != nil || !o.Accept(page, hash(rpID)) {
		t.Error(err)
	}
}

func TestText(t *testing.T) {
	raw := []byte{0xfb, 0xff, 0xfe, 0x00}
	for _, s := range []string{"-__-AA", "-__-AA==", "+//+AA", "+//+AA=="} {
		if b, ok := webauthn.Text(s, 4); !ok || !bytes.Equal(b, raw) {
			t.Errorf("%q: %x, %v", s, b, ok)
		}
		if _, ok := webauthn.Text(s, 3); ok {
			t.Errorf("%q: too long and read", s)
		}
	}
	for _, s := range []string{"-__-AA=", "-__-AA===", "-//+AA", "-__-AB", "-__-AA==AAAA", "-__-\nAA", "-__-AA\r\n", " -__-AA", "-__-A", "=", "-__-AA\x00", "ÄÖ"} {
		if b, ok := webauthn.Text(s, 100); ok {
			t.Errorf("%q: read as %x", s, b)
		}
	}
}
