package query

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
)

// Queries about users, their tags and their MFA policies.
var users = []*Query{
	stateQuery("get_user", getUser),
	stateQuery("list_users", listUsers),
	stateQuery("list_user_tags", listUserTags),
	stateQuery("list_private_key_tags", listPrivateKeyTags),
	stateQuery("get_mfa_policy", getMFAPolicy),
	stateQuery("get_mfa_policies", getMFAPolicies),
}

type userRequest struct {
	Head
	UserID string `json:"userId" rule:"required"`
}

type mfaPolicyRequest struct {
	Head
	UserID      string `json:"userId" rule:"required"`
	MFAPolicyID string `json:"mfaPolicyId" rule:"required"`
}

func findUser(v *View, userID string) (*org.User, error) {
	return findNamed("user", "userId", userID, v.User)
}

func getUser(v *View, in *userRequest) ([]byte, error) {
	u, err := findUser(v, in.UserID)
	return one(`{"user":`, u, err, activity.AppendUser)
}

func listUsers(v *View, _ *organizationRequest) ([]byte, error) {
	us, err := usersInOrder(v)
	return many(`{"users":`, us, err, activity.AppendUser)
}

func usersInOrder(v *View) ([]*org.User, error) {
	return inOrder(v.EachUser, func(u *org.User) created { return created{u.CreatedMs, u.ID} })
}

func listUserTags(v *View, _ *organizationRequest) ([]byte, error) {
	return tagsOf(v, `{"userTags":`, "TAG_TYPE_USER")
}

func listPrivateKeyTags(v *View, _ *organizationRequest) ([]byte, error) {
	return tagsOf(v, `{"privateKeyTags":`, "TAG_TYPE_PRIVATE_KEY")
}

func tagsOf(v *View, key, typ string) ([]byte, error) {
	ts, err := tagsInOrder(v)
	return many(key, slices.DeleteFunc(ts, func(t *org.Tag) bool { return t.Type != typ }), err, activity.AppendTag)
}

func tagsInOrder(v *View) ([]*org.Tag, error) {
	return inOrder(v.EachTag, func(t *org.Tag) created { return created{t.CreatedMs, t.ID} })
}

func getMFAPolicy(v *View, in *mfaPolicyRequest) ([]byte, error) {
	u, err := findUser(v, in.UserID)
	if err != nil {
		return nil, err
	}
	p, err := findNamed("mfa policy", "mfaPolicyId", in.MFAPolicyID, func(id org.ID) (*org.MFAPolicy, error) {
		return find(u.MFAPolicies, func(p *org.MFAPolicy) bool { return p.ID == id }), nil
	})
	return one(`{"mfaPolicy":`, p, err, activity.AppendMFAPolicy)
}

func getMFAPolicies(v *View, in *userRequest) ([]byte, error) {
	u, err := findUser(v, in.UserID)
	if err != nil {
		return nil, err
	}
	return many(`{"mfaPolicies":`, pointers(u.MFAPolicies), nil, activity.AppendMFAPolicy)
}
