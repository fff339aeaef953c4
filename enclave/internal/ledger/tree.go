package ledger

import (
	"crypto/sha256"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/shared/wire"
)

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

var emptyRoot = wire.Hash(rfc6962.DefaultHasher.EmptyRoot())
