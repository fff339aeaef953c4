package query

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
)

var users = []*Query{
	stateQuery("get_user", getUser),
	stateQuery("list_users", listUsers),
}

// UserRequest names a user.
type UserRequest struct {
	Head
	UserID string `json:"userId" rule:"required"`
}

func getUser(v *View, in *UserRequest) ([]byte, error) {
	u, err := findNamed("user", "userId", in.UserID, v.User)
	if err != nil {
		return nil, err
	}
	return append(activity.AppendUser([]byte(`{"user":`), u), '}'), nil
}

func listUsers(v *View, _ *OrganizationRequest) ([]byte, error) {
	us, err := usersInOrder(v)
	if err != nil {
		return nil, err
	}
	return append(array(nil, `{"users":`, us, activity.AppendUser), '}'), nil
}

// usersInOrder are all users, in order of creation.
func usersInOrder(v *View) ([]*org.User, error) {
	var us []*org.User
	err := v.EachUser(func(u *org.User) bool {
		us = append(us, u)
		return true
	})
	slices.SortFunc(us, func(a, b *org.User) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	return us, err
}

// usersAsked are the one whom a request names, or all, in order of creation.
func usersAsked(v *View, text *string) ([]*org.User, error) {
	if text == nil || *text == "" {
		return usersInOrder(v)
	}
	u, err := findNamed("user", "userId", *text, v.User)
	if err != nil {
		return nil, err
	}
	return []*org.User{u}, nil
}
