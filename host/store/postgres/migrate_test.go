package postgres_test

import (
	"database/sql"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"cloister/host/store/postgres"
	"cloister/host/store/storetest"
	"cloister/shared/wire"
)

// version is a new database with the first n migrations, and what makes the others.
func version(t *testing.T, n int64) (dsn string, db *sql.DB, steps *goose.Provider) {
	t.Helper()
	dsn = storetest.StartPostgres(t).Database()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db = stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	if steps, err = goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations")); err == nil {
		_, err = steps.UpTo(t.Context(), n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dsn, db, steps
}

// What was stored before there were ranges is range 0: its owner goes on where it was.
// And back: range 0 is left.
func TestMigratesToRanges(t *testing.T) {
	dsn, db, steps := version(t, 5)
	boot := wire.ID{1, 2, 3}
	for _, text := range []string{
		"INSERT INTO owner (id, boot, epoch, released) VALUES (1, '01020300-0000-0000-0000-000000000000', 7, false)",
		"INSERT INTO batch (epoch, number, header) VALUES (6, 9, 'x'), (7, 1, 'h1')",
	} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	s, err := postgres.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Own(t.Context(), wire.Own{Action: wire.OwnRenew, Boot: boot, Expect: 7}); err != nil || !got.OK || got.Epoch != 7 || got.Batches != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: boot, Range: 1}); err != nil || !got.OK || got.Epoch != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	append := func(b wire.Batch) {
		t.Helper()
		b.Boot = boot
		if got, err := s.Append(t.Context(), &b); err != nil || got.Verdict != wire.VerdictStored {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	append(wire.Batch{Epoch: 7, Number: 1, Header: []byte("h1")})
	append(wire.Batch{Epoch: 7, Number: 2, Header: []byte("h2"), Entries: []wire.Entry{{Organization: wire.ID{5}, Sealed: []byte{1}}}})
	append(wire.Batch{Epoch: 1, Number: 1, Range: 1, Header: []byte("h1"), Entries: []wire.Entry{{Organization: wire.ID{0x85}, Sealed: []byte{1}}}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := steps.DownTo(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	var owners, batches int
	if err := db.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM owner), (SELECT count(*) FROM batch)").Scan(&owners, &batches); err != nil || owners != 1 || batches != 3 {
		t.Fatalf("%d owners, %d batches, %v", owners, batches, err)
	}
}

// What was due before payers were known is its organization's own. And back.
func TestMigratesToPayers(t *testing.T) {
	dsn, db, steps := version(t, 11)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO outbox (organization, seq, number, kind, state, due)
		VALUES ('01020300-0000-0000-0000-000000000000', 0, 0, 2, 1, 5), ('01020300-0000-0000-0000-000000000000', 1, 0, 1, 3, 5)`); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	storetest.HoldsOldMail(t, s, wire.ID{1, 2, 3})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := steps.DownTo(t.Context(), 11); err != nil {
		t.Fatal(err)
	}
	// The earlier release's function is back.
	var functions int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_proc WHERE proname = 'append_sending' AND pronargs = 38").Scan(&functions); err != nil || functions != 1 {
		t.Fatalf("%d functions, %v", functions, err)
	}
}
