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
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// rateClient asks whoami and looks at what the reply says of rates.
type rateClient struct {
	t *testing.T
	*rig.Rig
}

// as is a user of an organization who has a key.
func (a rateClient) as(organization string, key laptop.KeyPair) *client.User {
	return a.Root().As(organization, "", key)
}

func (a rateClient) whoami(organization string, key laptop.KeyPair) *wire.Reply {
	a.t.Helper()
	return a.send(wire.EndpointQuery, "whoami", []byte(`{"organizationId":"`+organization+`"}`), key)
}

func (a rateClient) send(endpoint wire.Endpoint, op string, body []byte, key laptop.KeyPair) *wire.Reply {
	a.t.Helper()
	return a.sends(a.as("", key), endpoint, op, body)
}

// sends is a request of which the reply's rates matter.
func (a rateClient) sends(u *client.User, endpoint wire.Endpoint, op string, body []byte) *wire.Reply {
	a.t.Helper()
	q, err := u.Request(endpoint, op, body)
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r, err := a.Link.Call(ctx, q.Call())
	if err != nil {
		a.t.Fatal(err)
	}
	return r
}

// asks is whoami of a user.
func (a rateClient) asks(u *client.User) *wire.Reply {
	a.t.Helper()
	return a.sends(u, wire.EndpointQuery, "whoami", u.Ask(nil))
}

// want holds a reply against a status and what it says of rates.
func (a rateClient) want(what string, r *wire.Reply, status, limit, remaining int) {
	a.t.Helper()
	if int(r.Status) != status || int(r.Limit) != limit || int(r.Remaining) != remaining {
		a.t.Errorf("%s: status %d, limit %d, remaining %d, want %d, %d, %d: %s", what, r.Status, r.Limit, r.Remaining, status, limit, remaining, r.Body)
	}
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

// sub makes a sub-organization of one user.
func (a rateClient) sub() (id string, key laptop.KeyPair) {
	a.t.Helper()
	u := a.Root().NewSubOrganization("Sub")
	return u.Organization, u.Key
}

func perHour(n uint32) pace.Rate { return pace.Rate{Count: n, Per: time.Hour} }

func TestNoRates(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{})}
	for range 30 {
		a.want("no rate", a.asks(a.Root()), 200, 0, 0)
	}
}

// The key's bucket and the organization's, both of 20 minutes for one request.
func TestRates(t *testing.T) {
	c := clocktest.New()
	a := rateClient{t, rig.Start(t, rig.Options{Clock: c, Rates: core.Rates{Organization: perHour(12), Key: perHour(3)}})}
	root := a.Root()
	second := root.NewKey() // the first of root's three
	a.want("second of three", a.asks(root), 200, 3, 1)
	a.want("a shape that is wrong counts", a.sends(root, wire.EndpointQuery, "get_user", root.Ask(nil)), 400, 3, 0)
	refused(t, a.asks(root), "key")
	a.want("another key", a.asks(second), 200, 3, 2)
	c.Pass(20 * time.Minute)
	a.want("a third of an hour later", a.asks(root), 200, 3, 0)
	refused(t, a.asks(root), "key")

	// What is refused is no activity: later the same body is a new one.
	body := root.Body("UPDATE_USER_NAME", client.Object{"userId": root.User, "userName": "Ada"})
	update := func() *wire.Reply { return a.sends(root, wire.EndpointSubmit, "update_user_name", body) }
	refused(t, update(), "key")
	c.Pass(20 * time.Minute)
	a.want("done in its time", update(), 200, 3, 0)
	refused(t, update(), "key") // repeats count too
}

// All keys of an organization share its bucket; another's is another.
func TestRateOfOrganization(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{Rates: core.Rates{Organization: perHour(6), SubOrganization: perHour(2)}})}
	root := a.Root()
	second, sub := root.NewKey(), root.NewSubOrganization("Sub")
	below := root.As(sub.Organization, "", root.Key)
	a.want("third", a.asks(root), 200, 6, 3)
	a.want("fourth, by another key", a.asks(second), 200, 6, 2)
	a.want("a sub-organization's own", a.asks(sub), 200, 2, 1)
	a.want("reading below counts above", a.asks(below), 200, 6, 1)
	a.want("a sub-organization named by its parent", a.asks(root.As(root.Organization, "", sub.Key)), 200, 2, 0)
	refused(t, a.asks(sub), "organization")
	a.want("sixth", a.asks(root), 200, 6, 0)
	refused(t, a.asks(second), "organization")
	refused(t, a.asks(below), "organization")
}

// Strangers can use up nothing: not without a stamp, with a bad one, or with
// somebody else's key.
func TestUnknownCredentialsUseUpNothing(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{Rates: core.Rates{Organization: perHour(2), SubOrganization: perHour(2), Key: perHour(2)}, Organizations: 1})}
	root, unrelated := a.Root(), client.NewKey()
	unknown := root.As(root.Organization, "", unrelated)
	forged, err := laptop.Stamp(unrelated, root.Ask(nil)) // under the root user's name
	if err != nil {
		t.Fatal(err)
	}
	told, err := base64.RawURLEncoding.DecodeString(forged[0].Value)
	if err != nil || !strings.Contains(string(told), unrelated.PublicKey) {
		t.Fatalf("%s, %v", told, err)
	}
	forged[0].Value = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(told), unrelated.PublicKey, root.Key.PublicKey, 1)))
	for i := range 20 {
		a.want("unknown key", a.asks(unknown), 401, 0, 0)
		a.want("forged", a.asks(with(root, forged...)), 401, 0, 0)
		a.want("unknown organization", a.asks(root.As("00000000-0000-4000-8000-000000000000", "", root.Key)), 404, 0, 0)
		a.want("no stamp", a.sends(with(root), []wire.Endpoint{wire.EndpointQuery, wire.EndpointSubmit}[i%2], "whoami", root.Ask(nil)), 401, 0, 0)
	}
	a.want("untouched", a.asks(root), 200, 2, 1)
}
