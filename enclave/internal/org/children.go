package org

import (
	"encoding/binary"
	"slices"
)

// A parent's state lists its sub-organizations in two collections: in the order of creation,
// and by the values under which they are looked up. Pieces prove absence too, so the lists are
// complete: no host can hide a second holder of an identity.

// Child is a parent's record of a sub-organization.
type Child struct {
	ID        ID     `cbor:"1,keyasint"`
	Name      string `cbor:"2,keyasint"`
	CreatedMs uint64 `cbor:"3,keyasint"`
}

// sortKey is the key by which sub-organizations are ordered by creation.
func (c *Child) sortKey() string { return bigEndian(c.CreatedMs) + raw(c.ID) }

// Older reports whether c comes before d in the order of creation.
func (c *Child) Older(d *Child) bool { return c.sortKey() < d.sortKey() }

type none struct{}

// PutChild records a sub-organization under its parent.
func (t *Tx) PutChild(c *Child) error {
	if err := put(t, key(collectionChildrenOrder, c.sortKey()), &none{}); err != nil {
		return err
	}
	return put(t, key(collectionChildren, raw(c.ID)), c)
}

// DeleteChild deletes the record of a sub-organization, but not its look-up keys.
func (t *Tx) DeleteChild(c *Child) {
	t.del(key(collectionChildrenOrder, c.sortKey()))
	t.del(key(collectionChildren, raw(c.ID)))
}

// Child returns the parent's record of sub-organization id, or nil.
func (t *Tx) Child(id ID) (*Child, error) { return find[Child](t, collectionChildren, id) }

// IdentityText is the value under which an OpenID identity is looked up.
func IdentityText(issuer, subject, audience string) string {
	var b []byte
	for _, part := range []string{issuer, subject, audience} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	return string(append(b, 0))
}

func childKey(what byte, value string, c *Child, holder ID) string {
	return key(collectionChildrenKeys, string(what), hashKey(value), c.sortKey(), raw(holder))
}

// PutChildKey adds a look-up key of c: a value of its user holder, or its name with the zero ID.
func (t *Tx) PutChildKey(what byte, value string, c *Child, holder ID) error {
	return put(t, childKey(what, value, c, holder), &none{})
}

// DeleteChildKey deletes a look-up key of PutChildKey.
func (t *Tx) DeleteChildKey(what byte, value string, c *Child, holder ID) {
	t.del(childKey(what, value, c, holder))
}

// ChildrenBy returns up to limit sub-organizations that have a value, each once, in the order of
// creation: those after `after`, or from the first if it is nil.
func (t *Tx) ChildrenBy(what byte, value string, after *Child, limit int) ([]ID, error) {
	return t.childrenBehind(key(collectionChildrenKeys, string(what), hashKey(value)), after, limit)
}

// ChildrenByBefore is ChildrenBy for the last ones before `before`.
func (t *Tx) ChildrenByBefore(what byte, value string, before *Child, limit int) ([]ID, error) {
	return t.childrenBefore(key(collectionChildrenKeys, string(what), hashKey(value)), before, limit)
}

// Children returns up to limit sub-organizations in the order of creation: those after `after`,
// or from the first if it is nil.
func (t *Tx) Children(after *Child, limit int) ([]ID, error) {
	return t.childrenBehind(key(collectionChildrenOrder), after, limit)
}

// ChildrenBefore is Children for the last ones before `before`.
func (t *Tx) ChildrenBefore(before *Child, limit int) ([]ID, error) {
	return t.childrenBefore(key(collectionChildrenOrder), before, limit)
}

func (t *Tx) childrenBehind(prefix string, after *Child, limit int) ([]ID, error) {
	st := keysWithPrefix(prefix)
	if after != nil {
		st.from = nextPrefix(prefix + after.sortKey())
	}
	return t.children(st, len(prefix), limit)
}

func (t *Tx) childrenBefore(prefix string, before *Child, limit int) ([]ID, error) {
	ids, err := t.children(keyRange{prefix, prefix + before.sortKey(), true}, len(prefix), limit)
	slices.Reverse(ids)
	return ids, err
}

// children returns the first limit sub-organizations of a key range. Their places begin at byte at of the keys.
func (t *Tx) children(st keyRange, at, limit int) (ids []ID, err error) {
	if limit <= 0 {
		return nil, nil
	}
	err = t.scan(st, func(k string, _ *record) bool {
		id := ID([]byte(k[at+8 : at+24]))
		if len(ids) > 0 && ids[len(ids)-1] == id {
			return true
		}
		if len(ids) == limit {
			return false
		}
		ids = append(ids, id)
		return true
	})
	return ids, err
}

// KeyCurve is the curve under which Credential looks up a key of this CREDENTIAL_TYPE_….
func KeyCurve(credentialType string) string {
	switch credentialType {
	case "CREDENTIAL_TYPE_API_KEY_SECP256K1":
		return "API_KEY_CURVE_SECP256K1"
	case "CREDENTIAL_TYPE_API_KEY_ED25519":
		return "API_KEY_CURVE_ED25519"
	}
	return "API_KEY_CURVE_P256" // session keys of every kind
}

// EachChangedUser visits the users whose records this change puts or deletes, in the order of
// their ids, with the records before and after the change; nil where there is none.
func (t *Tx) EachChangedUser(visit func(before, after *User) error) error {
	var ks []string
	for _, k := range t.order {
		if Collection(k[0]) == collectionUsers {
			ks = append(ks, k)
		}
	}
	slices.Sort(ks)
	for _, k := range ks {
		before, err := get[User](Begin(t.ID, t.state, t.NowMs), k)
		if err != nil {
			return err
		}
		after, err := get[User](t, k)
		if err != nil {
			return err
		}
		if err := visit(before, after); err != nil {
			return err
		}
	}
	return nil
}
