package pace

import (
	"sync"
	"time"
)

// Refusals are keys that are refused for a while, whatever they ask, since somebody has said so: what is known need not be asked again.
// The zero value refuses nobody.
//
// Who goes on asking is refused for longer each time, up to a second: many requests of one key that wait for the same moment
// would all be asked about then, and one of them answered.
type Refusals[K comparable] struct {
	mu  sync.Mutex
	all map[K]refusal
}

type refusal struct {
	until time.Time
	wait  time.Duration
}

const (
	// maxRefusal is how long a refusal lasts at most.
	maxRefusal = 10 * time.Second
	// maxAgain is for how long at most it is prolonged.
	maxAgain = time.Second
	// maxRefusals is how many keys are remembered; one more, and all are forgotten.
	maxRefusals = 1 << 16
)

// Note refuses k for a while.
func (f *Refusals[K]) Note(k K, now time.Time, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.all[k]
	switch {
	case now.Before(before.until): // under way when the refusal before this came
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

// None tells that nobody is refused, as mostly.
func (f *Refusals[K]) None() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.all) == 0
}

// Wait is for how long k is refused yet, 0 if it is not.
func (f *Refusals[K]) Wait(k K, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, known := f.all[k]
	if known && !now.Before(last.until.Add(last.wait)) {
		delete(f.all, k)
	}
	return max(last.until.Sub(now), 0)
}
