package core

import (
	"time"

	"cloister/enclave/core/internal/outgoing"
	"cloister/enclave/core/internal/outside"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// A visit is one call on its way through the enclave.
type visit struct {
	c     *Core
	state wire.State // when it began: what comes later is for later calls
	*ranges.Visit
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
	lookups  *outside.Lookups             // at identity providers; nil before the enclave serves
	chain    *activity.ChainKnown         // what the activity needs of its chain
	blind    bool                         // that cannot be had, and a rejection goes on without
	hears    *outgoing.Audience           // of the parent
	voted    *org.Entry                   // of the activity that is voted on,
	votedSeq uint64                       // its newest by then
}

// visit begins a call's.
func (c *Core) visit() *visit {
	v := &visit{c: c, state: c.life.State(), timing: timing{clock: c.cfg.Clock, last: c.cfg.Clock.Now()}}
	v.toll.meter = c.meter
	v.Visit = new(ranges.Visit)
	if v.state == wire.StateServing {
		v.Visit = c.serve.Ranges.Visit()
		v.lookups = c.serve.outside.Providers.Lookups()
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
