package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// scanned bounds the entries that a Page without filter reads before it uses the index. They
// include entries of no activity and superseded ones.
const scanned = 1024

// A finder answers one Find or Page on one connection.
type finder struct {
	conn   *conn
	number int64
	size   uint64
	prover *tree.Prover
	answer store.Answer
}

// find runs do for an organization that has at least as many entries as the tree size.
func (s *Store) find(ctx context.Context, id wire.ID, size uint64, do func(*finder) error) (proven wire.Proven, err error) {
	err = s.read(ctx, func(c *conn) error {
		proven = wire.Proven{}
		number, err := organization(ctx, c, id)
		if err != nil {
			return err
		}
		stored, err := count(ctx, c, number)
		if err == nil {
			err = store.CheckStored(size, stored)
		}
		if err != nil {
			return err
		}
		f := &finder{conn: c, number: number, size: size}
		f.prover = tree.NewProver(size, func(level uint, from uint64, n int) ([]wire.Hash, error) {
			return hashes(ctx, c, number, level, from, n)
		})
		if err := do(f); err != nil {
			return err
		}
		proven = f.answer.Proven
		return nil
	})
	return proven, err
}

// Find implements store.Finder.
func (s *Store) Find(ctx context.Context, ask wire.Find) (wire.Proven, error) {
	if err := store.CheckFind(ask); err != nil {
		return wire.Proven{}, err
	}
	proven, err := s.find(ctx, ask.Organization, ask.TreeSize, func(f *finder) error {
		var places []int64
		for _, id := range ask.Activities {
			place, err := f.newest(ctx, id)
			if err != nil {
				return err
			}
			if place != 0 {
				places = append(places, place)
			}
		}
		for _, seq := range ask.Seqs {
			if seq < ask.TreeSize {
				places = append(places, store.Place(f.number, seq))
			}
		}
		return f.prove(ctx, places)
	})
	return store.Result(proven, err, "finding")
}

// newest returns the place of an activity's newest entry in the tree, 0 if there is none.
func (f *finder) newest(ctx context.Context, activity wire.ID) (int64, error) {
	row, err := f.conn.firstRow(ctx, `SELECT id FROM entry INDEXED BY entry_activity
		WHERE activity = ? AND id >= ? AND id < ? ORDER BY id DESC LIMIT 1`,
		activity[:], store.Place(f.number, 0), f.end())
	return scalar(row, 0), err
}

func (f *finder) end() int64 { return store.Place(f.number, 0) + int64(f.size) }

// prove adds the entries at the places to the answer, with their proofs.
func (f *finder) prove(ctx context.Context, places []int64) error {
	for _, place := range places {
		row, err := f.conn.firstRow(ctx, "SELECT sealed FROM entry WHERE id = ?", place)
		if err != nil {
			return err
		}
		if row == nil {
			return fmt.Errorf("entry %d is missing", store.Seq(place))
		}
		proof, err := f.prover.Prove(store.Seq(place))
		if err != nil {
			return err
		}
		if !f.answer.Add(wire.ProvenEntry{Seq: store.Seq(place), Sealed: row[0].([]byte), Proof: proof}) {
			return nil
		}
	}
	return nil
}

// HeaderOf implements store.Finder.
func (s *Store) HeaderOf(ctx context.Context, organization wire.ID, seq uint64) (header []byte, err error) {
	if seq > store.MaxSeq {
		return nil, nil
	}
	err = s.read(ctx, func(c *conn) error {
		header = nil
		row, err := c.firstRow(ctx, `SELECT header FROM batch WHERE id = (SELECT batch FROM entry
			WHERE id = (SELECT id << 32 FROM organization WHERE uuid = ?) + ?)`, organization[:], int64(seq))
		if row != nil {
			header = row[0].([]byte)
		}
		return err
	})
	return store.Result(header, err, "finding the batch of an entry")
}

// Page implements store.Finder.
func (s *Store) Page(ctx context.Context, ask wire.Page) (wire.Proven, error) {
	if err := store.CheckPage(ask); err != nil {
		return wire.Proven{}, err
	}
	proven, err := s.find(ctx, ask.Organization, ask.TreeSize, func(f *finder) error {
		var at int64
		for _, cursor := range []*wire.ID{ask.Before, ask.After} {
			if cursor == nil {
				continue
			}
			var err error
			if at, err = f.newest(ctx, *cursor); err != nil {
				return err
			}
			if at == 0 {
				f.answer.Proven.Unknown = true
				return nil
			}
		}
		places, err := f.page(ctx, ask, store.NewWindow(ask, f.number, at))
		if err != nil {
			return err
		}
		return f.prove(ctx, places)
	})
	return store.Result(proven, err, "paging")
}

func (f *finder) page(ctx context.Context, ask wire.Page, w store.Window) ([]int64, error) {
	if len(ask.Types) == 0 && len(ask.Statuses) == 0 {
		places, done, err := f.walk(ctx, w)
		if err != nil || done {
			return places, err
		}
	}
	kinds, err := f.kinds(ctx, ask)
	if err != nil || len(kinds) == 0 {
		return nil, err
	}
	var places []int64
	keep := func(row []driver.Value) (bool, error) {
		places = append(places, row[0].(int64))
		return true, nil
	}
	for kind := range kinds {
		if err := f.conn.query(ctx, withDirection(w, `SELECT id FROM entry INDEXED BY entry_kind
			WHERE kind = ? AND next IS NULL AND id >= ? AND id < ? ORDER BY id`), keep,
			kind, w.Low, w.High, int64(w.Limit)); err != nil {
			return nil, err
		}
	}
	if err := f.findOvertaken(ctx, w, kinds, keep, &places); err != nil {
		return nil, err
	}
	return w.Cut(places), nil
}

// withDirection appends the order and limit of a window to a statement.
func withDirection(w store.Window, text string) string {
	if w.Up {
		return text + " LIMIT ?"
	}
	return text + " DESC LIMIT ?"
}

// walk reads the entries themselves, which suffices when most of them are the newest of an
// activity. done reports that it filled the page or reached the end.
func (f *finder) walk(ctx context.Context, w store.Window) (places []int64, done bool, err error) {
	seen := 0
	err = f.conn.query(ctx, withDirection(w, "SELECT id, kind, next FROM entry WHERE id >= ? AND id < ? ORDER BY id"), func(row []driver.Value) (bool, error) {
		seen++
		next, followed := row[2].(int64)
		if row[1] != nil && (!followed || next >= f.end()) {
			places = append(places, row[0].(int64))
		}
		return len(places) < w.Limit, nil
	}, w.Low, w.High, int64(scanned))
	if err != nil {
		return nil, false, err
	}
	return w.Cut(places), len(places) == w.Limit || seen < scanned, nil
}

// kinds returns the numbers of all kinds that the filter selects.
func (f *finder) kinds(ctx context.Context, ask wire.Page) (map[int64]bool, error) {
	all, err := f.conn.kinds(ctx)
	kinds := map[int64]bool{}
	for n, k := range all {
		if (len(ask.Types) == 0 || slices.Contains(ask.Types, k.text)) && (len(ask.Statuses) == 0 || slices.Contains(ask.Statuses, k.status)) {
			kinds[int64(n)] = true
		}
	}
	return kinds, err
}

// findOvertaken finds entries that are superseded now but were not at the requested tree
// size: as many as entries with a Prior came since.
func (f *finder) findOvertaken(ctx context.Context, w store.Window, kinds map[int64]bool, keep func([]driver.Value) (bool, error), places *[]int64) error {
	return f.conn.query(ctx, `SELECT id, kind FROM entry INDEXED BY entry_next
		WHERE next >= ? AND next <= ? AND id >= ? AND id < ?`, func(row []driver.Value) (bool, error) {
		if kind, ok := row[1].(int64); !ok || !kinds[kind] {
			return true, nil
		}
		if len(*places) > 64*wire.MaxFind { // the final cut would remove these too
			*places = w.Cut(*places)
		}
		return keep(row)
	}, f.end(), store.Place(f.number, store.MaxSeq), w.Low, w.High)
}
