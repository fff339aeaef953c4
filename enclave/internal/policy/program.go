package policy

import "cloister/enclave/internal/fault"

// Clause is the field of a policy that an expression stands in: it decides which
// roots the expression may read.
type Clause uint8

// The clauses. Conditions of MFA policies and scopes of session profiles are
// ClauseCondition.
const (
	ClauseConsensus Clause = iota + 1
	ClauseCondition
	ClauseTime
)

// Program is an expression of type bool, parsed and checked. It is immutable.
type Program struct{ source string }

// Source is the text that was compiled.
func (p *Program) Source() string { return p.source }

// Compile parses and checks an expression. The empty one gives a nil Program,
// which is true. Errors are *fault.Error, InvalidArgument, and name position and
// reason.
func Compile(c Clause, source string) (*Program, error) {
	return nil, fault.New(fault.Unimplemented, "UNIMPLEMENTED: policy language")
}

// Holds evaluates a condition or a scope by itself. An error is the expression's.
func (p *Program) Holds(r *Request) (bool, error) {
	return false, fault.New(fault.Unimplemented, "UNIMPLEMENTED: policy language")
}

// Warning is a hint about a policy; it never blocks.
type Warning struct {
	Clause   string // "condition", "consensus", "time" or ""
	Code     string // stable, such as DENY_CAN_ERROR
	Message  string
	Position int // byte in the clause's source, from 0
}

// Lint looks for what is allowed and likely wrong. Conditions of the policies
// that already exist help it to tell.
func Lint(p *Policy, others []*Policy) []Warning { return nil }
