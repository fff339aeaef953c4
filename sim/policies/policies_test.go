package policies_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/sim/client"
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
			t.Log(c.Title)
			w := s.build(t, k, c)
			check := w.judge
			if c.Kind == "create_policy" {
				check = w.creates
			}
			if err := check(c); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("counted: %v", counts)
}

// creates makes the policies of a case, which are taken or refused with a word for the clause.
func (w *world) creates(c *row) error {
	for _, p := range c.Policies {
		a := w.root.Submit("CREATE_POLICY_V3", w.policy(p))
		if c.Expect.Outcome == "ALLOW" {
			if !a.Completed() {
				return fmt.Errorf("%v", a)
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
		if a.Status != 400 || a.Text("code") != "3" || !strings.Contains(a.Text("message"), "invalid policy "+clause) {
			return fmt.Errorf("%v, want 400 and the clause %s", a, clause)
		}
	}
	return nil
}

const engineError = "type.googleapis.com/errors.v1.PolicyEnginePermissionError"

// judge sends the request and the approvals of a case and compares what comes of it.
func (w *world) judge(c *row) error {
	typ := strings.TrimPrefix(c.Request.Type, "ACTIVITY_TYPE_")
	params := w.request(c, typ)
	by := w.users[c.Request.By.Credential]
	if by == nil {
		return fmt.Errorf("no credential %s", c.Request.By.Credential)
	}
	if c.Request.Sponsored {
		return w.foresee(c, typ, by, params)
	}
	a := by.Submit(typ, params)
	fingerprint := a.Text("activity", "fingerprint")
	for _, v := range c.Approvals {
		if a.State() != "CONSENSUS_NEEDED" {
			return fmt.Errorf("before the vote of %s: %v", v.User, a)
		}
		voter := w.users[v.Credential]
		if voter == nil {
			return fmt.Errorf("no credential %s", v.Credential)
		}
		voted := voter.Submit("APPROVE_ACTIVITY", map[string]any{"fingerprint": fingerprint})
		if voted.Status == 403 { // not one of those who count: the activity stays as it is
			voted = w.root.Query("get_activity", map[string]any{"activityId": a.Text("activity", "id")})
		}
		a = voted
	}
	got, evaluations, id := "", []any(nil), a.Text("activity", "id")
	switch {
	case a.Completed():
		got = "ALLOW"
	case a.Status == 200 && a.State() == "CONSENSUS_NEEDED":
		got = "CONSENSUS"
	case a.Status == 403 && a.Text("code") == "7":
		got = "DENY"
		for _, d := range a.Get("details").([]any) {
			switch client.Text(d, "@type") {
			case engineError:
				evaluations, _ = client.Get(d, "policyEvaluations").([]any)
			case "type.googleapis.com/cloister.v1.RefusedActivity":
				id = client.Text(d, "activityId")
			}
		}
		if err := w.compare(c, evaluations, "the refusal"); err != nil {
			return err
		}
	case a.Status == 400 && c.Expect.Outcome == "ALLOW" && strings.HasPrefix(a.Text("message"), "card numbers are not taken here"):
		return nil // allowed, and nothing of it is kept
	case a.Status == 400:
		got = "ERROR"
	}
	if refused := refusedActivity(a); refused != "" && a.Status != 403 && c.Expect.Outcome == "ALLOW" {
		got, id = "ALLOW", refused // it was allowed, and then it could not be done
	}
	if got == "ERROR" && got == c.Expect.Outcome {
		return refusedAs(c.Expect.Reason, a) // before the policies: there is no activity
	}
	if got != c.Expect.Outcome {
		return fmt.Errorf("%s, want %s: %v", got, c.Expect.Outcome, a)
	}
	q := w.root.Read("get_policy_evaluations", map[string]any{"activityId": id})
	return w.compare(c, w.ofLastVote(q, a.JSON()), "get_policy_evaluations")
}

// refusedActivity is the id of the activity that an error names, if it does.
func refusedActivity(r client.Reply) string {
	details, _ := r.Get("details").([]any)
	for _, d := range details {
		if client.Text(d, "@type") == "type.googleapis.com/cloister.v1.RefusedActivity" {
			return client.Text(d, "activityId")
		}
	}
	return ""
}

// foresee asks what would be decided about a request that cannot be sent: nobody sponsors transactions.
func (w *world) foresee(c *row, typ string, by *client.User, params map[string]any) error {
	if a := by.Submit(typ, params); a.Status != 400 || !strings.Contains(a.Text("message"), "gas usage configuration") {
		return fmt.Errorf("sponsored, it answers %v", a)
	}
	a := by.Query("evaluate_policies", map[string]any{"activity": map[string]any{"type": c.Request.Type, "parameters": params}})
	if a.Status != 200 || a.Text("outcome") != "OUTCOME_"+c.Expect.Outcome {
		return fmt.Errorf("evaluate_policies: %v", a)
	}
	evaluations, _ := a.Get("policyEvaluations").([]any)
	return w.compare(c, evaluations, "evaluate_policies")
}

// refusedAs holds that a refusal has the machine code of the case.
func refusedAs(code string, r client.Reply) error {
	details, _ := r.Get("details").([]any)
	for _, d := range details {
		if client.Text(d, "turnkeyErrorCode") == code {
			return nil
		}
	}
	if r.Text("turnkeyErrorCode") == code {
		return nil
	}
	return fmt.Errorf("no %s in %v", code, r)
}

// ofLastVote are the evaluations at the last vote: none where no policy was asked. Of a refusal, whose votes are not told,
// they are the last.
func (w *world) ofLastVote(q, a map[string]any) []any {
	records, _ := q["policyEvaluations"].([]any)
	if len(records) == 0 {
		return nil
	}
	last := records[len(records)-1]
	votes, _ := client.Get(a, "activity", "votes").([]any)
	if len(votes) > 0 && client.Text(last, "voteId") != client.Text(votes[len(votes)-1], "id") {
		return nil
	}
	evaluations, _ := client.Get(last, "policyEvaluations").([]any)
	return evaluations
}

// compare holds evaluations against those of the case.
func (w *world) compare(c *row, evaluations []any, where string) error {
	if c.Expect.Reason == "ROOT_QUORUM" && len(evaluations) > 0 {
		return fmt.Errorf("%s: %v, though the root quorum decided", where, evaluations)
	}
	got := map[string]string{}
	for _, e := range evaluations {
		got[client.Text(e, "policyId")] = client.Text(e, "outcome")
	}
	for _, name := range sorted(c.Expect.PolicyOutcomes) {
		if want := c.Expect.PolicyOutcomes[name]; got[w.ids["policy "+name]] != want {
			return fmt.Errorf("%s: policy %s has %q, want %q", where, name, got[w.ids["policy "+name]], want)
		}
	}
	return nil
}
