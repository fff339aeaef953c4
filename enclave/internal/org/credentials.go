package org

import "cmp"

// OAuth2Credential is the client credential of an organization at an OAuth 2.0 provider.
type OAuth2Credential struct {
	ID       ID     `cbor:"1,keyasint"`
	Provider string `cbor:"2,keyasint"` // OAUTH2_PROVIDER_…
	ClientID string `cbor:"3,keyasint"`
	Secret   []byte `cbor:"4,keyasint"` // the client secret, sealed once more under the credential's id
	// Encrypted is the secret in the encrypted form that the client sent, for queries.
	Encrypted string `cbor:"5,keyasint"`
	CreatedMs uint64 `cbor:"6,keyasint"`
	UpdatedMs uint64 `cbor:"7,keyasint"`
}

// OAuth2Credential returns the OAuth 2.0 credential with this id, or nil.
func (t *Tx) OAuth2Credential(id ID) (*OAuth2Credential, error) {
	return find[OAuth2Credential](t, collectionOAuth2, id)
}

// PutOAuth2Credential stores c.
func (t *Tx) PutOAuth2Credential(c *OAuth2Credential) error {
	return put(t, key(collectionOAuth2, raw(c.ID)), c)
}

// DeleteOAuth2Credential removes an OAuth 2.0 credential with its secret.
func (t *Tx) DeleteOAuth2Credential(id ID) { t.del(key(collectionOAuth2, raw(id))) }

// EachOAuth2Credential visits the OAuth 2.0 credentials in the order of their ids.
func (t *Tx) EachOAuth2Credential(visit func(*OAuth2Credential) bool) error {
	return each(t, collectionOAuth2, visit)
}

// OnRampCredential is the credential of an organization at a fiat on-ramp provider.
type OnRampCredential struct {
	ID             ID     `cbor:"1,keyasint"`
	Provider       string `cbor:"2,keyasint"` // FIAT_ON_RAMP_PROVIDER_…
	ProjectID      string `cbor:"3,keyasint,omitempty"`
	PublishableKey string `cbor:"4,keyasint"`
	// Secret and Private, nil where there is none, are sealed once more under the credential's id.
	Secret  []byte `cbor:"5,keyasint"`
	Private []byte `cbor:"6,keyasint,omitempty"`
	// Secret and Private in the encrypted form that the client sent, for queries.
	EncryptedSecret  string `cbor:"7,keyasint"`
	EncryptedPrivate string `cbor:"8,keyasint,omitempty"`
	Sandbox          bool   `cbor:"9,keyasint,omitempty"`
	CreatedMs        uint64 `cbor:"10,keyasint"`
	UpdatedMs        uint64 `cbor:"11,keyasint"`
}

// OnRampCredential returns the on-ramp credential with this id, or nil.
func (t *Tx) OnRampCredential(id ID) (*OnRampCredential, error) {
	return find[OnRampCredential](t, collectionOnRamps, id)
}

// PutOnRampCredential stores c.
func (t *Tx) PutOnRampCredential(c *OnRampCredential) error {
	return put(t, key(collectionOnRamps, raw(c.ID)), c)
}

// DeleteOnRampCredential removes an on-ramp credential with its secrets.
func (t *Tx) DeleteOnRampCredential(id ID) { t.del(key(collectionOnRamps, raw(id))) }

// EachOnRampCredential visits the on-ramp credentials in the order of their ids.
func (t *Tx) EachOnRampCredential(visit func(*OnRampCredential) bool) error {
	return each(t, collectionOnRamps, visit)
}

// DeleteProviderCredentials removes all credentials at OAuth 2.0 and on-ramp providers.
func (t *Tx) DeleteProviderCredentials() error {
	return cmp.Or(t.clear(keysWithPrefix(key(collectionOAuth2))), t.clear(keysWithPrefix(key(collectionOnRamps))))
}
