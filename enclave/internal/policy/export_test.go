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

// IDs are those of the policies, one behind the other.
func (s *Set) IDs() []byte { return s.ids }

// Short tells which conditions are told from the views.
func (s *Set) Short() []bool {
	short := make([]bool, len(s.conditions))
	for i := range s.conditions {
		short[i] = s.conditions[i].ok || s.consensuses[i].ok
	}
	return short
}

// A Part is a literal or a field of an expression.
type Part struct {
	Text    string // of the literal, or the expression that reads the field
	Literal bool
	Root    string // that is read, or that the literal is compared with
	Item    string // the name of the list's items that are read
}

// Parts are all literals and fields of an expression.
func (p *Program) Parts() (parts []Part) {
	lists := map[string]string{}
	var walk func(n *node, root string)
	walk = func(n *node, root string) {
		if r, _ := comparedRoot(n); r != 0 {
			root = roots[r].name
		}
		switch {
		case n.op == opString:
			parts = append(parts, Part{Text: n.lit.string, Literal: true, Root: root})
			return
		case n.op == opInt || n.op == opBool:
			parts = append(parts, Part{Text: p.source[n.pos:n.end], Literal: true, Root: root})
			return
		case n.root != 0:
			parts = append(parts, Part{Text: p.source[n.pos:n.end], Root: roots[n.root].name})
			return
		case n.op == opMember:
			parts = append(parts, Part{Text: p.source[n.pos:n.end], Item: lists[n.kids[0].name]})
		case n.lambda():
			list := n.kids[0]
			for list.op == opFilter {
				list = list.kids[0]
			}
			lists[n.name] = roots[list.root].name
		}
		for _, k := range n.kids {
			walk(k, root)
		}
	}
	walk(p.root, "")
	return parts
}

// Changes are expressions that differ from this one in an operator or a quantifier.
func (p *Program) Changes() (sources []string) {
	change := func(from, to int, old, new string) {
		if at := strings.Index(p.source[from:to], old); at >= 0 {
			sources = append(sources, p.source[:from+at]+new+p.source[from+at+len(old):])
		}
	}
	p.root.find(func(n *node) bool {
		for o := opEq; n.comparison() && n.op != opIn && o < opIn; o++ {
			if o != n.op {
				change(n.kids[0].end, n.kids[1].pos, strings.TrimSpace(opTexts[n.op]), strings.TrimSpace(opTexts[o]))
			}
		}
		switch n.op {
		case opAnd:
			change(n.kids[0].end, n.kids[1].pos, "&&", "||")
		case opOr:
			change(n.kids[0].end, n.kids[1].pos, "||", "&&")
		case opAny:
			change(n.at, n.end, "any", "all")
		case opAll:
			change(n.at, n.end, "all", "any")
		case opNot:
			change(n.pos, n.end, "!", "")
		case opIn:
			sources = append(sources, p.source[:n.pos]+"!("+p.source[n.pos:n.end]+")"+p.source[n.end:])
		}
		return false
	})
	return sources
}

// Labels are the paths that have labels, Phrases the phrases of kinds by their names, and Functions functions of contracts by their selectors.
func Labels() (paths []string) {
	for _, l := range labels {
		paths = append(paths, l.path)
	}
	return paths
}

var (
	KindPhrase = kindPhrase
	Phrases    = kindPhrases[:]
	Groups     = append(actionPhrases[:], resourcePhrases[:]...)
	Functions  = functions
	Keccak256  = keccak256
)

// ComparedFacts lists, for each root, the members that Narrowest compares or leaves open.
func ComparedFacts() map[string][]string {
	all := map[string][]string{}
	for _, c := range comparedFacts {
		all[c.root] = append(strings.Fields(c.compared), strings.Fields(c.open)...)
	}
	return all
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
