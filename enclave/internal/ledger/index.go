package ledger

import (
	"bytes"
	"cmp"
	"context"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// IndexRow is an organization that has a key, as the host says.
type IndexRow struct {
	Rank uint64
	ID   org.ID
}

// compare is the order of a key's rows.
func (r *IndexRow) compare(o *IndexRow) int {
	return cmp.Or(cmp.Compare(r.Rank, o.Rank), bytes.Compare(r.ID[:], o.ID[:]))
}

// PageIndex returns up to limit rows of a key in their order: the first ones, those behind
// after, or those just above before (one of the two is nil). It asks when all of the view is
// stored. The host may leave rows out and keep old ones; only the form of its answer is
// checked.
func (v *View) PageIndex(ctx context.Context, key org.Hash, before, after *IndexRow, limit int) ([]IndexRow, error) {
	if err := v.ledger.pipe.wait(ctx, v.batch); err != nil {
		return nil, err
	}
	return v.ledger.PageIndex(ctx, key, before, after, limit)
}

// PageIndex is View.PageIndex without a View.
func (l *Ledger) PageIndex(ctx context.Context, key org.Hash, before, after *IndexRow, limit int) ([]IndexRow, error) {
	ask := wire.PageIndex{Key: wire.Hash(key), Limit: uint16(min(limit, wire.MaxRows))}
	if before != nil {
		ask.Before = &wire.IndexRow{Rank: before.Rank, Organization: wire.ID(before.ID)}
	}
	if after != nil {
		ask.After = &wire.IndexRow{Rank: after.Rank, Organization: wire.ID(after.ID)}
	}
	got, err := l.cfg.Store.PageIndex(ctx, ask)
	if err != nil {
		return nil, ErrBusy
	}
	if len(got.Rows) > int(ask.Limit) && !insecure.Skip(insecure.Answer) {
		return nil, l.breach(fault.AlarmIndex, "more rows than asked for")
	}
	rows, last := make([]IndexRow, len(got.Rows)), after
	for i := range rows {
		rows[i] = IndexRow{got.Rows[i].Rank, org.ID(got.Rows[i].Organization)}
		fits := (last == nil || rows[i].compare(last) > 0) && (before == nil || rows[i].compare(before) < 0)
		if !fits && !insecure.Skip(insecure.Answer) {
			return nil, l.breach(fault.AlarmIndex, "rows out of order")
		}
		last = &rows[i]
	}
	return rows, nil
}
