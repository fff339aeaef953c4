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

// Links connect the host to all enclaves of a deployment. A call goes to the enclave that owns the
// organization's range, by the tables that the enclaves sign. A misleading hint in the body, or an
// old table, costs another try and no more: an enclave answers only for what it owns.
//
// While a range has no owner, calls for it wait. A call on its way to an enclave that was lost is
// sent again to the next owner: the same body is one activity.
type Links struct {
	options LinksOptions
	all     []*Link

	mu       sync.Mutex
	tables   []*wire.Table // of each link, nil while it tells none
	keys     map[string]string
	ranges   int                // of the deployment; 0 while nobody has told
	owners   map[wire.Range]int // places in all
	configs  map[string]wire.Range
	changed  chan struct{} // closed and replaced when owners change
	rows     map[wire.Range]rowWatch
	disjoint bool // an enclave of another deployment was seen and logged
}

// LinksOptions of Links. All are needed.
type LinksOptions struct {
	Links []*Link // 1 to MaxEnclaves
	// Own looks at the row of a range.
	Own   func(context.Context, wire.Own) (wire.Owned, error)
	Log   *slog.Logger
	Now   func() time.Time
	Pause func(ctx context.Context, d time.Duration)
	Rand  io.Reader
}

// MaxEnclaves bounds LinksOptions.Links.
const MaxEnclaves = 64

// Times of routing.
const (
	askTable   = 2 * time.Second       // an enclave may take to tell what it owns
	pauseTry   = 50 * time.Millisecond // before a call is tried again, unless the table changes
	longestTry = 20 * time.Second      // a call waits for an owner
)

// maxConfigs bounds the configurations of the auth proxy whose ranges are remembered.
const maxConfigs = 4096

// NewLinks makes Links; Run connects them.
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

// Run keeps all connections and places ranges until ctx ends.
func (l *Links) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, one := range l.all {
		all.Go(func() { one.Run(ctx) })
	}
	all.Go(func() { l.placeRanges(ctx) })
	all.Wait()
}

// Call hands a request to the right enclave and waits for the reply until ctx ends. Errors are those
// of Link.Call.
func (l *Links) Call(ctx context.Context, call *wire.Call) (reply *wire.Reply, err error) {
	r, known := l.hint(call)
	// The proxy's bodies are the enclave's own: sent again they are another activity.
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
		return reply, nil // which says so
	}
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// OpenSend is Link.OpenSend at the enclave that owns the send's organization.
func (l *Links) OpenSend(ctx context.Context, id wire.SendID) (opened *wire.Opened, err error) {
	r, known := l.of(id.Organization)
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

// Deliver is Link.Deliver at the enclave that owns the send's organization. After a lost answer it
// does not try elsewhere: its sender does that later.
func (l *Links) Deliver(ctx context.Context, id wire.SendID) (delivered *wire.Delivered, err error) {
	r, known := l.of(id.Organization)
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

// errNoOwner is ErrUnavailable because there is no owner.
var errNoOwner = fmt.Errorf("%w: no enclave owns the range", ErrUnavailable)

// route asks one enclave after the other until one answers that it is the right one. With again it
// also goes on after a lost answer, when nobody knows what was done.
func (l *Links) route(ctx context.Context, r wire.Range, known, again bool, ask func(*Link) (moved uint16, err error)) error {
	until := l.options.Now().Add(longestTry)
	asked := map[int]bool{} // since the last pause, in vain
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
				continue // another may be it
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

// pick chooses the enclave to ask: the range's owner, or the first reachable one that was not asked,
// serving ones first; -1 for none.
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
		return l.changed, 0 // its error says why it cannot
	}
	return l.changed, -1
}

// forgetOwner forgets that an enclave owns a range, until its next table.
func (l *Links) forgetOwner(r wire.Range, i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, ok := l.owners[r]; ok && n == i {
		delete(l.owners, r)
	}
}

// of is the range of an organization, once a table has told how many there are.
func (l *Links) of(id wire.ID) (wire.Range, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ranges == 0 {
		return 0, false
	}
	return wire.RangeOf(id, l.ranges), true
}

// hint guesses the range of a call. It reads the body for nothing else: the enclave decides what the
// body says.
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
	return l.of(id)
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

// organizationIn is the first organizationId in a body that is a UUID.
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

// Ready tells what is missing, nil when at least one enclave can be asked.
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
