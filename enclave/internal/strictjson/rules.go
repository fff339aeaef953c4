package strictjson

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The rules of a `rule` tag, separated by commas, in the order of the published
// interface:
//
//	required       a string: there and not empty; an array or map followed by
//	               dive: not empty; an array or map without dive: no demand, as
//	               absent means empty; everything else: there, zero allowed
//	present        there and not null, may be empty or zero
//	omitempty      an absent or zero value is not looked at any further
//	dive           the rules after it are for the elements
//	min= max= len= runes of a string, elements of an array, value of an integer
//	gt=            the same, more than
//	max_length=    as max=
//	oneof=A B      one of the words
//	uuid uuid4 label label_length hexadecimal numeric email email_ext e164
//	api_key cidr   see formats.go
//
// Without omitempty an absent string or integer is checked as its zero value,
// so `uuid` alone demands one. A nil pointer is refused by required and present
// only. A name that is not listed panics when the type is first used.
type rules struct {
	required  bool // present and, for strings, not empty
	present   bool
	omitempty bool
	dive      bool
	checks    []check
	elements  *rules // after dive; nil without
}

type check struct {
	op      op
	operand int64
	words   []string
	text    string
}

type op uint8

const (
	opMin op = iota
	opMax
	opLen
	opOneOf
	opFormat // formats[n]
)

func (r *rules) items() *rules {
	if r == nil {
		return nil
	}
	return r.elements
}

func parseRules(tag string, p *plan, where string) *rules {
	bad := func(what string) {
		panic(fmt.Sprintf("strictjson: field %s: %s in rule %q", where, what, tag))
	}
	for p.kind == kindPtr {
		p = p.elem
	}
	r := &rules{}
	for rest := tag; rest != ""; {
		var word string
		word, rest, _ = strings.Cut(rest, ",")
		switch word {
		case "required":
			r.required = true
		case "present":
			r.present = true
		case "omitempty":
			r.omitempty = true
		case "dive":
			if p.kind != kindSlice && p.kind != kindMap {
				bad("dive into something without elements")
			}
			r.dive = true
			if rest != "" {
				r.elements = parseRules(rest, p.elem, where)
			}
			return r
		default:
			c, what := parseCheck(word, p)
			if what != "" {
				bad(what)
			}
			r.checks = append(r.checks, c)
		}
	}
	return r
}

// parseCheck compiles one rule with a condition, or says what is wrong with it.
func parseCheck(word string, p *plan) (c check, wrong string) {
	name, arg, _ := strings.Cut(word, "=")
	countable := p.kind == kindString || p.kind == kindInt || p.kind == kindUint || p.kind == kindSlice || p.kind == kindMap
	switch name {
	case "min", "max", "len", "gt", "max_length":
		n, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || n < 0 || !countable {
			return c, "bad bound " + word
		}
		return bound(name, n, p), ""
	case "oneof":
		if p.kind != kindString || arg == "" {
			return c, "bad " + word
		}
		return check{op: opOneOf, words: strings.Fields(arg), text: "must be one of: " + strings.Join(strings.Fields(arg), ", ")}, ""
	}
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
	switch {
	case i < 0 || arg != "":
		return c, "unknown name " + strconv.Quote(word)
	case p.kind == kindString:
		return check{op: opFormat, operand: int64(i), text: formats[i].text}, ""
	case name == "numeric" && (p.kind == kindInt || p.kind == kindUint):
		return check{op: opMin, operand: math.MinInt64}, "" // an integer is numeric
	}
	return c, "rule for strings only " + word
}

func bound(name string, n int64, p *plan) check {
	text := "must have %s %d "
	switch p.kind {
	case kindString:
		text += "characters"
	case kindSlice:
		text += "elements"
	case kindMap:
		text += "members"
	default:
		text = "must be %s %d"
	}
	switch name {
	case "min":
		return check{op: opMin, operand: n, text: fmt.Sprintf(text, "at least", n)}
	case "gt":
		return check{op: opMin, operand: n + 1, text: fmt.Sprintf(text, "more than", n)}
	case "len":
		return check{op: opLen, operand: n, text: fmt.Sprintf(text, "exactly", n)}
	}
	return check{op: opMax, operand: n, text: fmt.Sprintf(text, "at most", n)}
}

// check looks at a value that is there.
func (r *rules) check(p *plan, v reflect.Value) *failure {
	for p.kind == kindPtr {
		p, v = p.elem, v.Elem()
	}
	if r.required && p.empty(v) && (p.kind == kindString || r.dive) {
		return &failure{kind: missingField}
	}
	if r.omitempty && p.empty(v) {
		return nil
	}
	for i := range r.checks {
		if c := &r.checks[i]; !c.isFulfilled(p, v) {
			return refuse(c.text)
		}
	}
	return nil
}

func (r *rules) refusesAbsence(p *plan) bool {
	switch {
	case r == nil:
		return false
	case r.present || r.required && p.kind != kindSlice && p.kind != kindMap:
		return true
	case p.kind == kindPtr || p.kind == kindStruct || p.kind == kindRaw:
		return false
	}
	return r.check(p, reflect.Zero(p.typ)) != nil
}

// empty is what omitempty and required mean by it.
func (p *plan) empty(v reflect.Value) bool {
	switch p.kind {
	case kindString, kindSlice, kindMap, kindRaw:
		return v.Len() == 0
	}
	return v.IsZero()
}

func (c *check) isFulfilled(p *plan, v reflect.Value) bool {
	switch c.op {
	case opFormat:
		return formats[c.operand].holds(v.String())
	case opOneOf:
		return slices.Contains(c.words, v.String())
	}
	var n int64
	switch p.kind {
	case kindString:
		n = int64(utf8.RuneCountInString(v.String()))
	case kindInt:
		n = v.Int()
	case kindUint:
		n = int64(min(v.Uint(), math.MaxInt64))
	default:
		n = int64(v.Len())
	}
	switch c.op {
	case opMin:
		return n >= c.operand
	case opMax:
		return n <= c.operand
	}
	return n == c.operand
}
