package ledger

import (
	"container/list"
	"fmt"
	"slices"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fairqueue"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/log"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/shared/wire"
)

// organization is an opened organization: its state, its tree and its lock.
type organization struct {
	id     org.ID
	ledger *Ledger
	key    *seal.Key // its newest data key, with id keyID
	keyID  uint32
	tenant org.ID // its top-level organization; set before ready is closed

	lockQueue lockQueue

	// The organization's lock guards what follows.
	slot       fairqueue.Slot // processor time of the run that holds the lock
	storeBytes int            // bytes of the entries that this run has appended
	tree
	state              *org.State
	dedup              *org.DedupWindow
	lowWatermarkMs     uint64
	lastBatch          uint64
	lastSpend          uint64           // last batch with an entry that spends from a window, 0 if there is none since it was loaded
	sinceSnapshot      int              // entries since the last snapshot
	sinceSnapshotBytes int              // their bytes
	snapshotCount      uint64           // entries that the stored snapshot covers, 0 if there is none
	droppedPieces      []wire.Hash      // pieces that the next snapshot's root no longer names
	pendingSnapshot    *pendingSnapshot // a snapshot that is being made or sent, or nil
	countedBytes       int64            // its memory, as last added to the ledger's bytes
	strict             bool             // its replies wait for the log's witnesses, as of the last Locked.Strict

	// The ledger's mutex guards these.
	pins       int
	lruElement *list.Element // in the ledger's lru
	ready      chan struct{} // closed when it is loaded, or when loading has failed with err
	rebuilding chan struct{} // closed if loading will take long
	err        error
}

// Locked is an organization that the running transaction has locked: no other transaction reads or changes it. It
// is valid only within the transaction's function.
type Locked struct {
	organization *organization
	State        *org.State // the result of all decided entries; read it through Begin
}

// ProcessorTime returns how long this run of the transaction has used a processor.
func (t *Locked) ProcessorTime() time.Duration { return t.organization.slot.Used() }

// entryBytes estimates the bytes that an entry needs in the store beside its own.
const entryBytes = 1000

// StoreBytes estimates how many bytes the store needs for the entries that the run has appended.
func (t *Locked) StoreBytes() int { return t.organization.storeBytes }

// ID returns the organization's id.
func (t *Locked) ID() org.ID { return t.organization.id }

// Begin begins a change of the state for one entry. Reads go through it as well.
func (t *Locked) Begin(nowMs uint64) *org.Tx { return org.Begin(t.organization.id, t.State, nowMs) }

// Strict reports whether each reply of the organization waits for the log's witnesses: because of the deployment's
// mode, or because its root quorum has turned that on.
func (t *Locked) Strict() (bool, error) {
	mode := t.organization.ledger.mode()
	if mode != tlog.ModeBounded {
		return mode == tlog.ModeStrict, nil
	}
	o, err := t.Begin(0).Organization()
	if err != nil || o == nil {
		return false, err
	}
	_, t.organization.strict = o.Features[org.FeatureStrictLog]
	return t.organization.strict, nil
}

// Tip returns the organization's tip, unstored entries included.
func (t *Locked) Tip() Tip { return t.organization.tip() }

// Batch returns the number of the organization's last batch. A reply that depends on this state waits for it.
func (t *Locked) Batch() uint64 { return t.organization.lastBatch }

// SpendAwaitsQuorum reports whether an entry of the organization that spends from a window lacks a quorum of witnesses.
// Until it has one, replies that depend on this state wait for a quorum in any mode: if the host could lose the spend
// after the reply, the window would be free again.
func (t *Locked) SpendAwaitsQuorum() bool {
	o := t.organization
	return o.lastSpend > 0 && !o.ledger.witnesses.hasQuorum(o.lastSpend)
}

// LowWatermarkMs returns the time at or before which no stamped body starts an activity. The ledger keeps the
// fingerprints of later bodies only.
func (t *Locked) LowWatermarkMs() uint64 { return t.organization.lowWatermarkMs }

// Seen returns the entry with a fingerprint, among those of bodies stamped after the low watermark. It compares
// 16 bytes; the caller must compare the full hash in the entry.
func (t *Locked) Seen(fingerprint [32]byte) (seq uint64, ok bool) {
	return t.organization.dedup.Find([16]byte(fingerprint[:16]))
}

// An Addition is one entry that a transaction appends in addition to its main one.
type Addition struct {
	Entry  *org.Entry
	Tx     *org.Tx // the entry's writes; nil: none
	Child  *Child  // the new organization whose first entry it is, or nil
	Locked *Locked // the organization whose entry it is; nil: Child's, or else the transaction's own
}

// OrganizationID returns the id of the organization whose entry it is.
func (a *Addition) OrganizationID() org.ID {
	o, _ := a.owner()
	return o.id
}

// A Child is a new organization that no other transaction can open before its first entry is decided.
type Child struct {
	organization *organization
	keys         []wire.WrappedKey // its data key, wrapped
	tx           *org.Tx
}

// Tx returns the change that creates the child's records.
func (c *Child) Tx() *org.Tx { return c.tx }

// Key returns the child's data key.
func (c *Child) Key() *seal.Key { return c.organization.key }

// Ledger returns the organization's ledger.
func (t *Locked) Ledger() *Ledger { return t.organization.ledger }

// NewChild prepares a new organization. Its range must be the ledger's.
func (l *Ledger) NewChild(id org.ID, nowMs uint64) (*Child, error) {
	if !l.owns(id) {
		return nil, ErrRange
	}
	key, wrapped, err := l.newDataKey(id, 1)
	if err != nil {
		return nil, err
	}
	o := l.newOrganization(id)
	o.key, o.keyID = key, 1
	return &Child{organization: o, keys: []wire.WrappedKey{wrapped}, tx: org.Begin(id, o.state, nowMs)}, nil
}

func (l *Ledger) newOrganization(id org.ID) *organization {
	o := &organization{id: id, ledger: l, tree: newTree(), state: org.NewState(), dedup: org.NewDedupWindow(), ready: make(chan struct{}), rebuilding: make(chan struct{})}
	o.state.SetTransaction(&o.slot)
	return o
}

// Key returns the organization's data key and the key's id, for the secrets in its records.
func (t *Locked) Key() (*seal.Key, uint32) { return t.organization.key, t.organization.keyID }

// Append seals the transaction's main entry and its others and puts them into one batch, in this order. It returns
// the batch's number, for which every reply that depends on them must wait. After Append the transaction is decided
// and can't be undone. Each Tx may be used once.
func (t *Locked) Append(e *org.Entry, tx *org.Tx, others ...Addition) (uint64, error) {
	all := append([]Addition{{Entry: e, Tx: tx}}, others...)
	for i := range all {
		if all[i].Child == nil && all[i].Locked == nil {
			all[i].Locked = t
		}
	}
	return t.organization.ledger.decide(all)
}

// Create puts a new organization's first entry into a batch and returns the batch's number. If two callers create the
// same organization at once, the second gets ErrBusy and finds the first one's organization when it retries.
func (l *Ledger) Create(c *Child, e *org.Entry, tx *org.Tx) (uint64, error) {
	return l.decide([]Addition{{Entry: e, Tx: tx, Child: c}})
}

// decide makes the entries of one transaction take effect together. Each has its Locked or its Child set.
func (l *Ledger) decide(all []Addition) (uint64, error) {
	l.writeGate.RLock()
	defer l.writeGate.RUnlock()
	if l.closedForWrites {
		return 0, ErrHandedOver
	}
	if err := l.batchWriter.checkUnstored(); err != nil {
		return 0, err
	}
	for i := range all {
		if t := all[i].Locked; t != nil && (i == 0 || all[i].Entry.HasFingerprint()) {
			if err := t.organization.reserveFingerprint(all[i].Entry); err != nil {
				return 0, err
			}
		}
	}
	spends := slices.ContainsFunc(all, func(a Addition) bool { return a.Tx != nil && a.Tx.Spends() })
	// Everything that can fail comes before the first effect.
	as := make([]addition, len(all))
	drafts := make([]draft, 0, len(all)) // one for each organization; they are few
	for i := range all {
		o, keys := all[i].owner()
		at := slices.IndexFunc(drafts, func(d draft) bool { return d.organization == o })
		if at < 0 {
			at = len(drafts)
			drafts = append(drafts, draft{organization: o, tree: o.tree})
		}
		var err error
		if as[i], err = drafts[at].sealNext(all[i].Entry, all[i].Tx, keys, o.modeOf(spends)); err != nil {
			return 0, err
		}
	}
	if err := checkFits(as); err != nil {
		return 0, err
	}
	if l.cfg.Compare != nil {
		if err := l.cfg.Compare(all); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	for i := range all {
		if c := all[i].Child; c != nil && l.existsLocked(c.organization.id) {
			l.mu.Unlock()
			return 0, ErrBusy
		}
	}
	for i := range all {
		o, _ := all[i].owner()
		as[i].tip = o.apply(all[i].Entry, all[i].Tx, as[i].entry.Sealed)
		if all[i].Child != nil {
			l.orgs[o.id] = o // other transactions wait for install
		}
	}
	l.mu.Unlock()
	n := l.batchWriter.add(as...)
	for i := range all {
		o, _ := all[i].owner()
		if o.lastBatch = n; spends {
			o.lastSpend = n
		}
		if all[i].Child != nil {
			l.install(o)
		}
	}
	for i := range all {
		if t := all[i].Locked; t != nil {
			t.organization.maybeSnapshot()
		}
	}
	if t := all[0].Locked; t != nil {
		for i := range as {
			t.organization.storeBytes += as[i].bytes() + entryBytes
		}
	}
	return n, nil
}

// reserveFingerprint sets the entry's low watermark if it is due to be raised, and returns ErrDedupFull if there is no
// space for the entry's fingerprint. The raised watermark counts, as it makes space: a full set would stay full.
func (o *organization) reserveFingerprint(e *org.Entry) error {
	if f := watermarkAt(e.TimeMs); f > o.lowWatermarkMs+uint64(watermarkStep.Milliseconds()) {
		e.LowWatermarkMs = f
	}
	most := o.ledger.cfg.Limits.DedupEntries
	if e.HasFingerprint() && o.dedup.Len() >= most && o.dedup.CountAbove(minuteOf(e.LowWatermarkMs)) >= most {
		return ErrDedupFull
	}
	return nil
}

// owner returns the organization whose entry an addition is and, of a new one, its wrapped data key.
func (a *Addition) owner() (*organization, []wire.WrappedKey) {
	if a.Child != nil {
		return a.Child.organization, a.Child.keys
	}
	return a.Locked.organization, nil
}

// draft is the tree of an organization after the entries of the transaction that are sealed so far.
type draft struct {
	organization *organization
	tree                // without last
	last         []byte // the last sealed entry; nil: none yet
}

func (d *draft) sealNext(e *org.Entry, tx *org.Tx, keys []wire.WrappedKey, mode tlog.Mode) (a addition, err error) {
	if d.last != nil {
		if d.edge == d.organization.edge {
			if d.edge, err = log.EdgeFactory.NewRange(0, d.count, slices.Clone(d.edge.Hashes())); err != nil {
				return a, fmt.Errorf("copying a tree's edge: %w", err)
			}
		}
		if err := d.grow(d.last); err != nil {
			return a, err
		}
	}
	a, err = d.organization.seal(e, tx, keys, d.tip(), mode)
	d.last = a.entry.Sealed
	return a, err
}

// existsLocked reports whether an organization is open, is being loaded, or has changed since the tip table. It
// doesn't look into the table: ids are random, or the caller has looked for the organization. mu is held.
func (l *Ledger) existsLocked(id org.ID) bool {
	_, moved, _ := l.tips.lookUp(id)
	return moved || l.orgs[id] != nil
}

// checkFits refuses the entries of one transaction if they don't fit into one batch.
func checkFits(as []addition) error {
	n := 0
	for i := range as {
		n += as[i].bytes()
	}
	if n > maxAddition || len(as) > wire.MaxBatch {
		return fault.New(fault.InvalidArgument, "request too large: its records would have %d bytes", n)
	}
	return nil
}

// seal makes the stored form of the entry that follows a tip, whose replies are in a mode. It doesn't change the organization.
func (o *organization) seal(e *org.Entry, tx *org.Tx, keys []wire.WrappedKey, at Tip, mode tlog.Mode) (addition, error) {
	l := o.ledger
	e.Boot = l.cfg.BootNumber
	e.Writes = nil // the stored writes are exactly those that the state applies
	if tx != nil {
		ws, err := tx.Writes()
		if err != nil {
			return addition{}, err
		}
		e.Writes = ws
	}
	sealed, err := o.sealEntry(at, e, mode)
	if err != nil {
		return addition{}, err
	}
	if len(sealed) > wire.MaxSealed {
		return addition{}, fault.New(fault.InvalidArgument, "request too large: its record would have %d bytes", len(sealed))
	}
	if len(e.Index) > wire.MaxIndex {
		return addition{}, fault.New(fault.InvalidArgument, "request too large: %d changes of names and addresses", len(e.Index))
	}
	var index []wire.IndexChange
	for _, c := range e.Index {
		index = append(index, wire.IndexChange{Key: wire.Hash(c.Key), Rank: c.Rank, Drop: c.Drop})
	}
	if len(e.Sends) > wire.MaxSends {
		return addition{}, fmt.Errorf("an entry with %d sends", len(e.Sends))
	}
	var sends []wire.SendMark
	for i := range e.Sends {
		sends = append(sends, wire.SendMark{Kind: wire.SendKind(e.Sends[i].Kind), DueMs: e.Sends[i].DueMs, Receiver: wire.ID(e.Sends[i].Receiver), Payer: wire.ID(o.tenant)})
	}
	return addition{
		entry: wire.Entry{Organization: wire.ID(o.id), Seq: at.Count, Sealed: sealed, Activity: wire.ID(e.Activity), Type: e.Type,
			Status: uint8(e.Status), TimeMs: e.TimeMs, Prior: e.Prior, Index: index, Sends: sends},
		keys: keys, id: o.id,
	}, nil
}

// apply makes a sealed entry the organization's newest: from then on it is decided. It returns the new tip.
func (o *organization) apply(e *org.Entry, tx *org.Tx, sealed []byte) Tip {
	if err := o.advance(e, sealed); err != nil {
		panic("ledger: a tree that cannot grow: " + err.Error())
	}
	if tx != nil {
		tx.Apply()
	}
	return o.tip()
}

// advance adds an entry to everything but the state: tree, low watermark, fingerprints and counters.
func (o *organization) advance(e *org.Entry, sealed []byte) error {
	seq := o.count
	if err := o.grow(sealed); err != nil {
		return err
	}
	o.raiseWatermark(e.LowWatermarkMs)
	if e.HasFingerprint() {
		o.dedup.Add(org.DedupEntry{Fingerprint: [16]byte(e.Fingerprint[:16]), Minute: uint32(e.StampedMs / 60000), Seq: seq})
	}
	o.sinceSnapshot++
	o.sinceSnapshotBytes += len(sealed)
	return nil
}

// raiseWatermark raises the low watermark. It never lowers it.
func (o *organization) raiseWatermark(floorMs uint64) {
	if floorMs > o.lowWatermarkMs {
		o.lowWatermarkMs = floorMs
		o.dedup.RaiseWatermark(minuteOf(floorMs))
	}
}

// watermarkAt is the low watermark for an entry that is decided at nowMs: the last millisecond of a minute, as
// fingerprints are kept by minute, and more than an hour ago, so that no valid body is at or before it.
func watermarkAt(nowMs uint64) uint64 {
	age := uint64(LowWatermarkAge.Milliseconds())
	if nowMs < age+120_000 {
		return 0
	}
	return (nowMs-age)/60_000*60_000 - 1
}

// minuteOf is the last minute that is wholly at or before a watermark.
func minuteOf(floorMs uint64) uint32 {
	if floorMs < 60_000-1 {
		return 0
	}
	return uint32((floorMs+1)/60_000 - 1)
}
