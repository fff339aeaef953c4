package tree_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"

	"cloister/host/store/tree"
	"cloister/shared/wire"
	"cloister/sim/witness/witnesstest"
)

// grown is a tree with its root at every size.
type grown struct {
	tree.Nodes
	roots []wire.Hash
}

func grow(t testing.TB, size int) *grown {
	t.Helper()
	b, g := tree.NewBuilder(), &grown{}
	var leaves []wire.Hash
	for i := range size + 1 {
		root, err := b.Root()
		if err != nil {
			t.Fatal(err)
		}
		g.roots = append(g.roots, root)
		leaf := wire.Hash(sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i))))
		if _, err := b.Add(leaf); err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leaf)
	}
	g.Nodes = witnesstest.Nodes(leaves)
	return g
}

// consistent asks two verifiers of others.
func (g *grown) consistent(old, size uint64, path []wire.Hash) error {
	var hashes [][]byte
	var theirs tlog.TreeProof
	for _, h := range path {
		hashes, theirs = append(hashes, h[:]), append(theirs, tlog.Hash(h))
	}
	err := proof.VerifyConsistency(rfc6962.DefaultHasher, old, size, hashes, g.roots[old][:], g.roots[size][:])
	if old == 0 {
		return err // the second does not know the tree of nothing
	}
	second := tlog.CheckTree(theirs, int64(size), tlog.Hash(g.roots[size]), int64(old), tlog.Hash(g.roots[old]))
	if (err == nil) != (second == nil) {
		return fmt.Errorf("they do not agree: %w, %w", err, second)
	}
	return err
}

func TestProveConsistency(t *testing.T) {
	g := grow(t, 700)
	for size := range uint64(40) {
		for old := range size + 1 {
			path, err := g.ProveConsistency(old, size)
			if err != nil || (old == 0 || old == size) != (len(path) == 0) {
				t.Fatalf("%d of %d: %d hashes, %v", old, size, len(path), err)
			}
			if err := g.consistent(old, size, path); err != nil {
				t.Errorf("%d of %d: %v", old, size, err)
			}
		}
		if path, err := g.ProveConsistency(size+1, size); err == nil {
			t.Errorf("%d of %d: %d hashes", size+1, size, len(path))
		}
	}
}

// Any two sizes; a proof is of its two sizes and of no others, and every hash in it counts.
func TestProveConsistencyOfAny(t *testing.T) {
	const most = 70_000 // with a node at level 16
	g := grow(t, most)
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		size := 3 + random.Uint64N(most-2)
		old := 2 + random.Uint64N(size-2)
		path, err := g.ProveConsistency(old, size)
		if err != nil || len(path) == 0 || len(path) > 2*17 {
			t.Fatalf("%d of %d: %d hashes, %v", old, size, len(path), err)
		}
		if err := g.consistent(old, size, path); err != nil {
			t.Errorf("%d of %d: %v", old, size, err)
		}
		if g.consistent(old-1, size, path) == nil || old < size-1 && g.consistent(old, size-1, path) == nil {
			t.Errorf("%d of %d: it proves other sizes too", old, size)
		}
		path[random.IntN(len(path))][random.IntN(32)] ^= 1
		if g.consistent(old, size, path) == nil {
			t.Errorf("%d of %d: a hash counts for nothing", old, size)
		}
	}
}

func TestProveConsistencyWithoutHashes(t *testing.T) {
	gone := errors.New("gone")
	nodes := tree.Nodes(func(uint, uint64) (wire.Hash, error) { return wire.Hash{}, gone })
	if path, err := nodes.ProveConsistency(300, 600); !errors.Is(err, gone) {
		t.Error(len(path), err)
	}
	if _, err := grow(t, 400).ProveConsistency(300, 600); err == nil {
		t.Error("proved from leaves that are not there")
	}
}
