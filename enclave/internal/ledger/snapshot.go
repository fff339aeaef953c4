package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/log"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/shared/wire"
)

// snapshot is the root of a snapshot, which is the compacted state after the first Count entries, all of
// them stored. It names its pieces by the hashes of their sealed bytes.
type snapshot struct {
	Count          uint64         `cbor:"1,keyasint"`
	Root           wire.Hash      `cbor:"2,keyasint"`
	Edge           []wire.Hash    `cbor:"3,keyasint"` // the tree's right edge, largest subtree first
	Pieces         []org.PieceRef `cbor:"4,keyasint"`
	Chunks         []org.Chunk    `cbor:"5,keyasint,omitempty"` // the recent fingerprints
	LowWatermarkMs uint64         `cbor:"6,keyasint"`
}

// Limits of one message of a snapshot. A store refuses more.
const (
	maxParcel = 1 << 12 // pieces
	maxDrops  = 1 << 16 // hashes of pieces to delete
)

// rootMargin is the most bytes of a snapshot's root without pieces. Each piece or chunk adds at most
// refMargin bytes, and a piece its first key.
const (
	rootMargin = 4 << 10
	refMargin  = 64
)

// maybeSnapshot starts a snapshot if the entries since the last one reach a limit. The caller holds the organization's lock.
func (o *organization) maybeSnapshot() {
	l := o.ledger
	if o.pendingSnapshot != nil || (o.sinceSnapshot < l.cfg.Limits.SnapshotEvery && o.sinceSnapshotBytes < l.cfg.Limits.SnapshotBytes) {
		return
	}
	s := o.beginSnapshot()
	l.mu.Lock()
	if l.spawnLocked(func() { l.storeSnapshot(s) }) {
		o.pendingSnapshot = s
	}
	l.mu.Unlock()
}

// A pendingSnapshot is a snapshot that is being made and sent, of the state at the transaction that began it. That may
// take long; no transaction waits for it. Pieces that don't fit into one message with the root are sent
// before it.
type pendingSnapshot struct {
	snapshot
	organization *organization
	fold         *org.Compaction
	marks        [][]org.DedupEntry // chunks of fingerprints to be written
	covered      uint64             // number of the batch with the last entry that it covers
	message      wire.PutSnapshot   // the next message
	parts        []org.NewPiece     // the pieces in message
	size         int                // bytes of message
}

func (o *organization) beginSnapshot() *pendingSnapshot {
	l := o.ledger
	o.sinceSnapshot, o.sinceSnapshotBytes = 0, 0
	s := &pendingSnapshot{organization: o, fold: o.state.Compact(), covered: o.lastBatch}
	s.message = wire.PutSnapshot{Organization: wire.ID(o.id), Count: o.count, Boot: l.cfg.Boot, Epoch: l.batchWriter.epoch, Over: o.snapshotCount, Range: l.cfg.Range}
	var gone []org.Hash
	s.marks, gone = o.dedup.Compact()
	o.dropPieces(gone)
	s.snapshot = snapshot{Count: o.count, Root: o.root, Chunks: o.dedup.Chunks(), LowWatermarkMs: o.lowWatermarkMs}
	for _, h := range o.edge.Hashes() {
		s.Edge = append(s.Edge, wire.Hash(h))
	}
	return s
}

func (o *organization) dropPieces(gone []org.Hash) {
	for _, h := range gone {
		o.droppedPieces = append(o.droppedPieces, wire.Hash(h))
	}
}

// bytes estimates the most memory that the snapshot needs: for the compaction, and for one message, both sealed and as
// pieces that are not stored yet. The caller holds the organization's lock.
func (s *pendingSnapshot) bytes() int {
	return s.fold.Bytes() + 2*min(s.fold.Size()+s.organization.dedup.Bytes(), wire.MaxFrame/2)
}

// fitsRoot reports whether a store will accept the root, by an upper bound of its size. If not, nothing is sent, since
// no later root would have the host delete the pieces. The organization then has more entries after its last snapshot,
// and the next snapshot is tried after as many entries again.
func (s *pendingSnapshot) fitsRoot() bool {
	refs, keys := s.fold.MaxRefs()
	return rootMargin+refMargin*(refs+len(s.Chunks)+len(s.marks))+keys <= s.organization.ledger.cfg.Limits.RootBytes
}

// storeSnapshot makes and sends a snapshot once all entries that it covers are stored. It retries every
// step until it succeeds or the ledger ends, so that it never starts over with pieces that the host
// has stored. No transaction waits for it.
//
// The host refuses if this boot does not own the range, or if the stored snapshot is not the
// one that this was built on. The latter cannot happen while this boot owns the range. So the host lies,
// or this boot is superseded, and the next renewal or batch fences it. Until then the organization
// stays in memory as if the snapshot were pending: the records in its pieces may be compacted nowhere
// else, and no snapshot can follow one that was refused.
func (l *Ledger) storeSnapshot(s *pendingSnapshot) {
	if l.batchWriter.waitStored(l.life, s.covered) != nil {
		return
	}
	fits := s.fitsRoot()
	if !fits {
		l.snapshotsTooLarge.Add(1)
	} else if s.send() != nil {
		return
	}
	o := s.organization
	o.lock()
	defer o.unlock()
	if o.pendingSnapshot = nil; fits {
		l.snapshotsStored.Add(1)
		s.fold.SetStored(s.parts)
		o.snapshotCount = s.Count
	}
	o.maybeSnapshot() // the entries decided meanwhile may reach the limit again
	o.countBytes()
}

// send seals the snapshot piece by piece and sends it.
func (s *pendingSnapshot) send() error {
	o := s.organization
	for s.fold.Next() {
		if err := s.loadFolded(); err != nil {
			return err
		}
		for _, part := range s.fold.Parts() {
			ref, err := s.sealAndAdd(seal.KindPiece, part.Records())
			if err != nil {
				return err
			}
			part.SetName(ref)
			s.parts = append(s.parts, part)
		}
	}
	chunks := make([]org.Hash, len(s.marks))
	for i, ms := range s.marks {
		var err error
		if chunks[i], err = s.sealAndAdd(seal.KindChunk, encodeMarks(ms)); err != nil {
			return err
		}
		s.Chunks = append(s.Chunks, org.ChunkOf(chunks[i], ms))
	}
	s.Pieces = s.fold.Refs()
	root, err := o.sealPart(seal.KindSnapshot, s.Count, &s.snapshot)
	if err != nil {
		return err
	}
	// droppedPieces needs no lock: only another snapshot would add to it, and there is none.
	o.dropPieces(s.fold.Drops())
	now := o.droppedPieces[:min(len(o.droppedPieces), maxDrops)]
	if err := s.ensureSpace(len(root) + len(now)*(len(wire.Hash{})+2)); err != nil {
		return err
	}
	s.message.Snapshot, s.message.Drop = root, now
	// From here on nothing loads a piece that the host deletes for this root.
	o.lock()
	s.fold.End()
	o.dedup.SetNames(s.marks, chunks)
	o.droppedPieces = slices.Clone(o.droppedPieces[len(now):])
	o.unlock()
	return s.sendParcel()
}

// loadFolded loads the piece that is compacted next, unless it is in memory.
func (s *pendingSnapshot) loadFolded() error {
	ref, absent := s.fold.Absent()
	if !absent {
		return nil
	}
	l := s.organization.ledger
	return l.retry(func() error {
		ws, err := s.organization.loadPiece(l.life, ref)
		if err == nil && s.fold.Load(ws) != nil {
			err = errPieceMismatch
		}
		return l.raiseAlarm(err)
	})
}

// sealAndAdd seals a piece or chunk, adds it to the message and returns its hash, which names it.
func (s *pendingSnapshot) sealAndAdd(kind seal.Kind, v any) (org.Hash, error) {
	stored, err := s.organization.sealPart(kind, 0, v)
	if err == nil {
		err = s.ensureSpace(len(stored))
	}
	if err != nil {
		return org.Hash{}, err
	}
	s.message.Pieces = append(s.message.Pieces, stored)
	return sha256.Sum256(stored), nil
}

// ensureSpace sends the message and begins another one if n more bytes don't fit.
func (s *pendingSnapshot) ensureSpace(n int) error {
	if len(s.message.Pieces) > 0 && (s.size+n > wire.MaxFrame/2 || len(s.message.Pieces) == maxParcel) {
		if err := s.sendParcel(); err != nil {
			return err
		}
		s.fold.SetStored(s.parts)
		s.message.Pieces, s.parts, s.size = nil, nil, 0
	}
	s.size += n
	return nil
}

var errRefused = errors.New("ledger: a snapshot was refused")

// sendParcel sends the message until the host answers. It returns errRefused if the host refuses.
func (s *pendingSnapshot) sendParcel() error {
	l := s.organization.ledger
	var done wire.Done
	err := l.retry(func() (err error) {
		done, err = askStore(l.life, l.cfg.Store.PutSnapshot, s.message)
		return err
	})
	if err == nil && !done.OK {
		l.cfg.Alarms.Raise(fault.AlarmSnapshot)
		err = errRefused
	}
	return err
}

// sealPart encodes and seals v: key id ‖ sealed record.
func (o *organization) sealPart(kind seal.Kind, place uint64, v any) ([]byte, error) {
	n := o.ledger.name(kind, o.id, o.keyID)
	n.Place = place
	var sealed []byte
	err := o.ledger.retry(func() error {
		plain, err := wire.Marshal(v)
		if err == nil {
			sealed, err = o.key.Seal(o.ledger.cfg.Rand, n, plain)
		}
		return err
	})
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(sealed)), o.keyID), sealed...), err
}

// retry calls try until it succeeds or the ledger ends.
func (l *Ledger) retry(try func() error) error {
	for wait := 50 * time.Millisecond; try() != nil; wait = min(2*wait, 5*time.Second) {
		select {
		case <-l.done:
			return ErrFenced
		case <-l.cfg.Clock.After(wait):
		}
	}
	return nil
}

// restore sets an organization to its state in a snapshot that covers count entries.
func (l *Ledger) restore(ctx context.Context, o *organization, keys map[uint32]*seal.Key, count uint64, stored []byte) error {
	n := l.name(seal.KindSnapshot, o.id, 0)
	n.Place = count
	plain, err := l.openPart("snapshot", n, keys, stored)
	if err != nil {
		return err
	}
	var s snapshot
	if err := wire.Unmarshal(plain, &s); err != nil {
		return fmt.Errorf("decoding a snapshot: %w", err)
	}
	edge := make([][]byte, len(s.Edge))
	for i := range s.Edge {
		edge[i] = s.Edge[i][:]
	}
	if o.edge, err = log.EdgeFactory.NewRange(0, s.Count, edge); err != nil {
		return fmt.Errorf("decoding a snapshot: %w", err)
	}
	root, err := o.edge.GetRootHash(nil)
	if err != nil || wire.Hash(root) != s.Root || s.Count != count {
		return fault.NewBreach(fault.AlarmSnapshot, "snapshot of another tree")
	}
	o.count, o.root, o.lowWatermarkMs, o.snapshotCount = s.Count, s.Root, s.LowWatermarkMs, s.Count
	var small []org.Hash
	if o.state, small, err = org.FromRefs(s.Pieces); err != nil {
		return fmt.Errorf("decoding a snapshot: %w", err)
	}
	got, err := l.loadPieces(ctx, o.id, small)
	if err != nil {
		return err
	}
	for i, p := range got {
		ws, err := l.openPiece(o.id, keys, p)
		if err != nil {
			return err
		}
		if o.state.Install(small[i], ws) != nil {
			return errPieceMismatch
		}
	}
	return l.restoreDedup(ctx, o, keys, s.Chunks)
}

func (l *Ledger) restoreDedup(ctx context.Context, o *organization, keys map[uint32]*seal.Key, chunks []org.Chunk) error {
	refs := make([]org.Hash, len(chunks))
	for i, c := range chunks {
		refs[i] = c.Ref
	}
	o.dedup.RaiseWatermark(minuteOf(o.lowWatermarkMs))
	got, err := l.loadPieces(ctx, o.id, refs)
	if err != nil {
		return err
	}
	for i, p := range got {
		plain, err := l.openPart("piece", l.name(seal.KindChunk, o.id, 0), keys, p)
		if err != nil {
			return err
		}
		var b []byte
		if err := wire.Unmarshal(plain, &b); err != nil {
			return fmt.Errorf("decoding a chunk: %w", err)
		}
		ms, err := decodeMarks(b)
		if err != nil {
			return err
		}
		if err := o.dedup.Restore(chunks[i], ms); err != nil {
			return fault.NewBreach(fault.AlarmSnapshot, "chunk does not fit")
		}
	}
	return nil
}

func encodeMarks(ms []org.DedupEntry) []byte {
	b := make([]byte, 0, len(ms)*org.DedupEntrySize)
	for _, m := range ms {
		b = append(b, m.Fingerprint[:]...)
		b = binary.BigEndian.AppendUint32(b, m.Minute)
		b = binary.BigEndian.AppendUint64(b, m.Seq)
	}
	return b
}

func decodeMarks(b []byte) ([]org.DedupEntry, error) {
	if len(b)%org.DedupEntrySize != 0 || len(b) > org.ChunkEntries*org.DedupEntrySize {
		return nil, fmt.Errorf("chunk of %d bytes", len(b))
	}
	ms := make([]org.DedupEntry, len(b)/org.DedupEntrySize)
	for i := range ms {
		m := b[i*org.DedupEntrySize:]
		ms[i] = org.DedupEntry{Fingerprint: [16]byte(m[:16]), Minute: binary.BigEndian.Uint32(m[16:]), Seq: binary.BigEndian.Uint64(m[20:])}
	}
	return ms, nil
}
