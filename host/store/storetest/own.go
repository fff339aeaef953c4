package storetest

import (
	"sync"
	"sync/atomic"
	"testing"

	"cloister/shared/wire"
)

func testOwn(t *testing.T, open Opener) {
	s, reopen := open(t)
	a, b := id(1), id(2)
	own := func(action wire.OwnAction, boot wire.ID, expect uint64, want wire.Owned) {
		t.Helper()
		got := must(s.Own(t.Context(), wire.Own{Action: action, Boot: boot, Expect: expect}))(t)
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

	w := &writer{t: t, s: s, boot: a, epoch: 1, ledgers: map[wire.ID][]wire.Entry{}}
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

// testOwnRace lets many boots take at once: each epoch has one taker.
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

// testTakeRace lets a boot append while another takes the store. Whatever was
// stored must have been stored before the take: what the new boot finds when it
// has the store never grows afterwards.
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
		next := &writer{t: t, s: s, boot: id(uint64(100 + round)), ledgers: map[wire.ID][]wire.Entry{}}
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
