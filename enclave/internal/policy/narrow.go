package policy

import (
	"slices"
	"strconv"
	"strings"
)

// maxNarrow is how long a condition of Narrowest may be, in bytes. Nobody reads a longer one.
const maxNarrow = 4 << 10

// comparedFacts are the facts that Narrowest compares, in the order of its condition, and the members of each. Members that
// differ between two requests for the same are left open, and those that follow from others.
var comparedFacts = []struct{ root, compared, open string }{
	{"activity.params", "hash_function encoding payload_kind type wallet_id target_public_key sign_with", "user_id session_profile_id endpoint_id user_ids api_key_ids otp_length signatures transfer claim lightning_receive"},
	{"wallets", "", ""}, // a list, of which each is compared
	{"wallet", "id", "label imported exported"},
	{"wallet_account", "address", "path_indexes path_hardened"},
	{"private_key", "id", "label tags imported exported"},
	{"eth.tx", "type chain_id to value data gas gas_price max_priority_fee_per_gas", "from nonce max_fee_per_gas max_fee_per_blob_gas function_name function_signature contract_call_args"},
	{"eth.eip_712", "primary_type domain message", ""},
	{"eth.eip_7702_authorization", "chain_id address", "nonce"},
	{"solana.tx", "instructions", "account_keys program_keys transfers authorities spl_transfers spl_approvals spl_authorities spl_closes spl_burns spl_others recent_blockhash address_table_lookups"},
	{"bitcoin.tx", "outputs fee", "version inputs locktime"},
	{"tron.tx", "contract data fee_limit", "ref_block_bytes ref_block_hash expiration timestamp"},
	{"tempo.tx", "chain_id calls fee_token gas_limit max_fee_per_gas max_priority_fee_per_gas", "from nonce valid_before valid_after"},
}

// upTo are the members that a condition of Narrowest bounds instead of demanding their very value: amounts and fees.
var upTo = strings.Fields("value amount fee gas gas_price gas_limit max_fee_per_gas max_priority_fee_per_gas fee_limit call_value")

// Narrowest writes the consensus and the condition of the narrowest policy worth writing that allows a request to the user who
// submitted it: the same key, the same recipients and data, and at most these amounts and fees. Nonces, block hashes and what
// Bitcoin spends are left open, so it allows the same again. It is not ok if the language cannot tell the request from a more
// dangerous one: a policy that allowed such a request would allow more than anybody looked at. That is so for a raw payload
// that is no transaction, a Solana transaction with parts in address tables, and whatever is about users, credentials or
// policies.
func Narrowest(r *Request) (consensus, condition string, ok bool) {
	who := r.initiator()
	if who == nobody || r.RootQuorum || r.AboutAnother || r.Scope != nil || len(r.Payloads) > 1 {
		return "", "", false
	}
	one := r.Each()[0]
	w := narrower{parts: []string{"activity.kind == '" + r.Kind + "'"}}
	w.facts(&one)
	keys := one.Facts.has("wallet_account", "private_key")
	switch {
	case r.Resource != "WALLET" && r.Resource != "PRIVATE_KEY":
		return "", "", false
	case r.Action == "CREATE", r.Action == "IMPORT":
	case r.Action == "SIGN" && (!keys || !one.Facts.has(chainRoots...)), len(w.parts) == 1:
		return "", "", false
	}
	consensus, condition = "approvers.any(user, user.id == '"+uuid(who)+"')", strings.Join(w.parts, " && ")
	if _, err := Compile(ClauseCondition, condition); w.failed || len(condition) > maxNarrow || err != nil {
		return "", "", false
	}
	return consensus, condition, true
}

func (f Facts) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return f[name].typ != TypeNone })
}

func (v *Value) has(name string) bool {
	_, ok := v.member(name)
	return ok
}

// A narrower writes comparisons with what a request has.
type narrower struct {
	parts  []string
	failed bool // something cannot be compared
}

func (w *narrower) facts(r *Request) {
	for _, c := range comparedFacts {
		v := r.Facts[c.root]
		switch c.root {
		case roots[rootParams].name:
			v = r.Params
		case "wallet": // which account is what says more
			if r.Facts.has("wallet_account") {
				continue
			}
		case "eth.tx": // no policy sees blobs, nor who is authorized to act for the account
			kind, _ := v.member("type")
			w.failed = w.failed || kind.string == "TYPE_3" || kind.string == "TYPE_4"
		case "eth.eip_712": // without them it is good elsewhere too
			domain, _ := v.member("domain")
			w.failed = w.failed || v.typ != TypeNone && !(domain.has("chain_id") && domain.has("verifying_contract"))
		case "solana.tx": // no policy sees what a table holds
			lookups, _ := v.member("address_table_lookups")
			w.failed = w.failed || len(lookups.list) > 0
		}
		if v.typ == TypeList {
			w.compare(c.root, "", &v)
			continue
		}
		for _, name := range strings.Fields(c.compared) {
			if m, ok := v.member(name); ok {
				w.compare(c.root+"."+name, name, &m)
			}
		}
	}
}

// compare demands that what stands at a path is v, or at most v where that is an amount.
func (w *narrower) compare(path, name string, v *Value) {
	switch {
	case len(w.parts) > maxNarrow/16: // each takes more bytes
		w.failed = true
	case v.typ == TypeBool && v.yes:
		w.parts = append(w.parts, path)
	case v.typ == TypeBool:
		w.parts = append(w.parts, "!"+path)
	case v.typ == TypeInt && !v.dynamic && slices.Contains(upTo, name) && v.compare(&Value{}) > 0:
		w.parts = append(w.parts, path+" <= "+string(v.appendDecimal(nil)))
	case v.typ == TypeInt:
		w.parts = append(w.parts, path+" == "+string(v.appendDecimal(nil)))
	case v.text():
		w.parts = append(w.parts, path+" == "+w.quote(v.string))
	case v.typ == TypeList:
		w.parts = append(w.parts, path+".count() == "+strconv.Itoa(len(v.list)))
		for i := range v.list {
			w.compare(path+"["+strconv.Itoa(i)+"]", "", &v.list[i])
		}
	case v.typ == TypeMap, v.typ == TypeStruct && v.dynamic:
		for i := range v.members {
			w.compare(path+"["+w.quote(v.members[i].Name)+"]", "", &v.members[i].Value)
		}
	case v.typ == TypeStruct:
		w.members(path, v)
	default: // null
		w.failed = true
	}
}

// members compares those of a struct. A wallet is told by its id alone, and an instruction by its bytes.
func (w *narrower) members(path string, v *Value) {
	if id, ok := v.member("id"); ok && strings.HasPrefix(path, "wallets[") {
		w.compare(path+".id", "id", &id)
		return
	}
	for i := range v.members {
		if m := &v.members[i]; m.Name != "parsed_instruction_data" && m.Name != "address_table_lookups" {
			w.compare(path+"."+m.Name, m.Name, &m.Value)
		}
	}
}

// quote writes a text as a literal. The language has no escapes: a text with a quote in it cannot be written.
func (w *narrower) quote(s string) string {
	w.failed = w.failed || len(s) > maxNarrow || strings.ContainsFunc(s, func(r rune) bool { return r == '\'' || r < ' ' || r == 0x7f || r == 0xfffd })
	return "'" + s + "'"
}
