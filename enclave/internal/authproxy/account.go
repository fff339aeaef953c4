package authproxy

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// oidcClaims is the filter that list_suborgs calls OAUTH_CLAIM.
const oidcClaims = "OIDC_CLAIMS"

// contactTypes are the filters that look for a contact.
var contactTypes = map[string]login.ContactType{"EMAIL": login.Email, "PHONE_NUMBER": login.SMS}

// Admit tells whether the caller may look for an account. A configuration can demand a
// verification token for contacts. Admit reads the token before any account is looked up,
// so the refusal says nothing of accounts.
//
// linked means that the caller gave an identity token instead: verify it, then call
// AdmitLinked.
func (a *AccountLookup) Admit(c *Config, keys login.TokenKeys, nowMs uint64) (linked bool, err error) {
	t, contact := contactTypes[a.FilterType]
	if !contact || !c.TokenForPII {
		return false, nil
	}
	const field = "verificationToken"
	switch {
	case activity.TextOf(a.VerificationToken) != "":
	case activity.TextOf(a.OidcToken) != "":
		return true, nil
	default:
		return false, fault.Field(field, "a verification token for the contact is needed to look for it")
	}
	v, err := login.ReadVerificationToken(field, *a.VerificationToken, keys, nowMs)
	if err == nil && (!v.IssuedBy(c.Organization.String()) || !v.About(t, a.FilterValue)) {
		err = login.InvalidVerificationToken(field)
	}
	return false, err
}

// AdmitLinked tells whether an identity stands in for a verification token: user.Links must
// trust its address, and the caller must look for that address.
func (a *AccountLookup) AdmitLinked(c *Config, i *login.Identity) error {
	const t = login.Email
	if contactTypes[a.FilterType] == t && user.Links(c.LinkingClients, i) && login.ContactKey(t, i.Email) == login.ContactKey(t, a.FilterValue) {
		return nil
	}
	return fault.Field("oidcToken", "the token vouches for no such contact: it must be of an issuer and client for which accounts are linked, with the address verified")
}

// query are the parameters of both searches for sub-organizations.
type query struct {
	OrganizationID    string `json:"organizationId"`
	FilterType        string `json:"filterType"`
	FilterValue       string `json:"filterValue"`
	PaginationOptions struct {
		Limit string `json:"limit"`
	} `json:"paginationOptions"`
}

// Query is the query that answers the look-up: its operation, and its body, which the proxy's
// key stamps. It finds only verified contacts: somebody who signs up with another's address
// must not be found by it.
func (a *AccountLookup) Query(c *Config) (op string, body []byte) {
	op = "list_suborgs"
	if contactTypes[a.FilterType] != "" {
		op = "list_verified_suborgs"
	}
	q := &query{OrganizationID: c.Organization.String(), FilterType: a.FilterType, FilterValue: a.FilterValue}
	if a.FilterType == oidcClaims {
		q.FilterType = "OAUTH_CLAIM"
	}
	q.PaginationOptions.Limit = "1" // they come in the order of their making
	return op, strictjson.Append(nil, q)
}

// Cut makes the endpoint's answer of the query's answer: the first organization, or {}.
func (a *AccountLookup) Cut(reply []byte) ([]byte, error) {
	var found struct {
		OrganizationIDs []string `json:"organizationIds"`
	}
	if err := strictjson.Decode(reply, &found); err != nil || len(found.OrganizationIDs) > 1 {
		return nil, errAnswer
	}
	if len(found.OrganizationIDs) == 0 {
		return []byte("{}"), nil
	}
	return append(strictjson.AppendString([]byte(`{"organizationId":`), found.OrganizationIDs[0]), '}'), nil
}

// A Holder is a key under which a parent's records list a sub-organization; see
// org.Tx.ChildrenBy, and for org.ChildIdentity Tx.ChildrenByIdentity.
type Holder struct {
	What    byte
	Value   string
	Attempt org.Hash // of the token, for org.ChildIdentity
}

// Children are the sub-organizations of tx's organization that are listed under the key: the first, or for an identity up
// to two.
func (h Holder) Children(tx *org.Tx) ([]org.ID, error) {
	if h.What == org.ChildIdentity {
		return tx.ChildrenByIdentity(h.Value, h.Attempt)
	}
	return tx.ChildrenBy(h.What, h.Value, nil, 1)
}

// HolderOf finds the sub-organization to which a verification token logs in: by the verified
// contact.
func HolderOf(t *login.VerificationToken) Holder {
	if t.Type == login.SMS {
		return Holder{What: org.ChildVerifiedPhone, Value: login.ContactKey(t.Type, t.Contact)}
	}
	return Holder{What: org.ChildVerifiedEmail, Value: login.ContactKey(t.Type, t.Contact)}
}

// HoldersOf finds it for an identity, with one Holder for each of its audiences.
func HoldersOf(i *login.Identity) []Holder {
	hs := make([]Holder, len(i.Audiences))
	for n, audience := range i.Audiences {
		hs[n] = Holder{org.ChildIdentity, org.IdentityText(i.Issuer, i.Subject, audience), i.Attempt()}
	}
	return hs
}

// LinkedHolder finds it where nobody has the identity yet: by the identity's address. ok is
// false if user.Links does not trust the address.
func LinkedHolder(c *Config, i *login.Identity) (h Holder, ok bool) {
	if !user.Links(c.LinkingClients, i) {
		return h, false
	}
	return Holder{What: org.ChildVerifiedEmail, Value: login.ContactKey(login.Email, i.Email)}, true
}
