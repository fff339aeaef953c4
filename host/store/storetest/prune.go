package storetest

import (
	"errors"
	"sync"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// testPrune checks that sends which ended long ago are deleted, in steps; those that have not ended, dead
// letters until their own time, and transactions remain.
func testPrune(t *testing.T, open Opener) {
	s, reopen := open(t)
	w := newWriter(t, s)
	who, receiver := id(20), id(30)
	at := uint64(0)
	// end makes one send and ends it, in state at time due.
	end := func(kind wire.SendKind, state wire.SendState, due uint64) wire.SendID {
		t.Helper()
		at++
		org := id(100 + at)
		mark := wire.SendMark{Kind: kind, DueMs: 1}
		e := w.entry(org, 5)
		if kind == wire.SendWebhook {
			mark.Receiver, e.Activity, e.Type, e.Status = receiver, id(at), "ACTIVITY_TYPE_X", 3
		}
		e.Sends = []wire.SendMark{mark}
		w.store(e)
		var got []store.Send
		if kind == wire.SendWebhook {
			got = claimFor(t, s, receiver, who, 1, 2, 1)
		} else {
			got = claim(t, s, who, 1, 2, 1)
		}
		if len(got) != 1 || got[0].ID != sendID(org, 0, 0) {
			t.Fatalf("claimed %+v", got)
		}
		keepAs(t, s, who, got[0], state, due)
		return got[0].ID
	}
	const day = 86_400_000
	var gone, stay []wire.SendID
	for _, x := range []struct {
		kind  wire.SendKind
		state wire.SendState
		due   uint64
		goes  bool
	}{
		{wire.SendMail, wire.SendIncluded, 10*day - 1, true}, {wire.SendMail, wire.SendIncluded, 10 * day, false}, {wire.SendMail, wire.SendRefused, 9 * day, true},
		{wire.SendText, wire.SendExpired, 9 * day, true}, {wire.SendText, wire.SendWaiting, 9 * day, false}, {wire.SendWebhook, wire.SendIncluded, 3 * day, true},
		{wire.SendWebhook, wire.SendExpired, 9 * day, true}, {wire.SendWebhook, wire.SendRefused, 9 * day, false}, {wire.SendWebhook, wire.SendRefused, 5 * day, false},
		{wire.SendWebhook, wire.SendRefused, 5*day - 1, true}, {wire.SendWebhook, wire.SendWaiting, 1 * day, false}, {wire.SendTransaction, wire.SendIncluded, 1, false},
		{wire.SendTransaction, wire.SendRefused, 1, false}, {wire.SendTransaction, wire.SendReplaced, 1, false}, {wire.SendTransaction, wire.SendExpired, 1, false},
		{wire.SendTransaction, wire.SendAccepted, day, false},
	} {
		if id := end(x.kind, x.state, x.due); x.goes {
			gone = append(gone, id)
		} else {
			stay = append(stay, id)
		}
	}
	before := standing(t, s, stay...)
	objects := []string{wire.MailObject(7, wire.Hash{1}), wire.MailObject(8, wire.Hash{1}), wire.MailObject(10, wire.Hash{1}), "mai", "mail", "maim", "a"}
	for _, name := range objects {
		must(s.PutObject(t.Context(), wire.PutObject{Name: name, Bytes: []byte("o")}))(t)
	}
	prune := func(limit int) int {
		t.Helper()
		return must(s.PruneSends(t.Context(), store.PruneSends{EndedMs: 10 * day, DeadMs: 5 * day, Limit: limit}))(t)
	}
	defer func() {
		if n := must(s.PruneSends(t.Context(), store.PruneSends{Mails: wire.MailObjects(8), Limit: 1}))(t); n != 1 {
			t.Errorf("%d objects went", n)
		}
		if n := must(s.PruneSends(t.Context(), store.PruneSends{Mails: wire.MailObjects(8), Limit: 1}))(t); n != 0 {
			t.Errorf("%d more went", n)
		}
		for i, name := range objects {
			if o := must(s.LoadObject(t.Context(), wire.LoadObject{Name: name}))(t); o.Found != (i > 0) {
				t.Errorf("%s: %v", name, o.Found)
			}
		}
	}()
	// At most two of each kind: a dead letter and five others.
	if a, b, c, d := prune(2), prune(2), prune(2), prune(2); a != 3 || b != 2 || c != 1 || d != 0 {
		t.Fatalf("pruned %d, %d, %d, %d", a, b, c, d)
	}
	s = reopen()
	w.backend = s
	for i, x := range standing(t, s, gone...) {
		if x.State != wire.SendUnknown {
			t.Errorf("send %d stands at %d", i, x.State)
		}
	}
	for i, x := range standing(t, s, stay...) {
		if x.State != before[i].State {
			t.Errorf("send %d, that stays, went from %d to %d", i, before[i].State, x.State)
		}
	}
	// A remaining dead letter can still be sent again, and is then no longer dead.
	if n := must(s.Resend(t.Context(), store.Resend{NowMs: 1, Receiver: receiver}))(t); n != 2 {
		t.Errorf("%d dead letters sent again", n)
	}
	if n := must(s.PruneSends(t.Context(), store.PruneSends{EndedMs: store.MaxTime, DeadMs: store.MaxTime, Limit: store.MaxClaims}))(t); n != 1 {
		t.Errorf("%d pruned at the end of time, want the mail that was too young", n)
	}
	for name, ask := range map[string]store.PruneSends{"no limit": {}, "high limit": {Limit: store.MaxClaims + 1}, "time": {EndedMs: store.MaxTime + 1, Limit: 1}, "time of the dead": {DeadMs: store.MaxTime + 1, Limit: 1}} {
		if _, err := s.PruneSends(t.Context(), ask); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Hosts that prune at once delete each row once.
	for range 40 {
		end(wire.SendMail, wire.SendIncluded, 1)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	total := 0
	for range 4 {
		all.Go(func() {
			for n := 1; n > 0; {
				var err error
				if n, err = s.PruneSends(t.Context(), store.PruneSends{EndedMs: 2, DeadMs: 2, Limit: 3}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				total += n
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if total += prune(store.MaxClaims); total != 40 {
		t.Errorf("%d pruned, want 40", total)
	}
}
