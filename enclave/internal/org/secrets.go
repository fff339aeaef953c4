package org

// Secret is what is known of bytes that an organization keeps. The bytes lie in a record of their own, so that a
// list does not load them.
type Secret struct {
	ID   ID     `cbor:"1,keyasint"`           // of version 7: secrets lie in the order in which they came
	Name string `cbor:"2,keyasint,omitempty"` // empty: none
	// Properties are for policies to read. They never change.
	Properties []Property `cbor:"3,keyasint,omitempty"`
	CreatedMs  uint64     `cbor:"4,keyasint"`
	Exported   bool       `cbor:"5,keyasint,omitempty"`
}

// Property is a key with its value.
type Property struct {
	Key   string `cbor:"1,keyasint"`
	Value string `cbor:"2,keyasint"`
}

// Bounds of an organization's secrets.
const (
	MaxSecrets       = 10_000
	MaxSecretTargets = 1_000 // import targets for secrets that live
	// MaxPropertiesText is for the bytes of all keys and values of one secret: who deletes an organization reads those of
	// all secrets in one step.
	MaxPropertiesText = 2 << 10
)

type sealedSecret struct {
	Sealed []byte `cbor:"1,keyasint"`
}

// Secret returns what is known of the secret with this id, or nil.
func (t *Tx) Secret(id ID) (*Secret, error) { return find[Secret](t, collectionSecrets, id) }

// PutSecret stores s.
func (t *Tx) PutSecret(s *Secret) error { return put(t, key(collectionSecrets, raw(s.ID)), s) }

// SealedSecret returns the secret's bytes as PutSealedSecret was given them, nil if there are none.
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

// EachSecret visits the secrets behind the one with id after, in the order in which they came.
func (t *Tx) EachSecret(after ID, visit func(*Secret) bool) error {
	st := under(key(collectionSecrets))
	if !after.Zero() {
		st.from = nextPrefix(key(collectionSecrets, raw(after)))
	}
	return list(t, st, func(_ string, s *Secret) bool { return visit(s) })
}

// EachSecretBefore visits the secrets in front of the one with id before, the last of them first.
func (t *Tx) EachSecretBefore(before ID, visit func(*Secret) bool) error {
	st := keyRange{from: key(collectionSecrets), to: key(collectionSecrets, raw(before)), descending: true}
	return list(t, st, func(_ string, s *Secret) bool { return visit(s) })
}
