package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

func TestLint(t *testing.T) {
	const key = "wallet.id == 'w' && "
	const system = "solana.tx.program_keys.count() == 1 && "
	const signing = "activity.kind == 'SIGN_TRANSACTION' && "
	for _, c := range []struct {
		rule   string
		others []string
		want   string // codes with the text where they point, a ; between
	}{
		{"ALLOW", nil, "ALLOWS_EVERYTHING@;ALLOW_SIGN_ANY_KEY@;SIGN_INCLUDES_RAW_PAYLOADS@"},
		{"ALLOW $a ; activity.kind == 'CREATE_WALLET'", nil, ""},
		{"ALLOW $a ; activity.kind == 'SIGN_TRANSACTION'", nil, "ALLOW_SIGN_ANY_KEY@activity"},
		{"ALLOW $a ; " + key + "activity.kind == 'SIGN_TRANSACTION'", nil, ""},
		{"ALLOW $a ; " + key + "activity.action == 'SIGN'", nil, "SIGN_INCLUDES_RAW_PAYLOADS@wallet"},
		{"ALLOW $a ; " + key + "activity.action == 'SIGN' && activity.kind != 'SIGN_RAW_PAYLOAD' && activity.kind != 'SIGN_RAW_PAYLOADS'", nil, ""},
		{"ALLOW $a ; " + key + "activity.resource != 'PRIVATE_KEY'", nil, ""},
		{"ALLOW $a ; activity.action in ['CREATE', 'DELETE']", nil, ""},
		{"ALLOW $a ; ['CREATE', 'SIGN'].contains(activity.action)", nil, "ALLOW_SIGN_ANY_KEY@[;SIGN_INCLUDES_RAW_PAYLOADS@["},
		{"ALLOW $a ; activity.params.sign_with == 'sp1'", nil, ""},
		{"DENY $a ; activity.action == 'SIGN'", nil, ""},

		{"ALLOW $a ; activity.type == 'ACTIVITY_TYPE_CREATE_WALLET'", nil, "EXACT_ACTIVITY_TYPE@'ACTIVITY_TYPE_CREATE"},
		{"ALLOW $a ; activity.type in ['ACTIVITY_TYPE_CREATE_POLICY_V3', 'ACTIVITY_TYPE_X']", nil, "EXACT_ACTIVITY_TYPE@'ACTIVITY_TYPE_CREATE_P;UNKNOWN_TYPE@'ACTIVITY_TYPE_X"},
		{"ALLOW $a ; activity.kind == 'CREATE_WALLETS'", nil, "NEVER_TRUE@activity;UNKNOWN_KIND@'CREATE_WALLETS"},
		{"ALLOW $a ; activity.kind == 'ACTIVITY_TYPE_CREATE_WALLET'", nil, "NEVER_TRUE@activity;UNKNOWN_KIND@'ACT"},
		{"ALLOW $a ; activity.kind == 'UPDATE_ROOT_QUORUM'", nil, "NEVER_TRUE@activity;UNKNOWN_KIND@'UPD"},
		{"ALLOW $a ; activity.resource == 'WALLETS'", nil, "NEVER_TRUE@activity;UNKNOWN_RESOURCE@'WALLETS"},
		{"ALLOW $a ; 'REMOVE' == activity.action", nil, "NEVER_TRUE@'REMOVE;UNKNOWN_ACTION@'REMOVE"},
		{"ALLOW $a ; activity.resource == 'WALLET' && activity.action == 'SIGN'", nil, "NEVER_TRUE@activity.resource;NO_SUCH_RESOURCE_ACTION@'SIGN"},
		{"ALLOW $a ; activity.kind == 'CREATE_WALLET' && activity.kind == 'UPDATE_WALLET'", nil, "NEVER_TRUE@activity"},
		{"ALLOW $a ; activity.kind == 'CREATE_WALLET' || activity.kind == 'CREATE_WALLET' && activity.action == 'SIGN'", nil, "NEVER_TRUE@activity.kind == 'CREATE_WALLET' && activity.action"},
		{"ALLOW $a ; " + key + "wallet.id == 'v' && activity.kind == 'EXPORT_WALLET'", nil, "NEVER_TRUE@wallet"},
		{"ALLOW $a ; " + key + "wallet.id != 'w' && activity.kind == 'EXPORT_WALLET'", nil, "NEVER_TRUE@wallet"},
		{"ALLOW $a ; " + key + "wallet.id != 'v' && activity.kind == 'EXPORT_WALLET'", nil, ""},
		{"ALLOW $a ; " + key + "eth.tx.to == '0xab' && eth.tx.to == '0xAB'", nil, ""},
		{"ALLOW $a ; " + key + "eth.tx.value > 5 && 5 > eth.tx.value", nil, "NEVER_TRUE@wallet"},
		{"ALLOW $a ; " + key + "eth.tx.value >= 5 && eth.tx.value <= 5", nil, ""},
		{"ALLOW $a ; " + key + "eth.tx.value >= 5 && eth.tx.value == 4", nil, "NEVER_TRUE@wallet"},
		{"ALLOW $a ; " + key + "eth.tx.value < 5 && eth.tx.nonce > 5", nil, ""},
		{"ALLOW $a ; " + key + "1 == 2 && eth.tx.value < 5", nil, "NEVER_TRUE@wallet"},
		{"ALLOW $a ; !true", nil, "NEVER_TRUE@!true"},
		{"ALLOW false ; activity.action == 'CREATE'", nil, "NEVER_TRUE@false"},
		{"ALLOW $a && approvers.count() > 2 && approvers.count() < 2; activity.action == 'CREATE'", nil, "NEVER_TRUE@approvers"},
		{"ALLOW $a ; activity.action == 'CREATE' ; time.now > Timestamp('2027-01-01T00:00:00Z') && time.now < Timestamp('2026-01-01T00:00:00Z')", nil, "NEVER_TRUE@time"},

		{"ALLOW $a ; wallet.id == 'w' || private_key.id == 'p'", nil, "SIGN_INCLUDES_RAW_PAYLOADS@wallet;ROOTS_NEVER_MEET@private_key"},
		{"ALLOW $a ; " + key + "(eth.tx.value < 5 || solana.tx.account_keys.count() == 2)", nil, "ROOTS_NEVER_MEET@solana"},
		{"ALLOW $a ; " + key + "wallet_account.address == 'x' && eth.tx.value < 5", nil, ""},
		{"ALLOW $a ; " + key + system + "solana.tx.transfers.all(t, t.to == 'x')", nil, "ALL_ON_EMPTY_LIST@solana.tx.transfers"},
		{"ALLOW $a ; " + key + system + "solana.tx.transfers.count() == 1 && solana.tx.transfers.all(t, t.to == 'x')", nil, ""},
		{"ALLOW $a ; " + key + "solana.tx.transfers.count() == 1 && solana.tx.transfers.all(t, t.to == 'x')", nil, "OTHER_PROGRAMS_MOVE_TOO@solana"},
		{"ALLOW $a ; " + key + "solana.tx.spl_transfers.count() == 1", nil, "OTHER_PROGRAMS_MOVE_TOO@solana"},
		{"ALLOW $a ; " + key + "solana.tx.spl_transfers.count() == 1 && solana.tx.instructions.count() == 1", nil, ""},
		{"ALLOW $a ; " + key + "solana.tx.account_keys.count() == 1", nil, ""},

		{"DENY ; " + signing + "solana.tx.transfers.count() > 3", nil, "GIVEN_WITHOUT_TRANSFER@solana"},
		{"DENY ; " + signing + "(solana.tx.transfers.count() > 3 || solana.tx.authorities.count() > 0)", nil, ""},
		{"DENY ; " + signing + "(solana.tx.spl_transfers.count() > 3 || solana.tx.spl_burns.count() > 0)", nil, "GIVEN_WITHOUT_TRANSFER@solana"},
		{"DENY ; " + signing + "'evil' in solana.tx.account_keys", nil, "ADDRESS_BEHIND_TABLE@solana"},
		{"DENY ; " + signing + "('evil' in solana.tx.account_keys || solana.tx.address_table_lookups.count() > 0)", nil, ""},
		{"DENY ; " + signing + "'evil' in solana.tx.account_keys", []string{"DENY ; " + signing + "solana.tx.address_table_lookups.count() > 0"}, ""},
		{"DENY ; " + signing + "'evil' in solana.tx.account_keys", []string{"DENY $a ; " + signing + "solana.tx.address_table_lookups.count() > 0"}, "ADDRESS_BEHIND_TABLE@solana"},
		{"DENY ; " + signing + "solana.tx.spl_closes.any(c, c.to == 'evil')", nil, "ADDRESS_BEHIND_TABLE@c.to"},
		{"DENY ; " + signing + "solana.tx.instructions.any(i, i.accounts.any(a, a.account_key == 'evil'))", nil, "ADDRESS_BEHIND_TABLE@a.account_key"},
		{"DENY ; " + signing + "solana.tx.instructions.any(i, i.accounts.any(a, a.writable))", nil, ""},
		{"DENY ; " + signing + "solana.tx.spl_authorities.any(c, c.type == 'CLOSE_ACCOUNT')", nil, ""},
		{"DENY ; " + signing + "solana.tx.program_keys.any(p, p == 'evil')", nil, ""},
		{"ALLOW $a ; wallets.all(w, w.exported) && activity.action == 'DELETE'", nil, ""},
		{"ALLOW approvers.all(u, u.id != 'x') ; activity.action == 'CREATE'", nil, ""},

		{"DENY ; eth.tx.value > 5", nil, "DENY_CAN_ERROR@eth.tx.value"},
		{"DENY ; activity.kind == 'ETH_SEND_TRANSACTION' && eth.tx.value > 5", nil, ""},
		{"DENY ; activity.kind == 'SIGN_TRANSACTION' && eth.tx.value > 5", nil, ""},
		{"DENY ; activity.action == 'SIGN' && wallet.id != 'w'", nil, "DENY_CAN_ERROR@wallet"},
		{"DENY ; activity.action == 'SIGN' && wallet.id != 'w'", []string{"DENY ; activity.action == 'SIGN'"}, ""},
		{"DENY ; eth.tx.value > 5", []string{"DENY ; activity.kind in ['SIGN_RAW_PAYLOAD', 'SIGN_RAW_PAYLOADS']"}, ""},
		{"DENY ; eth.tx.value > 5", []string{"ALLOW ; activity.action == 'SIGN'"}, "DENY_CAN_ERROR@eth.tx.value"},
		{"DENY ; eth.tx.value > 5", []string{"DENY $a ; activity.action == 'SIGN'"}, "DENY_CAN_ERROR@eth.tx.value"},
		{"DENY ; eth.tx.value > 5", []string{"DENY ; activity.action == 'CREATE'"}, "DENY_CAN_ERROR@eth.tx.value"},
		{"DENY ; activity.kind == 'ETH_SEND_TRANSACTION' && eth.tx.data[0..10] == '0xa9059cbb'", nil, "DENY_CAN_ERROR@eth.tx.data[0"},
		{"DENY ; activity.kind == 'ETH_SEND_TRANSACTION' && eth.tx.data[0..10] == '0xa9059cbb'", []string{"DENY ; activity.kind == 'ETH_SEND_TRANSACTION' && eth.tx.data in ['0x', '']"}, ""},
		{"DENY ; activity.kind == 'ETH_SEND_TRANSACTION' && eth.tx.contract_call_args['value'] > 5", nil, "DENY_CAN_ERROR@eth.tx.contract_call_args"},
		{"DENY ; activity.kind == 'SIGN_RAW_PAYLOAD' && activity.params.hash_function == 'HASH_FUNCTION_NO_OP'", nil, ""},
		{"DENY ; activity.params.hash_function == 'HASH_FUNCTION_NO_OP'", nil, "DENY_CAN_ERROR@activity"},
		{"DENY approvers[1].id == 'x'", nil, "DENY_CAN_ERROR@approvers[1]"},
		{"DENY ; activity.kind == 'EXPORT_WALLET' && wallet.id == 'w'", nil, ""},

		{"ALLOW $a ; " + key + "eth.tx.to == '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'", nil, ""},
		{"ALLOW $a ; " + key + "eth.tx.to == '0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed'", nil, ""},
		{"ALLOW $a ; " + key + "eth.tx.to == '0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED'", nil, ""},
		{"ALLOW $a ; " + key + "eth.tx.to in ['0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD']", nil, "ADDRESS_CHECKSUM@'0x5a"},
		{"ALLOW $a ; " + key + "eth.tx.to in ['0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359', '0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB', '0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb']", nil, ""},
		{"ALLOW $a ; " + key + "tron.tx.fee_limit < 5 && wallet_account.address == 'TNfL6D1eedhMBV9ZnPCyQZyaV2F3Yz7555'", nil, ""},
		{"ALLOW $a ; " + key + "tron.tx.fee_limit < 5 && wallet_account.address == 'TNfL6D1eedhMBV9ZnPCyQZyaV2F3Yz7556'", nil, "ADDRESS_CHECKSUM@'TNf"},
		{"ALLOW $a ; " + key + "bitcoin.tx.outputs.any(o, o.address in ['bc1qs690yh8mlz3gu8m7rsawm44smhu92me76mtd36', 'bc1pm8zcux7apyq36h5kuwnc3k5r4xfanmxrul9lvywkeajp89us9wuqrxjh9t'])", nil, ""},
		{"ALLOW $a ; " + key + "bitcoin.tx.outputs.any(o, o.address == 'bc1qs690yh8mlz3gu8m7rsawm44smhu92me76mtd37')", nil, "ADDRESS_CHECKSUM@'bc1q"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var others []*policy.Policy
			for i, o := range c.others {
				others = append(others, rule(t, i+1, o))
			}
			p := rule(t, 0, c.rule)
			hold(t, p, policy.Lint(p, policy.Surroundings{Policies: append(others, p)}), c.want)
		})
	}
}

// A set has room for every kind.
func TestKindSet(t *testing.T) {
	if n := len(policy.Kinds()); n > 192 {
		t.Errorf("%d kinds", n)
	}
}

// Of policies that take more steps than a request has, the one that takes the most is told.
func TestLintSteps(t *testing.T) {
	nested := func(n int) string {
		list := quoted("", n)
		return fmt.Sprintf("DENY ; activity.action == 'CREATE' || %s.filter(a, %[1]s.any(b, a == b)).count() > 0", list)
	}
	large, largest := nested(150), nested(350) // about 70,000 and 370,000 steps
	const request = "DENY ; activity.kind == 'DELETE_WALLETS' && wallets.all(a, wallets.all(b, wallets.all(c, a.id == b.id || b.id == c.id)))"
	for _, c := range []struct {
		rule   string
		others []string
		want   string
	}{
		{largest, nil, ""},
		{largest, []string{large}, "TOO_MANY_STEPS"},
		{large, []string{largest}, ""},
		{largest, []string{largest}, ""}, // the other is the first
		{large, slices.Repeat([]string{"DENY ; activity.action == 'CREATE'"}, 99), ""},
		{largest, slices.Repeat([]string{large}, 300), "TOO_MANY_STEPS"},
		{largest, slices.Repeat([]string{"DENY ; activity.action == 'CREATE'"}, 300), ""}, // so many have more steps
		{request, slices.Repeat([]string{request}, 99), ""},
	} {
		var all []*policy.Policy
		for i, o := range c.others {
			all = append(all, rule(t, i+1, o))
		}
		p := rule(t, 0, c.rule)
		var got []policy.Warning
		for _, w := range policy.Lint(p, policy.Surroundings{Policies: append(all, p)}) {
			if w.Code == "TOO_MANY_STEPS" {
				got = append(got, w)
			}
		}
		hold(t, p, got, c.want)
	}
}

// What lint says that policies take at least, they take.
func TestLeastSteps(t *testing.T) {
	r := new(policy.Request)
	for _, source := range []string{
		"true", "'a' == 'b' || !(1 < 2)", "activity.kind in ['a', 'b', 'c']", "['a', activity.kind].contains('b')", "['a', activity.kind].count() == 2",
		"['a', 'b'].filter(x, x == activity.kind).count() == 0", "[1, 2, 3].all(a, [1, 2].any(b, a == b) || [a, 1].contains(a))", "'abc'[0..2] == 'ab'", "[][0..0].count() == 0",
	} {
		p := compile(t, condition, source)
		if least, took := p.LeastSteps(), steps(t, source, r); least != took {
			t.Errorf("%s takes %d steps, lint says %d", source, took, least)
		}
	}
	for source, want := range map[string]int{
		"solana.tx.instructions.all(i, true)":                         3,
		"['a', 'b'].filter(x, x == 'a').all(y, y == 'b' || y == 'c')": 3 + 2*(3+4), // what passes is not known
	} {
		if least := compile(t, condition, source).LeastSteps(); least > want {
			t.Errorf("%s: %d steps, want %d at most", source, least, want)
		}
	}
	if least := compile(t, timeOf, "time.now < Timestamp('2026-03-10T12:00:00Z') || CronSpan('0 9 * * 1-5', '7d', 'America/New_York')").LeastSteps(); least != 5 {
		t.Errorf("a time: %d steps", least)
	}
}

// hold holds warnings against codes with the text that they point to.
func hold(t *testing.T, p *policy.Policy, got []policy.Warning, want string) {
	t.Helper()
	wants := strings.Split(want, ";")
	if want == "" {
		wants = nil
	}
	manual := readme(t)
	sources := map[string]*policy.Program{"consensus": p.Consensus, "condition": p.Condition, "time": p.Time}
	if len(got) != len(wants) {
		t.Fatalf("got %+v, want %s", got, want)
	}
	for i, w := range got {
		code, at, _ := strings.Cut(wants[i], "@")
		text := ""
		if source := sources[w.Clause]; source != nil {
			text = source.Source()[w.Position:]
		}
		if !strings.Contains(manual, "`"+w.Code+"`") {
			t.Errorf("the manual does not know %s", w.Code)
		}
		if w.Code != code || !strings.HasPrefix(text, at) || !strings.HasSuffix(w.Message, ".") {
			t.Errorf("got %+v at %q, want %s", w, text, wants[i])
		}
	}
}

func TestLintVoters(t *testing.T) {
	for _, c := range []struct {
		rule, users, root string
		threshold         uint32
		want              string
	}{
		{"ALLOW $a ; activity.action == 'CREATE'", "a b r", "r", 1, ""},
		{"ALLOW $r ; activity.action == 'CREATE'", "a b r", "r", 1, "ROOT_QUORUM_DECIDES@approvers"},
		{"ALLOW $r ; activity.action == 'CREATE'", "a b q r", "qr", 2, ""},
		{"ALLOW $q && $r ; activity.action == 'CREATE'", "a b q r", "qr", 2, "ROOT_QUORUM_DECIDES@approvers"},
		{"DENY $q && $r ; activity.action == 'CREATE'", "a b q r", "qr", 2, "ROOT_QUORUM_DECIDES@approvers"},
		{"ALLOW $a && $r ; activity.action == 'CREATE'", "a b q r", "qr", 2, ""},
		{"ALLOW approvers.count() >= 2 ; activity.action == 'CREATE'", "q r", "qr", 2, "ROOT_QUORUM_DECIDES@approvers"},
		{"ALLOW approvers.count() >= 2 ; activity.action == 'CREATE'", "a q r", "qr", 2, ""},
		{"ALLOW $x ; activity.action == 'CREATE'", "a q r", "qr", 2, "NO_SUCH_VOTERS@approvers"},
		{"ALLOW #1 >= 2 ; activity.action == 'CREATE'", "a1 b r", "r", 1, "NO_SUCH_VOTERS@approvers"},
		{"ALLOW approvers.count() == 1 ; activity.action == 'CREATE'", "a b r", "r", 1, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			p := rule(t, 0, c.rule)
			hold(t, p, policy.Lint(p, policy.Surroundings{RootUsers: ids(c.root), Threshold: c.threshold, Users: staff(c.users)}), c.want)
		})
	}
}
