// Package pace counts requests against rates: a bucket of tokens for each key,
// bounded in number, refilled continuously. The clock is handed in.
//
// Both processes use it: the host per address, the enclave per organization and
// per key. Whose request it is must be settled before it is counted.
package pace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Rate is how many requests a key has in a period, all of them at once if it
// likes. The zero Rate sets no limit.
type Rate struct {
	Count uint32
	Per   time.Duration
}

// MaxCount bounds the count of a rate, so that its interval is no less than a microsecond.
const MaxCount = 1_000_000

// Off is the text of the zero Rate.
const Off = "off"

var periods = []struct {
	unit string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// maxPeriods is how many seconds, minutes or hours a period has at most.
const maxPeriods = 99

// Parse reads "10/s", "600/m", "5000/h", "200/10s" and its like, or "off", which is also what nothing
// means. It refuses zero and counts over MaxCount.
func Parse(s string) (Rate, error) {
	if s == "" || s == Off {
		return Rate{}, nil
	}
	number, period, _ := strings.Cut(s, "/")
	n, ok := parseCount(number, MaxCount)
	for _, p := range periods {
		if times, found := strings.CutSuffix(period, p.unit); ok && found {
			if times == "" {
				return Rate{n, p.per}, nil
			}
			if k, ok := parseCount(times, maxPeriods); ok && k > 1 {
				return Rate{n, time.Duration(k) * p.per}, nil
			}
		}
	}
	return Rate{}, fmt.Errorf("want a rate such as 10/s, 200/10s, 600/m or 5000/h, at most %d, or off", MaxCount)
}

// parseCount reads 1 to most, in digits without leading zeros.
func parseCount(s string, most uint64) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n > 0 && n <= most && s[0] != '0'
}

// UnmarshalText is Parse, for flags.
func (r *Rate) UnmarshalText(b []byte) (err error) {
	*r, err = Parse(string(b))
	return err
}

// MarshalText is String, for flags.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// On tells whether there is a limit.
func (r Rate) On() bool { return r.Count > 0 && r.Per > 0 }

// String is the text that Parse reads.
func (r Rate) String() string {
	for _, p := range slices.Backward(periods) {
		switch k := r.Per / p.per; {
		case !r.On() || r.Per%p.per != 0 || k > maxPeriods:
		case k == 1:
			return fmt.Sprintf("%d/%s", r.Count, p.unit)
		default:
			return fmt.Sprintf("%d/%d%s", r.Count, k, p.unit)
		}
	}
	return Off
}

// A Count is the answer to one request. The zero Count is that of no limit.
type Count struct {
	Refused   bool
	Limit     uint32        // requests that a full bucket holds; 0: no limit
	Remaining uint32        // requests left
	Wait      time.Duration // until one more would pass, if Refused
}

// Again is Wait for people: in whole milliseconds, rounded up.
func (c Count) Again() string {
	return ((c.Wait + time.Millisecond - 1) / time.Millisecond * time.Millisecond).String()
}

// Least is the Count of a request that two buckets counted: the refusal that lasts longer, else the one that leaves less.
func Least(a, b Count) Count {
	switch {
	case a.Limit == 0, b.Refused && (!a.Refused || b.Wait > a.Wait):
		return b
	case b.Limit == 0, a.Refused:
		return a
	case b.Remaining < a.Remaining:
		return b
	}
	return a
}

// Buckets hold the bucket of each key. A key that was not seen for a while has a full one: at most "most" are
// kept, and a key is forgotten only after half as many others came since. Use New.
type Buckets[K comparable] struct {
	mu sync.Mutex
	table[K]
}

// New makes buckets of one rate, all full.
func New[K comparable](r Rate, most int) *Buckets[K] {
	return &Buckets[K]{table: newTable[K](r, 1, most)}
}

// Take counts one request of k. A refused one costs nothing. A clock that goes back empties buckets at most.
func (b *Buckets[K]) Take(k K, now time.Time) Count {
	if b.count == 0 {
		return Count{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	fullAt, c := b.look(k, now.UnixNano())
	b.keep(k, fullAt)
	return c
}

// Return gives k one request back that was counted and then refused for another reason.
func (b *Buckets[K]) Return(k K, now time.Time) {
	if b.count == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(k, b.fullAt(k, now.UnixNano(), 0)-b.interval)
}

// Len is how many buckets are kept.
func (b *Buckets[K]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.len()
}

// A table is buckets without a lock.
type table[K comparable] struct {
	interval, full int64 // nanoseconds for one token, and for all
	count          uint32
	most           int

	// When a bucket will be full again, in nanoseconds since the epoch. Keys of
	// the two newest generations are kept; a generation ends at half of most.
	young, old map[K]int64
}

// newTable makes buckets of some times a rate, all full.
func newTable[K comparable](r Rate, times uint32, most int) table[K] {
	t := table[K]{most: most}
	if r.On() {
		t.count = min(r.Count, MaxCount) * times
		t.interval = max(int64(r.Per)/int64(t.count), 1)
		t.full = t.interval * int64(t.count)
		t.young = map[K]int64{}
	}
	return t
}

// fullAt is when the bucket of k is full again, which takes a full one's time at most, and what a debt takes.
func (t *table[K]) fullAt(k K, at, debt int64) int64 {
	fullAt, young := t.young[k]
	if !young {
		fullAt = t.old[k]
	}
	return min(max(fullAt, at), at+t.full+debt)
}

// look answers one request of k, and when its bucket is full again after it; keep makes that count.
func (t *table[K]) look(k K, at int64) (fullAt int64, c Count) {
	fullAt, c.Limit = t.fullAt(k, at, 0)+t.interval, t.count
	over := fullAt - (at + t.full)
	if over > 0 {
		c.Refused, c.Wait = true, time.Duration(over)
		return fullAt - t.interval, c
	}
	c.Remaining = uint32(-over / t.interval)
	return fullAt, c
}

func (t *table[K]) keep(k K, fullAt int64) {
	if _, young := t.young[k]; !young && len(t.young) >= max(t.most/2, 1) {
		t.old, t.young = t.young, map[K]int64{}
	}
	t.young[k] = fullAt
}

func (t *table[K]) len() int { return len(t.young) + len(t.old) }
