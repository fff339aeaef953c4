package ledger

import (
	"container/list"
	"context"
	"slices"

	"cloister/enclave/internal/org"
)

// A lockQueue grants an organization's lock to the transactions that wait for it. Its rules:
//
//  1. Requests of the organization itself and those of its sub-organizations alternate.
//  2. Sub-organizations are served round-robin: each gets the lock once before any gets it again. So
//     however many requests of one organization wait, they cost the others every second grant, or one grant of
//     each round.
//  3. A transaction over a sub-organization and its parent gets both locks at once, and holds none while it
//     waits for the other. If it is next in the parent's queue and the sub-organization is locked, the parent
//     serves the next waiter, and the sub-organization is reserved: it starts nothing else before that
//     transaction.
//  4. So the parent never waits, and the sub-organization waits for two transactions of the parent at most:
//     it is reserved for one that waits for the parent alone, whose transactions end by themselves.
//
// The ledger's mutex locks guards it. No other mutex is locked while that is held.
type lockQueue struct {
	locked      bool
	reservedFor *waiter // the only waiter that may lock it next; nil: any
	own         fifo
	children    list.List                // of *fifo, one for each sub-organization with waiters; the next one in front
	byChild     map[org.ID]*list.Element // elements of children
	lastWasOwn  bool                     // the last grant was to own
	// parent is the organization's parent while transactions over both wait in the parent's queue; pairWaiters is their number.
	parent      *organization
	pairWaiters int
}

// A fifo is the queue of one organization's waiters, the oldest first.
type fifo struct{ waiters []*waiter }

// A waiter is a transaction that waits for the lock of organization and, if that is not nil, of parent.
// requestedBy is the organization on whose behalf it runs.
type waiter struct {
	organization, parent *organization
	requestedBy          org.ID
	granted              chan struct{}
}

// queueOwner returns the organization in whose queue the waiter is: the parent, if it waits for both.
func (c *waiter) queueOwner() *organization {
	if c.parent != nil {
		return c.parent
	}
	return c.organization
}

// canLock reports whether a transaction over o and parent (if not nil) can start now. c is its waiter, or nil
// if it has not waited.
func canLock(o, parent *organization, c *waiter) bool {
	return o.lockQueue.isFreeFor(c) && (parent == nil || parent.lockQueue.isFreeFor(c))
}

// setLocked marks o, and parent if it is not nil, as locked or free.
func setLocked(o, parent *organization, taken bool) {
	o.lockQueue.locked = taken
	if parent != nil {
		parent.lockQueue.locked = taken
	}
}

func (q *lockQueue) isFreeFor(c *waiter) bool {
	return !q.locked && (q.reservedFor == nil || q.reservedFor == c)
}

// acquire locks o and parent (if not nil) on behalf of organization by. It returns ErrBusy if ctx ends first.
func acquire(ctx context.Context, o, parent *organization, by org.ID) error {
	mu := &o.ledger.locks
	mu.Lock()
	if canLock(o, parent, nil) {
		setLocked(o, parent, true)
		mu.Unlock()
		return nil
	}
	c := &waiter{organization: o, parent: parent, requestedBy: by, granted: make(chan struct{})}
	c.enqueue()
	mu.Unlock()
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	select {
	case <-c.granted: // granted meanwhile
		return nil
	default:
	}
	c.dequeue()
	o.grantWaiting()
	return ErrBusy
}

// release unlocks what acquire has locked.
func release(o, parent *organization) {
	mu := &o.ledger.locks
	mu.Lock()
	defer mu.Unlock()
	setLocked(o, parent, false)
	if parent != nil {
		o.grantNext() // o's own transactions alternate with those over both
		o = parent
	}
	o.grantWaiting()
}

// lock and unlock lock the organization for the ledger itself, as a request of the organization.
func (o *organization) lock()   { _ = acquire(context.Background(), o, nil, o.id) }
func (o *organization) unlock() { release(o, nil) }

// tryLock locks the organization if that is possible at once.
func (o *organization) tryLock() bool {
	o.ledger.locks.Lock()
	defer o.ledger.locks.Unlock()
	if !canLock(o, nil, nil) {
		return false
	}
	o.lockQueue.locked = true
	return true
}

// The functions from here on need the mutex locks to be held.

// grantWaiting starts the transactions that can start after o was unlocked.
func (o *organization) grantWaiting() {
	if parent := o.lockQueue.parent; parent != nil {
		parent.grantNext()
	}
	o.grantNext()
}

// grantNext starts the next transaction of o's queue.
func (o *organization) grantNext() {
	q := &o.lockQueue
	switch {
	case q.locked:
		return
	case q.reservedFor != nil:
		if canLock(q.reservedFor.organization, q.reservedFor.parent, q.reservedFor) {
			q.reservedFor.grant()
		}
		return
	case len(q.own.waiters) > 0 && !q.lastWasOwn:
		q.own.waiters[0].grant()
		return
	}
	passed := false
	for e := q.children.Front(); e != nil; e = e.Next() {
		c := e.Value.(*fifo).waiters[0]
		if canLock(c.organization, c.parent, c) {
			c.grant()
			return
		}
		if !passed && c.organization.lockQueue.reservedFor == nil { // o is free, so the sub-organization is locked
			c.organization.lockQueue.reservedFor = c
		}
		passed = true
	}
	if len(q.own.waiters) > 0 {
		q.own.waiters[0].grant()
	}
}

// enqueue adds the waiter to its queue.
func (c *waiter) enqueue() {
	q := &c.queueOwner().lockQueue
	c.organization.ledger.lockWaiters++
	if c.parent != nil {
		c.organization.lockQueue.parent = c.parent
		c.organization.lockQueue.pairWaiters++
	}
	if c.requestedBy == c.queueOwner().id {
		q.own.waiters = append(q.own.waiters, c)
		return
	}
	e := q.byChild[c.requestedBy]
	if e == nil {
		if q.byChild == nil {
			q.byChild = map[org.ID]*list.Element{}
		}
		e = q.children.PushBack(&fifo{})
		q.byChild[c.requestedBy] = e
	}
	l := e.Value.(*fifo)
	l.waiters = append(l.waiters, c)
}

// dequeue removes the waiter from its queue.
func (c *waiter) dequeue() {
	q := &c.queueOwner().lockQueue
	c.organization.ledger.lockWaiters--
	if c.parent != nil {
		if c.organization.lockQueue.pairWaiters--; c.organization.lockQueue.pairWaiters == 0 {
			c.organization.lockQueue.parent = nil
		}
		if c.organization.lockQueue.reservedFor == c {
			c.organization.lockQueue.reservedFor = nil
		}
	}
	if c.requestedBy == c.queueOwner().id {
		q.own.waiters = removeWaiter(q.own.waiters, c)
		return
	}
	e := q.byChild[c.requestedBy]
	l := e.Value.(*fifo)
	if l.waiters = removeWaiter(l.waiters, c); len(l.waiters) == 0 {
		q.children.Remove(e)
		delete(q.byChild, c.requestedBy)
	}
}

func removeWaiter(cs []*waiter, c *waiter) []*waiter {
	if cs[0] == c { // always, unless c's context has ended
		cs[0] = nil
		return cs[1:]
	}
	i := slices.Index(cs, c)
	return slices.Delete(cs, i, i+1)
}

// grant locks the waiter's organizations and starts its transaction.
func (c *waiter) grant() {
	c.dequeue()
	setLocked(c.organization, c.parent, true)
	q := &c.queueOwner().lockQueue
	q.lastWasOwn = c.requestedBy == c.queueOwner().id
	if e := q.byChild[c.requestedBy]; e != nil {
		q.children.MoveToBack(e) // its other waiters come after those of the other sub-organizations
	}
	close(c.granted)
}
