package stamp

import (
	"sync"
	"sync/atomic"
)

// keyCache caches parsed points by their compressed form, because decompressing costs a square
// root. A key is added only after a signature under it was verified. The cache is bounded, with
// CLOCK eviction: the hand drops the first key that was not used since it last passed. An
// attacker with many keys of his own evicts mainly those.
type keyCache[K any] struct {
	mu    sync.RWMutex
	at    map[[pointSize]byte]int
	slots []slot[K]
	hand  int
}

type slot[K any] struct {
	name [pointSize]byte
	key  *K
	used atomic.Bool
}

func newKeyCache[K any](size int) *keyCache[K] {
	return &keyCache[K]{at: make(map[[pointSize]byte]int), slots: make([]slot[K], size)}
}

// get returns nil for a key that is not cached.
func (c *keyCache[K]) get(name [pointSize]byte) *K {
	c.mu.RLock()
	defer c.mu.RUnlock()
	i, ok := c.at[name]
	if !ok {
		return nil
	}
	s := &c.slots[i]
	if !s.used.Load() { // avoids a write, which would move the cache line between processors
		s.used.Store(true)
	}
	return s.key
}

func (c *keyCache[K]) put(name [pointSize]byte, key *K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.at[name]; ok {
		return
	}
	for c.slots[c.hand].used.Swap(false) {
		c.hand = (c.hand + 1) % len(c.slots)
	}
	s := &c.slots[c.hand]
	if s.key != nil {
		delete(c.at, s.name)
	}
	s.name, s.key = name, key
	c.at[name] = c.hand
	c.hand = (c.hand + 1) % len(c.slots)
}
