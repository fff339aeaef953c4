package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/shared/wire"
)

// LoadKeys implements store.Loader.
func (s *Store) LoadKeys(ctx context.Context, ask wire.LoadKeys) (k wire.Keys, err error) {
	if err := store.CheckKeys(ask); err != nil {
		return k, err
	}
	var id [16]byte
	var key int64
	var sealed []byte
	err = each(ctx, s.pool, `SELECT organization, key, sealed FROM wrapped
		WHERE (organization, key) >= ($1, $2) AND organization <= $3 ORDER BY organization, key LIMIT $4`,
		[]any{[16]byte(ask.From), int64(ask.FromKey), [16]byte(ask.To), int64(ask.Limit)}, []any{&id, &key, &sealed}, func() error {
			k.Keys = append(k.Keys, wire.WrappedKey{Organization: id, KeyID: uint32(key), Sealed: sealed})
			sealed = nil
			return nil
		})
	return store.Result(k, err, "loading keys")
}

// PutKeys implements store.Writer. Like PutSnapshot it locks the ownership row last.
func (s *Store) PutKeys(ctx context.Context, put wire.PutKeys) (done wire.Done, err error) {
	if err := store.CheckNewKeys(put); err != nil {
		return done, err
	}
	n := len(put.Keys)
	ids, keys, sealed := make([][16]byte, n), make([]int64, n), make([][]byte, n)
	for i, k := range put.Keys {
		ids[i], keys[i], sealed[i] = k.Organization, int64(k.KeyID), k.Sealed
	}
	err = s.write(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE wrapped SET sealed = n.s FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS n (o, k, s)
			WHERE wrapped.organization = n.o AND wrapped.key = n.k`, ids, keys, sealed)
		if err != nil {
			return err
		}
		held, err := owns(ctx, tx, put.Range, put.Boot, put.Epoch, " FOR SHARE")
		if err == nil && !held {
			err = errLost
		}
		done.OK = held
		return err
	})
	if errors.Is(err, errLost) {
		return wire.Done{}, nil
	}
	return store.Result(done, err, "putting keys")
}
