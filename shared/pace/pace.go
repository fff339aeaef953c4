// Package pace implements rate limits by token buckets: one bucket for each key,
// refilled continuously, bounded in number. The caller passes in the time.
//
// The host limits requests per address, the enclave per organization and per
// key. Callers must establish whose request it is before they count it.
package pace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Rate is the number of requests that a key may make in a period. It may make them
// all at once. The zero Rate sets no limit.
type Rate struct {
	Count uint32
	Per   time.Duration
}

// MaxCount is the largest count of a rate: one token takes a microsecond at least.
const MaxCount = 1_000_000

// Off is the text of the zero Rate.
const Off = "off"

var periods = []struct {
	unit string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// maxPeriods is the largest number of seconds, minutes or hours in a period.
const maxPeriods = 99

// Parse parses a rate such as "10/s", "600/m", "5000/h" or "200/10s". "off" and "" are the zero Rate.
// It refuses a count of zero or above MaxCount.
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

// parseCount parses a number from 1 to most, in digits without leading zeros.
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

// On reports whether the rate sets a limit.
func (r Rate) On() bool { return r.Count > 0 && r.Per > 0 }

// String returns the rate as Parse accepts it.
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

// A Count is the result of counting one request. The zero Count means that there is no limit.
type Count struct {
	Refused   bool
	Limit     uint32        // size of the bucket in requests; 0: no limit
	Remaining uint32        // requests left in it
	Wait      time.Duration // if Refused: time until the request would pass
}

// Again returns Wait as text for error messages, rounded up to whole milliseconds.
func (c Count) Again() string {
	return ((c.Wait + time.Millisecond - 1) / time.Millisecond * time.Millisecond).String()
}

// Least combines the Counts of a request by two buckets: it returns the refusal that lasts longer, else the one with less Remaining.
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

// Buckets are the token buckets of all keys, safe for concurrent use. At most "most" (see New) are in memory: a bucket
// is dropped, as if it were full, only after half as many other keys were used. Use New.
type Buckets[K comparable] struct {
	mu sync.Mutex
	table[K]
}

// New returns buckets of one rate, all full, of which at most "most" are kept.
func New[K comparable](r Rate, most int) *Buckets[K] {
	return &Buckets[K]{table: newTable[K](r, 1, most)}
}

// Take counts one request of k. A refused request costs no token. A clock that goes back can only empty buckets.
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

// Return puts one token back into the bucket of k, for a request that was counted and then refused for another reason.
func (b *Buckets[K]) Return(k K, now time.Time) {
	if b.count == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(k, b.fullAt(k, now.UnixNano(), 0)-b.interval)
}

// Len returns the number of buckets in memory.
func (b *Buckets[K]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.len()
}

// A table is the buckets of Buckets, without a lock.
type table[K comparable] struct {
	interval, full int64 // nanoseconds in which one token comes, and a full bucket
	count          uint32
	most           int

	// young and old map a key to the time at which its bucket is full again, in nanoseconds since
	// 1970. When young has half of most keys, it becomes old, and the former old is dropped.
	young, old map[K]int64
}

// newTable returns buckets of a multiple of a rate, all full.
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

// fullAt returns the time at which the bucket of k is full again: at most the time for a full bucket and for debt after at.
func (t *table[K]) fullAt(k K, at, debt int64) int64 {
	fullAt, young := t.young[k]
	if !young {
		fullAt = t.old[k]
	}
	return min(max(fullAt, at), at+t.full+debt)
}

// look counts one request of k without effect: it returns the result, and the fullAt for keep that makes it effective.
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
