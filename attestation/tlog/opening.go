package tlog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// The leaf of a batch commits to the tips that the batch moves, without showing which they are or how
// many: it has the root of an RFC 6962 tree over salted tips, sorted by their hashes, and filled up to a
// power of two with hashes that look like theirs. One tip's opening shows that power and nothing about the others.

// maxDepth is the longest Opening.Path: a batch has at most 2^maxDepth tips.
const maxDepth = 32

// An Opening is a proof that a batch moved an organization to a tip: the number of entries of its ledger,
// and the root of the RFC 6962 tree over them.
//
// In a logged proof its bytes are CBOR in the deterministic encoding of RFC 8949, section 4.2.1.
type Opening struct {
	Organization [16]byte `cbor:"1,keyasint"`
	Count        uint64   `cbor:"2,keyasint"`
	Root         [32]byte `cbor:"3,keyasint"`
	Salt         [16]byte `cbor:"4,keyasint"`
	Index        uint64   `cbor:"5,keyasint"`           // among the tips of the batch
	Path         [][]byte `cbor:"6,keyasint,omitempty"` // from the leaf up; 2^len(Path) tips look like moved ones
}

// Hash is the tip's leaf in the tree of its batch: the RFC 6962 hash of organization, count (8 bytes,
// big-endian), root and salt.
func (o *Opening) Hash() [32]byte {
	b := make([]byte, 1, 1+16+8+32+16) // the first byte is RFC 6962's for a leaf
	b = binary.BigEndian.AppendUint64(append(b, o.Organization[:]...), o.Count)
	return sha256.Sum256(append(append(b, o.Root[:]...), o.Salt[:]...))
}

// Verify verifies an opening against the root in the leaf of its batch.
func (o *Opening) Verify(root [32]byte) error {
	if err := o.check(); err != nil {
		return err
	}
	leaf := o.Hash()
	return proof.VerifyInclusion(rfc6962.DefaultHasher, o.Index, 1<<len(o.Path), leaf[:], o.Path, root[:])
}

func (o *Opening) check() error {
	if len(o.Path) > maxDepth {
		return errors.New("tlog: an opening is too deep")
	}
	return checkPath(o.Path)
}
