// Package pace counts requests against rates: a bucket of tokens for each key,
// bounded in number, refilled continuously. The clock is handed in.
//
// Both processes use it: the host per address, the enclave per organization and
// per key. Whose request it is must be settled before it is counted.
package pace

import (
	"fmt"
	"net/netip"
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

// Parse reads "10/s", "600/m", "5000/h", or "off", which is also what nothing
// means. It refuses zero and counts over MaxCount.
func Parse(s string) (Rate, error) {
	if s == "" || s == Off {
		return Rate{}, nil
	}
	number, unit, _ := strings.Cut(s, "/")
	n, err := strconv.ParseUint(number, 10, 32)
	for _, p := range periods {
		if err == nil && unit == p.unit && n > 0 && n <= MaxCount && number[0] != '0' {
			return Rate{uint32(n), p.per}, nil
		}
	}
	return Rate{}, fmt.Errorf("want a rate such as 10/s, 600/m or 5000/h, at most %d, or off", MaxCount)
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
	for _, p := range periods {
		if r.On() && r.Per == p.per {
			return strconv.FormatUint(uint64(r.Count), 10) + "/" + p.unit
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

// Least is the Count of a request that two buckets counted: the refusal, else the one that leaves less.
func Least(a, b Count) Count {
	switch {
	case a.Limit == 0, b.Refused && !a.Refused:
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
	interval, full int64 // nanoseconds for one token, and for all
	count          uint32
	most           int

	mu sync.Mutex
	// When a bucket will be full again, in nanoseconds since the epoch. Keys of
	// the two newest generations are kept; a generation ends at half of most.
	young, old map[K]int64
}

// New makes buckets of one rate, all full.
func New[K comparable](r Rate, most int) *Buckets[K] {
	b := &Buckets[K]{most: most}
	if r.On() {
		b.count = min(r.Count, MaxCount)
		b.interval = max(int64(r.Per)/int64(b.count), 1)
		b.full = b.interval * int64(b.count)
		b.young = map[K]int64{}
	}
	return b
}

// Take counts one request of k. A refused one costs nothing. A clock that goes back empties buckets at most.
func (b *Buckets[K]) Take(k K, now time.Time) Count {
	if b.count == 0 {
		return Count{}
	}
	at := now.UnixNano()
	b.mu.Lock()
	defer b.mu.Unlock()
	fullAt, young := b.young[k]
	if !young {
		fullAt = b.old[k]
	}
	fullAt = min(max(fullAt, at), at+b.full) + b.interval
	c := Count{Limit: b.count}
	if over := fullAt - (at + b.full); over > 0 {
		c.Refused, c.Wait = true, time.Duration(over)
		fullAt -= b.interval
	} else {
		c.Remaining = uint32(-over / b.interval)
	}
	if !young && len(b.young) >= max(b.most/2, 1) {
		b.old, b.young = b.young, map[K]int64{}
	}
	b.young[k] = fullAt
	return c
}

// Len is how many buckets are kept.
func (b *Buckets[K]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.young) + len(b.old)
}

// Source is what is counted as one address: an IPv4 address, or the 64 bits of an IPv6 address that one
// customer is given at the least. Addresses that cannot be read are counted together.
func Source(address string) netip.Addr {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Addr{}
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr()
}
