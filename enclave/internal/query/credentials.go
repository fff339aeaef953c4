package query

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Queries about the credentials and contacts of users.
var credentials = []*Query{
	stateQuery("get_api_key", getAPIKey),
	stateQuery("get_api_keys", getAPIKeys),
	stateQuery("get_authenticator", getAuthenticator),
	stateQuery("get_authenticators", getAuthenticators),
	stateQuery("get_oauth_providers", getOauthProviders),
}

type apiKeyRequest struct {
	Head
	APIKeyID string `json:"apiKeyId" rule:"required"`
}

type authenticatorRequest struct {
	Head
	AuthenticatorID string `json:"authenticatorId" rule:"required"`
}

// ofUsersRequest requests the records of all users, or of one.
type ofUsersRequest struct {
	Head
	UserID *string `json:"userId"`
}

func apiKeys(u *org.User) []org.APIKey                { return u.APIKeys }
func authenticators(u *org.User) []org.Authenticator  { return u.Authenticators }
func oauthProviders(u *org.User) []org.OauthProvider  { return u.OauthProviders }
func apiKeyPlace(k *org.APIKey) created               { return created{k.CreatedMs, k.ID} }
func authenticatorPlace(a *org.Authenticator) created { return created{a.CreatedMs, a.ID} }
func oauthProviderPlace(p *org.OauthProvider) created { return created{p.CreatedMs, p.ID} }

func getAPIKey(v *View, in *apiKeyRequest) ([]byte, error) {
	k, err := findOfUsers(v, "apiKeyId", in.APIKeyID, "api key not found", apiKeys, apiKeyPlace)
	return one(`{"apiKey":`, k, err, activity.AppendAPIKey)
}

func getAPIKeys(v *View, in *ofUsersRequest) ([]byte, error) {
	ks, err := ofUsers(v, in.UserID, apiKeys, apiKeyPlace)
	return many(`{"apiKeys":`, ks, err, activity.AppendAPIKey)
}

func getAuthenticator(v *View, in *authenticatorRequest) ([]byte, error) {
	a, err := findOfUsers(v, "authenticatorId", in.AuthenticatorID, "webauthn authenticator not found in organization", authenticators, authenticatorPlace)
	return one(`{"authenticator":`, a, err, activity.AppendAuthenticator)
}

func getAuthenticators(v *View, in *userRequest) ([]byte, error) {
	u, err := findUser(v, in.UserID)
	if err != nil {
		return nil, err
	}
	return many(`{"authenticators":`, pointers(u.Authenticators), nil, activity.AppendAuthenticator)
}

func getOauthProviders(v *View, in *ofUsersRequest) ([]byte, error) {
	ps, err := ofUsers(v, in.UserID, oauthProviders, oauthProviderPlace)
	return many(`{"oauthProviders":`, ps, err, activity.AppendOauthProvider)
}

// findOfUsers finds the users' record with the id that a request names.
func findOfUsers[T any](v *View, field, text, missing string, of func(*org.User) []T, place func(*T) created) (found *T, err error) {
	want, err := id(field, text)
	if err != nil {
		return nil, err
	}
	err = v.EachUser(func(u *org.User) bool {
		found = find(of(u), func(t *T) bool { return place(t).id == want })
		return found == nil
	})
	if err == nil && found == nil {
		err = fault.New(fault.NotFound, "%s: %s", missing, want)
	}
	return found, err
}

// ofUsers collects the records of all users, or of the named one, in order of creation.
func ofUsers[T any](v *View, userID *string, of func(*org.User) []T, place func(*T) created) ([]*T, error) {
	var us []*org.User
	var err error
	if activity.TextOf(userID) == "" {
		us, err = usersInOrder(v)
	} else {
		us = make([]*org.User, 1)
		us[0], err = findUser(v, *userID)
	}
	if err != nil {
		return nil, err
	}
	var all []*T
	for _, u := range us {
		all = append(all, pointers(of(u))...)
	}
	sortCreated(all, place)
	return all, nil
}

func pointers[T any](ts []T) []*T {
	ps := make([]*T, len(ts))
	for i := range ts {
		ps[i] = &ts[i]
	}
	return ps
}

// find returns the first element for which is holds, or nil.
func find[T any](ts []T, is func(*T) bool) *T {
	for i := range ts {
		if is(&ts[i]) {
			return &ts[i]
		}
	}
	return nil
}
