package store

import "math"

// Rows are keyed by one integer that holds the organization's number in the
// upper 31 bits and the seq in the lower 32, so that an organization's entries
// lie together and in order, and an index costs 8 bytes for each.

// MaxOrganization is the highest number of an organization.
const MaxOrganization = math.MaxInt32

// Place is the key of entry seq of an organization. Organizations are numbered
// from 1 by the store.
func Place(organization int64, seq uint64) int64 {
	return organization<<32 | int64(seq&MaxSeq)
}

// Seq is the seq in a key.
func Seq(place int64) uint64 { return uint64(place) & MaxSeq }

// NodePlace is the key of a tree node that is stored: level 8, 16 or 24. Index
// is below 2^24, which leaves room for the level in the lower 32 bits.
func NodePlace(organization int64, level uint, index uint64) int64 {
	return organization<<32 | int64(level/8)<<28 | int64(index)
}
