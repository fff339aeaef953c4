package storetest

import (
	"errors"
	"slices"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// toward makes an entry of an activity with a send for each receiver, due at once.
func toward(e wire.Entry, activity wire.ID, receivers ...wire.ID) wire.Entry {
	e.Activity, e.Type, e.Status = activity, "ACTIVITY_TYPE_X", 3
	for _, r := range receivers {
		e.Sends = append(e.Sends, wire.SendMark{Kind: wire.SendWebhook, DueMs: 1, Receiver: r})
	}
	return e
}

func claimFor(t testing.TB, s store.Store, receiver, claimant wire.ID, now, until uint64, limit int) []store.Send {
	t.Helper()
	return must(s.ClaimSends(t.Context(), store.ClaimSends{Claimant: claimant, NowMs: now, UntilMs: until, Limit: limit, Receiver: receiver}))(t)
}

func wantReceivers(t testing.TB, s store.Store, ask store.Receivers, want ...wire.ID) {
	t.Helper()
	if got := must(s.Receivers(t.Context(), ask))(t); !slices.Equal(got, want) {
		t.Fatalf("receivers %v, want %v", got, want)
	}
}

// keepAs stores the new state of a send that claimant has claimed.
func keepAs(t testing.TB, s store.Store, claimant wire.ID, x store.Send, state wire.SendState, due uint64) {
	t.Helper()
	x.State, x.DueMs, x.Tries = state, due, x.Tries+1
	if !must(s.KeepSend(t.Context(), claimant, x))(t) {
		t.Fatalf("send %v not kept", x.ID)
	}
}

// testReceivers checks that sends for a receiver are claimed apart from the others, and those of one
// activity in order.
func testReceivers(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	x, y, act, other, alice, bob := id(10), id(11), id(50), id(51), id(20), id(21)
	slow, quick, third := id(30), id(31), id(32)
	wantReceivers(t, s, store.Receivers{NowMs: 1, Limit: 10})
	first := w.entry(x, 5)
	first.Sends = []wire.SendMark{{Kind: wire.SendTransaction, DueMs: 1}}
	w.store(toward(first, act, slow, quick))
	later := toward(w.entry(x, 5), act, slow, quick)
	later.Prior = 1
	w.store(later, toward(w.entry(y, 5), other, slow))
	s = reopen()
	w.backend = s
	wantReceivers(t, s, store.Receivers{NowMs: 0, Limit: 10})
	wantReceivers(t, s, store.Receivers{NowMs: 1, Limit: 10}, slow, quick)
	wantReceivers(t, s, store.Receivers{NowMs: 1, Limit: 1}, slow)
	wantReceivers(t, s, store.Receivers{NowMs: 1, After: slow, Limit: 10}, quick)
	wantReceivers(t, s, store.Receivers{NowMs: 1, After: quick, Limit: 10})
	// A claim without a receiver yields only sends without one, and the other way round.
	wantClaim(t, claim(t, s, alice, 1, 100, 10), sendID(x, 0, 0))
	wantClaim(t, claimFor(t, s, third, alice, 1, 100, 10))
	got := claimFor(t, s, slow, alice, 1, 100, 10)
	wantClaim(t, got, sendID(x, 0, 1), sendID(y, 0, 0))
	if got[0].Receiver != slow || got[0].Activity != act || got[0].Kind != wire.SendWebhook {
		t.Fatalf("claimed %+v", got[0])
	}
	wantReceivers(t, s, store.Receivers{NowMs: 1, Limit: 10}, slow, quick) // the later send of an activity waits
	wantClaim(t, claimFor(t, s, slow, bob, 50, 100, 10))
	// It waits as long as the first has not ended, even if that is not due.
	keepAs(t, s, alice, got[0], wire.SendWaiting, 500)
	keepAs(t, s, alice, got[1], wire.SendIncluded, 1)
	wantClaim(t, claimFor(t, s, slow, bob, 100, 200, 10))
	got = claimFor(t, s, slow, bob, 500, 600, 10)
	wantClaim(t, got, sendID(x, 0, 1))
	// The order holds within one receiver only.
	wantClaim(t, claimFor(t, s, quick, bob, 500, 600, 1), sendID(x, 0, 2))
	keepAs(t, s, bob, got[0], wire.SendRefused, 500)
	wantClaim(t, claimFor(t, s, slow, bob, 500, 600, 10), sendID(x, 1, 0))
	wantReceivers(t, s, store.Receivers{NowMs: 500, Limit: 10}, quick)
	wantReceivers(t, s, store.Receivers{NowMs: 600, Limit: 10}, slow, quick)
}

// testDeadSends lists dead letters and resends them.
func testDeadSends(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x, y, alice, one, two := id(10), id(11), id(20), id(30), id(31)
	plain := w.entry(y, 5)
	plain.Sends = []wire.SendMark{{Kind: wire.SendTransaction, DueMs: 1}}
	w.store(toward(w.entry(x, 5), id(50), one, two), plain)
	w.store(toward(w.entry(x, 5), id(51), one, two))
	dead := func(after *wire.SendID, limit int, want ...wire.SendID) []store.Send {
		t.Helper()
		got := must(s.DeadSends(t.Context(), store.DeadSends{After: after, Limit: limit}))(t)
		wantClaim(t, got, want...)
		return got
	}
	resend := func(ask store.Resend, want int) {
		t.Helper()
		if n := must(s.Resend(t.Context(), ask))(t); n != want {
			t.Fatalf("%d sent again, want %d", n, want)
		}
	}
	dead(nil, 10)
	resend(store.Resend{NowMs: 5}, 0)
	// A refused transaction is no dead letter, nor is a delivered or expired event.
	keepAs(t, s, alice, claim(t, s, alice, 1, 9, 1)[0], wire.SendRefused, 2)
	for _, r := range []wire.ID{one, two} {
		for _, x := range claimFor(t, s, r, alice, 1, 9, 10) {
			x.Text, x.Memo = "HTTP status 404", []byte("memo")
			keepAs(t, s, alice, x, wire.SendRefused, 2)
		}
	}
	a, b, c, d := sendID(x, 0, 0), sendID(x, 0, 1), sendID(x, 1, 0), sendID(x, 1, 1)
	got := dead(nil, 10, a, b, c, d)
	if g := got[0]; g.Receiver != one || g.State != wire.SendRefused || g.Text != "HTTP status 404" || g.Tries != 1 || g.DueMs != 2 {
		t.Fatalf("dead letter %+v", g)
	}
	dead(nil, 2, a, b)
	dead(&b, 10, c, d)
	dead(&d, 10)
	resend(store.Resend{NowMs: 7, Send: &wire.SendID{Organization: y}}, 0) // no dead letter
	resend(store.Resend{NowMs: 7, Send: &c}, 1)
	resend(store.Resend{NowMs: 7, Send: &c}, 0)
	dead(nil, 10, a, b, d)
	wantClaim(t, claimFor(t, s, one, alice, 6, 9, 10))
	again := claimFor(t, s, one, alice, 7, 9, 10)
	wantClaim(t, again, c)
	if again[0].Tries != 0 || again[0].State != wire.SendWaiting || len(again[0].Memo) != 0 || again[0].Text != "HTTP status 404" {
		t.Fatalf("sent again %+v", again[0])
	}
	keepAs(t, s, alice, again[0], wire.SendIncluded, 8)
	resend(store.Resend{NowMs: 7, Receiver: two}, 2)
	dead(nil, 10, a)
	resend(store.Resend{NowMs: 7, Receiver: id(99)}, 0)
	resend(store.Resend{NowMs: 7}, 1)
	dead(nil, 10)
	if got := standing(t, s, sendID(y, 0, 0))[0]; got.State != wire.SendRefused {
		t.Fatalf("a transaction was sent again: state %d", got.State)
	}
}

// testDeliveries lists the sends for a receiver by their times, whole and by pages, and those that failed.
func testDeliveries(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	x, y, alice, one, two := id(10), id(11), id(20), id(30), id(31)
	list := func(ask wire.Deliveries, want ...wire.SendID) []wire.Delivery {
		t.Helper()
		got := must(s.Deliveries(t.Context(), ask))(t).Deliveries
		ids := make([]wire.SendID, len(got))
		for i := range got {
			ids[i] = got[i].Send
		}
		if !slices.Equal(ids, want) {
			t.Fatalf("deliveries %v, want %v", ids, want)
		}
		return got
	}
	list(wire.Deliveries{Receiver: one, Limit: 10})
	plain := w.entry(y, 5)
	plain.Sends = []wire.SendMark{{Kind: wire.SendTransaction, DueMs: 1}}
	w.store(toward(w.entry(x, 5), id(50), one, two), plain)
	for i := range 4 {
		w.store(toward(w.entry(x, 5), id(uint64(51+i)), one))
	}
	w.store(toward(w.entry(y, 5), id(60), one))
	sends := claimFor(t, s, one, alice, 1, 9, 10)
	if len(sends) != 6 {
		t.Fatalf("%d sends", len(sends))
	}
	// By id: x 0, x 1, x 2, x 3, x 4, y 1. The last one stays as it was.
	keepAs(t, s, alice, sends[0], wire.SendIncluded, 70)
	sends[1].Text = "HTTP status 500"
	keepAs(t, s, alice, sends[1], wire.SendWaiting, 500)
	keepAs(t, s, alice, sends[2], wire.SendRefused, 70)
	keepAs(t, s, alice, sends[4], wire.SendExpired, 80)
	s = reopen()
	w.backend = s
	a, b, c, d, e, f := sendID(x, 0, 0), sendID(x, 1, 0), sendID(x, 2, 0), sendID(x, 3, 0), sendID(x, 4, 0), sendID(y, 1, 0)
	got := list(wire.Deliveries{Receiver: one, Limit: wire.MaxDeliveries}, b, e, c, a, f, d)
	if got[0] != (wire.Delivery{Send: b, State: wire.SendWaiting, Tries: 1, Text: "HTTP status 500", TimeMs: 500}) {
		t.Fatalf("%+v", got[0])
	}
	after := func(i int) *wire.DeliveryPlace { return &wire.DeliveryPlace{TimeMs: got[i].TimeMs, Send: got[i].Send} }
	list(wire.Deliveries{Receiver: one, Limit: 2}, b, e)
	list(wire.Deliveries{Receiver: one, Limit: 2, After: after(1)}, c, a)
	list(wire.Deliveries{Receiver: one, Limit: 10, After: after(3)}, f, d)
	list(wire.Deliveries{Receiver: one, Limit: 10, After: after(5)})
	// A place need not be of a send.
	list(wire.Deliveries{Receiver: one, Limit: 1, After: &wire.DeliveryPlace{TimeMs: 75, Send: sendID(id(99), 7, 7)}}, c)
	list(wire.Deliveries{Receiver: one, Failed: true, Limit: 10}, b, e, c)
	list(wire.Deliveries{Receiver: one, Failed: true, Limit: 10, After: after(0)}, e, c)
	// Another receiver's sends, those without one and those of a receiver that has none are not seen.
	list(wire.Deliveries{Receiver: two, Limit: 10}, sendID(x, 0, 1))
	list(wire.Deliveries{Receiver: two, Failed: true, Limit: 10})
	list(wire.Deliveries{Receiver: x, Limit: 10})
	bad := sendID(id(1), store.MaxSeq+1, 0)
	for name, ask := range map[string]wire.Deliveries{
		"no receiver": {Limit: 1}, "no limit": {Receiver: one}, "high limit": {Receiver: one, Limit: wire.MaxDeliveries + 1},
		"time":  {Receiver: one, Limit: 1, After: &wire.DeliveryPlace{TimeMs: store.MaxTime + 1}},
		"place": {Receiver: one, Limit: 1, After: &wire.DeliveryPlace{Send: bad}},
	} {
		if _, err := s.Deliveries(t.Context(), ask); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testReceiversRefused sends queries that exceed a limit.
func testReceiversRefused(t *testing.T, open Opener) {
	s, _ := open(t)
	refused := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, ask := range map[string]store.Receivers{"no limit": {NowMs: 1}, "high limit": {Limit: store.MaxClaims + 1}, "time": {NowMs: store.MaxTime + 1, Limit: 1}} {
		_, err := s.Receivers(t.Context(), ask)
		refused("receivers: "+name, err)
	}
	bad := sendID(id(1), store.MaxSeq+1, 0)
	for name, ask := range map[string]store.DeadSends{"no limit": {}, "high limit": {Limit: store.MaxClaims + 1}, "place": {After: &bad, Limit: 1}} {
		_, err := s.DeadSends(t.Context(), ask)
		refused("dead: "+name, err)
	}
	good := sendID(id(1), 0, 0)
	for name, ask := range map[string]store.Resend{"time": {NowMs: store.MaxTime + 1}, "send": {Send: &bad}, "both": {Send: &good, Receiver: id(1)}} {
		_, err := s.Resend(t.Context(), ask)
		refused("resend: "+name, err)
	}
}
