package auth

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// OAuth2 are the kinds about OAuth 2.0 providers, whose codes the enclave exchanges for identity tokens of its own.
var OAuth2 = activity.Family{
	activity.Kind[CreateOAuth2Credential, OAuth2CredentialID]{Name: "CREATE_OAUTH2_CREDENTIAL", Resource: "AUTH", Action: "CREATE", Run: createOAuth2Credential,
		Explain: func(_ *org.Tx, in *CreateOAuth2Credential, o *show.Object) error {
			in.explain(o)
			return nil
		}},
	activity.Kind[UpdateOAuth2Credential, OAuth2CredentialID]{Name: "UPDATE_OAUTH2_CREDENTIAL", Resource: "AUTH", Action: "UPDATE", Run: updateOAuth2Credential,
		Explain: func(tx *org.Tx, in *UpdateOAuth2Credential, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[OAuth2CredentialID, OAuth2CredentialID]{Name: "DELETE_OAUTH2_CREDENTIAL", Resource: "AUTH", Action: "DELETE", Run: deleteOAuth2Credential,
		Explain: func(tx *org.Tx, in *OAuth2CredentialID, o *show.Object) error {
			return explainOAuth2Record(tx, o, in.OAuth2CredentialID)
		}},
	activity.Kind[OAuth2Authenticate, OAuth2Identity]{Name: "OAUTH2_AUTHENTICATE", Resource: "AUTH", Action: "CREATE", ByProxy: true, Run: oauth2Authenticate,
		Explain: func(tx *org.Tx, in *OAuth2Authenticate, o *show.Object) error {
			return explainOAuth2Record(tx, o, in.OAuth2CredentialID)
		}},
}

// Limits of the credentials at providers, which are always in memory.
const (
	maxOAuth2Credentials = 20 // of one organization
	maxClientID          = 255
)

// identityTokenMs is the life of the identity tokens that the enclave issues. Each is for one log-in or sign-up.
const identityTokenMs = 5 * 60 * 1000

// OAuth2ProviderName is the interface's name of a provider.
type OAuth2ProviderName string

// Valid reports whether n is a provider of the interface.
func (n OAuth2ProviderName) Valid() bool {
	_, ok := login.OAuth2ProviderOf(string(n))
	return ok
}

// CreateOAuth2Credential stores an organization's client id and secret at an OAuth 2.0 provider.
type CreateOAuth2Credential struct {
	Provider              OAuth2ProviderName `json:"provider" rule:"required"`
	ClientID              string             `json:"clientId" rule:"required"`
	EncryptedClientSecret string             `json:"encryptedClientSecret" rule:"required"`
}

func (in *CreateOAuth2Credential) Check() error {
	if !clientID(in.ClientID) {
		return fault.Field("clientId", "must be 1 to %d visible ASCII characters", maxClientID)
	}
	return nil
}

// OAuth2CredentialID names the credential to be removed, and is the result of creating, changing and removing one.
type OAuth2CredentialID struct {
	OAuth2CredentialID string `json:"oauth2CredentialId" rule:"required"`
}

func createOAuth2Credential(tx *activity.Tx, in *CreateOAuth2Credential) (*OAuth2CredentialID, error) {
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, err
	}
	n := 0
	if err := tx.EachOAuth2Credential(func(*org.OAuth2Credential) bool { n++; return true }); err != nil {
		return nil, err
	}
	if n >= maxOAuth2Credentials {
		return nil, activity.OverQuota(maxOAuth2Credentials, "OAuth 2.0 credentials")
	}
	return putOAuth2Credential(tx, in, &org.OAuth2Credential{ID: id, CreatedMs: tx.NowMs})
}

// putOAuth2Credential stores c, a copy or new, with the values of in.
func putOAuth2Credential(tx *activity.Tx, in *CreateOAuth2Credential, c *org.OAuth2Credential) (*OAuth2CredentialID, error) {
	if err := activity.CheckTopLevel(tx, "OAuth 2.0 credentials"); err != nil {
		return nil, err
	}
	held := false
	err := tx.EachOAuth2Credential(func(o *org.OAuth2Credential) bool {
		held = held || o.ID != c.ID && o.Provider == string(in.Provider) && o.ClientID == in.ClientID
		return !held
	})
	if err != nil {
		return nil, err
	}
	if held {
		return nil, fault.Field("clientId", "the organization has an OAuth 2.0 credential of this provider and client id: update it")
	}
	secret, err := login.OpenClientSecret("encryptedClientSecret", in.EncryptedClientSecret, tx.ServiceKeys.ClientSecrets)
	if err != nil {
		return nil, err
	}
	defer secret.Wipe()
	if c.Secret, err = tx.Vault.Seal(c.ID, secret); err != nil {
		return nil, err
	}
	c.Provider, c.ClientID, c.Encrypted, c.UpdatedMs = string(in.Provider), in.ClientID, in.EncryptedClientSecret, tx.NowMs
	return &OAuth2CredentialID{c.ID.String()}, tx.PutOAuth2Credential(c)
}

// UpdateOAuth2Credential replaces a credential.
type UpdateOAuth2Credential struct {
	OAuth2CredentialID string `json:"oauth2CredentialId" rule:"required"`
	CreateOAuth2Credential
}

func updateOAuth2Credential(tx *activity.Tx, in *UpdateOAuth2Credential) (*OAuth2CredentialID, error) {
	old, err := findOAuth2Credential(tx, in.OAuth2CredentialID)
	if err != nil {
		return nil, err
	}
	c := *old
	return putOAuth2Credential(tx, &in.CreateOAuth2Credential, &c)
}

// findOAuth2Credential finds the credential that an intent names. A sub-organization has none.
func findOAuth2Credential(tx *activity.Tx, text string) (*org.OAuth2Credential, error) {
	if err := activity.CheckTopLevel(tx, "OAuth 2.0 credentials"); err != nil {
		return nil, err
	}
	c, err := activity.FindField(tx.OAuth2Credential, "OAuth 2.0 credential", "oauth2CredentialId", text)
	if e := fault.Of(err); e != nil && e.Code == fault.NotFound {
		err = e.WithName("OAUTH2_CREDENTIAL_NOT_FOUND")
	}
	return c, err
}

func deleteOAuth2Credential(tx *activity.Tx, in *OAuth2CredentialID) (*OAuth2CredentialID, error) {
	c, err := findOAuth2Credential(tx, in.OAuth2CredentialID)
	if err != nil {
		return nil, err
	}
	tx.DeleteOAuth2Credential(c.ID)
	return &OAuth2CredentialID{c.ID.String()}, nil
}

// OAuth2Authenticate exchanges a code of an OAuth 2.0 provider, which issues no identity tokens, for an identity token
// of the enclave.
type OAuth2Authenticate struct {
	OAuth2CredentialID         string  `json:"oauth2CredentialId" rule:"required"`
	AuthCode                   string  `json:"authCode" rule:"required" show:"masked"`
	RedirectURI                string  `json:"redirectUri" rule:"required"`
	CodeVerifier               string  `json:"codeVerifier" rule:"required" show:"masked"`
	Nonce                      string  `json:"nonce" rule:"required"`
	BearerTokenTargetPublicKey *string `json:"bearerTokenTargetPublicKey"`
}

func (in *OAuth2Authenticate) code() login.Code {
	return login.Code{AuthCode: in.AuthCode, RedirectURI: in.RedirectURI, CodeVerifier: in.CodeVerifier, Nonce: in.Nonce}
}

func (in *OAuth2Authenticate) Check() error {
	if to := activity.TextOf(in.BearerTokenTargetPublicKey); to != "" {
		if _, err := bundle.ParsePublicKey("bearerTokenTargetPublicKey", to); err != nil {
			return err
		}
	}
	code := in.code()
	return code.Check()
}

// OAuth2Identity is the result: an identity token of the enclave.
type OAuth2Identity struct {
	OidcToken string `json:"oidcToken" rule:"required"`
}

// oauth2Authenticate does all other checks before the exchange, as a code can be used once.
func oauth2Authenticate(tx *activity.Tx, in *OAuth2Authenticate) (*OAuth2Identity, error) {
	c, err := findOAuth2Credential(tx, in.OAuth2CredentialID)
	if err != nil {
		return nil, err
	}
	provider, ok := login.OAuth2ProviderOf(c.Provider)
	if !ok {
		return nil, fault.WithCode(fault.NotFound, "OAUTH2_PROVIDER_NOT_FOUND", "OAuth 2.0 provider not found: %s", c.Provider)
	}
	if tx.Providers == nil || tx.ServiceKeys.Issuer == "" {
		return nil, fault.WithCode(fault.Unavailable, "OAUTH2_PROVIDER_NOT_CONFIGURED", "the enclave has no URL under which it could issue identity tokens: its operator sets it")
	}
	secret, err := tx.Vault.OpenClientSecret(c)
	if err != nil {
		return nil, err
	}
	got, err := tx.Providers.Exchange(&activity.Exchange{Provider: provider, Code: in.code(), ClientID: c.ClientID, Secret: secret, BearerTo: activity.TextOf(in.BearerTokenTargetPublicKey)})
	if err != nil {
		return nil, err
	}
	text, err := login.IssueIdentityToken(tx.ServiceKeys.Identities, &login.IdentityToken{
		Issuer: tx.ServiceKeys.Issuer, Audience: c.ClientID, Subject: got.Subject, Nonce: in.Nonce, IssuedMs: tx.NowMs, ExpiresMs: tx.NowMs + identityTokenMs,
		EncryptedBearerToken: got.Bearer,
	})
	return &OAuth2Identity{text}, err
}
