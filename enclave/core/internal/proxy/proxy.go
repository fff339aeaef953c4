// Package proxy handles calls to the auth proxy, which lets people sign up and log in who have no key that any
// organization has.
//
// A call names a configuration. This package finds the configuration's organization, makes the body of an
// activity or a query, and stamps it with that organization's proxy key. Core treats it as any stamped call,
// and this package cuts down the answer. The key is opened for one request, and nobody outside ever has it.
package proxy

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"cloister/enclave/core/internal/providers"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/authproxy"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/shared/pace"
	"cloister/shared/wire"
)

// configHeader names the configuration.
const configHeader = "X-Auth-Proxy-Config-Id"

// Config is what calls are answered with.
type Config struct {
	Clock  ledger.Clock
	Alarms *fault.Alarms
	Rates  Rates
	// Texts tells whether text messages can be sent at all.
	Texts bool
	// Tokens verify the enclave's verification tokens.
	Tokens login.TokenKeys
	// Find asks the host's index which organization has a configuration.
	Find func(ctx context.Context, config org.ID) ([]ledger.IndexRow, error)
	// Open opens the private key of a configuration of t's organization.
	Open func(t *ledger.Locked, p *org.AuthProxy) (secret.Secret, error)
}

// Proxy is the auth proxies of all organizations.
type Proxy struct {
	cfg    Config
	meter  *meter
	homes  homes
	lastMs atomic.Uint64 // timestamp of the newest body that the enclave made
}

// New makes one that nobody has called yet.
func New(cfg Config) *Proxy {
	return &Proxy{cfg: cfg, meter: newMeter(cfg.Rates), homes: homes{of: map[org.ID]org.ID{}}}
}

// now is the enclave's time in milliseconds since the epoch.
func (p *Proxy) now() uint64 { return uint64(p.cfg.Clock.Now().UnixMilli()) }

// homes remembers which organization had a configuration when it was last asked.
type homes struct {
	mu sync.Mutex
	of map[org.ID]org.ID // by configuration; zero: unknown
}

// maxHomes bounds homes. What is forgotten is found again.
const maxHomes = 4096

func (h *homes) get(config org.ID) org.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[config]
}

func (h *homes) put(config, id org.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.of) >= maxHomes {
		clear(h.of)
	}
	h.of[config] = id
}

// A Call is one call to the auth proxy, with the stamped body that it leads to.
type Call struct {
	proxy   *Proxy
	call    *wire.Call
	access  *ranges.Access
	lookups *providers.Lookups
	config  *authproxy.Config
	request *authproxy.Request

	Readable bool       // by a page of the caller's origin
	Count    pace.Count // the least that the rates leave
	Body     []byte     // the answer, where the configuration gives it; else
	Stamped  *wire.Call // what is asked in the proxy's name,
	Query    bool       // by a query and no activity
}

// Read finds out what a call is to ask. Count and Readable are set with an error too.
func (p *Proxy) Read(ctx context.Context, call *wire.Call, v *ranges.Access, l *providers.Lookups) (*Call, error) {
	// Errors before the configuration is known are the same for everybody, so readable.
	x := &Call{proxy: p, call: call, access: v, lookups: l, Readable: true}
	e, err := authproxy.Find(call.Op)
	if err != nil {
		return x, err
	}
	id, err := authproxy.ParseConfigID(header(call, configHeader))
	if err != nil {
		return x, err
	}
	if err := x.pay(p.meter.caller(x.source(), p.cfg.Clock.Now())); err != nil {
		return x, err
	}
	if err := x.open(ctx, id); err != nil {
		return x, err
	}
	if x.Readable = x.config.Accepts(call.From.Origin); !x.Readable {
		return x, authproxy.WrongOrigin()
	}
	return x, x.read(ctx, e)
}

// Cut cuts the answer to what was asked down to the endpoint's answer. Whoever calls the proxy may not read the organization's
// policies, and so does not learn which of them refused.
func (x *Call) Cut(status int, body []byte, err error) ([]byte, error) {
	switch {
	case err != nil:
		if f := fault.Of(err); f != nil && f.Evaluations != nil {
			hidden := *f
			hidden.Evaluations = nil
			err = &hidden
		}
		return nil, x.request.TranslateError(err)
	case x.Query:
		return x.request.Account.Cut(body)
	case status == 200:
		return x.request.Cut(body)
	case activity.NamesPolicies(body):
		return activity.WithoutPolicies(body)
	}
	return body, nil
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

// open finds the organization of a configuration. The host's index names candidates; what
// counts is whether one has the configuration now.
func (x *Call) open(ctx context.Context, id org.ID) error {
	if home := x.proxy.homes.get(id); !home.Zero() {
		if err := x.readConfig(ctx, id, home); err != nil || x.config != nil {
			return err
		}
		x.proxy.homes.put(id, org.ID{})
	}
	rows, err := x.proxy.cfg.Find(ctx, id)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := x.readConfig(ctx, id, r.ID); err != nil {
			return err
		}
		if x.config != nil {
			x.proxy.homes.put(id, r.ID)
			return nil
		}
	}
	return authproxy.UnknownConfig()
}

// readConfig reads the configuration from an organization, if that has it.
func (x *Call) readConfig(ctx context.Context, id, home org.ID) error {
	err := x.access.WithLock(ctx, home, func(t *ledger.Locked) error {
		tx := t.Begin(x.proxy.now())
		o, err := tx.Organization()
		if err != nil || o.Deleted {
			return err
		}
		p, err := tx.AuthProxy(id)
		if p != nil {
			x.config = &authproxy.Config{AuthProxy: p, Organization: home, Name: o.Name, Texts: x.proxy.cfg.Texts}
		}
		return err
	})
	if errors.Is(err, ledger.ErrNoOrganization) {
		return x.proxy.cfg.Alarms.Breach(fault.AlarmIndex, "a row of no organization")
	}
	return err
}

// read reads the body and finds out what the endpoint is to ask, if anything.
func (x *Call) read(ctx context.Context, e *authproxy.Endpoint) error {
	r, err := e.Read(x.call.Body)
	if err != nil {
		return err
	}
	if err := x.pay(x.proxy.meter.count(x.config.ID, x.source(), r, x.proxy.cfg.Clock.Now())); err != nil {
		return err
	}
	if err := x.config.Allows(r); err != nil {
		return err
	}
	if x.Body = r.Answer(x.config); x.Body != nil {
		return nil
	}
	x.request, x.Query = r, r.Account != nil
	ask := x.activity
	if x.Query {
		ask = x.search
	}
	op, body, err := ask(ctx, r)
	if err != nil {
		return err
	}
	head, err := x.stamp(ctx, body)
	if err != nil {
		return err
	}
	x.Stamped = &wire.Call{Endpoint: wire.EndpointProxy, Op: op, Head: head, Body: body, From: x.call.From}
	return nil
}

// activity makes the activity that a request asks for.
func (x *Call) activity(ctx context.Context, r *authproxy.Request) (op string, body []byte, err error) {
	op = activity.OpOf(r.Type)
	if _, err := kinds.Live.Lookup(op, r.Type); err != nil {
		return "", nil, err
	}
	of, err := x.target(ctx, r)
	if err == nil {
		err = x.client(ctx, r)
	}
	var at uint64
	if err == nil {
		at, err = x.proxy.timestamp()
	}
	if err == nil {
		body, err = r.Submit(x.config, of, at)
	}
	return op, body, err
}

// search makes the query for the proxy's organization's sub-organizations.
func (x *Call) search(ctx context.Context, r *authproxy.Request) (op string, body []byte, err error) {
	a := r.Account
	linked, err := a.Admit(x.config, x.proxy.cfg.Tokens, x.proxy.now())
	if err == nil && linked {
		var i *login.Identity
		if i, err = x.lookups.Identity(ctx, x.config.Organization, "oidcToken", *a.OidcToken); err == nil {
			err = a.AdmitLinked(x.config, i)
		}
	}
	if err == nil {
		op, body = a.Query(x.config)
	}
	return op, body, err
}

// target is the organization in which the activity is to run: for a log-in the
// sub-organization that it names or that its token leads to, otherwise the proxy's own.
func (x *Call) target(ctx context.Context, r *authproxy.Request) (of org.ID, err error) {
	if r.Token == "" && r.Identity == "" {
		return x.config.Organization, nil
	}
	var by [][]authproxy.Holder
	if r.Organization == nil {
		if by, err = x.holders(ctx, r); err != nil {
			return of, err
		}
	}
	err = x.access.WithLock(ctx, x.config.Organization, func(t *ledger.Locked) (err error) {
		tx := t.Begin(x.proxy.now())
		var child *org.Child
		if r.Organization != nil {
			child, err = tx.Child(*r.Organization)
		}
		for i := 0; err == nil && child == nil && i < len(by); i++ {
			child, err = oldest(tx, by[i])
		}
		switch {
		case err != nil:
			return err
		case child == nil && r.Organization != nil: // of another, or of nobody
			return activity.NoOrganization(*r.Organization)
		case child == nil:
			return fault.WithCode(fault.NotFound, "ORGANIZATION_NOT_FOUND", "no organization found to log in to")
		}
		of = child.ID
		return nil
	})
	return of, err
}

// holders are what the sub-organization of a log-in is found by: the first that leads to one
// counts. The token is verified first: a mere claim must not tell whether anybody has it.
func (x *Call) holders(ctx context.Context, r *authproxy.Request) ([][]authproxy.Holder, error) {
	if r.Identity != "" {
		i, err := x.lookups.Identity(ctx, x.config.Organization, "oidcToken", r.Identity)
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
	u, err := login.ReadVerificationToken(field, r.Token, x.proxy.cfg.Tokens, x.proxy.now())
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

// oldest is the first made of the sub-organizations that one of by leads to, nil if none does.
func oldest(tx *org.Tx, by []authproxy.Holder) (first *org.Child, err error) {
	for _, h := range by {
		ids, err := h.Children(tx)
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

// client finds the organization's credential at the OAuth 2.0 provider of a request.
func (x *Call) client(ctx context.Context, r *authproxy.Request) error {
	if r.Client == nil {
		return nil
	}
	return x.access.WithLock(ctx, x.config.Organization, func(t *ledger.Locked) error {
		return t.Begin(x.proxy.now()).EachOAuth2Credential(func(c *org.OAuth2Credential) bool {
			if c.Provider == r.Client.Provider && c.ClientID == r.Client.ClientID {
				r.Client.Credential = c.ID
			}
			return r.Client.Credential.Zero()
		})
	})
}
