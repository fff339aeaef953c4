package pace

import (
	"net/netip"
	"sync"
	"time"
)

// A Source is the networks of an IP address for which its requests are counted, since one customer of a provider may have all
// addresses of any of them. All addresses that don't parse share the zero Source.
type Source struct {
	host netip.Addr // the IPv4 address, or the IPv6 /64, the smallest network that a customer gets
	wide netip.Addr // the IPv4 /24, or the IPv6 /56
	site netip.Addr // the IPv6 /48, the largest network that a customer gets; invalid for IPv4
}

// The limits of wider networks, as multiples of a host's rate.
const (
	timesOf24 = 64
	timesOf56 = 4
	timesOf48 = 16
)

// SourceOf returns the Source of an IP address.
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

// first returns the first address of ip's network with a prefix of that many bits.
func first(ip netip.Addr, bits int) netip.Addr {
	p, _ := ip.Prefix(bits) // no error: every IPv4 address has 24 bits, every other 64
	return p.Addr()
}

// Line returns the largest network that one customer of a provider commonly has: an IPv4 address, or the /48 of an IPv6 address.
func (s Source) Line() netip.Addr {
	if s.site.IsValid() {
		return s.site
	}
	return s.host
}

// Sources are the token buckets of sources, separate for each key, such as an organization. A request counts in all networks of
// its source at once. An IPv4 address has the rate, a /24 has 64 times the rate; an IPv6 /64 has the rate, a /56 has 4 times and a
// /48 has 16 times the rate. Use NewSources.
type Sources[K comparable] struct {
	mu                    sync.Mutex
	hosts, v4, wide, site table[network[K]]
}

type network[K comparable] struct {
	of    K
	first netip.Addr
}

// NewSources returns Sources with a rate for hosts, all buckets full. At most "most" buckets of hosts are kept, and half as many of each
// kind of wider network.
func NewSources[K comparable](r Rate, most int) *Sources[K] {
	return &Sources[K]{
		hosts: newTable[network[K]](r, 1, most),
		v4:    newTable[network[K]](r, timesOf24, most/2),
		wide:  newTable[network[K]](r, timesOf56, most/2),
		site:  newTable[network[K]](r, timesOf48, most/2),
	}
}

// Take counts one request of key k from a source. It is refused if one of the buckets is empty, and then costs no token. The Count is that
// of the bucket with the least left.
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
		if here.refused == c.Refused { // a refusal keeps only empty buckets in memory
			here.in.keep(here.network, here.fullAt)
		}
	}
	return c
}

// Len returns the number of buckets in memory.
func (b *Sources[K]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hosts.len() + b.v4.len() + b.wide.len() + b.site.len()
}
