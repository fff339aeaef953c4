package ledger

import (
	"context"
	"errors"
	"sync"
	"time"

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
	over  bool
}

// extend counts from when the host was asked, not from when it said yes.
func (l *lease) extend(asked time.Time, d time.Duration) {
	l.mu.Lock()
	if u := asked.Add(d); u.After(l.until) {
		l.until = u
	}
	l.mu.Unlock()
}

// finish ends the lease for good: the store is about to be given back.
func (l *lease) finish() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
}

func (l *lease) valid(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over && !now.Before(l.from) && now.Before(l.until)
}

// ErrTaken says that a range went to another boot.
var ErrTaken = errors.New("the range went to another boot")

// Take takes the range for this boot. If the last boot did not give it back, replies, but not
// loading, wait until its lease has ended. fits, unless nil, sees the row as the host shows
// it before, and may refuse.
func (l *Ledger) Take(ctx context.Context, fits func(wire.Owned) error) error {
	asked := l.cfg.Clock.Now()
	row, err := l.own(ctx, wire.OwnLook, 0)
	if err != nil {
		return err
	}
	if fits != nil {
		if err := fits(row); err != nil {
			return err
		}
	}
	free := IsFree(row)
	got, err := l.own(ctx, wire.OwnTake, row.Epoch)
	if err != nil {
		return err
	}
	if !got.OK || got.Epoch != row.Epoch+1 || got.Boot != l.cfg.Boot {
		return ErrTaken
	}
	l.pipe.epoch = got.Epoch
	l.cfg.BootNumber = got.Epoch
	l.lease.mu.Lock()
	if !free {
		l.lease.from = l.cfg.Clock.Now().Add(l.cfg.Limits.Lease)
	}
	l.lease.mu.Unlock()
	l.lease.extend(asked, l.cfg.Limits.Lease)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.spawnLocked(l.pipe.run) || !l.spawnLocked(l.renew) || l.cfg.Before != nil && !l.spawnLocked(l.rewrap) {
		return ErrFenced
	}
	return nil
}

func (l *Ledger) own(ctx context.Context, a wire.OwnAction, expect uint64) (wire.Owned, error) {
	return l.cfg.Store.Own(ctx, wire.Own{Action: a, Boot: l.cfg.Boot, Expect: expect, Range: l.cfg.Range})
}

// IsFree tells by its row that nobody owns a range.
func IsFree(row wire.Owned) bool { return row.Epoch == 0 || row.Released }

// BootNumber is how often the range was taken, this time included, by the host's count.
func (l *Ledger) BootNumber() uint64 { return l.cfg.BootNumber }

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
		row, err := l.own(ctx, wire.OwnRenew, l.pipe.epoch)
		cancel()
		switch {
		case err != nil: // unknown; the lease runs on until it ends
		case row.OK && row.Epoch == l.pipe.epoch && row.Boot == l.cfg.Boot, insecure.Skip(insecure.Owner):
			l.lease.extend(asked, l.cfg.Limits.Lease)
		default:
			l.cfg.Alarms.Raise(fault.AlarmSuperseded)
			l.fence(errors.New("another boot owns the range"))
			return
		}
	}
}

// Release gives the range back at an orderly end, once everything decided is stored, so that the
// next boot need not wait. From then on this one answers nothing, since the next may write at once.
func (l *Ledger) Release(ctx context.Context) error {
	if err := l.drain(ctx); err != nil {
		return err
	}
	l.halt()
	return l.Free(ctx)
}

// halt ends all that this ledger does, answering included.
func (l *Ledger) halt() {
	l.stop()
	l.wg.Wait()
	l.lease.finish()
}

// Free gives back the row of a ledger that has ended. Without an answer it may be called again.
func (l *Ledger) Free(ctx context.Context) error {
	_, err := l.own(ctx, wire.OwnRelease, l.pipe.epoch)
	return err
}

func (l *Ledger) drain(ctx context.Context) error {
	l.pipe.mu.Lock()
	last := l.pipe.queue[len(l.pipe.queue)-1]
	n := last.number
	if len(last.entries) == 0 {
		n--
	}
	l.pipe.mu.Unlock()
	return l.pipe.wait(ctx, n)
}

// Serving waits until this enclave may answer. Without a lease it does not even answer queries.
func (l *Ledger) Serving(ctx context.Context) error {
	for {
		now := l.cfg.Clock.Now()
		if l.fenced.Load() {
			return ErrFenced
		}
		if l.lease.valid(now) {
			return nil
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
