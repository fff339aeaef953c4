package organization

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/strictjson"
)

// FirstOrganization is the body of an admission, which is no activity: it creates a top-level organization with
// one root user and one API key.
type FirstOrganization struct {
	OrganizationName string            `json:"organizationName" rule:"required,label,label_length"`
	RootUserName     string            `json:"rootUserName" rule:"required,label,label_length"`
	RootAPIKey       user.APIKeyParams `json:"rootApiKey" rule:"required"`
	TimestampMs      uint64            `json:"timestampMs" rule:"required"`
}

// ParseFirst decodes an admission, strictly. The errors are *fault.Error.
func ParseFirst(body stamp.Body) (*FirstOrganization, error) {
	in := new(FirstOrganization)
	if err := strictjson.Decode(body.Bytes(), in); err != nil {
		return nil, activity.PublicWording(err)
	}
	if err := in.RootAPIKey.CheckAt("rootApiKey"); err != nil {
		return nil, err
	}
	return in, nil
}

// Make writes the organization into tx, a change to an empty state.
func (in *FirstOrganization) Make(tx *activity.Tx) (root, key org.ID, err error) {
	tx.Limits = tx.Limits.WithDefaults()
	u, err := user.Create(tx, "", &user.RootUserParams{UserName: in.RootUserName, APIKeys: []user.APIKeyParams{in.RootAPIKey}})
	if err != nil {
		return root, key, err
	}
	o := &org.Organization{ID: tx.ID, Name: in.OrganizationName, RootUsers: []org.ID{u.ID}, Threshold: 1, CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs, Users: 1, Recovered: tx.Recovered}
	return u.ID, u.APIKeys[0].ID, tx.PutOrganization(o)
}
