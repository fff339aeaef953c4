package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// sending makes an entry with sends that are due at these times.
func sending(e wire.Entry, due ...uint64) wire.Entry {
	for _, d := range due {
		e.Sends = append(e.Sends, wire.SendMark{Kind: wire.SendTransaction, DueMs: d})
	}
	return e
}

func sendID(org wire.ID, seq uint64, number uint16) wire.SendID {
	return wire.SendID{Organization: org, Seq: seq, Number: number}
}

// claim claims the sends without a receiver that are due at now, at most limit.
func claim(t testing.TB, s store.Store, claimant wire.ID, now, until uint64, limit int) []store.Send {
	t.Helper()
	return must(Claim(t.Context(), s, store.ClaimSends{Claimant: claimant, NowMs: now, UntilMs: until}, limit))(t)
}

// Claim fills the Lanes of a ClaimSends with lanes that have due sends, at most limit sends in all, and calls it.
func Claim(ctx context.Context, s store.Outbox, ask store.ClaimSends, limit int) (sends []store.Send, err error) {
	ask.Lanes, err = s.Due(ctx, store.Due{NowMs: ask.NowMs, Kinds: allKinds, Limit: limit})
	ask.Lanes = ask.Lanes[:min(len(ask.Lanes), limit)]
	if err != nil || len(ask.Lanes) == 0 {
		return nil, err
	}
	return s.ClaimSends(ctx, ask)
}

var allKinds = []wire.SendKind{wire.SendTransaction, wire.SendMail, wire.SendText, wire.SendWebhook, wire.SendUsage, wire.SendProgram, 7}

func claimIDs(sends []store.Send) (ids []wire.SendID) {
	for _, s := range sends {
		ids = append(ids, s.ID)
	}
	return ids
}

func wantClaim(t testing.TB, got []store.Send, want ...wire.SendID) {
	t.Helper()
	if !slices.Equal(claimIDs(got), want) {
		t.Fatalf("claimed %v, want %v", claimIDs(got), want)
	}
}

func standing(t testing.TB, s store.Store, ids ...wire.SendID) []wire.SendStatus {
	t.Helper()
	got := must(s.SendStates(t.Context(), wire.Sends{Sends: ids}))(t).Statuses
	if len(got) != len(ids) {
		t.Fatalf("%d states of %d sends", len(got), len(ids))
	}
	return got
}

// testOutbox passes sends through all states.
func testOutbox(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	x, y, alice, bob := id(10), id(11), id(20), id(21)
	wantClaim(t, claim(t, s, alice, 1<<40, 1<<41, 10))
	w.store(w.entry(x, 5), sending(w.entry(y, 5), 100, 50), w.entry(id(12), 5))
	// A batch that also changes the index, and one that completes a tree node.
	w.store(withIndex(sending(w.entry(x, 5), 100), put(1, 7)))
	w.fill(id(13), 255, 4)
	w.store(sending(w.entry(id(13), 5), 200))
	a, b, c, d := sendID(y, 0, 1), sendID(x, 1, 0), sendID(y, 0, 0), sendID(id(13), 255, 0)

	wantClaim(t, claim(t, s, alice, 49, 1000, 10))
	of := func(org wire.ID) store.Lane {
		return store.Lane{Kind: wire.SendTransaction, Payer: org, Organization: org}
	}
	claimed := must(s.ClaimSends(t.Context(), store.ClaimSends{Claimant: alice, NowMs: 100, UntilMs: 1000, Lanes: []store.Lane{of(x), of(y)}}))(t)
	wantClaim(t, claimed, a, b)
	wantClaim(t, claim(t, s, bob, 150, 2000, 10), c)
	s = reopen()
	w.backend = s
	wantClaim(t, claim(t, s, bob, 999, 2000, 10), d)
	if got := standing(t, s, a, d, sendID(x, 0, 0), sendID(id(99), 1, 0)); got[0].State != wire.SendWaiting || got[1].State != wire.SendWaiting || got[2].State != 0 || got[3].State != 0 {
		t.Fatalf("states %+v", got)
	}
	// Only the claimant stores a state, and once; states never go back.
	keep := func(who wire.ID, send store.Send, want bool) {
		t.Helper()
		if kept := must(s.KeepSend(t.Context(), who, send))(t); kept != want {
			t.Fatalf("send %v kept by %x in state %d: %t", send.ID, who[:8], send.State, kept)
		}
	}
	said := store.Send{ID: a, State: wire.SendAccepted, DueMs: 300, Tries: 7, Text: "node away", Revert: []byte{0, 1}, Memo: []byte("memo")}
	keep(bob, said, false)
	keep(alice, store.Send{ID: sendID(x, 0, 0), State: wire.SendIncluded}, false)
	keep(alice, said, true)
	keep(alice, said, false)
	if got := standing(t, s, a)[0]; got.State != wire.SendAccepted || got.Text != "node away" || string(got.Revert) != "\x00\x01" {
		t.Fatalf("standing %+v", got)
	}
	wantClaim(t, claim(t, s, bob, 299, 2000, 10))
	got := claim(t, s, bob, 300, 2000, 10)
	wantClaim(t, got, a)
	if g := got[0]; g.Kind != wire.SendTransaction || g.State != wire.SendAccepted || g.DueMs != 300 || g.Tries != 7 || g.Text != "node away" ||
		string(g.Revert) != "\x00\x01" || string(g.Memo) != "memo" {
		t.Fatalf("claimed %+v", g)
	}
	keep(bob, store.Send{ID: a, State: wire.SendWaiting}, false)
	keep(bob, store.Send{ID: a, State: wire.SendIncluded, DueMs: 300}, true)
	keep(bob, store.Send{ID: a, State: wire.SendIncluded, DueMs: 300}, false)
	// Alice's claim of b has expired: bob takes it over, and alice is too late.
	wantClaim(t, claim(t, s, bob, 1000, 3000, 10), b)
	keep(alice, store.Send{ID: b, State: wire.SendAccepted}, false)
	keep(bob, store.Send{ID: b, State: wire.SendRefused, Text: "insufficient funds"}, true)
	// Bob had claimed c and d; an ended send cannot be claimed.
	wantClaim(t, claim(t, s, alice, 5000, 6000, 10), c, d)
	wantClaim(t, claim(t, s, bob, 6000, 7000, 10), c, d)
	if got := standing(t, s, b, a); got[0].State != wire.SendRefused || got[0].Text != "insufficient funds" || got[1].State != wire.SendIncluded {
		t.Fatalf("states %+v", got)
	}
}

// testOutboxOnce repeats batches, and sends batches that are not stored.
func testOutboxOnce(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x, who := id(10), id(20)
	first := w.store(sending(w.entry(x, 5), 10))
	wantClaim(t, claim(t, s, who, 10, 11, 10), sendID(x, 0, 0))
	if !must(s.KeepSend(t.Context(), who, store.Send{ID: sendID(x, 0, 0), State: wire.SendIncluded}))(t) {
		t.Fatal("not kept")
	}
	verdict(t, s, first, wire.VerdictStored)
	wantClaim(t, claim(t, s, who, 1000, 2000, 10))
	if got := standing(t, s, sendID(x, 0, 0))[0]; got.State != wire.SendIncluded {
		t.Fatalf("a repeated batch put it back to %d", got.State)
	}
	for what, b := range map[string]struct {
		batch *wire.Batch
		want  wire.Verdict
	}{
		"a gap":          {&wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: w.number + 1, Header: []byte("gap"), Entries: []wire.Entry{sending(wire.Entry{Organization: x, Seq: 99, Sealed: []byte{1}}, 10)}}, wire.VerdictConflict},
		"a gap behind":   {&wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: w.number + 1, Header: []byte("gap"), Entries: []wire.Entry{sending(w.entry(id(11), 5), 10), {Organization: x, Seq: 99, Sealed: []byte{1}}}}, wire.VerdictConflict},
		"another header": {&wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: 1, Header: []byte("other"), Entries: []wire.Entry{sending(w.entry(x, 5), 10)}}, wire.VerdictConflict},
		"another's boot": {&wire.Batch{Boot: id(99), Epoch: w.epoch, Number: w.number + 1, Header: []byte("x"), Entries: []wire.Entry{sending(w.entry(x, 5), 10)}}, wire.VerdictSuperseded},
	} {
		t.Run(what, func(t *testing.T) {
			verdict(t, s, b.batch, b.want)
			wantClaim(t, claim(t, s, who, 1000, 2000, 10))
		})
	}
}

// testOutboxRace makes senders claim at once: each send has one claimant, and none
// is left over.
func testOutboxRace(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	const all = 120
	for range all / 4 {
		w.store(sending(w.entry(id(10+rand.Uint64N(5)), 5), 1, 1, 1, 1))
	}
	var mu sync.Mutex
	of := map[wire.SendID]wire.ID{}
	var senders sync.WaitGroup
	for n := range 4 {
		senders.Go(func() {
			who := id(100 + uint64(n))
			for {
				got, err := Claim(t.Context(), s, store.ClaimSends{Claimant: who, NowMs: 1, UntilMs: 100}, 7)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, x := range got {
					if of[x.ID] != (wire.ID{}) {
						t.Errorf("send %v is claimed twice", x.ID)
					}
					of[x.ID] = who
				}
				done := len(of) == all
				mu.Unlock()
				for _, x := range got {
					x.State = wire.SendIncluded
					if kept, err := s.KeepSend(t.Context(), who, x); err != nil || !kept {
						t.Errorf("send %v not kept: %v", x.ID, err)
					}
				}
				if done || t.Failed() {
					return
				}
			}
		})
	}
	senders.Wait()
}

// testOutboxRefused sends calls that exceed a limit.
func testOutboxRefused(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x := id(10)
	refused := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	one := make([]store.Lane, 1)
	for name, ask := range map[string]store.ClaimSends{
		"nobody":     {NowMs: 1, UntilMs: 2, Lanes: one},
		"nothing":    {Claimant: x, NowMs: 1, UntilMs: 2, Limit: 1},
		"no limit":   {Claimant: x, NowMs: 1, UntilMs: 2, Receiver: x},
		"high limit": {Claimant: x, NowMs: 1, UntilMs: 2, Receiver: x, Limit: store.MaxClaims + 1},
		"many lanes": {Claimant: x, NowMs: 1, UntilMs: 2, Lanes: make([]store.Lane, store.MaxClaims+1)},
		"both":       {Claimant: x, NowMs: 1, UntilMs: 2, Receiver: x, Limit: 1, Lanes: one},
		"time":       {Claimant: x, NowMs: 1, UntilMs: store.MaxTime + 1, Lanes: one},
	} {
		_, err := s.ClaimSends(t.Context(), ask)
		refused("claim: "+name, err)
	}
	for name, send := range map[string]store.Send{
		"no state":  {},
		"state":     {State: wire.SendReplaced + 1},
		"due":       {State: wire.SendAccepted, DueMs: store.MaxTime + 1},
		"long text": {State: wire.SendAccepted, Text: strings.Repeat("a", wire.MaxChainText+1)},
		"text":      {State: wire.SendAccepted, Text: "a\x00"},
		"revert":    {State: wire.SendAccepted, Revert: make([]byte, wire.MaxRevert+1)},
		"memo":      {State: wire.SendAccepted, Memo: make([]byte, store.MaxMemo+1)},
		"number":    {State: wire.SendAccepted, ID: sendID(x, 0, wire.MaxSends)},
		"seq":       {State: wire.SendAccepted, ID: sendID(x, store.MaxSeq+1, 0)},
	} {
		_, err := s.KeepSend(t.Context(), x, send)
		refused("keep: "+name, err)
	}
	_, err := s.KeepSend(t.Context(), wire.ID{}, store.Send{State: wire.SendAccepted})
	refused("keep: nobody", err)
	_, err = s.SendStates(t.Context(), wire.Sends{Sends: make([]wire.SendID, wire.MaxStates+1)})
	refused("states: too many", err)
	_, err = s.SendStates(t.Context(), wire.Sends{Sends: []wire.SendID{sendID(x, 0, wire.MaxSends)}})
	refused("states: number", err)
	for name, e := range map[string]wire.Entry{
		"too many": sending(w.entry(x, 5), make([]uint64, wire.MaxSends+1)...),
		"due":      sending(w.entry(x, 5), 1, store.MaxTime+1),
	} {
		_, err := s.Append(t.Context(), &wire.Batch{Boot: w.boot, Epoch: w.epoch, Number: 1, Header: []byte("h"), Entries: []wire.Entry{e}})
		refused("append: "+name, err)
	}
	w.store(sending(w.entry(x, 5), make([]uint64, wire.MaxSends)...))
	if got := claim(t, s, x, 1, 2, store.MaxClaims); len(got) != wire.MaxSends {
		t.Fatalf("%d sends of an entry, want %d", len(got), wire.MaxSends)
	}
}

// BenchOutbox measures a sender's round over an outbox of n ended sends
// and none or some that are due.
func BenchOutbox(b *testing.B, s store.Store, n int) {
	w := newWriter(b, s)
	who := id(5)
	for done := 0; done < n; {
		batch := w.next()
		for ; done < n && len(batch.Entries) < 1000; done += wire.MaxSends {
			batch.Entries = append(batch.Entries, sending(wire.Entry{Organization: id(uint64(1000 + done)), Sealed: make([]byte, 64)}, make([]uint64, wire.MaxSends)...))
		}
		verdict(b, s, batch, wire.VerdictStored)
		for {
			got := claim(b, s, who, 1, 2, store.MaxClaims)
			for _, x := range got {
				x.State = wire.SendIncluded
				must(s.KeepSend(b.Context(), who, x))(b)
			}
			if len(got) == 0 {
				break
			}
		}
	}
	b.Run("idle", func(b *testing.B) {
		for b.Loop() {
			claim(b, s, who, 1, 2, 32)
		}
	})
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			w.store(sending(w.entry(id(7), 4<<10), 1))
			got := claim(b, s, who, 1, 2, 32)
			got[0].State = wire.SendIncluded
			must(s.KeepSend(b.Context(), who, got[0]))(b)
		}
	})
	// A payer has n mails due in four organizations, 50 others have one each, and 1,000 transactions wait.
	for range n / wire.MaxSends / 4 {
		var entries []wire.Entry
		for i := range uint64(4) {
			entries = append(entries, mails(w.entry(id(100+i), 5), id(100), make([]uint64, wire.MaxSends)...))
		}
		w.store(entries...)
	}
	var entries []wire.Entry
	for i := range uint64(50) {
		entries = append(entries, mails(w.entry(id(200+i), 5), wire.ID{}, 1))
	}
	for i := range uint64(1000) {
		entries = append(entries, sending(w.entry(id(1<<20+i), 5), 1<<40))
	}
	for part := range slices.Chunk(entries, 500) {
		w.store(part...)
	}
	b.Run("none but a backlog", func(b *testing.B) {
		for b.Loop() {
			must(s.Due(b.Context(), store.Due{NowMs: 1, Kinds: []wire.SendKind{wire.SendTransaction, wire.SendText, wire.SendUsage}, Limit: store.MaxClaims}))(b)
		}
	})
	b.Run("look at a backlog", func(b *testing.B) {
		for b.Loop() {
			must(s.Due(b.Context(), store.Due{NowMs: 1, Kinds: allKinds, Limit: store.MaxClaims}))(b)
			var of []store.Lane
			for _, p := range must(s.Payers(b.Context(), store.Payers{NowMs: 1, Kind: wire.SendMail, Limit: 64}))(b) {
				of = append(of, mailLane(p, wire.ID{}))
			}
			must(s.Lanes(b.Context(), store.Lanes{NowMs: 1, After: of, Limit: 2}))(b)
		}
	})
	b.Run("payers of what waits", func(b *testing.B) {
		for b.Loop() {
			must(s.Payers(b.Context(), store.Payers{NowMs: 1, Kind: wire.SendTransaction, Limit: 64}))(b)
		}
	})
	b.Run("claim 32 of a backlog", func(b *testing.B) {
		for now := uint64(2); b.Loop(); now += 2 {
			must(s.ClaimSends(b.Context(), store.ClaimSends{Claimant: who, NowMs: now, UntilMs: now + 1, Lanes: slices.Repeat([]store.Lane{mailLane(id(100), id(101))}, 32)}))(b)
		}
	})
	b.Run("states", func(b *testing.B) {
		ask := wire.Sends{}
		for i := range wire.MaxStates {
			ask.Sends = append(ask.Sends, sendID(id(uint64(1000+i*wire.MaxSends)), 0, uint16(i%wire.MaxSends)))
		}
		for b.Loop() {
			must(s.SendStates(b.Context(), ask))(b)
		}
	})
}
