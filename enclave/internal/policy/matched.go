package policy

import (
	"slices"
	"strings"
	"sync"
)

// What an expression tells of the kinds of activities that it can be true of, by its literals alone. Package lint and IsBroad read it.

// constantAt is what activities of a kind have at a root: for the type, of which the version is
// not known, the kind.
func (k Kind) constantAt(root rootID) string {
	switch root {
	case rootType, rootKind:
		return k.Name
	case rootResource:
		return k.Resource
	}
	return k.Action
}

// meaning is the literal that a root is compared with: of a type, the kind.
func meaning(root rootID, literal *node) string {
	if root == rootType {
		return kindOfType(literal.lit.string)
	}
	return literal.lit.string
}

// comparedRoot tells which root a comparison compares with literals.
func comparedRoot(n *node) (rootID, []*node) {
	if len(n.kids) != 2 {
		return 0, nil
	}
	a, b := n.kids[0], n.kids[1]
	if n.op == opContains || a.op == opString {
		a, b = b, a
	}
	switch {
	case a.root == 0:
	case b.op == opString:
		return a.root, []*node{b}
	case b.op == opList && !slices.ContainsFunc(b.kids, func(k *node) bool { return k.op != opString }):
		return a.root, b.kids
	}
	return 0, nil
}

// everyKind is Kinds, made once.
func everyKind() []Kind {
	kindList.once.Do(func() {
		kindList.all, kindList.with = Kinds(), map[attribute]kindSet{}
		for i, k := range kindList.all {
			for root := rootType; root <= rootAction; root++ {
				of := attribute{root, k.constantAt(root)}
				s := kindList.with[of]
				s.add(i)
				kindList.with[of] = s
			}
		}
	})
	return kindList.all
}

var kindList struct {
	once sync.Once
	all  []Kind
	with map[attribute]kindSet // kinds by what they have at a root
}

type attribute struct {
	root  rootID
	value string
}

// kindSet is a set of kinds, by their places in everyKind.
type kindSet [3]uint64

func (s *kindSet) add(i int)              { s[i/64] |= 1 << (i % 64) }
func (s *kindSet) has(i int) bool         { return s[i/64]>>(i%64)&1 == 1 }
func (s kindSet) and(t kindSet) kindSet   { return kindSet{s[0] & t[0], s[1] & t[1], s[2] & t[2]} }
func (s kindSet) or(t kindSet) kindSet    { return kindSet{s[0] | t[0], s[1] | t[1], s[2] | t[2]} }
func (s kindSet) not() kindSet            { return kindSet{^s[0], ^s[1], ^s[2]} }
func (s kindSet) minus(t kindSet) kindSet { return s.and(t.not()) }

func kindsThat(f func(*Kind) bool) (s kindSet) {
	for i := range everyKind() {
		if f(&kindList.all[i]) {
			s.add(i)
		}
	}
	return s
}

// any tells whether f is true of a kind in the set.
func (s kindSet) any(f func(*Kind) bool) bool {
	for i := range everyKind() {
		if s.has(i) && f(&kindList.all[i]) {
			return true
		}
	}
	return false
}

// list are the kinds in the set.
func (s kindSet) list() (out []*Kind) {
	for i := range everyKind() {
		if s.has(i) {
			out = append(out, &kindList.all[i])
		}
	}
	return out
}

// know gives all kinds to the first set if yes, otherwise to the second.
func know(yes bool) (is, isNot kindSet) {
	if yes {
		return isNot.not(), isNot
	}
	return is, is.not()
}

// known tells of which kinds of activities an expression is true and of which it is false, as far as its literals
// tell and, if kinds is true, the kind. Errors are not looked for.
func known(n *node, kinds bool) (yes, no kindSet) {
	switch n.op {
	case opBool:
		return know(n.lit.yes)
	case opNot:
		no, yes = known(n.kids[0], kinds)
		return yes, no
	case opAnd, opOr:
		yes, no = know(n.op == opAnd)
		for _, kid := range n.kids {
			is, isNot := known(kid, kinds)
			if n.op == opAnd {
				yes, no = yes.and(is), no.or(isNot)
			} else {
				yes, no = yes.or(is), no.and(isNot)
			}
		}
		return yes, no
	}
	if a := n.kids; n.comparison() && n.op != opIn && a[0].literal() && a[1].literal() && a[0].lit.typ == a[1].lit.typ {
		if a[0].lit.typ == TypeInt {
			return know(n.op.allowsOrder(a[0].lit.compare(&a[1].lit)))
		}
		same, _ := a[0].lit.equal(&a[1].lit)
		return know(same == (n.op == opEq))
	}
	root, literals := comparedRoot(n)
	if !kinds || !n.comparison() && n.op != opContains || root < rootType || root > rootAction {
		return yes, no
	}
	everyKind()
	for _, lit := range literals {
		yes = yes.or(kindList.with[attribute{root, meaning(root, lit)}])
	}
	no = yes.not()
	if root == rootType { // which version is not known
		yes = kindSet{}
	}
	if n.op == opNe {
		return no, yes
	}
	return yes, no
}

// kindOfType is the kind that an activity type is a version of.
func kindOfType(s string) string {
	s, ok := strings.CutPrefix(s, "ACTIVITY_TYPE_")
	if !ok {
		return ""
	}
	if i := strings.LastIndex(s, "_V"); i > 0 && i+2 < len(s) && strings.Trim(s[i+2:], "0123456789") == "" {
		s = s[:i]
	}
	return s
}

// matchedKinds are the kinds whose activities can fulfil an expression.
func matchedKinds(n *node) kindSet {
	_, no := known(n, true)
	return grantable().minus(no)
}

// grantable are the kinds that policies can allow.
func grantable() kindSet { return kindsThat(func(k *Kind) bool { return !k.RootQuorum }) }

// kindsOf are the kinds that a condition can match: all without one.
func kindsOf(p *Program) kindSet {
	if p == nil || p.clause != ClauseCondition {
		return grantable()
	}
	return matchedKinds(p.root)
}
