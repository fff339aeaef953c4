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
	core  *Core
	state wire.State // when it began: what comes later is for later calls
	*ranges.Visit
	kept
	timing timing
}

// kept is all that a call keeps from one run of a step to the next, besides what its
// requester has proven and its body says: what it has paid and what was fetched for it.
// ledger.Step tells what a step may do before it is run again.
type kept struct {
	toll     toll
	room     *room                        // of the reply
	origins  map[org.ID]*org.Organization // parents, whose rules on passkeys were needed
	lookups  *outside.Lookups             // at identity providers; nil before the enclave serves
	chain    *activity.ChainKnown         // what the activity needs of its chain
	blind    bool                         // that cannot be had, and a rejection goes on without
	audience *outgoing.Audience           // of the parent
	voted    *org.Entry                   // of the activity that is voted on,
	votedSeq uint64                       // its newest by then
}

// visit begins a call's.
func (c *Core) visit() *visit {
	v := &visit{core: c, state: c.life.State(), Visit: new(ranges.Visit), timing: timing{clock: c.cfg.Clock, last: c.cfg.Clock.Now()}}
	if v.state == wire.StateServing {
		v.Visit = c.serving.Ranges.Visit()
		v.lookups = c.serving.outside.Providers.Lookups()
	}
	return v
}

// The phases of a call, as its reply tells how long they took.
const (
	phaseStamp = iota
	phaseDecide
	phaseExecute
	phaseStore
	phases
)

// timing measures a call, in microseconds.
type timing struct {
	clock Clock
	last  time.Time
	us    [phases]uint32
}

// end is the end of a phase.
func (p *timing) end(phase int) {
	now := p.clock.Now()
	p.us[phase] += uint32(now.Sub(p.last).Microseconds())
	p.last = now
}
