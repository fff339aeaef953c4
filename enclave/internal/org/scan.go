package org

import (
	"cmp"
	"slices"
	"sort"
)

// A keyRange is the interval of keys from <= k < to, in ascending order or, if down, descending.
type keyRange struct {
	from, to   string
	descending bool
}

// keysWithPrefix is the range of the keys that begin with prefix.
func keysWithPrefix(prefix string) keyRange { return keyRange{from: prefix, to: nextPrefix(prefix)} }

// nextPrefix is the lowest key after all that begin with prefix. A collection's byte is never 0xff.
func nextPrefix(prefix string) string {
	b := []byte(prefix)
	for b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	b[len(b)-1]++
	return string(b)
}

// indexesIn returns the indices at which the range begins and ends in sorted keys.
func (st keyRange) indexesIn(keys []string) (lo, hi int) {
	lo, _ = slices.BinarySearch(keys, st.from)
	hi, _ = slices.BinarySearch(keys, st.to)
	return lo, max(lo, hi)
}

// A visitor is called for one record after the other until it returns false.
type visitor = func(key string, v *record) bool

// visit visits the records from index lo to before hi, merged with an overlay: over returns the
// overlay's records for keys, which are sorted. They replace the content's under the same key, and
// a nil one deletes. It returns false once visit has.
func (r *content) visit(lo, hi int, keys []string, over func(key string) *record, down bool, visit visitor) bool {
	for lo < hi || len(keys) > 0 {
		i, j := lo, 0
		if down {
			i, j = hi-1, len(keys)-1
		}
		order := -1 // the run's record comes first
		switch {
		case lo == hi:
			order = 1
		case len(keys) > 0:
			if order = cmp.Compare(r.keys[i], keys[j]); down {
				order = -order
			}
		}
		var k string
		var v *record
		if order < 0 {
			k, v = r.keys[i], r.records[i]
		} else {
			k, v = keys[j], over(keys[j])
		}
		switch {
		case order <= 0 && down:
			hi--
		case order <= 0:
			lo++
		}
		switch {
		case order >= 0 && down:
			keys = keys[:j]
		case order >= 0:
			keys = keys[1:]
		}
		if v != nil && !visit(k, v) {
			return false
		}
	}
	return true
}

// scan visits the records of a key range, with the overlay mine merged into them.
func (s *State) scan(st keyRange, mine map[string]*record, visit visitor) error {
	written := s.sortKeys()
	over := func(k string) *record {
		if v, ok := mine[k]; ok {
			return v
		}
		return s.overlay[k]
	}
	first := s.pieceIndex(st.from)
	end := sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].lo >= st.to })
	for n := range end - first {
		i := first + n
		if st.descending {
			i = end - 1 - n
		}
		p := s.pieces[i]
		if p.content == nil {
			return &Retry{LoadPiece: p.ref} // its records are needed, whatever was written since
		}
		here := keyRange{from: max(st.from, p.lo), to: st.to}
		if i+1 < end {
			here.to = s.pieces[i+1].lo
		}
		lo, hi := here.indexesIn(written)
		keys := written[lo:hi:hi] // appending copies them
		for k := range mine {
			if here.from <= k && k < here.to {
				keys = append(keys, k)
			}
		}
		if len(keys) > hi-lo {
			slices.Sort(keys)
			keys = slices.Compact(keys)
		}
		lo, hi = here.indexesIn(p.content.keys)
		if !p.content.visit(lo, hi, keys, over, st.descending, visit) {
			break
		}
	}
	return nil
}
