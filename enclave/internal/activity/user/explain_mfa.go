package user

import (
	"cmp"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/org"
)

// explainRequired shows the steps of an MFA policy, each with the factors that pass it. Those of u have names.
func explainRequired(o *show.Object, u *org.User, steps []StepParams) {
	list := o.List("required")
	for _, s := range steps {
		any := list.Object().List("anyOf")
		for _, f := range s.Any {
			entry := any.Object()
			entry.Plain("type", string(f.Type))
			if text := activity.TextOf(f.ID); text != "" {
				entry.Text("id", text)
				if id, err := org.ParseID(text); err == nil {
					explainFactor(entry, u, f.Type, id)
				}
			}
		}
	}
}

// explainFactor names the credential that a factor demands.
func explainFactor(o *show.Object, u *org.User, typ AuthenticationType, id org.ID) {
	for i := range u.Authenticators {
		if a := &u.Authenticators[i]; typ == authPasskey && a.ID == id {
			activity.ExplainName(o, a.Name)
		}
	}
	for i := range u.APIKeys {
		if k := &u.APIKeys[i]; typ == authAPIKey && k.ID == id {
			activity.ExplainName(o, k.Name)
		}
	}
	for i := range u.OauthProviders {
		if p := &u.OauthProviders[i]; typ == authOauth && p.ID == id {
			activity.ExplainName(o, p.Name)
		}
	}
}

// explainMFA shows an MFA policy as it is, or would be.
func explainMFA(o *show.Object, u *org.User, condition string, order uint32, steps []StepParams) {
	o.Text("condition", condition)
	o.Uint("order", uint64(order))
	explainRequired(o, u, steps)
}

func explainStoredMFA(o *show.Object, u *org.User, p *org.MFAPolicy) {
	activity.ExplainName(o, p.Name)
	explainMFA(o, u, p.Condition, p.Order, stepParams(p.Required))
}

// stepParams are stored steps as an intent has them.
func stepParams(required []org.MFAMethod) []StepParams {
	return activity.MapList(required, func(m *org.MFAMethod) StepParams {
		return StepParams{activity.MapList(m.Any, func(f *org.Factor) FactorParams {
			p := FactorParams{Type: AuthenticationType(f.Type)}
			if f.ID != nil {
				text := f.ID.String()
				p.ID = &text
			}
			return p
		})}
	})
}

// explain shows a new MFA policy, and warns if it comes before another one: of those whose condition holds only the first applies.
func (in *CreateMFAPolicy) explain(tx *org.Tx, o *show.Object) error {
	u, _, err := activity.ExplainUser(tx, o, "user", in.UserID)
	if u == nil || err != nil {
		return err
	}
	activity.ExplainWord(o, "name", in.MFAPolicyName)
	explainMFA(o, u, in.Condition, in.Order, in.RequiredAuthenticationMethods)
	explainBehind(o, u, in.Order, org.ID{})
	return nil
}

// explainBehind shows the MFA policies of a user, but one, that no longer apply where one with this order does, and warns of it.
func explainBehind(o *show.Object, u *org.User, order uint32, but org.ID) {
	var list *show.List
	for i := range u.MFAPolicies {
		if p := &u.MFAPolicies[i]; p.Order > order && p.ID != but {
			if list == nil {
				activity.ExplainMeaning(o, "Where this policy applies, those behind it no longer do.")
				o.Warn(show.RulesDenyGone)
				list = o.List("behind")
			}
			explainStoredMFA(list.Object(), u, p)
		}
	}
}

// ofUser finds an MFA policy of a user, nil if there is none.
func ofUser(u *org.User, text string) *org.MFAPolicy {
	id, err := org.ParseID(text)
	i := slices.IndexFunc(u.MFAPolicies, func(p org.MFAPolicy) bool { return p.ID == id })
	if err != nil || i < 0 {
		return nil
	}
	return &u.MFAPolicies[i]
}

// explain shows an MFA policy before and after, and warns if it demands something else then.
func (in *UpdateMFAPolicy) explain(tx *org.Tx, o *show.Object) error {
	u, _, err := activity.ExplainUser(tx, o, "user", in.UserID)
	if u == nil || err != nil {
		return err
	}
	p := ofUser(u, in.MFAPolicyID)
	if p == nil {
		return nil // Run refuses it
	}
	explainStoredMFA(o.Object("before"), u, p)
	condition, order, steps := p.Condition, p.Order, stepParams(p.Required)
	activity.Set(&condition, in.Condition)
	activity.Set(&order, in.Order)
	if len(in.RequiredAuthenticationMethods) > 0 {
		steps = in.RequiredAuthenticationMethods
	}
	after := o.Object("after")
	after.Text("name", cmp.Or(activity.TextOf(in.MFAPolicyName), p.Name))
	explainMFA(after, u, condition, order, steps)
	if condition != p.Condition || order != p.Order || len(in.RequiredAuthenticationMethods) > 0 {
		o.Warn(show.RulesDenyGone)
	}
	return nil
}

// explain shows an MFA policy that ends.
func (in *DeleteMFAPolicy) explain(tx *org.Tx, o *show.Object) error {
	u, _, err := activity.ExplainUser(tx, o, "user", in.UserID)
	if u == nil || err != nil {
		return err
	}
	if p := ofUser(u, in.MFAPolicyID); p != nil {
		explainStoredMFA(o.Object("policy"), u, p)
	}
	activity.ExplainMeaning(o, "The user no longer needs these factors.")
	o.Warn(show.RulesDenyGone)
	return nil
}
