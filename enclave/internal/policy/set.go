package policy

import (
	"cmp"
	"slices"
)

// A Set is an organization's policies in the order of their ids, compiled for evaluation together. It is
// immutable.
//
// Most policies of a long list are about other requests than the one that is decided. So most conditions are
// not evaluated by walking their tree. A condition that only compares what a request says with literals, joined
// by &&, || and !, is compiled into a predicate. All inputs of all predicates are read once, texts are looked
// up once among all literals, and each condition is then a few comparisons of numbers. The outcome is the same
// as by walking, with its errors and steps: only an error changes how many steps a predicate takes, so they are
// counted when it is compiled.
//
// A consensus is compiled if it asks whether some of the approvers, or how many, have an id, a name, a mail
// address or a tag that stands in the policy. All else is walked.
type Set struct {
	policies    []*Policy
	ids         []byte              // of the policies, one behind the other
	conditions  []compiledPredicate // of each policy
	consensuses []compiledPredicate // of each policy
	inputs      []*node             // what predicates read
	exact       map[string]uint32   // the literals, from 1
	folded      map[string]uint32   // the literals without the case of ASCII letters, from 1
}

const (
	maxInputs  = 64 // bits of a mask
	maxLiteral = 64 // a compiled literal text is shorter in bytes: comparing it takes no extra step, and it is no public key
)

// A compiledPredicate is a condition over the inputs, or a consensus over the approvers.
type compiledPredicate struct {
	ok               bool // the expression is one
	steps            int  // to evaluate it
	stepsPerApprover int  // further steps for each approver, to test him
	listSteps        int  // further steps for each approver, of lists that are made
	stepsPerTag      int  // further steps for each tag of each approver
	reads            []read
	mask             uint64 // of inputs
	test             test
}

// A read is an input that a condition reads, with the steps that it has taken when that fails.
type read struct{ input, steps int }

// A test is a comparison with literals, or several joined.
type test struct {
	op      op   // opAnd, opOr, opNot, opBool: a literal; opAny; opIn; opContains; a comparison
	yes     bool // the literal
	swap    bool // the literal stands on the left
	input   uint8
	text    literalID   // the literal, if it is a text
	number  int64       // the literal, if it is a number
	texts   []literalID // the literals of opIn
	numbers []int64     // the literals of opIn
	kids    []test
}

// A literalID is a literal text by its numbers in exact and in folded.
type literalID struct{ exact, folded uint32 }

// NewSet compiles policies, which are in the order of their ids.
func NewSet(policies []*Policy) *Set {
	n := len(policies)
	s := &Set{policies: policies, conditions: make([]compiledPredicate, n), consensuses: make([]compiledPredicate, n), exact: map[string]uint32{}, folded: map[string]uint32{}}
	for i, p := range policies {
		s.ids = append(s.ids, p.ID[:]...)
		s.consensuses[i], s.conditions[i] = s.compilePredicate(p.Consensus), s.compilePredicate(p.Condition)
	}
	return s
}

// With is the set with one more policy, which takes the place of the one with its id. The set may be nil.
func (s *Set) With(p *Policy) *Set {
	var policies []*Policy
	if s != nil {
		policies = slices.Clone(s.policies)
	}
	at, found := slices.BinarySearchFunc(policies, p.ID, func(q *Policy, id [16]byte) int { return slices.Compare(q.ID[:], id[:]) })
	if found {
		policies[at] = p
	} else {
		policies = slices.Insert(policies, at, p)
	}
	return NewSet(policies)
}

// compilePredicate compiles an expression, if it can be.
func (s *Set) compilePredicate(p *Program) compiledPredicate {
	a, views := predicateCompiler{set: s}, len(s.inputs)
	if a.predicate.ok = p != nil && a.compileTest(p.root, &a.predicate.test); !a.predicate.ok {
		s.inputs = s.inputs[:views] // without those that it alone needed
		return compiledPredicate{}
	}
	return a.predicate
}

func (s *Set) len() int {
	if s == nil {
		return 0
	}
	return len(s.policies)
}

// A predicateCompiler compiles one predicate. It visits the nodes in the order of the machine, and counts the
// steps that the machine takes.
type predicateCompiler struct {
	set       *Set
	predicate compiledPredicate
	voter     bool // inside of what is asked of each approver
}

func (a *predicateCompiler) countSteps(steps int) {
	if a.voter {
		a.predicate.stepsPerApprover += steps
		return
	}
	a.predicate.steps += steps
}

// compileTest makes the test of an expression of type bool.
func (a *predicateCompiler) compileTest(n *node, t *test) bool {
	if a.readInput(n, t) {
		t.op, t.yes = opEq, true
		return n.shape.class == classBool
	}
	a.countSteps(1)
	switch t.op = n.op; n.op {
	case opBool:
		t.yes = n.lit.yes
		return true
	case opAnd, opOr, opNot:
		t.kids = make([]test, len(n.kids))
		for i, k := range n.kids {
			if !a.compileTest(k, &t.kids[i]) {
				return false
			}
		}
		return true
	case opEq, opNe, opLt, opGt, opLe, opGe:
		left, right := n.kids[0], n.kids[1]
		if left.op == opCount && left.kids[0].op == opFilter && right.op == opInt {
			a.countSteps(2) // the two
			a.predicate.listSteps += madeSteps
			return a.readLiteral(right, left, t) && a.compileApprovers(left.kids[0], t)
		}
		if t.swap = left.literal(); t.swap {
			return a.readLiteral(left, right, t) && a.readInput(right, t)
		}
		return a.readInput(left, t) && a.readLiteral(right, left, t)
	case opIn:
		return a.compileIn(n.kids[1], n.kids[0], t)
	case opContains:
		return a.compileIn(n.kids[0], n.kids[1], t)
	case opAny:
		return a.compileApprovers(n, t)
	}
	return false
}

// compileApprovers makes the test of each approver that a lambda holds.
func (a *predicateCompiler) compileApprovers(n *node, t *test) bool {
	if a.voter || n.kids[0].root != rootApprovers {
		return false
	}
	a.countSteps(1)
	a.voter = true
	t.kids = make([]test, 1)
	ok := a.compileTest(n.kids[1], &t.kids[0])
	a.voter = false
	return ok
}

// voterFields are what compiled consensuses read of an approver besides tags.
var voterFields = [...]string{"id", "email", "alias"}

// isApproverField tells whether n is a member of an approver.
func (a *predicateCompiler) isApproverField(n *node) bool {
	return a.voter && n.op == opMember && n.kids[0].op == opName && n.kids[0].root == 0
}

// readInput makes the test read an input: what the expression reads of the request, or of an approver.
func (a *predicateCompiler) readInput(n *node, t *test) bool {
	if a.voter {
		at := slices.Index(voterFields[:], n.name)
		if !a.isApproverField(n) || at < 0 {
			return false
		}
		a.countSteps(2)
		t.input = uint8(at)
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
	case classBool, classInt, classUint, classString, classHex, classKey:
	default:
		return false
	}
	at := slices.IndexFunc(a.set.inputs, n.equals)
	if at < 0 && len(a.set.inputs) == maxInputs {
		return false
	}
	if at < 0 {
		at = len(a.set.inputs)
		a.set.inputs = append(a.set.inputs, n)
	}
	a.predicate.steps += depth
	a.predicate.reads = append(a.predicate.reads, read{at, a.predicate.steps})
	a.predicate.mask |= 1 << at
	t.input = uint8(at)
	return true
}

// readLiteral gives the test the literal n, which is compared with another node.
func (a *predicateCompiler) readLiteral(n, with *node, t *test) bool {
	a.countSteps(1)
	switch n.op {
	case opBool:
		t.yes = n.lit.yes
		return with.shape.class == classBool
	case opInt:
		t.number = n.lit.small
		return with.shape.number() && n.lit.big == nil
	case opString:
		if len(n.lit.string) >= maxLiteral {
			return false
		}
		t.text = a.set.literalID(n.lit.string)
		return with.shape.text()
	}
	return false
}

// compileIn makes the test whether an item is in a list of literals, or a tag of an approver.
func (a *predicateCompiler) compileIn(list, item *node, t *test) bool {
	if a.isApproverField(list) && list.name == "tags" && item.op == opString {
		t.op = opContains
		a.countSteps(2)
		a.predicate.stepsPerTag++
		return a.readLiteral(item, item, t)
	}
	t.op = opIn
	if list.op != opList || list.lit.typ != TypeList || len(list.kids) == 0 {
		return false
	}
	a.countSteps(1)
	if !a.readInput(item, t) {
		return false
	}
	for _, k := range list.kids {
		var one test
		if k.op == opBool || !a.readLiteral(k, item, &one) {
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

func (s *Set) literalID(text string) literalID {
	number := func(of map[string]uint32, text string) uint32 {
		if of[text] == 0 {
			of[text] = uint32(len(of) + 1)
		}
		return of[text]
	}
	return literalID{number(s.exact, text), number(s.folded, lowerASCII(text))}
}

func lowerASCII(text string) string {
	if countFirst(text, func(c byte) bool { return c < 'A' || 'Z' < c }) == len(text) {
		return text
	}
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] |= 0x20
		}
	}
	return string(b)
}

// inputValues are what a request has for the inputs of a set, or an approver for voterFields.
type inputValues struct {
	errors uint64 // a mask of the inputs that are errors
	seen   []inputValue
	tags   []uint32 // of the approver, in folded
	voters []inputValues
}

type inputValue struct {
	why        failure
	bool       bool
	folds      bool
	literal    uint32 // the number of a text in exact, or if it folds in folded; 0: no literal
	number     int64
	beyondSign int // the sign of a number that small cannot hold
}

func (s *Set) readInputs(m *machine) inputValues {
	g := inputValues{seen: make([]inputValue, len(s.inputs))}
	for i := range s.inputs {
		m.allow(maxSteps) // whoever reads it takes them
		v, ok := m.value(s.inputs[i])
		m.end()
		e := &g.seen[i]
		if !ok {
			g.errors |= 1 << i
			e.why = m.why
			continue
		}
		switch e.bool, e.number, e.folds = v.yes, v.small, v.folds(); {
		case v.big != nil:
			e.beyondSign = v.big.Sign()
		case !v.text() || len(v.string) >= maxLiteral:
		case e.folds:
			e.literal = s.folded[lowerASCII(v.string)]
		default:
			e.literal = s.exact[v.string]
		}
	}
	return g
}

func (s *Set) readApprovers(voters []voter) []inputValues {
	gs := make([]inputValues, len(voters))
	for i := range voters {
		gs[i].seen = make([]inputValue, len(voterFields))
		for j, name := range voterFields {
			e := &gs[i].seen[j]
			v, _ := voters[i].user.member(name)
			if e.folds = v.folds(); e.folds {
				e.literal = s.folded[lowerASCII(v.string)]
			} else {
				e.literal = s.exact[v.string]
			}
		}
		tags, _ := voters[i].user.member("tags")
		for _, tag := range tags.list {
			gs[i].tags = append(gs[i].tags, s.folded[tag.string])
		}
	}
	return gs
}

// anyHolds reports whether anything that a consensus asks of approvers is true of one.
func (t *test) anyHolds(voter *inputValues) bool {
	if len(t.kids) == 1 && t.op != opNot {
		return t.kids[0].isTrueFor(voter)
	}
	return slices.ContainsFunc(t.kids, func(k test) bool { return k.anyHolds(voter) })
}

// isTrueFor evaluates the test on what was seen, none of which is an error.
func (t *test) isTrueFor(g *inputValues) bool {
	switch t.op {
	case opAnd, opOr:
		for i := range t.kids {
			if t.kids[i].isTrueFor(g) != (t.op == opAnd) {
				return t.op == opOr
			}
		}
		return t.op == opAnd
	case opNot:
		return !t.kids[0].isTrueFor(g)
	case opBool:
		return t.yes
	case opContains:
		return slices.Contains(g.tags, t.text.folded)
	case opIn:
		return t.isIn(&g.seen[t.input])
	case opAny:
		return t.count(g) > 0
	}
	var order int
	if len(t.kids) > 0 {
		order = cmp.Compare(t.count(g), t.number)
	} else {
		order = t.order(&g.seen[t.input])
	}
	if t.swap {
		order = -order
	}
	return t.op.allowsOrder(order)
}

// count counts the approvers who pass the test of each.
func (t *test) count(g *inputValues) (n int64) {
	for i := range g.voters {
		if t.kids[0].isTrueFor(&g.voters[i]) {
			n++
		}
	}
	return n
}

// order compares what was seen with the literal. Only numbers have an order: of all
// else, 0 is equal.
func (t *test) order(e *inputValue) int {
	switch {
	case t.text.exact != 0 && t.text.matches(e):
		return 0
	case t.text.exact != 0 || e.bool != t.yes:
		return 1
	case e.beyondSign != 0:
		return e.beyondSign
	}
	return cmp.Compare(e.number, t.number)
}

func (y literalID) matches(e *inputValue) bool {
	if e.folds {
		return y.folded == e.literal
	}
	return y.exact == e.literal
}

func (t *test) isIn(e *inputValue) bool {
	for _, y := range t.texts {
		if y.matches(e) {
			return true
		}
	}
	return e.beyondSign == 0 && slices.Contains(t.numbers, e.number)
}
