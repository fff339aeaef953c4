package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cloister/shared/wire"
)

// naive answers a Page from the whole ledger.
func naive(ledger []wire.Entry, p wire.Page) (seqs []uint64, unknown bool) {
	seen := map[wire.ID]bool{}
	var list []wire.Entry // newest entry of each activity, newest first
	for _, e := range slices.Backward(ledger[:p.TreeSize]) {
		if e.Activity != (wire.ID{}) && !seen[e.Activity] {
			seen[e.Activity] = true
			list = append(list, e)
		}
	}
	low, high := -1, len(ledger) // exclusive bounds of seq
	for _, c := range []*wire.ID{p.Before, p.After} {
		if c == nil {
			continue
		}
		at := slices.IndexFunc(list, func(e wire.Entry) bool { return e.Activity == *c })
		if at < 0 {
			return nil, true
		}
		if c == p.Before {
			low = int(list[at].Seq)
		} else {
			high = int(list[at].Seq)
		}
	}
	if p.End != nil {
		high = min(high, int(*p.End))
	}
	for _, e := range list {
		if int(e.Seq) <= low || int(e.Seq) >= high ||
			len(p.Types) > 0 && !slices.Contains(p.Types, e.Type) ||
			len(p.Statuses) > 0 && !slices.Contains(p.Statuses, e.Status) {
			continue
		}
		seqs = append(seqs, e.Seq)
	}
	if p.Before != nil {
		return seqs[max(0, len(seqs)-int(p.Limit)):], false
	}
	return seqs[:min(len(seqs), int(p.Limit))], false
}

// randomPage draws filters, cursors, limits and tree sizes, unknown ones too.
func randomPage(r *rand.Rand, org wire.ID, stored int) wire.Page {
	p := wire.Page{Organization: org, TreeSize: uint64(stored), Limit: uint16(1 + r.IntN(12))}
	if r.IntN(3) == 0 {
		p.TreeSize = r.Uint64N(uint64(stored) + 1)
	}
	if r.IntN(8) == 0 {
		p.Limit = 100
	}
	for range r.IntN(3) {
		p.Types = append(p.Types, append(types, "ACTIVITY_TYPE_NONE")[r.IntN(len(types)+1)])
	}
	for range r.IntN(3) {
		p.Statuses = append(p.Statuses, uint8(r.IntN(5)))
	}
	cursor := id(1000 + r.Uint64N(130))
	switch r.IntN(3) {
	case 0:
		p.Before = &cursor
	case 1:
		p.After = &cursor
	}
	if r.IntN(3) == 0 {
		p.End = new(r.Uint64N(uint64(stored) + 3))
	}
	return p
}

func testPageOracle(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x, y := id(10), id(11)
	r := rand.New(rand.NewPCG(5, 6))
	asked := 0
	for _, upTo := range []int{1, 7, 60, 400} {
		for len(w.ledgers[x]) < upTo {
			w.store(step(w, r, x, 120), step(w, r, y, 40))
		}
		all := roots(t, w.ledgers[x])
		for range 250 {
			p := randomPage(r, x, upTo)
			got := must(s.Page(t.Context(), p))(t)
			want, unknown := naive(w.ledgers[x], p)
			var seqs []uint64
			for _, e := range got.Entries {
				seqs = append(seqs, e.Seq)
				verify(t, e, w.ledgers[x], p.TreeSize, all[p.TreeSize])
			}
			if got.Unknown != unknown || !slices.Equal(seqs, want) {
				t.Fatalf("%s: %v (unknown %v), want %v (unknown %v)", show(p), seqs, got.Unknown, want, unknown)
			}
			asked += len(seqs)
		}
	}
	if asked < 500 {
		t.Fatalf("only %d entries were compared", asked)
	}
}

func show(p wire.Page) string {
	s := fmt.Sprintf("page of %d under %d, types %q, statuses %v", p.Limit, p.TreeSize, p.Types, p.Statuses)
	if p.Before != nil {
		s += fmt.Sprintf(", before %x", p.Before[:8])
	}
	if p.After != nil {
		s += fmt.Sprintf(", after %x", p.After[:8])
	}
	if p.End != nil {
		s += fmt.Sprintf(", below %d", *p.End)
	}
	return s
}

// testPageDeep puts a few activities before thousands of entries that a list
// must skip: those of one activity, and of none.
func testPageDeep(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x := id(10)
	batch := func(n int, shape func(*wire.Entry)) {
		for n > 0 {
			b := w.next()
			for ; n > 0 && len(b.Entries) < 1000; n-- {
				e := w.entry(x, 8)
				shape(&e)
				b.Entries = append(b.Entries, e)
				w.ledgers[x] = append(w.ledgers[x], e)
			}
			verdict(t, s, b, wire.VerdictStored)
		}
	}
	next := uint64(1000)
	batch(5, func(e *wire.Entry) { e.Activity, e.Type, e.Status = id(next), types[0], 1; next++ })
	batch(2000, func(e *wire.Entry) {})
	long := id(next)
	prior := uint64(0)
	batch(2000, func(e *wire.Entry) {
		e.Activity, e.Type, e.Status, e.Prior = long, types[1], 2, prior
		prior = e.Seq + 1
	})
	for _, p := range []wire.Page{
		{Limit: 10}, {Limit: 3}, {Limit: 10, After: &long}, {Limit: 10, TreeSize: 3000},
		{Limit: 10, Types: types[:1]}, {Limit: 10, Statuses: []uint8{1, 2}}, {Limit: 10, Before: ptr(id(1002))},
		{Limit: 10, TreeSize: 3000, Statuses: []uint8{2}}, {Limit: 10, After: ptr(id(1000))}, {Limit: 10, Before: &long},
	} {
		p.Organization = x
		if p.TreeSize == 0 {
			p.TreeSize = 4005
		}
		got := must(s.Page(t.Context(), p))(t)
		want, _ := naive(w.ledgers[x], p)
		var seqs []uint64
		for _, e := range got.Entries {
			seqs = append(seqs, e.Seq)
		}
		if !slices.Equal(seqs, want) {
			t.Fatalf("%s: %v, want %v", show(p), seqs, want)
		}
	}
}

func ptr(id wire.ID) *wire.ID { return &id }
