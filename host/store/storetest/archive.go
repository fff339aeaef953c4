package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// Rows returns an export in memory.
func Rows(t testing.TB, s store.Store) []store.Row {
	t.Helper()
	var rows []store.Row
	if err := s.Export(t.Context(), func(r store.Row) error { rows = append(rows, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return rows
}

// From returns the next function of an Import of these rows.
func From(rows []store.Row) func() (store.Row, error) {
	return func() (store.Row, error) {
		if len(rows) == 0 {
			return nil, io.EOF
		}
		r := rows[0]
		rows = rows[1:]
		return r, nil
	}
}

// Full fills an empty store with rows of every kind.
func Full(t testing.TB, s store.Store) {
	t.Helper()
	w := newWriter(t, s)
	w.fill(id(1), 300, 40) // completes a node
	w.take()
	for n := range uint64(3) {
		x := w.entry(id(2), 100)
		x.Activity, x.Type, x.Status = id(50), "ACTIVITY_TYPE_SIGN", uint8(n+1)
		if n > 0 {
			x.Prior = n
		}
		x.Index = []wire.IndexChange{{Key: wire.Hash{7}, Rank: 5}, {Key: wire.Hash{8, byte(n)}, Rank: 1 << 40}}
		x.Sends = []wire.SendMark{{Kind: 1, DueMs: 10 + n, Payer: []wire.ID{{}, id(2), id(1)}[n]}, {Kind: 4, DueMs: 20, Receiver: id(9)}}
		w.store(x, w.entry(id(1), 5000))
	}
	b := w.next(w.entry(id(3), 1))
	b.Keys = []wire.WrappedKey{{Organization: id(1), KeyID: 1, Sealed: []byte("one")}, {Organization: id(1), KeyID: 1<<32 - 1, Sealed: []byte("last")},
		{Organization: id(2), KeyID: 2, Sealed: []byte("two")}}
	verdict(t, s, b, wire.VerdictStored)
	if !w.put(id(1), wire.PutSnapshot{Count: 200, Snapshot: []byte("snapshot"), Pieces: [][]byte{[]byte("piece a"), []byte("piece b")}}) {
		t.Fatal("snapshot refused")
	}
	if !w.putTable(tipTable("tip table", []int{3, 0, 2}, nil)) {
		t.Fatal("tip table refused")
	}
	for generation := range uint32(2) {
		c := store.Checkpoint{Generation: generation + 1, Policy: "policy", Size: 5, Signed: []byte("signed"), CosignedSize: 4, Cosigned: []byte("cosigned")}
		if err := s.PutCheckpoint(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"keyring/0000000001", "genesis", "bootproof/x"} {
		must(s.PutObject(t.Context(), wire.PutObject{Name: name, Bytes: []byte(name)}))(t)
	}
	claimant := id(77)
	claimed := claim(t, s, claimant, 100, 1<<50, 2)
	if len(claimed) != 2 {
		t.Fatalf("%d sends claimed", len(claimed))
	}
	done := claimed[0]
	done.State, done.Text, done.Revert, done.Memo, done.Tries = wire.SendIncluded, "done", []byte{1, 2}, []byte("memo"), 3
	if !must(s.KeepSend(t.Context(), claimant, done))(t) {
		t.Fatal("send not kept")
	}
}

// Same compares a store's export with that of another store which has imported it: all
// rows but whether ranges are released.
func Same(t testing.TB, was, is []store.Row) {
	t.Helper()
	if len(was) != len(is) {
		t.Fatalf("%d rows of %d", len(is), len(was))
	}
	for i := range was {
		a, b := was[i], is[i]
		if o, ok := a.(*store.OwnerRow); ok {
			given := *o
			given.Released = true
			a = &given
		}
		if !reflect.DeepEqual(normal(a), normal(b)) {
			t.Fatalf("row %d: %+v, was %+v", i, b, a)
		}
	}
}

// normal makes nil and empty bytes equal.
func normal(r store.Row) store.Row {
	if s, ok := r.(*store.SendRow); ok {
		c := *s
		c.Revert, c.Memo = slices.Concat([]byte{}, s.Revert), slices.Concat([]byte{}, s.Memo)
		return &c
	}
	return r
}

func testArchive(t *testing.T, open Opener) {
	s, _ := open(t)
	Full(t, s)
	rows := Rows(t, s)
	kinds := map[store.RowKind]int{}
	var order store.Order
	for _, r := range rows {
		kinds[r.Kind()]++
		if err := errors.Join(store.CheckRow(r), order.Follow(r)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[store.RowKind]int{store.KindOwner: 1, store.KindObject: 3, store.KindBatch: 5, store.KindKey: 3, store.KindOrganization: 3, store.KindEntry: 307,
		store.KindEnd: 3, store.KindSnapshot: 1, store.KindPiece: 2, store.KindIndex: 4, store.KindSend: 6,
		store.KindTable: 1, store.KindPage: 3, store.KindCheckpoint: 2}
	if !reflect.DeepEqual(kinds, want) {
		t.Fatalf("rows by kind %v, want %v", kinds, want)
	}

	to, reopen := open(t)
	if err := to.Import(t.Context(), From(rows)); err != nil {
		t.Fatal(err)
	}
	Same(t, rows, Rows(t, to))
	to = reopen()
	Same(t, rows, Rows(t, to))
	holdsTable(t, to, 0, "tip table", 0, 2, 3)
	all := wire.LoadTips{To: highest(), Limit: 10}
	sameTips(t, must(to.LoadTips(t.Context(), all))(t).Tips, must(s.LoadTips(t.Context(), all))(t).Tips)

	// The old owner has lost the range; the next boot has a higher epoch.
	owner := rows[0].(*store.OwnerRow)
	if o := must(to.Own(t.Context(), wire.Own{Action: wire.OwnRenew, Boot: owner.Boot, Expect: owner.Epoch}))(t); o.OK {
		t.Fatal("the owner of what was exported has the copy too")
	}
	verdict(t, to, &wire.Batch{Boot: owner.Boot, Epoch: owner.Epoch, Number: 1, Header: []byte("header 2/1")}, wire.VerdictSuperseded)
	w := newWriter(t, to)
	if w.epoch != owner.Epoch+1 {
		t.Fatalf("epoch %d after %d", w.epoch, owner.Epoch)
	}
	for n := range uint64(5) { // histories continue, and a new organization begins
		org := id(1 + n)
		for range count(t, to, org) {
			w.ledgers[org] = append(w.ledgers[org], wire.Entry{})
		}
		w.store(w.entry(org, 10))
	}
	proven := must(to.Find(t.Context(), wire.Find{Organization: id(2), TreeSize: 3, Activities: []wire.ID{id(50)}}))(t)
	if len(proven.Entries) != 1 || proven.Entries[0].Seq != 2 {
		t.Fatalf("the newest entry of an activity: %+v", proven.Entries)
	}
	page := must(to.Page(t.Context(), wire.Page{Organization: id(2), TreeSize: 3, Limit: 10, Statuses: []uint8{1, 2}}))(t)
	if len(page.Entries) != 0 {
		t.Fatalf("superseded entries are listed: %d", len(page.Entries))
	}
	must(to.PutObject(t.Context(), wire.PutObject{Name: "bootproof/y", Bytes: []byte("newer")}))(t)
	if o := must(to.LoadObject(t.Context(), wire.LoadObject{Name: "bootproof/", Newest: true}))(t); string(o.Bytes) != "newer" {
		t.Fatalf("newest object %q", o.Bytes)
	}
	// Claimed sends are free after the import, ended ones remain ended.
	free := claim(t, to, id(78), 100, 200, 10)
	if len(free) != 2 {
		t.Fatalf("%d sends are due", len(free))
	}
	checkTree(t, s, to, id(1), 303)
}

// checkTree compares the proofs of two stores.
func checkTree(t *testing.T, a, b store.Store, org wire.ID, size uint64) {
	t.Helper()
	ask := wire.Find{Organization: org, TreeSize: size, Seqs: []uint64{0, 100, 255, 256, size - 1}}
	x, y := must(a.Find(t.Context(), ask))(t), must(b.Find(t.Context(), ask))(t)
	if !reflect.DeepEqual(x, y) || len(x.Entries) != 5 {
		t.Fatal("proofs differ")
	}
}

// testArchiveMoment exports while batches are stored: the rows are those of one
// moment between two batches.
func testArchiveMoment(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	w.store(w.entry(id(1), 10), w.entry(id(2), 10))
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			got, err := s.Append(context.WithoutCancel(t.Context()), w.next(w.entry(id(1), 100), w.entry(id(2), 100)))
			if err != nil || got.Verdict != wire.VerdictStored {
				t.Errorf("append: %+v, %v", got, err)
				return
			}
		}
	}()
	for range 5 {
		rows := Rows(t, s)
		var batches, entries, ends uint64
		for _, r := range rows {
			switch r := r.(type) {
			case *store.BatchRow:
				batches++
			case *store.EntryRow:
				entries++
			case *store.EndRow:
				ends++
				if r.Count != batches {
					t.Errorf("organization of %d entries, %d batches", r.Count, batches)
				}
			}
		}
		if ends != 2 || entries != 2*batches {
			t.Errorf("%d organizations with %d entries of %d batches", ends, entries, batches)
		}
	}
	stop.Store(true)
	<-done
}

func testArchiveRefused(t *testing.T, open Opener) {
	s, _ := open(t)
	Full(t, s)
	rows := Rows(t, s)
	if err := s.Import(t.Context(), From(rows)); !errors.Is(err, store.ErrRefused) {
		t.Fatalf("import into a store that holds something: %v", err)
	}
	stop := errors.New("enough")
	n := 0
	err := s.Export(t.Context(), func(store.Row) error {
		if n++; n > 20 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 21 {
		t.Fatalf("an export that its reader ends: %v after %d", err, n)
	}
	at := func(k store.RowKind) int {
		return slices.IndexFunc(rows, func(r store.Row) bool { return r.Kind() == k })
	}
	without := func(i int) []store.Row { return slices.Delete(slices.Clone(rows), i, i+1) }
	twice := func(i int) []store.Row { return slices.Insert(slices.Clone(rows), i, rows[i]) }
	with := func(i int, r store.Row) []store.Row {
		c := slices.Clone(rows)
		c[i] = r
		return c
	}
	to, _ := open(t)
	for name, bad := range map[string][]store.Row{
		"entry left out":        without(at(store.KindEntry) + 3),
		"end left out":          without(at(store.KindEnd)),
		"cut in an entry":       rows[:at(store.KindEntry)+5],
		"entry twice":           twice(at(store.KindEntry) + 3),
		"owner twice":           twice(at(store.KindOwner)),
		"object twice":          twice(at(store.KindObject)),
		"key twice":             twice(at(store.KindKey)),
		"organization twice":    twice(at(store.KindOrganization)),
		"snapshot twice":        twice(at(store.KindSnapshot)),
		"piece twice":           twice(at(store.KindPiece)),
		"index twice":           twice(at(store.KindIndex)),
		"send twice":            twice(at(store.KindSend)),
		"table twice":           twice(at(store.KindTable)),
		"page twice":            twice(at(store.KindPage)),
		"pages not by hash":     with(at(store.KindPage), rows[at(store.KindPage)+2]),
		"checkpoint twice":      twice(at(store.KindCheckpoint)),
		"checkpoint of nothing": with(at(store.KindCheckpoint), &store.CheckpointRow{Generation: 1}),
		"checkpoint of a range": with(len(rows)-1, &store.CheckpointRow{Range: wire.MaxRanges, Generation: 1, Size: 1, Signed: []byte{1}}),
		"empty table":           with(at(store.KindTable), &store.TableRow{}),
		"large table":           with(at(store.KindTable), &store.TableRow{Table: make([]byte, wire.MaxTable+1)}),
		"table of no range":     with(at(store.KindTable), &store.TableRow{Range: wire.MaxRanges, Table: []byte{1}}),
		"empty page":            with(at(store.KindPage), &store.PageRow{}),
		"large page":            with(at(store.KindPage), &store.PageRow{Page: make([]byte, wire.MaxPage+1)}),
		"page of no range":      with(at(store.KindPage)+2, &store.PageRow{Range: wire.MaxRanges, Page: []byte{1}}),
		"owner last":            append(without(at(store.KindOwner)), rows[at(store.KindOwner)]),
		"other range":           with(0, &store.OwnerRow{Range: wire.MaxRanges, Boot: id(1), Epoch: 1}),
		"epoch without end":     with(0, &store.OwnerRow{Boot: id(1), Epoch: store.MaxEpoch}),
		"end of another count":  with(at(store.KindEnd), &store.EndRow{Count: 5}),
		"next beyond the end":   with(at(store.KindEnd)-1, &store.EntryRow{Seq: 302, Activity: id(1), Next: 400, Sealed: []byte{1}}),
		"next before the entry": with(at(store.KindEntry), &store.EntryRow{Activity: id(1), Next: 1, Sealed: []byte{1}}),
		"type of no activity":   with(at(store.KindEntry), &store.EntryRow{Type: "X", Sealed: []byte{1}}),
		"entry of no epoch":     with(at(store.KindEntry), &store.EntryRow{Sealed: []byte{1}, Batch: store.BatchPlace{Number: 1}}),
		"entry of no batch":     with(at(store.KindEntry), &store.EntryRow{Sealed: []byte{1}, Batch: store.BatchPlace{Epoch: 1}}),
		"entry of no range":     with(at(store.KindEntry), &store.EntryRow{Sealed: []byte{1}, Batch: store.BatchPlace{Range: wire.MaxRanges, Epoch: 1, Number: 1}}),
		"empty entry":           with(at(store.KindEntry), &store.EntryRow{}),
		"id of two":             with(at(store.KindEnd)+1, &store.OrganizationRow{Number: 2, ID: id(1)}),
		"number too high":       with(at(store.KindEnd)+1, &store.OrganizationRow{Number: 1 << 31, ID: id(2)}),
		"object without name":   with(at(store.KindObject), &store.ObjectRow{Bytes: []byte{1}}),
		"send in no state":      with(at(store.KindSend), &store.SendRow{Organization: id(1)}),
	} {
		if err := to.Import(t.Context(), From(bad)); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	lost := errors.New("source lost")
	i := 0
	if err := to.Import(t.Context(), func() (store.Row, error) {
		if i++; i > len(rows)/2 {
			return nil, lost
		}
		return rows[i-1], nil
	}); !errors.Is(err, lost) {
		t.Errorf("rows that end in an error: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	i = 0
	if err := to.Import(gone, func() (store.Row, error) {
		if i++; i > 20 {
			cancel()
		}
		return rows[i-1], nil
	}); err == nil {
		t.Error("imported for nobody")
	}
	if left := Rows(t, to); len(left) != 0 {
		t.Fatalf("%d rows are left of imports that failed", len(left))
	}
	if err := to.Import(t.Context(), From(rows)); err != nil {
		t.Fatalf("a good import after those: %v", err)
	}
}

// testArchiveEmpty copies an empty store.
func testArchiveEmpty(t *testing.T, open Opener) {
	s, _ := open(t)
	if rows := Rows(t, s); len(rows) != 0 {
		t.Fatalf("%d rows of nothing", len(rows))
	}
	if err := s.Import(t.Context(), From(nil)); err != nil {
		t.Fatal(err)
	}
	w := newWriter(t, s)
	w.fill(id(1), 2, 10)
	must(s.PutObject(t.Context(), wire.PutObject{Name: "a", Bytes: []byte("b")}))(t)
	if s.Schema() == 0 {
		t.Fatal("no schema")
	}
}

// Many fills an empty store with n entries of 1 KiB, like those of signatures, in
// 100 organizations.
func Many(t testing.TB, s store.Store, n int) {
	t.Helper()
	w := newWriter(t, s)
	for _, name := range []string{"keyring/0000000001", "genesis"} {
		must(s.PutObject(t.Context(), wire.PutObject{Name: name, Bytes: []byte(name)}))(t)
	}
	for i := range n / 100 {
		var entries []wire.Entry
		for org := range uint64(100) {
			e := wire.Entry{Organization: id(org + 1), Seq: uint64(i), Sealed: bytes.Repeat([]byte{byte(i)}, 1<<10), Activity: id(org<<32 | uint64(i+1)),
				Type: "ACTIVITY_TYPE_SIGN", Status: 3}
			entries = append(entries, e)
		}
		w.number++
		verdict(t, s, &wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: w.number, Header: fmt.Appendf(nil, "%d", w.number), Entries: entries}, wire.VerdictStored)
	}
}

// BenchArchive measures an export and an import of n entries.
func BenchArchive(b *testing.B, open func(b *testing.B) store.Store, n int) {
	s := open(b)
	Many(b, s, n)
	var rows []store.Row
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			rows = Rows(b, s)
		}
	})
	b.Run("import", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			to := open(b)
			b.StartTimer()
			if err := to.Import(b.Context(), From(rows)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// testArchiveRanges checks that owners and batches of several ranges, which alternated
// in time, are imported unchanged.
func testArchiveRanges(t *testing.T, open Opener) {
	s, _ := open(t)
	for boot := range uint64(3) {
		for _, r := range []wire.Range{0, 2, wire.MaxRanges - 1} {
			w := &writer{t: t, backend: s, boot: id(1000 + boot), in: r, ledgers: map[wire.ID][]wire.Entry{}}
			w.take()
			for range 2 {
				w.fill(id(10*boot+uint64(r)), 1, 20)
			}
			if !w.putTable(tipTable("", []int{int(boot), 5}, nil)) || !w.putTable(tipTable(fmt.Sprint("table of ", r), nil, nil)) {
				t.Fatal("tip table refused")
			}
		}
	}
	rows := Rows(t, s)
	owners, batches := 0, 0
	for _, r := range rows {
		switch r.(type) {
		case *store.OwnerRow:
			owners++
		case *store.BatchRow:
			batches++
		}
	}
	if owners != 3 || batches != 18 {
		t.Fatalf("%d owners, %d batches", owners, batches)
	}
	to, _ := open(t)
	if err := to.Import(t.Context(), From(rows)); err != nil {
		t.Fatal(err)
	}
	Same(t, rows, Rows(t, to))
	for _, r := range []wire.Range{0, 2, wire.MaxRanges - 1} {
		holdsTable(t, to, r, fmt.Sprint("table of ", r), 0, 1, 2, 5)
		w := &writer{t: t, backend: to, boot: id(5), in: r, ledgers: map[wire.ID][]wire.Entry{}}
		if w.take(); w.epoch != 4 {
			t.Fatalf("range %d: epoch %d after 3", r, w.epoch)
		}
		w.fill(id(5000+uint64(r)), 1, 20)
	}
}
