package votes_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/shared/clocktest"
	"cloister/sim/client"
	"cloister/sim/rig"
)

const (
	seed    = 20261121
	length  = 15  // operations of a history besides its beginning and the passing of time
	wave    = 250 // histories under way at once, on one clock
	players = 48  // of them at the same moment
	spare   = 600 // organizations for shrinking
)

// A history with what it is played to.
type history struct {
	seed uint64
	ops  []op
	w    *world
	next int
	err  error
}

// play goes on until the clock must, or to the end.
func (h *history) play() {
	for h.err == nil && h.next < len(h.ops) {
		o := &h.ops[h.next]
		h.err = h.w.step(o)
		if h.err != nil {
			h.err = fmt.Errorf("%s\n    %w", o.String(), h.err)
		}
		h.next++
		if o.verb == pass {
			return
		}
	}
}

// ground is where histories are played: a rig under one clock, and fresh organizations.
type ground struct {
	t     *testing.T
	r     *rig.Rig
	clock *clocktest.Clock
	fresh []*client.User
	edges *edges
	steps atomic.Int64
}

func newGround(t *testing.T, organizations int) *ground {
	t.Helper()
	g := &ground{t: t, clock: clocktest.New(), edges: new(edges)}
	// A lease longer than any history: the clock leaps, and leases are for clocks that do not.
	g.r = rig.Start(t, rig.Options{Clock: g.clock, Organizations: organizations,
		Limits: core.Limits{Lease: 100 * 365 * 24 * time.Hour, StateBytes: 1 << 30}})
	g.fresh = g.r.Others()
	return g
}

func (g *ground) world(e *edges) *world {
	if len(g.fresh) == 0 {
		g.t.Fatal("no organization is left")
	}
	o := g.fresh[0]
	g.fresh = g.fresh[1:]
	return newWorld(o.Client, g.clock.Now(), e)
}

// alone plays one history by itself.
func (g *ground) alone(ops []op) error {
	h := history{ops: ops, w: g.world(new(edges))}
	for h.err == nil && h.next < len(ops) {
		h.play()
		if last := &ops[h.next-1]; last.verb == pass {
			g.clock.Pass(last.time)
		}
	}
	if h.err == nil {
		h.err = h.w.finish()
	}
	return h.err
}

// together plays a wave: everybody plays up to where time passes, then it passes for all.
func (g *ground) together(hs []*history, passes []time.Duration) {
	for i := range len(passes) + 1 {
		todo := make(chan *history)
		var all sync.WaitGroup
		for range players {
			all.Go(func() {
				for h := range todo {
					before := h.next
					h.play()
					g.steps.Add(int64(h.next - before))
					if h.err == nil && h.next == len(h.ops) && i == len(passes) {
						if h.err = h.w.finish(); h.err != nil {
							h.err = fmt.Errorf("at the end\n    %w", h.err)
						}
					}
				}
			})
		}
		for _, h := range hs {
			todo <- h
		}
		close(todo)
		all.Wait()
		if i < len(passes) {
			g.clock.Pass(passes[i])
		}
	}
}

// Random histories agree with the model, each activity goes only where the lifecycle lets it, and every way that there is
// was gone.
func TestHistories(t *testing.T) {
	count := 10_000
	if testing.Short() {
		count = 500
	}
	g := newGround(t, count+spare)
	began := time.Now()
	agree, failures := 0, 0
	for first := 0; first < count && failures < 3; first += wave {
		shared := passes(rand.New(rand.NewPCG(seed, uint64(1_000_000+first))))
		hs := make([]*history, min(wave, count-first))
		for i := range hs {
			s := uint64(first + i)
			hs[i] = &history{seed: s, ops: generate(rand.New(rand.NewPCG(seed, s)), length, shared), w: g.world(g.edges)}
		}
		g.together(hs, shared)
		for _, h := range hs {
			if h.err == nil {
				agree++
			} else if failures++; failures <= 3 {
				g.report(h)
			}
		}
	}
	for k, n := range g.r.Counters() {
		if strings.HasPrefix(k, "alarm_") && n != 0 {
			t.Errorf("%s = %d", k, n)
		}
	}
	if failures == 0 {
		g.edges.check(t)
	}
	t.Logf("counted: %d histories agree, %d operations, in %.0f s", agree, g.steps.Load(), time.Since(began).Seconds())
}

// report shrinks a history that does not agree and prints it.
func (g *ground) report(h *history) {
	g.t.Helper()
	said := h.err
	less := shrink(h.ops, func(ops []op) bool {
		if len(g.fresh) == 0 {
			return false
		}
		err := g.alone(slices.Clone(ops))
		var is, was *disagreement
		same := errors.As(err, &is) && errors.As(h.err, &was) && is.class == was.class
		if same {
			said = err
		}
		return same
	})
	g.t.Errorf("history %d does not agree:\n%v\nin short, at %v\n%s", h.seed, h.err, said, script(less))
}

// A model that leaves out one of its rules does not agree for long.
func TestFlaws(t *testing.T) {
	flaws := []flaw{flawLapse, flawRemoved, flawKey, flawReject, flawCancel, flawAnybody, flawDeny, flawRepeat, flawQuorum, flawOwn, flawTerminal, flawBody}
	waves, size := 6, wave
	if testing.Short() {
		size = 60
	}
	g := newGround(t, 2*len(flaws)*size) // most need one wave
	for _, f := range flaws {
		noticed, tries := 0, 0
		for range waves {
			tries += size
			shared := passes(rand.New(rand.NewPCG(seed, uint64(2_000_000+tries))))
			hs := make([]*history, size)
			for i := range hs {
				s := uint64(2_000_000 + tries + i)
				hs[i] = &history{seed: s, ops: generate(rand.New(rand.NewPCG(seed, s)), length, shared), w: g.world(new(edges))}
				hs[i].w.m.flaw = f
			}
			g.together(hs, shared)
			for _, h := range hs {
				if h.err != nil {
					noticed++
				}
			}
			if noticed > 0 {
				break
			}
		}
		if noticed == 0 {
			t.Errorf("%s: not noticed in %d histories", f, tries)
		}
		t.Logf("counted: %s: noticed by %d of %d histories", f, noticed, tries)
	}
}
