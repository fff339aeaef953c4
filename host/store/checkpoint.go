package store

import (
	"context"

	"cloister/shared/wire"
)

// Checkpoints stores the newest checkpoints of the logs. With them a command asks witnesses for their state without an
// enclave. The store does not verify them; their readers must.
type Checkpoints interface {
	// PutCheckpoint stores, for a range and generation, the larger of the stored and the new signed checkpoint, and the
	// larger of the two cosigned ones.
	PutCheckpoint(ctx context.Context, c Checkpoint) error
	// LoadCheckpoints returns the checkpoints of all ranges and generations, in that order.
	LoadCheckpoints(ctx context.Context) ([]Checkpoint, error)
}

// A Checkpoint is the newest signed and the newest cosigned checkpoint of one log.
type Checkpoint struct {
	Range      wire.Range
	Generation uint32
	Policy     string // policy of the witnesses that it was sent to
	Size       uint64 // leaves in Signed
	Signed     []byte // note with the log's signature
	// CosignedSize and Cosigned are the size and note of the newest checkpoint with a quorum of cosignatures; 0 and empty if there is none.
	CosignedSize uint64
	Cosigned     []byte
}

// MaxCheckpoint bounds the bytes of a policy, and of a checkpoint with its signatures.
const MaxCheckpoint = 64 << 10

// CheckCheckpoint checks the limits of a PutCheckpoint. Errors are ErrRefused.
func CheckCheckpoint(c *Checkpoint) error {
	switch {
	case c.Size == 0 || c.Size > 1<<62 || c.CosignedSize > c.Size:
		return refuse("checkpoint of %d leaves, one of %d cosigned", c.Size, c.CosignedSize)
	case len(c.Signed) == 0 || max(len(c.Signed), len(c.Cosigned), len(c.Policy)) > MaxCheckpoint:
		return refuse("checkpoint of %d bytes, one of %d cosigned, policy of %d", len(c.Signed), len(c.Cosigned), len(c.Policy))
	case (c.CosignedSize == 0) != (len(c.Cosigned) == 0):
		return refuse("cosigned checkpoint of %d leaves and %d bytes", c.CosignedSize, len(c.Cosigned))
	}
	return checkRange(uint32(c.Range))
}
