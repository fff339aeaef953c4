package query

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
)

var mfa = []*Query{
	stateQuery("get_mfa_policy", getMFAPolicy),
	stateQuery("get_mfa_policies", getMFAPolicies),
}

// MFAPolicyRequest names an MFA policy of a user.
type MFAPolicyRequest struct {
	Head
	UserID      string `json:"userId" rule:"required"`
	MFAPolicyID string `json:"mfaPolicyId" rule:"required"`
}

func getMFAPolicy(v *View, in *MFAPolicyRequest) ([]byte, error) {
	u, err := findNamed("user", "userId", in.UserID, v.User)
	if err != nil {
		return nil, err
	}
	p, err := findNamed("mfa policy", "mfaPolicyId", in.MFAPolicyID, func(id org.ID) (*org.MFAPolicy, error) {
		for i := range u.MFAPolicies {
			if u.MFAPolicies[i].ID == id {
				return &u.MFAPolicies[i], nil
			}
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return append(activity.AppendMFAPolicy([]byte(`{"mfaPolicy":`), p), '}'), nil
}

func getMFAPolicies(v *View, in *UserRequest) ([]byte, error) {
	u, err := findNamed("user", "userId", in.UserID, v.User)
	if err != nil {
		return nil, err
	}
	dst := array(nil, `{"mfaPolicies":`, u.MFAPolicies, func(dst []byte, p org.MFAPolicy) []byte { return activity.AppendMFAPolicy(dst, &p) })
	return append(dst, '}'), nil
}
