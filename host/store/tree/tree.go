// Package tree computes roots and proofs of an organization's RFC 6962 Merkle tree in the form that a
// store keeps: the hash of every leaf, and the nodes at levels 8, 16 and 24, each over 256 nodes of the
// stored level below. So an inclusion proof reads at most 256 hashes of each stored level.
//
// Proofs are in the order of RFC 6962, from the leaf up. A size may be smaller than the stored tree.
// The arithmetic is that of transparency-dev/merkle.
package tree

import (
	"fmt"

	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/attestation/tlog"
	"cloister/shared/wire"
)

// Span is the number of nodes of one stored level under a node of the next.
const Span = 256

const step = 8 // levels between stored levels

// Leaf is the hash of an entry's sealed bytes, whatever their format.
func Leaf(sealed []byte) wire.Hash { return tlog.HashStored(sealed) }

// CompletedLevels lists the stored levels, ascending, at which the leaf completes a node. The node's
// index is index>>level.
func CompletedLevels(index uint64) []uint {
	var levels []uint
	for level := uint(step); level <= 24 && (index+1)%(1<<level) == 0; level += step {
		levels = append(levels, level)
	}
	return levels
}

// Fold is the hash of the node over Span hashes of one stored level.
func Fold(hashes []wire.Hash) (wire.Hash, error) {
	if len(hashes) != Span {
		return wire.Hash{}, fmt.Errorf("folding %d hashes, want %d", len(hashes), Span)
	}
	return Peak(hashes), nil
}

// Peak is the hash of the node over consecutive hashes of one level; their number is a power of two.
func Peak(hashes []wire.Hash) wire.Hash {
	for len(hashes) > 1 {
		hashes = above(hashes)
	}
	return hashes[0]
}

// above gives the complete nodes of the next level.
func above(hashes []wire.Hash) []wire.Hash {
	up := make([]wire.Hash, len(hashes)/2)
	for i := range up {
		up[i] = wire.Hash(rfc6962.DefaultHasher.HashChildren(hashes[2*i][:], hashes[2*i+1][:]))
	}
	return up
}

// A Source reads count hashes, at most Span, of a stored level (0, 8, 16 or 24), starting at index
// from. It fails if one is missing.
type Source func(level uint, from uint64, count int) ([]wire.Hash, error)

// A Prover makes inclusion proofs for one tree size. It caches the hashes that it has read, so that
// proofs of neighbouring entries cost little more than one. It is not safe for concurrent use.
type Prover struct {
	size   uint64
	source Source
	blocks map[block][][]wire.Hash
}

type block struct {
	level uint
	index uint64
}

// NewProver makes a Prover for the tree of the first size leaves.
func NewProver(size uint64, source Source) *Prover {
	return &Prover{size: size, source: source, blocks: map[block][][]wire.Hash{}}
}

// Prove returns the inclusion proof of a leaf. It fails if the leaf is not in the tree or a hash
// cannot be read.
func (p *Prover) Prove(index uint64) ([]wire.Hash, error) {
	return Nodes(p.node).ProveInclusion(index, p.size)
}

func (p *Prover) node(level uint, index uint64) (wire.Hash, error) {
	base := level - level%step
	at := block{base, index >> (step - level%step)}
	levels, ok := p.blocks[at]
	if !ok {
		var err error
		if levels, err = p.read(at); err != nil {
			return wire.Hash{}, err
		}
		p.blocks[at] = levels
	}
	row := levels[level%step]
	offset := index - at.index<<(step-level%step)
	if offset >= uint64(len(row)) {
		return wire.Hash{}, fmt.Errorf("node %d at level %d is not complete", index, level)
	}
	return row[offset], nil
}

// read builds the complete nodes of the 8 levels above one block.
func (p *Prover) read(at block) ([][]wire.Hash, error) {
	from, end := at.index*Span, p.size>>at.level
	if from >= end {
		return make([][]wire.Hash, step), nil
	}
	count := int(min(Span, end-from))
	row, err := p.source(at.level, from, count)
	if err != nil {
		return nil, err
	}
	if len(row) != count {
		return nil, fmt.Errorf("read %d hashes of %d at level %d", len(row), count, at.level)
	}
	levels := make([][]wire.Hash, step)
	for i := range levels {
		levels[i] = row
		row = above(row)
	}
	return levels, nil
}
