package tree

import (
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/shared/wire"
)

// Nodes reads the complete node of a level, 0 for leaves, with an index. It fails if it cannot be read.
type Nodes func(level uint, index uint64) (wire.Hash, error)

// Root is the RFC 6962 root of the first size leaves; for size 0 it is the hash of the empty string.
func (n Nodes) Root(size uint64) (wire.Hash, error) {
	var hashes [][]byte
	for _, id := range compact.RangeNodes(0, size, nil) {
		h, err := n(id.Level, id.Index)
		if err != nil {
			return wire.Hash{}, err
		}
		hashes = append(hashes, h[:])
	}
	edge, err := edges.NewRange(0, size, hashes)
	if err != nil {
		return wire.Hash{}, fmt.Errorf("root of a tree: %w", err)
	}
	return rootOf(edge)
}

// ProveConsistency returns the proof that the tree of the first size leaves extends that of the first old leaves, in the order
// of RFC 6962, section 2.1.2: at most 63 hashes, and none if old is 0 or size. It fails if old is greater than size, or a
// node cannot be read.
func (n Nodes) ProveConsistency(old, size uint64) ([]wire.Hash, error) {
	nodes, err := proof.Consistency(old, size)
	if err != nil {
		return nil, fmt.Errorf("proving that a tree grew: %w", err)
	}
	return n.path(nodes)
}

// ProveInclusion returns the proof that a leaf is in the tree of the first size leaves, from the leaf up. It fails if the leaf
// is not in that tree, or a node cannot be read.
func (n Nodes) ProveInclusion(index, size uint64) ([]wire.Hash, error) {
	nodes, err := proof.Inclusion(index, size)
	if err != nil {
		return nil, fmt.Errorf("proving a leaf: %w", err)
	}
	return n.path(nodes)
}

// path reads the nodes of a proof.
func (n Nodes) path(nodes proof.Nodes) ([]wire.Hash, error) {
	hashes := make([][]byte, len(nodes.IDs))
	for i, id := range nodes.IDs {
		h, err := n(id.Level, id.Index)
		if err != nil {
			return nil, err
		}
		hashes[i] = h[:]
	}
	hashes, err := nodes.Rehash(hashes, rfc6962.DefaultHasher.HashChildren)
	if err != nil {
		return nil, fmt.Errorf("reading the nodes of a proof: %w", err)
	}
	path := make([]wire.Hash, len(hashes))
	for i, h := range hashes {
		path[i] = wire.Hash(h)
	}
	return path, nil
}
