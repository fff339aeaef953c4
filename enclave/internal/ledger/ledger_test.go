package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// tiny makes the ledger keep one organization at a time.
func tiny(c *ledger.Config) { c.Limits.StateBytes = 1 }

func every(n int) func(*ledger.Config) {
	return func(c *ledger.Config) { c.Limits.SnapshotEvery = n }
}

func TestDecideStoreReopen(t *testing.T) {
	s := newStore()
	r := start(t, s, tiny)
	for o := range 5 {
		r.found(orgID(o))
	}
	for i := range 50 {
		r.user(orgID(i%5), i, fmt.Sprint("name ", i))
	}
	for i := range 50 {
		r.mustRead(orgID(i%5), i, fmt.Sprint("name ", i))
		r.mustRead(orgID(i%5), i+1, "")
	}
	st := r.l.Stats()
	if st["organization_evictions"] < 50 || st["organization_loads"] < 50 || st["organizations_open"] > 2 || st["tips"] != 5 {
		t.Fatal(st)
	}
	r.quiet()
	tip := r.tip(orgID(3))
	r.l.Close()
	r = start(t, s, nil)
	if got := r.tip(orgID(3)); got != tip || got.Count != 11 {
		t.Fatalf("tip %v, was %v", got, tip)
	}
	for i := range 50 {
		r.mustRead(orgID(i%5), i, fmt.Sprint("name ", i))
	}
	if r.l.BootNumber() != 2 {
		t.Fatalf("boot number %d", r.l.BootNumber())
	}
	r.quiet()
}

func TestRootIsThatOfTheStoredLeaves(t *testing.T) {
	s := newStore()
	r := start(t, s, every(4))
	r.found(orgID(1))
	for i := range 40 {
		r.user(orgID(1), i, "x")
		s.mu.Lock()
		want := rootOf(leaves(s.of(wid(orgID(1))).entries))
		s.mu.Unlock()
		if tip := r.tip(orgID(1)); tip.Root != want || tip.Count != uint64(i+2) {
			t.Fatalf("after %d entries the root is another", tip.Count)
		}
	}
}

func TestUnknownOrganization(t *testing.T) {
	r := start(t, newStore(), nil)
	for range 3 {
		if _, err := r.read(org.ID{}, 1); !errors.Is(err, ledger.ErrNoOrganization) { // nobody's id, and nobody's parent's
			t.Errorf("the zero id: %v", err)
		}
		if _, err := r.read(orgID(1), 1); !errors.Is(err, ledger.ErrNoOrganization) {
			t.Fatal(err)
		}
	}
	if st := r.l.Stats(); st["tips"] != 0 || st["organizations_open"] != 0 {
		t.Fatal(st)
	}
}

func TestGivenUpWithoutEffect(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(1))
	tip := r.tip(orgID(1))
	no := errors.New("no")
	if _, err := r.step(orgID(1), &org.Entry{}, func(tx *org.Tx) error {
		_ = tx.PutUser(&org.User{ID: itemID(1), Name: "ghost"})
		return no
	}); !errors.Is(err, no) {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = r.l.TransactOne(ctx(t), orgID(1), func(t *ledger.Locked) error { panic("a bug") })
	}()
	for name, change := range map[string]func(*org.Tx) error{
		"a record too large": func(tx *org.Tx) error {
			return tx.PutUser(&org.User{ID: itemID(1), Name: strings.Repeat("x", org.MaxValue)})
		},
		"a body too large": func(tx *org.Tx) error { return nil },
	} {
		e := &org.Entry{}
		if strings.HasPrefix(name, "a body") {
			e.Body = make([]byte, wire.MaxSealed)
		}
		if _, err := r.step(orgID(1), e, change); err == nil {
			t.Errorf("%s: decided", name)
		}
	}
	r.mustRead(orgID(1), 1, "")
	if r.tip(orgID(1)) != tip {
		t.Fatal("the tip has moved")
	}
	r.user(orgID(1), 2, "and on it goes")
	r.l.Close()
	r = start(t, s, nil)
	r.mustRead(orgID(1), 1, "")
	r.mustRead(orgID(1), 2, "and on it goes")
}

func TestEntryWritesAreTheState(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(1))
	n := uint64(0)
	err := r.l.TransactOne(ctx(t), orgID(1), func(t *ledger.Locked) (err error) {
		n, err = t.Append(&org.Entry{Writes: []org.Write{{Key: []byte("Bghost"), Value: []byte{1}}}}, nil)
		return err
	})
	if err == nil {
		err = r.l.Wait(ctx(t), n)
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.view(orgID(1)).Entry(ctx(t), 1)
	if err != nil || len(e.Writes) != 0 {
		t.Fatalf("an entry tells of %d writes that its turn did not make; %v", len(e.Writes), err)
	}
}

func TestTwoFoundOneOrganization(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	a, b := r.child(orgID(1), org.ID{}), r.child(orgID(1), org.ID{})
	if _, err := r.l.Create(a, &org.Entry{}, a.Tx()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.l.Create(b, &org.Entry{}, b.Tx()); !errors.Is(err, ledger.ErrBusy) {
		t.Fatal(err)
	}
	// Nor as somebody's child.
	r.found(orgID(2))
	err := r.l.TransactOne(ctx(t), orgID(2), func(locked *ledger.Locked) error {
		_, err := locked.Append(&org.Entry{}, nil, ledger.Addition{Entry: &org.Entry{}, Tx: b.Tx(), Child: b})
		return err
	})
	if !errors.Is(err, ledger.ErrBusy) || r.tip(orgID(2)).Count != 1 || r.tip(orgID(1)).Count != 1 {
		t.Fatalf("a second one is made: %v", err)
	}
	r.quiet()
}

func TestSnapshotCadence(t *testing.T) {
	s := newStore()
	r := start(t, s, every(4))
	r.found(orgID(1))
	for i := range 11 {
		r.user(orgID(1), i, "x")
		r.snapshots(uint64(i+2) / 4) // the first entry of an organization counts too
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of(wid(orgID(1)))
	var at []uint64
	for _, p := range o.history {
		at = append(at, p.Count)
	}
	if !slices.Equal(at, []uint64{4, 8, 12}) {
		t.Fatalf("snapshots cover %v", at)
	}
	if len(o.pieces) != 1 {
		t.Fatalf("%d pieces kept", len(o.pieces))
	}
}

// A snapshot is of stored entries only, and goes out when the batch is stored.
func TestSnapshotWaitsForItsEntries(t *testing.T) {
	s := newStore()
	r := start(t, s, every(2))
	r.found(orgID(1))
	hold := make(chan struct{})
	s.lie(hooks{append: func(c context.Context, _ *wire.Batch, honest func() wire.Stored) (wire.Stored, error) {
		select {
		case <-hold:
			return honest(), nil
		case <-c.Done():
			return wire.Stored{}, c.Err()
		}
	}, put: func(_ context.Context, _ wire.PutSnapshot, honest func() wire.Done) (wire.Done, error) {
		select {
		case <-hold:
		default:
			t.Error("a snapshot of entries that are not stored")
		}
		return honest(), nil
	}})
	if _, err := r.step(orgID(1), &org.Entry{}, nil); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		_ = r.tip(orgID(1))
	}
	close(hold)
	r.snapshots(1)
}

// world is many organizations and what they must hold.
type world struct {
	t     *testing.T
	r     *rand.Rand
	users map[org.ID]map[org.ID]string
	kids  map[org.ID]map[org.ID]string
	creds map[org.ID]map[org.ID]bool
	count map[org.ID]uint64
}

// random is one entry with random puts and deletes.
func (w *world) random(r *rig, id org.ID, last *uint64) {
	var users, kids map[org.ID]string
	var creds map[org.ID]bool
	seed := w.r.Int63()
	body := make([]byte, w.r.Intn(300))
	r.waitForCapacity(id)
	n, err := r.step(id, &org.Entry{Body: body}, func(tx *org.Tx) error {
		rnd := rand.New(rand.NewSource(seed)) // the same again when a piece was missing
		users, kids, creds = maps.Clone(w.users[id]), maps.Clone(w.kids[id]), maps.Clone(w.creds[id])
		for range rnd.Intn(5) {
			x := itemID(rnd.Intn(200))
			text := strings.Repeat(fmt.Sprint(rnd.Intn(1000)), 1+rnd.Intn(60))
			switch rnd.Intn(5) {
			case 0:
				tx.DeleteUser(x)
				delete(users, x)
			case 1:
				if err := tx.PutUser(&org.User{ID: x, Name: text}); err != nil {
					return err
				}
				users[x] = text
			case 2:
				tx.DeleteChildKey(org.ChildProven, "k", &org.Child{ID: x}, org.ID{})
				delete(creds, x)
			case 3:
				if err := tx.PutChildKey(org.ChildProven, "k", &org.Child{ID: x}, org.ID{}); err != nil {
					return err
				}
				creds[x] = true
			default:
				text = strings.Repeat(text, 1+rnd.Intn(200))
				if c, err := tx.Child(x); err != nil || (c != nil) != (kids[x] != "") {
					return fmt.Errorf("child: %w", err)
				}
				if err := tx.PutChild(&org.Child{ID: x, Name: text}); err != nil {
					return err
				}
				kids[x] = text
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.users[id], w.kids[id], w.creds[id] = users, kids, creds
	w.count[id]++
	*last = n
}

// check holds an organization against the plain maps.
func (w *world) check(r *rig, id org.ID) {
	w.t.Helper()
	r.waitForCapacity(id)
	var users, kids, creds int
	err := r.l.TransactOne(ctx(w.t), id, func(t *ledger.Locked) error {
		tx := org.Begin(id, t.State, 1)
		users, kids, creds = 0, 0, 0
		if t.Tip().Count != w.count[id] {
			return fmt.Errorf("%d entries, want %d", t.Tip().Count, w.count[id])
		}
		if err := tx.EachUser(func(u *org.User) bool {
			if w.users[id][u.ID] == u.Name {
				users++
			}
			return true
		}); err != nil {
			return err
		}
		for x, name := range w.kids[id] {
			if c, err := tx.Child(x); err != nil || c == nil || c.Name != name {
				return fmt.Errorf("child %s: %w", x, err)
			}
			kids++
		}
		ids, err := tx.ChildrenBy(org.ChildProven, "k", nil, 1000)
		creds = len(ids)
		return err
	})
	if err != nil || users != len(w.users[id]) || kids != len(w.kids[id]) || creds != len(w.creds[id]) {
		w.t.Fatalf("%d users, %d children, %d credentials, want %d, %d, %d; %v", users, kids, creds, len(w.users[id]), len(w.kids[id]), len(w.creds[id]), err)
	}
}

func TestRandomHistoriesAcrossBoots(t *testing.T) {
	w := &world{t: t, r: rand.New(rand.NewSource(1)), users: map[org.ID]map[org.ID]string{}, kids: map[org.ID]map[org.ID]string{}, creds: map[org.ID]map[org.ID]bool{}, count: map[org.ID]uint64{}}
	s := newStore()
	ids := []org.ID{orgID(0), orgID(1), orgID(2)}
	boots := 10
	for boot := range boots {
		r := start(t, s, func(c *ledger.Config) {
			c.Limits.SnapshotEvery = 4 + 30*(boot%3)
			c.Limits.StateBytes = []int64{1, 40_000, 1 << 30}[boot%3]
		})
		if boot == 0 {
			for _, id := range ids {
				r.found(id)
				w.users[id], w.kids[id], w.creds[id], w.count[id] = map[org.ID]string{}, map[org.ID]string{}, map[org.ID]bool{}, 1
			}
		}
		var last uint64
		for i := range 3000 / boots {
			id := ids[w.r.Intn(3)]
			if w.r.Intn(20) == 0 { // stay with one for a while, unstored
				for range 10 {
					w.random(r, id, &last)
				}
			}
			w.random(r, id, &last)
			if err := r.l.Wait(ctx(t), last); err != nil {
				t.Fatal(err)
			}
			if i%50 == 0 {
				w.check(r, ids[w.r.Intn(3)])
			}
		}
		if boot%2 == 0 {
			if err := r.l.Release(ctx(t)); err != nil {
				t.Fatal(err)
			}
		}
		r.quiet()
		r.l.Close()
	}
	s.mu.Lock()
	taken := 0
	for _, o := range s.orgs {
		taken += len(o.history)
		if o.covers == 0 {
			t.Error("an organization without a snapshot")
		}
	}
	s.mu.Unlock()
	if taken < 50 {
		t.Fatalf("%d snapshots", taken)
	}
	r := start(t, s, every(1<<30))
	for _, id := range ids {
		w.check(r, id)
	}
	r.l.Close()

	// Delete all snapshots and nothing is lost.
	s.mu.Lock()
	for _, o := range s.orgs {
		o.snap, o.covers, o.pieces = nil, 0, map[wire.Hash][]byte{}
	}
	s.mu.Unlock()
	r = start(t, s, every(50))
	for _, id := range ids {
		w.check(r, id)
	}
	// What was opened the long way ends in a snapshot.
	r.snapshots(3)
	r.quiet()
	r.l.Close()
	r = start(t, s, nil)
	for _, id := range ids {
		w.check(r, id)
	}
	r.quiet()
}

// A snapshot that needs many absent pieces brings them in by itself.
func TestSnapshotFetchesWhatItNeeds(t *testing.T) {
	s := newStore()
	r := start(t, s, every(8))
	r.found(orgID(1))
	for i := range 15 {
		if _, err := r.step(orgID(1), &org.Entry{}, func(tx *org.Tx) error {
			return tx.PutChild(&org.Child{ID: itemID(i), Name: strings.Repeat("x", 100_000)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.snapshots(2)
	r.l.Close()
	r = start(t, s, every(8))
	for i := range 8 { // blind writes all over the collection
		if _, err := r.step(orgID(1), &org.Entry{}, func(tx *org.Tx) error {
			return tx.PutChild(&org.Child{ID: itemID(2 * i), Name: "new"})
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.snapshots(1)
	r.quiet()
	r.l.Close()
	r = start(t, s, nil)
	for i := range 15 {
		var got *org.Child
		if err := r.l.TransactOne(ctx(t), orgID(1), func(locked *ledger.Locked) (err error) {
			got, err = org.Begin(orgID(1), locked.State, 1).Child(itemID(i))
			return err
		}); err != nil || got == nil || (got.Name == "new") != (i%2 == 0) {
			t.Fatalf("child %d: %v", i, err)
		}
	}
}

func BenchmarkAppendHot(b *testing.B) {
	r := start(b, newStore(), nil)
	r.found(orgID(1))
	e := org.Entry{Activity: itemID(1), Type: "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", Status: org.StatusCompleted, Body: make([]byte, 600)}
	b.ReportAllocs()
	for b.Loop() {
		x := e
		n, err := r.step(orgID(1), &x, nil)
		if err == nil {
			err = r.l.Wait(context.Background(), n)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
