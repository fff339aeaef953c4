package policy_test

import (
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

var pairs = flag.Int("pairs", 1_000_000, "how many policies to ask about a request")

// A neighbourhood makes policies and requests that nearly fit each other: what they
// say comes from small pools whose members differ in a letter, its case or one.
type neighbourhood struct{ *rand.Rand }

func (g neighbourhood) chance(percent int) bool { return g.IntN(100) < percent }

func among[T any](g neighbourhood, of ...T) T { return of[g.IntN(len(of))] }

var (
	long     = strings.Repeat("a", 64)
	vocables = map[string][]string{
		"activity.kind":                          {"SIGN_TRANSACTION", "SIGN_RAW_PAYLOAD", "SIGN_RAW_PAYLOADS", ""},
		"activity.resource":                      {"PRIVATE_KEY", "WALLET", "private_key"},
		"activity.action":                        {"SIGN", "CREATE", "EXPORT", ""},
		"activity.params.hash_function":          {"HASH_FUNCTION_NO_OP", "HASH_FUNCTION_SHA256"},
		"wallet.id":                              {"11111111-1111-4111-a111-111111111111", "11111111-1111-4111-a111-111111111112", "11111111-1111-4111-A111-111111111111"},
		"wallet.label":                           {"hot", "Hot", "hoT", "", long, long + "b", long[1:], "GrÖße", "Größe"},
		"wallet_account.address":                 {"0xaBcD", "0xabcd", "0xabce", "abcd"},
		"eth.tx.to":                              {"0xaBcD", "0xabcd", "0xABCE", "0x@", "0x`", "0x[", "0x{", ""},
		"eth.tx.type":                            {"TYPE_2", "type_2"},
		"eth.tx.function_signature":              {"0xa9059cbb", "0xA9059CBB", "0xa9059cba"},
		"eth.eip_7702_authorization.address":     {"0xab", "0xAb"},
		"eth.tx.contract_call_args['recipient']": {"0xab", "7", "x"},
	}
	numbers  = []string{"eth.tx.value", "eth.tx.chain_id", "eth.tx.nonce", "eth.eip_712.domain.chain_id", "activity.params.otp_length", "bitcoin.tx.outputs[0].value", "bitcoin.tx.inputs.count()", "eth.eip_7702_authorization.nonce"}
	truths   = []string{"wallet.imported", "wallet.exported", "private_key.imported"}
	integers = []string{"0", "1", "2", "-1", "-2", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
		"170141183460469231731687303715884105727", "170141183460469231731687303715884105728"}
)

func sortedKeys(m map[string][]string) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

var texts = sortedKeys(vocables)

func (g neighbourhood) quoted(path string) string {
	if g.chance(5) {
		path = among(g, texts...)
	}
	return "'" + among(g, vocables[path]...) + "'"
}

// comparison is one that a policy might make, rarely one that does not compile.
func (g neighbourhood) comparison() string {
	sides := func(a, op, b string) string {
		if g.chance(20) {
			a, b = b, a
		}
		return a + " " + op + " " + b
	}
	list := func(item func() string) string {
		items := make([]string, 1+g.IntN(3))
		for i := range items {
			items[i] = item()
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	in := func(item, list string) string {
		if g.chance(30) {
			return list + ".contains(" + item + ")"
		}
		return item + " in " + list
	}
	text, number := among(g, texts...), among(g, numbers...)
	if g.chance(40) {
		text = among(g, "activity.kind", "activity.resource", "wallet.id", "eth.tx.to")
	}
	switch n := g.IntN(100); {
	case n < 45:
		return sides(text, among(g, "==", "==", "!="), g.quoted(text))
	case n < 55:
		return in(text, list(func() string { return g.quoted(text) }))
	case n < 70:
		return sides(number, among(g, "==", "!=", "<", ">", "<=", ">="), among(g, integers...))
	case n < 75:
		return in(number, list(func() string { return among(g, integers...) }))
	case n < 80:
		return among(g, truths...)
	case n < 84:
		return sides(among(g, truths...), among(g, "==", "!="), among(g, "true", "false"))
	case n < 86:
		return among(g, "true", "false")
	}
	// What is walked.
	return among(g, "private_key.tags.contains('t1')", "wallets.any(w, w.id == "+g.quoted("wallet.id")+")", "eth.tx.to[0..2] == '0x'", "bitcoin.tx.outputs.all(o, o.value < 2)",
		"activity.kind == activity.type", "eth.tx.value == eth.tx.nonce", "eth.eip_7702_authorization.chain_id == '1'", "activity.action in [activity.kind, 'SIGN']", "[].contains(activity.kind)",
		"wallet_account.path_indexes.count() > 1", "eth.eip_712.message['a'] == 1")
}

func (g neighbourhood) condition(depth int) string {
	if depth == 0 || g.chance(30) {
		return g.comparison()
	}
	switch g.IntN(10) {
	case 0:
		return "!(" + g.condition(depth-1) + ")"
	case 1, 2:
		return "(" + g.condition(depth-1) + " || " + g.condition(depth-1) + ")"
	}
	parts := []string{g.condition(depth - 1), g.condition(depth - 1)}
	if g.chance(30) {
		parts = append(parts, g.condition(depth-1))
	}
	return strings.Join(parts, " && ")
}

// consensus is one that a policy might demand.
func (g neighbourhood) consensus(depth int) string {
	if depth > 0 && g.chance(25) {
		return fmt.Sprintf(among(g, "!(%s) && %s", "(%s || %s)", "%s && %s"), g.consensus(depth-1), g.consensus(depth-1))
	}
	tag := func() string {
		return among(g, "'01000000-0000-0000-0000-000000000000'", "'02000000-0000-0000-0000-000000000000'", "'x'")
	}
	field := func() string {
		return among(g, "id", "id", "email", "alias")
	}
	literal := func() string {
		return among(g, "'61000000-0000-0000-0000-000000000000'", "'62000000-0000-0000-0000-000000000000'", "'63000000-0000-0000-0000-000000000000'", "'a'", "'A'", "'a@example.com'", "'A@Example.com'", "'"+long+"'")
	}
	one := func() string {
		switch g.IntN(8) {
		case 0:
			return "u." + field() + " in [" + literal() + ", " + literal() + "]"
		case 1:
			return literal() + " != u." + field()
		case 2, 3:
			return "u.tags.contains(" + tag() + ")"
		case 4:
			return tag() + " in u.tags"
		case 5:
			return among(g, "u.id[0] == '6'", "u.tags.count() == 1", "u.tags.any(x, x == u.id)", "true", "u.id == u.email")
		}
		return "u." + field() + " == " + literal()
	}
	lambda := one()
	if g.chance(30) {
		lambda = among(g, "!(", "(") + lambda + among(g, " && ", " || ") + one() + ")"
	}
	switch g.IntN(10) {
	case 0:
		return among(g, "approvers.count() >= 2", "approvers[1].id == 'x'", "credentials.any(c, c.type == 'CREDENTIAL_TYPE_LOGIN')", "approvers.all(u, "+lambda+")", "false")
	case 1, 2, 3:
		return "approvers.filter(u, " + lambda + ").count() " + among(g, ">=", ">", "==", "!=", "<=", "<") + " " + among(g, "0", "1", "2")
	case 4:
		return among(g, "1", "2") + " <= approvers.filter(u, " + lambda + ").count()"
	}
	return "approvers.any(u, " + lambda + ")"
}

// policy is one that compiles.
func (g neighbourhood) policy(t testing.TB, n int) *policy.Policy {
	p := &policy.Policy{ID: [16]byte{14: byte(n >> 8), 15: byte(n)}, Name: fmt.Sprint("policy ", n), Effect: among(g, policy.EffectAllow, policy.EffectAllow, policy.EffectDeny)}
	if g.chance(70) {
		for p.Consensus == nil {
			p.Consensus, _ = policy.Compile(policy.ClauseConsensus, g.consensus(2))
		}
	}
	if g.chance(10) {
		p.Time = compile(t, policy.ClauseTime, among(g, "time.now < Timestamp('2026-03-10T12:00:00Z')", "time.now > Timestamp('2026-03-10T12:00:00Z')"))
	}
	for n > 0 || g.chance(50) { // what has none decides all
		if c, err := policy.Compile(policy.ClauseCondition, g.condition(2)); err == nil {
			p.Condition = c
			break
		}
	}
	return p
}

// value is what a fact may be, now and then not of its type.
func (g neighbourhood) value(path string) policy.Value {
	if g.chance(1) {
		return among(g, policy.Value{}, policy.Bool(true), policy.Int(1), policy.String("x"), policy.List())
	}
	if words := vocables[path]; words != nil {
		word := among(g, words...)
		if strings.HasPrefix(path, "eth.") && g.chance(70) || g.chance(30) {
			return policy.Hex(word)
		}
		return policy.String(word)
	}
	if slices.Contains(truths, path) {
		return policy.Bool(g.chance(50))
	}
	n, _ := new(big.Int).SetString(among(g, integers...), 10)
	if g.chance(10) {
		return policy.Dynamic(policy.BigInt(n))
	}
	return policy.BigInt(n)
}

// structure is a struct with what can be read below a root.
func (g neighbourhood) structure(root string, more ...policy.Member) policy.Value {
	var ms []policy.Member
	for _, path := range slices.Concat(texts, numbers, truths) {
		if name, ok := strings.CutPrefix(path, root+"."); ok && !strings.ContainsAny(name, ".[(") && !g.chance(2) {
			ms = append(ms, policy.Member{Name: name, Value: g.value(path)})
		}
	}
	return policy.Struct(append(ms, more...)...)
}

func (g neighbourhood) request() policy.Request {
	word := func(path string) string { return among(g, vocables[path]...) }
	r := policy.Request{Organization: [16]byte{1}, Activity: [16]byte{2}, Type: "ACTIVITY_TYPE_" + word("activity.kind"), Kind: word("activity.kind"), Resource: word("activity.resource"),
		Action: word("activity.action"), NowMs: 1773144000000 + g.Uint64N(3) - 1, Facts: policy.Facts{}, SelfService: g.chance(10)}
	if g.chance(85) {
		r.Params = g.structure("activity.params")
	}
	for _, root := range []string{"wallet", "wallet_account", "private_key", "eth.tx", "eth.eip_712", "eth.eip_7702_authorization", "bitcoin.tx"} {
		if !g.chance(85) {
			continue
		}
		switch root {
		case "eth.tx":
			r.Facts[root] = g.structure(root, policy.Member{Name: "contract_call_args", Value: policy.Dynamic(policy.Map(policy.Member{Name: "recipient", Value: g.value("eth.tx.to")}))})
		case "eth.eip_712":
			r.Facts[root] = g.structure(root, policy.Member{Name: "domain", Value: g.structure("eth.eip_712.domain")}, policy.Member{Name: "message", Value: policy.Map()})
		case "private_key":
			r.Facts[root] = g.structure(root, policy.Member{Name: "tags", Value: policy.Strings([]string{"t1", "t2"})})
		case "wallet_account":
			r.Facts[root] = g.structure(root, policy.Member{Name: "path_indexes", Value: policy.List(policy.Int(1), policy.Int(2))})
		case "bitcoin.tx":
			r.Facts[root] = policy.Struct(policy.Member{Name: "inputs", Value: policy.List()}, policy.Member{Name: "outputs", Value: policy.List(policy.Struct(policy.Member{Name: "value", Value: policy.Int(1)}))})
		default:
			r.Facts[root] = g.structure(root)
		}
	}
	if g.chance(5) {
		r.Facts[among(g, "wallet", "eth.tx", "private_key")] = among(g, policy.Int(1), policy.List(), policy.Value{})
	}
	if g.chance(5) {
		r.Payloads = []policy.Facts{{"eth.tx": g.structure("eth.tx")}, {"wallet": g.structure("wallet")}}
	}
	return r
}

// What is told from the views is what walking every condition tells: outcomes,
// clauses, explanations, steps, who may vote.
func TestShortIsWalked(t *testing.T) {
	most := *pairs
	if testing.Short() {
		most = 20_000
	}
	g := neighbourhood{rand.New(rand.NewPCG(1, 2))}
	users := staff("a b c")
	for i := range users {
		users[i].Tags = [][16]byte{{byte(1 + i%2)}}
	}
	counted := map[string]int{}
	for done := 0; done < most; {
		policies := make([]*policy.Policy, 20)
		for i := range policies {
			policies[i] = g.policy(t, i)
		}
		set := policy.NewSet(policies)
		walked := set.Walked()
		short := set.Short()
		for range 20 {
			r := g.request()
			for _, u := range users[:1+g.IntN(2)] {
				r.Approvals = append(r.Approvals, policy.Approval{User: u.ID, Credentials: u.Credentials})
			}
			budget, limit, limitOfVote := policy.MaxDecisionSteps, policy.MaxDecisionSteps, policy.MaxDecisionSteps
			ask := func(set *policy.Set) (d policy.Decision, es []policy.Evaluation, may bool, steps [2]int) {
				steps = [2]int{limit, limitOfVote}
				s := policy.State{RootUsers: ids("z"), Threshold: 1, Budget: budget, Steps: &steps[0], Users: func() ([]policy.User, error) { return users, nil },
					Policies: func() (*policy.Set, error) { return set, nil }}
				d, err := policy.Decide(s, r)
				if err != nil {
					t.Fatal(err)
				}
				s.Steps = &steps[1]
				if may, err = policy.MayVote(s, r, users[2].ID); err != nil {
					t.Fatal(err)
				}
				if steps[0] < -budget/8 || steps[1] < 0 {
					t.Fatalf("of %d steps, and %d to explain, %d are left, and of %d for a vote %d", limit, budget/8, steps[0], limitOfVote, steps[1])
				}
				return d, d.Evaluations.Each(), may, steps
			}
			if g.chance(40) { // limits that end within an expression
				_, _, _, left := ask(walked)
				limit, limitOfVote = g.IntN(limit-left[0]+2), g.IntN(limitOfVote-left[1]+2)
				budget = among(g, policy.MaxDecisionSteps, 8*limit+8, limit+1)
			}
			d, es, may, steps := ask(set)
			e, want, wantMay, wantSteps := ask(walked)
			if d.Basis == policy.BasisSteps && limit > 0 {
				counted["ended"]++
			}
			if budget < policy.MaxDecisionSteps && len(d.Evaluations.Reasons) > 0 {
				counted["explained within little"]++
			}
			if d.Outcome != e.Outcome || d.Basis != e.Basis || (d.Grant == nil) != (e.Grant == nil) || may != wantMay || steps != wantSteps || !reflect.DeepEqual(es, want) {
				for i := range es {
					if !reflect.DeepEqual(es[i], want[i]) {
						t.Errorf("%s\n is %+v\n not %+v", policies[i].Condition.Source(), es[i], want[i])
						break
					}
				}
				t.Fatalf("%+v\n%v by %d, may %v, %d steps left\nwalked %v by %d, may %v, %d steps left", r, d.Outcome, d.Basis, may, steps, e.Outcome, e.Basis, wantMay, wantSteps)
			}
			for i := range es {
				done++
				counted[fmt.Sprint(es[i].Verdict.Outcome)]++
				if short[i] {
					counted["short"]++
				}
			}
		}
	}
	t.Log(counted)
	total := 0
	for _, o := range []policy.Outcome{policy.Allow, policy.DenyExplicit, policy.DenyImplicit, policy.Error, policy.RequiresConsensus, policy.TimeInactive} {
		total += counted[o.String()]
	}
	for what, percent := range map[string]int{"short": 30, "ended": 1, policy.Allow.String(): 2, policy.DenyExplicit.String(): 2, policy.DenyImplicit.String(): 10, policy.Error.String(): 10} {
		if counted[what]*100 < percent*total {
			t.Errorf("%s is only %d of %d: it tests too little of it", what, counted[what], total)
		}
	}
}

// The conditions that people write many of are not walked.
func TestShort(t *testing.T) {
	for source, want := range map[string]bool{
		"activity.kind == 'SIGN_TRANSACTION' && wallet.id == 'x'":                                  true,
		"activity.resource == 'WALLET' && activity.action == 'CREATE'":                             true,
		"activity.kind in ['CREATE_USERS', 'CREATE_API_KEYS']":                                     true,
		"['CREATE_USERS', 'CREATE_API_KEYS'].contains(activity.kind)":                              true,
		"wallet.id == 'x' && wallet_account.address == '0xab'":                                     true,
		"private_key.id == 'x' || private_key.id == 'y'":                                           true,
		"eth.tx.to == '0xab' && eth.tx.value < 1000000000000000000 && !(eth.tx.chain_id in [1,5])": true,
		"eth.tx.to == '0xab' && eth.tx.value < 10000000000000000000":                               false, // over 64 bits
		"wallet.imported && true":                                                                  true,
		"wallet.label == '" + long + "'":                                                           false,
		"wallet.label == '" + long[1:] + "'":                                                       true,
		"private_key.tags.contains('x')":                                                           false,
		"eth.tx.data[0..10] == '0xa9059cbb'":                                                       false,
		"eth.eip_7702_authorization.nonce == '1'":                                                  false,
		"activity.kind == activity.type":                                                           false,
	} {
		set := policy.NewSet([]*policy.Policy{{Condition: compile(t, policy.ClauseCondition, source)}})
		if got := set.Short()[0]; got != want {
			t.Errorf("%s: short is %v", source, got)
		}
	}
}

// A set reads no more than it has room for, and walks the rest.
func TestManyViews(t *testing.T) {
	var ps []*policy.Policy
	for _, f := range policy.Fields() {
		if f.Clause == policy.ClauseCondition && (f.Type == "int" || f.Type == "uint") && !strings.Contains(f.Path, "[]") {
			ps = append(ps, &policy.Policy{Condition: compile(t, policy.ClauseCondition, f.Path+" == 1")})
		}
		if f.Clause == policy.ClauseCondition && (f.Type == "string" || f.Type == "hex" || f.Type == "uuid" || f.Type == "key") && !strings.Contains(f.Path, "[]") {
			ps = append(ps, &policy.Policy{Condition: compile(t, policy.ClauseCondition, f.Path+" == 'x'")})
		}
	}
	short := policy.NewSet(ps).Short()
	if i := slices.Index(short, false); i != 64 || slices.Contains(short[i:], true) {
		t.Errorf("%d of %d are short", i, len(short))
	}
}
