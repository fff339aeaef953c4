package authproxy

import (
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// contactOf is the contact that a look-up is by.
func (a *Account) contactOf() (login.ContactType, bool) {
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
func (a *Account) Admit(c *Config, keys login.TokenKeys, nowMs uint64) error {
	t, contact := a.contactOf()
	if !contact || !c.TokenForPII {
		return nil
	}
	const field = "verificationToken"
	if given(a.VerificationToken) == "" {
		if given(a.OidcToken) != "" {
			return fault.New(fault.Unimplemented, "UNIMPLEMENTED: account with oidcToken")
		}
		return fault.Field(field, "a verification token for the contact is needed to look for it")
	}
	v, err := login.VerifyVerificationToken(field, *a.VerificationToken, keys, nowMs)
	if err != nil {
		return err
	}
	if v.OrganizationID != c.Organization.String() || v.Type != t || login.ContactKey(t, v.Contact) != login.ContactKey(t, a.FilterValue) {
		return login.InvalidVerificationToken(field)
	}
	return nil
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
func (a *Account) Query(c *Config) (op string, body []byte) {
	op = "list_suborgs"
	if _, contact := a.contactOf(); contact {
		op = "list_verified_suborgs"
	}
	q := &query{OrganizationID: c.Organization.String(), FilterType: a.FilterType, FilterValue: a.FilterValue}
	q.PaginationOptions.Limit = "1" // they come in the order of their making
	return op, strictjson.Append(nil, q)
}

// Cut makes the endpoint's answer of the query's: the first organization, or {}.
func (a *Account) Cut(reply []byte) ([]byte, error) {
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

// Holder is by what the sub-organization is found in which a verification token
// logs somebody in.
func Holder(t *login.VerificationToken) (what byte, value string) {
	if t.Type == login.SMS {
		return org.ChildVerifiedPhone, login.ContactKey(t.Type, t.Contact)
	}
	return org.ChildVerifiedEmail, login.ContactKey(t.Type, t.Contact)
}
