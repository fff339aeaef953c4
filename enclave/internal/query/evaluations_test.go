package query_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/org"
)

// What get_mfa_status says is demanded of a voter is what is demanded when the activity is
// decided, whatever the budget: what cannot be found out within it is demanded by both.
func TestMFAStatusHasTheStepsOfTheDecision(t *testing.T) {
	w := newWorld(t)
	list := "[" + strings.TrimSuffix(strings.Repeat("1, ", 60), ", ") + "]" // about 11,000 steps
	condition := fmt.Sprintf("!%s.all(a, %[1]s.all(b, a == b))", list)
	body, err := json.Marshal(object{"type": "ACTIVITY_TYPE_UPDATE_WALLET", "timestampMs": "1000000", "organizationId": w.id.String(),
		"parameters": object{"walletId": w.wallet(1, 1, 1).ID.String(), "walletName": "x"}})
	w.must(err)
	e := &org.Entry{Activity: id('A', 1), Type: "ACTIVITY_TYPE_UPDATE_WALLET", Status: org.StatusConsensusNeeded, Body: body, Fingerprint: org.Hash{1}}
	w.entries = []*org.Entry{e}
	p := &org.Pending{Activity: e.Activity, Fingerprint: e.Fingerprint, Status: e.Status, CreatedMs: 1_000_000, OpenedMs: 1_000_000, Initiator: id('U', 1)}
	w.change(func(tx *org.Tx) {
		for n := byte(1); n <= 3; n++ {
			u, err := tx.User(id('U', n))
			w.must(err)
			changed := *u
			changed.MFAPolicies = []org.MFAPolicy{{ID: id('M', n), Name: "dear", Condition: condition, Required: []org.MFAMethod{{Any: []org.Factor{{Type: "AUTHENTICATION_TYPE_PASSKEY"}}}}}}
			w.must(tx.PutUser(&changed))
			p.Votes = append(p.Votes, org.PendingVote{User: u.ID, CreatedMs: 1_000_000, Credentials: []org.VoteCredential{activity.APIKeyCredential(&u.APIKeys[0])}})
		}
		w.must(tx.PutPending(p))
	})
	demanded := map[bool]int{}
	for w.steps = 20_000; w.steps < 400_000; w.steps += 10_000 {
		q, err := kinds.Live.PolicyRequestOf(w.tx(), e, p.Initiator)
		w.must(err)
		left := w.steps
		lacks, err := activity.CountVotes(w.tx(), p, &q, w.steps, &left)
		w.must(err)
		m, err := w.ask("get_mfa_status", object{"activityId": e.Activity.String()})
		w.must(err)
		if told := len(m["mfaStatuses"].([]any)); told != 3-len(q.Approvals) || (lacks != nil) != (told > 0) {
			t.Errorf("budget %d: %d approvals count, %d policies are told to be demanded", w.steps, len(q.Approvals), told)
		}
		demanded[lacks != nil]++
	}
	if len(demanded) != 2 {
		t.Errorf("always the same: %v", demanded)
	}
}
