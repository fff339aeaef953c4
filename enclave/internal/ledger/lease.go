package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/shared/wire"
)

// lease is the time in which this enclave may answer, by its own clock: from the end of the last owner's
// lease to the end of its own.
type lease struct {
	mu    sync.Mutex
	from  time.Time
	until time.Time
	ended bool
}

// extend extends the lease to d after the time at which the host was asked, which is before the store renewed the row.
func (l *lease) extend(asked time.Time, d time.Duration) {
	l.mu.Lock()
	if u := asked.Add(d); u.After(l.until) {
		l.until = u
	}
	l.mu.Unlock()
}

// end ends the lease for good, before the row is given back.
func (l *lease) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
}

func (l *lease) valid(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.ended && !now.Before(l.from) && now.Before(l.until)
}

// ErrTaken means that another boot has taken the range.
var ErrTaken = errors.New("the range went to another boot")

// Take takes ownership of the range for this boot, reads its log, and appends this ownership's start leaf. If the
// last owner did not give the range back, replies (but not loading) wait until its lease has ended. fits, unless
// nil, is called with the row before that and may refuse. If the log is refused as forged, the error is a
// *fault.Breach; the row is this boot's by then.
func (l *Ledger) Take(ctx context.Context, fits func(wire.Owned) error) error {
	asked := l.cfg.Clock.Now()
	row, err := l.askOwnership(ctx, wire.OwnLook, 0)
	if err != nil {
		return err
	}
	if fits != nil {
		if err := fits(row); err != nil {
			return err
		}
	}
	free := IsFree(row)
	got, err := l.askOwnership(ctx, wire.OwnTake, row.Epoch)
	if err != nil {
		return err
	}
	if !got.OK || got.Epoch != row.Epoch+1 || got.Boot != l.cfg.Boot {
		return ErrTaken
	}
	l.batchWriter.epoch = got.Epoch
	l.lease.mu.Lock()
	if !free {
		l.lease.from = l.cfg.Clock.Now().Add(l.cfg.Limits.Lease)
	}
	l.lease.mu.Unlock()
	l.lease.extend(asked, l.cfg.Limits.Lease)
	if err := l.spawn(l.renew); err != nil {
		return err
	}
	// No other boot can append to the range any more, so this reads the log to its end.
	first, err := l.readLog(ctx)
	if err != nil {
		return fmt.Errorf("reading the log of range %d: %w", l.cfg.Range, err)
	}
	if err := l.spawn(l.batchWriter.run); err != nil {
		return err
	}
	if first.newGeneration {
		if err := l.beginMovedGeneration(ctx); err != nil {
			return fmt.Errorf("moving the log of range %d to other witnesses: %w", l.cfg.Range, err)
		}
	}
	if first.recovers {
		if err := l.beginRecoveredGeneration(ctx); err != nil {
			return fmt.Errorf("recovering the log of range %d: %w", l.cfg.Range, err)
		}
	}
	if first.drills {
		if err := l.beginDrillLog(ctx); err != nil {
			return fmt.Errorf("a drill of range %d: %w", l.cfg.Range, err)
		}
	}
	start := l.cfg.Start
	at, _, _ := l.batchWriter.head()
	start.Number = at.Force().Boots + 1
	if start.Number == 1 { // logs without boot numbers: the epoch, by the host's count
		start.Number = got.Epoch
	}
	l.cfg.BootNumber = start.Number
	if _, err := io.ReadFull(l.cfg.Rand, start.Nonce[:]); err != nil {
		return err
	}
	said, err := l.appendLeaf(ctx, tlog.Leaf{Start: &start}, nil)
	if err != nil {
		return err
	}
	if err := l.spawn(l.makeTables); err != nil {
		return err
	}
	if l.cfg.Witnesses != nil {
		l.witnesses.setWait(first.wait)
		if err := l.spawn(l.runWitnessRounds, func() { l.startServing(said) }); err != nil {
			return err
		}
	}
	if l.cfg.PreviousStorage != nil {
		return l.spawn(l.rewrapDataKeys)
	}
	return nil
}

// spawn runs each of fs on a goroutine that Close waits for. It returns ErrFenced if the ledger has stopped.
func (l *Ledger) spawn(fs ...func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range fs {
		if !l.spawnLocked(f) {
			return ErrFenced
		}
	}
	return nil
}

func (l *Ledger) askOwnership(ctx context.Context, a wire.OwnAction, expect uint64) (wire.Owned, error) {
	return l.cfg.Store.Own(ctx, wire.Own{Action: a, Boot: l.cfg.Boot, Expect: expect, Range: l.cfg.Range})
}

// IsFree reports whether a range's row has no owner.
func IsFree(row wire.Owned) bool { return row.Epoch == 0 || row.Released }

// BootNumber returns this boot's number in the range's log: the count of the boots that have written to it.
func (l *Ledger) BootNumber() uint64 { return l.cfg.BootNumber }

// Epoch returns the epoch of this ownership: how often the range was taken, by the host's count.
func (l *Ledger) Epoch() uint64 { return l.batchWriter.epoch }

// renew renews the lease every quarter of it, until the ledger is done or another boot owns the range.
func (l *Ledger) renew() {
	for {
		select {
		case <-l.done:
			return
		case <-l.cfg.Clock.After(l.cfg.Limits.Lease / 4):
		}
		asked := l.cfg.Clock.Now()
		ctx, cancel := context.WithTimeout(l.life, l.cfg.Limits.Lease)
		row, err := l.askOwnership(ctx, wire.OwnRenew, l.batchWriter.epoch)
		cancel()
		switch {
		case err != nil: // unknown; the lease runs on until it ends
		case row.OK && row.Epoch == l.batchWriter.epoch && row.Boot == l.cfg.Boot, insecure.Skip(insecure.Owner):
			l.lease.extend(asked, l.cfg.Limits.Lease)
		default:
			l.cfg.Alarms.Raise(fault.AlarmSuperseded)
			l.fence(errors.New("another boot owns the range"))
			return
		}
	}
}

// Release ends the ledger in order: it waits until everything decided is stored, stops answering and gives the
// range back, so that the next boot need not wait for the lease's end and may write at once.
func (l *Ledger) Release(ctx context.Context) error {
	if err := l.flush(ctx); err != nil {
		return err
	}
	l.stopServing()
	return l.ReleaseOwnership(ctx)
}

// stopServing ends the ledger's goroutines and its lease: it answers nothing any more.
func (l *Ledger) stopServing() {
	l.stop()
	l.wg.Wait()
	l.lease.end()
}

// ReleaseOwnership gives back the row of a ledger that has ended. After an error it may be called again.
func (l *Ledger) ReleaseOwnership(ctx context.Context) error {
	_, err := l.askOwnership(ctx, wire.OwnRelease, l.batchWriter.epoch)
	return err
}

func (l *Ledger) flush(ctx context.Context) error {
	l.batchWriter.mu.Lock()
	last := l.batchWriter.queue[len(l.batchWriter.queue)-1]
	n := last.number
	if last.empty() {
		n--
	}
	l.batchWriter.mu.Unlock()
	return l.batchWriter.waitStored(ctx, n)
}

// Serving waits until this enclave may answer: until it has a valid lease and, with witnesses, the right to
// serve. Queries need it, too.
func (l *Ledger) Serving(ctx context.Context) error {
	for {
		now := l.cfg.Clock.Now()
		if l.fenced.Load() {
			return ErrFenced
		}
		if l.lease.valid(now) {
			return l.witnesses.awaitRight(ctx, l)
		}
		select {
		case <-ctx.Done():
			return ErrBusy
		case <-l.done:
			return ErrFenced
		case <-l.cfg.Clock.After(20 * time.Millisecond):
		}
	}
}
