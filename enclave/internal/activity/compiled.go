package activity

import (
	"fmt"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Effect is what a policy does when it applies.
type Effect string

// effects are those of the interface.
var effects = map[Effect]policy.Effect{"EFFECT_ALLOW": policy.EffectAllow, "EFFECT_DENY": policy.EffectDeny}

// Valid tells whether e is one of the interface's.
func (e Effect) Valid() bool { return effects[e] != 0 }

// Policy is e in the terms of package policy.
func (e Effect) Policy() policy.Effect { return effects[e] }

// CompiledPolicy is p with its expressions compiled, once for each time that p is loaded.
func CompiledPolicy(p *org.Policy) (*policy.Policy, error) {
	if c, ok := p.Compiled.(*policy.Policy); ok {
		return c, nil
	}
	c := &policy.Policy{ID: p.ID, Name: p.Name, Effect: Effect(p.Effect).Policy()}
	for _, part := range []struct {
		clause policy.Clause
		source string
		into   **policy.Program
	}{{policy.ClauseConsensus, p.Consensus, &c.Consensus}, {policy.ClauseCondition, p.Condition, &c.Condition}, {policy.ClauseTime, p.Time, &c.Time}} {
		var err error
		if *part.into, err = CompileStored("policy", p.ID, part.clause, part.source); err != nil {
			return nil, err
		}
	}
	p.Compiled = c
	return c, nil
}

// compiledPolicies are all policies in the order of their ids.
func compiledPolicies(tx *org.Tx) ([]*policy.Policy, error) {
	var ps []*policy.Policy
	var bad error
	err := tx.EachPolicy(func(p *org.Policy) bool {
		var c *policy.Policy
		c, bad = CompiledPolicy(p)
		ps = append(ps, c)
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return ps, err
}

// CompileStored compiles an expression from a record. It compiled before it was stored, so a failure is no *fault.Error.
func CompileStored(what string, id org.ID, c policy.Clause, source string) (*policy.Program, error) {
	p, err := policy.Compile(c, source)
	if err != nil {
		return nil, fmt.Errorf("%s %v does not compile: %s", what, id, err)
	}
	return p, nil
}

// CompileClause compiles the expression that an intent has in a field.
func CompileClause(c policy.Clause, field, source string) (*policy.Program, error) {
	p, err := policy.Compile(c, source)
	if e := fault.Of(err); e != nil && e.Code == fault.InvalidArgument {
		named := *e
		named.Violations = []fault.Violation{{Field: field, Description: e.Message}}
		return nil, &named
	}
	return p, err
}
