package activity_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/webauthn"
	"cloister/sim/authenticator"
)

const (
	pageRP     = "cloister.test"
	pageOrigin = "https://app.cloister.test"
	originsOf  = "FEATURE_NAME_WEBAUTHN_ORIGINS"
)

// aPasskey makes a passkey and the parameters that register it.
func (w *world) aPasskey(f authenticator.Format) (*authenticator.Authenticator, object) {
	w.t.Helper()
	a, err := authenticator.New(authenticator.ES256, pageRP, pageOrigin)
	w.must(err)
	return a, w.params(a, f)
}

func (w *world) params(a *authenticator.Authenticator, f authenticator.Format) object {
	w.t.Helper()
	r, err := a.Register([]byte("a challenge"), f)
	w.must(err)
	return r.Params("passkey")
}

// paramsV1 is a registration as browsers first gave it.
func paramsV1(p object, user string) object {
	at := p["attestation"].(object)
	return object{"authenticatorName": p["authenticatorName"], "challenge": p["challenge"], "userId": user, "attestation": object{
		"id": at["credentialId"], "rawId": at["credentialId"], "type": "public-key", "clientExtensionResults": object{},
		"response": object{"clientDataJson": at["clientDataJson"], "attestationObject": at["attestationObject"], "transports": []string{"AUTHENTICATOR_TRANSPORT_USB"}},
	}}
}

func passkeys(user string, ps ...object) object { return object{"userId": user, "authenticators": ps} }

func (w *world) userNamed(name string) string {
	w.t.Helper()
	return list(w.run("CREATE_USERS_V4", object{"users": []any{user(name, apiKey("k", w.freshKey()))}}), "userIds")[0]
}

func (w *world) record(user string) *org.User {
	w.t.Helper()
	id, err := org.ParseID(user)
	w.must(err)
	u, err := w.tx().User(id)
	w.must(err)
	return u
}

// feature sets or, with no value, removes a feature behind the activities' back.
func (w *world) feature(name string, value *string) {
	w.t.Helper()
	tx := w.tx()
	old, err := tx.Organization()
	w.must(err)
	o := *old
	o.Features = maps.Clone(old.Features)
	if value == nil {
		delete(o.Features, name)
	} else {
		if o.Features == nil {
			o.Features = map[string]string{}
		}
		o.Features[name] = *value
	}
	w.must(tx.PutOrganization(&o))
	ws, err := tx.Writes()
	w.must(err)
	w.state.Apply(ws)
}

func TestCreateAuthenticators(t *testing.T) {
	w := newWorld(t)
	id := w.userNamed("holder")
	var all []*authenticator.Authenticator
	var ids []string
	for i, f := range []authenticator.Format{authenticator.None, authenticator.Packed, authenticator.U2F, authenticator.PackedX5C} {
		a, _ := w.aPasskey(f)
		if a.Counter = uint32(10 * i); i == 3 {
			a.AAGUID = [16]byte{1, 2, 3}
		}
		p := w.params(a, f)
		var r object
		if i%2 == 0 {
			r = w.run("CREATE_AUTHENTICATORS", passkeys(id, paramsV1(p, id)))
		} else {
			r = w.run("CREATE_AUTHENTICATORS_V2", passkeys(id, p))
		}
		all, ids = append(all, a), append(ids, list(r, "authenticatorIds")...)
	}
	u := w.record(id)
	if len(u.Authenticators) != 4 || len(u.APIKeys) != 1 {
		t.Fatalf("%+v", u)
	}
	formats := []string{"none", "packed", "fido-u2f", "packed"}
	for i, a := range all {
		rec := u.Authenticators[i]
		key, err := a.PublicKey()
		w.must(err)
		c, err := w.tx().Credential(org.PasskeyCurve, hex.EncodeToString(a.CredentialID))
		w.must(err)
		n, err := w.tx().Counter(rec.ID)
		w.must(err)
		if rec.ID.String() != ids[i] || string(rec.CredentialID) != string(a.CredentialID) || string(rec.PublicKey) != string(key) || rec.Attestation != formats[i] ||
			rec.Origin != pageOrigin || [16]byte(rec.AAGUID) != a.AAGUID || n != a.Counter || c == nil || c.Key != rec.ID || c.User != u.ID || rec.Name != "passkey" {
			t.Errorf("%d: %+v, %d, %+v", i, rec, n, c)
		}
		want := []string{"AUTHENTICATOR_TRANSPORT_USB"}
		if i%2 == 1 {
			want = []string{"AUTHENTICATOR_TRANSPORT_INTERNAL", "AUTHENTICATOR_TRANSPORT_HYBRID"}
		}
		if !slices.Equal(rec.Transports, want) {
			t.Errorf("%d: %q", i, rec.Transports)
		}
	}
}

// The published vector goes through an activity, and what is rendered of it is
// what it says.
func TestAuthenticatorVector(t *testing.T) {
	b, err := os.ReadFile("../stamp/testdata/stamps.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Vectors []struct {
			Name   string
			Params object `json:"authenticator_params"`
			COSE   string `json:"cose_public_key_hex"`
		}
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for _, x := range f.Vectors {
		if x.Name != "webauthn_registration_none" {
			continue
		}
		w.run("CREATE_AUTHENTICATORS_V2", passkeys(w.root, x.Params))
		var got object
		text := activity.AppendUser(nil, w.record(w.root))
		for _, wrong := range api.Check("User", text) {
			t.Error(wrong)
		}
		w.must(json.Unmarshal(text, &got))
		a := got["authenticators"].([]any)[0].(object)
		if a["credentialId"] != x.Params["attestation"].(object)["credentialId"] || a["credential"].(object)["publicKey"] != x.COSE ||
			a["credential"].(object)["type"] != "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR" || a["attestationType"] != "none" || a["aaguid"] != "00000000-0000-0000-0000-000000000000" ||
			a["authenticatorName"] != "test" || len(a["transports"].([]any)) != 2 {
			t.Errorf("%s", text)
		}
		return
	}
	t.Error("no vector")
}

func TestAuthenticatorsRefused(t *testing.T) {
	w := newWorld(t)
	id := w.userNamed("holder")
	_, good := w.aPasskey(authenticator.Packed)
	enc := base64.RawURLEncoding.EncodeToString
	with := func(name string, value any) object {
		p := maps.Clone(good)
		at := maps.Clone(good["attestation"].(object))
		if p["attestation"] = at; name == "challenge" || name == "authenticatorName" {
			p[name] = value
		} else {
			at[name] = value
		}
		return passkeys(id, p)
	}
	const unreadable = "invalid attestation: not base64url, or too long"
	for what, c := range map[string]struct {
		in   any
		code int
		says string
	}{
		"no user":             {passkeys("00000000-0000-4000-8000-000000000000", good), 5, "user not found"},
		"no authenticators":   {passkeys(id), 0, ""},
		"challenge":           {with("challenge", "!"), 3, unreadable},
		"padded challenge":    {with("challenge", enc([]byte("a challenge!!"))+"="), 3, unreadable},
		"another challenge":   {with("challenge", enc([]byte("another"))), 3, "invalid attestation: challenge does not match"},
		"long challenge":      {with("challenge", strings.Repeat("A", 257)), 3, ""},
		"credential id":       {with("credentialId", "!!!!"), 3, unreadable},
		"other credential id": {with("credentialId", enc([]byte("another"))), 3, "invalid attestation: credentialId is not the attested one"},
		"long credential id":  {with("credentialId", strings.Repeat("A", 257)), 3, ""},
		"client data":         {with("clientDataJson", enc([]byte("{}"))), 3, "invalid attestation: clientDataJSON has no type"},
		"long client data":    {with("clientDataJson", enc(make([]byte, webauthn.MaxClientDataJSON+1))), 3, unreadable},
		"object":              {with("attestationObject", enc([]byte{0xa0})), 3, "invalid attestation: "},
		"object with a break": {with("attestationObject", "AAAA\nAAAA"), 3, unreadable},
		"long object":         {with("attestationObject", enc(make([]byte, webauthn.MaxAttestationObject+1))), 3, unreadable},
		"transport":           {with("transports", []string{"AUTHENTICATOR_TRANSPORT_SMOKE"}), 3, ""},
		"name":                {with("authenticatorName", ""), 3, ""},
		"twice":               {passkeys(id, good, good), 3, "credential ID must be unique in the organization"},
	} {
		if c.code == 0 {
			w.run("CREATE_AUTHENTICATORS_V2", c.in)
			continue
		}
		t.Run(what, func(t *testing.T) {
			w.t = t
			w.refused("CREATE_AUTHENTICATORS_V2", c.in, fault.Code(c.code), c.says)
		})
	}
	w.t = t
	w.refused("CREATE_AUTHENTICATORS", passkeys(id, paramsV1(good, w.root)), 3, "authenticators must be of the user that userId names")
	long := paramsV1(good, id)
	long["attestation"].(object)["id"] = strings.Repeat("A", 257)
	w.refused("CREATE_AUTHENTICATORS", passkeys(id, long), 3, unreadable)
	w.run("CREATE_AUTHENTICATORS_V2", passkeys(id, good))
	w.refused("CREATE_AUTHENTICATORS_V2", passkeys(w.root, good), 3, "credential ID must be unique in the organization")
	if n := len(w.record(id).Authenticators); n != 1 {
		t.Error(n)
	}
}

func TestAuthenticatorLimit(t *testing.T) {
	w := newWorld(t)
	id := w.userNamed("holder")
	many := func(n int) (ps []object) {
		for range n {
			_, p := w.aPasskey(authenticator.None)
			ps = append(ps, p)
		}
		return ps
	}
	const says = "user has exceeded maximum authenticators: 10"
	w.refused("CREATE_AUTHENTICATORS_V2", passkeys(id, many(11)...), 8, says)
	ids := list(w.run("CREATE_AUTHENTICATORS_V2", passkeys(id, many(9)...)), "authenticatorIds")
	w.refused("CREATE_AUTHENTICATORS_V2", passkeys(id, many(2)...), 8, says)
	w.run("CREATE_AUTHENTICATORS_V2", passkeys(id, many(1)...))
	w.refused("CREATE_AUTHENTICATORS_V2", passkeys(id, many(1)...), 8, says)
	w.run("DELETE_AUTHENTICATORS", object{"userId": id, "authenticatorIds": ids[:1]})
	w.run("CREATE_AUTHENTICATORS_V2", passkeys(id, many(1)...))
	w.run("CREATE_AUTHENTICATORS_V2", passkeys(w.root, many(10)...)) // each has their own
}

func TestDeleteAuthenticators(t *testing.T) {
	w := newWorld(t)
	a, _ := w.aPasskey(authenticator.None)
	b, q := w.aPasskey(authenticator.None)
	a.Counter = 5
	p := w.params(a, authenticator.None)
	ids := list(w.run("CREATE_AUTHENTICATORS_V2", passkeys(w.root, p, q)), "authenticatorIds")
	other := w.userNamed("other")
	gone := func(ids ...string) object { return object{"userId": w.root, "authenticatorIds": ids} }
	w.refused("DELETE_AUTHENTICATORS", gone(), 3, "")
	w.refused("DELETE_AUTHENTICATORS", gone(ids[0], ids[0]), 3, "named twice")
	w.refused("DELETE_AUTHENTICATORS", gone(ids[0], other), 5, "webauthn authenticator not found in organization: "+other)
	w.refused("DELETE_AUTHENTICATORS", object{"userId": other, "authenticatorIds": ids[:1]}, 5, "webauthn authenticator not found in organization")
	w.refused("DELETE_AUTHENTICATORS", object{"userId": "00000000-0000-4000-8000-000000000000", "authenticatorIds": ids[:1]}, 5, "user not found")
	if r := w.run("DELETE_AUTHENTICATORS", gone(ids[0])); !slices.Equal(list(r, "authenticatorIds"), ids[:1]) {
		t.Error(r)
	}
	aID, _ := org.ParseID(ids[0])
	c, err := w.tx().Credential(org.PasskeyCurve, hex.EncodeToString(a.CredentialID))
	w.must(err)
	n, err := w.tx().Counter(aID)
	w.must(err)
	if c != nil || n != 0 {
		t.Errorf("%+v, %d", c, n)
	}
	c, err = w.tx().Credential(org.PasskeyCurve, hex.EncodeToString(b.CredentialID))
	w.must(err)
	if c == nil || len(w.record(w.root).Authenticators) != 1 {
		t.Error("more is gone than was asked")
	}
	// The root user's last means stays, whichever kind it is.
	key := w.record(w.root).APIKeys[0].ID.String()
	w.run("DELETE_API_KEYS", object{"userId": w.root, "apiKeyIds": []string{key}})
	w.refused("DELETE_AUTHENTICATORS", gone(ids[1]), 3, "cannot remove the last credential of a user whom the root quorum needs")
	w.run("CREATE_AUTHENTICATORS_V2", passkeys(w.root, p)) // a deleted one may come again
	w.run("DELETE_AUTHENTICATORS", gone(ids[1]))
}

// Where passkeys may be made: by the organization's list, else its parent's, else
// anywhere of the relying party's.
func TestAuthenticatorOrigins(t *testing.T) {
	w := newWorld(t)
	set := func(w *world, value string) { w.feature(originsOf, &value) }
	_, p := w.aPasskey(authenticator.None)
	again := func() object { _, p := w.aPasskey(authenticator.None); return p }
	const refusal = "invalid attestation: origin is not allowed"
	for _, list := range []string{"https://other.test", "https://cloister.test", "not an origin", ""} {
		set(w, list)
		w.refused("CREATE_AUTHENTICATORS_V2", passkeys(w.root, p), 3, refusal)
	}
	member := rootUser("sub root", apiKey("k", w.freshKey()))
	member["authenticators"] = []any{again()}
	sub := object{"subOrganizationName": "Sub", "rootUsers": []any{member}, "rootQuorumThreshold": 1}
	set(w, "https://other.test")
	w.refused("CREATE_SUB_ORGANIZATION_V8", sub, 3, refusal) // before it has a record of its own
	set(w, "https://other.test, "+pageOrigin)
	w.run("CREATE_AUTHENTICATORS_V2", passkeys(w.root, p))
	s := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", sub)["subOrganizationId"])
	s.run("CREATE_AUTHENTICATORS_V2", passkeys(s.root, again()))
	set(w, "https://other.test")
	s.refused("CREATE_AUTHENTICATORS_V2", passkeys(s.root, again()), 3, refusal)
	set(s, pageOrigin) // the parent's binds
	s.refused("CREATE_AUTHENTICATORS_V2", passkeys(s.root, again()), 3, refusal)
	w.feature(originsOf, nil)
	s.run("CREATE_AUTHENTICATORS_V2", passkeys(s.root, again()))
	set(s, "https://other.test")
	s.refused("CREATE_AUTHENTICATORS_V2", passkeys(s.root, again()), 3, refusal)
	s.feature(originsOf, nil)
	s.run("CREATE_AUTHENTICATORS_V2", passkeys(s.root, again()))
	// The same passkey may be in parent and child.
	s.run("CREATE_AUTHENTICATORS_V2", passkeys(s.root, p))
}
