package policytest

import (
	"fmt"
	"math/big"
	"time"
)

// Values are bool, *big.Int, Text, []any, Struct, Map and time.Time; nil is absent.

// Text is a string. Hex text, an id or an e-mail address is compared without regard to the case of ASCII
// letters.
type Text struct {
	Value   string
	Hex     bool
	literal bool // stands in the source
}

// Struct has members.
type Struct map[string]any

// Map has entries.
type Map map[string]any

// World is what an expression is evaluated in: the roots, as far as they are
// there, and the time.
type World struct {
	Roots map[string]any
	Now   time.Time
}

type bound struct {
	name  string
	value any
}

type evaluator struct {
	world World
	vars  []bound
	steps int
}

// failure is what an evaluation panics with; Eval turns it into its error.
type failure struct{ error }

func fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Eval evaluates an expression. nil is true.
func (e *Expression) Eval(w World) (yes bool, err error) {
	if e == nil {
		return true, nil
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			yes, err = false, r.error
		default:
			panic(r)
		}
	}()
	ev := evaluator{world: w}
	return ev.bool(e.root), nil
}

func (e *evaluator) step() {
	if e.steps++; e.steps > maxSteps {
		fail("too many steps")
	}
}

func (e *evaluator) bool(n *node) bool {
	b, ok := e.eval(n).(bool)
	if !ok {
		fail("no bool")
	}
	return b
}

func (e *evaluator) list(n *node) []any {
	l, ok := e.eval(n).([]any)
	if !ok {
		fail("no list")
	}
	return l
}

// eval is the value of n, which is never absent and never out of its type's
// bounds.
func (e *evaluator) eval(n *node) any {
	e.step()
	v := e.value(n)
	if v == nil {
		fail("nothing there: %s", n.text)
	}
	if x, ok := v.(*big.Int); ok {
		lo, hi := minI128, maxU256
		if n.typ.kind == "int" && !n.typ.wide {
			hi = maxI128
		}
		if x.Cmp(lo) < 0 || x.Cmp(hi) > 0 {
			fail("a number out of bounds")
		}
	}
	return v
}

func (e *evaluator) value(n *node) any {
	switch n.op {
	case "true":
		return true
	case "false":
		return false
	case "int":
		return n.number
	case "string":
		return Text{Value: n.text, literal: true}
	case "Timestamp":
		t, err := timestamp(n.args[0])
		if err != nil {
			fail("%v", err)
		}
		return t
	case "CronSpan":
		s, err := cronSpan(n.args)
		if err != nil {
			fail("%v", err)
		}
		return s.contains(e.world.Now)
	case "list":
		l := []any{}
		for _, k := range n.kids {
			l = append(l, e.eval(k))
		}
		return l
	case "name":
		for i := len(e.vars) - 1; i >= 0; i-- {
			if e.vars[i].name == n.text {
				return e.vars[i].value
			}
		}
		return e.world.Roots[n.text]
	case "field":
		v := e.eval(n.kids[0])
		if n.kids[0].typ.kind != "struct" { // list.count
			return count(v)
		}
		s, ok := v.(Struct)
		if !ok {
			fail("no struct")
		}
		if n.text == "named_account" {
			return s["named_accounts"]
		}
		return s[n.text]
	case "call":
		return e.call(n)
	case "index":
		return index(e.eval(n.kids[0]), e.eval(n.kids[1]))
	case "slice":
		return slice(e.eval(n.kids[0]), e.eval(n.kids[1]), e.eval(n.kids[2]))
	case "!":
		return !e.bool(n.kids[0])
	case "&&":
		a, b := e.bool(n.kids[0]), e.bool(n.kids[1])
		return a && b
	case "||":
		a, b := e.bool(n.kids[0]), e.bool(n.kids[1])
		return a || b
	case "==", "!=":
		a, b := e.eval(n.kids[0]), e.eval(n.kids[1])
		return equal(a, b, n.kids[0].typ, n.kids[1].typ) == (n.op == "==")
	case "<", ">", "<=", ">=":
		return ordered(e.eval(n.kids[0]), e.eval(n.kids[1]), n.op)
	case "in":
		return e.member(n.kids[1], n.kids[0])
	}
	fail("no operator %s", n.op)
	return nil
}

func count(v any) any {
	l, ok := v.([]any)
	if !ok {
		fail("count of what is no list")
	}
	return big.NewInt(int64(len(l)))
}

// member tells whether list contains v, which is held against every item.
func (e *evaluator) member(list, v *node) bool {
	x, found := e.eval(v), false
	for _, item := range e.list(list) {
		e.step()
		t := list.typ
		if t.kind == "list" {
			t = t.elem
		}
		if equal(x, item, v.typ, t) {
			found = true
		}
	}
	return found
}

func (e *evaluator) call(n *node) any {
	switch n.text {
	case "count":
		return count(e.eval(n.kids[0]))
	case "contains":
		return e.member(n.kids[0], n.kids[1])
	}
	all, anyOf, kept := true, false, []any{}
	for _, item := range e.list(n.kids[0]) {
		e.vars = append(e.vars, bound{n.variable, item})
		yes := e.bool(n.kids[1])
		e.vars = e.vars[:len(e.vars)-1]
		all, anyOf = all && yes, anyOf || yes
		if yes {
			kept = append(kept, item)
		}
	}
	switch n.text {
	case "all":
		return all
	case "any":
		return anyOf
	}
	return kept
}

// canonical tells whether s is a whole number as it is written.
func canonical(s string) bool {
	n, ok := new(big.Int).SetString(s, 10)
	return ok && n.String() == s
}

func fold(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// equal is a == b. A dynamic number equals its canonical decimal literal.
func equal(a, b any, at, bt *Type) bool {
	switch x := a.(type) {
	case bool:
		if y, ok := b.(bool); ok {
			return x == y
		}
	case *big.Int:
		switch y := b.(type) {
		case *big.Int:
			return x.Cmp(y) == 0
		case Text:
			if at.kind == "dynamic" && y.literal && canonical(y.Value) {
				return x.String() == y.Value
			}
		}
	case Text:
		switch y := b.(type) {
		case Text:
			if x.Hex || y.Hex {
				return fold(x.Value) == fold(y.Value)
			}
			return x.Value == y.Value
		case *big.Int:
			return equal(b, a, bt, at)
		}
	case time.Time:
		if y, ok := b.(time.Time); ok {
			return x.Equal(y)
		}
	}
	fail("types clash")
	return false
}

func ordered(a, b any, op string) bool {
	c := 0
	switch x := a.(type) {
	case *big.Int:
		y, ok := b.(*big.Int)
		if !ok {
			fail("types clash")
		}
		c = x.Cmp(y)
	case time.Time:
		y, ok := b.(time.Time)
		if !ok {
			fail("types clash")
		}
		c = x.Compare(y)
	default:
		fail("nothing to order")
	}
	switch op {
	case "<":
		return c < 0
	case ">":
		return c > 0
	case "<=":
		return c <= 0
	}
	return c >= 0
}

// position is i as a number of 0 to n.
func position(i any, n int) int {
	x, ok := i.(*big.Int)
	if !ok {
		fail("an index that is no number")
	}
	if x.Sign() < 0 || x.Cmp(big.NewInt(int64(n))) > 0 {
		fail("index out of range")
	}
	return int(x.Int64())
}

func index(v, i any) any {
	switch x := v.(type) {
	case []any:
		if k := position(i, len(x)); k < len(x) {
			return x[k]
		}
	case Text:
		chars := []rune(x.Value)
		if k := position(i, len(chars)); k < len(chars) {
			return Text{Value: string(chars[k]), Hex: x.Hex}
		}
	case Map:
		if key, ok := i.(Text); ok {
			return x[key.Value] // nil if it is not there
		}
	}
	fail("no such item")
	return nil
}

func slice(v, from, to any) any {
	switch x := v.(type) {
	case []any:
		a, b := position(from, len(x)), position(to, len(x))
		if a <= b {
			return x[a:b:b]
		}
	case Text:
		chars := []rune(x.Value)
		a, b := position(from, len(chars)), position(to, len(chars))
		if a <= b {
			return Text{Value: string(chars[a:b]), Hex: x.Hex}
		}
	}
	fail("no such slice")
	return nil
}
