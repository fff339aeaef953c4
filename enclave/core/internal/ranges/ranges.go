// Package ranges knows which parts of the deployment this enclave owns, each with a ledger of
// its own, how they change hands, and what one call sees of them.
//
// A range is served by one enclave at a time and never from an older state than the one that
// was handed on, and no reply leaves before all that it could have seen is stored.
package ranges

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"cloister/enclave/core/internal/link"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/shared/wire"
)

// Ranges are the parts of the deployment that this enclave owns.
type Ranges struct {
	cfg Config

	mu           sync.Mutex
	owned        map[wire.Range]*owned
	highestEpoch map[wire.Range]uint64                 // highest epoch under which this boot has owned it
	moving       map[wire.Range]bool                   // being taken or given
	ends         map[wire.Range]*ledger.EndOfOwnership // where ranges that were given away ended
	handedTo     map[wire.Range]handoverTarget         // to whom ranges were given that this boot has not owned since
	closed       bool

	life   context.Context // until this enclave has ended
	cancel context.CancelFunc

	retiring           bool   // hosts shall move all ranges elsewhere
	predecessorRetired bool   // no enclave before this one may still serve
	succeeded          bool   // the keyring went to a next enclave: nothing is taken any more
	nextLogs           string // name of its logs, if its manifest has other terms; otherwise empty
}

// Config is what ranges are made with.
type Config struct {
	Ledger ledger.Config // of each range, but for what is its own
	Count  int           // of the deployment
	// Recover is where operators say that ranges go on.
	Recover     map[wire.Range]*ledger.Recovery
	HandoverKey *seal.Key  // seals heads on their way to another owner, and farewells
	Host        *link.Host // keeps them
	// Rand is randomness for what must not repeat, the module's and the kernel's.
	Rand io.Reader
	// Predecessor is the live key, in hex, of the enclave that handed over to this one, and
	// Setup the setup key that it handed to; empty if none did. Until that has retired only
	// handed ranges are taken, and nobody is handed over to.
	Predecessor, Setup string
	// OnTake is called when a range was taken: what is remembered of it may be out of date.
	OnTake func()
	// Fence is called once a range was lost: this enclave may serve no longer.
	Fence func(reason error)
}

// owned is a range for as long as this enclave owns it.
type owned struct {
	number wire.Range
	ledger *ledger.Ledger
	// term names this ownership. What was begun in another one, such as a passcode, may
	// have been used since: it is dead.
	term    org.ID
	sinceMs uint64
	handed  bool // by the owner before, with its head
}

// Moved says that an organization lies in a range that this enclave does not own.
type Moved struct{ Range wire.Range }

func (m *Moved) Error() string { return fmt.Sprintf("range %d is not this enclave's", m.Range) }

// Hint names the range to the host, as wire.Reply.Moved does.
func (m *Moved) Hint() uint16 { return uint16(m.Range) + 1 }

// ErrElsewhere tells a caller of a Moved.
var ErrElsewhere = fault.WithCode(fault.Unavailable, "MOVED", "another enclave serves this organization: try again")

// New makes those of an enclave that owns none yet.
func New(cfg Config) *Ranges {
	s := &Ranges{cfg: cfg, predecessorRetired: cfg.Predecessor == "", owned: map[wire.Range]*owned{}, highestEpoch: map[wire.Range]uint64{}, moving: map[wire.Range]bool{},
		ends: map[wire.Range]*ledger.EndOfOwnership{}, handedTo: map[wire.Range]handoverTarget{}}
	s.life, s.cancel = context.WithCancel(context.Background())
	each := &s.cfg.Ledger
	if each.Limits.StateBytes == 0 {
		each.Limits.StateBytes = ledger.DefaultStateBytes
	}
	if each.Limits.UnstoredBytes == 0 {
		each.Limits.UnstoredBytes = ledger.DefaultUnstoredBytes
	}
	each.Loads = ledger.NewLoads()
	each.Ranges = cfg.Count
	each.Fence = s.fence
	return s
}

// Start takes what a boot takes by itself: the range of a deployment that has only one,
// whoever owns it, otherwise those that nobody owns. The operation take takes the others.
func (s *Ranges) Start(ctx context.Context) error {
	if s.cfg.Predecessor != "" {
		return nil // its ranges are handed to it
	}
	if s.cfg.Count == 1 {
		err := s.takeOne(ctx, 0, org.ID(s.cfg.Ledger.Boot), takeFromAny)
		if errors.Is(err, ledger.ErrTaken) {
			s.cfg.Ledger.Alarms.Raise(fault.AlarmSuperseded)
		}
		return err
	}
	for r := range s.cfg.Count {
		term, err := s.drawTerm()
		if err != nil {
			return err
		}
		err = s.takeOne(ctx, wire.Range(r), term, takeFree)
		if err != nil && !errors.Is(err, errNotFree) && !errors.Is(err, ledger.ErrTaken) {
			return err
		}
	}
	return nil
}

var errNotFree = errors.New("the range has an owner")

// fence ends the whole enclave once one range was lost.
func (s *Ranges) fence(reason error) {
	all := s.stopMoving()
	s.cancel()
	for _, o := range all {
		o.ledger.Abort()
	}
	s.cfg.Fence(reason)
}

// stopMoving lets nothing be taken or given any more, and returns what is owned.
func (s *Ranges) stopMoving() []*owned {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.listOwned()
}

// listOwned are the ranges owned, in their order.
func (s *Ranges) listOwned() []*owned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.owned), func(a, b *owned) int { return int(a.number) - int(b.number) })
}

// shareLocked divides the memory among n ledgers, and tells those that are there.
func (s *Ranges) shareLocked(n int) (l ledger.Limits) {
	l = s.cfg.Ledger.Limits
	n = max(n, 1)
	l.StateBytes = l.StateBytes / int64(n)
	if n > 1 {
		l.UnstoredBytes = max(l.UnstoredBytes/int64(n), min(l.UnstoredBytes, leastUnstored))
	}
	for _, o := range s.owned {
		o.ledger.Share(l.StateBytes, l.UnstoredBytes)
	}
	return l
}

// leastUnstored is what one range may have unstored, however many there are.
const leastUnstored = 1 << 20

// OwnedRanges are the ranges that this enclave owns, of how many there are.
func (s *Ranges) OwnedRanges() (all []wire.Range, of int) {
	for _, o := range s.listOwned() {
		all = append(all, o.number)
	}
	return all, s.cfg.Count
}

func (s *Ranges) ownedRange(r wire.Range) (*owned, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owned[r]; o != nil {
		return o, nil
	}
	if s.closed && !s.succeeded { // after a hand-over another enclave has it
		return nil, ledger.ErrFenced
	}
	return nil, &Moved{r}
}

// Term is the ownership that a locked organization is in, zero if it has ended: then nothing can be appended.
func (s *Ranges) Term(t *ledger.Locked) org.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.owned {
		if o.ledger == t.Ledger() {
			return o.term
		}
	}
	return org.ID{}
}

// SinceMs is the time since which this enclave owns the range of an organization.
func (s *Ranges) SinceMs(id org.ID) (uint64, error) {
	o, err := s.ownedRange(wire.RangeOf(wire.ID(id), s.cfg.Count))
	if err != nil {
		return 0, err
	}
	return o.sinceMs, nil
}

// Serving waits for the lease of a deployment of one range. With more of them it returns at
// once: which one to wait for depends on the organization.
func (s *Ranges) Serving(ctx context.Context) error {
	if s.cfg.Count > 1 {
		return nil
	}
	o, err := s.ownedRange(0)
	if err != nil {
		return err
	}
	return o.ledger.Serving(ctx)
}

// PageIndex asks the host for rows of a key that stand under no organization.
func (s *Ranges) PageIndex(ctx context.Context, key org.Hash, limit int) ([]ledger.IndexRow, error) {
	all := s.listOwned()
	if len(all) == 0 {
		return nil, &Moved{0} // any other enclave can ask
	}
	return all[0].ledger.PageIndex(ctx, key, nil, nil, limit)
}

// Witnessed tells whether witnesses cosign the logs.
func (s *Ranges) Witnessed() bool { return s.cfg.Ledger.Witnesses != nil }

// A Log is the log of a range, with what its witnesses must be told.
type Log struct {
	Range wire.Range `json:"range"`
	VKey  string     `json:"vkey"` // the name in it is the origin of the log's checkpoints
	// NextVKey is the key of the log's next generation, so that operators can register it with witnesses before a manifest
	// begins that generation. The origin has the same name; once this enclave has handed over, the name in the next manifest.
	// It is absent without witnesses.
	NextVKey string `json:"nextVkey,omitempty"`
}

// Logs returns the logs of all ranges that this enclave owns.
func (s *Ranges) Logs() []Log {
	s.mu.Lock()
	nextName := s.nextLogs
	s.mu.Unlock()
	if nextName == "" && s.Witnessed() {
		nextName = s.cfg.Ledger.Witnesses.Name
	}
	logs := []Log{}
	if s.cfg.Ledger.Drill {
		return logs // no witness sees it
	}
	for _, o := range s.listOwned() {
		l := Log{Range: o.number, VKey: o.ledger.LogKey().String()}
		if nextName != "" {
			if key, err := o.ledger.NextLogKey(nextName); err == nil {
				l.NextVKey = key.String()
			}
		}
		logs = append(logs, l)
	}
	return logs
}

// LogStatuses are the states of the logs of all ranges that this enclave owns, for the operator. A drill's logs have no
// witnesses, so they are not in the list.
func (s *Ranges) LogStatuses() []wire.LogStatus {
	all := []wire.LogStatus{}
	if s.cfg.Ledger.Drill {
		return all
	}
	for _, o := range s.listOwned() {
		all = append(all, o.ledger.LogStatus())
	}
	return all
}

// Publish says in a log that the keyring may go to an enclave under another manifest, and waits for
// the witnesses. An enclave that owns no range has no log to say it in.
func (s *Ranges) Publish(ctx context.Context, manifest [32]byte) error {
	for _, o := range s.listOwned() {
		return o.ledger.Publish(ctx, manifest)
	}
	return nil
}

// Stats are the sums over all ledgers.
func (s *Ranges) Stats() map[string]uint64 {
	sum := map[string]uint64{}
	for _, o := range s.listOwned() {
		for k, n := range o.ledger.Stats() {
			sum[k] += n
		}
	}
	if s.cfg.Count > 1 {
		sum["ranges_owned"] = uint64(len(s.listOwned()))
	}
	return sum
}

// BootNumber is the highest count of all that is owned, 0 if that is nothing.
func (s *Ranges) BootNumber() (n uint64) {
	for _, o := range s.listOwned() {
		n = max(n, o.ledger.BootNumber())
	}
	return n
}

// Release gives everything back in good order.
func (s *Ranges) Release(ctx context.Context) error {
	all := s.stopMoving()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, o := range all {
		wg.Go(func() { errs[i] = o.ledger.Release(ctx) })
	}
	wg.Wait()
	s.cancel()
	return errors.Join(errs...)
}

// Close ends everything and gives nothing back.
func (s *Ranges) Close() {
	all := s.stopMoving()
	s.cancel()
	for _, o := range all {
		o.ledger.Close()
	}
}

func (s *Ranges) nowMs() uint64 { return uint64(s.cfg.Ledger.Clock.Now().UnixMilli()) }

// drawTerm is a term's name.
func (s *Ranges) drawTerm() (id org.ID, err error) {
	_, err = io.ReadFull(s.cfg.Rand, id[:])
	return id, err
}
