package store

import (
	"context"

	"cloister/shared/wire"
)

// Checkpoints are what the logs have signed over what is stored here: whoever has the store and no enclave asks witnesses
// with them. What they are worth, who verifies them knows.
type Checkpoints interface {
	// PutCheckpoint keeps, for a range and generation, the larger of what is there and what is put: of what the log has
	// signed, and of what witnesses have cosigned.
	PutCheckpoint(ctx context.Context, c Checkpoint) error
	// LoadCheckpoints gives those of all ranges and generations, in their order.
	LoadCheckpoints(ctx context.Context) ([]Checkpoint, error)
}

// A Checkpoint is the newest of one log.
type Checkpoint struct {
	Range      wire.Range
	Generation uint32
	Policy     string // of the witnesses that it was brought to
	Size       uint64 // of Signed
	Signed     []byte // a note that the log has signed
	// CosignedSize and Cosigned are of the newest with a quorum of witnesses' lines; 0 and empty: none has one.
	CosignedSize uint64
	Cosigned     []byte
}

// MaxCheckpoint bounds a policy, and a checkpoint with its signatures.
const MaxCheckpoint = 64 << 10

// CheckCheckpoint bounds a PutCheckpoint. Errors are ErrRefused.
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
