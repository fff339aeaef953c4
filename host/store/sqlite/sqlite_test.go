package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/host/store/storetest"
	"cloister/shared/wire"
)

func open(t *testing.T) (store.Store, func() store.Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cloister %.db")
	var s *sqlite.Store
	reopen := func() store.Store {
		t.Helper()
		if s != nil {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if s, err = sqlite.Open(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return reopen(), reopen
}

func TestStore(t *testing.T) { storetest.Run(t, open) }

func BenchmarkAppend(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) store.Store {
		s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		return s
	}, nil)
}

func BenchmarkPage(b *testing.B) {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	storetest.BenchPage(b, s, 1_000_000)
}

func BenchmarkIndex(b *testing.B) {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	storetest.BenchIndex(b, s, 200_000)
}

func BenchmarkOutbox(b *testing.B) {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	storetest.BenchOutbox(b, s, 20_000)
}

func BenchmarkLog(b *testing.B) {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	storetest.BenchLog(b, s, 10_000)
}

func BenchmarkArchive(b *testing.B) {
	storetest.BenchArchive(b, func(b *testing.B) store.Store {
		s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		return s
	}, 10_000)
}

// TestOtherReleases opens files of a later and of an earlier release.
func TestOtherReleases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloister.db")
	if _, err := sqlite.OpenExisting(t.Context(), path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a file that is not there: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("looking made the file: %v", err)
	}
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	change := func(text string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err == nil {
			_, err = db.Exec(text)
		}
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	both := func(want error) {
		t.Helper()
		for name, open := range map[string]func() (*sqlite.Store, error){
			"existing": func() (*sqlite.Store, error) { return sqlite.OpenExisting(t.Context(), path) },
			"open":     func() (*sqlite.Store, error) { return sqlite.Open(t.Context(), path) },
		} {
			if want == store.ErrEarlier && name == "open" {
				continue
			}
			s, err := open()
			if !errors.Is(err, want) {
				t.Fatalf("%s: %v, want %v", name, err, want)
			}
			if err == nil {
				_ = s.Close()
			}
		}
	}
	both(nil)
	change("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	both(store.ErrLater)
	change("DELETE FROM goose_db_version WHERE version_id = 9999")
	both(nil)
	change("DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)")
	both(store.ErrEarlier)
}

// TestTwoStores has two stores write one file in turns: what each remembers of an
// organization's end counts only while nobody else has written.
func TestTwoStores(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloister.db")
	var stores [2]*sqlite.Store
	for i := range stores {
		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores[i] = s
	}
	owned, err := stores[0].Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: wire.ID{1}})
	if err != nil || !owned.OK {
		t.Fatal(owned, err)
	}
	number := uint64(1)
	for i, c := range []struct {
		by         int
		seq        uint64
		want       wire.Verdict
		statements uint64
	}{
		{0, 0, wire.VerdictStored, 0},
		{0, 1, wire.VerdictStored, 4},
		{0, 2, wire.VerdictStored, 4},
		{0, 4, wire.VerdictConflict, 3}, // rolled back at the gap
		{0, 3, wire.VerdictStored, 4},
		{1, 4, wire.VerdictStored, 0},
		{1, 5, wire.VerdictStored, 4},
		{0, 4, wire.VerdictConflict, 0}, // the end that this one remembers
		{0, 6, wire.VerdictStored, 0},
		{1, 6, wire.VerdictConflict, 0},
		{1, 7, wire.VerdictStored, 0},
	} {
		s := stores[c.by]
		before := s.Statements()
		got, err := s.Append(t.Context(), &wire.Batch{Boot: wire.ID{1}, Epoch: owned.Epoch, Number: number, Header: []byte{byte(i)},
			Entries: []wire.Entry{{Organization: wire.ID{2}, Seq: c.seq, Sealed: []byte("sealed"), TimeMs: 1}}})
		if err != nil || got.Verdict != c.want {
			t.Fatalf("%d: seq %d: %+v %v, want verdict %d", i, c.seq, got, err, c.want)
		}
		if ran := s.Statements() - before; c.statements != 0 && ran != c.statements {
			t.Errorf("%d: seq %d took %d statements, want %d", i, c.seq, ran, c.statements)
		}
		if c.want == wire.VerdictStored {
			number++
		}
	}
	if taken, err := stores[0].Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: wire.ID{9}, Expect: owned.Epoch}); err != nil || !taken.OK {
		t.Fatal(taken, err)
	}
	got, err := stores[1].Append(t.Context(), &wire.Batch{Boot: wire.ID{1}, Epoch: owned.Epoch, Number: number, Header: []byte{99},
		Entries: []wire.Entry{{Organization: wire.ID{2}, Seq: 8, Sealed: []byte("sealed"), TimeMs: 1}}})
	if err != nil || got.Verdict != wire.VerdictSuperseded {
		t.Fatalf("the next batch of an owner that is none any more: %+v %v", got, err)
	}
}
