package user

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/org"
)

// explainHolder shows who gets ways to log in, and warns: the more if he is of the root quorum.
func explainHolder(tx *org.Tx, o *show.Object, userID string) (*show.List, error) {
	_, root, err := activity.ExplainUser(tx, o, "user", userID)
	if root {
		o.Warn(show.RootCredentialAdded)
	} else {
		o.Warn(show.CredentialAdded)
	}
	return o.List("credentials"), err
}

func explainKeys(list *show.List, keys []APIKeyParams) {
	for i := range keys {
		k, o := &keys[i], list.Object()
		o.Plain("type", "API_KEY")
		activity.ExplainWord(o, "name", k.APIKeyName)
		o.Text("publicKey", k.PublicKey)
		o.Text("curve", string(k.CurveType))
		if seconds := activity.TextOf(k.ExpirationSeconds); seconds != "" {
			o.Text("expiresAfterSeconds", seconds)
		} else {
			o.Plain("expires", "never")
		}
	}
}

func explainAuthenticators(list *show.List, passkeys []AuthenticatorParams) {
	for i := range passkeys {
		p, o := &passkeys[i], list.Object()
		o.Plain("type", "PASSKEY")
		activity.ExplainWord(o, "name", p.AuthenticatorName)
		o.Text("credentialId", p.Attestation.CredentialID)
		o.Plain("expires", "never")
	}
}

func explainProviders(list *show.List, providers []OauthProviderParams) {
	for i := range providers {
		p, o := &providers[i], list.Object()
		o.Plain("type", "IDENTITY")
		activity.ExplainWord(o, "name", p.ProviderName)
		if c := p.OidcClaims; c != nil {
			o.Text("issuer", c.Iss)
			o.Text("subject", c.Sub)
			o.Text("audience", c.Aud)
		}
		o.Plain("expires", "never")
	}
}

func (in *CreateAPIKeys) explain(tx *org.Tx, o *show.Object) error {
	list, err := explainHolder(tx, o, in.UserID)
	explainKeys(list, in.APIKeys)
	return err
}

func (in *CreateAuthenticators) explain(tx *org.Tx, o *show.Object) error {
	list, err := explainHolder(tx, o, in.UserID)
	explainAuthenticators(list, in.Authenticators)
	return err
}

func (in *CreateOauthProviders) explain(tx *org.Tx, o *show.Object) error {
	list, err := explainHolder(tx, o, in.UserID)
	explainProviders(list, in.OauthProviders)
	return err
}

// explainUsers shows users who would be made, each with the ways in which he could log in.
func explainUsers(in *CreateUsers, o *show.Object) {
	o.Warn(show.CredentialAdded)
	list := o.List("users")
	for i := range in.Users {
		u, entry := &in.Users[i], list.Object()
		activity.ExplainWord(entry, "name", u.UserName)
		activity.ExplainWord(entry, "email", activity.TextOf(u.UserEmail))
		activity.ExplainWord(entry, "phone", activity.TextOf(u.UserPhoneNumber))
		credentials := entry.List("credentials")
		explainKeys(credentials, u.APIKeys)
		explainAuthenticators(credentials, u.Authenticators)
		explainProviders(credentials, u.OauthProviders)
	}
}

// explainDeleted shows who would be deleted.
func explainDeleted(tx *org.Tx, in *UserIDs, o *show.Object) error {
	list := o.List("users")
	for _, id := range in.UserIDs {
		if _, _, err := activity.ExplainUser(tx, list.Object(), "user", id); err != nil {
			return err
		}
	}
	return nil
}
