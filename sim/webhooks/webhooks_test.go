package webhooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/host/egress"
	"cloister/host/store"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

type object = map[string]any

// A world is a rig whose host delivers webhooks to this machine.
type world struct {
	*rig.Rig
	t     testing.TB
	dir   string
	store store.Store
	keys  []attestation.WebhookKey

	between func(string) string // host and enclave
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.start()
	return w
}

func (w *world) start() {
	w.Rig = rig.Start(w.t, rig.Options{Dir: w.dir, Store: w.store, Between: w.between, Receivers: &egress.Dialer{Loopback: true}})
	d, err := laptop.DialEnclave(w.t.Context(), w.Address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer d.Close()
	var raw json.RawMessage
	if err := d.Call(w.t.Context(), "webhook_jwks", nil, nil, &raw); err != nil {
		w.t.Fatal(err)
	}
	keys, err := attestation.ParseWebhookKeys(raw)
	if err != nil || len(keys) != 1 {
		w.t.Fatalf("%s: %v", raw, err)
	}
	if w.keys == nil {
		w.keys = keys
	} else if !reflect.DeepEqual(keys, w.keys) {
		w.t.Fatal("another boot has other keys")
	}
}

func (w *world) receiver(manner func(int, int, http.ResponseWriter, *http.Request) bool) *receiver {
	return newReceiver(w.t, func() []attestation.WebhookKey { return w.keys }, manner)
}

// as submits with a key and answers status and reply.
func (w *world) as(key laptop.KeyPair, op string, body []byte) (int, object) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	reply, err := w.Send(ctx, wire.EndpointSubmit, op, body, key)
	if err != nil {
		w.t.Fatal(err)
	}
	var m object
	if err := json.Unmarshal(reply.Body, &m); err != nil {
		w.t.Fatal(err)
	}
	return int(reply.Status), m
}

func (w *world) must(op, typ string, parameters any) object {
	w.t.Helper()
	status, m := w.Submit(op, "ACTIVITY_TYPE_"+typ, parameters)
	if status != 200 {
		w.t.Fatalf("%s: %d %v", op, status, m)
	}
	return m
}

var updates = []object{{"eventType": "ACTIVITY_UPDATES"}}

// subscribe makes an endpoint and answers its id.
func (w *world) subscribe(name, url string) string {
	w.t.Helper()
	m := w.must("create_webhook_endpoint", "CREATE_WEBHOOK_ENDPOINT", object{"name": name, "url": url, "subscriptions": updates})
	return rig.Text(m, "activity", "result", "createWebhookEndpointResult", "endpointId")
}

func (w *world) tag(name string) object {
	w.t.Helper()
	return w.must("create_user_tag", "CREATE_USER_TAG", object{"userTagName": name, "userIds": []string{}})
}

// child makes a sub-organization with a root user of this key.
func (w *world) child(name string) (id string, key laptop.KeyPair) {
	w.t.Helper()
	key, err := laptop.NewKey()
	if err != nil {
		w.t.Fatal(err)
	}
	m := w.must("create_sub_organization", "CREATE_SUB_ORGANIZATION_V8", object{"subOrganizationName": name, "rootQuorumThreshold": 1, "rootUsers": []object{{
		"userName": "Root", "authenticators": []any{}, "oauthProviders": []any{},
		"apiKeys": []object{{"apiKeyName": "key", "publicKey": key.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}})
	return rig.Text(m, "activity", "result", "createSubOrganizationResultV8", "subOrganizationId"), key
}

func (w *world) tagIn(organization string, key laptop.KeyPair, name string) object {
	w.t.Helper()
	status, m := w.as(key, "create_user_tag", w.BodyOf(organization, "ACTIVITY_TYPE_CREATE_USER_TAG", object{"userTagName": name, "userIds": []string{}}))
	if status != 200 {
		w.t.Fatalf("%d %v", status, m)
	}
	return m
}

func activityOf(m object) string { return rig.Text(m, "activity", "id") }

// TestEvents: who has subscribed hears of each activity, as an answer shows it.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	r := w.receiver(nil)
	endpoint := w.subscribe("First", r.URL+"/hook?secret=1")
	made := r.until(1)[0]
	if rig.Text(made.body, "type") != "ACTIVITY_TYPE_CREATE_WEBHOOK_ENDPOINT" {
		t.Errorf("%v", made.body)
	}
	m := w.tag("One")
	e := r.until(2)[1]
	want := m["activity"].(object)
	got := e.body
	for _, differs := range []string{"canApprove", "canReject"} { // the caller's; of a receiver: whether it is open
		if got[differs] != false {
			t.Errorf("%s is %v", differs, got[differs])
		}
		delete(want, differs)
		delete(got, differs)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("body %v\nanswer %v", got, want)
	}
	for name, want := range map[string]string{"X-Turnkey-Organization-Id": w.Credentials.OrganizationID, "X-Turnkey-Event-Type": "ACTIVITY_UPDATES", "X-Turnkey-Webhook-Version": "1",
		"Content-Type": "application/json"} {
		if e.head.Get(name) != want {
			t.Errorf("%s: %s", name, e.head.Get(name))
		}
	}
	// A refusal is an activity that failed.
	if status, m := w.Submit("create_user_tag", "ACTIVITY_TYPE_CREATE_USER_TAG", object{"userTagName": "One", "userIds": []string{}}); status != 400 {
		t.Fatalf("%d %v", status, m)
	}
	if e := r.until(3)[2]; e.status != "ACTIVITY_STATUS_FAILED" || rig.Text(e.body, "failure", "code") != "3" {
		t.Errorf("%v", e.body)
	}
	// The same body again, and one that makes no activity, are no events.
	body := w.Body("ACTIVITY_TYPE_CREATE_USER_TAG", object{"userTagName": "Two", "userIds": []string{}})
	for range 3 {
		w.SubmitBody("create_user_tag", body)
	}
	w.Submit("create_user_tag", "ACTIVITY_TYPE_CREATE_USER_TAG", object{"userTagName": 7})
	w.Query("whoami", nil)
	r.until(4)
	// Not active: nothing. Active again: what happens from then on.
	set := func(p object) {
		p["endpointId"] = endpoint
		w.must("update_webhook_endpoint", "UPDATE_WEBHOOK_ENDPOINT", p)
	}
	set(object{"isActive": false})
	w.tag("Three")
	set(object{"isActive": true})
	r.until(5)
	other := w.receiver(nil)
	set(object{"url": other.URL, "name": "Second"})
	w.tag("Four")
	other.until(2)
	list := func() []any {
		_, m := w.Query("list_webhook_endpoints", nil)
		return m["webhookEndpoints"].([]any)
	}
	wantList := []any{object{"endpointId": endpoint, "organizationId": w.Credentials.OrganizationID, "url": other.URL, "name": "Second", "isActive": true,
		"subscriptions": []any{object{"eventType": "ACTIVITY_UPDATES", "isActive": true}}}}
	if got := list(); !reflect.DeepEqual(got, wantList) {
		t.Errorf("%v", got)
	}
	w.must("delete_webhook_endpoint", "DELETE_WEBHOOK_ENDPOINT", object{"endpointId": endpoint})
	w.tag("Five")
	if got := list(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	time.Sleep(200 * time.Millisecond)
	r.until(5)
	other.until(2)
	for k, n := range w.Counters() {
		if strings.HasPrefix(k, "alarm_") && n != 0 {
			t.Errorf("%s = %d", k, n)
		}
	}
}

// TestLargeEvent: what fits into an activity arrives.
func TestLargeEvent(t *testing.T) {
	w := newWorld(t)
	r := w.receiver(nil)
	w.subscribe("One", r.URL)
	text := "[" + strings.Repeat(" ", 390_000) + `{"type":"receive"}]`
	m := w.must("create_smart_contract_interface", "CREATE_SMART_CONTRACT_INTERFACE", object{"smartContractAddress": "0x000000000000000000000000000000000000dEaD",
		"smartContractInterface": text, "type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "label": "Large"})
	e := r.until(2)[1]
	if e.activity != activityOf(m) || rig.Text(e.body, "intent", "createSmartContractInterfaceIntent", "smartContractInterface") != text {
		t.Errorf("another event than %s", activityOf(m))
	}
}

// TestFeature: the feature's URL hears of the organization and of those below it.
func TestFeature(t *testing.T) {
	w := newWorld(t)
	r := w.receiver(nil)
	set := func(url string) {
		w.must("set_organization_feature", "SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_WEBHOOK", "value": url})
	}
	child, key := w.child("Child")
	w.tagIn(child, key, "Before") // the enclave remembers that nobody hears of it
	set(r.URL)
	set(r.URL)
	a, b := activityOf(w.tag("One")), activityOf(w.tagIn(child, key, "Two"))
	events := r.until(4)
	of := map[string]string{}
	for _, e := range events {
		of[e.activity] = e.organization
	}
	if of[a] != w.Credentials.OrganizationID || of[b] != child {
		t.Errorf("%v", of)
	}
	w.must("remove_organization_feature", "REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_WEBHOOK"})
	w.tag("Three")
	w.tagIn(child, key, "Four")
	time.Sleep(200 * time.Millisecond)
	r.until(4)
}

// TestSubOrganizations: a parent's endpoint hears of all below it, a
// sub-organization's of its own only.
func TestSubOrganizations(t *testing.T) {
	w := newWorld(t)
	top, below := w.receiver(nil), w.receiver(nil)
	first, firstKey := w.child("First")
	second, secondKey := w.child("Second")
	w.subscribe("Top", top.URL)
	status, m := w.as(firstKey, "create_webhook_endpoint", w.BodyOf(first, "ACTIVITY_TYPE_CREATE_WEBHOOK_ENDPOINT", object{"name": "Own", "url": below.URL, "subscriptions": updates}))
	if status != 200 {
		t.Fatalf("%d %v", status, m)
	}
	for i := range 5 {
		w.tag(fmt.Sprint("t", i))
		w.tagIn(first, firstKey, fmt.Sprint("a", i))
		w.tagIn(second, secondKey, fmt.Sprint("b", i))
	}
	events := top.until(17) // the endpoints themselves, and three times five
	ids := map[string]string{}
	for _, e := range events {
		ids[e.activity] = e.id
	}
	for _, e := range below.until(6) {
		if e.organization != first || ids[e.activity] != e.id {
			t.Errorf("event %s of %s: %v", e.id, e.organization, e.body)
		}
	}
	// What leaves with its sub-organization is heard of above, and below no more.
	status, m = w.as(firstKey, "delete_sub_organization", w.BodyOf(first, "ACTIVITY_TYPE_DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true}))
	if status != 200 {
		t.Fatalf("%d %v", status, m)
	}
	top.until(18)
	time.Sleep(100 * time.Millisecond)
	below.until(6)
	for _, c := range []struct {
		organization string
		key          laptop.KeyPair
		eventType    string
		status       int
		says         string
	}{
		{second, secondKey, "SEND_TRANSACTION_STATUS_UPDATES", 403, "ACTIVITY_UPDATES only"},
		{second, secondKey, "BALANCE_CONFIRMED_UPDATES", 403, "ACTIVITY_UPDATES only"},
		{second, secondKey, "NOTHING", 400, "invalid event type"},
		{w.Credentials.OrganizationID, w.Credentials.RootAPIKey, "SEND_TRANSACTION_STATUS_UPDATES", 501, "UNIMPLEMENTED"},
	} {
		status, m := w.as(c.key, "create_webhook_endpoint", w.BodyOf(c.organization, "ACTIVITY_TYPE_CREATE_WEBHOOK_ENDPOINT",
			object{"name": "X", "url": below.URL, "subscriptions": []object{{"eventType": c.eventType}}}))
		if status != c.status || !strings.Contains(rig.Text(m, "message"), c.says) {
			t.Errorf("%s: %d %v", c.eventType, status, m)
		}
	}
}

// TestVotes: each step of an activity is an event, in order, and each vote one of its
// own.
func TestVotes(t *testing.T) {
	w := newWorld(t)
	var first atomic.Bool
	r := w.receiver(func(_, _ int, x http.ResponseWriter, _ *http.Request) bool { // the first step comes through late
		if first.CompareAndSwap(true, false) {
			x.WriteHeader(500)
			return true
		}
		return false
	})
	key, err := laptop.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	m := w.must("create_users", "CREATE_USERS_V4", object{"users": []object{{"userName": "Agent", "userTags": []string{}, "authenticators": []any{}, "oauthProviders": []any{},
		"apiKeys": []object{{"apiKeyName": "key", "publicKey": key.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}})
	agent := rig.Text(m, "activity", "result", "createUsersResult", "userIds", "0")
	w.must("create_policy", "CREATE_POLICY_V3", object{"policyName": "p", "effect": "EFFECT_ALLOW", "notes": "", "condition": "true",
		"consensus": fmt.Sprintf("approvers.any(u, u.id == '%s') && approvers.count() > 1", agent)})
	w.subscribe("Top", r.URL)
	r.until(1)
	first.Store(true)
	status, m := w.as(key, "create_user_tag", w.Body("ACTIVITY_TYPE_CREATE_USER_TAG", object{"userTagName": "Wanted", "userIds": []string{}}))
	if status != 200 || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
		t.Fatalf("%d %v", status, m)
	}
	target := activityOf(m)
	w.must("approve_activity", "APPROVE_ACTIVITY", object{"fingerprint": rig.Text(m, "activity", "fingerprint")})
	var statuses []string
	votes := 0
	for _, e := range r.until(4)[1:] {
		if e.activity != target {
			votes++
			if rig.Text(e.body, "type") != "ACTIVITY_TYPE_APPROVE_ACTIVITY" || e.status != "ACTIVITY_STATUS_COMPLETED" {
				t.Errorf("%v", e.body)
			}
			continue
		}
		statuses = append(statuses, e.status)
		if open := e.status == "ACTIVITY_STATUS_CONSENSUS_NEEDED"; e.body["canApprove"] != open || e.body["canReject"] != open {
			t.Errorf("%v", e.body)
		}
	}
	if votes != 1 || fmt.Sprint(statuses) != "[ACTIVITY_STATUS_CONSENSUS_NEEDED ACTIVITY_STATUS_COMPLETED]" {
		t.Errorf("%d votes, %v", votes, statuses)
	}
}
