package ledger

import (
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/log"
	"cloister/shared/wire"
)

// A tree is the state of an organization's RFC 6962 tree: its size, root and right edge.
type tree struct {
	count uint64
	root  wire.Hash
	edge  *compact.Range
}

func newTree() tree {
	return tree{root: wire.Hash(rfc6962.DefaultHasher.EmptyRoot()), edge: log.EdgeFactory.NewEmptyRange(0)}
}

func (t *tree) tip() Tip { return Tip{t.count, t.root} }

// grow appends the leaf of a stored entry.
func (t *tree) grow(sealed []byte) error {
	leaf := tlog.HashStored(sealed)
	if err := t.edge.Append(leaf[:], nil); err != nil {
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
