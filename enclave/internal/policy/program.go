package policy

import (
	"slices"

	"cloister/enclave/internal/fault"
)

// Clause is the field of a policy that an expression stands in. It decides which
// roots the expression may read.
type Clause uint8

// The clauses. The condition of an MFA policy and the scope of a session profile
// are ClauseCondition too.
const (
	ClauseConsensus Clause = iota + 1
	ClauseCondition
	ClauseTime
)

var clauseTexts = [...]string{ClauseConsensus: "consensus", ClauseCondition: "condition", ClauseTime: "time"}

func (c Clause) String() string {
	if int(c) < len(clauseTexts) {
		return clauseTexts[c]
	}
	return ""
}

// Program is an expression of type bool, parsed and checked. It is immutable.
type Program struct {
	source string
	clause Clause
	root   *node
	fails  bool   // evaluating it can be an error
	tests  *tests // of a consensus
	// unread are lists of solana.tx that go with one that the condition reads, and that it does not read.
	unread []string
}

// Source is the text that was compiled.
func (p *Program) Source() string { return p.source }

// Compile parses and checks an expression. The empty one gives a nil Program,
// which is true. Errors are *fault.Error, InvalidArgument, with position and reason.
func Compile(c Clause, source string) (*Program, error) {
	if source == "" {
		return nil, nil
	}
	root, why := compile(c, source)
	if why != nil {
		stage := "Expression cannot be parsed"
		if why.parsed {
			stage = "Expression cannot be evaluated"
		}
		return nil, fault.New(fault.InvalidArgument, "invalid policy %s: %s: %s at position %d", c, stage, why.text, why.pos)
	}
	p := &Program{source: source, clause: c, root: root, fails: mayFail(root)}
	switch c {
	case ClauseConsensus:
		p.tests = findTests(root)
	case ClauseCondition:
		p.unread = unreadLists(root)
	}
	return p, nil
}

var solanaTx = findRoot("solana.tx")

// readsSolana tells whether a member of solana.tx is read.
func (n *node) readsSolana(name string) bool {
	return n.find(func(n *node) bool { return n.op == opMember && n.name == name && n.kids[0].root == solanaTx }) != nil
}

// unreadLists finds the lists that go with one that is read, and that are not read themselves.
func unreadLists(root *node) (unread []string) {
	for list, others := range solanaLists {
		if root.readsSolana(list) {
			unread = append(unread, slices.DeleteFunc(slices.Clone(others), root.readsSolana)...)
		}
	}
	slices.Sort(unread)
	return unread
}

func (p *Program) mayPassOver() bool { return p != nil && len(p.unread) > 0 }

// passesOver is a list of the request's transaction that is not empty and that the condition does not read, though it reads
// one that goes with it; "" if there is none. A condition that allows does not hold then: whoever wrote it to bound what may
// leave has not thought of this.
func (p *Program) passesOver(r *Request) string {
	if !p.mayPassOver() {
		return ""
	}
	tx := r.Facts["solana.tx"]
	for _, list := range p.unread {
		if v, ok := tx.member(list); ok && len(v.list) > 0 {
			return list
		}
	}
	return ""
}

func compile(c Clause, source string) (*node, *problem) {
	root, why := parse(source)
	if why != nil {
		return nil, why
	}
	if why = check(c, root); why != nil {
		why.parsed = true
	}
	return root, why
}

// Holds evaluates a condition, a scope or a time; a consensus has no meaning by
// itself. A nil Program is true. For a request about several payloads, it must hold
// for each, within the steps of one request. An error is the expression's.
func (p *Program) Holds(r *Request) (bool, error) {
	left := MaxDecisionSteps
	return p.HoldsWithin(r, &left)
}

// HoldsWithin is Holds with no more steps than are left. It takes them off.
func (p *Program) HoldsWithin(r *Request, left *int) (bool, error) {
	if p == nil {
		return true, nil
	}
	if len(r.Payloads) == 0 {
		return p.isTrueFor(r, left)
	}
	for _, each := range r.Each() {
		if yes, err := p.isTrueFor(&each, left); !yes || err != nil {
			return false, err
		}
	}
	return true, nil
}

// isTrueFor is HoldsWithin for a request about one payload or none.
func (p *Program) isTrueFor(r *Request, left *int) (bool, error) {
	m := machine{request: r, untilPause: stepsToPause(*left)}
	steps := min(maxSteps, max(*left, 0))
	m.allow(steps)
	yes, ok := m.evaluateBool(p.root)
	*left -= steps - max(m.end(), 0)
	if !ok {
		return false, fault.New(fault.InvalidArgument, "Expression cannot be evaluated: %s at position %d", m.why, m.where.pos)
	}
	return yes, nil
}

// shorten cuts the text of a message to n bytes, at the end of a character.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const more = "…"
	n -= len(more)
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + more
}
