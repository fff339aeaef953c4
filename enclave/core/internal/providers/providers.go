package providers

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/enclave/internal/settings"
)

// Bounds on what is fetched: organizations choose from where.
const (
	maxIssuers   = 10 // that one request waits for
	maxLoads     = 64 // key sets fetched at a time, divided among tenants
	maxExchanges = 64 // codes exchanged at a time, divided among tenants
	exchangeWait = 5 * time.Second
)

// IdentityProviders fetches from identity providers, for requests that have authenticated.
type IdentityProviders struct {
	clock   ledger.Clock
	client  *netclient.Client
	issuers *netclient.Issuers[*login.KeySet]
	issuer  string        // our own URL, empty where we issue nothing
	own     *login.KeySet // of issuer
	others  map[string]settings.Endpoints

	loadsOf, exchangesOf *tenant.Portion[org.ID]

	mu        sync.Mutex
	loads     map[string]*load
	exchanges map[org.ID]*exchange
}

// load is one fetch of a key set, for everybody who waits for it.
type load struct {
	done chan struct{}
	err  error
}

// exchange is the one exchange of an activity's authorization code. It is kept while a
// request that runs the activity is under way.
type exchange struct {
	act    org.ID
	who    org.ID // the tenant
	done   chan struct{}
	got    *activity.Exchanged
	err    error
	shares int
}

// An Account pays for questions. MayAsk refuses one more for a tenant, or charges it.
type Account interface{ MayAsk(tenant org.ID) error }

// Lookups are what one request has asked identity providers so far.
type Lookups struct {
	services      *Services
	Tenant        org.ID           // that they are for
	Account       Account          // of who asks; nil: nobody counts
	tried         map[string]error // issuers, with what came of it
	exchange      *exchange        // that the request's activity shares in
	session       *session         // at an on-ramp provider; nil: none was asked for
	paid          map[string]*paid // at the payment processor, by the questions' texts
	imageLookup   *imageLookup     // into the one image that it asks about
	programStatus map[programStatusKey]*query.ProgramStatus
}

// Lookups begins a request's.
func (o *Services) Lookups() *Lookups {
	return &Lookups{services: o}
}

// End gives up the request's share in an exchange.
func (a *Lookups) End() { a.services.IdentityProviders.releaseSlot(a.exchange) }

// Keys returns an issuer's keys, or an *org.Retry that fetches them. One request asks an
// issuer once.
func (a *Lookups) Keys(field, issuer string, has func(*login.KeySet) bool) (*login.KeySet, error) {
	o := a.services.IdentityProviders
	if issuer == o.issuer && issuer != "" {
		return o.own, nil
	}
	set, err := o.issuers.Keys(issuer, has)
	if !errors.Is(err, netclient.ErrNotLoaded) {
		return set, keyError(field, err)
	}
	if failed, tried := a.tried[issuer]; tried {
		return nil, keyError(field, cmp.Or(failed, err)) // err: they came and went
	}
	if len(a.tried) >= maxIssuers {
		return nil, fault.New(fault.ResourceExhausted, "the request has OIDC tokens of more than %d issuers that must be asked for their keys", maxIssuers)
	}
	return nil, a.fetch(func(ctx context.Context) error {
		if a.tried == nil {
			a.tried = map[string]error{}
		}
		a.tried[issuer] = o.load(ctx, a.Tenant, issuer, has)
		return nil
	})
}

// fetch is a transaction's question to a server outside, if one more may be asked.
func (a *Lookups) fetch(ask func(context.Context) error) error {
	return &org.Retry{Prefetch: func(ctx context.Context) error {
		if a.Account != nil {
			if err := a.Account.MayAsk(a.Tenant); err != nil {
				return err
			}
		}
		return ask(ctx)
	}}
}

// Identity verifies an identity token, for a tenant. It fetches the issuer's keys at once if
// need be, so the caller holds no lock.
func (a *Lookups) Identity(ctx context.Context, tenant org.ID, field, token string) (*login.Identity, error) {
	u, err := login.ParseIdentityToken(field, token)
	if err != nil {
		return nil, err
	}
	a.Tenant = tenant
	set, err := a.Keys(field, u.Issuer(), u.KnownTo)
	if m, ok := errors.AsType[*org.Retry](err); ok {
		if err = m.Prefetch(ctx); err == nil {
			set, err = a.Keys(field, u.Issuer(), u.KnownTo)
		}
	}
	if err != nil {
		return nil, err
	}
	return u.Verify(set, uint64(a.services.IdentityProviders.clock.Now().UnixMilli()))
}

var errCrowded = errors.New("too much is being fetched")

// load fetches an issuer's key set for a tenant, or waits for the fetch that is under way.
func (o *IdentityProviders) load(ctx context.Context, who org.ID, issuer string, has func(*login.KeySet) bool) error {
	o.mu.Lock()
	l := o.loads[issuer]
	if l == nil {
		if !o.loadsOf.Take(who, 1) {
			o.mu.Unlock()
			return errCrowded
		}
		l = &load{done: make(chan struct{})}
		o.loads[issuer] = l
		go func() {
			// Callers may give up waiting: the fetch goes on, within its own time.
			err := o.issuers.Load(context.WithoutCancel(ctx), issuer, has)
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.loads, issuer)
			o.loadsOf.Add(who, -1)
			l.err = err
			close(l.done)
		}()
	}
	o.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keyError tells users why there is no key set. A *fault.Error says what is wrong with the
// issuer's documents, and is told as it is.
func keyError(field string, err error) error {
	switch f := fault.Of(err); {
	case err == nil:
		return nil
	case f != nil:
		e := *f
		e.Violations = []fault.Violation{{Field: field, Description: e.Message}}
		return &e
	case errors.Is(err, netclient.ErrNoKey):
		return login.NoIssuerKey(field)
	case errors.Is(err, errCrowded):
		return login.IssuerAway("too many issuers are being asked")
	case netclient.KindOf(err) == netclient.Refused:
		return login.NoIssuer(field)
	}
	return login.IssuerAway(failureText(err))
}

// failureText says in our words what happened outside.
func failureText(err error) string {
	switch netclient.KindOf(err) {
	case netclient.Late:
		return "it did not answer in time"
	case netclient.Untrusted:
		return "its certificate does not hold"
	case netclient.Garbled:
		return "its answer is not what it should be"
	case netclient.TooLarge:
		return "its answer is too large"
	}
	return "it could not be reached"
}

// For is what one activity of the request asks.
func (a *Lookups) For(act org.ID) activity.Providers { return ofActivity{a, act} }

type ofActivity struct {
	*Lookups
	activity org.ID
}

// Exchange returns what came of the activity's exchange, or an *org.Retry that makes it.
func (x ofActivity) Exchange(e *activity.Exchange) (*activity.Exchanged, error) {
	if s := x.exchange; s != nil {
		e.Secret.Wipe()
		return s.got, s.err
	}
	return nil, x.fetch(func(ctx context.Context) error {
		s, err := x.services.IdentityProviders.share(ctx, x.Tenant, x.activity, e)
		if err != nil {
			return err
		}
		x.exchange = s
		select {
		case <-s.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// share begins the exchange of an activity, or joins the one under way. Two requests with
// the same body, or two votes, must not exchange one code twice: a provider may then take
// back what it gave. The secret is wiped.
func (o *IdentityProviders) share(ctx context.Context, who, act org.ID, e *activity.Exchange) (*exchange, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.exchanges[act]
	switch {
	case s != nil:
		e.Secret.Wipe()
	case !o.exchangesOf.Take(who, 1):
		e.Secret.Wipe()
		return nil, fault.New(fault.Unavailable, "too many authorization codes are being exchanged; try again")
	default:
		s = &exchange{act: act, who: who, done: make(chan struct{}), shares: 1} // its own, until it is made
		o.exchanges[act] = s
		go func() {
			defer o.releaseSlot(s)
			defer close(s.done)
			defer e.Secret.Wipe()
			defer func() {
				if recover() != nil { // nobody stands above who could catch it
					s.got, s.err = nil, fault.New(fault.Unavailable, "%s gave an answer that cannot be used; try again", e.Provider.Name)
				}
			}()
			s.got, s.err = o.exchange(context.WithoutCancel(ctx), e)
		}()
	}
	s.shares++
	return s, nil
}

// releaseSlot ends a share in an exchange; s may be nil. With the last share the outcome is
// forgotten: the activity has ended, or nobody waits for it.
func (o *IdentityProviders) releaseSlot(s *exchange) {
	if s == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.shares--; s.shares == 0 {
		delete(o.exchanges, s.act)
		o.exchangesOf.Add(s.who, -1)
	}
}

// exchange asks a provider for an access token and then whose it is.
func (o *IdentityProviders) exchange(ctx context.Context, e *activity.Exchange) (*activity.Exchanged, error) {
	p := e.Provider
	if u, ok := o.others[p.Name]; ok {
		p.TokenURL, p.UserURL = u.TokenURL, u.UserURL
	}
	ask, err := p.Exchange(&e.Code, e.ClientID, e.Secret)
	if err != nil {
		return nil, err
	}
	status, body, err := send(ctx, o.client, p.Name, ask)
	if err != nil {
		return nil, err
	}
	defer clear(body)
	token, err := p.AccessToken(status, body)
	if err != nil {
		return nil, err
	}
	defer token.Wipe()
	if status, body, err = send(ctx, o.client, p.Name, p.WhoAmI(token)); err != nil {
		return nil, err
	}
	got := new(activity.Exchanged)
	if got.Subject, err = p.Subject(status, body); err != nil {
		return nil, err
	}
	if e.BearerTo != "" {
		got.Bearer, err = login.EncryptBearerToken("bearerTokenTargetPublicKey", e.BearerTo, token)
	}
	return got, err
}

// send makes one request of a provider and wipes it.
func send(ctx context.Context, client *netclient.Client, name string, ask *login.Request) (status int, body []byte, err error) {
	defer ask.Wipe()
	out := netclient.Request{Method: ask.Method, URL: ask.URL, Body: ask.Body, Wait: exchangeWait}
	for _, h := range ask.Header {
		out.Fields = append(out.Fields, netclient.Field{Name: h.Name, Value: h.Value})
	}
	answer, err := client.Exchange(ctx, out)
	if err != nil {
		return 0, nil, fault.New(fault.Unavailable, "%s could not be asked: %s; try again", name, failureText(err))
	}
	return answer.Status, answer.Body, nil
}
