package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

// payloads makes a request about several typed payloads of these primary types.
func payloads(types ...string) func(*policy.Request) {
	return func(r *policy.Request) {
		for _, name := range types {
			r.Payloads = append(r.Payloads, policy.Facts{"eth.eip_712": policy.Struct(policy.Member{Name: "primary_type", Value: policy.String(name)})})
		}
	}
}

// A request about several payloads is decided as each of them would be alone: one
// that is denied denies all, one that waits makes all wait.
func TestPayloads(t *testing.T) {
	is := func(name string) string { return "ALLOW ; eth.eip_712.primary_type == '" + name + "'" }
	wait := "ALLOW $a && $b ; eth.eip_712.primary_type == 'Wait'"
	deny := "DENY ; eth.eip_712.primary_type == 'Bad'"
	for _, c := range []struct {
		name     string
		policies []string
		types    string
		want     policy.Outcome
	}{
		{"one that is allowed", []string{is("A")}, "A", policy.Allow},
		{"two, of which the second is not allowed", []string{is("A")}, "A B", policy.DenyImplicit},
		{"two, of which the first is not allowed", []string{is("A")}, "B A", policy.DenyImplicit},
		{"two, by a policy each", []string{is("A"), is("B")}, "A B", policy.Allow},
		{"one denied among many", []string{"ALLOW", deny}, "A A Bad A", policy.DenyExplicit},
		{"one that waits", []string{is("A"), wait}, "A Wait A", policy.RequiresConsensus},
		{"one that waits and one that nothing allows", []string{is("A"), wait}, "Wait B", policy.DenyImplicit},
		{"one that waits and one that is denied", []string{is("A"), wait, deny}, "Wait Bad", policy.DenyExplicit},
		{"what all share is there for each", []string{"ALLOW ; wallet.id == 'w'"}, "A B", policy.Allow},
		{"what is about none of them", []string{"ALLOW ; eth.tx.value == 1"}, "A B", policy.DenyImplicit},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, r := scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: c.policies, change: payloads(strings.Fields(c.types)...)}.question(t)
			d, err := policy.Decide(s, r)
			if err != nil || d.Outcome != c.want {
				t.Fatalf("%s, %v, want %s", d.Outcome, err, c.want)
			}
			if (d.Grant != nil) != (c.want == policy.Allow) || len(d.Evaluations.Verdicts) != len(c.policies) {
				t.Errorf("grant %v, %d evaluations", d.Grant, len(d.Evaluations.Verdicts))
			}
			if c.want == policy.RequiresConsensus {
				if yes, err := policy.Counts(s, r, ids("b")[0]); err != nil || !yes {
					t.Errorf("whom the payload that waits counts does not count: %v", err)
				}
			}
		})
	}
}

// A scope holds only if it does for every payload.
func TestScopeOfPayloads(t *testing.T) {
	scope := compile(t, condition, "eth.eip_712.primary_type == 'A'")
	for types, want := range map[string]bool{"A": true, "A A": true, "A B": false, "B A": false} {
		var r policy.Request
		payloads(strings.Fields(types)...)(&r)
		if yes, err := scope.Holds(&r); err != nil || yes != want {
			t.Errorf("%s: %v, %v", types, yes, err)
		}
	}
	r := policy.Request{Payloads: []policy.Facts{{"eth.eip_712": policy.Struct(policy.Member{Name: "primary_type", Value: policy.String("A")})}, {}}}
	if yes, err := scope.Holds(&r); err == nil || yes {
		t.Errorf("a payload without what the scope reads: %v, %v", yes, err)
	}
}

// Payloads share the steps of one decision.
func TestPayloadsShareSteps(t *testing.T) {
	list := "[" + strings.TrimSuffix(strings.Repeat("'0',", 40), ",") + "]"
	slow := fmt.Sprintf("ALLOW ; %s.all(a, %[1]s.all(b, %[1]s.all(c, a != 'x')))", list)
	types := make([]string, 100)
	for i := range types {
		types[i] = "A"
	}
	for n, want := range map[int]policy.Outcome{1: policy.Allow, 100: policy.DenyImplicit} {
		s, r := scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{slow, slow}, change: payloads(types[:n]...)}.question(t)
		if d, err := policy.Decide(s, r); err != nil || d.Outcome != want {
			t.Errorf("%d payloads: %s, %v", n, d.Outcome, err)
		}
	}
}

// A policy that denies cannot be passed over by making it take too many steps:
// whoever wrote it meant such requests too. One that allows is an error by itself, if it
// does not take all steps of the request.
func TestDenyBeyondItsSteps(t *testing.T) {
	list := "[" + strings.TrimSuffix(strings.Repeat("'0',", 40), ",") + "]"
	slow := fmt.Sprintf("%s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, a != 'x'))))", list)
	for effect, want := range map[string]policy.Outcome{"DENY": policy.DenyImplicit, "ALLOW": policy.Allow} {
		s, r := scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW", effect + " ; " + slow}}.question(t)
		s.Budget = 1000 * policy.StepsPerPolicy
		d, err := policy.Decide(s, r)
		if err != nil || d.Outcome != want || d.Evaluations.Each()[1].Outcome != policy.Error {
			t.Errorf("%s: %s, %v", effect, d.Outcome, err)
		}
		if want != policy.Allow && d.Basis != policy.BasisSteps {
			t.Errorf("%s: basis %d", effect, d.Basis)
		}
	}
}
