package policy_test

import (
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/policy"
)

// openPaths are the facts of a transaction that may change without the narrowest policy noticing: they differ between two
// requests for the same, or follow from others.
var openPaths = []string{
	"eth.tx.from", "eth.tx.nonce", "eth.tx.function_name", "eth.tx.function_signature", "eth.tx.contract_call_args", "eth.tx.max_fee_per_gas", "eth.tx.max_fee_per_blob_gas",
	"eth.eip_7702_authorization.nonce", "solana.tx.account_keys", "solana.tx.program_keys", "solana.tx.transfers", "solana.tx.authorities", "solana.tx.spl_", "solana.tx.recent_blockhash",
	"solana.tx.address_table_lookups", "solana.tx.instructions[].address_table_lookups", "solana.tx.instructions[].parsed_instruction_data",
	"bitcoin.tx.version", "bitcoin.tx.inputs", "bitcoin.tx.locktime", "tron.tx.ref_block", "tron.tx.expiration", "tron.tx.timestamp", "tempo.tx.from", "tempo.tx.nonce",
	"wallet.", "private_key.label", "private_key.tags", "private_key.imported", "private_key.exported", "wallet_account.path", "wallets[].label", "wallets[].imported", "wallets[].exported",
}

// narrowed decides by the narrowest policy for a request alone.
func narrowed(t *testing.T, s policy.State, r policy.Request, who, what string) policy.Outcome {
	t.Helper()
	p := &policy.Policy{Effect: policy.EffectAllow, Consensus: compile(t, consensus, who), Condition: compile(t, condition, what)}
	s.Policies = func() (*policy.Set, error) { return policy.NewSet([]*policy.Policy{p}), nil }
	s.Threshold, s.RootUsers = 0, nil
	d, err := policy.Decide(s, r)
	if err != nil {
		t.Fatal(err)
	}
	return d.Outcome
}

// What Narrowest writes allows the request, and no request that differs in one fact that matters.
func TestNarrowestAllowsJustThis(t *testing.T) {
	f := loadCases(t)
	told, changed := map[string]int{}, 0
	for _, c := range f.Cases {
		if c.Kind == "create_policy" || f.refusedBefore(c) != "" {
			continue
		}
		s, r := f.question(t, c)
		r.Scope, r.AboutAnother = nil, false
		r.Approvals = r.Approvals[:1]
		consensus, condition, ok := policy.Narrowest(&r)
		if !ok {
			told["none"]++
			continue
		}
		told[r.Kind]++
		if got := narrowed(t, s, r, consensus, condition); got != policy.Allow {
			t.Errorf("%s: %s for %s", c.ID, got, condition)
			continue
		}
		by := r.Approvals[0]
		users, err := s.Users()
		if err != nil {
			t.Fatal(err)
		}
		other := users[slices.IndexFunc(users, func(u policy.User) bool { return u.ID != by.User })]
		r.Approvals = []policy.Approval{{User: other.ID, Credentials: other.Credentials}}
		if got := narrowed(t, s, r, consensus, condition); got == policy.Allow {
			t.Errorf("%s: somebody else is allowed too", c.ID)
		}
		r.Approvals = []policy.Approval{by}
		elsewhere := r
		elsewhere.Kind = "EXPORT_WALLET"
		if r.Kind != elsewhere.Kind && narrowed(t, s, elsewhere, consensus, condition) == policy.Allow {
			t.Errorf("%s: another kind is allowed too", c.ID)
		}
		tx := f.Transactions[c.Request.Tx]
		for root, parsed := range tx.Parsed {
			eachChange(parsed, root, func(path string, changedTx any) {
				if slices.ContainsFunc(openPaths, func(open string) bool { return strings.HasPrefix(path, open) }) {
					return
				}
				r.Facts = f.facts(t, c)
				facts := maps.Clone(changedTx.(map[string]any))
				for _, name := range []string{"function_name", "function_signature"} {
					if _, has := facts[name]; !has && root == "eth.tx" {
						facts[name] = ""
					}
				}
				r.Facts[root] = typedValue(t, root, "", facts)
				if changed++; narrowed(t, s, r, consensus, condition) == policy.Allow {
					t.Errorf("%s: a request with another %s is allowed too by %s", c.ID, path, condition)
				}
			})
		}
	}
	t.Logf("%v, %d changed requests", told, changed)
	if told["SIGN_TRANSACTION"] < 40 || told["EXPORT_WALLET"] < 1 || told["none"] < 10 || changed < 500 {
		t.Errorf("%v, %d changed requests", told, changed)
	}
}

// eachChange gives each copy of a transaction in which one leaf is another, larger one, and each in which a list has one more item.
func eachChange(v any, path string, give func(string, any)) {
	switch v := v.(type) {
	case map[string]any:
		for name, m := range v {
			if strings.HasPrefix(name, "x_") {
				continue
			}
			eachChange(m, path+"."+name, func(at string, changed any) {
				whole := maps.Clone(v)
				whole[name] = changed
				give(at, whole)
			})
		}
	case []any:
		for i, m := range v {
			eachChange(m, path+"[]", func(at string, changed any) {
				whole := slices.Clone(v)
				whole[i] = changed
				give(at, whole)
			})
		}
		if len(v) > 0 {
			give(path, append(slices.Clone(v), v[0]))
			give(path, v[1:])
		}
	case bool:
		give(path, !v)
	case string:
		if n, ok := new(big.Int).SetString(v, 10); ok {
			give(path, n.Add(n, big.NewInt(1)).String())
			return
		}
		give(path, v+"00")
	default:
		n, _ := new(big.Int).SetString(jsonText(v), 10)
		if n != nil {
			give(path, n.Add(n, big.NewInt(1)).String())
		}
	}
}

func TestNarrowestRefuses(t *testing.T) {
	account := policy.Struct(policy.Member{Name: "address", Value: policy.Hex("0xaa")})
	tx := func(more ...policy.Member) policy.Value {
		return policy.Struct(append([]policy.Member{{Name: "type", Value: policy.String("TYPE_2")}, {Name: "to", Value: policy.Hex("0xbb")}, {Name: "value", Value: policy.Int(7)}}, more...)...)
	}
	sign := func(facts policy.Facts) policy.Request {
		return policy.Request{Kind: "SIGN_TRANSACTION", Resource: "PRIVATE_KEY", Action: "SIGN", Facts: facts, Approvals: []policy.Approval{{User: [16]byte{1}}}}
	}
	typed := func(domain, message policy.Value) policy.Facts {
		return policy.Facts{"wallet_account": account, "eth.eip_712": policy.Struct(policy.Member{Name: "primary_type", Value: policy.String("Permit")},
			policy.Member{Name: "domain", Value: domain}, policy.Member{Name: "message", Value: policy.Dynamic(message)})}
	}
	domain := policy.Struct(policy.Member{Name: "chain_id", Value: policy.Int(1)}, policy.Member{Name: "verifying_contract", Value: policy.Hex("0xcc")})
	text := func(s string) policy.Value { return policy.Map(policy.Member{Name: "note", Value: policy.String(s)}) }
	with := func(change func(*policy.Request)) policy.Request {
		r := sign(policy.Facts{"wallet_account": account, "eth.tx": tx()})
		change(&r)
		return r
	}
	if _, condition, ok := policy.Narrowest(new(sign(typed(domain, text("hello || 1 == 1"))))); !ok || !strings.Contains(condition, "message['note'] == 'hello || 1 == 1'") {
		t.Errorf("%v: %s", ok, condition)
	}
	for name, r := range map[string]policy.Request{
		"nobody":                      with(func(r *policy.Request) { r.Approvals = nil }),
		"the root quorum's":           with(func(r *policy.Request) { r.RootQuorum = true }),
		"about another":               with(func(r *policy.Request) { r.AboutAnother = true }),
		"a session's":                 with(func(r *policy.Request) { r.Scope = compile(t, condition, "activity.kind == 'SIGN_TRANSACTION'") }),
		"two payloads":                with(func(r *policy.Request) { r.Payloads = []policy.Facts{{}, {}} }),
		"a user's":                    with(func(r *policy.Request) { r.Kind, r.Resource, r.Action = "UPDATE_USER", "USER", "UPDATE" }),
		"a policy's":                  with(func(r *policy.Request) { r.Kind, r.Resource, r.Action = "CREATE_POLICY", "POLICY", "CREATE" }),
		"a log-in":                    with(func(r *policy.Request) { r.Kind, r.Resource, r.Action = "OAUTH", "AUTH", "CREATE" }),
		"wallet accounts":             {Kind: "DELETE_WALLET_ACCOUNTS", Resource: "WALLET", Action: "DELETE", Approvals: []policy.Approval{{User: [16]byte{1}}}},
		"no key":                      sign(policy.Facts{"eth.tx": tx()}),
		"a raw payload":               sign(policy.Facts{"wallet_account": account}),
		"blobs":                       sign(policy.Facts{"wallet_account": account, "eth.tx": policy.Struct(policy.Member{Name: "type", Value: policy.String("TYPE_3")})}),
		"authorizations":              sign(policy.Facts{"wallet_account": account, "eth.tx": policy.Struct(policy.Member{Name: "type", Value: policy.String("TYPE_4")})}),
		"typed data without a chain":  sign(typed(policy.Struct(policy.Member{Name: "verifying_contract", Value: policy.Hex("0xcc")}), text("x"))),
		"typed data of no contract":   sign(typed(policy.Struct(policy.Member{Name: "chain_id", Value: policy.Int(1)}), text("x"))),
		"a quote":                     sign(typed(domain, text("x' || 'a' == 'a"))),
		"a quote in a name":           sign(typed(domain, policy.Map(policy.Member{Name: "x'] == 1 || true || m['", Value: policy.Int(1)}))),
		"a line break":                sign(typed(domain, text("x\ny"))),
		"what is no text":             sign(typed(domain, text("x\xff"))),
		"nothing where something was": sign(typed(domain, policy.Map(policy.Member{Name: "x"}))),
		"a long text":                 sign(typed(domain, text(strings.Repeat("x", 4096)))),
		"a long list":                 sign(typed(domain, policy.Map(policy.Member{Name: "x", Value: policy.List(slices.Repeat([]policy.Value{policy.Int(1)}, 100_000)...)}))),
		"an address table": sign(policy.Facts{"wallet_account": account, "solana.tx": policy.Struct(policy.Member{Name: "instructions", Value: policy.List()},
			policy.Member{Name: "address_table_lookups", Value: policy.List(policy.Struct())})}),
	} {
		if consensus, condition, ok := policy.Narrowest(&r); ok || consensus != "" || condition != "" {
			t.Errorf("%s: %s", name, condition)
		}
	}
}

// Every fact of the language is compared or left open on purpose.
func TestNarrowestKnowsAllFacts(t *testing.T) {
	known := policy.ComparedFacts()
	for _, f := range policy.Fields() {
		root, member, nested := strings.Cut(strings.TrimSuffix(f.Path, "[]"), ".")
		if strings.Contains(" eth solana bitcoin tron tempo activity time ", " "+root+" ") {
			first, rest, deeper := strings.Cut(member, ".")
			root, member, nested = root+"."+first, rest, deeper
		}
		if f.Clause != policy.ClauseCondition || !nested || strings.Contains(member, ".") || strings.HasPrefix(root, "activity.") && root != "activity.params" || strings.HasSuffix(root, "[]") || root == "secret" {
			continue
		}
		member = strings.TrimSuffix(member, "[]")
		if !slices.Contains(known[root], member) {
			t.Errorf("%s.%s is neither compared nor left open", root, member)
		}
	}
}

func TestSetWith(t *testing.T) {
	a, b, c := rule(t, 1, "ALLOW $a"), rule(t, 2, "ALLOW $b"), rule(t, 3, "DENY $b")
	var none *policy.Set
	if got := none.With(b).IDs(); !slices.Equal(got, b.ID[:]) {
		t.Errorf("%x", got)
	}
	s := policy.NewSet([]*policy.Policy{a, c})
	if got, want := s.With(b).IDs(), slices.Concat(a.ID[:], b.ID[:], c.ID[:]); !slices.Equal(got, want) {
		t.Errorf("%x", got)
	}
	again := *rule(t, 9, "DENY $a")
	again.ID = a.ID
	for set, want := range map[*policy.Set]policy.Outcome{s: policy.Allow, s.With(&again): policy.DenyExplicit} {
		state, r := scene{users: "a b", approve: "a"}.question(t)
		state.Policies = func() (*policy.Set, error) { return set, nil }
		d, err := policy.Decide(state, r)
		if err != nil || d.Outcome != want {
			t.Errorf("%v %v, want %v", d.Outcome, err, want)
		}
	}
}
