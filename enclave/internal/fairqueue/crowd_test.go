package fairqueue_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloister/enclave/internal/fairqueue"
)

// A load is somebody who asks: so many requests in flight, one computing at a time, as with a turn.
type load struct {
	owner  fairqueue.Owner
	takes  time.Duration // each step
	pauses time.Duration // so often
	every  time.Duration // between two requests; 0: at once
}

// crowd runs loads for a while on processors that compute as long as time passes, and returns what each step took, and what each load
// got of the processors.
func crowd(t *testing.T, slots int, window time.Duration, loads []load) (took [][]time.Duration, used []time.Duration) {
	took, used = make([][]time.Duration, len(loads)), make([]time.Duration, len(loads))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		q := fairqueue.New(fairqueue.Config{Slots: slots, Elapsed: func() time.Duration { return time.Since(began) }})
		var wg sync.WaitGroup
		for i, l := range loads {
			wg.Go(func() {
				for n := time.Duration(0); time.Since(began) < window; n++ {
					if l.every > 0 {
						time.Sleep(max(time.Until(began.Add(n*l.every+time.Duration(i)*time.Microsecond)), 0))
					}
					asked := time.Now()
					var s fairqueue.Slot
					if err := q.Acquire(t.Context(), &s, l.owner); err != nil {
						t.Error(err)
						return
					}
					for left := l.takes; left > 0; left -= l.pauses {
						time.Sleep(min(left, l.pauses))
						s.Pause()
					}
					d := s.Release()
					if time.Since(began) < window {
						used[i] += d
						took[i] = append(took[i], time.Since(asked))
					}
				}
			})
		}
		wg.Wait()
	})
	for i := range took {
		slices.Sort(took[i])
	}
	return took, used
}

func percentile(ds []time.Duration, n int) time.Duration { return ds[len(ds)*n/100] }

// many are as many loads.
func many(n int, of func(n byte) load) (all []load) {
	for i := range n {
		all = append(all, of(byte(i+1)))
	}
	return all
}

// Others' requests wait no longer than some pauses, whoever computes for long, and equals get the same.
func TestCrowds(t *testing.T) {
	victim := load{owner: of(250, 0), takes: 140 * us, pauses: 140 * us, every: 5 * ms}
	policies := func(o fairqueue.Owner) load { return load{owner: o, takes: 18 * ms, pauses: 100 * us} }
	addresses := func(o fairqueue.Owner) load { return load{owner: o, takes: 150 * ms, pauses: 150 * us} }
	below := func(tenant byte, what func(fairqueue.Owner) load) func(byte) load {
		return func(n byte) load { return what(of(tenant, n)) }
	}
	tenants := func(what func(fairqueue.Owner) load) func(byte) load {
		return func(n byte) load { return what(of(n, 0)) }
	}
	light := load{takes: 140 * us, pauses: 140 * us, every: 10 * ms}
	for _, c := range []struct {
		name   string
		slots  int
		equals []load
		others []load
	}{
		{"nobody", 2, nil, nil},
		{"8 sub-organizations with dear policies", 2, many(8, below(1, policies)), nil},
		{"64", 2, many(64, below(1, policies)), nil},
		{"250", 2, many(250, below(1, policies)), nil},
		{"50 tenants", 2, many(50, tenants(policies)), nil},
		{"8 that derive addresses", 2, many(8, below(1, addresses)), nil},
		{"10 tenants with policies, 5 that derive, sub-organizations that sign", 2, many(10, tenants(policies)),
			append(many(5, func(n byte) load { return addresses(of(100+n, 0)) }), many(8, func(n byte) load { l := light; l.owner = of(1, n); return l })...)},
		{"one processor", 1, many(8, below(1, policies)), nil},
		{"four", 4, many(8, below(1, policies)), nil},
	} {
		own := policies(of(200, 0)) // wants all as well, in the name of the tenant if the equals are of one
		if n := len(c.equals); n > 0 && c.equals[0].owner.Tenant == c.equals[n-1].owner.Tenant {
			own.owner = of(1, 0)
		}
		loads := append(append([]load{victim, own}, c.equals...), c.others...)
		took, used := crowd(t, c.slots, 3*time.Second, loads)
		most := 2*victim.takes + 300*us // on one processor, until the one that computes pauses
		if c.slots == 1 {
			most = 600 * us
		}
		if p99 := percentile(took[0], 99); p99 > most || len(took[0]) < 595 {
			t.Errorf("%s: %d requests of another tenant take %v at the 99th percentile", c.name, len(took[0]), p99)
		}
		if equals := used[2 : 2+len(c.equals)]; len(equals) > 0 {
			if least, most := slices.Min(equals), slices.Max(equals); most > least+36*ms {
				t.Errorf("%s: one has %v and another %v", c.name, least, most)
			}
			// All sub-organizations of a tenant have no more than its own users.
			if part := 3 * time.Second / time.Duration(3+len(c.equals)+len(c.others)); used[1] < part-own.takes {
				t.Errorf("%s: own users have %v, want %v at least", c.name, used[1], part)
			}
		}
	}
}
