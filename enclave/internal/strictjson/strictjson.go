// Package strictjson reads and writes the JSON of requests: one way to read a
// text, or an error.
//
// With encoding/json two readers of the same signed bytes could come to different
// meanings: it lets the last of two equal members win, matches names without regard to
// case, replaces invalid UTF-8 and lone surrogates, and ignores unknown members unless
// told. All of that is refused here.
//
// Decode fills most often a struct. Its exported fields carry `json:"camelCase"` tags
// and, if they are to be checked, `rule:"..."` tags in the validator syntax of the
// published interface (listed in rules.go). A member may be written in camelCase or in
// snake_case, not both, and in no other case. null equals absent, except as an array's
// element, where it is refused. An array that is absent, null or empty decodes to nil; a
// pointer to a slice tells absent (nil) from empty. Integers may be numbers or decimal
// strings, without fraction, exponent, plus, leading zero or minus zero.
//
// Errors are *fault.Error with code InvalidArgument and the path of the field. They
// repeat names of members, shortened and quoted, never values.
//
// Types are analysed once and kept; a mistake in a tag is a programming error and panics
// at the first use (Prepare makes that happen at start). The package is safe for
// concurrent use.
package strictjson

import (
	"math"
	"reflect"
)

// Raw is a JSON value of any kind as it was found, checked for syntax, equal names, depth
// and length. It shares memory with the input of Decode. nil means absent.
type Raw []byte

// rawLimits bound the reading of a Raw, whose length Decode has bounded before.
var rawLimits = Limits{Depth: DefaultLimits.Depth, Items: math.MaxInt, Members: math.MaxInt, Values: math.MaxInt}

// Text is the string that r is; false if it is none.
func (r Raw) Text() (string, bool) {
	d := decoder{src: r}
	span, escaped, f := d.text()
	if f != nil || !d.end() {
		return "", false
	}
	if escaped {
		span = unescape(span)
	}
	return string(span), true
}

// Array are the elements of the array that r is, null ones too; false if it is none.
func (r Raw) Array() (items []Raw, ok bool) {
	d := decoder{src: r, limits: rawLimits}
	f := d.elements(func(int) *failure {
		item, f := d.skip()
		items = append(items, item)
		return f
	})
	if f != nil || !d.end() {
		return nil, false
	}
	return items, true
}

// Object are the members of the object that r is, by their exact names, null ones
// too; false if it is none.
func (r Raw) Object() (members map[string]Raw, ok bool) {
	d := decoder{src: r, limits: rawLimits}
	members = map[string]Raw{}
	f := d.members(func(name []byte) *failure {
		value, f := d.skip()
		members[string(name)] = value
		return f
	})
	if f != nil || !d.end() {
		return nil, false
	}
	return members, true
}

// Enum is implemented by string types with a closed set of values. A value that
// is present and not Valid is refused.
type Enum interface{ Valid() bool }

// An Option changes one Decode.
type Option struct {
	limits  *Limits
	name    string
	into    any
	prefix  bool
	unknown unknownMembers
}

// unknownMembers says what is done with members that a struct does not have.
type unknownMembers uint8

const (
	refused unknownMembers = iota
	passedOverOutermost
	passedOver
)

// Within replaces DefaultLimits.
func Within(l Limits) Option { return Option{limits: &l} }

// At says that the text is the member called path of a larger one: paths in
// errors start with it. Depth is counted from the start of the text.
func At(path string) Option { return Option{name: path, prefix: true} }

// Also accepts one more member of the outermost object, under name or its
// snake_case form, and decodes it into the pointer into.
func Also(name string, into any) Option { return Option{name: name, into: into} }

// AllowUnknown passes over members that a struct does not have, in whatever depth. Each
// is still checked like a Raw, and no name may stand twice.
func AllowUnknown() Option { return Option{unknown: passedOver} }

// AllowUnknownOutermost is AllowUnknown for the members of the outermost object alone.
func AllowUnknownOutermost() Option { return Option{unknown: passedOverOutermost} }

// Decode reads raw, one JSON value and nothing else but white space, into what into
// points to: a struct, or anything else that a field of one may be. null is refused,
// except for a Raw. What into held before is forgotten; on an error its content is
// undefined. Strings are copied, Raw values are not.
func Decode(raw []byte, into any, opts ...Option) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		panic("strictjson: Decode needs a pointer, not " + target.Kind().String())
	}
	target = target.Elem()
	target.SetZero()
	d := decoder{src: raw, limits: DefaultLimits, opts: opts}
	prefix := ""
	for _, o := range opts {
		switch {
		case o.limits != nil:
			d.limits = *o.limits
		case o.prefix:
			prefix = o.name
		case o.unknown != refused:
			d.unknown = o.unknown
		}
	}
	if f := d.document(planOf(target.Type()), target); f != nil {
		return f.fault(prefix)
	}
	return nil
}

// Append appends v, a struct or a pointer to one, as JSON without white space. Members
// follow the order of the fields, those of maps are sorted. Left out are fields tagged
// omitempty when zero or of length 0, and nil pointers and absent Raw values always;
// other nil slices become [] and nil maps {}. 64-bit integers are strings, 32-bit ones
// numbers. Invalid UTF-8 in a string becomes U+FFFD; nothing is escaped for HTML.
func Append(dst []byte, v any) []byte { return appendAny(dst, v, false) }

// Masked stands in the place of a value that is not to be seen, as JSON.
const Masked = `"[masked]"`

// AppendMasked is Append with Masked for each field tagged show:"masked", an empty one
// too.
func AppendMasked(dst []byte, v any) []byte { return appendAny(dst, v, true) }

// Masks reports whether AppendMasked hides anything of a struct of type t.
func Masks(t reflect.Type) bool { return planOf(t).masks(map[*plan]bool{}) }

func appendAny(dst []byte, v any, mask bool) []byte {
	value := reflect.ValueOf(v)
	for value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return append(dst, "null"...)
		}
		value = value.Elem()
	}
	return planOf(value.Type()).append(dst, value, mask)
}

// Prepare analyses the types of examples (structs or pointers to them) and
// panics on a faulty tag. Decode and Append do it by themselves at first use.
func Prepare(examples ...any) {
	for _, e := range examples {
		t := reflect.TypeOf(e)
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		planOf(t)
	}
}
