package storetest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// testAppendOrder tries every seq but the next.
func testAppendOrder(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x, y, z := id(10), id(11), id(12)
	at := func(e wire.Entry, seq uint64) wire.Entry { e.Seq = seq; return e }
	try := func(want wire.Verdict, number uint64, entries ...wire.Entry) {
		t.Helper()
		verdict(t, s, &wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: number, Header: []byte("try"), Entries: entries}, want)
	}
	try(wire.VerdictConflict, 1, at(w.entry(x, 5), 1))
	try(wire.VerdictConflict, 1, w.entry(x, 5), at(w.entry(x, 5), 2))
	try(wire.VerdictConflict, 1, w.entry(x, 5), w.entry(x, 5))
	try(wire.VerdictConflict, 1, at(w.entry(x, 5), 1), w.entry(x, 5))
	try(wire.VerdictConflict, 2, w.entry(x, 5))
	if n := count(t, s, x); n != 0 {
		t.Fatalf("%d entries after conflicts alone", n)
	}
	w.store(w.entry(x, 5))
	try(wire.VerdictConflict, 2, at(w.entry(x, 5), 0))
	try(wire.VerdictConflict, 2, at(w.entry(x, 5), 2))
	try(wire.VerdictConflict, 2, at(w.entry(x, 5), store.MaxSeq))
	try(wire.VerdictConflict, 3, w.entry(x, 5))
	try(wire.VerdictConflict, 2, w.entry(x, 5), at(w.entry(y, 5), 1))
	if n := count(t, s, y); n != 0 {
		t.Fatalf("%d entries of an organization whose batches all failed", n)
	}
	// Several entries of one organization, between another's, in one batch.
	w.store(w.entry(x, 5), w.entry(y, 5), at(w.entry(x, 5), 2), at(w.entry(y, 5), 1), w.entry(z, 5))
	w.store() // a batch with only a header
	for org, want := range map[wire.ID]uint64{x: 3, y: 2, z: 1} {
		if n := count(t, s, org); n != want {
			t.Fatalf("%d entries, want %d", n, want)
		}
	}
}

func testAppendAgain(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	x := id(10)
	first := w.store(w.entry(x, 5))
	second := w.store(w.entry(x, 5), w.entry(id(11), 5))
	for _, b := range []*wire.Batch{second, first, second} {
		verdict(t, s, b, wire.VerdictStored)
	}
	s = reopen()
	verdict(t, s, first, wire.VerdictStored)
	verdict(t, s, second, wire.VerdictStored)
	for _, b := range []*wire.Batch{first, second} {
		other := *b
		other.Header = append(bytes.Clone(b.Header), 1)
		verdict(t, s, &other, wire.VerdictConflict)
		other.Header = b.Header[:len(b.Header)-1]
		verdict(t, s, &other, wire.VerdictConflict)
	}
	if n := count(t, s, x); n != 2 {
		t.Fatalf("%d entries, want 2", n)
	}
}

func testAppendSuperseded(t *testing.T, open Opener) {
	s, _ := open(t)
	x := id(10)
	none := &wire.Batch{Boot: id(1), Epoch: 1, Number: 1, Header: []byte("h")}
	verdict(t, s, none, wire.VerdictSuperseded) // no boot owns the store
	w := newWriter(t, s)
	first := w.store(w.entry(x, 5))
	for _, change := range []func(*wire.Batch){
		func(b *wire.Batch) { b.Boot = id(99) },
		func(b *wire.Batch) { b.Epoch++ },
	} {
		for _, number := range []uint64{1, 2, 3} {
			b := *first
			b.Number = number
			change(&b)
			verdict(t, s, &b, wire.VerdictSuperseded)
		}
	}
	must(s.Own(t.Context(), wire.Own{Action: wire.OwnRelease, Boot: w.boot, Expect: w.epoch}))(t)
	verdict(t, s, first, wire.VerdictSuperseded) // ownership is checked before the bytes
	late := w.next(w.entry(x, 5))
	verdict(t, s, late, wire.VerdictSuperseded)

	heir := &writer{t: t, backend: s, boot: id(50), ledgers: map[wire.ID][]wire.Entry{x: make([]wire.Entry, 1)}}
	heir.take()
	verdict(t, s, first, wire.VerdictSuperseded)
	verdict(t, s, late, wire.VerdictSuperseded)
	heir.store(heir.entry(x, 5))
	verdict(t, s, late, wire.VerdictSuperseded)
	if n := count(t, s, x); n != 2 {
		t.Fatalf("%d entries, want 2", n)
	}
}

// testAppendRace sends one batch many times at once, then different batches
// under one number: exactly one of each is stored.
func testAppendRace(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x := id(10)
	same := w.next(w.entry(x, 2000), w.entry(id(11), 2000))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := s.Append(t.Context(), same); err != nil || got.Verdict != wire.VerdictStored {
				t.Errorf("same bytes: %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	var stored, conflicts atomic.Int32
	for i := range 8 {
		b := &wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: 2, Header: []byte{byte(i)}, Entries: []wire.Entry{w.entry(x, 100+i)}}
		wg.Go(func() {
			got, err := s.Append(t.Context(), b)
			switch {
			case err != nil:
				t.Error(err)
			case got.Verdict == wire.VerdictStored:
				stored.Add(1)
			case got.Verdict == wire.VerdictConflict:
				conflicts.Add(1)
			}
		})
	}
	wg.Wait()
	if stored.Load() != 1 || conflicts.Load() != 7 {
		t.Fatalf("%d stored, %d conflicts", stored.Load(), conflicts.Load())
	}
	if n := count(t, s, x); n != 2 {
		t.Fatalf("%d entries, want 2", n)
	}
}

// testAppendWhole makes batches fail at their last entry: nothing of them is stored,
// neither entries nor keys, hashes, nodes or the header.
func testAppendWhole(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x, y := id(10), id(11)
	w.fill(x, 255, 5)
	broken := w.entry(y, 5)
	broken.Seq = 3
	b := &wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: w.number + 1, Header: []byte("broken"),
		Entries: []wire.Entry{w.entry(x, 5), broken},
		Keys:    []wire.WrappedKey{{Organization: x, KeyID: 1, Sealed: []byte("key")}}}
	verdict(t, s, b, wire.VerdictConflict)
	got := must(s.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: x}))(t)
	if got.Count != 255 || len(got.Keys) != 0 {
		t.Fatalf("after a conflict: %d entries, %d keys", got.Count, len(got.Keys))
	}
	w.store(w.entry(x, 5), w.entry(y, 5)) // the number is still free
	checkProofs(t, s, w, x, 256, []uint64{0, 255})
}

// testRefused sends batches that exceed a limit; nothing of them may be stored.
func testRefused(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x := id(10)
	for name, spoil := range map[string]func(*wire.Batch){
		"no boot":       func(b *wire.Batch) { b.Boot = wire.ID{} },
		"epoch zero":    func(b *wire.Batch) { b.Epoch = 0 },
		"epoch":         func(b *wire.Batch) { b.Epoch = store.MaxEpoch + 1 },
		"number zero":   func(b *wire.Batch) { b.Number = 0 },
		"number":        func(b *wire.Batch) { b.Number = 1 << 63 },
		"no header":     func(b *wire.Batch) { b.Header = nil },
		"header":        func(b *wire.Batch) { b.Header = make([]byte, store.MaxHeader+1) },
		"organization":  func(b *wire.Batch) { b.Entries[0].Organization = wire.ID{} },
		"seq":           func(b *wire.Batch) { b.Entries[0].Seq = store.MaxSeq + 1 },
		"empty entry":   func(b *wire.Batch) { b.Entries[0].Sealed = nil },
		"large entry":   func(b *wire.Batch) { b.Entries[0].Sealed = make([]byte, wire.MaxSealed+1) },
		"type":          func(b *wire.Batch) { b.Entries[0].Type = strings.Repeat("T", store.MaxType+1) },
		"type not text": func(b *wire.Batch) { b.Entries[0].Type = "\xff" },
		"type with NUL": func(b *wire.Batch) { b.Entries[0].Type = "A\x00B" },
		"time":          func(b *wire.Batch) { b.Entries[0].TimeMs = 1 << 63 },
		"many entries":  func(b *wire.Batch) { b.Entries = make([]wire.Entry, wire.MaxBatch+1) },
		"many keys":     func(b *wire.Batch) { b.Keys = make([]wire.WrappedKey, wire.MaxBatch+1) },
		"key of nobody": func(b *wire.Batch) { b.Keys = []wire.WrappedKey{{Sealed: []byte{1}}} },
		"empty key":     func(b *wire.Batch) { b.Keys = []wire.WrappedKey{{Organization: x}} },
		"large key": func(b *wire.Batch) {
			b.Keys = []wire.WrappedKey{{Organization: x, Sealed: make([]byte, store.MaxSealedKey+1)}}
		},
		"too much sealed": func(b *wire.Batch) {
			b.Entries = nil
			for i := range uint64(3) {
				b.Entries = append(b.Entries, wire.Entry{Organization: x, Seq: i, Sealed: make([]byte, wire.MaxSealed)})
			}
		},
	} {
		b := &wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: 1, Header: []byte("h"), Entries: []wire.Entry{w.entry(x, 5)}}
		spoil(b)
		if _, err := s.Append(t.Context(), b); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.fill(x, 3, 5)
	refusedCalls(t, w, x)
	if n := count(t, s, x); n != 3 {
		t.Fatalf("%d entries, want 3", n)
	}
}

func refusedCalls(t *testing.T, w *writer, x wire.ID) {
	s, ctx := w.backend, context.WithoutCancel(t.Context())
	page := func(p wire.Page) func() error {
		return func() error { _, err := s.Page(ctx, p); return err }
	}
	find := func(f wire.Find) func() error {
		return func() error { _, err := s.Find(ctx, f); return err }
	}
	own := func(o wire.Own) func() error {
		return func() error { _, err := s.Own(ctx, o); return err }
	}
	object := func(name string, size int) func() error {
		return func() error {
			_, err := s.PutObject(ctx, wire.PutObject{Name: name, Bytes: make([]byte, size)})
			return err
		}
	}
	snapshot := func(p wire.PutSnapshot) func() error {
		p.Boot, p.Epoch = w.boot, w.epoch
		return func() error { _, err := s.PutSnapshot(ctx, p); return err }
	}
	for name, call := range map[string]func() error{
		"page limit 0":        page(wire.Page{Organization: x, TreeSize: 3}),
		"page limit 101":      page(wire.Page{Organization: x, TreeSize: 3, Limit: 101}),
		"page two cursors":    page(wire.Page{Organization: x, TreeSize: 3, Limit: 1, Before: &x, After: &x}),
		"page ahead":          page(wire.Page{Organization: x, TreeSize: 4, Limit: 1}),
		"page many types":     page(wire.Page{Organization: x, TreeSize: 3, Limit: 1, Types: make([]string, store.MaxFilter+1)}),
		"page many statuses":  page(wire.Page{Organization: x, TreeSize: 3, Limit: 1, Statuses: make([]uint8, store.MaxFilter+1)}),
		"page type":           page(wire.Page{Organization: x, TreeSize: 3, Limit: 1, Types: []string{"\xff"}}),
		"find ahead":          find(wire.Find{Organization: x, TreeSize: 4}),
		"find of nobody":      find(wire.Find{Organization: id(77), TreeSize: 1}),
		"find far ahead":      find(wire.Find{Organization: x, TreeSize: 1 << 60}),
		"find too many":       find(wire.Find{Organization: x, TreeSize: 3, Seqs: make([]uint64, 60), Activities: make([]wire.ID, 41)}),
		"own nothing":         own(wire.Own{Boot: x}),
		"own unknown":         own(wire.Own{Action: 5, Boot: x}),
		"own by nobody":       own(wire.Own{Action: wire.OwnTake}),
		"own at the end":      own(wire.Own{Action: wire.OwnTake, Boot: x, Expect: store.MaxEpoch}),
		"object without name": object("", 1),
		"object name":         object(strings.Repeat("n", wire.MaxObjectName+1), 1),
		"object name bytes":   object("a\x00", 1),
		"object empty":        object("a", 0),
		"object large":        object("a", wire.MaxObject+1),
		"snapshot of nobody":  snapshot(wire.PutSnapshot{Organization: id(77), Count: 1, Snapshot: []byte{1}}),
		"snapshot of nothing": snapshot(wire.PutSnapshot{Organization: x, Snapshot: []byte{1}}),
		"snapshot ahead":      snapshot(wire.PutSnapshot{Organization: x, Count: 4, Snapshot: []byte{1}}),
		"snapshot over":       snapshot(wire.PutSnapshot{Organization: x, Count: 1, Over: 1, Snapshot: []byte{1}}),
		"snapshot empty":      snapshot(wire.PutSnapshot{Organization: x, Count: 1}),
		"pieces ahead":        snapshot(wire.PutSnapshot{Organization: x, Count: 4, Pieces: [][]byte{{1}}}),
		"pieces and a drop":   snapshot(wire.PutSnapshot{Organization: x, Count: 1, Pieces: [][]byte{{1}}, Drop: make([]wire.Hash, 1)}),
		"snapshot large":      snapshot(wire.PutSnapshot{Organization: x, Count: 1, Snapshot: make([]byte, wire.MaxSnapshot+1)}),
		"piece empty":         snapshot(wire.PutSnapshot{Organization: x, Count: 1, Snapshot: []byte{1}, Pieces: [][]byte{nil}}),
		"piece large":         snapshot(wire.PutSnapshot{Organization: x, Count: 1, Snapshot: []byte{1}, Pieces: [][]byte{make([]byte, store.MaxSealedPiece+1)}}),
		"many pieces":         snapshot(wire.PutSnapshot{Organization: x, Count: 1, Snapshot: []byte{1}, Pieces: make([][]byte, store.MaxNewPieces+1)}),
		"many drops":          snapshot(wire.PutSnapshot{Organization: x, Count: 1, Snapshot: []byte{1}, Drop: make([]wire.Hash, store.MaxDrop+1)}),
		"snapshot by nobody": func() error {
			_, err := s.PutSnapshot(ctx, wire.PutSnapshot{Organization: x, Count: 1, Snapshot: []byte{1}, Epoch: w.epoch})
			return err
		},
		"snapshot at no epoch": func() error {
			_, err := s.PutSnapshot(ctx, wire.PutSnapshot{Organization: x, Count: 1, Snapshot: []byte{1}, Boot: w.boot})
			return err
		},
		"ask many pieces": func() error {
			_, err := s.LoadPieces(ctx, wire.LoadPieces{Organization: x, Pieces: make([]wire.Hash, wire.MaxPieces+1)})
			return err
		},
		"ask object name": func() error {
			_, err := s.LoadObject(ctx, wire.LoadObject{Name: "\x80"})
			return err
		},
	} {
		if err := call(); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
