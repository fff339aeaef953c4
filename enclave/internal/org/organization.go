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
	// Deleted organizations refuse every request; their tip stays.
	Deleted     bool   `cbor:"13,keyasint,omitempty"`
	Policies    uint32 `cbor:"14,keyasint,omitempty"`
	Tags        uint32 `cbor:"15,keyasint,omitempty"` // of both kinds
	Invitations uint32 `cbor:"16,keyasint,omitempty"`
	Pending     uint32 `cbor:"17,keyasint,omitempty"` // activities that wait
	Interfaces  uint32 `cbor:"18,keyasint,omitempty"`
	Profiles    uint32 `cbor:"19,keyasint,omitempty"`
	Endpoints   uint32 `cbor:"25,keyasint,omitempty"` // of webhooks
	// Recovered is the newest log generation after a recovery in which the organization may sign: it was made in that
	// generation, or its root quorum has allowed it.
	Recovered uint32 `cbor:"26,keyasint,omitempty"`
	Secrets   uint32 `cbor:"27,keyasint,omitempty"` // how many there are
	// Payer is the top-level organization that has made this top-level one, if any; of a sub-organization it is its parent's Payer.
	Payer ID     `cbor:"28,keyasint,omitzero"`
	Made  uint32 `cbor:"29,keyasint,omitempty"` // top-level organizations that it has made
}

// Top is the id of the top-level organization: the parent of a sub-organization, otherwise the organization itself.
func (o *Organization) Top() ID {
	if o.Parent.Zero() {
		return o.ID
	}
	return o.Parent
}

// Tenant is the top-level organization to which all scarce resources are charged. One that another has made is charged to its
// maker; otherwise a maker of many would have as many shares.
func (o *Organization) Tenant() ID {
	if o.Payer.Zero() {
		return o.Top()
	}
	return o.Payer
}

// FeatureStrictLog is the feature with which an organization's replies wait for the log's witnesses, even if
// the deployment's do not. It has no effect without witnesses.
const FeatureStrictLog = "FEATURE_NAME_STRICT_LOG"

// FeatureDecodedVotes is the feature with which approvals count only if they name what the voter was shown. It is our own.
const FeatureDecodedVotes = "FEATURE_NAME_DECODED_VOTES"

// FeatureAddressBook is the feature that names addresses for approvers; package activity reads its value. It is our own.
const FeatureAddressBook = "FEATURE_NAME_ADDRESS_BOOK"

// FeatureApprovalMails is the feature with which an activity that begins to wait is announced by mail to those who can approve it. Its
// value is empty or the URL of a dashboard. It is our own.
const FeatureApprovalMails = "FEATURE_NAME_APPROVAL_MAILS"

// Root reports whether user is a member of the root quorum.
func (o *Organization) Root(user ID) bool {
	return slices.Contains(o.RootUsers, user)
}

var organizationKey = key(collectionOrganization)

// Organization returns the organization's record, nil before its first entry.
func (t *Tx) Organization() (*Organization, error) { return get[Organization](t, organizationKey) }

// PutOrganization stores the organization's record.
func (t *Tx) PutOrganization(o *Organization) error { return put(t, organizationKey, o) }

// Kinds of things with unique names.
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

// IDByName returns the id of the thing of a kind with a name, or the zero ID.
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

// FreeName deletes the index row of a name, so that it can be used again.
func (t *Tx) FreeName(what byte, name string) { t.del(nameKey(what, name)) }

// nameKey holds the name's hash, since a name of 255 characters may be 1,020 bytes.
func nameKey(what byte, name string) string {
	return key(collectionNames, string(what), hashKey(name))
}
