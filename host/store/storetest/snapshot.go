package storetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/shared/wire"
)

// put puts a snapshot of an organization as the writer's boot.
func (w *writer) put(org wire.ID, p wire.PutSnapshot) bool {
	w.t.Helper()
	p.Organization, p.Boot, p.Epoch = org, w.boot, w.epoch
	return must(w.backend.PutSnapshot(w.t.Context(), p))(w.t).OK
}

func piece(n int) []byte        { return fmt.Appendf(nil, "piece %d", n) }
func pieceHash(n int) wire.Hash { return sha256.Sum256(piece(n)) }

// shot makes a snapshot with numbered pieces, or without text only pieces.
func shot(count, over uint64, text string, pieces, drop []int) wire.PutSnapshot {
	p := wire.PutSnapshot{Count: count, Over: over, Snapshot: []byte(text)}
	for _, n := range pieces {
		p.Pieces = append(p.Pieces, piece(n))
	}
	for _, n := range drop {
		p.Drop = append(p.Drop, pieceHash(n))
	}
	return p
}

// holds checks an organization's snapshot and which of the first pieces exist.
func (w *writer) holds(org wire.ID, from uint64, text string, there ...int) {
	w.t.Helper()
	stored := uint64(len(w.ledgers[org]))
	o := must(w.backend.LoadOrganization(w.t.Context(), wire.LoadOrganization{Organization: org, MaxBytes: 1 << 20}))(w.t)
	if o.From != from || string(o.Snapshot) != text || uint64(len(o.Entries)) != stored-from || o.Count != stored {
		w.t.Fatalf("snapshot %q from %d with %d entries", o.Snapshot, o.From, len(o.Entries))
	}
	if from < stored && !bytes.Equal(o.Entries[0], w.ledgers[org][from].Sealed) {
		w.t.Fatal("the first entry is another one")
	}
	have := map[int]bool{}
	for _, n := range there {
		have[n] = true
	}
	ask := wire.LoadPieces{Organization: org}
	for n := range 6 {
		ask.Pieces = append(ask.Pieces, pieceHash(n))
	}
	for n, p := range must(w.backend.LoadPieces(w.t.Context(), ask))(w.t).Pieces {
		if have[n] && !bytes.Equal(p, piece(n)) || !have[n] && len(p) != 0 {
			w.t.Fatalf("piece %d is %q", n, p)
		}
	}
}

func testSnapshots(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	x, y := id(10), id(11)
	w.fill(x, 10, 20)
	w.fill(y, 10, 20)
	try := func(want bool, p wire.PutSnapshot) {
		t.Helper()
		if got := w.put(x, p); got != want {
			t.Fatalf("%q over %d: %t", p.Snapshot, p.Over, got)
		}
	}
	w.holds(x, 0, "")
	try(false, shot(4, 2, "over what is not there", []int{3}, nil))
	w.holds(x, 0, "")
	four := shot(4, 0, "four", []int{0, 1, 2}, nil)
	try(true, four)
	w.holds(x, 4, "four", 0, 1, 2)
	try(false, shot(3, 0, "three", []int{3}, []int{0}))
	try(false, shot(4, 0, "other four", []int{3}, []int{0}))
	try(false, shot(5, 0, "four", []int{3}, []int{0}))
	try(false, shot(5, 3, "five over another", []int{3}, []int{0}))
	try(true, four)
	w.holds(x, 4, "four", 0, 1, 2)

	// Pieces before their root, twice, as after a lost answer.
	ahead := shot(7, 4, "", []int{1, 3}, nil)
	try(true, ahead)
	try(true, ahead)
	w.holds(x, 4, "four", 0, 1, 2, 3)
	seven := shot(7, 4, "seven", []int{4}, []int{0, 1, 5})
	try(true, seven)
	w.holds(x, 7, "seven", 2, 3, 4)
	try(false, four) // too late: it would restore dropped pieces
	w.holds(x, 7, "seven", 2, 3, 4)

	w.backend = reopen()
	try(true, seven)
	try(true, shot(10, 7, "ten", nil, []int{2}))
	w.holds(x, 10, "ten", 3, 4)
	w.holds(y, 0, "")
}

// testSnapshotOwner tries every boot but the owner of the store.
func testSnapshotOwner(t *testing.T, open Opener) {
	s, _ := open(t)
	x := id(10)
	nobody := &writer{t: t, backend: s, boot: id(1), epoch: 1, ledgers: map[wire.ID][]wire.Entry{}}
	if nobody.put(x, shot(1, 0, "one", nil, nil)) {
		t.Fatal("a snapshot when nobody owns the store")
	}
	w := newWriter(t, s)
	w.fill(x, 10, 20)
	four := shot(4, 0, "four", []int{0, 1}, nil)
	if !w.put(x, four) {
		t.Fatal("the owner's snapshot was refused")
	}
	refused := func(why string, w writer) {
		t.Helper()
		for _, p := range []wire.PutSnapshot{four, shot(6, 4, "six", []int{2}, []int{0, 1}), shot(6, 4, "", []int{2}, nil)} {
			if w.put(x, p) {
				t.Errorf("%s: %q with %d pieces was taken", why, p.Snapshot, len(p.Pieces))
			}
		}
		w.holds(x, 4, "four", 0, 1)
	}
	other := *w
	other.boot = id(99)
	refused("another boot", other)
	other = *w
	other.epoch++
	refused("another epoch", other)
	must(s.Own(t.Context(), wire.Own{Action: wire.OwnRelease, Boot: w.boot, Expect: w.epoch}))(t)
	refused("released", *w)
	heir := &writer{t: t, backend: s, boot: id(50), ledgers: w.ledgers}
	heir.take()
	refused("superseded", *w)
	if !heir.put(x, shot(8, 4, "eight", []int{3}, []int{0})) {
		t.Fatal("the heir's snapshot was refused")
	}
	if w.put(x, shot(9, 8, "nine", nil, []int{1, 3})) {
		t.Fatal("a superseded boot replaced the heir's snapshot")
	}
	heir.holds(x, 8, "eight", 1, 3)
}

// testSnapshotRace sends one snapshot many times at once, then different ones
// built on it: exactly one of these is stored.
func testSnapshotRace(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x := id(10)
	w.fill(x, 10, 20)
	send := func(p wire.PutSnapshot) bool {
		p.Organization, p.Boot, p.Epoch = x, w.boot, w.epoch
		done, err := s.PutSnapshot(t.Context(), p)
		if err != nil {
			t.Error(err)
		}
		return done.OK
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if !send(shot(2, 0, "", []int{0, 1}, nil)) || !send(shot(2, 0, "two", []int{1}, nil)) {
				t.Error("the same again was refused")
			}
		})
	}
	wg.Wait()
	var won atomic.Int32
	for i := range 6 {
		wg.Go(func() {
			if send(shot(uint64(3+i), 2, fmt.Sprint("from ", i), []int{i}, nil)) {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d snapshots were taken over the same one", won.Load())
	}
}

// testSnapshotTakeRace makes a boot put snapshots while another takes the store:
// the snapshot that the new boot finds after its take does not change.
func testSnapshotTakeRace(t *testing.T, open Opener) {
	s, _ := open(t)
	x := id(5)
	w := newWriter(t, s)
	w.fill(x, 4000, 10)
	at := func() uint64 {
		return must(s.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: x}))(t).From
	}
	for round := range 5 {
		old, from := *w, at()
		started := make(chan struct{})
		var begun sync.Once
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := from + 1; ; n++ {
				p := shot(n, n-1, fmt.Sprint("snapshot ", n), []int{int(n)}, []int{int(n - 1)})
				p.Organization, p.Boot, p.Epoch = x, old.boot, old.epoch
				done, err := s.PutSnapshot(t.Context(), p)
				if err != nil {
					t.Error(err)
				}
				if n == from+3 || err != nil {
					begun.Do(func() { close(started) })
				}
				if err != nil || !done.OK {
					return
				}
			}
		})
		<-started
		next := &writer{t: t, backend: s, boot: id(uint64(100 + round)), ledgers: w.ledgers}
		next.take()
		seen := at()
		wg.Wait()
		if now := at(); now != seen {
			t.Fatalf("round %d: snapshot of %d when taken, of %d later", round, seen, now)
		}
		named := must(s.LoadPieces(t.Context(), wire.LoadPieces{Organization: x, Pieces: []wire.Hash{pieceHash(int(seen)), pieceHash(int(seen + 1))}}))(t)
		if !bytes.Equal(named.Pieces[0], piece(int(seen))) || len(named.Pieces[1]) != 0 {
			t.Fatalf("round %d: the snapshot's piece is %q, the next one's %q", round, named.Pieces[0], named.Pieces[1])
		}
		w = next
	}
}
