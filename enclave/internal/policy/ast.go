package policy

import (
	"strconv"
	"strings"
)

// op is what a node of an expression is. The set is closed.
type op uint8

const (
	opBool     op = iota + 1 // lit
	opInt                    // lit
	opString                 // lit
	opList                   // kids are the items
	opName                   // name: a root, a group of roots or a variable
	opMember                 // kids[0].name
	opIndex                  // kids[0][kids[1]]
	opSlice                  // kids[0][kids[1]..kids[2]]
	opAll                    // kids[0].all(name, kids[1])
	opAny                    // kids[0].any(name, kids[1])
	opFilter                 // kids[0].filter(name, kids[1])
	opContains               // kids[0].contains(kids[1])
	opCount                  // kids[0].count()
	opNot                    // !kids[0]
	opAnd                    // all kids, two or more
	opOr                     // one of the kids, two or more
	opEq                     // kids[0] == kids[1], and so on
	opNe
	opLt
	opGt
	opLe
	opGe
	opIn
	opTimestamp // kids[0] is a literal
	opCronSpan  // kids are three literals
)

var opTexts = [...]string{opAll: "all", opAny: "any", opFilter: "filter", opContains: "contains", opCount: "count", opAnd: " && ", opOr: " || ",
	opEq: " == ", opNe: " != ", opLt: " < ", opGt: " > ", opLe: " <= ", opGe: " >= ", opIn: " in ", opTimestamp: "Timestamp", opCronSpan: "CronSpan"}

// A node is a part of an expression. The first group of fields is what was
// written; the second is where; the third is what the checker found out, after
// which a node never changes.
type node struct {
	op   op
	name string
	lit  Value // of a list of literals, from the checker: the list
	kids []*node

	pos, end int // bytes in the source
	at       int // where name begins

	shape *shape
	root  rootID    // the node reads a root; 0: it does not
	slot  int       // the variable read (opName) or bound (opAll, opAny, opFilter)
	read  string    // the member read, where it is not name
	span  *cronSpan // of opCronSpan
}

func (n *node) lambda() bool     { return n.op == opAll || n.op == opAny || n.op == opFilter }
func (n *node) comparison() bool { return n.op >= opEq && n.op <= opIn }
func (n *node) literal() bool    { return n.op == opBool || n.op == opInt || n.op == opString }

// same tells whether two nodes were written the same, whatever the spacing.
func (n *node) same(m *node) bool {
	if n.op != m.op || n.name != m.name || len(n.kids) != len(m.kids) {
		return false
	}
	if n.literal() {
		if yes, _ := n.lit.equal(&m.lit); !yes {
			return false
		}
	}
	for i := range n.kids {
		if !n.kids[i].same(m.kids[i]) {
			return false
		}
	}
	return true
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
