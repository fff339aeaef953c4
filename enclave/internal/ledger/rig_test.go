package ledger_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret/secrettest"
	"cloister/shared/wire"
)

// realClock is the machine's.
type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// fakeClock stands until it is told to move.
type fakeClock struct {
	mu      sync.Mutex
	now     time.Time
	waiting []waiter
}

type waiter struct {
	at time.Time
	ch chan time.Time
}

func newFakeClock() *fakeClock { return &fakeClock{now: time.Unix(1_700_000_000, 0)} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	c.waiting = append(c.waiting, waiter{c.now.Add(d), ch})
	return ch
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	var keep []waiter
	for _, w := range c.waiting {
		if w.at.After(c.now) {
			keep = append(keep, w)
			continue
		}
		w.ch <- c.now
	}
	c.waiting = keep
}

// rig is one boot on a store.
type rig struct {
	t      testing.TB
	store  *memStore
	l      *ledger.Ledger
	alarms *fault.Alarms
	fences chan error
}

var deployment = sha256.Sum256([]byte("test"))

func storageKey(t testing.TB) *seal.Key {
	k, err := seal.NewKey(secrettest.Of(bytes.Repeat([]byte{1}, seal.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func unstarted(t testing.TB, s *memStore, edit func(*ledger.Config)) *rig {
	r := &rig{t: t, store: s, alarms: new(fault.Alarms), fences: make(chan error, 8)}
	cfg := ledger.Config{Deployment: deployment, Storage: storageKey(t), Store: s, Clock: realClock{}, Rand: rand.Reader, Alarms: r.alarms,
		Fence: func(err error) { r.fences <- err }, Log: secrettest.Of(bytes.Repeat([]byte{2}, 32)), Logged: true, Start: tlog.Start{Seed: "test"}, Limits: ledger.Limits{Lease: time.Minute}}
	_, _ = rand.Read(cfg.Boot[:])
	if edit != nil {
		edit(&cfg)
	}
	r.l = ledger.New(cfg)
	t.Cleanup(r.l.Close)
	return r
}

// start is a boot that owns the store, as if the one before had given it back.
func start(t testing.TB, s *memStore, edit func(*ledger.Config)) *rig {
	t.Helper()
	s.mu.Lock()
	s.row.Released = true
	s.mu.Unlock()
	r := unstarted(t, s, edit)
	if err := r.l.Take(ctx(t), nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return c
}

func orgID(n int) org.ID {
	h := sha256.Sum256(fmt.Appendf(nil, "organization %d", n))
	return org.ID(h[:16])
}

func itemID(n int) org.ID {
	h := sha256.Sum256(fmt.Appendf(nil, "item %d", n))
	return org.ID(h[:16])
}

// child prepares an organization with its record.
func (r *rig) child(id, parent org.ID) *ledger.Child {
	r.t.Helper()
	c, err := r.l.NewChild(id, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.Tx().PutOrganization(&org.Organization{ID: id, Parent: parent, Name: "o"}); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// found makes an organization and waits until it is stored.
func (r *rig) found(id org.ID) {
	r.t.Helper()
	c := r.child(id, org.ID{})
	n, err := r.l.Create(c, &org.Entry{TimeMs: 1}, c.Tx())
	if err == nil {
		err = r.l.Wait(ctx(r.t), n)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// step appends one entry in which change is made.
func (r *rig) step(id org.ID, e *org.Entry, change func(*org.Tx) error) (batch uint64, err error) {
	err = r.l.TransactOne(ctx(r.t), id, func(t *ledger.Locked) error {
		tx := org.Begin(id, t.State, 1)
		if change != nil {
			if err := change(tx); err != nil {
				return err
			}
		}
		t.Touch()
		batch, err = t.Append(e, tx)
		return err
	})
	return batch, err
}

// user puts a user and waits until it is stored.
func (r *rig) user(id org.ID, n int, name string) {
	r.t.Helper()
	batch, err := r.step(id, &org.Entry{Activity: itemID(n), Type: "T", Status: org.StatusCompleted, TimeMs: uint64(n)}, func(tx *org.Tx) error {
		return tx.PutUser(&org.User{ID: itemID(n), Name: name})
	})
	if err == nil {
		err = r.l.Wait(ctx(r.t), batch)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// waitForCapacity waits until there is room for an organization: those that must stay may
// take it all for a while.
func (r *rig) waitForCapacity(id org.ID) {
	r.t.Helper()
	eventually(r.t, func() bool {
		err := r.l.TransactOne(ctx(r.t), id, func(*ledger.Locked) error { return nil })
		return !errors.Is(err, ledger.ErrBusy)
	}, func() string { return fmt.Sprint(r.l.Stats()) })
}

// read answers a user's name.
func (r *rig) read(id org.ID, n int) (name string, err error) {
	err = r.l.TransactOne(ctx(r.t), id, func(t *ledger.Locked) error {
		u, err := org.Begin(id, t.State, 1).User(itemID(n))
		if u != nil {
			name = u.Name
		}
		return err
	})
	return name, err
}

func (r *rig) mustRead(id org.ID, n int, want string) {
	r.t.Helper()
	if got, err := r.read(id, n); err != nil || got != want {
		r.t.Fatalf("user %d is %q, %v; want %q", n, got, err, want)
	}
}

func (r *rig) view(id org.ID) (v *ledger.View) {
	r.t.Helper()
	if err := r.l.TransactOne(ctx(r.t), id, func(t *ledger.Locked) error { v = t.View(); return nil }); err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *rig) tip(id org.ID) (tip ledger.Tip) {
	r.t.Helper()
	if err := r.l.TransactOne(ctx(r.t), id, func(t *ledger.Locked) error { tip = t.Tip(); return nil }); err != nil {
		r.t.Fatal(err)
	}
	return tip
}

// snapshots waits until n snapshots have been delivered.
func (r *rig) snapshots(n uint64) { r.t.Helper(); r.stat("snapshots", n) }

// stat waits until a counter has reached n.
func (r *rig) stat(name string, n uint64) {
	r.t.Helper()
	eventually(r.t, func() bool { return r.l.Stats()[name] >= n }, func() string { return fmt.Sprint(r.l.Stats()) })
}

func eventually(t testing.TB, done func() bool, state func() string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happens: %s", state())
		}
	}
}

// breached tells whether err is a breach of this kind that was counted.
func (r *rig) breached(err error, a fault.Alarm, before map[string]uint64) error {
	var b *fault.Breach
	switch {
	case err == nil:
		return errors.New("believed")
	case !errors.As(err, &b):
		return fmt.Errorf("no breach: %w", err)
	case b.Alarm != a:
		return fmt.Errorf("alarm %s, want %s: %w", b.Alarm, a, err)
	case r.alarms.Counts()[a.String()] == before[a.String()]:
		return errors.New("not counted")
	}
	return nil
}

func (r *rig) quiet() {
	r.t.Helper()
	for name, n := range r.alarms.Counts() {
		if n != 0 {
			r.t.Errorf("%d alarms %q about an honest host", n, name)
		}
	}
	select {
	case err := <-r.fences:
		r.t.Errorf("fenced: %v", err)
	default:
	}
}

func wid(id org.ID) wire.ID { return wire.ID(id) }
