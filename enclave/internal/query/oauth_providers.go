package query

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
)

var oauthProviders = []*Query{stateQuery("get_oauth_providers", getOauthProviders)}

// OauthProvidersRequest asks for the identities of all users or of one.
type OauthProvidersRequest struct {
	Head
	UserID *string `json:"userId"`
}

func getOauthProviders(v *View, in *OauthProvidersRequest) ([]byte, error) {
	of, err := usersAsked(v, in.UserID)
	if err != nil {
		return nil, err
	}
	var ps []*org.OauthProvider
	for _, u := range of {
		for i := range u.OauthProviders {
			ps = append(ps, &u.OauthProviders[i])
		}
	}
	slices.SortStableFunc(ps, func(a, b *org.OauthProvider) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	return append(array(nil, `{"oauthProviders":`, ps, activity.AppendOauthProvider), '}'), nil
}
