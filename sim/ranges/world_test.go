package ranges_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/host/link"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// ranges of the deployments here.
const count = 4

// lease is short, so that taking from a dead owner is.
const lease = 400 * time.Millisecond

// A liar is a store that answers from an earlier time when told to.
type liar struct {
	store.Store
	mu      sync.Mutex
	load    func(wire.Organization) wire.Organization
	object  func(wire.LoadObject, wire.Object) wire.Object
	put     func(context.Context, wire.PutObject) error
	own     func(wire.Own, func() (wire.Owned, error)) (wire.Owned, error)
	objects map[string][][]byte // all that was put, in order, whatever was said of it
}

func (s *liar) lie(f func(*liar)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load, s.object, s.put, s.own = nil, nil, nil, nil
	f(s)
}

func (s *liar) LoadOrganization(ctx context.Context, ask wire.LoadOrganization) (wire.Organization, error) {
	o, err := s.Store.LoadOrganization(ctx, ask)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.load != nil {
		o = s.load(o)
	}
	return o, err
}

func (s *liar) LoadObject(ctx context.Context, ask wire.LoadObject) (wire.Object, error) {
	o, err := s.Store.LoadObject(ctx, ask)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.object != nil {
		o = s.object(ask, o)
	}
	return o, err
}

func (s *liar) PutObject(ctx context.Context, put wire.PutObject) (wire.Done, error) {
	s.mu.Lock()
	s.objects[put.Name] = append(s.objects[put.Name], put.Bytes)
	refuse := s.put
	s.mu.Unlock()
	if refuse != nil {
		if err := refuse(ctx, put); err != nil {
			return wire.Done{}, err
		}
	}
	return s.Store.PutObject(ctx, put)
}

func (s *liar) Own(ctx context.Context, ask wire.Own) (wire.Owned, error) {
	s.mu.Lock()
	own := s.own
	s.mu.Unlock()
	if own != nil {
		return own(ask, func() (wire.Owned, error) { return s.Store.Own(ctx, ask) })
	}
	return s.Store.Own(ctx, ask)
}

// A world is enclaves over one store, each with a host's link, and no host that moves
// ranges by itself.
type world struct {
	t     *testing.T
	dir   *laptop.Dir
	store *liar
	orgs  []laptop.Organization
	times client.Times
	mu    sync.Mutex // of what clients note
	// witnesses cosign the ranges' logs, brought there by cosigner.
	witnesses *rig.Witnesses
	cosigner  link.Witnesses
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: &laptop.Dir{Path: t.TempDir(), Patience: clocktest.Patience, APIURL: "http://127.0.0.1:0", AuthProxyURL: "http://127.0.0.1:0", Ranges: count}}
	s, err := sqlite.Open(t.Context(), filepath.Join(w.dir.Path, "cloister.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w.store = &liar{Store: s, objects: map[string][][]byte{}}
	w.witnesses = rig.StartWitnesses(t, rig.WitnessOptions{Serve: lease})
	w.dir.Log = &w.witnesses.Terms
	w.cosigner, _ = rig.NewCosigner(t, w.store, pause)
	return w
}

// An enclave that runs, with one host's link to it.
type enclave struct {
	w       *world
	core    *core.Core
	link    *link.Link
	address string
	fenced  atomic.Bool
	stop    func()
}

// start starts an enclave and boots it; the first makes the deployment.
func (w *world) start() *enclave {
	w.t.Helper()
	e := &enclave{w: w}
	var err error
	e.core, err = w.dir.Enclave(core.Config{Limits: core.Limits{Lease: lease}, Quotas: core.Quotas{Tags: 100_000}, Fence: func(error) { e.fenced.Store(true) },
		Fault: func(ref string, err error) { w.t.Logf("internal error %s: %v", ref, err) }})
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { _ = e.core.Serve(ctx, l) })
	e.address = "tcp://" + l.Addr().String()
	e.link = w.link(e.address, w.cosigner)
	ran.Go(func() { e.link.Run(ctx) })
	ran.Go(func() { w.witnesses.Follow(ctx, w.t, e.address) })
	e.stop = sync.OnceFunc(func() { cancel(); e.core.Close(); ran.Wait() })
	w.t.Cleanup(e.stop)
	boot, done := context.WithTimeout(ctx, clocktest.Patience)
	defer done()
	if w.orgs == nil {
		if _, err := w.dir.Boot(boot, e.address, 96); err != nil {
			w.t.Fatal(err)
		}
		if w.orgs, err = w.dir.Organizations(); err != nil {
			w.t.Fatal(err)
		}
		return e
	}
	if err := w.dir.Join(boot, e.address); err != nil {
		w.t.Fatal(err)
	}
	return e
}

// link is a host's link to an enclave.
func (w *world) link(address string, cosigner link.Witnesses) *link.Link {
	w.t.Helper()
	l, err := link.New(link.Options{Address: address, StoreTimeout: clocktest.Patience, Store: w.store, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Pause: pause, Witnesses: cosigner})
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// host is a host that serves through all of these enclaves until the test ends.
func (w *world) host(cosigner link.Witnesses, all ...*enclave) *link.Links {
	w.t.Helper()
	var links []*link.Link
	for _, e := range all {
		links = append(links, w.link(e.address, cosigner))
	}
	host, err := link.NewLinks(link.LinksOptions{Links: links, Own: w.store.Own, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: pause, Rand: rand.Reader})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { host.Run(ctx) })
	w.t.Cleanup(func() { cancel(); ran.Wait() })
	return host
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// boot asks an operation of the boot endpoint that answers with a table.
func (e *enclave) boot(op, body string) (*wire.Table, string) {
	e.w.t.Helper()
	reply := e.call(&client.Request{Endpoint: wire.EndpointBoot, Op: op, Body: []byte(body)})
	if reply.Status != 200 {
		return nil, string(reply.Body)
	}
	t, _, err := wire.ParseTable(reply.Body)
	if err != nil {
		e.w.t.Fatal(err)
	}
	return t, ""
}

func (e *enclave) table() *wire.Table {
	e.w.t.Helper()
	t, refused := e.boot("ranges", "")
	if t == nil {
		e.w.t.Fatal(refused)
	}
	return t
}

// owned are the ranges that the enclave's table names.
func (e *enclave) owned() string {
	var all []string
	for _, r := range e.table().Owned {
		all = append(all, strconv.Itoa(int(r.Range)))
	}
	return strings.Join(all, " ")
}

// in is an organization of a range.
func (w *world) in(r wire.Range) laptop.Organization {
	w.t.Helper()
	for _, o := range w.orgs {
		if rangeOf(w.t, o.OrganizationID) == r {
			return o
		}
	}
	w.t.Fatalf("no organization in range %d of %d", r, len(w.orgs)) // once in 10^11 runs
	panic("not reached")
}

func rangeOf(t *testing.T, organization string) wire.Range {
	b, err := strconv.ParseUint(organization[:2], 16, 8)
	if err != nil {
		t.Fatal(err)
	}
	return wire.RangeOf(wire.ID{byte(b)}, count)
}

// root is the root user of an organization.
func (w *world) root(o laptop.Organization) *client.Client {
	return &client.Client{Times: &w.times, Organization: o.OrganizationID, Key: o.RootAPIKey}
}

// request is a request that could be stamped.
func (w *world) request(q *client.Request, err error) *client.Request {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return q
}

// submit is an activity of the root user.
func (w *world) submit(o laptop.Organization, typ string, parameters any) *client.Request {
	w.t.Helper()
	return w.request(w.root(o).Activity(typ, parameters))
}

// tag is an activity: it makes a tag.
func (w *world) tag(o laptop.Organization, name string) *client.Request {
	return w.submit(o, "CREATE_USER_TAG", client.Tag(name))
}

func (w *world) query(o laptop.Organization, op string) *client.Request {
	w.t.Helper()
	c := w.root(o)
	return w.request(c.Request(wire.EndpointQuery, op, c.Ask(nil)))
}

func (w *world) whoami(o laptop.Organization) *client.Request { return w.query(o, "whoami") }

func (e *enclave) call(q *client.Request) *wire.Reply {
	e.w.t.Helper()
	reply, err := e.link.Call(e.w.t.Context(), q.Call())
	if err != nil {
		e.w.t.Fatal(err)
	}
	return reply
}

// completed calls for an activity that must be completed, and returns its result.
func (e *enclave) completed(q *client.Request) client.Object {
	e.w.t.Helper()
	r, err := client.Link(e.link)(e.w.t.Context(), q)
	if err != nil || !r.Completed() {
		e.w.t.Fatalf("%s: %v, %v", q.Op, r, err)
	}
	return r.Result()
}

// must answers a call with 200, again while it is told to, as when a renewal takes longer than the lease.
func (e *enclave) must(c *client.Request) {
	e.w.t.Helper()
	var reply *wire.Reply
	clocktest.Until(e.w.t, c.Op+" is answered", func() bool {
		reply = e.call(c)
		return reply.Status != 503 || reply.Moved > 0
	})
	if reply.Status != 200 {
		e.w.t.Fatalf("%s: %d %s", c.Op, reply.Status, reply.Body)
	}
}

// elsewhere holds that a call is sent to the owner of a range.
func (e *enclave) elsewhere(c *client.Request, r wire.Range) {
	e.w.t.Helper()
	if reply := e.call(c); reply.Status != 503 || reply.Moved != uint16(r)+1 {
		e.w.t.Fatalf("%s: %d, moved %d, %s", c.Op, reply.Status, reply.Moved, reply.Body)
	}
}
