package replay_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/org"
	"cloister/enclave/internal/replay"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// windows is a history in which a sub-organization's window is spent, passed, raised and passed again.
type windows struct {
	*history
	t              *testing.T
	all            []*replay.History
	top, sub       *replay.History
	spends, passed []*org.Entry // of the sub-organization, in their order
}

func newWindows(t *testing.T) *windows {
	h := begin(t, rig.Options{Nodes: map[string]string{"eip155:1": node(t)}, Configuration: []byte(`{"gas":{"prices":{"eip155:1":2500000000}}}`)})
	top, sub := h.orgs[0], h.below(client.NewKey())
	limit := func(each string) {
		h.do(top, top.root, "UPSERT_GAS_USAGE_CONFIG", object{"orgWindowLimitUsd": "100", "subOrgWindowLimitUsd": each, "windowDurationMinutes": "60"})
	}
	limit("3.5")
	r, _ := h.do(sub, sub.root, "CREATE_WALLET", client.Wallet("W", client.Ethereum))
	address := client.Text(r, "addresses", "0")
	for i, want := range []int{200, 429, 200, 429} {
		if i == 2 {
			limit("7")
		}
		_, got := h.do(sub, sub.root, "ETH_SEND_TRANSACTION_V2", object{"from": address, "caip2": "eip155:1", "calls": []object{{"to": address, "value": "1"}}, "sponsor": true,
			"gasLimit": "400000", "maxFeePerGas": "3000000000", "gasStationNonce": fmt.Sprint(i)}) // for 3 dollars
		if got != want {
			t.Fatalf("send %d: %d, want %d", i, got, want)
		}
	}
	w := &windows{history: h, t: t, all: h.read()}
	for _, one := range w.all {
		if one.Organization.String() == top.id {
			w.top = one
			continue
		}
		w.sub = one
		for _, r := range one.Entries {
			switch {
			case !strings.Contains(r.Entry.Type, "ETH_SEND"):
			case r.Entry.Status == org.StatusCompleted:
				w.spends = append(w.spends, r.Entry)
			default:
				w.passed = append(w.passed, r.Entry)
			}
		}
	}
	if len(w.spends) != 2 || len(w.passed) != 2 {
		t.Fatalf("%d spends, %d refused", len(w.spends), len(w.passed))
	}
	w.agrees("as it was")
	return w
}

func (w *windows) agrees(what string) {
	w.t.Helper()
	if _, err := run(w.all); err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
}

func (w *windows) differs(what, says string) {
	w.t.Helper()
	if _, err := run(w.all); err == nil || !strings.Contains(err.Error(), says) {
		w.t.Errorf("%s: %v, want %q", what, err, says)
	}
}

// paid is the parent's entry with the cost of a spend.
func (w *windows) paid(e *org.Entry) *org.Entry { return w.top.Entries[e.OtherSeq].Entry }

// cost changes what a spend is recorded to have cost; 0 removes it.
func (w *windows) cost(e *org.Entry, micro uint64) (undo func()) {
	paid := w.paid(e)
	was := paid.Writes
	paid.Writes = nil
	for _, one := range was {
		if one.Key[0] == 'y' {
			tx := org.Begin(w.top.Organization, org.NewState(), e.TimeMs)
			if err := tx.PutGasSpend(e.Activity, &org.GasSpend{Organization: w.sub.Organization, Micro: micro}); err != nil {
				w.t.Fatal(err)
			}
			if micro == 0 {
				continue
			}
			ws, err := tx.Writes()
			if err != nil {
				w.t.Fatal(err)
			}
			one = ws[0]
		}
		paid.Writes = append(paid.Writes, one)
	}
	return func() { paid.Writes = was }
}

// refuse records another reason for a refusal.
func (w *windows) refuse(e *org.Entry, reason string) (undo func()) {
	was := e.Failure
	_, rest, _ := bytes.Cut(was, []byte(`"message":"`))
	message, _, _ := bytes.Cut(rest, []byte(`"`))
	e.Failure = bytes.ReplaceAll(was, message, []byte(reason))
	if bytes.Equal(was, e.Failure) {
		w.t.Fatalf("%s", was)
	}
	return func() { e.Failure = was }
}

// TestWindowsAreReplayed: what was spent is counted again, so that nothing passes a limit.
func TestWindowsAreReplayed(t *testing.T) {
	w := newWindows(t)
	undo := w.cost(w.spends[0], 0)
	w.differs("a spend that nobody counted", "would have been 1 cost of a sponsored transaction, is recorded as 0")
	undo()
	undo = w.cost(w.spends[0], 3_500_001)
	w.differs("a spend beyond the limit of then", "would have been refused (subOrgWindowLimitUsd of 3.5 USD")
	undo()
	undo = w.cost(w.spends[0], 3_000_001)
	w.agrees("another cost, which depends on prices that are in no record")
	undo()
	w.cost(w.spends[1], 4_000_001)
	w.differs("a spend that passes the limit together with another", "subOrgWindowLimitUsd of 7 USD in 60 minutes would be passed: 3 are used")
}

// TestRecoveryIsReplayed: a refusal because of a recovery is decided again, and nothing else is spent while the windows count as used up.
func TestRecoveryIsReplayed(t *testing.T) {
	w := newWindows(t)
	reason := func(recovered, until uint64) string {
		at := func(ms uint64) string { return time.UnixMilli(int64(ms)).UTC().Format("2006-01-02T15:04:05.000Z") }
		return fmt.Sprintf("orgWindowLimitUsd counts as used up until %s: the store was recovered at %s without what was written last, "+
			"so what sponsored transactions cost before is not known; stamp the request again then", at(until), at(recovered))
	}
	const hour = 60 * 60 * 1000
	first, last := w.passed[0], w.passed[1]
	undo := w.refuse(last, reason(last.TimeMs, last.TimeMs+hour))
	w.agrees("refused after a recovery")
	undo()
	for what, c := range map[string]struct{ recorded, want string }{
		"another end":                   {reason(last.TimeMs, last.TimeMs+hour+1), "would have been orgWindowLimitUsd counts as used up"},
		"other words":                   {strings.Replace(reason(last.TimeMs, last.TimeMs+hour), "not known", "unknown", 1), "would have been orgWindowLimitUsd counts as used up"},
		"a recovery before the sponsor": {reason(w.top.Entries[0].Entry.TimeMs-1, w.top.Entries[0].Entry.TimeMs+hour-1), "would have been not refused because of that recovery"},
		"a recovery long ago":           {reason(last.TimeMs-hour, last.TimeMs), "would have been not refused because of that recovery"},
	} {
		undo := w.refuse(last, c.recorded)
		w.differs(what, c.want)
		undo()
	}
	undo = w.refuse(first, reason(first.TimeMs, first.TimeMs+hour))
	w.differs("a spend while the windows count as used up", "would have been refused (orgWindowLimitUsd counts as used up until")
	undo()

	// An organization that was made after a recovery signs at once, and says since which generation of the log.
	for _, r := range w.sub.Entries {
		for i := range r.Entry.Writes {
			if one := &r.Entry.Writes[i]; one.Key[0] == 'A' {
				tx := org.Begin(w.sub.Organization, org.NewState(), r.Entry.TimeMs)
				tx.Put(*one)
				rec, err := tx.Organization()
				if err != nil {
					t.Fatal(err)
				}
				changed := *rec
				changed.Recovered = 2
				if err := tx.PutOrganization(&changed); err != nil {
					t.Fatal(err)
				}
				ws, err := tx.Writes()
				if err != nil {
					t.Fatal(err)
				}
				*one = ws[0]
			}
		}
	}
	w.agrees("made after a recovery")
}
