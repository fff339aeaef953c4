package log

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/attestation/tlog"
)

// tree returns the levels, leaves first, of the Merkle tree over the salted tips of the batch at a position. Leaves are sorted, and
// padded to a power of two with random-looking ones, so that they disclose neither organizations nor their number.
func (k *Keys) tree(position uint64, tips []Tip) (levels [][][]byte) {
	size := 1
	for size < len(tips) {
		size *= 2
	}
	leaves := make([][]byte, 0, size)
	for i := range tips {
		leaf := k.opening(tips[i]).Hash()
		leaves = append(leaves, leaf[:])
	}
	b := binary.BigEndian.AppendUint64([]byte("nobody"), position)
	for i := len(tips); i < size; i++ {
		nobody := k.salt(binary.BigEndian.AppendUint64(b, uint64(i)))
		leaves = append(leaves, rfc6962.DefaultHasher.HashLeaf(nobody[:]))
	}
	slices.SortFunc(leaves, bytes.Compare)
	for levels = [][][]byte{leaves}; len(leaves) > 1; levels = append(levels, leaves) {
		next := make([][]byte, len(leaves)/2)
		for i := range next {
			next[i] = rfc6962.DefaultHasher.HashChildren(leaves[2*i], leaves[2*i+1])
		}
		leaves = next
	}
	return levels
}

func (k *Keys) opening(t Tip) *tlog.Opening {
	salt := k.salt(binary.BigEndian.AppendUint64(t.Organization[:], t.Count))
	return &tlog.Opening{Organization: t.Organization, Count: t.Count, Root: t.Root, Salt: [16]byte(salt[:])}
}

// MovedRoot returns the root by which the leaf at a position commits to the new tips of its batch,
// each organization once, in any order.
func (k *Keys) MovedRoot(position uint64, tips []Tip) [32]byte {
	if len(tips) == 1 { // the most frequent case
		return k.opening(tips[0]).Hash()
	}
	levels := k.tree(position, tips)
	return [32]byte(levels[len(levels)-1][0])
}

// Open returns the opening of the i-th tip: its content, its salt and its inclusion proof under the root that MovedRoot
// returns for the tips.
func (k *Keys) Open(position uint64, tips []Tip, i int) *tlog.Opening {
	o := k.opening(tips[i])
	leaf := o.Hash()
	levels := k.tree(position, tips)
	at, _ := slices.BinarySearchFunc(levels[0], leaf[:], bytes.Compare)
	o.Index = uint64(at)
	for _, level := range levels[:len(levels)-1] {
		o.Path = append(o.Path, level[at^1])
		at /= 2
	}
	return o
}
