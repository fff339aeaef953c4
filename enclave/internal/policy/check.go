package policy

import (
	"cmp"
	"slices"
	"strings"
)

// checker gives every node its shape and resolves names. It notes the first thing in
// the source that cannot be, and takes such a node for dynamic.
type checker struct {
	clause    Clause
	variables []variable
	problem   *problem
}

type variable struct {
	name  string
	shape *shape
}

func check(clause Clause, n *node) *problem {
	c := &checker{clause: clause}
	c.want(n, classBool)
	return c.problem
}

func (c *checker) fail(pos int, format string, args ...any) {
	if c.problem == nil {
		c.problem = problemAt(pos, format, args...)
	}
}

func (c *checker) unknownField(n *node) {
	name := shorten(n.name, 80)
	switch lower := strings.ToLower(name); {
	case n.op == opName && (lower == "true" || lower == "false"):
		name += ", use " + lower
	case n.op == opName && (lower == "null" || lower == "nil" || lower == "none" || lower == "undefined"):
		name += "; there is no null, and reading what a request lacks is an error"
	}
	c.fail(n.at, "field does not exist: %s", name)
}

// wrongClause refuses what another clause may use.
func (c *checker) wrongClause(pos int, name string, belongs Clause) {
	c.fail(pos, "%s can be used in the %s only, not in the %s", name, belongs, c.clause)
}

// want checks n and that it is of a class, or dynamic.
func (c *checker) want(n *node, want class) {
	c.check(n)
	got := n.shape.class
	if got != want && got != classDynamic && !(want == classInt && n.shape.number()) && !(want == classString && n.shape.text()) {
		c.fail(n.pos, "this is %s, not %s", n.shape, [...]string{classBool: "bool", classInt: "int", classString: "string"}[want])
	}
}

func (c *checker) check(n *node) {
	switch n.shape = dynamicShape; n.op {
	case opBool:
		n.shape = boolShape
	case opInt:
		n.shape = intShape
		if n.lit.big != nil && n.lit.big.Cmp(maxInt) > 0 {
			n.shape = uintShape
		}
	case opString:
		n.shape = stringShape
	case opName:
		c.name(n)
	case opMember:
		c.member(n)
	case opList:
		c.list(n)
	case opIndex:
		c.index(n)
	case opSlice:
		c.slice(n)
	case opAll, opAny, opFilter, opContains, opCount:
		c.method(n)
	case opNot, opAnd, opOr:
		n.shape = boolShape
		for _, k := range n.kids {
			c.want(k, classBool)
		}
	case opTimestamp, opCronSpan:
		c.function(n)
	default:
		c.comparison(n)
	}
}

func (c *checker) name(n *node) {
	for i, v := range slices.Backward(c.variables) {
		if v.name == n.name {
			n.slot, n.shape = i, v.shape
			return
		}
	}
	if group(n.name) {
		c.fail(n.at, "%s is no value by itself, only its members are", n.name)
	}
	c.root(n, n.name)
}

func (c *checker) root(n *node, name string) {
	id := findRoot(name)
	switch r := &roots[id]; {
	case id == 0:
		c.unknownField(n)
	case r.clause != c.clause:
		c.wrongClause(n.pos, r.name, r.clause)
	default:
		n.root, n.shape = id, r.shape
	}
}

func (c *checker) member(n *node) {
	of := n.kids[0]
	if of.op == opName && group(of.name) {
		c.root(n, of.name+"."+n.name)
		return
	}
	c.check(of)
	f := of.shape.field(n.name)
	if f == nil {
		c.unknownField(n)
		return
	}
	n.shape, n.read = f.shape, cmp.Or(f.read, f.name)
}

func (c *checker) list(n *node) {
	elem := nothingShape
	for _, k := range n.kids {
		c.check(k)
		switch {
		case elem == nothingShape:
			elem = k.shape
		case elem.class == classDynamic && scalar(k.shape), k.shape.class == classDynamic && scalar(elem):
			elem = dynamicShape
		case elem.number() && k.shape.number():
			if k.shape.class == classUint {
				elem = uintShape // of literals and of what was read, which need no further check
			}
		case elem.text() && k.shape.text():
			elem = stringShape
		case elem.name != k.shape.name:
			c.fail(k.pos, "a list of %s cannot hold %s", elem, k.shape)
		}
	}
	n.shape = listOf(elem)
	if !slices.ContainsFunc(n.kids, func(k *node) bool { return !k.literal() }) {
		n.lit.typ = TypeList
		for _, k := range n.kids {
			n.lit.list = append(n.lit.list, k.lit)
		}
	}
}

// scalar tells whether values of a shape can be compared at all.
func scalar(s *shape) bool {
	return s.class == classBool || s.number() || s.text() || s.class == classTime || s.class == classDynamic || s.class == classNothing
}

func (c *checker) index(n *node) {
	of, at := n.kids[0], n.kids[1]
	c.check(of)
	switch of.shape.class {
	case classList:
		n.shape = of.shape.elem
		c.want(at, classInt)
	case classString, classHex, classKey:
		n.shape = of.shape
		c.want(at, classInt)
	case classMap:
		n.shape = of.shape.elem
		c.want(at, classString)
	case classDynamic:
		c.check(at)
		if !at.shape.number() && !at.shape.text() && at.shape.class != classDynamic {
			c.fail(at.pos, "this is %s, neither int nor string", at.shape)
		}
	default:
		c.fail(n.pos, "%s has no elements", of.shape)
	}
}

func (c *checker) slice(n *node) {
	of := n.kids[0]
	c.check(of)
	if !of.shape.text() && of.shape.class != classList && of.shape.class != classDynamic {
		c.fail(n.pos, "%s cannot be sliced", of.shape)
	}
	n.shape = of.shape
	for _, k := range n.kids[1:] {
		c.want(k, classInt)
	}
}

func (c *checker) method(n *node) {
	of := n.kids[0]
	c.check(of)
	elem := of.shape.elem
	switch of.shape.class {
	case classDynamic:
		elem = dynamicShape
	case classList:
	default:
		c.fail(n.at, "%s is for lists, this is %s", opTexts[n.op], of.shape)
		return
	}
	switch n.shape = boolShape; n.op {
	case opCount:
		n.shape = intShape
		return
	case opContains:
		c.check(n.kids[1])
		c.comparable(n.kids[1].pos, n.kids[1].shape, elem)
		return
	case opFilter:
		n.shape = of.shape
	}
	n.slot = len(c.variables)
	c.variables = append(c.variables, variable{n.name, elem})
	c.want(n.kids[1], classBool)
	c.variables = c.variables[:n.slot]
}

// comparable refuses two shapes between which == makes no sense.
func (c *checker) comparable(pos int, a, b *shape) {
	switch {
	case !scalar(a):
		c.fail(pos, "%s cannot be compared", a)
	case !scalar(b):
		c.fail(pos, "%s cannot be compared", b)
	case a.class == b.class, a.number() && b.number(), a.text() && b.text(), a.class == classNothing, b.class == classNothing,
		a.class == classDynamic && b.class != classTime, b.class == classDynamic && a.class != classTime:
	default:
		c.fail(pos, "%s cannot be compared with %s", a, b)
	}
}

func (c *checker) comparison(n *node) {
	n.shape = boolShape
	for _, k := range n.kids {
		c.check(k)
	}
	a, b := n.kids[0].shape, n.kids[1].shape
	switch {
	case n.op == opIn && b.class == classList:
		b = b.elem
	case n.op == opIn && b.class == classDynamic, n.op == opEq, n.op == opNe:
	case n.op == opIn:
		c.fail(n.kids[1].pos, "in wants a list, this is %s", b)
	default:
		for _, k := range n.kids {
			if s := k.shape; !s.number() && s.class != classTime && s.class != classDynamic {
				c.fail(k.pos, "%s has no order; < <= > >= are for numbers and timestamps", s)
			}
		}
	}
	c.comparable(n.pos, a, b)
}

func (c *checker) function(n *node) {
	if c.clause != ClauseTime {
		c.wrongClause(n.at, opTexts[n.op], ClauseTime)
	}
	want := 1
	if n.op == opCronSpan {
		want = 3
	}
	if len(n.kids) != want {
		c.fail(n.at, "%s takes %d arguments, not %d", opTexts[n.op], want, len(n.kids))
		return
	}
	arguments := make([]string, want)
	for i, k := range n.kids {
		k.shape = stringShape
		arguments[i] = k.lit.string
	}
	var which int
	var wrong string
	if n.op == opTimestamp {
		n.shape, n.lit.typ = timeShape, typeTime
		n.lit.small, wrong = timestamp(arguments[0])
	} else {
		n.shape = boolShape
		n.span, which, wrong = newCronSpan(arguments[0], arguments[1], arguments[2])
	}
	if wrong != "" {
		c.fail(n.kids[which].pos, "%s", wrong)
	}
}
