package webhooks_test

import (
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
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

type object = map[string]any

// A world is the root user of a rig whose host delivers webhooks to this machine.
type world struct {
	*client.User
	rig   *rig.Rig
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
	w.rig = rig.Start(w.t, rig.Options{Dir: w.dir, Store: w.store, Between: w.between, Receivers: &egress.Dialer{Loopback: true}})
	w.User = w.rig.Root()
	d, err := laptop.DialEnclave(w.t.Context(), w.rig.Address)
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

var updates = []object{{"eventType": "ACTIVITY_UPDATES"}}

// subscribe makes an endpoint and answers its id.
func subscribe(u *client.User, name, url string) string {
	u.Test.Helper()
	return client.Text(u.Do("CREATE_WEBHOOK_ENDPOINT", object{"name": name, "url": url, "subscriptions": updates}), "endpointId")
}

// tag makes a user tag and answers the activity's id.
func tag(u *client.User, name string) string {
	u.Test.Helper()
	r := u.Submit("CREATE_USER_TAG", client.Tag(name))
	if !r.Completed() {
		u.Test.Fatal(r)
	}
	return r.Text("activity", "id")
}

// TestEvents: who has subscribed hears of each activity, as an answer shows it.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	r := w.receiver(nil)
	endpoint := subscribe(w.User, "First", r.URL+"/hook?secret=1")
	made := r.until(1)[0]
	if client.Text(made.body, "type") != "ACTIVITY_TYPE_CREATE_WEBHOOK_ENDPOINT" {
		t.Errorf("%v", made.body)
	}
	m := w.Submit("CREATE_USER_TAG", client.Tag("One"))
	if !m.Completed() {
		t.Fatal(m)
	}
	e := r.until(2)[1]
	want := m.Get("activity").(object)
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
	for name, want := range map[string]string{"X-Turnkey-Organization-Id": w.Organization, "X-Turnkey-Event-Type": "ACTIVITY_UPDATES", "X-Turnkey-Webhook-Version": "1",
		"Content-Type": "application/json"} {
		if e.head.Get(name) != want {
			t.Errorf("%s: %s", name, e.head.Get(name))
		}
	}
	// A refusal is an activity that failed.
	if m := w.Submit("CREATE_USER_TAG", client.Tag("One")); m.Status != 400 {
		t.Fatal(m)
	}
	if e := r.until(3)[2]; e.status != "ACTIVITY_STATUS_FAILED" || client.Text(e.body, "failure", "code") != "3" {
		t.Errorf("%v", e.body)
	}
	// The same body again, and one that makes no activity, are no events.
	body := w.Body("CREATE_USER_TAG", client.Tag("Two"))
	for range 3 {
		w.Post(wire.EndpointSubmit, "create_user_tag", body)
	}
	w.Submit("CREATE_USER_TAG", object{"userTagName": 7})
	w.Query("whoami", nil)
	r.until(4)
	// Not active: nothing. Active again: what happens from then on.
	set := func(p object) {
		p["endpointId"] = endpoint
		w.Do("UPDATE_WEBHOOK_ENDPOINT", p)
	}
	set(object{"isActive": false})
	tag(w.User, "Three")
	set(object{"isActive": true})
	r.until(5)
	other := w.receiver(nil)
	set(object{"url": other.URL, "name": "Second"})
	tag(w.User, "Four")
	other.until(2)
	list := func() []any { return w.Query("list_webhook_endpoints", nil).Get("webhookEndpoints").([]any) }
	wantList := []any{object{"endpointId": endpoint, "organizationId": w.Organization, "url": other.URL, "name": "Second", "isActive": true,
		"subscriptions": []any{object{"eventType": "ACTIVITY_UPDATES", "isActive": true}}}}
	if got := list(); !reflect.DeepEqual(got, wantList) {
		t.Errorf("%v", got)
	}
	w.Do("DELETE_WEBHOOK_ENDPOINT", object{"endpointId": endpoint})
	tag(w.User, "Five")
	if got := list(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	time.Sleep(200 * time.Millisecond)
	r.until(5)
	other.until(2)
	for k, n := range w.rig.Counters() {
		if strings.HasPrefix(k, "alarm_") && n != 0 {
			t.Errorf("%s = %d", k, n)
		}
	}
}

// TestLargeEvent: what fits into an activity arrives.
func TestLargeEvent(t *testing.T) {
	w := newWorld(t)
	r := w.receiver(nil)
	subscribe(w.User, "One", r.URL)
	text := "[" + strings.Repeat(" ", 390_000) + `{"type":"receive"}]`
	m := w.Submit("CREATE_SMART_CONTRACT_INTERFACE", object{"smartContractAddress": "0x000000000000000000000000000000000000dEaD",
		"smartContractInterface": text, "type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "label": "Large"})
	if !m.Completed() {
		t.Fatal(m)
	}
	e := r.until(2)[1]
	if id := m.Text("activity", "id"); e.activity != id || client.Text(e.body, "intent", "createSmartContractInterfaceIntent", "smartContractInterface") != text {
		t.Errorf("another event than %s", id)
	}
}

// TestFeature: the feature's URL hears of the organization and of those below it.
func TestFeature(t *testing.T) {
	w := newWorld(t)
	r := w.receiver(nil)
	set := func(url string) {
		w.Do("SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_WEBHOOK", "value": url})
	}
	child := w.NewSubOrganization("Child")
	tag(child, "Before") // the enclave remembers that nobody hears of it
	set(r.URL)
	set(r.URL)
	a, b := tag(w.User, "One"), tag(child, "Two")
	events := r.until(4)
	of := map[string]string{}
	for _, e := range events {
		of[e.activity] = e.organization
	}
	if of[a] != w.Organization || of[b] != child.Organization {
		t.Errorf("%v", of)
	}
	w.Do("REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_WEBHOOK"})
	tag(w.User, "Three")
	tag(child, "Four")
	time.Sleep(200 * time.Millisecond)
	r.until(4)
}

// TestSubOrganizations: a parent's endpoint hears of all below it, a
// sub-organization's of its own only.
func TestSubOrganizations(t *testing.T) {
	w := newWorld(t)
	top, below := w.receiver(nil), w.receiver(nil)
	first, second := w.NewSubOrganization("First"), w.NewSubOrganization("Second")
	subscribe(w.User, "Top", top.URL)
	subscribe(first, "Own", below.URL)
	for i := range 5 {
		tag(w.User, fmt.Sprint("t", i))
		tag(first, fmt.Sprint("a", i))
		tag(second, fmt.Sprint("b", i))
	}
	events := top.until(17) // the endpoints themselves, and three times five
	ids := map[string]string{}
	for _, e := range events {
		ids[e.activity] = e.id
	}
	for _, e := range below.until(6) {
		if e.organization != first.Organization || ids[e.activity] != e.id {
			t.Errorf("event %s of %s: %v", e.id, e.organization, e.body)
		}
	}
	// What leaves with its sub-organization is heard of above, and below no more.
	first.Do("DELETE_SUB_ORGANIZATION", object{"deleteWithoutExport": true})
	top.until(18)
	time.Sleep(100 * time.Millisecond)
	below.until(6)
	for _, c := range []struct {
		by        *client.User
		eventType string
		status    int
		says      string
	}{
		{second, "SEND_TRANSACTION_STATUS_UPDATES", 403, "ACTIVITY_UPDATES only"},
		{second, "BALANCE_CONFIRMED_UPDATES", 403, "ACTIVITY_UPDATES only"},
		{second, "NOTHING", 400, "invalid event type"},
		{w.User, "SEND_TRANSACTION_STATUS_UPDATES", 501, "UNIMPLEMENTED"},
	} {
		m := c.by.Submit("CREATE_WEBHOOK_ENDPOINT", object{"name": "X", "url": below.URL, "subscriptions": []object{{"eventType": c.eventType}}})
		if m.Status != c.status || !strings.Contains(m.Text("message"), c.says) {
			t.Errorf("%s: %v", c.eventType, m)
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
	agent := w.NewUser("Agent")
	w.Do("CREATE_POLICY_V3", client.Policy("p", "ALLOW", "true", fmt.Sprintf("approvers.any(u, u.id == '%s') && approvers.count() > 1", agent.User)))
	subscribe(w.User, "Top", r.URL)
	r.until(1)
	first.Store(true)
	m := agent.Submit("CREATE_USER_TAG", client.Tag("Wanted"))
	if m.Status != 200 || m.State() != "CONSENSUS_NEEDED" {
		t.Fatal(m)
	}
	target := m.Text("activity", "id")
	shown := w.User.Query("get_activity", object{"activityId": target})
	w.Do("APPROVE_ACTIVITY", object{"fingerprint": m.Text("activity", "fingerprint")})
	var statuses []string
	votes := 0
	for _, e := range r.until(4)[1:] {
		if e.activity != target {
			votes++
			if client.Text(e.body, "type") != "ACTIVITY_TYPE_APPROVE_ACTIVITY" || e.status != "ACTIVITY_STATUS_COMPLETED" {
				t.Errorf("%v", e.body)
			}
			continue
		}
		statuses = append(statuses, e.status)
		if open := e.status == "ACTIVITY_STATUS_CONSENSUS_NEEDED"; e.body["canApprove"] != open || e.body["canReject"] != open {
			t.Errorf("%v", e.body)
		} else if want := shown.Get("activity", "decoded"); open && (want == nil || !reflect.DeepEqual(e.body["decoded"], want) || e.body["decodedDigest"] != shown.Text("activity", "decodedDigest")) ||
			!open && e.body["decoded"] != nil {
			t.Errorf("approvers are shown %v, and the event says %v", want, e.body)
		}
	}
	if votes != 1 || fmt.Sprint(statuses) != "[ACTIVITY_STATUS_CONSENSUS_NEEDED ACTIVITY_STATUS_COMPLETED]" {
		t.Errorf("%d votes, %v", votes, statuses)
	}
}
