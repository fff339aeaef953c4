package pace

import (
	"sync"
	"time"
)

// Refusals is a cache of keys whose requests another process refuses for some time, so that it need not be asked about each.
// The zero value refuses no key.
//
// A key that is refused again right after its time gets a longer one, twice the last, up to a second. Otherwise the many
// requests of a key that wait for the same moment would all be passed on then, for one to be accepted.
type Refusals[K comparable] struct {
	mu  sync.Mutex
	all map[K]refusal
}

type refusal struct {
	until time.Time
	wait  time.Duration
}

const (
	// maxRefusal is the longest time of a refusal.
	maxRefusal = 10 * time.Second
	// maxAgain is the longest time that doubling leads to.
	maxAgain = time.Second
	// maxRefusals is the largest number of keys in the cache. One more empties it.
	maxRefusals = 1 << 16
)

// Note refuses k for the time wait from now on.
func (f *Refusals[K]) Note(k K, now time.Time, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.all[k]
	switch {
	case now.Before(before.until): // of a request that was under way when k was refused
		return
	case now.Before(before.until.Add(before.wait)):
		wait = max(wait, min(2*before.wait, maxAgain))
	}
	if f.all == nil || len(f.all) >= maxRefusals {
		f.all = map[K]refusal{}
	}
	wait = min(wait, maxRefusal)
	f.all[k] = refusal{now.Add(wait), wait}
}

// None reports whether the cache is empty, which is the usual case.
func (f *Refusals[K]) None() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all) == 0
}

// Wait returns for how long k is still refused, 0 if it is not.
func (f *Refusals[K]) Wait(k K, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, known := f.all[k]
	if known && !now.Before(last.until.Add(last.wait)) {
		delete(f.all, k)
	}
	return max(last.until.Sub(now), 0)
}
