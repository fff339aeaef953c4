package sqlite

import (
	"context"
	"database/sql/driver"

	"cloister/host/store"
	"cloister/shared/wire"
)

// batchID is the key of a batch. Number is at most maxNumber.
func batchID(r wire.Range, epoch, number uint64) int64 {
	return int64(epoch<<40 | uint64(r)<<32 | number)
}

// LoadHeaders implements store.Loader.
func (s *Store) LoadHeaders(ctx context.Context, ask wire.LoadHeaders) (h wire.Headers, err error) {
	if err := store.CheckHeaders(ask); err != nil {
		return h, err
	}
	err = s.read(ctx, func(c *conn) error {
		h = wire.Headers{}
		row, err := c.firstRow(ctx, "SELECT epoch FROM owner WHERE id = ?", int64(ask.Range)+1)
		if err != nil {
			return err
		}
		h.Headers, err = headers(ctx, c, ask, scalar(row, 0))
		return err
	})
	return store.Result(h, err, "loading headers")
}

// headers reads headers in the order of their keys, epoch by epoch up to the last.
func headers(ctx context.Context, c *conn, ask wire.LoadHeaders, last int64) (list [][]byte, err error) {
	want, bytesLeft, full := int(ask.MaxBytes), store.MaxAnswer, false
	at := batchID(ask.Range, ask.Epoch, 0) + int64(min(ask.Number, maxNumber+1))
	for !full {
		first, err := following(ctx, c, ask.Range, at, last)
		if err != nil || first == 0 {
			return list, err
		}
		end := first | maxNumber // of this epoch
		err = c.query(ctx, "SELECT header FROM batch WHERE id >= ? AND id <= ? ORDER BY id", func(row []driver.Value) (bool, error) {
			header := row[0].([]byte)
			want -= len(header) + framing
			bytesLeft -= len(header) + framing
			if bytesLeft < 0 || want < 0 && len(list) > 0 {
				full = true
				return false, nil
			}
			list = append(list, header)
			full = want <= 0 || len(list) == store.MaxHeaders
			return !full, nil
		}, first, end)
		if err != nil {
			return nil, err
		}
		at = end + 1
	}
	return list, nil
}

// following returns the id of a range's first batch from an id on, 0 if there is none up to the last epoch.
// It skips the other ranges' batches of an epoch in two steps at most.
func following(ctx context.Context, c *conn, r wire.Range, at, last int64) (int64, error) {
	for at>>40 <= last {
		row, err := c.firstRow(ctx, "SELECT id FROM batch WHERE id >= ? ORDER BY id LIMIT 1", at)
		id := scalar(row, 0)
		if err != nil || id == 0 {
			return 0, err
		}
		epoch, in := uint64(id>>40), wire.Range(id>>32)
		switch {
		case in == r:
			return id, nil
		case in > r:
			epoch++
		}
		at = batchID(r, epoch, 1)
	}
	return 0, nil
}
