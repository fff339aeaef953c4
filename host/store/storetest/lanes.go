package storetest

import (
	"errors"
	"slices"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// mails makes an entry with mails of a payer that are due at these times.
func mails(e wire.Entry, payer wire.ID, due ...uint64) wire.Entry {
	for _, d := range due {
		e.Sends = append(e.Sends, wire.SendMark{Kind: wire.SendMail, DueMs: d, Payer: payer})
	}
	return e
}

func mailLane(payer, organization wire.ID) store.Lane {
	return store.Lane{Kind: wire.SendMail, Payer: payer, Organization: organization}
}

// testLanes checks that sends without a receiver are found and claimed by kind, payer and organization.
func testLanes(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	a, a1, a2, b, c, alice, bob := id(10), id(1), id(30), id(11), id(12), id(20), id(21)
	payers := func(now uint64, after wire.ID, limit int, want ...wire.ID) {
		t.Helper()
		if got := must(s.Payers(t.Context(), store.Payers{NowMs: now, Kind: wire.SendMail, After: after, Limit: limit}))(t); !slices.Equal(got, want) {
			t.Fatalf("payers %v, want %v", got, want)
		}
	}
	lanes := func(now uint64, limit int, after []store.Lane, want ...store.Lane) {
		t.Helper()
		if got := must(s.Lanes(t.Context(), store.Lanes{NowMs: now, After: after, Limit: limit}))(t); !slices.Equal(got, want) {
			t.Fatalf("lanes %v, want %v", got, want)
		}
	}
	due := func(now uint64, limit int, kinds []wire.SendKind, want ...store.Lane) {
		t.Helper()
		got := must(s.Due(t.Context(), store.Due{NowMs: now, Kinds: kinds, Limit: limit}))(t)
		is, counts := store.Counts(got)
		are, want2 := store.Counts(want)
		for i, l := range is {
			if at := slices.Index(are, l); at < 0 || counts[i] != want2[at] || len(is) != len(are) {
				t.Fatalf("due %v, want %v", got, want)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("due %v, want %v", got, want)
		}
	}
	mail, every := []wire.SendKind{wire.SendMail}, []wire.SendKind{wire.SendMail, wire.SendTransaction, wire.SendText}
	payers(100, wire.ID{}, 10)
	due(100, 10, every)
	// a pays for itself and two more, b for itself; c's mail and transaction have no recorded payer.
	w.store(mails(w.entry(a1, 5), a, 5, 3, 4), mails(w.entry(a2, 5), a, 7), mails(w.entry(a, 5), a, 90))
	w.store(mails(w.entry(b, 5), b, 6), sending(mails(w.entry(c, 5), wire.ID{}, 8), 1))
	hook := w.entry(b, 5)
	hook.Sends = []wire.SendMark{{Kind: wire.SendMail, DueMs: 1, Receiver: id(40), Payer: b}}
	w.store(hook)
	s = reopen()
	w.backend = s
	payers(2, wire.ID{}, 10)
	payers(4, wire.ID{}, 10, a)
	payers(10, wire.ID{}, 10, a, b, c)
	payers(10, wire.ID{}, 2, a, b)
	payers(10, a, 10, b, c)
	payers(10, c, 10)
	lanes(10, 10, []store.Lane{{Kind: wire.SendMail, Payer: a}}, mailLane(a, a1), mailLane(a, a2))
	lanes(90, 10, []store.Lane{{Kind: wire.SendMail, Payer: a}}, mailLane(a, a1), mailLane(a, a), mailLane(a, a2))
	lanes(90, 2, []store.Lane{{Kind: wire.SendMail, Payer: a}}, mailLane(a, a1), mailLane(a, a))
	lanes(90, 1, []store.Lane{mailLane(c, wire.ID{}), mailLane(a, a), mailLane(b, b), {Kind: wire.SendTransaction, Payer: c}},
		mailLane(c, c), mailLane(a, a2), store.Lane{Kind: wire.SendTransaction, Payer: c, Organization: c})
	lanes(90, 10, []store.Lane{{Kind: wire.SendText, Payer: a}, {Kind: wire.SendMail, Payer: id(99)}})
	due(2, 10, mail)
	due(2, 10, every, store.Lane{Kind: wire.SendTransaction, Payer: c, Organization: c})
	due(6, 10, mail, mailLane(a, a1), mailLane(a, a1), mailLane(a, a1), mailLane(b, b))
	if got := must(s.Due(t.Context(), store.Due{NowMs: 90, Kinds: every, Limit: 3}))(t); len(got) != 4 {
		t.Fatalf("%d lanes of three mails and a transaction", len(got))
	}

	// A lane yields its oldest sends, one for each time it is named, until it is empty.
	claim := func(who wire.ID, now uint64, of []store.Lane, want ...wire.SendID) []store.Send {
		t.Helper()
		got := must(s.ClaimSends(t.Context(), store.ClaimSends{Claimant: who, NowMs: now, UntilMs: now + 1000, Lanes: of}))(t)
		wantClaim(t, got, want...)
		return got
	}
	claim(alice, 2, []store.Lane{mailLane(a, a1)})
	claim(alice, 10, []store.Lane{mailLane(b, a1), mailLane(a, id(99)), {Kind: wire.SendText, Payer: a, Organization: a1}})
	got := claim(alice, 10, []store.Lane{mailLane(a, a1), mailLane(b, b), mailLane(a, a1), mailLane(b, b)}, sendID(a1, 0, 1), sendID(a1, 0, 2), sendID(b, 0, 0))
	claim(bob, 10, []store.Lane{mailLane(a, a1), mailLane(a, a1), mailLane(a, a1), mailLane(b, b), mailLane(c, c)}, sendID(a1, 0, 0), sendID(c, 0, 0))
	payers(10, wire.ID{}, 10, a)
	due(10, 10, every, mailLane(a, a2), store.Lane{Kind: wire.SendTransaction, Payer: c, Organization: c})
	// A send with a later attempt keeps its lane.
	keepAs(t, s, alice, got[0], wire.SendWaiting, 50)
	keepAs(t, s, alice, got[1], wire.SendIncluded, 50)
	lanes(49, 10, []store.Lane{mailLane(a, wire.ID{})}, mailLane(a, a2))
	lanes(50, 10, []store.Lane{mailLane(a, wire.ID{})}, mailLane(a, a1), mailLane(a, a2))
	claim(bob, 50, []store.Lane{mailLane(a, a1), mailLane(a, a1)}, sendID(a1, 0, 1))
	// Claims expire.
	claim(alice, 2000, []store.Lane{mailLane(a, a1), mailLane(a, a1)}, sendID(a1, 0, 0), sendID(a1, 0, 1))

	// Rows from before payers were recorded count as sends without a payer.
	rows := Rows(t, s)
	for _, r := range rows {
		if x, ok := r.(*store.SendRow); ok {
			x.Payer = wire.ID{}
		}
	}
	old, _ := open(t)
	if err := old.Import(t.Context(), From(rows)); err != nil {
		t.Fatal(err)
	}
	s = old
	payers(90, wire.ID{}, 10, a1, a, b, c, a2)
	lanes(90, 10, []store.Lane{mailLane(a1, wire.ID{})}, mailLane(a1, a1))
	claim(alice, 90, []store.Lane{mailLane(a2, a2), mailLane(b, b)}, sendID(b, 0, 0), sendID(a2, 0, 0))
}

// testLanesRefused sends queries that exceed a limit.
func testLanesRefused(t *testing.T, open Opener) {
	s, _ := open(t)
	refused := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	kinds, one := []wire.SendKind{1}, make([]store.Lane, 1)
	for name, ask := range map[string]store.Due{"no limit": {Kinds: kinds}, "high limit": {Kinds: kinds, Limit: store.MaxClaims + 1}, "no kinds": {Limit: 1},
		"many kinds": {Kinds: make([]wire.SendKind, store.MaxKinds+1), Limit: 1}, "time": {Kinds: kinds, NowMs: store.MaxTime + 1, Limit: 1}} {
		_, err := s.Due(t.Context(), ask)
		refused("due: "+name, err)
	}
	for name, ask := range map[string]store.Payers{"no limit": {}, "high limit": {Limit: store.MaxClaims + 1}, "time": {NowMs: store.MaxTime + 1, Limit: 1}} {
		_, err := s.Payers(t.Context(), ask)
		refused("payers: "+name, err)
	}
	for name, ask := range map[string]store.Lanes{"no limit": {After: one}, "high limit": {After: one, Limit: store.MaxClaims + 1}, "nobody": {Limit: 1},
		"many": {After: make([]store.Lane, store.MaxClaims+1), Limit: 1}, "time": {After: one, NowMs: store.MaxTime + 1, Limit: 1}} {
		_, err := s.Lanes(t.Context(), ask)
		refused("lanes: "+name, err)
	}
}

// HoldsOldMail finds and claims the one mail of an organization that was due at 5 before payers were recorded. Its entry 1 has
// a transaction that had ended.
func HoldsOldMail(t testing.TB, s store.Store, organization wire.ID) {
	t.Helper()
	lane := mailLane(organization, organization)
	if got := must(s.Due(t.Context(), store.Due{NowMs: 5, Kinds: allKinds, Limit: 10}))(t); !slices.Equal(got, []store.Lane{lane}) {
		t.Fatalf("due %v", got)
	}
	if got := must(s.Payers(t.Context(), store.Payers{NowMs: 5, Kind: wire.SendMail, Limit: 10}))(t); !slices.Equal(got, []wire.ID{organization}) {
		t.Fatalf("payers %v", got)
	}
	if got := must(s.Lanes(t.Context(), store.Lanes{NowMs: 5, After: []store.Lane{mailLane(organization, wire.ID{})}, Limit: 10}))(t); !slices.Equal(got, []store.Lane{lane}) {
		t.Fatalf("lanes %v", got)
	}
	for _, r := range Rows(t, s) {
		if x, ok := r.(*store.SendRow); ok && x.Payer != (wire.ID{}) {
			t.Fatalf("exported as %+v", x)
		}
	}
	sends := must(s.ClaimSends(t.Context(), store.ClaimSends{Claimant: id(7), NowMs: 5, UntilMs: 6, Lanes: []store.Lane{lane, lane}}))(t)
	wantClaim(t, sends, sendID(organization, 0, 0))
	if got := standing(t, s, sendID(organization, 1, 0))[0]; got.State != wire.SendIncluded {
		t.Fatalf("what had ended is in state %d", got.State)
	}
}
