package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// An Order validates the order of an export's rows. It refuses kinds out of order, keys that do not
// rise, gaps between entries, and an organization without its EndRow. The zero value is ready for
// the first row.
type Order struct {
	at     RowKind
	begun  bool   // an organization has no EndRow yet
	number uint64 // of the newest organization
	count  uint64 // of its entries
	next   uint64 // the highest Next of its entries
	key    []byte
}

// Follow checks the position of the next row, which must have passed CheckRow. Errors are ErrRefused.
func (o *Order) Follow(r Row) error {
	kind := r.Kind()
	switch kind {
	case KindEntry, KindEnd:
		if !o.begun {
			return refuse("row of kind %d outside of an organization", kind)
		}
		return o.checkOrder(r)
	}
	if o.begun {
		return refuse("organization %d has no end", o.number)
	}
	if kind < o.at {
		return refuse("row of kind %d behind one of kind %d", kind, o.at)
	}
	if kind > o.at {
		o.at, o.key = kind, nil
	}
	key, twice := keyOf(r)
	if o.key != nil && (bytes.Compare(o.key, key) > 0 || !twice && bytes.Equal(o.key, key)) {
		return refuse("row of kind %d out of order", kind)
	}
	o.key = key
	if org, ok := r.(*OrganizationRow); ok {
		o.begun, o.number, o.count, o.next = true, org.Number, 0, 0
	}
	return nil
}

func (o *Order) checkOrder(r Row) error {
	switch r := r.(type) {
	case *EntryRow:
		if r.Seq != o.count {
			return refuse("entry %d of organization %d where %d comes next", r.Seq, o.number, o.count)
		}
		o.count, o.next = o.count+1, max(o.next, r.Next)
	case *EndRow:
		if r.Count != o.count || o.next > o.count {
			return refuse("organization %d ends with %d entries, %d came, %d are named", o.number, r.Count, o.count, o.next)
		}
		o.begun = false
	}
	return nil
}

// Number is the number of the newest OrganizationRow, 0 before the first.
func (o *Order) Number() uint64 { return o.number }

// Done checks that the rows may end now. Errors are ErrRefused.
func (o *Order) Done() error {
	if o.begun {
		return refuse("organization %d has no end", o.number)
	}
	return nil
}

// keyOf is the key by which rows of a kind are ordered. twice reports whether two rows may share one.
func keyOf(r Row) (key []byte, twice bool) {
	n := func(v ...uint64) {
		for _, v := range v {
			key = binary.BigEndian.AppendUint64(key, v)
		}
	}
	switch r := r.(type) {
	case *OwnerRow:
		n(uint64(r.Range))
	case *ObjectRow:
		return nil, true // ordered by the time of storing, which is not in the row
	case *BatchRow:
		n(uint64(r.Range), r.Epoch, r.Number)
	case *KeyRow:
		key = append(key, r.Organization[:]...)
		n(uint64(r.KeyID))
	case *OrganizationRow:
		n(r.Number)
	case *SnapshotRow:
		n(r.Number)
	case *PieceRow:
		n(r.Number)
		return key, true
	case *IndexRow:
		key = append(key, r.Key[:]...)
		n(r.Rank)
		key = append(key, r.Organization[:]...)
	case *SendRow:
		key = append(key, r.Organization[:]...)
		n(r.Seq, uint64(r.Number))
	case *TableRow:
		n(uint64(r.Range))
	case *PageRow:
		n(uint64(r.Range))
		hash := sha256.Sum256(r.Page)
		key = append(key, hash[:]...)
	case *CheckpointRow:
		n(uint64(r.Range), uint64(r.Generation))
	}
	return key, false
}
