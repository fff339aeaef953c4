package netclient

import (
	"container/list"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How long key sets are believed and how often they are asked for.
const (
	maxLife    = 6 * time.Hour   // a set is believed no longer; a provider may ask for less
	againAfter = time.Minute     // between two askings for a key that the set does not have, and the least life
	retryAfter = 5 * time.Second // after a failure, before the same provider is asked again
	issuerWait = 5 * time.Second // deadline of each of the two requests
	maxIssuers = 256             // providers remembered; the one not used for longest goes
)

var (
	// ErrNotLoaded says that a key set must be loaded before its keys can be told.
	ErrNotLoaded = errors.New("netclient: the provider's keys are not loaded")
	// ErrNoKey says that the provider's set, as new as it has to be, has no such key.
	ErrNoKey = errors.New("netclient: the provider has no such key")
)

// A Reading takes the two documents of a provider apart. Both functions get at
// most MaxBody bytes of what the provider answered.
type Reading[K any] struct {
	// Discovery returns where the issuer's keys are: the member jwks_uri of a
	// document that must name just this issuer.
	Discovery func(document []byte, issuer string) (keysURL string, err error)
	// Keys reads the key set. What it returns is kept, and must not change.
	Keys func(document []byte) (K, error)
}

// Issuers are the key sets of identity providers, kept for a while. It is safe for
// concurrent use.
//
// A decision asks Keys, which never waits. On ErrNotLoaded it gives up, Load is called
// with no lock held, and the decision is made again.
type Issuers[K any] struct {
	client  *Client
	reading Reading[K]
	most    int // providers remembered

	mu      sync.Mutex
	known   map[string]*list.Element // of *provider[K]
	order   list.List                // used last is in front
	flights map[string]*flight
}

// A provider is what is known of one issuer.
type provider[K any] struct {
	issuer string
	keys   K
	until  time.Time // when keys end; zero when they were never loaded
	tried  time.Time // when it was asked last
	err    error     // what came of that
}

// A flight is one loading, for everybody who waits for it.
type flight struct {
	done chan struct{}
	err  error
}

// NewIssuers makes an empty cache.
func NewIssuers[K any](c *Client, r Reading[K]) *Issuers[K] {
	return &Issuers[K]{client: c, reading: r, most: maxIssuers, known: map[string]*list.Element{}, flights: map[string]*flight{}}
}

// Keys returns the issuer's key set, provided that has says that it will do, such as that
// it has the key of a token. has runs under a lock and must not wait. Keys returns
// ErrNotLoaded when Load may find such a set. While it is too early to look again, it
// returns the error of the last look, or ErrNoKey.
func (s *Issuers[K]) Keys(issuer string, has func(K) bool) (K, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys(issuer, has)
}

func (s *Issuers[K]) keys(issuer string, has func(K) bool) (none K, err error) {
	at := s.known[issuer]
	if at == nil {
		return none, ErrNotLoaded
	}
	s.order.MoveToFront(at)
	p, now, wait := at.Value.(*provider[K]), s.client.cfg.Clock.Now(), againAfter
	if !now.Before(p.until) {
		wait = retryAfter
	} else if has(p.keys) {
		return p.keys, nil
	}
	switch {
	case !now.Before(p.tried.Add(wait)):
		return none, ErrNotLoaded
	case p.err != nil:
		return none, p.err
	}
	return none, ErrNoKey
}

// Load fetches what Keys(issuer, has) lacks, if it is not too early for that. However many
// ask at once, a provider is asked once; giving up does not end it for the others. Errors
// are *Error, or those of the Reading.
func (s *Issuers[K]) Load(ctx context.Context, issuer string, has func(K) bool) error {
	where, err := discovery(issuer, s.client.cfg.Loopback)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if _, err := s.keys(issuer, has); !errors.Is(err, ErrNotLoaded) {
		s.mu.Unlock()
		if errors.Is(err, ErrNoKey) {
			return nil
		}
		return err
	}
	f := s.flights[issuer]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		s.flights[issuer] = f
		go s.load(context.WithoutCancel(ctx), issuer, where, f)
	}
	s.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return failBecause(Away, "given up", context.Cause(ctx))
	}
}

// load fetches one set and remembers what came of it. A set that was believed
// stays so when fetching it again fails, but no longer than it would have.
func (s *Issuers[K]) load(ctx context.Context, issuer, where string, f *flight) {
	keys, life, err := s.fetchGuarded(ctx, issuer, where)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.client.cfg.Clock.Now()
	at := s.known[issuer]
	if at == nil {
		at = s.order.PushFront(&provider[K]{issuer: issuer})
		s.known[issuer] = at
		for s.order.Len() > s.most {
			delete(s.known, s.order.Remove(s.order.Back()).(*provider[K]).issuer)
		}
	}
	p := at.Value.(*provider[K])
	p.tried, p.err = now, err
	if err == nil {
		p.keys, p.until = keys, now.Add(life)
	}
	delete(s.flights, issuer)
	f.err = err
	close(f.done)
}

// fetchGuarded is fetch, of which a panic is the provider's failure: nothing above this
// goroutine could catch it, and the documents are anybody's.
func (s *Issuers[K]) fetchGuarded(ctx context.Context, issuer, where string) (keys K, life time.Duration, err error) {
	defer func() {
		if recover() != nil {
			err = fail(Garbled, "the provider's documents cannot be read")
		}
	}()
	return s.fetch(ctx, issuer, where)
}

// fetch asks the provider where its keys are, and for them. Load has checked where.
func (s *Issuers[K]) fetch(ctx context.Context, issuer, where string) (keys K, life time.Duration, err error) {
	answer, err := s.get(ctx, where)
	if err != nil {
		return keys, 0, err
	}
	if where, err = s.reading.Discovery(answer.Body, issuer); err != nil {
		return keys, 0, err
	}
	if err = checkPublic(where, s.client.cfg.Loopback); err != nil {
		return keys, 0, err
	}
	if answer, err = s.get(ctx, where); err != nil {
		return keys, 0, err
	}
	if keys, err = s.reading.Keys(answer.Body); err != nil {
		return keys, 0, err
	}
	return keys, lifeOf(answer), nil
}

func (s *Issuers[K]) get(ctx context.Context, where string) (*Response, error) {
	answer, err := s.client.Exchange(ctx, Request{Method: "GET", URL: where, Fields: requestFields(), Wait: issuerWait})
	if err != nil {
		return nil, err
	}
	if answer.Status != 200 {
		return nil, fail(Garbled, "the provider answered with another status than 200")
	}
	return answer, nil
}

// lifeOf is how long a set is believed: as long as its answer says, within bounds.
func lifeOf(answer *Response) time.Duration {
	life := maxLife
	control, _ := answer.Field("Cache-Control")
	for directive := range strings.SplitSeq(control, ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		switch name {
		case "no-store", "no-cache":
			life = 0
		case "max-age":
			if n, err := strconv.ParseUint(value, 10, 31); err == nil {
				life = min(life, time.Duration(n)*time.Second)
			}
		}
	}
	return max(life, againAfter)
}

// discovery is where an issuer's document lies: OpenID Connect Discovery 1.0,
// section 4.
func discovery(issuer string, loop bool) (string, error) {
	if len(issuer) > maxIssuer || strings.Contains(issuer, "?") {
		return "", fail(Refused, "the issuer is malformed")
	}
	if err := checkPublic(issuer, loop); err != nil {
		return "", err
	}
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration", nil
}

// checkPublic refuses hosts that are no public names. Any organization may name an issuer,
// and could have somebody's own network asked.
func checkPublic(where string, loop bool) error {
	to, err := parseURL(where)
	switch {
	case err != nil:
		return err
	case loop && IsLoopback(to.host):
		return nil
	case !to.secure || !publicName(to.host):
		return fail(Refused, "an issuer and its keys must be at a public name, over https")
	}
	return nil
}
