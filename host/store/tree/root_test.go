package tree_test

import (
	"crypto/sha256"
	"errors"
	"math/bits"
	"testing"

	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// even is a tree of equal leaves: all nodes of a level are one hash, so that large trees cost nothing.
type even [33]wire.Hash

func newEven() (e even) {
	e[0] = wire.Hash{7}
	for level := range e[1:] {
		e[level+1] = join(e[level], e[level])
	}
	return e
}

func join(left, right wire.Hash) wire.Hash {
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// root is that of RFC 6962, section 2.1: the largest power of two below the size goes to the left.
func (e even) root(size uint64) wire.Hash {
	if size == 0 {
		return sha256.Sum256(nil)
	}
	if size&(size-1) == 0 {
		return e[bits.TrailingZeros64(size)]
	}
	left := bits.Len64(size) - 1
	return join(e[left], e.root(size-1<<left))
}

func TestRoot(t *testing.T) {
	e := newEven()
	sizes := []uint64{1<<24 + 1<<16 + 1<<8 + 1, 1<<32 - 1, 1 << 32}
	for size := range uint64(1030) {
		sizes = append(sizes, size)
	}
	for level := 11; level < 32; level++ {
		sizes = append(sizes, 1<<level-1, 1<<level, 1<<level+1, 1<<level+257)
	}
	for _, size := range sizes {
		read := map[uint]int{}
		got, err := tree.Root(size, func(level uint, from uint64, count int) ([]wire.Hash, error) {
			if count < 1 || count > tree.Span || (from+uint64(count))<<level > size {
				t.Fatalf("size %d: %d hashes from %d at level %d", size, count, from, level)
			}
			read[level] += count
			hashes := make([]wire.Hash, count)
			for i := range hashes {
				hashes[i] = e[level]
			}
			return hashes, nil
		})
		if err != nil || got != e.root(size) {
			t.Fatalf("size %d: %x, want %x: %v", size, got, e.root(size), err)
		}
		for level, n := range read {
			if n > tree.Span || level%8 != 0 {
				t.Fatalf("size %d: %d hashes at level %d", size, n, level)
			}
		}
	}
}

// What cannot be read, or not whole, gives no root.
func TestRootRefused(t *testing.T) {
	lost := errors.New("lost")
	if _, err := tree.Root(5, func(uint, uint64, int) ([]wire.Hash, error) { return nil, lost }); !errors.Is(err, lost) {
		t.Error(err)
	}
	for _, n := range []int{0, 4, 6} {
		if _, err := tree.Root(5, func(uint, uint64, int) ([]wire.Hash, error) { return make([]wire.Hash, n), nil }); err == nil {
			t.Errorf("a root of 5 leaves from %d hashes", n)
		}
	}
}
