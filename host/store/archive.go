package store

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"cloister/shared/wire"
)

// An Archive exports and imports a store's whole content as rows. Rows are the same for every kind of
// store, so one imports the export of another.
type Archive interface {
	// Export calls each with all rows of one moment, in the order of their kinds. Batches that are
	// appended meanwhile are not included, and need not wait. each may keep a row's bytes. An error
	// of each ends the export and is returned.
	Export(ctx context.Context, each func(Row) error) error
	// Import fills an empty store from rows in the order of Export, until next returns io.EOF,
	// in one transaction: all or nothing. A store that is not empty is refused (ErrRefused). Every
	// range is released, so the next boot takes it under an epoch higher than those imported;
	// senders' claims are dropped.
	//
	// Import checks the limits of rows (CheckRow) and their order, and computes the tree nodes
	// itself. The caller must check that the entries are the exported ones.
	Import(ctx context.Context, next func() (Row, error)) error
	// Extend appends a batch of an ended boot, from another copy of the store, to a released range. Afterwards the range is
	// still released, under the batch's boot and epoch; the batch must be the next of its boot, or the first of a boot with a
	// higher epoch. sends are the outbox rows of its entries in that copy; the entries themselves have no sends. Any verdict
	// but wire.VerdictStored changes nothing. The caller must check that the enclave has made the batch.
	Extend(ctx context.Context, batch *wire.Batch, sends []SendRow) (wire.Stored, error)
	// Schema is the number of the newest migration in this release, the same for every kind of
	// store. It rises with releases.
	Schema() uint64
}

// A Row is a pointer to one of the Row types of this package.
type Row interface{ Kind() RowKind }

// RowKind is the type of a row. An export has rows in the order of their kinds, except that an
// organization's row, its entries and its end are adjacent.
type RowKind uint8

// The row kinds. Their numbers are part of the backup format.
const (
	KindOwner        RowKind = 1
	KindObject       RowKind = 2
	KindBatch        RowKind = 3
	KindKey          RowKind = 4
	KindOrganization RowKind = 5
	KindEntry        RowKind = 6
	KindEnd          RowKind = 7
	KindSnapshot     RowKind = 8
	KindPiece        RowKind = 9
	KindIndex        RowKind = 11 // 10 is not used again
	KindSend         RowKind = 12
	KindTable        RowKind = 13
	KindPage         RowKind = 14
	KindCheckpoint   RowKind = 15
)

// OwnerRow is the ownership row of a range.
type OwnerRow struct {
	Range    uint32  `cbor:"1,keyasint"`
	Boot     wire.ID `cbor:"2,keyasint"`
	Epoch    uint64  `cbor:"3,keyasint"`
	Released bool    `cbor:"4,keyasint"`
}

// ObjectRow is an object. Objects are in the order in which they were stored.
type ObjectRow struct {
	Name  string `cbor:"1,keyasint"`
	Bytes []byte `cbor:"2,keyasint"`
}

// BatchRow is the header of a batch, by range, epoch and number.
type BatchRow struct {
	Range  uint32 `cbor:"1,keyasint"`
	Epoch  uint64 `cbor:"2,keyasint"`
	Number uint64 `cbor:"3,keyasint"`
	Header []byte `cbor:"4,keyasint"`
}

// KeyRow is a wrapped data key, by organization and key.
type KeyRow struct {
	Organization wire.ID `cbor:"1,keyasint"`
	KeyID        uint32  `cbor:"2,keyasint"`
	Sealed       []byte  `cbor:"3,keyasint"`
}

// OrganizationRow begins an organization. Later rows refer to it by Number, 1 to
// MaxOrganization, rising.
type OrganizationRow struct {
	Number uint64  `cbor:"1,keyasint"`
	ID     wire.ID `cbor:"2,keyasint"`
}

// EntryRow is an entry of the organization whose OrganizationRow came last, by seq from 0 without a gap.
type EntryRow struct {
	Seq      uint64  `cbor:"1,keyasint"`
	TimeMs   uint64  `cbor:"2,keyasint"`
	Activity wire.ID `cbor:"3,keyasint"` // zero: none, and then neither Type nor Status
	Type     string  `cbor:"4,keyasint,omitempty"`
	Status   uint8   `cbor:"5,keyasint,omitempty"`
	Next     uint64  `cbor:"6,keyasint,omitempty"` // one more than the seq of the activity's next entry; 0: none
	Sealed   []byte  `cbor:"7,keyasint"`
	// Batch is the key of its batch's BatchRow; zero: not recorded.
	Batch BatchPlace `cbor:"8,keyasint,omitzero"`
}

// A BatchPlace identifies a batch.
type BatchPlace struct {
	Range  uint32 `cbor:"1,keyasint"`
	Epoch  uint64 `cbor:"2,keyasint"`
	Number uint64 `cbor:"3,keyasint"`
}

// Known reports whether p identifies a batch.
func (p BatchPlace) Known() bool { return p.Epoch > 0 }

// EndRow ends an organization. Root is the root of its RFC 6962 tree, computed from the leaf hashes
// stored when the entries were appended, and not from the exported bytes.
type EndRow struct {
	Count uint64    `cbor:"1,keyasint"`
	Root  wire.Hash `cbor:"2,keyasint"`
}

// SnapshotRow is the snapshot of an organization, by its number.
type SnapshotRow struct {
	Number uint64 `cbor:"1,keyasint"`
	Count  uint64 `cbor:"2,keyasint"`
	Sealed []byte `cbor:"3,keyasint"`
}

// PieceRow is a piece of a snapshot, by number and hash of the piece.
type PieceRow struct {
	Number uint64 `cbor:"1,keyasint"`
	Sealed []byte `cbor:"2,keyasint"`
}

// IndexRow is a row of the index: an organization has a key. Rows are by key, rank and organization.
type IndexRow struct {
	Key          wire.Hash `cbor:"1,keyasint"`
	Rank         uint64    `cbor:"2,keyasint"`
	Organization wire.ID   `cbor:"3,keyasint"`
}

// SendRow is a row of the outbox without its claim, by organization, seq and number.
type SendRow struct {
	Organization wire.ID        `cbor:"1,keyasint"`
	Seq          uint64         `cbor:"2,keyasint"`
	Number       uint16         `cbor:"3,keyasint"`
	SendKind     wire.SendKind  `cbor:"4,keyasint"`
	State        wire.SendState `cbor:"5,keyasint"`
	DueMs        uint64         `cbor:"6,keyasint"`
	Tries        uint32         `cbor:"7,keyasint"`
	Text         string         `cbor:"8,keyasint,omitempty"`
	Revert       []byte         `cbor:"9,keyasint,omitempty"`
	Memo         []byte         `cbor:"10,keyasint,omitempty"`
	Receiver     wire.ID        `cbor:"11,keyasint"` // zero: none, and then no Activity
	Activity     wire.ID        `cbor:"12,keyasint"`
	Payer        wire.ID        `cbor:"13,keyasint,omitzero"` // zero: Organization
}

// TableRow is the tip table of a range.
type TableRow struct {
	Range uint32 `cbor:"1,keyasint"`
	Table []byte `cbor:"2,keyasint"`
}

// PageRow is a page of a tip table, by range and SHA-256 of the page.
type PageRow struct {
	Range uint32 `cbor:"1,keyasint"`
	Page  []byte `cbor:"2,keyasint"`
}

// CheckpointRow is the newest checkpoint of a range's log, by range and generation: see Checkpoint.
type CheckpointRow struct {
	Range        uint32 `cbor:"1,keyasint"`
	Generation   uint32 `cbor:"2,keyasint"`
	Policy       string `cbor:"3,keyasint"`
	Size         uint64 `cbor:"4,keyasint"`
	Signed       []byte `cbor:"5,keyasint"`
	CosignedSize uint64 `cbor:"6,keyasint,omitempty"`
	Cosigned     []byte `cbor:"7,keyasint,omitempty"`
}

// NewCheckpointRow converts a checkpoint to its row.
func NewCheckpointRow(c *Checkpoint) *CheckpointRow {
	return &CheckpointRow{uint32(c.Range), c.Generation, c.Policy, c.Size, c.Signed, c.CosignedSize, c.Cosigned}
}

// Checkpoint converts the row to a checkpoint.
func (r *CheckpointRow) Checkpoint() *Checkpoint {
	return &Checkpoint{wire.Range(r.Range), r.Generation, r.Policy, r.Size, r.Signed, r.CosignedSize, r.Cosigned}
}

// Kind implements Row.
func (*OwnerRow) Kind() RowKind        { return KindOwner }
func (*ObjectRow) Kind() RowKind       { return KindObject }
func (*BatchRow) Kind() RowKind        { return KindBatch }
func (*KeyRow) Kind() RowKind          { return KindKey }
func (*OrganizationRow) Kind() RowKind { return KindOrganization }
func (*EntryRow) Kind() RowKind        { return KindEntry }
func (*EndRow) Kind() RowKind          { return KindEnd }
func (*SnapshotRow) Kind() RowKind     { return KindSnapshot }
func (*PieceRow) Kind() RowKind        { return KindPiece }
func (*IndexRow) Kind() RowKind        { return KindIndex }
func (*SendRow) Kind() RowKind         { return KindSend }
func (*TableRow) Kind() RowKind        { return KindTable }
func (*PageRow) Kind() RowKind         { return KindPage }
func (*CheckpointRow) Kind() RowKind   { return KindCheckpoint }

var emptyRows = map[RowKind]func() Row{
	KindOwner:        func() Row { return new(OwnerRow) },
	KindObject:       func() Row { return new(ObjectRow) },
	KindBatch:        func() Row { return new(BatchRow) },
	KindKey:          func() Row { return new(KeyRow) },
	KindOrganization: func() Row { return new(OrganizationRow) },
	KindEntry:        func() Row { return new(EntryRow) },
	KindEnd:          func() Row { return new(EndRow) },
	KindSnapshot:     func() Row { return new(SnapshotRow) },
	KindPiece:        func() Row { return new(PieceRow) },
	KindIndex:        func() Row { return new(IndexRow) },
	KindSend:         func() Row { return new(SendRow) },
	KindTable:        func() Row { return new(TableRow) },
	KindPage:         func() Row { return new(PageRow) },
	KindCheckpoint:   func() Row { return new(CheckpointRow) },
}

// NewRow makes an empty row of a kind, nil for an unknown kind.
func NewRow(k RowKind) Row {
	if empty := emptyRows[k]; empty != nil {
		return empty()
	}
	return nil
}

// CheckRow checks the limits of a row. Errors are ErrRefused.
func CheckRow(r Row) error {
	switch r := r.(type) {
	case *OwnerRow:
		if r.Epoch == 0 || r.Epoch >= MaxEpoch {
			return refuse("epoch %d", r.Epoch)
		}
		if r.Boot == zero {
			return refuse("owner without a boot")
		}
		return checkRange(r.Range)
	case *ObjectRow:
		return CheckObject(wire.PutObject{Name: r.Name, Bytes: r.Bytes})
	case *BatchRow:
		if r.Epoch == 0 || r.Epoch > MaxEpoch || r.Number == 0 || r.Number > MaxNumber || len(r.Header) == 0 || len(r.Header) > MaxHeader {
			return refuse("batch %d of epoch %d with a header of %d bytes", r.Number, r.Epoch, len(r.Header))
		}
		return checkRange(r.Range)
	case *KeyRow:
		return checkKey(r.Organization, r.Sealed)
	case *OrganizationRow:
		if r.ID == zero {
			return refuse("organization without an id")
		}
		return checkNumber(r.Number)
	case *EntryRow:
		return checkEntryRow(r)
	case *EndRow:
		return checkSize(r.Count)
	case *SnapshotRow:
		if r.Count == 0 || r.Count > MaxSeq+1 || len(r.Sealed) == 0 || len(r.Sealed) > wire.MaxSnapshot {
			return refuse("snapshot of %d entries and %d bytes", r.Count, len(r.Sealed))
		}
		return checkNumber(r.Number)
	case *PieceRow:
		if len(r.Sealed) == 0 || len(r.Sealed) > MaxSealedPiece {
			return refuse("piece of %d bytes", len(r.Sealed))
		}
		return checkNumber(r.Number)
	case *IndexRow:
		if r.Rank > MaxRank || r.Organization == zero {
			return refuse("index row of rank %d", r.Rank)
		}
	case *SendRow:
		return checkSendRow(r)
	case *TableRow:
		if len(r.Table) == 0 || len(r.Table) > wire.MaxTable {
			return refuse("tip table of %d bytes", len(r.Table))
		}
		return checkRange(r.Range)
	case *PageRow:
		if err := checkPage(r.Page); err != nil {
			return err
		}
		return checkRange(r.Range)
	case *CheckpointRow:
		if err := checkRange(r.Range); err != nil {
			return err
		}
		return CheckCheckpoint(r.Checkpoint())
	default:
		return refuse("row of kind %T", r)
	}
	return nil
}

func checkEntryRow(r *EntryRow) error {
	if r.Next > MaxSeq+1 || r.Next > 0 && r.Next <= r.Seq+1 {
		return refuse("entry %d followed by %d", r.Seq, r.Next)
	}
	if r.Activity == zero && (r.Type != "" || r.Status != 0 || r.Next != 0) {
		return refuse("entry %d of no activity with a type", r.Seq)
	}
	if b := r.Batch; b != (BatchPlace{}) && (b.Epoch == 0 || b.Epoch > MaxEpoch || b.Number == 0 || b.Number > MaxNumber || b.Range >= wire.MaxRanges) {
		return refuse("entry %d of batch %d of epoch %d of range %d", r.Seq, b.Number, b.Epoch, b.Range)
	}
	return checkEntry(&wire.Entry{Organization: wire.ID{1}, Seq: r.Seq, Sealed: r.Sealed, Type: r.Type, TimeMs: r.TimeMs})
}

func checkSendRow(r *SendRow) error {
	if (r.Receiver == zero) && r.Activity != zero {
		return refuse("send of an activity for nobody")
	}
	if r.Organization == zero {
		return refuse("send of no organization")
	}
	return CheckSend(wire.ID{1}, &Send{ID: wire.SendID{Organization: r.Organization, Seq: r.Seq, Number: r.Number},
		State: r.State, DueMs: r.DueMs, Text: r.Text, Revert: r.Revert, Memo: r.Memo})
}

func checkRange(n uint32) error {
	if n >= wire.MaxRanges {
		return refuse("range %d", n)
	}
	return nil
}

func checkNumber(n uint64) error {
	if n == 0 || n > MaxOrganization {
		return refuse("organization number %d", n)
	}
	return nil
}

// LastMigration is the highest number of a file in the folder migrations. It panics if a file's name
// is not NUMBER_…: the files are embedded in the program.
func LastMigration(files fs.ReadDirFS) (last uint64) {
	all, err := files.ReadDir("migrations")
	for _, f := range all {
		number, _, _ := strings.Cut(f.Name(), "_")
		n, e := strconv.ParseUint(number, 10, 32)
		last, err = max(last, n), errors.Join(err, e)
	}
	if err != nil {
		panic(err)
	}
	return last
}
