package ledger_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// children puts n large records in one entry.
func (r *rig) children(id org.ID, from, n int) {
	r.t.Helper()
	batch, err := r.step(id, &org.Entry{}, func(tx *org.Tx) error {
		for i := range n {
			if err := tx.PutChild(&org.Child{ID: itemID(from + i), Name: strings.Repeat("x", 100_000)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = r.l.Wait(ctx(r.t), batch)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) hasChild(id org.ID, n int) {
	r.t.Helper()
	var got *org.Child
	err := r.l.Turn(ctx(r.t), id, func(turn *ledger.Turn) (err error) {
		got, err = org.Begin(id, turn.State, 1).Child(itemID(n))
		return err
	})
	if err != nil || got == nil || len(got.Name) != 100_000 {
		r.t.Fatalf("child %d: %v", n, err)
	}
}

// Pieces that do not fit beside their root travel ahead of it, and each root
// names the one that it was built on, evicted and opened again or not.
func TestPiecesTravelAhead(t *testing.T) {
	s := newStore()
	var puts []wire.PutSnapshot
	s.lie(hooks{put: func(_ context.Context, q wire.PutSnapshot, honest func() wire.Done) (wire.Done, error) {
		s.mu.Lock()
		puts = append(puts, q)
		again := len(puts)%2 == 1
		s.mu.Unlock()
		done := honest()
		if again {
			return wire.Done{}, errors.New("the answer is lost")
		}
		return done, nil
	}})
	r := start(t, s, func(c *ledger.Config) { c.Limits.SnapshotEvery, c.Limits.SnapshotBytes = 1<<20, 4<<20 }) // by size alone
	r.found(orgID(1))
	for i := range 4 {
		r.children(orgID(1), 30*i, 30)
		r.snapshots(uint64(i+1) / 2)
	}
	r.quiet()
	r.l.Close()
	s.mu.Lock()
	ahead, over := 0, uint64(0)
	for i := 0; i < len(puts); i += 2 {
		q := puts[i]
		size := len(q.Snapshot)
		for _, p := range q.Pieces {
			size += len(p)
		}
		if size > wire.MaxFrame/2 || q.Over != over {
			t.Errorf("%d bytes over %d, want over %d", size, q.Over, over)
		}
		if len(q.Snapshot) == 0 {
			ahead++
			continue
		}
		over = q.Count
	}
	history := s.of(wid(orgID(1))).history
	s.mu.Unlock()
	if ahead < 2 || len(history) != 2 {
		t.Fatalf("%d messages of pieces alone, %d snapshots", ahead, len(history))
	}
	s.lie(hooks{})
	r = start(t, s, every(1))
	for i := range 120 {
		r.hasChild(orgID(1), i)
	}
	r.user(orgID(1), 1, "x")
	r.snapshots(1)
	r.quiet()
}

// What the host refuses is not sent again, and the organization stays.
func TestSnapshotRefused(t *testing.T) {
	s := newStore()
	var asked atomic.Int32
	s.lie(hooks{put: func(_ context.Context, _ wire.PutSnapshot, _ func() wire.Done) (wire.Done, error) {
		asked.Add(1)
		return wire.Done{}, nil
	}})
	r := start(t, s, func(c *ledger.Config) { c.Limits.SnapshotEvery, c.Limits.StateBytes = 4, 1 })
	r.found(orgID(1))
	for i := range 3 {
		r.user(orgID(1), i, "x")
	}
	alarm := fault.AlarmSnapshot.String()
	eventually(t, func() bool { return r.alarms.Counts()[alarm] > 0 }, func() string { return "no alarm" })
	for i := 3; i < 20; i++ { // it serves as before
		r.user(orgID(1), i, "x")
		r.mustRead(orgID(1), i, "x")
	}
	if err := r.l.Turn(ctx(t), orgID(2), func(*ledger.Turn) error { return nil }); !errors.Is(err, ledger.ErrBusy) {
		t.Errorf("it made room for another: %v", err)
	}
	if n := r.alarms.Counts()[alarm]; n != 1 || asked.Load() != 1 || r.l.Stats()["snapshots"] != 0 {
		t.Errorf("%d alarms, asked %d times, %v", n, asked.Load(), r.l.Stats())
	}
}

// A superseded boot's snapshot comes too late: the next boot's stays, with its
// pieces.
func TestSupersededSnapshotChangesNothing(t *testing.T) {
	s := newStore()
	r := start(t, s, every(4))
	r.found(orgID(1))
	for i := range 3 {
		r.user(orgID(1), i, "old")
	}
	r.snapshots(1)
	var late wire.PutSnapshot
	taken := make(chan struct{})
	s.lie(hooks{put: func(c context.Context, q wire.PutSnapshot, _ func() wire.Done) (wire.Done, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if late.Count == 0 {
			late = q
			close(taken)
		}
		return wire.Done{}, errors.New("on its way")
	}})
	for i := 3; i < 7; i++ {
		r.user(orgID(1), i, "old")
	}
	<-taken
	r.l.Close()
	s.lie(hooks{})
	heir := start(t, s, every(3))
	heir.user(orgID(1), 1, "new")
	heir.snapshots(1)
	if done, err := s.PutSnapshot(ctx(t), late); err != nil || done.OK {
		t.Fatalf("the late snapshot: %v, %v", done, err)
	}
	heir.quiet()
	heir.l.Close()
	heir = start(t, s, nil)
	heir.mustRead(orgID(1), 1, "new")
	heir.mustRead(orgID(1), 6, "old")
	heir.quiet()
}

// tired is randomness that fails once, at one read.
type tired struct {
	left   atomic.Int64 // reads until it fails; below zero never
	failed atomic.Bool
}

func (r *tired) Read(b []byte) (int, error) {
	if r.left.Add(-1) == 0 {
		r.failed.Store(true)
		return 0, errors.New("no randomness")
	}
	return rand.Read(b)
}

// A snapshot that fails on the way loses nothing that the next one needs,
// wherever it fails: pieces, chunks of the window, root.
func TestSnapshotFailsHalfWay(t *testing.T) {
	for at := int64(2); ; at++ { // the first read is the entry's
		source := new(tired)
		s := newStore()
		r := start(t, s, func(c *ledger.Config) { c.Limits.SnapshotEvery, c.Rand = 4, source })
		r.found(orgID(1))
		now := uint64(1_700_000_000_000)
		write := func(n int) {
			t.Helper()
			if _, err := r.stamped(orgID(1), n, now, now); err != nil {
				t.Fatal(err)
			}
			r.user(orgID(1), n, fmt.Sprint(n))
		}
		write(0)
		r.children(orgID(1), 100, 5)
		r.snapshots(1)
		write(1)
		if _, err := r.stamped(orgID(1), 2, now, now); err != nil {
			t.Fatal(err)
		}
		source.left.Store(at)
		r.children(orgID(1), 98, 6)
		source.left.Store(-1)
		if !source.failed.Load() {
			if at < 6 {
				t.Fatalf("a snapshot of %d reads", at-2)
			}
			break
		}
		for n := 3; n < 5; n++ {
			write(n)
		}
		r.snapshots(2)
		r.quiet()
		r.l.Close()
		named := map[wire.Hash]bool{}
		s.lie(hooks{pieces: func(_ context.Context, q wire.LoadPieces, p wire.Pieces) (wire.Pieces, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, h := range q.Pieces {
				named[h] = true
			}
			return p, nil
		}})
		r = start(t, s, nil)
		for n := range 5 {
			if _, ok, _ := r.known(orgID(1), n); !ok {
				t.Errorf("failed at read %d: body %d is forgotten", at, n)
			}
			if n != 2 {
				r.mustRead(orgID(1), n, fmt.Sprint(n))
			}
		}
		for n := 98; n < 105; n++ {
			r.hasChild(orgID(1), n)
		}
		r.quiet()
		s.mu.Lock()
		if o := s.of(wid(orgID(1))); len(o.history) != 2 || len(o.pieces) != len(named) {
			t.Errorf("failed at read %d: %d snapshots, %d pieces, %d of them named", at, len(o.history), len(o.pieces), len(named))
		}
		s.mu.Unlock()
		r.l.Close()
	}
}
