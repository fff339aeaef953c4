package witness_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	second "golang.org/x/mod/sumdb/tlog"

	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/host/store/tree"
	"cloister/host/tiles"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
	"cloister/sim/witness/witnesstest"
)

// A run is what is left of a deployment that worked: its log's key and leaves, and every checkpoint that a witness of it has
// cosigned, by size.
type run struct {
	key    *tlog.Key
	terms  string // the policy
	leaves [][]byte
	notes  map[uint64]string
	heads  map[uint64]tlog.Checkpoint
	sizes  []uint64
	store  *rig.Rig
}

// newRun has some organizations work over several boots, of which the first two are killed.
func newRun(t *testing.T, boots, activities int) *run {
	w := rig.StartWitnesses(t, rig.WitnessOptions{Mode: tlog.ModeStrict, Serve: 500 * time.Millisecond})
	fronts := rig.NewFronts(t, w)
	r := &run{terms: w.Terms.Policy, notes: map[uint64]string{}, heads: map[uint64]tlog.Checkpoint{}}
	keys := map[string]*tlog.Key{} // by origin: the log's, and that of its next generation
	dir := t.TempDir()
	for boot := range boots {
		s := rig.Start(t, rig.Options{Dir: dir, Witnesses: w, Limits: core.Limits{TableEvery: 64}, Quotas: core.Quotas{Tags: 1_000_000}, Organizations: 3})
		var clients sync.WaitGroup
		for c := range 4 {
			clients.Go(func() {
				for n := range activities / 4 {
					if r := s.Root().Submit("CREATE_USER_TAG", client.Tag(fmt.Sprint(boot, c, n))); r.Status != 200 {
						t.Error(r)
						return
					}
				}
			})
		}
		clients.Wait()
		if boot < boots-1 {
			s.Kill()
			continue
		}
		r.store = s
		if err := laptop.FollowLogs(t.Context(), s.Address, func(k *tlog.Key) error { keys[k.Name()] = k; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range fronts {
		for _, note := range f.Notes() {
			text, _, _ := strings.Cut(note, "\n\n")
			c, err := tlog.ParseCheckpoint(text + "\n")
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := r.heads[c.Size]; ok && other != c {
				t.Errorf("two heads of %d leaves", c.Size)
			}
			r.notes[c.Size], r.heads[c.Size] = note, c
			if r.key = keys[c.Origin]; r.key == nil {
				t.Fatalf("a checkpoint of %s, which status does not name", c.Origin)
			}
		}
	}
	r.sizes = slices.Sorted(maps.Keys(r.heads))
	r.read(t)
	return r
}

// read reads the leaves out of the store's batch headers, up to the largest head.
func (r *run) read(t *testing.T) {
	t.Helper()
	ask := wire.LoadHeaders{MaxBytes: 1 << 20}
	for last := r.sizes[len(r.sizes)-1]; uint64(len(r.leaves)) < last; {
		got, err := r.store.Store.LoadHeaders(t.Context(), ask)
		if err != nil || len(got.Headers) == 0 {
			t.Fatalf("%d of %d leaves: %v", len(r.leaves), last, err)
		}
		for _, b := range got.Headers {
			var h wire.BatchHeader
			if err := wire.Unmarshal(b[:len(b)-sha256.Size], &h); err != nil { // a MAC is behind it
				t.Fatal(err)
			}
			leaf, err := tlog.ParseLeaf(h.Leaf)
			if err != nil {
				t.Fatal(err)
			}
			ask.Epoch, ask.Number = leaf.Epoch, leaf.Number+1
			if r.leaves = append(r.leaves, h.Leaf); uint64(len(r.leaves)) == last {
				break
			}
		}
	}
}

// nodes are those above the leaves.
func (r *run) nodes() tree.Nodes {
	var hashes []wire.Hash
	for _, leaf := range r.leaves {
		hashes = append(hashes, wire.Hash(tlog.HashLeaf(leaf)))
	}
	return witnesstest.Nodes(hashes)
}

// Every checkpoint of a run is accepted by the witnesses of others, one after the other as a host brings them.
func TestRunJudged(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: a run judged by the programs of others")
	}
	r := newRun(t, 3, 300)
	t.Run("tiles", func(t *testing.T) { r.tiles(t) })
	t.Run("pairs", func(t *testing.T) { r.pairs(t, 1000) })
	for _, judge := range judges {
		t.Run(judge.name, func(t *testing.T) {
			p := judge.start(t, "w.example/"+judge.name, r.key)
			old, nodes := uint64(0), r.nodes()
			for _, size := range r.sizes {
				path, err := nodes.ProveConsistency(old, size)
				if err != nil {
					t.Fatal(err)
				}
				if old == 0 {
					path = nil
				}
				if got := ask(t, p, r.key, step{fmt.Sprint("checkpoint of ", size), old, path, []byte(r.notes[size]), is(200)}); !got.signed() {
					t.Fatalf("from %d to %d: %v", old, size, got)
				}
				old = size
			}
			t.Logf("counted: %s has cosigned all %d checkpoints of a run over %d leaves and 3 boots", judge.name, len(r.sizes), len(r.leaves))
		})
	}
}

// tiles has torchwood's client read the log from where a host serves it.
func (r *run) tiles(t *testing.T) {
	server := tiles.New(r.store.Store, time.Now)
	web := rig.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var b []byte
		var err error
		if path, ok := strings.CutPrefix(q.URL.Path, "/log/0/tile/"); ok {
			b, err = server.Tile(q.Context(), 0, path)
		} else {
			b, err = server.Checkpoint(q.Context(), 0)
		}
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(b)
	}))
	policy := fmt.Sprintf("log %s\n%s", r.key, r.terms)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for { // the newest checkpoint is stored some moments after it was cosigned
		said, ok := witnesstest.TorchwoodTiles(t, policy, web+"/log/0")
		size, sum := 0, ""
		if _, err := fmt.Sscan(said, &size, &sum); !ok || err != nil || size < len(r.leaves) {
			if laptop.Pause(ctx, 100*time.Millisecond) {
				continue
			}
			t.Fatal(said)
		}
		for len(r.leaves) < size { // heartbeats, since
			t.Fatalf("torchwood reads %d leaves, of which %d were witnessed", size, len(r.leaves))
		}
		if all := sha256.Sum256(slices.Concat(r.leaves[:size]...)); sum != fmt.Sprintf("%x", all) {
			t.Errorf("torchwood reads other leaves: %s", said)
		}
		if r.heads[uint64(size)].Size == 0 {
			t.Errorf("a checkpoint of %d leaves is served that no witness has cosigned", size)
		}
		t.Logf("counted: torchwood's client has read %d leaves of the run by its tiles", size)
		return
	}
}

// pairs proves random pairs of heads consistent by two implementations: each makes the proof, and each verifies it.
func (r *run) pairs(t *testing.T, n int) {
	var hashes []second.Hash
	reader := second.HashReaderFunc(func(at []int64) (all []second.Hash, err error) {
		for _, i := range at {
			all = append(all, hashes[i])
		}
		return all, nil
	})
	for i, leaf := range r.leaves {
		more, err := second.StoredHashes(int64(i), leaf, reader)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, more...)
	}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	nodes, different := r.nodes(), map[[2]uint64]bool{}
	for range n {
		one, other := r.heads[r.sizes[random.IntN(len(r.sizes))]], r.heads[r.sizes[random.IntN(len(r.sizes))]]
		if one.Size > other.Size {
			one, other = other, one
		}
		different[[2]uint64{one.Size, other.Size}] = true
		theirs, err := second.ProveTree(int64(other.Size), int64(one.Size), reader)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := nodes.ProveConsistency(one.Size, other.Size)
		if err != nil {
			t.Fatal(err)
		}
		var path [][]byte
		for _, h := range ours {
			path = append(path, h[:])
		}
		if !slices.EqualFunc(ours, theirs, func(a wire.Hash, b second.Hash) bool { return a == wire.Hash(b) }) {
			t.Errorf("%d and %d: two proofs", one.Size, other.Size)
		}
		if err := second.CheckTree(theirs, int64(other.Size), other.Root, int64(one.Size), one.Root); err != nil {
			t.Errorf("%d and %d: %v", one.Size, other.Size, err)
		}
		if err := proof.VerifyConsistency(rfc6962.DefaultHasher, one.Size, other.Size, path, one.Root[:], other.Root[:]); err != nil {
			t.Errorf("%d and %d: %v", one.Size, other.Size, err)
		}
		wrong := other.Root
		wrong[random.IntN(len(wrong))] ^= 1
		if one.Size < other.Size && (second.CheckTree(theirs, int64(other.Size), wrong, int64(one.Size), one.Root) == nil ||
			proof.VerifyConsistency(rfc6962.DefaultHasher, one.Size, other.Size, path, one.Root[:], wrong[:]) == nil) {
			t.Errorf("%d and %d: another root is taken", one.Size, other.Size)
		}
	}
	t.Logf("counted: %d random pairs of %d heads, %d different ones, consistent by transparency-dev/merkle and by golang.org/x/mod", n, len(r.heads), len(different))
}
