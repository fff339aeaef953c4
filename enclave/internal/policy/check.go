package policy

import "slices"

// checker gives every node its shape and resolves names. It reports the first
// thing in the source that cannot be.
type checker struct {
	clause    Clause
	variables []variable
}

type variable struct {
	name  string
	shape *shape
}

func unknownField(n *node) *problem {
	return problemAt(n.at, "field does not exist: %s", shorten(n.name, 80))
}

func check(clause Clause, n *node) *problem {
	c := &checker{clause: clause}
	return c.want(n, classBool)
}

// want checks n and that it is of a class, or dynamic.
func (c *checker) want(n *node, want class) *problem {
	if err := c.check(n); err != nil {
		return err
	}
	got := n.shape.class
	if got == want || got == classDynamic || want == classInt && n.shape.number() || want == classString && n.shape.text() {
		return nil
	}
	return problemAt(n.pos, "this is %s, not %s", n.shape, [...]string{classBool: "bool", classInt: "int", classString: "string"}[want])
}

func (c *checker) check(n *node) *problem {
	switch n.op {
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
		return c.name(n)
	case opMember:
		return c.member(n)
	case opList:
		return c.list(n)
	case opIndex:
		return c.index(n)
	case opSlice:
		return c.slice(n)
	case opAll, opAny, opFilter, opContains, opCount:
		return c.method(n)
	case opNot, opAnd, opOr:
		n.shape = boolShape
		for _, k := range n.kids {
			if err := c.want(k, classBool); err != nil {
				return err
			}
		}
	case opTimestamp, opCronSpan:
		return c.function(n)
	default:
		return c.comparison(n)
	}
	return nil
}

func (c *checker) name(n *node) *problem {
	for i := len(c.variables) - 1; i >= 0; i-- {
		if v := c.variables[i]; v.name == n.name {
			n.slot, n.shape = i, v.shape
			return nil
		}
	}
	if group(n.name) {
		return problemAt(n.at, "%s is no value, only its members are", n.name)
	}
	return c.root(n, n.name)
}

func (c *checker) root(n *node, name string) *problem {
	id := findRoot(name)
	if id == 0 {
		return unknownField(n)
	}
	if r := &roots[id]; r.clause != c.clause {
		return problemAt(n.pos, "%s belongs into %s", r.name, r.clause)
	}
	n.root, n.shape = id, roots[id].shape
	return nil
}

func (c *checker) member(n *node) *problem {
	of := n.kids[0]
	if of.op == opName && group(of.name) {
		return c.root(n, of.name+"."+n.name)
	}
	if err := c.check(of); err != nil {
		return err
	}
	f := of.shape.field(n.name)
	if f == nil {
		return unknownField(n)
	}
	n.shape, n.read = f.shape, f.name
	if f.read != "" {
		n.read = f.read
	}
	return nil
}

func (c *checker) list(n *node) *problem {
	elem := nothingShape
	for _, k := range n.kids {
		if err := c.check(k); err != nil {
			return err
		}
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
			return problemAt(k.pos, "a list of %s cannot hold %s", elem, k.shape)
		}
	}
	n.shape = listOf(elem)
	if !slices.ContainsFunc(n.kids, func(k *node) bool { return !k.literal() }) {
		n.lit.typ = TypeList
		for _, k := range n.kids {
			n.lit.list = append(n.lit.list, k.lit)
		}
	}
	return nil
}

// scalar tells whether values of a shape can be compared at all.
func scalar(s *shape) bool {
	return s.class == classBool || s.number() || s.text() || s.class == classTime || s.class == classDynamic || s.class == classNothing
}

func (c *checker) index(n *node) *problem {
	of, at := n.kids[0], n.kids[1]
	if err := c.check(of); err != nil {
		return err
	}
	switch of.shape.class {
	case classList:
		n.shape = of.shape.elem
		return c.want(at, classInt)
	case classString, classHex:
		n.shape = of.shape
		return c.want(at, classInt)
	case classMap:
		n.shape = of.shape.elem
		return c.want(at, classString)
	case classDynamic:
		n.shape = dynamicShape
		if err := c.check(at); err != nil {
			return err
		}
		if at.shape.number() || at.shape.text() || at.shape.class == classDynamic {
			return nil
		}
		return problemAt(at.pos, "this is %s, neither int nor string", at.shape)
	}
	return problemAt(n.pos, "%s has no elements", of.shape)
}

func (c *checker) slice(n *node) *problem {
	of := n.kids[0]
	if err := c.check(of); err != nil {
		return err
	}
	if !of.shape.text() && of.shape.class != classList && of.shape.class != classDynamic {
		return problemAt(n.pos, "%s cannot be sliced", of.shape)
	}
	n.shape = of.shape
	for _, k := range n.kids[1:] {
		if err := c.want(k, classInt); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) method(n *node) *problem {
	of := n.kids[0]
	if err := c.check(of); err != nil {
		return err
	}
	elem := of.shape.elem
	switch of.shape.class {
	case classDynamic:
		elem = dynamicShape
	case classList:
	default:
		return problemAt(n.at, "%s is for lists, this is %s", opTexts[n.op], of.shape)
	}
	switch n.shape = boolShape; n.op {
	case opCount:
		n.shape = intShape
		return nil
	case opContains:
		if err := c.check(n.kids[1]); err != nil {
			return err
		}
		return checkComparable(n.kids[1].pos, n.kids[1].shape, elem)
	case opFilter:
		n.shape = of.shape
	}
	n.slot = len(c.variables)
	c.variables = append(c.variables, variable{n.name, elem})
	err := c.want(n.kids[1], classBool)
	c.variables = c.variables[:n.slot]
	return err
}

// checkComparable tells whether == makes sense between two shapes.
func checkComparable(pos int, a, b *shape) *problem {
	switch {
	case !scalar(a):
		return problemAt(pos, "%s cannot be compared", a)
	case !scalar(b):
		return problemAt(pos, "%s cannot be compared", b)
	case a.class == b.class, a.number() && b.number(), a.text() && b.text(), a.class == classNothing, b.class == classNothing,
		a.class == classDynamic && b.class != classTime, b.class == classDynamic && a.class != classTime:
		return nil
	}
	return problemAt(pos, "%s cannot be compared with %s", a, b)
}

func (c *checker) comparison(n *node) *problem {
	n.shape = boolShape
	for _, k := range n.kids {
		if err := c.check(k); err != nil {
			return err
		}
	}
	a, b := n.kids[0].shape, n.kids[1].shape
	switch {
	case n.op == opIn && b.class == classList:
		return checkComparable(n.pos, a, b.elem)
	case n.op == opIn && b.class == classDynamic:
		return checkComparable(n.pos, a, dynamicShape)
	case n.op == opIn:
		return problemAt(n.kids[1].pos, "in wants a list, this is %s", b)
	case n.op == opEq || n.op == opNe:
		return checkComparable(n.pos, a, b)
	}
	for _, k := range n.kids {
		if s := k.shape; !s.number() && s.class != classTime && s.class != classDynamic {
			return problemAt(k.pos, "%s has no order", s)
		}
	}
	return checkComparable(n.pos, a, b)
}

func (c *checker) function(n *node) *problem {
	if c.clause != ClauseTime {
		return problemAt(n.at, "%s belongs into %s", opTexts[n.op], ClauseTime)
	}
	want := 1
	if n.op == opCronSpan {
		want = 3
	}
	if len(n.kids) != want {
		return problemAt(n.at, "%s takes %d arguments, not %d", opTexts[n.op], want, len(n.kids))
	}
	for _, k := range n.kids {
		k.shape = stringShape
	}
	if n.op == opTimestamp {
		ms, err := timestamp(n.kids[0].lit.string)
		if err != "" {
			return problemAt(n.kids[0].pos, "%s", err)
		}
		n.shape, n.lit = timeShape, Value{typ: typeTime, small: ms}
		return nil
	}
	span, which, err := newCronSpan(n.kids[0].lit.string, n.kids[1].lit.string, n.kids[2].lit.string)
	if err != "" {
		return problemAt(n.kids[which].pos, "%s", err)
	}
	n.shape, n.span = boolShape, span
	return nil
}
