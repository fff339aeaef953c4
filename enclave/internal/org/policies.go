package org

// Policy is a rule in the policy language.
type Policy struct {
	ID        ID     `cbor:"1,keyasint"`
	Name      string `cbor:"2,keyasint"`
	Effect    string `cbor:"3,keyasint"` // EFFECT_…
	Consensus string `cbor:"4,keyasint,omitempty"`
	Condition string `cbor:"5,keyasint,omitempty"`
	Time      string `cbor:"6,keyasint,omitempty"`
	Notes     string `cbor:"7,keyasint,omitempty"`
	CreatedMs uint64 `cbor:"8,keyasint"`
	UpdatedMs uint64 `cbor:"9,keyasint"`

	// Compiled caches the compiled expressions. It is used only under the organization's lock.
	Compiled any `cbor:"-"`
}

// allPolicies begins the keys of policies.
const allPolicies = string(rune(collectionPolicies))

// Policy returns the policy with this id, or nil.
func (t *Tx) Policy(id ID) (*Policy, error) { return find[Policy](t, collectionPolicies, id) }

// PutPolicy stores p.
func (t *Tx) PutPolicy(p *Policy) error { return put(t, key(collectionPolicies, raw(p.ID)), p) }

// DeletePolicy removes the policy's record, not its name.
func (t *Tx) DeletePolicy(id ID) { t.del(key(collectionPolicies, raw(id))) }

// EachPolicy visits the policies in the order of their ids.
func (t *Tx) EachPolicy(visit func(*Policy) bool) error { return each(t, collectionPolicies, visit) }

// PolicySet returns the value cached by KeepPolicySet, nil if this change has written policies.
func (t *Tx) PolicySet() any {
	if t.policies {
		return nil
	}
	return t.state.policySet
}

// KeepPolicySet caches a value computed from all policies until a policy is written. The caller holds the organization's lock.
func (t *Tx) KeepPolicySet(set any) {
	if !t.policies {
		t.state.policySet = set
	}
}

// Tag is a group of users or private keys; their records list its id.
type Tag struct {
	ID        ID     `cbor:"1,keyasint"`
	Name      string `cbor:"2,keyasint"`
	Type      string `cbor:"3,keyasint"` // TAG_TYPE_…
	CreatedMs uint64 `cbor:"4,keyasint"`
	UpdatedMs uint64 `cbor:"5,keyasint"`
}

// Tag returns the tag with this id, or nil.
func (t *Tx) Tag(id ID) (*Tag, error) { return find[Tag](t, collectionTags, id) }

// PutTag stores g.
func (t *Tx) PutTag(g *Tag) error { return put(t, key(collectionTags, raw(g.ID)), g) }

// DeleteTag removes the tag's record, not its name or its id in other records.
func (t *Tx) DeleteTag(id ID) { t.del(key(collectionTags, raw(id))) }

// EachTag visits the tags in the order of their ids.
func (t *Tx) EachTag(visit func(*Tag) bool) error { return each(t, collectionTags, visit) }

// Invitation is an invitation of a user to the organization.
type Invitation struct {
	ID         ID     `cbor:"1,keyasint"`
	UserName   string `cbor:"2,keyasint"`
	Email      string `cbor:"3,keyasint"`
	Tags       []ID   `cbor:"4,keyasint,omitempty"`
	AccessType string `cbor:"5,keyasint"`
	Status     string `cbor:"6,keyasint"` // INVITATION_STATUS_…
	Sender     ID     `cbor:"7,keyasint"`
	CreatedMs  uint64 `cbor:"8,keyasint"`
	UpdatedMs  uint64 `cbor:"9,keyasint"`
}

// Invitation returns the invitation with this id, or nil.
func (t *Tx) Invitation(id ID) (*Invitation, error) {
	return find[Invitation](t, collectionInvitations, id)
}

// PutInvitation stores i.
func (t *Tx) PutInvitation(i *Invitation) error {
	return put(t, key(collectionInvitations, raw(i.ID)), i)
}

// DeleteInvitation removes the invitation.
func (t *Tx) DeleteInvitation(id ID) { t.del(key(collectionInvitations, raw(id))) }

// EachInvitation visits the invitations in the order of their ids.
func (t *Tx) EachInvitation(visit func(*Invitation) bool) error {
	return each(t, collectionInvitations, visit)
}

// SessionProfile restricts the actions of the sessions that name it.
type SessionProfile struct {
	ID        ID      `cbor:"1,keyasint"`
	Name      string  `cbor:"2,keyasint"`
	Scope     string  `cbor:"3,keyasint"` // in the policy language
	Seconds   uint64  `cbor:"4,keyasint,omitempty"`
	Notes     *string `cbor:"5,keyasint,omitempty"`
	CreatedMs uint64  `cbor:"6,keyasint"`
	UpdatedMs uint64  `cbor:"7,keyasint"`

	Compiled any `cbor:"-"` // as in Policy
}

// SessionProfile returns the profile with this id, or nil.
func (t *Tx) SessionProfile(id ID) (*SessionProfile, error) {
	return find[SessionProfile](t, collectionProfiles, id)
}

// PutSessionProfile stores p.
func (t *Tx) PutSessionProfile(p *SessionProfile) error {
	return put(t, key(collectionProfiles, raw(p.ID)), p)
}

// EachSessionProfile visits the profiles in the order of their ids.
func (t *Tx) EachSessionProfile(visit func(*SessionProfile) bool) error {
	return each(t, collectionProfiles, visit)
}

// Allowlist is a list of IP networks from which requests are accepted.
type Allowlist struct {
	Enabled bool            `cbor:"1,keyasint,omitempty"`
	Rules   []AllowlistRule `cbor:"2,keyasint,omitempty"`
	OnError string          `cbor:"3,keyasint,omitempty"` // ALLOW or DENY if there is no valid address
}

// AllowlistRule is one network of an Allowlist.
type AllowlistRule struct {
	CIDR      string `cbor:"1,keyasint"`
	Label     string `cbor:"2,keyasint,omitempty"`
	CreatedMs uint64 `cbor:"3,keyasint"`
}

// Allowlist returns the list of an API key, given by its public key, or for "" the organization's; nil if there is none.
func (t *Tx) Allowlist(publicKey string) (*Allowlist, error) {
	return get[Allowlist](t, key(collectionAllowlists, publicKey))
}

// PutAllowlist replaces a list.
func (t *Tx) PutAllowlist(publicKey string, a *Allowlist) error {
	return put(t, key(collectionAllowlists, publicKey), a)
}

// DeleteAllowlist removes a list.
func (t *Tx) DeleteAllowlist(publicKey string) { t.del(key(collectionAllowlists, publicKey)) }

// Interface is a smart contract interface. Its text is stored in separate records.
type Interface struct {
	ID        ID     `cbor:"1,keyasint"`
	Address   string `cbor:"2,keyasint"`
	Type      string `cbor:"3,keyasint"` // SMART_CONTRACT_INTERFACE_TYPE_…
	Label     string `cbor:"4,keyasint"`
	Notes     string `cbor:"5,keyasint,omitempty"`
	Parts     uint32 `cbor:"6,keyasint"`
	CreatedMs uint64 `cbor:"7,keyasint"`
	UpdatedMs uint64 `cbor:"8,keyasint"`
	// MadeBy is the user who asked for it. Zero in interfaces of releases that did not record it.
	MadeBy ID `cbor:"9,keyasint,omitzero"`
}

// partSize is the size of a part of the text, well below MaxValue.
const partSize = 96 << 10

type textRecord struct {
	Text string `cbor:"1,keyasint"`
}

// Interface returns the interface with this id, or nil.
func (t *Tx) Interface(id ID) (*Interface, error) {
	return find[Interface](t, collectionInterfaces, id)
}

// PutInterface stores i with its text and sets i.Parts.
func (t *Tx) PutInterface(i *Interface, text string) error {
	i.Parts = 0
	for {
		n := min(len(text), partSize)
		if err := put(t, key(collectionParts, raw(i.ID), bigEndian(uint64(i.Parts))), &textRecord{text[:n]}); err != nil {
			return err
		}
		i.Parts++
		if text = text[n:]; text == "" {
			return put(t, key(collectionInterfaces, raw(i.ID)), i)
		}
	}
}

// InterfaceText returns the text of an interface.
func (t *Tx) InterfaceText(i *Interface) (string, error) {
	var b []byte
	for n := range i.Parts {
		r, err := get[textRecord](t, key(collectionParts, raw(i.ID), bigEndian(uint64(n))))
		if err != nil {
			return "", err
		}
		if r != nil {
			b = append(b, r.Text...)
		}
	}
	return string(b), nil
}

// DeleteInterface removes i and its text.
func (t *Tx) DeleteInterface(i *Interface) {
	t.del(key(collectionInterfaces, raw(i.ID)))
	for n := range i.Parts {
		t.del(key(collectionParts, raw(i.ID), bigEndian(uint64(n))))
	}
}

// EachInterface visits the interfaces in the order of their ids.
func (t *Tx) EachInterface(visit func(*Interface) bool) error {
	return each(t, collectionInterfaces, visit)
}
