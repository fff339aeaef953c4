package org

import "crypto/sha256"

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

	Authenticators []Authenticator `cbor:"9,keyasint,omitempty"`
	OauthProviders []OauthProvider `cbor:"10,keyasint,omitempty"`
	MFAPolicies    []MFAPolicy     `cbor:"11,keyasint,omitempty"` // ascending by Order
	// EmailVerified and PhoneVerified are set once the contact was proven to be the user's.
	EmailVerified bool `cbor:"12,keyasint,omitempty"`
	PhoneVerified bool `cbor:"13,keyasint,omitempty"`
	EmailHow      How  `cbor:"14,keyasint,omitempty"`
	PhoneHow      How  `cbor:"15,keyasint,omitempty"`
	// NotBeforeMs is the last time when sessions or an identity of the user were ended. Tokens and passcodes issued before
	// it are invalid; otherwise they could restore the ended access.
	NotBeforeMs uint64 `cbor:"16,keyasint,omitempty"`
}

// Authenticator is a passkey.
type Authenticator struct {
	ID           ID       `cbor:"1,keyasint"`
	Name         string   `cbor:"2,keyasint"`
	CredentialID []byte   `cbor:"3,keyasint"`
	PublicKey    []byte   `cbor:"4,keyasint"` // COSE_Key
	AAGUID       ID       `cbor:"5,keyasint"`
	Attestation  string   `cbor:"6,keyasint"` // statement format, such as none
	Transports   []string `cbor:"7,keyasint,omitempty"`
	RPIDHash     Hash     `cbor:"8,keyasint"` // as registered; assertions must carry it
	Origin       string   `cbor:"9,keyasint"` // as registered
	CreatedMs    uint64   `cbor:"10,keyasint"`
	UpdatedMs    uint64   `cbor:"11,keyasint"`
	How          How      `cbor:"12,keyasint,omitempty"`
}

// OauthProvider is an identity at an OpenID provider.
type OauthProvider struct {
	ID        ID     `cbor:"1,keyasint"`
	Name      string `cbor:"2,keyasint"`
	Issuer    string `cbor:"3,keyasint"`
	Audience  string `cbor:"4,keyasint"`
	Subject   string `cbor:"5,keyasint"`
	CreatedMs uint64 `cbor:"6,keyasint"`
	UpdatedMs uint64 `cbor:"7,keyasint"`
	// LinkedBy is the log-in attempt whose token added the identity, if that token was bound to another key than the
	// requester's: see Tx.ChildrenByIdentity.
	LinkedBy *Hash `cbor:"8,keyasint,omitempty"`
}

// MFAPolicy requires more than one factor of a user.
type MFAPolicy struct {
	ID        ID          `cbor:"1,keyasint"`
	Name      string      `cbor:"2,keyasint"`
	Condition string      `cbor:"3,keyasint"`
	Required  []MFAMethod `cbor:"4,keyasint"` // all of them
	Order     uint32      `cbor:"5,keyasint"`
	Notes     string      `cbor:"6,keyasint,omitempty"`
	CreatedMs uint64      `cbor:"7,keyasint"`
	UpdatedMs uint64      `cbor:"8,keyasint"`

	Compiled any `cbor:"-"` // as in Policy
}

// MFAMethod is one step of an MFAPolicy, met by any of its factors.
type MFAMethod struct {
	Any []Factor `cbor:"1,keyasint"`
}

// Factor is an authentication factor.
type Factor struct {
	Type string `cbor:"1,keyasint"`           // AUTHENTICATION_TYPE_…
	ID   *ID    `cbor:"2,keyasint,omitempty"` // of one credential; nil: any of the type
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
	// Profile is the session profile that bounds the key, or zero.
	Profile ID `cbor:"8,keyasint"`
	// Proxy is set for the auth proxy's key. Only the enclave stamps with it, in calls to the proxy.
	Proxy bool `cbor:"9,keyasint,omitempty"`
	How   How  `cbor:"10,keyasint,omitempty"`
}

// Expired reports whether the key has expired at nowMs.
func (k *APIKey) Expired(nowMs uint64) bool {
	// Divided, not multiplied: the client chooses the seconds, and a product may overflow.
	return k.ExpirationSeconds != 0 && nowMs >= k.CreatedMs && (nowMs-k.CreatedMs)/1000 >= k.ExpirationSeconds
}

// User returns the user with this id, or nil.
func (t *Tx) User(id ID) (*User, error) { return find[User](t, collectionUsers, id) }

// PutUser stores u without indexing it: see TakeName and PutCredential.
func (t *Tx) PutUser(u *User) error { return put(t, key(collectionUsers, raw(u.ID)), u) }

// DeleteUser removes the user's record.
func (t *Tx) DeleteUser(id ID) { t.del(key(collectionUsers, raw(id))) }

// EachUser visits the users in the order of their ids until visit returns false.
func (t *Tx) EachUser(visit func(*User) bool) error { return each(t, collectionUsers, visit) }

// Credential is the index record of a public key: its user and key.
type Credential struct {
	User ID `cbor:"1,keyasint"`
	Key  ID `cbor:"2,keyasint"` // API key or authenticator
}

// Credential looks up a public key on a curve (API_KEY_CURVE_…, PasskeyCurve); nil if no user has it.
func (t *Tx) Credential(curve, publicKey string) (*Credential, error) {
	return get[Credential](t, credentialKey(curve, publicKey))
}

// PutCredential indexes a public key for a user.
func (t *Tx) PutCredential(curve, publicKey string, c *Credential) error {
	return put(t, credentialKey(curve, publicKey), c)
}

// DeleteCredential removes a public key from the index.
func (t *Tx) DeleteCredential(curve, publicKey string) { t.del(credentialKey(curve, publicKey)) }

func credentialKey(curve, publicKey string) string {
	return key(collectionCredentials, curve, ":", publicKey)
}

// PasskeyCurve is the curve of passkeys, whose public key is their credential id in lower-case hex.
const PasskeyCurve = "WEBAUTHN"

// Counter is the last signature counter of a passkey, 0 if it has none.
func (t *Tx) Counter(authenticator ID) (uint32, error) {
	r, err := find[numberRecord](t, collectionCounters, authenticator)
	if r == nil {
		return 0, err
	}
	return uint32(r.No), nil
}

// PutCounter stores a passkey's signature counter; 0 deletes it.
func (t *Tx) PutCounter(authenticator ID, n uint32) error {
	k := key(collectionCounters, raw(authenticator))
	if n == 0 {
		t.del(k)
		return nil
	}
	return put(t, k, &numberRecord{uint64(n)})
}

func hashKey(s string) string {
	h := sha256.Sum256([]byte(s))
	return string(h[:20])
}
