package storetest

import (
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// testBacklog counts sends, events and dead letters in all states.
func testBacklog(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	x, act, alice, hook := id(10), id(50), id(20), id(30)
	want := func(what string, b store.Backlog) {
		t.Helper()
		if got := must(s.Backlog(t.Context()))(t); got != b {
			t.Fatalf("%s: %+v, want %+v", what, got, b)
		}
	}
	want("an empty store", store.Backlog{})
	first := sending(w.entry(x, 5), 700, 300)
	w.store(first)
	w.store(toward(w.entry(x, 5), act, hook, id(31)))
	s = reopen()
	w.backend = s
	want("all waits", store.Backlog{Sends: store.Waiting{Count: 2, OldestDueMs: 300}, Webhooks: store.Waiting{Count: 2, OldestDueMs: 1}})
	// A claim ends no send, nor does a later time.
	got := claim(t, s, alice, 300, 400, 10)
	want("claimed", store.Backlog{Sends: store.Waiting{Count: 2, OldestDueMs: 300}, Webhooks: store.Waiting{Count: 2, OldestDueMs: 1}})
	keepAs(t, s, alice, got[0], wire.SendAccepted, 900)
	want("accepted", store.Backlog{Sends: store.Waiting{Count: 2, OldestDueMs: 700}, Webhooks: store.Waiting{Count: 2, OldestDueMs: 1}})
	for _, send := range claim(t, s, alice, 1000, 2000, 10) {
		keepAs(t, s, alice, send, wire.SendRefused, 1)
	}
	// A refused transaction is no dead letter: it cannot be sent again.
	want("sends ended", store.Backlog{Webhooks: store.Waiting{Count: 2, OldestDueMs: 1}})
	event := claimFor(t, s, hook, alice, 10, 20, 10)
	keepAs(t, s, alice, event[0], wire.SendRefused, 1)
	want("a dead letter", store.Backlog{Webhooks: store.Waiting{Count: 1, OldestDueMs: 1}, Dead: 1})
	must(s.Resend(t.Context(), store.Resend{NowMs: 5000}))(t)
	want("sent again", store.Backlog{Webhooks: store.Waiting{Count: 2, OldestDueMs: 1}})
	// Counts stop at MaxBacklog.
	for n := 0; n <= store.MaxBacklog; {
		var entries []wire.Entry
		for i := range 32 {
			e := w.entry(id(uint64(1000+i)), 5)
			e.Activity, e.Type, e.Status = id(uint64(2000+n)), "ACTIVITY_TYPE_X", 3
			for range wire.MaxSends {
				e.Sends = append(e.Sends, wire.SendMark{Kind: wire.SendWebhook, DueMs: 1, Receiver: id(uint64(100 + n%3))})
				n++
			}
			entries = append(entries, e)
		}
		w.store(entries...)
	}
	if b := must(s.Backlog(t.Context()))(t); b.Webhooks.Count != store.MaxBacklog {
		t.Fatalf("counted %d, want to stop at %d", b.Webhooks.Count, store.MaxBacklog)
	}
}
