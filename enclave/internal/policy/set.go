package policy

import (
	"cmp"
	"slices"
)

// A Set is an organization's policies in the order of their ids, made ready to be
// asked together. It is immutable.
//
// Most policies of a long list are about other requests than the one that is
// asked. A condition that only compares what a request says with literals, joined
// by &&, || and !, is told from a table: what such conditions read is read once
// for all of them, texts are looked up once among all literals, and each condition
// is then a few comparisons of numbers. It comes to the same as walking it, errors
// and steps included: nothing in it can take more steps for one request than for
// another, but that an error ends it, so the steps are counted when it is compiled.
// Whatever else a condition does is walked.
//
// So is a consensus, but for those that ask whether somebody, or how many, of the
// approvers have an id, a name, a mail address or a tag that stands in the policy.
type Set struct {
	policies []*Policy
	short    []short           // of each policy's condition
	asks     []short           // of its consensus
	views    []*node           // what short conditions read
	exact    map[string]uint32 // the literals, from 1
	folded   map[string]uint32 // the same, and those apart only in the case of ASCII letters as one
	ids      []byte
}

const (
	maxViews  = 64 // bits of a mask
	maxSymbol = 64 // a literal text is shorter in bytes: comparing it takes no extra step
)

// A short is a condition in terms of the views, or a consensus.
type short struct {
	known bool // the expression is one
	steps int  // to evaluate it
	each  int  // and for each approver
	tags  int  // and for each tag of each
	reads []read
	mask  uint64 // of views
	test  test
}

// A read is a view that a condition reads, with the steps that it has taken when
// that fails.
type read struct{ view, steps int }

// A test is a comparison with literals, or several joined.
type test struct {
	op      op // opAnd, opOr, opNot, opBool: a literal; a comparison; opIn
	yes     bool
	swap    bool // the literal stands on the left
	view    uint8
	text    symbol   // a text
	number  int64    // a number
	texts   []symbol // of opIn
	numbers []int64  // of opIn
	kids    []test
}

// A symbol is a literal text by its numbers in exact and in folded.
type symbol struct{ exact, folded uint32 }

// NewSet makes policies, which are in the order of their ids, ready.
func NewSet(policies []*Policy) *Set {
	s := &Set{policies: policies, short: make([]short, len(policies)), asks: make([]short, len(policies)), exact: map[string]uint32{}, folded: map[string]uint32{}}
	for i, p := range policies {
		s.ids = append(s.ids, p.ID[:]...)
		if c := p.Consensus; c != nil {
			a := abbreviator{set: s}
			if a.test(c.root, &a.short.test) {
				a.short.known = true
				s.asks[i] = a.short
			}
		}
		if p.Condition == nil {
			continue
		}
		a := abbreviator{set: s, views: len(s.views)}
		if a.test(p.Condition.root, &a.short.test) {
			a.short.known = true
			s.short[i] = a.short
		} else {
			s.views = s.views[:a.views] // those that it alone needed
		}
	}
	return s
}

func (s *Set) len() int {
	if s == nil {
		return 0
	}
	return len(s.policies)
}

// An abbreviator makes one short condition. It goes where the machine goes, and
// counts the steps that it takes.
type abbreviator struct {
	set   *Set
	views int // that were there before
	short short
	voter bool // inside of what is asked of each approver
}

func (a *abbreviator) step(steps int) {
	if a.voter {
		a.short.each += steps
		return
	}
	a.short.steps += steps
}

// test makes the test of an expression of type bool.
func (a *abbreviator) test(n *node, t *test) bool {
	if a.path(n, t) {
		t.op, t.yes = opEq, true
		return n.shape.class == classBool
	}
	a.step(1)
	switch t.op = n.op; n.op {
	case opBool:
		t.yes = n.lit.yes
		return true
	case opAnd, opOr, opNot:
		t.kids = make([]test, len(n.kids))
		for i, k := range n.kids {
			if !a.test(k, &t.kids[i]) {
				return false
			}
		}
		return true
	case opEq, opNe, opLt, opGt, opLe, opGe:
		left, right := n.kids[0], n.kids[1]
		if left.op == opCount && left.kids[0].op == opFilter && right.op == opInt {
			a.step(2) // the two
			return a.literal(right, left, t) && a.approvers(left.kids[0], t)
		}
		if t.swap = left.literal(); t.swap {
			return a.literal(left, right, t) && a.path(right, t)
		}
		return a.path(left, t) && a.literal(right, left, t)
	case opIn:
		return a.in(n.kids[1], n.kids[0], t)
	case opContains:
		return a.in(n.kids[0], n.kids[1], t)
	case opAny:
		return a.approvers(n, t)
	}
	return false
}

// approvers makes the test that a lambda asks of each approver.
func (a *abbreviator) approvers(n *node, t *test) bool {
	if a.voter || n.kids[0].root != rootApprovers {
		return false
	}
	a.step(1)
	a.voter = true
	t.kids = make([]test, 1)
	ok := a.test(n.kids[1], &t.kids[0])
	a.voter = false
	return ok
}

// voterFields are what short consensuses read of an approver besides his tags.
var voterFields = [...]string{"id", "email", "alias"}

// field tells whether n is a member of an approver.
func (a *abbreviator) field(n *node) bool {
	return a.voter && n.op == opMember && n.kids[0].op == opName && n.kids[0].root == 0
}

// path makes a view of what is read of the request.
func (a *abbreviator) path(n *node, t *test) bool {
	if a.voter {
		at := slices.Index(voterFields[:], n.name)
		if !a.field(n) || at < 0 {
			return false
		}
		a.step(2)
		t.view = uint8(at)
		return true
	}
	depth, base := 1, n
	for ; base.root == 0; base = base.kids[0] {
		if base.op != opMember {
			return false
		}
		depth++
	}
	switch n.shape.class {
	case classBool, classInt, classUint, classString, classHex:
	default:
		return false
	}
	at := slices.IndexFunc(a.set.views, n.same)
	if at < 0 && len(a.set.views) == maxViews {
		return false
	}
	if at < 0 {
		at = len(a.set.views)
		a.set.views = append(a.set.views, n)
	}
	a.short.steps += depth
	a.short.reads = append(a.short.reads, read{at, a.short.steps})
	a.short.mask |= 1 << at
	t.view = uint8(at)
	return true
}

// literal makes the literal that something is compared with.
func (a *abbreviator) literal(n, with *node, t *test) bool {
	a.step(1)
	switch n.op {
	case opBool:
		t.yes = n.lit.yes
		return with.shape.class == classBool
	case opInt:
		t.number = n.lit.small
		return with.shape.number() && n.lit.big == nil
	case opString:
		if len(n.lit.string) >= maxSymbol {
			return false
		}
		t.text = a.set.symbol(n.lit.string)
		return with.shape.text()
	}
	return false
}

// in makes the literals in which something is.
func (a *abbreviator) in(list, item *node, t *test) bool {
	if a.field(list) && list.name == "tags" && item.op == opString {
		t.op = opContains
		a.step(2)
		a.short.tags++
		return a.literal(item, item, t)
	}
	t.op = opIn
	if list.op != opList || list.lit.typ != TypeList || len(list.kids) == 0 {
		return false
	}
	a.step(1)
	if !a.path(item, t) {
		return false
	}
	for _, k := range list.kids {
		var one test
		if k.op == opBool || !a.literal(k, item, &one) {
			return false
		}
		if k.op == opString {
			t.texts = append(t.texts, one.text)
		} else {
			t.numbers = append(t.numbers, one.number)
		}
	}
	return true
}

// symbol numbers a literal.
func (s *Set) symbol(text string) symbol {
	number := func(of map[string]uint32, text string) uint32 {
		if of[text] == 0 {
			of[text] = uint32(len(of) + 1)
		}
		return of[text]
	}
	return symbol{number(s.exact, text), number(s.folded, lowerASCII(text))}
}

// lowerASCII is text with its ASCII letters in lower case.
func lowerASCII(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] |= 0x20
		}
	}
	return string(b)
}

// viewValues are what a request has in the views of a set, or an approver in
// voterFields.
type viewValues struct {
	fails  uint64 // of views: reading it is an error
	seen   []seen
	tags   []uint32 // of the approver, in exact
	voters []viewValues
}

// seen is what stands in one view.
type seen struct {
	why    failure
	yes    bool
	folds  bool
	symbol uint32 // in exact, or if it folds in folded; 0: no literal
	small  int64
	beyond int // the sign of a number that small cannot hold
}

// readViews reads the views.
func (s *Set) readViews(m *machine) viewValues {
	g := viewValues{seen: make([]seen, len(s.views))}
	for i := range s.views {
		m.steps = maxSteps
		v, ok := m.value(s.views[i])
		e := &g.seen[i]
		if !ok {
			g.fails |= 1 << i
			e.why = m.why
			continue
		}
		switch e.yes, e.small, e.folds = v.yes, v.small, v.typ == TypeHex; {
		case v.big != nil:
			e.beyond = v.big.Sign()
		case !v.text() || len(v.string) >= maxSymbol:
		case e.folds:
			e.symbol = s.folded[lowerASCII(v.string)]
		default:
			e.symbol = s.exact[v.string]
		}
	}
	return g
}

// readApprovers reads the approvers.
func (s *Set) readApprovers(voters []voter) []viewValues {
	gs := make([]viewValues, len(voters))
	for i := range voters {
		gs[i].seen = make([]seen, len(voterFields))
		for j, name := range voterFields {
			v, _ := voters[i].user.member(name)
			gs[i].seen[j].symbol = s.exact[v.string]
		}
		tags, _ := voters[i].user.member("tags")
		for _, tag := range tags.list {
			gs[i].tags = append(gs[i].tags, s.exact[tag.string])
		}
	}
	return gs
}

// sees tells whether anything that is asked of approvers is true of one.
func (t *test) sees(voter *viewValues) bool {
	if len(t.kids) == 1 && t.op != opNot {
		return t.kids[0].holds(voter)
	}
	return slices.ContainsFunc(t.kids, func(k test) bool { return k.sees(voter) })
}

// holds evaluates a short expression that cannot fail on what was seen.
func (t *test) holds(g *viewValues) bool {
	switch t.op {
	case opAnd, opOr:
		for i := range t.kids {
			if t.kids[i].holds(g) != (t.op == opAnd) {
				return t.op == opOr
			}
		}
		return t.op == opAnd
	case opNot:
		return !t.kids[0].holds(g)
	case opBool:
		return t.yes
	case opContains:
		return slices.Contains(g.tags, t.text.exact)
	case opIn:
		return t.among(&g.seen[t.view])
	case opAny:
		return t.count(g) > 0
	}
	var order int
	if len(t.kids) > 0 {
		order = cmp.Compare(t.count(g), t.number)
	} else {
		order = t.order(&g.seen[t.view])
	}
	if t.swap {
		order = -order
	}
	switch t.op {
	case opEq:
		return order == 0
	case opNe:
		return order != 0
	case opLt:
		return order < 0
	case opGt:
		return order > 0
	case opLe:
		return order <= 0
	default:
		return order >= 0
	}
}

// count counts the approvers of whom it is true what is asked of each.
func (t *test) count(g *viewValues) (n int64) {
	for i := range g.voters {
		if t.kids[0].holds(&g.voters[i]) {
			n++
		}
	}
	return n
}

// order compares what was seen with the literal; of what is no number it tells
// only whether they are equal.
func (t *test) order(e *seen) int {
	switch {
	case t.text.exact != 0:
		if t.text.is(e) {
			return 0
		}
		return 1
	case e.beyond != 0:
		return e.beyond
	case e.small < t.number || e.yes != t.yes:
		return -1
	case e.small > t.number:
		return 1
	}
	return 0
}

func (y symbol) is(e *seen) bool {
	if e.folds {
		return y.folded == e.symbol
	}
	return y.exact == e.symbol
}

func (t *test) among(e *seen) bool {
	for _, y := range t.texts {
		if y.is(e) {
			return true
		}
	}
	for _, n := range t.numbers {
		if e.beyond == 0 && e.small == n {
			return true
		}
	}
	return false
}
