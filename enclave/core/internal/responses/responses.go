// Package responses keeps how long requests took, by tenant and hour, for the charts of those who ask how fast their deployment answers.
//
// It lies in memory and begins anew with each boot: nothing is decided by it.
package responses

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"cloister/enclave/internal/org"
)

// Limits of what is kept: at most 8 MiB.
const (
	MaxHours   = 24
	MaxTenants = 1 << 10 // with more, another tenant's times are forgotten
)

// Durations are counted in classes. The first ends at shortest, each further one ends at a fourth of an octave, 19 percent, above the one
// before; the last has all that is longer.
const (
	shortest = 100 * time.Microsecond
	perTwice = 4
	classes  = 76 // the last but one ends at 37 seconds
)

// Times are the durations of a process's requests. It is safe for concurrent use.
type Times struct {
	mu sync.Mutex
	by map[org.ID][]hour // the last hours that have requests, oldest first
}

type hour struct {
	start  int64 // hours since 1970
	counts [classes]uint32
}

// New makes one without requests.
func New() *Times { return &Times{by: map[org.ID][]hour{}} }

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// Add counts a request of a tenant that ended now.
func (t *Times) Add(tenant org.ID, now time.Time, took time.Duration) {
	class := 0
	if took > shortest {
		class = min(int(math.Ceil(perTwice*math.Log2(float64(took)/float64(shortest)))), classes-1)
	}
	at := hourOf(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	hours := t.by[tenant]
	i, ok := slices.BinarySearchFunc(hours, at, func(h hour, at int64) int { return cmp.Compare(h.start, at) })
	if !ok {
		hours = slices.Insert(hours, i, hour{start: at})
		if len(hours) > MaxHours {
			hours, i = slices.Delete(hours, 0, 1), i-1
		}
		t.by[tenant] = hours
		t.evict(tenant)
	}
	if i >= 0 && hours[i].counts[class] < math.MaxUint32 {
		hours[i].counts[class]++
	}
}

// evict forgets any other tenant while there are too many.
func (t *Times) evict(but org.ID) {
	for other := range t.by {
		if len(t.by) <= MaxTenants {
			return
		}
		if other != but {
			delete(t.by, other)
		}
	}
}

// An Hour is how long a tenant's requests took in one hour. Median and P95 are the end of the class that the request in the middle, and
// the one that 95 of 100 are no longer than, belong to: up to 19 percent above their durations.
type Hour struct {
	StartMs     uint64
	Count       uint64
	Median, P95 time.Duration
}

// Of returns the hours of the last MaxHours that have requests of a tenant, oldest first.
func (t *Times) Of(tenant org.ID, now time.Time) (all []Hour) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.by[tenant] {
		h := &t.by[tenant][i]
		if h.start <= hourOf(now)-MaxHours || h.start > hourOf(now) {
			continue
		}
		x := Hour{StartMs: uint64(h.start) * 3600_000}
		for _, n := range h.counts {
			x.Count += uint64(n)
		}
		x.Median, x.P95 = h.within(x.Count, 50), h.within(x.Count, 95)
		all = append(all, x)
	}
	return all
}

// within is the end of the class in which, from the shortest on, so many percent of count requests are reached.
func (h *hour) within(count, percent uint64) time.Duration {
	var sum uint64
	for class, n := range h.counts {
		if sum += uint64(n); sum*100 >= count*percent {
			return time.Duration(float64(shortest) * math.Exp2(float64(class)/perTwice))
		}
	}
	return 0
}
