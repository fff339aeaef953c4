package org

// Secret is the metadata of a secret that an organization stores. The secret's bytes are in a separate record, so that a
// list does not load them.
type Secret struct {
	ID   ID     `cbor:"1,keyasint"`           // of version 7: secrets are in the order of creation
	Name string `cbor:"2,keyasint,omitempty"` // empty: none
	// Properties are for policies to read. They never change.
	Properties []Property `cbor:"3,keyasint,omitempty"`
	CreatedMs  uint64     `cbor:"4,keyasint"`
	Exported   bool       `cbor:"5,keyasint,omitempty"`
}

// Property is a key-value pair of a secret.
type Property struct {
	Key   string `cbor:"1,keyasint"`
	Value string `cbor:"2,keyasint"`
}

// Limits of an organization's secrets.
const (
	MaxSecrets       = 10_000
	MaxSecretTargets = 1_000 // live import targets for secrets
	// MaxPropertiesText bounds the bytes of all keys and values of one secret: deleting an organization reads those of all
	// secrets in one step.
	MaxPropertiesText = 2 << 10
)

type sealedSecret struct {
	Sealed []byte `cbor:"1,keyasint"`
}

// Secret returns the metadata of the secret with this id, or nil.
func (t *Tx) Secret(id ID) (*Secret, error) { return find[Secret](t, collectionSecrets, id) }

// PutSecret stores s.
func (t *Tx) PutSecret(s *Secret) error { return put(t, key(collectionSecrets, raw(s.ID)), s) }

// SealedSecret returns the sealed bytes of a secret, nil if there are none.
func (t *Tx) SealedSecret(id ID) ([]byte, error) {
	s, err := find[sealedSecret](t, collectionSealed, id)
	if s == nil {
		return nil, err
	}
	return s.Sealed, nil
}

// PutSealedSecret stores a secret's bytes, sealed once more under its id.
func (t *Tx) PutSealedSecret(id ID, sealed []byte) error {
	return put(t, key(collectionSealed, raw(id)), &sealedSecret{sealed})
}

// DeleteSecret removes a secret and its bytes.
func (t *Tx) DeleteSecret(id ID) {
	t.del(key(collectionSecrets, raw(id)))
	t.del(key(collectionSealed, raw(id)))
}

// EachSecret visits the secrets after the one with id after, in the order of creation.
func (t *Tx) EachSecret(after ID, visit func(*Secret) bool) error {
	st := keysWithPrefix(key(collectionSecrets))
	if !after.Zero() {
		st.from = nextPrefix(key(collectionSecrets, raw(after)))
	}
	return list(t, st, func(_ string, s *Secret) bool { return visit(s) })
}

// EachSecretBefore visits the secrets before the one with id before, in reverse order of creation.
func (t *Tx) EachSecretBefore(before ID, visit func(*Secret) bool) error {
	st := keyRange{from: key(collectionSecrets), to: key(collectionSecrets, raw(before)), descending: true}
	return list(t, st, func(_ string, s *Secret) bool { return visit(s) })
}
