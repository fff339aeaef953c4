package stamp

import (
	"sync"
	"sync/atomic"
)

// keyCache keeps parsed points by their compressed form, because finding y costs a square
// root. A key enters only after a signature under it verified. The cache is bounded: when it is
// full the hand of a clock goes round and drops the first key that was not used since its last
// round. An attacker who makes up keys drops his own first.
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

// get returns nil for a key that is not kept.
func (c *keyCache[K]) get(name [pointSize]byte) *K {
	c.mu.RLock()
	defer c.mu.RUnlock()
	i, ok := c.at[name]
	if !ok {
		return nil
	}
	s := &c.slots[i]
	if !s.used.Load() { // a store would move the line between processors
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
