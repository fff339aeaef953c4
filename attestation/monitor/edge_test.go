package monitor_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"testing"

	"cloister/attestation/monitor"
	"cloister/attestation/tlog/tlogtest"
)

// The edge that is kept is the one in every later path, and no other tree's.
func TestEdges(t *testing.T) {
	const size = 70
	tree, other := new(tlogtest.Tree), new(tlogtest.Tree)
	for i := range uint64(size) {
		leaf := sha256.Sum256(binary.BigEndian.AppendUint64(nil, i))
		tree.Add(leaf)
		if leaf[0] ^= 1; i != 7 {
			leaf[0] ^= 1
		}
		other.Add(leaf)
	}
	var edge []monitor.Hash
	for i := range uint64(size) {
		for n := i + 1; n <= size; n++ {
			if left := monitor.LeftOf(i, n, tree.Path(n, i)); !slices.Equal(left, edge) {
				t.Fatalf("leaf %d of %d: %x, want %x", i, n, left, edge)
			}
			if i > 7 && slices.Equal(monitor.LeftOf(i, n, other.Path(n, i)), edge) {
				t.Errorf("leaf %d of %d in another tree has the same edge", i, n)
			}
		}
		edge = monitor.Grow(edge, i, tree.Leaf(i))
		if len(edge) != bits.OnesCount64(i+1) {
			t.Fatalf("%d hashes behind leaf %d", len(edge), i)
		}
	}
}
