package replay_test

import (
	"slices"
	"testing"

	"cloister/enclave/core"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/replay"
	"cloister/shared/clocktest"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// A log-in that names the parent is noted there, and one that ends sessions writes a not-before. Histories of releases that did
// neither replay as well.
func TestReplayOfLedLogins(t *testing.T) {
	c := clocktest.New()
	h := begin(t, rig.Options{Clock: c})
	top, second := h.orgs[0], client.NewKey()
	h.do(h.below(second), second, "UPDATE_ORGANIZATION_NAME", object{"organizationName": "Below"}) // what is proven is written above
	for _, by := range []string{"proven", "known"} {
		if _, status := h.do(top, second, "STAMP_LOGIN", object{"publicKey": client.NewKey().PublicKey, "invalidateExisting": by == "known"}); status != 200 {
			t.Fatalf("%s: %d", by, status)
		}
	}
	all := h.read()
	if _, err := run(copied(t, all)); err != nil {
		t.Errorf("as it is: %v", err)
	}
	noted, before := 0, 0
	older := copied(t, all)
	for i, one := range older {
		one.Entries = slices.DeleteFunc(one.Entries, func(e *core.Recorded) bool {
			led := i == 0 && e.Entry.Activity.Zero() && e.Entry.StampedMs != 0
			if led {
				noted++
			}
			return led && len(e.Entry.Writes) == 0
		})
		for seq, e := range one.Entries {
			e.Seq, e.Root = uint64(seq), org.Hash{}
			e.Entry.Seq = e.Seq
			if i == 1 && e.Entry.Type == "ACTIVITY_TYPE_STAMP_LOGIN" {
				e.Entry.Other, e.Entry.OtherSeq = org.ID{}, 0
			}
			for n, w := range e.Entry.Writes {
				if older, ok := withoutNotBefore(t, one, w); ok {
					before++
					e.Entry.Writes[n] = older
				}
			}
		}
	}
	if noted != 2 || before != 1 {
		t.Fatalf("%d log-ins are noted, %d end others", noted, before)
	}
	if _, err := run(older); err != nil {
		t.Errorf("of an older release: %v", err)
	}
	// What is noted above is no other body's.
	forged := copied(t, all)
	for _, e := range forged[0].Entries {
		if e.Entry.Activity.Zero() && e.Entry.StampedMs != 0 {
			e.Entry.StampedMs++
		}
	}
	if _, err := run(forged); err == nil {
		t.Error("another time of the stamp is not noticed")
	}
}

// withoutNotBefore is the write of a user's record as an older release made it; ok is false for any other write.
func withoutNotBefore(t *testing.T, h *replay.History, w org.Write) (older org.Write, ok bool) {
	t.Helper()
	if w.Key[0] != 'B' || w.Value == nil {
		return w, false
	}
	tx := org.Begin(h.Organization, org.NewState(), 0)
	tx.Put(w)
	u, err := tx.User(org.ID(w.Key[1:]))
	if err != nil || u.NotBeforeMs == 0 {
		return w, false
	}
	was := *u
	was.NotBeforeMs = 0
	tx = org.Begin(h.Organization, org.NewState(), 0)
	if err := tx.PutUser(&was); err != nil {
		t.Fatal(err)
	}
	ws, err := tx.Writes()
	if err != nil || len(ws) != 1 {
		t.Fatalf("%d writes, %v", len(ws), err)
	}
	return ws[0], true
}
