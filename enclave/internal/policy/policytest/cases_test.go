package policytest_test

import (
	"encoding/json"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/policy/policytest"
)

// The cases of the semantics, as they are written.
type (
	caseFile struct {
		Orgs         map[string]caseOrg
		Transactions map[string]struct {
			Parsed    map[string]any
			Interface string
			Decoded   map[string]any
		}
		Cases []caseRow
	}
	caseOrg struct {
		RootQuorum struct {
			Threshold int
			Users     []string
		}
		Users map[string]struct {
			ID, Email, Alias string
			Tags             []string
		}
		Credentials map[string]struct {
			ID           string
			UserID       string `json:"user_id"`
			Type         string
			CredentialID string `json:"credential_id"`
			PublicKey    string `json:"public_key"`
		}
		Wallets, WalletAccounts, PrivateKeys map[string]map[string]any
		Features                             []string
	}
	caseVote struct{ User, Credential string }
	caseRow  struct {
		ID, Kind, Title, Org string
		Policies             []struct{ ID, Effect, Consensus, Condition, Time string }
		Request              struct {
			Type         string
			By           caseVote
			Params       map[string]any
			PolicyParams map[string]any
			Tx           string
			Target       map[string]any
			SessionScope string
			Sponsored    bool
		}
		Interfaces []string
		Approvals  []caseVote
		Now        string
		Expect     struct {
			Outcome        string
			PolicyOutcomes map[string]string
		}
	}
)

// actions are resource and action of the kinds that the cases ask for, from
// section 6.1.
var actions = map[string]string{
	"CREATE_API_KEYS": "CREDENTIAL CREATE", "CREATE_POLICY": "POLICY CREATE", "CREATE_SUB_ORGANIZATION": "ORGANIZATION CREATE", "CREATE_WALLET": "WALLET CREATE",
	"CREATE_WALLET_ACCOUNTS": "WALLET CREATE", "DELETE_API_KEYS": "CREDENTIAL DELETE", "DELETE_AUTHENTICATORS": "CREDENTIAL DELETE", "DELETE_POLICY": "POLICY DELETE",
	"DELETE_USERS": "USER DELETE", "DELETE_WALLETS": "WALLET DELETE", "DISABLE_PRIVATE_KEY": "PRIVATE_KEY DELETE", "EMAIL_AUTH": "AUTH CREATE",
	"ETH_SEND_TRANSACTION": "PRIVATE_KEY SIGN", "EXPORT_PRIVATE_KEY": "PRIVATE_KEY EXPORT", "EXPORT_WALLET": "WALLET EXPORT", "EXPORT_WALLET_ACCOUNT": "WALLET EXPORT",
	"IMPORT_PRIVATE_KEY": "PRIVATE_KEY IMPORT", "INIT_IMPORT_WALLET": "WALLET IMPORT", "INIT_OTP_AUTH": "AUTH CREATE", "SET_PAYMENT_METHOD": "PAYMENT_METHOD UPDATE",
	"SIGN_RAW_PAYLOADS": "PRIVATE_KEY SIGN", "SIGN_RAW_PAYLOAD": "PRIVATE_KEY SIGN", "SIGN_TRANSACTION": "PRIVATE_KEY SIGN", "SPARK_PREPARE_TRANSFER": "PRIVATE_KEY SIGN",
	"SPARK_SIGN_FROST": "PRIVATE_KEY SIGN", "STAMP_LOGIN": "AUTH CREATE", "UPDATE_OAUTH2_CREDENTIAL": "AUTH UPDATE", "UPDATE_USER_NAME": "USER UPDATE", "VERIFY_OTP": "OTP VERIFY",
	"SET_ORGANIZATION_FEATURE": " ", "UPDATE_ROOT_QUORUM": " ",
}

var version = regexp.MustCompile(`_V\d+$`)

// fact makes a value of JSON. key is the name it stands under; numbers that could
// be large are decimal strings there.
func fact(key string, v any) any {
	switch x := v.(type) {
	case bool:
		return x
	case json.Number:
		n, _ := new(big.Int).SetString(x.String(), 10)
		return n
	case string:
		switch key {
		case "value", "values", "gas", "gas_price", "chain_id", "nonce", "max_fee_per_gas", "max_priority_fee_per_gas", "max_fee_per_blob_gas", "amount", "deadline", "delta", "small",
			"in_amount", "slippage_bps", "calls":
			if n, ok := new(big.Int).SetString(x, 10); ok {
				return n
			}
		}
		return policytest.Text{Value: x, Hex: strings.HasPrefix(x, "0x")}
	case []any:
		l := []any{}
		for _, item := range x {
			l = append(l, fact(key, item))
		}
		return l
	case map[string]any:
		m := map[string]any{}
		for k, item := range x {
			m[k] = fact(k, item)
		}
		switch key {
		case "contract_call_args", "message", "named_accounts", "program_call_args", "static_properties", "permitted":
			return policytest.Map(m)
		}
		return policytest.Struct(m)
	}
	return nil
}

func organization(o caseOrg) (out policytest.Organization) {
	out.Threshold = o.RootQuorum.Threshold
	for _, name := range sorted(o.Users) {
		u := o.Users[name]
		user := policytest.User{ID: u.ID, Name: u.Alias, Email: u.Email, Tags: u.Tags}
		for _, c := range sorted(o.Credentials) {
			if cred := credential(o, c); cred.User == u.ID {
				user.Credentials = append(user.Credentials, cred)
			}
		}
		out.Users = append(out.Users, user)
		if slices.Contains(o.RootQuorum.Users, name) {
			out.Root = append(out.Root, u.ID)
		}
	}
	return out
}

func credential(o caseOrg, name string) policytest.Credential {
	c := o.Credentials[name]
	return policytest.Credential{ID: c.ID, User: c.UserID, Type: c.Type, CredentialID: c.CredentialID, PublicKey: c.PublicKey}
}

// facts are the roots of a request, or false if its transaction is refused.
func facts(t *testing.T, file caseFile, row caseRow) (map[string]any, bool) {
	org, out := file.Orgs[row.Org], map[string]any{}
	targets := map[string]map[string]map[string]any{"wallet": org.Wallets, "wallet_account": org.WalletAccounts, "private_key": org.PrivateKeys}
	for _, root := range sorted(row.Request.Target) {
		switch name := row.Request.Target[root].(type) {
		case string:
			out[root] = fact(root, targets[root][name])
		case []any:
			out[root] = each(name, func(n any) any { return fact("wallet", org.Wallets[n.(string)]) })
		}
	}
	if row.Request.Tx == "" {
		return out, true
	}
	tx, ok := file.Transactions[row.Request.Tx]
	if !ok {
		t.Fatalf("no transaction %q", row.Request.Tx)
	}
	if tx.Parsed == nil {
		return nil, false
	}
	for _, root := range sorted(tx.Parsed) {
		s := fact(root, tx.Parsed[root]).(policytest.Struct)
		switch root {
		case "eth.tx":
			s["function_name"], s["function_signature"] = policytest.Text{}, policytest.Text{}
			if slices.Contains(row.Interfaces, tx.Interface) {
				for _, k := range sorted(tx.Decoded) {
					s[k] = fact(k, tx.Decoded[k])
				}
			}
			if row.Request.Sponsored {
				for _, k := range []string{"gas_price", "max_fee_per_gas", "max_priority_fee_per_gas", "max_fee_per_blob_gas"} {
					s[k] = new(big.Int)
				}
			}
		case "solana.tx":
			for _, i := range s["instructions"].([]any) {
				if !slices.Contains(row.Interfaces, tx.Interface) {
					delete(i.(policytest.Struct), "parsed_instruction_data")
				}
			}
		}
		out[root] = s
	}
	return out, true
}

// request is what the case asks for.
func request(t *testing.T, file caseFile, row caseRow) (r policytest.Request, parsed bool) {
	org, in := file.Orgs[row.Org], row.Request
	kind := version.ReplaceAllString(strings.TrimPrefix(in.Type, "ACTIVITY_TYPE_"), "")
	resource, action, ok := strings.Cut(actions[kind], " ")
	if !ok {
		t.Fatalf("no action for %s", kind)
	}
	params := policytest.Struct{}
	for _, k := range sorted(in.PolicyParams) {
		params[k] = fact("", in.PolicyParams[k])
	}
	r = policytest.Request{Type: in.Type, Kind: kind, Resource: resource, Action: action, Params: params, RootQuorum: action == "" && resource == ""}
	for _, v := range append([]caseVote{in.By}, row.Approvals...) {
		id, c := org.Users[v.User].ID, credential(org, v.Credential)
		if i := slices.IndexFunc(r.Votes, func(x policytest.Vote) bool { return x.User == id }); i >= 0 {
			r.Votes[i].Credentials = append(r.Votes[i].Credentials, c)
		} else {
			r.Votes = append(r.Votes, policytest.Vote{User: id, Credentials: []policytest.Credential{c}})
		}
	}
	own := in.Params["userId"] == r.Votes[0].User
	r.Self = resource == "CREDENTIAL" && own || kind == "STAMP_LOGIN"
	r.Foreign = action == "IMPORT" && !own
	r.Now = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	if row.Now != "" {
		now, err := time.Parse(time.RFC3339, row.Now)
		if err != nil {
			t.Fatal(err)
		}
		r.Now = now
	}
	r.Facts, parsed = facts(t, file, row)
	return r, parsed
}

func short(outcome string) string {
	switch outcome {
	case policytest.Allow:
		return "ALLOW"
	case policytest.RequiresConsensus:
		return "CONSENSUS"
	}
	return "DENY"
}

func cases(t *testing.T) (file caseFile) {
	data, err := os.ReadFile("../testdata/policy-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 193 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	return file
}

// opinion is one of the two.
type opinion struct {
	compile func(source) error
	decide  func(world) (answer, error)
}

// TestCases holds the second opinion against every case of the semantics.
func TestCases(t *testing.T) {
	runCases(t, opinion{func(s source) error { _, err := s.mine(); return err }, world.mine})
}

// TestCasesOfEngine holds the engine against them in the same way.
func TestCasesOfEngine(t *testing.T) {
	runCases(t, opinion{func(s source) error { _, err := s.theirs(); return err }, world.theirs})
}

func runCases(t *testing.T, o opinion) {
	file := cases(t)
	agree := 0
	for _, row := range file.Cases {
		if t.Run(row.ID, func(t *testing.T) { runCase(t, file, row, o) }) {
			agree++
		}
	}
	t.Logf("%d of %d cases agree", agree, len(file.Cases))
}

func runCase(t *testing.T, file caseFile, row caseRow, o opinion) {
	w := world{scope: row.Request.SessionScope}
	for _, p := range row.Policies {
		s := source{Deny: p.Effect == "EFFECT_DENY", Consensus: p.Consensus, Condition: p.Condition, Time: p.Time}
		err := o.compile(s)
		if row.Kind == "create_policy" {
			if refused := err != nil; refused != (row.Expect.Outcome == "ERROR") {
				t.Fatalf("%s: %v", row.Title, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", row.Title, err)
		}
		r, _, _ := compile(s)
		w.rules = append(w.rules, r)
	}
	w.org = organization(file.Orgs[row.Org])
	parsed := false
	if w.request, parsed = request(t, file, row); !parsed || w.request.Kind == "EMAIL_AUTH" && !slices.Contains(file.Orgs[row.Org].Features, "FEATURE_NAME_EMAIL_AUTH") {
		if row.Expect.Outcome != "ERROR" { // steps 2 and 3 stand before what is decided here
			t.Fatalf("%s: refused before any policy", row.Title)
		}
		return
	}
	got, err := o.decide(w)
	if err != nil {
		t.Fatalf("%s: %v", row.Title, err)
	}
	if short(got.final) != row.Expect.Outcome {
		t.Fatalf("%s: %s (%v), want %s", row.Title, got.final, got.outcomes, row.Expect.Outcome)
	}
	for i, p := range row.Policies {
		if want := row.Expect.PolicyOutcomes[p.ID]; want != "" && (len(got.outcomes) <= i || got.outcomes[i] != want) {
			t.Fatalf("%s: policy outcomes %v, want %v", row.Title, got.outcomes, row.Expect.PolicyOutcomes)
		}
	}
}
