// Package postgres is the production store: PostgreSQL 15 or newer, through pgx. Any number of hosts
// may use one database.
//
// A batch is one round trip: a function in the database locks the ownership row, compares and
// inserts, in a transaction of its own. Only a batch that completes a tree node, about one in a
// hundred, takes five round trips.
//
// There is no session state between transactions and no named statement, so a connection pooler in
// transaction mode works.
package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"cloister/host/store"
)

const (
	connections = 8 // default of the DSN's pool_max_conns
	attempts    = 4 // of a transaction that collides with another
	manyKinds   = 1 << 16
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is a store.Store in a PostgreSQL database.
type Store struct {
	pool *pgxpool.Pool

	mu    sync.Mutex
	kinds map[kind]int32 // rows of table kind, which never change
}

var _ store.Store = (*Store)(nil)

// Open connects to a database, by URL or by keywords as libpq does, and creates or migrates its
// tables. It refuses a database that confirms commits before they are on disk, and one that a later
// release has written (store.ErrLater).
func Open(ctx context.Context, dsn string) (*Store, error) { return open(ctx, dsn, true) }

// OpenExisting connects to a database that has the tables of this release, and changes nothing:
// other programs, also of an earlier release, may be using it. Errors are those of Open and
// store.ErrEarlier.
func OpenExisting(ctx context.Context, dsn string) (*Store, error) { return open(ctx, dsn, false) }

func open(ctx context.Context, dsn string, change bool) (*Store, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("opening postgres: %w", err)
	}
	if !strings.Contains(dsn, "default_query_exec_mode") {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if !strings.Contains(dsn, "pool_max_conns") {
		config.MaxConns = connections
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("opening postgres: %w", err)
	}
	s := &Store{pool: pool, kinds: map[kind]int32{}}
	if err := s.prepare(ctx, change); err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening postgres: %w", err)
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context, change bool) error {
	var fsync, commit string
	err := s.pool.QueryRow(ctx, "SELECT current_setting('fsync'), current_setting('synchronous_commit')").Scan(&fsync, &commit)
	if err != nil {
		return err
	}
	if fsync != "on" || commit == "off" {
		return fmt.Errorf("fsync is %s and synchronous_commit is %s: stored would not mean stored", fsync, commit)
	}
	if !change { // goose would create its table in any database
		var there bool
		if err := s.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", goose.DefaultTablename).Scan(&there); err != nil {
			return err
		}
		if !there {
			return store.ErrNoVersion
		}
	}
	return s.migrate(ctx, change)
}

// migrate brings the tables up to date, or fails if they are not and change is false. Hosts that
// start at once wait for each other at a row lock, not at a session's lock, which a pooler would lose.
func (s *Store) migrate(ctx context.Context, change bool) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	waiting, err := lock.NewPostgresTableLocker(lock.WithTableLockTimeout(time.Second, 120))
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(s.pool)
	steps, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithLocker(waiting))
	if err == nil {
		err = s.raise(ctx, steps, change)
	}
	if err != nil {
		err = fmt.Errorf("migrating: %w", err)
	}
	return errors.Join(err, db.Close())
}

func (s *Store) raise(ctx context.Context, steps *goose.Provider, change bool) error {
	is, newest, err := steps.GetVersions(ctx)
	if err != nil {
		return err
	}
	if is > newest {
		return store.ErrLater
	}
	pending, err := steps.HasPending(ctx)
	switch {
	case err != nil || !pending:
		return err
	case !change:
		return store.ErrEarlier
	}
	_, err = steps.Up(ctx)
	return err
}

// Schema implements store.Archive.
func (s *Store) Schema() uint64 { return schema }

// schema is the number of the last migration.
var schema = store.LastMigration(migrations)

// Ping implements store.Store.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// Close implements store.Store.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// read runs a function in one read-only transaction that sees a consistent snapshot.
func (s *Store) read(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, do)
}

// write runs a function in a transaction of its own, again after a collision with another. The server
// ends the transaction if this host crashes meanwhile, so that the ownership row does not
// stay locked.
func (s *Store) write(ctx context.Context, do func(pgx.Tx) error) (err error) {
	for range attempts {
		err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '10s'"); err != nil {
				return err
			}
			return do(tx)
		})
		if !isCollision(err) {
			return err
		}
	}
	return err
}

// A querier is the pool, where each statement is a transaction, or a transaction.
type querier interface {
	QueryRow(ctx context.Context, text string, args ...any) pgx.Row
	Query(ctx context.Context, text string, args ...any) (pgx.Rows, error)
}

// each scans every row of a statement's result into values and calls do.
func each(ctx context.Context, on querier, text string, args, values []any, do func() error) error {
	rows, err := on.Query(ctx, text, args...)
	if err == nil {
		_, err = pgx.ForEachRow(rows, values, do)
	}
	return err
}

// column reads the one column of every row of a statement's result.
func column[T any](ctx context.Context, on querier, text string, args ...any) ([]T, error) {
	rows, err := on.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// isCollision reports whether a transaction collided with another, so that it may succeed when it runs again.
func isCollision(err error) bool {
	const serialization, deadlock, lockNotAvailable = "40001", "40P01", "55P03"
	e, ok := errors.AsType[*pgconn.PgError](err)
	return isConstraint(err) || ok && slices.Contains([]string{serialization, deadlock, lockNotAvailable}, e.Code)
}

// isConstraint reports whether an error is a violated constraint.
func isConstraint(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(e.Code, "23")
}
