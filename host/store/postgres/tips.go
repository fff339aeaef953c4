package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// alongKeys makes a transaction read tables in the order of their keys, without sorting: before the server has
// statistics of a table, as after an import, it prefers to read and sort all rows that follow.
func alongKeys(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off", pgx.QueryExecModeSimpleProtocol)
	return err
}

// LoadHeaders implements store.Loader. Like entries it queries sizes first.
func (s *Store) LoadHeaders(ctx context.Context, ask wire.LoadHeaders) (h wire.Headers, err error) {
	if err := store.CheckHeaders(ask); err != nil {
		return h, err
	}
	err = s.read(ctx, func(tx pgx.Tx) error {
		if err := alongKeys(ctx, tx); err != nil {
			return err
		}
		const from = " FROM batch WHERE range = $1 AND (epoch, number) >= ($2, $3) ORDER BY epoch, number LIMIT $4"
		place := []any{int16(ask.Range), int64(ask.Epoch), int64(ask.Number)}
		sizes, err := column[int32](ctx, tx, "SELECT octet_length(header)"+from, append(place, int64(min(max(1, ask.MaxBytes), store.MaxHeaders)))...)
		if err != nil {
			return err
		}
		want, bytesLeft := int(ask.MaxBytes), store.MaxAnswer
		h.Headers, err = column[[]byte](ctx, tx, "SELECT header"+from, append(place, int64(fitting(sizes, &want, &bytesLeft, true)))...)
		return err
	})
	return store.Result(h, err, "loading headers")
}

// tipsAtOnce bounds the organizations whose hashes are read together: at most 255 of each level.
const tipsAtOnce = 128

// LoadTips implements store.Loader.
func (s *Store) LoadTips(ctx context.Context, ask wire.LoadTips) (t wire.Tips, err error) {
	if err := store.CheckTips(ask); err != nil {
		return t, err
	}
	err = s.read(ctx, func(tx pgx.Tx) error {
		t = wire.Tips{}
		if err := alongKeys(ctx, tx); err != nil {
			return err
		}
		var numbers []int64
		var id [16]byte
		var number int32
		var last int64
		err := each(ctx, tx, `SELECT uuid, id, last FROM organization
			CROSS JOIN LATERAL (SELECT e.id AS last FROM entry e WHERE e.id >= organization.id::bigint << 32
				AND e.id <= (organization.id::bigint << 32 | 4294967295) ORDER BY e.id DESC LIMIT 1) AS e
			WHERE uuid >= $1 AND uuid <= $2 ORDER BY uuid LIMIT $3`,
			[]any{[16]byte(ask.From), [16]byte(ask.To), int64(ask.Limit)}, []any{&id, &number, &last}, func() error {
				t.Tips = append(t.Tips, wire.Tip{Organization: id, Count: store.Seq(last) + 1})
				numbers = append(numbers, int64(number))
				return nil
			})
		for at := 0; err == nil && at < len(numbers); at += tipsAtOnce {
			end := min(at+tipsAtOnce, len(numbers))
			err = addRoots(ctx, tx, numbers[at:end], t.Tips[at:end])
		}
		return err
	})
	return store.Result(t, err, "loading tips")
}

// addRoots sets the roots of organizations, by number. It reads all their leaf hashes with one statement and
// all their nodes with another.
func addRoots(ctx context.Context, tx pgx.Tx, numbers []int64, tips []wire.Tip) error {
	var leaves, nodes places
	for i, number := range numbers {
		for _, r := range tree.Runs(tips[i].Count) {
			if r.Level == 0 {
				leaves.add(store.Place(number, r.From), r.Count)
			} else {
				nodes.add(store.NodePlace(number, r.Level, r.From), r.Count)
			}
		}
	}
	const text = ` FROM unnest($1::bigint[], $2::bigint[]) AS p (f, n) CROSS JOIN LATERAL `
	leafAt, err := leaves.read(ctx, tx, "SELECT e.id, e.leaf"+text+"(SELECT id, leaf FROM entry WHERE id >= f AND id < f + n ORDER BY id LIMIT 256) AS e")
	if err != nil {
		return err
	}
	nodeAt, err := nodes.read(ctx, tx, "SELECT e.id, e.hash"+text+"(SELECT id, hash FROM node WHERE id >= f AND id < f + n ORDER BY id LIMIT 256) AS e")
	if err != nil {
		return err
	}
	for i, number := range numbers {
		tips[i].Root, err = tree.Root(tips[i].Count, func(level uint, from uint64, count int) ([]wire.Hash, error) {
			if level == 0 {
				return consecutive(leafAt, store.Place(number, from), count), nil
			}
			return consecutive(nodeAt, store.NodePlace(number, level, from), count), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// places are runs of consecutive keys.
type places struct{ first, count []int64 }

func (p *places) add(first int64, count int) {
	p.first, p.count = append(p.first, first), append(p.count, int64(count))
}

// read returns the hashes stored under the keys.
func (p *places) read(ctx context.Context, tx pgx.Tx, text string) (map[int64]wire.Hash, error) {
	at := map[int64]wire.Hash{}
	var place int64
	var hash []byte
	err := each(ctx, tx, text, []any{list(p.first), list(p.count)}, []any{&place, &hash}, func() (err error) {
		at[place], err = hashOf(hash)
		return err
	})
	return at, err
}

// consecutive returns the hashes from a place on, up to the first missing one.
func consecutive(at map[int64]wire.Hash, first int64, count int) []wire.Hash {
	hashes := make([]wire.Hash, 0, count)
	for place := first; place < first+int64(count); place++ {
		h, ok := at[place]
		if !ok {
			break
		}
		hashes = append(hashes, h)
	}
	return hashes
}

// LoadTable implements store.Loader.
func (s *Store) LoadTable(ctx context.Context, ask wire.LoadTable) (t wire.TipTable, err error) {
	if err := store.CheckTable(ask); err != nil {
		return t, err
	}
	err = s.pool.QueryRow(ctx, "SELECT bytes FROM tip_table WHERE range = $1", int16(ask.Range)).Scan(&t.Table)
	if errors.Is(err, pgx.ErrNoRows) {
		return wire.TipTable{}, nil
	}
	return store.Result(t, err, "loading a tip table")
}

// LoadPages implements store.Loader.
func (s *Store) LoadPages(ctx context.Context, ask wire.LoadPages) (p wire.Pieces, err error) {
	if err := store.CheckPages(ask); err != nil {
		return p, err
	}
	err = s.read(ctx, func(tx pgx.Tx) (err error) {
		p.Pieces, err = byHash(ctx, tx, "bytes", "tip_page ON range = $1", int16(ask.Range), ask.Pages)
		return err
	})
	return store.Result(p, err, "loading pages of a tip table")
}

// PutTable implements store.Writer. Like PutSnapshot it locks the ownership row last.
func (s *Store) PutTable(ctx context.Context, put wire.PutTable) (done wire.Done, err error) {
	if err := store.CheckNewTable(put); err != nil {
		return done, err
	}
	err = s.write(ctx, func(tx pgx.Tx) (err error) {
		done.OK, err = putTable(ctx, tx, put)
		return err
	})
	if errors.Is(err, errLost) {
		return wire.Done{}, nil
	}
	return store.Result(done, err, "putting a tip table")
}

func putTable(ctx context.Context, tx pgx.Tx, put wire.PutTable) (ok bool, err error) {
	if held, err := owns(ctx, tx, put.Range, put.Boot, put.Epoch, ""); err != nil || !held {
		return false, err
	}
	r := int16(put.Range)
	if len(put.Table) > 0 {
		var there []byte
		err := tx.QueryRow(ctx, "SELECT bytes FROM tip_table WHERE range = $1 FOR UPDATE", r).Scan(&there)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return false, err
		}
		if fits, same := store.CompareTable(there, put); !fits {
			return same, nil
		}
		_, err = tx.Exec(ctx, "INSERT INTO tip_table (range, bytes) VALUES ($1, $2) ON CONFLICT (range) DO UPDATE SET bytes = excluded.bytes", r, put.Table)
		if err != nil {
			return false, err
		}
	}
	if len(put.Drop) > 0 {
		if _, err := tx.Exec(ctx, "DELETE FROM tip_page WHERE range = $1 AND hash = ANY ($2)", r, list(slicesOf(put.Drop))); err != nil {
			return false, err
		}
	}
	if len(put.Pages) > 0 {
		_, err := tx.Exec(ctx, `INSERT INTO tip_page (range, hash, bytes)
			SELECT $1, h, p FROM unnest($2::bytea[], $3::bytea[]) AS n (h, p) ON CONFLICT DO NOTHING`, r, list(hashesOf(put.Pages)), list(put.Pages))
		if err != nil {
			return false, err
		}
	}
	held, err := owns(ctx, tx, put.Range, put.Boot, put.Epoch, " FOR SHARE")
	if err == nil && !held {
		err = errLost
	}
	return held, err
}
