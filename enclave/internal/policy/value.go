package policy

import (
	"math/big"
	"slices"
	"strings"
)

// Type is what a value is.
type Type uint8

// The types of values.
const (
	TypeNone   Type = iota // absent: every use is an error
	TypeBool               //
	TypeInt                // -2^127 to 2^256-1
	TypeString             //
	TypeHex                // a string whose comparisons ignore the case of ASCII letters
	TypeList               //
	TypeMap                // entries by ['key']
	TypeStruct             // members by .name
)

// Value is a fact that expressions read. The zero Value is absent. Values are
// immutable; make them with the functions below.
type Value struct {
	typ Type
	// dynamic values take their type from data, not from the schema: numbers equal
	// canonical decimal strings.
	dynamic bool
	yes     bool
	n       *big.Int
	s       string
	list    []Value
	members []Member
}

// Member is an entry of a map or a member of a struct.
type Member struct {
	Name  string
	Value Value
}

// Bool is a truth value.
func Bool(b bool) Value { return Value{typ: TypeBool, yes: b} }

// Int is a whole number.
func Int(n int64) Value { return Value{typ: TypeInt, n: big.NewInt(n)} }

// BigInt is a whole number, which must not be changed afterwards.
func BigInt(n *big.Int) Value { return Value{typ: TypeInt, n: n} }

// String is text.
func String(s string) Value { return Value{typ: TypeString, s: s} }

// Hex is hexadecimal text: of an address, calldata or a hash.
func Hex(s string) Value { return Value{typ: TypeHex, s: s} }

// List is a list.
func List(vs ...Value) Value { return Value{typ: TypeList, list: vs} }

// Strings is a list of texts.
func Strings(ss []string) Value {
	vs := make([]Value, len(ss))
	for i, s := range ss {
		vs[i] = String(s)
	}
	return List(vs...)
}

// Map is a map; of two entries with one name the first counts.
func Map(entries ...Member) Value { return Value{typ: TypeMap, members: sorted(entries)} }

// Struct is a struct.
func Struct(members ...Member) Value { return Value{typ: TypeStruct, members: sorted(members)} }

// Dynamic marks a value, and all in it, as typed by data alone: arguments of
// contracts, typed data, authorizations.
func Dynamic(v Value) Value {
	v.dynamic = true
	v.list = slices.Clone(v.list)
	for i := range v.list {
		v.list[i] = Dynamic(v.list[i])
	}
	v.members = slices.Clone(v.members)
	for i := range v.members {
		v.members[i].Value = Dynamic(v.members[i].Value)
	}
	return v
}

func sorted(ms []Member) []Member {
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return ms
}

// Type is what v is.
func (v Value) Type() Type { return v.typ }

// Facts are the roots that a request has, by name: "wallet", "wallets",
// "wallet_account", "private_key", "secret", "eth.tx", "eth.eip_712",
// "eth.eip_7702_authorization", "solana.tx", "bitcoin.tx", "tron.tx", "tempo.tx".
// Reading one that is not there is an error of the expression.
type Facts map[string]Value
