package ledger

import (
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/shared/wire"
)

// organization is one opened ledger.
type organization struct {
	id     org.ID
	ledger *Ledger
	key    *seal.Key // as long as it is open, with keyID
	keyID  uint32

	queue queue

	// Who has the turn has what follows.
	state         *org.State
	window        *org.Window
	floorMs       uint64
	count         uint64
	root          wire.Hash
	edge          *compact.Range
	lastBatch     uint64
	since         int              // entries since the last snapshot
	sinceSize     int              // their bytes
	snapshotCount uint64           // entries that the stored snapshot covers, 0 if there is none
	drops         []wire.Hash      // pieces that the next snapshot's root names no more
	pending       *pendingSnapshot // on its way to the store
	size          int64            // as last counted into the ledger's bytes

	// The ledger's mutex guards these.
	uses  int
	place any           // *list.Element in used
	ready chan struct{} // closed when loaded, or failed with err
	slow  chan struct{} // closed when loading will take long
	err   error
}

// Turn is an organization while it is decided about. It is valid inside the
// function that it was handed to.
type Turn struct {
	organization *organization
	// State is the fold of all entries decided; read it through Begin.
	State *org.State
}

// ID is the organization.
func (t *Turn) ID() org.ID { return t.organization.id }

// Begin reads the state, and changes it for one entry.
func (t *Turn) Begin(nowMs uint64) *org.Tx { return org.Begin(t.organization.id, t.State, nowMs) }

// Tip is where the ledger stands, unstored entries included.
func (t *Turn) Tip() Tip { return Tip{t.organization.count, t.organization.root} }

// Batch is the number of the last batch with an entry of this organization: a
// reply that saw this state waits for it.
func (t *Turn) Batch() uint64 { return t.organization.lastBatch }

// FloorMs is the time at or before which no stamped body starts an activity.
func (t *Turn) FloorMs() uint64 { return t.organization.floorMs }

// Known finds the entry of a body with this fingerprint among those above the
// floor. The caller confirms on the full hash in the entry.
func (t *Turn) Known(fingerprint [32]byte) (seq uint64, ok bool) {
	return t.organization.window.Find([16]byte(fingerprint[:16]))
}

// An Addition is one entry that a turn decided beside its main one, with what
// the host may know of it: the first of a new organization comes with Child, one
// of another organization whose turn is held with Turn, and with neither it is
// the next of the turn's own.
type Addition struct {
	Entry *org.Entry
	Tx    *org.Tx // its writes are the entry's; may be nil
	Child *Child
	Turn  *Turn
}

// A Child is an organization in the making: opened by nobody else before its
// first entry is decided.
type Child struct {
	organization *organization
	wrap         wire.WrappedKey
	tx           *org.Tx
}

// Tx is the change that makes the child.
func (c *Child) Tx() *org.Tx { return c.tx }

// Key is the child's data key.
func (c *Child) Key() *seal.Key { return c.organization.key }

// NewChild prepares an organization below that of the turn; see Ledger.NewChild.
func (t *Turn) NewChild(id org.ID, nowMs uint64) (*Child, error) {
	return t.organization.ledger.NewChild(id, nowMs)
}

// BootNumber is the ledger's.
func (t *Turn) BootNumber() uint64 { return t.organization.ledger.cfg.BootNumber }

// Ledger is whose turn it is.
func (t *Turn) Ledger() *Ledger { return t.organization.ledger }

// NewChild prepares an organization that does not exist yet. Its range must be the
// ledger's.
func (l *Ledger) NewChild(id org.ID, nowMs uint64) (*Child, error) {
	if !l.owns(id) {
		return nil, ErrRange
	}
	key, wrap, err := l.newDataKey(id, 1)
	if err != nil {
		return nil, err
	}
	o := l.newOrganization(id)
	o.key, o.keyID = key, 1
	return &Child{organization: o, wrap: wrap, tx: org.Begin(id, o.state, nowMs)}, nil
}

func (l *Ledger) newOrganization(id org.ID) *organization {
	o := &organization{id: id, ledger: l, state: org.NewState(), window: org.NewWindow(), edge: ranges.NewEmptyRange(0), ready: make(chan struct{}), slow: make(chan struct{})}
	o.root = emptyRoot
	return o
}

// Key is the organization's data key, for the secrets in its records.
func (t *Turn) Key() (*seal.Key, uint32) { return t.organization.key, t.organization.keyID }

// Append seals the turn's entry and the others of the same step and puts them
// into one batch, in this order. It answers the batch's number, for which every
// reply that tells of them must wait. After it the step is decided: nothing undoes
// it. Each Tx is given at most once.
func (t *Turn) Append(e *org.Entry, tx *org.Tx, others ...Addition) (uint64, error) {
	l := t.organization.ledger
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.given {
		return 0, ErrGiven
	}
	if err := l.pipe.checkUnstored(); err != nil {
		return 0, err
	}
	if f := floorAt(e.TimeMs); f > t.organization.floorMs+uint64(floorStep.Milliseconds()) {
		e.FloorMs = f
	}
	// An entry that raises the floor makes room, or a full window would stay so.
	if e.StampedMs != 0 && e.Prior == 0 && t.organization.window.Len() >= l.cfg.Limits.WindowMarks &&
		t.organization.window.Above(minuteOf(e.FloorMs)) >= l.cfg.Limits.WindowMarks {
		return 0, ErrWindowFull
	}
	// Everything that can fail comes before the first effect.
	all := append(make([]Addition, 0, 1+len(others)), Addition{Entry: e, Tx: tx})
	all = append(all, others...)
	as := make([]addition, len(all))
	drafts := make([]draft, 0, len(all)) // of each organization; they are few
	for i := range all {
		o, keys := all[i].of(t)
		at := slices.IndexFunc(drafts, func(d draft) bool { return d.organization == o })
		if at < 0 {
			at = len(drafts)
			drafts = append(drafts, draft{organization: o, count: o.count, root: o.root})
		}
		d := &drafts[at]
		a, err := d.seal(all[i].Entry, all[i].Tx, keys)
		if err != nil {
			return 0, err
		}
		as[i] = a
	}
	if err := fits(as); err != nil {
		return 0, err
	}
	l.mu.Lock()
	for i := range all {
		if c := all[i].Child; c != nil && l.existsLocked(c.organization.id) {
			l.mu.Unlock()
			return 0, ErrBusy
		}
	}
	for i := range all {
		o, _ := all[i].of(t)
		as[i].tip = o.take(all[i].Entry, all[i].Tx, as[i].entry.Sealed)
		if all[i].Child != nil {
			l.orgs[o.id] = o // whoever asks for it waits until it is adopted
		}
		l.tips[o.id] = as[i].tip
	}
	l.mu.Unlock()
	n := l.pipe.add(as...)
	for i := range all {
		o, _ := all[i].of(t)
		o.lastBatch = n
		if all[i].Child != nil {
			l.adopt(o)
		}
	}
	for i := range drafts {
		if o := drafts[i].organization; o == t.organization || holdsTurn(others, o) {
			o.maybeSnapshot()
		}
	}
	return n, nil
}

// of tells whose entry an addition to turn t is, with the keys that come with a
// new organization.
func (a *Addition) of(t *Turn) (*organization, []wire.WrappedKey) {
	switch {
	case a.Child != nil:
		return a.Child.organization, []wire.WrappedKey{a.Child.wrap}
	case a.Turn != nil:
		return a.Turn.organization, nil
	}
	return t.organization, nil
}

func holdsTurn(as []Addition, o *organization) bool {
	for i := range as {
		if as[i].Turn != nil && as[i].Turn.organization == o {
			return true
		}
	}
	return false
}

// draft is where an organization will stand once entries that are sealed already
// are taken.
type draft struct {
	organization *organization
	last         []byte // the sealed entry that the next one follows; nil: none yet
	// As of the entry before last.
	count uint64
	root  wire.Hash
	edge  *compact.Range // nil while it stands where o does
}

func (d *draft) seal(e *org.Entry, tx *org.Tx, keys []wire.WrappedKey) (addition, error) {
	if d.last != nil {
		if err := d.grow(); err != nil {
			return addition{}, err
		}
	}
	a, err := d.organization.seal(e, tx, keys, d.count, d.root)
	d.last = a.entry.Sealed
	return a, err
}

func (d *draft) grow() (err error) {
	if d.edge == nil {
		if d.edge, err = ranges.NewRange(0, d.organization.count, slices.Clone(d.organization.edge.Hashes())); err != nil {
			return fmt.Errorf("copying a tree's edge: %w", err)
		}
	}
	if err := d.edge.Append(rfc6962.DefaultHasher.HashLeaf(d.last), nil); err != nil {
		return fmt.Errorf("growing a tree: %w", err)
	}
	root, err := d.edge.GetRootHash(nil)
	if err != nil {
		return fmt.Errorf("growing a tree: %w", err)
	}
	d.root = wire.Hash(root)
	d.count++
	return nil
}

// Create puts a new organization's first entry into a batch of its own making.
// Two that found the same organization at once: the second gets ErrBusy and
// finds the first's when it comes again.
func (l *Ledger) Create(c *Child, e *org.Entry, tx *org.Tx) (uint64, error) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.given {
		return 0, ErrGiven
	}
	if err := l.pipe.checkUnstored(); err != nil {
		return 0, err
	}
	a, err := c.organization.seal(e, tx, []wire.WrappedKey{c.wrap}, c.organization.count, c.organization.root)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	if l.existsLocked(c.organization.id) {
		l.mu.Unlock()
		return 0, ErrBusy
	}
	a.tip = c.organization.take(e, tx, a.entry.Sealed)
	l.tips[c.organization.id] = a.tip
	l.orgs[c.organization.id] = c.organization // whoever asks for it waits until it is adopted
	l.mu.Unlock()
	n := l.pipe.add(a)
	c.organization.lastBatch = n
	l.adopt(c.organization)
	return n, nil
}

// existsLocked tells that an organization with this id is there or on its way.
func (l *Ledger) existsLocked(id org.ID) bool {
	_, known := l.tips[id]
	return known || l.orgs[id] != nil
}

// fits tells whether entries that belong together fit into one batch.
func fits(as []addition) error {
	n := 0
	for i := range as {
		n += as[i].bytes()
	}
	if n > maxAddition || len(as) > wire.MaxBatch {
		return fault.New(fault.InvalidArgument, "request too large: its records would have %d bytes", n)
	}
	return nil
}

// seal makes the stored form of the entry that follows count others under root.
// Nothing changes.
func (o *organization) seal(e *org.Entry, tx *org.Tx, keys []wire.WrappedKey, count uint64, root wire.Hash) (addition, error) {
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
	plain, err := e.Encode()
	if err != nil {
		return addition{}, fmt.Errorf("encoding an entry: %w", err)
	}
	sealed, err := sealEntry(l, o.key, o.keyID, o.id, count, root, plain)
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
		sends = append(sends, wire.SendMark{Kind: wire.SendKind(e.Sends[i].Kind), DueMs: e.Sends[i].DueMs, Receiver: wire.ID(e.Sends[i].Receiver)})
	}
	return addition{
		entry: wire.Entry{Organization: wire.ID(o.id), Seq: count, Sealed: sealed, Activity: wire.ID(e.Activity), Type: e.Type,
			Status: uint8(e.Status), TimeMs: e.TimeMs, Prior: e.Prior, Index: index, Sends: sends},
		keys: keys, id: o.id,
	}, nil
}

// take makes a sealed entry the newest: from here on it is decided.
func (o *organization) take(e *org.Entry, tx *org.Tx, sealed []byte) Tip {
	seq := o.count
	o.grow(rfc6962.DefaultHasher.HashLeaf(sealed))
	if tx != nil {
		tx.Keep()
	}
	o.mark(e, seq)
	o.since++
	o.sinceSize += len(sealed)
	return Tip{o.count, o.root}
}

// floorAt is the floor that an entry decided at nowMs may raise to: the last
// millisecond of a minute, so that the floor and the window's minutes agree, and
// more than an hour ago, so that no live body lies below it.
func floorAt(nowMs uint64) uint64 {
	age := uint64(FloorAge.Milliseconds())
	if nowMs < age+120_000 {
		return 0
	}
	return (nowMs-age)/60_000*60_000 - 1
}

// minuteOf is the last minute that lies wholly at or below a floor.
func minuteOf(floorMs uint64) uint32 {
	if floorMs < 60_000-1 {
		return 0
	}
	return uint32((floorMs+1)/60_000 - 1)
}

// grow appends a leaf to the organization's tree.
func (o *organization) grow(leaf []byte) {
	if err := o.edge.Append(leaf, nil); err != nil {
		panic("ledger: a tree that cannot grow: " + err.Error())
	}
	root, err := o.edge.GetRootHash(nil)
	if err != nil {
		panic("ledger: a tree without a root: " + err.Error())
	}
	o.root = wire.Hash(root)
	o.count++
}

// mark notes what an entry says of fingerprints.
func (o *organization) mark(e *org.Entry, seq uint64) {
	if e.FloorMs > o.floorMs {
		o.floorMs = e.FloorMs
		o.window.Raise(minuteOf(e.FloorMs))
	}
	if e.StampedMs != 0 && e.Prior == 0 {
		o.window.Add(org.Mark{Print: [16]byte(e.Fingerprint[:16]), Minute: uint32(e.StampedMs / 60000), Seq: seq})
	}
}
