package authproxy

import (
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// contactOf is the contact that a look-up is by.
func (a *AccountLookup) contactOf() (login.ContactType, bool) {
	switch a.FilterType {
	case "EMAIL":
		return login.Email, true
	case "PHONE_NUMBER":
		return login.SMS, true
	}
	return "", false
}

// Admit tells whether the caller may look for what it looks for. Where the
// configuration demands a token for contacts, it is looked at before anything is
// looked up, so that the refusal says nothing of accounts.
//
// With linked an identity token shall stand in for the other: once it is verified,
// AdmitLinked tells.
func (a *AccountLookup) Admit(c *Config, keys login.TokenKeys, nowMs uint64) (linked bool, err error) {
	t, contact := a.contactOf()
	if !contact || !c.TokenForPII {
		return false, nil
	}
	const field = "verificationToken"
	switch {
	case textOf(a.VerificationToken) != "":
	case textOf(a.OidcToken) != "":
		return true, nil
	default:
		return false, fault.Field(field, "a verification token for the contact is needed to look for it")
	}
	v, err := login.ReadVerificationToken(field, *a.VerificationToken, keys, nowMs)
	if err != nil {
		return false, err
	}
	if !v.IssuedBy(c.Organization.String()) || !v.About(t, a.FilterValue) {
		return false, login.InvalidVerificationToken(field)
	}
	return false, nil
}

// AdmitLinked tells whether an identity stands in for a verification token: it stands
// for its address, as activity.Links tells, and that is the one looked for.
func (a *AccountLookup) AdmitLinked(c *Config, i *login.Identity) error {
	t, _ := a.contactOf()
	if t == login.Email && user.Links(c.LinkingClients, i) &&
		login.ContactKey(t, i.Email) == login.ContactKey(t, a.FilterValue) {
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

// Query is the body of the query that answers the look-up, with its operation, to
// be stamped with the proxy's key. Contacts count only where they are verified:
// whoever signs up with another's address must not be found by it.
func (a *AccountLookup) Query(c *Config) (op string, body []byte) {
	op = "list_suborgs"
	if _, contact := a.contactOf(); contact {
		op = "list_verified_suborgs"
	}
	q := &query{OrganizationID: c.Organization.String(), FilterType: a.FilterType, FilterValue: a.FilterValue}
	q.PaginationOptions.Limit = "1" // they come in the order of their making
	return op, strictjson.Append(nil, q)
}

// Cut makes the endpoint's answer of the query's: the first organization, or {}.
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

// A Holder is by what a sub-organization is found in its parent's records; see
// org.Tx.ChildrenBy.
type Holder struct {
	What  byte
	Value string
}

// HolderOf is by what the sub-organization is found in which a verification token
// logs somebody in: its contact, where that is verified.
func HolderOf(t *login.VerificationToken) Holder {
	if t.Type == login.SMS {
		return Holder{org.ChildVerifiedPhone, login.ContactKey(t.Type, t.Contact)}
	}
	return Holder{org.ChildVerifiedEmail, login.ContactKey(t.Type, t.Contact)}
}

// HoldersOf is the same for an identity: one for each of its audiences.
func HoldersOf(i *login.Identity) []Holder {
	hs := make([]Holder, len(i.Audiences))
	for n, audience := range i.Audiences {
		hs[n] = Holder{org.ChildIdentity, org.IdentityText(i.Issuer, i.Subject, audience)}
	}
	return hs
}

// LinkedHolder is by what it is found where nobody has the identity yet: the address
// that it stands for. ok is false if it stands for none.
func LinkedHolder(c *Config, i *login.Identity) (h Holder, ok bool) {
	if !user.Links(c.LinkingClients, i) {
		return h, false
	}
	return Holder{org.ChildVerifiedEmail, login.ContactKey(login.Email, i.Email)}, true
}
