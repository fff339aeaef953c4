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
	key    *seal.Key // as long as it is open, with keyID
	keyID  uint32
	tenant org.ID // the organization of the top level; set before it is ready

	lockQueue lockQueue

	// The organization's lock guards what follows.
	slot       fairqueue.Slot // of the run that has the lock
	storeBytes int            // bytes of the entries that it has appended
	tree
	state              *org.State
	dedup              *org.DedupWindow
	lowWatermarkMs     uint64
	lastBatch          uint64
	sinceSnapshot      int              // entries since the last snapshot
	sinceSnapshotBytes int              // their bytes
	snapshotCount      uint64           // entries that the stored snapshot covers, 0 if there is none
	droppedPieces      []wire.Hash      // pieces that the next snapshot's root names no more
	pendingSnapshot    *pendingSnapshot // on its way to the store
	countedBytes       int64            // as last counted into the ledger's bytes
	strict             bool             // its replies wait for the log's witnesses; false until somebody asks

	// The ledger's mutex guards these.
	pins       int
	lruElement *list.Element // in the ledger's lru
	ready      chan struct{} // closed when it is loaded, or has failed with err
	rebuilding chan struct{} // closed when loading will take long
	err        error
}

// Locked is an organization that the running transaction has locked: nobody else reads or changes it. It is
// valid inside the function that gets it.
type Locked struct {
	organization *organization
	State        *org.State // the result of all entries decided; read it through Begin
}

// ProcessorTime is how long the running transaction has had a processor.
func (t *Locked) ProcessorTime() time.Duration { return t.organization.slot.Used() }

// entryBytes is what an entry costs the store beside its own bytes.
const entryBytes = 1000

// StoreBytes is about how many bytes the store needs for the entries that the run has appended.
func (t *Locked) StoreBytes() int { return t.organization.storeBytes }

// ID is the organization.
func (t *Locked) ID() org.ID { return t.organization.id }

// Begin reads the state, and changes it for one entry.
func (t *Locked) Begin(nowMs uint64) *org.Tx { return org.Begin(t.organization.id, t.State, nowMs) }

// Strict tells whether the organization's replies wait for the log's witnesses: by the deployment's mode,
// or since its root quorum said so.
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

// Tip is where the ledger stands, unstored entries included.
func (t *Locked) Tip() Tip { return t.organization.tip() }

// Batch is the organization's last batch. A reply that saw this state waits for it.
func (t *Locked) Batch() uint64 { return t.organization.lastBatch }

// LowWatermarkMs is the time at or before which no stamped body starts an activity: fingerprints are kept of
// later ones only.
func (t *Locked) LowWatermarkMs() uint64 { return t.organization.lowWatermarkMs }

// Seen finds the entry of a fingerprint above the low watermark. It compares 16 bytes; the caller compares the
// full hash in the entry.
func (t *Locked) Seen(fingerprint [32]byte) (seq uint64, ok bool) {
	return t.organization.dedup.Find([16]byte(fingerprint[:16]))
}

// An Addition is one entry that a transaction appends beside its main one.
type Addition struct {
	Entry  *org.Entry
	Tx     *org.Tx // its writes are the entry's; may be nil
	Child  *Child  // the new organization whose first entry it is, or nil
	Locked *Locked // whose entry it is; nil: the transaction's own, or Child's
}

// OrganizationID is the organization whose entry it is.
func (a *Addition) OrganizationID() org.ID {
	o, _ := a.owner()
	return o.id
}

// A Child is an organization that is being made, which nobody else can open yet.
type Child struct {
	organization *organization
	keys         []wire.WrappedKey // its data key, wrapped
	tx           *org.Tx
}

// Tx is the change that makes the child.
func (c *Child) Tx() *org.Tx { return c.tx }

// Key is the child's data key.
func (c *Child) Key() *seal.Key { return c.organization.key }

// Ledger is the ledger that the organization is in.
func (t *Locked) Ledger() *Ledger { return t.organization.ledger }

// NewChild prepares an organization that does not exist yet. Its range must be the ledger's.
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

// Key is the organization's data key, for the secrets in its records.
func (t *Locked) Key() (*seal.Key, uint32) { return t.organization.key, t.organization.keyID }

// Append seals the transaction's entry and the others of the same transaction and puts them into one batch, in
// this order. It returns the number of the batch, which every reply that tells of them must wait for. After it
// the transaction is decided: nothing undoes it. Each Tx is given at most once.
func (t *Locked) Append(e *org.Entry, tx *org.Tx, others ...Addition) (uint64, error) {
	all := append([]Addition{{Entry: e, Tx: tx}}, others...)
	for i := range all {
		if all[i].Child == nil && all[i].Locked == nil {
			all[i].Locked = t
		}
	}
	return t.organization.ledger.decide(all)
}

// Create puts a new organization's first entry into a batch. When two create the same
// organization at once, the second gets ErrBusy and finds the first's when it tries again.
func (l *Ledger) Create(c *Child, e *org.Entry, tx *org.Tx) (uint64, error) {
	return l.decide([]Addition{{Entry: e, Tx: tx, Child: c}})
}

// decide makes entries take effect together. Each has its Locked or its Child.
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
	// Everything that can fail comes before the first effect.
	as := make([]addition, len(all))
	drafts := make([]draft, 0, len(all)) // of each organization; they are few
	for i := range all {
		o, keys := all[i].owner()
		at := slices.IndexFunc(drafts, func(d draft) bool { return d.organization == o })
		if at < 0 {
			at = len(drafts)
			drafts = append(drafts, draft{organization: o, tree: o.tree})
		}
		var err error
		if as[i], err = drafts[at].sealNext(all[i].Entry, all[i].Tx, keys); err != nil {
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
			l.orgs[o.id] = o // whoever asks for it waits until it is adopted
		}
	}
	l.mu.Unlock()
	n := l.batchWriter.add(as...)
	for i := range all {
		o, _ := all[i].owner()
		o.lastBatch = n
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

// reserveFingerprint has an entry raise the low watermark if that is due, and refuses one whose fingerprint
// there is no space for. Raising it makes space, or a full set would stay full.
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

// owner is the organization whose entry an addition is, with the keys that come with a new one.
func (a *Addition) owner() (*organization, []wire.WrappedKey) {
	if a.Child != nil {
		return a.Child.organization, a.Child.keys
	}
	return a.Locked.organization, nil
}

// draft is where an organization will stand once the entries sealed so far are applied.
type draft struct {
	organization *organization
	tree                // as of the entry before last
	last         []byte // the last sealed entry; nil: none yet
}

func (d *draft) sealNext(e *org.Entry, tx *org.Tx, keys []wire.WrappedKey) (a addition, err error) {
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
	a, err = d.organization.seal(e, tx, keys, d.tip())
	d.last = a.entry.Sealed
	return a, err
}

// existsLocked tells that an organization with this id is open, on its way, or has moved since the
// tip table. Ids are random, or the organization was looked for before.
func (l *Ledger) existsLocked(id org.ID) bool {
	_, moved, _ := l.tips.lookUp(id)
	return moved || l.orgs[id] != nil
}

// checkFits refuses entries that belong together and do not fit into one batch.
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

// seal makes the stored form of the entry that comes next at a tip. Nothing changes.
func (o *organization) seal(e *org.Entry, tx *org.Tx, keys []wire.WrappedKey, at Tip) (addition, error) {
	l := o.ledger
	e.Boot = l.cfg.BootNumber
	e.Writes = nil // what is stored is what the state takes
	if tx != nil {
		ws, err := tx.Writes()
		if err != nil {
			return addition{}, err
		}
		e.Writes = ws
	}
	sealed, err := o.sealEntry(at, e)
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

// apply makes a sealed entry the newest: from here on it is decided.
func (o *organization) apply(e *org.Entry, tx *org.Tx, sealed []byte) Tip {
	if err := o.advance(e, sealed); err != nil {
		panic("ledger: a tree that cannot grow: " + err.Error())
	}
	if tx != nil {
		tx.Apply()
	}
	return o.tip()
}

// advance takes an entry into all but the state: tree, watermark and fingerprints.
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

// raiseWatermark raises the low watermark; it never goes back.
func (o *organization) raiseWatermark(floorMs uint64) {
	if floorMs > o.lowWatermarkMs {
		o.lowWatermarkMs = floorMs
		o.dedup.RaiseWatermark(minuteOf(floorMs))
	}
}

// watermarkAt is the low watermark that an entry decided at nowMs may raise: the last millisecond of a minute,
// to agree with the minutes of fingerprints, and more than an hour ago, so that no live body lies below it.
func watermarkAt(nowMs uint64) uint64 {
	age := uint64(LowWatermarkAge.Milliseconds())
	if nowMs < age+120_000 {
		return 0
	}
	return (nowMs-age)/60_000*60_000 - 1
}

// minuteOf is the last minute that lies wholly at or below a watermark.
func minuteOf(floorMs uint64) uint32 {
	if floorMs < 60_000-1 {
		return 0
	}
	return uint32((floorMs+1)/60_000 - 1)
}
