package activity

import (
	"fmt"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Effect is the effect of a policy that applies: allow or deny, by the name of the interface.
type Effect string

// effects maps the names of the interface to the effects of package policy.
var effects = map[Effect]policy.Effect{"EFFECT_ALLOW": policy.EffectAllow, "EFFECT_DENY": policy.EffectDeny}

// Valid reports whether e is an effect of the interface.
func (e Effect) Valid() bool { return effects[e] != 0 }

// Policy returns e as package policy has it.
func (e Effect) Policy() policy.Effect { return effects[e] }

// CompiledPolicy returns p with its expressions compiled. It compiles them once per load of p.
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

// compiledPolicies returns all policies, compiled, in the order of their ids.
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

// CompileStored compiles an expression of a record. It was compiled before it was stored, so an error is internal, not a *fault.Error.
func CompileStored(what string, id org.ID, c policy.Clause, source string) (*policy.Program, error) {
	p, err := policy.Compile(c, source)
	if err != nil {
		return nil, fmt.Errorf("%s %v does not compile: %s", what, id, err)
	}
	return p, nil
}

// CompileClause compiles the expression in a field of an intent. Errors are *fault.Error about the field.
func CompileClause(c policy.Clause, field, source string) (*policy.Program, error) {
	p, err := policy.Compile(c, source)
	if e := fault.Of(err); e != nil && e.Code == fault.InvalidArgument {
		named := *e
		named.Violations = []fault.Violation{{Field: field, Description: e.Message}}
		return nil, &named
	}
	return p, err
}
