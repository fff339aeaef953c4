package core

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/authproxy"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// The auth proxy lets people sign up and log in who have no key that any
// organization knows. Whoever calls names a configuration; the enclave finds the
// organization whose it is, makes the body of an activity, stamps it with that
// organization's proxy key, and lets it take the way of any other submission. The
// key is opened for one request. Nobody outside ever has it, and with it nothing can be
// stamped at another door.

// configHeader names the configuration.
const configHeader = "X-Auth-Proxy-Config-Id"

// proxies is what the enclave remembers of auth proxies.
type proxies struct {
	*proxyMeter
	homes  homes
	lastMs *atomic.Uint64 // timestamp of the newest body that the enclave made
}

func newProxies(r ProxyRates) proxies {
	return proxies{newProxyMeter(r), homes{of: map[org.ID]org.ID{}, mu: new(sync.Mutex)}, new(atomic.Uint64)}
}

// homes remembers which organization had a configuration when it was last asked.
type homes struct {
	mu *sync.Mutex
	of map[org.ID]org.ID
}

// maxHomes bounds it. Who was forgotten is found again.
const maxHomes = 4096

func (h homes) get(config org.ID) (org.ID, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, ok := h.of[config]
	return id, ok
}

func (h homes) put(config, id org.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.of) >= maxHomes {
		clear(h.of)
	}
	h.of[config] = id
}

func (h homes) drop(config org.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, config)
}

// visit is one call at the proxy's door.
type visit struct {
	c      *Core
	call   *wire.Call
	p      *phases
	config *authproxy.Config
	batch  uint64
}

// proxy answers a call at the door of the auth proxy.
func (c *Core) proxy(ctx context.Context, call *wire.Call, p *phases) (answer, error) {
	v := &visit{c: c, call: call, p: p}
	// What is told before a configuration is known is the same for all the world.
	readable := true
	a, err := func() (answer, error) {
		e, err := authproxy.Find(call.Op)
		if err != nil {
			return answer{}, err
		}
		id, err := authproxy.ParseConfigID(header(call, configHeader))
		if err != nil {
			return answer{}, err
		}
		if err := v.pay(c.proxies.caller(v.source(), c.cfg.Clock.Now())); err != nil {
			return answer{}, err
		}
		if err := v.open(ctx, id); err != nil {
			return answer{}, err
		}
		if readable = v.config.Accepts(call.From.Origin); !readable {
			return answer{}, authproxy.WrongOrigin()
		}
		return v.answer(ctx, e)
	}()
	a.readable = readable
	a.batch = max(a.batch, v.batch)
	return a, err
}

// header is the value of a header that may come once.
func header(call *wire.Call, name string) (value string) {
	for _, h := range call.Head {
		if !strings.EqualFold(h.Name, name) {
			continue
		}
		if value != "" {
			return "twice" // which is no configuration's
		}
		value = h.Value
	}
	return value
}

// open finds the organization of a configuration. The host's index leads to it, and
// what counts is whether the organization has the configuration now.
func (v *visit) open(ctx context.Context, id org.ID) error {
	if home, ok := v.c.proxies.homes.get(id); ok {
		if err := v.look(ctx, id, home); err != nil || v.config != nil {
			return err
		}
		v.c.proxies.homes.drop(id)
	}
	rows, err := v.c.serve.ranges.PageIndex(ctx, v.c.serve.indexKey(org.ID{}, org.AuthProxyHandle(id)), 1)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := v.look(ctx, id, r.ID); err != nil {
			return err
		}
		if v.config != nil {
			v.c.proxies.homes.put(id, r.ID)
			return nil
		}
	}
	return authproxy.Unknown()
}

// look takes the configuration from an organization, if that has it.
func (v *visit) look(ctx context.Context, id, home org.ID) error {
	err := v.c.serve.ranges.Turn(ctx, home, func(t *ledger.Turn) error {
		v.batch = max(v.batch, t.Batch())
		tx := org.Begin(t.ID(), t.State, v.c.now())
		o, err := tx.Organization()
		if err != nil || o.Deleted {
			return err
		}
		p, err := tx.AuthProxy(id)
		if p != nil {
			v.config = &authproxy.Config{AuthProxy: p, Organization: home, Name: o.Name, Texts: v.c.serve.outside.told.Text}
		}
		return err
	})
	if errors.Is(err, ledger.ErrNoOrganization) {
		v.c.alarms.Raise(fault.AlarmIndex)
		return fault.Breached(fault.AlarmIndex, "a row of no organization")
	}
	return err
}

// answer reads the body and does what the endpoint is for.
func (v *visit) answer(ctx context.Context, e *authproxy.Endpoint) (answer, error) {
	r, err := e.Read(v.call.Body)
	if err != nil {
		return answer{}, err
	}
	if err := v.pay(v.c.proxies.visit(v.config.ID, v.source(), r, v.c.cfg.Clock.Now())); err != nil {
		return answer{}, err
	}
	if err := v.config.Allows(r); err != nil {
		return answer{}, err
	}
	v.p.end(0)
	if body := r.Answer(v.config); body != nil {
		return answer{status: 200, body: body}, nil
	}
	if r.Account != nil {
		return v.account(ctx, r.Account)
	}
	if _, err := activity.Lookup(activity.OpOf(r.Type), r.Type); err != nil {
		return answer{}, err
	}
	of, err := v.target(ctx, r)
	if err != nil {
		return answer{}, err
	}
	if err := v.client(ctx, r); err != nil {
		return answer{}, err
	}
	return v.submit(ctx, r, of)
}

// submit makes the activity, stamps it, and cuts its answer down to the endpoint's.
func (v *visit) submit(ctx context.Context, r *authproxy.Request, of org.ID) (answer, error) {
	at, err := v.c.proxies.timestamp(v.c.now())
	if err != nil {
		return answer{}, err
	}
	body, err := r.Submit(v.config, of, at)
	if err != nil {
		return answer{}, err
	}
	call, err := v.stamped(ctx, activity.OpOf(r.Type), body)
	if err != nil {
		return answer{}, err
	}
	a, err := v.c.submit(ctx, call, v.p)
	if err != nil {
		return a, r.Refused(err)
	}
	if a.status == 200 {
		a.body, err = r.Cut(a.body)
	}
	return a, err
}

// account asks the proxy's organization for its sub-organizations.
func (v *visit) account(ctx context.Context, r *authproxy.Account) (answer, error) {
	link, err := r.Admit(v.config, v.c.serve.tokenKeys(), v.c.now())
	if err == nil && link {
		var i *login.Identity
		if i, err = v.c.identity(ctx, v.config.Organization, "oidcToken", *r.OidcToken); err == nil {
			err = r.AdmitLinked(v.config, i)
		}
	}
	if err != nil {
		return answer{}, err
	}
	op, body := r.Query(v.config)
	call, err := v.stamped(ctx, op, body)
	if err != nil {
		return answer{}, err
	}
	a, err := v.c.query(ctx, call, v.p)
	if err == nil {
		a.body, err = r.Cut(a.body)
	}
	return a, err
}

// target is the organization in which the activity is to run: for a log-in the
// sub-organization that it names or that is found by what it shows, otherwise the
// proxy's own. Nobody logs in to that one through the proxy.
func (v *visit) target(ctx context.Context, r *authproxy.Request) (of org.ID, err error) {
	if r.Token == "" && r.Identity == "" {
		return v.config.Organization, nil
	}
	var by [][]authproxy.Holder
	if r.Organization == nil {
		if by, err = v.holders(ctx, r); err != nil {
			return of, err
		}
	}
	err = v.c.serve.ranges.Turn(ctx, v.config.Organization, func(t *ledger.Turn) error {
		v.batch = max(v.batch, t.Batch())
		tx := org.Begin(t.ID(), t.State, v.c.now())
		var child *org.Child
		var err error
		if r.Organization != nil {
			child, err = tx.Child(*r.Organization)
		}
		for i := 0; err == nil && child == nil && i < len(by); i++ {
			child, err = oldest(tx, by[i])
		}
		if err == nil && child == nil {
			err = fault.Named(fault.NotFound, "ORGANIZATION_NOT_FOUND", "no organization found to log in to")
		}
		if err == nil {
			of = child.ID
		}
		return err
	})
	return of, err
}

// holders are by what the sub-organization of a log-in is found: the first that
// leads anywhere. It is verified first: what is only claimed must not tell whether
// anybody has it.
func (v *visit) holders(ctx context.Context, r *authproxy.Request) ([][]authproxy.Holder, error) {
	if r.Identity != "" {
		i, err := v.c.identity(ctx, v.config.Organization, "oidcToken", r.Identity)
		if err != nil {
			return nil, err
		}
		by := [][]authproxy.Holder{authproxy.HoldersOf(i)}
		if h, ok := authproxy.LinkedHolder(v.config, i); ok {
			by = append(by, []authproxy.Holder{h})
		}
		return by, nil
	}
	const field = "verificationToken"
	u, err := login.ReadVerificationToken(field, r.Token, v.c.serve.tokenKeys(), v.c.now())
	if err != nil {
		return nil, err
	}
	if !u.IssuedBy(v.config.Organization.String()) {
		return nil, login.InvalidVerificationToken(field)
	}
	t, err := r.Proven(u)
	if err != nil {
		return nil, err
	}
	return [][]authproxy.Holder{{authproxy.HolderOf(t)}}, nil
}

// oldest is the sub-organization that was made first of those that have one of
// some things, nil if none has.
func oldest(tx *org.Tx, by []authproxy.Holder) (first *org.Child, err error) {
	for _, h := range by {
		ids, err := tx.ChildrenBy(h.What, h.Value, nil, 1)
		if err != nil {
			return nil, err
		}
		if len(ids) == 0 {
			continue
		}
		c, err := tx.Child(ids[0])
		if err != nil {
			return nil, err
		}
		if c != nil && (first == nil || c.CreatedMs < first.CreatedMs) {
			first = c
		}
	}
	return first, nil
}

// client finds the organization's credential at the OAuth 2.0 provider that a
// request names.
func (v *visit) client(ctx context.Context, r *authproxy.Request) error {
	if r.Client == nil {
		return nil
	}
	return v.c.serve.ranges.Turn(ctx, v.config.Organization, func(t *ledger.Turn) error {
		v.batch = max(v.batch, t.Batch())
		return org.Begin(t.ID(), t.State, v.c.now()).EachOAuth2Credential(func(c *org.OAuth2Credential) bool {
			if c.Provider == r.Client.Provider && c.ClientID == r.Client.ClientID {
				r.Client.Credential = c.ID
			}
			return r.Client.Credential.Zero()
		})
	})
}

// stamped is a call with a body of the enclave's own making.
func (v *visit) stamped(ctx context.Context, op string, body []byte) (*wire.Call, error) {
	head, err := v.stamp(ctx, body)
	if err != nil {
		return nil, err
	}
	return &wire.Call{Door: wire.DoorProxy, Op: op, Head: head, Body: body, From: v.call.From}, nil
}
