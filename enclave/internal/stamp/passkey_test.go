package stamp_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/webauthn"
	"cloister/sim/authenticator"
)

const passkeyHeader = "X-Stamp-Webauthn" // as the SDK spells it

func xpasskey(value string) []stamp.Header {
	return []stamp.Header{{Name: "Content-Type", Value: "application/json"}, {Name: passkeyHeader, Value: value}}
}

// verified goes the two steps of a request.
func verified(value, body string, c *webauthn.Credential, counter uint32, allowed webauthn.Origins) (*stamp.Caller, uint32, error) {
	caller, p, _, err := stamp.NewVerifier().Read(xpasskey(value), []byte(body))
	if err != nil {
		return caller, 0, err
	}
	return p.Verify(c, counter, allowed)
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func text(t testing.TB, s string) []byte {
	b, ok := webauthn.Text(s, 1<<20)
	if !ok {
		t.Fatal(s)
	}
	return b
}

func listed(t testing.TB, list string) webauthn.Origins {
	o, err := webauthn.ParseOrigins(list)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// registered is the credential of a vector; that of the registration vector must
// be the same.
func registered(t testing.TB, x vector) *webauthn.Credential {
	return &webauthn.Credential{ID: text(t, x.CredentialID), PublicKey: unhex(t, x.COSE), RPIDHash: sha256.Sum256([]byte(x.RPID)), Origin: x.Origin}
}

func passkeyVectors(t testing.TB) (out []vector) {
	for _, x := range stampVectors(t) {
		if x.Header == passkeyHeader {
			if x.RPID == "" { // one that is derived from the first
				x.RPID, x.Origin, x.CredentialID, x.COSE, x.Body = out[0].RPID, out[0].Origin, out[0].CredentialID, out[0].COSE, out[0].Body
			}
			out = append(out, x)
		}
	}
	return out
}

func TestPasskeyVectors(t *testing.T) {
	x := known(t, "webauthn_registration_none")
	at := x.Registration.Attestation
	made, err := webauthn.Register(webauthn.Registration{
		CredentialID: text(t, at.CredentialID), Challenge: text(t, x.Registration.Challenge), ClientDataJSON: text(t, at.ClientDataJSON), AttestationObject: text(t, at.AttestationObject),
	}, webauthn.Origins{})
	if err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(made.PublicKey) != x.COSE || made.Format != "none" || made.Origin != x.Origin || made.RPIDHash != sha256.Sum256([]byte(x.RPID)) || made.Counter != 0 {
		t.Errorf("%+v", made)
	}
	taken, refused := 0, 0
	for _, x := range passkeyVectors(t) {
		c := registered(t, x)
		if bytes.Equal(c.ID, made.ID) {
			c = made
		}
		for what, allowed := range map[string]webauthn.Origins{"any": {}, "listed": listed(t, x.Origin)} {
			caller, counter, err := verified(x.Value, x.Body, c, 0, allowed)
			if strings.HasPrefix(x.Expect, "reject") {
				refusedAs(t, err, "could not verify WebAuthN signature: ")
				if caller != nil || counter != 0 {
					t.Errorf("%s: %+v", x.Name, caller)
				}
				refused++
				continue
			}
			if err != nil || counter != 7 {
				t.Errorf("%s, %s: %d, %v", x.Name, what, counter, err)
				continue
			}
			if string(caller.Body().Bytes()) != x.Body || caller.Fingerprint() != sha256.Sum256([]byte(x.Body)) || caller.Scheme().String() != "SIGNATURE_SCHEME_TK_WEBAUTHN" ||
				caller.Curve() != "WEBAUTHN" || caller.CredentialType() != "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR" || caller.PublicKey() != x.COSE ||
				caller.Signature() != x.Value || caller.CredentialID() != x.CredentialID {
				t.Errorf("%s: %+v", x.Name, caller)
			}
			taken++
		}
		for _, allowed := range []webauthn.Origins{webauthn.NoOrigins(), listed(t, "https://cloister.test")} {
			if c, _, err := verified(x.Value, x.Body, c, 0, allowed); c != nil || err == nil {
				t.Errorf("%s: accepted at an origin that is not listed", x.Name)
			}
		}
	}
	if taken != 8 || refused != 10 {
		t.Errorf("%d taken, %d refused", taken, refused)
	}
}

// TestPasskeyFlipped changes every byte of header and body of every accepted
// vector.
func TestPasskeyFlipped(t *testing.T) {
	n := 0
	for _, x := range passkeyVectors(t) {
		if !strings.HasPrefix(x.Expect, "accept") {
			continue
		}
		c := registered(t, x)
		for i := range len(x.Body) {
			body := []byte(x.Body)
			body[i] ^= 1 << (i % 8)
			n++
			if got, _, err := verified(x.Value, string(body), c, 0, webauthn.Origins{}); got != nil || err == nil {
				t.Errorf("%s: body byte %d flipped", x.Name, i)
			}
		}
		for i := range len(x.Value) {
			value := []byte(x.Value)
			value[i] ^= 1 << (i % 8)
			n++
			if got, _, err := verified(string(value), x.Body, c, 0, webauthn.Origins{}); got != nil || err == nil {
				t.Errorf("%s: header byte %d flipped: %q", x.Name, i, value[max(0, i-8):min(len(value), i+8)])
			}
		}
		for i := range c.PublicKey {
			other := *c
			other.PublicKey = bytes.Clone(c.PublicKey)
			other.PublicKey[i] ^= 1 << (i % 8)
			n++
			if got, _, err := verified(x.Value, x.Body, &other, 0, webauthn.Origins{}); got != nil || err == nil {
				t.Errorf("%s: key byte %d flipped", x.Name, i)
			}
		}
	}
	t.Logf("%d changes refused", n)
}

// A stamp is for one credential, and an unknown one is told from a bad signature.
func TestPasskeyCredential(t *testing.T) {
	vs := passkeyVectors(t)
	es, rs := vs[0], known(t, "webauthn_rs256")
	for name, c := range map[string]*webauthn.Credential{"none": nil, "another": registered(t, rs), "without id": {PublicKey: unhex(t, es.COSE)}} {
		caller, _, err := verified(es.Value, es.Body, c, 0, webauthn.Origins{})
		f := fault.Of(err)
		if caller != nil || f == nil || f.Code != fault.Unauthenticated || f.Name != "CREDENTIAL_NOT_FOUND" ||
			f.Message != "credential ID could not be found in organization or its parent organization" {
			t.Errorf("%s: %v", name, err)
		}
	}
	swapped := *registered(t, rs)
	swapped.ID = text(t, es.CredentialID)
	_, _, err := verified(es.Value, es.Body, &swapped, 0, webauthn.Origins{})
	refusedAs(t, err, "could not verify WebAuthN signature: signature does not verify")
	other := *registered(t, es)
	other.RPIDHash[3] ^= 1
	_, _, err = verified(es.Value, es.Body, &other, 0, webauthn.Origins{})
	refusedAs(t, err, "could not verify WebAuthN signature: relying party is another one")
}

func TestPasskeyCounter(t *testing.T) {
	x := passkeyVectors(t)[0] // tells 7
	for _, seen := range []struct {
		before, after uint32
		refused       bool
	}{{0, 7, false}, {6, 7, false}, {7, 7, false}, {8, 0, true}, {1 << 31, 0, true}} {
		_, after, err := verified(x.Value, x.Body, registered(t, x), seen.before, webauthn.Origins{})
		if after != seen.after || (err != nil) != seen.refused {
			t.Errorf("%+v: %d, %v", seen, after, err)
		}
	}
	a, err := authenticator.New(authenticator.EdDSA, "cloister.test", "https://a.cloister.test")
	if err != nil {
		t.Fatal(err)
	}
	value, err := a.Stamp([]byte(body)) // one that does not count
	if err != nil {
		t.Fatal(err)
	}
	key, err := a.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	c := &webauthn.Credential{ID: a.CredentialID, PublicKey: key, RPIDHash: sha256.Sum256([]byte(a.RPID))}
	for _, before := range []uint32{0, 9} {
		if _, after, err := verified(value, body, c, before, webauthn.Origins{}); err != nil || after != before {
			t.Errorf("%d: %d, %v", before, after, err)
		}
	}
}

func TestPasskeyTolerated(t *testing.T) {
	x := passkeyVectors(t)[0]
	var m map[string]string
	if err := json.Unmarshal([]byte(x.Value), &m); err != nil {
		t.Fatal(err)
	}
	texts := map[string]func([]byte) string{
		"url": base64.RawURLEncoding.EncodeToString, "url padded": base64.URLEncoding.EncodeToString,
		"standard": base64.RawStdEncoding.EncodeToString, "standard padded": base64.StdEncoding.EncodeToString,
	}
	for name, encode := range texts {
		again := map[string]string{}
		for k, v := range m {
			again[k] = encode(text(t, v))
		}
		b, err := json.MarshalIndent(again, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		snake := strings.NewReplacer("authenticatorData", "authenticator_data", "clientDataJson", "client_data_json", "credentialId", "credential_id").Replace(string(b))
		for form, value := range map[string]string{"JSON": string(b), "behind space": "  " + string(b), "snake": snake, "wrapped": encode(b)} {
			if c, _, err := verified(value, x.Body, registered(t, x), 0, webauthn.Origins{}); err != nil || c.Signature() != value || c.CredentialID() != x.CredentialID {
				t.Errorf("%s, %s: %v", name, form, err)
			}
		}
	}
	// The user handle is whatever the client says.
	for _, handle := range []string{`"userHandle":""`, `"userHandle":"AAAA"`, `"userHandle":null`, `"user_handle":"no base64!"`} {
		value := x.Value[:len(x.Value)-1] + "," + handle + "}"
		if c, _, err := verified(value, x.Body, registered(t, x), 0, webauthn.Origins{}); err != nil || c.CredentialID() != x.CredentialID {
			t.Errorf("%s: %v", handle, err)
		}
	}
}

func TestPasskeyUnreadable(t *testing.T) {
	x := passkeyVectors(t)[0]
	m := map[string]string{}
	if err := json.Unmarshal([]byte(x.Value), &m); err != nil {
		t.Fatal(err)
	}
	with := func(name, value string) string {
		again := map[string]string{}
		for k, v := range m {
			again[k] = v
		}
		if again[name] = value; value == "\x00" {
			delete(again, name)
		}
		b, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	enc := base64.RawURLEncoding.EncodeToString
	cases := map[string]string{
		"empty": "", "space": "  ", "null": "null", "array": "[" + x.Value + "]", "two": x.Value + x.Value, "base64 of nothing": enc(nil), "base64 of null": enc([]byte("null")),
		"unknown member": with("clientExtensionResults", "AAAA"), "handle in capitals": with("UserHandle", ""), "handle that is a number": x.Value[:len(x.Value)-1] + `,"userHandle":7}`,
		"handle twice": x.Value[:len(x.Value)-1] + `,"userHandle":"","userHandle":""}`, "line break": enc([]byte(x.Value))[:40] + "\n" + enc([]byte(x.Value))[40:], "wrapped twice": enc([]byte(enc([]byte(x.Value)))),
		"repeated": strings.Replace(x.Value, "{", `{"signature":"AAAA",`, 1), "number": strings.Replace(x.Value, `"`+m["signature"]+`"`, "7", 1),
		"other case": strings.Replace(x.Value, "clientDataJson", "clientDataJSON", 1), "open": x.Value[:len(x.Value)-1],
	}
	most := map[string]int{"authenticatorData": webauthn.MaxAuthenticatorData, "clientDataJson": webauthn.MaxClientDataJSON, "credentialId": webauthn.MaxCredentialID, "signature": webauthn.MaxSignature}
	for name, most := range most {
		cases["no "+name] = with(name, "\x00")
		cases["empty "+name] = with(name, "")
		cases["not base64 "+name] = with(name, "!"+m[name])
		cases["mixed "+name] = with(name, "-+-+")
		cases["broken "+name] = with(name, m[name][:4]+"\n"+m[name][4:])
		cases["length "+name] = with(name, "AAAAA")
		cases["long "+name] = with(name, enc(make([]byte, most+1)))
		if _, p, _, err := stamp.NewVerifier().Read(xpasskey(with(name, enc(make([]byte, most)))), nil); err != nil || p == nil {
			t.Errorf("%s of %d bytes: %v", name, most, err)
		}
	}
	for name, value := range cases {
		caller, p, _, err := stamp.NewVerifier().Read(xpasskey(value), []byte(x.Body))
		if caller != nil || p != nil {
			t.Errorf("%s: read", name)
		}
		refusedAs(t, err, "could not extract webauthn stamp: ")
	}
}

// Nothing proves a passkey but its Verify, and one request has one stamp.
func TestPasskeyHeaders(t *testing.T) {
	x := passkeyVectors(t)[0]
	v := stamp.NewVerifier()
	for _, name := range []string{"X-Stamp-WebAuthn", "X-Stamp-Webauthn", "x-stamp-webauthn"} {
		caller, p, _, err := v.Read([]stamp.Header{{Name: name, Value: x.Value}}, []byte(x.Body))
		if err != nil || caller != nil || p.Unverified().Text() != x.Body || !bytes.Equal(p.CredentialID(), text(t, x.CredentialID)) {
			t.Errorf("%s: %v, %v", name, caller, err)
		}
		caller, err = v.Verify([]stamp.Header{{Name: name, Value: x.Value}}, []byte(x.Body))
		if f := fault.Of(err); caller != nil || f == nil || f.Code != fault.Unimplemented {
			t.Errorf("%s: %v, %v", name, caller, err)
		}
	}
	api := known(t, "p256_node_query")
	caller, p, _, err := v.Read(xstamp(api.Value), []byte(api.Body))
	if err != nil || p != nil || caller.CredentialID() != "" || caller.PublicKey() != api.Decoded.PublicKey {
		t.Errorf("%v, %v, %v", caller, p, err)
	}
	for _, other := range []string{"X-Stamp", "X-Stamp-WebAuthn", "X-Stamp-Attested", "X-Session"} {
		caller, p, _, err := v.Read(append(xpasskey(x.Value), stamp.Header{Name: other, Value: x.Value}), []byte(x.Body))
		refusedAs(t, err, "malformed activity stamp: more than one")
		if caller != nil || p != nil {
			t.Errorf("%s: read", other)
		}
	}
	_, _, _, err = v.Read(xpasskey(strings.Repeat("A", stamp.MaxHeader+1)), nil)
	refusedAs(t, err, "malformed activity stamp: header too large")
	// The scheme is not one of X-Stamp.
	d := api.Decoded
	d.Scheme = "SIGNATURE_SCHEME_TK_WEBAUTHN"
	_, _, _, err = v.Read(xstamp(header(d)), []byte(api.Body))
	refusedAs(t, err, "malformed activity stamp: unknown scheme")
}

// FuzzPasskey feeds header values. What is read must be what encoding/json and
// encoding/base64 read, and nothing verifies but what signed.
func FuzzPasskey(f *testing.F) {
	vs := passkeyVectors(f)
	for _, x := range vs {
		f.Add(x.Value)
	}
	f.Add("")
	f.Add(vs[0].Value[:len(vs[0].Value)-1] + `,"userHandle":""}`)
	c := registered(f, vs[0])
	signed := map[string]bool{vs[0].Value: true}
	for _, x := range vs {
		if strings.HasPrefix(x.Expect, "accept") {
			_, p, _, err := stamp.NewVerifier().Read(xpasskey(x.Value), []byte(x.Body))
			if err != nil {
				f.Fatal(err)
			}
			signed[string(stamp.SignatureOf(p))] = true
		}
	}
	f.Fuzz(func(t *testing.T, value string) {
		caller, p, _, err := stamp.NewVerifier().Read(xpasskey(value), []byte(vs[0].Body))
		if caller != nil || (p == nil) == (err == nil) {
			t.Fatalf("%v, %v, %v", caller, p, err)
		}
		if err != nil {
			e := fault.Of(err)
			if e == nil || e.Code != fault.Unauthenticated || len(e.Message) > 160 || strings.ContainsFunc(e.Message, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatal(err)
			}
			return
		}
		raw := []byte(value)
		if !strings.HasPrefix(strings.TrimLeft(value, " "), "{") {
			raw = text(t, value)
		}
		var m map[string]string
		err = json.Unmarshal(raw, &m)
		delete(m, "userHandle")
		delete(m, "user_handle")
		if err != nil || len(m) != 4 || !bytes.Equal(text(t, m["credentialId"]+m["credential_id"]), p.CredentialID()) {
			t.Fatalf("%q: %v", raw, err)
		}
		if caller, _, err := p.Verify(c, 0, webauthn.Origins{}); err == nil && (!signed[string(stamp.SignatureOf(p))] || caller.Signature() != value) {
			t.Fatalf("%q verifies", raw)
		}
	})
}
