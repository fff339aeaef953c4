package backup_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"cloister/host/backup"
	"cloister/host/store"
	"cloister/host/store/open"
	"cloister/host/store/storetest"
)

// BenchmarkBackup measures what 100,000 entries take: written from each kind of
// store to a folder, verified, and restored into each kind.
//
//	go test -run xxx -bench Backup -benchtime 1x ./host/backup
func BenchmarkBackup(b *testing.B) {
	const entries = 100_000
	server := storetest.StartPostgres(b)
	kinds := []struct {
		name string
		make func(b *testing.B) string
	}{
		{"sqlite", func(b *testing.B) string { return filepath.Join(b.TempDir(), "cloister.db") }},
		{"postgres", func(b *testing.B) string { return server.Database() }},
	}
	opened := func(b *testing.B, name string) store.Store {
		s, err := open.Open(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		return s
	}
	for _, from := range kinds {
		s := logged{opened(b, from.make(b))}
		storetest.Many(b, s, entries)
		dir, n := b.TempDir(), 0
		var to backup.Dir
		b.Run("write/"+from.name, func(b *testing.B) {
			for b.Loop() {
				n++
				to = backup.Dir{Path: filepath.Join(dir, strconv.Itoa(n))}
				sum, err := backup.Write(b.Context(), s, to, "0.6", nowMs)
				if err != nil || sum.Entries != entries {
					b.Fatal(sum, err)
				}
				b.SetBytes(int64(sum.Bytes))
			}
		})
		b.Run("verify/"+from.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := backup.Verify(b.Context(), to, nil, open.Schema(), backup.Trust{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, into := range kinds {
			b.Run("restore/"+from.name+"-"+into.name, func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					target := opened(b, into.make(b))
					b.StartTimer()
					if _, err := backup.Restore(b.Context(), to, target, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
