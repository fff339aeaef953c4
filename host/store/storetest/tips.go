package storetest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// highest returns the highest id.
func highest() (last wire.ID) { return wire.ID(bytes.Repeat([]byte{0xff}, len(last))) }

// testTips compares roots with those computed from the entries, for counts around the boundaries of the
// stored nodes of a tree.
func testTips(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	if got := must(s.LoadTips(t.Context(), wire.LoadTips{To: highest(), Limit: 1}))(t); len(got.Tips) != 0 {
		t.Fatalf("tips of nothing: %+v", got)
	}
	var want []wire.Tip
	for i, n := range []int{1, 2, 3, 255, 256, 257, 511, 512, 513, 65535, 65536, 65537, 65537 + 256} {
		org := id(uint64(i+1) << 60) // high ids come last, also if signed integers would be negative
		w.fill(org, n, 9)
		want = append(want, wire.Tip{Organization: org, Count: uint64(n), Root: wire.Hash(roots(t, w.ledgers[org])[n])})
	}
	// An organization whose first batch failed has no tip.
	stray := w.entry(id(7), 5)
	stray.Seq = 1
	verdict(t, s, &wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: w.number + 1, Header: []byte("h"), Entries: []wire.Entry{w.entry(id(8), 5), stray}}, wire.VerdictConflict)
	stray = w.entry(want[3].Organization, 5)
	stray.Seq++
	verdict(t, s, &wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: w.number + 1, Header: []byte("h"), Entries: []wire.Entry{w.entry(id(9), 5), stray}}, wire.VerdictConflict)

	for range 2 {
		for _, limit := range []uint32{1, 5, wire.MaxTipsPage} {
			ask := wire.LoadTips{To: highest(), Limit: limit}
			var got []wire.Tip
			for {
				page := must(s.LoadTips(t.Context(), ask))(t).Tips
				got = append(got, page...)
				if len(page) < int(limit) {
					break
				}
				ask.From = page[len(page)-1].Organization
				ask.From[15]++
			}
			sameTips(t, got, want)
		}
		for _, c := range []struct{ from, to int }{{0, 0}, {3, 5}, {0, 12}, {12, 12}, {5, 3}} {
			got := must(s.LoadTips(t.Context(), wire.LoadTips{From: want[c.from].Organization, To: want[c.to].Organization, Limit: wire.MaxTipsPage}))(t)
			sameTips(t, got.Tips, want[c.from:max(c.from, c.to+1)])
		}
		s = reopen()
	}
	for _, limit := range []uint32{0, wire.MaxTipsPage + 1} {
		if _, err := s.LoadTips(t.Context(), wire.LoadTips{To: highest(), Limit: limit}); !errors.Is(err, store.ErrRefused) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

func sameTips(t *testing.T, got, want []wire.Tip) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d tips, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("tip %d is %x of %d, want %x of %d", i, got[i].Root, got[i].Count, want[i].Root, want[i].Count)
		}
	}
}

// putTable puts a range's table as the writer's boot.
func (w *writer) putTable(p wire.PutTable) bool {
	w.t.Helper()
	p.Range, p.Boot, p.Epoch, p.Over = w.in, w.boot, w.epoch, over(w.t, w.backend, w.in)
	return must(w.backend.PutTable(w.t.Context(), p))(w.t).OK
}

// over returns the hash of the stored table.
func over(t testing.TB, s store.Store, r wire.Range) (hash wire.Hash) {
	if r >= wire.MaxRanges {
		return hash
	}
	if got := must(s.LoadTable(t.Context(), wire.LoadTable{Range: r}))(t); len(got.Table) > 0 {
		hash = sha256.Sum256(got.Table)
	}
	return hash
}

// tipTable makes a table with numbered pages, or without text only pages.
func tipTable(text string, pages, drop []int) wire.PutTable {
	p := wire.PutTable{Table: []byte(text)}
	for _, n := range pages {
		p.Pages = append(p.Pages, piece(n))
	}
	for _, n := range drop {
		p.Drop = append(p.Drop, pieceHash(n))
	}
	return p
}

// holdsTable checks a range's table and which of the first pages exist.
func holdsTable(t *testing.T, s store.Store, r wire.Range, text string, there ...int) {
	t.Helper()
	if got := must(s.LoadTable(t.Context(), wire.LoadTable{Range: r}))(t); string(got.Table) != text {
		t.Fatalf("range %d: table %q, want %q", r, got.Table, text)
	}
	have := map[int]bool{}
	for _, n := range there {
		have[n] = true
	}
	ask := wire.LoadPages{Range: r}
	for n := range 6 {
		ask.Pages = append(ask.Pages, pieceHash(n))
	}
	for n, p := range must(s.LoadPages(t.Context(), ask))(t).Pieces {
		if have[n] && !bytes.Equal(p, piece(n)) || !have[n] && len(p) != 0 {
			t.Fatalf("range %d: page %d is %q", r, n, p)
		}
	}
}

func testTable(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	other := &writer{t: t, backend: s, boot: id(2), in: wire.MaxRanges - 1}
	other.take()
	try := func(w *writer, p wire.PutTable) {
		t.Helper()
		if !w.putTable(p) {
			t.Fatalf("%q of range %d was refused", p.Table, w.in)
		}
	}
	holdsTable(t, s, w.in, "")
	try(w, tipTable("", []int{0, 1}, nil)) // before the first table
	holdsTable(t, s, w.in, "", 0, 1)
	one := tipTable("one", []int{2}, nil)
	try(w, one)
	holdsTable(t, s, w.in, "one", 0, 1, 2)
	try(w, one)
	holdsTable(t, s, w.in, "one", 0, 1, 2)
	holdsTable(t, s, other.in, "")

	// Each range has its own copy of an equal page.
	try(other, tipTable("other", []int{1, 5}, nil))
	two := tipTable("two", []int{3, 3, 2}, []int{0, 1, 4})
	try(w, two)
	holdsTable(t, s, w.in, "two", 2, 3)
	holdsTable(t, s, other.in, "other", 1, 5)
	ahead := tipTable("", []int{0, 4}, nil)
	for range 2 {
		try(w, ahead)
		holdsTable(t, s, w.in, "two", 0, 2, 3, 4)
	}
	try(w, tipTable("three", []int{5}, []int{5, 3})) // dropped before it is added
	s = reopen()
	w.backend, other.backend = s, s
	holdsTable(t, s, w.in, "three", 0, 2, 4, 5)
	holdsTable(t, s, other.in, "other", 1, 5)
	try(w, tipTable("four", nil, nil))
	for name, hash := range map[string]wire.Hash{"none": {}, "an earlier one": sha256.Sum256([]byte("three"))} {
		late := tipTable("late", []int{1}, []int{4})
		late.Range, late.Boot, late.Epoch, late.Over = w.in, w.boot, w.epoch, hash
		if done := must(s.PutTable(t.Context(), late))(t); done.OK {
			t.Errorf("a table that was made from %s replaces another", name)
		}
	}
	holdsTable(t, s, w.in, "four", 0, 2, 4, 5)
	for range 2 { // after the table that no longer names them
		try(w, tipTable("", nil, []int{2, 5, 1}))
		holdsTable(t, s, w.in, "four", 0, 4)
	}
	holdsTable(t, s, other.in, "other", 1, 5)
	tableBounds(t, s, w)
}

// tableBounds puts the largest possible table, requests more pages than fit into a frame, and then sends
// calls that exceed a limit.
func tableBounds(t *testing.T, s store.Store, w *writer) {
	t.Helper()
	large := bytes.Repeat([]byte{7}, wire.MaxTable)
	if !w.putTable(wire.PutTable{Table: large}) {
		t.Fatal("a large table was refused")
	}
	if got := must(s.LoadTable(t.Context(), wire.LoadTable{Range: w.in}))(t); !bytes.Equal(got.Table, large) {
		t.Fatalf("a large table came back with %d bytes", len(got.Table))
	}
	var pages [][]byte
	var asked []wire.Hash
	for i := range byte(32) {
		p := bytes.Repeat([]byte{i}, wire.MaxPage)
		pages, asked = append(pages, p), append(asked, sha256.Sum256(p))
	}
	if !w.putTable(wire.PutTable{Pages: pages[:31]}) || !w.putTable(wire.PutTable{Pages: pages[31:]}) {
		t.Fatal("large pages were refused")
	}
	if got := must(s.LoadPages(t.Context(), wire.LoadPages{Range: w.in, Pages: asked[:31]}))(t); len(got.Pieces) != 31 || !bytes.Equal(got.Pieces[30], pages[30]) {
		t.Fatalf("%d pages", len(got.Pieces))
	}
	put := func(p wire.PutTable) error {
		p.Range, p.Boot, p.Epoch = w.in, w.boot, w.epoch
		return refusal(s.PutTable(t.Context(), p))
	}
	one := [][]byte{{1}}
	for name, err := range map[string]error{
		"nothing":          put(wire.PutTable{}),
		"pages and a drop": put(wire.PutTable{Pages: one, Drop: make([]wire.Hash, 1)}),
		"an empty page":    put(wire.PutTable{Pages: [][]byte{nil}}),
		"a large page":     put(wire.PutTable{Pages: [][]byte{make([]byte, wire.MaxPage+1)}}),
		"many pages":       put(wire.PutTable{Pages: make([][]byte, store.MaxNewPages+1)}),
		"many drops":       put(wire.PutTable{Table: large, Drop: make([]wire.Hash, wire.MaxDropPages+1)}),
		"a larger table":   put(wire.PutTable{Table: append(large, 1)}),
		"more than frames": put(wire.PutTable{Table: large, Pages: pages}),
		"nobody's boot":    refusal(s.PutTable(t.Context(), wire.PutTable{Epoch: w.epoch, Pages: one})),
		"no epoch":         refusal(s.PutTable(t.Context(), wire.PutTable{Boot: w.boot, Pages: one})),
		"a far epoch":      refusal(s.PutTable(t.Context(), wire.PutTable{Boot: w.boot, Epoch: store.MaxEpoch + 1, Pages: one})),
		"a range":          refusal(s.PutTable(t.Context(), wire.PutTable{Range: wire.MaxRanges, Boot: w.boot, Epoch: 1, Pages: one})),
		"table of a range": refusal(s.LoadTable(t.Context(), wire.LoadTable{Range: wire.MaxRanges})),
		"pages of a range": refusal(s.LoadPages(t.Context(), wire.LoadPages{Range: wire.MaxRanges})),
		"too many pages":   refusal(s.LoadPages(t.Context(), wire.LoadPages{Pages: make([]wire.Hash, wire.MaxPieces+1)})),
		"a frame's more":   refusal(s.LoadPages(t.Context(), wire.LoadPages{Range: w.in, Pages: asked})),
	} {
		if !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := must(s.LoadTable(t.Context(), wire.LoadTable{Range: w.in}))(t); !bytes.Equal(got.Table, large) {
		t.Fatal("a table that was refused is there")
	}
}

// testTableOwner tries every boot but the owner of the range.
func testTableOwner(t *testing.T, open Opener) {
	s, _ := open(t)
	nobody := &writer{t: t, backend: s, boot: id(1), epoch: 1}
	if nobody.putTable(tipTable("one", []int{0}, nil)) || nobody.putTable(tipTable("", []int{0}, nil)) {
		t.Fatal("a table when nobody owns the range")
	}
	holdsTable(t, s, 0, "")
	w := newWriter(t, s)
	one := tipTable("one", []int{0, 1}, nil)
	if !w.putTable(one) {
		t.Fatal("the owner's table was refused")
	}
	refused := func(why string, w writer) {
		t.Helper()
		for _, p := range []wire.PutTable{one, tipTable("two", []int{2}, []int{0, 1}), tipTable("", []int{2}, nil), tipTable("", nil, []int{0})} {
			if w.putTable(p) {
				t.Errorf("%s: %q with %d pages was taken", why, p.Table, len(p.Pages))
			}
		}
		holdsTable(t, s, 0, "one", 0, 1)
		holdsTable(t, s, w.in|1, "")
	}
	for why, change := range map[string]func(*writer){
		"another boot":  func(w *writer) { w.boot = id(99) },
		"another epoch": func(w *writer) { w.epoch++ },
		"another range": func(w *writer) { w.in = 1 },
	} {
		other := *w
		change(&other)
		refused(why, other)
	}
	must(s.Own(t.Context(), wire.Own{Action: wire.OwnRelease, Boot: w.boot, Expect: w.epoch}))(t)
	refused("released", *w)
	heir := &writer{t: t, backend: s, boot: id(50)}
	heir.take()
	refused("superseded", *w)
	if !heir.putTable(tipTable("heir's", []int{3}, []int{0})) {
		t.Fatal("the heir's table was refused")
	}
	if w.putTable(tipTable("late", nil, []int{1, 3})) {
		t.Fatal("a superseded boot replaced the heir's table")
	}
	holdsTable(t, s, 0, "heir's", 1, 3)
}

// testTableRace sends one table and its pages many times at once, while another range puts its own.
func testTableRace(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	other := &writer{t: t, backend: s, boot: id(2), in: 1}
	other.take()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			by := w
			if i%4 == 0 {
				by = other
			}
			for n := range 5 {
				p := tipTable(fmt.Sprint("table ", n), []int{n, n + 1}, []int{n - 1, n - 2})
				p.Range, p.Boot, p.Epoch = by.in, by.boot, by.epoch
				for done := false; !done; { // another may be faster
					p.Over = over(t, s, by.in)
					put, err := s.PutTable(t.Context(), p)
					if done = put.OK; err != nil {
						t.Fatalf("table %d of range %d: %v", n, by.in, err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, by := range []*writer{w, other} {
		if !by.putTable(tipTable("last", []int{4}, []int{0, 1, 2, 3, 5})) {
			t.Fatal("the last table was refused")
		}
		holdsTable(t, s, by.in, "last", 4)
	}
}

// testTableTakeRace makes a boot put tables while another takes the range: the table that the new boot finds
// after its take does not change.
func testTableTakeRace(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	at := func() string { return string(must(s.LoadTable(t.Context(), wire.LoadTable{}))(t).Table) }
	for round := range 5 {
		old := *w
		started := make(chan struct{})
		var begun sync.Once
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := 1; ; n++ {
				p := tipTable(fmt.Sprint("table ", round, "/", n), []int{n}, []int{n - 1})
				p.Boot, p.Epoch, p.Over = old.boot, old.epoch, over(t, s, 0)
				done, err := s.PutTable(t.Context(), p)
				if err != nil {
					t.Error(err)
				}
				if n == 3 || err != nil {
					begun.Do(func() { close(started) })
				}
				if err != nil || !done.OK {
					return
				}
			}
		})
		<-started
		next := &writer{t: t, backend: s, boot: id(uint64(100 + round))}
		next.take()
		seen := at()
		wg.Wait()
		if now := at(); now != seen {
			t.Fatalf("round %d: %q when taken, %q later", round, seen, now)
		}
		w = next
	}
}

// BenchLog measures a boot's queries of a range's log, and the calls while it runs: headers among those
// of three ranges, tips among n organizations of 20 entries on average, and the table of a million.
func BenchLog(b *testing.B, s store.Store, n int) {
	const ranges, epochs, batches = 3, 20, 1000
	var rows []store.Row
	for r := range uint32(ranges) {
		rows = append(rows, &store.OwnerRow{Range: r, Boot: id(1), Epoch: epochs})
	}
	for r := range uint32(ranges) {
		for i := range uint64(epochs * batches) {
			rows = append(rows, &store.BatchRow{Range: r, Epoch: 1 + i/batches, Number: 1 + i%batches, Header: make([]byte, 300)})
		}
	}
	for i := range uint64(n) {
		rows = append(rows, &store.OrganizationRow{Number: i + 1, ID: id((i * 0x9e3779b97f4a7c15) | 1)})
		count := 1 + i%40
		for seq := range count {
			rows = append(rows, &store.EntryRow{Seq: seq, Sealed: make([]byte, 1<<10)})
		}
		rows = append(rows, &store.EndRow{Count: count})
	}
	if err := s.Import(b.Context(), From(rows)); err != nil {
		b.Fatal(err)
	}
	w := newWriter(b, s)
	for _, epoch := range []uint64{1, epochs / 2, epochs} {
		b.Run(fmt.Sprintf("headers/epoch=%d", epoch), func(b *testing.B) {
			for b.Loop() {
				if got := must(s.LoadHeaders(b.Context(), wire.LoadHeaders{Range: 1, Epoch: epoch, Number: 1, MaxBytes: 300 << 10}))(b); len(got.Headers) < 900 {
					b.Fatal(len(got.Headers))
				}
			}
		})
	}
	for _, from := range []wire.ID{{}, {0x80}} {
		b.Run(fmt.Sprintf("tips/from=%02x", from[0]), func(b *testing.B) {
			for b.Loop() {
				if got := must(s.LoadTips(b.Context(), wire.LoadTips{From: from, To: highest(), Limit: 1000}))(b); len(got.Tips) != 1000 {
					b.Fatal(len(got.Tips))
				}
			}
		})
	}
	table := bytes.Repeat([]byte{1}, 1<<20)
	for i := 0; i < 1<<20; i += 8 << 10 { // pages of the table, of 2 KiB each
		var p wire.PutTable
		for j := range 4 {
			p.Pages = append(p.Pages, bytes.Repeat(fmt.Appendf(nil, "%08d", i+j), 256))
		}
		w.putTable(p)
	}
	var old []wire.Hash
	b.Run("table", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			p := wire.PutTable{Table: table, Drop: old}
			old = nil
			for j := range 1000 {
				page := bytes.Repeat(fmt.Appendf(nil, "%04d%04d", i, j), 256)
				p.Pages, old = append(p.Pages, page), append(old, sha256.Sum256(page))
			}
			if !w.putTable(p) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("pages", func(b *testing.B) {
		for b.Loop() {
			if got := must(s.LoadPages(b.Context(), wire.LoadPages{Pages: old[:wire.MaxPieces]}))(b); len(got.Pieces[0]) != 2<<10 {
				b.Fatal(len(got.Pieces[0]))
			}
		}
	})
}
