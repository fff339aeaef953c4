package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

const lease = 2 * time.Second

func leased(c *fakeClock) func(*ledger.Config) {
	return func(cfg *ledger.Config) { cfg.Clock, cfg.Limits.Lease = c, lease }
}

// serves tells whether the ledger would answer now.
func serves(r *rig) bool {
	c, cancel := context.WithCancel(context.Background())
	cancel()
	return r.l.Serving(c) == nil
}

func (r *rig) take() {
	r.t.Helper()
	if err := r.l.Take(ctx(r.t), nil); err != nil {
		r.t.Fatal(err)
	}
}

func TestNoLeaseNoAnswer(t *testing.T) {
	c := newFakeClock()
	s := newStore()
	r := unstarted(t, s, leased(c))
	if serves(r) {
		t.Fatal("serves before it owns anything")
	}
	r.take()
	if !serves(r) {
		t.Fatal("the first boot of a store waits")
	}
	r.found(orgID(1))
	// The host lets renewals hang: the lease runs out and nothing is told.
	s.lie(hooks{own: func(wire.Own, func() wire.Owned) (wire.Owned, error) { return wire.Owned{}, errors.New("later") }})
	c.advance(lease - time.Millisecond)
	if !serves(r) {
		t.Fatal("the lease is over early")
	}
	c.advance(time.Millisecond)
	if serves(r) {
		t.Fatal("serves without a lease")
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.l.Wait(done, 0); !errors.Is(err, ledger.ErrBusy) {
		t.Fatalf("a reply that saw nothing unstored goes out without a lease: %v", err)
	}
	s.lie(hooks{})
	eventually(t, func() bool { c.advance(lease / 8); return serves(r) }, func() string { return "no lease again" })
	r.quiet()
}

func TestRenewalKeepsTheLease(t *testing.T) {
	c := newFakeClock()
	s := newStore()
	renewed := make(chan struct{}, 100)
	r := unstarted(t, s, leased(c))
	r.take()
	s.lie(hooks{own: func(_ wire.Own, honest func() wire.Owned) (wire.Owned, error) {
		defer func() { renewed <- struct{}{} }()
		return honest(), nil
	}})
	for range 20 {
		eventually(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.waiting) > 0 }, func() string { return "nobody waits" })
		c.advance(lease / 4)
		<-renewed
		if !serves(r) {
			t.Fatal("the lease ran out between renewals")
		}
	}
	r.quiet()
}

// The lease counts from when the question was asked, not from when the host
// chose to answer.
func TestLateAnswerGivesAShortLease(t *testing.T) {
	c := newFakeClock()
	s := newStore()
	r := unstarted(t, s, leased(c))
	s.lie(hooks{own: func(q wire.Own, honest func() wire.Owned) (wire.Owned, error) {
		switch q.Action {
		case wire.OwnTake:
			c.advance(lease)
		case wire.OwnRenew: // begins when the clock has moved, and would give a lease that counts from then
			return wire.Owned{}, errors.New("later")
		}
		return honest(), nil
	}, append: func(_ context.Context, _ *wire.Batch, honest func() wire.Stored) (wire.Stored, error) {
		got := honest()
		c.advance(lease)
		return got, nil
	}})
	r.take()
	if serves(r) {
		t.Fatal("an answer that came a lease late gives a lease")
	}
	s.lie(hooks{append: func(_ context.Context, b *wire.Batch, honest func() wire.Stored) (wire.Stored, error) {
		got := honest()
		c.advance(lease)
		return got, nil
	}, own: func(wire.Own, func() wire.Owned) (wire.Owned, error) { return wire.Owned{}, errors.New("later") }})
	ch := r.child(orgID(1), org.ID{})
	if _, err := r.l.Create(ch, &org.Entry{}, ch.Tx()); err != nil {
		t.Fatal(err)
	}
	r.stat("batches_stored", 3)
	if serves(r) {
		t.Fatal("a batch stored a lease ago gives a lease")
	}
}

func TestStoredBatchExtendsTheLease(t *testing.T) {
	c := newFakeClock()
	s := newStore()
	r := unstarted(t, s, leased(c))
	r.take()
	s.lie(hooks{own: func(wire.Own, func() wire.Owned) (wire.Owned, error) { return wire.Owned{}, errors.New("later") }})
	r.found(orgID(1))
	for i := range 10 {
		c.advance(lease - 1)
		if _, err := r.step(orgID(1), &org.Entry{}, nil); err != nil {
			t.Fatal(err)
		}
		r.stat("batches_stored", uint64(i+2))
		eventually(t, func() bool { return serves(r) }, func() string { return "no lease" })
	}
	c.advance(lease)
	if serves(r) {
		t.Fatal("serves on")
	}
}

func TestTakerWaitsOutTheOldLease(t *testing.T) {
	c := newFakeClock()
	s := newStore()
	one := unstarted(t, s, leased(c))
	one.take()
	one.found(orgID(1))
	s.lie(hooks{own: func(q wire.Own, honest func() wire.Owned) (wire.Owned, error) {
		if q.Action == wire.OwnRenew {
			return wire.Owned{}, errors.New("later")
		}
		return honest(), nil
	}})
	two := unstarted(t, s, leased(c))
	two.take()
	two.mustRead(orgID(1), 1, "") // loading need not wait
	for now := time.Duration(0); now < lease; now += lease / 16 {
		if serves(two) {
			t.Fatal("the new boot serves while the old one may")
		}
		if !serves(one) {
			t.Fatal("the old boot's lease is cut short: the test shows nothing")
		}
		c.advance(lease / 16)
	}
	if serves(one) {
		t.Fatal("the old boot serves beside the new one")
	}
	s.lie(hooks{})
	eventually(t, func() bool { c.advance(lease / 16); return serves(two) && !serves(one) }, func() string { return "the new boot never serves" })
	// The old one learns of it by its renewal and is fenced.
	eventually(t, func() bool { c.advance(lease / 8); return len(one.fences) == 1 }, func() string { return "not fenced" })
	if one.alarms.Counts()["superseded"] != 1 || two.l.BootNumber() != 2 {
		t.Fatal(one.alarms.Counts())
	}
	for range 5 {
		c.advance(lease)
	}
	if serves(one) || len(one.fences) != 1 {
		t.Fatal("a fenced enclave comes back")
	}
	two.quiet()
}

func TestReleaseSavesTheWait(t *testing.T) {
	c := newFakeClock()
	s := newStore()
	one := unstarted(t, s, leased(c))
	one.take()
	one.found(orgID(1))
	stillServes := false
	s.lie(hooks{own: func(q wire.Own, honest func() wire.Owned) (wire.Owned, error) {
		if q.Action == wire.OwnRelease {
			stillServes = serves(one)
		}
		return honest(), nil
	}})
	if err := one.l.Release(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if stillServes || serves(one) {
		t.Fatal("answers when the store may be another's")
	}
	two := unstarted(t, s, leased(c))
	two.take()
	if !serves(two) {
		t.Fatal("waits for a lease that was given back")
	}
	two.user(orgID(1), 1, "two")
	two.quiet()
	one.quiet()
}

func TestReleaseStoresWhatIsDecided(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(1))
	g := newGate(s)
	for range 10 {
		if _, err := r.step(orgID(1), &org.Entry{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	go func() { <-g.seen; close(g.open) }()
	if err := r.l.Release(ctx(t)); err != nil {
		t.Fatal(err)
	}
	if n := s.image(wid(orgID(1))).Count; n != 11 || !s.row.Released {
		t.Fatalf("%d entries are stored", n)
	}
}

func TestTakeRefused(t *testing.T) {
	for name, lie := range map[string]func(wire.Own, func() wire.Owned) (wire.Owned, error){
		"the store is away": func(wire.Own, func() wire.Owned) (wire.Owned, error) { return wire.Owned{}, errors.New("away") },
		"lost between look and take": func(q wire.Own, honest func() wire.Owned) (wire.Owned, error) {
			got := honest()
			if q.Action == wire.OwnTake {
				got.OK = false
			}
			return got, nil
		},
		"another epoch": func(q wire.Own, honest func() wire.Owned) (wire.Owned, error) {
			got := honest()
			if q.Action == wire.OwnTake {
				got.Epoch++
			}
			return got, nil
		},
		"the same epoch": func(q wire.Own, honest func() wire.Owned) (wire.Owned, error) {
			got := honest()
			if q.Action == wire.OwnTake {
				got.Epoch--
			}
			return got, nil
		},
		"another boot": func(q wire.Own, honest func() wire.Owned) (wire.Owned, error) {
			got := honest()
			if q.Action == wire.OwnTake {
				got.Boot[0] ^= 1
			}
			return got, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			s.lie(hooks{own: lie})
			r := unstarted(t, s, nil)
			if err := r.l.Take(ctx(t), nil); err == nil {
				t.Fatal("taken")
			}
			if serves(r) {
				t.Fatal("serves")
			}
		})
	}
}

func TestRenewalRefusedFences(t *testing.T) {
	for name, lie := range map[string]func(*wire.Owned){
		"not ok":        func(o *wire.Owned) { o.OK = false },
		"another epoch": func(o *wire.Owned) { o.Epoch++ },
		"another boot":  func(o *wire.Owned) { o.Boot[3] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeClock()
			s := newStore()
			r := unstarted(t, s, leased(c))
			r.take()
			s.lie(hooks{own: func(_ wire.Own, honest func() wire.Owned) (wire.Owned, error) {
				got := honest()
				lie(&got)
				return got, nil
			}})
			eventually(t, func() bool { c.advance(lease / 4); return len(r.fences) == 1 }, func() string { return "not fenced" })
			if err := r.l.Serving(ctx(t)); !errors.Is(err, ledger.ErrFenced) || r.alarms.Counts()[fault.AlarmSuperseded.String()] != 1 {
				t.Fatal(err, r.alarms.Counts())
			}
		})
	}
}
