// Package rig starts a host and a simulated enclave inside a test's process,
// with everything between them real: TCP, frames, link and store.
package rig

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/host/egress"
	"cloister/host/link"
	"cloister/host/registry"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/laptop"
)

// patience bounds one wait. It ends a test that hangs; nothing is measured by it.
const patience = 5 * time.Minute

// Options change what a rig is made of. The zero value is an enclave and a host with an SQLite store.
type Options struct {
	Dir    string      // data directory; empty: the test's own
	Store  store.Store // instead of SQLite in Dir
	Limits core.Limits
	Rates  core.Rates
	Quotas core.Quotas
	Clock  core.Clock
	// Elapsed is by which the enclave measures processor time; nil: Clock.
	Elapsed func() time.Duration
	Root    core.RootSecret // instead of the sealed file in Dir, which takes a while to open
	// Running is the address of an enclave in another process, whose data directory is Dir; empty: one is started in this. What is
	// said here of an enclave is of one in this.
	Running string
	// Between, given the enclave's address, answers the one that the host dials.
	Between func(address string) string
	// Pause is how the host waits before it dials again; nil: as it does.
	Pause func(context.Context, time.Duration)
	// Fence is told when the enclave is fenced.
	Fence func(error)
	// Organizations are made besides the root organization.
	Organizations int
	// Nodes of chains, by their names, and the tokens there.
	Nodes  egress.Nodes
	Assets egress.Assets
	// Configuration is what the enclave runs under: a document of package settings.
	Configuration []byte
	// Programs runs customers' programs, and About tells of them; nil: none run.
	Programs egress.Programs
	About    link.Programs
	// Outside connects to names outside; nil: to what is public, and to loopback.
	Outside func(ctx context.Context, host string, port uint16) (net.Conn, error)
	// Mailer hands in the mails that the configuration leaves to the host; nil: nobody.
	Mailer egress.Mailer
	// AuthProxy turns the proxy of the root organization on.
	AuthProxy bool
	// Receivers of webhooks are reached through it; nil: nobody delivers.
	Receivers *egress.Dialer
	// Roots are whom receivers' certificates lead to; nil: the system's.
	Roots *x509.CertPool
	// Witnesses cosign the logs, and the manifest says so; nil: as it said before, at first none do. They are the test's
	// and outlive the rig, as witnesses do.
	Witnesses *Witnesses
}

// Rig is a running host and enclave.
type Rig struct {
	t           testing.TB
	Enclave     *core.Core
	Link        *link.Link
	Store       store.Store
	Dir         *laptop.Dir
	Credentials *laptop.Credentials
	Address     string   // of the enclave
	stop        []func() // in order
	clock       core.Clock
	last        atomic.Int64
}

// Start starts a rig and boots it. It stops with the test.
func Start(t testing.TB, o Options) *Rig {
	t.Helper()
	r, err := Try(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Try is Start where booting may be refused.
func Try(t testing.TB, o Options) (*Rig, error) {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Clock == nil {
		o.Clock = laptop.Clock{}
	}
	r := &Rig{t: t, Dir: &laptop.Dir{Path: o.Dir, Patience: patience, APIURL: "http://127.0.0.1:0", AuthProxyURL: "http://127.0.0.1:0", Now: o.Clock.Now, Configuration: o.Configuration, AuthProxy: o.AuthProxy}, clock: o.Clock, Store: o.Store}
	t.Cleanup(r.Kill)
	ctx, cancel := context.WithCancel(context.Background())
	end := func() {
		cancel()
		if r.Enclave != nil {
			r.Enclave.Close()
		}
	}
	r.stop = []func(){end}
	if r.Store == nil {
		s, err := sqlite.Open(ctx, filepath.Join(o.Dir, "cloister.db"))
		if err != nil {
			return nil, err
		}
		r.Store = s
		r.stop = append(r.stop, func() { _ = s.Close() })
	}
	if r.Address = o.Running; r.Address == "" {
		if err := r.serve(ctx, &o); err != nil {
			return nil, err
		}
	}
	dial := r.Address
	if o.Between != nil {
		dial = o.Between(r.Address)
	}
	if o.Pause == nil {
		o.Pause = func(ctx context.Context, d time.Duration) {
			select {
			case <-ctx.Done():
			case <-time.After(d):
			}
		}
	}
	var outside link.Dialer = &egress.Dialer{Loopback: true}
	if o.Outside != nil {
		outside = network(o.Outside)
	}
	chains := egress.NewChains(o.Nodes, 0)
	chains.SetAssets(o.Assets)
	var sender *egress.Sender
	var webhooks *egress.Webhooks
	cosigner, endCosigner := NewCosigner(t, r.Store, o.Pause)
	var err error
	r.Link, err = link.New(link.Options{Address: dial, StoreTimeout: patience, Store: r.Store, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: o.Pause,
		Chains: chains, Dialer: outside, Programs: o.About, Images: registry.New((&egress.Dialer{Loopback: true}).DialContext, slog.New(slog.DiscardHandler)), Witnesses: cosigner, Sends: func() {
			if sender.Due(); webhooks != nil {
				webhooks.Due()
			}
		}})
	if err != nil {
		return nil, err
	}
	sender, err = egress.NewSender(egress.Options{Chains: chains, Outbox: r.Store, Enclave: r.Link, Mailer: o.Mailer, Programs: o.Programs, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: o.Pause, Rand: rand.Reader})
	if err != nil {
		return nil, err
	}
	var ran sync.WaitGroup
	ran.Go(func() { r.Link.Run(ctx) })
	if len(o.Nodes) > 0 || len(o.Configuration) > 0 {
		ran.Go(func() { sender.Run(ctx) })
	}
	if o.Receivers != nil {
		webhooks, err = egress.NewWebhooks(egress.WebhookOptions{Outbox: r.Store, Enclave: r.Link, Dialer: o.Receivers, Roots: o.Roots, Log: slog.New(slog.DiscardHandler),
			Now: time.Now, Pause: o.Pause, Rand: rand.Reader})
		if err != nil {
			return nil, err
		}
		ran.Go(func() { webhooks.Run(ctx) })
	}
	if o.Witnesses != nil {
		r.Dir.Log = &o.Witnesses.Terms
		ran.Go(func() { o.Witnesses.Follow(ctx, t, r.Address) })
	}
	r.stop[0] = func() { end(); ran.Wait(); endCosigner() }
	boot, done := context.WithTimeout(ctx, patience)
	defer done()
	r.Credentials, err = r.Dir.Boot(boot, r.Address, o.Organizations)
	return r, err
}

// serve starts an enclave in this process.
func (r *Rig) serve(ctx context.Context, o *Options) error {
	var err error
	r.Enclave, err = r.Dir.Enclave(core.Config{Limits: o.Limits, Rates: o.Rates, Quotas: o.Quotas, Clock: o.Clock, Elapsed: o.Elapsed, Root: o.Root, Fence: o.Fence,
		WebhookLoopback: o.Receivers != nil && o.Receivers.Loopback,
		Fault:           func(ref string, err error) { r.t.Logf("internal error %s: %v", ref, err) }})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := l
	if o.Clock.Now().Before(time.Now().Add(-time.Minute)) {
		served = moved{l, o.Clock}
	}
	go func() { _ = r.Enclave.Serve(ctx, served) }()
	r.Address = "tcp://" + l.Addr().String()
	return nil
}

// Kill ends the rig as kill -9 would: nothing is given back.
func (r *Rig) Kill() {
	for _, stop := range r.stop {
		stop()
	}
	r.stop = nil
}

// Stop ends the rig in good order.
func (r *Rig) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Enclave.Stop(ctx); err != nil {
		r.t.Errorf("stopping the enclave: %v", err)
	}
	r.Kill()
}

// NowMs is a timestamp for a body, different every time.
func (r *Rig) NowMs() int64 {
	for {
		now, last := r.clock.Now().UnixMilli(), r.last.Load()
		if now <= last {
			now = last + 1
		}
		if r.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// Body is a submit body of the root organization.
func (r *Rig) Body(typ string, parameters any) []byte {
	return r.BodyOf(r.Credentials.OrganizationID, typ, parameters)
}

// BodyOf is a submit body.
func (r *Rig) BodyOf(organization, typ string, parameters any) []byte {
	b, err := json.Marshal(map[string]any{"type": typ, "timestampMs": strconv.FormatInt(r.NowMs(), 10), "organizationId": organization, "parameters": parameters})
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// Send stamps a body with key and sends it through the host's link.
func (r *Rig) Send(ctx context.Context, endpoint wire.Endpoint, op string, body []byte, key laptop.KeyPair) (*wire.Reply, error) {
	head, err := laptop.Stamp(key, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.Link.Call(ctx, &wire.Call{Endpoint: endpoint, Op: op, Head: head, Body: body, WithinMs: uint32(wire.MaxWait.Milliseconds())})
}

// Submit sends an activity of the root user and answers status and reply.
func (r *Rig) Submit(op, typ string, parameters any) (int, map[string]any) {
	r.t.Helper()
	return r.SubmitBody(op, r.Body(typ, parameters))
}

// SubmitBody is Submit for a body made before.
func (r *Rig) SubmitBody(op string, body []byte) (int, map[string]any) {
	r.t.Helper()
	return r.ask(wire.EndpointSubmit, op, body)
}

// PutPlans stamps a document of plans with the admission key and has the enclave keep it.
func (r *Rig) PutPlans(version int, byDefault string, plans ...any) (int, map[string]any) {
	r.t.Helper()
	b, err := json.Marshal(map[string]any{"timestampMs": strconv.FormatInt(r.NowMs(), 10), "version": version, "default": byDefault, "plans": plans})
	if err != nil {
		r.t.Fatal(err)
	}
	key, err := r.Dir.AdmissionKey()
	if err != nil {
		r.t.Fatal(err)
	}
	return r.askAs(key, wire.EndpointBoot, "put_plans", b)
}

// Query asks as the root user; organizationId is filled in where it is absent.
func (r *Rig) Query(op string, request map[string]any) (int, map[string]any) {
	r.t.Helper()
	if request == nil {
		request = map[string]any{}
	}
	if request["organizationId"] == nil {
		request["organizationId"] = r.Credentials.OrganizationID
	}
	b, err := json.Marshal(request)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.ask(wire.EndpointQuery, op, b)
}

func (r *Rig) ask(endpoint wire.Endpoint, op string, body []byte) (int, map[string]any) {
	r.t.Helper()
	return r.askAs(r.Credentials.RootAPIKey, endpoint, op, body)
}

func (r *Rig) askAs(key laptop.KeyPair, endpoint wire.Endpoint, op string, body []byte) (int, map[string]any) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := r.Send(ctx, endpoint, op, body, key)
	if err != nil {
		r.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(reply.Body, &m); err != nil {
		r.t.Fatalf("%s: reply is no JSON: %v", op, err)
	}
	return int(reply.Status), m
}

// Counters are the enclave's own.
func (r *Rig) Counters() map[string]uint64 {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := laptop.DialEnclave(ctx, r.Address)
	if err != nil {
		r.t.Fatal(err)
	}
	defer d.Close()
	var s struct{ Counters map[string]uint64 }
	if err := d.Call(ctx, "status", nil, nil, &s); err != nil {
		r.t.Fatal(err)
	}
	return s.Counters
}

// Get follows keys into a reply.
func Get(v any, keys ...string) any {
	for _, k := range keys {
		switch x := v.(type) {
		case map[string]any:
			v = x[k]
		case []any:
			i, err := strconv.Atoi(k)
			if err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// Text is Get of a string.
func Text(v any, keys ...string) string { return fmt.Sprint(Get(v, keys...)) }

// network is an outside of names that exist in a test only.
type network func(ctx context.Context, host string, port uint16) (net.Conn, error)

// Open is link.Outside.
func (n network) Open(ctx context.Context, host string, port uint16) (net.Conn, wire.DialVerdict, error) {
	c, err := n(ctx, host, port)
	if err != nil {
		return nil, wire.DialAway, err
	}
	return c, wire.DialOpen, nil
}

// A moved listener serves an enclave whose clock is behind the machine's: what it sets as deadlines by its own is brought
// to the machine's, half an hour later, since a clock that stands sets the same deadline again and again. A clock that is
// ahead needs nothing: its deadlines are only late.
type moved struct {
	net.Listener
	clock core.Clock
}

func (l moved) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return movedConn{c, l.clock}, nil
}

type movedConn struct {
	net.Conn
	clock core.Clock
}

func (c movedConn) real(t time.Time) time.Time {
	left := t.Sub(c.clock.Now())
	if t.IsZero() || left <= 0 {
		return t
	}
	return time.Now().Add(left + 30*time.Minute)
}

func (c movedConn) SetDeadline(t time.Time) error      { return c.Conn.SetDeadline(c.real(t)) }
func (c movedConn) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(c.real(t)) }
func (c movedConn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.real(t)) }
