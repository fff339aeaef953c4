package tiles_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	"cloister/host/tiles"
	"cloister/shared/wire"
	"cloister/sim/witness"
	"cloister/sim/witness/witnesstest"
)

// A log is what an enclave has put into a store, its key, and a witness of it.
type log struct {
	*leavestest.History
	key     *witnesstest.Log
	witness *witness.Witness
	url     string
	policy  *tlog.Policy
}

func begin(t *testing.T, in wire.Range, generation uint32) *log {
	t.Helper()
	l := &log{History: leavestest.New(in, generation), key: witnesstest.NewLog(fmt.Sprintf("log.example/00/%d/%d", in, generation))}
	var err error
	if l.witness, err = witness.New(witness.Options{Name: "w.example", Now: still, Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))}); err == nil {
		err = l.witness.Add(l.key.Key)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(l.witness.Handler())
	t.Cleanup(s.Close)
	l.url = s.URL
	if l.policy, err = tlog.ParsePolicy(l.text()); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *log) text() string {
	return fmt.Sprintf("witness %s %s\ngroup all 1 %s\nquorum all\n", l.witness.Key().Name(), l.witness.Key(), l.witness.Key().Name())
}

// cosigned is the checkpoint of the first leaves, with the witness's line. It has seen none but this.
func (l *log) cosigned(t *testing.T, size uint64) *store.Checkpoint {
	t.Helper()
	c := tlog.Checkpoint{Origin: l.key.Key.Name(), Size: size, Root: l.Roots[size]}
	signed := l.key.Sign(c.Text())
	fresh := begin(t, l.Range, l.Generation)
	r, err := http.Post(fresh.url+"/add-checkpoint", "text/plain", strings.NewReader("old 0\n\n"+string(signed)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var line bytes.Buffer
	if _, err := line.ReadFrom(r.Body); err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r.Status, err)
	}
	note := l.policy.Collect(signed, []string{line.String()})
	if note == nil {
		t.Fatalf("%q", line.String())
	}
	return &store.Checkpoint{Range: l.Range, Generation: l.Generation, Policy: l.text(), Size: size, Signed: signed, CosignedSize: size, Cosigned: note}
}

func (l *log) rows(tables ...*store.TableRow) []store.Row {
	rows := []store.Row{l.Owner()}
	for _, r := range l.Rows {
		rows = append(rows, r)
	}
	for _, r := range tables {
		rows = append(rows, r)
	}
	return rows
}

func filled(t *testing.T, s store.Store, err error, rows []store.Row) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Import(t.Context(), storetest.From(rows)); err != nil {
		t.Fatal(err)
	}
	return s
}

func inSQLite(t *testing.T, rows []store.Row) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store"))
	return filled(t, s, err, rows)
}

// still is a clock that stands.
func still() time.Time { return time.Unix(1_700_000_000, 0) }

// A clock stands still until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// A reader reads tiles as the client of Go's checksum database does.
type reader struct {
	t      *testing.T
	server *tiles.Server
	in     wire.Range
	read   int
}

func (r *reader) Height() int { return 8 }

func (r *reader) ReadTiles(all []second.Tile) (data [][]byte, err error) {
	for _, tile := range all {
		path := strings.TrimPrefix(tile.Path(), "tile/8/")
		b, err := r.server.Tile(r.t.Context(), r.in, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		r.read++
		data = append(data, b)
	}
	return data, nil
}

func (r *reader) SaveTiles([]second.Tile, [][]byte) {}

// Every leaf is read by its tiles, each proven under the checkpoint by x/mod; and what x/mod makes of the tiles for random
// pairs of heads, transparency-dev's verifier takes.
func TestTiles(t *testing.T) {
	const size = 1700
	l := begin(t, 3, 1)
	l.Grow(size + 20)
	test := func(t *testing.T, s store.Store, pairs int) {
		server := tiles.New(s, still)
		if err := s.PutCheckpoint(t.Context(), *l.cosigned(t, size)); err != nil {
			t.Fatal(err)
		}
		note, err := server.Checkpoint(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		head, _, err := l.policy.VerifyExactly(l.key.Key, note)
		if err != nil || head.Size != size {
			t.Fatal(head, err)
		}
		r := &reader{t: t, server: server, in: 3}
		hashes := second.TileHashReader(second.Tree{N: size, Hash: second.Hash(head.Root)}, r)
		for from := 0; from < size; from += 256 {
			n := min(256, size-from)
			path := fmt.Sprintf("entries/%03d", from/256)
			if n < 256 {
				path += fmt.Sprintf(".p/%d", n)
			}
			b, err := server.Tile(t.Context(), 3, path)
			if err != nil {
				t.Fatal(path, err)
			}
			var indexes []int64
			for i := range n {
				indexes = append(indexes, second.StoredHashIndex(0, int64(from+i)))
			}
			proven, err := hashes.ReadHashes(indexes)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				length := int(binary.BigEndian.Uint16(b))
				leaf := b[2 : 2+length]
				b = b[2+length:]
				if second.RecordHash(leaf) != proven[i] || !bytes.Equal(leaf, l.Leaves[from+i]) {
					t.Fatalf("leaf %d is another", from+i)
				}
			}
			if len(b) > 0 {
				t.Fatalf("%s: %d bytes more", path, len(b))
			}
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range pairs {
			n := 2 + random.Int64N(size-1)
			old := 1 + random.Int64N(n-1)
			// A tile of an older tree is narrower: it is there as well.
			older := second.TileHashReader(second.Tree{N: n, Hash: second.Hash(l.Roots[n])}, r)
			path, err := second.ProveTree(n, old, older)
			if err == nil {
				err = second.CheckTree(path, n, second.Hash(l.Roots[n]), old, second.Hash(l.Roots[old]))
			}
			var theirs [][]byte
			for i := range path {
				theirs = append(theirs, path[i][:])
			}
			if err == nil {
				err = proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(old), uint64(n), theirs, l.Roots[old][:], l.Roots[n][:])
			}
			if err != nil {
				t.Fatalf("from %d to %d leaves: %v", old, n, err)
			}
		}
		if r.read < size/256 {
			t.Error(r.read)
		}
	}
	for _, table := range []uint64{0, 1000, 1600} {
		var kept []*store.TableRow
		if table > 0 {
			kept = []*store.TableRow{l.Table(table)}
		}
		t.Run(fmt.Sprintf("sqlite, table of %d", table), func(t *testing.T) { test(t, inSQLite(t, l.rows(kept...)), 1000) })
	}
	t.Run("postgres", func(t *testing.T) {
		s, err := postgres.Open(t.Context(), storetest.StartPostgres(t).Database())
		test(t, filled(t, s, err, l.rows(l.Table(1600))), 20)
	})
}

// What lies beyond the cosigned checkpoint, or has no path, is not given.
func TestNone(t *testing.T) {
	l := begin(t, 0, 1)
	l.Grow(700)
	s := inSQLite(t, l.rows())
	server := tiles.New(s, still)
	if _, err := server.Checkpoint(t.Context(), 0); !errors.Is(err, tiles.ErrNone) {
		t.Error(err)
	}
	// Signed and not cosigned is not public.
	c := *l.cosigned(t, 650)
	c.CosignedSize, c.Cosigned = 0, nil
	if err := s.PutCheckpoint(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	server = tiles.New(s, still)
	if b, err := server.Checkpoint(t.Context(), 0); !errors.Is(err, tiles.ErrNone) {
		t.Error(len(b), err)
	}
	if err := s.PutCheckpoint(t.Context(), *l.cosigned(t, 650)); err != nil {
		t.Fatal(err)
	}
	server = tiles.New(s, still)
	for _, path := range []string{"0/000", "0/002.p/138", "0/002.p/1", "1/000.p/2", "1/000.p/1", "entries/001", "entries/002.p/138"} {
		if b, err := server.Tile(t.Context(), 0, path); err != nil || len(b) == 0 {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
	for _, path := range []string{"0/002", "0/002.p/139", "0/003", "0/003.p/1", "1/000", "1/000.p/3", "2/000.p/1", "3/000.p/1", "4/000.p/1", "63/000.p/1", "entries/002", "entries/002.p/139",
		"0/x001/000", "0/x999/x999/x999/999", "0/x999/x999/x999/x999/999"} {
		if b, err := server.Tile(t.Context(), 0, path); !errors.Is(err, tiles.ErrNone) {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
	for _, path := range []string{"", "0", "0/", "/000", "0/0", "0/0000", "00/000", "64/000", "-1/000", "+1/000", "0/x000/000", "0/000/000", "0/x001", "0/001/", "0/000.p", "0/000.p/", "0/000.p/0",
		"0/000.p/256", "0/000.p/01", "0/000.p/-1", "0/000.p/1/", "0/xx00/000", "data/000", "entries", "Entries/000", "entries/000.p/256", "0/..", "0/%30%30%30", "0/" + strings.Repeat("x001/", 40) + "001"} {
		if b, err := server.Tile(t.Context(), 0, path); !errors.Is(err, tiles.ErrPath) {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
	if b, err := server.Tile(t.Context(), 1, "0/000"); !errors.Is(err, tiles.ErrNone) {
		t.Errorf("another range: %d bytes, %v", len(b), err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if b, err := tiles.New(s, still).Tile(ended, 0, "0/000"); err == nil {
		t.Errorf("%d bytes in no time", len(b))
	}
}

// The log goes on, and so does what is public of it; another generation takes its place.
func TestGrowth(t *testing.T) {
	l := begin(t, 0, 1)
	l.Grow(300)
	s := inSQLite(t, l.rows())
	now := &clock{at: time.Unix(1_700_000_000, 0)}
	server := tiles.New(s, now.now)
	put := func(l *log, size uint64) {
		t.Helper()
		if err := s.PutCheckpoint(t.Context(), *l.cosigned(t, size)); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(l *log, size uint64) {
		t.Helper()
		all, err := server.Logs(t.Context())
		want := []tiles.Log{{Range: 0, Origin: l.key.Key.Name(), Generation: l.Generation, Size: size}}
		if err != nil || !slices.Equal(all, want) {
			t.Fatal(all, err)
		}
		if head, _, err := l.policy.VerifyExactly(l.key.Key, must(server.Checkpoint(t.Context(), 0))(t)); err != nil || head.Size != size {
			t.Fatal(head.Size, err)
		}
		if b, err := server.Tile(t.Context(), 0, "entries/000.p/5"); err != nil || !bytes.Contains(b, l.Leaves[4]) {
			t.Fatal(len(b), err)
		}
	}
	put(l, 200)
	shows(l, 200)
	put(l, 300)
	shows(l, 200) // not yet
	now.pass(time.Second)
	shows(l, 300)
	next := begin(t, 0, 2)
	next.Epoch, next.Number = l.Epoch+1, 0
	next.Grow(10)
	owned := must(s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: wire.ID{1}, Expect: l.Epoch}))(t)
	for _, r := range next.Rows {
		if got := must(s.Append(t.Context(), &wire.Batch{Boot: wire.ID{1}, Epoch: owned.Epoch, Number: r.Number, Header: r.Header}))(t); got.Verdict != wire.VerdictStored {
			t.Fatal(got)
		}
	}
	put(next, 10)
	now.pass(time.Second)
	shows(next, 10)
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A store in whose place another is put, and one that does not have what was cosigned, show nothing that does not fit.
type replaced struct {
	store.Store
	other store.Store
	now   bool
}

func (s *replaced) current() store.Store {
	if s.now {
		return s.other
	}
	return s.Store
}

func (s *replaced) LoadHeaders(ctx context.Context, ask wire.LoadHeaders) (wire.Headers, error) {
	return s.current().LoadHeaders(ctx, ask)
}

func (s *replaced) LoadCheckpoints(ctx context.Context) ([]store.Checkpoint, error) {
	return s.current().LoadCheckpoints(ctx)
}

func TestReplaced(t *testing.T) {
	l := begin(t, 0, 1)
	l.Grow(9000)
	other := &log{History: l.Fork(250), key: l.key, policy: l.policy, witness: l.witness}
	other.Grow(9000)
	s := &replaced{Store: inSQLite(t, l.rows(l.Table(8900))), other: inSQLite(t, other.rows())}
	for i, of := range []*log{l, other} {
		if err := []store.Store{s.Store, s.other}[i].PutCheckpoint(t.Context(), *of.cosigned(t, 9000-uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
	now := &clock{at: time.Unix(1_700_000_000, 0)}
	server := tiles.New(s, now.now)
	must(server.Tile(t.Context(), 0, "0/000"))(t)
	must(server.Tile(t.Context(), 0, "1/000.p/35"))(t)
	s.now = true
	now.pass(time.Second)
	for _, path := range []string{"0/001", "0/000", "entries/001", "1/000.p/35"} {
		for range 3 { // it may be that of before, or none, and then the other's
			b, err := server.Tile(t.Context(), 0, path)
			if err != nil && !errors.Is(err, leaves.ErrOther) {
				t.Error(path, err)
			}
			if err == nil && path == "entries/001" && !bytes.Contains(b, other.Leaves[260]) {
				t.Error(path, "is of the store before")
			}
		}
	}
	if head, _, err := other.policy.VerifyExactly(other.key.Key, must(server.Checkpoint(t.Context(), 0))(t)); err != nil || head.Size != 8999 {
		t.Error(head.Size, err)
	}
	// Cosigned, and not in the store.
	if err := s.other.PutCheckpoint(t.Context(), *l.cosigned(t, 9000)); err != nil {
		t.Fatal(err)
	}
	now.pass(time.Second)
	if b, err := server.Checkpoint(t.Context(), 0); !errors.Is(err, leaves.ErrOther) {
		t.Error(len(b), err)
	}
}

// FuzzPath: a path that is taken is the tile's only one.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"0/000", "1/x001/x234/067.p/8", "entries/x001/000", "3/000.p/1", "0/x000/000"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		again, ok := tiles.ParsePath(path)
		if ok && again != path {
			t.Errorf("%q is written %q", path, again)
		}
		if !ok || strings.HasPrefix(path, "entries/") {
			return
		}
		if theirs, err := second.ParseTilePath("tile/8/" + path); err != nil || theirs.Path() != "tile/8/"+path {
			t.Errorf("%q: %v", path, err)
		}
	})
}

// torchwood's client reads the log, and gets every leaf.
func TestTorchwood(t *testing.T) {
	const size = 2000
	l := begin(t, 0, 1)
	l.Grow(size)
	s := inSQLite(t, l.rows(l.Table(1900)))
	if err := s.PutCheckpoint(t.Context(), *l.cosigned(t, size)); err != nil {
		t.Fatal(err)
	}
	server := tiles.New(s, still)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b []byte
		var err error
		if path, ok := strings.CutPrefix(r.URL.Path, "/log/0/tile/"); ok {
			b, err = server.Tile(r.Context(), 0, path)
		} else if r.URL.Path == "/log/0/checkpoint" {
			b, err = server.Checkpoint(r.Context(), 0)
		} else {
			err = tiles.ErrNone
		}
		if err != nil {
			t.Error(r.URL.Path, err)
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(b)
	}))
	defer web.Close()
	all := sha256.Sum256(slices.Concat(l.Leaves...))
	policy := "log " + l.key.Key.String() + "\n" + l.text()
	if said, ok := witnesstest.TorchwoodTiles(t, policy, web.URL+"/log/0"); !ok || said != fmt.Sprintf("%d %x", size, all) {
		t.Error(said)
	}
	another := strings.Replace(policy, l.witness.Key().String(), begin(t, 0, 2).key.Key.String(), 1)
	if said, ok := witnesstest.TorchwoodTiles(t, another, web.URL+"/log/0"); ok {
		t.Error("read by a policy of others:", said)
	}
}
