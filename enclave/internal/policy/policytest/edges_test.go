package policytest_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/policy/policytest"
)

// single is a world in which one policy without votes of weight meets r.
func single(t *testing.T, s source, r policytest.Request) world {
	t.Helper()
	r1, mine, theirs := compile(s)
	if mine != nil || theirs != nil {
		t.Fatalf("%s: second opinion %v, engine %v", s, mine, theirs)
	}
	id := "d818181d-5861-53ff-afd0-3d581ba41547"
	r.Votes = []policytest.Vote{{User: id}}
	if r.Now.IsZero() {
		r.Now = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	}
	return world{org: policytest.Organization{Users: []policytest.User{{ID: id}}, Root: []string{id}, Threshold: 2}, rules: []rule{r1}, request: r}
}

// TestBudget evaluates what takes long: the budget ends it, in both.
func TestBudget(t *testing.T) {
	items := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }
	for _, c := range []struct {
		condition string
		want      string
	}{
		{items(100) + ".all(a, " + items(100) + ".all(b, " + items(100) + ".all(c, c == 1)))", policytest.Error},
		{items(1000) + ".any(a, " + items(1000) + ".any(b, true))", policytest.Error},
		{"!(" + items(60) + ".all(a, " + items(60) + ".all(b, " + items(60) + ".all(c, " + items(60) + ".all(d, d == 2)))))", policytest.Error},
		{items(40) + ".all(a, " + items(40) + ".all(b, b == 1))", policytest.Allow},
		{items(1000) + ".all(a, a == 1)", policytest.Allow},
	} {
		w := single(t, source{Condition: c.condition}, policytest.Request{Kind: "CREATE_WALLET"})
		mine, difference := w.ask()
		if difference != "" || mine.outcomes[0] != c.want {
			t.Errorf("%s...: %v, want %s; %s", c.condition[:60], mine.outcomes, c.want, difference)
		}
	}
}

// TestEveryMinuteAroundChanges steps through the days around every change of the
// clocks in two years, in every zone, and asks both for a CronSpan.
func TestEveryMinuteAroundChanges(t *testing.T) {
	g := newGenerator(*seed + 2)
	asked, open := 0, 0
	for _, zone := range g.zones {
		at := time.Date(2009, 12, 1, 0, 0, 0, 0, time.UTC)
		if zone.String() == "Pacific/Apia" {
			at = time.Date(2011, 11, 1, 0, 0, 0, 0, time.UTC) // it skipped a day
		}
		for range 4 {
			_, end := at.In(zone).ZoneBounds()
			if end.IsZero() || end.Year() > 2030 {
				break
			}
			for range 6 {
				c := g.cron(end.Add(time.Duration(g.IntN(300)-150) * time.Minute))
				c = c[:strings.LastIndex(c, "'")]
				c = c[:strings.LastIndex(c, "'")+1] + zone.String() + "')"
				w := single(t, source{Time: c}, policytest.Request{Kind: "CREATE_WALLET"})
				for minute := -200; minute < 400; minute += 1 + g.IntN(20) {
					w.request.Now = end.UTC().Add(time.Duration(minute) * time.Minute)
					mine, difference := w.ask()
					if difference != "" {
						t.Fatalf("%s at %s: %s", c, w.request.Now, difference)
					}
					if asked++; mine.outcomes[0] == policytest.Allow {
						open++
					}
				}
			}
			at = end.Add(time.Hour)
		}
	}
	t.Logf("asked %d times, open %d times", asked, open)
	if open*10 < asked || open*10 > 9*asked {
		t.Error("nearly always one answer")
	}
}

// TestBounds holds both against the bounds of numbers: what an int field cannot
// hold is an error, and a number stands for its text only where it is dynamic.
func TestBounds(t *testing.T) {
	i128 := new(big.Int).Lsh(big.NewInt(1), 127)
	for _, c := range []struct {
		value     *big.Int
		condition string
		want      string
	}{
		{plus(i128, -1), "eth.tx.value == 170141183460469231731687303715884105727", policytest.Allow},
		{plus(i128, -1), "eth.tx.value < 170141183460469231731687303715884105728", policytest.Allow},
		{i128, "eth.tx.value == 170141183460469231731687303715884105728", policytest.Error},
		{i128, "eth.tx.value != 1 || true", policytest.Error},
		{i128, "eth.tx.value in []", policytest.Error},
		{i128, "eth.eip_712.domain.chain_id == 170141183460469231731687303715884105728", policytest.Allow},
		{i128, "eth.tx.contract_call_args['n'] == 170141183460469231731687303715884105728", policytest.Allow},
		{i128, "eth.tx.contract_call_args['n'] == '170141183460469231731687303715884105728'", policytest.Allow},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] == '7'", policytest.Allow},
		{big.NewInt(-7), "eth.tx.contract_call_args['n'] == '-7'", policytest.Allow},
		{big.NewInt(0), "eth.tx.contract_call_args['n'] == '0'", policytest.Allow},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] == '8'", policytest.DenyImplicit},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] != '8'", policytest.Allow},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] in ['8', '7']", policytest.Allow},
		{big.NewInt(7), "['8', '7'].any(x, x == eth.tx.contract_call_args['n'])", policytest.Allow},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] == '07'", policytest.Error},
		{big.NewInt(0), "eth.tx.contract_call_args['n'] == '-0'", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] == '+7'", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] == ' 7'", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] == ''", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] in ['a', '7']", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] == true", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] == activity.kind", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n'] == eth.tx.contract_call_args['text']", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n'][0] == 7", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n'].count() == 1", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n'].all(x, true)", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['n']", policytest.Error},
		{big.NewInt(7), "'a'[eth.tx.contract_call_args['n']] == 'a' || true", policytest.Error},
		{big.NewInt(0), "'a'[eth.tx.contract_call_args['n']] == 'a'", policytest.Allow},
		{big.NewInt(7), "eth.tx.contract_call_args['null'] == ''", policytest.Error},
		{big.NewInt(7), "eth.tx.contract_call_args['missing'] == ''", policytest.Error},
		{big.NewInt(7), "[1, 2][2] == 2 || true", policytest.Error},
		{big.NewInt(7), "[1, 2][0..3].count() == 2 || true", policytest.Error},
		{big.NewInt(7), "[1, 2][2..1].count() == 2 || true", policytest.Error},
		{big.NewInt(7), "[1, 2][2..2].count() == 0", policytest.Allow},
		{big.NewInt(7), "[1, 2][-1] == 2 || true", policytest.Error},
		{big.NewInt(7), "[1, 2][115792089237316195423570985008687907853269984665640564039457584007913129639935] == 2 || true", policytest.Error},
		{big.NewInt(7), "'日本'[1] == '本' && '日本'[0..1] == '日'", policytest.Allow},
		{big.NewInt(7), "'日本'[2] == '' || true", policytest.Error},
		{big.NewInt(7), "eth.tx.to[2..4] == 'Ab' && eth.tx.to[2] == 'A'", policytest.Allow},
		{big.NewInt(7), "'0xAB' in [eth.tx.to] && [eth.tx.to].contains('0XaB')", policytest.Allow},
		{big.NewInt(7), "eth.tx.type == 'legacy'", policytest.DenyImplicit},
		{big.NewInt(7), "[].all(x, false) && !(1 in []) && ![].any(x, true)", policytest.Allow},
		{big.NewInt(7), "false && wallet.exported", policytest.Error},
		{big.NewInt(7), "true || wallet.exported", policytest.Error},
		{big.NewInt(7), "[1, 2].any(x, x == 1 || [1][x] == 1)", policytest.Error},
		{big.NewInt(7), "true || false && false", policytest.Allow},
		{big.NewInt(7), "!false == true", policytest.Allow},
	} {
		r := policytest.Request{Kind: "SIGN_TRANSACTION", Facts: map[string]any{
			"eth.tx":      object{"value": c.value, "to": hexed("0xab"), "type": text("LEGACY"), "function_name": text("7"), "contract_call_args": table{"n": c.value, "null": nil, "text": text("7")}},
			"eth.eip_712": object{"domain": object{"chain_id": c.value}},
		}}
		w := single(t, source{Condition: c.condition}, r)
		mine, difference := w.ask()
		if difference != "" || fmt.Sprint(mine.outcomes) != "["+c.want+"]" {
			t.Errorf("%s with %s: %v, want %s; %s", c.condition, c.value, mine.outcomes, c.want, difference)
		}
	}
}
