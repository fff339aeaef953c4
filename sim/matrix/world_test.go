package matrix_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation/request"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

type object = map[string]any

// A world is a running product and the organizations that operators made in it.
type world struct {
	*rig.Rig
	t     testing.TB
	clock *clocktest.Clock
	mu    sync.Mutex
	tops  []*client.User // root users of organizations not given out yet
}

func newWorld(t testing.TB, tops int) *world {
	w := &world{t: t, clock: clocktest.New()}
	// Nobody waits for the witnesses, though the clock goes forward.
	witnesses := rig.StartWitnesses(t, rig.WitnessOptions{Serve: time.Minute, Bound: time.Minute})
	w.Rig = rig.Start(t, rig.Options{Clock: w.clock, Organizations: tops, Nodes: rig.Nodes(t), Witnesses: witnesses,
		Configuration: []byte(`{"onRamps":{"FIAT_ON_RAMP_PROVIDER_MOONPAY":{}},"tvc":` + rig.Programs(t) + `}`)})
	w.tops = w.Others()
	return w
}

// A principal is somebody who sends requests, to whatever organization; the user is empty if there is none.
type principal = client.Client

// send is one request of p. A reply that does not come fails the test.
func (w *world) send(p *principal, endpoint wire.Endpoint, op string, body []byte) reply {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	q, err := p.Request(endpoint, op, body)
	if err != nil {
		w.t.Error(err)
		return reply{}
	}
	call := q.Call()
	call.From.Address, call.WithinMs = "192.0.2.1", 0 // as long as calls take by default
	r, err := w.Link.Call(ctx, call)
	if err != nil {
		w.t.Errorf("%s: %v", op, err)
		return reply{}
	}
	return reply{client.Reply{Status: int(r.Status), Body: r.Body}, endpoint}
}

// A reply is what came back for one request.
type reply struct {
	client.Reply
	endpoint wire.Endpoint
}

// outcome is the word of the table for a reply. What has no word is written out.
func (r reply) outcome() string {
	if r.Status == 200 && r.endpoint == wire.EndpointQuery {
		return "ok"
	}
	key := fmt.Sprintf("%d %v %s", r.Status, r.Get("code"), r.Text("turnkeyErrorCode"))
	switch {
	case r.Status == 200:
		key = r.Text("activity", "status")
	case r.Status == 403 && strings.Contains(string(r.Body), "errors.v1.PolicyEnginePermissionError"):
		key += " by policy"
	}
	if word, ok := words[key]; ok {
		return word
	}
	return key + ": " + r.Text("message")
}

// words are the outcomes that a cell may name. README.md says what each means.
var words = map[string]string{
	"ACTIVITY_STATUS_COMPLETED":              "ok",
	"ACTIVITY_STATUS_REJECTED":               "rejected",
	"ACTIVITY_STATUS_CONSENSUS_NEEDED":       "consensus",
	"401 16 SIGNATURE_MISSING":               "unstamped",
	"401 16 PUBLIC_KEY_NOT_FOUND":            "unknown",
	"401 16 CREDENTIAL_NOT_FOUND":            "unknown",
	"401 16 API_KEY_EXPIRED":                 "expired",
	"403 7 REQUEST_NOT_AUTHORIZED by policy": "denied",
	"403 7 <nil>":                            "initiator",
	"400 3 ORGANIZATION_MISMATCH":            "mismatch",
	"400 3 INVALID_ACTIVITY_CALLER":          "caller",
	"400 3 REQUEST_INVALID":                  "invalid",
	"400 3 <nil>":                            "invalid",
	"400 3 INVALID_OIDC_TOKEN":               "invalid",
	"404 5 OAUTH2_CREDENTIAL_NOT_FOUND":      "not-found",
	"400 9 FEATURE_DISABLED":                 "feature-off",
	"400 9 EMAIL_SENDING_DISABLED":           "unsendable",
	"400 9 <nil>":                            "not-set-up",
	"404 5 <nil>":                            "not-found",
}

// A tenant is an organization with members of every kind.
type tenant struct {
	w         *world
	parent    *tenant // nil at the top
	root      *principal
	as        map[string]*principal // by column: its own members
	requester *principal            // may ask for changes of users if another consents
	second    string                // whose consent is enough
	made      map[string]string     // by once
	n         atomic.Int64
	voting    sync.Once
}

// top takes an organization that operators made.
func (w *world) top() *tenant {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.tops[0]
	w.tops = w.tops[1:]
	return &tenant{w: w, root: o.Client}
}

// sub makes an organization under t.
func (t *tenant) sub() *tenant {
	k := client.NewKey()
	r := t.do("CREATE_SUB_ORGANIZATION_V8", client.SubOrganization(t.name("Sub"), client.NewRootUser("Root", k)))
	return &tenant{w: t.w, parent: t, root: t.root.As(client.Text(r, "subOrganizationId"), client.Text(r, "rootUserIds", "0"), k)}
}

// name is different every time.
func (t *tenant) name(of string) string { return fmt.Sprintf("%s %d", of, t.n.Add(1)) }

// keyed is a user of t with a key.
func (t *tenant) keyed(user string, k client.KeyPair) *principal {
	return t.root.As(t.root.Organization, user, k)
}

// submit is an activity of p.
func (t *tenant) submit(p *principal, typ string, parameters object) reply {
	return t.w.send(p, wire.EndpointSubmit, request.Operation(typ), t.root.Body(typ, parameters))
}

// do has the root user do something, which must succeed, and returns the result.
func (t *tenant) do(typ string, parameters object) object { return t.doAs(t.root, typ, parameters) }

func (t *tenant) doAs(p *principal, typ string, parameters object) object {
	r := t.submit(p, typ, parameters)
	if !r.Completed() {
		t.w.t.Errorf("fixture: %s: %v", typ, r)
	}
	return r.Result()
}

// populate gives a tenant its members.
func (t *tenant) populate() *tenant {
	kUser, kAPI, kRequester, kSecond, kExpired, kDeleted := client.NewKey(), client.NewKey(), client.NewKey(), client.NewKey(), client.NewKey(), client.NewKey()
	users := t.do("CREATE_USERS_V4", client.Users(client.NewUser("User", kUser), client.NewUser("Requester", kRequester), client.NewUser("Second", kSecond)))
	only := t.do("CREATE_API_ONLY_USERS", object{"apiOnlyUsers": []any{
		object{"userName": "API only", "userTags": []any{}, "apiKeys": []any{object{"apiKeyName": "API only", "publicKey": kAPI.PublicKey}}}}})
	expiring := client.APIKey("Expiring", kExpired)
	expiring["expirationSeconds"] = "1"
	keys := t.do("CREATE_API_KEYS_V2", object{"userId": t.root.User, "apiKeys": []any{expiring, client.APIKey("Deleted", kDeleted)}})
	t.do("DELETE_API_KEYS", object{"userId": t.root.User, "apiKeyIds": []any{client.Text(keys, "apiKeyIds", "1")}})
	t.second = client.Text(users, "userIds", "2")
	t.requester = t.keyed(client.Text(users, "userIds", "1"), kRequester)
	t.as = map[string]*principal{
		"root":    t.root,
		"user":    t.keyed(client.Text(users, "userIds", "0"), kUser),
		"api":     t.keyed(client.Text(only, "userIds", "0"), kAPI),
		"expired": t.keyed(t.root.User, kExpired),
		"deleted": t.keyed(t.root.User, kDeleted),
	}
	t.passkeys()
	t.sessions()
	return t
}

// raise makes a second root user whose consent everything needs from now on.
func (t *tenant) raise() {
	k := client.NewKey()
	r := t.do("CREATE_USERS_V4", client.Users(client.NewUser("Second root", k)))
	t.do("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{t.root.User, client.Text(r, "userIds", "0")}})
}

// pending is an activity of asker's that waits for consent: by the fixed second
// user, or by the one named. Its fingerprint is returned.
func (t *tenant) pending(consent string) string {
	allow := func(user string) {
		both := fmt.Sprintf("approvers.any(u, u.id == '%s') && approvers.any(u, u.id == '%s')", t.requester.User, user)
		t.do("CREATE_POLICY_V3", client.Policy(t.name("Consent"), "ALLOW", "activity.resource == 'USER' && activity.action == 'UPDATE'", both))
	}
	if consent != "" {
		allow(consent)
	} else {
		t.voting.Do(func() { allow(t.second) })
	}
	r := t.submit(t.requester, "UPDATE_USER_NAME", object{"userId": t.requester.User, "userName": t.name("Requester")})
	if r.State() != "CONSENSUS_NEEDED" {
		t.w.t.Errorf("fixture: pending activity: %v", r)
	}
	return r.Text("activity", "fingerprint")
}

// ask is a query.
func (t *tenant) ask(p *principal, op string, request object) reply {
	return t.w.send(p, wire.EndpointQuery, op, t.root.Ask(request))
}
