package storetest

import (
	"errors"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// testExtend extends a shorter copy of a store, batch by batch: afterwards both are equal.
func testExtend(t *testing.T, open Opener) {
	from, _ := open(t)
	w := newWriter(t, from)
	var batches []*wire.Batch
	store1 := func(b *wire.Batch) {
		t.Helper()
		verdict(t, from, b, wire.VerdictStored)
		batches = append(batches, b)
	}
	for range 300 {
		store1(w.next(w.entry(id(1), 20)))
	}
	boot := w.boot
	w.take()
	b := w.next(w.entry(id(1), 30), w.entry(id(2), 40))
	b.Entries = append(b.Entries, w.entry(id(2), 5))
	w.ledgers[id(2)] = append(w.ledgers[id(2)], b.Entries[2])
	b.Entries[0].Activity, b.Entries[0].Type, b.Entries[0].Status = id(9), "ACTIVITY_TYPE_SIGN", 2
	b.Entries[2].Index = []wire.IndexChange{{Key: wire.Hash{7}, Rank: 5}}
	b.Keys = []wire.WrappedKey{{Organization: id(2), KeyID: 1, Sealed: []byte("key")}}
	store1(b)
	next := w.next(w.entry(id(1), 30))
	next.Entries[0].Activity, next.Entries[0].Type, next.Entries[0].Status, next.Entries[0].Prior = id(9), "ACTIVITY_TYPE_SIGN", 3, b.Entries[0].Seq+1
	store1(next)
	must(from.Own(t.Context(), wire.Own{Action: wire.OwnRelease, Boot: w.boot, Expect: w.epoch}))(t)

	// The copy has the first 100 batches, and then one more owner that stored nothing.
	to, reopen := open(t)
	copied := &writer{t: t, backend: to, boot: boot, ledgers: map[wire.ID][]wire.Entry{}}
	copied.take()
	for _, b := range batches[:100] {
		verdict(t, to, b, wire.VerdictStored)
	}
	extend := func(b *wire.Batch, want wire.Verdict, sends ...store.SendRow) {
		t.Helper()
		before := Rows(t, to)
		if got := must(to.Extend(t.Context(), b, sends))(t); got.Verdict != want {
			t.Fatalf("batch %d of epoch %d: %+v", b.Number, b.Epoch, got)
		}
		if want != wire.VerdictStored {
			if after := Rows(t, to); len(after) != len(before) || *after[0].(*store.OwnerRow) != *before[0].(*store.OwnerRow) {
				t.Fatalf("%d rows of %d after a batch that was refused", len(after), len(before))
			}
		}
	}
	extend(batches[100], wire.VerdictSuperseded) // a boot owns the range
	must(to.Own(t.Context(), wire.Own{Action: wire.OwnRelease, Boot: boot, Expect: 1}))(t)
	extend(batches[101], wire.VerdictConflict)
	extend(batches[99], wire.VerdictConflict)
	extend(batches[301], wire.VerdictConflict)
	unrelated := *batches[100]
	unrelated.Boot = id(12345)
	extend(&unrelated, wire.VerdictConflict)
	gap := *batches[100]
	gap.Entries = []wire.Entry{gap.Entries[0], gap.Entries[0]}
	extend(&gap, wire.VerdictConflict)
	for _, b := range batches[100:300] {
		extend(b, wire.VerdictStored)
	}
	verdict(t, to, batches[299], wire.VerdictSuperseded) // no boot owns the range
	to = reopen()
	send := store.SendRow{Organization: id(2), Seq: 1, Number: 3, SendKind: 4, State: wire.SendIncluded, DueMs: 5, Tries: 2, Text: "done", Memo: []byte("memo"), Receiver: id(6), Activity: id(9), Payer: id(1)}
	extend(b, wire.VerdictStored, send)
	extend(b, wire.VerdictConflict, send)
	extend(next, wire.VerdictStored)
	want, got := Rows(t, from), Rows(t, to)
	for i, r := range got {
		if s, ok := r.(*store.SendRow); ok {
			if s.State != wire.SendIncluded || s.Text != "done" || s.Tries != 2 || string(s.Memo) != "memo" || s.Receiver != id(6) || s.Payer != id(1) {
				t.Errorf("%+v", s)
			}
			got = append(got[:i:i], got[i+1:]...)
			break
		}
	}
	Same(t, want, got)
	checkTree(t, from, to, id(1), 302)
	if proven := must(to.Find(t.Context(), wire.Find{Organization: id(1), TreeSize: 302, Activities: []wire.ID{id(9)}}))(t); len(proven.Entries) != 1 || proven.Entries[0].Seq != 301 {
		t.Fatalf("%+v", proven)
	}
	heir := &writer{t: t, backend: to, boot: id(50), ledgers: map[wire.ID][]wire.Entry{}}
	if heir.take(); heir.epoch != w.epoch+1 {
		t.Fatal(heir.epoch)
	}
	e := heir.entry(id(2), 7)
	e.Seq = 2
	verdict(t, to, &wire.Batch{Boot: heir.boot, Epoch: heir.epoch, Number: 1, Header: []byte("h"), Entries: []wire.Entry{e}}, wire.VerdictStored)

	must(to.Own(t.Context(), wire.Own{Action: wire.OwnRelease, Boot: heir.boot, Expect: heir.epoch}))(t)
	good := wire.Batch{Boot: id(51), Epoch: heir.epoch + 1, Number: 1, Header: []byte("h")}
	for name, change := range map[string]func(b *wire.Batch) []store.SendRow{
		"no boot":     func(b *wire.Batch) []store.SendRow { b.Boot = wire.ID{}; return nil },
		"no header":   func(b *wire.Batch) []store.SendRow { b.Header = nil; return nil },
		"a mark":      func(b *wire.Batch) []store.SendRow { b.Entries[0].Sends = make([]wire.SendMark, 1); return nil },
		"other's":     func(b *wire.Batch) []store.SendRow { s := send; s.Seq = 7; return []store.SendRow{s} },
		"in no state": func(b *wire.Batch) []store.SendRow { s := send; s.Seq, s.State = 3, 0; return []store.SendRow{s} },
	} {
		bad := good
		bad.Entries = []wire.Entry{{Organization: id(2), Seq: 3, Sealed: []byte{1}}}
		if _, err := to.Extend(t.Context(), &bad, change(&bad)); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
