// Package witnesstest is what tests of witnessing share: a log whose key the test holds, and witnesses that run as
// processes of their own, ours and the real ones of others.
package witnesstest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/attestation/tlog"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// A Log is one branch of a log. What it cannot do is a mistake of the test, and panics.
type Log struct {
	Key *tlog.Key

	private ed25519.PrivateKey
	branch  string
	builder *tree.Builder
	leaves  []wire.Hash
	roots   []wire.Hash // by size
}

// NewLog makes a log without leaves. The same origin has the same key.
func NewLog(origin string) *Log {
	seed := sha256.Sum256([]byte("log " + origin))
	private := ed25519.NewKeyFromSeed(seed[:])
	return branch(must(tlog.NewKey(origin, tlog.TypeLog, private.Public().(ed25519.PublicKey))), private, "")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func branch(key *tlog.Key, private ed25519.PrivateKey, name string) *Log {
	l := &Log{Key: key, private: private, branch: name, builder: tree.NewBuilder()}
	l.roots = append(l.roots, must(l.builder.Root()))
	return l
}

// Grow adds leaves until there are size.
func (l *Log) Grow(size uint64) *Log {
	for i := l.builder.Size(); i < size; i++ {
		l.add(wire.Hash(tlog.HashLeaf(binary.BigEndian.AppendUint64([]byte(l.branch), i))))
	}
	return l
}

func (l *Log) add(leaf wire.Hash) {
	l.leaves = append(l.leaves, leaf)
	must(l.builder.Add(leaf))
	l.roots = append(l.roots, must(l.builder.Root()))
}

// Fork is another branch, which has the first size leaves in common with this one and then others.
func (l *Log) Fork(size uint64) *Log {
	fork := branch(l.Key, l.private, fmt.Sprintf("%s, forked at %d", l.branch, size))
	for _, leaf := range l.leaves[:size] {
		fork.add(leaf)
	}
	return fork
}

// Prove proves consistency between two sizes.
func (l *Log) Prove(old, size uint64) []wire.Hash {
	return must(l.ProveTo(size)(old))
}

// ProveTo proves consistency with a size, from several goroutines at once.
func (l *Log) ProveTo(size uint64) func(old uint64) ([]wire.Hash, error) {
	nodes := Nodes(l.leaves[:size])
	return func(old uint64) ([]wire.Hash, error) { return nodes.ProveConsistency(old, size) }
}

// Nodes are those above leaves. Several goroutines may ask for them.
func Nodes(leaves []wire.Hash) tree.Nodes {
	type place struct {
		level uint
		index uint64
	}
	known := map[place]wire.Hash{}
	var mu sync.Mutex
	var node func(place) wire.Hash
	node = func(at place) wire.Hash {
		if at.level == 0 {
			return leaves[at.index]
		}
		h, ok := known[at]
		if !ok {
			left, right := node(place{at.level - 1, 2 * at.index}), node(place{at.level - 1, 2*at.index + 1})
			h = wire.Hash(rfc6962.DefaultHasher.HashChildren(left[:], right[:]))
			known[at] = h
		}
		return h
	}
	return func(level uint, index uint64) (wire.Hash, error) {
		if (index+1)<<level > uint64(len(leaves)) {
			return wire.Hash{}, fmt.Errorf("node %d at level %d is not complete", index, level)
		}
		mu.Lock()
		defer mu.Unlock()
		return node(place{level, index}), nil
	}
}

// Checkpoint is the note in which the log signs its first size leaves.
func (l *Log) Checkpoint(size uint64) []byte {
	c := tlog.Checkpoint{Origin: l.Key.Name(), Size: size, Root: l.roots[size]}
	return l.Sign(c.Text())
}

// Sign signs any text as the log does.
func (l *Log) Sign(text string) []byte {
	raw := binary.BigEndian.AppendUint32(nil, l.Key.KeyHash())
	raw = append(raw, ed25519.Sign(l.private, []byte(text))...)
	return fmt.Appendf(nil, "%s\n— %s %s\n", text, l.Key.Name(), base64.StdEncoding.EncodeToString(raw))
}
