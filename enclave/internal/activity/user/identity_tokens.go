package user

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// VerifyIdentityToken verifies an identity token. The caller checks its subject, audience and bound key.
func VerifyIdentityToken(tx *activity.Tx, field, text string) (*login.Identity, error) {
	u, err := login.ParseIdentityToken(field, text)
	if err != nil {
		return nil, err
	}
	if tx.Providers == nil {
		return nil, login.IssuerAway("the enclave has no way out")
	}
	set, err := tx.Providers.Keys(field, u.Issuer(), u.KnownTo)
	if err != nil {
		return nil, err
	}
	return u.Verify(set, tx.NowMs)
}

// CheckIdentityToken refuses a text that does not have the form of an identity token.
func CheckIdentityToken(field, text string) error {
	_, err := login.ParseIdentityToken(field, text)
	return err
}

// hasIdentity returns the identity of u with issuer, subject and one of the audiences that a log-in attempt may use, or
// nil: see org.Tx.ChildrenByIdentity.
func hasIdentity(u *org.User, issuer, subject string, audiences []string, attempt org.Hash) *org.OauthProvider {
	for i := range u.OauthProviders {
		if p := &u.OauthProviders[i]; p.Issuer == issuer && p.Subject == subject && slices.Contains(audiences, p.Audience) && (p.LinkedBy == nil || *p.LinkedBy != attempt) {
			return p
		}
	}
	return nil
}

// UserByIdentity finds the one user of an organization with an identity that a log-in attempt's token may use, and the
// identity's record. If several audiences of a token match several users, it finds none.
func UserByIdentity(tx *org.Tx, issuer, subject string, audiences []string, attempt org.Hash) (user *org.User, identity *org.OauthProvider, err error) {
	user, _, err = onlyUser(tx, func(u *org.User) bool { return hasIdentity(u, issuer, subject, audiences, attempt) != nil })
	if user != nil {
		identity = hasIdentity(user, issuer, subject, audiences, attempt)
	}
	return user, identity, err
}

// onlyUser returns the one user for whom is holds, or nil if there is none or several.
func onlyUser(tx *org.Tx, is func(*org.User) bool) (one *org.User, several bool, err error) {
	err = tx.EachUser(func(u *org.User) bool {
		if is(u) {
			several = one != nil
			one = u
		}
		return !several
	})
	if several || err != nil {
		one = nil
	}
	return one, several, err
}

// CheckIssued refuses a token that was issued before sessions or an identity of its user were ended. Tokens have whole
// seconds: one of the same second is accepted.
func CheckIssued(field string, u *org.User, i *login.Identity) error {
	if i.IssuedMs/1000 >= u.NotBeforeMs/1000 {
		return nil
	}
	return fault.Field(field, "invalid OIDC token: it was issued before sessions or an identity of the user were ended: get a new one").WithName("INVALID_OIDC_TOKEN")
}

// FindByIdentity finds the user of a verified token, by the identity or, where accounts are linked, by its email address.
func FindByIdentity(tx *activity.Tx, i *login.Identity) (*org.User, error) {
	u, p, err := UserByIdentity(tx.Tx, i.Issuer, i.Subject, i.Audiences, i.Attempt())
	switch {
	case err == nil && u == nil:
		u, err = linkIdentity(tx, i)
	case err == nil && p.LinkedBy != nil:
		u, err = shownAddress(tx, u, i)
	}
	switch {
	case err == nil && u == nil:
		err = fault.New(fault.NotFound, "no user of the organization has the identity of the OIDC token")
	case err == nil:
		err = CheckIssued("oidcToken", u, i)
	}
	return u, err
}
