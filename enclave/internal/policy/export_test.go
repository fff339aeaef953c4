package policy

import (
	"strconv"
	"strings"
)

// String writes the expression in its canonical spacing, with no parentheses but
// the needed ones. Compiling it gives the same program.
func (p *Program) String() string {
	var b strings.Builder
	p.root.print(&b)
	return b.String()
}

// Same tells whether two programs are the same expression, however they are
// spaced.
func (p *Program) Same(q *Program) bool {
	return p == q || p != nil && q != nil && p.clause == q.clause && p.root.equals(q.root)
}

// LeastSteps is what lint says that the expression takes at least.
func (p *Program) LeastSteps() int { return leastSteps(p.root) }

// Walked is the set of which every expression is walked whole.
func (s *Set) Walked() *Set {
	walked := *s
	walked.conditions, walked.consensuses = make([]compiledPredicate, len(s.conditions)), make([]compiledPredicate, len(s.consensuses))
	return &walked
}

// Short tells which conditions are told from the views.
func (s *Set) Short() []bool {
	short := make([]bool, len(s.conditions))
	for i := range s.conditions {
		short[i] = s.conditions[i].ok || s.consensuses[i].ok
	}
	return short
}

// How tightly a node binds: parentheses stand around what binds less tightly
// than its place demands.
const (
	bindsOr = iota
	bindsAnd
	bindsCompare
	bindsUnary
	bindsPostfix
)

func (n *node) binds() int {
	switch {
	case n.op == opOr:
		return bindsOr
	case n.op == opAnd:
		return bindsAnd
	case n.comparison():
		return bindsCompare
	case n.op == opNot, n.op == opInt && n.lit.compare(&Value{}) < 0:
		return bindsUnary
	}
	return bindsPostfix
}

// print writes an expression so that parsing it gives the same tree.
func (n *node) print(b *strings.Builder) {
	switch n.op {
	case opBool:
		b.WriteString(strconv.FormatBool(n.lit.yes))
	case opInt:
		b.Write(n.lit.appendDecimal(nil))
	case opString:
		b.WriteString("'" + n.lit.string + "'")
	case opName:
		b.WriteString(n.name)
	case opList:
		b.WriteByte('[')
		printAll(b, n.kids, ", ", bindsOr)
		b.WriteByte(']')
	case opTimestamp, opCronSpan:
		b.WriteString(opTexts[n.op] + "(")
		printAll(b, n.kids, ", ", bindsOr)
		b.WriteByte(')')
	case opNot:
		b.WriteByte('!')
		printAll(b, n.kids, "", bindsUnary)
	case opAnd, opOr, opEq, opNe, opLt, opGt, opLe, opGe, opIn:
		printAll(b, n.kids, opTexts[n.op], n.binds()+1)
	default:
		printAll(b, n.kids[:1], "", bindsPostfix)
		switch n.op {
		case opMember:
			b.WriteString("." + n.name)
		case opIndex, opSlice:
			b.WriteByte('[')
			printAll(b, n.kids[1:], "..", bindsOr)
			b.WriteByte(']')
		default: // all, any, filter, contains, count
			b.WriteString("." + opTexts[n.op] + "(")
			if n.lambda() {
				b.WriteString(n.name + ", ")
			}
			printAll(b, n.kids[1:], "", bindsOr)
			b.WriteByte(')')
		}
	}
}

// printAll writes nodes where something is due that binds at least so tightly.
func printAll(b *strings.Builder, kids []*node, between string, binds int) {
	for i, k := range kids {
		if i > 0 {
			b.WriteString(between)
		}
		if k.binds() >= binds {
			k.print(b)
			continue
		}
		b.WriteByte('(')
		k.print(b)
		b.WriteByte(')')
	}
}
