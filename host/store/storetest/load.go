package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

func testLoad(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x, y := id(10), id(11)
	if o := must(s.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: x, MaxBytes: 100}))(t); o.Count != 0 || len(o.Entries) != 0 {
		t.Fatalf("an organization that does not exist: %+v", o)
	}
	for i := range 20 { // two organizations alternating, sizes around a page
		w.store(w.entry(x, 1+i*500), w.entry(y, 3))
	}
	for from := range uint64(22) {
		got := must(s.LoadEntries(t.Context(), wire.LoadEntries{Organization: x, From: from, MaxBytes: 1 << 20}))(t).Entries
		want := w.ledgers[x][min(from, 20):]
		if len(got) != len(want) {
			t.Fatalf("%d entries from %d, want %d", len(got), from, len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i].Sealed) {
				t.Fatalf("entry %d differs", from+uint64(i))
			}
		}
	}
	keys(t, s, w, x)
}

func keys(t *testing.T, s store.Store, w *writer, x wire.ID) {
	b := w.next()
	for i := range uint32(3) {
		b.Keys = append(b.Keys, wire.WrappedKey{Organization: x, KeyID: i, Sealed: fmt.Appendf(nil, "key %d", i)})
	}
	b.Keys = append(b.Keys, wire.WrappedKey{Organization: id(11), KeyID: 0, Sealed: []byte("of another")})
	verdict(t, s, b, wire.VerdictStored)
	b = w.next()
	b.Keys = []wire.WrappedKey{{Organization: x, KeyID: 1, Sealed: []byte("rewrapped")}, {Organization: x, KeyID: 1<<32 - 1, Sealed: []byte("last")}}
	verdict(t, s, b, wire.VerdictStored)
	o := must(s.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: x, MaxBytes: 1}))(t)
	want := map[uint32]string{0: "key 0", 1: "rewrapped", 2: "key 2", 1<<32 - 1: "last"}
	if len(o.Keys) != len(want) || o.Count != 20 || len(o.Entries) != 1 || o.From != 0 {
		t.Fatalf("%d keys, %d entries of %d from %d", len(o.Keys), len(o.Entries), o.Count, o.From)
	}
	for _, k := range o.Keys {
		if k.Organization != x || string(k.Sealed) != want[k.KeyID] {
			t.Fatalf("key %d is %q", k.KeyID, k.Sealed)
		}
	}
}

// testLoadBounds requests more than fits into a frame.
func testLoadBounds(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x := id(10)
	for range 4 {
		w.store(w.entry(x, 3<<20))
	}
	load := func(from uint64, most uint32) int {
		return len(must(s.LoadEntries(t.Context(), wire.LoadEntries{Organization: x, From: from, MaxBytes: most}))(t).Entries)
	}
	for most, want := range map[uint32]int{0: 1, 1: 1, 3 << 20: 1, 6<<20 + 100: 2, 1<<32 - 1: 2} {
		if got := load(0, most); got != want {
			t.Errorf("at most %d bytes: %d entries, want %d", most, got, want)
		}
	}
	if got := load(4, 1<<30); got != 0 {
		t.Errorf("%d entries behind the last", got)
	}
	if got := load(1<<63, 1<<30); got != 0 {
		t.Errorf("%d entries far behind the last", got)
	}
	found := must(s.Find(t.Context(), wire.Find{Organization: x, TreeSize: 4, Seqs: []uint64{0, 1, 2, 3}}))(t)
	if len(found.Entries) != 2 {
		t.Errorf("found %d entries of 3 MiB, a frame holds 2", len(found.Entries))
	}
	var pieces [][]byte
	var asked []wire.Hash
	for i := range byte(31) {
		p := bytes.Repeat([]byte{i}, wire.MaxPiece)
		pieces, asked = append(pieces, p), append(asked, sha256.Sum256(p))
	}
	for _, p := range []wire.PutSnapshot{
		{Count: 1, Snapshot: make([]byte, 1<<10), Pieces: pieces[:30]},
		{Count: 2, Over: 1, Snapshot: make([]byte, 4<<20), Pieces: pieces[30:]},
	} {
		if !w.put(x, p) {
			t.Fatalf("snapshot of %d entries refused", p.Count)
		}
	}
	if _, err := s.LoadPieces(t.Context(), wire.LoadPieces{Organization: x, Pieces: asked}); err != nil {
		t.Errorf("pieces that fit: %v", err)
	}
	if _, err := s.LoadPieces(t.Context(), wire.LoadPieces{Organization: x, Pieces: append(asked, asked[0])}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("pieces of more than a frame: %v", err)
	}
	o := must(s.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: x, MaxBytes: 1 << 31}))(t)
	if len(o.Snapshot) != 4<<20 || o.From != 2 || len(o.Entries) != 1 {
		t.Errorf("opened with a snapshot of %d bytes, %d entries from %d", len(o.Snapshot), len(o.Entries), o.From)
	}
}

func testObjects(t *testing.T, open Opener) {
	s, reopen := open(t)
	put := func(name, text string, once, want bool) {
		t.Helper()
		got := must(s.PutObject(t.Context(), wire.PutObject{Name: name, Bytes: []byte(text), Once: once}))(t)
		if got.OK != want {
			t.Fatalf("put %s: %+v", name, got)
		}
	}
	load := func(name string, newest bool, want string) {
		t.Helper()
		got := must(s.LoadObject(t.Context(), wire.LoadObject{Name: name, Newest: newest}))(t)
		if got.Found != (want != "") || string(got.Bytes) != want {
			t.Fatalf("%s: %+v, want %q", name, got, want)
		}
	}
	load("genesis", false, "")
	load("", true, "")
	put("genesis", "one", true, true)
	put("genesis", "one", true, true)
	put("genesis", "two", true, false)
	load("genesis", false, "one")
	put("boot/2", "b2", false, true)
	put("boot/1", "b1", false, true)
	put("boot~", "tilde", false, true)
	put("boot", "plain", false, true)
	load("boot/", true, "b1")
	load("boot", true, "plain")
	load("boot/", false, "")
	put("boot/2", "b2 again", false, true)
	load("boot/", true, "b2 again")
	put("genesis", "three", true, false)
	load("", true, "b2 again")
	s = reopen()
	load("boot/", true, "b2 again")
	load("boot~", true, "tilde")
	load("genesis", false, "one")

	var wg sync.WaitGroup
	won := make(chan byte, 8)
	for i := range byte(8) {
		wg.Go(func() {
			done, err := s.PutObject(t.Context(), wire.PutObject{Name: "race", Bytes: []byte{'a' + i}, Once: true})
			if err != nil {
				t.Error(err)
			}
			if done.OK {
				won <- 'a' + i
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d of 8 stored an object once", len(won))
	}
	load("race", false, string(rune(<-won)))
}

func testReopen(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	x := id(10)
	w.fill(x, 600, 300)
	for range 3 {
		s = reopen()
		w.backend = s
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.fill(x, 1, 4000)
		if n := count(t, s, x); n != uint64(len(w.ledgers[x])) {
			t.Fatalf("%d entries, want %d", n, len(w.ledgers[x]))
		}
	}
	checkProofs(t, s, w, x, 603, []uint64{0, 255, 256, 602})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("closing again: %v", err)
	}
	if _, err := s.Append(t.Context(), w.next(w.entry(x, 1))); err == nil {
		t.Fatal("a closed store appends")
	}
	if err := s.Ping(t.Context()); err == nil {
		t.Fatal("a closed store answers")
	}
	reopen()
}

// testCancel cancels calls before and while they run; afterwards the store is as if
// each call had either been made or not.
func testCancel(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x := id(10)
	w.fill(x, 300, 100)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Append(gone, &wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: w.number + 1, Header: []byte("h")}); err == nil {
		t.Fatal("appended for nobody")
	}
	if _, err := s.LoadEntries(gone, wire.LoadEntries{Organization: x}); err == nil {
		t.Fatal("loaded for nobody")
	}
	var wg sync.WaitGroup
	for range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			_, _ = s.Page(ctx, wire.Page{Organization: x, TreeSize: 300, Limit: 100})
			_, _ = s.LoadEntries(ctx, wire.LoadEntries{Organization: x, MaxBytes: 1 << 20})
		})
		b := w.next(w.entry(x, 3000))
		wg.Go(cancel)
		if got, err := s.Append(ctx, b); err == nil && got.Verdict != wire.VerdictStored {
			t.Fatalf("verdict %d", got.Verdict)
		}
		verdict(t, s, b, wire.VerdictStored) // the outcome is unknown: send the same bytes again
		wg.Wait()
	}
	if n := count(t, s, x); n != 330 {
		t.Fatalf("%d entries, want 330", n)
	}
	checkProofs(t, s, w, x, 330, []uint64{0, 299, 329})
}
