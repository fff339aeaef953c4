package ledger_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

const (
	second = uint64(1000)
	minute = 60 * second
	hour   = 60 * minute
)

// stamped is one entry at now with a body stamped at at.
func (r *rig) stamped(id org.ID, n int, now, at uint64) (floor uint64, err error) {
	r.t.Helper()
	fp := sha256.Sum256(fmt.Append(nil, n))
	err = r.l.TransactOne(ctx(r.t), id, func(t *ledger.Locked) error {
		_, err := t.Append(&org.Entry{Activity: itemID(n), Fingerprint: fp, StampedMs: at, TimeMs: now}, nil)
		floor = t.LowWatermarkMs()
		return err
	})
	return floor, err
}

// known tells whether the window finds body n, and where.
func (r *rig) known(id org.ID, n int) (seq uint64, ok bool, floor uint64) {
	r.t.Helper()
	if err := r.l.TransactOne(ctx(r.t), id, func(t *ledger.Locked) error {
		seq, ok = t.Seen(sha256.Sum256(fmt.Append(nil, n)))
		floor = t.LowWatermarkMs()
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return seq, ok, floor
}

func TestFloor(t *testing.T) {
	s := newStore()
	r := start(t, s, every(8))
	r.found(orgID(1))
	base := uint64(1_700_000_000_000)
	now, last, raised := base, uint64(0), uint64(0)
	at := map[int]uint64{}
	for i := range 400 {
		now += []uint64{1, second, 20 * second, minute + 7, 3 * minute}[i%5]
		at[i] = now - uint64(i%50)*minute + uint64(i%4)*minute
		floor, err := r.stamped(orgID(1), i, now, at[i])
		if err != nil {
			t.Fatal(err)
		}
		if floor != last {
			switch {
			case floor < last:
				t.Fatal("the floor goes back")
			case floor >= now-hour:
				t.Fatalf("the floor is %d ms behind now: a live body lies below it", now-floor)
			case last != 0 && floor-last < 5*minute:
				t.Fatalf("raised by %d ms only", floor-last)
			case (floor+1)%minute != 0:
				t.Fatal("the floor parts a minute")
			}
			raised++
			last = floor
		}
		if now-last > hour+8*minute {
			t.Fatalf("the floor lags by %d minutes", (now-last)/minute)
		}
	}
	if raised < 20 || raised > (now-base)/(5*minute)+1 {
		t.Fatalf("raised %d times in %d minutes", raised, (now-base)/minute)
	}
	check := func() {
		t.Helper()
		dropped := 0
		for i := range 400 {
			seq, ok, floor := r.known(orgID(1), i)
			// A mark goes only when its whole minute is at or below the floor.
			if ok != (at[i]/minute*minute+minute-1 > floor) || ok && seq != uint64(i+1) {
				t.Fatalf("body %d stamped at %d, floor %d: found %v at %d", i, at[i], floor, ok, seq)
			}
			if ok != (at[i] > floor) {
				t.Fatalf("body %d: the floor and the window disagree", i)
			}
			if !ok {
				dropped++
			}
			if floor != last {
				t.Fatalf("floor %d, want %d", floor, last)
			}
		}
		if dropped < 100 || dropped > 390 {
			t.Fatalf("%d marks dropped", dropped)
		}
	}
	check()
	eventually(t, func() bool { return r.l.Stats()["unstored_bytes"] == 0 }, func() string { return "unstored" })
	r.l.Close()
	r = start(t, s, nil) // from a snapshot
	check()
	r.l.Close()
	s.mu.Lock()
	for _, o := range s.orgs {
		if o.covers == 0 {
			t.Error("there was no snapshot")
		}
		o.snap, o.covers = nil, 0
	}
	s.mu.Unlock()
	r = start(t, s, nil) // from the entries alone
	check()
	r.quiet()
}

// Old marks that stand in one chunk with newer ones stay dropped when it is
// loaded again.
func TestDroppedMarksStayDropped(t *testing.T) {
	s := newStore()
	r := start(t, s, every(2048))
	r.found(orgID(1))
	base := uint64(1_700_000_000_000)
	const n = org.ChunkEntries + 2300 // a snapshot finds a chunk full
	for i := range n {
		now := base + uint64(i)*300 // 52 minutes in all
		if _, err := r.stamped(orgID(1), i, now, now); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2500 { // half an hour later the floor stands among the marks
		now := base + 85*minute
		if _, err := r.step(orgID(1), &org.Entry{TimeMs: now + uint64(i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	covers := func() uint64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.of(wid(orgID(1))).covers
	}
	eventually(t, func() bool { return covers() > n+1 }, func() string { return "no snapshot with the floor raised" })
	if err := r.l.Release(ctx(t)); err != nil {
		t.Fatal(err)
	}
	check := func() (known int) {
		for i := range n {
			_, ok, floor := r.known(orgID(1), i)
			if ok != (base+uint64(i)*300 > floor) {
				t.Fatalf("body %d: known %v", i, ok)
			}
			if ok {
				known++
			}
		}
		return known
	}
	r = start(t, s, nil)
	if known := check(); known < 1000 || known > n-1000 {
		t.Fatalf("%d of %d known", known, n)
	}
	r.quiet()
}

func TestClockThatStandsOrGoesBack(t *testing.T) {
	r := start(t, newStore(), nil)
	r.found(orgID(1))
	base := uint64(1_700_000_000_000)
	high, err := r.stamped(orgID(1), 0, base, base)
	if err != nil || high == 0 {
		t.Fatal(high, err)
	}
	for i, now := range []uint64{base, base - 10*hour, 1, 0, hour, base + 4*minute} {
		if floor, err := r.stamped(orgID(1), i+1, now, now); err != nil || floor != high {
			t.Fatalf("at %d the floor is %d, was %d; %v", now, floor, high, err)
		}
	}
}

func TestOnlyFirstStepsAreMarked(t *testing.T) {
	r := start(t, newStore(), nil)
	r.found(orgID(1))
	e := func(n int, e org.Entry) {
		e.Fingerprint = sha256.Sum256(fmt.Append(nil, n))
		if _, err := r.step(orgID(1), &e, nil); err != nil {
			t.Fatal(err)
		}
	}
	now := uint64(1_700_000_000_000)
	e(1, org.Entry{TimeMs: now, StampedMs: now})
	e(2, org.Entry{TimeMs: now})                           // upkeep, no body
	e(3, org.Entry{TimeMs: now, StampedMs: now, Prior: 2}) // a later step
	for n, want := range map[int]bool{1: true, 2: false, 3: false, 4: false} {
		if _, ok, _ := r.known(orgID(1), n); ok != want {
			t.Errorf("body %d: known %v", n, ok)
		}
	}
}

func TestFullWindow(t *testing.T) {
	s := newStore()
	r := start(t, s, func(c *ledger.Config) { c.Limits.DedupEntries = 20 })
	r.found(orgID(1))
	now := uint64(1_700_000_000_000)
	for i := range 20 {
		if _, err := r.stamped(orgID(1), i, now, now); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := r.stamped(orgID(1), 99, now, now); !errors.Is(err, ledger.ErrDedupFull) {
			t.Fatalf("over the bound: %v", err)
		}
	}
	if _, err := r.step(orgID(1), &org.Entry{TimeMs: now}, nil); err != nil {
		t.Fatalf("an entry without a body: %v", err)
	}
	if _, err := r.step(orgID(1), &org.Entry{TimeMs: now, StampedMs: now, Prior: 1}, nil); err != nil {
		t.Fatalf("a vote on what is pending: %v", err)
	}
	if _, ok, _ := r.known(orgID(1), 99); ok {
		t.Fatal("what was refused is known")
	}
	// Not for good: an hour later the floor makes room, and at no other time.
	if _, err := r.stamped(orgID(1), 100, now+hour, now+hour); !errors.Is(err, ledger.ErrDedupFull) {
		t.Fatalf("exactly an hour later: %v", err)
	}
	if _, err := r.stamped(orgID(1), 100, now+hour+2*minute, now+hour); err != nil {
		t.Fatalf("full for good: %v", err)
	}
	if _, ok, _ := r.known(orgID(1), 0); ok {
		t.Fatal("an old mark is there")
	}
	if _, ok, _ := r.known(orgID(1), 100); !ok {
		t.Fatal("the new mark is not there")
	}
	r.quiet()
}

// A tail over MaxReplay is not waited for, and served later.
func TestLongTailIsRebuilt(t *testing.T) {
	s := newStore()
	r := start(t, s, every(1<<30))
	r.found(orgID(1))
	r.found(orgID(2))
	var last uint64
	for i := range ledger.MaxReplay {
		n, err := r.step(orgID(1), &org.Entry{}, func(tx *org.Tx) error {
			if i%100 == 0 {
				return tx.PutUser(&org.User{ID: itemID(i), Name: "x"})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		last = n
	}
	if err := r.l.Wait(ctx(t), last); err != nil {
		t.Fatal(err)
	}
	tip := r.tip(orgID(1))
	r.l.Close()
	if s.image(wid(orgID(1))).Snapshot != nil {
		t.Fatal("a snapshot")
	}

	hold := make(chan struct{})
	s.lie(hooks{entries: func(c context.Context, _ wire.LoadEntries, e wire.Entries) (wire.Entries, error) {
		select {
		case <-hold:
			return e, nil
		case <-c.Done():
			return e, c.Err()
		}
	}})
	r = start(t, s, nil)
	for range 3 {
		if _, err := r.read(orgID(1), 0); !errors.Is(err, ledger.ErrRebuilding) {
			t.Fatal(err)
		}
	}
	r.mustRead(orgID(2), 0, "") // nobody else waits
	if n := r.l.Stats()["organization_loads"]; n != 2 {
		t.Fatalf("%d loads", n)
	}
	close(hold)
	eventually(t, func() bool { _, err := r.read(orgID(1), 0); return err == nil }, func() string { return "never rebuilt" })
	if r.tip(orgID(1)) != tip {
		t.Fatal("another tip")
	}
	r.mustRead(orgID(1), 9900, "x")
	r.snapshots(1) // it ends in a snapshot
	r.l.Close()
	r = start(t, s, nil)
	r.mustRead(orgID(1), 9900, "x")
	r.quiet()
}

// A tail of exactly MaxReplay entries is waited for.
func TestLongestTailInOneRequest(t *testing.T) {
	s := newStore()
	r := start(t, s, every(1<<30))
	r.found(orgID(1))
	for range ledger.MaxReplay - 1 {
		if _, err := r.step(orgID(1), &org.Entry{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.l.Release(ctx(t)); err != nil {
		t.Fatal(err)
	}
	r = start(t, s, nil)
	if tip := r.tip(orgID(1)); tip.Count != ledger.MaxReplay {
		t.Fatal(tip)
	}
}
