package query

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var credentials = []*Query{
	stateQuery("get_api_key", getAPIKey),
	stateQuery("get_api_keys", getAPIKeys),
	stateQuery("get_authenticator", getAuthenticator),
	stateQuery("get_authenticators", getAuthenticators),
}

// APIKeyRequest names an API key.
type APIKeyRequest struct {
	Head
	APIKeyID string `json:"apiKeyId" rule:"required"`
}

// APIKeysRequest asks for the API keys of all users or of one.
type APIKeysRequest struct {
	Head
	UserID *string `json:"userId"`
}

func getAPIKey(v *View, in *APIKeyRequest) ([]byte, error) {
	want, err := id("apiKeyId", in.APIKeyID)
	if err != nil {
		return nil, err
	}
	var found *org.APIKey
	err = v.EachUser(func(u *org.User) bool {
		if i := slices.IndexFunc(u.APIKeys, func(k org.APIKey) bool { return k.ID == want }); i >= 0 {
			found = &u.APIKeys[i]
		}
		return found == nil
	})
	if err == nil && found == nil {
		err = fault.New(fault.NotFound, "api key not found: %s", want)
	}
	if err != nil {
		return nil, err
	}
	return append(activity.AppendAPIKey([]byte(`{"apiKey":`), found), '}'), nil
}

func getAPIKeys(v *View, in *APIKeysRequest) ([]byte, error) {
	of, err := usersAsked(v, in.UserID)
	if err != nil {
		return nil, err
	}
	var ks []*org.APIKey
	for _, u := range of {
		for i := range u.APIKeys {
			ks = append(ks, &u.APIKeys[i])
		}
	}
	slices.SortStableFunc(ks, func(a, b *org.APIKey) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	return append(array(nil, `{"apiKeys":`, ks, activity.AppendAPIKey), '}'), nil
}

// AuthenticatorRequest names a passkey.
type AuthenticatorRequest struct {
	Head
	AuthenticatorID string `json:"authenticatorId" rule:"required"`
}

// AuthenticatorsRequest asks for the passkeys of a user.
type AuthenticatorsRequest struct {
	Head
	UserID string `json:"userId" rule:"required"`
}

func getAuthenticator(v *View, in *AuthenticatorRequest) ([]byte, error) {
	want, err := id("authenticatorId", in.AuthenticatorID)
	if err != nil {
		return nil, err
	}
	var found *org.Authenticator
	err = v.EachUser(func(u *org.User) bool {
		if i := slices.IndexFunc(u.Authenticators, func(a org.Authenticator) bool { return a.ID == want }); i >= 0 {
			found = &u.Authenticators[i]
		}
		return found == nil
	})
	if err == nil && found == nil {
		err = fault.New(fault.NotFound, "webauthn authenticator not found in organization: %s", want)
	}
	if err != nil {
		return nil, err
	}
	return append(activity.AppendAuthenticator([]byte(`{"authenticator":`), found), '}'), nil
}

func getAuthenticators(v *View, in *AuthenticatorsRequest) ([]byte, error) {
	u, err := findNamed("user", "userId", in.UserID, v.User)
	if err != nil {
		return nil, err
	}
	as := make([]*org.Authenticator, len(u.Authenticators))
	for i := range u.Authenticators {
		as[i] = &u.Authenticators[i]
	}
	return append(array(nil, `{"authenticators":`, as, activity.AppendAuthenticator), '}'), nil
}
