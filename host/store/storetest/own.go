package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

func testOwn(t *testing.T, open Opener) {
	s, reopen := open(t)
	a, b := id(1), id(2)
	own := func(action wire.OwnAction, boot wire.ID, expect uint64, want wire.Owned) {
		t.Helper()
		got := must(s.Own(t.Context(), wire.Own{Action: action, Boot: boot, Expect: expect}))(t)
		got.Beat = 0 // of testBeat
		if got != want {
			t.Fatalf("action %d of %x at %d: %+v, want %+v", action, boot[:8], expect, got, want)
		}
	}
	own(wire.OwnLook, wire.ID{}, 0, wire.Owned{OK: true})
	own(wire.OwnRenew, a, 0, wire.Owned{})
	own(wire.OwnRelease, a, 0, wire.Owned{})
	own(wire.OwnTake, a, 1, wire.Owned{})
	own(wire.OwnTake, a, 0, wire.Owned{OK: true, Epoch: 1, Boot: a})
	held := wire.Owned{OK: true, Epoch: 1, Boot: a}
	refused := wire.Owned{Epoch: 1, Boot: a}
	own(wire.OwnLook, b, 9, held)
	own(wire.OwnRenew, a, 1, held)
	own(wire.OwnTake, a, 0, refused)
	own(wire.OwnTake, b, 0, refused)
	own(wire.OwnTake, b, 2, refused)
	own(wire.OwnRenew, b, 1, refused)
	own(wire.OwnRenew, a, 0, refused)
	own(wire.OwnRenew, a, 2, refused)
	own(wire.OwnRelease, b, 1, refused)
	own(wire.OwnRelease, a, 2, refused)

	w := &writer{t: t, backend: s, boot: a, epoch: 1, ledgers: map[wire.ID][]wire.Entry{}}
	w.fill(id(7), 1, 10)
	w.fill(id(7), 1, 10)
	held.Batches = 2
	own(wire.OwnRenew, a, 1, held)

	gone := wire.Owned{OK: true, Epoch: 1, Boot: a, Released: true, Batches: 2}
	own(wire.OwnRelease, a, 1, gone)
	own(wire.OwnRelease, a, 1, gone)
	no := gone
	no.OK = false
	own(wire.OwnRenew, a, 1, no)
	s = reopen()
	own(wire.OwnLook, wire.ID{}, 0, gone)
	own(wire.OwnTake, b, 1, wire.Owned{OK: true, Epoch: 2, Boot: b})
	own(wire.OwnRenew, a, 1, wire.Owned{Epoch: 2, Boot: b})
	own(wire.OwnRelease, a, 1, wire.Owned{Epoch: 2, Boot: b})
	own(wire.OwnTake, a, 2, wire.Owned{OK: true, Epoch: 3, Boot: a})
}

// testOwnRace makes many boots take at once: each epoch has one owner.
func testOwnRace(t *testing.T, open Opener) {
	s, _ := open(t)
	const boots, rounds = 8, 10
	for epoch := range uint64(rounds) {
		var won atomic.Int32
		var wg sync.WaitGroup
		for b := range uint64(boots) {
			wg.Go(func() {
				owned, err := s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: id(b + 1), Expect: epoch})
				if err != nil {
					t.Error(err)
				}
				if owned.OK {
					won.Add(1)
				}
				if owned.Epoch != epoch+1 || owned.OK != (owned.Boot == id(b+1)) {
					t.Errorf("boot %d at epoch %d: %+v", b+1, epoch, owned)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("epoch %d was taken %d times", epoch+1, won.Load())
		}
	}
}

// testTakeRace makes a boot append while another takes the store. Every stored
// batch must have been stored before the take: the batches that the new boot finds after
// its take never increase.
func testTakeRace(t *testing.T, open Opener) {
	s, _ := open(t)
	org := id(5)
	w := newWriter(t, s)
	w.fill(org, 1, 10)
	for round := range 5 {
		old := *w
		started := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ; i++ {
				got, err := s.Append(t.Context(), old.next(old.entry(org, 10)))
				if err != nil {
					t.Error(err)
					return
				}
				if i == 3 {
					close(started)
				}
				if got.Verdict == wire.VerdictSuperseded {
					return
				}
				if got.Verdict != wire.VerdictStored {
					t.Errorf("round %d: verdict %d", round, got.Verdict)
					return
				}
			}
		})
		<-started
		next := &writer{t: t, backend: s, boot: id(uint64(100 + round)), ledgers: map[wire.ID][]wire.Entry{}}
		next.take()
		seen := count(t, s, org)
		wg.Wait()
		if now := count(t, s, org); now != seen {
			t.Fatalf("round %d: %d entries when taken, %d later", round, seen, now)
		}
		next.ledgers[org] = make([]wire.Entry, seen)
		next.fill(org, 1, 10)
		w = next
	}
}

// testBeat checks that only renewals by the owner change the beat.
func testBeat(t *testing.T, open Opener) {
	s, _ := open(t)
	own := func(action wire.OwnAction, boot wire.ID, expect uint64, r wire.Range) wire.Owned {
		t.Helper()
		return must(s.Own(t.Context(), wire.Own{Action: action, Boot: boot, Expect: expect, Range: r}))(t)
	}
	a, b := id(1), id(2)
	own(wire.OwnTake, a, 0, 3)
	first := own(wire.OwnLook, wire.ID{}, 0, 3).Beat
	for i := range uint64(3) {
		if got := own(wire.OwnRenew, a, 1, 3); !got.OK || got.Beat != first+i+1 {
			t.Fatalf("renewal %d: %+v", i, got)
		}
	}
	own(wire.OwnRenew, b, 1, 3)
	own(wire.OwnRenew, a, 2, 3)
	own(wire.OwnRenew, a, 1, 4)
	own(wire.OwnTake, b, 0, 3)
	if got := own(wire.OwnLook, wire.ID{}, 0, 3); got.Beat != first+3 || got.Boot != a {
		t.Fatalf("%+v after renewals that were refused", got)
	}
	own(wire.OwnRelease, a, 1, 3)
	own(wire.OwnRenew, a, 1, 3)
	if got := own(wire.OwnLook, wire.ID{}, 0, 3); got.Beat != first+3 {
		t.Fatalf("%+v after the release", got)
	}
}

// testRanges makes two boots own ranges of one store. Changes in one range do not
// affect the other; a boot that has lost one still appends to another.
func testRanges(t *testing.T, open Opener) {
	s, reopen := open(t)
	in := func(boot uint64, r wire.Range) *writer {
		w := &writer{t: t, backend: s, boot: id(boot), in: r, ledgers: map[wire.ID][]wire.Entry{}}
		w.take()
		return w
	}
	const last = wire.MaxRanges - 1
	a0, a1, b5, b9 := in(1, 0), in(1, 1), in(2, 5), in(2, last)
	for i, w := range []*writer{a0, a1, b5, b9} {
		if w.epoch != 1 {
			t.Fatalf("range %d begins at epoch %d", w.in, w.epoch)
		}
		for range 1 + i {
			w.fill(id(uint64(10+i)), 3, 20)
		}
	}
	for i, w := range []*writer{a0, a1, b5, b9} {
		got := must(s.Own(t.Context(), wire.Own{Action: wire.OwnLook, Range: w.in}))(t)
		if got.Batches != uint64(1+i) || got.Boot != w.boot || got.Epoch != 1 {
			t.Fatalf("range %d: %+v", w.in, got)
		}
	}
	if got := must(s.Own(t.Context(), wire.Own{Action: wire.OwnLook, Range: 2}))(t); got != (wire.Owned{OK: true}) {
		t.Fatalf("a range of nobody's: %+v", got)
	}

	// Another boot takes range 1: its owner cannot append there any more, but elsewhere.
	c1 := in(3, 1)
	if c1.epoch != 2 || c1.number != 0 {
		t.Fatalf("taken at epoch %d", c1.epoch)
	}
	verdict(t, s, a1.next(a1.entry(id(11), 20)), wire.VerdictSuperseded)
	a0.fill(id(10), 2, 20)
	b5.fill(id(12), 2, 20)
	c1.ledgers[id(11)] = make([]wire.Entry, 6)
	c1.fill(id(11), 1, 20)

	// A batch under another's range is superseded.
	stray := b5.next(b5.entry(id(12), 20))
	for _, r := range []wire.Range{0, 1, 2} {
		moved := *stray
		moved.Range = r
		verdict(t, s, &moved, wire.VerdictSuperseded)
	}
	verdict(t, s, stray, wire.VerdictStored)
	verdict(t, s, stray, wire.VerdictStored)

	// The same with snapshots.
	put := wire.PutSnapshot{Organization: id(12), Count: 2, Snapshot: []byte("s"), Boot: b5.boot, Epoch: 1, Range: 1}
	if done := must(s.PutSnapshot(t.Context(), put))(t); done.OK {
		t.Fatal("a snapshot for the owner of another range")
	}
	put.Range = 5
	if done := must(s.PutSnapshot(t.Context(), put))(t); !done.OK {
		t.Fatal("no snapshot for the owner of the range")
	}

	s = reopen()
	for _, w := range []*writer{a0, b5, b9, c1} {
		w.backend = s
		for o := range w.ledgers {
			w.fill(o, 1, 20)
		}
	}
	for _, err := range []error{
		refusal(s.Own(t.Context(), wire.Own{Action: wire.OwnLook, Range: wire.MaxRanges})),
		refusal(s.Append(t.Context(), &wire.Batch{Boot: id(1), Epoch: 1, Number: 1, Header: []byte("h"), Range: wire.MaxRanges})),
		refusal(s.PutSnapshot(t.Context(), wire.PutSnapshot{Organization: id(12), Count: 1, Snapshot: []byte("s"), Boot: id(1), Epoch: 1, Range: wire.MaxRanges})),
	} {
		if !errors.Is(err, store.ErrRefused) {
			t.Errorf("a range that no deployment has: %v", err)
		}
	}
}

func refusal[T any](_ T, err error) error { return err }

// testRangesRace makes the owners of many ranges append at once.
func testRangesRace(t *testing.T, open Opener) {
	s, _ := open(t)
	var wg sync.WaitGroup
	for r := range wire.Range(6) {
		wg.Go(func() {
			w := &writer{t: t, backend: s, boot: id(uint64(r) + 1), in: r, ledgers: map[wire.ID][]wire.Entry{}}
			owned, err := s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: w.boot, Range: r})
			if err != nil || !owned.OK {
				t.Errorf("range %d: %+v, %v", r, owned, err)
				return
			}
			w.epoch = owned.Epoch
			for range 20 {
				got, err := s.Append(t.Context(), w.next(w.entry(id(100+uint64(r)), 30)))
				if err != nil || got.Verdict != wire.VerdictStored {
					t.Errorf("range %d: %+v, %v", r, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for r := range uint64(6) {
		if n := count(t, s, id(100+r)); n != 20 {
			t.Errorf("range %d: %d entries", r, n)
		}
	}
}
