package store

import "math"

// A place is the integer key of an entry's row: the organization's number in the
// upper 31 bits and the seq in the lower 32. So an organization's entries are
// adjacent and in order, and an index needs 8 bytes for each.

// MaxOrganization is the highest organization number.
const MaxOrganization = math.MaxInt32

// Place is the key of entry seq of an organization, given by its number. The store
// numbers organizations from 1.
func Place(organization int64, seq uint64) int64 {
	return organization<<32 | int64(seq&MaxSeq)
}

// Seq extracts the seq from a place.
func Seq(place int64) uint64 { return uint64(place) & MaxSeq }

// NodePlace is the key of a stored tree node, of level 8, 16 or 24. The index is
// below 2^24, so the level fits into the lower 32 bits too.
func NodePlace(organization int64, level uint, index uint64) int64 {
	return organization<<32 | int64(level/8)<<28 | int64(index)
}
