package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

// A pauser counts pauses.
type pauser struct{ pauses int }

func (p *pauser) Pause() { p.pauses++ }

// quoted is a list of n texts, which begin alike.
func quoted(begin string, n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("'%s%04d'", begin, i)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// solana is a transaction of n instructions.
func solana(n int) policy.Facts {
	is := make([]policy.Value, n)
	for i := range is {
		is[i] = policy.Struct(policy.Member{Name: "program_key", Value: policy.String("key0001")}, policy.Member{Name: "instruction_data_hex", Value: policy.Hex("00")},
			policy.Member{Name: "accounts", Value: policy.List()})
	}
	return policy.Facts{"solana.tx": policy.Struct(policy.Member{Name: "instructions", Value: policy.List(is...)})}
}

// The dearest policies that honest organizations were found to have are decided within the
// budget, and as they are without one.
func TestHonestPoliciesFit(t *testing.T) {
	const kind, one = "activity.kind == 'SIGN_TRANSACTION'", "approvers.any(user, user.id == '01000000-0000-0000-0000-000000000000')"
	eth := func(to string) policy.Facts {
		return policy.Facts{"eth.tx": policy.Struct(policy.Member{Name: "to", Value: policy.Hex(to)}, policy.Member{Name: "value", Value: policy.Int(5)})}
	}
	const instructions = kind + " && activity.resource == 'PRIVATE_KEY' && solana.tx.instructions.all(i, i.program_key in %s && i.instruction_data_hex != 'ff' && i.program_key != '%d')"
	for _, c := range []struct {
		name                 string
		facts                policy.Facts
		condition, consensus func(i int) string
		outcome              policy.Outcome
		each                 int // steps of a policy, without explanation
	}{
		{"a destination and a limit", eth("0x1"), func(i int) string { return fmt.Sprintf(kind+" && eth.tx.to == '0x%040d' && eth.tx.value < 1000", i) }, nil, policy.DenyImplicit, 12},
		{"100 destinations", eth("0x1"), func(i int) string { return kind + " && eth.tx.to in " + quoted(fmt.Sprint(i), 100) }, nil, policy.DenyImplicit, 108},
		{"two of a tag", eth("0x1"), func(i int) string { return kind + fmt.Sprintf(" && eth.tx.value != -%d", i+1) },
			func(int) string {
				return "approvers.filter(user, user.tags.contains('02000000-0000-0000-0000-000000000000')).count() >= 2"
			}, policy.RequiresConsensus, 0},
		{"Solana, 6 instructions", solana(6), func(i int) string { return fmt.Sprintf(instructions, quoted("key", 30), i) }, nil, policy.Allow, 0},
		{"Solana, 64 instructions", solana(64), func(i int) string { return fmt.Sprintf(instructions, quoted("key", 30), i) }, nil, policy.Allow, 0},
	} {
		for _, n := range []int{100, 1000} {
			t.Run(fmt.Sprintf("%s, %d policies", c.name, n), func(t *testing.T) {
				s, r := crowd(t, 100, 0, "")
				r.Facts = c.facts
				rules := make([]*policy.Policy, n)
				for i := range rules {
					rules[i] = &policy.Policy{ID: [16]byte{byte(i >> 8), byte(i)}, Effect: policy.EffectAllow, Condition: compile(t, policy.ClauseCondition, c.condition(i)),
						Consensus: compile(t, policy.ClauseConsensus, one)}
					if c.consensus != nil {
						rules[i].Consensus = compile(t, policy.ClauseConsensus, c.consensus(i))
					}
				}
				set := policy.NewSet(rules)
				s.Policies = func() (*policy.Set, error) { return set, nil }
				budget := n * policy.StepsPerPolicy
				ask := func(budget, left int) (d policy.Decision, took int) {
					before := left
					s.Budget, s.Steps = budget, &left
					d, err := policy.Decide(s, r)
					if err != nil {
						t.Fatal(err)
					}
					return d, before - left
				}
				d, took := ask(budget, budget)
				free, _ := ask(1<<40, 1<<40)
				_, bare := ask(1, budget) // without explanations
				if d.Outcome != c.outcome || free.Outcome != c.outcome || d.Basis != free.Basis || !slices.Equal(d.Evaluations.Verdicts, free.Evaluations.Verdicts) {
					t.Errorf("%v by %d, want %v; without a budget %v by %d", d.Outcome, d.Basis, c.outcome, free.Outcome, free.Basis)
				}
				left := budget
				s.Budget, s.Steps = budget, &left
				if _, err := policy.MayVote(s, r, [16]byte{1, 99}); err != nil {
					t.Fatal(err)
				}
				t.Logf("%d steps of %d, and %d for %d explanations; to find who may vote %d", bare, budget, took-bare, len(d.Evaluations.Reasons), budget-left)
				if took > budget || c.each > 0 && bare != c.each*n {
					t.Errorf("%d steps of %d, without explanations %d, want %d", took, budget, bare, c.each*n)
				}
			})
		}
	}
}

// Policies that take all steps leave an eighth of the budget to explain them, all payloads
// together.
func TestExplanationsTakeAnEighth(t *testing.T) {
	list := quoted("", 50)
	dear := fmt.Sprintf("DENY ; %s.any(a, %[1]s.any(b, a == b && a == 'x'))", list) // about 18,000 steps
	for _, n := range []int{0, 1, 5, 100} {
		var change func(*policy.Request)
		if n > 0 {
			change = payloads(slices.Repeat([]string{"A"}, n)...)
		}
		for _, budget := range []int{100, 20_000, 200_000} {
			for _, left := range []int{0, 1, budget / 2, budget} {
				s, r := scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW ; activity.kind == 'X'", dear, dear, dear, "ALLOW"}, change: change}.question(t)
				steps := left
				s.Budget, s.Steps = budget, &steps
				d, err := policy.Decide(s, r)
				if err != nil {
					t.Fatal(err)
				}
				if steps < -budget/8 || steps > left {
					t.Errorf("%d payloads, %d steps of %d: %d are left", n, left, budget, steps)
				}
				if d.Basis != policy.BasisSteps && left < 50_000 {
					t.Errorf("%d payloads, %d steps of %d: basis %d", n, left, budget, d.Basis)
				}
				if n <= 1 && left > 1 && len(d.Evaluations.Reasons) == 0 && d.Outcome != policy.Allow {
					t.Errorf("%d payloads, %d steps of %d: nothing is explained", n, left, budget)
				}
				for _, e := range d.Evaluations.Each() {
					if e.Outcome == policy.Error && len(e.Values) > 0 && e.Values[0].Value != "takes too many steps" {
						t.Errorf("the policy that took too many steps is explained by %v", e.Values)
					}
				}
			}
		}
	}
}

// What an explanation cannot find out within its steps is left out, not told wrongly.
func TestExplanationsThatEnd(t *testing.T) {
	list := quoted("", 50)
	lacks := fmt.Sprintf("ALLOW ; %s.any(a, %[1]s.any(b, a == b && a == 'x')) || eth.tx.value == 1", list)
	s, r := scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{lacks, "ALLOW ; activity.kind == 'X'"}}.question(t)
	for budget, want := range map[int]int{1_000_000: 2, 100_000: 0} {
		s.Budget = budget
		d, err := policy.Decide(s, r)
		if err != nil || d.Basis != policy.BasisNoPolicy || len(d.Evaluations.Reasons) != want {
			t.Errorf("budget %d: basis %d, %+v, %v", budget, d.Basis, d.Evaluations.Reasons, err)
		}
	}
}

// steps are what a condition takes.
func steps(t *testing.T, source string, r *policy.Request) int {
	left := policy.MaxDecisionSteps
	if _, err := compile(t, condition, source).HoldsWithin(r, &left); err != nil {
		t.Fatal(source, err)
	}
	return policy.MaxDecisionSteps - left
}

// Lists that are made cost more than lists that are there.
func TestMadeLists(t *testing.T) {
	r := new(policy.Request)
	for source, want := range map[string]int{
		"['a', 'b', 'c'].count() == 3":                     4,
		"['a', 'b', activity.kind].count() == 3":           4 + 3 + 3*4,
		"['a', 'b', 'c'].filter(x, true).count() == 3":     5 + 3 + 3*4,
		"['a', 'b', 'c'].filter(x, x == 'a').count() == 1": 5 + 3*3 + 3*4,
		"[].filter(x, true).count() == 0":                  5,
	} {
		if got := steps(t, source, r); got != want {
			t.Errorf("%s takes %d steps, want %d", source, got, want)
		}
	}
}

// An evaluation never takes more than is left, wherever that ends.
func TestNothingOvershoots(t *testing.T) {
	r := sample()
	for _, source := range []string{
		"['a', 'b', activity.kind].filter(x, x == 'a').all(y, ['c', y].contains(y))",
		"[1, 2, 3].any(a, [1, 2, 3].all(b, a == b)) || eth.tx.data == eth.tx.data",
	} {
		p, most := compile(t, condition, source), steps(t, source, r)
		for limit := -2; limit < most+2; limit++ {
			left := limit
			_, err := p.HoldsWithin(r, &left)
			if (err == nil) != (limit >= most) || left != limit && left < 0 || err != nil && left > 0 {
				t.Errorf("%s with %d of %d steps: %d are left, %v", source, limit, most, left, err)
			}
		}
	}
}

// A request pauses every 2,048 steps, whatever evaluates them.
func TestPause(t *testing.T) {
	const every = 2_048
	hold := func(what string, p *pauser, steps int) {
		t.Helper()
		if got, want := p.pauses, steps/every; got < want-1 || got > want+1 {
			t.Errorf("%s: %d pauses in %d steps", what, got, steps)
		}
		if p.pauses == 0 {
			t.Errorf("%s: no pause in %d steps", what, steps)
		}
	}
	p := new(pauser)
	r := &policy.Request{Pause: p}
	left := policy.MaxDecisionSteps
	small := compile(t, condition, "[1, 2, 3, 4, 5, 6, 7, 8].all(a, [1, 2, 3].all(b, a < 9))")
	for range 500 {
		if yes, err := small.HoldsWithin(r, &left); !yes || err != nil {
			t.Fatal(yes, err)
		}
	}
	hold("many small conditions", p, policy.MaxDecisionSteps-left)

	list := quoted("", 40)
	for name, c := range map[string]struct {
		policy string
		n      int
	}{
		"one that is walked":                     {fmt.Sprintf("ALLOW ; %s.all(a, %[1]s.all(b, a != 'x'))", list), 1},
		"many that are not walked":               {"ALLOW ; activity.kind in " + list, 100},
		"the search for who could fulfil one":    {"ALLOW approvers.count() == 30 && approvers[0].id != 'x' ; activity.kind == 'CREATE_WALLET'", 5},
		"what is said of those that do not hold": {fmt.Sprintf("ALLOW ; %s.any(a, %[1]s.any(b, a == 'x'))", list), 1},
	} {
		s, r := scene{users: "a b c d e f g h i j k l m n o p q r", root: "r", threshold: 1, approve: "a", policies: slices.Repeat([]string{c.policy}, c.n)}.question(t)
		p, steps := new(pauser), policy.MaxDecisionSteps
		r.Pause, s.Steps = p, &steps
		if _, err := policy.Decide(s, r); err != nil {
			t.Fatal(err)
		}
		hold(name, p, policy.MaxDecisionSteps-steps)
	}

	s, asked := scene{users: "a b r", root: "r", threshold: 1, approve: "a", policies: slices.Repeat([]string{"ALLOW $a ; activity.kind in " + list}, 100)}.question(t)
	p, left = new(pauser), policy.MaxDecisionSteps
	asked.Pause, s.Steps = p, &left
	if _, err := policy.MayVote(s, asked, ids("b")[0]); err != nil {
		t.Fatal(err)
	}
	hold("who may vote", p, policy.MaxDecisionSteps-left)
}

// Payloads behind the one that took the last step are not looked at.
func TestPayloadsEndWithSteps(t *testing.T) {
	calls := 0
	for _, left := range []int{0, 100} {
		s, r := scene{users: "a r", root: "r", threshold: 1, approve: "a", policies: []string{"ALLOW ; " + quoted("", 200) + ".all(a, a != 'x')"}, change: payloads(slices.Repeat([]string{"A"}, 50)...)}.question(t)
		set := s.Policies
		s.Policies = func() (*policy.Set, error) { calls++; return set() }
		s.Steps = &left
		d, err := policy.Decide(s, r)
		if err != nil || d.Outcome != policy.DenyImplicit || d.Basis != policy.BasisSteps {
			t.Errorf("%v by %d, %v", d.Outcome, d.Basis, err)
		}
	}
	if calls != 2 {
		t.Errorf("%d payloads were decided about, want 2", calls)
	}
}
