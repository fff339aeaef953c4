// Package fairqueue is a fair queue for the enclave's processors. It divides them equally among tenants, within a tenant
// between its own users and its sub-organizations, and among those. A task is one run of a transaction, or the reading of a
// large body.
//
// At most as many tasks compute at a time as there are slots. If more wait, the next slot goes to
// the customer that has used the least: start-time fair queueing (Goyal, Vin, Cheng, 1996) in two levels.
// The time of a task is measured while it runs and charged afterwards, so it need not be known
// beforehand, and a customer that used little is served at once.
//
// A task that has computed for about a millisecond is long. Long tasks leave one slot to the
// others: while every processor computes, Go's runtime polls the network only every 10 ms,
// and each request makes several hops. A long task is recognized by its pauses and not by the clock, which goes on
// while a short task waits for the kernel to give it a processor.
package fairqueue

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"cloister/enclave/internal/org"
)

const (
	// pauseAfter is how long a task computes before it checks whether others are waiting.
	pauseAfter = 250 * time.Microsecond
	// longAfter is how much a long task has computed, of which each stretch between two pauses counts as pauseAfter
	// at most: with the third pause it is long.
	longAfter = 600 * time.Microsecond
	// stretchAfter is how long a last stretch takes that makes a task long, though it did not pause.
	stretchAfter = 4 * time.Millisecond
	// holdFor is how long a task keeps its slot from those that have used about as much: giving way more often
	// makes all of many equal tasks late.
	holdFor = 5 * time.Millisecond
	// apart is the difference in use beyond which the other customer gets the slot at the next pause.
	apart = 10 * time.Millisecond
	// credit bounds how far a customer's counted use may be behind that of the others.
	credit = 20 * time.Millisecond
	// maxCharge bounds what one charge counts: no task computes for longer without a pause, but the kernel may let one wait, and a
	// clock may jump.
	maxCharge = 50 * time.Millisecond
	// maxFlows is how many flows are kept before the first sweep of those that can be forgotten.
	maxFlows = 1 << 14
)

// Config is what a Queue is made with.
type Config struct {
	Slots int // how many tasks compute at a time, at least 1
	// Elapsed is a monotonic clock.
	Elapsed func() time.Duration
	// Yield lets another thread have the processor that the calling one has; or nil. Without it, a thread that
	// was woken waits for the kernel to take the processor from one that computes.
	Yield func()
}

// A Queue is a fair queue for processors. It is for concurrent use.
type Queue struct {
	cfg Config

	mu        sync.Mutex
	free      int     // slots
	long      []*Slot // that long tasks have
	level             // of customers
	customers map[customerID]*customer
	flows     int // of all customers
	sweepAt   int // how many flows there must be for the next look
	arrived   uint64
	stats     Stats
}

// Stats are what a Queue has counted since it was made.
type Stats struct {
	Used     time.Duration // processor time of all tasks
	Waited   time.Duration // by tasks that did not get a slot at once, before they began
	Waits    uint64        // such tasks
	Long     uint64        // tasks that were long
	GaveWay  uint64        // how often a task gave its slot to another before it had ended
	Abandons uint64        // tasks that ended before they got a slot
	Longest  time.Duration // that a task computed without a pause
}

// New makes a queue whose slots are free.
func New(cfg Config) *Queue {
	return &Queue{cfg: cfg, free: cfg.Slots, long: make([]*Slot, 0, cfg.Slots), level: level{virtual: credit}, customers: map[customerID]*customer{}, sweepAt: maxFlows}
}

// An Owner says for whom a task computes. A tenant's own users have as much as all its sub-organizations together.
type Owner struct {
	Tenant org.ID // the organization of the top level
	// Locked is the organization that the transaction has locked: it is as urgent as that one's own, since
	// those wait for it. The parent, if that is locked too.
	Locked org.ID
	// Payer is charged: Turn, or a sub-organization of Tenant.
	Payer org.ID
}

// A class tells long tasks from the others.
type class uint8

const (
	short class = iota
	long
	classes
)

// A flow is what a customer, or one of a customer's organizations, uses and waits for.
type flow struct {
	of      *customer
	finish  time.Duration // the virtual time at which what it has used ends
	mean    mean          // of the tasks
	uses    int           // slots that it has or waits for
	waiting [classes][]*Slot
	arrival uint64       // of who waited first when the flow came into a heap
	at      [classes]int // in the level's heaps, from 1; 0: not in it
}

// A customer is the own users of a tenant, or its sub-organizations: a flow that is divided among the flows of organizations.
type customer struct {
	flow
	level
	organizations map[org.ID]*flow
}

type customerID struct {
	tenant           org.ID
	subOrganizations bool // the sub-organizations
}

// A Slot is leave to compute. The zero Slot is none. It belongs to one goroutine.
type Slot struct {
	queue         *Queue
	locked, payer *flow // of organizations
	class         class
	learned       bool             // the customer's mean has it already
	since, looked time.Duration    // when it got the slot; when it was charged last
	used          time.Duration    // so far
	shown         time.Duration    // of that, what counts for being long
	start         [2]time.Duration // virtual times of the payer's customer and of the payer, when it got the slot
	granted       chan struct{}    // closed when it has the slot; only of one that waits
}

// Acquire waits for a slot, which s holds until Release. It returns the context's error if that ends first. A task with a slot
// must not acquire another.
func (q *Queue) Acquire(ctx context.Context, s *Slot, o Owner) error {
	q.mu.Lock()
	q.sweepLocked()
	*s = Slot{queue: q, locked: q.flowLocked(o.Tenant, o.Locked)}
	if s.payer = s.locked; o.Payer != o.Locked {
		s.payer = q.flowLocked(o.Tenant, o.Payer)
	}
	s.useLocked(1)
	if s.class = s.usual(); q.mayLocked(s.class) {
		q.startLocked(s)
		q.mu.Unlock()
		return nil
	}
	q.stats.Waits++
	q.waitLocked(s, false)
	q.mu.Unlock()
	began := q.cfg.Elapsed()
	var err error
	select {
	case <-s.granted:
	case <-ctx.Done():
		err = ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats.Waited += max(q.cfg.Elapsed()-began, 0)
	if err == nil {
		return nil
	}
	select {
	case <-s.granted: // meanwhile
		return nil
	default:
	}
	q.stats.Abandons++
	q.unwaitLocked(s)
	s.useLocked(-1)
	return err
}

// Release gives the slot back, once, and returns for how long it was used. It may be nil or none.
func (s *Slot) Release() time.Duration {
	if s == nil || s.queue == nil {
		return 0
	}
	q := s.queue
	now := q.cfg.Elapsed()
	q.mu.Lock()
	defer q.mu.Unlock()
	if now-s.looked >= stretchAfter {
		s.shown += longAfter
	}
	s.chargeLocked(now)
	if s.shown >= longAfter {
		q.stats.Long++
	}
	if s.payer.mean.addSample(s.shown); !s.learned {
		s.payer.of.mean.addSample(s.shown)
	}
	q.stopLocked(s)
	s.useLocked(-1)
	q.grantLocked()
	used := s.used
	*s = Slot{}
	return used
}

// Used is for how long the slot was used so far.
func (s *Slot) Used() time.Duration {
	if s.queue == nil {
		return 0
	}
	return s.used + min(max(s.queue.cfg.Elapsed()-s.looked, 0), maxCharge)
}

// Pause is called by a task in every loop that may take long, with nothing locked and no secret at hand. It gives its
// slot to a waiting task that comes first.
func (s *Slot) Pause() {
	q := s.queue
	if q == nil {
		return
	}
	now := q.cfg.Elapsed()
	if now-s.looked < pauseAfter {
		return
	}
	q.mu.Lock()
	s.chargeLocked(now)
	if s.class == short && s.shown >= longAfter {
		s.class = long
		q.long = append(q.long, s)
		s.payer.of.mean.addSample(s.shown) // so that the others' are known for what they are before this one ends
		s.learned = true
	}
	if !q.givesLocked(s, now) {
		q.mu.Unlock()
		if q.cfg.Yield != nil {
			q.cfg.Yield()
		}
		runtime.Gosched() // to what serves everybody: frames, batches
		s.looked = q.cfg.Elapsed()
		return
	}
	q.stats.GaveWay++
	q.stopLocked(s)
	q.waitLocked(s, true)
	q.grantLocked()
	q.mu.Unlock()
	<-s.granted
}

// Stats are the counts so far.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}

// The queue's mutex is held in what follows.

// maxLong is how many slots long tasks may have: all but one, if there are more.
func (q *Queue) maxLong() int { return max(q.cfg.Slots-1, 1) }

func (q *Queue) mayLocked(c class) bool {
	return q.free > 0 && (c == short || len(q.long) < q.maxLong())
}

// flowLocked is that of an organization.
func (q *Queue) flowLocked(tenant, id org.ID) *flow {
	of := customerID{tenant, id != tenant}
	c := q.customers[of]
	if c == nil {
		c = &customer{level: level{virtual: credit}, organizations: map[org.ID]*flow{}}
		c.of = c
		q.customers[of] = c
	}
	f := c.organizations[id]
	if f == nil {
		f = &flow{of: c}
		c.organizations[id] = f
		q.flows++
	}
	return f
}

// sweepLocked forgets, now and then, flows that nobody uses and that have used no more than others.
func (q *Queue) sweepLocked() {
	if q.flows < q.sweepAt {
		return
	}
	for id, c := range q.customers {
		for oid, f := range c.organizations {
			if f.uses == 0 && f.finish <= c.virtual {
				delete(c.organizations, oid)
				q.flows--
			}
		}
		if len(c.organizations) == 0 && c.finish <= q.virtual {
			delete(q.customers, id)
		}
	}
	q.sweepAt = max(maxFlows, 2*q.flows) // so that looking costs each that comes little
}

// usual is the class of a task that has not begun: that of its organization's last ones. A sub-organization without
// a past is taken for one like the tenant's others.
func (s *Slot) usual() class {
	if s.payer.mean.long() || s.payer.of.mean.long() {
		return long
	}
	return short
}

// startLocked gives a slot that is free.
func (q *Queue) startLocked(s *Slot) {
	c, payer := s.locked.of, s.payer.of
	q.virtual, c.virtual = max(q.virtual, q.tag(&c.flow)), max(c.virtual, c.tag(s.locked))
	s.start = [2]time.Duration{q.tag(&payer.flow), payer.tag(s.payer)}
	q.free--
	if s.class == long {
		q.long = append(q.long, s)
	}
	s.since = q.cfg.Elapsed()
	s.looked = s.since
}

// stopLocked takes the slot away.
func (q *Queue) stopLocked(s *Slot) {
	q.free++
	if s.class == long {
		i := slices.Index(q.long, s)
		q.long = slices.Delete(q.long, i, i+1)
	}
}

// useLocked counts that s has a slot or waits for one (1), or does so no longer (-1).
func (s *Slot) useLocked(n int) {
	s.payer.uses += n
	if s.locked != s.payer {
		s.locked.uses += n
	}
}

// chargeLocked counts what was computed since the last charge.
func (s *Slot) chargeLocked(now time.Duration) {
	d := min(max(now-s.looked, 0), maxCharge)
	s.looked = now
	s.used += d
	s.shown += min(d, pauseAfter)
	s.queue.stats.Used += d
	s.queue.stats.Longest = max(s.queue.stats.Longest, d)
	s.queue.chargeLocked(&s.payer.of.flow, s.start[0], d)
	s.payer.of.chargeLocked(s.payer, s.start[1], d)
}

// waitLocked puts s into its flow's line: behind the others, or before them if it has begun.
func (q *Queue) waitLocked(s *Slot, begun bool) {
	if s.granted == nil || begun {
		s.granted = make(chan struct{})
	}
	q.arrived++
	at := len(s.locked.waiting[s.class])
	if begun {
		at = 0
	}
	s.locked.waiting[s.class] = slices.Insert(s.locked.waiting[s.class], at, s)
	s.locked.of.pushLocked(s.locked, s.class, q.arrived)
	q.pushLocked(&s.locked.of.flow, s.class, q.arrived)
}

// unwaitLocked takes s out of its flow's line.
func (q *Queue) unwaitLocked(s *Slot) {
	line := &s.locked.waiting[s.class]
	i := slices.Index(*line, s)
	if *line = slices.Delete(*line, i, i+1); len(*line) > 0 {
		return
	}
	*line = nil
	if s.locked.of.removeLocked(s.locked, s.class); len(s.locked.of.heaps[s.class].flows) == 0 {
		q.removeLocked(&s.locked.of.flow, s.class)
	}
}

// grantLocked gives away what is free.
func (q *Queue) grantLocked() {
	for q.free > 0 {
		s := q.nextLocked(len(q.long))
		if s == nil {
			return
		}
		q.unwaitLocked(s)
		q.startLocked(s)
		close(s.granted)
	}
}

// nextLocked is who gets the next slot while long tasks have so many, or nil.
func (q *Queue) nextLocked(taken int) *Slot {
	for {
		first, _ := q.firstLocked(taken < q.maxLong())
		if first == nil {
			return nil
		}
		next, c := first.of.firstLocked(taken < q.maxLong())
		s := next.waiting[c][0]
		if c == long || s.used > 0 || s.usual() == short {
			return s
		}
		// Since it came, the organization or its like have shown that their tasks are long.
		q.unwaitLocked(s)
		s.class = long
		q.waitLocked(s, false)
	}
}

// givesLocked tells whether s, which has a slot, gives it up: it is long, and one too many of which it has used most, or
// somebody who waits has used less. A short one ends soon.
func (q *Queue) givesLocked(s *Slot, now time.Duration) bool {
	if s.class == short {
		return false
	}
	if len(q.long) > q.maxLong() && !slices.ContainsFunc(q.long, func(other *Slot) bool { return s.ahead(other) > 0 }) {
		return true
	}
	next := q.nextLocked(len(q.long) - 1)
	if next == nil {
		return false
	}
	ahead := next.ahead(s)
	return ahead > apart || ahead > 0 && now-s.since >= holdFor
}

// ahead is by how much less whoever s is for has used than another.
func (s *Slot) ahead(of *Slot) time.Duration {
	if s.locked.of == of.locked.of {
		return of.locked.finish - s.locked.finish
	}
	return of.locked.of.finish - s.locked.of.finish
}
