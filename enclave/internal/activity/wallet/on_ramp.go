package wallet

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// OnRamps are the kinds about credentials at on-ramp providers.
var OnRamps = activity.Family{
	activity.Kind[CreateOnRampCredential, OnRampCredentialID]{Name: "CREATE_FIAT_ON_RAMP_CREDENTIAL", Resource: "ON_RAMP_CREDENTIALS", Action: "CREATE", Run: createOnRampCredential},
	activity.Kind[UpdateOnRampCredential, OnRampCredentialID]{Name: "UPDATE_FIAT_ON_RAMP_CREDENTIAL", Resource: "ON_RAMP_CREDENTIALS", Action: "UPDATE", Run: updateOnRampCredential},
	activity.Kind[DeleteOnRampCredential, OnRampCredentialID]{Name: "DELETE_FIAT_ON_RAMP_CREDENTIAL", Resource: "ON_RAMP_CREDENTIALS", Action: "DELETE", Run: deleteOnRampCredential},
}

// Bounds of the credentials at on-ramp providers. They are always in memory.
const (
	maxOnRampCredentials = 20 // of one organization
	maxOnRampText        = 1024
	maxOnRampSecret      = 4 << 10 // characters of an encrypted secret
)

// OnRampProvider is the interface's name of a provider.
type OnRampProvider string

// Valid tells whether p is one of the interface's.
func (p OnRampProvider) Valid() bool {
	return p == "FIAT_ON_RAMP_PROVIDER_COINBASE" || p == "FIAT_ON_RAMP_PROVIDER_MOONPAY"
}

// OnRampParams are the terms on which an on-ramp provider knows the organization.
type OnRampParams struct {
	OnrampProvider         OnRampProvider `json:"onrampProvider" rule:"required"`
	ProjectID              *string        `json:"projectId" rule:"omitempty"`
	PublishableAPIKey      string         `json:"publishableApiKey" rule:"required"`
	EncryptedSecretAPIKey  string         `json:"encryptedSecretApiKey" rule:"required"`
	EncryptedPrivateAPIKey *string        `json:"encryptedPrivateApiKey" rule:"omitempty"`
}

// CreateOnRampCredential stores what an on-ramp provider knows the organization by.
type CreateOnRampCredential struct {
	OnRampParams
	SandboxMode *bool `json:"sandboxMode" rule:"omitempty"`
}

func (in *OnRampParams) Check() error {
	for _, m := range []struct {
		field, value string
		most         int
	}{
		{"projectId", activity.TextOf(in.ProjectID), maxOnRampText}, {"publishableApiKey", in.PublishableAPIKey, maxOnRampText},
		{"encryptedSecretApiKey", in.EncryptedSecretAPIKey, maxOnRampSecret}, {"encryptedPrivateApiKey", activity.TextOf(in.EncryptedPrivateAPIKey), maxOnRampSecret},
	} {
		if m.value != "" && !activity.Visible(m.value) || len(m.value) > m.most {
			return fault.Field(m.field, "must be at most %d visible ASCII characters", m.most)
		}
	}
	return nil
}

// OnRampCredentialID is the result of making, changing and removing one.
type OnRampCredentialID struct {
	OnRampCredentialID string `json:"fiatOnRampCredentialId"`
}

func createOnRampCredential(tx *activity.Tx, in *CreateOnRampCredential) (*OnRampCredentialID, error) {
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return nil, err
	}
	n := 0
	if err := tx.EachOnRampCredential(func(*org.OnRampCredential) bool { n++; return true }); err != nil {
		return nil, err
	}
	if n >= maxOnRampCredentials {
		return nil, activity.OverQuota(maxOnRampCredentials, "on-ramp credentials")
	}
	return putOnRampCredential(tx, &in.OnRampParams, &org.OnRampCredential{ID: id, Sandbox: activity.IsOn(in.SandboxMode), CreatedMs: tx.NowMs})
}

// putOnRampCredential stores c, a copy or new, with what in says.
func putOnRampCredential(tx *activity.Tx, in *OnRampParams, c *org.OnRampCredential) (*OnRampCredentialID, error) {
	c.Provider, c.ProjectID, c.PublishableKey = string(in.OnrampProvider), activity.TextOf(in.ProjectID), in.PublishableAPIKey
	c.EncryptedSecret, c.EncryptedPrivate, c.Private, c.UpdatedMs = in.EncryptedSecretAPIKey, activity.TextOf(in.EncryptedPrivateAPIKey), nil, tx.NowMs
	var err error
	if c.Secret, err = onRampSecret(tx, c.ID, "encryptedSecretApiKey", c.EncryptedSecret); err != nil {
		return nil, err
	}
	if c.EncryptedPrivate != "" {
		if c.Private, err = onRampSecret(tx, c.ID, "encryptedPrivateApiKey", c.EncryptedPrivate); err != nil {
			return nil, err
		}
	}
	return &OnRampCredentialID{c.ID.String()}, tx.PutOnRampCredential(c)
}

// onRampSecret opens an encrypted secret and seals it for the record.
func onRampSecret(tx *activity.Tx, owner org.ID, field, text string) ([]byte, error) {
	secret, err := login.OpenOnRampSecret(field, text, tx.Roles.OnRamp)
	if err != nil {
		return nil, err
	}
	defer secret.Wipe()
	return tx.Vault.Seal(owner, secret)
}

// UpdateOnRampCredential replaces one. Whether it is of a sandbox stays.
type UpdateOnRampCredential struct {
	OnRampCredentialID string `json:"fiatOnrampCredentialId" rule:"required"`
	OnRampParams
}

func updateOnRampCredential(tx *activity.Tx, in *UpdateOnRampCredential) (*OnRampCredentialID, error) {
	old, err := findOnRampCredential(tx, in.OnRampCredentialID)
	if err != nil {
		return nil, err
	}
	c := *old
	return putOnRampCredential(tx, &in.OnRampParams, &c)
}

func findOnRampCredential(tx *activity.Tx, text string) (*org.OnRampCredential, error) {
	return activity.FindField(tx.OnRampCredential, "on-ramp credential", "fiatOnrampCredentialId", text)
}

// DeleteOnRampCredential removes one.
type DeleteOnRampCredential struct {
	OnRampCredentialID string `json:"fiatOnrampCredentialId" rule:"required"`
}

func deleteOnRampCredential(tx *activity.Tx, in *DeleteOnRampCredential) (*OnRampCredentialID, error) {
	c, err := findOnRampCredential(tx, in.OnRampCredentialID)
	if err != nil {
		return nil, err
	}
	tx.DeleteOnRampCredential(c.ID)
	return &OnRampCredentialID{c.ID.String()}, nil
}
