package keys

import (
	"container/list"
	"sync"
)

// A Cache is an LRU cache of derived keys, bounded in number and in bytes (see scheme.footprint).
// An evicted key is wiped once its last user is done. K identifies an account; it must not be
// secret. A Cache is safe for concurrent use.
type Cache[K comparable] struct {
	count, bytes int

	mu     sync.Mutex
	by     map[K]*cached[K]
	recent list.List // of *cached[K], most recently used first
	stats  CacheStats
}

type cached[K comparable] struct {
	id    K
	key   *PrivateKey
	place *list.Element
	users int
	gone  bool // evicted: the last user wipes it
}

// CacheStats are the counters of a Cache. Keys that were evicted and are still in use are in
// memory in addition to Keys.
type CacheStats struct {
	Keys, Bytes             int
	Hits, Misses, Evictions uint64
}

// NewCache makes a cache of at most count keys and bytes bytes. If either is zero, it caches
// nothing.
func NewCache[K comparable](count, bytes int) *Cache[K] {
	return &Cache[K]{count: count, bytes: bytes, by: make(map[K]*cached[K])}
}

// With calls use with the key of id, which use must not keep or wipe. If the key is not cached,
// derive makes it, outside the cache's lock, and the cache owns it from then on. Errors of
// either function are returned unchanged.
func (c *Cache[K]) With(id K, derive func() (*PrivateKey, error), use func(*PrivateKey) error) error {
	e := c.find(id)
	if e == nil {
		k, err := derive()
		if err != nil {
			return err
		}
		e = c.insert(id, k)
	}
	defer c.release(e)
	return use(e.key)
}

// find returns the entry of id and counts one more user of it; nil if it is not cached.
func (c *Cache[K]) find(id K) *cached[K] {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.by[id]
	if e == nil {
		c.stats.Misses++
		return nil
	}
	c.stats.Hits++
	c.recent.MoveToFront(e.place)
	e.users++
	return e
}

// insert adds a new key and counts its user. If another caller was first, that caller's key is
// returned and k is wiped.
func (c *Cache[K]) insert(id K, k *PrivateKey) *cached[K] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.by[id]; e != nil {
		if e.key != k {
			k.Wipe()
		}
		e.users++
		return e
	}
	e := &cached[K]{id: id, key: k, users: 1}
	e.place = c.recent.PushFront(e)
	c.by[id] = e
	c.stats.Keys++
	c.stats.Bytes += schemes[k.curve].footprint
	for c.stats.Keys > c.count || c.stats.Bytes > c.bytes {
		c.stats.Evictions++
		c.remove(c.recent.Back().Value.(*cached[K]))
	}
	return e
}

// remove evicts an entry. The caller holds c.mu.
func (c *Cache[K]) remove(e *cached[K]) {
	c.recent.Remove(e.place)
	delete(c.by, e.id)
	c.stats.Keys--
	c.stats.Bytes -= schemes[e.key.curve].footprint
	e.gone = true
	if e.users == 0 {
		e.key.Wipe()
	}
}

func (c *Cache[K]) release(e *cached[K]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.users--; e.users == 0 && e.gone {
		e.key.Wipe()
	}
}

// Drop removes the keys whose id matches, and returns their number.
func (c *Cache[K]) Drop(match func(K) bool) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.by {
		if match(id) {
			c.remove(e)
			n++
		}
	}
	return n
}

// Purge removes every key.
func (c *Cache[K]) Purge() { c.Drop(func(K) bool { return true }) }

// Stats returns the cache's counters.
func (c *Cache[K]) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}
