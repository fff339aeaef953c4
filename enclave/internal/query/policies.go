package query

import (
	"slices"

	"cloister/enclave/internal/org"
)

var policies = []*Query{
	stateQuery("get_policy", getPolicy),
	stateQuery("list_policies", listPolicies),
}

// PolicyRequest names a policy.
type PolicyRequest struct {
	Head
	PolicyID string `json:"policyId" rule:"required"`
}

func getPolicy(v *View, in *PolicyRequest) ([]byte, error) {
	p, err := findNamed("policy", "policyId", in.PolicyID, v.Policy)
	if err != nil {
		return nil, err
	}
	return append(appendPolicy([]byte(`{"policy":`), p), '}'), nil
}

func listPolicies(v *View, _ *OrganizationRequest) ([]byte, error) {
	ps, err := policiesInOrder(v)
	if err != nil {
		return nil, err
	}
	return append(array(nil, `{"policies":`, ps, appendPolicy), '}'), nil
}

// policiesInOrder are all policies, in order of creation.
func policiesInOrder(v *View) ([]*org.Policy, error) {
	var ps []*org.Policy
	err := v.EachPolicy(func(p *org.Policy) bool {
		ps = append(ps, p)
		return true
	})
	slices.SortFunc(ps, func(a, b *org.Policy) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	return ps, err
}

func appendPolicy(dst []byte, p *org.Policy) []byte {
	dst = ident(dst, `{"policyId":`, p.ID)
	dst = text(dst, `,"policyName":`, p.Name)
	dst = text(dst, `,"effect":`, p.Effect)
	dst = times(dst, p.CreatedMs, p.UpdatedMs)
	dst = text(dst, `,"notes":`, p.Notes)
	dst = text(dst, `,"consensus":`, p.Consensus)
	dst = text(dst, `,"condition":`, p.Condition)
	if p.Time != "" {
		dst = text(dst, `,"time":`, p.Time)
	}
	return append(dst, '}')
}
