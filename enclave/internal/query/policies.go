package query

import "cloister/enclave/internal/org"

var policies = []*Query{
	stateQuery("get_policy", getPolicy),
	stateQuery("list_policies", listPolicies),
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
