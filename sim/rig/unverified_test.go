package rig_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/authenticator"
	"cloister/sim/rig"
)

// Of a body that is stamped by a passkey nothing is told or done before the passkey is
// known and its signature holds: what is wrong with the body its owner hears, and nobody else.
func TestUnverifiedBodyTellsWhereAlone(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	passkey := func() (*authenticator.Authenticator, object) {
		a, err := authenticator.New(authenticator.ES256, "example.com", "https://example.com")
		if err != nil {
			t.Fatal(err)
		}
		made, err := a.Register(bytes.Repeat([]byte{7}, 32), authenticator.None)
		if err != nil {
			t.Fatal(err)
		}
		return a, made.Params("Passkey")
	}
	send := func(endpoint wire.Endpoint, op string, body []byte, a *authenticator.Authenticator, signed []byte) (int, object) {
		t.Helper()
		text, err := a.Stamp(signed)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := r.Link.Call(t.Context(), &wire.Call{Endpoint: endpoint, Op: op, Body: body, Head: []wire.Header{{Name: "X-Stamp-WebAuthn", Value: text}}})
		if err != nil {
			t.Fatal(err)
		}
		var m object
		if err := json.Unmarshal(reply.Body, &m); err != nil {
			t.Fatal(err)
		}
		return int(reply.Status), m
	}
	top := r.Credentials.OrganizationID
	owner, params := passkey()
	if status, m := r.Submit("create_authenticators", "ACTIVITY_TYPE_CREATE_AUTHENTICATORS_V2", object{"userId": r.Credentials.RootUserID, "authenticators": []any{params}}); status != 200 {
		t.Fatal(status, m)
	}
	below, params := passkey()
	status, m := r.Submit("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", object{"subOrganizationName": "Sub", "rootQuorumThreshold": 1, "rootUsers": []any{
		object{"userName": "U", "apiKeys": []any{}, "authenticators": []any{params}, "oauthProviders": []any{}}}})
	if status != 200 {
		t.Fatal(status, m)
	}
	sub := rig.Text(m, "activity", "result", "createSubOrganizationResultV7", "subOrganizationId")
	unrelated, _ := passkey()

	// A step that needs the parent's rules on passkeys, and one that needs the organization
	// below that has the credential: each takes effect once.
	activities := func(organization string) int {
		t.Helper()
		_, m := r.Query("list_activities", object{"organizationId": organization})
		all, _ := m["activities"].([]any)
		return len(all)
	}
	for i, body := range [][]byte{
		r.BodyOf(sub, "ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": "w", "accounts": []any{}}),
		r.BodyOf(top, "ACTIVITY_TYPE_STAMP_LOGIN", object{"publicKey": newKeyPair(t).PublicKey}),
	} {
		op, before := []string{"create_wallet", "stamp_login"}[i], activities(top)
		for range 2 { // the second is the same again
			status, m := send(wire.EndpointSubmit, op, body, below, body)
			if status != 200 || rig.Text(m, "activity", "organizationId") != sub {
				t.Fatalf("%s: %d %v", op, status, m)
			}
		}
		if n := activities(sub); n != i+1 || activities(top) != before {
			t.Errorf("%s: %d activities", op, n)
		}
	}

	good := r.BodyOf(top, "ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": "w", "accounts": []any{}})
	whoami := fmt.Appendf(nil, `{"organizationId":%q}`, top)
	before := activities(top)
	for name, c := range map[string]struct {
		endpoint wire.Endpoint
		op       string
		body     []byte
		told     string // to who may ask
	}{
		"a member that there is not": {wire.EndpointSubmit, "create_wallet", bytes.Replace(good, []byte(`{`), []byte(`{"secretMember":1,`), 1), "secretMember"},
		"no parameters":              {wire.EndpointSubmit, "create_wallet", bytes.Replace(good, []byte(`"parameters"`), []byte(`"parameter"`), 1), "parameter"},
		"another type":               {wire.EndpointSubmit, "create_wallet", bytes.Replace(good, []byte("CREATE_WALLET"), []byte("CREATE_VALLET"), 1), "this path does not take"},
		"a query with more":          {wire.EndpointQuery, "whoami", bytes.Replace(whoami, []byte(`{`), []byte(`{"secretMember":1,`), 1), "secretMember"},
	} {
		if status, m := send(c.endpoint, c.op, c.body, owner, c.body); status != 400 || !strings.Contains(rig.Text(m, "message"), c.told) {
			t.Errorf("%s: its owner hears %d %v", name, status, m)
		}
		for who, a := range map[string]*authenticator.Authenticator{"a stranger": unrelated, "who signed another body": owner} {
			status, m := send(c.endpoint, c.op, c.body, a, good)
			if status != 401 || strings.Contains(fmt.Sprint(m), c.told) {
				t.Errorf("%s: %s hears %d %v", name, who, status, m)
			}
		}
	}
	if n := activities(top); n != before {
		t.Errorf("%d activities, were %d", n, before)
	}
}
