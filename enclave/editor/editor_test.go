package editor_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"cloister/enclave/editor"
	"cloister/enclave/internal/policy"
	"cloister/enclave/lint"
)

const (
	alice     = "11111111-1111-4111-8111-111111111111"
	bob       = "22222222-2222-4222-8222-222222222222"
	operators = "33333333-3333-4333-8333-333333333333"
	treasury  = "44444444-4444-4444-8444-444444444444"
	cold      = "55555555-5555-4555-8555-555555555555"
	own       = "66666666-6666-4666-8666-666666666666"
)

// acme is what get_organization answers, with more policies.
func acme(t testing.TB, policies ...lint.Policy) *editor.Organization {
	t.Helper()
	o := new(editor.Organization)
	if err := json.Unmarshal([]byte(`{"name": "Acme", "users": [
		{"userId": "`+alice+`", "userName": "Alice", "userTags": ["`+operators+`"], "apiKeys": [{"apiKeyId": "`+own+`", "credential": {"publicKey": "02ab", "type": "CREDENTIAL_TYPE_API_KEY_P256"}}]},
		{"userId": "`+bob+`", "userName": "Bob", "userEmail": "bob@acme.example", "userTags": ["`+operators+`"], "authenticators": [{"authenticatorId": "`+own+`", "credentialId": "x", "credential": {"type": "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR"}}]}
	], "rootQuorum": {"threshold": 1, "userIds": []},
	"tags": [{"tagId": "`+operators+`", "tagName": "Operators", "tagType": "TAG_TYPE_USER"}, {"tagId": "`+cold+`", "tagName": "Cold", "tagType": "TAG_TYPE_PRIVATE_KEY"}],
	"wallets": [{"walletId": "`+treasury+`", "walletName": "Treasury"}], "privateKeys": [{"privateKeyId": "`+cold+`", "privateKeyName": "Cold key"}], "policies": []}`), o); err != nil {
		t.Fatal(err)
	}
	o.Policies = policies
	return o
}

func answer(t *testing.T, q editor.Question) *editor.Answer {
	t.Helper()
	a, err := q.Answer()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// at is the part of a text between two offsets of UTF-16.
func at(t *testing.T, text string, from, to int) string {
	t.Helper()
	units := utf16.Encode([]rune(text))
	if from < 0 || from > to || to > len(units) {
		t.Fatalf("from %d to %d of %d units", from, to, len(units))
	}
	return string(utf16.Decode(units[from:to]))
}

func allow(condition, consensus, time string) *lint.Policy {
	return &lint.Policy{Name: "new", Effect: "EFFECT_ALLOW", Condition: condition, Consensus: consensus, Time: time}
}

// A problem is at the word at fault, and says what it is.
func TestProblems(t *testing.T) {
	for _, c := range []struct{ clause, text, word, message string }{
		{"condition", "eth.tx.valu < 5", "valu", "Field does not exist: valu; did you mean value?"},
		{"condition", "wallet.label == '😀' && eth.tx.valu < 5", "valu", "Field does not exist: valu"},
		{"condition", "'😀' == wallet.label && 'é' = wallet.label", "=", "Unexpected '=', use =="},
		{"condition", "activity.kind === 'A'", "===", "Unexpected '=', use =="},
		{"condition", "activity.kind == \"A\"", "\"A\"", "Unexpected '\"', strings stand between single quotes"},
		{"condition", "activity.kind == 'A", "'A", "The string does not end"},
		{"condition", "activity.kind ==", "", "Unexpected end, want value"},
		{"condition", "eth.tx.value < 0x10", "0x10", "A number is decimal digits only; addresses and data stand between single quotes"},
		{"condition", "eth.tx.value < 'a'", "'a'", "String has no order"},
		{"condition", "eth", "eth", "eth is no value by itself, only its members are"},
		{"condition", "approvers.count() > 1", "approvers", "approvers can be used in the consensus only, not in the condition"},
		{"condition", "wallet.label.any(x, true)", "any", "any is for lists, this is string"},
		{"condition", "a == 1 € 2", "€", "Unexpected '€'"},
		{"consensus", "approvers.any(u, u.id == 'x'", "", "Unexpected end, want \")\""},
		{"consensus", "eth.tx.value < 5", "eth", "eth.tx can be used in the condition only, not in the consensus"},
		{"time", "CronSpan('0 9 * * 8', '8h', 'Europe/Paris')", "'0 9 * * 8'", "\"8\" is not within 0 to 6"},
		{"time", "time.now == '2026'", "time", "Timestamp cannot be compared with string"},
		{"time", strings.Repeat(" ", 17<<10), " ", "Longer than 16384 bytes"},
	} {
		t.Run(c.text[:min(len(c.text), 40)], func(t *testing.T) {
			p := allow("", "", "")
			*map[string]*string{"condition": &p.Condition, "consensus": &p.Consensus, "time": &p.Time}[c.clause] = c.text
			a := answer(t, editor.Question{Ask: "check", Organization: acme(t), Policy: p})
			if len(a.Problems) != 1 || a.Words != nil || len(a.Check.Warnings) != 0 {
				t.Fatalf("%+v", a.Check)
			}
			got := a.Problems[0]
			word := at(t, c.text, got.From, got.To)
			if c.word == "" {
				word += at(t, c.text, got.From, len(utf16.Encode([]rune(c.text)))) // it is at the end
			}
			if got.Clause != c.clause || word != c.word || !strings.HasPrefix(got.Message, c.message) {
				t.Errorf("%q at %q in the %s", got.Message, word, got.Clause)
			}
		})
	}
}

// Each clause has a problem of its own.
func TestEachClauseIsChecked(t *testing.T) {
	a := answer(t, editor.Question{Ask: "check", Organization: acme(t), Policy: allow("eth.tx.valu < 1 && eth.tx.too == ''", "true &&", "time.new")})
	var got []string
	for _, p := range a.Problems {
		got = append(got, p.Clause)
	}
	if !slices.Equal(got, []string{"condition", "consensus", "time"}) {
		t.Error(got)
	}
}

// A policy is looked at beside the others, and in place of the one with its id.
func TestWarningsOfACheck(t *testing.T) {
	deny := func(id, condition string) lint.Policy {
		return lint.Policy{ID: id, Name: id, Effect: "EFFECT_DENY", Condition: condition}
	}
	codes := func(o *editor.Organization, p lint.Policy) (out string) {
		a := answer(t, editor.Question{Ask: "check", Organization: o, Policy: &p})
		if a.Words == nil || len(a.Problems) != 0 {
			t.Fatalf("%+v", a.Check)
		}
		for _, w := range a.Check.Warnings {
			out += fmt.Sprint(" ", w.Code, "@", w.Clause, w.From)
		}
		return out
	}
	sign := "activity.action == 'SIGN'"
	other := deny("", sign+" && '😀' != wallet.label")
	if got := codes(acme(t), other); got != " DENY_CAN_ERROR@condition37" {
		t.Error(got)
	}
	if got := codes(acme(t, deny("a", sign)), other); got != "" {
		t.Error(got)
	}
	other.ID = "a"
	o := acme(t, deny("a", sign))
	if got := codes(o, other); got != " DENY_CAN_ERROR@condition37" {
		t.Error(got)
	}
	if o.Policies[0].Condition != sign {
		t.Error("the check has changed the organization")
	}
	if got := codes(acme(t, deny("b", "what is this")), other); got != " DENY_CAN_ERROR@condition37" {
		t.Errorf("beside a policy that does not compile: %s", got)
	}
}

func TestDescribe(t *testing.T) {
	all := []lint.Policy{{ID: "a", Name: "A", Effect: "EFFECT_ALLOW"}, {ID: "b", Name: "B", Effect: "EFFECT_DENY", Condition: "not this"}, {ID: "c", Name: "C", Effect: "EFFECT_ALLOW", Condition: "activity.kind == 'CREATE_WALLETS'"}}
	a := answer(t, editor.Question{Ask: "describe", Organization: acme(t, all...), PolicyIDs: []string{"b", "c", "d"}})
	if len(a.Policies) != 2 || a.Policies["b"].Words.What.Text != "not this" || !strings.HasPrefix(a.Policies["b"].Words.Sentence, "Denies ") || a.Policies["b"].Words.Everything ||
		len(a.Policies["b"].Warnings) != 0 || len(a.Policies["c"].Warnings) != 2 {
		t.Errorf("%+v", a.Policies)
	}
}

func TestRefused(t *testing.T) {
	p := allow("", "", "")
	many := acme(t, make([]lint.Policy, 1001)...)
	nobody := acme(t)
	nobody.Users[0].ID = "nobody"
	for _, c := range []struct {
		q    editor.Question
		want string
	}{
		{editor.Question{}, "want an organization"},
		{editor.Question{Ask: "guess", Organization: acme(t)}, "want ask to be"},
		{editor.Question{Ask: "check", Policy: p}, "want an organization"},
		{editor.Question{Ask: "check", Organization: acme(t)}, "want a policy"},
		{editor.Question{Ask: "check", Organization: many, Policy: p}, "at most 1000 policies"},
		{editor.Question{Ask: "describe", Organization: many}, "at most 1000 policies"},
		{editor.Question{Ask: "describe", Organization: nobody}, `"nobody" is no id`},
		{editor.Question{Ask: "check", Organization: nobody, Policy: p}, `"nobody" is no id`},
		{editor.Question{Ask: "check", Organization: acme(t), Policy: &lint.Policy{Effect: "EFFECT_PERHAPS"}}, `"EFFECT_PERHAPS" is no effect`},
	} {
		if a, err := c.q.Answer(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %+v, %v", c.q, a, err)
		}
	}
}

// The members of an answer are those of its question, and lists are never null.
func TestMembers(t *testing.T) {
	for ask, want := range map[string]string{"language": "fields kinds methods", "check": "problems warnings words", "describe": "policies"} {
		b, err := json.Marshal(answer(t, editor.Question{Ask: ask, Organization: acme(t), Policy: allow("activity.kind == 'CREATE_WALLET'", "", "")}))
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(b, &members); err != nil {
			t.Fatal(err)
		}
		var names []string
		for name, v := range members {
			names = append(names, name)
			if string(v) == "null" {
				t.Errorf("%s: %s is null", ask, name)
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s has %s, want %s", ask, got, want)
		}
	}
}

// Notes are about fields that there are, and what has a unit says which.
func TestLanguage(t *testing.T) {
	l := answer(t, editor.Question{Ask: "language"}).Language
	paths := map[string]string{}
	for _, f := range l.Fields {
		paths[f.Path] = f.Note
		if f.Type == "" || f.Clause == "" {
			t.Errorf("%+v", f)
		}
	}
	for path := range editor.Notes {
		if _, ok := paths[path]; !ok {
			t.Errorf("a note is about %s, which is no field", path)
		}
	}
	if len(l.Fields) != len(policy.Fields()) || len(l.Kinds) != len(policy.Kinds()) || len(l.Methods) != 7 {
		t.Errorf("%d fields, %d kinds, %d methods", len(l.Fields), len(l.Kinds), len(l.Methods))
	}
	for path, unit := range map[string]string{"eth.tx.value": "wei", "solana.tx.transfers[].amount": "lamports", "bitcoin.tx.fee": "satoshi", "tron.tx.fee_limit": "sun"} {
		if !strings.Contains(paths[path], unit) {
			t.Errorf("%s: %s", path, paths[path])
		}
	}
	if !reflect.DeepEqual(l.Kinds[0], editor.Kind{Name: "EMAIL_AUTH", Resource: "AUTH", Action: "CREATE"}) {
		t.Errorf("%+v", l.Kinds[0])
	}
}

// thousand are 1,000 policies as people write them, of an organization with 200 users.
func thousand(t testing.TB) *editor.Organization {
	o := acme(t)
	for i := range 200 {
		o.Users = append(o.Users, lint.User{ID: fmt.Sprintf("99999999-9999-4999-8999-%012d", i), Name: fmt.Sprint("User ", i), Tags: []string{operators}})
	}
	o.RootQuorum.UserIDs = []string{alice}
	for i := range 1000 {
		p := *allow("activity.kind == 'SIGN_TRANSACTION' && wallet.id == '"+treasury+"' && eth.tx.to == '0x"+fmt.Sprintf("%040d", i)+"' && eth.tx.value < 1000000000000000000",
			fmt.Sprintf("approvers.filter(u, u.tags.contains('"+operators+"') && u.id != '99999999-9999-4999-8999-%012d').count() >= 2", i%200), "")
		if i%2 == 1 {
			p = *allow("activity.action == 'SIGN' && eth.tx.data[0..10] in ['0xa9059cbb', '0x095ea7b3'] && solana.tx.transfers.any(t, t.to == 'x')", "", "CronSpan('0 9 * * 1-5', '8h', 'Europe/Paris')")
			p.Effect = "EFFECT_DENY"
		}
		p.ID = fmt.Sprint("p", i)
		o.Policies = append(o.Policies, p)
	}
	return o
}

// BenchmarkDescribe and BenchmarkCheck have the JSON read and written too.
func BenchmarkDescribe(b *testing.B) {
	o := thousand(b)
	var ids []string
	for i := range o.Policies {
		ids = append(ids, o.Policies[i].ID)
	}
	benchmark(b, editor.Question{Ask: "describe", Organization: o, PolicyIDs: ids})
}

func BenchmarkCheck(b *testing.B) {
	o := thousand(b)
	benchmark(b, editor.Question{Ask: "check", Organization: o, Policy: &o.Policies[7]})
}

func benchmark(b *testing.B, q editor.Question) {
	text, err := json.Marshal(q)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		q := new(editor.Question)
		if err := json.Unmarshal(text, q); err != nil {
			b.Fatal(err)
		}
		a, err := q.Answer()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(a); err != nil {
			b.Fatal(err)
		}
	}
}
