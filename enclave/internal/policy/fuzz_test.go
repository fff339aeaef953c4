package policy_test

import (
	"fmt"
	"testing"

	"cloister/enclave/internal/policy"
)

var seeds = []string{
	"true", "!true || false && 1 < 2", "activity.kind == 'SIGN_TRANSACTION' && eth.tx.to in ['0xaa', '0xBB']", "eth.tx.data[0..10] == '0xa9059cbb'",
	"eth.tx.contract_call_args['value'] <= 125000000", "[[1, 2], [-3]].filter(l, l.contains(-3)).count == 1", "solana.tx.transfers.all(t, t.to == 'x' && t.amount < 5)",
	"approvers.filter(u, u.tags.contains('1')).count() >= 2 && credentials.any(c, c.type == 'x')", "approvers[0].id != approvers[1].alias[0..1]",
	"CronSpan('0 9 * * 1-5', '8h', 'America/New_York') || time.now >= Timestamp('2026-01-01T00:00:00Z')", "eth.eip_712.message['a'][0]['b'] == '7'",
	"(((true)))", "((true", "'a\nb' == ''", "115792089237316195423570985008687907853269984665640564039457584007913129639935 > -1", "\"", "[,]", "a.b.c(d, e)", "x..y", "!",
}

// FuzzCompile: whatever compiles prints as what compiles to the same, and
// evaluates on any request without a panic and within its steps.
func FuzzCompile(f *testing.F) {
	for _, s := range seeds {
		for c := range 4 {
			f.Add(s, uint8(c))
		}
	}
	r := sample()
	r.Approvals = []policy.Approval{{User: ids("a")[0]}}
	users := staff("a1 b12 c2 d")
	f.Fuzz(func(t *testing.T, source string, which uint8) {
		clause := []policy.Clause{consensus, condition, timeOf}[which%3]
		p, err := policy.Compile(clause, source)
		if err != nil || p == nil {
			if (p != nil) || (err == nil) != (source == "") {
				t.Fatal(p, err)
			}
			return
		}
		printed := p.String()
		again, err := policy.Compile(clause, printed)
		if err != nil {
			if len(printed) > 16<<10 { // spacing made it too long
				return
			}
			t.Fatalf("%q prints as %q: %v", source, printed, err)
		}
		if !p.Same(again) || again.String() != printed {
			t.Fatalf("%q prints as %q and then as %q", source, printed, again)
		}
		yes, err := p.Holds(r)
		if same, errAgain := again.Holds(r); same != yes || (err == nil) != (errAgain == nil) || yes && err != nil {
			t.Fatalf("%q: %v, %v and %v, %v", source, yes, err, same, errAgain)
		}
		one := &policy.Policy{Effect: policy.EffectAllow}
		switch clause {
		case consensus:
			one.Consensus = p
		case condition:
			one.Condition = p
		default:
			one.Time = p
		}
		for _, effect := range []policy.Effect{policy.EffectAllow, policy.EffectDeny} {
			one.Effect = effect
			for _, w := range policy.Lint(one, policy.Surroundings{Users: users, RootUsers: ids("d"), Threshold: 1}) {
				if w.Position < 0 || w.Position > len(source) || w.Code == "" || w.Message == "" {
					t.Fatalf("%+v", w)
				}
			}
			d, err := policy.Decide(policy.State{RootUsers: ids("ad"), Threshold: 2, Users: func() ([]policy.User, error) { return users, nil },
				Policies: func() (*policy.Set, error) { return policy.NewSet([]*policy.Policy{one}), nil }}, *r)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range d.Evaluations.Each() {
				if e.Position >= len(source) || len(e.Values) > 8 {
					t.Fatalf("%+v", e)
				}
			}
		}
	})
}

// FuzzDecide: a DENY policy more never allows, and the order of policies does not
// matter. Every byte pair is a policy.
func FuzzDecide(f *testing.F) {
	parts := []string{"", "$a", "$b && $a", "#1 >= 2", "approvers.count() >= 3", "approvers[1].id == 'x'", "!$c", "credentials.count() == 2"}
	conditions := []string{"", "false", "activity.kind == 'CREATE_WALLET'", "wallet.id == 'v'", "eth.tx.value > 0 || true", "wallet.id[0] == 'w'"}
	f.Add([]byte{1, 2, 3}, []byte("ab"), byte(0))
	f.Add([]byte{0x81, 7, 0x30, 0}, []byte("qa"), byte(3))
	f.Fuzz(func(t *testing.T, rules, voters []byte, bits byte) {
		c := scene{users: "a1 b1 c q r", root: "qr", threshold: 2}
		for _, v := range voters[:min(len(voters), 6)] {
			c.approve += string("abcqrx"[v%6])
		}
		c.reject = []string{"", "r", "b", "c"}[bits%4]
		c.change = func(r *policy.Request) { r.SelfService, r.RootQuorum = bits&4 != 0, bits&24 == 24 }
		text := func(b byte, effect string) string {
			return fmt.Sprintf("%s %s;%s", effect, parts[b%8], conditions[b/8%16%6])
		}
		for _, b := range rules[:min(len(rules), 6)] {
			c.policies = append(c.policies, text(b, []string{"ALLOW", "DENY"}[b>>7]))
		}
		before := outcome(t, c)
		turned := c
		turned.policies = nil
		for i := len(c.policies) - 1; i >= 0; i-- {
			turned.policies = append(turned.policies, c.policies[i])
		}
		if got := outcome(t, turned); got != before {
			t.Fatalf("%s, turned around %s", before, got)
		}
		c.policies = append(c.policies, text(bits, "DENY"))
		if after := outcome(t, c); after == policy.Allow && before != policy.Allow {
			t.Fatalf("%s, with a DENY more %s: %q", before, after, c.policies)
		}
	})
}

// FuzzSelectors: what selectors become compiles.
func FuzzSelectors(f *testing.F) {
	f.Add("user.id", "OPERATOR_EQUAL", "x")
	f.Add("activity.kind", "OPERATOR_NOT_IN", "A")
	f.Add("eth.tx.value", "OPERATOR_MORE_THAN", "5")
	f.Fuzz(func(t *testing.T, subject, operator, target string) {
		s := []policy.Selector{{Subject: subject, Operator: operator, Targets: []string{target}}, {Subject: "activity.action", Operator: "OPERATOR_EQUAL", Targets: []string{"SIGN"}}}
		by, about, err := policy.FromSelectors(s)
		if err != nil {
			return
		}
		compile(t, consensus, by)
		compile(t, condition, about)
	})
}
