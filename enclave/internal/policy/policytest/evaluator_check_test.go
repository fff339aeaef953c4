package policytest

import (
	"math/big"
	"slices"
	"unicode/utf8"
)

// Type is the type of an expression (section 3). int and uint are one kind: they
// compare numerically.
type Type struct {
	kind   string // bool int string list map struct timestamp dynamic; "nothing" are the items of []
	wide   bool   // a uint, or a literal
	elem   *Type
	fields map[string]*Type
}

var (
	one        = big.NewInt(1)
	minI128    = new(big.Int).Neg(new(big.Int).Lsh(one, 127))
	maxI128    = new(big.Int).Sub(new(big.Int).Lsh(one, 127), one)
	maxU256    = new(big.Int).Sub(new(big.Int).Lsh(one, 256), one)
	boolT      = &Type{kind: "bool"}
	intT       = &Type{kind: "int"}
	uintT      = &Type{kind: "int", wide: true}
	stringT    = &Type{kind: "string"}
	timestampT = &Type{kind: "timestamp"}
	dynamicT   = &Type{kind: "dynamic"}
	nothingT   = &Type{kind: "nothing"}
)

func listOf(t *Type) *Type { return &Type{kind: "list", elem: t} }
func mapOf(t *Type) *Type  { return &Type{kind: "map", elem: t} }

// field is a member of a struct.
type field struct {
	name string
	typ  *Type
}

func structOf(parts ...[]field) *Type {
	t := &Type{kind: "struct", fields: map[string]*Type{}}
	for _, x := range slices.Concat(parts...) {
		t.fields[x.name] = x.typ
	}
	return t
}

func of(t *Type, names ...string) (out []field) {
	for _, n := range names {
		out = append(out, field{n, t})
	}
	return out
}

func text(names ...string) []field { return of(stringT, names...) }
func ints(names ...string) []field { return of(intT, names...) }
func flag(names ...string) []field { return of(boolT, names...) }

// Clause is the field of a policy in which an expression stands.
type Clause string

// The clauses.
const (
	Consensus Clause = "consensus"
	Condition Clause = "condition"
	Time      Clause = "time"
)

// roots are the names of section 5 and what they are.
var roots = map[Clause]map[string]*Type{
	Consensus: {
		"approvers":   listOf(structOf(text("id", "email", "alias"), of(listOf(stringT), "tags"))),
		"credentials": listOf(structOf(text("id", "user_id", "type", "credential_id", "public_key"))),
	},
	Time: {"time": structOf(of(timestampT, "now"))},
	Condition: {
		"activity":       structOf(text("type", "kind", "resource", "action"), of(params, "params")),
		"wallet":         wallet,
		"wallets":        listOf(wallet),
		"wallet_account": structOf(text("address"), of(listOf(intT), "path_indexes"), of(listOf(boolT), "path_hardened")),
		"private_key":    structOf(text("id", "label"), flag("imported", "exported"), of(listOf(stringT), "tags")),
		"secret":         structOf(of(mapOf(stringT), "static_properties")),
		"eth":            structOf(of(ethTx, "tx"), of(eip712, "eip_712"), of(structOf(text("address"), of(dynamicT, "chain_id", "nonce")), "eip_7702_authorization")),
		"solana":         structOf(of(solanaTx, "tx")),
		"bitcoin":        structOf(of(bitcoinTx, "tx")),
		"tron":           structOf(of(tronTx, "tx")),
		"tempo":          structOf(of(tempoTx, "tx")),
	},
}

var (
	wallet = structOf(text("id", "label"), flag("imported", "exported"))
	ethTx  = structOf(text("from", "to", "data", "type", "function_name", "function_signature"),
		ints("value", "gas", "gas_price", "chain_id", "nonce", "max_fee_per_gas", "max_priority_fee_per_gas", "max_fee_per_blob_gas"),
		of(mapOf(dynamicT), "contract_call_args"))
	eip712 = structOf(text("primary_type"), of(mapOf(dynamicT), "message"),
		of(structOf(text("name", "version", "verifying_contract"), of(uintT, "chain_id")), "domain"))
	lookups  = listOf(structOf(text("address_table_key"), of(listOf(intT), "writable_indexes", "readonly_indexes")))
	solanaTx = structOf(text("recent_blockhash"), of(listOf(stringT), "account_keys", "program_keys"), of(lookups, "address_table_lookups"),
		of(listOf(structOf(text("program_key", "instruction_data_hex"), of(lookups, "address_table_lookups"),
			of(listOf(structOf(text("account_key"), flag("signer", "writable"))), "accounts"),
			of(structOf(text("instruction_name", "discriminator"), of(mapOf(stringT), "named_accounts", "named_account"), of(mapOf(dynamicT), "program_call_args")),
				"parsed_instruction_data"))), "instructions"),
		of(listOf(structOf(text("from", "to"), ints("amount"))), "transfers"),
		of(listOf(structOf(text("account", "type", "authority"))), "authorities"),
		of(listOf(structOf(text("from", "to", "owner", "token_mint"), ints("amount"), of(listOf(stringT), "signers"))), "spl_transfers"),
		of(listOf(structOf(text("from", "delegate", "owner", "token_mint"), ints("amount"), of(listOf(stringT), "signers"))), "spl_approvals"),
		of(listOf(structOf(text("account", "type", "authority", "owner"), of(listOf(stringT), "signers"))), "spl_authorities"),
		of(listOf(structOf(text("account", "to", "owner"), of(listOf(stringT), "signers"))), "spl_closes"),
		of(listOf(structOf(text("from", "owner", "token_mint"), ints("amount"), of(listOf(stringT), "signers"))), "spl_burns"),
		of(listOf(structOf(text("program_key", "instruction_data_hex"))), "spl_others"))
	bitcoinTx = structOf(text("version"), ints("fee"), of(structOf(ints("amount"), text("type")), "locktime"),
		of(listOf(structOf(text("tx_id"), ints("vout", "sequence"))), "inputs"),
		of(listOf(structOf(ints("value"), text("script_pubkey", "address", "address_type"))), "outputs"))
	permission = structOf(text("type", "permission_name", "operations"), ints("id", "threshold", "parent_id"), of(listOf(structOf(text("address"), ints("weight"))), "keys"))
	tronTx     = structOf(text("ref_block_bytes", "ref_block_hash", "data"), ints("expiration", "timestamp", "fee_limit"),
		of(listOf(structOf(text("type", "owner_address", "to_address", "contract_address", "data", "resource", "receiver_address"),
			ints("permission_id", "amount", "call_value", "call_token_value", "token_id", "balance", "lock_period", "frozen_balance", "unfreeze_balance"),
			flag("lock"), of(permission, "owner", "witness"), of(listOf(permission), "actives"))), "contract"))
	tempoTx = structOf(text("from", "fee_token"), ints("chain_id", "nonce", "gas_limit", "max_fee_per_gas", "max_priority_fee_per_gas", "valid_before", "valid_after"),
		of(listOf(structOf(text("to", "input", "function_signature"))), "calls"))

	derivation = structOf(text("type"), of(structOf(text("leaf_id")), "signing_leaf"), of(structOf(ints("index")), "static_deposit"))
	recipients = of(listOf(structOf(text("operator_id", "encryption_public_key"))), "operator_recipients")
	params     = structOf( // 6.3
		text("hash_function", "encoding", "type", "user_id", "target_public_key", "wallet_id", "session_profile_id", "endpoint_id", "sign_with"),
		ints("otp_length"), of(listOf(stringT), "user_ids", "api_key_ids"),
		of(listOf(structOf(text("message", "verifying_key", "adaptor_public_key"), of(derivation, "derivation"),
			of(listOf(structOf(text("id", "hiding", "binding"))), "operator_commitments"))), "signatures"),
		of(structOf(text("transfer_id", "receiver_public_key"), ints("threshold"), recipients,
			of(listOf(structOf(text("leaf_id", "refund_signature", "direct_refund_signature", "direct_from_cpfp_refund_signature"),
				of(derivation, "old_leaf_derivation", "new_leaf_derivation"))), "leaves")), "transfer"),
		of(structOf(text("transfer_id", "sender_identity_public_key"), ints("threshold"), recipients,
			of(listOf(structOf(text("leaf_id", "ciphertext", "sender_signature"))), "leaves")), "claim"),
		of(structOf(ints("threshold"), recipients), "lightning_receive"))
)

// isRoot tells the names of roots in any clause: the keywords that a lambda
// variable may not shadow.
func isRoot(name string) bool {
	return roots[Consensus][name] != nil || roots[Condition][name] != nil || roots[Time][name] != nil
}

// Expression is a parsed and checked expression.
type Expression struct{ root *node }

// Parse parses and checks. The empty source gives nil, which is true.
func Parse(c Clause, source string) (e *Expression, err error) {
	if source == "" {
		return nil, nil
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case refusal:
			e, err = nil, r.error
		default:
			panic(r)
		}
	}()
	if len(source) > maxSource {
		refuse("source too long")
	}
	if !utf8.ValidString(source) {
		refuse("strings are UTF-8")
	}
	toks, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks}
	e = &Expression{root: p.policyExpr()}
	ch := checker{clause: c}
	if t := ch.check(e.root); t.kind != "bool" && t.kind != "dynamic" {
		refuse("the expression is not a bool")
	}
	return e, nil
}

type variable struct {
	name string
	typ  *Type
}

type checker struct {
	clause Clause
	vars   []variable // innermost last
}

func (c *checker) check(n *node) *Type {
	n.typ = c.typeOf(n)
	return n.typ
}

func (c *checker) typeOf(n *node) *Type {
	switch n.op {
	case "true", "false":
		return boolT
	case "int":
		return uintT
	case "string":
		return stringT
	case "Timestamp":
		if c.clause != Time || len(n.args) != 1 {
			refuse("Timestamp")
		}
		if _, err := timestamp(n.args[0]); err != nil {
			refuse("Timestamp: %v", err)
		}
		return timestampT
	case "CronSpan":
		if c.clause != Time || len(n.args) != 3 {
			refuse("CronSpan")
		}
		if _, err := cronSpan(n.args); err != nil {
			refuse("CronSpan: %v", err)
		}
		return boolT
	case "list":
		return c.list(n)
	case "name":
		for _, v := range slices.Backward(c.vars) {
			if v.name == n.text {
				return v.typ
			}
		}
		if t := roots[c.clause][n.text]; t != nil {
			return t
		}
		refuse("field does not exist: %s", n.text)
	case "field":
		t := c.check(n.kids[0])
		if n.text == "count" && (t.kind == "list" || t.kind == "dynamic") {
			return uintT
		}
		if t.kind != "struct" || t.fields[n.text] == nil {
			refuse("field does not exist: %s", n.text)
		}
		return t.fields[n.text]
	case "call":
		return c.call(n)
	case "index", "slice":
		return c.index(n)
	case "!", "&&", "||":
		for _, k := range n.kids {
			c.mustBe(k, "bool")
		}
		return boolT
	case "==", "!=":
		c.equality(c.check(n.kids[0]), c.check(n.kids[1]))
		return boolT
	case "<", ">", "<=", ">=":
		a, b := c.check(n.kids[0]).kind, c.check(n.kids[1]).kind
		number := func(k string) bool { return k == "int" || k == "dynamic" }
		if !(number(a) && number(b) || a == "timestamp" && b == "timestamp") {
			refuse("%s %s %s", a, n.op, b)
		}
		return boolT
	case "in":
		a, b := c.check(n.kids[0]), c.check(n.kids[1])
		c.member(b, a)
		return boolT
	}
	refuse("%s", n.op)
	return nil
}

// mustBe checks that n is of a kind, or dynamic.
func (c *checker) mustBe(n *node, kinds ...string) {
	if t := c.check(n); !slices.Contains(kinds, t.kind) && t.kind != "dynamic" {
		refuse("%s is no %s", t.kind, kinds)
	}
}

// scalar tells the types that have ==.
func scalar(t *Type) bool {
	return slices.Contains([]string{"bool", "int", "string", "timestamp", "dynamic"}, t.kind)
}

// equality checks that two types can be compared with == and !=.
func (c *checker) equality(a, b *Type) {
	for _, t := range []*Type{a, b} {
		if !scalar(t) {
			refuse("%s is not compared", t.kind)
		}
	}
	if a.kind != b.kind && a.kind != "dynamic" && b.kind != "dynamic" {
		refuse("%s against %s", a.kind, b.kind)
	}
}

// member checks that list can contain v.
func (c *checker) member(list, v *Type) {
	switch {
	case list.kind == "dynamic" || list.kind == "list" && list.elem.kind == "nothing":
		c.equality(v, dynamicT)
	case list.kind == "list":
		c.equality(v, list.elem)
	default:
		refuse("%s contains nothing", list.kind)
	}
}

func (c *checker) list(n *node) *Type {
	t := nothingT
	for _, k := range n.kids {
		switch kt := c.check(k); {
		case t.kind == "nothing":
			t = kt
		case (t.kind == "dynamic" || kt.kind == "dynamic") && scalar(t) && scalar(kt):
			t = dynamicT
		case !same(t, kt):
			refuse("a list of %s and %s", t.kind, kt.kind)
		}
	}
	if t.kind == "int" {
		t = uintT // what went in was held against its bounds already
	}
	return listOf(t)
}

func same(a, b *Type) bool {
	if a.kind != b.kind || len(a.fields) != len(b.fields) {
		return false
	}
	for name, t := range a.fields {
		if b.fields[name] == nil || !same(t, b.fields[name]) {
			return false
		}
	}
	return a.elem == nil || same(a.elem, b.elem)
}

func (c *checker) call(n *node) *Type {
	t := c.check(n.kids[0])
	if t.kind != "list" && t.kind != "dynamic" {
		refuse("%s has no %s", t.kind, n.text)
	}
	args := n.kids[1:]
	switch n.text {
	case "count":
		if len(args) != 0 {
			refuse("count takes nothing")
		}
		return uintT
	case "contains":
		if n.variable != "" || len(args) != 1 {
			refuse("contains takes one")
		}
		c.member(t, c.check(args[0]))
		return boolT
	case "all", "any", "filter":
		if n.variable == "" || len(args) != 1 {
			refuse("%s takes a variable and an expression", n.text)
		}
		if isRoot(n.variable) {
			refuse("%s shadows a keyword", n.variable)
		}
		if len(c.vars) == maxLambdas {
			refuse("too many lambdas in each other")
		}
		elem := dynamicT
		if t.kind == "list" {
			elem = t.elem
		}
		c.vars = append(c.vars, variable{n.variable, elem})
		c.mustBe(args[0], "bool")
		c.vars = c.vars[:len(c.vars)-1]
		if n.text == "filter" {
			return t
		}
		return boolT
	}
	refuse("no function %s", n.text)
	return nil
}

func (c *checker) index(n *node) *Type {
	t := c.check(n.kids[0])
	for _, i := range n.kids[1:] {
		switch {
		case t.kind == "list" || t.kind == "string" || n.op == "slice" && t.kind == "dynamic":
			c.mustBe(i, "int")
		case t.kind == "map" && n.op == "index":
			c.mustBe(i, "string")
		case t.kind == "dynamic":
			c.mustBe(i, "int", "string")
		default:
			refuse("%s has no %s", t.kind, n.op)
		}
	}
	if n.op == "index" && (t.kind == "list" || t.kind == "map") {
		return t.elem
	}
	return t
}
