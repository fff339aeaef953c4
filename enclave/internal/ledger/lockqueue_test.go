package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
)

// crowd are steps that were put into queues one after another, and the order in
// which they had their turns.
type crowd struct {
	*rig
	wg    sync.WaitGroup
	mu    sync.Mutex
	order []string
}

// hold takes an organization's turn until the function that it answers is called.
func (c *crowd) hold(id org.ID) (release func()) {
	c.t.Helper()
	taken, over := make(chan struct{}), make(chan struct{})
	c.wg.Go(func() {
		if err := c.l.TransactOne(ctx(c.t), id, func(*ledger.Locked) error { close(taken); <-over; return nil }); err != nil {
			c.t.Error(err)
		}
	})
	<-taken
	return func() { close(over) }
}

// queue lets a step wait: over id on behalf of by, or over id and its parent.
func (c *crowd) queue(name string, step func(context.Context, func()) error) {
	c.t.Helper()
	before := c.l.Stats()["turns_waited_for"]
	c.wg.Go(func() {
		err := step(ctx(c.t), func() {
			c.mu.Lock()
			c.order = append(c.order, name)
			c.mu.Unlock()
		})
		if err != nil {
			c.t.Error(name, err)
		}
	})
	c.stat("turns_waited_for", before+1)
}

func (c *crowd) transact(name string, id, by org.ID) {
	c.t.Helper()
	c.queue(name, func(ctx context.Context, f func()) error {
		return c.l.TransactFor(ctx, id, by, func(*ledger.Locked) error { f(); return nil })
	})
}

func (c *crowd) pair(name string, parent, child org.ID) {
	c.t.Helper()
	c.queue(name, func(ctx context.Context, f func()) error {
		return c.l.Pair(ctx, parent, child, func(_, _ *ledger.Locked) error { f(); return nil })
	})
}

// had waits until n steps have had their turns, and tells which.
func (c *crowd) had(n int) []string {
	c.t.Helper()
	at := func() []string { c.mu.Lock(); defer c.mu.Unlock(); return slices.Clone(c.order) }
	eventually(c.t, func() bool { return len(at()) >= n }, func() string { return fmt.Sprint(at()) })
	return at()
}

func newCrowd(t *testing.T, n int) *crowd {
	c := &crowd{rig: start(t, newStore(), nil)}
	for i := range n {
		c.found(orgID(i))
	}
	return c
}

// One sub-organization has sixty steps over itself and its parent under way, and a
// turn of its own that does not end: the parent's own users notice nothing.
func TestParentDoesNotWaitForChild(t *testing.T) {
	c := newCrowd(t, 2)
	parent, child := orgID(0), orgID(1)
	endless := c.hold(child)
	for n := range 60 {
		c.pair(fmt.Sprint("pair ", n), parent, child)
	}
	for n := range 10 {
		c.wg.Go(func() {
			if err := c.l.TransactOne(ctx(t), parent, func(*ledger.Locked) error {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.order = append(c.order, "own")
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
		if got := c.had(n + 1); got[n] != "own" {
			t.Fatal(got)
		}
	}
	endless()
	if got := c.had(70); got[10] != "pair 0" || got[69] != "pair 59" {
		t.Error(got)
	}
	c.wg.Wait()
}

// However many of one sub-organization's requests wait for the parent, the parent's
// own have every second turn, and another sub-organization's one in a round.
func TestTurnsAreShared(t *testing.T) {
	for name, queue := range map[string]func(c *crowd, name string, parent, child org.ID){
		"pairs": (*crowd).pair,
		"turns": (*crowd).transact,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, 4)
			parent := orgID(0)
			release := c.hold(parent)
			for range 60 {
				queue(c, "attacker", parent, orgID(1))
			}
			for range 2 {
				queue(c, "second", parent, orgID(2))
				queue(c, "third", parent, orgID(3))
			}
			for range 4 {
				c.transact("own", parent, parent)
			}
			release()
			got := c.had(68)
			want := []string{"own", "attacker", "own", "second", "own", "third", "own", "attacker", "second", "third", "attacker"}
			if !slices.Equal(got[:len(want)], want) {
				t.Errorf("%v, want %v", got[:len(want)], want)
			}
			c.wg.Wait()
		})
	}
}

// A step over both gets its turn, however busy both are.
func TestPairDoesNotStarve(t *testing.T) {
	c := newCrowd(t, 2)
	parent, child := orgID(0), orgID(1)
	childIsFree, parentIsFree := c.hold(child), c.hold(parent)
	c.pair("both", parent, child)
	for range 10 {
		c.transact("child", child, child)
		c.transact("parent", parent, parent)
	}
	parentIsFree() // its own do not wait for the child
	if got := c.had(10); slices.Contains(got, "both") || slices.Contains(got, "child") {
		t.Fatal(got)
	}
	childIsFree() // which is kept for who was passed by
	if got := c.had(21); got[10] != "both" {
		t.Error(got)
	}
	c.wg.Wait()

	// One that gives up keeps nothing free.
	childIsFree, parentIsFree = c.hold(child), c.hold(parent)
	short, giveUp := context.WithCancel(ctx(t))
	gone := make(chan error, 1)
	go func() {
		gone <- c.l.Pair(short, parent, child, func(_, _ *ledger.Locked) error { return errors.New("taken") })
	}()
	c.stat("turns_waited_for", 1)
	c.order = nil
	c.transact("parent", parent, parent)
	c.transact("child", child, child)
	parentIsFree()
	c.had(1)
	release := c.hold(parent) // so that the child alone being free is not enough
	childIsFree()
	giveUp()
	if err := <-gone; !errors.Is(err, ledger.ErrBusy) {
		t.Error(err)
	}
	if got := c.had(2); got[1] != "child" {
		t.Error(got)
	}
	release()
	c.wg.Wait()
}

// A step over both and the sub-organization's own take turns there.
func TestPairsDoNotStarveTheirChild(t *testing.T) {
	c := newCrowd(t, 2)
	parent, child := orgID(0), orgID(1)
	release := c.hold(child)
	for range 5 {
		c.pair("both", parent, child)
	}
	for range 5 {
		c.transact("child", child, child)
	}
	release()
	got := c.had(10)
	want := []string{"both", "child", "both", "child", "both", "child", "both", "child", "both", "child"}
	if !slices.Equal(got, want) {
		t.Error(got)
	}
	c.wg.Wait()
}

// Whatever waits for whatever, in whatever order, and gives up: nobody shares a turn,
// nobody waits for ever, nothing is left in a queue.
func TestTurnsAtRandom(t *testing.T) {
	const organizations = 6
	c := newCrowd(t, organizations)
	parentOf := func(i int) int { return max(0, i/2-1) } // a chain of three floors
	var in [organizations]atomic.Int32
	step := func(is ...int) func() {
		return func() {
			for _, i := range is {
				if in[i].Add(1) != 1 {
					t.Error("a turn that is two's")
				}
			}
			for _, i := range is {
				in[i].Add(-1)
			}
		}
	}
	var ran, gaveUp atomic.Int64
	for g := range 16 {
		c.wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for range 400 {
				ctx, cancel := context.WithCancel(ctx(t))
				i := 1 + rnd.IntN(organizations-1)
				up := parentOf(i)
				if rnd.IntN(4) == 0 {
					go cancel()
				}
				var err error
				switch rnd.IntN(3) {
				case 0:
					err = c.l.Pair(ctx, orgID(up), orgID(i), func(_, _ *ledger.Locked) error { step(i, up)(); return nil })
				case 1:
					err = c.l.TransactFor(ctx, orgID(up), orgID(i), func(*ledger.Locked) error { step(up)(); return nil })
				default:
					err = c.l.TransactOne(ctx, orgID(i), func(*ledger.Locked) error { step(i)(); return nil })
				}
				cancel()
				switch {
				case err == nil:
					ran.Add(1)
				case errors.Is(err, ledger.ErrBusy):
					gaveUp.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	c.wg.Wait()
	if n := c.l.Stats()["turns_waited_for"]; n != 0 || ran.Load()+gaveUp.Load() != 16*400 || ran.Load() < 16*100 {
		t.Errorf("%d wait, %d ran, %d gave up", n, ran.Load(), gaveUp.Load())
	}
	for i := range organizations { // all free
		if err := c.l.TransactOne(ctx(t), orgID(i), func(*ledger.Locked) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}
