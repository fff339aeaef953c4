package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/shared/wire"
)

// snapshot is the root of a snapshot: the folded state after the first Count
// entries, all of them stored. It names its pieces by the hash of their sealed
// bytes, so it binds all of them.
type snapshot struct {
	Count   uint64         `cbor:"1,keyasint"`
	Root    wire.Hash      `cbor:"2,keyasint"`
	Edge    []wire.Hash    `cbor:"3,keyasint"` // the tree's right edge, largest subtree first
	Pieces  []org.PieceRef `cbor:"4,keyasint"`
	Chunks  []org.Chunk    `cbor:"5,keyasint,omitempty"` // the window of fingerprints
	FloorMs uint64         `cbor:"6,keyasint"`
}

// maybeShoot starts a snapshot when enough has happened since the last. The
// turn is held. Pieces that it needs and that are not there postpone it until
// they have been brought in.
func (o *organization) maybeShoot() {
	l := o.l
	if o.shooting || o.fetching || (o.since < l.cfg.Limits.SnapshotEvery && o.sinceSize < snapshotBytes) {
		return
	}
	m := o.tryShoot()
	if m == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spawnLocked(func() { l.fetchFor(o, m.Piece) }) {
		o.uses++
		o.fetching = true
	}
}

// tryShoot makes a snapshot and sends it on its way, or tells what is missing.
func (o *organization) tryShoot() *org.Missing {
	l := o.l
	puts, err := o.shoot()
	var m *org.Missing
	switch {
	case errors.As(err, &m):
		return m
	case err != nil:
		return nil // memory or randomness failed; the ledger itself is whole
	}
	o.since, o.sinceSize = 0, 0
	covered := o.lastBatch
	l.mu.Lock()
	o.shooting = l.spawnLocked(func() { l.deliver(o, puts, covered) })
	l.mu.Unlock()
	return nil
}

// fetchFor brings in the pieces that only a snapshot needs, one by one, and then
// makes it. If it fails the next entry tries again.
func (l *Ledger) fetchFor(o *organization, ref org.Hash) {
	defer l.leave(o)
	for {
		ctx, cancel := context.WithTimeout(l.life, askTimeout)
		err := l.fetch(ctx, o, ref)
		cancel()
		var m *org.Missing
		o.turn.Lock()
		if err == nil {
			m = o.tryShoot()
		}
		o.fetching = m != nil
		o.turn.Unlock()
		if m == nil {
			return
		}
		ref = m.Piece
	}
}

// shoot folds the state and seals what changed.
func (o *organization) shoot() ([]wire.PutSnapshot, error) {
	l := o.l
	changed, dropped, err := o.state.Fold()
	if err != nil {
		return nil, err
	}
	last := wire.PutSnapshot{Organization: wire.ID(o.id), Count: o.count}
	var puts []wire.PutSnapshot
	size := 0
	store := func(kind seal.Kind, v any) (org.Hash, error) {
		plain, err := wire.Marshal(v)
		if err != nil {
			return org.Hash{}, err
		}
		sealed, err := o.key.Seal(l.cfg.Rand, l.name(kind, o.id, o.keyID), plain)
		if err != nil {
			return org.Hash{}, err
		}
		stored := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(sealed)), o.keyID), sealed...)
		if size += len(stored); size > wire.MaxFrame/2 {
			// Pieces travel ahead of the root that names them.
			puts = append(puts, wire.PutSnapshot{Organization: wire.ID(o.id), Count: o.count, Pieces: last.Pieces})
			last.Pieces, size = nil, len(stored)
		}
		last.Pieces = append(last.Pieces, stored)
		return sha256.Sum256(stored), nil
	}
	for _, p := range changed {
		h, err := store(seal.KindPiece, p.Records())
		if err != nil {
			return nil, err
		}
		p.Named(h)
	}
	parts, gone := o.window.Fold()
	refs := make([]org.Hash, len(parts))
	for i, ms := range parts {
		if refs[i], err = store(seal.KindChunk, encodeMarks(ms)); err != nil {
			return nil, err
		}
	}
	o.window.Named(refs)
	s := snapshot{Count: o.count, Root: o.root, Pieces: o.state.Refs(), Chunks: o.window.Chunks(), FloorMs: o.floorMs}
	for _, h := range o.edge.Hashes() {
		s.Edge = append(s.Edge, wire.Hash(h))
	}
	plain, err := wire.Marshal(&s)
	if err != nil {
		return nil, err
	}
	n := l.name(seal.KindSnapshot, o.id, o.keyID)
	n.Place = o.count
	sealed, err := o.key.Seal(l.cfg.Rand, n, plain)
	if err != nil {
		return nil, err
	}
	last.Snapshot = append(binary.BigEndian.AppendUint32(nil, o.keyID), sealed...)
	for _, h := range append(dropped, gone...) {
		last.Drop = append(last.Drop, wire.Hash(h))
	}
	return append(puts, last), nil
}

// deliver sends a snapshot once all that it covers is stored.
func (l *Ledger) deliver(o *organization, puts []wire.PutSnapshot, covered uint64) {
	if l.pipe.wait(l.life, covered) != nil {
		return
	}
	for _, p := range puts {
		wait := 50 * time.Millisecond
		for {
			ctx, cancel := context.WithTimeout(l.life, askTimeout)
			err := l.cfg.Store.PutSnapshot(ctx, p)
			cancel()
			if err == nil {
				break
			}
			select {
			case <-l.done:
				return
			case <-l.cfg.Clock.After(wait):
			}
			wait = min(2*wait, 5*time.Second)
		}
	}
	l.shots.Add(1)
	o.turn.Lock()
	o.shooting = false
	o.maybeShoot() // much may have happened while this one was on its way
	o.turn.Unlock()
}

// restore starts an organization from a snapshot that covers count entries.
func (l *Ledger) restore(ctx context.Context, o *organization, keys map[uint32]*seal.Key, count uint64, stored []byte) error {
	if len(stored) < 4 {
		return l.breach(fault.AlarmSnapshot, "short snapshot")
	}
	keyID := binary.BigEndian.Uint32(stored)
	k := keys[keyID]
	if k == nil {
		return l.breach(fault.AlarmKey, "snapshot under an unknown key")
	}
	n := l.name(seal.KindSnapshot, o.id, keyID)
	n.Place = count
	plain, err := k.Open(n, stored[4:])
	if err != nil {
		return l.breach(fault.AlarmOpen, "snapshot does not open")
	}
	var s snapshot
	if err := wire.Unmarshal(plain, &s); err != nil {
		return fmt.Errorf("decoding a snapshot: %w", err)
	}
	edge := make([][]byte, len(s.Edge))
	for i := range s.Edge {
		edge[i] = s.Edge[i][:]
	}
	if o.edge, err = ranges.NewRange(0, s.Count, edge); err != nil {
		return fmt.Errorf("decoding a snapshot: %w", err)
	}
	root, err := o.edge.GetRootHash(nil)
	if err != nil || wire.Hash(root) != s.Root || s.Count != count {
		return l.breach(fault.AlarmSnapshot, "snapshot of another tree")
	}
	o.count, o.root, o.floorMs = s.Count, s.Root, s.FloorMs
	state, small, err := org.FromRefs(s.Pieces)
	if err != nil {
		return fmt.Errorf("decoding a snapshot: %w", err)
	}
	o.state = state
	got, err := l.pieces(ctx, o.id, small)
	if err != nil {
		return l.raised(err)
	}
	for i, p := range got {
		ws, err := l.openPiece(o.id, keys, p)
		if err != nil {
			return l.raised(err)
		}
		if err := state.Install(small[i], ws); err != nil {
			return l.breach(fault.AlarmSnapshot, "piece does not fit")
		}
	}
	return l.restoreWindow(ctx, o, keys, s.Chunks)
}

func (l *Ledger) restoreWindow(ctx context.Context, o *organization, keys map[uint32]*seal.Key, chunks []org.Chunk) error {
	refs := make([]org.Hash, len(chunks))
	for i, c := range chunks {
		refs[i] = c.Ref
	}
	o.window.Raise(minuteOf(o.floorMs))
	got, err := l.pieces(ctx, o.id, refs)
	if err != nil {
		return l.raised(err)
	}
	for i, p := range got {
		plain, err := l.openPart(seal.KindChunk, o.id, keys, p)
		if err != nil {
			return l.raised(err)
		}
		var b []byte
		if err := wire.Unmarshal(plain, &b); err != nil {
			return fmt.Errorf("decoding a chunk: %w", err)
		}
		ms, err := decodeMarks(b)
		if err != nil {
			return err
		}
		if err := o.window.Restore(chunks[i], ms); err != nil {
			return l.breach(fault.AlarmSnapshot, "chunk does not fit")
		}
	}
	return nil
}

func encodeMarks(ms []org.Mark) []byte {
	b := make([]byte, 0, len(ms)*org.MarkSize)
	for _, m := range ms {
		b = append(b, m.Print[:]...)
		b = binary.BigEndian.AppendUint32(b, m.Minute)
		b = binary.BigEndian.AppendUint64(b, m.Seq)
	}
	return b
}

func decodeMarks(b []byte) ([]org.Mark, error) {
	if len(b)%org.MarkSize != 0 || len(b) > org.ChunkMarks*org.MarkSize {
		return nil, fmt.Errorf("chunk of %d bytes", len(b))
	}
	ms := make([]org.Mark, len(b)/org.MarkSize)
	for i := range ms {
		m := b[i*org.MarkSize:]
		ms[i] = org.Mark{Print: [16]byte(m[:16]), Minute: binary.BigEndian.Uint32(m[16:]), Seq: binary.BigEndian.Uint64(m[20:])}
	}
	return ms, nil
}
