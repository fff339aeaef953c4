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

// What one message of a snapshot may hold; a store refuses more.
const (
	maxParcel = 1 << 12 // pieces
	maxDrops  = 1 << 16
)

// maybeSnapshot starts a snapshot when enough has happened since the last. The
// turn is held. Pieces that it needs and that are not there postpone it until
// they have been brought in.
func (o *organization) maybeSnapshot() {
	l := o.ledger
	if o.snapshotting || o.fetching || (o.since < l.cfg.Limits.SnapshotEvery && o.sinceSize < l.cfg.Limits.SnapshotBytes) {
		return
	}
	m := o.trySnapshot()
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

// trySnapshot makes a snapshot and sends it on its way, or tells what is missing.
func (o *organization) trySnapshot() *org.Missing {
	l := o.ledger
	puts, err := o.takeSnapshot()
	var m *org.Missing
	if errors.As(err, &m) {
		return m
	}
	o.since, o.sinceSize = 0, 0
	if err != nil {
		// Randomness failed or the root is too large. The ledger itself is whole,
		// and after as many entries again the next snapshot may go through.
		return nil
	}
	covered := o.lastBatch
	l.mu.Lock()
	o.snapshotting = l.spawnLocked(func() { l.deliver(o, puts, covered) })
	l.mu.Unlock()
	return nil
}

// fetchFor brings in the pieces that only a snapshot needs, one by one, and then
// makes it. If it fails the next entry tries again.
func (l *Ledger) fetchFor(o *organization, ref org.Hash) {
	defer l.leave(o)
	for {
		ctx, cancel := context.WithTimeout(l.life, askTimeout)
		err := l.fetch(ctx, o, o.id, ref)
		cancel()
		var m *org.Missing
		o.lock()
		if err == nil {
			m = o.trySnapshot()
		}
		o.fetching = m != nil
		o.unlock()
		if m == nil {
			return
		}
		ref = m.Piece
	}
}

// takeSnapshot folds the state and seals what changed. Nothing gets its name before
// all of it is sealed: after an error the next snapshot has it all again.
func (o *organization) takeSnapshot() ([]wire.PutSnapshot, error) {
	changed, dropped, err := o.state.Fold()
	if err != nil {
		return nil, err
	}
	parts, gone := o.window.Fold()
	for _, h := range append(dropped, gone...) {
		o.drops = append(o.drops, wire.Hash(h))
	}
	puts, refs, err := o.sealSnapshot(changed, parts)
	if err != nil {
		for _, p := range changed {
			p.SetName(org.Hash{})
		}
		return nil, err
	}
	o.window.SetNames(refs)
	o.drops = append([]wire.Hash(nil), o.drops[min(len(o.drops), maxDrops):]...)
	return puts, nil
}

// sealSnapshot seals pieces, chunks and root, and answers the chunks' names.
func (o *organization) sealSnapshot(changed []org.NewPiece, parts [][]org.Mark) ([]wire.PutSnapshot, []org.Hash, error) {
	p := parcels{blank: wire.PutSnapshot{Organization: wire.ID(o.id), Count: o.count, Boot: o.ledger.cfg.Boot, Epoch: o.ledger.pipe.epoch, Over: o.snapshotCount, Range: o.ledger.cfg.Range}}
	for _, c := range changed {
		ref, err := o.sealPiece(&p, seal.KindPiece, c.Records())
		if err != nil {
			return nil, nil, err
		}
		c.SetName(ref)
	}
	chunks := o.window.Chunks()
	refs := make([]org.Hash, len(parts))
	for i, ms := range parts {
		var err error
		if refs[i], err = o.sealPiece(&p, seal.KindChunk, encodeMarks(ms)); err != nil {
			return nil, nil, err
		}
		chunks = append(chunks, org.ChunkOf(refs[i], ms))
	}
	s := snapshot{Count: o.count, Root: o.root, Pieces: o.state.Refs(), Chunks: chunks, FloorMs: o.floorMs}
	for _, h := range o.edge.Hashes() {
		s.Edge = append(s.Edge, wire.Hash(h))
	}
	root, err := o.sealPart(seal.KindSnapshot, o.count, &s)
	if err != nil {
		return nil, nil, err
	}
	if len(root) > wire.MaxSnapshot {
		return nil, nil, fmt.Errorf("snapshot of %d bytes", len(root))
	}
	drops := o.drops[:min(len(o.drops), maxDrops)]
	last := p.messageFor(len(root) + len(drops)*(len(wire.Hash{})+2))
	last.Snapshot, last.Drop = root, drops
	return p.puts, refs, nil
}

func (o *organization) sealPiece(p *parcels, kind seal.Kind, v any) (org.Hash, error) {
	stored, err := o.sealPart(kind, 0, v)
	if err != nil {
		return org.Hash{}, err
	}
	put := p.messageFor(len(stored))
	put.Pieces = append(put.Pieces, stored)
	return sha256.Sum256(stored), nil
}

// sealPart makes key id ‖ sealed record.
func (o *organization) sealPart(kind seal.Kind, place uint64, v any) ([]byte, error) {
	plain, err := wire.Marshal(v)
	if err != nil {
		return nil, err
	}
	n := o.ledger.name(kind, o.id, o.keyID)
	n.Place = place
	sealed, err := o.key.Seal(o.ledger.cfg.Rand, n, plain)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(sealed)), o.keyID), sealed...), nil
}

// parcels are the messages of one snapshot: pieces for which there is no room
// beside the root travel ahead of it.
type parcels struct {
	blank wire.PutSnapshot // what all of them say
	puts  []wire.PutSnapshot
	size  int // bytes in the last
}

// messageFor answers the message that n more bytes go into.
func (p *parcels) messageFor(n int) *wire.PutSnapshot {
	last := len(p.puts) - 1
	if last < 0 || p.size+n > wire.MaxFrame/2 || len(p.puts[last].Pieces) == maxParcel {
		p.puts, p.size = append(p.puts, p.blank), 0
		last++
	}
	p.size += n
	return &p.puts[last]
}

// deliver sends a snapshot once all that it covers is stored.
//
// The host says no when this boot does not own the store or another snapshot
// lies there than the one that this was built on. While we own it the second
// cannot be, so either the host lies or we are superseded, and then the next
// renewal or batch tells and fences. Until then the organization stays in memory
// as if the snapshot were still on its way: what its pieces hold may be nowhere
// else in folded form, and no further snapshot can follow one that was refused.
func (l *Ledger) deliver(o *organization, puts []wire.PutSnapshot, covered uint64) {
	if l.pipe.wait(l.life, covered) != nil {
		return
	}
	for _, p := range puts {
		done, err := l.put(p)
		if err != nil {
			return
		}
		if !done.OK {
			l.cfg.Alarms.Raise(fault.AlarmSnapshot)
			return
		}
	}
	l.shots.Add(1)
	o.lock()
	o.snapshotCount = puts[len(puts)-1].Count
	o.snapshotting = false
	o.maybeSnapshot() // much may have happened while this one was on its way
	o.unlock()
}

// put sends one message until the host has answered it or the ledger ends.
func (l *Ledger) put(p wire.PutSnapshot) (wire.Done, error) {
	wait := 50 * time.Millisecond
	for {
		done, err := askStore(l.life, l.cfg.Store.PutSnapshot, p)
		if err == nil {
			return done, nil
		}
		select {
		case <-l.done:
			return wire.Done{}, ErrFenced
		case <-l.cfg.Clock.After(wait):
		}
		wait = min(2*wait, 5*time.Second)
	}
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
	o.count, o.root, o.floorMs, o.snapshotCount = s.Count, s.Root, s.FloorMs, s.Count
	state, small, err := org.FromRefs(s.Pieces)
	if err != nil {
		return fmt.Errorf("decoding a snapshot: %w", err)
	}
	o.state = state
	got, err := l.pieces(ctx, o.id, small)
	if err != nil {
		return l.raiseAlarm(err)
	}
	for i, p := range got {
		ws, err := l.openPiece(o.id, keys, p)
		if err != nil {
			return l.raiseAlarm(err)
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
		return l.raiseAlarm(err)
	}
	for i, p := range got {
		plain, err := l.openPart(seal.KindChunk, o.id, keys, p)
		if err != nil {
			return l.raiseAlarm(err)
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
