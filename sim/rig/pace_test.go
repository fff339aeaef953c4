package rig_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/shared/clocktest"
	"cloister/shared/pace"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// rateClient asks whoami and looks at what the reply says of rates.
type rateClient struct {
	t *testing.T
	*rig.Rig
}

func (a rateClient) whoami(organization string, key laptop.KeyPair) *wire.Reply {
	a.t.Helper()
	return a.send(wire.EndpointQuery, "whoami", []byte(`{"organizationId":"`+organization+`"}`), key)
}

func (a rateClient) send(endpoint wire.Endpoint, op string, body []byte, key laptop.KeyPair) *wire.Reply {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r, err := a.Send(ctx, endpoint, op, body, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return r
}

// want holds a reply against a status and what it says of rates.
func (a rateClient) want(what string, r *wire.Reply, status, limit, remaining int) {
	a.t.Helper()
	if int(r.Status) != status || int(r.Limit) != limit || int(r.Remaining) != remaining {
		a.t.Errorf("%s: status %d, limit %d, remaining %d, want %d, %d, %d: %s", what, r.Status, r.Limit, r.Remaining, status, limit, remaining, r.Body)
	}
}

func newKey(t *testing.T) laptop.KeyPair {
	k, err := laptop.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// refused tells whether a reply is the documented one of a rate.
func refused(t *testing.T, r *wire.Reply, what string) {
	t.Helper()
	var e struct {
		Code             int
		Message          string
		TurnkeyErrorCode string
		Details          []map[string]string
	}
	if err := json.Unmarshal(r.Body, &e); err != nil {
		t.Fatal(err)
	}
	if r.Status != 429 || e.Code != 8 || e.TurnkeyErrorCode != "RATE_LIMIT_EXCEEDED" || !strings.HasPrefix(e.Message, "too many requests: "+what+" is rate limited, try again in ") ||
		len(e.Details) != 1 || e.Details[0]["turnkeyErrorCode"] != "RATE_LIMIT_EXCEEDED" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// secondKey gives the root user of the rig's organization another key.
func (a rateClient) secondKey() laptop.KeyPair {
	a.t.Helper()
	k := newKey(a.t)
	body := a.Body("ACTIVITY_TYPE_CREATE_API_KEYS_V2", map[string]any{"userId": a.Credentials.RootUserID,
		"apiKeys": []any{map[string]any{"apiKeyName": "second", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}}})
	if r := a.send(wire.EndpointSubmit, "create_api_keys", body, a.Credentials.RootAPIKey); r.Status != 200 {
		a.t.Fatalf("%s", r.Body)
	}
	return k
}

// sub makes a sub-organization of one user.
func (a rateClient) sub() (id string, key laptop.KeyPair) {
	a.t.Helper()
	k := newKey(a.t)
	body := a.Body("ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8", map[string]any{"subOrganizationName": "Sub", "rootQuorumThreshold": 1, "rootUsers": []any{map[string]any{
		"userName": "Root", "authenticators": []any{}, "oauthProviders": []any{},
		"apiKeys": []any{map[string]any{"apiKeyName": "key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}})
	r := a.send(wire.EndpointSubmit, "create_sub_organization", body, a.Credentials.RootAPIKey)
	var m any
	if err := json.Unmarshal(r.Body, &m); err != nil || r.Status != 200 {
		a.t.Fatalf("%v %s", err, r.Body)
	}
	result, _ := rig.Get(m, "activity", "result").(map[string]any)
	for _, one := range result {
		id = rig.Text(one, "subOrganizationId")
	}
	return id, k
}

func perHour(n uint32) pace.Rate { return pace.Rate{Count: n, Per: time.Hour} }

func TestNoRates(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{})}
	for range 30 {
		a.want("no rate", a.whoami(a.Credentials.OrganizationID, a.Credentials.RootAPIKey), 200, 0, 0)
	}
}

// The key's bucket and the organization's, both of 20 minutes for one request.
func TestRates(t *testing.T) {
	c := clocktest.New()
	a := rateClient{t, rig.Start(t, rig.Options{Clock: c, Rates: core.Rates{Organization: perHour(12), Key: perHour(3)}})}
	id, root := a.Credentials.OrganizationID, a.Credentials.RootAPIKey
	second := a.secondKey() // the first of root's three
	a.want("second of three", a.whoami(id, root), 200, 3, 1)
	a.want("a shape that is wrong counts", a.send(wire.EndpointQuery, "get_user", []byte(`{"organizationId":"`+id+`"}`), root), 400, 3, 0)
	refused(t, a.whoami(id, root), "key")
	a.want("another key", a.whoami(id, second), 200, 3, 2)
	c.Pass(20 * time.Minute)
	a.want("a third of an hour later", a.whoami(id, root), 200, 3, 0)
	refused(t, a.whoami(id, root), "key")

	// What is refused is no activity: later the same body is a new one.
	body := a.Body("ACTIVITY_TYPE_UPDATE_USER_NAME", map[string]any{"userId": a.Credentials.RootUserID, "userName": "Ada"})
	refused(t, a.send(wire.EndpointSubmit, "update_user_name", body, root), "key")
	c.Pass(20 * time.Minute)
	a.want("done in its time", a.send(wire.EndpointSubmit, "update_user_name", body, root), 200, 3, 0)
	refused(t, a.send(wire.EndpointSubmit, "update_user_name", body, root), "key") // repeats count too
}

// All keys of an organization share its bucket; another's is another.
func TestRateOfOrganization(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{Rates: core.Rates{Organization: perHour(6), SubOrganization: perHour(2)}})}
	id, root := a.Credentials.OrganizationID, a.Credentials.RootAPIKey
	second := a.secondKey()
	sub, subKey := a.sub()
	a.want("third", a.whoami(id, root), 200, 6, 3)
	a.want("fourth, by another key", a.whoami(id, second), 200, 6, 2)
	a.want("a sub-organization's own", a.whoami(sub, subKey), 200, 2, 1)
	a.want("reading below counts above", a.whoami(sub, root), 200, 6, 1)
	a.want("a sub-organization named by its parent", a.whoami(id, subKey), 200, 2, 0)
	refused(t, a.whoami(sub, subKey), "organization")
	a.want("sixth", a.whoami(id, root), 200, 6, 0)
	refused(t, a.whoami(id, second), "organization")
	refused(t, a.whoami(sub, root), "organization")
}

// Strangers can use up nothing: not without a stamp, with a bad one, or with
// somebody else's key.
func TestUnknownCredentialsUseUpNothing(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{Rates: core.Rates{Organization: perHour(2), SubOrganization: perHour(2), Key: perHour(2)}, Organizations: 1})}
	id, root, unrelated := a.Credentials.OrganizationID, a.Credentials.RootAPIKey, newKey(t)
	body := []byte(`{"organizationId":"` + id + `"}`)
	forged, err := laptop.Stamp(unrelated, body) // under the root user's name
	if err != nil {
		t.Fatal(err)
	}
	told, err := base64.RawURLEncoding.DecodeString(forged[0].Value)
	if err != nil || !strings.Contains(string(told), unrelated.PublicKey) {
		t.Fatalf("%s, %v", told, err)
	}
	forged[0].Value = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(told), unrelated.PublicKey, root.PublicKey, 1)))
	call := func(endpoint wire.Endpoint, head []wire.Header) *wire.Reply {
		r, err := a.Link.Call(t.Context(), &wire.Call{Endpoint: endpoint, Op: "whoami", Body: body, Head: head})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for i := range 20 {
		a.want("unknown key", a.whoami(id, unrelated), 401, 0, 0)
		a.want("forged", call(wire.EndpointQuery, forged), 401, 0, 0)
		a.want("unknown organization", a.whoami("00000000-0000-4000-8000-000000000000", root), 401, 0, 0)
		a.want("no stamp", call([]wire.Endpoint{wire.EndpointQuery, wire.EndpointSubmit}[i%2], nil), 401, 0, 0)
	}
	a.want("untouched", a.whoami(id, root), 200, 2, 1)
}
