package leaves

import (
	"crypto/sha256"
	"fmt"

	"cloister/attestation/tlog"
	"cloister/shared/wire"
)

const (
	formatBefore = 1 // of headers from before there were logs
	formatLog    = 2 // of those with a leaf
)

// A place is where a batch stands in the store.
type place struct{ epoch, number uint64 }

// A header is a batch's: one with a leaf of a log, or one of before.
type header struct {
	log    *logHeader
	before place
}

// A logHeader is what matters here of a wire.BatchHeader.
type logHeader struct {
	Format     uint8      `cbor:"1,keyasint"`
	Deployment wire.Hash  `cbor:"2,keyasint"`
	Range      wire.Range `cbor:"3,keyasint"`
	Generation uint32     `cbor:"4,keyasint"`
	Position   uint64     `cbor:"5,keyasint"`
	Previous   wire.Hash  `cbor:"6,keyasint"`
	Leaf       []byte     `cbor:"7,keyasint"`
	Tips       unread     `cbor:"8,keyasint"`
	Table      unread     `cbor:"9,keyasint"`
}

// unread is passed over: tips are most of a header, and what else the enclave keeps there is its own.
type unread struct{}

func (*unread) UnmarshalCBOR([]byte) error { return nil }

// beforeLogs is what a header of format 1 holds.
type beforeLogs struct {
	Format     uint8      `cbor:"1,keyasint"`
	Deployment wire.Hash  `cbor:"2,keyasint"`
	Boot       wire.ID    `cbor:"3,keyasint"`
	BootNumber uint64     `cbor:"4,keyasint"`
	Epoch      uint64     `cbor:"5,keyasint"`
	Number     uint64     `cbor:"6,keyasint"`
	Previous   wire.Hash  `cbor:"7,keyasint"`
	Tips       unread     `cbor:"8,keyasint"`
	Range      wire.Range `cbor:"9,keyasint,omitempty"`
}

var errHeader = fmt.Errorf("%w: a header that cannot be read", ErrOther)

// parseHeader reads a header. Its MAC only the enclave can verify.
func parseHeader(b []byte) (*header, error) {
	if end := len(b) - sha256.Size; end > 0 {
		h := new(logHeader)
		if wire.Unmarshal(b[:end], h) == nil && h.Format == formatLog {
			return &header{log: h}, nil
		}
	}
	h := new(beforeLogs)
	if wire.Unmarshal(b, h) != nil || h.Format != formatBefore {
		return nil, errHeader
	}
	return &header{before: place{h.Epoch, h.Number}}, nil
}

// IsBeforeLogs reports whether a header is of a release without logs.
func IsBeforeLogs(b []byte) bool {
	h, err := parseHeader(b)
	return err == nil && h.log == nil
}

// batchPlace is where its batch stands, as the leaf says.
func (h *header) batchPlace() (place, error) {
	if h.log == nil {
		return h.before, nil
	}
	leaf, err := tlog.ParseLeaf(h.log.Leaf)
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", errHeader, err)
	}
	return place{leaf.Epoch, leaf.Number}, nil
}
