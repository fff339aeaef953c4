package postgres_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"cloister/host/store"
	"cloister/host/store/postgres"
	"cloister/host/store/storetest"
	"cloister/shared/wire"
)

func TestStore(t *testing.T) {
	server := storetest.StartPostgres(t)
	storetest.Run(t, func(t *testing.T) (store.Store, func() store.Store) {
		t.Helper()
		dsn := server.Database()
		var s *postgres.Store
		reopen := func() store.Store {
			t.Helper()
			if s != nil {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if s, err = postgres.Open(t.Context(), dsn); err != nil {
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
	})
}

func BenchmarkAppend(b *testing.B) {
	server := storetest.StartPostgres(b)
	storetest.Bench(b, func(b *testing.B) store.Store {
		s, err := postgres.Open(b.Context(), server.Database())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		return s
	}, server.CPU)
}

// TestCrash kills the server at once, many batches on their way. What was
// answered as stored is there afterwards, what was not is stored by the same
// bytes, and the store that was open goes on.
func TestCrash(t *testing.T) {
	server := storetest.StartPostgres(t)
	s, err := postgres.Open(t.Context(), server.Database())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	boot, org := wire.ID{1}, wire.ID{2}
	if owned, err := s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: boot}); err != nil || !owned.OK {
		t.Fatalf("%+v, %v", owned, err)
	}
	batch := func(n uint64) *wire.Batch {
		return &wire.Batch{Boot: boot, Epoch: 1, Number: n, Header: []byte{1, byte(n >> 8), byte(n)},
			Entries: []wire.Entry{{Organization: org, Seq: n - 1, Sealed: make([]byte, 4000)}}}
	}
	last := uint64(0)
	for round := range 3 {
		var kill sync.WaitGroup
		for n, most := 0, 20+10*round; ; n++ {
			if n == most { // batches go on meanwhile
				kill.Go(server.Kill9)
			}
			stored, err := s.Append(t.Context(), batch(last+1))
			if err != nil && n < most {
				t.Fatalf("batch %d, while the server ran: %v", last+1, err)
			}
			if err != nil {
				break
			}
			if stored.Verdict != wire.VerdictStored {
				t.Fatalf("batch %d: verdict %d", last+1, stored.Verdict)
			}
			last++
		}
		kill.Wait()
		server.Start()
		o, err := s.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: org})
		for range 10 { // connections of the pool may still be those to the dead server
			if err == nil {
				break
			}
			o, err = s.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: org})
		}
		if err != nil {
			t.Fatal(err)
		}
		if o.Count != last && o.Count != last+1 {
			t.Fatalf("%d entries, %d were stored", o.Count, last)
		}
		stored, err := s.Append(t.Context(), batch(last+1))
		if err != nil || stored.Verdict != wire.VerdictStored {
			t.Fatalf("the same bytes again: %+v, %v", stored, err)
		}
		last++
	}
}

// TestOpenTogether starts many hosts on an empty database.
func TestOpenTogether(t *testing.T) {
	dsn := storetest.StartPostgres(t).Database()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := postgres.Open(t.Context(), dsn)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Own(t.Context(), wire.Own{Action: wire.OwnLook}); err != nil {
				t.Error(err)
			}
			_ = s.Close()
		})
	}
	wg.Wait()
}

func TestOpenRefuses(t *testing.T) {
	dsn := storetest.StartPostgres(t).Database()
	s, err := postgres.Open(t.Context(), dsn+"&options=-csynchronous_commit%3Doff")
	if err == nil {
		_ = s.Close()
		t.Fatal("opened a database that confirms what is not on disk")
	}
}

func BenchmarkPage(b *testing.B) {
	s, err := postgres.Open(b.Context(), storetest.StartPostgres(b).Database())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	storetest.BenchPage(b, s, 1_000_000)
}

func BenchmarkIndex(b *testing.B) {
	s, err := postgres.Open(b.Context(), storetest.StartPostgres(b).Database())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	storetest.BenchIndex(b, s, 200_000)
}

func BenchmarkOutbox(b *testing.B) {
	s, err := postgres.Open(b.Context(), storetest.StartPostgres(b).Database())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	storetest.BenchOutbox(b, s, 20_000)
}

func BenchmarkLog(b *testing.B) {
	s, err := postgres.Open(b.Context(), storetest.StartPostgres(b).Database())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	storetest.BenchLog(b, s, 10_000)
}

func BenchmarkArchive(b *testing.B) {
	server := storetest.StartPostgres(b)
	storetest.BenchArchive(b, func(b *testing.B) store.Store {
		s, err := postgres.Open(b.Context(), server.Database())
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

// TestOtherReleases opens databases of a later and of an earlier release.
func TestOtherReleases(t *testing.T) {
	dsn := storetest.StartPostgres(t).Database()
	s, err := postgres.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for _, step := range []struct {
		change         string
		open, existing error
	}{
		{"SELECT 1", nil, nil},
		{"INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)", store.ErrLater, store.ErrLater},
		{"DELETE FROM goose_db_version WHERE version_id = 9999", nil, nil},
		{"DROP TABLE goose_db_version", nil, store.ErrEarlier},
	} {
		if _, err := c.Exec(t.Context(), step.change); err != nil {
			t.Fatal(err)
		}
		if s, err := postgres.OpenExisting(t.Context(), dsn); !errors.Is(err, step.existing) {
			t.Fatalf("%s: existing: %v, want %v", step.change, err, step.existing)
		} else if err == nil {
			_ = s.Close()
		}
		if step.existing == store.ErrEarlier {
			continue // its tables are there; this step only looks
		}
		if s, err := postgres.Open(t.Context(), dsn); !errors.Is(err, step.open) {
			t.Fatalf("%s: open: %v, want %v", step.change, err, step.open)
		} else if err == nil {
			_ = s.Close()
		}
	}
}
