package monitor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/bits"
	"slices"
)

// A Hash is a node of an RFC 6962 tree. In JSON it is 64 digits of lower-case hex.
type Hash [sha256.Size]byte

// MarshalText writes the 64 digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 digits of hex.
func (h *Hash) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(h) {
		return errors.New("monitor: a hash is 64 digits of hex")
	}
	*h = Hash(b)
	return nil
}

// The right edge of an RFC 6962 tree of n leaves is the roots of the perfect trees that it is made of, the largest first:
// one for each bit set in n. Two trees of n leaves are the same tree exactly if their edges are equal.

// leftOf returns the right edge of the leaves before a leaf, from that leaf's verified path in a tree of size leaves: the
// siblings on the left.
func leftOf(index, size uint64, path [][]byte) (edge []Hash) {
	inner := bits.Len64(index ^ (size - 1)) // at lower levels the sibling may be on either side, from this one on always on the left
	for i, hash := range path {
		if i >= inner || index>>i&1 == 1 {
			edge = append(edge, Hash(hash))
		}
	}
	slices.Reverse(edge)
	return edge
}

// grow returns the right edge after one more leaf than n.
func grow(edge []Hash, n uint64, leaf Hash) []Hash {
	edge = append(slices.Clone(edge), leaf)
	for ; n&1 == 1; n >>= 1 {
		last := len(edge) - 1
		node := sha256.Sum256(slices.Concat([]byte{1}, edge[last-1][:], edge[last][:]))
		edge = append(edge[:last-1], node)
	}
	return edge
}
