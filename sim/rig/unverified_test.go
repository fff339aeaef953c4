package rig_test

import (
	"bytes"
	"strings"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/authenticator"
	"cloister/sim/client"
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
	root := r.Root()
	send := func(endpoint wire.Endpoint, op string, body []byte, a *authenticator.Authenticator, signed []byte) client.Reply {
		t.Helper()
		u := root.As("", "", client.KeyPair{})
		u.Stamp = func([]byte) ([]wire.Header, error) {
			text, err := a.Stamp(signed)
			return []wire.Header{{Name: "X-Stamp-WebAuthn", Value: text}}, err
		}
		return u.Post(endpoint, op, body)
	}
	owner, params := passkey()
	root.Do("CREATE_AUTHENTICATORS_V2", object{"userId": root.User, "authenticators": []any{params}})
	below, params := passkey()
	user := client.NewRootUser("U")
	user["authenticators"] = []any{params}
	sub := root.As(client.Text(root.Do("CREATE_SUB_ORGANIZATION_V7", client.SubOrganization("Sub", user)), "subOrganizationId"), "", root.Key)
	unrelated, _ := passkey()

	// A step that needs the parent's rules on passkeys, and one that needs the organization
	// below that has the credential: each takes effect once.
	activities := func(u *client.User) int {
		t.Helper()
		all, _ := u.Query("list_activities", nil).Get("activities").([]any)
		return len(all)
	}
	for i, body := range [][]byte{
		sub.Body("CREATE_WALLET", client.Wallet("w")),
		root.Body("STAMP_LOGIN", object{"publicKey": client.NewKey().PublicKey}),
	} {
		op, before := []string{"create_wallet", "stamp_login"}[i], activities(root)
		for range 2 { // the second is the same again
			got := send(wire.EndpointSubmit, op, body, below, body)
			if got.Status != 200 || got.Text("activity", "organizationId") != sub.Organization {
				t.Fatalf("%s: %v", op, got)
			}
		}
		if n := activities(sub); n != i+1 || activities(root) != before {
			t.Errorf("%s: %d activities", op, n)
		}
	}

	good := root.Body("CREATE_WALLET", client.Wallet("w"))
	whoami := root.Ask(nil)
	before := activities(root)
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
		wants(t, name+", to its owner", send(c.endpoint, c.op, c.body, owner, c.body), 400, "", c.told)
		for who, a := range map[string]*authenticator.Authenticator{"a stranger": unrelated, "who signed another body": owner} {
			if got := send(c.endpoint, c.op, c.body, a, good); got.Status != 401 || strings.Contains(got.String(), c.told) {
				t.Errorf("%s: %s hears %v", name, who, got)
			}
		}
	}
	if n := activities(root); n != before {
		t.Errorf("%d activities, were %d", n, before)
	}
}
