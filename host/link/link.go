// Package link maintains the host's connections to the enclaves: it sends calls,
// serves the enclave's batches, loads and snapshots from the store, has its
// checkpoints witnessed, and relays the byte streams to outside names that the
// enclave requests, without reading them.
//
// What it promises:
//
//   - While Run runs, it redials every lost connection, with a growing pause;
//     so it reconnects to a restarted enclave.
//   - A call without a reply ends with ErrUnavailable: it may or may not have
//     been done. Sending the same body again is safe.
//   - A caller gets a reply only if the reply names the body of its call.
//   - A failure of the store is reported as wire.KindFailed, which the enclave
//     reads as "unknown". The reason stays in the host's log.
//   - A write that reached the store runs to its end, or to StoreTimeout, even
//     if the connection is lost meanwhile.
package link

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"cloister/host/outage"
	"cloister/host/store"
	"cloister/shared/wire"
)

// roleNames are the names of connection roles in the log.
var roleNames = [wire.Roles + 1]string{wire.RoleCalls: "calls", wire.RoleStores: "batches", wire.RoleLoads: "reads", wire.RoleSnapshots: "snapshots",
	wire.RoleChains: "chains", wire.RoleDials: "outgoing connections", wire.RoleStream: "stream", wire.RoleWitnesses: "witnesses"}

// Number of connections of each other role; Options.Calls is that for calls.
const (
	stores    = 1
	loads     = 2
	snapshots = 1
	chains    = 1
	dials     = 1
	witnesses = 2
)

// maxChainAsks bounds the chain requests in flight: each waits for a node, which may
// be slow.
const maxChainAsks = 256

// Times of dialing: the first and the longest pause between attempts, and an attempt's time limit.
const (
	firstPause  = 50 * time.Millisecond
	longPause   = 2 * time.Second
	dialTimeout = 5 * time.Second
)

// Errors of Call.
var (
	// ErrUnavailable: no connection, too many calls in flight, or no reply. The
	// call may have been done.
	ErrUnavailable = errors.New("enclave unavailable")
	// ErrWrongReply: the enclave's reply is malformed or belongs to another
	// request.
	ErrWrongReply = errors.New("reply does not belong to the request")
)

// errNotConnected is the ErrUnavailable of a call that was not sent.
var errNotConnected = fmt.Errorf("%w: not connected", ErrUnavailable)

// A Store handles the enclave's storage requests.
type Store interface {
	store.Writer
	store.Loader
	store.Finder
	store.Outbox
}

// Chains handles the enclave's requests about chains, and limits the time of each
// itself.
type Chains interface {
	Chain(context.Context, wire.Chain) wire.ChainState
	Read(context.Context, wire.ReadChain) wire.ChainReading
}

// Witnesses collects cosignatures for a checkpoint of a log, within a time limit of its
// own, and proves that an entry is in such a log.
type Witnesses interface {
	Witness(context.Context, wire.Witness) (wire.Cosigned, error)
	ProveLogged(context.Context, wire.ProveLogged) (wire.Logged, error)
}

// An Observer receives events for metrics; its methods must not block. A question
// is the name of a request kind, such as "batch" or "load_organization".
type Observer interface {
	Batch(entries, bytes int, verdict wire.Verdict)
	Question(kind string, took time.Duration, failed bool)
}

// Options of a Link. All are needed but Calls, Observer, Chains, Outside, Images, Programs, Witnesses, Sends
// and Dial.
type Options struct {
	Address      string        // of the enclave, see Dial
	Calls        int           // connections for calls; 0 means 1
	StoreTimeout time.Duration // for one operation on the store
	Store        Store
	Log          *slog.Logger
	Observer     Observer
	Chains       Chains    // nil: no node is configured
	Dialer       Dialer    // nil: outgoing connections are refused
	Images       Images    // nil: images are refused
	Programs     Programs  // nil: no programs run here
	Witnesses    Witnesses // nil: requests for cosignatures fail
	// Sends is called after a batch with sends was stored; it must not
	// block.
	Sends func()
	Now   func() time.Time
	// Pause waits for d or until ctx ends.
	Pause func(ctx context.Context, d time.Duration)
	Dial  func(ctx context.Context, address string) (net.Conn, error)
}

// Stats are counts over all connections.
type Stats struct {
	Connected int    // open connections
	Wanted    int    // connections that Run keeps open
	InFlight  int    // calls without reply
	Late      uint64 // replies that came after their caller had given up
	Dials     uint64 // successful dials
	Breaches  uint64 // connections cut because the enclave broke the protocol
	Wrong     uint64 // replies that name another body than their call's
}

// A slot holds one connection, nil while it is down.
type slot struct {
	role wire.Role
	conn atomic.Pointer[wire.Conn]
}

// A Link is the host's side of all connections to one enclave.
type Link struct {
	options  Options
	outages  *outage.Log
	slots    []*slot // the slots for calls first
	nextSlot atomic.Uint64
	late     atomic.Uint64
	dials    atomic.Uint64
	breaches atomic.Uint64
	wrong    atomic.Uint64
	streams  streams
	stored   map[wire.Kind]fromStore
}

// New makes a Link. It has no connections until Run.
func New(o Options) (*Link, error) {
	if _, _, err := split(o.Address); err != nil && o.Dial == nil {
		return nil, err
	}
	if o.Store == nil || o.Log == nil || o.Now == nil || o.Pause == nil || o.StoreTimeout <= 0 {
		return nil, errors.New("link: incomplete options")
	}
	if o.Calls == 0 {
		o.Calls = 1
	}
	if o.Calls < 0 || o.Calls > MaxCalls {
		return nil, fmt.Errorf("%d connections for calls, want 1 to %d", o.Calls, MaxCalls)
	}
	if o.Dial == nil {
		o.Dial = Dial
	}
	l := &Link{options: o, outages: outage.New(o.Log, o.Now)}
	l.stored = l.storeHandlers()
	for role, n := range []int{wire.RoleCalls: o.Calls, wire.RoleStores: stores, wire.RoleLoads: loads, wire.RoleSnapshots: snapshots, wire.RoleChains: chains, wire.RoleDials: dials,
		wire.RoleWitnesses: witnesses} {
		for range n {
			l.slots = append(l.slots, &slot{role: wire.Role(role)})
		}
	}
	return l, nil
}

// MaxCalls bounds Options.Calls.
const MaxCalls = 16

// Run keeps all connections open until ctx ends and then closes them.
func (l *Link) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range l.slots {
		all.Go(func() { l.keepConnected(ctx, s) })
	}
	all.Wait()
	l.streams.end()
}

// keepConnected dials one slot's connection, waits for its end, and dials again.
func (l *Link) keepConnected(ctx context.Context, s *slot) {
	pause, told := firstPause, false
	for ctx.Err() == nil {
		conn, err := l.connect(ctx, s.role)
		if err != nil {
			if !told && ctx.Err() == nil {
				told = true // log once for each outage
				l.options.Log.Warn("enclave not reached", "connection", roleNames[s.role], "error", err)
			}
			l.options.Pause(ctx, pause)
			pause = min(2*pause, longPause)
			continue
		}
		told = false
		since := l.options.Now()
		s.conn.Store(conn)
		l.dials.Add(1)
		l.options.Log.Info("enclave connected", "connection", roleNames[s.role])
		select {
		case <-conn.Done():
			if ctx.Err() == nil { // else Run is ending
				l.options.Log.Warn("enclave connection lost", "connection", roleNames[s.role], "error", conn.Err())
			}
		case <-ctx.Done():
		}
		s.conn.Store(nil)
		_ = conn.Close()
		l.late.Add(conn.Stats().Late)
		// A connection that breaks at once (a fenced enclave, or another server
		// at the address) is not redialed in a tight loop.
		if l.options.Now().Sub(since) > longPause {
			pause = firstPause
		}
		l.options.Pause(ctx, pause)
		pause = min(2*pause, longPause)
	}
}

func (l *Link) connect(ctx context.Context, role wire.Role) (*wire.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	nc, err := l.options.Dial(ctx, l.options.Address)
	if err != nil {
		return nil, err
	}
	if err := wire.WriteHello(nc, wire.Hello{Role: role}, l.options.Now().Add(dialTimeout)); err != nil {
		_ = nc.Close()
		return nil, err
	}
	o := wire.Options{
		Role: role, Side: wire.SideHost, Now: l.options.Now,
		FrameTimeout: frameTimeout, WriteTimeout: writeTimeout,
		OnBreach: func(err error) {
			l.breaches.Add(1)
			l.options.Log.Error("enclave broke the protocol", "connection", roleNames[role], "error", err)
		},
	}
	switch role {
	case wire.RoleCalls:
	case wire.RoleChains:
		o.Handler, o.MaxInFlight = l.chain, maxChainAsks
	case wire.RoleDials:
		o.Handler, o.MaxInFlight = l.dial, wire.MaxStreams
	case wire.RoleWitnesses:
		o.Handler = l.witness
	default:
		o.Handler = l.answer
	}
	return wire.NewConn(nc, o), nil
}

// Time-outs of a connection. They are generous, since the peer is on the same machine.
const (
	frameTimeout = 30 * time.Second
	writeTimeout = 30 * time.Second
)

// Call sends a call to the enclave and waits for the reply until ctx ends.
// Errors are ErrUnavailable, ErrWrongReply or ctx's.
func (l *Link) Call(ctx context.Context, call *wire.Call) (*wire.Reply, error) {
	reply := new(wire.Reply)
	if err := l.ask(ctx, wire.KindCall, call, reply); err != nil {
		return nil, err
	}
	if reply.Request != sha256.Sum256(call.Body) {
		l.wrong.Add(1)
		return nil, ErrWrongReply
	}
	return reply, nil
}

// OpenSend has the enclave decrypt a send and returns its content. Errors are those of Call.
func (l *Link) OpenSend(ctx context.Context, id wire.SendID) (*wire.Opened, error) {
	opened := new(wire.Opened)
	if err := l.ask(ctx, wire.KindOpenSend, &wire.AboutSend{Send: id}, opened); err != nil {
		return nil, err
	}
	return opened, nil
}

// ask sends one request to the enclave and decodes the reply into answer.
func (l *Link) ask(ctx context.Context, kind wire.Kind, question, answer any) error {
	conn := l.pick()
	if conn == nil {
		return errNotConnected
	}
	payload, err := wire.Marshal(question)
	if err != nil {
		return err
	}
	kind, payload, err = conn.Ask(ctx, kind, payload)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case kind == wire.KindFailed:
		return fmt.Errorf("%w: it turned the call away", ErrUnavailable)
	}
	if err := wire.Unmarshal(payload, answer); err != nil {
		l.wrong.Add(1)
		return fmt.Errorf("%w: %w", ErrWrongReply, err)
	}
	return nil
}

// pick returns an open connection for calls, round-robin; nil if there is none.
func (l *Link) pick() *wire.Conn {
	n := uint64(l.options.Calls)
	first := l.nextSlot.Add(1)
	for i := range n {
		if c := l.slots[(first+i)%n].conn.Load(); c != nil {
			return c
		}
	}
	return nil
}

// Deliver has the enclave deliver a mail or a text message. Errors are those of Call.
func (l *Link) Deliver(ctx context.Context, id wire.SendID) (*wire.Delivered, error) {
	delivered := new(wire.Delivered)
	if err := l.ask(ctx, wire.KindDeliver, &wire.AboutSend{Send: id}, delivered); err != nil {
		return nil, err
	}
	return delivered, nil
}

// Ready returns nil if at least one connection of every role is open, else an error that
// names a missing role.
func (l *Link) Ready() error {
	var up [wire.Roles + 1]bool
	for _, s := range l.slots {
		if s.conn.Load() != nil {
			up[s.role] = true
		}
	}
	for _, s := range l.slots {
		if !up[s.role] {
			return fmt.Errorf("%w: no connection for %s", ErrUnavailable, roleNames[s.role])
		}
	}
	return nil
}

// Stats returns the current counts.
func (l *Link) Stats() Stats {
	s := Stats{Wanted: len(l.slots), Late: l.late.Load(), Dials: l.dials.Load(), Breaches: l.breaches.Load(), Wrong: l.wrong.Load()}
	for _, slot := range l.slots {
		c := slot.conn.Load()
		if c == nil {
			continue
		}
		s.Connected++
		one := c.Stats()
		s.Late += one.Late
		if slot.role == wire.RoleCalls {
			s.InFlight += one.Asked
		}
	}
	return s
}
