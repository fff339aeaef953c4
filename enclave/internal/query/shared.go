package query

import (
	"encoding/hex"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var sharedValues = []*Query{stateQuery("list_shared_credentials", listSharedCredentials)}

// sharedRequest requests the keys, passkeys, identities and contacts that several sub-organizations of the organization have.
type sharedRequest struct {
	Head
	Cursor string `json:"cursor"` // the previous answer's; empty: the first page
}

// sharedPage is the number of values examined for one answer.
const sharedPage = 500

var sharedNames = map[byte]string{org.ChildBefore: "CREDENTIAL", org.ChildIdentity: "OAUTH_PROVIDER", org.ChildEmail: "EMAIL", org.ChildPhone: "PHONE_NUMBER"}

func listSharedCredentials(v *View, in *sharedRequest) ([]byte, error) {
	after, err := hex.DecodeString(in.Cursor)
	if err != nil || !org.ValidSharedCursor(after) {
		return nil, fault.Field("cursor", "must be what the last answer had as cursor")
	}
	found, next, err := v.FindShared(after, sharedPage)
	if err != nil {
		return nil, err
	}
	dst := []byte(`{"shared":[`)
	for i, s := range found {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, `{"kind":"`...), sharedNames[s.Kind]...), `","holders":[`...)
		for j, h := range s.Holders {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = h.Organization.Append(append(dst, `{"organizationId":"`...))
			dst = append(h.User.Append(append(dst, `","userId":"`...)), `"}`...)
		}
		dst = append(dst, `]}`...)
	}
	dst = append(dst, ']')
	if len(next) > 0 {
		dst = hex.AppendEncode(append(dst, `,"cursor":"`...), next)
		dst = append(dst, '"')
	}
	return append(dst, '}'), nil
}
