package core

import (
	"context"
	"errors"
	"time"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// A visit is what one call sees of the deployment, from its first look to its reply. It
// is about one range: whatever it looks at lies in the range of the first organization
// that it asked for, in the same ledger throughout. So a range that is given away
// and comes back meanwhile, with batches that count anew, is never taken for the one
// that was looked at.
type visit struct {
	c     *Core
	at    *owned // nil before the first look
	by    org.ID // the first organization that it looked at: on whose behalf it waits
	batch uint64 // the newest seen: no reply leaves before that is stored

	kept
	timing timing
}

// kept is all that a call keeps from one run of a step to the next, besides what its
// signer has proven and its body says: what it has paid and what was fetched for it.
// ledger.Step tells what a step may do before it is run again.
type kept struct {
	toll     toll
	room     *room                        // of the reply
	origins  map[org.ID]*org.Organization // parents, whose rules on passkeys were needed
	asking   asking                       // issuers of identity tokens
	exchange *exchange                    // that the activity shares in
	chain    *activity.ChainKnown         // what the activity needs of its chain
	blind    bool                         // that cannot be had, and a rejection goes on without
	hears    *audience                    // of the parent
	voted    *org.Entry                   // of the activity that is voted on,
	votedSeq uint64                       // its newest by then
}

// visit begins a call's.
func (c *Core) visit() *visit {
	v := &visit{c: c, timing: timing{clock: c.cfg.Clock, last: c.cfg.Clock.Now()}}
	v.toll.meter = c.meter
	if state(c.state.Load()) == stateServing {
		v.asking.o = c.serve.providers
	}
	return v
}

// timing measures a call: stamp, decide, execute, store; microseconds.
type timing struct {
	clock Clock
	last  time.Time
	us    [4]uint32
}

func (p *timing) end(i int) {
	now := p.clock.Now()
	p.us[i] += uint32(now.Sub(p.last).Microseconds())
	p.last = now
}

// look is where an organization is. It waits until this enclave may answer for it.
// Errors are *moved, ErrNoOrganization for one of another range than the call is about,
// and those of ledger.Serving.
func (v *visit) look(ctx context.Context, id org.ID) (*ledger.Ledger, error) {
	s := v.c.serve.ranges
	r := wire.RangeOf(wire.ID(id), s.count)
	if v.at == nil {
		o, err := s.at(r)
		if err == nil {
			err = o.ledger.Serving(ctx)
		}
		if err != nil {
			return nil, err
		}
		v.at, v.by = o, id
	}
	if v.at.r != r {
		return nil, ledger.ErrNoOrganization
	}
	return v.at.ledger, nil
}

// step is ledger.Step for the organization that the call is about. The reply waits for
// what f has seen, also where it ends with an error.
func (v *visit) step(ctx context.Context, id org.ID, f func(t, above *ledger.Turn) error) error {
	l, err := v.look(ctx, id)
	if err != nil {
		return err
	}
	return l.Step(ctx, id, v.by, func(t, above *ledger.Turn) error {
		err := f(t, above)
		v.batch = max(v.batch, t.Batch())
		if above != nil {
			v.batch = max(v.batch, above.Batch())
		}
		return err
	})
}

// turn is step over one organization.
func (v *visit) turn(ctx context.Context, id org.ID, f func(t *ledger.Turn) error) error {
	return v.step(ctx, id, func(t, _ *ledger.Turn) error { return f(t) })
}

// wait is ledger.Wait for what the call has seen. Who has seen nothing waits for
// nothing, but in a deployment of one range for the lease.
func (v *visit) wait(ctx context.Context) error {
	if v.at == nil {
		return v.c.serve.ranges.Serving(ctx)
	}
	return v.at.ledger.Wait(ctx, v.batch)
}

// gone tells, of an error that the call ended with, that its range is another enclave's,
// or was given away meanwhile.
func (v *visit) gone(err error) *moved {
	var m *moved
	if err == nil || errors.As(err, &m) {
		return m
	}
	o := v.at
	if o == nil || state(v.c.state.Load()) != stateServing || !errors.Is(err, ledger.ErrFenced) && !errors.Is(err, ledger.ErrGiven) {
		return nil
	}
	s := v.c.serve.ranges
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.owned[o.r] == o && !s.busy[o.r] {
		return nil
	}
	return &moved{o.r}
}
