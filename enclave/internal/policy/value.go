package policy

import (
	"cmp"
	"math/big"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Type is what a value is.
type Type uint8

// The types of values. Text is hexadecimal if the value or the schema says so: an
// address is hexadecimal on one chain and not on the other, and a reader of
// transactions that forgets TypeHex cannot open a policy that denies.
const (
	TypeNone   Type = iota // absent: every use is an error
	TypeBool               //
	TypeInt                // -2^127 to 2^256-1
	TypeString             //
	TypeHex                // a string whose comparisons ignore the case of ASCII letters
	TypeList               //
	TypeMap                // entries by ['key']
	TypeStruct             // members by .name

	typeKey  Type = 254 // a public key in hexadecimal; only the schema makes one
	typeTime Type = 255 // milliseconds since 1970; only the clause time makes one
)

// Value is a fact that expressions read. The zero Value is absent. Values are
// immutable; make them with the functions below.
type Value struct {
	typ Type
	// dynamic: the type comes from data, not from the schema, and a number equals its
	// decimal text.
	dynamic bool
	literal bool // a text that stands in the policy itself
	yes     bool
	small   int64    // the number, the time
	big     *big.Int // the number, if small cannot hold it
	string  string
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
func Int(n int64) Value { return Value{typ: TypeInt, small: n} }

// BigInt is a whole number, which must not be changed afterwards. One outside
// -2^127 to 2^256-1 cannot be used, and nil is absent.
func BigInt(n *big.Int) Value {
	switch {
	case n == nil:
		return Value{}
	case n.IsInt64():
		return Int(n.Int64())
	}
	return Value{typ: TypeInt, big: n}
}

// String is text.
func String(s string) Value { return Value{typ: TypeString, string: s} }

// Hex is hexadecimal text: of an address, calldata or a hash.
func Hex(s string) Value { return Value{typ: TypeHex, string: s} }

// LowerHex is hexadecimal text, or a UUID, that a request may write in either case: in lower case.
func LowerHex(s string) Value { return Hex(lowerASCII(s)) }

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

// IDs is a list of UUIDs in any order and either case: sorted, in lower case.
func IDs(ids []string) Value {
	vs := make([]Value, len(ids))
	for i, id := range ids {
		vs[i] = LowerHex(id)
	}
	slices.SortFunc(vs, func(a, b Value) int { return strings.Compare(a.string, b.string) })
	return List(vs...)
}

// Map is a map; of two entries with one name the first counts.
func Map(entries ...Member) Value { return Value{typ: TypeMap, members: sortMembers(entries)} }

// Struct is a struct. Reading a member that it lacks is an error. So is reading an
// absent one (Value{}): a null, or a number that the type of an argument cannot hold.
func Struct(members ...Member) Value { return Value{typ: TypeStruct, members: sortMembers(members)} }

// Dynamic marks a value, and all in it, as typed by data: arguments of contracts,
// typed data, authorizations.
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

// DynamicPart marks a value alone: whatever is in it has been marked before. Dynamic copies what is in a value, which for the
// arguments of a call is as much again.
func DynamicPart(v Value) Value {
	v.dynamic = true
	return v
}

func sortMembers(ms []Member) []Member {
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return ms
}

// Facts are roots that a request has, by their names in the table of roots, from
// "wallet" on. Reading another one is an error of the expression.
type Facts map[string]Value

func (v *Value) member(name string) (Value, bool) {
	at := sort.Search(len(v.members), func(i int) bool { return v.members[i].Name >= name })
	if at < len(v.members) && v.members[at].Name == name {
		return v.members[at].Value, v.members[at].Value.typ != TypeNone
	}
	return Value{}, false
}

// The numbers of the language: an int has 128 bits with its sign, a uint 256.
var (
	minInt  = new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), 127))
	maxInt  = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 127), big.NewInt(1))
	maxUint = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))
)

// isBetween tells whether a number is in a range that holds every int64.
func (v *Value) isBetween(low, high *big.Int) bool {
	return v.big == nil || v.big.Cmp(low) >= 0 && v.big.Cmp(high) <= 0
}

// compare orders two numbers or two times.
func (v *Value) compare(w *Value) int {
	switch {
	case v.big == nil && w.big == nil:
		return cmp.Compare(v.small, w.small)
	case v.big == nil: // w is beyond every int64
		return -w.big.Sign()
	case w.big == nil:
		return v.big.Sign()
	}
	return v.big.Cmp(w.big)
}

// equal compares two values of one type; others cannot be compared. But a dynamic
// number also equals its decimal text in the policy.
func (v *Value) equal(w *Value) (yes, ok bool) {
	switch {
	case v.text() && w.text():
		switch {
		case v.typ == typeKey || w.typ == typeKey:
			return sameKey(v.string, w.string), true
		case v.typ == TypeHex || w.typ == TypeHex:
			return equalFold(v.string, w.string), true
		}
		return v.string == w.string, true
	case v.typ == TypeInt && w.typ == TypeInt, v.typ == typeTime && w.typ == typeTime:
		return v.compare(w) == 0, true
	case v.typ == TypeBool && w.typ == TypeBool:
		return v.yes == w.yes, true
	case v.typ == TypeInt && v.dynamic && w.typ == TypeString && w.literal:
		return v.isDecimal(w.string), decimal(w.string)
	case w.typ == TypeInt && w.dynamic && v.typ == TypeString && v.literal:
		return w.isDecimal(v.string), decimal(v.string)
	}
	return false, false
}

func (v *Value) text() bool { return v.typ == TypeString || v.typ == TypeHex || v.typ == typeKey }

// isDecimal tells whether s is v in decimal digits.
func (v *Value) isDecimal(s string) bool {
	var buffer [80]byte
	return string(v.appendDecimal(buffer[:0])) == s
}

func (v *Value) appendDecimal(b []byte) []byte {
	if v.big == nil {
		return strconv.AppendInt(b, v.small, 10)
	}
	return v.big.Append(b, 10)
}

// decimal tells whether s is a whole number with no sign but a minus and no leading
// zero.
func decimal(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && (digits[0] != '0' || s == "0") && countFirst(digits, digit) == len(digits)
}

// equalFold compares bytes, and ASCII letters without their case.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if x, y := a[i], b[i]; x != y && (x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z') {
			return false
		}
	}
	return true
}

// folds tells whether v is a text that is compared without its case, if it is no point.
func (v *Value) folds() bool { return v.typ == TypeHex || v.typ == typeKey }

// sameKey tells whether two texts are one public key: the same digits, or the same point, short or long, with 0x or without.
func sameKey(a, b string) bool {
	x, signX := splitPoint(a)
	y, signY := splitPoint(b)
	return signX == signY && equalFold(x, y)
}

// splitPoint is a point's x in hexadecimal digits and its sign, which is '2' for an even y and '3' for an odd one: together they tell it from
// every other point of its curve. Other text is as it is, with no sign.
func splitPoint(s string) (x string, sign byte) {
	switch digits := strings.TrimPrefix(s, "0x"); {
	case len(digits) == 66 && (digits[:2] == "02" || digits[:2] == "03"):
		return digits[2:], digits[1]
	case len(digits) == 130 && digits[:2] == "04":
		last := digits[129]
		if digit(last) == (last&1 == 1) { // of a, c and e the codes are odd
			return digits[2:66], '3'
		}
		return digits[2:66], '2'
	}
	return s, 0
}
