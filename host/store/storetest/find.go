package storetest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/attestation/tlog"
	"cloister/host/store"
	"cloister/shared/wire"
)

// roots are the reference: the root of every tree size up to the number of leaves.
func roots(t testing.TB, ledger []wire.Entry) [][]byte {
	t.Helper()
	tree := (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)
	list := [][]byte{rfc6962.DefaultHasher.EmptyRoot()}
	for _, e := range ledger {
		leaf := tlog.HashStored(e.Sealed)
		if err := tree.Append(leaf[:], nil); err != nil {
			t.Fatal(err)
		}
		list = append(list, must(tree.GetRootHash(nil))(t))
	}
	return list
}

func verify(t testing.TB, e wire.ProvenEntry, ledger []wire.Entry, size uint64, root []byte) {
	t.Helper()
	if !bytes.Equal(e.Sealed, ledger[e.Seq].Sealed) {
		t.Fatalf("entry %d differs", e.Seq)
	}
	path := make([][]byte, len(e.Proof))
	for i := range path {
		path[i] = e.Proof[i][:]
	}
	leaf := tlog.HashStored(e.Sealed)
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, e.Seq, size, leaf[:], path, root); err != nil {
		t.Fatalf("entry %d in a tree of %d: %v", e.Seq, size, err)
	}
}

func checkProofs(t testing.TB, s store.Store, w *writer, org wire.ID, size uint64, seqs []uint64) {
	t.Helper()
	root := roots(t, w.ledgers[org][:size])[size]
	got := must(s.Find(t.Context(), wire.Find{Organization: org, TreeSize: size, Seqs: seqs}))(t)
	if len(got.Entries) != len(seqs) {
		t.Fatalf("%d entries of %d under size %d", len(got.Entries), len(seqs), size)
	}
	for i, e := range got.Entries {
		if e.Seq != seqs[i] {
			t.Fatalf("entry %d where %d was asked for", e.Seq, seqs[i])
		}
		verify(t, e, w.ledgers[org], size, root)
	}
}

// testProofs tries every leaf of every size of a small tree, and only boundaries of larger sizes.
func testProofs(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x := id(10)
	w.fill(id(9), 700, 80) // neighbours on both sides
	w.fill(x, 530, 80)
	w.fill(id(11), 700, 80)
	all := roots(t, w.ledgers[x])
	try := func(size uint64, seqs ...uint64) {
		t.Helper()
		got := must(s.Find(t.Context(), wire.Find{Organization: x, TreeSize: size, Seqs: seqs}))(t)
		if len(got.Entries) != len(seqs) {
			t.Fatalf("%d entries of %d under size %d", len(got.Entries), len(seqs), size)
		}
		for _, e := range got.Entries {
			verify(t, e, w.ledgers[x], size, all[size])
		}
	}
	for size := range uint64(34) {
		var seqs []uint64
		for seq := range size {
			seqs = append(seqs, seq)
		}
		try(size, seqs...)
	}
	for _, size := range []uint64{255, 256, 257, 258, 319, 320, 511, 512, 513, 529, 530} {
		try(size, 0, 1, 127, 128, 254, size/2, size-2, size-1)
	}
	got := must(s.Find(t.Context(), wire.Find{Organization: x, TreeSize: 256, Seqs: []uint64{256, 529, 255, 1 << 40, 1<<64 - 1}}))(t)
	if len(got.Entries) != 1 || got.Entries[0].Seq != 255 {
		t.Fatalf("past the tree size: %d entries", len(got.Entries))
	}
}

// testProofsLarge crosses level 16: a tree of more than 65,536 leaves.
func testProofsLarge(t *testing.T, open Opener) {
	if testing.Short() {
		t.Skip("left to make campaign: proofs in a tree of 70,000 leaves")
	}
	s, _ := open(t)
	w := newWriter(t, s)
	x := id(10)
	w.fill(x, 70_000, 70)
	all := roots(t, w.ledgers[x])
	r := rand.New(rand.NewPCG(1, 2))
	sizes := []uint64{65_535, 65_536, 65_537, 65_792, 70_000}
	for range 25 {
		sizes = append(sizes, 1+r.Uint64N(70_000))
	}
	for _, size := range sizes {
		seqs := []uint64{0, size - 1, size / 2}
		for range 5 {
			seqs = append(seqs, r.Uint64N(size))
		}
		got := must(s.Find(t.Context(), wire.Find{Organization: x, TreeSize: size, Seqs: seqs}))(t)
		if len(got.Entries) != len(seqs) {
			t.Fatalf("%d entries of %d under size %d", len(got.Entries), len(seqs), size)
		}
		for _, e := range got.Entries {
			verify(t, e, w.ledgers[x], size, all[size])
		}
	}
}

// testFind finds activities with several entries under all tree sizes, in two
// organizations that use the same ids.
func testFind(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	x, y := id(10), id(11)
	r := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		w.store(step(w, r, x, 12), step(w, r, y, 12))
	}
	all := roots(t, w.ledgers[x])
	for size := range uint64(61) {
		var ask []wire.ID
		for n := range uint64(14) {
			ask = append(ask, id(1000+n))
		}
		got := must(s.Find(t.Context(), wire.Find{Organization: x, TreeSize: size, Activities: ask, Seqs: []uint64{0, size}}))(t)
		var want []uint64
		for _, a := range ask {
			for seq := int(size) - 1; seq >= 0; seq-- {
				if w.ledgers[x][seq].Activity == a {
					want = append(want, uint64(seq))
					break
				}
			}
		}
		if size > 0 {
			want = append(want, 0)
		}
		var seqs []uint64
		for _, e := range got.Entries {
			seqs = append(seqs, e.Seq)
			verify(t, e, w.ledgers[x], size, all[size])
		}
		if !slices.Equal(seqs, want) {
			t.Fatalf("size %d: found %v, want %v", size, seqs, want)
		}
	}
}

var types = []string{"ACTIVITY_TYPE_SIGN", "ACTIVITY_TYPE_CREATE", "ACTIVITY_TYPE_RARE", ""}

// step makes a random next entry: of no activity, of a new one, or a further
// entry of an existing one.
func step(w *writer, r *rand.Rand, org wire.ID, activities uint64) wire.Entry {
	e := w.entry(org, 10)
	if r.IntN(8) == 0 {
		return e
	}
	e.Activity = id(1000 + r.Uint64N(activities))
	e.Type = types[min(r.IntN(9)/3, 2)]
	if r.IntN(40) == 0 {
		e.Type = types[3]
	}
	e.Status = uint8(r.IntN(4))
	for _, old := range slices.Backward(w.ledgers[org]) {
		if old.Activity == e.Activity {
			e.Prior = old.Seq + 1
			break
		}
	}
	return e
}
