package sqlite

import (
	"context"
	"database/sql/driver"

	"cloister/host/store"
	"cloister/shared/wire"
)

// LoadKeys implements store.Loader.
func (s *Store) LoadKeys(ctx context.Context, ask wire.LoadKeys) (k wire.Keys, err error) {
	if err := store.CheckKeys(ask); err != nil {
		return k, err
	}
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, `SELECT organization, key, sealed FROM wrapped
			WHERE (organization, key) >= (?, ?) AND organization <= ? ORDER BY organization, key LIMIT ?`, func(row []driver.Value) (bool, error) {
			k.Keys = append(k.Keys, wire.WrappedKey{Organization: wire.ID(row[0].([]byte)), KeyID: uint32(row[1].(int64)), Sealed: row[2].([]byte)})
			return true, nil
		}, ask.From[:], int64(ask.FromKey), ask.To[:], int64(ask.Limit))
	})
	return store.Result(k, err, "loading keys")
}

// PutKeys implements store.Writer.
func (s *Store) PutKeys(ctx context.Context, put wire.PutKeys) (done wire.Done, err error) {
	if err := store.CheckNewKeys(put); err != nil {
		return done, err
	}
	err = s.change(ctx, func(ctx context.Context) (bool, error) {
		owned, err := s.owner(ctx, put.Range)
		if err != nil || owned.Epoch != put.Epoch || owned.Boot != put.Boot || owned.Released {
			return false, err
		}
		for i := range put.Keys {
			k := &put.Keys[i]
			if err := s.writer.exec(ctx, "UPDATE wrapped SET sealed = ? WHERE organization = ? AND key = ?", k.Sealed, k.Organization[:], int64(k.KeyID)); err != nil {
				return false, err
			}
			s.countWritten(int64(len(k.Sealed)))
		}
		done.OK = true
		return true, nil
	})
	return store.Result(done, err, "putting keys")
}
