package org

import (
	"bytes"
	"maps"
	"slices"
)

// Values of sub-organizations that their parent's state does not list are looked up in an index of
// keyed hashes in the host's store. Each row is checked against the sub-organization's own records.

// IndexChange puts or deletes a row of the host's index, from a key to the entry's organization.
type IndexChange struct {
	Key  Hash   // keyed hash of a handle and the parent
	Rank uint64 // orders the rows of a key: CreatedMs of the organization
	Drop bool
}

// A Handle is a value under which the host's index finds a sub-organization: its kind, and the value's hash.
type Handle struct {
	What byte
	hash string
}

// Kinds of Handles.
const (
	HandleUserName = 'u' // of one of its users
	HandleAddress  = 'a' // of an account or private key: its match key

	handleAuthProxy = 't' // of the auth proxy: the configuration's id
)

// NewHandle is the handle of a value.
func NewHandle(what byte, value string) Handle { return Handle{what, hashKey(value)} }

// Bytes is a unique encoding of the handle.
func (h Handle) Bytes() []byte { return append([]byte{h.What}, h.hash...) }

// prefix is the key prefix of the records that give the organization the handle.
func (h Handle) prefix() string {
	if h.What == HandleUserName {
		return key(collectionNames, string(byte(NameUser)), h.hash)
	}
	return key(collectionAddresses, h.hash)
}

// handleOf is the handle that the record under a key gives its organization.
func handleOf(k string) (h Handle, ok bool) {
	switch {
	case len(k) == 2+20 && Collection(k[0]) == collectionNames && k[1] == NameUser:
		return Handle{HandleUserName, k[2:]}, true
	case len(k) == 1+20+24 && Collection(k[0]) == collectionAddresses:
		return Handle{HandleAddress, k[1:21]}, true
	}
	return h, false
}

// Has reports whether the organization has a handle.
func (t *Tx) Has(h Handle) (has bool, err error) {
	err = t.scan(keysWithPrefix(h.prefix()), func(string, *record) bool {
		has = true
		return false
	})
	return has, err
}

// EachChangedHandle visits the handles that this change may add to or remove from the organization,
// in order and each once. has reports whether the organization has it after the change.
func (t *Tx) EachChangedHandle(visit func(h Handle, has bool) error) error {
	var kept map[Handle]bool // nil for most changes
	for _, k := range t.order {
		if h, ok := handleOf(k); ok {
			if kept == nil {
				kept = map[Handle]bool{}
			}
			kept[h] = kept[h] || t.changes[k] != nil
		}
	}
	inOrder := func(a, b Handle) int { return bytes.Compare(a.Bytes(), b.Bytes()) }
	for _, h := range slices.SortedFunc(maps.Keys(kept), inOrder) {
		has := kept[h]
		if !has { // a record that this change does not touch may still give it
			err := t.state.scan(keysWithPrefix(h.prefix()), nil, func(k string, _ *record) bool {
				_, touched := t.changes[k]
				has = !touched
				return touched
			})
			if err != nil {
				return err
			}
		}
		if err := visit(h, has); err != nil {
			return err
		}
	}
	return nil
}

// EachHandle visits the organization's handles until visit returns false, perhaps some twice.
func (t *Tx) EachHandle(visit func(Handle) bool) error {
	going := true
	for _, prefix := range []string{key(collectionNames, string(byte(NameUser))), key(collectionAddresses)} {
		err := t.scan(keysWithPrefix(prefix), func(k string, _ *record) bool {
			if h, ok := handleOf(k); ok {
				going = visit(h)
			}
			return going
		})
		if err != nil || !going {
			return err
		}
	}
	return nil
}
