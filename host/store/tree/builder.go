package tree

import (
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/shared/wire"
)

var edges = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// A Node is a complete one. Stored are those of levels 8, 16 and 24.
type Node struct {
	Level uint
	Index uint64
	Hash  wire.Hash
}

// A Builder grows a tree leaf by leaf, and holds only its right edge: at most 3 × 256 hashes.
type Builder struct {
	edge   *compact.Range
	levels [3][]wire.Hash // of levels 0, 8 and 16: those below the next node
}

// NewBuilder makes the Builder of an empty tree.
func NewBuilder() *Builder { return &Builder{edge: edges.NewEmptyRange(0)} }

// Add adds the next leaf's hash and gives the nodes that it completes, lowest first. It fails only
// when the tree is full.
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

// Size is how many leaves there are.
func (b *Builder) Size() uint64 { return b.edge.End() }

// Root is the RFC 6962 root over all leaves; without leaves it is the hash of nothing.
func (b *Builder) Root() (wire.Hash, error) { return rootOf(b.edge) }
