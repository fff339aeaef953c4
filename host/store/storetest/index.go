package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cloister/host/store"
	"cloister/shared/wire"
)

func key(n uint64) (h wire.Hash) {
	i := id(n)
	copy(h[:], i[:])
	h[31] = byte(n)
	return h
}

func withIndex(e wire.Entry, changes ...wire.IndexChange) wire.Entry {
	e.Index = changes
	return e
}

func put(k, rank uint64) wire.IndexChange { return wire.IndexChange{Key: key(k), Rank: rank} }
func drop(k, rank uint64) wire.IndexChange {
	return wire.IndexChange{Key: key(k), Rank: rank, Drop: true}
}

func inOrder(a, b wire.IndexRow) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), slices.Compare(a.Organization[:], b.Organization[:]))
}

// naiveRows answers a PageIndex from whole ledgers.
func naiveRows(w *writer, p wire.PageIndex) (rows []wire.IndexRow) {
	for org, entries := range w.ledgers {
		there := map[uint64]bool{}
		for _, e := range entries {
			for _, c := range e.Index {
				if c.Key == p.Key {
					there[c.Rank] = !c.Drop
				}
			}
		}
		for rank, yes := range there {
			if yes {
				rows = append(rows, wire.IndexRow{Rank: rank, Organization: org})
			}
		}
	}
	slices.SortFunc(rows, inOrder)
	rows = slices.DeleteFunc(rows, func(r wire.IndexRow) bool {
		return p.After != nil && inOrder(r, *p.After) <= 0 || p.Before != nil && inOrder(r, *p.Before) >= 0
	})
	if n := int(p.Limit); n < len(rows) && p.Before != nil {
		rows = rows[len(rows)-n:]
	} else if n < len(rows) {
		rows = rows[:n]
	}
	return rows
}

func samePage(t *testing.T, w *writer, p wire.PageIndex) int {
	t.Helper()
	got, want := must(w.backend.PageIndex(t.Context(), p))(t).Rows, naiveRows(w, p)
	if !slices.Equal(got, want) {
		t.Fatalf("page %+v:\n got %v\nwant %v", p, got, want)
	}
	return len(got)
}

// testIndex changes rows at random and compares pages with the ledgers.
func testIndex(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	r := rand.New(rand.NewPCG(7, 8))
	rank := func(org uint64) uint64 { return 1000 + org%5 } // many rows have one rank
	cursors := 0
	for round := range 60 {
		var entries []wire.Entry
		b := w.next()
		for range 1 + r.IntN(6) {
			org := 10 + r.Uint64N(12)
			var cs []wire.IndexChange
			for range r.IntN(8) {
				cs = append(cs, wire.IndexChange{Key: key(1 + r.Uint64N(3)), Rank: rank(org), Drop: r.IntN(3) == 0})
			}
			e := withIndex(w.entry(id(org), 5), cs...)
			w.ledgers[e.Organization] = append(w.ledgers[e.Organization], e)
			entries = append(entries, e)
		}
		b.Entries = entries
		verdict(t, s, b, wire.VerdictStored)
		if round == 40 {
			s = reopen()
			w.backend = s
		}
		for range 10 {
			p := wire.PageIndex{Key: key(1 + r.Uint64N(4)), Limit: uint16(1 + r.IntN(15))}
			org := 9 + r.Uint64N(14) // some have no row
			c := &wire.IndexRow{Rank: rank(org), Organization: id(org)}
			switch r.IntN(3) {
			case 0:
				p.Before = c
			case 1:
				p.After = c
			}
			if samePage(t, w, p) > 0 && (p.Before != nil || p.After != nil) {
				cursors++
			}
		}
	}
	if cursors < 50 {
		t.Fatalf("only %d pages behind or above a cursor had rows", cursors)
	}
	for k := range uint64(5) {
		samePage(t, w, wire.PageIndex{Key: key(k), Limit: wire.MaxRows})
		samePage(t, w, wire.PageIndex{Key: key(k), Limit: wire.MaxRows, Before: &wire.IndexRow{Rank: store.MaxRank}})
	}
}

// testIndexOnce repeats batches, and sends batches that are not stored.
func testIndexOnce(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x, y := id(10), id(11)
	has := func(k uint64, want ...wire.IndexRow) {
		t.Helper()
		if got := must(s.PageIndex(t.Context(), wire.PageIndex{Key: key(k), Limit: 10}))(t).Rows; !slices.Equal(got, want) {
			t.Fatalf("key %d: %v, want %v", k, got, want)
		}
	}
	first := w.store(withIndex(w.entry(x, 5), put(1, 7), put(1, 7), drop(9, 7)), withIndex(w.entry(y, 5), put(1, 8), put(2, 8)))
	has(1, wire.IndexRow{Rank: 7, Organization: x}, wire.IndexRow{Rank: 8, Organization: y})
	second := w.store(withIndex(w.entry(x, 5), drop(1, 7), put(2, 7)))
	// A batch that is stored already changes nothing, not even the index.
	for _, b := range []*wire.Batch{first, second, first} {
		verdict(t, s, b, wire.VerdictStored)
	}
	has(1, wire.IndexRow{Rank: 8, Organization: y})
	has(2, wire.IndexRow{Rank: 7, Organization: x}, wire.IndexRow{Rank: 8, Organization: y})
	// Within a batch the last change counts.
	w.store(withIndex(w.entry(x, 5), put(3, 7), drop(4, 7)), withIndex(wire.Entry{Organization: x, Seq: 3, Sealed: []byte{1}}, drop(3, 7), put(4, 7)))
	has(3)
	has(4, wire.IndexRow{Rank: 7, Organization: x})
	// A drop removes one row, not another organization's or rank's.
	w.store(withIndex(w.entry(x, 5), drop(2, 8), drop(1, 8), drop(4, 6)))
	has(1, wire.IndexRow{Rank: 8, Organization: y})
	has(2, wire.IndexRow{Rank: 7, Organization: x}, wire.IndexRow{Rank: 8, Organization: y})
	has(4, wire.IndexRow{Rank: 7, Organization: x})
	// A batch that is not stored changes nothing.
	for what, b := range map[string]struct {
		batch *wire.Batch
		want  wire.Verdict
	}{
		"a gap":           {&wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: w.number + 1, Header: []byte("gap"), Entries: []wire.Entry{withIndex(wire.Entry{Organization: x, Seq: 99, Sealed: []byte{1}}, put(5, 7))}}, wire.VerdictConflict},
		"a gap behind":    {&wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: w.number + 1, Header: []byte("gap"), Entries: []wire.Entry{withIndex(w.entry(y, 5), put(5, 8)), {Organization: x, Seq: 99, Sealed: []byte{1}}}}, wire.VerdictConflict},
		"another header":  {&wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: 1, Header: []byte("other"), Entries: []wire.Entry{withIndex(w.entry(x, 5), put(5, 7))}}, wire.VerdictConflict},
		"another's boot":  {&wire.Batch{Boot: id(99), Epoch: w.epoch, Number: w.number + 1, Header: []byte("x"), Entries: []wire.Entry{withIndex(w.entry(x, 5), put(5, 7))}}, wire.VerdictSuperseded},
		"an epoch behind": {&wire.Batch{Boot: w.boot, Epoch: w.epoch + 1, Number: 1, Header: []byte("x"), Entries: []wire.Entry{withIndex(w.entry(x, 5), put(5, 7))}}, wire.VerdictSuperseded},
	} {
		t.Run(what, func(t *testing.T) { verdict(t, s, b.batch, b.want) })
	}
	has(5)
	// An entry that completes a tree node is appended by other code.
	w.fill(id(12), 255, 4)
	w.store(withIndex(w.entry(id(12), 5), put(5, 9)))
	has(5, wire.IndexRow{Rank: 9, Organization: id(12)})
	w.store(withIndex(w.entry(x, 5), many(wire.MaxIndex, 7)...))
	has(1_000_000+wire.MaxIndex-1, wire.IndexRow{Rank: 7, Organization: x})
}

func many(n int, rank uint64) []wire.IndexChange {
	cs := make([]wire.IndexChange, n)
	for i := range cs {
		cs[i] = put(1_000_000+uint64(i), rank)
	}
	return cs
}

// testIndexRefused sends changes and queries that exceed a limit.
func testIndexRefused(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x := id(10)
	for name, p := range map[string]wire.PageIndex{
		"no limit":    {Key: key(1)},
		"limit":       {Key: key(1), Limit: wire.MaxRows + 1},
		"two cursors": {Key: key(1), Limit: 1, Before: &wire.IndexRow{}, After: &wire.IndexRow{}},
		"before rank": {Key: key(1), Limit: 1, Before: &wire.IndexRow{Rank: store.MaxRank + 1}},
		"after rank":  {Key: key(1), Limit: 1, After: &wire.IndexRow{Rank: 1<<64 - 1}},
	} {
		if _, err := s.PageIndex(t.Context(), p); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, cs := range map[string][]wire.IndexChange{
		"rank":         {put(1, 1), {Key: key(1), Rank: store.MaxRank + 1}},
		"dropped rank": {{Key: key(1), Rank: store.MaxRank + 1, Drop: true}},
		"too many":     many(wire.MaxIndex+1, 1),
	} {
		b := &wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: 1, Header: []byte("h"), Entries: []wire.Entry{withIndex(w.entry(x, 5), cs...)}}
		if _, err := s.Append(t.Context(), b); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := count(t, s, x); n != 0 {
		t.Fatalf("%d entries of what was refused", n)
	}
}

// BenchIndex measures pages of an index of n rows: half of them under one key,
// each of the others under its own; and an append that puts two rows.
func BenchIndex(b *testing.B, s store.Store, n int) {
	w := newWriter(b, s)
	begin := time.Now()
	for i := 0; i < n/2; {
		batch := w.next()
		for ; i < n/2 && len(batch.Entries) < 1000; i++ {
			org := uint64(1000 + i)
			batch.Entries = append(batch.Entries, withIndex(wire.Entry{Organization: id(org), Sealed: make([]byte, 64)}, put(1, org), put(org, org)))
		}
		verdict(b, s, batch, wire.VerdictStored)
	}
	b.Logf("%d rows put in %v", n, time.Since(begin).Round(time.Millisecond))
	at := func(i int) *wire.IndexRow {
		return &wire.IndexRow{Rank: uint64(1000 + i), Organization: id(uint64(1000 + i))}
	}
	for _, p := range []struct {
		name string
		ask  wire.PageIndex
		want int
	}{
		{"first", wire.PageIndex{Key: key(1), Limit: 100}, 100},
		{"middle", wire.PageIndex{Key: key(1), Limit: 100, After: at(n / 4)}, 100},
		{"last", wire.PageIndex{Key: key(1), Limit: 100, Before: &wire.IndexRow{Rank: store.MaxRank}}, 100},
		{"one", wire.PageIndex{Key: key(uint64(1000 + n/4)), Limit: 100}, 1},
		{"none", wire.PageIndex{Key: key(5), Limit: 100}, 0},
	} {
		b.Run(p.name, func(b *testing.B) {
			for b.Loop() {
				if got := must(s.PageIndex(b.Context(), p.ask))(b); len(got.Rows) != p.want {
					b.Fatal(len(got.Rows))
				}
			}
		})
	}
	for _, changes := range []int{0, 2} {
		b.Run(fmt.Sprintf("append/changes=%d", changes), func(b *testing.B) {
			for b.Loop() {
				e := w.entry(id(7), 4<<10)
				if changes > 0 {
					e.Index = []wire.IndexChange{put(e.Seq+1<<40, 7), put(1, 7+e.Seq)}
				}
				verdict(b, s, w.next(e), wire.VerdictStored)
			}
		})
	}
}
