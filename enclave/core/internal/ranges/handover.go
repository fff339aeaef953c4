package ranges

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/strictjson"
	"cloister/shared/wire"
)

// How ranges change hands. Callers are not authenticated: whoever reaches the boot endpoint may move ranges
// about, as the host can end service anyway. Nobody can have a range served from an older state than the one
// that was handed over.
//
// To give a range to a boot, the owner seals for that boot where the range's log ends, under a key that only
// enclaves of the deployment have, with range and epoch. This sealed head is kept in the store. The taker
// believes it only if it takes the range at the very next epoch, and the epochs under which a boot owns a range
// rise: a message that is shown again is refused.
//
// A sealed head stays good for the boot that it is for, whatever the host says came of it. So the giver ends
// its ledger before it seals, and there is no way back: it retries until the store has taken the head and
// released the row, and gives the range to nobody else meanwhile. It takes the range again only if an owner
// hands it over, or once the boot that it was given to has stored a receipt that its head is used up.

const (
	objectHead        = "head/"  // with range behind it
	objectTakeReceipt = "taken/" // with range and taker behind it: the receipt that a head is used up
)

// A giver asks the store until it answers: each time for storeTimeout, after a pause.
const (
	storePause   = 200 * time.Millisecond
	storeTimeout = 30 * time.Second
)

// A handoverTarget is the boot that a range was given to, and the epoch that the range was owned under.
type handoverTarget struct {
	to    org.ID
	epoch uint64
}

func headObject(r wire.Range) string { return fmt.Sprintf("%s%03d", objectHead, r) }

// headName binds a range's head to the epoch at which the range was released, and the boot that it is for.
func (s *Ranges) headName(r wire.Range, epoch uint64, to org.ID) seal.Name {
	n := seal.Name{Kind: seal.KindHead, Deployment: s.cfg.Ledger.Deployment, Organization: to, Place: epoch}
	n.Owner[0] = byte(r)
	return n
}

// reserve keeps others from taking or giving a range meanwhile.
func (s *Ranges) reserve(r wire.Range, mine bool) (*owned, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owned[r]
	switch {
	case s.closed:
		return nil, nil, ledger.ErrFenced
	case s.moving[r]:
		return nil, nil, fault.New(fault.FailedPrecondition, "range %d is being moved", r)
	case mine && o == nil:
		return nil, nil, fault.New(fault.FailedPrecondition, "range %d is not this enclave's", r)
	case !mine && o != nil:
		return nil, nil, fault.New(fault.FailedPrecondition, "range %d is this enclave's already", r)
	}
	s.moving[r] = true
	return o, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.moving, r)
	}, nil
}

// takeMode says from whom a range is taken.
type takeMode int

const (
	takeFromAny takeMode = iota // also one that may still be there, which it supersedes
	takeFree                    // nobody
	takeHanded                  // an owner that has given it to this very boot, with its head
)

// takeOne makes a range this enclave's.
func (s *Ranges) takeOne(ctx context.Context, r wire.Range, term org.ID, of takeMode) error {
	_, done, err := s.reserve(r, false)
	if err != nil {
		return err
	}
	defer done()
	handed := of == takeHanded
	if !handed {
		if alone, err := s.PredecessorRetired(ctx); err != nil {
			return err
		} else if !alone {
			return fault.WithCode(fault.FailedPrecondition, "RANGE_NOT_HANDED", "the enclave before this one may still serve: only ranges that it hands over are taken")
		}
	}
	cfg := s.cfg.Ledger
	cfg.Range, cfg.Recover = r, s.cfg.Recover[r]
	s.mu.Lock()
	followed, used, given := s.succeeded, s.highestEpoch[r], s.handedTo[r]
	cfg.LastOwned = s.ends[r]
	s.mu.Unlock()
	if followed {
		return fault.WithCode(fault.FailedPrecondition, "ENCLAVE_FOLLOWED", "another enclave comes after this one, which takes no range any more")
	}
	var epoch uint64
	if !handed && !given.to.Zero() {
		if err := s.checkTakeReceipt(ctx, r, given); err != nil {
			return err
		}
	}
	if handed {
		if epoch, cfg.HandedHead, err = s.loadHead(ctx, r); err != nil {
			return err
		}
	}
	s.mu.Lock()
	cfg.Limits = s.shareLocked(len(s.owned) + 1)
	s.mu.Unlock()
	o := &owned{number: r, ledger: ledger.New(cfg), term: term, sinceMs: s.nowMs(), handed: handed}
	err = o.ledger.Take(ctx, func(row wire.Owned) error {
		switch {
		case row.Epoch < used:
			s.cfg.Ledger.Alarms.Raise(fault.AlarmSequence)
			return fault.New(fault.FailedPrecondition, "range %d was this boot's under a later epoch", r)
		case handed && (row.Epoch != epoch || !row.Released):
			return fault.New(fault.FailedPrecondition, "range %d was not handed on to this boot", r)
		case of == takeFree && !ledger.IsFree(row):
			return errNotFree
		}
		return nil
	})
	s.mu.Lock()
	if err == nil && s.closed {
		err = ledger.ErrFenced
	}
	if err == nil {
		s.highestEpoch[r] = o.ledger.Epoch()
		s.owned[r] = o
		delete(s.handedTo, r)
	}
	s.shareLocked(len(s.owned))
	s.mu.Unlock()
	if err != nil {
		o.ledger.Close()
		if breach, is := errors.AsType[*fault.Breach](err); is {
			return fault.WithCode(fault.FailedPrecondition, "RANGE_LOG_REFUSED", "range %d: %v", r, breach)
		}
		return err
	}
	s.cfg.OnTake()
	if handed {
		// If this fails the giver takes the range back only from an owner who hands it on.
		_ = s.storeTakeReceipt(ctx, r, epoch)
	}
	return nil
}

func takeReceiptObject(r wire.Range, by org.ID) string {
	return fmt.Sprintf("%s%03d/%x", objectTakeReceipt, r, by[:])
}

func (s *Ranges) takeReceiptName(r wire.Range, epoch uint64, by org.ID) seal.Name {
	n := seal.Name{Kind: seal.KindTakeReceipt, Deployment: s.cfg.Ledger.Deployment, Organization: by, Place: epoch}
	n.Owner[0] = byte(r)
	return n
}

// storeTakeReceipt stores, for the giver of a range, that this boot has used up the head of that epoch.
func (s *Ranges) storeTakeReceipt(ctx context.Context, r wire.Range, epoch uint64) error {
	by := org.ID(s.cfg.Ledger.Boot)
	word, err := s.cfg.HandoverKey.Append(binary.BigEndian.AppendUint64(nil, epoch), s.cfg.Ledger.Rand, s.takeReceiptName(r, epoch, by), nil)
	if err != nil {
		return err
	}
	return s.cfg.Host.PutObject(ctx, wire.PutObject{Name: takeReceiptObject(r, by), Bytes: word})
}

// checkTakeReceipt refuses to take a range back until the boot that it was given to has stored a receipt, of
// then or later: before that it may still begin from the head that it has.
func (s *Ranges) checkTakeReceipt(ctx context.Context, r wire.Range, g handoverTarget) error {
	word, err := s.cfg.Host.Object(ctx, takeReceiptObject(r, g.to))
	if err != nil {
		return err
	}
	if len(word) > 8 {
		if epoch := binary.BigEndian.Uint64(word); epoch >= g.epoch {
			if _, err := s.cfg.HandoverKey.Open(s.takeReceiptName(r, epoch, g.to), word[8:]); err == nil {
				return nil
			}
		}
	}
	return fault.WithCode(fault.FailedPrecondition, "RANGE_GIVEN", "range %d was given to boot %x, which may take it still: another enclave can take it, or that one", r, g.to[:])
}

// loadHead opens the head that another enclave of the deployment has sealed for this boot,
// with the epoch at which that released the range.
func (s *Ranges) loadHead(ctx context.Context, r wire.Range) (epoch uint64, head *ledger.Head, err error) {
	b, err := s.cfg.Host.Object(ctx, headObject(r))
	if err != nil {
		return 0, nil, err
	}
	if len(b) > 8 { // epoch ‖ sealed size ‖ hash; the epoch is part of the name
		epoch = binary.BigEndian.Uint64(b)
		plain, err := s.cfg.HandoverKey.Open(s.headName(r, epoch, org.ID(s.cfg.Ledger.Boot)), b[8:])
		if err == nil && len(plain) == 8+len(wire.Hash{}) {
			return epoch, &ledger.Head{Size: binary.BigEndian.Uint64(plain), Last: wire.Hash(plain[8:])}, nil
		}
	}
	return 0, nil, fault.New(fault.FailedPrecondition, "no head of range %d that is for this boot", r)
}

// giveOne gives a range away once all that was decided in it is stored, to a boot with the
// log's head, or to nobody. If ctx ends before all is stored, nothing has happened; if it ends
// later, only the answer is late.
func (s *Ranges) giveOne(ctx context.Context, r wire.Range, to org.ID) error {
	o, done, err := s.reserve(r, true)
	if err != nil {
		return err
	}
	if err := o.ledger.CloseForWrites(ctx); err != nil {
		done()
		return err
	}
	s.mu.Lock()
	delete(s.owned, r)
	s.shareLocked(len(s.owned))
	if !to.Zero() {
		s.handedTo[r] = handoverTarget{to, o.ledger.Epoch()}
	}
	s.mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		defer done()
		ended <- s.handOver(o, to)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "range %d is given away, and the store or the log's witnesses have not taken that yet", r)
	}
}

// handOver ends a range's ledger, stores the head of one that was given to a boot, and releases its row.
func (s *Ranges) handOver(o *owned, to org.ID) error {
	past, err := o.ledger.SealForHandover(s.life, to)
	if err != nil {
		return err
	}
	// It is remembered for as long as this boot lasts. Otherwise whoever has it give a
	// range and take it back could show it an older state.
	s.mu.Lock()
	s.ends[o.number] = past
	s.mu.Unlock()
	if !to.Zero() {
		head := past.Head()
		epoch := o.ledger.Epoch()
		plain := append(binary.BigEndian.AppendUint64(nil, head.Size), head.Last[:]...)
		b, err := s.cfg.HandoverKey.Append(binary.BigEndian.AppendUint64(nil, epoch), s.cfg.Ledger.Rand, s.headName(o.number, epoch, to), plain)
		if err != nil {
			return err
		}
		put := wire.PutObject{Name: headObject(o.number), Bytes: b}
		if err := s.retryUntilStored(func(ctx context.Context) error { return s.cfg.Host.PutObject(ctx, put) }); err != nil {
			return err
		}
	}
	return s.retryUntilStored(o.ledger.ReleaseOwnership)
}

// retryUntilStored asks the store until it has answered, or this enclave has ended.
func (s *Ranges) retryUntilStored(ask func(context.Context) error) error {
	for {
		ctx, cancel := context.WithTimeout(s.life, storeTimeout)
		err := ask(ctx)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-s.life.Done():
			return ledger.ErrFenced
		case <-s.cfg.Ledger.Clock.After(storePause):
		}
	}
}

// forEach does something with each of the ranges that a request names, until an error.
func (s *Ranges) forEach(named []uint32, do func(wire.Range) error) error {
	if len(named) == 0 {
		return fault.Field("ranges", "ranges are missing")
	}
	for _, n := range named {
		if n >= uint32(s.cfg.Count) {
			return fault.Field("ranges", "the deployment has %d ranges", s.cfg.Count)
		}
		if err := do(wire.Range(n)); err != nil {
			return err
		}
	}
	return nil
}

// Take is the boot operation take. It takes ranges that are free, that their owner has given
// to this boot, or whose owner is gone: that one is superseded, and its lease waited out
// before anything is answered.
func (s *Ranges) Take(ctx context.Context, body []byte) error {
	var in struct {
		Ranges []uint32 `json:"ranges"`
		Handed bool     `json:"handed"` // only those given to this very boot, with the heads of their logs
	}
	if err := strictjson.Decode(body, &in); err != nil {
		return err
	}
	of := takeFromAny
	if in.Handed {
		of = takeHanded
	}
	return s.forEach(in.Ranges, func(r wire.Range) error {
		term, err := s.drawTerm()
		if err == nil {
			err = s.takeOne(ctx, r, term, of)
		}
		if errors.Is(err, ledger.ErrTaken) {
			err = fault.New(fault.FailedPrecondition, "range %d went to another boot", r)
		}
		return err
	})
}

// Give is the boot operation give.
func (s *Ranges) Give(ctx context.Context, body []byte) error {
	var in struct {
		Ranges []uint32 `json:"ranges"`
		To     string   `json:"to"` // the boot that is to take them, as the operation ranges tells it; absent: nobody in particular
	}
	if err := strictjson.Decode(body, &in); err != nil {
		return err
	}
	var to org.ID
	if in.To != "" {
		b, err := hex.DecodeString(in.To)
		if err != nil || len(b) != len(to) || org.ID(b).Zero() || org.ID(b) == org.ID(s.cfg.Ledger.Boot) {
			return fault.Field("to", "want the id of another boot, 32 hex digits")
		}
		to = org.ID(b)
	}
	return s.forEach(in.Ranges, func(r wire.Range) error { return s.giveOne(ctx, r, to) })
}

// Retire has the table say that hosts shall move all ranges elsewhere.
func (s *Ranges) Retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retiring = true
}

// Table is what this enclave owns now.
func (s *Ranges) Table(nowMs uint64) wire.Table {
	each := &s.cfg.Ledger
	t := wire.Table{Format: 1, Deployment: hex.EncodeToString(each.Deployment[:]), Boot: hex.EncodeToString(each.Boot[:]), TimeMs: nowMs, Ranges: s.cfg.Count,
		Owned: []wire.TableRange{}}
	s.mu.Lock()
	t.Retiring = s.retiring
	s.mu.Unlock()
	for _, o := range s.listOwned() {
		t.Owned = append(t.Owned, wire.TableRange{Range: o.number, Epoch: o.ledger.Epoch(), SinceMs: o.sinceMs, Handed: o.handed})
	}
	return t
}

// Between a hand-over and the predecessor's retirement notice (operation farewell) two enclaves have the
// keyring. What follows keeps them from serving the same range; see package lifecycle for the order of
// operations.

const objectRetirement = "farewell/" // with the SHA-256 of the setup key that the keyring went to

// retirementObject is where the retirement notice for the enclave of a setup key is stored, and the name that
// it is sealed under.
func (s *Ranges) retirementObject(setupKeyHex string) (object string, name seal.Name) {
	to := sha256.Sum256([]byte(setupKeyHex))
	return objectRetirement + hex.EncodeToString(to[:]), seal.Name{Kind: seal.KindRetirement, Deployment: s.cfg.Ledger.Deployment, Root: to}
}

// PredecessorRetired reports whether no enclave before this one may still serve: there was none, or its
// retirement notice is in the store.
func (s *Ranges) PredecessorRetired(ctx context.Context) (bool, error) {
	s.mu.Lock()
	alone := s.predecessorRetired
	s.mu.Unlock()
	if alone {
		return true, nil
	}
	object, name := s.retirementObject(s.cfg.Setup)
	word, err := s.cfg.Host.Object(ctx, object)
	if err != nil {
		return false, err
	}
	by, err := s.cfg.HandoverKey.Open(name, word)
	if err != nil || string(by) != s.cfg.Predecessor {
		return false, nil
	}
	s.mu.Lock()
	s.predecessorRetired = true
	s.mu.Unlock()
	return true, nil
}

// MarkSucceeded marks that the keyring goes to a next enclave: this one takes no range any more. If the next
// manifest has other terms of the logs, nextLogs is the name of the logs that the next enclave will begin.
func (s *Ranges) MarkSucceeded(nextLogs string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retiring, s.succeeded, s.nextLogs = true, true, nextLogs
}

// RetireFor ends all service, once nothing is owned or moving, and stores the retirement notice for a setup
// key.
func (s *Ranges) RetireFor(ctx context.Context, setupKeyHex, liveKeyHex string) error {
	s.mu.Lock()
	if len(s.owned) > 0 || len(s.moving) > 0 {
		s.mu.Unlock()
		return fault.WithCode(fault.FailedPrecondition, "FAREWELL_TOO_EARLY", "this enclave still owns ranges: give them first")
	}
	s.closed = true
	s.mu.Unlock()
	object, name := s.retirementObject(setupKeyHex)
	word, err := s.cfg.HandoverKey.Seal(s.cfg.Ledger.Rand, name, []byte(liveKeyHex))
	if err != nil {
		return err
	}
	return s.cfg.Host.PutObject(ctx, wire.PutObject{Name: object, Bytes: word})
}
