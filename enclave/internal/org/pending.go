package org

// Pending is an activity that waits for votes or its initiator. Its body and signed messages are in its entries.
type Pending struct {
	Activity    ID            `cbor:"1,keyasint"`
	Fingerprint Hash          `cbor:"2,keyasint"`
	Status      Status        `cbor:"3,keyasint"`
	CreatedMs   uint64        `cbor:"4,keyasint"`
	Last        uint64        `cbor:"5,keyasint"` // seq of its newest entry
	Votes       []PendingVote `cbor:"6,keyasint"`
	Initiator   ID            `cbor:"7,keyasint"`
	// OpenedMs is the time of the first approval, which opens the approval window.
	OpenedMs uint64 `cbor:"8,keyasint"`
}

// ApprovalWindowMs is the time within which approvals count together.
const ApprovalWindowMs = 24 * 60 * 60 * 1000

// Live reports whether v is an approval that counts at nowMs.
func (p *Pending) Live(v *PendingVote, nowMs uint64) bool {
	return !v.Rejected && v.CreatedMs >= p.OpenedMs && nowMs < p.OpenedMs+ApprovalWindowMs
}

// VoteOf is a user's vote, or nil.
func (p *Pending) VoteOf(user ID) *PendingVote {
	for i := range p.Votes {
		if p.Votes[i].User == user {
			return &p.Votes[i]
		}
	}
	return nil
}

// PendingVote is one user's approval or rejection of a Pending.
type PendingVote struct {
	User      ID     `cbor:"1,keyasint"`
	Rejected  bool   `cbor:"2,keyasint,omitempty"`
	CreatedMs uint64 `cbor:"3,keyasint"`
	// Credentials are copies of the credentials used to approve. They count as long as the user has them.
	Credentials []VoteCredential `cbor:"4,keyasint"`
	// Decoded is the digest of what the approver was shown, if he named it.
	Decoded []byte `cbor:"5,keyasint,omitempty"`
}

// VoteCredential is a credential in the form that policies read.
type VoteCredential struct {
	ID           ID     `cbor:"1,keyasint"`
	Type         string `cbor:"2,keyasint"`           // CREDENTIAL_TYPE_…
	PublicKey    string `cbor:"3,keyasint"`           // lower-case hex
	CredentialID string `cbor:"4,keyasint,omitempty"` // of a passkey, base64url
	Profile      ID     `cbor:"5,keyasint"`           // of a session: its profile, or zero
}

// PendingBy returns the waiting activity with this fingerprint, or nil.
func (t *Tx) PendingBy(fingerprint Hash) (*Pending, error) {
	return get[Pending](t, key(collectionPending, string(fingerprint[:])))
}

// PendingActivity returns the waiting activity with this id, or nil.
func (t *Tx) PendingActivity(id ID) (*Pending, error) {
	r, err := find[hashRecord](t, collectionPendingIDs, id)
	if r == nil || err != nil {
		return nil, err
	}
	return t.PendingBy(r.Hash)
}

type hashRecord struct {
	Hash Hash `cbor:"1,keyasint"`
}

// PutPending stores p. The caller updates the organization's count.
func (t *Tx) PutPending(p *Pending) error {
	if err := put(t, key(collectionPendingIDs, raw(p.Activity)), &hashRecord{p.Fingerprint}); err != nil {
		return err
	}
	return put(t, key(collectionPending, string(p.Fingerprint[:])), p)
}

// DeletePending removes p.
func (t *Tx) DeletePending(p *Pending) {
	t.del(key(collectionPendingIDs, raw(p.Activity)))
	t.del(key(collectionPending, string(p.Fingerprint[:])))
}

// EachPending visits the waiting activities in the order of their fingerprints.
func (t *Tx) EachPending(visit func(*Pending) bool) error { return each(t, collectionPending, visit) }
