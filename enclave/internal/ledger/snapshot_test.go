package ledger_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// children puts n large records in one entry, each a piece.
func (r *rig) children(id org.ID, from, n int) { r.t.Helper(); r.childrenOf(id, from, n, 100_000) }

func (r *rig) childrenOf(id org.ID, from, n, size int) {
	r.t.Helper()
	batch, err := r.step(id, &org.Entry{}, func(tx *org.Tx) error {
		for i := range n {
			if err := tx.PutChild(&org.Child{ID: itemID(from + i), Name: strings.Repeat("x", size)}); err != nil {
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
	err := r.l.TransactOne(ctx(r.t), id, func(locked *ledger.Locked) (err error) {
		got, err = org.Begin(id, locked.State, 1).Child(itemID(n))
		return err
	})
	if err != nil || got == nil || len(got.Name) < 50_000 {
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
	if err := r.l.TransactOne(ctx(t), orgID(2), func(*ledger.Locked) error { return nil }); !errors.Is(err, ledger.ErrBusy) {
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

// A snapshot without randomness goes on when there is some again, and loses nothing,
// wherever that is: pieces, chunks of the window, root.
func TestSnapshotFailsHalfWay(t *testing.T) {
	for at := int64(3); ; at++ { // the first two reads are the entry's
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
		r.snapshots(2)
		if !source.failed.Load() {
			if at < 7 {
				t.Fatalf("a snapshot of %d reads", at-3)
			}
			break
		}
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
		for n := range 3 {
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

// held is randomness that stands still at one read until it is let go.
type held struct {
	left   atomic.Int64 // reads until it stands; below zero never
	stands chan struct{}
	goOn   chan struct{}
}

func (r *held) Read(b []byte) (int, error) {
	if r.left.Add(-1) == 0 {
		close(r.stands)
		<-r.goOn
	}
	return rand.Read(b)
}

// While a snapshot is sealed, which takes as long as the organization is large, its
// turn is free: it is read and written, and the next snapshot has what came meanwhile.
func TestSnapshotHoldsNoLock(t *testing.T) {
	source := &held{stands: make(chan struct{}), goOn: make(chan struct{})}
	s := newStore()
	r := start(t, s, func(c *ledger.Config) { c.Limits.SnapshotEvery, c.Rand = 3, source })
	now := uint64(1_700_000_000_000)
	r.found(orgID(1))
	if _, err := r.stamped(orgID(1), 0, now, now); err != nil {
		t.Fatal(err)
	}
	source.left.Store(4) // the entry, two of the pieces, and stands at the next
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		r.children(orgID(1), 0, 30) // the third entry
	}()
	<-source.stands
	read := make(chan error, 1)
	go func() { read <- r.l.TransactOne(ctx(t), orgID(1), func(*ledger.Locked) error { return nil }) }()
	eventually(t, func() bool { return len(read) > 0 || r.l.Stats()["turns_waited_for"] > 0 }, func() string { return "neither read nor waited for" })
	if len(read) == 0 {
		close(source.goOn)
		t.Fatal("a turn waits for a snapshot to be sealed")
	}
	<-wrote
	for n := range 5 { // more than the next snapshot wants
		r.hasChild(orgID(1), 6*n)
		r.user(orgID(1), n, "x")
		if _, err := r.stamped(orgID(1), 1+n, now, now); err != nil {
			t.Fatal(err)
		}
	}
	close(source.goOn)
	r.snapshots(2)
	r.quiet()
	r.l.Close()
	r = start(t, s, nil)
	for n := range 5 {
		r.mustRead(orgID(1), n, "x")
		r.hasChild(orgID(1), 29-n)
	}
	for n := range 6 {
		if _, ok, _ := r.known(orgID(1), n); !ok {
			t.Errorf("body %d is forgotten", n)
		}
	}
	r.quiet()
}

// A snapshot of a large organization takes memory for a message and not for all pieces,
// and others are opened meanwhile.
func TestSnapshotNeedsMemoryForOneMessage(t *testing.T) {
	s := newStore()
	r := start(t, s, every(11))
	r.found(orgID(1))
	r.found(orgID(2))
	r.user(orgID(2), 1, "x")
	for i := range 10 {
		r.childrenOf(orgID(1), 50*i, 50, 50_000)
	}
	r.snapshots(1)
	r.quiet()
	r.l.Close()
	var fetched, roots atomic.Int64
	const limit = 2 * wire.MaxFrame
	s.lie(hooks{pieces: func(_ context.Context, _ wire.LoadPieces, p wire.Pieces) (wire.Pieces, error) {
		for i := range p.Pieces {
			fetched.Add(int64(len(p.Pieces[i])))
		}
		return p, nil
	}, put: func(_ context.Context, q wire.PutSnapshot, honest func() wire.Done) (wire.Done, error) {
		if q.Organization != wid(orgID(1)) {
			return honest(), nil
		}
		if n := r.l.Stats()["organizations_open_bytes"]; n > limit {
			t.Errorf("%d bytes are open while a message is on its way", n)
		}
		r.mustRead(orgID(2), 1, "x")
		done := honest()
		if len(q.Snapshot) > 0 {
			roots.Add(1)
		}
		return done, nil
	}})
	r = start(t, s, func(c *ledger.Config) { c.Limits.SnapshotEvery, c.Limits.StateBytes = 1, limit })
	before := roots.Load()
	r.halve(orgID(1), 500)
	eventually(t, func() bool { return fetched.Load() > limit && roots.Load() > before }, func() string {
		return fmt.Sprintf("%d bytes fetched, %d roots, %v", fetched.Load(), roots.Load(), r.l.Stats())
	})
	s.lie(hooks{})
	for n := range 250 {
		r.hasChild(orgID(1), 2*n+1)
	}
	r.quiet()
}

// halve deletes every second of n children and does not wait.
func (r *rig) halve(id org.ID, n int) {
	r.t.Helper()
	_, err := r.step(id, &org.Entry{}, func(tx *org.Tx) error {
		for i := 0; i < n; i += 2 {
			tx.DeleteChild(&org.Child{ID: itemID(i)})
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// reopened is a boot that has an organization open with n children, all in a snapshot, and
// none of their pieces, which hold two each.
func reopened(t *testing.T, n int, edit func(*ledger.Config)) *rig {
	s := newStore()
	r := start(t, s, every(2+n/40))
	r.found(orgID(1))
	for i := 0; i < n; i += 40 {
		r.childrenOf(orgID(1), i, 40, 50_000)
	}
	r.user(orgID(1), 0, "x")
	r.snapshots(1)
	r.quiet()
	r.l.Close()
	r = start(t, s, edit)
	r.mustRead(orgID(1), 0, "x")
	return r
}

// A piece that does not come is waited for, in whatever way it does not. What was sent
// before it is not sent again, however many entries are decided meanwhile.
func TestSnapshotWaitsForAPiece(t *testing.T) {
	r := reopened(t, 400, every(1))
	s := r.store
	s.mu.Lock()
	o := s.of(wid(orgID(1)))
	before, roots := maps.Clone(o.all), len(o.history)
	s.mu.Unlock()
	var ahead, failed atomic.Int32
	var enough atomic.Bool
	sent := map[wire.Hash]int{}
	s.lie(hooks{pieces: func(_ context.Context, _ wire.LoadPieces, p wire.Pieces) (wire.Pieces, error) {
		if ahead.Load() == 0 || enough.Load() {
			return p, nil
		}
		switch failed.Add(1) % 3 {
		case 0:
			return p, errors.New("not now")
		case 1:
			p.Pieces[0] = nil
		case 2:
			p.Pieces[0][9] ^= 1
		}
		return p, nil
	}, put: func(_ context.Context, q wire.PutSnapshot, honest func() wire.Done) (wire.Done, error) {
		s.mu.Lock()
		if len(o.history) == roots {
			for _, p := range q.Pieces {
				sent[sha256.Sum256(p)]++
			}
		}
		s.mu.Unlock()
		done := honest()
		ahead.Add(1)
		return done, nil
	}})
	r.halve(orgID(1), 400)
	for n := int32(0); n < 4; n++ {
		eventually(t, func() bool { return failed.Load() > n }, func() string { return fmt.Sprint(ahead.Load(), " messages, ", failed.Load(), " failures") })
		r.user(orgID(1), int(n), "y") // its turn is free
		r.mustRead(orgID(1), int(n), "y")
	}
	if n := ahead.Load(); n != 1 {
		t.Errorf("%d messages while a piece does not come", n)
	}
	enough.Store(true)
	r.snapshots(1)
	s.mu.Lock()
	kept := 0
	for h, n := range sent {
		if _, was := before[h]; n != 1 || was {
			t.Errorf("piece %x is sent %d times", h[:4], n)
		}
	}
	gone := map[wire.Hash]bool{}
	for _, h := range o.history[roots].Drop {
		gone[h] = true
	}
	for h := range sent {
		if !gone[h] {
			kept++
		}
	}
	if kept != len(sent) || len(sent) < 20 {
		t.Errorf("%d pieces sent, %d kept", len(sent), kept)
	}
	s.mu.Unlock()
	r.snapshots(2)
	eventually(t, func() bool { return r.l.Stats()["organizations_open_bytes"] < 1<<20 }, func() string { return fmt.Sprint(r.l.Stats()) })
	s.lie(hooks{})
	r.l.Close()
	s.mu.Lock()
	stored := len(o.pieces)
	s.mu.Unlock()
	r = start(t, s, nil)
	asked := map[wire.Hash]bool{}
	s.lie(hooks{pieces: func(_ context.Context, q wire.LoadPieces, p wire.Pieces) (wire.Pieces, error) {
		for _, h := range q.Pieces {
			asked[h] = true
		}
		return p, nil
	}})
	for n := 1; n < 400; n += 2 {
		r.hasChild(orgID(1), n)
	}
	for n := range 4 {
		r.mustRead(orgID(1), n, "y")
	}
	if len(asked) != stored {
		t.Errorf("%d pieces are stored, %d of them named", stored, len(asked))
	}
	r.quiet()
}

// A snapshot that waits for a piece ends when the ledger does, however it ends.
func TestWaitingSnapshotEndsWithTheLedger(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"close": func(r *rig) { r.l.Close() },
		"give": func(r *rig) {
			if _, err := r.shutEnd(ctx(r.t)); err != nil {
				r.t.Error(err)
			}
		},
		"fence": func(r *rig) {
			r.store.mu.Lock()
			r.store.row.Epoch++
			r.store.mu.Unlock()
			if _, err := r.step(orgID(1), &org.Entry{}, nil); err != nil {
				r.t.Error(err)
			}
			<-r.fences
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newFakeClock() // which nobody moves: the wait itself must end
			r := reopened(t, 40, func(c *ledger.Config) { c.Limits.SnapshotEvery, c.Clock = 1, clock })
			var asked atomic.Int32
			r.store.lie(hooks{pieces: func(_ context.Context, _ wire.LoadPieces, p wire.Pieces) (wire.Pieces, error) {
				asked.Add(1)
				return p, errors.New("never")
			}})
			const open = "organizations_open_bytes"
			before := r.l.Stats()[open]
			r.halve(orgID(1), 40)
			eventually(t, func() bool { return asked.Load() > 0 }, func() string { return "asks for nothing" })
			r.mustRead(orgID(1), 0, "x")
			if now := r.l.Stats()[open]; now < before+1<<20 {
				t.Errorf("%d bytes are counted while a snapshot waits, %d before", now, before)
			}
			end(r)
			eventually(t, func() bool { n, _ := ours(); return n == 0 }, func() string { _, all := ours(); return all })
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times while the clock stands", n)
			}
		})
	}
}

// A root that no store would take is seen before anything is asked for or sent. When it
// has become small again it is stored.
func TestRootTooLarge(t *testing.T) {
	r := reopened(t, 40, func(c *ledger.Config) { c.Limits.SnapshotEvery, c.Limits.RootBytes = 2, 9<<10 })
	var asked, puts atomic.Int32
	r.store.lie(hooks{pieces: func(_ context.Context, _ wire.LoadPieces, p wire.Pieces) (wire.Pieces, error) {
		asked.Add(1)
		return p, nil
	}, put: func(_ context.Context, _ wire.PutSnapshot, honest func() wire.Done) (wire.Done, error) {
		puts.Add(1)
		return honest(), nil
	}})
	for i := range 5 {
		r.children(orgID(1), 40+20*i, 20)
		r.user(orgID(1), i, "x") // of each two entries one tries
		r.mustRead(orgID(1), i, "x")
	}
	if s := r.l.Stats(); s["snapshots"] != 0 || s["snapshots_too_large"] == 0 || puts.Load() != 0 || asked.Load() != 0 {
		t.Errorf("%d messages, %d questions, %v", puts.Load(), asked.Load(), s)
	}
	_, err := r.step(orgID(1), &org.Entry{}, func(tx *org.Tx) error {
		for i := 40; i < 140; i++ {
			tx.DeleteChild(&org.Child{ID: itemID(i)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.user(orgID(1), 9, "x")
	r.user(orgID(1), 10, "x")
	r.snapshots(1)
	r.l.Close()
	r = start(t, r.store, nil)
	for n := range 40 {
		r.hasChild(orgID(1), n)
	}
	r.mustRead(orgID(1), 4, "x")
	r.quiet()
}
