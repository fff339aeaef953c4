package activity

import (
	"slices"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
)

// Providers is what an activity can learn from identity providers while it runs. Nothing
// of it waits: what is not known yet is an error that is no *fault.Error and must
// be handed up; the activity is then dropped, what it lacks is fetched outside of
// any turn, and it runs again.
type Providers interface {
	// Keys returns the key set of an issuer, as new as has asks for: that it has a
	// token's key. A *fault.Error about field says why there is none.
	Keys(field, issuer string, has func(*login.KeySet) bool) (*login.KeySet, error)
	// Exchange turns a code into an identity. It happens once for one activity,
	// however often that runs: a code is good for one exchange.
	Exchange(*Exchange) (*Exchanged, error)
}

// An Exchange is a code that somebody has brought from an OAuth 2.0 provider, and
// with what it is exchanged. Who makes the exchange wipes the secret.
type Exchange struct {
	Provider login.OAuth2Provider
	Code     login.Code
	ClientID string
	Secret   secret.Secret // the client's
	// BearerTo is the key to which the provider's access token is encrypted, in hex;
	// empty if nobody wants it.
	BearerTo string
}

// Exchanged is whom a provider says that a code is of.
type Exchanged struct {
	Subject string
	Bearer  string // the access token, encrypted; empty if nobody wants it
}

// Roles are keys of the enclave that few activities use.
type Roles struct {
	ClientSecrets secret.Secret // opens the client secrets of OAuth 2.0
	OnRamp        secret.Secret // opens the secrets of on-ramp providers
	// Identities signs the identity tokens that the enclave issues under the URL
	// Issuer, which is empty where it issues none.
	Identities *login.Signer
	Issuer     string
}

// verifyToken verifies an identity token. Whose it is, for whom and for which key,
// is for the caller to ask.
func verifyToken(tx *Tx, field, text string) (*login.Identity, error) {
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

// checkIdentityToken refuses what is no identity token by its form.
func checkIdentityToken(field, text string) error {
	_, err := login.ParseIdentityToken(field, text)
	return err
}

// HasIdentity is the identity of u that issuer, subject and one of the audiences
// name, or nil.
func HasIdentity(u *org.User, issuer, subject string, audiences []string) *org.OauthProvider {
	for i := range u.OauthProviders {
		if p := &u.OauthProviders[i]; p.Issuer == issuer && p.Subject == subject && slices.Contains(audiences, p.Audience) {
			return p
		}
	}
	return nil
}

// UserByIdentity finds the one user of an organization who has an identity, and the
// record of it. Several audiences of a token may lead to several users: then there
// is none.
func UserByIdentity(tx *org.Tx, issuer, subject string, audiences []string) (user *org.User, identity *org.OauthProvider, err error) {
	several := false
	err = tx.EachUser(func(u *org.User) bool {
		if p := HasIdentity(u, issuer, subject, audiences); p != nil {
			several = user != nil
			user, identity = u, p
		}
		return !several
	})
	if err != nil || several {
		return nil, nil, err
	}
	return user, identity, nil
}

// IdentityCredential is an identity as policies and votes see it: who stamps by it
// has shown a token of its issuer.
func IdentityCredential(p *org.OauthProvider) org.VoteCredential {
	return org.VoteCredential{ID: p.ID, Type: typeIdentity}
}

// whose finds the user whom a verified token is about, by the identity or, where
// accounts are linked, by the address that it stands for.
func whose(tx *Tx, i *login.Identity) (*org.User, error) {
	u, _, err := UserByIdentity(tx.Tx, i.Issuer, i.Subject, i.Audiences)
	if err == nil && u == nil {
		u, err = linked(tx, i)
	}
	if err == nil && u == nil {
		err = fault.New(fault.NotFound, "no user of the organization has the identity of the OIDC token")
	}
	return u, err
}
