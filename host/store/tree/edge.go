package tree

import (
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/shared/wire"
)

// An Edge is a tree in the form of its right edge: the complete nodes from which the root is computed. Leaves can be appended.
type Edge struct{ edge *compact.Range }

// NewEdge makes the Edge of a tree of size leaves from the hashes of its nodes, left to right: one for each bit set in size.
func NewEdge(size uint64, hashes []wire.Hash) (*Edge, error) {
	var nodes [][]byte
	for _, h := range hashes {
		nodes = append(nodes, h[:])
	}
	edge, err := edges.NewRange(0, size, nodes)
	if err != nil {
		return nil, fmt.Errorf("edge of a tree of %d leaves: %w", size, err)
	}
	return &Edge{edge}, nil
}

// Size is the number of leaves.
func (e *Edge) Size() uint64 { return e.edge.End() }

// Nodes returns the nodes of the edge.
func (e *Edge) Nodes() []Node {
	hashes := e.edge.Hashes()
	var all []Node
	for i, id := range compact.RangeNodes(0, e.edge.End(), nil) {
		all = append(all, Node{id.Level, id.Index, wire.Hash(hashes[i])})
	}
	return all
}

// Append adds the next leaf's hash and returns the leaf and the nodes of stored levels that it completes. It fails only if
// the tree is full.
func (e *Edge) Append(leaf wire.Hash) (made []Node, err error) {
	err = e.edge.Append(leaf[:], func(id compact.NodeID, hash []byte) {
		if id.Level%step == 0 {
			made = append(made, Node{id.Level, id.Index, wire.Hash(hash)})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("growing a tree: %w", err)
	}
	return made, nil
}

// Join is the hash of the parent of two nodes.
func Join(left, right wire.Hash) wire.Hash {
	return wire.Hash(rfc6962.DefaultHasher.HashChildren(left[:], right[:]))
}

// Root is the RFC 6962 root of all leaves; without leaves it is the hash of the empty string.
func (e *Edge) Root() (wire.Hash, error) { return rootOf(e.edge) }

// Clone returns a copy of the edge.
func (e *Edge) Clone() *Edge {
	edge, err := edges.NewRange(0, e.edge.End(), slices.Clone(e.edge.Hashes()))
	if err != nil {
		panic(err) // it has as many hashes as its size wants
	}
	return &Edge{edge}
}
