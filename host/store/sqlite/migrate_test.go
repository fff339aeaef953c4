package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/pressly/goose/v3"

	"cloister/host/store/sqlite"
	"cloister/host/store/storetest"
	"cloister/shared/wire"
)

// What was stored before there were ranges is range 0: its owner goes on where it was.
func TestMigratesToRanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloister.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := steps.UpTo(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	boot := wire.ID{1, 2, 3}
	for text, args := range map[string][]any{
		"INSERT INTO owner (id, boot, epoch, released) VALUES (1, ?, 7, 0)":                  {boot[:]},
		"INSERT INTO batch (id, header) VALUES (6 << 40 | 9, x'78'), (7 << 40 | 1, x'6831')": nil,
	} {
		if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	own := wire.Own{Action: wire.OwnRenew, Boot: boot, Expect: 7}
	if got, err := s.Own(t.Context(), own); err != nil || !got.OK || got.Epoch != 7 || got.Batches != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := s.Own(t.Context(), wire.Own{Action: wire.OwnLook, Range: 1}); err != nil || got.Epoch != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, b := range []wire.Batch{
		{Epoch: 7, Number: 1, Header: []byte("h1")},
		{Epoch: 7, Number: 2, Header: []byte("h2"), Entries: []wire.Entry{{Organization: wire.ID{5}, Sealed: []byte{1}}}},
	} {
		b.Boot = boot
		if got, err := s.Append(t.Context(), &b); err != nil || got.Verdict != wire.VerdictStored {
			t.Fatalf("batch %d: %+v, %v", b.Number, got, err)
		}
	}
}

// What was due before payers were known is its organization's own. And back.
func TestMigratesToPayers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloister.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	steps, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := steps.UpTo(t.Context(), 11); err != nil {
		t.Fatal(err)
	}
	x := wire.ID{1, 2, 3}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO outbox (organization, seq, number, kind, state, due, tries, claimed, said, revert, memo)
		VALUES (?1, 0, 0, 2, 1, 5, 0, 0, '', x'', x''), (?1, 1, 0, 1, 3, 5, 0, 0, '', x'', x'')`, x[:]); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	storetest.HoldsOldMail(t, s, x)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := steps.DownTo(t.Context(), 11); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM outbox INDEXED BY outbox_due WHERE state < 3 AND receiver IS NULL AND due <= 5").Scan(&rows); err != nil || rows != 1 {
		t.Fatalf("%d rows, %v", rows, err)
	}
}
