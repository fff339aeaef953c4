package linear_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// world is a rig that may be lost and started again, and clients that send the
// same body until they have an answer, as an SDK does.
type world struct {
	t        testing.TB
	o        rig.Options
	cur      atomic.Pointer[rig.Rig]
	began    time.Time
	stamp    atomic.Int64
	slots    chan struct{} // calls in flight
	retries  atomic.Int64
	repeats  atomic.Int64
	deadline time.Time
}

func newWorld(t testing.TB, o rig.Options) *world {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	w := &world{t: t, o: o, began: time.Now(), slots: make(chan struct{}, 512), deadline: time.Now().Add(20 * time.Minute)}
	w.stamp.Store(time.Now().UnixMilli())
	w.cur.Store(rig.Start(t, o))
	return w
}

// lose ends host and enclave as kill -9 would and starts them again.
func (w *world) lose() {
	w.t.Helper()
	w.cur.Swap(nil).Kill()
	w.cur.Store(rig.Start(w.t, w.o))
}

func (w *world) now() int64 { return int64(time.Since(w.began)) }

// tenant is an organization and the key of its root user.
type tenant struct {
	id, root string
	key      laptop.KeyPair
	users    [userCount]string

	mu      sync.Mutex
	wallets []string // ids that were made, deleted ones included
}

func (w *world) rootTenant() *tenant {
	c := w.cur.Load().Credentials
	return &tenant{id: c.OrganizationID, root: c.RootUserID, key: c.RootAPIKey}
}

// tenants are those of organizations.json.
func (w *world) tenants() []*tenant {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.o.Dir, "organizations.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	var all []laptop.Organization
	if err := json.Unmarshal(b, &all); err != nil {
		w.t.Fatal(err)
	}
	ts := make([]*tenant, len(all))
	for i, o := range all {
		ts[i] = &tenant{id: o.OrganizationID, root: o.RootUserID, key: o.RootAPIKey}
	}
	return ts
}

// reply is a final answer.
type reply struct {
	status int
	m      map[string]any
	raw    string
}

// send sends until there is an answer that is not "try again".
func (w *world) send(endpoint wire.Endpoint, op string, body []byte, key laptop.KeyPair) (reply, error) {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		r := w.cur.Load()
		var got *wire.Reply
		err := fmt.Errorf("not running")
		if r != nil {
			w.slots <- struct{}{}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			got, err = r.Send(ctx, endpoint, op, body, key)
			cancel()
			<-w.slots
		}
		if err == nil && got.Status < 500 {
			a := reply{status: int(got.Status), raw: string(got.Body)}
			return a, json.Unmarshal(got.Body, &a.m)
		}
		if err == nil && got.Status != 503 {
			return reply{}, fmt.Errorf("%s: %d %s", op, got.Status, got.Body)
		}
		if time.Now().After(w.deadline) {
			return reply{}, fmt.Errorf("%s: no answer: %v", op, err)
		}
		w.retries.Add(1)
		time.Sleep(pause)
	}
}

// body is a submit body unlike any other.
func (w *world) body(t *tenant, typ string, parameters any) []byte {
	b, err := json.Marshal(map[string]any{"type": typ, "timestampMs": strconv.FormatInt(w.stamp.Add(1), 10), "organizationId": t.id, "parameters": parameters})
	if err != nil {
		panic(err)
	}
	return b
}

func (w *world) submit(t *tenant, op, typ string, parameters any) (reply, error) {
	return w.send(wire.EndpointSubmit, op, w.body(t, typ, parameters), t.key)
}

func (w *world) query(t *tenant, op string, request map[string]any) (reply, error) {
	request["organizationId"] = t.id
	b, err := json.Marshal(request)
	if err != nil {
		return reply{}, err
	}
	return w.send(wire.EndpointQuery, op, b, t.key)
}

// people names the root user and makes the other users, under their first names.
func (w *world) people(t *tenant) error {
	t.users[0] = t.root
	var more []map[string]any
	for i := 1; i < userCount; i++ {
		k, err := laptop.NewKey()
		if err != nil {
			return err
		}
		more = append(more, map[string]any{"userName": firstName(i), "apiKeys": []any{map[string]any{"apiKeyName": "key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}},
			"authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{}})
	}
	r, err := w.submit(t, "create_users", "ACTIVITY_TYPE_CREATE_USERS_V4", map[string]any{"users": more})
	if err != nil || r.status != 200 {
		return fmt.Errorf("create_users: %d %s %v", r.status, r.raw, err)
	}
	for i := 1; i < userCount; i++ {
		t.users[i] = rig.Text(r.m, "activity", "result", "createUsersResult", "userIds", strconv.Itoa(i-1))
	}
	r, err = w.submit(t, "update_user_name", "ACTIVITY_TYPE_UPDATE_USER_NAME", map[string]any{"userId": t.root, "userName": firstName(0)})
	if err != nil || r.status != 200 {
		return fmt.Errorf("update_user_name: %d %s %v", r.status, r.raw, err)
	}
	return nil
}

// noAlarms fails the test when the enclave believes to have caught its host.
func noAlarms(t testing.TB, r *rig.Rig) {
	t.Helper()
	for k, n := range r.Counters() {
		if len(k) > 6 && k[:6] == "alarm_" && n != 0 {
			t.Errorf("%s = %d", k, n)
		}
	}
}
