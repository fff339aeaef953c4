// Package link keeps the host's connections to the enclave: it carries calls
// in, serves the enclave's batches, loads and snapshots from the store, has its
// checkpoints witnessed, and carries the byte streams to names outside that the
// enclave asks for, unread.
//
// What it promises:
//
//   - Every connection is dialed anew, with a growing pause, as long as Run
//     runs; a restarted enclave is found again by itself.
//   - A call whose answer did not come is ErrUnavailable: it may or may not
//     have been done. Sending the same body again is safe.
//   - A reply is handed out only to the call whose body it names.
//   - A store that fails is answered with "failed", which the enclave reads as
//     "unknown". The reason stays in the host's log.
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

// roleNames say in the log what a connection is for.
var roleNames = [wire.Roles + 1]string{wire.RoleCalls: "calls", wire.RoleStores: "batches", wire.RoleLoads: "reads", wire.RoleSnapshots: "snapshots",
	wire.RoleChains: "chains", wire.RoleDials: "outgoing connections", wire.RoleStream: "stream", wire.RoleWitnesses: "witnesses"}

// Connections beside those for calls.
const (
	stores    = 1
	loads     = 2
	snapshots = 1
	chains    = 1
	dials     = 1
	witnesses = 2
)

// maxChainAsks bounds the questions about chains that are under way: each is one to
// a node, which may take its time.
const maxChainAsks = 256

// Pauses between attempts to dial.
const (
	firstPause  = 50 * time.Millisecond
	longPause   = 2 * time.Second
	dialTimeout = 5 * time.Second
)

// Errors of Call.
var (
	// ErrUnavailable: no enclave, no room, or no answer. The call may have
	// been done.
	ErrUnavailable = errors.New("enclave unavailable")
	// ErrWrongReply: the enclave's answer makes no sense or belongs to another
	// request.
	ErrWrongReply = errors.New("reply does not belong to the request")
)

// errNotConnected is ErrUnavailable of a call that went nowhere.
var errNotConnected = fmt.Errorf("%w: not connected", ErrUnavailable)

// A Store is what the enclave's questions are answered from.
type Store interface {
	store.Writer
	store.Loader
	store.Finder
	store.Outbox
}

// Chains answers the enclave's questions about chains, each within a time of its
// own.
type Chains interface {
	Chain(context.Context, wire.Chain) wire.ChainState
	Read(context.Context, wire.ReadChain) wire.ChainReading
}

// Witnesses bring a checkpoint of a log to those who witness it, and give what they
// signed, within a time of their own. They tell where an entry is in such a log.
type Witnesses interface {
	Witness(context.Context, wire.Witness) (wire.Cosigned, error)
	ProveLogged(context.Context, wire.ProveLogged) (wire.Logged, error)
}

// An Observer is told what happens; it must be quick. Kind is a short word
// such as "batch" or "load_organization".
type Observer interface {
	Batch(entries, bytes int, verdict wire.Verdict)
	Question(kind string, took time.Duration, failed bool)
}

// Options of a Link. All are needed but Calls, Observer, Chains, Outside, Images, Programs, Witnesses, Sends
// and Dial.
type Options struct {
	Address      string        // of the enclave, see Dial
	Calls        int           // connections for calls; 0 means 1
	StoreTimeout time.Duration // for one question to the store
	Store        Store
	Log          *slog.Logger
	Observer     Observer
	Chains       Chains    // nil: no node is configured
	Dialer       Dialer    // nil: nothing outside is reached
	Images       Images    // nil: no registry is asked
	Programs     Programs  // nil: no programs run here
	Witnesses    Witnesses // nil: no witness is asked, and the enclave told that it failed
	// Sends is told when a batch was stored that has something to send; it must be
	// quick.
	Sends func()
	Now   func() time.Time
	// Pause waits for d or until ctx ends.
	Pause func(ctx context.Context, d time.Duration)
	Dial  func(ctx context.Context, address string) (net.Conn, error)
}

// Stats are counts over all connections.
type Stats struct {
	Connected int    // connections that stand
	Wanted    int    // connections there should be
	InFlight  int    // calls without reply
	Late      uint64 // replies that came after their caller had left
	Dials     uint64 // connections made
	Breaches  uint64 // connections cut because the enclave broke the protocol
	Wrong     uint64 // replies that were not to the call's body
}

// A slot is the place of one connection.
type slot struct {
	role wire.Role
	conn atomic.Pointer[wire.Conn]
}

// A Link is the host's side of all connections to one enclave.
type Link struct {
	options  Options
	outages  *outage.Log
	slots    []*slot // those for calls first
	nextSlot atomic.Uint64
	late     atomic.Uint64
	dials    atomic.Uint64
	breaches atomic.Uint64
	wrong    atomic.Uint64
	streams  streams
	stored   map[wire.Kind]fromStore
}

// New makes a Link; Run connects it.
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
	l.stored = l.answers()
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

// Run keeps the connections until ctx ends and then closes them.
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
				told = true // once for each absence
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
			if ctx.Err() == nil { // else it is we who end
				l.options.Log.Warn("enclave connection lost", "connection", roleNames[s.role], "error", conn.Err())
			}
		case <-ctx.Done():
		}
		s.conn.Store(nil)
		_ = conn.Close()
		l.late.Add(conn.Stats().Late)
		// One that falls at once (an enclave that is fenced, or not the one we
		// think) is not dialed in a tight loop.
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

// Time-outs of a connection. They are wide: the peer is on the same machine.
const (
	frameTimeout = 30 * time.Second
	writeTimeout = 30 * time.Second
)

// Call hands a request to the enclave and waits for the reply until ctx ends.
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

// OpenSend asks the enclave for what a send holds. Errors are those of Call.
func (l *Link) OpenSend(ctx context.Context, id wire.SendID) (*wire.Opened, error) {
	opened := new(wire.Opened)
	if err := l.ask(ctx, wire.KindOpenSend, &wire.AboutSend{Send: id}, opened); err != nil {
		return nil, err
	}
	return opened, nil
}

// ask puts a question to the enclave.
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

// pick takes the connections for calls in turn, passing over those that are down.
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

// Ready tells what is missing, nil when every kind of connection stands that is to
// stand at all times.
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

// Stats returns the counts as they are.
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
