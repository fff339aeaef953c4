package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// A headed batch is a test's record of a stored batch.
type headed struct {
	epoch, number uint64
	header        string
}

// testEmptyBatch stores batches that have only a header.
func testEmptyBatch(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	first := w.store()
	w.fill(id(10), 2, 5)
	second := w.store()
	for _, b := range []*wire.Batch{first, second} {
		verdict(t, s, b, wire.VerdictStored)
		other := *b
		other.Header = []byte("another")
		verdict(t, s, &other, wire.VerdictConflict)
		other.Header = nil
		if _, err := s.Append(t.Context(), &other); !errors.Is(err, store.ErrRefused) {
			t.Errorf("a batch of nothing: %v", err)
		}
	}
	ahead := *second
	ahead.Number = w.number + 2
	verdict(t, s, &ahead, wire.VerdictConflict)
	s = reopen()
	w.backend = s
	if got := must(s.Own(t.Context(), wire.Own{Action: wire.OwnLook}))(t); got.Batches != 3 {
		t.Fatalf("%d batches, want 3", got.Batches)
	}
	verdict(t, s, second, wire.VerdictStored)
	w.take()
	verdict(t, s, second, wire.VerdictSuperseded)
	if n := count(t, s, id(10)); n != 2 {
		t.Fatalf("%d entries, want 2", n)
	}
}

// testHeaders compares answers with the stored batches, from every position: ranges get their own, in order, over
// epochs in which they, or others, have stored nothing.
func testHeaders(t *testing.T, open Opener) {
	s, reopen := open(t)
	stored := map[wire.Range][]headed{}
	add := func(w *writer, n int) {
		t.Helper()
		for range n {
			b := w.next()
			b.Header = fmt.Appendf(nil, "%d/%d/%d%*s", w.in, w.epoch, w.number, 10*(w.number%4), "")
			verdict(t, s, b, wire.VerdictStored)
			stored[w.in] = append(stored[w.in], headed{w.epoch, w.number, string(b.Header)})
		}
	}
	ranges := []wire.Range{0, 1, 2, wire.MaxRanges - 1}
	takes := map[wire.Range][]int{0: {3, 1, 0, 2}, 1: {0, 0, 5, 0, 0, 1, 0}, 2: {2}, wire.MaxRanges - 1: make([]int, 30)}
	takes[wire.MaxRanges-1][29] = 4
	for round := range 30 {
		for _, r := range ranges {
			if round < len(takes[r]) {
				w := &writer{t: t, backend: s, boot: id(uint64(round) + 1), in: r, ledgers: map[wire.ID][]wire.Entry{}}
				w.take()
				add(w, takes[r][round])
			}
		}
	}
	s = reopen()
	for _, r := range append(ranges, 7) {
		for epoch := range uint64(32) {
			for _, number := range []uint64{0, 1, 2, 3, 6, 1<<32 - 1, 1 << 32, store.MaxNumber} {
				var want []headed
				for _, h := range stored[r] {
					if h.epoch > epoch || h.epoch == epoch && h.number >= number {
						want = append(want, h)
					}
				}
				for _, most := range []uint32{0, 40, 90, 1 << 20} {
					sameHeaders(t, s, wire.LoadHeaders{Range: r, Epoch: epoch, Number: number, MaxBytes: most}, want)
				}
			}
		}
	}
	for name, ask := range map[string]wire.LoadHeaders{"range": {Range: wire.MaxRanges}, "epoch": {Epoch: store.MaxEpoch + 1}, "number": {Number: store.MaxNumber + 1}} {
		if _, err := s.LoadHeaders(t.Context(), ask); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	sameHeaders(t, s, wire.LoadHeaders{Epoch: store.MaxEpoch, Number: store.MaxNumber}, nil)
}

// sameHeaders checks that an answer is the beginning of want, and as long as allowed.
func sameHeaders(t *testing.T, s store.Store, ask wire.LoadHeaders, want []headed) {
	t.Helper()
	got := must(s.LoadHeaders(t.Context(), ask))(t).Headers
	bytes := 0
	for i, h := range got {
		if i >= len(want) || string(h) != want[i].header {
			t.Fatalf("%+v: header %d is %q", ask, i, h)
		}
		bytes += len(h)
	}
	const beside = 16 // maximal overhead of a header in an answer
	switch {
	case len(got) > 1 && bytes > int(ask.MaxBytes):
		t.Fatalf("%+v: %d bytes", ask, bytes)
	case len(got) == 0 && len(want) > 0:
		t.Fatalf("%+v: nothing of %d", ask, len(want))
	case len(got) < len(want) && bytes+len(want[len(got)].header)+beside*(len(got)+1) < int(ask.MaxBytes):
		t.Fatalf("%+v: %d of %d in %d bytes", ask, len(got), len(want), bytes)
	}
}

// testHeadersBounds requests more headers than one answer may have, by bytes and by number.
func testHeadersBounds(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	for range 9 {
		b := w.next()
		b.Header = make([]byte, store.MaxHeader)
		verdict(t, s, b, wire.VerdictStored)
	}
	ask := wire.LoadHeaders{Epoch: 1, Number: 1, MaxBytes: 1<<32 - 1}
	got := must(s.LoadHeaders(t.Context(), ask))(t)
	if b := must(wire.Marshal(&got))(t); len(got.Headers) != 7 || len(b) > wire.MaxFrame {
		t.Fatalf("%d headers in %d bytes", len(got.Headers), len(b))
	}
	ask.Number = 8
	if got := must(s.LoadHeaders(t.Context(), ask))(t); len(got.Headers) != 2 {
		t.Fatalf("%d headers, 2 are left", len(got.Headers))
	}

	rows := []store.Row{&store.OwnerRow{Boot: id(1), Epoch: 2}}
	const many = store.MaxHeaders + 100
	for n := range uint64(many) {
		rows = append(rows, &store.BatchRow{Epoch: 1 + n/3000, Number: 1 + n%3000, Header: []byte{1}})
	}
	to, _ := open(t)
	if err := to.Import(t.Context(), From(rows)); err != nil {
		t.Fatal(err)
	}
	ask = wire.LoadHeaders{MaxBytes: 1<<32 - 1}
	if got := must(to.LoadHeaders(t.Context(), ask))(t); len(got.Headers) != store.MaxHeaders {
		t.Fatalf("%d headers at once", len(got.Headers))
	}
	ask.Epoch, ask.Number = 2, store.MaxHeaders-3000+1
	if got := must(to.LoadHeaders(t.Context(), ask))(t); len(got.Headers) != 100 {
		t.Fatalf("%d headers are left, want 100", len(got.Headers))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := to.LoadHeaders(gone, ask); err == nil {
		t.Fatal("loaded for nobody")
	}
}

// testHeaderOf finds the batch of each entry, over ranges and epochs, also after an import.
func testHeaderOf(t *testing.T, open Opener) {
	s, reopen := open(t)
	want := map[wire.ID][]string{}
	for _, in := range []wire.Range{0, 3, wire.MaxRanges - 1} {
		w := &writer{t: t, backend: s, boot: id(uint64(in) + 1000), in: in, ledgers: map[wire.ID][]wire.Entry{}}
		for range 2 {
			w.take()
			for n := range uint64(4) {
				one, two := id(10*uint64(in)+20), id(10*uint64(in)+21)
				b := w.store(w.entry(one, 10))
				want[one] = append(want[one], string(b.Header))
				first, second := w.entry(two, 80), w.entry(two, 80)
				second.Seq++ // two entries of one batch
				b = w.store(first, second)
				want[two] = append(want[two], string(b.Header), string(b.Header))
				if n == 1 {
					w.store()
				}
			}
		}
	}
	check := func(s store.Store) {
		t.Helper()
		for org, headers := range want {
			for seq, header := range headers {
				if got := must(s.HeaderOf(t.Context(), org, uint64(seq)))(t); string(got) != header {
					t.Errorf("entry %d of %x came in %q, not in %q", seq, org, got, header)
				}
			}
			for _, seq := range []uint64{uint64(len(headers)), 1 << 32, 1 << 63} {
				if got := must(s.HeaderOf(t.Context(), org, seq))(t); got != nil {
					t.Errorf("entry %d, which is none, came in %q", seq, got)
				}
			}
		}
		if got := must(s.HeaderOf(t.Context(), id(999), 0))(t); got != nil {
			t.Errorf("an entry of nobody came in %q", got)
		}
	}
	check(s)
	s = reopen()
	check(s)
	to, _ := open(t)
	rows := Rows(t, s)
	if err := to.Import(t.Context(), From(rows)); err != nil {
		t.Fatal(err)
	}
	check(to)
	// Entries of an older export have no recorded batch.
	for _, r := range rows {
		if e, ok := r.(*store.EntryRow); ok {
			e.Batch = store.BatchPlace{}
		}
	}
	old, _ := open(t)
	if err := old.Import(t.Context(), From(rows)); err != nil {
		t.Fatal(err)
	}
	for org := range want {
		if got := must(old.HeaderOf(t.Context(), org, 0))(t); got != nil {
			t.Errorf("an entry of an export from before came in %q", got)
		}
	}
}
