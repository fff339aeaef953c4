package core

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
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

// proxyCall is one call at the proxy's door. Its body is nobody's word: what is asked with
// it is stamped by the enclave, and takes the way of any stamped body.
type proxyCall struct {
	core   *Core
	visit  *visit
	call   *wire.Call
	config *authproxy.Config
}

// proxy answers a call at the door of the auth proxy.
func (c *Core) proxy(ctx context.Context, call *wire.Call, v *visit) (answer, error) {
	x := &proxyCall{core: c, visit: v, call: call}
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
		if err := x.pay(c.proxies.caller(x.source(), c.cfg.Clock.Now())); err != nil {
			return answer{}, err
		}
		if err := x.open(ctx, id); err != nil {
			return answer{}, err
		}
		if readable = x.config.Accepts(call.From.Origin); !readable {
			return answer{}, authproxy.WrongOrigin()
		}
		return x.answer(ctx, e)
	}()
	a.readable = readable
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
func (x *proxyCall) open(ctx context.Context, id org.ID) error {
	if home, ok := x.core.proxies.homes.get(id); ok {
		if err := x.look(ctx, id, home); err != nil || x.config != nil {
			return err
		}
		x.core.proxies.homes.drop(id)
	}
	rows, err := x.core.serving.Ranges.PageIndex(ctx, x.core.serving.indexKey(org.ID{}, org.AuthProxyHandle(id)), 1)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := x.look(ctx, id, r.ID); err != nil {
			return err
		}
		if x.config != nil {
			x.core.proxies.homes.put(id, r.ID)
			return nil
		}
	}
	return authproxy.UnknownConfig()
}

// look takes the configuration from an organization, if that has it.
func (x *proxyCall) look(ctx context.Context, id, home org.ID) error {
	err := x.visit.Turn(ctx, home, func(t *ledger.Turn) error {
		tx := org.Begin(t.ID(), t.State, x.core.now())
		o, err := tx.Organization()
		if err != nil || o.Deleted {
			return err
		}
		p, err := tx.AuthProxy(id)
		if p != nil {
			x.config = &authproxy.Config{AuthProxy: p, Organization: home, Name: o.Name, Texts: x.core.serving.outside.Told.Text}
		}
		return err
	})
	if errors.Is(err, ledger.ErrNoOrganization) {
		x.core.alarms.Raise(fault.AlarmIndex)
		return fault.NewBreach(fault.AlarmIndex, "a row of no organization")
	}
	return err
}

// answer reads the body and does what the endpoint is for.
func (x *proxyCall) answer(ctx context.Context, e *authproxy.Endpoint) (answer, error) {
	r, err := e.Read(x.call.Body)
	if err != nil {
		return answer{}, err
	}
	if err := x.pay(x.core.proxies.visit(x.config.ID, x.source(), r, x.core.cfg.Clock.Now())); err != nil {
		return answer{}, err
	}
	if err := x.config.Allows(r); err != nil {
		return answer{}, err
	}
	x.visit.timing.end(phaseStamp)
	if body := r.Answer(x.config); body != nil {
		return answer{status: 200, body: body}, nil
	}
	if r.Account != nil {
		return x.account(ctx, r.Account)
	}
	if _, err := kinds.Live.Lookup(activity.OpOf(r.Type), r.Type); err != nil {
		return answer{}, err
	}
	of, err := x.target(ctx, r)
	if err != nil {
		return answer{}, err
	}
	if err := x.client(ctx, r); err != nil {
		return answer{}, err
	}
	return x.submit(ctx, r, of)
}

// submit makes the activity, stamps it, and cuts its answer down to the endpoint's.
func (x *proxyCall) submit(ctx context.Context, r *authproxy.Request, of org.ID) (answer, error) {
	at, err := x.core.proxies.timestamp(x.core.now())
	if err != nil {
		return answer{}, err
	}
	body, err := r.Submit(x.config, of, at)
	if err != nil {
		return answer{}, err
	}
	call, err := x.stampCall(ctx, activity.OpOf(r.Type), body)
	if err != nil {
		return answer{}, err
	}
	a, err := x.core.submit(ctx, call, x.visit)
	if err != nil {
		return a, r.TranslateError(err)
	}
	if a.status == 200 {
		a.body, err = r.Cut(a.body)
	}
	return a, err
}

// account asks the proxy's organization for its sub-organizations.
func (x *proxyCall) account(ctx context.Context, r *authproxy.AccountLookup) (answer, error) {
	link, err := r.Admit(x.config, x.core.serving.tokenKeys(), x.core.now())
	if err == nil && link {
		var i *login.Identity
		if i, err = x.visit.lookups.Identity(ctx, x.config.Organization, "oidcToken", *r.OidcToken); err == nil {
			err = r.AdmitLinked(x.config, i)
		}
	}
	if err != nil {
		return answer{}, err
	}
	op, body := r.Query(x.config)
	call, err := x.stampCall(ctx, op, body)
	if err != nil {
		return answer{}, err
	}
	a, err := x.core.query(ctx, call, x.visit)
	if err == nil {
		a.body, err = r.Cut(a.body)
	}
	return a, err
}

// target is the organization in which the activity is to run: for a log-in the
// sub-organization that it names or that is found by what it shows, otherwise the
// proxy's own. Nobody logs in to that one through the proxy.
func (x *proxyCall) target(ctx context.Context, r *authproxy.Request) (of org.ID, err error) {
	if r.Token == "" && r.Identity == "" {
		return x.config.Organization, nil
	}
	var by [][]authproxy.Holder
	if r.Organization == nil {
		if by, err = x.holders(ctx, r); err != nil {
			return of, err
		}
	}
	err = x.visit.Turn(ctx, x.config.Organization, func(t *ledger.Turn) error {
		tx := org.Begin(t.ID(), t.State, x.core.now())
		var child *org.Child
		var err error
		if r.Organization != nil {
			child, err = tx.Child(*r.Organization)
		}
		for i := 0; err == nil && child == nil && i < len(by); i++ {
			child, err = oldest(tx, by[i])
		}
		if err == nil && child == nil {
			err = fault.WithCode(fault.NotFound, "ORGANIZATION_NOT_FOUND", "no organization found to log in to")
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
func (x *proxyCall) holders(ctx context.Context, r *authproxy.Request) ([][]authproxy.Holder, error) {
	if r.Identity != "" {
		i, err := x.visit.lookups.Identity(ctx, x.config.Organization, "oidcToken", r.Identity)
		if err != nil {
			return nil, err
		}
		by := [][]authproxy.Holder{authproxy.HoldersOf(i)}
		if h, ok := authproxy.LinkedHolder(x.config, i); ok {
			by = append(by, []authproxy.Holder{h})
		}
		return by, nil
	}
	const field = "verificationToken"
	u, err := login.ReadVerificationToken(field, r.Token, x.core.serving.tokenKeys(), x.core.now())
	if err != nil {
		return nil, err
	}
	if !u.IssuedBy(x.config.Organization.String()) {
		return nil, login.InvalidVerificationToken(field)
	}
	t, err := r.VerifyToken(u)
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
func (x *proxyCall) client(ctx context.Context, r *authproxy.Request) error {
	if r.Client == nil {
		return nil
	}
	return x.visit.Turn(ctx, x.config.Organization, func(t *ledger.Turn) error {
		return org.Begin(t.ID(), t.State, x.core.now()).EachOAuth2Credential(func(c *org.OAuth2Credential) bool {
			if c.Provider == r.Client.Provider && c.ClientID == r.Client.ClientID {
				r.Client.Credential = c.ID
			}
			return r.Client.Credential.Zero()
		})
	})
}

// stampCall is a call with a body of the enclave's own making.
func (x *proxyCall) stampCall(ctx context.Context, op string, body []byte) (*wire.Call, error) {
	head, err := x.stamp(ctx, body)
	if err != nil {
		return nil, err
	}
	return &wire.Call{Door: wire.DoorProxy, Op: op, Head: head, Body: body, From: x.call.From}, nil
}
