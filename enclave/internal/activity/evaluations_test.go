package activity_test

import (
	"fmt"
	"reflect"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// decided is what policies with these conditions make of a request to create a
// wallet.
func decided(t *testing.T, conditions ...string) *policy.Decision {
	t.Helper()
	var ps []*policy.Policy
	for i, source := range conditions {
		c, err := policy.Compile(policy.ClauseCondition, source)
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, &policy.Policy{ID: [16]byte{byte(i >> 8), byte(i)}, Effect: policy.EffectAllow, Condition: c})
	}
	user := policy.User{ID: [16]byte{1}}
	d, err := policy.Decide(policy.State{
		Users:    func() ([]policy.User, error) { return []policy.User{user}, nil },
		Policies: func() (*policy.Set, error) { return policy.NewSet(ps), nil },
	}, policy.Request{Kind: "CREATE_WALLET", Resource: "WALLET", Action: "CREATE", Approvals: []policy.Approval{{User: user.ID}}})
	if err != nil {
		t.Fatal(err)
	}
	return &d
}

func TestOutcomes(t *testing.T) {
	kept := func(d *policy.Decision) []org.PolicyOutcome {
		e := activity.EvaluationOf(org.ID{1}, org.ID{2}, 3, d)
		b, _, err := (&org.Entry{Evaluations: []org.Evaluation{e}}).Encode(nil, [16]byte{}, org.Place{})
		if err != nil {
			t.Fatal(err)
		}
		parts, err := org.SplitParts(b)
		if err != nil {
			t.Fatal(err)
		}
		entry, _, err := parts.Decode()
		if err != nil {
			t.Fatal(err)
		}
		return activity.Outcomes(&entry.Evaluations[0])
	}
	const kind, wallet = "activity.kind == 'SIGN_TRANSACTION'", "wallet.id == 'w'"
	missing := []string{"wallet", "MissingField: the request has no wallet"}
	for name, c := range map[string]struct {
		conditions []string
		want       []org.PolicyOutcome
	}{
		"none": {nil, nil},
		"allowed: no explanations": {[]string{kind, "true", wallet}, []org.PolicyOutcome{
			{Outcome: "OUTCOME_DENY_IMPLICIT", Clause: "condition", Position: -1}, {Outcome: "OUTCOME_ALLOW"}, {Outcome: "OUTCOME_ERROR", Clause: "condition", Position: -1}}},
		"denied": {[]string{kind, wallet, "true && " + kind}, []org.PolicyOutcome{
			{Outcome: "OUTCOME_DENY_IMPLICIT", Clause: "condition", Values: []string{"activity.kind", "'CREATE_WALLET'"}},
			{Outcome: "OUTCOME_ERROR", Clause: "condition", Values: missing},
			{Outcome: "OUTCOME_DENY_IMPLICIT", Clause: "condition", Position: 8, Values: []string{"activity.kind", "'CREATE_WALLET'"}}}},
	} {
		for i := range c.want {
			c.want[i].Policy = org.ID{0, byte(i)}
		}
		if got := kept(decided(t, c.conditions...)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v\nwant %+v", name, got, c.want)
		}
	}

	// Outcomes are told of all, explanations as far as there is room.
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("activity.kind == 'SIGN_TRANSACTION' && activity.kind != '%060d'", i))
	}
	explained, full := 0, 0
	for i, o := range kept(decided(t, many...)) {
		if o.Outcome != "OUTCOME_DENY_IMPLICIT" || o.Policy != (org.ID{byte(i >> 8), byte(i)}) {
			t.Fatalf("policy %d: %+v", i, o)
		}
		if o.Clause == "" {
			full++
		} else if explained++; full > 0 || len(o.Values) != 2 {
			t.Fatalf("policy %d: %+v", i, o)
		}
	}
	if size := len("condition") + 16 + len("activity.kind") + len("'CREATE_WALLET'") + 8; explained != 16<<10/size {
		t.Errorf("%d explained, %d not", explained, full)
	}
}

// Entries of before tell theirs; one whose parts do not fit each other tells nothing.
func TestOutcomesOfOld(t *testing.T) {
	old := []org.PolicyOutcome{{Policy: org.ID{1}, Outcome: "OUTCOME_ALLOW"}}
	for _, c := range []struct {
		e    org.Evaluation
		want []org.PolicyOutcome
	}{
		{org.Evaluation{Policies: old}, old},
		{org.Evaluation{}, nil},
		{org.Evaluation{Asked: make([]byte, 16)}, nil},
		{org.Evaluation{Verdicts: []byte{2}}, nil},
		{org.Evaluation{Asked: make([]byte, 31), Verdicts: []byte{2, 2}}, nil},
		{org.Evaluation{Asked: make([]byte, 16), Verdicts: []byte{2}, Reasons: []org.Reason{{At: 1}}}, []org.PolicyOutcome{{Outcome: "OUTCOME_ALLOW"}}},
	} {
		if got := activity.Outcomes(&c.e); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v tells %+v", c.e, got)
		}
	}
}

// The bytes of verdicts are in every ledger.
func TestVerdictsAreFixed(t *testing.T) {
	for i, outcome := range []string{"OUTCOME_DENY_IMPLICIT", "OUTCOME_DENY_EXPLICIT", "OUTCOME_ALLOW", "OUTCOME_REQUIRES_CONSENSUS", "OUTCOME_REJECTED", "OUTCOME_ERROR",
		"OUTCOME_REQUIRES_AUTHENTICATORS", "OUTCOME_TIME_INACTIVE"} {
		for j, clause := range []string{"", "consensus", "condition", "time"} {
			got := activity.Outcomes(&org.Evaluation{Asked: make([]byte, 16), Verdicts: []byte{byte(i | j<<4)}})
			if got[0].Outcome != outcome || got[0].Clause != clause {
				t.Errorf("%d, %d: %+v", i, j, got[0])
			}
		}
	}
}

// The newest evaluation stays whole; those before go when there is no room.
func TestAddEvaluation(t *testing.T) {
	var es []org.Evaluation
	for i := range 20 {
		es = activity.AddEvaluation(es, org.Evaluation{ID: org.ID{byte(i)}, Outcome: "OUTCOME_ALLOW", Asked: make([]byte, 16_000), Verdicts: make([]byte, 1_000)})
	}
	for i, e := range es {
		if whole := i >= 5; (len(e.Asked) > 0) != whole || (len(e.Verdicts) > 0) != whole || e.Outcome == "" {
			t.Errorf("evaluation %d has %d bytes", i, len(e.Asked))
		}
	}
	big := org.Evaluation{Asked: make([]byte, 300_000), Verdicts: make([]byte, 1)}
	if es = activity.AddEvaluation(es, big); len(es[20].Asked) == 0 || len(es[19].Asked) > 0 {
		t.Error("not the newest stays")
	}
}
