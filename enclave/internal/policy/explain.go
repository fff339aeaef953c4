package policy

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// What an explanation may be at most.
const (
	maxExplained   = 8   // values
	maxExplainText = 256 // bytes of an expression, and of what it came to
	explainShare   = 8   // of a budget, one in so many steps is for explanations
)

// explain finds out why policies did not allow: which expression of the clause decided,
// and the values of its parts. It takes an eighth of the budget at most, off what is left
// or beyond, so that a decision that took all is explained too. Policies for which that is
// too little are not explained.
func (d *decider) explain(out *Decision) {
	e, shared := &out.Evaluations, d.state.Steps
	if out.Outcome == Allow || len(e.Verdicts) == 0 {
		return
	}
	left := d.state.budget() / explainShare
	if shared != nil {
		left = min(left, *shared+left)
		defer func(before int) { *shared -= before - left }(left)
	}
	d.machine.setVoters(d.voters)
	for i, v := range e.Verdicts {
		program, endless := e.set.policies[i].clause(v.Clause), slices.Contains(d.endless, i)
		if program == nil || left <= 0 && !endless {
			continue
		}
		x := explainer{machine: &d.machine, source: program.source, reason: Reason{At: i, Position: -1}}
		steps := min(maxSteps, max(left, 0))
		x.allow(steps)
		switch {
		case endless: // where it ended says nothing
			x.fail(program.root, failedSteps, "")
			x.failure()
		case v.Outcome == Error:
			if _, ok := x.evaluateBool(program.root); !ok {
				x.failure()
			}
		case !x.passedOver(program, v):
			x.explainNode(program.root, v.Outcome == DenyExplicit)
		}
		rest := x.end()
		left -= steps - max(rest, 0)
		if rest >= 0 {
			e.Reasons = append(e.Reasons, x.reason)
		}
	}
}

// passedOver explains a condition that is true and does not hold, if that is so.
func (x *explainer) passedOver(p *Program, v Verdict) bool {
	list := p.passesOver(x.request)
	if v.Outcome != DenyImplicit || v.Clause != ClauseCondition || list == "" {
		return false
	}
	if yes, ok := x.evaluateBool(p.root); !yes || !ok {
		return false
	}
	read := p.root.find(func(n *node) bool { return n.op == opMember && slices.Contains(solanaLists[n.name], list) })
	x.setExpression(read)
	x.reason.Values = []Explained{{"solana.tx." + list, "is not empty, and the condition reads solana.tx." + read.name + " without it"}}
	return true
}

func (p *Policy) clause(c Clause) *Program {
	switch c {
	case ClauseConsensus:
		return p.Consensus
	case ClauseCondition:
		return p.Condition
	case ClauseTime:
		return p.Time
	}
	return nil
}

type explainer struct {
	*machine
	source string
	reason Reason
}

func (x *explainer) failure() {
	x.setExpression(x.where)
	x.reason.Values = []Explained{{x.text(x.where), shorten(x.machine.why.String(), maxExplainText)}}
}

// setExpression notes the deepest single expression that decided.
func (x *explainer) setExpression(n *node) {
	if x.reason.Position < 0 {
		x.reason.Position, x.reason.Expression = n.pos, x.text(n)
	}
}

func (x *explainer) text(n *node) string { return shorten(x.source[n.pos:n.end], maxExplainText) }

// explainNode goes from an expression that came to yes down to what made it so.
func (x *explainer) explainNode(n *node, yes bool) {
	switch n.op {
	case opNot:
		x.explainNode(n.kids[0], !yes)
	case opAnd, opOr:
		if yes == (n.op == opAnd) { // all parts were needed for that
			x.setExpression(n)
			for _, k := range n.kids {
				x.explainNode(k, yes)
			}
			return
		}
		for _, k := range n.kids { // one was enough
			if one, ok := x.evaluateBool(k); !ok {
				return
			} else if one == yes {
				x.explainNode(k, yes)
				return
			}
		}
	case opAll, opAny:
		list, ok := x.list(n.kids[0])
		if !ok {
			return
		}
		for i := range list.list {
			x.bind(n, &list, i)
			if one, ok := x.evaluateBool(n.kids[1]); !ok {
				return
			} else if len(list.list) == 1 || one == yes && yes == (n.op == opAny) {
				x.explainNode(n.kids[1], one)
				return
			}
		}
		x.setExpression(n)
		x.addValue(n.kids[0])
	case opEq, opNe, opLt, opGt, opLe, opGe, opIn, opContains:
		x.setExpression(n)
		for _, k := range n.kids {
			x.addValue(k)
		}
	default:
		x.setExpression(n)
		x.addValue(n)
	}
}

// addValue adds the value of an expression, unless it is plain to see or secret.
func (x *explainer) addValue(n *node) {
	e := &x.reason
	if len(e.Values) == maxExplained || isConstant(n) || readsField(n, "secret") {
		return
	}
	text := x.text(n)
	if slices.ContainsFunc(e.Values, func(v Explained) bool { return v.Expression == text }) {
		return
	}
	if v, ok := x.value(n); ok {
		e.Values = append(e.Values, Explained{text, shorten(string(v.appendText(nil)), maxExplainText)})
	}
}

// isConstant tells whether an expression is what it says: literals only.
func isConstant(n *node) bool {
	if n.op == opList {
		return !slices.ContainsFunc(n.kids, func(k *node) bool { return !isConstant(k) })
	}
	return n.literal() || n.op == opTimestamp
}

func readsField(n *node, name string) bool {
	return n.root != 0 && roots[n.root].name == name || slices.ContainsFunc(n.kids, func(k *node) bool { return readsField(k, name) })
}

// appendText writes a value like an expression, and stops soon after maxExplainText.
func (v *Value) appendText(b []byte) []byte {
	switch {
	case len(b) > maxExplainText:
	case v.typ == TypeNone:
		b = append(b, "nothing"...)
	case v.typ == TypeBool:
		b = strconv.AppendBool(b, v.yes)
	case v.typ == TypeInt:
		b = v.appendDecimal(b)
	case v.typ == typeTime:
		b = time.UnixMilli(v.small).UTC().AppendFormat(b, "2006-01-02T15:04:05.999Z07:00")
	case v.text():
		s := v.string
		if len(s) > maxExplainText+utf8.UTFMax { // what is cut within a character goes with the rest
			s = s[:maxExplainText+utf8.UTFMax]
		}
		b = append(append(append(b, '\''), s...), '\'')
	case v.typ == TypeList:
		b = append(appendParts(append(b, '['), v.list, func(b []byte, item *Value) []byte { return item.appendText(b) }), ']')
	default:
		b = append(appendParts(append(b, '{'), v.members, func(b []byte, m *Member) []byte {
			return m.Value.appendText(append(append(b, shorten(m.Name, maxExplainText)...), ": "...))
		}), '}')
	}
	return b
}

func appendParts[T any](b []byte, parts []T, write func([]byte, *T) []byte) []byte {
	for i := range parts {
		if i > 0 {
			b = append(b, ", "...)
		}
		if b = write(b, &parts[i]); len(b) > maxExplainText {
			break
		}
	}
	return b
}
