// Package open opens a store by its URL or path.
package open

import (
	"context"
	"errors"
	"strings"

	"cloister/host/store"
	"cloister/host/store/postgres"
	"cloister/host/store/sqlite"
)

// Open opens "postgres://…" or "postgresql://…" as a PostgreSQL database, and "sqlite:PATH" or a
// bare path as an SQLite file. It creates the file and tables as needed. Errors do not repeat the
// name, which may hold a password.
func Open(ctx context.Context, name string) (store.Store, error) { return openNamed(ctx, name, true) }

// OpenExisting opens a store that exists and has the tables of this release. It changes nothing: a
// mistyped name creates no empty store, and programs of an earlier release can continue to use it.
func OpenExisting(ctx context.Context, name string) (store.Store, error) {
	return openNamed(ctx, name, false)
}

func openNamed(ctx context.Context, name string, change bool) (store.Store, error) {
	server, file := postgres.OpenExisting, sqlite.OpenExisting
	if change {
		server, file = postgres.Open, sqlite.Open
	}
	switch {
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"):
		return orNil(server(ctx, name))
	case strings.Contains(name, "://"):
		return nil, errors.New("store: want postgres://…, sqlite:PATH or a path")
	}
	path := strings.TrimPrefix(name, "sqlite:")
	if path == "" {
		return nil, errors.New("store: the path is empty")
	}
	return orNil(file(ctx, path))
}

// orNil returns a nil interface with an error, instead of one that holds a nil pointer.
func orNil[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Schema is the result of store.Archive.Schema in this release, without opening a store.
func Schema() uint64 { return (*sqlite.Store)(nil).Schema() }
