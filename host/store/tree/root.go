package tree

import (
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/shared/wire"
)

// A Run is Count consecutive hashes of a stored level, 1 to Span.
type Run struct {
	Level uint
	From  uint64
	Count int
}

// Runs returns the hashes from which the root of the first size leaves, at most 2^32, is computed, from
// left to right: at most one run of each stored level.
func Runs(size uint64) []Run {
	var runs []Run
	for level, at := uint(24), uint64(0); ; level -= step {
		if n := size>>level - at; n > 0 {
			runs = append(runs, Run{level, at, int(n)})
		}
		if level == 0 {
			return runs
		}
		at = size >> level << step
	}
}

// Root is the RFC 6962 root of the first size leaves, at most 2^32; for size 0 it is the hash of the empty
// string. It reads the Runs of the tree, and fails if one cannot be read.
func Root(size uint64, source Source) (wire.Hash, error) {
	edge := edges.NewEmptyRange(0)
	for _, r := range Runs(size) {
		hashes, err := source(r.Level, r.From, r.Count)
		if err != nil {
			return wire.Hash{}, err
		}
		if len(hashes) != r.Count {
			return wire.Hash{}, fmt.Errorf("read %d hashes of %d at level %d", len(hashes), r.Count, r.Level)
		}
		for i := range hashes {
			if err := appendNode(edge, r.Level, r.From+uint64(i), hashes[i]); err != nil {
				return wire.Hash{}, err
			}
		}
	}
	return rootOf(edge)
}

// appendNode puts the leaves below one node behind those of an edge.
func appendNode(edge *compact.Range, level uint, index uint64, hash wire.Hash) error {
	node, err := edges.NewRange(index<<level, (index+1)<<level, [][]byte{hash[:]})
	if err == nil {
		err = edge.AppendRange(node, nil)
	}
	if err != nil {
		return fmt.Errorf("root of a tree: %w", err)
	}
	return nil
}

// rootOf is the root over all leaves of an edge that begins with the first.
func rootOf(edge *compact.Range) (wire.Hash, error) {
	if edge.End() == 0 {
		return wire.Hash(rfc6962.DefaultHasher.EmptyRoot()), nil
	}
	root, err := edge.GetRootHash(nil)
	if err != nil {
		return wire.Hash{}, fmt.Errorf("root of a tree: %w", err)
	}
	return wire.Hash(root), nil
}
