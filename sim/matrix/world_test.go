package matrix_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

type object = map[string]any

// A world is a running product and the organizations that operators made in it.
type world struct {
	*rig.Rig
	t     testing.TB
	clock *clocktest.Clock
	mu    sync.Mutex
	tops  []laptop.Organization // not given out yet
}

func newWorld(t testing.TB, tops int) *world {
	w := &world{t: t, clock: clocktest.New()}
	dir := t.TempDir()
	// Nobody waits for the witnesses, though the clock goes forward.
	witnesses := rig.StartWitnesses(t, rig.WitnessOptions{Serve: time.Minute, Bound: time.Minute})
	w.Rig = rig.Start(t, rig.Options{Dir: dir, Clock: w.clock, Organizations: tops, Nodes: rig.Nodes(t), Witnesses: witnesses,
		Configuration: []byte(`{"onRamps":{"FIAT_ON_RAMP_PROVIDER_MOONPAY":{}},"tvc":` + rig.Programs(t) + `}`)})
	b, err := os.ReadFile(filepath.Join(dir, "organizations.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &w.tops); err != nil {
		t.Fatal(err)
	}
	return w
}

// A principal is somebody who sends requests.
type principal struct {
	user  string // id, empty if there is none
	stamp func(body []byte) ([]wire.Header, error)
}

func keyed(user string, k laptop.KeyPair) *principal {
	return &principal{user, func(body []byte) ([]wire.Header, error) { return laptop.Stamp(k, body) }}
}

// send is one request of p. A reply that does not come fails the test.
func (w *world) send(p *principal, endpoint wire.Endpoint, op string, body []byte) reply {
	head, err := p.stamp(body)
	if err != nil {
		w.t.Error(err)
		return reply{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r, err := w.Link.Call(ctx, &wire.Call{Endpoint: endpoint, Op: op, Head: head, Body: body, From: wire.From{Address: "192.0.2.1"}})
	if err != nil {
		w.t.Errorf("%s: %v", op, err)
		return reply{}
	}
	return reply{endpoint, int(r.Status), r.Body}
}

// A reply is what came back for one request.
type reply struct {
	endpoint wire.Endpoint
	status   int
	body     []byte
}

func (r reply) parse() object {
	var m object
	d := json.NewDecoder(bytes.NewReader(r.body))
	if d.Decode(&m) != nil {
		return nil
	}
	return m
}

// outcome is the word of the table for a reply. What has no word is written out.
func (r reply) outcome() string {
	m := r.parse()
	if r.status == 200 && r.endpoint == wire.EndpointQuery {
		return "ok"
	}
	name := rig.Text(m, "turnkeyErrorCode")
	key := fmt.Sprintf("%d %v %s", r.status, m["code"], name)
	switch {
	case r.status == 200:
		key = rig.Text(m, "activity", "status")
	case r.status == 403 && strings.Contains(string(r.body), "errors.v1.PolicyEnginePermissionError"):
		key += " by policy"
	}
	if word, ok := words[key]; ok {
		return word
	}
	return key + ": " + rig.Text(m, "message")
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
	id        string
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
	return &tenant{w: w, id: o.OrganizationID, root: keyed(o.RootUserID, o.RootAPIKey)}
}

// sub makes an organization under t.
func (t *tenant) sub() *tenant {
	k := t.newKey()
	r := t.do("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8", object{"subOrganizationName": t.name("Sub"), "rootQuorumThreshold": 1,
		"rootUsers": []any{newUser("Root", k)}})
	return &tenant{w: t.w, id: rig.Text(r, "subOrganizationId"), parent: t, root: keyed(rig.Text(r, "rootUserIds", "0"), k)}
}

func (t *tenant) newKey() laptop.KeyPair {
	k, err := laptop.NewKey()
	if err != nil {
		t.w.t.Error(err)
	}
	return k
}

// name is different every time.
func (t *tenant) name(of string) string { return fmt.Sprintf("%s %d", of, t.n.Add(1)) }

func apiKey(name string, k laptop.KeyPair) object {
	return object{"apiKeyName": name, "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}
}

// newUser is a user of create_users, without tags, or of a new organization.
func newUser(name string, keys ...laptop.KeyPair) object {
	all := []any{}
	for i, k := range keys {
		all = append(all, apiKey(fmt.Sprintf("%s key %d", name, i), k))
	}
	return object{"userName": name, "apiKeys": all, "authenticators": []any{}, "oauthProviders": []any{}}
}

func tagged(user object, tags ...any) object {
	user["userTags"] = append([]any{}, tags...)
	return user
}

// body is a submit body.
func (t *tenant) body(typ string, parameters object) []byte { return t.w.BodyOf(t.id, typ, parameters) }

// do has the root user do something, which must succeed, and returns the result.
func (t *tenant) do(op, typ string, parameters object) object {
	return t.doAs(t.root, op, typ, parameters)
}

func (t *tenant) doAs(p *principal, op, typ string, parameters object) object {
	r := t.w.send(p, wire.EndpointSubmit, op, t.body(typ, parameters))
	m := r.parse()
	if r.status != 200 || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
		t.w.t.Errorf("fixture: %s: %d %s", op, r.status, r.body)
		return object{}
	}
	result, _ := rig.Get(m, "activity", "result").(object)
	for _, one := range result {
		inner, _ := one.(object)
		return inner
	}
	return object{}
}

// populate gives a tenant its members.
func (t *tenant) populate() *tenant {
	kUser, kAPI, kRequester, kSecond, kExpired, kDeleted := t.newKey(), t.newKey(), t.newKey(), t.newKey(), t.newKey(), t.newKey()
	users := t.do("create_users", "ACTIVITY_TYPE_CREATE_USERS_V4", object{"users": []any{
		tagged(newUser("User", kUser)), tagged(newUser("Requester", kRequester)), tagged(newUser("Second", kSecond))}})
	only := t.do("create_api_only_users", "ACTIVITY_TYPE_CREATE_API_ONLY_USERS", object{"apiOnlyUsers": []any{
		object{"userName": "API only", "userTags": []any{}, "apiKeys": []any{object{"apiKeyName": "API only", "publicKey": kAPI.PublicKey}}}}})
	expiring := apiKey("Expiring", kExpired)
	expiring["expirationSeconds"] = "1"
	keys := t.do("create_api_keys", "ACTIVITY_TYPE_CREATE_API_KEYS_V2", object{"userId": t.root.user, "apiKeys": []any{expiring, apiKey("Deleted", kDeleted)}})
	t.do("delete_api_keys", "ACTIVITY_TYPE_DELETE_API_KEYS", object{"userId": t.root.user, "apiKeyIds": []any{rig.Text(keys, "apiKeyIds", "1")}})
	t.second = rig.Text(users, "userIds", "2")
	t.requester = keyed(rig.Text(users, "userIds", "1"), kRequester)
	t.as = map[string]*principal{
		"root":    t.root,
		"user":    keyed(rig.Text(users, "userIds", "0"), kUser),
		"api":     keyed(rig.Text(only, "userIds", "0"), kAPI),
		"expired": keyed(t.root.user, kExpired),
		"deleted": keyed(t.root.user, kDeleted),
	}
	t.passkeys()
	t.sessions()
	return t
}

// raise makes a second root user whose consent everything needs from now on.
func (t *tenant) raise() {
	k := t.newKey()
	r := t.do("create_users", "ACTIVITY_TYPE_CREATE_USERS_V4", object{"users": []any{tagged(newUser("Second root", k))}})
	t.do("update_root_quorum", "ACTIVITY_TYPE_UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{t.root.user, rig.Text(r, "userIds", "0")}})
}

// pending is an activity of asker's that waits for consent: by the fixed second
// user, or by the one named. Its fingerprint is returned.
func (t *tenant) pending(consent string) string {
	allow := func(user string) {
		t.do("create_policy", "ACTIVITY_TYPE_CREATE_POLICY_V3", object{"policyName": t.name("Consent"), "effect": "EFFECT_ALLOW", "notes": "",
			"condition": "activity.resource == 'USER' && activity.action == 'UPDATE'",
			"consensus": fmt.Sprintf("approvers.any(u, u.id == '%s') && approvers.any(u, u.id == '%s')", t.requester.user, user)})
	}
	if consent != "" {
		allow(consent)
	} else {
		t.voting.Do(func() { allow(t.second) })
	}
	r := t.w.send(t.requester, wire.EndpointSubmit, "update_user_name", t.body("ACTIVITY_TYPE_UPDATE_USER_NAME", object{"userId": t.requester.user, "userName": t.name("Requester")}))
	m := r.parse()
	if got := rig.Text(m, "activity", "status"); got != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
		t.w.t.Errorf("fixture: pending activity: %d %s", r.status, r.body)
	}
	return rig.Text(m, "activity", "fingerprint")
}

// ask is a query.
func (t *tenant) ask(p *principal, op string, request object) reply {
	body := object{"organizationId": t.id}
	for k, v := range request {
		body[k] = v
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.w.t.Error(err)
	}
	return t.w.send(p, wire.EndpointQuery, op, b)
}
