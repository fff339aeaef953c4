package editor_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"cloister/enclave/editor"
	"cloister/enclave/internal/policy"
	"cloister/enclave/lint"
)

// complete asks what can stand at the | of a text, which may stand between two others to name what is replaced.
func complete(t *testing.T, clause, text string) (*editor.Completion, string) {
	t.Helper()
	before, behind, _ := strings.Cut(text, "|")
	text = before + behind
	c := answer(t, editor.Question{Ask: "complete", Organization: acme(t), Clause: clause, Text: text, At: len(utf16.Encode([]rune(before)))}).Completion
	return c, at(t, text, c.From, c.To)
}

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		clause, text string
		replaces     string
		first        string // options, the first ones in their order
		without      string // texts that are no options
	}{
		// Roots and groups.
		{"condition", "|", "", "activity.type activity.kind activity.resource activity.action activity.params wallet wallets", "approvers time.now"},
		{"consensus", "|", "", "approvers credentials true false", "wallet"},
		{"time", "|", "", "time.now true false Timestamp(' CronSpan('", "wallet approvers"},
		{"condition", "wal|", "wal", "wallet wallets wallet_account wallet.id", "eth.tx"},
		{"condition", "eth.tx.value > 5 && pri|vate", "private", "private_key", "wallet"},
		{"condition", "eth.|", "", "tx eip_712 eip_7702_authorization", "kind"},
		{"condition", "activity.ki|", "ki", "kind", "type"},
		{"condition", "approvers.|", "", "", "any( id"},
		{"condition", "(chain|", "chain", "eth.tx.chain_id eth.eip_712.domain.chain_id", "wallet"},
		{"condition", "tru|", "tru", "true", "false"},

		// Members.
		{"condition", "eth.tx.v|", "v", "value", "to from"},
		{"condition", "wallet.label == '😀' && eth.tx.v|", "v", "value", "to"},
		{"condition", "wallet_account.|", "", "address path_indexes path_hardened", "id"},
		{"condition", "eth.eip_712.domain.|", "", "name version chain_id verifying_contract", ""},
		{"condition", "tron.tx.contract[0].a|", "a", "amount actives", "type"},
		{"condition", "solana.tx.transfers.|", "", "all(t,  any(t,  filter(t,  contains( count()", "to"},
		{"condition", "solana.tx.transfers.filter(t, t.amount > 5).c|", "c", "contains( count()", "any("},
		{"condition", "eth.tx.value.|", "", "", "any( value"},
		{"condition", "eth.tx.contract_call_args['a'].|", "", "all(x,  any(x, ", ""},
		{"condition", "nothing.|", "", "", "any("},
		{"condition", "5.|", "", "", "any("},

		// Variables.
		{"consensus", "approvers.any(u, u.|", "", "id email alias tags", "any("},
		{"consensus", "approvers.any(u, u.tags.|", "", "all(x,  any(x,  filter(x,  contains( count()", "id"},
		{"consensus", "approvers.any(u, |", "", "u approvers credentials", ""},
		{"consensus", "approvers.any(u, u.id == 'x') && u|", "u", "true", "u"},
		{"consensus", "approvers.any(u, u.id == 'x') && u.|", "", "", "id"},
		{"consensus", "approvers.any(|", "", "u, ", "approvers"},
		{"consensus", "approvers.any(u, approvers.any(|", "", "uu, ", "u, "},
		{"consensus", "approvers.filter(a, a.tags.count() > 0).any(b, b.|", "", "id email alias tags", ""},
		{"condition", "solana.tx.instructions.any(i, i.accounts.any(a, a.s|", "s", "signer", ""},
		{"condition", "solana.tx.instructions.any(i, i.accounts.any(a, a.signer) && i.|", "", "program_key accounts", "signer"},
		{"condition", "solana.tx.instructions.any(i, [i.|", "", "program_key", ""},

		// Operators.
		{"condition", "eth.tx.value |", "", "== != < <= > >= in", "&& ||"},
		{"condition", "eth.tx.to |", "", "== != in", "< &&"},
		{"condition", "eth.tx.to i|", "i", "in", "=="},
		{"condition", "eth.tx.value > 5 |", "", "&& ||", "== wallet"},
		{"condition", "wallet.imported |", "", "== != && ||", "in <"},
		{"condition", "eth.tx.to in ['a'] |", "", "&& ||", "=="},
		{"condition", "solana.tx.transfers.any(t, t.amount > 1) |", "", "== != && ||", "in"},
		{"condition", "12|", "12", "", "=="},

		// Values.
		{"condition", "activity.kind == 'SIGN_T|", "SIGN_T", "SIGN_TRANSACTION", "CREATE_WALLET"},
		{"condition", "activity.kind == '|SIGN_TRANSACTION' && eth.tx.to == ''", "SIGN_TRANSACTION", "EMAIL_AUTH", ""},
		{"condition", "activity.kind == '| && eth.tx.to == ''", "", "EMAIL_AUTH", "UPDATE_ROOT_QUORUM"},
		{"condition", "activity.kind in ['SIGN_TRANSACTION', '|']", "", "EMAIL_AUTH", ""},
		{"condition", "activity.kind == |", "", "'EMAIL_AUTH'", "EMAIL_AUTH"},
		{"condition", "activity.kind in [wal|", "wal", "wallet wallets wallet_account", ""},
		{"condition", "activity.kind = '|", "", "EMAIL_AUTH", ""},
		{"condition", "'SIGN|' == activity.action", "SIGN", "SIGN", "CREATE"},
		{"condition", "'|' in private_key.tags && true", "", cold, operators},
		{"condition", "activity.resource != 'POL|'", "POL", "POLICY MFA_POLICY", "USER"},
		{"condition", "activity.action == 'I|", "I", "IMPORT VERIFY SIGN", "EXPORT_ALL"},
		{"condition", "activity.params.payload_kind == 'M|'", "M", "MESSAGE DOCUMENT", ""},
		{"condition", "wallet.id == '|'", "", treasury, own},
		{"condition", "wallet.id == 'trea|'", "trea", treasury, ""},
		{"condition", "wallet.label == '|'", "", "Treasury", ""},
		{"condition", "wallets.any(w, w.id == '|')", "", treasury, ""},
		{"condition", "private_key.id in ['|']", "", cold, ""},
		{"condition", "private_key.tags.contains('|", "", cold, operators},
		{"condition", "bitcoin.tx.outputs.all(o, o.address_type in ['P2W|", "P2W", "P2WPKH P2WSH", "P2TR"},
		{"consensus", "approvers.any(u, u.id == '|')", "", alice + " " + bob, ""},
		{"consensus", "approvers.any(u, u.id == 'b|')", "b", bob, alice},
		{"consensus", "approvers.any(u, '|' == u.id)", "", alice + " " + bob, ""},
		{"consensus", "approvers[0].id == '|'", "", alice + " " + bob, ""},
		{"consensus", "approvers.any(u, u.tags.contains('|'))", "", operators, cold},
		{"consensus", "approvers.any(u, u.tags.contains(|))", "", "'" + operators + "' u approvers", cold},
		{"consensus", "approvers.any(u, u.email == '|')", "", "bob@acme.example", ""},
		{"consensus", "credentials.any(c, c.type == 'CREDENTIAL_TYPE_W|')", "CREDENTIAL_TYPE_W", "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR", ""},
		{"condition", "eth.tx.to == '|'", "", "", treasury},
		{"time", "CronSpan('|", "", "0 9 * * 1-5", ""},
		{"time", "CronSpan('0 9 * * 1-5', '|'", "", "30m 8h 1d", ""},
		{"time", "CronSpan('0 9 * * 1-5', '8h', 'Eur|'", "Eur", "Europe/London Europe/Paris", "Etc/UTC"},
		{"time", "time.now < Timestamp('|", "", "2026-01-31T12:00:00Z", ""},
		{"time", "time.n|", "n", "now", ""},
	} {
		t.Run(c.clause+": "+c.text, func(t *testing.T) {
			got, replaces := complete(t, c.clause, c.text)
			var texts []string
			for _, o := range got.Options {
				texts = append(texts, o.Text)
				if o.Label == "" || o.Kind == "" {
					t.Errorf("%+v", o)
				}
			}
			all := " " + strings.Join(texts, " ") + " "
			if replaces != c.replaces || !strings.HasPrefix(all, " "+c.first) || c.first == "" && len(texts) > 0 {
				t.Errorf("replaces %q by%.300s", replaces, all)
			}
			for _, no := range strings.Fields(c.without) {
				if strings.Contains(all, " "+no+" ") {
					t.Errorf("%s is an option", no)
				}
			}
		})
	}
}

// An option has a name in place of an id, a type, and a note.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		clause, text string
		want         editor.Option
	}{
		{"condition", "eth.tx.val|", editor.Option{Text: "value", Label: "value", Kind: "field", Detail: "int", Note: "amount in wei: 1 ETH is 1000000000000000000"}},
		{"consensus", "approvers.any(u, u.id == 'ali|", editor.Option{Text: alice, Label: "Alice", Kind: "value", Detail: alice}},
		{"consensus", "approvers.an|", editor.Option{Text: "any(u, ", Label: "any", Kind: "method", Detail: "bool", Note: "list.any(x, test): true if the test is true of one item or more"}},
		{"condition", "activity.kind == 'EXPORT_WALLET|", editor.Option{Text: "EXPORT_WALLET", Label: "EXPORT_WALLET", Kind: "value", Note: "exporting a wallet"}},
		{"condition", "wallet_acc|", editor.Option{Text: "wallet_account", Label: "wallet_account", Kind: "root", Detail: "WalletAccount"}},
		{"condition", "fals|", editor.Option{Text: "false", Label: "false", Kind: "keyword", Detail: "bool"}},
	} {
		got, _ := complete(t, c.clause, c.text)
		if len(got.Options) == 0 || got.Options[0] != c.want {
			t.Errorf("%s: %+v", c.text, got.Options)
		}
	}
}

// There are never more options than a list can show, and no name that a literal cannot hold.
func TestOptionsAreBounded(t *testing.T) {
	o := acme(t)
	for i := range 300 {
		o.Users = append(o.Users, lint.User{ID: fmt.Sprint("id", i), Name: fmt.Sprint("User ", i)})
	}
	o.Wallets[0].Name = "Bob's wallet"
	q := editor.Question{Ask: "complete", Organization: o, Clause: "consensus", Text: "approvers.any(u, u.id == '", At: 26}
	if n := len(answer(t, q).Options); n != editor.MaxOptions {
		t.Errorf("%d options", n)
	}
	q.Text, q.At = "approvers.any(u, u.id == 'user 29", 33
	if options := answer(t, q).Options; len(options) != 11 || options[0].Label != "User 29" || options[1].Label != "User 290" {
		t.Errorf("%+v", options)
	}
	q.Clause, q.Text, q.At = "condition", "wallet.label == '", 17
	if options := answer(t, q).Options; len(options) != 0 {
		t.Errorf("%+v", options)
	}
}

func TestCompletionsRefused(t *testing.T) {
	for _, c := range []struct {
		clause, text string
		at           int
		want         string
	}{
		{"", "eth", 3, "want clause"},
		{"effect", "eth", 3, "want clause"},
		{"condition", "eth", 4, "want at"},
		{"condition", "eth", -1, "want at"},
		{"condition", "'😀'", 2, "want at"}, // inside of a character
		{"condition", strings.Repeat(" ", 16<<10) + "x", 0, "at most 16384 bytes"},
	} {
		q := editor.Question{Ask: "complete", Organization: acme(t), Clause: c.clause, Text: c.text, At: c.at}
		if a, err := q.Answer(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %+v, %v", c, a, err)
		}
	}
}

// A field that does not exist was perhaps meant to be another one.
func TestMeant(t *testing.T) {
	for text, want := range map[string]string{
		"eth.tx.valu < 5": "Field does not exist: valu; did you mean value?", "walet.id == ''": "Field does not exist: walet; did you mean wallet?",
		"activty.kind == 'A'": "Field does not exist: activty; did you mean activity?", "eth.tx.ammount < 5": "Field does not exist: ammount",
		"solana.tx.transfers.all(t, t.amuont < 5)": "Field does not exist: amuont; did you mean amount?", "x == 1": "Field does not exist: x", "null": "Field does not exist: null; there is no null, and reading what a request lacks is an error",
	} {
		a := answer(t, editor.Question{Ask: "check", Organization: acme(t), Policy: allow(text, "", "")})
		if len(a.Problems) != 1 || a.Problems[0].Message != want {
			t.Errorf("%s: %+v", text, a.Problems)
		}
	}
}

// What a field can be is known of fields that there are.
func TestKnownValues(t *testing.T) {
	for _, f := range policy.Fields() {
		for _, v := range policy.KnownValues(f.Path) {
			if f.Type != "string" || v.Text == "" {
				t.Errorf("%s, a %s, is %+v", f.Path, f.Type, v)
			}
			text := f.Path + " == '" + v.Text + "'"
			if strings.Contains(f.Path, "[]") {
				continue
			}
			if m := policy.FindMistake(f.Clause, text); m != nil {
				t.Errorf("%s: %+v", text, m)
			}
		}
	}
}

// Whatever is asked, the answer is about places of the text, and nothing panics.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{"", "eth.tx.v", "activity.kind == 'SIGN_T", "approvers.any(u, u.tags.contains('x')).filter(", "CronSpan('0 9 * * 1-5', '8h', 'Europe/Paris')", "😀 && '€", "((([[[...", "0x1 = \"a\"", "a.b(c, d.e(f, ", "x in ['", "any(any(any(u,",
		"eth.tx.data[0..10] == '0xa9059cbb' || !(wallets.all(w, w.id in ['a', w.label]))", "approvers.filter(u, u.id == 'a').count() >= 2", "time.now < Timestamp('2026-01-31T12:00:00Z')"} {
		for clause := range 3 {
			f.Add(text, uint(len(text)), uint8(clause), text)
		}
	}
	f.Fuzz(func(t *testing.T, text string, place uint, clause uint8, other string) {
		text = strings.ToValidUTF8(text, "\ufffd") // as JSON is read
		units := len(utf16.Encode([]rune(text)))
		o := acme(t, lint.Policy{ID: "a", Effect: "EFFECT_DENY", Condition: other, Consensus: other, Time: other})
		name := []string{"condition", "consensus", "time"}[clause%3]
		q := editor.Question{Ask: "complete", Organization: o, Clause: name, Text: text, At: int(place % uint(units+1))}
		if a, err := q.Answer(); err == nil {
			if a.From < 0 || a.From > q.At || a.To < q.At || a.To > units || len(a.Options) > editor.MaxOptions {
				t.Fatalf("%+v of %q at %d", a.Completion, text, q.At)
			}
		}
		p := &lint.Policy{Effect: []string{"EFFECT_ALLOW", "EFFECT_DENY"}[clause/3%2]}
		*map[string]*string{"condition": &p.Condition, "consensus": &p.Consensus, "time": &p.Time}[name] = text
		q = editor.Question{Ask: "check", Organization: o, Policy: p}
		a, err := q.Answer()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range a.Problems {
			if x.From < 0 || x.From > x.To || x.To > units || x.Message == "" {
				t.Fatalf("%+v of %q", x, text)
			}
		}
		if (a.Words == nil) != (len(a.Problems) > 0) || a.Words != nil && (a.Words.Sentence == "" || a.Words.Who.Text == "" || a.Words.What.Text == "" || a.Words.When.Text == "") {
			t.Fatalf("%+v of %q", a.Check, text)
		}
		for _, w := range a.Check.Warnings {
			if w.From < 0 || w.From > units {
				t.Fatalf("%+v of %q", w, text)
			}
		}
		q = editor.Question{Ask: "describe", Organization: o, PolicyIDs: []string{"a"}}
		if _, err := q.Answer(); err != nil {
			t.Fatal(err)
		}
	})
}
