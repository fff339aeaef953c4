package organization

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// Policies are the kinds about the organization's policies.
var Policies = activity.Family{
	activity.Kind[CreatePolicy, PolicyID]{
		Name: "CREATE_POLICY", Resource: "POLICY", Action: "CREATE", Run: createPolicy,
		Explain: func(_ *org.Tx, in *CreatePolicy, o *show.Object) error {
			in.explain(o)
			return nil
		},
		Older: []activity.Older{activity.Upgrade(carryPolicyV1), activity.Upgrade(carryPolicyV2)},
	},
	activity.Kind[CreatePolicies, PolicyIDs]{Name: "CREATE_POLICIES", Resource: "POLICY", Action: "CREATE", Run: createPolicies, Explain: func(_ *org.Tx, in *CreatePolicies, o *show.Object) error {
		explainPolicies(in, o)
		return nil
	}},
	activity.Kind[UpdatePolicy, PolicyID]{
		Name: "UPDATE_POLICY", Resource: "POLICY", Action: "UPDATE", Run: updatePolicy, Results: []int{1, 2},
		Explain: func(tx *org.Tx, in *UpdatePolicy, o *show.Object) error { return in.explain(tx, o) },
		Older:   []activity.Older{activity.Upgrade(func(v *UpdatePolicyV1) UpdatePolicy { return UpdatePolicy{UpdatePolicyV1: *v} })},
	},
	activity.Kind[PolicyID, PolicyID]{Name: "DELETE_POLICY", Resource: "POLICY", Action: "DELETE", Run: deletePolicy, Explain: func(tx *org.Tx, in *PolicyID, o *show.Object) error { return explainDeleted(tx, o, in.PolicyID) }},
	activity.Kind[PolicyIDs, PolicyIDs]{Name: "DELETE_POLICIES", Resource: "POLICY", Action: "DELETE", Run: deletePolicies, Explain: func(tx *org.Tx, in *PolicyIDs, o *show.Object) error { return explainDeleted(tx, o, in.PolicyIDs...) }},
}

// Operator is a comparison in a selector of an older version.
type Operator string

var operators = []Operator{
	"OPERATOR_EQUAL", "OPERATOR_MORE_THAN", "OPERATOR_MORE_THAN_OR_EQUAL", "OPERATOR_LESS_THAN", "OPERATOR_LESS_THAN_OR_EQUAL", "OPERATOR_CONTAINS",
	"OPERATOR_NOT_EQUAL", "OPERATOR_IN", "OPERATOR_NOT_IN", "OPERATOR_CONTAINS_ONE", "OPERATOR_CONTAINS_ALL",
}

// Valid reports whether o is an operator of the interface.
func (o Operator) Valid() bool { return slices.Contains(operators, o) }

// SelectorV1 is a comparison of version 1, with one target.
type SelectorV1 struct {
	Subject  *string   `json:"subject"`
	Operator *Operator `json:"operator"`
	Target   *string   `json:"target"`
}

// SelectorV2 is a comparison of version 2.
type SelectorV2 struct {
	Subject  *string   `json:"subject"`
	Operator *Operator `json:"operator"`
	Targets  []string  `json:"targets,omitempty"`
}

// OlderCreatePolicy are versions 1 and 2 of the intent: comparisons, all of which must hold.
type OlderCreatePolicy[S any] struct {
	PolicyName string          `json:"policyName" rule:"required,label,label_length"`
	Selectors  []S             `json:"selectors" rule:"required,dive,required"`
	Effect     activity.Effect `json:"effect" rule:"required"`
	Notes      *string         `json:"notes"`
}

// CreatePolicy creates a policy. An expression that is absent or empty is true.
type CreatePolicy struct {
	PolicyName string          `json:"policyName" rule:"required,label,label_length"`
	Effect     activity.Effect `json:"effect" rule:"required"`
	Condition  *string         `json:"condition"`
	Consensus  *string         `json:"consensus"`
	Notes      string          `json:"notes" rule:"present"`
	Time       *string         `json:"time"`

	selectors []SelectorV2 // of versions 1 and 2
	clauses   Clauses
	path      string // of the policy in the intent
}

// Clauses are the expressions of a policy, compiled.
type Clauses struct{ consensus, condition, time *policy.Program }

func carryPolicyV1(v *OlderCreatePolicy[SelectorV1]) CreatePolicy {
	selectors := activity.MapList(v.Selectors, func(s *SelectorV1) SelectorV2 {
		n := SelectorV2{Subject: s.Subject, Operator: s.Operator}
		if s.Target != nil {
			n.Targets = []string{*s.Target}
		}
		return n
	})
	return carryPolicyV2(&OlderCreatePolicy[SelectorV2]{v.PolicyName, selectors, v.Effect, v.Notes})
}

func carryPolicyV2(v *OlderCreatePolicy[SelectorV2]) CreatePolicy {
	return CreatePolicy{PolicyName: v.PolicyName, Effect: v.Effect, Notes: activity.TextOf(v.Notes), selectors: v.Selectors}
}

func (in *CreatePolicy) Check() error { return in.checkAt("") }

func (in *CreatePolicy) checkAt(path string) error {
	in.path = path
	if in.selectors != nil {
		if err := in.translate(); err != nil {
			return err
		}
	}
	if err := activity.CheckNotes(path+"notes", &in.Notes); err != nil {
		return err
	}
	return in.clauses.Compile(path, "", in.Consensus, in.Condition, in.Time)
}

// translate converts the selectors of older versions to expressions.
func (in *CreatePolicy) translate() error {
	ss := make([]policy.Selector, len(in.selectors))
	for i, s := range in.selectors {
		ss[i] = policy.Selector{Subject: activity.TextOf(s.Subject), Targets: s.Targets}
		if s.Operator != nil {
			ss[i].Operator = string(*s.Operator)
		}
	}
	consensus, condition, err := policy.FromSelectors(ss)
	if e := fault.Of(err); e != nil {
		return fault.Field("selectors", "%s", e.Message)
	}
	in.Consensus, in.Condition = &consensus, &condition
	return err
}

// Compile compiles the expressions that are present. A prefix goes before the names of the fields, such as policyCondition.
func (c *Clauses) Compile(path, prefix string, consensus, condition, time *string) error {
	field := func(name string) string { return path + name }
	if prefix != "" {
		field = func(name string) string { return path + activity.CamelCase(prefix+"_"+name) }
	}
	var err error
	if c.consensus, err = activity.CompileClause(policy.ClauseConsensus, field("consensus"), activity.TextOf(consensus)); err != nil {
		return err
	}
	if c.condition, err = activity.CompileClause(policy.ClauseCondition, field("condition"), activity.TextOf(condition)); err != nil {
		return err
	}
	c.time, err = activity.CompileClause(policy.ClauseTime, path+"time", activity.TextOf(time))
	return err
}

// PolicyID names the policy to be deleted, and is the result of creating, changing and deleting one.
type PolicyID struct {
	PolicyID string `json:"policyId" rule:"required,uuid"`
}

// PolicyIDs names the policies to be deleted, all or none, and is the result for several.
type PolicyIDs struct {
	PolicyIDs []string `json:"policyIds" rule:"required,dive,uuid"`
}

func (in *PolicyIDs) Check() error { return activity.CheckDistinct("policyIds", in.PolicyIDs) }

// PutPolicy stores p with its compiled expressions.
func PutPolicy(tx *activity.Tx, p *org.Policy, c *Clauses) error {
	p.Compiled = &policy.Policy{ID: p.ID, Name: p.Name, Effect: activity.Effect(p.Effect).Policy(), Consensus: c.consensus, Condition: c.condition, Time: c.time}
	return tx.PutPolicy(p)
}

func createPolicy(tx *activity.Tx, in *CreatePolicy) (*PolicyID, error) {
	r, err := addPolicies(tx, []CreatePolicy{*in})
	if err != nil {
		return nil, err
	}
	return &PolicyID{r.PolicyIDs[0]}, nil
}

// CreatePolicies creates policies, all or none.
type CreatePolicies struct {
	Policies []CreatePolicy `json:"policies" rule:"dive"`
}

func (in *CreatePolicies) Check() error {
	for i := range in.Policies {
		if err := in.Policies[i].checkAt(activity.FieldAt("policies", i, "")); err != nil {
			return err
		}
	}
	return nil
}

func createPolicies(tx *activity.Tx, in *CreatePolicies) (*PolicyIDs, error) {
	return addPolicies(tx, in.Policies)
}

func addPolicies(tx *activity.Tx, ps []CreatePolicy) (*PolicyIDs, error) {
	if err := activity.Policies.Add(tx, len(ps)); err != nil {
		return nil, err
	}
	r := &PolicyIDs{PolicyIDs: []string{}}
	for i := range ps {
		p := &ps[i]
		id, err := activity.NewNamed(tx, org.NamePolicy, "policy", p.path+"policyName", p.PolicyName)
		if err != nil {
			return nil, err
		}
		rec := &org.Policy{
			ID: id, Name: p.PolicyName, Effect: string(p.Effect), Consensus: activity.TextOf(p.Consensus), Condition: activity.TextOf(p.Condition), Time: activity.TextOf(p.Time),
			Notes: p.Notes, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs,
		}
		if err := PutPolicy(tx, rec, &p.clauses); err != nil {
			return nil, err
		}
		r.PolicyIDs = append(r.PolicyIDs, id.String())
	}
	return r, nil
}

// UpdatePolicyV1 is version 1 of the intent.
type UpdatePolicyV1 struct {
	PolicyID        string           `json:"policyId" rule:"required,uuid"`
	PolicyName      *string          `json:"policyName" rule:"omitempty,label,label_length"`
	PolicyEffect    *activity.Effect `json:"policyEffect"`
	PolicyCondition *string          `json:"policyCondition"`
	PolicyConsensus *string          `json:"policyConsensus"`
	PolicyNotes     *string          `json:"policyNotes"`
}

// UpdatePolicy changes the members of a policy that are set. An empty expression removes the old one.
type UpdatePolicy struct {
	UpdatePolicyV1
	Time *string `json:"time"`

	clauses Clauses
}

func (in *UpdatePolicy) Check() error {
	if err := activity.CheckNotes("policyNotes", in.PolicyNotes); err != nil {
		return err
	}
	return in.clauses.Compile("", "policy", in.PolicyConsensus, in.PolicyCondition, in.Time)
}

func updatePolicy(tx *activity.Tx, in *UpdatePolicy) (*PolicyID, error) {
	old, err := activity.Find(tx.Policy, "policy", in.PolicyID)
	if err != nil {
		return nil, err
	}
	before, err := activity.CompiledPolicy(old)
	if err != nil {
		return nil, err
	}
	p, c := *old, Clauses{before.Consensus, before.Condition, before.Time}
	p.UpdatedMs = tx.NowMs
	if name := activity.TextOf(in.PolicyName); name != "" {
		if err := activity.Rename(tx, org.NamePolicy, "policy", "policyName", old.Name, name, old.ID); err != nil {
			return nil, err
		}
		p.Name = name
	}
	if in.PolicyEffect != nil {
		p.Effect = string(*in.PolicyEffect)
	}
	if in.PolicyConsensus != nil {
		p.Consensus, c.consensus = *in.PolicyConsensus, in.clauses.consensus
	}
	if in.PolicyCondition != nil {
		p.Condition, c.condition = *in.PolicyCondition, in.clauses.condition
	}
	if in.Time != nil {
		p.Time, c.time = *in.Time, in.clauses.time
	}
	activity.Set(&p.Notes, in.PolicyNotes)
	return &PolicyID{in.PolicyID}, PutPolicy(tx, &p, &c)
}

func deletePolicy(tx *activity.Tx, in *PolicyID) (*PolicyID, error) {
	return in, removePolicies(tx, in.PolicyID)
}

func deletePolicies(tx *activity.Tx, in *PolicyIDs) (*PolicyIDs, error) {
	return in, removePolicies(tx, in.PolicyIDs...)
}

func removePolicies(tx *activity.Tx, ids ...string) error {
	for _, text := range ids {
		p, err := activity.Find(tx.Policy, "policy", text)
		if err != nil {
			return err
		}
		tx.FreeName(org.NamePolicy, p.Name)
		tx.DeletePolicy(p.ID)
	}
	return activity.Policies.Add(tx, -len(ids))
}
