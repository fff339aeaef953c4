package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// scanned bounds the entries that a Page without filter reads before it uses the index. They
// include entries of no activity and superseded ones.
const scanned = 1024

// A finder answers one Find or Page in one transaction.
type finder struct {
	tx     pgx.Tx
	number int64
	size   uint64
	prover *tree.Prover
	answer store.Answer
}

// find runs do for an organization that has at least as many entries as the tree size.
func (s *Store) find(ctx context.Context, id wire.ID, size uint64, do func(*finder) error) (proven wire.Proven, err error) {
	err = s.read(ctx, func(tx pgx.Tx) error {
		proven = wire.Proven{}
		n, err := number(ctx, tx, id)
		if err != nil {
			return err
		}
		stored, err := count(ctx, tx, n)
		if err == nil {
			err = store.CheckStored(size, stored)
		}
		if err != nil {
			return err
		}
		f := &finder{tx: tx, number: n, size: size}
		f.prover = tree.NewProver(size, func(level uint, from uint64, count int) ([]wire.Hash, error) {
			return hashes(ctx, tx, n, level, from, count)
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
		places, err := f.newest(ctx, ask.Activities...)
		if err != nil {
			return err
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

func (f *finder) end() int64 { return store.Place(f.number, 0) + int64(f.size) }

// newest returns the places of the activities' newest entries in the tree, in the order asked. It
// leaves out activities without entries.
func (f *finder) newest(ctx context.Context, activities ...wire.ID) ([]int64, error) {
	if len(activities) == 0 {
		return nil, nil
	}
	ids := make([][16]byte, len(activities))
	for i := range activities {
		ids[i] = activities[i]
	}
	return column[int64](ctx, f.tx, `SELECT e.id FROM unnest($1::uuid[]) WITH ORDINALITY AS a (activity, i) CROSS JOIN LATERAL (
		SELECT id FROM entry WHERE activity = a.activity AND id + 0 >= $2 AND id + 0 < $3 ORDER BY id + 0 DESC LIMIT 1) AS e ORDER BY i`,
		list(ids), store.Place(f.number, 0), f.end())
}

// cutToSize shortens places to those whose entries fit into an answer.
func (f *finder) cutToSize(ctx context.Context, places []int64) ([]int64, error) {
	sizes, err := column[int32](ctx, f.tx, `SELECT octet_length(sealed) FROM unnest($1::bigint[]) WITH ORDINALITY AS p (place, i)
		JOIN entry ON id = place ORDER BY i`, list(places))
	if err != nil {
		return nil, err
	}
	if len(sizes) != len(places) {
		return nil, fmt.Errorf("%d of %d entries are missing", len(places)-len(sizes), len(places))
	}
	total := 0
	for i, size := range sizes {
		if total += int(size); total > store.MaxAnswer && i > 0 {
			return places[:i], nil
		}
	}
	return places, nil
}

// prove adds the entries at the places to the answer, with their proofs.
func (f *finder) prove(ctx context.Context, places []int64) error {
	if len(places) == 0 {
		return nil
	}
	places, err := f.cutToSize(ctx, places)
	if err != nil {
		return err
	}
	sealed, err := column[[]byte](ctx, f.tx, `SELECT sealed FROM unnest($1::bigint[]) WITH ORDINALITY AS p (place, i)
		JOIN entry ON id = place ORDER BY i`, list(places))
	if err != nil {
		return err
	}
	for i := range sealed {
		proof, err := f.prover.Prove(store.Seq(places[i]))
		if err != nil {
			return err
		}
		if !f.answer.Add(wire.ProvenEntry{Seq: store.Seq(places[i]), Sealed: sealed[i], Proof: proof}) {
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
	err = s.read(ctx, func(tx pgx.Tx) error {
		rows, err := column[[]byte](ctx, tx, `SELECT header FROM entry JOIN batch ON batch.range = entry.range AND epoch = batch >> 40 AND number = batch & $3
			WHERE entry.id = (SELECT id::bigint << 32 FROM organization WHERE uuid = $1) + $2`, [16]byte(organization), int64(seq), int64(store.MaxNumber))
		if header = nil; len(rows) > 0 {
			header = rows[0]
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
			found, err := f.newest(ctx, *cursor)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				f.answer.Proven.Unknown = true
				return nil
			}
			at = found[0]
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
	order := direction(w)
	// Each kind's index entries are read as far as the page needs. Kind and id are compared as rows
	// so that only a plan by that index is possible; id + 0 keeps the planner off the primary key,
	// which it would read from end to end. Entries that are superseded now, but were not under this
	// tree size, are found by their successors: as many as entries with a Prior came since.
	places, err := column[int64](ctx, f.tx, `SELECT e.id FROM unnest($1::integer[]) AS k CROSS JOIN LATERAL (
			SELECT id FROM entry WHERE (kind, id) >= (k, $2) AND (kind, id) < (k, $3) AND kind IS NOT NULL AND next IS NULL
			ORDER BY kind `+order+`, id `+order+` LIMIT $4) AS e
		UNION ALL (SELECT id FROM entry WHERE next >= $5 AND next <= $6 AND kind = ANY ($1) AND id + 0 >= $2 AND id + 0 < $3
			ORDER BY id + 0 `+order+` LIMIT $4)`,
		list(kinds), w.Low, w.High, int64(w.Limit), f.end(), store.Place(f.number, store.MaxSeq))
	return w.Cut(places), err
}

func direction(w store.Window) string {
	if w.Up {
		return "ASC"
	}
	return "DESC"
}

// walk reads the entries themselves, which suffices when most of them are the newest of an
// activity. done reports that it filled the page or reached the end.
func (f *finder) walk(ctx context.Context, w store.Window) (places []int64, done bool, err error) {
	var id int64
	var listed bool
	seen := 0
	text := `SELECT id, kind IS NOT NULL AND (next IS NULL OR next >= $4) FROM entry WHERE id >= $1 AND id < $2 ORDER BY id ` + direction(w) + ` LIMIT $3`
	err = each(ctx, f.tx, text, []any{w.Low, w.High, int64(scanned), f.end()}, []any{&id, &listed}, func() error {
		seen++
		if listed {
			places = append(places, id)
		}
		return nil
	})
	return w.Cut(places), len(places) >= w.Limit || seen < scanned, err
}

// kinds returns the numbers of all kinds that the filter selects.
func (f *finder) kinds(ctx context.Context, ask wire.Page) (kinds []int32, err error) {
	all, err := allKinds(ctx, f.tx)
	for n, k := range all {
		if (len(ask.Types) == 0 || slices.Contains(ask.Types, k.text)) && (len(ask.Statuses) == 0 || slices.Contains(ask.Statuses, k.status)) {
			kinds = append(kinds, n)
		}
	}
	return kinds, err
}
