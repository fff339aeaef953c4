// Package rig starts a host and a simulated enclave inside a test's process,
// with everything between them real: TCP, frames, link and store.
package rig

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/host/egress"
	"cloister/host/link"
	"cloister/host/registry"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/client"
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
	times       client.Times
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
	r := &Rig{t: t, Dir: &laptop.Dir{Path: o.Dir, Patience: patience, APIURL: "http://127.0.0.1:0", AuthProxyURL: "http://127.0.0.1:0", Now: o.Clock.Now, Configuration: o.Configuration, AuthProxy: o.AuthProxy}, Store: o.Store, times: client.Times{Now: o.Clock.Now}}
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

// Root is the root user of the first organization.
func (r *Rig) Root() *client.User {
	return r.in(r.Credentials.OrganizationID, r.Credentials.RootUserID, r.Credentials.RootAPIKey)
}

// In is the root user of an organization.
func (r *Rig) In(o laptop.Organization) *client.User {
	return r.in(o.OrganizationID, o.RootUserID, o.RootAPIKey)
}

// Others are the root users of the other organizations that were made at boot.
func (r *Rig) Others() (all []*client.User) {
	r.t.Helper()
	made, err := r.Dir.Organizations()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, o := range made {
		all = append(all, r.In(o))
	}
	return all
}

func (r *Rig) in(organization, user string, key laptop.KeyPair) *client.User {
	c := &client.Client{Send: client.Link(r.Link), Times: &r.times, Organization: organization, User: user, Key: key}
	return c.In(r.t)
}

// NowMs is a timestamp for a body, different every time.
func (r *Rig) NowMs() int64 { return r.times.Next() }

// PutPlans stamps a document of plans with the admission key and has the enclave keep it.
func (r *Rig) PutPlans(version int, byDefault string, plans ...any) client.Reply {
	r.t.Helper()
	b, err := json.Marshal(map[string]any{"timestampMs": strconv.FormatInt(r.NowMs(), 10), "version": version, "default": byDefault, "plans": plans})
	if err != nil {
		r.t.Fatal(err)
	}
	key, err := r.Dir.AdmissionKey()
	if err != nil {
		r.t.Fatal(err)
	}
	return r.Root().As("", "", key).Post(wire.EndpointBoot, "put_plans", b)
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
