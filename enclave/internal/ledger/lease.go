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

// lease is when this enclave may answer, by its own clock: after a superseded enclave's lease
// has ended, and until its own ends.
type lease struct {
	mu    sync.Mutex
	from  time.Time
	until time.Time
	ended bool
}

// extend counts from when the host was asked, not from when it said yes.
func (l *lease) extend(asked time.Time, d time.Duration) {
	l.mu.Lock()
	if u := asked.Add(d); u.After(l.until) {
		l.until = u
	}
	l.mu.Unlock()
}

// end ends the lease for good: the row is about to be given back.
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

// ErrTaken says that a range went to another boot.
var ErrTaken = errors.New("the range went to another boot")

// Take takes ownership of the range for this boot, reads its log, and appends the leaf of this ownership. If
// the last boot did not give the range back, replies, but not loading, wait until its lease has ended. fits,
// unless nil, sees the row as the host shows it before, and may refuse. A log that is refused is a
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
	// Nobody appends to the range any more, so that what is read now is the end of its log.
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
	if start.Number == 1 { // before boots had numbers, it was the host that counted
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
		if err := l.spawn(l.runWitnessRounds, func() { l.startServing(said, first.wait) }); err != nil {
			return err
		}
	}
	if l.cfg.PreviousStorage != nil {
		return l.spawn(l.rewrapDataKeys)
	}
	return nil
}

// spawn starts goroutines of the ledger.
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

// IsFree tells by its row that nobody owns a range.
func IsFree(row wire.Owned) bool { return row.Epoch == 0 || row.Released }

// BootNumber is how many boots have written to the range's log, this one included.
func (l *Ledger) BootNumber() uint64 { return l.cfg.BootNumber }

// Epoch is how often the range was taken, this time included, by the host's count.
func (l *Ledger) Epoch() uint64 { return l.batchWriter.epoch }

// renew keeps the lease while nothing is written.
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

// Release gives the range back at an orderly end, once everything decided is stored, so that the next boot need
// not wait. From then on this one answers nothing, since the next may write at once.
func (l *Ledger) Release(ctx context.Context) error {
	if err := l.flush(ctx); err != nil {
		return err
	}
	l.stopServing()
	return l.ReleaseOwnership(ctx)
}

// stopServing ends all that this ledger does, answering included.
func (l *Ledger) stopServing() {
	l.stop()
	l.wg.Wait()
	l.lease.end()
}

// ReleaseOwnership gives back the row of a ledger that has ended. Without an answer it may be called again.
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

// Serving waits until this enclave may answer. Without a lease, and the right to serve that witnesses
// give, it does not even answer queries.
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
