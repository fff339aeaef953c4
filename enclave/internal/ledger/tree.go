package ledger

import (
	"crypto/sha256"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/shared/wire"
)

// A tree is an organization's RFC 6962 tree: what it takes to append a leaf.
type tree struct {
	count uint64
	root  wire.Hash
	edge  *compact.Range
}

func newTree() tree {
	return tree{root: wire.Hash(rfc6962.DefaultHasher.EmptyRoot()), edge: ranges.NewEmptyRange(0)}
}

func (t *tree) tip() Tip { return Tip{t.count, t.root} }

// grow appends a sealed entry.
func (t *tree) grow(sealed []byte) error {
	if err := t.edge.Append(rfc6962.DefaultHasher.HashLeaf(sealed), nil); err != nil {
		return fmt.Errorf("growing a tree: %w", err)
	}
	root, err := t.edge.GetRootHash(nil)
	if err != nil {
		return fmt.Errorf("growing a tree: %w", err)
	}
	t.root = wire.Hash(root)
	t.count++
	return nil
}

var ranges = compact.RangeFactory{Hash: hashChildren}

// hashChildren is rfc6962.DefaultHasher's, which allocates three times for each hash:
// an entry takes as many of them as its tree has levels.
func hashChildren(left, right []byte) []byte {
	var b [1 + 2*sha256.Size]byte
	b[0] = rfc6962.RFC6962NodeHashPrefix
	copy(b[1:], left)
	copy(b[1+sha256.Size:], right)
	sum := sha256.Sum256(b[:])
	return sum[:]
}
