package wire

import (
	"bytes"
	"errors"
	"math/bits"
)

// A KeptTable is what the host keeps of a range's newest tip table, beside its pages (TipTable.Table). With it and the
// headers behind it a boot begins; a host reads the log from there on, and the leaves before it when somebody asks for them.
// The log names a table before it is kept, so that the headers show an enclave whether it is one.
type KeptTable struct {
	Format   uint8  `cbor:"1,keyasint"` // 1
	Covers   uint64 `cbor:"2,keyasint"` // leaves of the log
	Previous Hash   `cbor:"3,keyasint"` // SHA-256 of the last one's header
	Edge     []byte `cbor:"4,keyasint"` // of the log's tree over them: hashes of 32 bytes, left to right
	Tips     uint64 `cbor:"5,keyasint"`
	Pages    []byte `cbor:"6,keyasint"`          // SHA-256 of each
	Epoch    uint64 `cbor:"7,keyasint"`          // where the first batch stands that it does not cover,
	Number   uint64 `cbor:"8,keyasint"`          // or would stand
	Policy   Hash   `cbor:"9,keyasint,omitzero"` // in force there, and
	Mode     uint8  `cbor:"10,keyasint,omitempty"`
	Boots    uint64 `cbor:"11,keyasint,omitempty"` // number of the last boot before there
	// Generation of the log whose leaves are covered; 0: the first.
	Generation uint32 `cbor:"12,keyasint,omitempty"`
	// Recovered and RecoveredMs are of the last recovery, as TableHead has them.
	Recovered   uint32 `cbor:"13,keyasint,omitempty"`
	RecoveredMs uint64 `cbor:"14,keyasint,omitempty"`
	// ManifestNonce is that of the manifest in force there.
	ManifestNonce uint64 `cbor:"15,keyasint,omitempty"`
	// WaitMs is TableHead's.
	WaitMs uint64 `cbor:"16,keyasint,omitempty"`
}

// KeptFormat is KeptTable's.
const KeptFormat = 1

var errKept = errors.New("wire: what was kept of a tip table is none")

// ParseKeptTable reads one, in the one encoding that Marshal gives it: the edge has as many hashes as its tree's. Whether it
// is the log's the caller finds out.
func ParseKeptTable(b []byte) (*KeptTable, error) {
	k := new(KeptTable)
	if len(b) > MaxTable || Unmarshal(b, k) != nil || k.Format != KeptFormat || k.Covers > 1<<62 || k.Tips > 1<<40 ||
		len(k.Edge) != bits.OnesCount64(k.Covers)*len(Hash{}) || len(k.Pages)%len(Hash{}) != 0 {
		return nil, errKept
	}
	if again, err := Marshal(k); err != nil || !bytes.Equal(again, b) {
		return nil, errKept
	}
	return k, nil
}

// EdgeHashes are those of the edge.
func (k *KeptTable) EdgeHashes() []Hash { return hashesOf(k.Edge) }

// PageHashes are those of the pages.
func (k *KeptTable) PageHashes() []Hash { return hashesOf(k.Pages) }

func hashesOf(b []byte) []Hash {
	all := make([]Hash, 0, len(b)/len(Hash{}))
	for ; len(b) > 0; b = b[len(Hash{}):] {
		all = append(all, Hash(b))
	}
	return all
}
