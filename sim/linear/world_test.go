package linear_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/sim/client"
	"cloister/sim/rig"
)

// world is a rig that may be lost and started again, and clients that send the
// same body until they have an answer, as an SDK does.
type world struct {
	t        testing.TB
	o        rig.Options
	cur      atomic.Pointer[rig.Rig]
	began    time.Time
	times    client.Times
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

// tenant is an organization and its root user.
type tenant struct {
	*client.Client
	users [userCount]string

	mu      sync.Mutex
	wallets []string // ids that were made, deleted ones included
}

func (w *world) tenant(u *client.User) *tenant {
	c := u.Client.As(u.Organization, u.User, u.Key)
	c.Send, c.Times = w.send, &w.times
	return &tenant{Client: c}
}

func (w *world) rootTenant() *tenant { return w.tenant(w.cur.Load().Root()) }

// tenants are the other organizations.
func (w *world) tenants() (all []*tenant) {
	w.t.Helper()
	for _, u := range w.cur.Load().Others() {
		all = append(all, w.tenant(u))
	}
	return all
}

// send sends until there is an answer that is not "try again".
func (w *world) send(_ context.Context, q *client.Request) (client.Reply, error) {
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		r := w.cur.Load()
		var got client.Reply
		err := fmt.Errorf("not running")
		if r != nil {
			w.slots <- struct{}{}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			got, err = client.Link(r.Link)(ctx, q)
			cancel()
			<-w.slots
		}
		if err == nil && got.Status < 500 {
			return got, json.Unmarshal(got.Body, new(client.Object))
		}
		if err == nil && got.Status != 503 {
			return got, fmt.Errorf("%s: %v", q.Op, got)
		}
		if time.Now().After(w.deadline) {
			return got, fmt.Errorf("%s: no answer: %v", q.Op, err)
		}
		w.retries.Add(1)
		time.Sleep(pause)
	}
}

// people names the root user and makes the other users, under their first names.
func (t *tenant) people() error {
	t.users[0] = t.User
	var more []client.Object
	for i := 1; i < userCount; i++ {
		more = append(more, client.NewUser(firstName(i), client.NewKey()))
	}
	made, err := t.Do(context.Background(), "CREATE_USERS_V4", client.Users(more...))
	if err != nil {
		return err
	}
	for i := 1; i < userCount; i++ {
		t.users[i] = client.Text(made, "userIds", strconv.Itoa(i-1))
	}
	_, err = t.Do(context.Background(), "UPDATE_USER_NAME", client.Object{"userId": t.User, "userName": firstName(0)})
	return err
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
