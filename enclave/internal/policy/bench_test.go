package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

// crowd is an organization of n users, one root member that is not among those
// who ask, and policies that are about as long as people write them.
func crowd(b testing.TB, users, policies int, last string) (policy.State, policy.Request) {
	var all []policy.User
	for i := range users {
		id := [16]byte{1, byte(i)}
		all = append(all, policy.User{ID: id, Name: fmt.Sprint("user ", i), Tags: [][16]byte{{2, byte(i % 5)}},
			Credentials: []policy.Credential{{ID: [16]byte{3, byte(i)}, User: id, Type: "CREDENTIAL_TYPE_API_KEY_P256", PublicKey: "02aa"}}})
	}
	var rules []*policy.Policy
	for i := range policies {
		source := fmt.Sprintf("activity.kind == 'SIGN_TRANSACTION' && eth.tx.to == '0x%040d' && eth.tx.value < 1000000000000000000", i)
		if i == policies-1 && last != "" {
			source = last
		}
		rules = append(rules, &policy.Policy{ID: [16]byte{4, byte(i >> 8), byte(i)}, Effect: policy.EffectAllow, Condition: compile(b, policy.ClauseCondition, source),
			Consensus: compile(b, policy.ClauseConsensus, fmt.Sprintf("approvers.any(user, user.id == '%s')", "01000000-0000-0000-0000-000000000000"))})
	}
	set := policy.NewSet(rules)
	s := policy.State{RootUsers: [][16]byte{{9}}, Threshold: 1,
		Users:    func() ([]policy.User, error) { return all, nil },
		Policies: func() (*policy.Set, error) { return set, nil }}
	r := policy.Request{Type: "ACTIVITY_TYPE_SIGN_TRANSACTION_V2", Kind: "SIGN_TRANSACTION", Resource: "PRIVATE_KEY", Action: "SIGN", NowMs: 1773144000000,
		Approvals: []policy.Approval{{User: [16]byte{1, 0}, Credentials: all[0].Credentials}},
		Facts: policy.Facts{"eth.tx": policy.Struct(policy.Member{Name: "to", Value: policy.Hex(fmt.Sprintf("0x%040x", 1<<40))},
			policy.Member{Name: "value", Value: policy.Int(5)})}}
	return s, r
}

func benchmarkDecide(b *testing.B, s policy.State, r policy.Request, want policy.Outcome) {
	b.ReportAllocs()
	for b.Loop() {
		if d, err := policy.Decide(s, r); err != nil || d.Outcome != want {
			b.Fatal(d.Outcome, err)
		}
	}
}

func BenchmarkDecideAllowed(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, r := crowd(b, 100, n, "eth.tx.value == 5")
			benchmarkDecide(b, s, r, policy.Allow)
		})
	}
}

func BenchmarkDecideDenied(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, r := crowd(b, 100, n, "")
			benchmarkDecide(b, s, r, policy.DenyImplicit)
		})
	}
}

// What a policy costs that is about something else, by what tells so.
func BenchmarkDecidePast(b *testing.B) {
	const kind, user = "activity.kind == 'SIGN_TRANSACTION'", "approvers.any(user, user.id == '01000000-0000-0000-0000-000000000000')"
	for _, past := range []struct{ what, condition, consensus string }{
		{"destination", kind + " && eth.tx.to == '#'", user},
		{"wallet", "wallet.id == '#'", user},
		{"missing", "secret.static_properties['#'] == ''", user},
		{"key's tag", "private_key.tags.contains('#')", user},
		{"approver", kind, "approvers.any(user, user.id == '#')"},
		{"approver's tag", kind, "approvers.any(user, user.tags.contains('#'))"},
		{"approvers' tag", kind, "approvers.filter(user, user.tags.contains('#')).count() >= 2"},
	} {
		b.Run(past.what, func(b *testing.B) {
			s, r := crowd(b, 100, 0, "")
			id := policy.Member{Name: "id", Value: policy.String("")}
			r.Facts["wallet"] = policy.Struct(id)
			r.Facts["private_key"] = policy.Struct(id, policy.Member{Name: "tags", Value: policy.Strings([]string{"a", "b"})})
			rules := make([]*policy.Policy, 1000)
			for i := range rules {
				n := fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
				rules[i] = &policy.Policy{ID: [16]byte{byte(i >> 8), byte(i)}, Effect: policy.EffectAllow,
					Condition: compile(b, policy.ClauseCondition, strings.ReplaceAll(past.condition, "#", n)),
					Consensus: compile(b, policy.ClauseConsensus, strings.ReplaceAll(past.consensus, "#", n))}
			}
			rules[0] = &policy.Policy{Effect: policy.EffectAllow} // so that nothing is explained
			set := policy.NewSet(rules)
			s.Policies = func() (*policy.Set, error) { return set, nil }
			benchmarkDecide(b, s, r, policy.Allow)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rules)), "ns/policy")
		})
	}
}

// Every policy matches and waits for users whom only pairs can bring.
func BenchmarkDecideReach(b *testing.B) {
	for _, consensus := range []string{
		"approvers.any(user, user.id == '01050000-0000-0000-0000-000000000000')",
		"approvers.filter(user, user.tags.contains('02000000-0000-0000-0000-000000000000')).count() >= 3",
		"approvers.filter(user, user.tags.contains('02000000-0000-0000-0000-000000000000')).count() >= 2 && approvers.any(user, user.id == '01330000-0000-0000-0000-000000000000')",
		"approvers[0].id == 'x' && approvers.count() == 3",
	} {
		b.Run(consensus[:20], func(b *testing.B) {
			s, r := crowd(b, 100, 0, "")
			rules := make([]*policy.Policy, 100)
			for i := range rules {
				rules[i] = &policy.Policy{ID: [16]byte{byte(i)}, Effect: policy.EffectAllow, Consensus: compile(b, policy.ClauseConsensus, consensus)}
			}
			set := policy.NewSet(rules)
			s.Policies = func() (*policy.Set, error) { return set, nil }
			b.ReportAllocs()
			for b.Loop() {
				if _, err := policy.Decide(s, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecideRootQuorum(b *testing.B) {
	s, r := crowd(b, 100, 1000, "")
	s.RootUsers = [][16]byte{{1, 0}}
	benchmarkDecide(b, s, r, policy.Allow)
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		compile(b, policy.ClauseCondition, "activity.kind == 'SIGN_TRANSACTION' && eth.tx.to in ['0xaa', '0xbb'] && eth.tx.data[0..10] == '0xa9059cbb'")
	}
}

func BenchmarkCronSpan(b *testing.B) {
	p := compile(b, policy.ClauseTime, "CronSpan('0 9 * * 1-5', '7d', 'America/New_York')")
	r := policy.Request{NowMs: 1773144000000}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Holds(&r); err != nil {
			b.Fatal(err)
		}
	}
}

// A draft that is tried is compiled together with all other policies.
func BenchmarkSetWith(b *testing.B) {
	s, _ := crowd(b, 1, 1000, "")
	set, err := s.Policies()
	if err != nil {
		b.Fatal(err)
	}
	draft := &policy.Policy{ID: [16]byte{5}, Effect: policy.EffectAllow}
	b.ReportAllocs()
	for b.Loop() {
		set.With(draft)
	}
}
