// Package ledger makes decisions durable and keeps the newest state of each organization of a range.
//
// Each organization has an append-only sequence of sealed entries, the leaves of an RFC 6962 tree of its own.
// The ledger keeps opened organizations in memory, runs transactions on them, each under the organization's
// lock, numbers and seals the entries that a transaction appends, writes entries of many organizations in
// batches, and lets a reply out only once the host has confirmed that everything the reply depends on is stored.
//
// It promises:
//   - a transaction sees exactly the state after the last decided entry;
//   - a decided entry is stored in its order or the enclave is fenced: there is no "failed";
//   - an organization is opened only at its tip in the range's log, and an old entry is believed
//     only with its inclusion proof;
//   - memory is bounded: the least recently used organizations are evicted, never one with an unstored
//     entry, and unstored bytes have a bound.
//
// Lock order: an organization's lock, the ledger's mutex mu, the batch writer's, the mutex locks. No mutex is
// held while the host is asked, and no organization's lock while another is waited for (lockqueue.go).
package ledger

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fairqueue"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/log"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
	"cloister/shared/wire"
)

// Store is the host's store, as the ledger uses it. An attacker may have chosen every answer.
// After an error the outcome is unknown.
type Store interface {
	Own(context.Context, wire.Own) (wire.Owned, error)
	// Append sends an encoded batch.
	Append(ctx context.Context, batch []byte) (wire.Stored, error)
	LoadOrganization(context.Context, wire.LoadOrganization) (wire.Organization, error)
	LoadEntries(context.Context, wire.LoadEntries) (wire.Entries, error)
	LoadPieces(context.Context, wire.LoadPieces) (wire.Pieces, error)
	Find(context.Context, wire.Find) (wire.Proven, error)
	Page(context.Context, wire.Page) (wire.Proven, error)
	PageIndex(context.Context, wire.PageIndex) (wire.IndexRows, error)
	PutSnapshot(context.Context, wire.PutSnapshot) (wire.Done, error)
	LoadKeys(context.Context, wire.LoadKeys) (wire.Keys, error)
	PutKeys(context.Context, wire.PutKeys) (wire.Done, error)
	LoadHeaders(context.Context, wire.LoadHeaders) (wire.Headers, error)
	LoadTips(context.Context, wire.LoadTips) (wire.Tips, error)
	LoadTable(context.Context, wire.LoadTable) (wire.TipTable, error)
	LoadPages(context.Context, wire.LoadPages) (wire.Pieces, error)
	PutTable(context.Context, wire.PutTable) (wire.Done, error)
	ProveLogged(context.Context, wire.ProveLogged) (wire.Logged, error)
	// Witness asks for cosignatures of a checkpoint. It returns when the host stops trying.
	Witness(context.Context, wire.Witness) (wire.Cosigned, error)
}

// Clock is the enclave's own clock. Now has a monotonic reading.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// Config configures a Ledger.
type Config struct {
	Deployment [32]byte
	Range      wire.Range
	Ranges     int       // number of ranges of the deployment; 0 means 1
	Boot       wire.ID   // drawn for this boot
	BootNumber uint64    // set by Take
	Storage    *seal.Key // wraps each organization's data key
	// PreviousStorage is the previous storage key or nil. The ledger wraps data keys under it anew.
	PreviousStorage *seal.Key
	Store           Store
	Clock           Clock
	Rand            io.Reader
	Alarms          *fault.Alarms
	// Fence, unless nil, is called once, when another enclave has written or may write. The process must end.
	Fence  func(reason error)
	Limits Limits
	// Log is the secret from which the keys of the range's log are derived.
	Log secret.Secret
	// Logged means that the deployment has had logs since genesis: a range without a log is empty.
	Logged bool
	// Witnesses are the terms of the log's witnesses, or nil if the log has none.
	Witnesses *Terms
	// PreviousWitnesses are the previous manifest's terms if they differ from Witnesses, otherwise nil. A log under them is closed
	// and its next generation adopts it.
	PreviousWitnesses *Terms
	// Recover is the head from which a log of an earlier generation continues, as operators decided, or nil.
	Recover *Recovery
	// Drill means that the store is a copy: the ledger writes to a log of its own, which no witness sees.
	Drill bool
	// Start is the start leaf of this ownership, without its nonce and number, which Take sets.
	Start tlog.Start
	// HandedHead is the head of the log that the range's last owner has handed on, or nil. The log must
	// end there.
	HandedHead *Head
	// LastOwned is the end of this boot's last ownership of the range, or nil. The log must continue
	// from there.
	LastOwned *EndOfOwnership
	// Loads bounds how many organizations are loaded at a time. The ledgers of one enclave share it; nil: the ledger has its own.
	Loads chan struct{}
	// Processors bounds how many transactions compute at a time. The ledgers of one enclave share it; nil: no bound.
	Processors *fairqueue.Queue
	// Compare, unless nil, is called with a transaction's entries, complete, before they take effect, and may
	// refuse them. A replay of a history compares entries there; enclaves leave it nil.
	Compare func([]Addition) error
}

// NewLoads returns a Config.Loads for all ledgers of an enclave.
func NewLoads() chan struct{} { return make(chan struct{}, maxLoads) }

// Limits are a ledger's limits of memory and time. Zero fields take the defaults.
type Limits struct {
	StateBytes    int64         // memory for opened organizations with their recent fingerprints
	UnstoredBytes int64         // bytes of sealed entries that the store has not confirmed
	DedupEntries  int           // fingerprints of one organization
	SnapshotEvery int           // entries between snapshots of an organization
	SnapshotBytes int           // or sealed bytes between them, whichever comes first
	RootBytes     int           // size of a snapshot's root
	TableEvery    uint64        // batches between tip tables
	TableTips     int           // or changed tips between them, whichever comes first
	TableAge      time.Duration // or time between them, if a tip has changed
	MaxTips       int           // tips that the host may list for the first table of a range
	Lease         time.Duration
}

// Defaults of Limits. MaxReplay is the most entries after a snapshot for whose replay a request waits.
const (
	DefaultStateBytes    = 1 << 30
	DefaultUnstoredBytes = 32 << 20
	DefaultDedupEntries  = 8 << 20
	DefaultSnapshotEvery = 4096
	DefaultLease         = 2 * time.Second
	DefaultSnapshotBytes = 24 << 20
	DefaultMaxTips       = 8 << 20
	MaxReplay            = 10_000

	loadBytes  = 4 << 20
	maxLoads   = 32               // organizations loaded at a time; each may hold a frame
	askTimeout = 30 * time.Second // time-out of a question to the host that no request's deadline bounds

	// maxAddition bounds the entries of one transaction, which must fit into one batch and its frame.
	maxAddition = wire.MaxFrame - 1<<20
)

const (
	// LowWatermarkAge is the distance between now and an organization's low watermark: stamped bodies are valid
	// for an hour.
	LowWatermarkAge = time.Hour
	// watermarkStep is how much more than that the low watermark must be behind before an entry raises it.
	watermarkStep = 5 * time.Minute
)

// Errors of transactions. None has a name (fault.WithCode): clients get a plain 503 or a refusal.
var (
	ErrNoOrganization = errors.New("no such organization")
	ErrBusy           = fault.New(fault.Unavailable, "busy: try again")
	ErrRange          = errors.New("organization of another range")
	ErrHandedOver     = fault.New(fault.Unavailable, "this enclave has given the organization away: try again")
	ErrFenced         = fault.New(fault.Unavailable, "this enclave no longer serves")
	ErrDedupFull      = fault.New(fault.ResourceExhausted, "too many requests: organization or its parent over quota or rate limited")
	ErrRebuilding     = fault.New(fault.Unavailable, "organization is being rebuilt: try again")
	errUnknown        = fault.New(fault.Unavailable, "not known to be stored: send the same request again")
)

// Ledger keeps the organizations of one range of a deployment for as long as one boot owns it.
type Ledger struct {
	cfg         Config
	batchWriter *batchWriter
	lease       lease

	stateBytes, unstoredBytes atomic.Int64 // the limits of the same name, as Share has set them last

	// writeGate is held for reading while a decision takes effect. closedForWrites refuses further decisions; it
	// is set under writeGate and mu.
	writeGate       sync.RWMutex
	closedForWrites bool

	tips      tips
	witnesses *witnesses
	recovered lastRecovery // set by Take

	locks       sync.Mutex // guards all lock queues
	lockWaiters int        // transactions in the lock queues

	mu    sync.Mutex
	orgs  map[org.ID]*organization
	lru   *list.List   // of *organization, least recently used in front
	bytes atomic.Int64 // memory of opened organizations; changed under mu

	fenced    atomic.Bool
	done      chan struct{}   // closed when fenced or closed
	life      context.Context // ends with done
	cancel    context.CancelFunc
	once      sync.Once
	stopped   bool // under mu: nothing more is spawned
	wg        sync.WaitGroup
	loadSlots chan struct{} // one for each load under way

	loads, evicted                     atomic.Uint64 // organizations loaded and evicted
	snapshotsStored, snapshotsTooLarge atomic.Uint64 // snapshots stored, and not sent because their root is too large
	tables                             atomic.Uint64 // tip tables stored
	rewrapped                          atomic.Uint64 // data keys wrapped anew
	wrapped                            atomic.Bool   // all data keys of the range that the host lists are under the storage key
}

// A Tip is an organization's tree head: the number of its entries, and the root of their tree.
type Tip struct {
	Count uint64
	Root  wire.Hash
}

// New returns a ledger. Take must succeed before transactions run.
func New(cfg Config) *Ledger {
	l := &cfg.Limits
	l.StateBytes = cmp.Or(l.StateBytes, DefaultStateBytes)
	l.UnstoredBytes = cmp.Or(l.UnstoredBytes, DefaultUnstoredBytes)
	l.DedupEntries = cmp.Or(l.DedupEntries, DefaultDedupEntries)
	l.SnapshotEvery = cmp.Or(l.SnapshotEvery, DefaultSnapshotEvery)
	l.SnapshotBytes = cmp.Or(l.SnapshotBytes, DefaultSnapshotBytes)
	l.RootBytes = cmp.Or(l.RootBytes, wire.MaxSnapshot)
	l.TableEvery = cmp.Or(l.TableEvery, DefaultTableEvery)
	l.TableTips = cmp.Or(l.TableTips, DefaultTableTips)
	l.TableAge = cmp.Or(l.TableAge, DefaultTableAge)
	l.MaxTips = cmp.Or(l.MaxTips, DefaultMaxTips)
	l.Lease = cmp.Or(l.Lease, DefaultLease)
	led := &Ledger{cfg: cfg, orgs: map[org.ID]*organization{}, tips: tips{moved: map[org.ID]Tip{}, restated: map[org.ID]*restated{}, table: new(log.Table)}, lru: list.New(), done: make(chan struct{}), loadSlots: cfg.Loads}
	if led.loadSlots == nil {
		led.loadSlots = NewLoads()
	}
	led.Share(l.StateBytes, l.UnstoredBytes)
	led.life, led.cancel = context.WithCancel(context.Background())
	led.batchWriter, led.witnesses = newBatchWriter(led), newWitnesses(cfg.Witnesses)
	return led
}

// Share sets this ledger's share of the enclave's memory: Limits.StateBytes and UnstoredBytes from now on.
func (l *Ledger) Share(stateBytes, unstoredBytes int64) {
	l.stateBytes.Store(stateBytes)
	l.unstoredBytes.Store(unstoredBytes)
}

// owns reports whether an organization is in this ledger's range.
func (l *Ledger) owns(id org.ID) bool {
	return wire.RangeOf(wire.ID(id), max(l.cfg.Ranges, 1)) == l.cfg.Range
}

// Close stops the ledger's goroutines without fencing. As after a crash, unstored entries may be stored or not.
func (l *Ledger) Close() {
	l.stop()
	l.wg.Wait()
}

// stop tells the ledger's goroutines to end and cancels their questions to the host. It doesn't wait for them.
func (l *Ledger) stop() {
	l.once.Do(func() {
		l.mu.Lock()
		l.stopped = true
		l.mu.Unlock()
		close(l.done)
		l.cancel()
	})
}

// spawnLocked runs f on a goroutine that Close waits for. It returns false if the ledger has stopped. mu is held.
func (l *Ledger) spawnLocked(f func()) bool {
	if l.stopped {
		return false
	}
	l.wg.Go(f)
	return true
}

// fence ends the ledger for good and calls Config.Fence with the reason.
func (l *Ledger) fence(reason error) {
	if l.fenced.CompareAndSwap(false, true) {
		l.stop()
		if l.cfg.Fence != nil {
			go l.cfg.Fence(reason)
		}
	}
}

// Stats returns the ledger's metrics for the operator, by name.
func (l *Ledger) Stats() map[string]uint64 {
	l.mu.Lock()
	n, b := len(l.orgs), l.bytes.Load()
	l.mu.Unlock()
	l.batchWriter.mu.Lock()
	stored, unstored, size := l.batchWriter.stored, l.batchWriter.unstored, uint64(0)
	if l.batchWriter.log != nil {
		size = l.batchWriter.log.Size()
	}
	l.batchWriter.mu.Unlock()
	_, _, table := l.tips.lookUp(org.ID{})
	l.locks.Lock()
	waiting := l.lockWaiters
	l.locks.Unlock()
	m := map[string]uint64{
		"turns_waited_for": uint64(waiting), "organizations_open": uint64(n), "organizations_open_bytes": uint64(b), "tips": uint64(l.tips.count()), "tip_table": uint64(table.Tips()), "log_size": size, "log_unwitnessed": l.witnesses.countUnwitnessed(), "tip_tables": l.tables.Load(),
		"organization_loads": l.loads.Load(), "organization_evictions": l.evicted.Load(), "snapshots": l.snapshotsStored.Load(), "snapshots_too_large": l.snapshotsTooLarge.Load(),
		"batches_stored": stored, "unstored_bytes": uint64(unstored),
	}
	if l.cfg.PreviousStorage != nil {
		m["data_keys_rewrapped"], m["data_keys_rewrapping"] = l.rewrapped.Load(), 1
		if l.wrapped.Load() {
			m["data_keys_rewrapping"] = 0
		}
	}
	return m
}

// breach returns a fault.Breach, a lie of the host, and counts its alarm.
func (l *Ledger) breach(a fault.Alarm, format string, args ...any) error {
	return l.raiseAlarm(fault.NewBreach(a, format, args...))
}

// raiseAlarm counts the alarm of err if it is a fault.Breach, and returns err.
func (l *Ledger) raiseAlarm(err error) error {
	var b *fault.Breach
	if errors.As(err, &b) {
		l.cfg.Alarms.Raise(b.Alarm)
	}
	return err
}

func (l *Ledger) name(k seal.Kind, id org.ID, keyID uint32) seal.Name {
	return seal.Name{Kind: k, KeyID: keyID, Deployment: l.cfg.Deployment, Organization: id}
}

// newDataKey draws an organization's data key and returns it with its wrapped form.
func (l *Ledger) newDataKey(id org.ID, keyID uint32) (*seal.Key, wire.WrappedKey, error) {
	drawn, err := secret.New(l.cfg.Rand, seal.KeySize)
	if err != nil {
		return nil, wire.WrappedKey{}, fmt.Errorf("drawing a data key: %w", err)
	}
	defer drawn.Wipe()
	k, err := seal.NewKey(drawn)
	if err != nil {
		return nil, wire.WrappedKey{}, err
	}
	wrapped, err := l.wrapDataKey(wire.ID(id), keyID, drawn)
	return k, wrapped, err
}

// wrapDataKey seals an organization's data key under the storage key.
func (l *Ledger) wrapDataKey(id wire.ID, keyID uint32, key secret.Secret) (wire.WrappedKey, error) {
	sealed, err := l.cfg.Storage.SealSecret(l.cfg.Rand, l.name(seal.KindDataKey, org.ID(id), keyID), key)
	return wire.WrappedKey{Organization: id, KeyID: keyID, Sealed: sealed}, err
}
