package tree

import (
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/shared/wire"
)

var edges = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// A Node is a complete node of a tree. A store keeps those of levels 8, 16 and 24.
type Node struct {
	Level uint
	Index uint64
	Hash  wire.Hash
}

// A Builder builds a tree leaf by leaf. It holds only the right edge: at most 3 × 256 hashes.
type Builder struct {
	edge   *compact.Range
	levels [3][]wire.Hash // hashes of levels 0, 8 and 16 that are not yet under a stored node
}

// NewBuilder makes the Builder of an empty tree.
func NewBuilder() *Builder { return &Builder{edge: edges.NewEmptyRange(0)} }

// Add adds the next leaf's hash and returns the stored nodes that it completes, lowest first. It fails
// only if the tree is full.
func (b *Builder) Add(leaf wire.Hash) ([]Node, error) {
	index := b.edge.End()
	if err := b.edge.Append(leaf[:], nil); err != nil {
		return nil, fmt.Errorf("growing a tree: %w", err)
	}
	var made []Node
	hash := leaf
	for i := range b.levels {
		b.levels[i] = append(b.levels[i], hash)
		if len(b.levels[i]) < Span {
			break
		}
		var err error
		if hash, err = Fold(b.levels[i]); err != nil {
			return nil, err
		}
		b.levels[i] = b.levels[i][:0]
		level := step * uint(i+1)
		made = append(made, Node{Level: level, Index: index >> level, Hash: hash})
	}
	return made, nil
}

// Size is the number of leaves.
func (b *Builder) Size() uint64 { return b.edge.End() }

// Root is the RFC 6962 root of all leaves; without leaves it is the hash of the empty string.
func (b *Builder) Root() (wire.Hash, error) { return rootOf(b.edge) }
