package policy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/policy"
)

// The file of decisions: organizations, transactions as a reader would take them
// apart, requests, and what must come of them.
type caseFile struct {
	Orgs         map[string]caseOrg
	Transactions map[string]caseTx
	Cases        []policyCase
}

type caseOrg struct {
	RootQuorum struct {
		Threshold uint32
		Users     []string
	}
	Users map[string]struct {
		ID, Email, Alias string
		Tags             []string
	}
	Credentials    map[string]map[string]string
	Wallets        map[string]map[string]any
	WalletAccounts map[string]map[string]any
	PrivateKeys    map[string]map[string]any
	Features       []string
}

type caseTx struct {
	Parsed    map[string]map[string]any // nil: the reader refuses it
	Interface string
	Decoded   map[string]any
}

type casePolicy struct{ ID, Effect, Consensus, Condition, Time string }

type policyCase struct {
	ID, Kind, Group, Title, Org string
	Policies                    []casePolicy
	Interfaces                  []string
	Now                         string
	Request                     struct {
		Type         string
		By           caseVote
		Tx           string
		Params       map[string]any
		PolicyParams map[string]any
		Target       map[string]any
		SessionScope string
		Sponsored    bool
	}
	Approvals []caseVote
	Expect    struct {
		Outcome, Reason string
		PolicyOutcomes  map[string]string
	}
}

type caseVote struct{ User, Credential string }

func loadCases(t testing.TB) (f caseFile) {
	t.Helper()
	b, err := os.ReadFile("testdata/policy-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCases(t *testing.T) {
	f := loadCases(t)
	if len(f.Cases) != 193 {
		t.Fatalf("%d cases", len(f.Cases))
	}
	counts := map[string]int{}
	for _, c := range f.Cases {
		t.Run(c.ID, func(t *testing.T) {
			if c.Kind == "create_policy" {
				counts["created"]++
				createCase(t, c)
				return
			}
			if elsewhere := f.refusedBefore(c); elsewhere != "" {
				counts["refused before policies"]++
				if c.Expect.Outcome != "ERROR" || c.Expect.Reason != elsewhere {
					t.Fatalf("%s; want %s %s", elsewhere, c.Expect.Outcome, c.Expect.Reason)
				}
				return
			}
			counts["decided"]++
			decideCase(t, f, c)
		})
	}
	if counts["created"] != 27 || counts["decided"] != 159 || counts["refused before policies"] != 7 {
		t.Errorf("counts are %v", counts)
	}
	t.Logf("%v", counts)
}

// refusedBefore tells what refuses a case before policies are asked: the feature
// or the reader of transactions.
func (f caseFile) refusedBefore(c policyCase) string {
	if c.Request.Type == "ACTIVITY_TYPE_EMAIL_AUTH_V3" && !slices.Contains(f.Orgs[c.Org].Features, "FEATURE_NAME_EMAIL_AUTH") {
		return "FEATURE_DISABLED"
	}
	if tx := c.Request.Tx; tx != "" && f.Transactions[tx].Parsed == nil {
		return "INVALID_TRANSACTION"
	}
	return ""
}

func createCase(t *testing.T, c policyCase) {
	for _, p := range c.Policies {
		_, err := compilePolicy(p)
		if refused := err != nil; refused != (c.Expect.Outcome == "ERROR") {
			t.Fatalf("%s: %v", c.Title, err)
		}
		if f, ok := err.(*fault.Error); err != nil && (!ok || f.Code != fault.InvalidArgument) {
			t.Fatalf("the refusal is %#v", err)
		}
	}
}

func compilePolicy(c casePolicy) (*policy.Policy, error) {
	p := &policy.Policy{Name: c.ID, Effect: policy.EffectAllow}
	copy(p.ID[:], c.ID)
	if c.Effect == "EFFECT_DENY" {
		p.Effect = policy.EffectDeny
	}
	var errs [3]error
	p.Consensus, errs[0] = policy.Compile(policy.ClauseConsensus, c.Consensus)
	p.Condition, errs[1] = policy.Compile(policy.ClauseCondition, c.Condition)
	p.Time, errs[2] = policy.Compile(policy.ClauseTime, c.Time)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

func decideCase(t *testing.T, f caseFile, c policyCase) {
	s, r := f.question(t, c)
	d, err := policy.Decide(s, r)
	if err != nil {
		t.Fatal(err)
	}
	outcome := map[policy.Outcome]string{policy.Allow: "ALLOW", policy.DenyImplicit: "DENY", policy.DenyExplicit: "DENY", policy.RequiresConsensus: "CONSENSUS"}[d.Outcome]
	if outcome != c.Expect.Outcome {
		t.Fatalf("%s: %s, want %s; %+v", c.Title, d.Outcome, c.Expect.Outcome, d.Evaluations)
	}
	bases := map[string]policy.Basis{"ROOT_QUORUM": policy.BasisRootQuorum, "SESSION_SCOPE": policy.BasisScope, "IMPORT_FOR_OTHER_USER": policy.BasisAboutAnother}
	if want := c.Expect.Reason; want != "" && d.Basis != bases[want] {
		t.Fatalf("the basis is %d, want %s", d.Basis, want)
	}
	got := map[string]string{}
	for _, e := range d.Evaluations.Each() {
		got[e.Name] = e.Outcome.String()
	}
	if want := c.Expect.PolicyOutcomes; want != nil && !maps.Equal(got, want) {
		t.Fatalf("%s: evaluations are %v, want %v", c.Title, got, want)
	}
	if (d.Grant != nil) != (d.Outcome == policy.Allow) {
		t.Fatal("a grant without permission, or none with it")
	}
}

var version = regexp.MustCompile(`_V\d+$`)

// question makes what Decide is asked of a case.
func (f caseFile) question(t testing.TB, c policyCase) (policy.State, policy.Request) {
	t.Helper()
	o := f.Orgs[c.Org]
	r := policy.Request{Type: c.Request.Type, Kind: version.ReplaceAllString(strings.TrimPrefix(c.Request.Type, "ACTIVITY_TYPE_"), ""), NowMs: 1773144000000}
	i := slices.IndexFunc(policy.Kinds(), func(k policy.Kind) bool { return k.Name == r.Kind })
	if i < 0 {
		t.Fatalf("no kind %s", r.Kind)
	}
	kind := policy.Kinds()[i]
	r.Resource, r.Action, r.RootQuorum = kind.Resource, kind.Action, kind.RootQuorum
	if c.Now != "" {
		now, err := time.Parse(time.RFC3339, c.Now)
		if err != nil {
			t.Fatal(err)
		}
		r.NowMs = uint64(now.UnixMilli())
	}
	if c.Request.SessionScope != "" {
		r.Scope = compile(t, policy.ClauseCondition, c.Request.SessionScope)
	}
	own := c.Request.Params["userId"] == o.Users[c.Request.By.User].ID
	r.AboutAnother = r.Action == "IMPORT" && !own
	r.SelfService = r.Resource == "CREDENTIAL" && own || r.Kind == "STAMP_LOGIN"
	if c.Request.PolicyParams != nil {
		r.Params = typedValue(t, "activity.params", "", c.Request.PolicyParams)
	}
	for _, vote := range append([]caseVote{c.Request.By}, c.Approvals...) {
		id := parseID(t, o.Users[vote.User].ID)
		if i := slices.IndexFunc(r.Approvals, func(a policy.Approval) bool { return a.User == id }); i >= 0 {
			r.Approvals[i].Credentials = append(r.Approvals[i].Credentials, o.credential(t, vote.Credential))
			continue
		}
		r.Approvals = append(r.Approvals, policy.Approval{User: id, Credentials: []policy.Credential{o.credential(t, vote.Credential)}})
	}
	r.Facts = f.facts(t, c)
	s := policy.State{Threshold: o.RootQuorum.Threshold}
	for _, name := range o.RootQuorum.Users {
		s.RootUsers = append(s.RootUsers, parseID(t, o.Users[name].ID))
	}
	s.Users = func() ([]policy.User, error) { return o.users(t), nil }
	s.Policies = func() (*policy.Set, error) {
		var out []*policy.Policy
		for _, p := range c.Policies {
			compiled, err := compilePolicy(p)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, compiled)
		}
		return policy.NewSet(out), nil
	}
	return s, r
}

func (o caseOrg) users(t testing.TB) (out []policy.User) {
	for _, name := range slices.Sorted(maps.Keys(o.Users)) {
		u := o.Users[name]
		one := policy.User{ID: parseID(t, u.ID), Name: u.Alias, Email: u.Email}
		for _, tag := range u.Tags {
			one.Tags = append(one.Tags, parseID(t, tag))
		}
		for _, key := range slices.Sorted(maps.Keys(o.Credentials)) {
			if o.Credentials[key]["user_id"] == u.ID {
				one.Credentials = append(one.Credentials, o.credential(t, key))
			}
		}
		out = append(out, one)
	}
	return out
}

func (o caseOrg) credential(t testing.TB, name string) policy.Credential {
	c, ok := o.Credentials[name]
	if !ok {
		t.Fatalf("no credential %s", name)
	}
	return policy.Credential{ID: parseID(t, c["id"]), User: parseID(t, c["user_id"]), Type: c["type"], CredentialID: c["credential_id"], PublicKey: c["public_key"]}
}

// facts are the roots of a case as the readers of transactions will give them.
func (f caseFile) facts(t testing.TB, c policyCase) policy.Facts {
	o, out := f.Orgs[c.Org], policy.Facts{}
	for name, target := range c.Request.Target {
		switch name {
		case "wallet":
			out[name] = typedValue(t, name, "", o.Wallets[target.(string)])
		case "wallets":
			var list []any
			for _, w := range target.([]any) {
				list = append(list, o.Wallets[w.(string)])
			}
			out[name] = typedValue(t, name, "", list)
		case "wallet_account":
			out[name] = typedValue(t, name, "", o.WalletAccounts[target.(string)])
		case "private_key":
			out[name] = typedValue(t, name, "", o.PrivateKeys[target.(string)])
		}
	}
	tx := f.Transactions[c.Request.Tx]
	known := tx.Interface != "" && slices.Contains(c.Interfaces, tx.Interface)
	for root, parsed := range tx.Parsed {
		parsed = maps.Clone(parsed)
		switch root {
		case "eth.tx":
			parsed["function_name"], parsed["function_signature"] = "", ""
			if known {
				maps.Copy(parsed, tx.Decoded)
			}
			if c.Request.Sponsored {
				for _, fee := range []string{"gas_price", "max_fee_per_gas", "max_priority_fee_per_gas", "max_fee_per_blob_gas"} {
					parsed[fee] = "0"
				}
			}
		case "solana.tx":
			var all []any
			for _, i := range parsed["instructions"].([]any) {
				one := maps.Clone(i.(map[string]any))
				if !known {
					delete(one, "parsed_instruction_data")
				}
				all = append(all, one)
			}
			parsed["instructions"] = all
		}
		out[root] = typedValue(t, root, "", parsed)
	}
	return out
}

// fieldTypes are the types of the schema by path.
var fieldTypes = func() map[string]string {
	m := map[string]string{}
	for _, f := range policy.Fields() {
		m[f.Path] = f.Type
	}
	return m
}()

// typedValue makes a value of JSON, with the type that the schema gives its path
// unless one is given.
func typedValue(t testing.TB, path, as string, v any) policy.Value {
	t.Helper()
	if as == "" {
		as = fieldTypes[path]
	}
	switch {
	case as == "bool":
		return policy.Bool(v.(bool))
	case as == "int" || as == "uint":
		n, ok := new(big.Int).SetString(strings.Trim(jsonText(v), `"`), 10)
		if !ok {
			t.Fatalf("%s is no number: %v", path, v)
		}
		return policy.BigInt(n)
	case as == "hex" || as == "uuid" || as == "email" || as == "key":
		return policy.Hex(v.(string))
	case as == "string" && strings.HasPrefix(v.(string), "0x"): // an address, whose chain tells
		return policy.Hex(v.(string))
	case as == "string":
		return policy.String(v.(string))
	case strings.HasPrefix(as, "list<"):
		var list []policy.Value
		for _, item := range v.([]any) {
			list = append(list, typedValue(t, path+"[]", strings.TrimSuffix(strings.TrimPrefix(as, "list<"), ">"), item))
		}
		return policy.List(list...)
	case as == "dynamic", as == "map<string,dynamic>":
		return policy.Dynamic(dynamicValue(t, v))
	case strings.HasPrefix(as, "map<string,"):
		var entries []policy.Member
		for name, entry := range v.(map[string]any) {
			entries = append(entries, policy.Member{Name: name, Value: typedValue(t, path, strings.TrimSuffix(strings.TrimPrefix(as, "map<string,"), ">"), entry)})
		}
		return policy.Map(entries...)
	case as == "":
		t.Fatalf("the schema has no %s", path)
	}
	var members []policy.Member
	for name, m := range v.(map[string]any) {
		if strings.HasPrefix(name, "x_") { // of the file, not of the language
			continue
		}
		members = append(members, policy.Member{Name: name, Value: typedValue(t, path+"."+name, "", m)})
	}
	return policy.Struct(members...)
}

func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// dynamicValue makes a value of JSON in which numbers are decimal texts.
func dynamicValue(t testing.TB, v any) policy.Value {
	switch v := v.(type) {
	case nil:
		return policy.Value{}
	case bool:
		return policy.Bool(v)
	case string:
		if n, ok := new(big.Int).SetString(v, 10); ok {
			return policy.BigInt(n)
		}
		if strings.HasPrefix(v, "0x") {
			return policy.Hex(v)
		}
		return policy.String(v)
	case []any:
		var list []policy.Value
		for _, item := range v {
			list = append(list, dynamicValue(t, item))
		}
		return policy.List(list...)
	case map[string]any:
		var entries []policy.Member
		for name, entry := range v {
			entries = append(entries, policy.Member{Name: name, Value: dynamicValue(t, entry)})
		}
		return policy.Map(entries...)
	}
	t.Fatalf("no value for %v", v)
	return policy.Value{}
}

func parseID(t testing.TB, s string) (id [16]byte) {
	t.Helper()
	n, ok := new(big.Int).SetString(strings.ReplaceAll(s, "-", ""), 16)
	if !ok || len(s) != 36 {
		t.Fatalf("%q is no id", s)
	}
	n.FillBytes(id[:])
	return id
}

func compile(t testing.TB, c policy.Clause, source string) *policy.Program {
	t.Helper()
	p, err := policy.Compile(c, source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return p
}
