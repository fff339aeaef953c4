package org

import "slices"

// Organization is the organization's own record.
type Organization struct {
	ID          ID     `cbor:"1,keyasint"`
	Name        string `cbor:"2,keyasint"`
	Parent      ID     `cbor:"3,keyasint"` // zero: top level
	RootUsers   []ID   `cbor:"4,keyasint"`
	Threshold   uint32 `cbor:"5,keyasint"`
	CreatedMs   uint64 `cbor:"6,keyasint"`
	UpdatedMs   uint64 `cbor:"7,keyasint"`
	Users       uint32 `cbor:"8,keyasint"`  // how many there are
	Wallets     uint32 `cbor:"9,keyasint"`  //
	PrivateKeys uint32 `cbor:"10,keyasint"` //
	Children    uint64 `cbor:"11,keyasint"` // sub-organizations
	// Features by name (FEATURE_NAME_…) with their values.
	Features map[string]string `cbor:"12,keyasint,omitempty"`
	// Deleted organizations answer nobody; their tip stays.
	Deleted     bool   `cbor:"13,keyasint,omitempty"`
	Policies    uint32 `cbor:"14,keyasint,omitempty"`
	Tags        uint32 `cbor:"15,keyasint,omitempty"` // of both kinds
	Invitations uint32 `cbor:"16,keyasint,omitempty"`
	Pending     uint32 `cbor:"17,keyasint,omitempty"` // activities that wait
	Interfaces  uint32 `cbor:"18,keyasint,omitempty"`
	Profiles    uint32 `cbor:"19,keyasint,omitempty"`
	Endpoints   uint32 `cbor:"25,keyasint,omitempty"` // of webhooks
	// Recovered is the newest generation of the log, of those that began with a recovery, in which the organization may sign:
	// it was made in it, or its root quorum has said so.
	Recovered uint32 `cbor:"26,keyasint,omitempty"`
	Secrets   uint32 `cbor:"27,keyasint,omitempty"` // how many there are
	// Payer is the organization of the top level that has made this one, if another has, and of a sub-organization its parent's.
	Payer ID     `cbor:"28,keyasint,omitzero"`
	Made  uint32 `cbor:"29,keyasint,omitempty"` // organizations of the top level that it has made
}

// Top is the organization of the top level: the parent of a sub-organization.
func (o *Organization) Top() ID {
	if o.Parent.Zero() {
		return o.ID
	}
	return o.Parent
}

// Tenant is the organization of the top level for which all that is scarce is counted. One that another has made counts for its
// maker, or whoever makes many would have as many shares.
func (o *Organization) Tenant() ID {
	if o.Payer.Zero() {
		return o.Top()
	}
	return o.Payer
}

// FeatureStrictLog is the feature of an organization whose replies wait for the log's witnesses, also
// where the deployment's do not. It does nothing where there are no witnesses.
const FeatureStrictLog = "FEATURE_NAME_STRICT_LOG"

// Root tells whether user is a member of the root quorum.
func (o *Organization) Root(user ID) bool {
	return slices.Contains(o.RootUsers, user)
}

var organizationKey = key(collectionOrganization)

// Organization returns the organization's record, nil before its first entry.
func (t *Tx) Organization() (*Organization, error) { return get[Organization](t, organizationKey) }

// PutOrganization replaces it.
func (t *Tx) PutOrganization(o *Organization) error { return put(t, organizationKey, o) }

// What a unique name is of.
const (
	NameUser       = 'u'
	NameWallet     = 'w'
	NamePrivateKey = 'p'
	NameUserTag    = 't'
	NameKeyTag     = 'k'
	NamePolicy     = 'l'
	NameProfile    = 's'
	NameInterface  = 'i'
	NameEndpoint   = 'h'
	NameSecret     = 'x'
	NameTVCApp     = 'v'
)

type nameRecord struct {
	ID ID `cbor:"1,keyasint"`
}

// IDByName returns the id of the thing of one kind that bears name, or the zero ID.
func (t *Tx) IDByName(what byte, name string) (ID, error) {
	r, err := get[nameRecord](t, nameKey(what, name))
	if r == nil {
		return ID{}, err
	}
	return r.ID, nil
}

// TakeName gives name to id. The caller has checked that it is free.
func (t *Tx) TakeName(what byte, name string, id ID) error {
	return put(t, nameKey(what, name), &nameRecord{id})
}

// FreeName makes name free again.
func (t *Tx) FreeName(what byte, name string) { t.del(nameKey(what, name)) }

// A name of 255 characters may be 1,020 bytes, so keys hold its hash.
func nameKey(what byte, name string) string {
	return key(collectionNames, string(what), hashKey(name))
}
