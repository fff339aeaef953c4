package query

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

var policies = []*Query{
	stateQuery("get_policy", getPolicy),
	stateQuery("list_policies", listPolicies),
	stateQuery("get_active_policies", getActivePolicies),
}

type policyRequest struct {
	Head
	PolicyID string `json:"policyId" rule:"required"`
}

func getPolicy(v *View, in *policyRequest) ([]byte, error) {
	p, err := findNamed("policy", "policyId", in.PolicyID, v.Policy)
	return one(`{"policy":`, p, err, appendPolicy)
}

func listPolicies(v *View, _ *organizationRequest) ([]byte, error) {
	ps, err := policiesInOrder(v)
	return many(`{"policies":`, ps, err, appendPolicy)
}

func policiesInOrder(v *View) ([]*org.Policy, error) {
	return inOrder(v.EachPolicy, func(p *org.Policy) created { return created{p.CreatedMs, p.ID} })
}

func appendPolicy(dst []byte, p *org.Policy) []byte {
	dst = ident(dst, `{"policyId":`, p.ID)
	dst = text(dst, `,"policyName":`, p.Name)
	dst = text(dst, `,"effect":`, p.Effect)
	dst = appendTimes(dst, p.CreatedMs, p.UpdatedMs)
	dst = text(dst, `,"notes":`, p.Notes)
	dst = text(dst, `,"consensus":`, p.Consensus)
	dst = text(dst, `,"condition":`, p.Condition)
	if p.Time != "" {
		dst = text(dst, `,"time":`, p.Time)
	}
	return append(dst, '}')
}

// getActivePolicies answers which policies apply at the enclave's present time. A policy without a time expression always applies, one
// whose expression fails does not.
func getActivePolicies(v *View, _ *organizationRequest) ([]byte, error) {
	ps, err := policiesInOrder(v)
	if err != nil {
		return nil, err
	}
	now, left := &policy.Request{NowMs: v.NowMs, Pause: v.Tx}, v.Steps
	var broken error
	dst := array(nil, `{"statuses":`, ps, func(dst []byte, p *org.Policy) []byte {
		c, err := activity.CompiledPolicy(p)
		if err != nil {
			broken = err
			return dst
		}
		active, err := c.Time.HoldsWithin(now, &left)
		dst = ident(dst, `{"organizationId":`, v.ID)
		dst = ident(dst, `,"policyId":`, p.ID)
		dst = flag(dst, `,"active":`, active)
		if p.Time != "" {
			dst = text(dst, `,"timeExpr":`, p.Time)
		}
		if err != nil {
			dst = text(dst, `,"error":`, err.Error())
		}
		return append(dst, '}')
	})
	return append(number(dst, `,"evaluatedAtMs":`, v.NowMs), '}'), broken
}
