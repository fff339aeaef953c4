package authproxy

import (
	"slices"
	"strings"

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

// A contact is what a look-up tells of whether somebody has an account.
type contact struct {
	kind  login.ContactType
	value string
}

// contacts are those that the look-up would tell of. Users and organizations can be named by a contact: of an organization it may be
// a word of the name. ok is false for a user's name that is none.
func (a *AccountLookup) contacts() (all []contact, ok bool) {
	if t := contactTypes[a.FilterType]; t != "" {
		return []contact{{t, a.FilterValue}}, true
	}
	if a.FilterType != "USERNAME" && a.FilterType != "NAME" {
		return nil, true
	}
	if all = contactsAmong(a.FilterValue); len(all) > 0 || a.FilterType == "USERNAME" {
		return all, len(all) > 0
	}
	return contactsAmong(strings.FieldsFunc(a.FilterValue, func(c rune) bool {
		return (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("@._%+-", c)
	})...), true
}

func contactsAmong(words ...string) (all []contact) {
	for _, word := range words {
		for _, t := range contactTypes {
			if word := strings.Trim(word, ".-"); login.CheckContact("", t, word) == nil {
				all = append(all, contact{t, word})
			}
		}
	}
	return all
}

// Admit tells whether the caller may look for an account. A configuration can demand a
// verification token for contacts. Admit reads the token before any account is looked up,
// so the refusal says nothing of accounts.
//
// linked means that the caller gave an identity token instead: verify it, then call
// AdmitLinked.
func (a *AccountLookup) Admit(c *Config, keys login.TokenKeys, nowMs uint64) (linked bool, err error) {
	if !c.TokenForPII {
		return false, nil
	}
	contacts, ok := a.contacts()
	const field = "verificationToken"
	switch {
	case !ok:
		return false, fault.Field("filterType", "users are not looked for by other names than contacts while the auth proxy demands verification tokens: look for EMAIL or PHONE_NUMBER, with the token for it")
	case len(contacts) == 0:
		return false, nil
	case activity.TextOf(a.VerificationToken) != "":
	case activity.TextOf(a.OidcToken) != "":
		return true, nil
	default:
		return false, fault.Field(field, "a verification token for the contact is needed to look for it")
	}
	v, err := login.ReadVerificationToken(field, *a.VerificationToken, keys, nowMs)
	if err == nil && (!v.IssuedBy(c.Organization.String()) || slices.ContainsFunc(contacts, func(x contact) bool { return !v.About(x.kind, x.value) })) {
		err = login.InvalidVerificationToken(field)
	}
	return false, err
}

// AdmitLinked tells whether an identity stands in for a verification token: user.Links must
// trust its address, and the caller must look for that address.
func (a *AccountLookup) AdmitLinked(c *Config, i *login.Identity) error {
	contacts, _ := a.contacts()
	other := func(x contact) bool {
		return x.kind != login.Email || login.ContactKey(x.kind, i.Email) != login.ContactKey(x.kind, x.value)
	}
	if len(contacts) > 0 && user.Links(c.LinkingClients, i) && !slices.ContainsFunc(contacts, other) {
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
	if t.Type.IsPhone() {
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
