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
	state wire.State // when it began
	*ranges.Visit
	timing timing

	// What the call keeps from one run of a step to the next, besides its requester and
	// request; see ledger.Step.
	toll     toll
	room     *room                        // of the reply
	origins  map[org.ID]*org.Organization // parents, whose rules on passkeys were needed
	lookups  *outside.Lookups             // at identity providers; nil before the enclave serves
	chain    *activity.ChainKnown         // what the activity needs of its chain
	blind    bool                         // that cannot be had, and a rejection goes on without
	audience *outgoing.Audience           // of the parent
	voted    *org.Entry                   // of the activity that is voted on, its newest
	votedSeq uint64                       // where voted stands
}

// visit begins a call.
func (c *Core) visit() *visit {
	v := &visit{core: c, state: c.life.State(), Visit: new(ranges.Visit), timing: timing{clock: c.cfg.Clock, last: c.cfg.Clock.Now()}}
	if v.state == wire.StateServing {
		v.Visit = c.serving.Ranges.Visit()
		v.lookups = c.serving.outside.Providers.Lookups()
	}
	return v
}

// The phases of a call, which its reply tells the lengths of.
const (
	phaseStamp = iota
	phaseDecide
	phaseExecute
	phaseStore
	phases
)

// timing measures the phases of a call, in microseconds.
type timing struct {
	clock Clock
	last  time.Time
	us    [phases]uint32
}

// end ends a phase.
func (p *timing) end(phase int) {
	now := p.clock.Now()
	p.us[phase] += uint32(now.Sub(p.last).Microseconds())
	p.last = now
}
