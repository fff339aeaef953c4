package pace

import (
	"net/netip"
	"sync"
	"time"
)

// A Source is the networks in which an address is counted, since one customer of a provider may have all addresses of any
// of them. The zero Source is of all addresses that cannot be read.
type Source struct {
	host netip.Addr // an IPv4 address, or the /64 of an IPv6 address, which is the least that one customer is given
	wide netip.Addr // the /24, or the /56
	site netip.Addr // the /48, which is the most; not of IPv4
}

// How much more passes from a wider network than from one host.
const (
	timesOf24 = 64
	timesOf56 = 4
	timesOf48 = 16
)

// SourceOf are the networks of an address.
func SourceOf(address string) Source {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return Source{}
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return Source{host: ip, wide: first(ip, 24)}
	}
	return Source{first(ip, 64), first(ip, 56), first(ip, 48)}
}

// first is the first address of a network of so many bits.
func first(ip netip.Addr, bits int) netip.Addr {
	p, _ := ip.Prefix(bits) // no error: every IPv4 address has 24 bits, every other 64
	return p.Addr()
}

// Line is the largest network that one customer of a provider commonly has: an IPv4 address, or the /48 of an IPv6 address.
func (s Source) Line() netip.Addr {
	if s.site.IsValid() {
		return s.site
	}
	return s.host
}

// Sources hold the buckets of sources, apart for each key, such as who is asked. A request counts in all networks of its
// source at once: IPv4 with the rate, a /24 with 64 times the rate; an IPv6 /64 with the rate, a /56 with 4 times and a /48 with
// 16 times the rate. Use NewSources.
type Sources[K comparable] struct {
	mu                    sync.Mutex
	hosts, v4, wide, site table[network[K]]
}

type network[K comparable] struct {
	of    K
	first netip.Addr
}

// NewSources makes buckets of one rate for hosts, all full, of which at most "most" are kept, and half as many of each kind of wider
// networks.
func NewSources[K comparable](r Rate, most int) *Sources[K] {
	return &Sources[K]{
		hosts: newTable[network[K]](r, 1, most),
		v4:    newTable[network[K]](r, timesOf24, most/2),
		wide:  newTable[network[K]](r, timesOf56, most/2),
		site:  newTable[network[K]](r, timesOf48, most/2),
	}
}

// Take counts one request from a source. It is refused if one of the buckets is empty, and then costs none of them anything. The Count
// is that of the bucket with the least left.
func (b *Sources[K]) Take(k K, s Source, now time.Time) (c Count) {
	if b.hosts.count == 0 {
		return Count{}
	}
	at := now.UnixNano()
	b.mu.Lock()
	defer b.mu.Unlock()
	type one struct {
		in      *table[network[K]]
		network network[K]
		fullAt  int64
		refused bool
	}
	var counted [3]one
	n := 0
	count := func(in *table[network[K]], of netip.Addr) {
		here := &counted[n]
		here.in, here.network = in, network[K]{k, of}
		var answer Count
		here.fullAt, answer = in.look(here.network, at)
		here.refused = answer.Refused
		c = Least(c, answer)
		n++
	}
	count(&b.hosts, s.host)
	switch {
	case s.site.IsValid():
		count(&b.wide, s.wide)
		count(&b.site, s.site)
	case s.wide.IsValid():
		count(&b.v4, s.wide)
	}
	for _, here := range counted[:n] {
		if here.refused == c.Refused { // an empty bucket is kept in mind, a full one is not begun
			here.in.keep(here.network, here.fullAt)
		}
	}
	return c
}

// Len is how many buckets are kept.
func (b *Sources[K]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hosts.len() + b.v4.len() + b.wide.len() + b.site.len()
}
