package wire

import (
	"bytes"
	"errors"
	"math/bits"
)

// A KeptTable is the stored form of a range's newest tip table without its pages (TipTable.Table). A boot starts from it and
// from the headers after it. A host, too, reads the log from there on, and earlier leaves only when they are requested. It is
// not authenticated: the log names a table before the host stores it, and an enclave believes the table once it has read that.
//
// The SHA-256 of all pages, in their order, are stored in blocks of BlockPages hashes, the last one shorter. Blocks are stored
// and loaded like pages. So a table of any size fits into a frame.
type KeptTable struct {
	Format   uint8  `cbor:"1,keyasint"` // 2
	Covers   uint64 `cbor:"2,keyasint"` // number of the log's leaves that the table covers
	Previous Hash   `cbor:"3,keyasint"` // SHA-256 of the last covered batch's header
	Edge     []byte `cbor:"4,keyasint"` // right edge of the tree over the covered leaves: hashes of 32 bytes, left to right
	Tips     uint64 `cbor:"5,keyasint"`
	Blocks   []byte `cbor:"6,keyasint"`          // SHA-256 of each block; in format 1, which no release wrote, of each page
	Epoch    uint64 `cbor:"7,keyasint"`          // epoch of the first batch that is not covered,
	Number   uint64 `cbor:"8,keyasint"`          // and its number, whether it exists yet or not
	Policy   Hash   `cbor:"9,keyasint,omitzero"` // from here on, except Generation, as in TableHead
	Mode     uint8  `cbor:"10,keyasint,omitempty"`
	Boots    uint64 `cbor:"11,keyasint,omitempty"`
	// Generation is the generation of the log whose leaves are covered; 0: the first.
	Generation    uint32 `cbor:"12,keyasint,omitempty"`
	Recovered     uint32 `cbor:"13,keyasint,omitempty"`
	RecoveredMs   uint64 `cbor:"14,keyasint,omitempty"`
	ManifestNonce uint64 `cbor:"15,keyasint,omitempty"`
	WaitMs        uint64 `cbor:"16,keyasint,omitempty"`
}

const (
	// KeptFormat is the value of KeptTable.Format, KeptPages that of format 1.
	KeptFormat = 2
	KeptPages  = 1
	// BlockPages is the number of pages of a block. Their hashes have 32 KiB.
	BlockPages = 1024
)

var errKept = errors.New("wire: what was kept of a tip table is none")

// ParseKeptTable decodes a KeptTable and refuses all encodings but Marshal's, and an edge that has not as many hashes as that
// of a tree with Covers leaves. It doesn't check that the table belongs to the log: the caller must.
func ParseKeptTable(b []byte) (*KeptTable, error) {
	k := new(KeptTable)
	if len(b) > MaxTable || Unmarshal(b, k) != nil || k.Format != KeptFormat && k.Format != KeptPages || k.Covers > 1<<62 || k.Tips > 1<<40 ||
		len(k.Edge) != bits.OnesCount64(k.Covers)*len(Hash{}) || len(k.Blocks)%len(Hash{}) != 0 {
		return nil, errKept
	}
	if again, err := Marshal(k); err != nil || !bytes.Equal(again, b) {
		return nil, errKept
	}
	return k, nil
}

// EdgeHashes returns the hashes in Edge.
func (k *KeptTable) EdgeHashes() []Hash { return hashesOf(k.Edge) }

// BlockHashes returns the hashes in Blocks.
func (k *KeptTable) BlockHashes() []Hash { return hashesOf(k.Blocks) }

func hashesOf(b []byte) []Hash {
	all := make([]Hash, 0, len(b)/len(Hash{}))
	for ; len(b) > 0; b = b[len(Hash{}):] {
		all = append(all, Hash(b))
	}
	return all
}
