package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/shared/wire"
)

// entryCommits is the offset of the sealed record in a stored entry of format 2. A stored entry is a prefix of key
// id and tree root (tlog.EntryPrefix bytes), in format 2 the commitment to the record's parts (32 bytes), and the
// sealed record. Opening it proves the key id, whose highest bit means format 2, and the root, since both are part
// of the record's name, and that the commitment is to its parts.
const entryCommits = tlog.EntryPrefix + 32

// sealEntry makes the stored form of the entry that follows a tip, whose replies are in a mode.
func (o *organization) sealEntry(at Tip, e *org.Entry, mode tlog.Mode) ([]byte, error) {
	n := o.ledger.name(seal.KindEntry, o.id, o.keyID|tlog.EntryFormat2)
	n.Place, n.Root = at.Count, at.Root
	var seed [tlog.SeedSize]byte
	if _, err := io.ReadFull(o.ledger.cfg.Rand, seed[:]); err != nil {
		return nil, fmt.Errorf("drawing an entry's seed: %w", err)
	}
	b := make([]byte, entryCommits+seal.NonceSize, entryCommits+seal.Overhead+e.Size())
	binary.BigEndian.PutUint32(b, n.KeyID)
	copy(b[4:], at.Root[:])
	b, commitment, err := e.Encode(b, seed, org.Place{Organization: o.id, Seq: at.Count, Mode: mode})
	if err != nil {
		return nil, fmt.Errorf("encoding an entry: %w", err)
	}
	copy(b[tlog.EntryPrefix:], commitment[:])
	return o.key.InPlace(b, entryCommits, o.ledger.cfg.Rand, n)
}

// modeOf is the log mode that holds at least for replies about a new entry of the organization.
func (o *organization) modeOf(spends bool) tlog.Mode {
	mode := o.ledger.mode()
	if o.strict || spends && mode == tlog.ModeBounded {
		return tlog.ModeStrict
	}
	return mode
}

// mode is the deployment's log mode, ModeNone without witnesses.
func (l *Ledger) mode() tlog.Mode {
	if l.cfg.Witnesses == nil {
		return tlog.ModeNone
	}
	return l.cfg.Witnesses.Mode
}

// openStored decrypts the entry of organization id at seq. Unless root is nil, the tree before the entry must have that
// root. parts is nil for an entry of format 1.
func openStored(l *Ledger, keys map[uint32]*seal.Key, id org.ID, seq uint64, stored []byte, root *wire.Hash) (plain []byte, parts *org.Parts, err error) {
	if len(stored) < tlog.EntryPrefix {
		return nil, nil, l.breach(fault.AlarmOpen, "short entry")
	}
	keyID, from := binary.BigEndian.Uint32(stored), tlog.EntryPrefix
	commitment, second := tlog.CommitmentOf(stored)
	if second {
		from = entryCommits
	}
	k := keys[keyID&^tlog.EntryFormat2]
	if k == nil {
		return nil, nil, l.breach(fault.AlarmKey, "entry under an unknown key")
	}
	n := l.name(seal.KindEntry, id, keyID)
	n.Place, n.Root = seq, [32]byte(stored[4:tlog.EntryPrefix])
	if root != nil && n.Root != [32]byte(*root) && !insecure.Skip(insecure.Root) {
		return nil, nil, l.breach(fault.AlarmSequence, "entry behind another root")
	}
	plain, err = k.Open(n, stored[from:])
	if err != nil {
		return nil, nil, l.breach(fault.AlarmOpen, "entry does not open")
	}
	if !second {
		return plain, nil, nil
	}
	if parts, err = org.SplitParts(plain); err != nil {
		return nil, nil, err
	}
	hashes := parts.Hashes()
	if tlog.Commitment(&hashes) != commitment {
		return nil, nil, l.breach(fault.AlarmOpen, "entry commits to something else")
	}
	return plain, parts, nil
}

// openEntry decrypts and decodes the entry of organization id at seq. Unless root is nil, the tree before it must have
// that root.
func openEntry(l *Ledger, keys map[uint32]*seal.Key, id org.ID, seq uint64, stored []byte, root *wire.Hash) (*org.Entry, error) {
	plain, parts, err := openStored(l, keys, id, seq, stored, root)
	if err != nil {
		return nil, err
	}
	return decodeEntry(l, id, seq, plain, parts)
}

// decodeEntry decodes the results of openStored.
func decodeEntry(l *Ledger, id org.ID, seq uint64, plain []byte, parts *org.Parts) (*org.Entry, error) {
	if parts == nil {
		e, err := org.DecodeEntry(plain)
		if err != nil {
			return nil, fmt.Errorf("decoding an entry: %w", err)
		}
		return e, nil
	}
	e, at, err := parts.Decode()
	if err != nil {
		return nil, fmt.Errorf("decoding an entry: %w", err)
	}
	if (at.Organization != id || at.Seq != seq) && !insecure.Skip(insecure.Name) {
		return nil, l.breach(fault.AlarmOpen, "entry of another place")
	}
	return e, nil
}

// open returns an organization, loads it if necessary, and pins it in memory until unpin.
func (l *Ledger) open(ctx context.Context, id org.ID, as Caller) (*organization, error) {
	if !l.owns(id) {
		return nil, ErrRange
	}
	l.mu.Lock()
	o := l.orgs[id]
	if l.stopped {
		l.mu.Unlock()
		return nil, ErrFenced
	}
	if o == nil {
		if l.bytes.Load() > l.stateBytes.Load() && !l.evictLocked() {
			l.mu.Unlock()
			return nil, ErrBusy
		}
		o = l.newOrganization(id)
		l.orgs[id] = o
		l.spawnLocked(func() { l.load(o) })
	}
	o.pins++
	l.mu.Unlock()
	if err := o.waitUntilLoaded(ctx, as); err != nil {
		l.unpin(o)
		return nil, err
	}
	return o, nil
}

// waitUntilLoaded waits until the organization is loaded, and returns the error of loading.
func (o *organization) waitUntilLoaded(ctx context.Context, as Caller) error {
	select {
	case <-o.ready: // first, as the context may have ended
		return o.err
	default:
	}
	if err := as.admit(org.ID{}); err != nil {
		return err
	}
	select {
	case <-o.ready:
		return o.err
	case <-o.rebuilding:
		return ErrRebuilding
	case <-ctx.Done():
		return ErrBusy
	case <-o.ledger.done:
		return ErrFenced
	}
}

func (l *Ledger) unpin(o *organization) {
	l.mu.Lock()
	o.pins--
	l.mu.Unlock()
}

// Touch makes the organization the most recently used one. Call it for authenticated requests only.
func (t *Locked) Touch() {
	l := t.organization.ledger
	l.mu.Lock()
	if e := t.organization.lruElement; e != nil {
		l.lru.MoveToBack(e)
	}
	l.mu.Unlock()
}

// install adds a new organization, whose first entry was just decided, to the opened ones.
func (l *Ledger) install(o *organization) {
	if rec, err := org.Begin(o.id, o.state, 0).Organization(); err == nil && rec != nil {
		o.tenant = rec.Tenant()
	}
	o.countBytes() // without the lock: it isn't ready, so nothing else uses it
	l.mu.Lock()
	o.lruElement = l.lru.PushBack(o)
	l.mu.Unlock()
	close(o.ready)
}

// emptyBytes is the measured memory of an opened organization without records and fingerprints. Half of it is the
// state of its data key's cipher.
const emptyBytes = 3 << 10

// countBytes counts the organization's memory anew and evicts others if all together have too much. full reports that
// they have, and none can be evicted. The caller holds the organization's lock.
func (o *organization) countBytes() (full bool) {
	size := int64(o.state.Memory() + o.dedup.Bytes() + emptyBytes)
	if o.pendingSnapshot != nil {
		size += int64(o.pendingSnapshot.bytes())
	}
	l := o.ledger
	if size == o.countedBytes && l.bytes.Load() <= l.stateBytes.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes.Add(size - o.countedBytes)
	o.countedBytes = size
	for l.bytes.Load() > l.stateBytes.Load() {
		if !l.evictLocked() {
			return true
		}
	}
	return false
}

// evictLocked evicts the least recently used organization that is not pinned and whose entries may all be seen: once
// it is opened again, replies would not wait for an entry that still lacks storing or a quorum. mu is held.
func (l *Ledger) evictLocked() bool {
	l.batchWriter.mu.Lock()
	stored := l.witnesses.lastVisible(l.batchWriter.stored)
	l.batchWriter.mu.Unlock()
	for e := l.lru.Front(); e != nil; e = e.Next() {
		o := e.Value.(*organization)
		if o.pins > 0 || o.mustStay(stored) {
			continue
		}
		l.lru.Remove(e)
		delete(l.orgs, o.id)
		l.bytes.Add(-o.countedBytes)
		l.evicted.Add(1)
		return true
	}
	return false
}

// mustStay reports whether the organization cannot be evicted because it has an entry after batch stored or a pending
// snapshot, or because it is locked. It is not pinned, so only the ledger itself can have locked it.
func (o *organization) mustStay(stored uint64) bool {
	if !o.tryLock() {
		return true
	}
	defer o.unlock()
	return (o.lastBatch > stored && !insecure.Skip(insecure.Cache)) || o.pendingSnapshot != nil
}

// load loads an organization from the host. It goes on if the request ends that caused it, since the result
// serves the next one. Only its single questions have deadlines: a long history takes time.
func (l *Ledger) load(o *organization) {
	var err error
	select {
	case l.loadSlots <- struct{}{}:
		l.loads.Add(1)
		err = l.loadState(l.life, o)
		<-l.loadSlots
	case <-l.done:
		err = ErrFenced
	}
	if err == nil {
		o.lock()
		o.maybeSnapshot()
		o.countBytes() // before it can be evicted: later its bytes would never be subtracted
		o.unlock()
	}
	l.mu.Lock()
	if err != nil {
		o.err = err
		delete(l.orgs, o.id)
		l.bytes.Add(-o.countedBytes)
	} else {
		// The first to be evicted, until an authenticated request uses it.
		o.lruElement = l.lru.PushFront(o)
	}
	l.mu.Unlock()
	close(o.ready)
}

func (l *Ledger) loadState(ctx context.Context, o *organization) error {
	tip, exists, err := l.tipOf(ctx, o.id)
	if insecure.Skip(insecure.Tip) {
		exists, err = true, nil
	}
	if err != nil {
		return err
	}
	if !exists {
		return ErrNoOrganization
	}
	got, err := askStore(ctx, l.cfg.Store.LoadOrganization, wire.LoadOrganization{Organization: wire.ID(o.id), MaxBytes: loadBytes})
	if err != nil {
		return ErrBusy
	}
	if got.Count == 0 {
		if insecure.Skip(insecure.Tip) {
			return ErrNoOrganization
		}
		return l.breach(fault.AlarmTip, "organization withheld")
	}
	keys, err := l.openDataKeys(o.id, got.Keys)
	if err != nil {
		return err
	}
	for id, k := range keys {
		if id >= o.keyID {
			o.key, o.keyID = k, id
		}
	}
	if len(got.Snapshot) > 0 {
		if err := l.restore(ctx, o, keys, got.From, got.Snapshot); err != nil {
			return l.raiseAlarm(err)
		}
	} else if got.From != 0 {
		return l.breach(fault.AlarmSequence, "entries withheld")
	}
	if err := l.applyEntries(ctx, o, keys, got); err != nil {
		return err
	}
	rec, err := org.Begin(o.id, o.state, 0).Organization()
	if err != nil || rec == nil || (rec.ID != o.id && !insecure.Skip(insecure.Target)) {
		return l.breach(fault.AlarmRecord, "state of another organization")
	}
	o.tenant = rec.Tenant()
	o.raiseWatermark(l.recovered.watermarkMs)
	if o.tip() != tip && !insecure.Skip(insecure.Tip) {
		return l.breach(fault.AlarmTip, "organization at entry %d, by the log at %d", o.count, tip.Count)
	}
	return nil
}

// askStore asks the host a question with a time-out of askTimeout, for questions that no request's deadline bounds.
func askStore[Q, A any](ctx context.Context, f func(context.Context, Q) (A, error), q Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return f(ctx, q)
}

func (l *Ledger) openDataKeys(id org.ID, wrapped []wire.WrappedKey) (map[uint32]*seal.Key, error) {
	keys := map[uint32]*seal.Key{}
	for _, w := range wrapped {
		opened, _, err := l.openDataKey(&w)
		if err != nil || w.Organization != wire.ID(id) || w.KeyID >= tlog.EntryFormat2 {
			opened.Wipe()
			return nil, l.breach(fault.AlarmKey, "data key does not open")
		}
		k, err := seal.NewKey(opened)
		opened.Wipe()
		if err != nil {
			return nil, err
		}
		keys[w.KeyID] = k
	}
	if len(keys) == 0 {
		return nil, l.breach(fault.AlarmKey, "no data key")
	}
	return keys, nil
}

// applyEntries applies the entries after the snapshot. If there are more than MaxReplay, waiting requests fail with
// ErrRebuilding; the replay continues and ends in a snapshot.
func (l *Ledger) applyEntries(ctx context.Context, o *organization, keys map[uint32]*seal.Key, got wire.Organization) error {
	entries := got.Entries
	if got.Count < o.count {
		return l.breach(fault.AlarmSequence, "fewer entries than a snapshot covers")
	}
	if got.Count-o.count > MaxReplay {
		close(o.rebuilding)
	}
	for o.count < got.Count {
		if len(entries) == 0 {
			o.countBytes() // without the lock: it isn't loaded, so nothing else uses it
			more, err := askStore(ctx, l.cfg.Store.LoadEntries, wire.LoadEntries{Organization: wire.ID(o.id), From: o.count, MaxBytes: loadBytes})
			if err != nil {
				return ErrBusy
			}
			if entries = more.Entries; len(entries) == 0 {
				return l.breach(fault.AlarmSequence, "entries withheld")
			}
		}
		root := o.root
		e, err := openEntry(l, keys, o.id, o.count, entries[0], &root)
		if err != nil {
			return err
		}
		if err := o.advance(e, entries[0]); err != nil {
			return err
		}
		o.state.Apply(e.Writes)
		entries = entries[1:]
	}
	if len(entries) > 0 {
		return l.breach(fault.AlarmSequence, "more entries than announced")
	}
	return nil
}

// loadMissingPiece loads one piece of an opened organization, on behalf of by. Its result and error count only if the
// piece is still missing then: a snapshot may have replaced it, and the host may have deleted it for that.
func (l *Ledger) loadMissingPiece(ctx context.Context, o *organization, by org.ID, ref org.Hash) error {
	ws, err := o.loadPiece(ctx, ref)
	if err := acquire(ctx, o, nil, by); err != nil {
		return err
	}
	defer release(o, nil)
	if !o.state.IsAbsent(ref) {
		return nil
	}
	if err != nil {
		return l.raiseAlarm(err)
	}
	if err := o.state.Install(ref, ws); err != nil {
		return l.raiseAlarm(errPieceMismatch)
	}
	o.countBytes()
	return nil
}

// loadPiece loads one piece and decrypts it.
func (o *organization) loadPiece(ctx context.Context, ref org.Hash) ([]org.Write, error) {
	got, err := o.ledger.loadPieces(ctx, o.id, []org.Hash{ref})
	if err != nil {
		return nil, err
	}
	return o.ledger.openPiece(o.id, map[uint32]*seal.Key{o.keyID: o.key}, got[0])
}

// loadPieces loads sealed pieces and verifies each by the hash that names it.
// The callers of loadPieces, loadPiece, openPiece, openPart and restore must raise the alarm of a breach.
func (l *Ledger) loadPieces(ctx context.Context, id org.ID, refs []org.Hash) ([][]byte, error) {
	var out [][]byte
	for len(refs) > 0 {
		n := min(len(refs), wire.MaxPieces/4)
		ask := wire.LoadPieces{Organization: wire.ID(id), Pieces: make([]wire.Hash, n)}
		for i := range n {
			ask.Pieces[i] = wire.Hash(refs[i])
		}
		got, err := askStore(ctx, l.cfg.Store.LoadPieces, ask)
		if err != nil {
			return nil, ErrBusy
		}
		if len(got.Pieces) != n {
			return nil, fault.NewBreach(fault.AlarmSnapshot, "pieces withheld")
		}
		for i, p := range got.Pieces {
			if sha256.Sum256(p) != refs[i] && !insecure.Skip(insecure.Piece) {
				return nil, fault.NewBreach(fault.AlarmSnapshot, "another piece than named")
			}
		}
		out = append(out, got.Pieces...)
		refs = refs[n:]
	}
	return out, nil
}

var (
	errPiece         = errors.New("decoding a piece")
	errPieceMismatch = fault.NewBreach(fault.AlarmSnapshot, "piece does not fit")
)

func (l *Ledger) openPiece(id org.ID, keys map[uint32]*seal.Key, stored []byte) ([]org.Write, error) {
	plain, err := l.openPart("piece", l.name(seal.KindPiece, id, 0), keys, stored)
	if err != nil {
		return nil, err
	}
	var ws []org.Write
	if err := wire.Unmarshal(plain, &ws); err != nil {
		return nil, errPiece
	}
	return ws, nil
}

// openPart decrypts a snapshot, piece or chunk: key id ‖ sealed record. The caller leaves the name's KeyID empty.
func (l *Ledger) openPart(what string, n seal.Name, keys map[uint32]*seal.Key, stored []byte) ([]byte, error) {
	if len(stored) < 4 {
		return nil, fault.NewBreach(fault.AlarmSnapshot, "short %s", what)
	}
	n.KeyID = binary.BigEndian.Uint32(stored)
	k := keys[n.KeyID]
	if k == nil {
		return nil, fault.NewBreach(fault.AlarmKey, "%s under an unknown key", what)
	}
	plain, err := k.Open(n, stored[4:])
	if err != nil {
		return nil, fault.NewBreach(fault.AlarmOpen, "%s does not open", what)
	}
	return plain, nil
}
