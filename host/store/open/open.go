// Package open opens the store that a name stands for.
package open

import (
	"context"
	"errors"
	"strings"

	"cloister/host/store"
	"cloister/host/store/postgres"
	"cloister/host/store/sqlite"
)

// Open opens "postgres://…" or "postgresql://…" as a PostgreSQL database, and
// "sqlite:PATH" or a bare path as a file. The file and all tables are made as
// needed. A name may hold a password; errors do not repeat it.
func Open(ctx context.Context, name string) (store.Store, error) {
	switch {
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"):
		return postgres.Open(ctx, name)
	case strings.Contains(name, "://"):
		return nil, errors.New("store: want postgres://…, sqlite:PATH or a path")
	}
	path := strings.TrimPrefix(name, "sqlite:")
	if path == "" {
		return nil, errors.New("store: the path is empty")
	}
	return sqlite.Open(ctx, path)
}
