package org

import (
	"slices"
	"sort"
)

// A stretch is the keys k with from <= k < to, in order or, if down, the highest first.
type stretch struct {
	from, to string
	down     bool
}

// under is the stretch of the keys that begin with prefix.
func under(prefix string) stretch { return stretch{from: prefix, to: above(prefix)} }

// above is the lowest key above all that begin with prefix. A collection's byte is never 0xff.
func above(prefix string) string {
	b := []byte(prefix)
	for b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	b[len(b)-1]++
	return string(b)
}

// in tells where the stretch begins and ends among keys, which ascend.
func (st stretch) in(keys []string) (lo, hi int) {
	lo, _ = slices.BinarySearch(keys, st.from)
	hi, _ = slices.BinarySearch(keys, st.to)
	return lo, max(lo, hi)
}

// A visitor is called for one record after the other until it returns false.
type visitor = func(key string, v *slot) bool

// visit visits the records from place lo to below hi.
func (r *run) visit(lo, hi int, down bool, visit visitor) {
	for n := range hi - lo {
		i := lo + n
		if down {
			i = hi - 1 - n
		}
		if !visit(r.keys[i], r.slots[i]) {
			return
		}
	}
}

// overlay visits the records that base visits, with those of over laid over them: they
// stand in place of base's under the same key, and a nil one deletes. keys are over's in
// the order of the visit.
func overlay(base func(visitor), keys []string, over map[string]*slot, down bool, visit visitor) {
	going := true
	next := func() {
		k := keys[0]
		keys = keys[1:]
		if v := over[k]; v != nil {
			going = visit(k, v)
		}
	}
	base(func(k string, v *slot) bool {
		for going && len(keys) > 0 && keys[0] != k && keys[0] < k != down {
			next()
		}
		switch {
		case !going:
		case len(keys) > 0 && keys[0] == k:
			next()
		default:
			going = visit(k, v)
		}
		return going
	})
	for going && len(keys) > 0 {
		next()
	}
}

// scan visits the records of a stretch.
func (s *State) scan(st stretch, visit visitor) error {
	over, going := s.order(), true
	first := s.at(st.from)
	end := sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].lo >= st.to })
	for n := range end - first {
		i := first + n
		if st.down {
			i = end - 1 - n
		}
		p := s.pieces[i]
		if p.run == nil {
			return &Missing{Piece: p.ref} // what was written since cannot tell what stands in it
		}
		here := stretch{from: max(st.from, p.lo), to: st.to, down: st.down}
		if i+1 < end {
			here.to = s.pieces[i+1].lo
		}
		lo, hi := here.in(over)
		keys := over[lo:hi]
		if st.down {
			keys = slices.Clone(keys)
			slices.Reverse(keys)
		}
		base := func(visit visitor) {
			lo, hi := here.in(p.run.keys)
			p.run.visit(lo, hi, st.down, visit)
		}
		overlay(base, keys, s.over, st.down, func(k string, v *slot) bool {
			going = visit(k, v)
			return going
		})
		if !going {
			break
		}
	}
	return nil
}

// scan visits the records of a stretch as the change sees them.
func (t *Tx) scan(st stretch, visit visitor) (err error) {
	var mine []string
	for k := range t.mine {
		if st.from <= k && k < st.to {
			mine = append(mine, k)
		}
	}
	slices.Sort(mine)
	if st.down {
		slices.Reverse(mine)
	}
	base := func(visit visitor) { err = t.state.scan(st, visit) }
	overlay(base, mine, t.mine, st.down, func(k string, v *slot) bool { return err == nil && visit(k, v) })
	return err
}
