package org

import "crypto/sha256"

// MaxUsers is how many users one organization may have.
const (
	MaxUsers           = 100
	MaxLongLivedKeys   = 10 // API keys without expiry, for each user
	MaxExpiringAPIKeys = 10 // with expiry; one more evicts the oldest
)

// User is a user with its credentials.
type User struct {
	ID        ID       `cbor:"1,keyasint"`
	Name      string   `cbor:"2,keyasint"`
	Email     string   `cbor:"3,keyasint,omitempty"`
	Phone     string   `cbor:"4,keyasint,omitempty"`
	Tags      []ID     `cbor:"5,keyasint,omitempty"`
	APIKeys   []APIKey `cbor:"6,keyasint,omitempty"`
	CreatedMs uint64   `cbor:"7,keyasint"`
	UpdatedMs uint64   `cbor:"8,keyasint"`
}

// APIKey is a credential that stamps requests with a key pair.
type APIKey struct {
	ID        ID     `cbor:"1,keyasint"`
	Name      string `cbor:"2,keyasint"`
	PublicKey string `cbor:"3,keyasint"` // lower-case hex: 33 bytes compressed, or 32 for ed25519
	Type      string `cbor:"4,keyasint"` // CREDENTIAL_TYPE_…
	CreatedMs uint64 `cbor:"5,keyasint"`
	UpdatedMs uint64 `cbor:"6,keyasint"`
	// ExpirationSeconds counts from CreatedMs; 0: long-lived.
	ExpirationSeconds uint64 `cbor:"7,keyasint,omitempty"`
}

// Expired tells whether the key is past its time at nowMs.
func (k *APIKey) Expired(nowMs uint64) bool {
	// Divided, not multiplied: the client chooses the seconds, and a product may
	// be larger than its type.
	return k.ExpirationSeconds != 0 && nowMs >= k.CreatedMs && (nowMs-k.CreatedMs)/1000 >= k.ExpirationSeconds
}

// User returns the user with this id, or nil.
func (t *Tx) User(id ID) (*User, error) { return get[User](t, key(collectionUsers, raw(id))) }

// PutUser stores u. It keeps neither names nor credentials indexed: see
// TakeName and PutCredential.
func (t *Tx) PutUser(u *User) error { return put(t, key(collectionUsers, raw(u.ID)), u) }

// DeleteUser removes the user's record.
func (t *Tx) DeleteUser(id ID) { t.del(key(collectionUsers, raw(id))) }

// EachUser visits the users in the order of their ids until visit returns false.
func (t *Tx) EachUser(visit func(*User) bool) error {
	return list(t, string([]byte{byte(collectionUsers)}), "", func(_ string, u *User) bool { return visit(u) })
}

// Credential tells whose a public key is.
type Credential struct {
	User ID `cbor:"1,keyasint"`
	Key  ID `cbor:"2,keyasint"` // API key or authenticator
}

// Credential finds who stamps with this public key on this curve
// (API_KEY_CURVE_… or another scheme's name), or nil.
func (t *Tx) Credential(curve, publicKey string) (*Credential, error) {
	return get[Credential](t, credentialKey(curve, publicKey))
}

// PutCredential makes a public key belong to a user.
func (t *Tx) PutCredential(curve, publicKey string, c *Credential) error {
	return put(t, credentialKey(curve, publicKey), c)
}

// DeleteCredential makes a public key unknown.
func (t *Tx) DeleteCredential(curve, publicKey string) { t.del(credentialKey(curve, publicKey)) }

func credentialKey(curve, publicKey string) string {
	return key(collectionCredentials, curve, ":", publicKey)
}

// PutChildCredential notes in a parent that a credential can stamp in a
// sub-organization, so that a log-in can find it.
func (t *Tx) PutChildCredential(curve, publicKey string, child ID) error {
	return put(t, key(collectionChildrenKeys, hashed(curve+":"+publicKey), raw(child)), &nameRecord{child})
}

// ChildrenOf returns up to limit sub-organizations in which a credential can stamp.
func (t *Tx) ChildrenOf(curve, publicKey string, limit int) ([]ID, error) {
	var ids []ID
	err := list(t, key(collectionChildrenKeys, hashed(curve+":"+publicKey)), "", func(_ string, r *nameRecord) bool {
		ids = append(ids, r.ID)
		return len(ids) < limit
	})
	return ids, err
}

// DeleteChildCredential undoes PutChildCredential.
func (t *Tx) DeleteChildCredential(curve, publicKey string, child ID) {
	t.del(key(collectionChildrenKeys, hashed(curve+":"+publicKey), raw(child)))
}

func hashed(s string) string {
	h := sha256.Sum256([]byte(s))
	return string(h[:20])
}
