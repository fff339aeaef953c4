package ledger

import (
	"container/list"
	"context"
	"slices"

	"cloister/enclave/internal/org"
)

// A lockQueue hands an organization's turn from step to step. A step over a sub-organization and
// its parent gets both turns at once: it holds none while it waits for the other.
//
// Claims for one organization stand in one line. The organization's own line and those of
// its sub-organizations alternate, and each of the latter gets one turn before any gets its
// next. So however many requests of one organization wait, they cost the others every
// second turn, or one turn of each round.
//
// If a step over both is next and the sub-organization's turn is taken, the next claim in line goes
// first, and the sub-organization starts nothing else before the step over both. So the parent
// waits for nobody, the sub-organization for two turns of the parent at most, and nobody for ever:
// it is kept free for a step that waits for the parent alone, whose turns end by themselves.
//
// The ledger's mutex of turns guards it. Nothing is locked under that.
type lockQueue struct {
	locked      bool
	reservedFor *waiter // free for this one alone
	own         fifo
	children    list.List                // of *line, of other organizations; the next one in front
	byChild     map[org.ID]*list.Element // of below
	lastWasOwn  bool                     // the last turn was own's
	// parent is the parent while pairs steps over both wait in its queue.
	parent      *organization
	pairWaiters int
}

// A fifo are the claims of one organization, the oldest first.
type fifo struct{ waiters []*waiter }

// A waiter is a step that waits for the turns of organization and, if not nil, above.
type waiter struct {
	organization, parent *organization
	requestedBy          org.ID
	granted              chan struct{}
}

// queueOwner has the queue that the claim waits in.
func (c *waiter) queueOwner() *organization {
	if c.parent != nil {
		return c.parent
	}
	return c.organization
}

// canLock tells whether a step over o and above (if not nil) can start now. c is its claim or nil.
func canLock(o, parent *organization, c *waiter) bool {
	return o.lockQueue.isFreeFor(c) && (parent == nil || parent.lockQueue.isFreeFor(c))
}

// setLocked says whether a step over o, and above if there is one, has their turns.
func setLocked(o, parent *organization, taken bool) {
	o.lockQueue.locked = taken
	if parent != nil {
		parent.lockQueue.locked = taken
	}
}

func (q *lockQueue) isFreeFor(c *waiter) bool {
	return !q.locked && (q.reservedFor == nil || q.reservedFor == c)
}

// acquire takes the turns of o and above (if not nil) for organization by. ctx bounds the waiting.
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
	case <-c.granted: // meanwhile
		return nil
	default:
	}
	c.dequeue()
	o.grantWaiting()
	return ErrBusy
}

// release gives back what enter took.
func release(o, parent *organization) {
	mu := &o.ledger.locks
	mu.Lock()
	defer mu.Unlock()
	setLocked(o, parent, false)
	if parent != nil {
		o.grantNext() // its own steps come between two that are over both
		o = parent
	}
	o.grantWaiting()
}

// lock and unlock are enter and leave for the ledger itself.
func (o *organization) lock()   { _ = acquire(context.Background(), o, nil, o.id) }
func (o *organization) unlock() { release(o, nil) }

// tryLock is lock if the turn is free.
func (o *organization) tryLock() bool {
	o.ledger.locks.Lock()
	defer o.ledger.locks.Unlock()
	if !canLock(o, nil, nil) {
		return false
	}
	o.lockQueue.locked = true
	return true
}

// The mutex of turns is held in what follows.

// grantWaiting starts what can start now that the turn of o is free.
func (o *organization) grantWaiting() {
	if parent := o.lockQueue.parent; parent != nil {
		parent.grantNext()
	}
	o.grantNext()
}

// grantNext starts the step whose turn it is in o's queue.
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
		if !passed && c.organization.lockQueue.reservedFor == nil { // o is free, so it is the sub-organization that is not
			c.organization.lockQueue.reservedFor = c
		}
		passed = true
	}
	if len(q.own.waiters) > 0 {
		q.own.waiters[0].grant()
	}
}

// enqueue puts the claim into its line.
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

// dequeue takes the claim out of its line again.
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
	if cs[0] == c { // always, unless c gives up
		cs[0] = nil
		return cs[1:]
	}
	i := slices.Index(cs, c)
	return slices.Delete(cs, i, i+1)
}

// grant takes the turns that the claim is for.
func (c *waiter) grant() {
	c.dequeue()
	setLocked(c.organization, c.parent, true)
	q := &c.queueOwner().lockQueue
	q.lastWasOwn = c.requestedBy == c.queueOwner().id
	if e := q.byChild[c.requestedBy]; e != nil {
		q.children.MoveToBack(e) // with the next one, behind the others
	}
	close(c.granted)
}
