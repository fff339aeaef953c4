package ranges_test

import (
	"context"
	"encoding/json"
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
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// ranges of the deployments here.
const count = 4

// maxWaitMs is how long calls may take.
const maxWaitMs = uint32(wire.MaxWait / time.Millisecond)

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
	last  atomic.Int64
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
	e.link, err = link.New(link.Options{Address: e.address, StoreTimeout: clocktest.Patience, Store: w.store, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: pause, Witnesses: w.cosigner})
	if err != nil {
		w.t.Fatal(err)
	}
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

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// boot asks an operation of the boot endpoint that answers with a table.
func (e *enclave) boot(op, body string) (*wire.Table, string) {
	e.w.t.Helper()
	reply, err := e.link.Call(e.w.t.Context(), &wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: []byte(body), WithinMs: maxWaitMs})
	if err != nil {
		e.w.t.Fatal(err)
	}
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

// stamped is a call by the root user of an organization.
func (w *world) stamped(endpoint wire.Endpoint, op string, o laptop.Organization, fill map[string]any) *wire.Call {
	w.t.Helper()
	fill["organizationId"] = o.OrganizationID
	body, err := json.Marshal(fill)
	if err != nil {
		w.t.Fatal(err)
	}
	head, err := laptop.Stamp(o.RootAPIKey, body)
	if err != nil {
		w.t.Fatal(err)
	}
	return &wire.Call{Endpoint: endpoint, Op: op, Head: head, Body: body, WithinMs: maxWaitMs}
}

// tag is an activity: it makes a tag.
func (w *world) tag(o laptop.Organization, name string) *wire.Call {
	return w.stamped(wire.EndpointSubmit, "create_user_tag", o, map[string]any{"type": "ACTIVITY_TYPE_CREATE_USER_TAG", "timestampMs": strconv.FormatInt(w.now(), 10),
		"parameters": map[string]any{"userTagName": name, "userIds": []string{}}})
}

func (w *world) whoami(o laptop.Organization) *wire.Call {
	return w.stamped(wire.EndpointQuery, "whoami", o, map[string]any{})
}

func (w *world) now() int64 {
	for {
		now, last := time.Now().UnixMilli(), w.last.Load()
		if w.last.CompareAndSwap(last, max(now, last+1)) {
			return max(now, last+1)
		}
	}
}

func (e *enclave) call(c *wire.Call) *wire.Reply {
	e.w.t.Helper()
	reply, err := e.link.Call(e.w.t.Context(), c)
	if err != nil {
		e.w.t.Fatal(err)
	}
	return reply
}

// must answers a call with 200, again while it is told to, as when a renewal takes longer than the lease.
func (e *enclave) must(c *wire.Call) {
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
func (e *enclave) elsewhere(c *wire.Call, r wire.Range) {
	e.w.t.Helper()
	if reply := e.call(c); reply.Status != 503 || reply.Moved != uint16(r)+1 {
		e.w.t.Fatalf("%s: %d, moved %d, %s", c.Op, reply.Status, reply.Moved, reply.Body)
	}
}
