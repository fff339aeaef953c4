package webauthn_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"cloister/enclave/internal/webauthn"
	"cloister/sim/authenticator"
)

// FuzzClientData holds what is read against encoding/json.
func FuzzClientData(f *testing.F) {
	a := newPasskey(authenticator.EdDSA)
	f.Add(a.ClientData("webauthn.get", challenge))
	f.Add([]byte(`{"type":"webauthn.get","challenge":"AAAA","origin":"https:\/\/a.test","crossOrigin":true,"topOrigin":"https://b.test","tokenBinding":{"status":"supported"}}`))
	f.Add(append([]byte("\ufeff"), a.ClientData("webauthn.get", challenge)...))
	f.Add([]byte(`null`))
	f.Add([]byte(`{}},{`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		typ, challenge, origin, err := webauthn.ParseClientData(raw)
		if err != nil {
			return
		}
		var m map[string]any
		if err := json.Unmarshal(bytes.TrimPrefix(raw, []byte("\ufeff")), &m); err != nil || m["type"] != typ || m["challenge"] != challenge || m["origin"] != origin {
			t.Fatalf("%q: %q %q %q, %v", raw, typ, challenge, origin, err)
		}
	})
}

// FuzzAuthenticatorData: all bytes are accounted for.
func FuzzAuthenticatorData(f *testing.F) {
	a := newPasskey(authenticator.EdDSA)
	f.Add(must(a.Data(false)))
	f.Add(must(a.Data(true)))
	a.Extensions = []byte{0xa1, 0x61, 'a', 1}
	f.Add(must(a.Data(true)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		hash, counter, attested, err := webauthn.ParseAuthenticatorData(raw)
		if err != nil {
			return
		}
		rest := raw[37+attested:]
		if !bytes.Equal(hash[:], raw[:32]) || counter != binary.BigEndian.Uint32(raw[33:]) || (attested > 0) != (raw[32]&authenticator.Attested != 0) {
			t.Fatalf("%x", raw)
		}
		if raw[32]&authenticator.Extensions == 0 {
			if len(rest) != 0 {
				t.Fatalf("%x: %x left over", raw, rest)
			}
			return
		}
		var m map[string]any
		if err := cbor.Unmarshal(rest, &m); err != nil {
			t.Fatalf("%x: %v", raw, err)
		}
	})
}

// FuzzAttestation: an object that is accepted has the format and the data that a
// lax reader sees, and what of it is registered is what it says.
func FuzzAttestation(f *testing.F) {
	a := newPasskey(authenticator.ES256)
	client := a.ClientData("webauthn.create", challenge)
	for _, format := range []authenticator.Format{authenticator.None, authenticator.Packed, authenticator.PackedX5C, authenticator.U2F} {
		f.Add(must(a.Register(challenge, format)).AttestationObject)
	}
	f.Add(object(must(a.Register(challenge, authenticator.None)).AttestationObject, func(m map[string]any) { m["fmt"] = "tpm" }))
	f.Fuzz(func(t *testing.T, raw []byte) {
		format, data, err := webauthn.ParseAttestation(raw)
		k, registered := webauthn.Register(webauthn.Registration{CredentialID: a.CredentialID, Challenge: challenge, ClientDataJSON: client, AttestationObject: raw}, webauthn.Origins{})
		if err != nil {
			if registered == nil {
				t.Fatalf("%x: malformed and registered", raw)
			}
			return
		}
		var m struct {
			Format    string          `cbor:"fmt"`
			Data      []byte          `cbor:"authData"`
			Statement cbor.RawMessage `cbor:"attStmt"`
		}
		if err := cbor.Unmarshal(raw, &m); err != nil || !bytes.Equal(m.Data, data) || m.Format != format || m.Statement == nil {
			t.Fatalf("%x: %v", raw, err)
		}
		if registered == nil && (!bytes.Equal(k.ID, a.CredentialID) || k.RPIDHash != sha256.Sum256([]byte(rpID)) || !bytes.Contains(data, k.PublicKey)) {
			t.Fatalf("%x: %+v", raw, k)
		}
	})
}

// FuzzKey: a key that is accepted holds just what its algorithm needs.
func FuzzKey(f *testing.F) {
	for _, alg := range []authenticator.Algorithm{authenticator.ES256, authenticator.RS256, authenticator.EdDSA} {
		f.Add(must(newPasskey(alg).PublicKey()))
	}
	sizes := map[int64]int{-7: 5, -8: 4, -257: 4}
	f.Fuzz(func(t *testing.T, raw []byte) {
		alg, err := webauthn.ParseKey(raw)
		if err != nil {
			return
		}
		var m map[int64]any
		if err := cbor.Unmarshal(raw, &m); err != nil || len(m) != sizes[alg] || reflect.ValueOf(m[3]).Int() != alg {
			t.Fatalf("%x: %v, %v", raw, m, err)
		}
		again := must(authenticator.Encode(m))
		if got, err := webauthn.ParseKey(again); err != nil || got != alg {
			t.Fatalf("%x: %v", again, err)
		}
	})
}

// FuzzOrigins: what a list accepts stands in it, and without a list a host that is
// accepted is the relying party's or below it.
func FuzzOrigins(f *testing.F) {
	f.Add(page, page+", https://b.test")
	f.Add("http://a.localhost:3000", "http://localhost")
	f.Add("android:apk-key-hash:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "")
	f.Fuzz(func(t *testing.T, origin, list string) {
		(webauthn.Origins{}).Accept(origin, sha256.Sum256([]byte(rpID)))
		o, err := webauthn.ParseOrigins(list)
		if ok := o.Accept(origin, [32]byte{}); ok && (err != nil || len(list) < len(origin)) {
			t.Fatalf("%q accepted by %q", origin, list)
		}
	})
}
