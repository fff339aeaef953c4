package org

import (
	"slices"
	"sort"
)

// scanDown visits the slots of keys k with k < to that begin with prefix, the
// highest first, until visit returns false. To begins with prefix too.
func (s *State) scanDown(prefix, to string, visit func(key string, v *slot) bool) error {
	over := s.order()
	oi, _ := slices.BinarySearch(over, to)
	pi := sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].lo >= to })
	var keys []string // of the piece at pi, those still to come
	for {
		for len(keys) == 0 && pi > 0 && (pi == len(s.pieces) || s.pieces[pi].lo > prefix) {
			pi--
			p := s.pieces[pi]
			if p.run == nil {
				// The overlay cannot tell what stands in an absent piece.
				return &Missing{Piece: p.ref}
			}
			n, _ := slices.BinarySearch(p.run.keys, to)
			keys = p.run.keys[:n]
		}
		var k string
		var v *slot
		if n := len(keys) - 1; n >= 0 {
			k, v = keys[n], s.pieces[pi].run.slots[n]
		}
		if oi > 0 && over[oi-1] >= k {
			if oi--; over[oi] == k {
				keys = keys[:len(keys)-1]
			}
			k = over[oi]
			v = s.over[k]
		} else if len(keys) > 0 {
			keys = keys[:len(keys)-1]
		}
		if k == "" || !has(k, prefix) {
			return nil
		}
		if v != nil && !visit(k, v) {
			return nil
		}
	}
}

// scanDown visits the change's view of the keys below to that begin with prefix,
// the highest first.
func (t *Tx) scanDown(prefix, to string, visit func(key string, v *slot) bool) error {
	var mine []string
	for k, v := range t.mine {
		if has(k, prefix) && k < to && v != nil {
			mine = append(mine, k)
		}
	}
	slices.Sort(mine)
	going := true
	last := func() {
		n := len(mine) - 1
		going = visit(mine[n], t.mine[mine[n]])
		mine = mine[:n]
	}
	err := t.state.scanDown(prefix, to, func(k string, v *slot) bool {
		for len(mine) > 0 && mine[len(mine)-1] > k && going {
			last()
		}
		if !going {
			return false
		}
		if w, ok := t.mine[k]; ok {
			if w != nil {
				last()
			}
			return going
		}
		going = visit(k, v)
		return going
	})
	for err == nil && going && len(mine) > 0 {
		last()
	}
	return err
}

// ChildrenByAbove is ChildrenBy for the up to limit sub-organizations just above
// before, in the order of their making.
func (t *Tx) ChildrenByAbove(what byte, value string, before *Child, limit int) ([]ID, error) {
	return t.childrenAbove(key(collectionChildrenKeys, string(what), hashKey(value)), before, limit)
}

// ChildrenAbove returns up to limit sub-organizations in the order of their
// making, those just above before.
func (t *Tx) ChildrenAbove(before *Child, limit int) ([]ID, error) {
	return t.childrenAbove(key(collectionChildrenOrder), before, limit)
}

func (t *Tx) childrenAbove(prefix string, before *Child, limit int) ([]ID, error) {
	var ids []ID
	if limit <= 0 {
		return ids, nil
	}
	at := len(prefix) + 8
	err := t.scanDown(prefix, prefix+bigEndian(before.CreatedMs)+raw(before.ID), func(k string, _ *slot) bool {
		id := ID([]byte(k[at : at+16]))
		if len(ids) == 0 || ids[len(ids)-1] != id {
			if len(ids) == limit {
				return false
			}
			ids = append(ids, id)
		}
		return true
	})
	slices.Reverse(ids)
	return ids, err
}
