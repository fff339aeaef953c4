package organization

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// explain shows the root quorum as it is and as it would be.
func (in *UpdateRootQuorum) explain(tx *org.Tx, o *show.Object) error {
	old, err := tx.Organization()
	if err != nil {
		return err
	}
	ids := make([]org.ID, 0, len(in.UserIDs))
	for _, text := range in.UserIDs {
		if id, err := org.ParseID(text); err == nil {
			ids = append(ids, id)
		}
	}
	quorum := func(key string, threshold uint64, members []org.ID) error {
		child := o.Object(key)
		child.Uint("threshold", threshold)
		return activity.ExplainUsers(tx, child.List("members"), members)
	}
	without := func(all, these []org.ID) []org.ID {
		return slices.DeleteFunc(slices.Clone(all), func(id org.ID) bool { return slices.Contains(these, id) })
	}
	if err := quorum("before", uint64(old.Threshold), old.RootUsers); err != nil {
		return err
	}
	if err := quorum("after", uint64(in.Threshold), ids); err != nil {
		return err
	}
	if err := activity.ExplainUsers(tx, o.List("added"), without(ids, old.RootUsers)); err != nil {
		return err
	}
	if err := activity.ExplainUsers(tx, o.List("removed"), without(old.RootUsers, ids)); err != nil {
		return err
	}
	if t := uint32(in.Threshold); t < old.Threshold || t == old.Threshold && len(ids) > len(old.RootUsers) {
		o.Warn(show.QuorumWeaker)
	}
	return nil
}

// A clauseSet is what a policy says, for approvers.
type clauseSet struct{ effect, condition, consensus, time string }

func (c *clauseSet) set(o *show.Object) {
	o.Plain("effect", c.effect)
	o.Text("condition", c.condition)
	o.Text("consensus", c.consensus)
	if c.time != "" {
		o.Text("time", c.time)
	}
}

// warnIfBroad warns of a policy that allows too much, given its compiled condition.
func (c *clauseSet) warnIfBroad(o *show.Object, condition *policy.Program) {
	if c.effect == "EFFECT_ALLOW" && policy.IsBroad(condition) {
		o.Warn(show.RulesBroad)
	}
}

func (in *CreatePolicy) explain(o *show.Object) {
	activity.ExplainWord(o, "name", in.PolicyName)
	c := clauseSet{string(in.Effect), activity.TextOf(in.Condition), activity.TextOf(in.Consensus), activity.TextOf(in.Time)}
	c.set(o)
	activity.ExplainWord(o, "notes", in.Notes)
	c.warnIfBroad(o, in.clauses.condition)
}

func explainPolicies(in *CreatePolicies, o *show.Object) {
	list := o.List("policies")
	for i := range in.Policies {
		in.Policies[i].explain(list.Object())
	}
}

// explainOld shows a policy as it is, and warns if a prohibition would end.
func explainOld(tx *org.Tx, o *show.Object, text string) (*org.Policy, error) {
	id, err := org.ParseID(text)
	if err != nil {
		return nil, nil // Run refuses it
	}
	p, err := tx.Policy(id)
	if p == nil || err != nil {
		return nil, err
	}
	o.Plain("id", text)
	activity.ExplainName(o, p.Name)
	(&clauseSet{p.Effect, p.Condition, p.Consensus, p.Time}).set(o)
	return p, nil
}

func (in *UpdatePolicy) explain(tx *org.Tx, o *show.Object) error {
	p, err := explainOld(tx, o.Object("before"), in.PolicyID)
	if p == nil || err != nil {
		return err
	}
	c := clauseSet{p.Effect, p.Condition, p.Consensus, p.Time}
	activity.Set((*activity.Effect)(&c.effect), in.PolicyEffect)
	activity.Set(&c.condition, in.PolicyCondition)
	activity.Set(&c.consensus, in.PolicyConsensus)
	activity.Set(&c.time, in.Time)
	after := o.Object("after")
	if name := activity.TextOf(in.PolicyName); name != "" {
		activity.ExplainWord(after, "name", name)
	}
	c.set(after)
	condition := in.clauses.condition
	if in.PolicyCondition == nil {
		compiled, err := activity.CompiledPolicy(p)
		if err != nil {
			return err
		}
		condition = compiled.Condition
	}
	c.warnIfBroad(after, condition)
	if was := (clauseSet{p.Effect, p.Condition, p.Consensus, p.Time}); p.Effect == "EFFECT_DENY" && c != was {
		o.Warn(show.RulesDenyGone)
	}
	return nil
}

// explainDeleted shows the policies that would be deleted.
func explainDeleted(tx *org.Tx, o *show.Object, ids ...string) error {
	list := o.List("policies")
	for _, id := range ids {
		entry := list.Object()
		p, err := explainOld(tx, entry, id)
		if err != nil {
			return err
		}
		if p != nil && p.Effect == "EFFECT_DENY" {
			entry.Warn(show.RulesDenyGone)
		}
	}
	return nil
}
