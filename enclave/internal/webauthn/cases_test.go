package webauthn_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"cloister/enclave/internal/webauthn"
	"cloister/sim/authenticator"
)

const (
	rpID = "cloister.test"
	page = "https://app.cloister.test"
)

var challenge = []byte("a challenge that somebody drew..")

// A registration with what is to be said of it: nothing, or why it is refused.
// Other implementations agree unless apart says why they do not.
type registration struct {
	name  string
	r     webauthn.Registration
	list  string // of origins; empty: any
	why   string
	apart string
	// unjudged says that the statement is recorded as none, whatever its format.
	unjudged bool
}

type assertion struct {
	name    string
	a       webauthn.Assertion
	c       *webauthn.Credential
	counter uint32 // seen before
	list    string
	why     string
	apart   string
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func origins(list string) webauthn.Origins {
	if list == "" {
		return webauthn.Origins{}
	}
	return must(webauthn.ParseOrigins(list))
}

func newPasskey(alg authenticator.Algorithm) *authenticator.Authenticator {
	return must(authenticator.New(alg, rpID, page))
}

func registered(r *authenticator.Registration) webauthn.Registration {
	return webauthn.Registration{CredentialID: r.CredentialID, Challenge: r.Challenge, ClientDataJSON: r.ClientDataJSON, AttestationObject: r.AttestationObject}
}

// credential is a's, as if it had been registered.
func credential(a *authenticator.Authenticator) *webauthn.Credential {
	return &webauthn.Credential{ID: a.CredentialID, PublicKey: must(a.PublicKey()), RPIDHash: sha256.Sum256([]byte(a.RPID)), Origin: a.Origin}
}

// object takes an attestation object apart, lets change change it, and puts it
// together again.
func object(raw []byte, change func(m map[string]any)) []byte {
	m := map[string]any{}
	if err := cbor.Unmarshal(raw, &m); err != nil {
		panic(err)
	}
	change(m)
	return must(authenticator.Encode(m))
}

const (
	stricter = "stricter: "
	policy   = "policy: "
)

// registrations are those of every algorithm and format that is known, and all
// that is wrong with some.
func registrations() (cs []registration) {
	add := func(name, why, apart string, r webauthn.Registration) {
		cs = append(cs, registration{name: name, r: r, why: why, apart: apart})
	}
	for alg, name := range algorithms {
		a := newPasskey(alg)
		for _, f := range []authenticator.Format{authenticator.None, authenticator.Packed, authenticator.PackedX5C, authenticator.U2F} {
			if f != authenticator.U2F || alg == authenticator.ES256 {
				add(name+" "+string(f), "", "", registered(must(a.Register(challenge, f))))
			}
		}
	}
	es := newPasskey(authenticator.ES256)
	plain := func(set func(a *authenticator.Authenticator)) webauthn.Registration {
		a := *es
		set(&a)
		return registered(must(a.Register(challenge, authenticator.None)))
	}
	base := func(f authenticator.Format) webauthn.Registration { return registered(must(es.Register(challenge, f))) }
	at := func(r webauthn.Registration, change func(m map[string]any)) webauthn.Registration {
		r.AttestationObject = object(r.AttestationObject, change)
		return r
	}
	statement := func(f authenticator.Format, change func(m map[any]any)) webauthn.Registration {
		return at(base(f), func(m map[string]any) { change(m["attStmt"].(map[any]any)) })
	}
	data := func(change func(b []byte) []byte) webauthn.Registration {
		return at(base(authenticator.None), func(m map[string]any) { m["authData"] = change(m["authData"].([]byte)) })
	}
	client := func(text string) webauthn.Registration {
		r := base(authenticator.None)
		r.ClientDataJSON = []byte(strings.ReplaceAll(text, "CHALLENGE", encode(challenge)))
		return r
	}

	// Tolerated.
	add("counts", "", "", plain(func(a *authenticator.Authenticator) { a.Counter = 41 }))
	add("not verified", "", "", plain(func(a *authenticator.Authenticator) { a.Flags = authenticator.UserPresent }))
	add("synced", "", "", plain(func(a *authenticator.Authenticator) {
		a.Flags |= authenticator.BackupEligible | authenticator.BackedUp
	}))
	add("reserved flags", "", "", plain(func(a *authenticator.Authenticator) { a.Flags |= 1<<1 | 1<<5 }))
	add("extensions", "", "", plain(func(a *authenticator.Authenticator) {
		a.Extensions = must(authenticator.Encode(map[string]any{"credProtect": 2}))
	}))
	add("empty extensions", "", "", plain(func(a *authenticator.Authenticator) { a.Extensions = []byte{0xa0} }))
	add("with an AAGUID", "", "", plain(func(a *authenticator.Authenticator) { a.AAGUID = [16]byte{1, 2, 3} }))
	add("long credential id", "", "", plain(func(a *authenticator.Authenticator) { a.CredentialID = bytes.Repeat([]byte{7}, 1023) }))
	add("short credential id", "", "", plain(func(a *authenticator.Authenticator) { a.CredentialID = []byte{7} }))
	add("members of others", "", "", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+
		`","crossOrigin":false,"other_keys_can_be_added_here":"do not compare clientDataJSON against a template"}`))
	add("escaped as Android writes it", "", "", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"https:\/\/app.cloister.test","androidPackageName":"com.android.chrome"}`))
	add("byte order mark", "", policy+"WebAuthn has it dropped", client("\ufeff"+`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+`"}`))
	add("without crossOrigin", "", "", client(`{"origin":"`+page+`","challenge":"CHALLENGE","type":"webauthn.create"}`))
	for _, f := range []string{"tpm", "android-key", "android-safetynet", "apple"} {
		add("unjudged "+f, "", policy+"statements of this format are not judged", at(base(authenticator.Packed), func(m map[string]any) { m["fmt"] = f }))
	}
	add("unjudged compound", "", policy+"statements of this format are not judged", at(base(authenticator.None), func(m map[string]any) {
		m["fmt"] = "compound"
		m["attStmt"] = []any{map[string]any{"fmt": "none", "attStmt": map[string]any{}}}
	}))

	// What the client says.
	add("of get", "not of webauthn.create", "", client(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"`+page+`"}`))
	add("another challenge", "challenge does not match", "", client(`{"type":"webauthn.create","challenge":"`+encode([]byte("another"))+`","origin":"`+page+`"}`))
	add("no challenge", "has no challenge", "", client(`{"type":"webauthn.create","origin":"`+page+`"}`))
	add("empty challenge", "challenge does not match", "", client(`{"type":"webauthn.create","challenge":"","origin":"`+page+`"}`))
	add("other origin", "origin is not allowed", "", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"https://evil.test"}`))
	add("suffix that is no domain", "origin is not allowed", "", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"https://evilcloister.test"}`))
	add("not secure", "origin is not allowed", "", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"http://app.cloister.test"}`))
	add("path", "origin is not allowed", stricter+"an origin with a path", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+`/"}`))
	add("null origin", "has no origin", "", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":null}`))
	add("repeated member", "clientDataJSON is malformed", stricter+"JSON with a member twice", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"https://evil.test","origin":"`+page+`"}`))
	add("repeated by escape", "clientDataJSON is malformed", stricter+"JSON with a member twice", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"https://evil.test","\u006frigin":"`+page+`"}`))
	add("other case", "has no origin", stricter+"names compared without case", client(`{"type":"webauthn.create","challenge":"CHALLENGE","Origin":"`+page+`"}`))
	add("crossOrigin as text", "clientDataJSON is malformed", stricter+"crossOrigin of another type", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+`","crossOrigin":"no"}`))
	add("text behind", "clientDataJSON is malformed", "", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+`"}{}`))
	add("out of the wrapping", "clientDataJSON is malformed", "", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+`"},"data":{}`))
	add("two byte order marks", "clientDataJSON is malformed", stricter+"a byte order mark", client("\ufeff\ufeff"+`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+`"}`))
	add("byte order mark of UTF-16", "clientDataJSON is malformed", "", client("\xff\xfe"+`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+`"}`))
	add("byte order mark behind", "clientDataJSON is malformed", "", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+`"}`+"\ufeff"))
	add("bad UTF-8", "clientDataJSON is malformed", stricter+"bytes that are no text", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+"\",\"x\":\"\xff\"}"))
	add("empty client data", "clientDataJSON is malformed", "", client(""))
	add("null client data", "clientDataJSON is malformed", "", client("null"))
	add("array", "clientDataJSON is malformed", "", client("[]"))
	add("long client data", "clientDataJSON is too long", stricter+"length", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+`","x":"`+strings.Repeat("x", webauthn.MaxClientDataJSON)+`"}`))

	// What the authenticator says.
	add("other relying party", "origin is not allowed", "", plain(func(a *authenticator.Authenticator) { a.RPID = "evil.test" }))
	add("not present", "user was not present", "", plain(func(a *authenticator.Authenticator) { a.Flags = authenticator.UserVerified }))
	add("backed up, not eligible", "authenticatorData is malformed", stricter+"a backup of what cannot be backed up", plain(func(a *authenticator.Authenticator) { a.Flags |= authenticator.BackedUp }))
	add("without a credential", "attested credential data is missing", "", data(func(b []byte) []byte {
		b = bytes.Clone(b[:37])
		b[32] &^= authenticator.Attested
		return b
	}))
	add("flag without a credential", "authenticatorData is malformed", "", data(func(b []byte) []byte { return b[:37] }))
	add("credential without its flag", "authenticatorData is malformed", "", data(func(b []byte) []byte {
		b = bytes.Clone(b)
		b[32] &^= authenticator.Attested
		return b
	}))
	add("flag without extensions", "authenticatorData is malformed", "", data(func(b []byte) []byte {
		b = bytes.Clone(b)
		b[32] |= authenticator.Extensions
		return b
	}))
	add("extensions that are null", "authenticatorData is malformed", stricter+"extensions that are no map", plain(func(a *authenticator.Authenticator) { a.Extensions = []byte{0xf6} }))
	add("extensions that are no map", "authenticatorData is malformed", stricter+"extensions that are no map", plain(func(a *authenticator.Authenticator) { a.Extensions = []byte{0x80} }))
	add("bytes behind", "authenticatorData is malformed", "", data(func(b []byte) []byte { return append(bytes.Clone(b), 0) }))
	add("one byte less", "authenticatorData is malformed", stricter+"an early end", data(func(b []byte) []byte { return b[:len(b)-1] }))
	add("no data", "authenticatorData is malformed", "", data(func(b []byte) []byte { return nil }))
	add("36 bytes", "authenticatorData is malformed", "", data(func(b []byte) []byte { return b[:36] }))
	add("empty credential id", "authenticatorData is malformed", stricter+"an empty credential id", plain(func(a *authenticator.Authenticator) { a.CredentialID = nil }))
	add("too long a credential id", "authenticatorData is malformed", stricter+"length", plain(func(a *authenticator.Authenticator) { a.CredentialID = make([]byte, 1024) }))
	add("id longer than the rest", "authenticatorData is malformed", "", data(func(b []byte) []byte {
		b = bytes.Clone(b)
		b[53], b[54] = 0x03, 0xff
		return b
	}))
	r := base(authenticator.None)
	r.CredentialID = []byte("another one")
	add("another credential id", "credentialId is not the attested one", stricter+"the id beside the attested one", r)

	// The public key.
	point := must(es.PublicKey())
	key := func(name string, key []byte, apart string) {
		add("key: "+name, "public key is malformed", apart, data(func(b []byte) []byte { return append(bytes.Clone(b[:len(b)-len(point)]), key...) }))
	}
	cose := func(change func(m map[int]any)) []byte {
		m := map[int]any{}
		if err := cbor.Unmarshal(point, &m); err != nil {
			panic(err)
		}
		change(m)
		return must(authenticator.Encode(m))
	}
	key("no algorithm", cose(func(m map[int]any) { delete(m, 3) }), "")
	key("ES384", cose(func(m map[int]any) { m[3] = -35 }), "")
	key("P-384", cose(func(m map[int]any) { m[-1] = 2 }), stricter+"a curve that is not the algorithm's")
	key("secp256k1", cose(func(m map[int]any) { m[-1], m[3] = 8, -47 }), "")
	key("EdDSA over EC2", cose(func(m map[int]any) { m[3] = -8 }), stricter+"a type that is not the algorithm's")
	key("not on the curve", cose(func(m map[int]any) { m[-2] = make([]byte, 32) }), stricter+"a point is looked at before it is used")
	key("short coordinate", cose(func(m map[int]any) { m[-2] = make([]byte, 31) }), stricter+"a point is looked at before it is used")
	key("compressed", cose(func(m map[int]any) { m[-3] = true }), stricter+"a point is looked at before it is used")
	key("private part", cose(func(m map[int]any) { m[-4] = make([]byte, 32) }), stricter+"members that keys must not have")
	key("operations", cose(func(m map[int]any) { m[4] = []int{2} }), stricter+"members that keys must not have")
	key("coordinates as arrays", cose(func(m map[int]any) { m[-2] = make([]int, 32) }), stricter+"a point is looked at before it is used")
	big2 := func(bits int) []byte {
		n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
		return n.SetBit(n, 0, 1).Bytes()
	}
	rsa := func(n, e []byte) []byte { return must(authenticator.Encode(map[int]any{1: 3, 3: -257, -1: n, -2: e})) }
	key("RSA of 2047 bits", rsa(big2(2047), []byte{1, 0, 1}), stricter+"the size of RSA")
	key("RSA of 1024 bits", rsa(big2(1024), []byte{1, 0, 1}), stricter+"the size of RSA")
	key("RSA of 4097 bits", rsa(big2(4097), []byte{1, 0, 1}), stricter+"the size of RSA")
	key("RSA with exponent 3", rsa(big2(2048), []byte{3}), stricter+"the exponent of RSA")
	key("RSA with a long exponent", rsa(big2(2048), []byte{0, 1, 0, 1}), stricter+"the exponent of RSA")
	key("RSA even", rsa(new(big.Int).Lsh(big.NewInt(1), 2047).Bytes(), []byte{1, 0, 1}), stricter+"an even modulus")
	key("RSA behind a zero", rsa(append([]byte{0}, big2(2048)...), []byte{1, 0, 1}), stricter+"a modulus behind a zero")
	key("Ed25519 of 31 bytes", must(authenticator.Encode(map[int]any{1: 1, 3: -8, -1: 6, -2: make([]byte, 31)})), stricter+"a point is looked at before it is used")
	key("Ed448", must(authenticator.Encode(map[int]any{1: 1, 3: -8, -1: 7, -2: make([]byte, 57)})), stricter+"a point is looked at before it is used")
	add("key: repeated member", "authenticatorData is malformed", stricter+"CBOR with a key twice", data(func(b []byte) []byte {
		b = append(bytes.Clone(b), 0x20, 0x01) // -1: 1 again
		b[len(b)-len(point)-2] = 0xa6
		return b
	}))
	add("key: indefinite length", "authenticatorData is malformed", stricter+"CBOR of indefinite length", data(func(b []byte) []byte {
		b = append(bytes.Clone(b), 0xff)
		b[len(b)-len(point)-1] = 0xbf
		return b
	}))

	// The object.
	raw := base(authenticator.None)
	with := func(b []byte) webauthn.Registration {
		r := raw
		r.AttestationObject = b
		return r
	}
	add("object: empty", "attestationObject is malformed", "", with(nil))
	add("object: bytes behind", "attestationObject is malformed", stricter+"bytes behind the object", with(append(bytes.Clone(raw.AttestationObject), 0)))
	add("object: one byte less", "attestationObject is malformed", stricter+"an early end", with(raw.AttestationObject[:len(raw.AttestationObject)-1]))
	add("object: array", "attestationObject is malformed", "", with([]byte{0x80}))
	add("object: no statement", "attestationObject is malformed", stricter+"a statement that is not there", at(raw, func(m map[string]any) { delete(m, "attStmt") }))
	add("object: no format", "attestation format is not known", "", at(raw, func(m map[string]any) { delete(m, "fmt") }))
	add("object: no data", "authenticatorData is malformed", "", at(raw, func(m map[string]any) { delete(m, "authData") }))
	add("object: another member", "attestationObject is malformed", stricter+"members of others", at(raw, func(m map[string]any) { m["epAtt"] = true }))
	add("object: long", "attestationObject is malformed", stricter+"length", at(raw, func(m map[string]any) {
		m["attStmt"] = map[string]any{"x": make([]byte, webauthn.MaxAttestationObject)}
	}))
	add("object: data as text", "attestationObject is malformed", "", at(raw, func(m map[string]any) { m["authData"] = "text" }))
	add("object: unknown format", "attestation format is not known", "", at(raw, func(m map[string]any) { m["fmt"] = "home-made" }))
	add("object: tagged", "attestationObject is malformed", stricter+"CBOR with tags", with(append([]byte{0xd9, 0xd9, 0xf7}, raw.AttestationObject...)))
	add("object: indefinite length", "attestationObject is malformed", stricter+"CBOR of indefinite length", with(append(append([]byte{0xbf}, raw.AttestationObject[1:]...), 0xff)))
	add("object: format twice", "attestationObject is malformed", stricter+"CBOR with a key twice",
		with(append(append([]byte{0xa4}, raw.AttestationObject[1:]...), 0x63, 'f', 'm', 't', 0x64, 'n', 'o', 'n', 'e')))

	// The statement.
	const bad = "attestation statement does not verify"
	add("none with a statement", bad, "", at(raw, func(m map[string]any) { m["attStmt"] = map[string]any{"alg": -7} }))
	add("none with an array", bad, stricter+"a statement that is no map", at(raw, func(m map[string]any) { m["attStmt"] = []any{} }))
	add("packed: no signature", bad, "", statement(authenticator.Packed, func(m map[any]any) { delete(m, "sig") }))
	add("packed: no algorithm", bad, "", statement(authenticator.Packed, func(m map[any]any) { delete(m, "alg") }))
	add("packed: another algorithm", bad, stricter+"an algorithm that is not the passkey's", statement(authenticator.Packed, func(m map[any]any) { m["alg"] = -257 }))
	add("packed: another's signature", bad, "", statement(authenticator.Packed, func(m map[any]any) { m["sig"] = must(newPasskey(authenticator.ES256).Sign([]byte("x"))) }))
	add("packed: another member", bad, stricter+"members of others", statement(authenticator.Packed, func(m map[any]any) { m["keyId"] = []byte{1} }))
	add("packed: no certificates", bad, "", statement(authenticator.Packed, func(m map[any]any) { m["x5c"] = []any{} }))
	add("packed: certificate that is text", bad, "", statement(authenticator.PackedX5C, func(m map[any]any) { m["x5c"] = []any{"MII="} }))
	add("packed: another's certificate", bad, "", statement(authenticator.PackedX5C, func(m map[any]any) { m["x5c"] = []any{second(authenticator.Certificate([16]byte{}, true))} }))
	add("packed: signed by the passkey", bad, "", statement(authenticator.PackedX5C, func(m map[any]any) { m["sig"] = must(es.Sign([]byte("x"))) }))
	for name, change := range map[string]func(c *x509.Certificate){
		"of an authority":  func(c *x509.Certificate) { c.IsCA = true },
		"of another unit":  func(c *x509.Certificate) { c.Subject.OrganizationalUnit = []string{"Sales"} },
		"of another model": func(c *x509.Certificate) { c.ExtraExtensions = aaguidExtension([16]byte{9}, false) },
		"critical":         func(c *x509.Certificate) { c.ExtraExtensions = aaguidExtension([16]byte{}, true) },
	} {
		apart := ""
		if name == "critical" {
			apart = stricter + "an extension that must not be critical"
		}
		add("packed: certificate "+name, bad, apart, certified(es, "packed", change))
	}
	add("packed: certificate without an AAGUID", "", "", certified(es, "packed", func(c *x509.Certificate) {}))
	add("u2f: with an AAGUID", bad, stricter+"a model of what has none", func() webauthn.Registration {
		a := *es
		a.AAGUID = [16]byte{1}
		return registered(must(a.Register(challenge, authenticator.U2F)))
	}())
	add("u2f: two certificates", bad, stricter+"a second certificate", statement(authenticator.U2F, func(m map[any]any) { m["x5c"] = []any{m["x5c"].([]any)[0], m["x5c"].([]any)[0]} }))
	add("u2f: no certificate", bad, "", statement(authenticator.U2F, func(m map[any]any) { delete(m, "x5c") }))
	add("u2f: another's signature", bad, "", statement(authenticator.U2F, func(m map[any]any) { m["sig"] = must(es.Sign([]byte("x"))) }))
	rs := newPasskey(authenticator.RS256)
	add("u2f: RSA", bad, "", func() webauthn.Registration {
		r := registered(must(rs.Register(challenge, authenticator.PackedX5C)))
		r.AttestationObject = object(r.AttestationObject, func(m map[string]any) {
			m["fmt"] = "fido-u2f"
			delete(m["attStmt"].(map[any]any), "alg")
		})
		return r
	}())

	// Statements by keys that cannot be verified here.
	none := func(name string, r webauthn.Registration) {
		cs = append(cs, registration{name: "by a key that is not verified: " + name, r: r, apart: policy + "what a client may leave out keeps nobody out", unjudged: true})
	}
	none("nine certificates", statement(authenticator.PackedX5C, func(m map[any]any) { m["x5c"] = slices.Repeat(m["x5c"].([]any), 9) }))
	for _, f := range []authenticator.Format{authenticator.PackedX5C, authenticator.U2F} {
		der := func(name, old, new string) {
			none(string(f)+", "+name, statement(f, func(m map[any]any) {
				leaf := m["x5c"].([]any)[0].([]byte)
				if !bytes.Contains(leaf, []byte(old)) {
					panic(name)
				}
				m["x5c"] = []any{bytes.Replace(leaf, []byte(old), []byte(new), 1)}
			}))
		}
		const version = "\xa0\x03\x02\x01\x02" // before the serial number
		der("negative serial number", version+"\x02\x01\x01", version+"\x02\x01\xff")
		der("another curve", "\x2a\x86\x48\xce\x3d\x03\x01\x07", "\x2a\x86\x48\xce\x3d\x03\x01\x06")
		none(string(f)+", ECDAA", statement(f, func(m map[any]any) { m["ecdaaKeyId"] = []byte{1} }))
		none(string(f)+", certificate that is none", statement(f, func(m map[any]any) { m["x5c"] = []any{[]byte{0x30, 0}} }))
		none(string(f)+", long certificate", statement(f, func(m map[any]any) { m["x5c"] = []any{make([]byte, 4<<10+1)} }))
	}
	none("serial number behind zeros", at(certified(es, "packed", func(c *x509.Certificate) { c.SerialNumber = big.NewInt(0x0101) }), func(m map[string]any) {
		leaf := m["attStmt"].(map[any]any)["x5c"].([]any)[0].([]byte)
		copy(leaf[bytes.Index(leaf, []byte("\x02\x02\x01\x01")):], "\x02\x02\x00\x01")
	}))
	none("P-384", p384(es, "packed"))
	none("P-384 u2f", p384(es, "fido-u2f"))
	none("another algorithm", statement(authenticator.PackedX5C, func(m map[any]any) { m["alg"] = -35 }))
	// What the client and the authenticator say is held all the same.
	elsewhere := p384(es, "packed")
	elsewhere.ClientDataJSON = bytes.Replace(elsewhere.ClientDataJSON, []byte(encode(challenge)), []byte(encode([]byte("another"))), 1)
	add("P-384: another challenge", "challenge does not match", "", elsewhere)
	elsewhere = p384(es, "packed")
	elsewhere.ClientDataJSON = bytes.Replace(elsewhere.ClientDataJSON, []byte(page), []byte("https://evil.cloister"), 1)
	add("P-384: another origin", "origin is not allowed", "", elsewhere)
	elsewhere = at(p384(es, "packed"), func(m map[string]any) { m["authData"].([]byte)[32] &^= authenticator.UserPresent })
	add("P-384: not present", "user was not present", "", elsewhere)

	add("unjudged, malformed", bad, "", func() webauthn.Registration {
		// attStmt: {"a": 1, "a": 1}, written by hand because no encoder would.
		r := at(raw, func(m map[string]any) { m["fmt"], m["attStmt"] = "tpm", "STATEMENT" })
		r.AttestationObject = bytes.Replace(r.AttestationObject, append([]byte{0x69}, "STATEMENT"...), []byte{0xa2, 0x61, 'a', 1, 0x61, 'a', 1}, 1)
		return r
	}())

	// Every byte of a registration that signs for itself, and of one that does not.
	for _, f := range []authenticator.Format{authenticator.Packed, authenticator.None} {
		r := base(f)
		name := "flipped " + string(f)
		for i := range r.ClientDataJSON {
			x := r
			x.ClientDataJSON = flip(r.ClientDataJSON, i)
			cs = append(cs, registration{name: name + " client data", r: x, list: page, why: unknown, apart: stricter + "names and keys"})
		}
		for i := range r.AttestationObject {
			x := r
			x.AttestationObject = flip(r.AttestationObject, i)
			cs = append(cs, registration{name: name + " object", r: x, why: unknown, apart: stricter + "names and keys"})
		}
	}

	// Listed origins.
	for _, l := range []struct{ list, why string }{
		{page, ""}, {"https://other.test," + page, ""}, {"https://other.test", "origin is not allowed"}, {"https://cloister.test", "origin is not allowed"},
	} {
		cs = append(cs, registration{name: "listed " + l.list, r: base(authenticator.None), list: l.list, why: l.why})
	}
	return cs
}

// unknown is what a flipped case is refused for: not said here, and for some not
// at all.
const unknown = "?"

var algorithms = map[authenticator.Algorithm]string{authenticator.ES256: "ES256", authenticator.RS256: "RS256", authenticator.EdDSA: "EdDSA"}

func flip(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 1 << (i % 8)
	return b
}

func second[A, B any](_ A, b B, err error) B { return must(b, err) }

func aaguidExtension(aaguid [16]byte, critical bool) []pkix.Extension {
	return []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 45724, 1, 1, 4}, Critical: critical, Value: must(asn1.Marshal(aaguid[:]))}}
}

// certified is a registration by an attestation key with a certificate made to
// order.
func certified(a *authenticator.Authenticator, format string, change func(*x509.Certificate)) webauthn.Registration {
	key, der, err := authenticator.Certificate(a.AAGUID, false)
	if err != nil {
		panic(err)
	}
	c := must(x509.ParseCertificate(der))
	c.RawSubject = nil // or it would stand whatever is changed
	change(c)
	der = must(x509.CreateCertificate(nil, c, c, key.Public(), key))
	data := must(a.Data(true))
	client := a.ClientData("webauthn.create", challenge)
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(append(bytes.Clone(data), hash[:]...))
	sig := must(ecdsa.SignASN1(nil, key.(*ecdsa.PrivateKey), digest[:]))
	object := must(authenticator.Object(format, map[string]any{"alg": -7, "sig": sig, "x5c": [][]byte{der}}, data))
	return webauthn.Registration{CredentialID: a.CredentialID, Challenge: challenge, ClientDataJSON: client, AttestationObject: object}
}

// p384 is a registration by an attestation key of a curve that passkeys do not have here.
func p384(a *authenticator.Authenticator, format string) webauthn.Registration {
	_, der, err := authenticator.Certificate(a.AAGUID, false)
	if err != nil {
		panic(err)
	}
	c := must(x509.ParseCertificate(der))
	c.SignatureAlgorithm, c.PublicKey = 0, nil
	key := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	der = must(x509.CreateCertificate(nil, c, c, key.Public(), key))
	data := must(a.Data(true))
	client := a.ClientData("webauthn.create", challenge)
	hash := sha256.Sum256(client)
	digest := sha512.Sum384(append(bytes.Clone(data), hash[:]...))
	statement := map[string]any{"sig": must(ecdsa.SignASN1(nil, key, digest[:])), "x5c": [][]byte{der}}
	if format == "packed" {
		statement["alg"] = -35
	}
	return webauthn.Registration{CredentialID: a.CredentialID, Challenge: challenge, ClientDataJSON: client, AttestationObject: must(authenticator.Object(format, statement, data))}
}

// assertions are those of every algorithm, and all that is wrong with some.
func assertions() (cs []assertion) {
	of := func(a *authenticator.Authenticator, s *authenticator.Assertion) assertion {
		return assertion{
			a: webauthn.Assertion{CredentialID: s.CredentialID, AuthenticatorData: s.AuthenticatorData, ClientDataJSON: s.ClientDataJSON, Signature: s.Signature},
			c: credential(a),
		}
	}
	add := func(name, why, apart string, c assertion) {
		c.name, c.why, c.apart = name, why, apart
		cs = append(cs, c)
	}
	passkeys := map[authenticator.Algorithm]*authenticator.Authenticator{}
	for alg, name := range algorithms {
		a := newPasskey(alg)
		passkeys[alg] = a
		c := of(a, must(a.Assert(challenge)))
		add(name, "", "", c)
		for part, text := range map[string]*[]byte{"data": &c.a.AuthenticatorData, "client data": &c.a.ClientDataJSON, "signature": &c.a.Signature} {
			good, apart := *text, ""
			if alg == authenticator.ES256 && part == "signature" {
				apart = stricter + "DER that is not DER"
			}
			for i := range good {
				if *text = flip(good, i); alg != authenticator.RS256 || i%8 == 0 { // the judges take their time with RSA
					add("flipped "+name+" "+part, unknown, apart, c)
				}
			}
			*text = nil
			add("no "+name+" "+part, unknown, "", c)
			*text = good[:len(good)-1]
			add("short "+name+" "+part, unknown, apart, c)
			*text = append(bytes.Clone(good), 0)
			add("long "+name+" "+part, unknown, apart, c)
			*text = good
		}
	}
	es := passkeys[authenticator.ES256]
	plain := func(set func(a *authenticator.Authenticator)) assertion {
		a := *es
		set(&a)
		return of(&a, must(a.Assert(challenge)))
	}
	client := func(text string) assertion {
		return of(es, must(es.AssertWith([]byte(strings.ReplaceAll(text, "CHALLENGE", encode(challenge))))))
	}
	add("not verified", "", "", plain(func(a *authenticator.Authenticator) { a.Flags = authenticator.UserPresent }))
	add("synced", "", "", plain(func(a *authenticator.Authenticator) {
		a.Flags |= authenticator.BackupEligible | authenticator.BackedUp
	}))
	add("extensions", "", "", plain(func(a *authenticator.Authenticator) {
		a.Extensions = must(authenticator.Encode(map[string]any{"uvm": 2}))
	}))
	add("escaped as Android writes it", "", "", client(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"https:\/\/app.cloister.test","androidPackageName":"com.android.chrome"}`))
	add("empty extensions", "", "", plain(func(a *authenticator.Authenticator) { a.Extensions = []byte{0xa0} }))
	add("byte order mark", "", policy+"WebAuthn has it dropped", client("\ufeff"+`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"`+page+`"}`))
	add("byte order mark, other origin", "origin is not allowed", "", client("\ufeff"+`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"https://evil.test"}`))
	add("in a frame", "", policy+"who may frame a page is the page's to say", client(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"`+page+`","crossOrigin":true,"topOrigin":"https://dapp.test"}`))
	add("not present", "user was not present", "", plain(func(a *authenticator.Authenticator) { a.Flags = authenticator.UserVerified }))
	add("backed up, not eligible", "authenticatorData is malformed", stricter+"a backup of what cannot be backed up", plain(func(a *authenticator.Authenticator) { a.Flags |= authenticator.BackedUp }))
	add("of create", "not of webauthn.get", "", client(`{"type":"webauthn.create","challenge":"CHALLENGE","origin":"`+page+`"}`))
	add("another challenge", "challenge does not match", "", client(`{"type":"webauthn.get","challenge":"`+encode([]byte("another"))+`","origin":"`+page+`"}`))
	add("other origin", "origin is not allowed", "", client(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"https://evil.test"}`))
	add("repeated member", "clientDataJSON is malformed", stricter+"JSON with a member twice", client(`{"type":"webauthn.get","challenge":"CHALLENGE","origin":"https://evil.test","origin":"`+page+`"}`))
	other := plain(func(a *authenticator.Authenticator) { a.RPID = "evil.test" })
	other.c.RPIDHash = sha256.Sum256([]byte(rpID))
	add("other relying party", "relying party is another one", "", other)
	other = plain(func(a *authenticator.Authenticator) {})
	other.c.PublicKey = must(newPasskey(authenticator.ES256).PublicKey())
	add("another's key", "signature does not verify", "", other)
	other.c = credential(passkeys[authenticator.RS256])
	other.c.ID = es.CredentialID
	add("key of another algorithm", "signature does not verify", "", other)
	other = plain(func(a *authenticator.Authenticator) {})
	other.c.ID = []byte("another one")
	add("another credential", "credentialId is another one", "", other)
	attested := must(es.Data(true))
	signed := func(data []byte) assertion {
		c := of(es, must(es.Assert(challenge)))
		hash := sha256.Sum256(c.a.ClientDataJSON)
		c.a.AuthenticatorData, c.a.Signature = data, must(es.Sign(append(bytes.Clone(data), hash[:]...)))
		return c
	}
	add("with a credential", "attested credential data in an assertion", stricter+"a credential in an assertion", signed(attested))
	add("bytes behind the data", "authenticatorData is malformed", "", signed(append(must(es.Data(false)), 0)))
	add("36 bytes of data", "authenticatorData is malformed", "", signed(must(es.Data(false))[:36]))
	add("two extensions", "authenticatorData is malformed", "", plain(func(a *authenticator.Authenticator) { a.Extensions = []byte{0xa1, 0x61, 'a', 1, 0xa1, 0x61, 'a', 1} }))
	add("extension twice", "authenticatorData is malformed", stricter+"CBOR with a key twice", plain(func(a *authenticator.Authenticator) { a.Extensions = []byte{0xa2, 0x61, 'a', 1, 0x61, 'a', 1} }))
	for _, c := range []struct {
		told, seen uint32
		why, apart string
	}{
		{7, 0, "", ""}, {7, 6, "", ""}, {7, 7, "", policy + "a repeated request has the same counter"}, {0, 7, "", policy + "a passkey may stop counting"},
		{7, 8, "counter has gone back", ""}, {1, 1 << 31, "counter has gone back", ""},
	} {
		x := plain(func(a *authenticator.Authenticator) {
			if a.Counter = c.told; c.told > 0 {
				a.Counter--
			}
			if c.told == 1 {
				a.Counter = 1
			}
		})
		x.counter = c.seen
		add("counter", c.why, c.apart, x)
	}
	x := plain(func(a *authenticator.Authenticator) {})
	x.list = "https://other.test"
	add("not listed", "origin is not allowed", "", x)
	x.list = page
	add("listed", "", "", x)
	return cs
}
