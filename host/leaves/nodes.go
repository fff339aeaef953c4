package leaves

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cloister/attestation/tlog"
	"cloister/host/store/tree"
	"cloister/shared/wire"
)

// nodes gives those of the tree, as long as ctx lasts.
func (l *Log) nodes(ctx context.Context) tree.Nodes {
	return func(level uint, index uint64) (wire.Hash, error) { return l.node(ctx, level, index) }
}

// node makes a node from the next stored level below. One that has leaves on both sides of the edge is above two others, and
// those of the edge itself are known: so nothing is read for what lies before it as a whole.
func (l *Log) node(ctx context.Context, level uint, index uint64) (wire.Hash, error) {
	l.mu.RLock()
	hash, ok := l.known[coordinate{level, index}]
	base := l.base
	l.mu.RUnlock()
	if ok {
		return hash, nil
	}
	if begin, end := index<<level, (index+1)<<level; begin < base && base < end {
		left, err := l.node(ctx, level-1, 2*index)
		if err != nil {
			return wire.Hash{}, err
		}
		right, err := l.node(ctx, level-1, 2*index+1)
		return tree.Join(left, right), err
	}
	stored := min(level-level%8, 24)
	hashes, err := l.Hashes(ctx, stored, index<<(level-stored), 1<<(level-stored))
	if err != nil {
		return wire.Hash{}, err
	}
	return tree.Peak(hashes), nil
}

// Hashes gives consecutive complete nodes of a stored level (0, 8, 16 or 24), all below one of the next: 256 at most. It
// fails when there are not so many.
func (l *Log) Hashes(ctx context.Context, level uint, from uint64, count int) ([]wire.Hash, error) {
	end, before := from+uint64(count), uint64(0)
	l.mu.RLock()
	r := &l.rows[level/8]
	if from < r.from {
		before = min(end, r.from) - from
	}
	there := l.size > 0 && end <= r.end()
	var hashes []wire.Hash
	if there && from+before < end {
		hashes = slices.Clone(r.hashes[from+before-r.from : end-r.from])
	}
	l.mu.RUnlock()
	if !there {
		return nil, fmt.Errorf("leaves: no node %d at level %d of a log of %d leaves", end-1, level, l.Size())
	}
	if before == 0 {
		return hashes, nil
	}
	earlier, err := l.earlier(ctx, level, from, int(before))
	if err != nil {
		return nil, err
	}
	return append(earlier, hashes...), nil
}

// earlier gives nodes that are in no row: the store is asked.
func (l *Log) earlier(ctx context.Context, level uint, from uint64, count int) (hashes []wire.Hash, err error) {
	switch level {
	case 0:
		all, err := l.spanOf(ctx, from/tree.Span)
		if err != nil {
			return nil, err
		}
		at := from % tree.Span
		return slices.Clone(all[at : at+uint64(count)]), nil
	case 8:
		return l.fill(ctx, from, count)
	}
	for i := range uint64(count) {
		below, err := l.Hashes(ctx, level-8, (from+i)*tree.Span, tree.Span)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, tree.Peak(below))
	}
	return hashes, nil
}

// spanOf reads 256 leaves, or as many of them as there are. If the node above them is known, they lead to it.
func (l *Log) spanOf(ctx context.Context, index uint64) ([]wire.Hash, error) {
	l.mu.RLock()
	last, want := l.span, wire.Hash{}
	from := index * tree.Span
	end := min(from+tree.Span, l.size)
	if r := &l.rows[1]; index >= r.from && index < r.end() {
		want = r.hashes[index-r.from]
	} else if index < uint64(len(l.past)) {
		want = l.past[index]
	}
	l.mu.RUnlock()
	if last.index == index && uint64(len(last.hashes)) == end-from {
		return last.hashes, nil
	}
	hashes := make([]wire.Hash, 0, tree.Span)
	if err := l.walk(ctx, from, end, func(leaf []byte) { hashes = append(hashes, tlog.HashLeaf(leaf)) }); err != nil {
		return nil, err
	}
	if want != (wire.Hash{}) && tree.Peak(hashes) != want {
		return nil, fmt.Errorf("%w: leaves from %d are others than before", ErrOther, from)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.span = span{index, hashes}
	return hashes, nil
}

// fill gives nodes at level 8 from before the edge, and reads the leaves below those that are not known yet.
func (l *Log) fill(ctx context.Context, from uint64, count int) ([]wire.Hash, error) {
	if err := acquire(ctx, l.pastLock); err != nil {
		return nil, err
	}
	defer func() { <-l.pastLock }()
	l.mu.Lock()
	if l.past == nil {
		l.past = make([]wire.Hash, l.base/tree.Span)
	}
	hashes := slices.Clone(l.past[from : from+uint64(count)]) // only the holder of pastLock writes to it
	l.mu.Unlock()
	for at := 0; at < count; {
		end := at
		for end < count && hashes[end] == (wire.Hash{}) {
			end++
		}
		if end == at {
			at++
			continue
		}
		below := make([]wire.Hash, 0, tree.Span)
		err := l.walk(ctx, (from+uint64(at))*tree.Span, (from+uint64(end))*tree.Span, func(leaf []byte) {
			if below = append(below, tlog.HashLeaf(leaf)); len(below) < tree.Span {
				return
			}
			hashes[at] = tree.Peak(below)
			l.mu.Lock()
			l.past[from+uint64(at)] = hashes[at]
			l.mu.Unlock()
			at, below = at+1, below[:0]
		})
		if err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// Leaves gives consecutive leaves of those that are known, as they were encoded.
func (l *Log) Leaves(ctx context.Context, from uint64, count int) (all [][]byte, err error) {
	if size := l.Size(); from+uint64(count) > size {
		return nil, fmt.Errorf("leaves: no leaf %d of a log of %d", from+uint64(count)-1, size)
	}
	err = l.walk(ctx, from, from+uint64(count), func(leaf []byte) { all = append(all, leaf) })
	return all, err
}

// walk reads the leaves from one to before another, in order.
func (l *Log) walk(ctx context.Context, from, end uint64, each func(leaf []byte)) error {
	at, err := l.find(ctx, from)
	if err != nil {
		return err
	}
	for index := from; index < end; at.number++ {
		got, err := l.load(ctx, at, int(min(end-index, pageBytes))*someBytes)
		if err == nil && len(got) == 0 {
			err = ErrOther
		}
		for i := 0; err == nil && i < len(got) && index < end; i++ {
			var h *header
			if h, err = parseHeader(got[i]); err != nil {
				break
			}
			if l.has(h) && h.log.Position != index {
				err = fmt.Errorf("%w: leaf %d where %d was", ErrOther, h.log.Position, index)
				break
			}
			if l.has(h) {
				each(h.log.Leaf)
				index++
			}
			at, err = h.batchPlace()
		}
		if err != nil {
			return fmt.Errorf("reading leaf %d again: %w", index, err)
		}
	}
	return nil
}

// maxNumber bounds the batches of one epoch.
const maxNumber = 1<<32 - 1

// find tells where a leaf stands, from the first header of some epochs: within one, leaves follow on each other.
func (l *Log) find(ctx context.Context, index uint64) (place, error) {
	l.mu.RLock()
	last := l.last
	l.mu.RUnlock()
	lost := fmt.Errorf("%w: leaf %d stands nowhere", ErrOther, index)
	best, at, err := l.search(ctx, index, 1, last.epoch, func(n uint64) place { return place{n, 0} }, func(p place) uint64 { return p.epoch })
	if err != nil || best == nil {
		return place{}, errors.Join(err, lost)
	}
	if l.has(best) {
		return place{at.epoch, at.number + index - best.log.Position}, nil
	}
	// The log begins in an epoch that had begun before.
	epoch := at.epoch
	best, at, err = l.search(ctx, index, at.number, maxNumber, func(n uint64) place { return place{epoch, n} }, func(p place) uint64 {
		if p.epoch > epoch {
			return maxNumber + 1
		}
		return p.number
	})
	if err != nil || best == nil || !l.has(best) || best.log.Position != index {
		return place{}, errors.Join(err, lost)
	}
	return at, nil
}

// search finds the last header, of those that a place of low to high leads to, that does not stand behind a leaf.
func (l *Log) search(ctx context.Context, index, low, high uint64, to func(uint64) place, of func(place) uint64) (best *header, at place, err error) {
	for low <= high {
		middle := low + (high-low)/2
		got, err := l.load(ctx, to(middle), 1)
		if err != nil {
			return nil, place{}, err
		}
		var h *header
		var p place
		if len(got) > 0 {
			if h, err = parseHeader(got[0]); err == nil {
				p, err = h.batchPlace()
			}
			if err != nil {
				return nil, place{}, err
			}
		}
		if h == nil || of(p) > high || l.behind(h, index) {
			high = middle - 1
		} else {
			best, at, low = h, p, of(p)+1
		}
	}
	return best, at, nil
}

// behind tells that a header stands behind a leaf.
func (l *Log) behind(h *header, index uint64) bool {
	return h.log != nil && (h.log.Generation > l.generation || l.has(h) && h.log.Position > index)
}
