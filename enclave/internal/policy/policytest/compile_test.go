package policytest_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/policy/policytest"
)

// TestCompileAlike spoils expressions and holds what one accepts against what the
// other does.
func TestCompileAlike(t *testing.T) {
	g := newGenerator(*seed + 1)
	accepted, refused, disagreements := 0, 0, 0
	for accepted+refused < asked()/2 && disagreements < 5 {
		s := g.scenario()
		for range 20 {
			s.policies = append(s.policies, source{Condition: g.wildCondition(pick(g, s.requests...)), Consensus: g.wildConsensus(s.org)})
		}
		for _, p := range s.policies {
			for _, clause := range []*string{&p.Consensus, &p.Condition, &p.Time} {
				for range 4 {
					was := *clause
					if was == "" {
						continue
					}
					for range g.IntN(3) {
						if *clause != "" {
							*clause = g.spoil(*clause)
						}
					}
					_, mine := p.mine()
					_, theirs := p.theirs()
					switch {
					case (mine == nil) != (theirs == nil):
						disagreements++
						t.Errorf("%s", shrinkSource(p))
					case mine == nil:
						accepted++
					default:
						refused++
					}
					*clause = was
				}
			}
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if disagreements == 0 && (accepted*20 < refused || refused*20 < accepted) {
		t.Error("nearly all go one way")
	}
}

// TestCompileAtTheEdges holds both against what the page says about single
// expressions that nothing random finds.
func TestCompileAtTheEdges(t *testing.T) {
	const (
		con = policytest.Consensus
		cnd = policytest.Condition
		tim = policytest.Time
	)
	items := func(n int) string { return strings.TrimSuffix(strings.Repeat("1,", n), ",") }
	lambdas := func(n int) string {
		return strings.Repeat("[1].any(x, ", n) + "true" + strings.Repeat(")", n)
	}
	span := func(cron, duration, zone string) string {
		return "CronSpan('" + cron + "', '" + duration + "', '" + zone + "')"
	}
	for _, c := range []struct {
		clause policytest.Clause
		source string
		ok     bool
	}{
		{cnd, "", true},
		{cnd, "true", true},
		{cnd, "\r\n\t true \n", true},
		{cnd, "(((true)))", true},
		{cnd, "(eth).tx.value == 1", true},
		{cnd, "eth . tx . value == 1", true},
		{cnd, "1 in [1, 2, 3,]", true},
		{cnd, "'it is\nso' == activity.kind", true},
		{cnd, "-170141183460469231731687303715884105728 < 1", true},
		{cnd, "115792089237316195423570985008687907853269984665640564039457584007913129639935 > 1", true},
		{cnd, "1 in [" + items(1000) + "]", true},
		{cnd, lambdas(4), true},
		{cnd, strings.Repeat("(", 30) + "true" + strings.Repeat(")", 30), true},
		{cnd, strings.Repeat("true || ", 200) + "true", true},
		{cnd, strings.Repeat("true && ", 200) + "true", true},
		{cnd, "'" + strings.Repeat("x", 16384-len("'' == 'a'")) + "' == 'a'", true},
		{cnd, "wallets.filter(w, w.exported)[0].id == ''", true},
		{cnd, "wallets[0..1][0].label[0..1][0] == ''", true},
		{cnd, "eth.eip_712.message['a']", true},
		{cnd, "!eth.eip_712.message['a']", true},
		{cnd, "eth.eip_712.message[activity.kind] == 1", true},
		{cnd, "eth.eip_712.message['a'][eth.tx.nonce]['b'][0..1].count == 1", true},
		{cnd, "solana.tx.instructions.all(i, i.parsed_instruction_data.named_account['a'] == i.parsed_instruction_data.named_accounts['a'])", true},
		{cnd, "wallets.any(user, user.id == '')", true},
		{cnd, "wallets.any(w, wallets.all(w, w.exported) && w.exported)", true},
		{cnd, "[wallet, wallet].any(w, w.exported)", true},
		{cnd, "[[1], [2]].any(l, l.contains(1))", true},
		{tim, "time.now in [Timestamp('2026-01-01T00:00:00Z')]", true},
		{tim, "Timestamp('2024-02-29T23:59:59.123Z') == time.now", true},
		{tim, span("0 0 * * *", "7d", "Etc/UTC"), true},
		{tim, span("0 0 31 2 *", "168h", "Europe/Paris"), true},
		{tim, span("0,5,10-20,59 0-23 1-31 1-12 0-6", "10080m", "UTC"), true},
		{tim, span("0 0 * * *", "6d23h60m", "Etc/UTC"), true},
		{con, "approvers.all(a, credentials.any(c, c.user_id == a.id))", true},
		{con, "approvers[0].tags[0..0].count() == 0", true},

		{cnd, " ", false},
		{cnd, "()", false},
		{cnd, "true true", false},
		{cnd, "1", false},
		{cnd, "--1 < 2", false},
		{cnd, "-(1) < 2", false},
		{cnd, "- eth.tx.value < 2", false},
		{cnd, "1 < 2 < 3", false},
		{cnd, "1 == 1 == true", false},
		{cnd, "1 in [1] in [true]", false},
		{cnd, "[1,,2].count() == 1", false},
		{cnd, "[,].count() == 1", false},
		{cnd, "true & true", false},
		{cnd, "true | true", false},
		{cnd, "true and true", false},
		{cnd, "not true", false},
		{cnd, "TRUE", false},
		{cnd, "true // comment", false},
		{cnd, "true ? true : false", false},
		{cnd, "1.5 < 2", false},
		{cnd, "1e3 < 2", false},
		{cnd, "1_000 < 2", false},
		{cnd, "'a' + 'b' == 'ab'", false},
		{cnd, "'a\\'b' == 'a'", false},
		{cnd, "'a", false},
		{cnd, "{ id: 'a' } == { id: 'a' }", false},
		{cnd, "true;", false},
		{cnd, "true\x00", false},
		{cnd, "'\xff' == 'a'", false},
		{cnd, "tru\u0065\u0301", false},
		{cnd, "-170141183460469231731687303715884105729 < 1", false},
		{cnd, "115792089237316195423570985008687907853269984665640564039457584007913129639936 > 1", false},
		{cnd, strings.Repeat("9", 5000) + " > 1", false},
		{cnd, "1 in [" + items(1001) + "]", false},
		{cnd, lambdas(5), false},
		{cnd, strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), false},
		{cnd, strings.Repeat("!", 200) + "true", false},
		{cnd, strings.Repeat("[", 200) + strings.Repeat("]", 200) + ".count() == 1", false},
		{cnd, strings.Repeat("(", 8000) + "true", false},
		{cnd, "[" + strings.TrimSuffix(strings.Repeat("[1,2,3,4,5,6],", 900), ",") + "].count() == 1", false},
		{cnd, "'" + strings.Repeat("x", 16384) + "' == 'a'", false},
		{cnd, "true" + strings.Repeat(" ", 16384), false},
		{cnd, "eth == eth", false},
		{cnd, "eth.tx == eth.tx", false},
		{cnd, "wallets == wallets", false},
		{cnd, "wallets != []", false},
		{cnd, "wallet in wallets", false},
		{cnd, "eth.eip_712.message == eth.eip_712.message", false},
		{cnd, "eth.eip_712.message.a == 1", false},
		{cnd, "eth.eip_712.message[0] == 1", false},
		{cnd, "eth.eip_712.message.count() == 1", false},
		{cnd, "eth.eip_712.message.any(m, true)", false},
		{cnd, "eth.eip_712.message['a'].b == 1", false},
		{cnd, "wallets['a'].id == ''", false},
		{cnd, "wallets[true].id == ''", false},
		{cnd, "wallet['id'] == ''", false},
		{cnd, "wallets[0..1].id == ''", false},
		{cnd, "wallets[..1].count() == 1", false},
		{cnd, "wallets[0..].count() == 1", false},
		{cnd, "eth.tx.to[0].count() == 1", false},
		{cnd, "eth.tx.value[0] == 1", false},
		{cnd, "eth.tx.to.contains('a')", false},
		{cnd, "eth.tx.to.count() == 1", false},
		{cnd, "wallets.all", false},
		{cnd, "wallets.contains == true", false},
		{cnd, "wallets.all()", false},
		{cnd, "wallets.all(true)", false},
		{cnd, "wallets.all(w.id, true)", false},
		{cnd, "wallets.all(w, w.id)", false},
		{cnd, "wallets.all(w, true, true)", false},
		{cnd, "wallets.count(w, true) == 1", false},
		{cnd, "wallets.contains(w, true)", false},
		{cnd, "wallets.contains(wallet)", false},
		{cnd, "wallets.map(w, w.id).count() == 1", false},
		{cnd, "wallets.all(w, true) && w.id == ''", false},
		{cnd, "wallets.all(wallet, true)", false},
		{cnd, "wallets.all(true, true)", false},
		{cnd, "wallets.all(in, true)", false},
		{cnd, "wallets.all(Timestamp, true)", false},
		{cnd, "wallets.all(approvers, true)", false},
		{cnd, "wallets.all(time, true)", false},
		{cnd, "[1, true].count() == 2", false},
		{cnd, "[[1], 1].count() == 2", false},
		{cnd, "'a' in [1]", false},
		{cnd, "1 in eth.tx", false},
		{cnd, "true < false", false},
		{cnd, "'a' < 'b'", false},
		{cnd, "true == 'true'", false},
		{cnd, "true && 1", false},
		{cnd, "!1", false},
		{cnd, "activity.params == activity.params", false},
		{cnd, "activity.params.nothing == ''", false},
		{cnd, "activity.id == ''", false},
		{cnd, "wallet_account.path == ''", false},
		{cnd, "approvers.count() > 0", false},
		{cnd, "credentials.count() > 0", false},
		{cnd, "time.now == time.now", false},
		{cnd, "Timestamp('2026-01-01T00:00:00Z') == Timestamp('2026-01-01T00:00:00Z')", false},
		{cnd, span("0 0 * * *", "1h", "Etc/UTC"), false},
		{con, "wallet.id == ''", false},
		{con, "activity.kind == ''", false},
		{con, "approvers[0] == approvers[0]", false},
		{con, "approvers.any(u, u.name == '')", false},
		{con, "approvers.any(u, u.tags == [])", false},
		{con, "time.now == time.now", false},
		{con, "approvers", false},
		{tim, "activity.kind == ''", false},
		{tim, "approvers.count() > 0", false},
		{tim, "time == time", false},
		{tim, "time.now", false},
		{tim, "time.now == '2026-01-01T00:00:00Z'", false},
		{tim, "time.now > 0", false},
		{tim, "Timestamp('2026-01-01T00:00:00Z')", false},
		{tim, "Timestamp(activity.kind) == time.now", false},
		{tim, "Timestamp() == time.now", false},
		{tim, "Timestamp('2026-01-01T00:00:00Z', 'a') == time.now", false},
		{tim, "Timestamp('2026-01-01T00:00:00') == time.now", false},
		{tim, "Timestamp('2026-01-01T00:00:00+01:00') == time.now", false},
		{tim, "Timestamp('2026-01-01') == time.now", false},
		{tim, "Timestamp('2026-02-29T00:00:00Z') == time.now", false},
		{tim, "Timestamp('2026-01-01T24:00:00Z') == time.now", false},
		{tim, "Timestamp('2026-01-01T00:60:00Z') == time.now", false},
		{tim, "Timestamp('2026-13-01T00:00:00Z') == time.now", false},
		{tim, "Timestamp('2026-01-01T0:00:00Z') == time.now", false},
		{tim, "Timestamp('2026-01-01T00:00:00,5Z') == time.now", false},
		{tim, "Timestamp('2026-01-01T00:00:00.Z') == time.now", false},
		{tim, "Timestamp('') == time.now", false},
		{tim, span("0 0 * *", "1h", "Etc/UTC"), false},
		{tim, span("0 0 * * * *", "1h", "Etc/UTC"), false},
		{tim, span("", "1h", "Etc/UTC"), false},
		{tim, span("60 0 * * *", "1h", "Etc/UTC"), false},
		{tim, span("0 24 * * *", "1h", "Etc/UTC"), false},
		{tim, span("0 0 0 * *", "1h", "Etc/UTC"), false},
		{tim, span("0 0 32 * *", "1h", "Etc/UTC"), false},
		{tim, span("0 0 * 0 *", "1h", "Etc/UTC"), false},
		{tim, span("0 0 * 13 *", "1h", "Etc/UTC"), false},
		{tim, span("0 0 * * 7", "1h", "Etc/UTC"), false},
		{tim, span("0 0 * * MON", "1h", "Etc/UTC"), false},
		{tim, span("0 0 * JAN *", "1h", "Etc/UTC"), false},
		{tim, span("*/5 0 * * *", "1h", "Etc/UTC"), false},
		{tim, span("5-1 0 * * *", "1h", "Etc/UTC"), false},
		{tim, span("-1 0 * * *", "1h", "Etc/UTC"), false},
		{tim, span("1- 0 * * *", "1h", "Etc/UTC"), false},
		{tim, span("1-2-3 0 * * *", "1h", "Etc/UTC"), false},
		{tim, span("1,,2 0 * * *", "1h", "Etc/UTC"), false},
		{tim, span("+1 0 * * *", "1h", "Etc/UTC"), false},
		{tim, span("@daily", "1h", "Etc/UTC"), false},
		{tim, span("0 0 ? * *", "1h", "Etc/UTC"), false},
		{tim, span("0 0 L * *", "1h", "Etc/UTC"), false},
		{tim, span("99999999999999999999 0 * * *", "1h", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "0m", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "0d0h0m", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "8d", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "7d1m", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "1h1d", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "1h1h", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "1.5h", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "-1h", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "1s", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "60", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "h", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "1 h", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "18446744073709551616m", "Etc/UTC"), false},
		{tim, span("0 0 * * *", "1h", ""), false},
		{tim, span("0 0 * * *", "1h", "Local"), false},
		{tim, span("0 0 * * *", "1h", "+01:00"), false},
		{tim, span("0 0 * * *", "1h", "../Etc/UTC"), false},
		{tim, span("0 0 * * *", "1h", "Mars/Olympus"), false},
		{tim, "CronSpan('0 0 * * *', '1h')", false},
		{tim, "CronSpan('0 0 * * *', '1h', 'Etc/UTC', 'a')", false},
		{tim, "CronSpan('0 0 * * *', '1h', 'Etc/UTC') == 1", false},
	} {
		_, mine := policytest.Parse(c.clause, c.source)
		_, theirs := policy.Compile(clauses[c.clause], c.source)
		shown := c.source[:min(len(c.source), 120)]
		if (mine == nil) != c.ok {
			t.Errorf("second opinion: %s %q: %v", c.clause, shown, mine)
		}
		if (theirs == nil) != c.ok {
			t.Errorf("engine: %s %q: %v", c.clause, shown, theirs)
		}
	}
}

var clauses = map[policytest.Clause]policy.Clause{
	policytest.Consensus: policy.ClauseConsensus, policytest.Condition: policy.ClauseCondition, policytest.Time: policy.ClauseTime,
}
