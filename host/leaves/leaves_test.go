package leaves_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	second "golang.org/x/mod/sumdb/tlog"

	"cloister/attestation/tlog"
	"cloister/host/leaves"
	"cloister/host/leaves/leavestest"
	"cloister/host/store"
	"cloister/host/store/postgres"
	"cloister/host/store/sqlite"
	"cloister/host/store/storetest"
	"cloister/shared/wire"
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// stores runs a test with SQLite and, one in every cases, with PostgreSQL where it is. fill makes a store that holds rows.
func stores(t *testing.T, test func(t *testing.T, every int, fill func(...store.Row) store.Store)) {
	imported := func(t *testing.T, s store.Store, rows []store.Row) store.Store {
		t.Helper()
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Import(t.Context(), storetest.From(rows)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("sqlite", func(t *testing.T) {
		test(t, 1, func(rows ...store.Row) store.Store {
			return imported(t, must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store")))(t), rows)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		server := storetest.StartPostgres(t)
		test(t, 15, func(rows ...store.Row) store.Store {
			return imported(t, must(postgres.Open(t.Context(), server.Database()))(t), rows)
		})
	})
}

func rowsOf(h *leavestest.History, tables ...*store.TableRow) []store.Row {
	rows := []store.Row{h.Owner()}
	for _, r := range h.Rows {
		rows = append(rows, r)
	}
	for _, r := range tables {
		rows = append(rows, r)
	}
	return rows
}

// consistent asks two verifiers of others.
func consistent(h *leavestest.History, old, size uint64, path []wire.Hash) error {
	var hashes [][]byte
	var theirs second.TreeProof
	for _, p := range path {
		hashes, theirs = append(hashes, p[:]), append(theirs, second.Hash(p))
	}
	err := proof.VerifyConsistency(rfc6962.DefaultHasher, old, size, hashes, h.Roots[old][:], h.Roots[size][:])
	return errors.Join(err, second.CheckTree(theirs, int64(size), second.Hash(h.Roots[size]), int64(old), second.Hash(h.Roots[old])))
}

// Wherever the newest tip table stands: every root, proof, node and leaf is the log's, and 1,000 random pairs of heads are
// consistent to two verifiers.
func TestEveryTable(t *testing.T) {
	const size = 1500
	h := leavestest.New(2, 1)
	h.Grow(size)
	whole := leaves.New(nil, 2, 1, true)
	stores(t, func(t *testing.T, every int, fill func(...store.Row) store.Store) {
		random := rand.New(rand.NewPCG(1, 2))
		pairs := 0
		tables := []uint64{1, 2, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 1279, 1280, size - 1}
		least := 1000
		if testing.Short() {
			tables, least = []uint64{1, 255, 256, 1025, size - 1}, 350
		}
		for _, table := range tables {
			l := leaves.New(fill(rowsOf(h, h.Table(table))...), 2, 1, false)
			if err := l.ReadTo(t.Context(), size); err != nil || l.Size() != size {
				t.Fatal(table, l.Size(), err)
			}
			for range 75 / every {
				n := 1 + random.Uint64N(size)
				if root, err := l.Root(t.Context(), n); err != nil || root != h.Roots[n] {
					t.Fatalf("table of %d: root of %d leaves is %x, %v", table, n, root, err)
				}
				old := 1 + random.Uint64N(n)
				path, err := l.ProveConsistency(t.Context(), old, n)
				if err == nil {
					err = consistent(h, old, n, path)
				}
				if err != nil {
					t.Fatalf("table of %d: from %d to %d leaves: %v", table, old, n, err)
				}
				pairs++
				from := random.Uint64N(size)
				count := 1 + random.IntN(int(min(300, size-from)))
				got, err := l.Leaves(t.Context(), from, count)
				if err != nil || !slices.EqualFunc(got, h.Leaves[from:from+uint64(count)], bytes.Equal) {
					t.Fatalf("table of %d: %d leaves from %d: %v", table, count, from, err)
				}
				for _, level := range []uint{0, 8} {
					at := random.Uint64N(size >> level)
					span := at / 256 * 256
					sameNodes(t, l, h, level, span, int(min(256, size>>level-span)))
					sameNodes(t, l, h, level, at, 1)
				}
			}
		}
		if pairs < least/(every+1) {
			t.Error(pairs)
		}
	})
	if _, err := whole.Hashes(t.Context(), 0, 0, 1); err == nil {
		t.Error("a node of a log that was not read")
	}
}

// sameNodes compares nodes with those that x/mod makes of the leaves.
func sameNodes(t *testing.T, l *leaves.Log, h *leavestest.History, level uint, from uint64, count int) {
	t.Helper()
	got, err := l.Hashes(t.Context(), level, from, count)
	if err != nil || len(got) != count {
		t.Fatal(len(got), err)
	}
	for i := range got {
		at := from + uint64(i)
		sub := leavesRoot(h.Leaves[at<<level : (at+1)<<level])
		if got[i] != sub {
			t.Fatalf("node %d at level %d is another", at, level)
		}
	}
}

func leavesRoot(all [][]byte) wire.Hash {
	if len(all) == 1 {
		return wire.Hash(second.RecordHash(all[0]))
	}
	left, right := leavesRoot(all[:len(all)/2]), leavesRoot(all[len(all)/2:])
	return wire.Hash(second.NodeHash(second.Hash(left), second.Hash(right)))
}

// A log of nodes at level 16: from before the table, above it and behind it.
func TestLarge(t *testing.T) {
	const size = 2<<16 + 300
	h := leavestest.New(0, 1)
	h.Grow(size)
	random := rand.New(rand.NewPCG(3, 4))
	tables := []uint64{1<<16 + 12_345, 1<<16 - 1}
	if testing.Short() {
		tables = tables[:1]
	}
	for _, table := range tables {
		s := must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store")))(t)
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Import(t.Context(), storetest.From(rowsOf(h, h.Table(table)))); err != nil {
			t.Fatal(err)
		}
		l := leaves.New(s, 0, 1, false)
		if err := l.ReadTo(t.Context(), size); err != nil {
			t.Fatal(err)
		}
		got, err := l.Hashes(t.Context(), 16, 0, 2)
		if err != nil || got[0] != leavesRoot(h.Leaves[:1<<16]) || got[1] != leavesRoot(h.Leaves[1<<16:2<<16]) {
			t.Fatal(err)
		}
		for range 100 {
			n := 2 + random.Uint64N(size-1)
			old := 1 + random.Uint64N(n-1)
			path, err := l.ProveConsistency(t.Context(), old, n)
			if err == nil {
				err = consistent(h, old, n, path)
			}
			if err != nil {
				t.Fatalf("table of %d: from %d to %d leaves: %v", table, old, n, err)
			}
		}
	}
}

// A generation begins anywhere in an epoch: its leaves are found, those of the one before too, and its host begins where a
// table of the one before stands.
func TestGenerations(t *testing.T) {
	stores(t, func(t *testing.T, every int, fill func(...store.Row) store.Store) {
		one := leavestest.New(1, 1)
		one.Grow(530)
		two := leavestest.New(1, 2)
		two.Epoch, two.Number = one.Epoch, one.Number
		two.Grow(900)
		rows := append(rowsOf(one)[1:], rowsOf(two)[1:]...)
		rows = append([]store.Row{two.Owner()}, rows...)
		for name, table := range map[string]*store.TableRow{"no table": nil, "of the one before": one.Table(500), "of this one": two.Table(600)} {
			all := slices.Clone(rows)
			if table != nil {
				all = append(all, table)
			}
			s := fill(all...)
			for g, h := range map[uint32]*leavestest.History{1: one, 2: two} {
				l := leaves.New(s, 1, g, false)
				if err := l.ReadTo(t.Context(), h.Size()); err != nil {
					t.Fatal(name, g, err)
				}
				for n := uint64(0); n < h.Size(); n += 3 * uint64(every) {
					if got, err := l.Leaves(t.Context(), n, 1); err != nil || !bytes.Equal(got[0], h.Leaves[n]) {
						t.Fatalf("%s: leaf %d of generation %d: %v", name, n, g, err)
					}
				}
				for n := uint64(1); n <= h.Size(); n += 37 {
					if root, err := l.Root(t.Context(), n); err != nil || root != h.Roots[n] {
						t.Fatalf("%s: root of %d leaves of generation %d: %v", name, n, g, err)
					}
				}
			}
			if err := leaves.New(s, 1, 3, false).ReadTo(t.Context(), 1); !errors.Is(err, leaves.ErrOther) {
				t.Error(name, err)
			}
		}
	})
}

// Many ask at once.
func TestManyAsk(t *testing.T) {
	h := leavestest.New(0, 1)
	h.Grow(3000)
	s := must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store")))(t)
	defer s.Close()
	if err := s.Import(t.Context(), storetest.From(rowsOf(h, h.Table(2000)))); err != nil {
		t.Fatal(err)
	}
	l := leaves.New(s, 0, 1, false)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			for range 40 {
				n := 2 + random.Uint64N(2999)
				if err := l.Check(t.Context(), &tlog.Checkpoint{Size: n, Root: h.Roots[n]}); err != nil {
					t.Error(err)
				}
				old := 1 + random.Uint64N(n-1)
				if path, err := l.ProveConsistency(t.Context(), old, n); err != nil || consistent(h, old, n, path) != nil {
					t.Error(old, n, err)
				}
			}
		})
	}
	all.Wait()
}

// A failing store gives its errors at the leaf that is asked for, as often as asked, and what was read is not read again.
type failing struct {
	leaves.Store
	after int // answers
}

var errAway = errors.New("the store is away")

func (f *failing) LoadHeaders(ctx context.Context, ask wire.LoadHeaders) (wire.Headers, error) {
	if f.after--; f.after < 0 {
		return wire.Headers{}, errAway
	}
	return f.Store.LoadHeaders(ctx, ask)
}

func TestProgress(t *testing.T) {
	h := leavestest.New(0, 1)
	h.Grow(30_000)
	s := must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store")))(t)
	defer s.Close()
	if err := s.Import(t.Context(), storetest.From(rowsOf(h, h.Table(29_900)))); err != nil {
		t.Fatal(err)
	}
	f := &failing{Store: s, after: 1}
	l := leaves.New(f, 0, 1, false)
	if err := l.ReadTo(t.Context(), 30_000); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for ; ; failed++ {
		f.after = 12 // to find a place takes ten
		path, err := l.ProveConsistency(t.Context(), 3, 30_000)
		if err == nil {
			if err := consistent(h, 3, 30_000, path); err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, errAway) || failed > 100 {
			t.Fatal(failed, err)
		}
	}
	if failed < 2 {
		t.Error("the store failed", failed, "times")
	}
	if err := l.ReadTo(t.Context(), 30_001); !errors.Is(err, errAway) && !errors.Is(err, leaves.ErrOther) {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := l.Leaves(ended, 0, 1); err == nil {
		t.Error("read in no time")
	}
	if _, err := l.Leaves(t.Context(), 29_999, 2); err == nil {
		t.Error("a leaf that is not there")
	}
	if _, err := l.Hashes(t.Context(), 8, 117, 1); err == nil {
		t.Error("a node that is not complete")
	}
}

// What lies before the table may be anything when it is read: it is not taken for this log's leaves.
func TestPastRefused(t *testing.T) {
	h := leavestest.New(0, 1)
	h.Grow(2000)
	for name, change := range map[string]func([]store.Row) []store.Row{
		"a header of nothing": func(rows []store.Row) []store.Row {
			r := *rows[200].(*store.BatchRow)
			r.Header = []byte("header")
			rows[200] = &r
			return rows
		},
		"a header is missing": func(rows []store.Row) []store.Row { return slices.Delete(rows, 200, 201) },
		"all are missing":     func(rows []store.Row) []store.Row { return slices.Delete(rows, 1, 1900) },
	} {
		s := must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store")))(t)
		defer s.Close()
		if err := s.Import(t.Context(), storetest.From(change(rowsOf(h, h.Table(1950))))); err != nil {
			t.Fatal(err)
		}
		l := leaves.New(s, 0, 1, false)
		if err := l.Check(t.Context(), &tlog.Checkpoint{Size: 2000, Root: h.Roots[2000]}); err != nil {
			t.Fatal(name, err)
		}
		if path, err := l.ProveConsistency(t.Context(), 10, 2000); !errors.Is(err, leaves.ErrOther) {
			t.Error(name, len(path), err)
		}
	}
}

// Leaves that are read again are those of before.
type swapping struct {
	leaves.Store
	other leaves.Store
	now   bool
}

func (s *swapping) LoadHeaders(ctx context.Context, ask wire.LoadHeaders) (wire.Headers, error) {
	if s.now {
		return s.other.LoadHeaders(ctx, ask)
	}
	return s.Store.LoadHeaders(ctx, ask)
}

func TestReadAgain(t *testing.T) {
	h := leavestest.New(0, 1)
	h.Grow(20_000)
	other := h.Fork(300)
	other.Grow(19_700)
	fill := func(rows []store.Row) store.Store {
		s := must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store")))(t)
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Import(t.Context(), storetest.From(rows)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for table, past := range map[uint64]bool{1000: true, 19_000: true, 0: false} {
		s := &swapping{Store: fill(rowsOf(h, h.Table(table))), other: fill(rowsOf(other))}
		l := leaves.New(s, 0, 1, false)
		if err := l.ReadTo(t.Context(), 20_000); err != nil {
			t.Fatal(err)
		}
		if past {
			must(l.ProveConsistency(t.Context(), 2, 20_000))(t)
		}
		s.now = true
		if path, err := l.ProveConsistency(t.Context(), 600, 20_000); err == nil || !strings.Contains(err.Error(), "others than before") {
			t.Error(table, len(path), err)
		}
	}
}

// FuzzHeader: whatever is a header to the enclave is the same one here, and nothing makes reading it fail otherwise.
func FuzzHeader(f *testing.F) {
	h := leavestest.New(1, 2)
	h.Grow(3)
	for _, r := range h.Rows {
		f.Add(r.Header)
	}
	f.Add(must(wire.Marshal(&leavestest.HeaderBeforeLogs{Format: 1, BootNumber: 1, Epoch: 2, Number: 3, Tips: make([]wire.Tip, 2)}))(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		leaf, epoch, number, err := leaves.ParseHeader(b)
		if old := new(leavestest.HeaderBeforeLogs); wire.Unmarshal(b, old) == nil && old.Format == 1 {
			if err != nil || leaf != nil || old.Epoch != epoch || old.Number != number {
				t.Error(err)
			}
		}
		if h := new(wire.BatchHeader); len(b) > 32 && wire.Unmarshal(b[:len(b)-32], h) == nil && h.Format == 2 {
			if want, refused := tlog.ParseLeaf(h.Leaf); (err == nil) != (refused == nil) || err == nil && (want.Epoch != epoch || want.Number != number || !bytes.Equal(leaf, h.Leaf)) {
				t.Error(err, refused)
			}
		}
	})
}
