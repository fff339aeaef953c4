package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/shared/wire"
)

// ranges are the parts of the deployment that this enclave owns, each with a ledger
// of its own. A deployment of one range is one ledger.
type ranges struct {
	c     *Core
	count int           // of the deployment
	cfg   ledger.Config // of each ledger, but for what is its own
	hands *seal.Key     // seals tips on their way to another owner

	mu    sync.Mutex
	owned map[wire.Range]*owned
	used  map[wire.Range]uint64                // highest epoch under which this boot has owned it
	busy  map[wire.Range]bool                  // being taken or given
	past  map[wire.Range]map[org.ID]ledger.Tip // tips of ranges that were given away; a map in it never changes
	given map[wire.Range]giving                // to whom tips of ranges were sealed that this boot has not owned since
	ended bool

	life context.Context // until this enclave has ended
	end  context.CancelFunc

	retiring bool // wants to own nothing; it goes on until that is so
	// predecessor is the live key of the enclave that handed over to this one, and setup
	// the key to which it did. Until it has said farewell to that, nothing is taken but
	// what is handed, and nobody is handed over to.
	predecessor, setup string
	followed           bool // another enclave comes after this one: nothing is taken any more
}

// owned is a range for as long as this enclave owns it.
type owned struct {
	r      wire.Range
	ledger *ledger.Ledger
	// term is of this ownership alone, random: what was begun in another, and cannot
	// be told used from unused, is dead.
	term    org.ID
	sinceMs uint64
	handed  bool // the owner before handed its tips on
}

// moved says that an organization lies in a range that this enclave does not own.
type moved struct{ r wire.Range }

func (m *moved) Error() string { return fmt.Sprintf("range %d is not this enclave's", m.r) }

var errElsewhere = fault.Named(fault.Unavailable, "MOVED", "another enclave serves this organization: try again")

func newRanges(c *Core, count int, cfg ledger.Config, hands *seal.Key) *ranges {
	s := &ranges{c: c, count: count, cfg: cfg, hands: hands, owned: map[wire.Range]*owned{}, used: map[wire.Range]uint64{}, busy: map[wire.Range]bool{},
		past: map[wire.Range]map[org.ID]ledger.Tip{}, given: map[wire.Range]giving{}}
	s.life, s.end = context.WithCancel(context.Background())
	if s.cfg.Limits.StateBytes == 0 {
		s.cfg.Limits.StateBytes = ledger.DefaultStateBytes
	}
	if s.cfg.Limits.UnstoredBytes == 0 {
		s.cfg.Limits.UnstoredBytes = ledger.DefaultUnstoredBytes
	}
	s.cfg.Loads = ledger.NewLoads()
	s.cfg.Ranges = count
	s.cfg.Fence = s.fence
	return s
}

// start takes what a boot takes by itself: the one range of a deployment that has one,
// whoever owns it, and otherwise those that nobody owns. The others are taken when the
// operation take says so.
func (s *ranges) start(ctx context.Context, boot org.ID) error {
	if s.predecessor != "" {
		return nil // what it has is handed over
	}
	if s.count == 1 {
		err := s.take(ctx, 0, boot, false, nil)
		if errors.Is(err, ledger.ErrTaken) {
			s.c.alarms.Raise(fault.AlarmSuperseded)
		}
		return err
	}
	for r := range s.count {
		term, err := s.draw()
		if err != nil {
			return err
		}
		err = s.take(ctx, wire.Range(r), term, false, func(row wire.Owned) error {
			if !ledger.IsFree(row) {
				return errNotFree
			}
			return nil
		})
		if err != nil && !errors.Is(err, errNotFree) && !errors.Is(err, ledger.ErrTaken) {
			return err
		}
	}
	return nil
}

var errNotFree = errors.New("the range has an owner")

// fence ends the whole enclave once one range was lost.
func (s *ranges) fence(reason error) {
	s.mu.Lock()
	s.ended = true
	all := s.allLocked()
	s.mu.Unlock()
	s.end()
	for _, o := range all {
		o.ledger.Quit()
	}
	s.c.fence(reason)
}

// allLocked are the ranges owned, in their order.
func (s *ranges) allLocked() []*owned {
	all := make([]*owned, 0, len(s.owned))
	for _, o := range s.owned {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *owned) int { return int(a.r) - int(b.r) })
	return all
}

func (s *ranges) all() []*owned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allLocked()
}

// shareLocked divides the memory among n ledgers, of which those owned are told.
func (s *ranges) shareLocked(n int) (l ledger.Limits) {
	l = s.cfg.Limits
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

func (s *ranges) at(r wire.Range) (*owned, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owned[r]; o != nil {
		return o, nil
	}
	if s.ended && !s.followed { // one that was followed knows that another has it
		return nil, ledger.ErrFenced
	}
	return nil, &moved{r}
}

// term is the ownership in which a turn is taken. One that has ended meanwhile decides
// nothing more.
func (s *ranges) term(t *ledger.Turn) org.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.owned {
		if o.ledger == t.Ledger() {
			return o.term
		}
	}
	return org.ID{}
}

// sinceMs is since when this enclave owns the range of an organization.
func (s *ranges) sinceMs(id org.ID) (uint64, error) {
	o, err := s.at(wire.RangeOf(wire.ID(id), s.count))
	if err != nil {
		return 0, err
	}
	return o.sinceMs, nil
}

// Serving waits until this enclave may answer, as far as that can be said before it is
// known for whom.
func (s *ranges) Serving(ctx context.Context) error {
	if s.count > 1 {
		return nil
	}
	o, err := s.at(0)
	if err != nil {
		return err
	}
	return o.ledger.Serving(ctx)
}

// PageIndex asks the host for rows of a key that stand under no organization.
func (s *ranges) PageIndex(ctx context.Context, key org.Hash, limit int) ([]ledger.IndexRow, error) {
	all := s.all()
	if len(all) == 0 {
		return nil, &moved{0} // to whomever: it knows where the organization is
	}
	return all[0].ledger.PageIndex(ctx, key, nil, nil, limit)
}

// Stats are the sums over all ledgers.
func (s *ranges) Stats() map[string]uint64 {
	sum := map[string]uint64{}
	for _, o := range s.all() {
		for k, n := range o.ledger.Stats() {
			sum[k] += n
		}
	}
	if s.count > 1 {
		sum["ranges_owned"] = uint64(len(s.all()))
	}
	return sum
}

// bootNumber is the highest count of all that is owned, 0 if that is nothing.
func (s *ranges) bootNumber() (n uint64) {
	for _, o := range s.all() {
		n = max(n, o.ledger.BootNumber())
	}
	return n
}

// Release gives everything back in good order.
func (s *ranges) Release(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	all := s.allLocked()
	s.mu.Unlock()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, o := range all {
		wg.Go(func() { errs[i] = o.ledger.Release(ctx) })
	}
	wg.Wait()
	s.end()
	return errors.Join(errs...)
}

// Close ends everything and gives nothing back.
func (s *ranges) Close() {
	s.mu.Lock()
	s.ended = true
	all := s.allLocked()
	s.mu.Unlock()
	s.end()
	for _, o := range all {
		o.ledger.Close()
	}
}

func (s *ranges) draw() (id org.ID, err error) {
	_, err = io.ReadFull(mixed{s.c}, id[:])
	return id, err
}
