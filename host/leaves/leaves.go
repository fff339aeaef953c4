// Package leaves reads the leaves of a range's log from the headers of its batches, as the store keeps them.
//
// What it promises:
//
//   - It begins at the right edge that the newest tip table has of the log: what is read is what came behind that. Leaves
//     before it are read when they are asked for, and no more of them than the answer takes.
//   - What was read before an error, or before the time was up, is kept.
//   - In memory are the complete nodes at levels 8, 16 and 24 of what was read, and the newest leaves: some 40 bytes for 256
//     leaves, and 256 KiB at most.
//   - Nothing is verified but that it fits together: the enclave and the witnesses believe nobody.
package leaves

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"cloister/attestation/tlog"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// MaxSize bounds a log that is read, in leaves, as package tree counts.
const MaxSize = 1 << 32

const (
	pageBytes = 1 << 20 // of headers, about, in one answer of the store
	someBytes = 1 << 9  // of a header, about, where a number of them is wanted
	keptSpans = 16      // of leaves at least that are not read again
)

// ErrOther: the store's headers are not those of the log, or not those of before.
var ErrOther = errors.New("the store does not have what the log signed")

// A Store is where leaves are read from: a store.Loader.
type Store interface {
	LoadHeaders(ctx context.Context, ask wire.LoadHeaders) (wire.Headers, error)
	LoadTable(ctx context.Context, ask wire.LoadTable) (wire.TipTable, error)
}

// A Log is one log's leaves. Many goroutines may use it.
type Log struct {
	store      Store
	in         wire.Range
	generation uint32
	whole      bool

	lock  chan struct{} // held while reading on
	next  place         // the next to be read; guarded by lock
	begun bool          // guarded by lock
	fresh bool          // and nothing has been read yet; guarded by lock

	pastLock chan struct{} // held while reading what lies before the edge

	mu    sync.RWMutex
	edge  *tree.Edge
	base  uint64                   // leaves before the edge where reading began
	size  uint64                   // 0 until it is known that the edge is this log's
	last  place                    // of the newest leaf
	known map[coordinate]wire.Hash // the nodes of that edge
	rows  [4]row                   // of levels 0, 8, 16 and 24
	past  []wire.Hash              // nodes at level 8 before the base, zero as long as they are not read; nil: none is
	span  span                     // the leaves that were read again last
}

type coordinate struct {
	level uint
	index uint64
}

// A row holds consecutive nodes of a level.
type row struct {
	from   uint64
	hashes []wire.Hash
}

func (r *row) end() uint64 { return r.from + uint64(len(r.hashes)) }

// A span is 256 leaves, or those of them that there were.
type span struct {
	index  uint64
	hashes []wire.Hash
}

// New makes a Log of which nothing is read. With whole it is read from its first leaf on, whatever the tip table says.
func New(s Store, in wire.Range, generation uint32, whole bool) *Log {
	return &Log{store: s, in: in, generation: generation, whole: whole, lock: make(chan struct{}, 1), pastLock: make(chan struct{}, 1)}
}

// Size is how many leaves are known.
func (l *Log) Size() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.size
}

// Edge is that of all leaves that are known.
func (l *Log) Edge() *tree.Edge {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.size == 0 {
		empty, err := tree.NewEdge(0, nil)
		if err != nil {
			panic(err) // nothing is needed for it
		}
		return empty
	}
	return l.edge.Clone()
}

// Check tells whether the first leaves have a root, and reads on until there are as many. Errors are ErrOther if they have
// not, or never will, and else that the store or the time was not enough.
func (l *Log) Check(ctx context.Context, c *tlog.Checkpoint) error {
	if err := l.ReadTo(ctx, c.Size); err != nil {
		return err
	}
	root, err := l.Root(ctx, c.Size)
	if err == nil && root != c.Root {
		err = fmt.Errorf("%w: another root of %d leaves", ErrOther, c.Size)
	}
	return err
}

// Root is that of the first leaves, which are known.
func (l *Log) Root(ctx context.Context, size uint64) (wire.Hash, error) {
	return l.nodes(ctx).Root(size)
}

// ProveConsistency proves that the log of the first old leaves is the beginning of that of the first size leaves, which are
// known: see tree.Nodes.
func (l *Log) ProveConsistency(ctx context.Context, old, size uint64) ([]wire.Hash, error) {
	return l.nodes(ctx).ProveConsistency(old, size)
}

// ProveInclusion proves that a leaf is one of the first size leaves, which are known.
func (l *Log) ProveInclusion(ctx context.Context, index, size uint64) ([]wire.Hash, error) {
	return l.nodes(ctx).ProveInclusion(index, size)
}

// IndexOf reads from a batch's header which leaf of this log it holds. Of a batch from before logs, or of another
// generation, it holds none.
func (l *Log) IndexOf(b []byte) (index uint64, is bool, err error) {
	h, err := parseHeader(b)
	if err != nil || !l.has(h) {
		return 0, false, err
	}
	return h.log.Position, true, nil
}

// ReadTo reads on until so many leaves are known. Errors are ErrOther if there never will be, and else that the store or the
// time was not enough.
func (l *Log) ReadTo(ctx context.Context, size uint64) error {
	for l.Size() < size {
		more, err := l.ReadOn(ctx)
		if err != nil {
			return fmt.Errorf("%d of %d leaves are read: %w", l.Size(), size, err)
		}
		if !more && l.Size() < size {
			return fmt.Errorf("%w: it has %d of %d leaves", ErrOther, l.Size(), size)
		}
	}
	return nil
}

// ReadOn reads some more leaves; more is false when there are none.
func (l *Log) ReadOn(ctx context.Context) (more bool, err error) {
	if err := acquire(ctx, l.lock); err != nil {
		return false, err
	}
	defer func() { <-l.lock }()
	if err := l.begin(ctx); err != nil {
		return false, err
	}
	got, err := l.load(ctx, l.next, pageBytes)
	if err == nil && len(got) == 0 && l.fresh {
		return true, l.restart() // the tip table is another log's
	}
	if err != nil || len(got) == 0 {
		return false, err
	}
	for i, b := range got {
		h, err := parseHeader(b)
		again := false
		if err == nil {
			again, err = l.add(h)
		}
		if again {
			return true, err
		}
		if err == nil && i == len(got)-1 {
			l.next, err = h.batchPlace()
		}
		if err != nil {
			return false, err
		}
	}
	l.next.number++
	return true, nil
}

func acquire(ctx context.Context, lock chan struct{}) error {
	select {
	case lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin sets where reading begins: where the newest tip table stands, if there is one.
func (l *Log) begin(ctx context.Context) error {
	if l.begun {
		return nil
	}
	var kept *wire.KeptTable
	if !l.whole {
		got, err := l.store.LoadTable(ctx, wire.LoadTable{Range: l.in})
		if err != nil {
			return err
		}
		kept, _ = wire.ParseKeptTable(got.Table) // what is none is as good as none
	}
	if kept == nil || kept.Covers > MaxSize || kept.Generation > l.generation { // a later one's stands behind all of this log
		kept = &wire.KeptTable{}
	}
	if err := l.reset(kept.Covers, kept.EdgeHashes()); err != nil {
		return err
	}
	l.next, l.begun, l.fresh = place{kept.Epoch, kept.Number}, true, true
	return nil
}

// reset forgets all but an edge.
func (l *Log) reset(size uint64, hashes []wire.Hash) error {
	edge, err := tree.NewEdge(size, hashes)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.edge, l.base, l.known = edge, size, map[coordinate]wire.Hash{}
	for _, n := range edge.Nodes() {
		l.known[coordinate{n.Level, n.Index}] = n.Hash
	}
	for i := range l.rows {
		l.rows[i] = row{from: size >> (8 * i)}
	}
	return nil
}

// restart begins with the first header that there is.
func (l *Log) restart() error {
	l.next, l.fresh = place{}, false
	return l.reset(0, nil)
}

func (l *Log) load(ctx context.Context, at place, bytes int) ([][]byte, error) {
	got, err := l.store.LoadHeaders(ctx, wire.LoadHeaders{Range: l.in, Epoch: at.epoch, Number: at.number, MaxBytes: uint32(min(bytes, pageBytes))})
	return got.Headers, err
}

// has tells that a header holds a leaf of this log.
func (l *Log) has(h *header) bool { return h.log != nil && h.log.Generation == l.generation }

// add adds the leaf that a header of this log holds. Others are passed over. again tells that reading begins elsewhere: the
// tip table was not this log's.
func (l *Log) add(h *header) (again bool, err error) {
	if !l.has(h) {
		return false, nil
	}
	index := l.edge.Size()
	if l.fresh && h.log.Position != index {
		// It stands where the generation before was when this one began, or somewhere else.
		if h.log.Position != 0 {
			return true, l.restart()
		}
		if err := l.reset(0, nil); err != nil {
			return false, err
		}
		index = 0
	}
	l.fresh = false
	if h.log.Position != index {
		return false, fmt.Errorf("%w: leaf %d where %d comes next", ErrOther, h.log.Position, index)
	}
	at, err := h.batchPlace()
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if newest := &l.rows[0]; len(newest.hashes) >= 2*keptSpans*tree.Span {
		newest.hashes = append(newest.hashes[:0], newest.hashes[keptSpans*tree.Span:]...)
		newest.from += keptSpans * tree.Span
	}
	made, err := l.edge.Append(tlog.HashLeaf(h.log.Leaf))
	if err != nil {
		return false, err
	}
	for _, n := range made {
		if i := n.Level / 8; int(i) < len(l.rows) {
			l.rows[i].hashes = append(l.rows[i].hashes, n.Hash)
		}
	}
	l.size, l.last = index+1, at
	return false, nil
}
