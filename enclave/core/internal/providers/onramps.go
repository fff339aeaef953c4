package providers

import (
	"context"
	"sync"
	"time"

	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/shared/wire"
)

// Bounds on what on-ramp providers are asked, divided among tenants. The configuration names them, so their streams are of
// the same half as mails', which keep as many.
const (
	maxOnRampAsks = wire.MaxStreams / 4 // at a time
	maxPurchases  = 1 << 14             // whose state is remembered
	// purchasePace is how long a purchase is not asked about again.
	purchasePace = 2 * time.Second
)

// OnRamps asks on-ramp providers, for requests that have authenticated, and remembers for this boot how purchases stand.
type OnRamps struct {
	clock  ledger.Clock
	client *netclient.Client
	bases  map[onramp.Provider]string // of those that the operator has set up

	asks, secrets *tenant.Portion[org.ID]

	mu        sync.Mutex
	purchases map[org.ID]*purchase
}

// purchase is what was heard of one.
type purchase struct {
	who   org.ID // the tenant
	state onramp.State
	asked time.Time
	done  chan struct{} // of the question that is under way; nil: none is
}

// set are the providers that the operator has set up.
func (o *OnRamps) set() (all []onramp.Provider) {
	for _, p := range []onramp.Provider{onramp.Coinbase, onramp.MoonPay} {
		if o.bases[p] != "" {
			all = append(all, p)
		}
	}
	return all
}

// OnRampLookups are what one query asks on-ramp providers.
type OnRampLookups struct {
	onRamps *OnRamps
	Tenant  org.ID
	asked   bool
}

// Lookups begins a query's; a drill asks nobody.
func (o *OnRamps) Lookups(tenant org.ID, drill bool) *OnRampLookups {
	return &OnRampLookups{onRamps: o, Tenant: tenant, asked: drill}
}

// State is what was heard last of a purchase, or an *org.Retry that asks. It asks if refresh is set or nothing was heard
// since this boot began, and if it has not been asked too lately; one that is completed stays so.
func (a *OnRampLookups) State(q *query.OnRampQuestion, refresh bool) (onramp.State, error) {
	o := a.onRamps
	base := o.bases[q.Provider]
	if base == "" {
		return "", activity.OnRampNotSet(q.Provider)
	}
	state, due := o.lastState(q.Activity)
	if a.asked || !due || state != "" && !refresh {
		if state == "" {
			state = onramp.Created
		}
		return state, nil
	}
	ask, err := q.Ask(base)
	if err != nil {
		return "", err
	}
	return "", &org.Retry{Prefetch: func(ctx context.Context) error {
		a.asked = true
		return o.ask(ctx, a.Tenant, q, ask)
	}}
}

// lastState is a purchase's state, empty if there is none, and whether it may be asked about or waited for.
func (o *OnRamps) lastState(id org.ID) (state onramp.State, due bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.purchases[id]
	if p == nil {
		return "", true
	}
	return p.state, p.state != onramp.Completed && (p.done != nil || o.clock.Now().Sub(p.asked) >= purchasePace)
}

// ask asks a provider, or waits for the question that is under way. That there is no answer is no error: what was heard
// last stays.
func (o *OnRamps) ask(ctx context.Context, who org.ID, q *query.OnRampQuestion, ask *login.Request) error {
	p, done, mine := o.begin(who, q.Activity)
	if !mine {
		ask.Wipe()
	}
	if done == nil {
		return nil
	}
	if mine {
		go func() {
			var state onramp.State
			defer o.end(p, &state)
			defer func() { _ = recover() }() // nobody stands above who could catch it
			status, body, err := send(context.WithoutCancel(ctx), o.client, string(q.Provider), ask)
			if err == nil {
				state, _ = q.Read(status, body)
			}
		}()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin finds what to wait for, with mine a purchase to ask about; done is nil if it was asked about a moment ago, or too
// much is under way.
func (o *OnRamps) begin(who, id org.ID) (p *purchase, done chan struct{}, mine bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	p = o.purchases[id]
	switch {
	case p != nil && p.done != nil:
		return p, p.done, false
	case p != nil && now.Sub(p.asked) < purchasePace:
		return nil, nil, false
	case !o.asks.Take(who, 1):
		return nil, nil, false
	}
	if p == nil {
		if !o.secrets.Take(who, 1) && !o.forgetOne(who, now) {
			o.asks.Add(who, -1)
			return nil, nil, false
		}
		p = &purchase{who: who}
		o.purchases[id] = p
	}
	p.asked, p.done = now, make(chan struct{})
	return p, p.done, true
}

// forgetOne makes room for another of a tenant's purchases, with mu held.
func (o *OnRamps) forgetOne(who org.ID, now time.Time) bool {
	for id, p := range o.purchases {
		if p.who == who && p.done == nil && now.Sub(p.asked) >= purchasePace {
			delete(o.purchases, id)
			return true
		}
	}
	return false
}

func (o *OnRamps) end(p *purchase, state *onramp.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if *state != "" {
		p.state = *state
	}
	close(p.done)
	p.done = nil
	o.asks.Add(p.who, -1)
}

// session is what came of asking for a session, within one request.
type session struct {
	token string
	err   error
}

// OnRampSession returns the session that was asked for, or an *org.Retry that asks for one. A session that is not used
// is worth nothing to anybody, so that one more is no harm.
func (x ofActivity) OnRampSession(ask func(base string) (*login.Request, error)) (string, error) {
	if s := x.session; s != nil {
		return s.token, s.err
	}
	o := x.services.OnRamps
	r, err := ask(o.bases[onramp.Coinbase])
	if err != nil {
		return "", err
	}
	return "", &org.Retry{Prefetch: func(ctx context.Context) error {
		defer r.Wipe()
		if !o.asks.Take(x.Tenant, 1) {
			return errOnRamp("too much is being asked")
		}
		defer o.asks.Add(x.Tenant, -1)
		status, body, err := send(ctx, o.client, "Coinbase", r)
		x.session = &session{}
		if f := fault.Of(err); f != nil {
			x.session.err = f.WithName(rpcError)
		} else if x.session.token, err = onramp.ReadCoinbaseSession(status, body); err != nil {
			x.session.err = errOnRamp("it did not give a session")
		}
		return nil
	}}
}

func errOnRamp(why string) error {
	return fault.WithCode(fault.Unavailable, rpcError, "Coinbase could not be asked: %s; try again", why)
}
