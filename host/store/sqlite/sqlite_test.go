package sqlite_test

import (
	"path/filepath"
	"testing"

	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/host/store/storetest"
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
