package policy

import "unicode/utf8"

const (
	// maxSteps is what one evaluation may take, if so many are left of its budget. A step is
	// a node, an item that is looked at, or 64 bytes of text.
	maxSteps = 1_000_000
	// madeSteps are further steps for each item of a list that is made: each that a filter
	// looks at, or that stands in a list which is not of literals only.
	madeSteps = 4
	// pauseSteps are the steps between two calls of Request.Pause.
	pauseSteps = 2_048
)

type failure struct {
	reason reason
	name   string
}

type reason uint8

const (
	failedSteps reason = iota + 1
	failedMissing
	failedRange
	failedIndex
	failedType
	failedClash
	failedVoters
)

var failedTexts = [...]string{failedSteps: "takes too many steps", failedMissing: "MissingField: the request has no ",
	failedRange: "the number is too large for its type", failedIndex: "out of range", failedType: "the value has another type",
	failedClash: "values of two types cannot be compared", failedVoters: "nobody votes here"}

func (f failure) String() string { return failedTexts[f.reason] + shorten(f.name, 80) }

// machine evaluates expressions of one request. It evaluates both sides of every
// operator and every element, so that nothing beside an error hides it; the first error
// ends the evaluation. It never panics and never takes more than its steps.
type machine struct {
	request     *Request
	approvers   []Value
	credentials []Value
	voters      bool // approvers and credentials are known
	variables   [maxLambdas]Value
	steps       int // that are left before the next pause
	later       int // that are left behind it
	untilPause  int // steps that may be taken besides before the next pause

	why   failure // why it failed
	where *node   // and at which node
}

func (m *machine) fail(n *node, r reason, name string) (Value, bool) {
	m.why, m.where = failure{r, name}, n
	return Value{}, false
}

func (m *machine) failed(n *node, r reason) (yes, ok bool) {
	m.fail(n, r, "")
	return false, false
}

// allow begins an evaluation, which may take so many steps.
func (m *machine) allow(steps int) {
	m.steps = min(steps, max(m.untilPause, 0))
	m.untilPause -= m.steps
	m.later = steps - m.steps
}

// end ends an evaluation and tells how many steps it has left; below zero: it had too few.
func (m *machine) end() (left int) {
	left = m.steps + m.later
	m.untilPause += max(m.steps, 0)
	m.steps, m.later = 0, 0
	return left
}

// spend takes steps and tells whether there were enough. It must stay small enough to be
// inlined.
func (m *machine) spend(steps int) bool {
	m.steps -= steps
	return m.steps >= 0 || m.spendLater()
}

// spendLater takes what spend lacks, if it is there, and pauses where that is due.
//
//go:noinline
func (m *machine) spendLater() bool {
	for m.steps < 0 && m.later > 0 {
		if m.untilPause <= 0 {
			m.pause()
		}
		steps := min(m.later, m.untilPause)
		m.steps += steps
		m.untilPause -= steps
		m.later -= steps
	}
	return m.steps >= 0
}

// stepsToPause are the steps until the next pause of a request that has so many steps left. So
// several machines in turn pause as one would.
func stepsToPause(left int) int { return max(left, 0) % pauseSteps }

// pause calls the request's. lint's machine has no request.
//
//go:noinline
func (m *machine) pause() {
	m.untilPause = pauseSteps
	if m.request != nil && m.request.Pause != nil {
		m.request.Pause.Pause()
	}
}

// evaluateBool evaluates an expression of type bool.
func (m *machine) evaluateBool(n *node) (yes, ok bool) {
	if !m.spend(1) {
		return m.failed(n, failedSteps)
	}
	switch n.op {
	case opAnd, opOr:
		yes = n.op == opAnd
		for _, k := range n.kids {
			one, ok := m.evaluateBool(k)
			if !ok {
				return false, false
			}
			if one != (n.op == opAnd) {
				yes = one
			}
		}
		return yes, true
	case opNot:
		yes, ok = m.evaluateBool(n.kids[0])
		return !yes && ok, ok
	case opEq, opNe, opLt, opGt, opLe, opGe:
		return m.compare(n)
	case opIn:
		return m.contains(n, n.kids[1], n.kids[0])
	case opContains:
		return m.contains(n, n.kids[0], n.kids[1])
	case opAll, opAny:
		list, ok := m.list(n.kids[0])
		if !ok {
			return false, false
		}
		yes = n.op == opAll
		for i := range list.list {
			m.bind(n, &list, i)
			one, ok := m.evaluateBool(n.kids[1])
			if !ok {
				return false, false
			}
			if one != (n.op == opAll) {
				yes = one
			}
		}
		return yes, true
	case opCronSpan:
		return n.span.open(nowMs(m.request)), true
	}
	v, ok := m.read(n)
	if ok && v.typ != TypeBool {
		return m.failed(n, failedType)
	}
	return v.yes, ok
}

// value evaluates any expression.
func (m *machine) value(n *node) (Value, bool) {
	switch n.op {
	case opAnd, opOr, opNot, opEq, opNe, opLt, opGt, opLe, opGe, opIn, opContains, opAll, opAny, opCronSpan:
		yes, ok := m.evaluateBool(n)
		return Bool(yes), ok
	}
	if !m.spend(1) {
		return m.fail(n, failedSteps, "")
	}
	return m.read(n)
}

func (m *machine) list(n *node) (Value, bool) {
	v, ok := m.value(n)
	if ok && v.typ != TypeList {
		return m.fail(n, failedType, "")
	}
	return v, ok
}

// item is element i of a list. What comes out of a dynamic value is dynamic.
func (v *Value) item(i int) Value {
	one := v.list[i]
	one.dynamic = one.dynamic || v.dynamic
	return one
}

// bind makes element i of a list the value of the variable of n.
func (m *machine) bind(n *node, list *Value, i int) { m.variables[n.slot] = list.item(i) }

// read evaluates what is not a truth by its operator.
func (m *machine) read(n *node) (Value, bool) {
	if n.root != 0 {
		return m.root(n)
	}
	switch n.op {
	case opName:
		return m.checkType(n, n.shape, m.variables[n.slot])
	case opMember:
		of, ok := m.value(n.kids[0])
		if !ok {
			return of, false
		}
		if of.typ != TypeStruct {
			return m.fail(n, failedType, "")
		}
		v, ok := of.member(n.read)
		if !ok {
			return m.fail(n, failedMissing, n.name)
		}
		v.dynamic = v.dynamic || n.shape.class == classDynamic
		return m.checkType(n, n.shape, v)
	case opIndex:
		return m.index(n)
	case opSlice:
		return m.slice(n)
	case opFilter:
		return m.filter(n)
	case opCount:
		list, ok := m.list(n.kids[0])
		return Int(int64(len(list.list))), ok
	case opList:
		if n.lit.typ == TypeList { // literals only
			return n.lit, true
		}
		if !m.spend(madeSteps * len(n.kids)) {
			return m.fail(n, failedSteps, "")
		}
		items := make([]Value, len(n.kids))
		for i, k := range n.kids {
			v, ok := m.value(k)
			if !ok {
				return v, false
			}
			items[i] = v
		}
		return Value{typ: TypeList, list: items}, true
	}
	return n.lit, true // opBool, opInt, opString, opTimestamp
}

func nowMs(r *Request) int64 { return int64(min(r.NowMs, lastMs)) }

func (m *machine) root(n *node) (Value, bool) {
	r := m.request
	switch n.root {
	case rootApprovers, rootCredentials:
		if !m.voters {
			return m.fail(n, failedVoters, "")
		}
		if n.root == rootApprovers {
			return Value{typ: TypeList, list: m.approvers}, true
		}
		return Value{typ: TypeList, list: m.credentials}, true
	case rootNow:
		return Value{typ: typeTime, small: nowMs(r)}, true
	case rootType:
		return String(r.Type), true
	case rootKind, rootResource, rootAction:
		switch {
		case r.RootQuorum: // is none of the kinds that policies are about
			return String(""), true
		case n.root == rootKind:
			return String(r.Kind), true
		case n.root == rootResource:
			return String(r.Resource), true
		}
		return String(r.Action), true
	}
	name, v := roots[n.root].name, r.Params
	if n.root != rootParams {
		v = r.Facts[name]
	}
	if v.typ == TypeNone {
		return m.fail(n, failedMissing, name)
	}
	return m.checkType(n, n.shape, v)
}

// checkType refuses a value whose type is not the one that the checker expected, so
// that whoever made the facts cannot give an operator a type that it does not know.
func (m *machine) checkType(n *node, s *shape, v Value) (Value, bool) {
	fits := false
	switch s.class {
	case classBool:
		fits = v.typ == TypeBool
	case classInt, classUint:
		if fits = v.typ == TypeInt; fits && (s.class == classInt && !v.isBetween(minInt, maxInt) || !v.isBetween(minInt, maxUint)) {
			return m.fail(n, failedRange, "")
		}
	case classString:
		fits = v.text()
	case classHex:
		fits = v.text()
		v.typ = TypeHex
	case classKey:
		fits = v.text()
		v.typ = typeKey
	case classTime:
		fits = v.typ == typeTime
	case classList:
		fits = v.typ == TypeList
	case classMap:
		fits = v.typ == TypeMap
	case classStruct:
		fits = v.typ == TypeStruct
	case classDynamic:
		fits = v.typ != TypeNone && v.typ != typeTime
		if v.typ == TypeInt && !v.isBetween(minInt, maxUint) {
			return m.fail(n, failedRange, "")
		}
	}
	switch {
	case fits:
		return v, true
	case v.typ == TypeNone:
		return m.fail(n, failedMissing, n.name)
	}
	return m.fail(n, failedType, "")
}

func (m *machine) compare(n *node) (yes, ok bool) {
	a, ok := m.value(n.kids[0])
	if !ok {
		return false, false
	}
	b, ok := m.value(n.kids[1])
	switch {
	case !ok:
		return false, false
	case n.op == opEq || n.op == opNe:
		yes, ok = m.equal(n, &a, &b)
		return ok && yes == (n.op == opEq), ok
	case a.typ != b.typ || a.typ != TypeInt && a.typ != typeTime:
		return m.failed(n, failedClash)
	}
	return n.op.allowsOrder(a.compare(&b)), true
}

func (m *machine) equal(n *node, a, b *Value) (yes, ok bool) {
	if len(a.string) == len(b.string) && !m.spend(len(a.string)/64) {
		return m.failed(n, failedSteps)
	}
	if yes, ok = a.equal(b); !ok {
		return m.failed(n, failedClash)
	}
	return yes, true
}

// contains evaluates in and contains, of which n is one.
func (m *machine) contains(n, list, item *node) (yes, ok bool) {
	in, ok := m.list(list)
	if !ok {
		return false, false
	}
	v, ok := m.value(item)
	if !ok {
		return false, false
	}
	elem := list.shape.elem
	if elem == nil {
		elem = dynamicShape
	}
	for i := range in.list {
		if !m.spend(1) {
			return m.failed(n, failedSteps)
		}
		one, ok := m.checkType(list, elem, in.item(i))
		if !ok {
			return false, false
		}
		same, ok := m.equal(n, &v, &one)
		if !ok {
			return false, false
		}
		yes = yes || same
	}
	return yes, true
}

func (m *machine) filter(n *node) (Value, bool) {
	list, ok := m.list(n.kids[0])
	if !ok {
		return Value{}, false
	}
	if !m.spend(madeSteps * len(list.list)) {
		return m.fail(n, failedSteps, "")
	}
	kept := Value{typ: TypeList, dynamic: list.dynamic}
	for i := range list.list {
		m.bind(n, &list, i)
		yes, ok := m.evaluateBool(n.kids[1])
		if !ok {
			return Value{}, false
		}
		if yes {
			kept.list = append(kept.list, list.list[i])
		}
	}
	return kept, true
}

// two evaluates the first two parts of n.
func (m *machine) two(n *node) (a, b Value, ok bool) {
	if a, ok = m.value(n.kids[0]); ok {
		b, ok = m.value(n.kids[1])
	}
	return a, b, ok
}

// index evaluates an element of a list, a character of a text or an entry of a map.
func (m *machine) index(n *node) (Value, bool) {
	of, at, ok := m.two(n)
	switch {
	case !ok:
		return Value{}, false
	case of.typ == TypeMap && at.text():
		v, ok := of.member(at.string)
		if !ok {
			return m.fail(n, failedMissing, at.string)
		}
		v.dynamic = v.dynamic || n.shape.class == classDynamic
		return m.checkType(n, n.shape, v)
	case of.typ == TypeList && at.typ == TypeInt:
		if at.big != nil || at.small < 0 || at.small >= int64(len(of.list)) {
			return m.fail(n, failedIndex, "")
		}
		return m.checkType(n, n.shape, of.item(int(at.small)))
	case of.text() && at.typ == TypeInt:
		from, ok := m.characters(of.string, &at)
		if !ok || from == len(of.string) {
			return m.fail(n, m.outOfRange(), "")
		}
		_, size := utf8.DecodeRuneInString(of.string[from:])
		of.string, of.literal = of.string[from:from+size], false
		return of, true
	}
	return m.fail(n, failedType, "")
}

// slice evaluates a part of a list or a text, the end excluded.
func (m *machine) slice(n *node) (Value, bool) {
	of, from, ok := m.two(n)
	if !ok {
		return Value{}, false
	}
	to, ok := m.value(n.kids[2])
	switch {
	case !ok:
		return Value{}, false
	case from.typ != TypeInt || to.typ != TypeInt || of.typ != TypeList && !of.text():
		return m.fail(n, failedType, "")
	case from.compare(&to) > 0:
		return m.fail(n, failedIndex, "")
	case of.typ == TypeList:
		if to.big != nil || from.big != nil || from.small < 0 || to.small > int64(len(of.list)) {
			return m.fail(n, failedIndex, "")
		}
		of.list = of.list[from.small:to.small]
		return of, true
	}
	a, okFrom := m.characters(of.string, &from)
	b, okTo := m.characters(of.string, &to)
	if !okFrom || !okTo {
		return m.fail(n, m.outOfRange(), "")
	}
	of.string, of.literal = of.string[a:b], false
	return of, true
}

// characters is the byte at which character n of a text begins; its end counts.
func (m *machine) characters(s string, n *Value) (at int, ok bool) {
	if n.big != nil || n.small < 0 || n.small > int64(len(s)) || !m.spend(int(n.small)/64) {
		return 0, false
	}
	for range n.small {
		if at == len(s) {
			return 0, false
		}
		if s[at] < utf8.RuneSelf {
			at++
			continue
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at, true
}

// outOfRange is why characters found none: the text ends before, or the steps.
func (m *machine) outOfRange() reason {
	if m.steps < 0 {
		return failedSteps
	}
	return failedIndex
}

// mayFail tells whether n can be an error, by what it reads or for want of steps.
func mayFail(n *node) bool { return firstFailing(n) != nil || stepsOf(n) > maxSteps }

// firstFailing finds the first node whose evaluation can be an error.
func firstFailing(n *node) *node {
	if n.root != 0 {
		if roots[n.root].always {
			return nil
		}
		return n
	}
	for _, k := range n.kids {
		if f := firstFailing(k); f != nil {
			return f
		}
	}
	switch {
	case n.op == opIndex, n.op == opSlice, n.shape.class == classDynamic, n.shape.class == classMap:
		return n
	case n.op == opMember:
		if f := n.kids[0].shape.field(n.name); f.optional {
			return n
		}
	}
	return nil
}

// stepsOf bounds the steps of n, if no list is longer than longest.
func stepsOf(n *node) int {
	const longest = 128 // more than there can be users, tags or credentials
	steps := 1
	for i, k := range n.kids {
		of := stepsOf(k)
		switch {
		case n.op == opFilter && i == 1:
			of = (of + madeSteps) * longest
		case n.lambda() && i == 1:
			of *= longest
		case n.op == opList && n.lit.typ != TypeList:
			of += madeSteps
		}
		if steps += of; steps > 100*maxSteps {
			return steps
		}
	}
	if n.op == opIn || n.op == opContains {
		steps += longest
	}
	return steps
}
