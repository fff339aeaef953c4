package ledger

import (
	"container/list"
	"context"
	"slices"

	"cloister/enclave/internal/org"
)

// A queue hands an organization's turn from step to step. A step over a sub-organization and
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
type queue struct {
	taken   bool
	kept    *claim // free for this one alone
	own     line
	below   list.List                // of *line, of other organizations; the next one in front
	lines   map[org.ID]*list.Element // of below
	lastOwn bool                     // the last turn was own's
	// up is the parent while pairs steps over both wait in its queue.
	up    *organization
	pairs int
}

// A line are the claims of one organization, the oldest first.
type line struct{ claims []*claim }

// A claim is a step that waits for the turns of organization and, if not nil, above.
type claim struct {
	organization, above *organization
	by                  org.ID
	granted             chan struct{}
}

// in has the queue that the claim waits in.
func (c *claim) in() *organization {
	if c.above != nil {
		return c.above
	}
	return c.organization
}

// free tells whether a step over o and above (if not nil) can start now. c is its claim or nil.
func free(o, above *organization, c *claim) bool {
	return o.queue.free(c) && (above == nil || above.queue.free(c))
}

// take says whether a step over o, and above if there is one, has their turns.
func take(o, above *organization, taken bool) {
	o.queue.taken = taken
	if above != nil {
		above.queue.taken = taken
	}
}

func (q *queue) free(c *claim) bool { return !q.taken && (q.kept == nil || q.kept == c) }

// enter takes the turns of o and above (if not nil) for organization by. ctx bounds the waiting.
func enter(ctx context.Context, o, above *organization, by org.ID) error {
	mu := &o.ledger.turns
	mu.Lock()
	if free(o, above, nil) {
		take(o, above, true)
		mu.Unlock()
		return nil
	}
	c := &claim{organization: o, above: above, by: by, granted: make(chan struct{})}
	c.wait()
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
	c.leave()
	o.wake()
	return ErrBusy
}

// leave gives back what enter took.
func leave(o, above *organization) {
	mu := &o.ledger.turns
	mu.Lock()
	defer mu.Unlock()
	take(o, above, false)
	if above != nil {
		o.next() // its own steps come between two that are over both
		o = above
	}
	o.wake()
}

// lock and unlock are enter and leave for the ledger itself.
func (o *organization) lock()   { _ = enter(context.Background(), o, nil, o.id) }
func (o *organization) unlock() { leave(o, nil) }

// tryLock is lock if the turn is free.
func (o *organization) tryLock() bool {
	o.ledger.turns.Lock()
	defer o.ledger.turns.Unlock()
	if !free(o, nil, nil) {
		return false
	}
	o.queue.taken = true
	return true
}

// The mutex of turns is held in what follows.

// wake starts what can start now that the turn of o is free.
func (o *organization) wake() {
	if up := o.queue.up; up != nil {
		up.next()
	}
	o.next()
}

// next starts the step whose turn it is in o's queue.
func (o *organization) next() {
	q := &o.queue
	switch {
	case q.taken:
		return
	case q.kept != nil:
		if free(q.kept.organization, q.kept.above, q.kept) {
			q.kept.start()
		}
		return
	case len(q.own.claims) > 0 && !q.lastOwn:
		q.own.claims[0].start()
		return
	}
	passed := false
	for e := q.below.Front(); e != nil; e = e.Next() {
		c := e.Value.(*line).claims[0]
		if free(c.organization, c.above, c) {
			c.start()
			return
		}
		if !passed && c.organization.queue.kept == nil { // o is free, so it is the sub-organization that is not
			c.organization.queue.kept = c
		}
		passed = true
	}
	if len(q.own.claims) > 0 {
		q.own.claims[0].start()
	}
}

// wait puts the claim into its line.
func (c *claim) wait() {
	q := &c.in().queue
	c.organization.ledger.waiting++
	if c.above != nil {
		c.organization.queue.up = c.above
		c.organization.queue.pairs++
	}
	if c.by == c.in().id {
		q.own.claims = append(q.own.claims, c)
		return
	}
	e := q.lines[c.by]
	if e == nil {
		if q.lines == nil {
			q.lines = map[org.ID]*list.Element{}
		}
		e = q.below.PushBack(&line{})
		q.lines[c.by] = e
	}
	l := e.Value.(*line)
	l.claims = append(l.claims, c)
}

// leave takes the claim out of its line again.
func (c *claim) leave() {
	q := &c.in().queue
	c.organization.ledger.waiting--
	if c.above != nil {
		if c.organization.queue.pairs--; c.organization.queue.pairs == 0 {
			c.organization.queue.up = nil
		}
		if c.organization.queue.kept == c {
			c.organization.queue.kept = nil
		}
	}
	if c.by == c.in().id {
		q.own.claims = without(q.own.claims, c)
		return
	}
	e := q.lines[c.by]
	l := e.Value.(*line)
	if l.claims = without(l.claims, c); len(l.claims) == 0 {
		q.below.Remove(e)
		delete(q.lines, c.by)
	}
}

func without(cs []*claim, c *claim) []*claim {
	if cs[0] == c { // always, unless c gives up
		cs[0] = nil
		return cs[1:]
	}
	i := slices.Index(cs, c)
	return slices.Delete(cs, i, i+1)
}

// start takes the turns that the claim is for.
func (c *claim) start() {
	c.leave()
	take(c.organization, c.above, true)
	q := &c.in().queue
	q.lastOwn = c.by == c.in().id
	if e := q.lines[c.by]; e != nil {
		q.below.MoveToBack(e) // with the next one, behind the others
	}
	close(c.granted)
}
