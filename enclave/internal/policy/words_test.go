package policy_test

import (
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

const (
	aliceID = "11111111-1111-4111-8111-11111111111a"
	bobID   = "22222222-2222-4222-8222-222222222222"
	carolID = "33333333-3333-4333-8333-333333333333"
	twinID  = "44444444-4444-4444-8444-444444444444"
	opsTag  = "55555555-5555-4555-8555-555555555555"
	vaultID = "66666666-6666-4666-8666-666666666666"
	keyID   = "77777777-7777-4777-8777-777777777777"
)

func someNames() *policy.Names {
	n := new(policy.Names)
	n.Users.Add(aliceID, "Alice")
	n.Users.Add(bobID, "Bob")
	n.Users.Add(carolID, "Carol or anybody")
	n.Users.Add(twinID, "Bob")
	n.Tags.Add(opsTag, "Operators")
	n.Wallets.Add(vaultID, "Treasury")
	n.PrivateKeys.Add(keyID, "hot key")
	return n
}

// draw writes lines with their depth.
func draw(l policy.Line) string {
	out := l.Text
	for _, k := range l.Lines {
		out += "\n" + strings.ReplaceAll("  "+draw(k), "\n", "\n  ")
	}
	return out
}

// described compiles a policy and describes it. A rule is the effect, and after it consensus ; condition ; time.
func described(t testing.TB, text string) policy.Words {
	t.Helper()
	effect, clauses, _ := strings.Cut(text, ":")
	parts := append(strings.Split(clauses, ";"), "", "")
	p := casePolicy{Effect: "EFFECT_" + effect, Condition: strings.TrimSpace(parts[0]), Consensus: strings.TrimSpace(parts[1]), Time: strings.TrimSpace(parts[2])}
	compiled, err := compilePolicy(p)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Describe(compiled, someNames())
}

// What policies are in words: the sentence, and each of who, what and when that the sentence does not say whole.
func TestWords(t *testing.T) {
	const by = "; approvers.any(u, u.id == '" + aliceID + "')"
	const sign = "activity.kind == 'SIGN_TRANSACTION'"
	for _, c := range []struct{ rule, sentence, who, what, when string }{
		{rule: "ALLOW:", sentence: "Allows every user to do everything, alone.", who: "every user, alone", what: "everything that policies decide", when: "always"},
		{rule: "ALLOW: true", sentence: "Allows every user to do everything, alone.", what: "everything that policies decide: true is always true"},
		{rule: "ALLOW: ; approvers.count() >= 1", sentence: "Allows every user to do everything, alone.", who: "every user, alone: approvers.count() >= 1 is true of whoever approves"},
		{rule: "ALLOW: activity.kind != 'NOTHING' || activity.resource == 'X'; 0 < approvers.count && credentials.any(c, true) ; 1 == 1", sentence: "Allows every user to do everything, alone.", when: "always: 1 == 1 is always true"},
		{rule: "ALLOW: ; ; CronSpan('0 9 * * 1-5', '8h', 'Europe/Paris')", sentence: "Allows every user to do everything, alone, Monday to Friday from 09:00 for 8 hours, Europe/Paris."},
		{rule: "DENY:", sentence: "Denies every user everything that policies decide.", who: "every user"},
		{rule: "ALLOW: " + by, sentence: "Allows everything that policies decide, if Alice approves."},
		{rule: "ALLOW: true" + by, sentence: "Allows everything that policies decide, if Alice approves."},
		{rule: "ALLOW: activity.kind == 'CREATE_WALLET'", sentence: "Allows creating a wallet, by every user, alone."},
		{rule: "DENY: activity.kind == 'EXPORT_WALLET'", sentence: "Denies exporting a wallet, to every user."},
		{rule: "DENY: activity.kind == 'EXPORT_WALLET'" + by, sentence: "Denies exporting a wallet, if Alice approves."},
		{rule: "ALLOW: false", sentence: "Allows nothing: its condition can never be true.", what: "everything that policies decide, where false"},
		{rule: "ALLOW: activity.kind == 'FOO'", sentence: "Allows nothing: its condition can never be true.", what: "everything that policies decide, where the activity (activity.kind) is FOO"},
		{rule: "DENY: ; approvers.count() > 2 && approvers.count() < 2", sentence: "Denies everything that policies decide, if more than 2 users approve and fewer than 2 users approve."},
		{rule: "DENY: ; false && approvers.count() > 2", sentence: "Denies nothing: its consensus can never be true."},
		{rule: "ALLOW: activity.params.sign_with == '0xAB' && activity.params.sign_with == '0xab'", sentence: "Allows everything that policies decide, where what signs (activity.params.sign_with) is 0xAB and what signs (activity.params.sign_with) is 0xab, by every user, alone."},

		// Kinds.
		{rule: "ALLOW: activity.kind in ['CREATE_WALLET', 'CREATE_WALLET_ACCOUNTS']", sentence: "Allows creating a wallet or creating accounts of a wallet, by every user, alone."},
		{rule: "ALLOW: activity.kind == 'UPDATE_MFA_POLICY' || 'DELETE_USERS' == activity.kind", sentence: "Allows changing mfa policy (UPDATE_MFA_POLICY) or deleting users, by every user, alone."},
		{rule: "ALLOW: activity.type == 'ACTIVITY_TYPE_SIGN_TRANSACTION_V2'", sentence: "Allows signing a transaction (only ACTIVITY_TYPE_SIGN_TRANSACTION_V2), by every user, alone."},
		{rule: "ALLOW: activity.resource == 'WALLET' && activity.action == 'CREATE'", sentence: "Allows creating a wallet or creating accounts of a wallet (activity.resource is WALLET and activity.action is CREATE), by every user, alone."},
		{rule: "ALLOW: activity.action == 'SIGN'", sentence: "Allows signing anything (activity.action is SIGN), by every user, alone."},
		{rule: "ALLOW: activity.resource == 'POLICY'", sentence: "Allows everything about policies (activity.resource is POLICY), by every user, alone."},
		{rule: "ALLOW: activity.resource == 'AUTH' && activity.action == 'CREATE'", sentence: "Allows every activity (activity.resource is AUTH and activity.action is CREATE), by every user, alone."},
		{rule: "ALLOW: activity.kind != 'EXPORT_WALLET'", sentence: "Allows everything that policies decide, where the activity is not exporting a wallet, by every user, alone."},
		{rule: "ALLOW: activity.kind in ['CREATE_WALLET', 'FOO'] && !(activity.kind in ['EXPORT_WALLET', 'IMPORT_WALLET'])", sentence: "Allows everything that policies decide, where the activity (activity.kind) is CREATE_WALLET or FOO and the activity is not exporting a wallet or importing a wallet, by every user, alone."},
		{rule: "ALLOW: " + sign + " && wallet.id == '" + vaultID + "' || activity.kind == 'CREATE_WALLET'", sentence: "Allows signing a transaction or creating a wallet, under conditions, by every user, alone.",
			what: "one of these:\n  signing a transaction, where the wallet (wallet.id) is Treasury\n  creating a wallet"},

		// Approvals.
		{rule: "ALLOW: " + sign + "; approvers.any(u, u.id == '" + strings.ToUpper(aliceID) + "') && approvers.any(u, u.id == '" + carolID + "')", sentence: "Allows signing a transaction, if Alice approves and \"Carol or anybody\" approves.",
			who: "all of these hold:\n  Alice approves\n  \"Carol or anybody\" approves"},
		{rule: "ALLOW: " + sign + "; approvers.any(u, u.id in ['" + aliceID + "', '" + bobID + "'])", sentence: "Allows signing a transaction, if Alice or Bob (" + bobID + ") approves."},
		{rule: "ALLOW: " + sign + "; approvers.any(u, u.id == 'x' || u.id == '" + aliceID + "')", sentence: "Allows signing a transaction, if the user \"x\" or Alice approves."},
		{rule: "ALLOW: " + sign + "; approvers.count() >= 2", sentence: "Allows signing a transaction, if at least 2 users approve."},
		{rule: "ALLOW: " + sign + "; 1 == approvers.count()", sentence: "Allows signing a transaction, if exactly 1 user approves."},
		{rule: "ALLOW: " + sign + "; approvers.filter(u, u.tags.contains('" + opsTag + "')).count() >= 2", sentence: "Allows signing a transaction, if at least 2 users with the tag Operators approve."},
		{rule: "ALLOW: " + sign + "; approvers.filter(u, u.tags.contains('" + opsTag + "') && u.id != '" + aliceID + "').count() > 0", sentence: "Allows signing a transaction, if more than 0 users with the tag Operators and other than Alice approve."},
		{rule: "ALLOW: " + sign + "; approvers.filter(u, u.id in ['" + aliceID + "', '" + bobID + "', '" + carolID + "', 'd']).count() >= 2", sentence: "Allows signing a transaction, if approvals meet a condition.",
			who: "at least 2 of these approve:\n  Alice\n  Bob (" + bobID + ")\n  \"Carol or anybody\"\n  the user \"d\""},
		{rule: "ALLOW: " + sign + "; approvers.any(u, u.alias == 'anybody' || u.tags.contains('t1'))", sentence: "Allows signing a transaction, if approvals meet a condition.",
			who: "for at least one item u of the users who approve (approvers): one of these holds:\n  the user's name (u.alias) is \"anybody\"\n  t1 is one of the user's tags (u.tags)"},
		{rule: "ALLOW: " + sign + "; approvers.all(u, u.tags.contains('" + opsTag + "'))", sentence: "Allows signing a transaction, if everybody who approves is a user with the tag Operators."},
		{rule: "ALLOW: " + sign + "; !approvers.any(u, u.id == '" + aliceID + "')", sentence: "Allows signing a transaction, if nobody approves who is Alice."},
		{rule: "ALLOW: " + sign + "; credentials.any(c, c.type == 'CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR')", sentence: "Allows signing a transaction, if somebody approves with a passkey (CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR)."},
		{rule: "ALLOW: " + sign + "; credentials.all(c, 'CREDENTIAL_TYPE_API_KEY_P256' == c.type)", sentence: "Allows signing a transaction, if everybody approves with an API key on P-256 (CREDENTIAL_TYPE_API_KEY_P256) and with nothing else."},

		// Amounts, addresses and calls.
		{rule: "ALLOW: " + sign + " && eth.tx.to == '0x2222222222222222222222222222222222222222' && eth.tx.value < 100000000000000000" + by,
			sentence: "Allows signing a transaction, where the recipient (eth.tx.to) is 0x2222222222222222222222222222222222222222 and the amount (eth.tx.value) is less than 0.1 ETH (100000000000000000 wei), if Alice approves.",
			what:     "signing a transaction, where all of these hold:\n  the recipient (eth.tx.to) is 0x2222222222222222222222222222222222222222\n  the amount (eth.tx.value) is less than 0.1 ETH (100000000000000000 wei)"},
		{rule: "DENY: !(eth.tx.value <= 1) || -15 >= eth.tx.value", sentence: "Denies everything that policies decide, where the amount (eth.tx.value) is more than 0.000000000000000001 ETH (1 wei) or the amount (eth.tx.value) is at most -0.000000000000000015 ETH (-15 wei), to every user."},
		{rule: "ALLOW: eth.tx.max_fee_per_gas <= 30000000000 && eth.tx.chain_id in [1, 8453, 5]", sentence: "Allows everything that policies decide, where the highest fee per gas (eth.tx.max_fee_per_gas) is at most 30 gwei (30000000000 wei) and the chain (eth.tx.chain_id) is 1 (Ethereum), 8453 (Base) or 5, by every user, alone."},
		{rule: "ALLOW: solana.tx.transfers.all(t, t.amount <= 1500000000) && bitcoin.tx.fee < 2500", sentence: "Allows everything that policies decide, under 2 conditions, by every user, alone.",
			what: "everything that policies decide, where all of these hold:\n  for each item t of the transfers (solana.tx.transfers): the amount (t.amount) is at most 1.5 SOL (1500000000 lamports)\n  the fee (bitcoin.tx.fee) is less than 0.000025 BTC (2500 satoshi)"},
		{rule: "ALLOW: tron.tx.contract[0].amount < 340282366920938463463374607431768211455000000", sentence: "Allows everything that policies decide, where the amount (tron.tx.contract[0].amount) is less than 340282366920938463463374607431768211455 TRX (340282366920938463463374607431768211455000000 sun), by every user, alone."},
		{rule: "ALLOW: eth.tx.data[0..10] == '0xA9059CBB' && tron.tx.contract[0].data[0..8] != '095ea7b3'", sentence: "Allows everything that policies decide, where the call (eth.tx.data[0..10]) begins with 0xA9059CBB (transfer(address,uint256)) and the call (tron.tx.contract[0].data[0..8]) does not begin with 095ea7b3 (approve(address,uint256)), by every user, alone."},
		{rule: "ALLOW: eth.tx.data == '0x' && tron.tx.contract[0].data != '0x'", sentence: "Allows everything that policies decide, where nothing is called (eth.tx.data is 0x) and something is called (tron.tx.contract[0].data is not 0x), by every user, alone."},
		{rule: "ALLOW: eth.tx.data[0..10] in ['0xa9059cbb', '0x12345678'] && eth.tx.data[0..10] != '0xa9' && eth.tx.data[2..6] == 'abcd'",
			sentence: "Allows everything that policies decide, where the call (eth.tx.data[0..10]) begins with 0xa9059cbb (transfer(address,uint256)) or 0x12345678 and the part eth.tx.data[0..10] of the call is not 0xa9 and the part eth.tx.data[2..6] of the call is \"abcd\", by every user, alone.",
			what:     "everything that policies decide, where all of these hold:\n  the call (eth.tx.data[0..10]) begins with 0xa9059cbb (transfer(address,uint256)) or 0x12345678\n  the part eth.tx.data[0..10] of the call is not 0xa9\n  the part eth.tx.data[2..6] of the call is \"abcd\""},
		{rule: "ALLOW: eth.tx.to in ['0xa1', '0xa2', '0xa3', '0xa4'] && !(eth.tx.from in ['', 'any body'])", sentence: "Allows everything that policies decide, under 2 conditions, by every user, alone.",
			what: "everything that policies decide, where all of these hold:\n  the recipient (eth.tx.to) is one of these:\n    0xa1\n    0xa2\n    0xa3\n    0xa4\n  the signing address (eth.tx.from) is not empty or \"any body\""},
		{rule: "ALLOW: wallet.label == 'ANYTHING' && private_key.id == '" + keyID + "' && private_key.tags.contains('" + opsTag + "') && !wallet.exported", sentence: "Allows everything that policies decide, under 4 conditions, by every user, alone.",
			what: "everything that policies decide, where all of these hold:\n  the wallet's name (wallet.label) is \"ANYTHING\"\n  the private key (private_key.id) is \"hot key\"\n  Operators is one of the private key's tags (private_key.tags)\n  wallet.exported is false"},
		{rule: "ALLOW: secret.static_properties['env'] == 'prod' && eth.tx.contract_call_args['value'] <= 5", sentence: "Allows everything that policies decide, where the secret's property \"env\" (secret.static_properties['env']) is \"prod\" and the call's argument \"value\" (eth.tx.contract_call_args['value']) is at most 5, by every user, alone."},
		{rule: "ALLOW: solana.tx.instructions.filter(i, i.program_key == 'x1').any(j, j.accounts.count() > 3)", sentence: "Allows everything that policies decide, under a condition, by every user, alone.",
			what: "everything that policies decide, where for at least one item i, also called j, of the instructions (solana.tx.instructions): all of these hold:\n  the called program (i.program_key) is x1\n  the number of j.accounts is more than 3"},
		{rule: "ALLOW: solana.tx.instructions.filter(i, i.program_key == 'x1').all(j, j.accounts.count() > 3)", sentence: "Allows everything that policies decide, under a condition, by every user, alone.",
			what: "everything that policies decide, where for each item of the instructions (solana.tx.instructions) that meets all but the last of these, the last holds too:\n  i: the called program (i.program_key) is x1\n  j: the number of j.accounts is more than 3"},
		{rule: "ALLOW: !(wallet.id == 'w' && wallet.imported) && ['a1'].filter(x, x != wallet.id).count() != 2", sentence: "Allows everything that policies decide, under 2 conditions, by every user, alone.",
			what: "everything that policies decide, where all of these hold:\n  not: all of these hold:\n    the wallet (wallet.id) is \"w\"\n    wallet.imported is true\n  for not exactly 2 items x of ['a1']: x is not the wallet (wallet.id)"},

		// Times.
		{rule: "ALLOW: " + sign + by + "; time.now >= Timestamp('2026-03-01T00:00:00Z') && !(time.now >= Timestamp('2026-04-01T00:00:00Z'))", sentence: "Allows signing a transaction, if Alice approves, from 2026-03-01T00:00:00Z on and before 2026-04-01T00:00:00Z."},
		{rule: "DENY: " + sign + "; ; !CronSpan('30 8,14 1-5,9 12 *', '1d1h5m', 'Etc/UTC')", sentence: "Denies signing a transaction, to every user, at any time but on day 1 to 5 and 9 of the month in December from 08:30 and 14:30 for 1 day 1 hour 5 minutes, Etc/UTC."},
		{rule: "DENY: " + sign + "; ; CronSpan('0 9 1 * 1', '30m', 'Etc/UTC')", sentence: "Denies signing a transaction, to every user, CronSpan('0 9 1 * 1', '30m', 'Etc/UTC')."},
		{rule: "DENY: " + sign + "; ; CronSpan('*  9-17 * * 0,6', '30m', 'Etc/UTC')", sentence: "Denies signing a transaction, to every user, CronSpan('*  9-17 * * 0,6', '30m', 'Etc/UTC')."},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := described(t, c.rule)
			if w.Sentence != c.sentence {
				t.Errorf("got  %s\nwant %s", w.Sentence, c.sentence)
			}
			if all := strings.Contains(w.Sentence, "every user to do everything, alone"); w.Everything != all {
				t.Errorf("everything is %v", w.Everything)
			}
			for name, pair := range map[string][2]string{"who": {draw(w.Who), c.who}, "what": {draw(w.What), c.what}, "when": {draw(w.When), c.when}} {
				if got, want := pair[0], pair[1]; want != "" && got != want {
					t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
				}
			}
		})
	}
}

// written are many policies: those of the cases and of the manual, and the expressions of the fuzz test.
func written(t *testing.T) (out []casePolicy) {
	f := loadCases(t)
	for _, c := range f.Cases {
		out = append(out, c.Policies...)
	}
	for _, b := range block.FindAllStringSubmatch(readme(t), -1) {
		p := casePolicy{Effect: "EFFECT_DENY"}
		*map[string]*string{"consensus": &p.Consensus, "condition": &p.Condition, "time": &p.Time}[strings.Trim(strings.Fields(b[1])[0], ":")] = b[2]
		out = append(out, p)
	}
	for _, s := range append(seeds, "approvers.filter(u, u.id != 'a1').filter(v, v.email == 'x1').count() < 3", "wallets.any(w, w.id in ['w1'] || !(w.label in ['a', 'b']))",
		"credentials.filter(c, c.type == 'CREDENTIAL_TYPE_LOGIN').count() == 2", "!credentials.any(c, c.type == 'x')", "approvers.any(u, u.id == 'a1' && u.alias != 'b1')",
		"!(activity.action in ['SIGN', 'EXPORT']) && activity.kind.count == 1", "activity.resource == 'USER' && activity.kind == 'CREATE_USERS' && activity.kind in ['CREATE_USERS', 'DELETE_USERS']",
		"[wallet.id, 'w2'].contains('w1') && 'w1' in [wallet.id] && wallet.id in [wallet.label, 'w3']", "approvers[0].id == 'a1' && approvers.count == credentials.count", "eth.tx.data[0..eth.tx.nonce] == '0xa9059cbb'") {
		out = append(out, casePolicy{Effect: "EFFECT_ALLOW", Condition: s}, casePolicy{Effect: "EFFECT_ALLOW", Consensus: s}, casePolicy{Effect: "EFFECT_ALLOW", Time: s})
	}
	return out
}

// Every literal and every field of a policy is in its words, by name or as it is.
func TestWordsLeaveNothingOut(t *testing.T) {
	names := new(policy.Names)
	names.Users.Add("d818181d-5861-53ff-afd0-3d581ba41547", "Alice")
	count := 0
	for _, p := range written(t) {
		compiled, err := compilePolicy(p)
		if err != nil {
			continue
		}
		w := policy.Describe(compiled, names)
		for _, of := range []struct {
			program *policy.Program
			said    string
		}{{compiled.Consensus, draw(w.Who)}, {compiled.Condition, draw(w.What)}, {compiled.Time, draw(w.When)}} {
			if of.program == nil {
				continue
			}
			count++
			for _, part := range of.program.Parts() {
				if !isSaid(part, of.said) {
					t.Errorf("%s\nis\n%s\nwithout %+v", of.program.Source(), of.said, part)
				}
			}
		}
		if !strings.HasPrefix(w.Sentence, map[string]string{"EFFECT_ALLOW": "Allows ", "EFFECT_DENY": "Denies "}[p.Effect]) || !strings.HasSuffix(w.Sentence, ".") {
			t.Errorf("%+v: %s", p, w.Sentence)
		}
	}
	if count < 350 {
		t.Errorf("%d expressions", count)
	}
}

var weekdays = regexp.MustCompile("Sun|Mon|Tues|Wednes|Thurs|Fri|Satur|every day")

func isSaid(part policy.Part, said string) bool {
	quoted, _ := json.Marshal(part.Text)
	switch {
	case strings.Contains(said, part.Text), strings.Contains(said, string(quoted)):
		return true
	case !part.Literal && part.Item == "":
		return map[string]bool{
			"approvers": strings.Contains(said, "approve"), "credentials": strings.Contains(said, "approves with") || strings.Contains(said, "credentials"),
			"activity.kind": strings.Contains(said, "ing "), "activity.type": strings.Contains(said, "ACTIVITY_TYPE_"),
			"time.now": regexp.MustCompile("(from|before|until|after|at) ").MatchString(said),
		}[part.Root]
	case !part.Literal:
		word := map[string]string{"id": "approve", "tags": "tag", "alias": "name", "email": "e-mail", "type": "approves with"}[part.Text[strings.LastIndex(part.Text, ".")+1:]]
		return (part.Item == "approvers" || part.Item == "credentials") && word != "" && strings.Contains(said, word) || part.Item == "credentials" && strings.Contains(said, "credentials")
	case part.Root == "activity.kind":
		return strings.Contains(said, policy.KindPhrase(part.Text))
	case part.Text == "d818181d-5861-53ff-afd0-3d581ba41547":
		return strings.Contains(said, "Alice")
	case strings.HasSuffix(part.Text, "h"), strings.HasSuffix(part.Text, "m"): // a length
		return strings.Contains(said, " for ")
	case len(strings.Fields(part.Text)) == 5: // a cron expression
		return weekdays.MatchString(said)
	}
	return false
}

// Policies that differ in one operator differ in words.
func TestWordsTellOperatorsApart(t *testing.T) {
	count := 0
	words := func(p casePolicy) string {
		compiled, err := compilePolicy(p)
		if err != nil {
			return ""
		}
		b, err := json.Marshal(policy.Describe(compiled, someNames()))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, p := range written(t) {
		compiled, err := compilePolicy(p)
		if err != nil {
			continue
		}
		was := words(p)
		for _, of := range []struct {
			program *policy.Program
			set     func(string) casePolicy
		}{
			{compiled.Consensus, func(s string) casePolicy { q := p; q.Consensus = s; return q }},
			{compiled.Condition, func(s string) casePolicy { q := p; q.Condition = s; return q }},
			{compiled.Time, func(s string) casePolicy { q := p; q.Time = s; return q }},
		} {
			if of.program == nil {
				continue
			}
			for _, source := range of.program.Changes() {
				if is := words(of.set(source)); is == was {
					t.Errorf("%s and %s are both %s", of.program.Source(), source, is)
				} else if is != "" {
					count++
				}
			}
		}
	}
	if count < 1000 {
		t.Errorf("%d changes", count)
	}
}

// The tables are about what there is, and no two kinds are called the same.
func TestPhrases(t *testing.T) {
	fields := map[string]bool{}
	for _, f := range policy.Fields() {
		fields[f.Path] = true
	}
	for _, path := range policy.Labels() {
		if !fields[strings.TrimSuffix(path, "['']")] {
			t.Errorf("%s has a label and is no field", path)
		}
	}
	called := map[string]string{}
	for _, k := range policy.Kinds() {
		phrase := policy.KindPhrase(k.Name)
		if other := called[phrase]; other != "" {
			t.Errorf("%s and %s are called %s", k.Name, other, phrase)
		}
		called[phrase] = k.Name
	}
	for _, row := range policy.Phrases {
		if called[row[1]] != row[0] {
			t.Errorf("%s is no kind", row[0])
		}
	}
	for _, row := range policy.Groups {
		if !slices.ContainsFunc(policy.Kinds(), func(k policy.Kind) bool { return k.Action == row[0] || k.Resource == row[0] }) {
			t.Errorf("%s is no action and no resource", row[0])
		}
	}
	for _, row := range policy.Functions {
		if hash := policy.Keccak256([]byte(row[1])); hex.EncodeToString(hash[:4]) != row[0] {
			t.Errorf("%s has the selector %x", row[1], hash[:4])
		}
	}
}

// What does not compile is given as it stands.
func TestDescribeSources(t *testing.T) {
	w := policy.DescribeSources("EFFECT_DENY", "", "not this", "")
	if w.Everything || w.Who.Text != "every user" || w.What.Text != "not this" || w.When.Text != "always" || w.Sentence != "Denies what its expressions say." {
		t.Errorf("%+v", w)
	}
}

func BenchmarkDescribe(b *testing.B) {
	p, err := compilePolicy(casePolicy{Effect: "EFFECT_ALLOW", Condition: "activity.kind == 'SIGN_TRANSACTION' && eth.tx.to == '0x2222222222222222222222222222222222222222' && eth.tx.value < 1000000000000000000",
		Consensus: "approvers.filter(u, u.tags.contains('" + opsTag + "')).count() >= 2", Time: "CronSpan('0 9 * * 1-5', '8h', 'Europe/Paris')"})
	if err != nil {
		b.Fatal(err)
	}
	names := someNames()
	b.ReportAllocs()
	for b.Loop() {
		policy.Describe(p, names)
	}
}
