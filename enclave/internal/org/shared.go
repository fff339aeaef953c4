package org

import (
	"bytes"
	"slices"
)

// A SharedValue is a key, passkey, identity or contact that users of several sub-organizations have. The value itself is in
// their records.
type SharedValue struct {
	Kind    byte // ChildBefore for every key and passkey, ChildIdentity, ChildEmail or ChildPhone
	Holders []SharedHolder
}

// A SharedHolder is a user of a sub-organization.
type SharedHolder struct{ Organization, User ID }

// sharedKinds are the look-up kinds that may contain one value, grouped by type of value.
var sharedKinds = [][]byte{
	{ChildBefore, ChildProven, ChildVouched, ChildFresh, ChildAlone, ChildBrief},
	{ChildIdentity, ChildLinked},
	{ChildEmail, ChildVerifiedEmail},
	{ChildPhone, ChildVerifiedPhone},
}

const (
	hashSize     = 20
	maxHolders   = 100 // holders listed for one value
	sharedCursor = 2 + hashSize
)

// FindShared examines the next values under which sub-organizations are found, at most limit of them, and returns those with
// several holders. after is empty or the last call's next; next is empty at the end. Values without a look-up key, such as an
// additional key that has never stamped, are not found.
func (t *Tx) FindShared(after []byte, limit int) (found []SharedValue, next []byte, err error) {
	kind, index, hash := 0, 0, ""
	if len(after) == sharedCursor {
		kind, index, hash = int(after[0]), int(after[1]), string(after[2:])
	}
	for ; kind < len(sharedKinds); kind, index, hash = kind+1, 0, "" {
		for all := sharedKinds[kind]; index < len(all); index, hash = index+1, "" {
			for {
				if hash, err = t.nextHash(all[index], hash); err != nil {
					return nil, nil, err
				}
				if hash == "" {
					break
				}
				holders, first, err := t.holders(all, hash)
				if err != nil {
					return nil, nil, err
				}
				if first == all[index] && slices.ContainsFunc(holders, func(h SharedHolder) bool { return h.Organization != holders[0].Organization }) {
					found = append(found, SharedValue{all[0], holders})
				}
				if limit--; limit <= 0 {
					return found, append([]byte{byte(kind), byte(index)}, hash...), nil
				}
			}
		}
	}
	return found, nil, nil
}

// nextHash is the first hash after another in an index, or empty.
func (t *Tx) nextHash(what byte, after string) (hash string, err error) {
	prefix := key(collectionChildrenKeys, string(what))
	st := keysWithPrefix(prefix)
	if after != "" {
		st.from = nextPrefix(prefix + after)
	}
	err = t.scan(st, func(k string, _ *record) bool {
		hash = k[len(prefix) : len(prefix)+hashSize]
		return false
	})
	return hash, err
}

// holders returns the first holders of a value, and the first index that contains it.
func (t *Tx) holders(indexes []byte, hash string) (hs []SharedHolder, first byte, err error) {
	for _, what := range indexes {
		prefix := key(collectionChildrenKeys, string(what), hash)
		err := t.scan(keysWithPrefix(prefix), func(k string, _ *record) bool {
			at := len(prefix) + 8
			h := SharedHolder{ID([]byte(k[at : at+16])), ID([]byte(k[at+16 : at+32]))}
			if first == 0 {
				first = what
			}
			if !slices.Contains(hs, h) {
				hs = append(hs, h)
			}
			return len(hs) < maxHolders
		})
		if err != nil || len(hs) >= maxHolders {
			return hs, first, err
		}
	}
	return hs, first, nil
}

// ValidSharedCursor reports whether a cursor has the form of one that FindShared returns.
func ValidSharedCursor(c []byte) bool {
	return len(c) == 0 || len(c) == sharedCursor && int(c[0]) < len(sharedKinds) && int(c[1]) < len(sharedKinds[c[0]]) && !bytes.Equal(c[2:], make([]byte, hashSize))
}
