package org

import (
	"bytes"
	"slices"
)

// A SharedValue is a key, passkey, identity or contact that users of several sub-organizations hold. Which it is, their
// records tell.
type SharedValue struct {
	Kind    byte // ChildBefore for every key and passkey, ChildIdentity, ChildEmail or ChildPhone
	Holders []SharedHolder
}

// A SharedHolder is a user of a sub-organization.
type SharedHolder struct{ Organization, User ID }

// sharedKinds are the indexes in which one value may stand, by what it is.
var sharedKinds = [][]byte{
	{ChildBefore, ChildProven, ChildVouched, ChildFresh, ChildAlone, ChildBrief},
	{ChildIdentity, ChildLinked},
	{ChildEmail, ChildVerifiedEmail},
	{ChildPhone, ChildVerifiedPhone},
}

const (
	hashSize     = 20
	maxHolders   = 100 // that are told of one value
	sharedCursor = 2 + hashSize
)

// FindShared looks through the next values by which sub-organizations are found, at most limit of them, for those that several
// hold. after is empty or what the last call returned as next; next is empty at the end. What is not looked for by anybody,
// such as a key that was added beside others and has never stamped, is in no index and not told.
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

// nextHash is the first hash of a value behind one in an index, or empty.
func (t *Tx) nextHash(what byte, after string) (hash string, err error) {
	prefix := key(collectionChildrenKeys, string(what))
	st := under(prefix)
	if after != "" {
		st.from = nextPrefix(prefix + after)
	}
	err = t.scan(st, func(k string, _ *record) bool {
		hash = k[len(prefix) : len(prefix)+hashSize]
		return false
	})
	return hash, err
}

// holders are the first who hold a value of a kind, and the first index in which it stands.
func (t *Tx) holders(indexes []byte, hash string) (hs []SharedHolder, first byte, err error) {
	for _, what := range indexes {
		prefix := key(collectionChildrenKeys, string(what), hash)
		err := t.scan(under(prefix), func(k string, _ *record) bool {
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

// ValidSharedCursor tells whether a cursor can be one of FindShared.
func ValidSharedCursor(c []byte) bool {
	return len(c) == 0 || len(c) == sharedCursor && int(c[0]) < len(sharedKinds) && int(c[1]) < len(sharedKinds[c[0]]) && !bytes.Equal(c[2:], make([]byte, hashSize))
}
