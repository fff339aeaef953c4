package policies_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cloister/sim/rig"
)

// usually is the time at which cases happen that name none.
const usually = "2026-03-10T12:00:00Z"

// Every case whose kind is live comes out over HTTP as it is written, transactions read by the chains' own readers.
func TestCases(t *testing.T) {
	k := readBook(t)
	s := newServer(t, len(k.Cases), standsAt(t, usually))
	counts := map[string]int{}
	for i := range k.Cases {
		c := &k.Cases[i]
		what := "requests"
		switch {
		case c.Kind == "create_policy":
			what = "policies created or refused"
		case c.Request.Tx != "":
			what = "requests about a transaction or payload"
		}
		counts[what]++
		t.Run(c.ID, func(t *testing.T) {
			s := s
			if c.Now != "" {
				s = newServer(t, 1, standsAt(t, c.Now))
			}
			w, err := s.build(k, c)
			if err != nil {
				t.Fatalf("%s: setting up: %v", c.Title, err)
			}
			switch {
			case c.Kind == "create_policy":
				err = w.creates(c)
			default:
				err = w.judge(c, c.Request.Type)
			}
			if err != nil {
				t.Errorf("%s: %v", c.Title, err)
			}
		})
	}
	t.Logf("counted: %v", counts)
}

// creates makes the policies of a case, which are taken or refused with a word for the clause.
func (w *world) creates(c *row) error {
	for _, p := range c.Policies {
		a, err := w.submit("ACTIVITY_TYPE_CREATE_POLICY_V3", w.root, w.policy(p))
		if err != nil {
			return err
		}
		if c.Expect.Outcome == "ALLOW" {
			if a.status != 200 {
				return fmt.Errorf("%d %v", a.status, a.m)
			}
			continue
		}
		clause := "condition"
		switch {
		case p.Consensus != "":
			clause = "consensus"
		case p.Time != "":
			clause = "time"
		}
		if m := rig.Text(a.m, "message"); a.status != 400 || rig.Text(a.m, "code") != "3" || !strings.Contains(m, "invalid policy "+clause) {
			return fmt.Errorf("%d %v, want 400 and the clause %s", a.status, a.m, clause)
		}
	}
	return nil
}

const engineError = "type.googleapis.com/errors.v1.PolicyEnginePermissionError"

// judge sends the request and the approvals of a case and compares what comes of it.
func (w *world) judge(c *row, typ string) error {
	params, err := w.request(c, typ)
	if err != nil {
		return err
	}
	by := w.stamps[c.Request.By.Credential]
	if by == nil {
		return fmt.Errorf("no credential %s", c.Request.By.Credential)
	}
	if c.Request.Sponsored {
		return w.foresee(c, typ, by, params)
	}
	a, err := w.submit(typ, by, params)
	if err != nil {
		return err
	}
	fingerprint := rig.Text(a.m, "activity", "fingerprint")
	for _, v := range c.Approvals {
		if s := rig.Text(a.m, "activity", "status"); s != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
			return fmt.Errorf("before the vote of %s: %d %v", v.User, a.status, a.m)
		}
		stamp := w.stamps[v.Credential]
		if stamp == nil {
			return fmt.Errorf("no credential %s", v.Credential)
		}
		voted, err := w.submit("ACTIVITY_TYPE_APPROVE_ACTIVITY", stamp, map[string]any{"fingerprint": fingerprint})
		if err == nil && voted.status == 403 { // not one of those who count: the activity stays as it is
			voted, err = w.query("get_activity", map[string]any{"activityId": rig.Text(a.m, "activity", "id")})
		}
		if err != nil {
			return err
		}
		a = voted
	}
	got, evaluations, id := "", []any(nil), rig.Text(a.m, "activity", "id")
	switch s := rig.Text(a.m, "activity", "status"); {
	case a.status == 200 && s == "ACTIVITY_STATUS_COMPLETED":
		got = "ALLOW"
	case a.status == 200 && s == "ACTIVITY_STATUS_CONSENSUS_NEEDED":
		got = "CONSENSUS"
	case a.status == 403 && rig.Text(a.m, "code") == "7":
		got = "DENY"
		for _, d := range a.m["details"].([]any) {
			switch rig.Text(d, "@type") {
			case engineError:
				evaluations, _ = rig.Get(d, "policyEvaluations").([]any)
			case "type.googleapis.com/cloister.v1.RefusedActivity":
				id = rig.Text(d, "activityId")
			}
		}
		if err := w.compare(c, evaluations, "the refusal"); err != nil {
			return err
		}
	case a.status == 400 && c.Expect.Outcome == "ALLOW" && strings.HasPrefix(rig.Text(a.m, "message"), "card numbers are not taken here"):
		return nil // allowed, and nothing of it is kept
	case a.status == 400:
		got = "ERROR"
	}
	if refused := refusedActivity(a.m); refused != "" && a.status != 403 && c.Expect.Outcome == "ALLOW" {
		got, id = "ALLOW", refused // it was allowed, and then it could not be done
	}
	if got == "ERROR" && got == c.Expect.Outcome {
		return refusedAs(c.Expect.Reason, a.m) // before the policies: there is no activity
	}
	if got != c.Expect.Outcome {
		return fmt.Errorf("%s, want %s: %d %v", got, c.Expect.Outcome, a.status, a.m)
	}
	q, err := w.query("get_policy_evaluations", map[string]any{"activityId": id})
	if err != nil {
		return err
	}
	if q.status != 200 {
		return fmt.Errorf("get_policy_evaluations: %d %v", q.status, q.m)
	}
	return w.compare(c, w.ofLastVote(q.m, a.m), "get_policy_evaluations")
}

// refusedActivity is the id of the activity that an error names, if it does.
func refusedActivity(m map[string]any) string {
	details, _ := m["details"].([]any)
	for _, d := range details {
		if rig.Text(d, "@type") == "type.googleapis.com/cloister.v1.RefusedActivity" {
			return rig.Text(d, "activityId")
		}
	}
	return ""
}

// foresee asks what would be decided about a request that cannot be sent: nobody sponsors transactions.
func (w *world) foresee(c *row, typ string, by stamper, params map[string]any) error {
	a, err := w.submit(typ, by, params)
	if err == nil && (a.status != 400 || !strings.Contains(rig.Text(a.m, "message"), "gas usage configuration")) {
		err = fmt.Errorf("sponsored, it answers %d %v", a.status, a.m)
	}
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"organizationId": w.id, "activity": map[string]any{"type": typ, "parameters": params}})
	if err != nil {
		return err
	}
	a, err = w.post("/public/v1/query/evaluate_policies", body, by)
	if err != nil {
		return err
	}
	if got := rig.Text(a.m, "outcome"); a.status != 200 || got != "OUTCOME_"+c.Expect.Outcome {
		return fmt.Errorf("evaluate_policies: %d %v", a.status, a.m)
	}
	evaluations, _ := a.m["policyEvaluations"].([]any)
	return w.compare(c, evaluations, "evaluate_policies")
}

// refusedAs holds that a refusal has the machine code of the case.
func refusedAs(code string, m map[string]any) error {
	details, _ := m["details"].([]any)
	for _, d := range details {
		if rig.Text(d, "turnkeyErrorCode") == code {
			return nil
		}
	}
	if rig.Text(m, "turnkeyErrorCode") == code {
		return nil
	}
	return fmt.Errorf("no %s in %v", code, m)
}

// ofLastVote are the evaluations at the last vote: none where no policy was asked. Of a refusal, whose votes are not told,
// they are the last.
func (w *world) ofLastVote(q, a map[string]any) []any {
	records, _ := q["policyEvaluations"].([]any)
	if len(records) == 0 {
		return nil
	}
	last := records[len(records)-1]
	votes, _ := rig.Get(a, "activity", "votes").([]any)
	if len(votes) > 0 && rig.Text(last, "voteId") != rig.Text(votes[len(votes)-1], "id") {
		return nil
	}
	evaluations, _ := rig.Get(last, "policyEvaluations").([]any)
	return evaluations
}

// compare holds evaluations against those of the case.
func (w *world) compare(c *row, evaluations []any, where string) error {
	if c.Expect.Reason == "ROOT_QUORUM" && len(evaluations) > 0 {
		return fmt.Errorf("%s: %v, though the root quorum decided", where, evaluations)
	}
	got := map[string]string{}
	for _, e := range evaluations {
		got[rig.Text(e, "policyId")] = rig.Text(e, "outcome")
	}
	for _, name := range sorted(c.Expect.PolicyOutcomes) {
		if want := c.Expect.PolicyOutcomes[name]; got[w.ids["policy "+name]] != want {
			return fmt.Errorf("%s: policy %s has %q, want %q", where, name, got[w.ids["policy "+name]], want)
		}
	}
	return nil
}
