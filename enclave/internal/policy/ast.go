package policy

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

// A node is a part of an expression. After the checker it never changes.
type node struct {
	op   op // what was written
	name string
	lit  Value // of a list of literals, from the checker: the list
	kids []*node

	pos, end int // where, in bytes of the source
	at       int // where name begins

	shape *shape    // of the checker, like all that follows
	root  rootID    // the node reads a root; 0: it does not
	slot  int       // the variable read (opName) or bound (opAll, opAny, opFilter)
	read  string    // the member read, where it is not name
	span  *cronSpan // of opCronSpan
}

func (n *node) lambda() bool     { return n.op == opAll || n.op == opAny || n.op == opFilter }
func (n *node) comparison() bool { return n.op >= opEq && n.op <= opIn }
func (n *node) literal() bool    { return n.op == opBool || n.op == opInt || n.op == opString }

// orders has for each comparison the orders of two values in which it holds, as bits:
// 1 below, 2 equal, 4 above.
var orders = [...]uint8{opEq: 2, opNe: 5, opLt: 1, opGt: 4, opLe: 3, opGe: 6}

// allowsOrder tells whether a comparison holds between two values of an order, -1, 0 or 1.
func (o op) allowsOrder(order int) bool { return orders[o]>>(order+1)&1 == 1 }

// equals tells whether two nodes were written the same, whatever the spacing.
func (n *node) equals(m *node) bool {
	if n.op != m.op || n.name != m.name || len(n.kids) != len(m.kids) {
		return false
	}
	if n.literal() {
		if yes, _ := n.lit.equal(&m.lit); !yes {
			return false
		}
	}
	for i := range n.kids {
		if !n.kids[i].equals(m.kids[i]) {
			return false
		}
	}
	return true
}

// find returns the first node, of n and all below it, for which f is true.
func (n *node) find(f func(*node) bool) *node {
	if f(n) {
		return n
	}
	for _, k := range n.kids {
		if found := k.find(f); found != nil {
			return found
		}
	}
	return nil
}
