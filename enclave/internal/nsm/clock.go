package nsm

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How the module's clock is followed.
const (
	every  = time.Hour     // between two readings
	retry  = time.Minute   // after a reading that failed
	silent = 3 * time.Hour // how long the time may go on without a reading
	// behind is how far the module may be behind what was told before: more than any
	// oscillator drifts in an hour, and less than any time limit promised to users.
	behind = time.Minute
	// While the clock is ahead of the module it loses one part in slower. A lease of two
	// seconds is longer by a millisecond then.
	slower = 2000
)

// A clock is the module's time at a monotonic reading, run forward from there.
// What it tells never goes back.
type clock struct {
	at   time.Time
	from time.Time
	// ahead is how far at is ahead of the module. The clock is slowed until that is made
	// up for. Leases run on it, so it neither steps back nor stands still.
	ahead time.Duration
}

func (c clock) now(mono time.Time) time.Time {
	past := max(mono.Sub(c.from), 0)
	return c.at.Add(past - min(c.ahead, past/slower))
}

// errBackwards is a module whose clock cannot be followed.
var errBackwards = errors.New("the security module's clock runs backwards")

// follow is the clock after the module told the time at a monotonic reading. A
// module that is ahead is followed at once: what must end, ends earlier.
func (c clock) follow(told, mono time.Time) (clock, error) {
	now := c.now(mono)
	switch d := now.Sub(told); {
	case d <= 0:
		return clock{at: told, from: mono}, nil
	case d <= behind:
		return clock{at: now, from: mono, ahead: d}, nil
	}
	return c, errBackwards
}

// Now is the module's time, run forward by the monotonic clock. It never goes
// back.
func (d *Device) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clock.now(d.mono())
}

// time asks the module for the time.
func (d *Device) time() (time.Time, error) {
	doc, err := d.Attest(nil, nil, nil)
	if err != nil {
		return time.Time{}, err
	}
	return timestamp(doc)
}

// KeepTime reads the module's clock again every hour until ctx ends. It returns earlier when
// the module's clock is more than a minute behind what was told before, or was not
// readable for three hours. The enclave must end then, since leases, sessions and
// passcodes rest on its time. after is a timer.
func (d *Device) KeepTime(ctx context.Context, after func(time.Duration) <-chan time.Time) error {
	wait := every
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-after(wait):
		}
		told, err := d.time()
		d.mu.Lock()
		mono := d.mono()
		if err == nil {
			if d.clock, err = d.clock.follow(told, mono); err != nil {
				d.mu.Unlock()
				return err
			}
			d.read, wait = mono, every
		} else if wait = retry; mono.Sub(d.read) > silent {
			d.mu.Unlock()
			return fmt.Errorf("the security module's clock was not readable for %v: %w", silent, err)
		}
		d.mu.Unlock()
	}
}
