package user_test

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
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/webauthn"
	"cloister/sim/authenticator"
)

const (
	originsOf = "FEATURE_NAME_WEBAUTHN_ORIGINS"
)

// paramsV1 is a registration as browsers first gave it.
func paramsV1(p object, user string) object {
	at := p["attestation"].(object)
	return object{"authenticatorName": p["authenticatorName"], "challenge": p["challenge"], "userId": user, "attestation": object{
		"id": at["credentialId"], "rawId": at["credentialId"], "type": "public-key", "clientExtensionResults": object{},
		"response": object{"clientDataJson": at["clientDataJson"], "attestationObject": at["attestationObject"], "transports": []string{"AUTHENTICATOR_TRANSPORT_USB"}},
	}}
}

func userNamed(w *world, name string) string {
	w.TB.Helper()
	return activitytest.List(w.Run("CREATE_USERS_V4", object{"users": []any{activitytest.User(name, activitytest.APIKey("k", w.FreshKey()))}}), "userIds")[0]
}

func recordOf(w *world, user string) *org.User {
	w.TB.Helper()
	id, err := org.ParseID(user)
	w.Must(err)
	u, err := w.Tx().User(id)
	w.Must(err)
	return u
}

// setFeature sets or, with no value, removes a feature behind the activities' back.
func setFeature(w *world, name string, value *string) {
	w.TB.Helper()
	tx := w.Tx()
	old, err := tx.Organization()
	w.Must(err)
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
	w.Must(tx.PutOrganization(&o))
	ws, err := tx.Writes()
	w.Must(err)
	w.State.Apply(ws)
}

func TestCreateAuthenticators(t *testing.T) {
	w := activitytest.New(t)
	id := userNamed(w, "holder")
	var all []*authenticator.Authenticator
	var ids []string
	for i, f := range []authenticator.Format{authenticator.None, authenticator.Packed, authenticator.U2F, authenticator.PackedX5C} {
		a, _ := w.NewPasskey(f)
		if a.Counter = uint32(10 * i); i == 3 {
			a.AAGUID = [16]byte{1, 2, 3}
		}
		p := w.PasskeyParams(a, f)
		var r object
		if i%2 == 0 {
			r = w.Run("CREATE_AUTHENTICATORS", activitytest.Passkeys(id, paramsV1(p, id)))
		} else {
			r = w.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(id, p))
		}
		all, ids = append(all, a), append(ids, activitytest.List(r, "authenticatorIds")...)
	}
	u := recordOf(w, id)
	if len(u.Authenticators) != 4 || len(u.APIKeys) != 1 {
		t.Fatalf("%+v", u)
	}
	formats := []string{"none", "packed", "fido-u2f", "packed"}
	for i, a := range all {
		rec := u.Authenticators[i]
		key, err := a.PublicKey()
		w.Must(err)
		c, err := w.Tx().Credential(org.PasskeyCurve, hex.EncodeToString(a.CredentialID))
		w.Must(err)
		n, err := w.Tx().Counter(rec.ID)
		w.Must(err)
		if rec.ID.String() != ids[i] || string(rec.CredentialID) != string(a.CredentialID) || string(rec.PublicKey) != string(key) || rec.Attestation != formats[i] ||
			rec.Origin != activitytest.PageOrigin || [16]byte(rec.AAGUID) != a.AAGUID || n != a.Counter || c == nil || c.Key != rec.ID || c.User != u.ID || rec.Name != "passkey" {
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
	b, err := os.ReadFile("../../stamp/testdata/stamps.json")
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
	w := activitytest.New(t)
	for _, x := range f.Vectors {
		if x.Name != "webauthn_registration_none" {
			continue
		}
		w.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(w.Root, x.Params))
		var got object
		text := activity.AppendUser(nil, recordOf(w, w.Root))
		for _, wrong := range activitytest.API.Check("User", text) {
			t.Error(wrong)
		}
		w.Must(json.Unmarshal(text, &got))
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
	w := activitytest.New(t)
	id := userNamed(w, "holder")
	_, good := w.NewPasskey(authenticator.Packed)
	enc := base64.RawURLEncoding.EncodeToString
	with := func(name string, value any) object {
		p := maps.Clone(good)
		at := maps.Clone(good["attestation"].(object))
		if p["attestation"] = at; name == "challenge" || name == "authenticatorName" {
			p[name] = value
		} else {
			at[name] = value
		}
		return activitytest.Passkeys(id, p)
	}
	const unreadable = "invalid attestation: not base64url, or too long"
	for what, c := range map[string]struct {
		in   any
		code int
		says string
	}{
		"no user":             {activitytest.Passkeys("00000000-0000-4000-8000-000000000000", good), 5, "user not found"},
		"no authenticators":   {activitytest.Passkeys(id), 0, ""},
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
		"twice":               {activitytest.Passkeys(id, good, good), 3, "credential ID must be unique in the organization"},
	} {
		if c.code == 0 {
			w.Run("CREATE_AUTHENTICATORS_V2", c.in)
			continue
		}
		t.Run(what, func(t *testing.T) {
			w.TB = t
			w.Refuse("CREATE_AUTHENTICATORS_V2", c.in, fault.Code(c.code), c.says)
		})
	}
	w.TB = t
	w.Refuse("CREATE_AUTHENTICATORS", activitytest.Passkeys(id, paramsV1(good, w.Root)), 3, "authenticators must be of the user that userId names")
	long := paramsV1(good, id)
	long["attestation"].(object)["id"] = strings.Repeat("A", 257)
	w.Refuse("CREATE_AUTHENTICATORS", activitytest.Passkeys(id, long), 3, unreadable)
	w.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(id, good))
	w.Refuse("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(w.Root, good), 3, "credential ID must be unique in the organization")
	if n := len(recordOf(w, id).Authenticators); n != 1 {
		t.Error(n)
	}
}

func TestAuthenticatorLimit(t *testing.T) {
	w := activitytest.New(t)
	id := userNamed(w, "holder")
	many := func(n int) (ps []object) {
		for range n {
			_, p := w.NewPasskey(authenticator.None)
			ps = append(ps, p)
		}
		return ps
	}
	const says = "user has exceeded maximum authenticators: 10"
	w.Refuse("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(id, many(11)...), 8, says)
	ids := activitytest.List(w.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(id, many(9)...)), "authenticatorIds")
	w.Refuse("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(id, many(2)...), 8, says)
	w.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(id, many(1)...))
	w.Refuse("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(id, many(1)...), 8, says)
	w.Run("DELETE_AUTHENTICATORS", object{"userId": id, "authenticatorIds": ids[:1]})
	w.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(id, many(1)...))
	w.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(w.Root, many(10)...)) // each has their own
}

func TestDeleteAuthenticators(t *testing.T) {
	w := activitytest.New(t)
	a, _ := w.NewPasskey(authenticator.None)
	b, q := w.NewPasskey(authenticator.None)
	a.Counter = 5
	p := w.PasskeyParams(a, authenticator.None)
	ids := activitytest.List(w.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(w.Root, p, q)), "authenticatorIds")
	other := userNamed(w, "other")
	gone := func(ids ...string) object { return object{"userId": w.Root, "authenticatorIds": ids} }
	w.Refuse("DELETE_AUTHENTICATORS", gone(), 3, "")
	w.Refuse("DELETE_AUTHENTICATORS", gone(ids[0], ids[0]), 3, "named twice")
	w.Refuse("DELETE_AUTHENTICATORS", gone(ids[0], other), 5, "webauthn authenticator not found in organization: "+other)
	w.Refuse("DELETE_AUTHENTICATORS", object{"userId": other, "authenticatorIds": ids[:1]}, 5, "webauthn authenticator not found in organization")
	w.Refuse("DELETE_AUTHENTICATORS", object{"userId": "00000000-0000-4000-8000-000000000000", "authenticatorIds": ids[:1]}, 5, "user not found")
	if r := w.Run("DELETE_AUTHENTICATORS", gone(ids[0])); !slices.Equal(activitytest.List(r, "authenticatorIds"), ids[:1]) {
		t.Error(r)
	}
	aID, _ := org.ParseID(ids[0])
	c, err := w.Tx().Credential(org.PasskeyCurve, hex.EncodeToString(a.CredentialID))
	w.Must(err)
	n, err := w.Tx().Counter(aID)
	w.Must(err)
	if c != nil || n != 0 {
		t.Errorf("%+v, %d", c, n)
	}
	c, err = w.Tx().Credential(org.PasskeyCurve, hex.EncodeToString(b.CredentialID))
	w.Must(err)
	if c == nil || len(recordOf(w, w.Root).Authenticators) != 1 {
		t.Error("more is gone than was asked")
	}
	// The root user's last means stays, whichever kind it is.
	key := recordOf(w, w.Root).APIKeys[0].ID.String()
	w.Run("DELETE_API_KEYS", object{"userId": w.Root, "apiKeyIds": []string{key}})
	w.Refuse("DELETE_AUTHENTICATORS", gone(ids[1]), 3, "cannot remove the last credential of a user whom the root quorum needs")
	w.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(w.Root, p)) // a deleted one may come again
	w.Run("DELETE_AUTHENTICATORS", gone(ids[1]))
}

// Where passkeys may be made: by the organization's list, else its parent's, else
// anywhere of the relying party's.
func TestAuthenticatorOrigins(t *testing.T) {
	w := activitytest.New(t)
	set := func(w *world, value string) { setFeature(w, originsOf, &value) }
	_, p := w.NewPasskey(authenticator.None)
	again := func() object { _, p := w.NewPasskey(authenticator.None); return p }
	const refusal = "invalid attestation: origin is not allowed"
	for _, list := range []string{"https://other.test", "https://cloister.test", "not an origin", ""} {
		set(w, list)
		w.Refuse("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(w.Root, p), 3, refusal)
	}
	member := activitytest.RootUser("sub root", activitytest.APIKey("k", w.FreshKey()))
	member["authenticators"] = []any{again()}
	sub := object{"subOrganizationName": "Sub", "rootUsers": []any{member}, "rootQuorumThreshold": 1}
	set(w, "https://other.test")
	w.Refuse("CREATE_SUB_ORGANIZATION_V8", sub, 3, refusal) // before it has a record of its own
	set(w, "https://other.test, "+activitytest.PageOrigin)
	w.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(w.Root, p))
	s := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", sub)["subOrganizationId"])
	s.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(s.Root, again()))
	set(w, "https://other.test")
	s.Refuse("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(s.Root, again()), 3, refusal)
	set(s, activitytest.PageOrigin) // the parent's binds
	s.Refuse("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(s.Root, again()), 3, refusal)
	setFeature(w, originsOf, nil)
	s.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(s.Root, again()))
	set(s, "https://other.test")
	s.Refuse("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(s.Root, again()), 3, refusal)
	setFeature(s, originsOf, nil)
	s.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(s.Root, again()))
	// The same passkey may be in parent and child.
	s.Run("CREATE_AUTHENTICATORS_V2", activitytest.Passkeys(s.Root, p))
}
