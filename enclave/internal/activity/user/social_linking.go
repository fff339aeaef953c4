package user

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// Social linking: for the clients in socialLinkingClientIds of the parent's auth proxy, a Google identity proves
// the email address that Google has verified. A user who gets such an identity has the address verified.
// A log-in by such an identity that no user has logs in the user with that verified address, who gets the identity.
// Only Google is trusted with this: it owns the addresses that it calls verified, or has sent a mail to them.

// linkingIssuer is the only issuer that is trusted about addresses.
const linkingIssuer = "https://accounts.google.com"

// Links reports whether an identity proves its address, given the clients for which accounts are linked.
func Links(clients []string, i *login.Identity) bool {
	return i.Issuer == linkingIssuer && i.EmailVerified && slices.ContainsFunc(clients, i.For)
}

// links is Links for a sub-organization of top.
func links(top *org.Tx, i *login.Identity) (bool, error) {
	if i.Issuer != linkingIssuer || !i.EmailVerified {
		return false, nil
	}
	p, err := top.OnlyAuthProxy()
	return p != nil && Links(p.LinkingClients, i), err
}

// errLink is the error of a user of the parent who gives a user an identity that is not proven to be that user's.
var errLink = activity.WrongCaller("a user of the parent may link only an identity that stands for the user's verified address, of an issuer and client for which accounts are linked")

// mayLink refuses identities that a user of the parent gives to u, unless each proves the verified address of u:
// its owner could log in with it anyway.
func mayLink(top *org.Tx, u *org.User, ps []OauthProviderParams, proven []*login.Identity) error {
	if !u.EmailVerified || len(proven) != len(ps) {
		return errLink
	}
	for _, i := range proven {
		ok, err := links(top, i)
		if err != nil {
			return err
		}
		if !ok || login.ContactKey(login.Email, i.Email) != login.ContactKey(login.Email, u.Email) {
			return errLink
		}
	}
	return nil
}

// verifyAddress marks the address of u, which the caller stores, as verified if the identity proves it. An
// address that is verified in another sub-organization stays unverified.
func verifyAddress(tx *activity.Tx, u *org.User, i *login.Identity) error {
	if u.Email == "" || u.EmailVerified || login.ContactKey(login.Email, u.Email) != login.ContactKey(login.Email, i.Email) {
		return nil
	}
	top, err := tx.ParentUsers()
	if err != nil || top == nil {
		return err
	}
	if ok, err := links(top, i); err != nil || !ok {
		return err
	}
	claimed, err := isClaimedElsewhere(tx, login.Email, u.Email)
	if err == nil && !claimed {
		u.EmailVerified = true
	}
	return err
}

// shownAddress returns u, who logs in by an identity with LinkedBy, with the address verified that the identity proves. Linking
// it did not verify the address, as the token may have been stolen.
func shownAddress(tx *activity.Tx, u *org.User, i *login.Identity) (*org.User, error) {
	v := *u
	if err := verifyAddress(tx, &v, i); err != nil || v.EmailVerified == u.EmailVerified {
		return u, err
	}
	return &v, tx.PutUser(&v)
}

// linkIdentity finds the user with the verified address that a new identity proves, and adds the identity; nil if
// there is none.
func linkIdentity(tx *activity.Tx, i *login.Identity) (*org.User, error) {
	top, err := tx.ParentRecords()
	if err != nil || top == nil || len(i.Audiences) != 1 {
		return nil, err
	}
	if ok, err := links(top, i); err != nil || !ok {
		return nil, err
	}
	old, _, err := ContactHolder(tx.Tx, login.Email, i.Email)
	if err != nil || old == nil || !old.EmailVerified || len(old.OauthProviders) >= tx.Limits.OauthProviders {
		return nil, err
	}
	c := &OidcClaims{Iss: i.Issuer, Sub: i.Subject, Aud: i.Audiences[0]}
	held, err := isIdentityHeld(tx, old, c, nil)
	if err != nil || held {
		return nil, err
	}
	p, err := newIdentity(tx, "Google", c)
	if err != nil {
		return nil, err
	}
	u := *old
	u.OauthProviders, u.UpdatedMs = append(slices.Clone(old.OauthProviders), p), tx.NowMs
	return &u, tx.PutUser(&u)
}
