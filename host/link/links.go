package link

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"cloister/shared/wire"
)

// Links connects the host to all enclaves of a deployment. It routes a call to the enclave that owns
// the organization's range, by the range tables that the enclaves sign. A misleading hint in the
// body, or an old table, costs only another try: an enclave answers only for ranges that it owns.
//
// While a range has no owner, calls for it wait. A submit or query whose enclave is lost before the
// reply is sent again to the next owner: the same body is one activity.
type Links struct {
	options LinksOptions
	all     []*Link

	mu       sync.Mutex
	tables   []*wire.Table // of each link, nil while its enclave returns none
	keys     map[string]string
	ranges   int                // of the deployment; 0 until the first table
	owners   map[wire.Range]int // indices into all
	configs  map[string]wire.Range
	changed  chan struct{} // closed and replaced when owners change
	rows     map[wire.Range]rowWatch
	disjoint bool // an enclave of another deployment was seen and logged
}

// LinksOptions of Links. All are needed.
type LinksOptions struct {
	Links []*Link // 1 to MaxEnclaves
	// Own reads the ownership row of a range in the store.
	Own   func(context.Context, wire.Own) (wire.Owned, error)
	Log   *slog.Logger
	Now   func() time.Time
	Pause func(ctx context.Context, d time.Duration)
	Rand  io.Reader
}

// MaxEnclaves bounds LinksOptions.Links.
const MaxEnclaves = 64

// Time limits of routing.
const (
	askTable   = 2 * time.Second       // of a request for an enclave's range table
	pauseTry   = 50 * time.Millisecond // before a call is tried again, unless owners change earlier
	longestTry = 20 * time.Second      // for which a call waits for an owner
)

// maxConfigs bounds the auth proxy configurations whose ranges are cached.
const maxConfigs = 4096

// NewLinks makes Links. They have no connections until Run.
func NewLinks(o LinksOptions) (*Links, error) {
	if len(o.Links) == 0 || len(o.Links) > MaxEnclaves {
		return nil, fmt.Errorf("%d enclaves, want 1 to %d", len(o.Links), MaxEnclaves)
	}
	if o.Own == nil || o.Log == nil || o.Now == nil || o.Pause == nil || o.Rand == nil {
		return nil, errors.New("link: incomplete options")
	}
	return &Links{options: o, all: o.Links, tables: make([]*wire.Table, len(o.Links)), keys: map[string]string{}, owners: map[wire.Range]int{},
		configs: map[string]wire.Range{}, changed: make(chan struct{}), rows: map[wire.Range]rowWatch{}}, nil
}

// Run keeps all connections open and assigns ranges to enclaves until ctx ends.
func (l *Links) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, one := range l.all {
		all.Go(func() { one.Run(ctx) })
	}
	all.Go(func() { l.placeRanges(ctx) })
	all.Wait()
}

// Call sends a call to the enclave that owns its range and waits for the reply until ctx ends. Errors
// are those of Link.Call.
func (l *Links) Call(ctx context.Context, call *wire.Call) (reply *wire.Reply, err error) {
	r, known := l.hint(call)
	// The enclave makes the activity of a proxy call itself: sent again it would be another activity.
	again := call.Endpoint == wire.EndpointSubmit || call.Endpoint == wire.EndpointQuery
	err = l.route(ctx, r, known, again, func(to *Link) (moved uint16, err error) {
		if reply, err = to.Call(ctx, call); err != nil {
			return 0, err
		}
		if reply.Moved != 0 && call.Endpoint == wire.EndpointProxy {
			l.noteOwner(call, wire.Range(reply.Moved-1))
		}
		return reply.Moved, nil
	})
	if err != nil && reply != nil && reply.Moved != 0 && errors.Is(err, errNoOwner) {
		return reply, nil // the enclave's own error for a range that it does not own
	}
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// OpenSend is Link.OpenSend on the enclave that owns the send's organization.
func (l *Links) OpenSend(ctx context.Context, id wire.SendID) (opened *wire.Opened, err error) {
	r, known := l.rangeOf(id.Organization)
	err = l.route(ctx, r, known, true, func(to *Link) (uint16, error) {
		if opened, err = to.OpenSend(ctx, id); err != nil {
			return 0, err
		}
		return opened.Moved, nil
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// Deliver is Link.Deliver on the enclave that owns the send's organization. After a lost reply it
// does not try another enclave: the outbox retries later.
func (l *Links) Deliver(ctx context.Context, id wire.SendID) (delivered *wire.Delivered, err error) {
	r, known := l.rangeOf(id.Organization)
	err = l.route(ctx, r, known, false, func(to *Link) (uint16, error) {
		if delivered, err = to.Deliver(ctx, id); err != nil {
			return 0, err
		}
		return delivered.Moved, nil
	})
	if err != nil {
		return nil, err
	}
	return delivered, nil
}

// errNoOwner is the ErrUnavailable of a range without an owner.
var errNoOwner = fmt.Errorf("%w: no enclave owns the range", ErrUnavailable)

// route calls ask with one enclave after the other until one owns the range. known says that r is a
// guess of the range. With again it goes on after a lost reply too, when the call may have been done.
func (l *Links) route(ctx context.Context, r wire.Range, known, again bool, ask func(*Link) (moved uint16, err error)) error {
	until := l.options.Now().Add(longestTry)
	asked := map[int]bool{} // enclaves that did not own the range, since the last pause
	for {
		changed, i := l.pick(r, known, asked)
		err := errNoOwner
		if i >= 0 {
			var to uint16
			to, err = ask(l.all[i])
			switch {
			case err == nil && to == 0:
				return nil
			case err == nil:
				if was := r; known && was == wire.Range(to-1) {
					l.forgetOwner(r, i)
				}
				r, known, err = wire.Range(to-1), true, errNoOwner
			case ctx.Err() != nil || !errors.Is(err, ErrUnavailable):
				return err
			case !again && !errors.Is(err, errNotConnected):
				return err
			}
			if asked[i] = true; len(asked) < len(l.all) && errors.Is(err, errNoOwner) {
				continue // another may own it
			}
		}
		if !l.options.Now().Before(until) || len(l.all) == 1 && !errors.Is(err, errNoOwner) {
			return err
		}
		clear(asked)
		waiting, stop := context.WithCancel(ctx)
		go func() {
			select {
			case <-changed:
				stop()
			case <-waiting.Done():
			}
		}()
		l.options.Pause(waiting, pauseTry)
		stop()
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
}

// pick chooses the enclave to ask: the range's owner, or else the first connected one that was not
// asked, serving ones first; -1 for none. changed is closed when owners change.
func (l *Links) pick(r wire.Range, known bool, asked map[int]bool) (changed <-chan struct{}, i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, ok := l.owners[r]; known && ok && !asked[i] {
		return l.changed, i
	}
	for _, serving := range []bool{true, false} {
		for i := range l.all {
			if !asked[i] && l.all[i].pick() != nil && (l.tables[i] != nil) == serving {
				return l.changed, i
			}
		}
	}
	if len(l.all) == 1 && !asked[0] {
		return l.changed, 0 // not connected: its error says why
	}
	return l.changed, -1
}

// forgetOwner removes an enclave as the owner of a range, until its next table.
func (l *Links) forgetOwner(r wire.Range, i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, ok := l.owners[r]; ok && n == i {
		delete(l.owners, r)
	}
}

// rangeOf is the range of an organization; false before the first table, which has the number of ranges.
func (l *Links) rangeOf(id wire.ID) (wire.Range, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ranges == 0 {
		return 0, false
	}
	return wire.RangeOf(id, l.ranges), true
}

// hint guesses the range of a call from its body, or for the auth proxy from its configuration id.
// The guess only routes: the enclave parses the body itself.
func (l *Links) hint(call *wire.Call) (wire.Range, bool) {
	if call.Endpoint == wire.EndpointProxy {
		l.mu.Lock()
		defer l.mu.Unlock()
		r, ok := l.configs[configOf(call)]
		return r, ok
	}
	id, ok := organizationIn(call.Body)
	if !ok {
		return 0, false
	}
	return l.rangeOf(id)
}

func (l *Links) noteOwner(call *wire.Call, r wire.Range) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.configs) >= maxConfigs {
		clear(l.configs)
	}
	l.configs[configOf(call)] = r
}

func configOf(call *wire.Call) string {
	for _, h := range call.Head {
		if strings.EqualFold(h.Name, "X-Auth-Proxy-Config-Id") {
			return h.Value
		}
	}
	return ""
}

// organizationIn finds the first organizationId in a body whose value is a UUID.
func organizationIn(body []byte) (id wire.ID, ok bool) {
	const name = `"organizationId"`
	for {
		at := bytes.Index(body, []byte(name))
		if at < 0 {
			return id, false
		}
		body = body[at+len(name):]
		text := bytes.TrimLeft(body, " \t\r\n")
		if len(text) == 0 || text[0] != ':' {
			continue
		}
		text = bytes.TrimLeft(text[1:], " \t\r\n")
		if len(text) < 38 || text[0] != '"' || text[37] != '"' {
			continue
		}
		if id, ok = parseID(text[1:37]); ok {
			return id, true
		}
	}
}

func parseID(text []byte) (id wire.ID, ok bool) {
	if text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, false
	}
	plain := make([]byte, 0, 32)
	for _, part := range bytes.Split(text, []byte("-")) {
		plain = append(plain, part...)
	}
	if len(plain) != 32 {
		return id, false
	}
	_, err := hex.Decode(id[:], plain)
	return id, err == nil
}

// Ready returns nil if at least one Link is ready, else the last one's error.
func (l *Links) Ready() (err error) {
	for _, one := range l.all {
		if err = one.Ready(); err == nil {
			return nil
		}
	}
	return err
}

// Stats returns the sums over all enclaves.
func (l *Links) Stats() (sum Stats) {
	for _, one := range l.all {
		s := one.Stats()
		sum.Connected += s.Connected
		sum.Wanted += s.Wanted
		sum.InFlight += s.InFlight
		sum.Late += s.Late
		sum.Dials += s.Dials
		sum.Breaches += s.Breaches
		sum.Wrong += s.Wrong
	}
	return sum
}
