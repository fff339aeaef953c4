package org

import (
	"bytes"
	"slices"
)

// What a parent does not keep of its sub-organizations is searched through an
// index that the host keeps of keyed hashes. What a row of it claims is held
// against the sub-organization's own records.

// IndexChange puts or drops the row of the host's index that leads from a key
// to the organization whose entry it comes with.
type IndexChange struct {
	Key  Hash   // keyed hash of what was looked for, under which parent
	Rank uint64 // where in the list of those that have the key: CreatedMs of the organization
	Drop bool
}

// A Handle is something by which a sub-organization is found in the host's
// index: What, and the hash of the value under which it keeps it.
type Handle struct {
	What byte
	hash string
}

// What a Handle is of.
const (
	HandleUserName = 'u' // of one of its users
	HandleAddress  = 'a' // of an account or private key: its match key
)

// NewHandle is the handle of a value.
func NewHandle(what byte, value string) Handle { return Handle{what, hashKey(value)} }

// Bytes tell handles apart.
func (h Handle) Bytes() []byte { return append([]byte{h.What}, h.hash...) }

// prefix is what the keys begin with whose presence makes the handle the
// organization's.
func (h Handle) prefix() string {
	if h.What == HandleUserName {
		return key(collectionNames, string(byte(NameUser)), h.hash)
	}
	return key(collectionAddresses, h.hash)
}

// handleOf is the handle that the presence of a record makes.
func handleOf(k string) (h Handle, ok bool) {
	switch {
	case len(k) == 2+20 && Collection(k[0]) == collectionNames && k[1] == NameUser:
		return Handle{HandleUserName, k[2:]}, true
	case len(k) == 1+20+24 && Collection(k[0]) == collectionAddresses:
		return Handle{HandleAddress, k[1:21]}, true
	}
	return h, false
}

// Has tells whether the organization has a handle.
func (t *Tx) Has(h Handle) (has bool, err error) {
	err = t.scan(under(h.prefix()), func(string, *slot) bool {
		has = true
		return false
	})
	return has, err
}

// EachChangedHandle visits the handles that this change may give to the
// organization or take from it, in order and each once, with whether it will
// have them.
func (t *Tx) EachChangedHandle(visit func(h Handle, has bool) error) error {
	var kept map[Handle]bool // nil for most changes
	for _, k := range t.order {
		if h, ok := handleOf(k); ok {
			if kept == nil {
				kept = map[Handle]bool{}
			}
			kept[h] = kept[h] || t.mine[k] != nil
		}
	}
	for _, h := range handlesInOrder(kept) {
		has := kept[h]
		if !has { // another record, which this change does not touch, may give it still
			err := t.state.scan(under(h.prefix()), func(k string, _ *slot) bool {
				_, touched := t.mine[k]
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

// EachHandle visits the handles of the organization until visit returns false,
// one perhaps several times.
func (t *Tx) EachHandle(visit func(Handle) bool) error {
	going := true
	for _, prefix := range []string{key(collectionNames, string(byte(NameUser))), key(collectionAddresses)} {
		err := t.scan(under(prefix), func(k string, _ *slot) bool {
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

func handlesInOrder(m map[Handle]bool) []Handle {
	hs := make([]Handle, 0, len(m))
	for h := range m {
		hs = append(hs, h)
	}
	slices.SortFunc(hs, func(a, b Handle) int { return bytes.Compare(a.Bytes(), b.Bytes()) })
	return hs
}
