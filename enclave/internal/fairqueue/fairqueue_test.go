package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloister/enclave/internal/fairqueue"
	"cloister/enclave/internal/org"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// clock is moved by whoever computes.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Duration      { return time.Duration(c.at.Load()) }
func (c *clock) compute(d time.Duration) { c.at.Add(int64(d)) }
func (c *clock) queue(n int) *fairqueue.Queue {
	return fairqueue.New(fairqueue.Config{Slots: n, Elapsed: c.now})
}

// of is sub-organization n of tenant t, or the tenant's own users if n is 0.
func of(t, n byte) fairqueue.Owner {
	id := org.ID{t, n}
	return fairqueue.Owner{Tenant: org.ID{t}, Locked: id, Payer: id}
}

// A world is a queue with one slot taken, in which steps gather.
type world struct {
	t      *testing.T
	clock  clock
	q      *fairqueue.Queue
	holder fairqueue.Slot
	mu     sync.Mutex
	order  []string
	wg     sync.WaitGroup
}

func newWorld(t *testing.T, slots int) *world {
	w := &world{t: t}
	w.q = w.clock.queue(slots)
	return w
}

// hold takes a slot for an organization that nothing else is about.
func (w *world) hold() {
	if err := w.q.Acquire(w.t.Context(), &w.holder, of(255, 0)); err != nil {
		w.t.Error(err)
	}
}

// step waits for a slot, notes its name, computes for d in pieces of 100 us and leaves.
func (w *world) step(name string, o fairqueue.Owner, d time.Duration) {
	w.wg.Go(func() {
		var s fairqueue.Slot
		if err := w.q.Acquire(w.t.Context(), &s, o); err != nil {
			w.t.Error(err)
			return
		}
		w.note(name)
		for ; d > 0; d -= 100 * us {
			w.clock.compute(min(d, 100*us))
			s.Pause()
		}
		s.Release()
	})
	synctest.Wait()
}

// computeLong computes until the step is long: through three pauses.
func (w *world) computeLong(s *fairqueue.Slot) {
	for range 3 {
		w.clock.compute(300 * us)
		s.Pause()
	}
}

func (w *world) note(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order = append(w.order, name)
}

func (w *world) ends(want string) {
	w.t.Helper()
	w.holder.Release()
	w.wg.Wait()
	if got := strings.Join(w.order, " "); got != want {
		w.t.Errorf("in this order: %s\nwant: %s", got, want)
	}
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *world)
		want string
	}{
		{"as they came, if all have used the same", func(w *world) {
			for n := range byte(4) {
				w.step(fmt.Sprint(n), of(n+1, 0), 0)
			}
		}, "0 1 2 3"},
		{"tenants in turn, however many steps one has", func(w *world) {
			for range 4 {
				w.step("a", of(1, 0), 400*us)
			}
			w.step("b", of(2, 0), 400*us)
			w.step("c", of(3, 0), 400*us)
		}, "a b c a a a"},
		{"a tenant's sub-organizations in turn, and its own users beside them", func(w *world) {
			for range 3 {
				w.step("a1", of(1, 1), 400*us)
			}
			w.step("a2", of(1, 2), 400*us)
			w.step("a", of(1, 0), 400*us)
			w.step("b", of(2, 0), 400*us)
		}, "a1 a b a2 a1 a1"},
		{"by what was used and not by how often", func(w *world) {
			w.step("dear", of(1, 0), 400*us)
			for range 3 {
				w.step("cheap", of(2, 0), 100*us)
			}
			w.step("dear", of(1, 0), 400*us)
		}, "dear cheap cheap cheap dear"},
		{"who used nothing for long is not owed it all", func(w *world) {
			w.holder.Release()
			for range 100 { // a second of one tenant's
				w.step("", of(1, 0), 10*ms)
			}
			w.order = nil
			w.hold()
			for range 80 { // it is 30 ms ahead: those that it began last took 10, and 20 are its credit
				w.step("b", of(2, 0), 400*us)
			}
			w.step("a", of(1, 0), 400*us)
		}, strings.Repeat("b ", 76) + "a b b b b"},
		{"a step that holds its parent's turn is as urgent as the parent's, and paid by who asked", func(w *world) {
			w.holder.Release()
			for range 4 { // a1 has used much
				w.step("", of(1, 1), 400*us)
			}
			w.order = nil
			w.hold()
			w.step("a1", of(1, 1), 400*us)
			w.step("a2", of(1, 2), 400*us)
			over := of(1, 1)
			over.Locked = org.ID{1}
			w.step("a1 over a", over, 400*us)
			w.step("a2", of(1, 2), 400*us)
		}, "a1 over a a2 a2 a1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.hold()
			c.do(w)
			t.Log(c.name)
			w.ends(c.want)
		})
	}
}

// One of two slots is never a long step's, whether it becomes long or is expected to.
func TestLongStepsLeaveASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		var a, b fairqueue.Slot
		for i, s := range []*fairqueue.Slot{&a, &b} {
			if err := w.q.Acquire(t.Context(), s, of(byte(i+1), 0)); err != nil {
				t.Fatal(err)
			}
		}
		w.computeLong(&a) // and goes on
		var gone atomic.Bool
		go func() {
			w.computeLong(&b) // would be the second, and has used more by now
			gone.Store(true)
			b.Release()
		}()
		synctest.Wait()
		if gone.Load() {
			t.Fatal("two long steps compute on two processors")
		}
		w.step("quick", of(3, 0), 0) // has the other slot
		a.Release()
		if synctest.Wait(); !gone.Load() {
			t.Error("the one that gave way is not gone on with")
		}
		// Both are known now for long steps: they do not even begin beside each other.
		if err := w.q.Acquire(t.Context(), &a, of(1, 0)); err != nil {
			t.Fatal(err)
		}
		w.step("dear", of(2, 0), 0)
		w.step("quick", of(3, 0), 0)
		if got := fmt.Sprint(w.order); got != "[quick quick]" {
			t.Errorf("%s while a long step computes", got)
		}
		a.Release()
		w.wg.Wait()
		if s := w.q.Stats(); s.Long != 2 || s.GaveWay != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A sub-organization without a past is expected to be like the tenant's others; the tenant's own users are not.
func TestExpectedLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.step("", of(1, 1), 2*ms)
		w.order = nil
		var long fairqueue.Slot
		if err := w.q.Acquire(t.Context(), &long, of(9, 0)); err != nil {
			t.Fatal(err)
		}
		w.computeLong(&long)
		w.step("new sub-organization", of(1, 2), 0)
		w.step("own users", of(1, 0), 0)
		w.step("another's", of(2, 2), 0)
		if got := fmt.Sprint(w.order); got != "[own users another's]" {
			t.Errorf("%s begin beside a long step", got)
		}
		long.Release()
		w.wg.Wait()
		// One that stands out is forgotten.
		for range 8 {
			w.step("", of(1, 1), 0)
		}
		w.order = nil
		if err := w.q.Acquire(t.Context(), &long, of(9, 0)); err != nil {
			t.Fatal(err)
		}
		w.computeLong(&long)
		w.step("quick again", of(1, 1), 0)
		if got := fmt.Sprint(w.order); got != "[quick again]" {
			t.Errorf("%s begins beside a long step", got)
		}
		long.Release()
		w.wg.Wait()
	})
}

// A step that the kernel lets wait for a processor is none the longer for it; one that does not pause is expected to be long the next time.
func TestLateIsNotLong(t *testing.T) {
	for _, c := range []struct {
		name string
		step func(w *world, s *fairqueue.Slot)
		long bool // once it was so four times
	}{
		{"late twice, by three milliseconds", func(w *world, s *fairqueue.Slot) {
			w.clock.compute(3 * ms)
			s.Pause()
			w.clock.compute(3 * ms)
		}, false},
		{"without a pause for fifteen", func(w *world, _ *fairqueue.Slot) { w.clock.compute(15 * ms) }, true},
		{"of three pauses", func(w *world, s *fairqueue.Slot) { w.computeLong(s) }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2)
			for range 4 {
				var s fairqueue.Slot
				if err := w.q.Acquire(t.Context(), &s, of(1, 0)); err != nil {
					t.Fatal(err)
				}
				c.step(w, &s)
				s.Release()
			}
			var long fairqueue.Slot
			if err := w.q.Acquire(t.Context(), &long, of(2, 0)); err != nil {
				t.Fatal(err)
			}
			w.computeLong(&long)
			w.step("begins", of(1, 0), 0)
			if begins := len(w.order) > 0; begins == c.long {
				t.Errorf("%s: it begins beside a long step: %t", c.name, begins)
			}
			long.Release()
			w.wg.Wait()
		})
	}
}

// A step gives way after five milliseconds to who has used less, and not to who has used more.
func TestGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.step("", of(1, 0), 50*ms)
		w.order = nil
		var s fairqueue.Slot
		if err := w.q.Acquire(t.Context(), &s, of(2, 0)); err != nil {
			t.Fatal(err)
		}
		w.step("used more", of(1, 0), 0)
		w.step("used less", of(3, 0), 0)
		for range 4 {
			w.clock.compute(ms)
			s.Pause()
			synctest.Wait()
		}
		if len(w.order) > 0 {
			t.Errorf("%v after 4 ms", w.order)
		}
		w.clock.compute(ms)
		s.Pause()
		if synctest.Wait(); fmt.Sprint(w.order) != "[used less]" {
			t.Errorf("%v after 5 ms", w.order)
		}
		s.Release()
		w.wg.Wait()
	})
}

func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.hold()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 2)
		for range 2 {
			go func() {
				var s fairqueue.Slot
				err := w.q.Acquire(ctx, &s, of(1, 0))
				s.Pause() // nothing: it is none
				failed <- err
			}()
		}
		w.step("stays", of(2, 0), 0)
		cancel()
		for range 2 {
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		w.step("comes later", of(1, 0), 0)
		w.ends("stays comes later")
		if s := w.q.Stats(); s.Abandons != 2 || s.Waits != 4 {
			t.Errorf("%+v", s)
		}
	})
}

// A clock that jumps charges fifty milliseconds at most, and one that goes back nothing.
func TestClockJumps(t *testing.T) {
	var c clock
	q := c.queue(1)
	for _, d := range []time.Duration{time.Hour, -2 * time.Hour} {
		var s fairqueue.Slot
		if err := q.Acquire(t.Context(), &s, of(1, 0)); err != nil {
			t.Fatal(err)
		}
		c.compute(d)
		s.Release()
	}
	if got := q.Stats().Used; got != 50*ms {
		t.Errorf("%v is charged", got)
	}
}

// Whatever waits for whatever and gives up: no more have a slot than there are, long ones leave one, and nobody is lost.
func TestRandom(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			const slots, goers, each = 3, 48, 60
			var c clock
			q := c.queue(slots)
			var computing, most, long, mostLong, ended atomic.Int64
			highest := func(of *atomic.Int64, n int64) {
				for {
					if old := of.Load(); n <= old || of.CompareAndSwap(old, n) {
						return
					}
				}
			}
			var wg sync.WaitGroup
			for g := range byte(goers) {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, uint64(g)))
					for range each {
						ctx, cancel := context.WithCancel(t.Context())
						if rnd.IntN(6) == 0 {
							go cancel()
						}
						o := of(g%5, g%3)
						if g%7 == 0 {
							o.Locked = org.ID{g % 5}
						}
						var s fairqueue.Slot
						if q.Acquire(ctx, &s, o) != nil {
							ended.Add(1)
							cancel()
							continue
						}
						highest(&most, computing.Add(1))
						var used time.Duration
						isLong := false
						for range rnd.IntN(30) {
							c.compute(50 * us)
							used += 50 * us
							computing.Add(-1)
							if isLong {
								long.Add(-1)
							}
							s.Pause()
							if isLong = false; used > 40*ms { // by the shared clock it is long much sooner
								isLong = true
								highest(&mostLong, long.Add(1))
							}
							highest(&most, computing.Add(1))
						}
						if isLong {
							long.Add(-1)
						}
						computing.Add(-1)
						s.Release()
						ended.Add(1)
						cancel()
					}
				})
			}
			wg.Wait()
			if most.Load() > slots || ended.Load() != goers*each {
				t.Errorf("seed %d: %d computed at a time, %d of %d ended", seed, most.Load(), ended.Load(), goers*each)
			}
			for range slots { // all are free again
				var s fairqueue.Slot
				done, cancel := context.WithCancel(t.Context())
				cancel()
				if err := q.Acquire(done, &s, of(9, 0)); err != nil {
					t.Fatalf("seed %d: a slot is lost", seed)
				}
			}
		})
	}
}

// Those who always want more have the same: ten tenants, whatever their steps take, and in one of them its own users and its
// sub-organizations together.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		name  string
		owner func(n int) fairqueue.Owner
		takes func(n int) time.Duration // each step
		parts [10]int                   // of two seconds
	}{
		{"tenants", func(n int) fairqueue.Owner { return of(byte(n+1), byte(n%3)) }, func(n int) time.Duration { return time.Duration(1+n) * 100 * us }, [10]int{10, 10, 10, 10, 10, 10, 10, 10, 10, 10}},
		{"organizations of a tenant", func(n int) fairqueue.Owner { return of(1, byte(n)) }, func(int) time.Duration { return 200 * us }, [10]int{90, 10, 10, 10, 10, 10, 10, 10, 10, 10}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			var slots [10]fairqueue.Slot
			var used [len(slots)]time.Duration
			got := make(chan int)
			enter := func(n int) {
				if err := w.q.Acquire(t.Context(), &slots[n], c.owner(n)); err != nil {
					t.Error(err)
				}
				got <- n
			}
			for n := range slots {
				go enter(n)
			}
			for w.clock.now() < 2*time.Second {
				synctest.Wait() // for all others
				n := <-got
				d := c.takes(n)
				w.clock.compute(d)
				used[n] += d
				slots[n].Release()
				go enter(n)
			}
			whole := 0
			for _, part := range c.parts {
				whole += part
			}
			for n, part := range c.parts {
				if want := 2 * time.Second * time.Duration(part) / time.Duration(whole); (used[n] - want).Abs() > want/50 {
					t.Errorf("%s: number %d has %v of two seconds, want %v", c.name, n, used[n], want)
				}
			}
			for range slots {
				n := <-got
				slots[n].Release()
			}
		})
	}
}

// What is remembered of those who came once does not grow.
func TestForgets(t *testing.T) {
	var c clock
	q := c.queue(1)
	for n := range 200_000 {
		var s fairqueue.Slot
		id := org.ID{1, byte(n), byte(n >> 8), byte(n >> 16)}
		if err := q.Acquire(t.Context(), &s, fairqueue.Owner{Tenant: org.ID{1}, Locked: id, Payer: id}); err != nil {
			t.Fatal(err)
		}
		c.compute(100 * us)
		s.Release()
	}
	if n := q.Flows(); n > 20_000 {
		t.Errorf("%d flows are kept", n)
	}
}

func TestAllocates(t *testing.T) {
	var c clock
	q := c.queue(2)
	var s fairqueue.Slot
	if n := testing.AllocsPerRun(100, func() {
		_ = q.Acquire(t.Context(), &s, of(1, 2))
		s.Pause()
		s.Release()
	}); n != 0 {
		t.Errorf("%v allocations for a slot that is free", n)
	}
}

func BenchmarkEnter(b *testing.B) {
	var c clock
	q := c.queue(2)
	var s fairqueue.Slot
	b.ReportAllocs()
	for b.Loop() {
		_ = q.Acquire(context.Background(), &s, of(1, 2))
		s.Release()
	}
}

// Of a thousand organizations that wait, each takes its turn.
func BenchmarkCrowd(b *testing.B) {
	var c clock
	q := c.queue(2)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for g := range 1000 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				var s fairqueue.Slot
				_ = q.Acquire(context.Background(), &s, fairqueue.Owner{Tenant: org.ID{1}, Locked: org.ID{1, byte(g), byte(g >> 8)}, Payer: org.ID{1, byte(g), byte(g >> 8)}})
				c.compute(10 * us)
				s.Release()
			}
		})
	}
	wg.Wait()
}
