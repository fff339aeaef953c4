// Package clocktest has the clock that tests give to an enclave or a host: it stands still until the test moves it, so that
// nothing expires because a machine is slow.
package clocktest

import (
	"slices"
	"sync"
	"time"
)

// Clock is a clock that a test moves. It is for concurrent use.
type Clock struct {
	mu      sync.Mutex
	at      time.Time
	begun   time.Time // on the machine's clock; zero: it stands
	waiting []waiter
}

type waiter struct {
	at     time.Time
	passed chan time.Time
}

// New is a clock half an hour ahead of the machine's: what is measured on it and waited for on the machine's, such as a
// connection's deadline, does not end too early.
func New() *Clock { return At(time.Now().Add(30 * time.Minute).Truncate(time.Second)) }

// At is a clock that stands at t.
func At(t time.Time) *Clock { return &Clock{at: t} }

// Running is a clock that shows the machine's time and goes on with it, for tests in which an enclave must wait until
// the lease of another has ended.
func Running() *Clock {
	now := time.Now()
	return &Clock{at: now, begun: now}
}

// Now is the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	if c.begun.IsZero() {
		return c.at
	}
	return c.at.Add(time.Since(c.begun))
}

// After tells when d has passed on this clock or on the machine's: retries and renewals go on while time stands.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := waiter{c.now().Add(d), make(chan time.Time, 1)}
	c.waiting = append(c.waiting, w)
	time.AfterFunc(d, func() {
		w.tell(c.Now())
		c.forget(w)
	})
	return w.passed
}

func (w waiter) tell(now time.Time) {
	select {
	case w.passed <- now:
	default:
	}
}

func (c *Clock) forget(w waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(one waiter) bool { return one == w })
}

// Pass moves the clock.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	now := c.now()
	c.waiting = slices.DeleteFunc(c.waiting, func(w waiter) bool {
		if w.at.After(now) {
			return false
		}
		w.tell(now)
		return true
	})
}
