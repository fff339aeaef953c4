package core

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/shared/wire"
)

// Bounds on a host's connections. More are closed at once.
const (
	maxConnections = 256
	helloTimeout   = 5 * time.Second
	frameTimeout   = 30 * time.Second
	writeTimeout   = 10 * time.Second
)

// host is the enclave's side of all connections: calls come in, questions of
// the ledger go out over whichever connection of the right role stands.
type host struct {
	c *Core

	mu    sync.Mutex
	all   map[*wire.Conn]wire.Role
	roles map[wire.Role][]*wire.Conn
	next  map[wire.Role]int
	more  chan struct{} // closed and replaced when a connection is added
	late  uint64        // answers that nobody waited for, on connections that are gone
}

func newHost(c *Core) *host {
	return &host{c: c, all: map[*wire.Conn]wire.Role{}, roles: map[wire.Role][]*wire.Conn{}, next: map[wire.Role]int{}, more: make(chan struct{})}
}

// admit takes a connection in by its hello.
func (h *host) admit(nc net.Conn) {
	hello, err := wire.ReadHello(nc, h.c.cfg.Clock.Now().Add(helloTimeout))
	if err != nil {
		if !lost(err) {
			h.c.alarms.Raise(fault.AlarmFrame)
		}
		_ = nc.Close()
		return
	}
	role := hello.Role
	if role == wire.RoleStream {
		h.c.streams.take(*hello.Ticket, nc)
		return
	}
	o := wire.Options{Role: role, Side: wire.SideEnclave, Now: h.c.cfg.Clock.Now, FrameTimeout: frameTimeout, WriteTimeout: writeTimeout,
		OnBreach: func(error) { h.c.alarms.Raise(fault.AlarmFrame) }}
	if role == wire.RoleCalls {
		o.Handler = h.call
	}
	h.mu.Lock()
	if len(h.all) >= maxConnections {
		h.mu.Unlock()
		_ = nc.Close()
		return
	}
	conn := wire.NewConn(nc, o)
	h.all[conn] = role
	h.roles[role] = append(h.roles[role], conn)
	close(h.more)
	h.more = make(chan struct{})
	h.mu.Unlock()
	<-conn.Done()
	h.mu.Lock()
	delete(h.all, conn)
	h.late += conn.Stats().Late
	var keep []*wire.Conn
	for _, k := range h.roles[role] {
		if k != conn {
			keep = append(keep, k)
		}
	}
	h.roles[role] = keep
	h.mu.Unlock()
}

// lost tells that a connection went away before its hello, as an honest one may.
// Silence until the deadline is no loss.
func lost(err error) bool {
	var slow net.Error
	return !errors.Is(err, wire.ErrHello) && !(errors.As(err, &slow) && slow.Timeout())
}

// lateAnswers counts answers that nobody waited for: repeated, or past their
// deadline. An honest host that is slow gives them too, so they are no alarm.
func (h *host) lateAnswers() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.late
	for c := range h.all {
		n += c.Stats().Late
	}
	return n
}

// close ends all connections.
func (h *host) close() {
	h.c.streams.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.all {
		_ = c.Close()
	}
}

// call answers one frame of a calls connection.
func (h *host) call(ctx context.Context, kind wire.Kind, payload []byte) (wire.Kind, []byte) {
	if kind == wire.KindOpenSend {
		return h.openSend(ctx, payload)
	}
	if kind == wire.KindDeliver {
		return h.deliverSend(ctx, payload)
	}
	var call wire.Call
	if err := wire.Unmarshal(payload, &call); err != nil && !insecure.Skip(insecure.Frame) {
		h.c.alarms.Raise(fault.AlarmFrame)
		return wire.KindFailed, nil
	}
	reply, of := h.c.answer(ctx, &call)
	b, err := wire.Marshal(reply)
	if err != nil {
		of.settle(0)
		return wire.KindFailed, nil
	}
	if of.n <= smallReply {
		of.settle(0)
	} else {
		context.AfterFunc(ctx, func() { of.settle(0) }) // once the host has it, or nobody wants it
	}
	return wire.KindReply, b
}

var errNoHost = errors.New("no connection to the host")

// conn returns a standing connection of role, waiting for one until ctx ends.
func (h *host) conn(ctx context.Context, role wire.Role) (*wire.Conn, error) {
	for {
		h.mu.Lock()
		cs, more := h.roles[role], h.more
		if len(cs) > 0 {
			h.next[role]++
			c := cs[h.next[role]%len(cs)]
			h.mu.Unlock()
			return c, nil
		}
		h.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return nil, errNoHost
		}
	}
}

var errHostFailed = errors.New("the host could not answer")

// ask sends one of wire.Questions and decodes its one answer.
func (h *host) ask(ctx context.Context, kind wire.Kind, payload []byte, into any) error {
	q := wire.QuestionOf(kind)
	conn, err := h.conn(ctx, q.Role)
	if err != nil {
		return err
	}
	k, b, err := conn.Ask(ctx, kind, payload)
	if err != nil {
		return err
	}
	if k != q.Answer {
		return errHostFailed
	}
	if err := wire.Unmarshal(b, into); err != nil {
		h.c.alarms.Raise(fault.AlarmFrame)
		return err
	}
	return nil
}

func question[A, Q any](ctx context.Context, h *host, kind wire.Kind, q Q) (a A, err error) {
	b, err := wire.Marshal(&q)
	if err != nil {
		return a, err
	}
	return a, h.ask(ctx, kind, b, &a)
}

// Chain asks how a chain stands.
func (h *host) Chain(ctx context.Context, q wire.Chain) (wire.ChainState, error) {
	return question[wire.ChainState](ctx, h, wire.KindChain, q)
}

// Sends asks where sends stand.
func (h *host) Sends(ctx context.Context, q wire.Sends) (wire.SendStates, error) {
	return question[wire.SendStates](ctx, h, wire.KindSends, q)
}

// What follows is ledger.Store.

func (h *host) Own(ctx context.Context, q wire.Own) (wire.Owned, error) {
	return question[wire.Owned](ctx, h, wire.KindOwn, q)
}

func (h *host) Append(ctx context.Context, batch []byte) (got wire.Stored, err error) {
	return got, h.ask(ctx, wire.KindBatch, batch, &got)
}

func (h *host) LoadOrganization(ctx context.Context, q wire.LoadOrganization) (wire.Organization, error) {
	return question[wire.Organization](ctx, h, wire.KindLoadOrganization, q)
}

func (h *host) LoadEntries(ctx context.Context, q wire.LoadEntries) (wire.Entries, error) {
	return question[wire.Entries](ctx, h, wire.KindLoadEntries, q)
}

func (h *host) LoadPieces(ctx context.Context, q wire.LoadPieces) (wire.Pieces, error) {
	return question[wire.Pieces](ctx, h, wire.KindLoadPieces, q)
}

func (h *host) Find(ctx context.Context, q wire.Find) (wire.Proven, error) {
	return question[wire.Proven](ctx, h, wire.KindFind, q)
}

func (h *host) Page(ctx context.Context, q wire.Page) (wire.Proven, error) {
	return question[wire.Proven](ctx, h, wire.KindPage, q)
}

func (h *host) PageIndex(ctx context.Context, q wire.PageIndex) (wire.IndexRows, error) {
	return question[wire.IndexRows](ctx, h, wire.KindPageIndex, q)
}

func (h *host) LoadObject(ctx context.Context, q wire.LoadObject) (wire.Object, error) {
	return question[wire.Object](ctx, h, wire.KindLoadObject, q)
}

func (h *host) LoadKeys(ctx context.Context, q wire.LoadKeys) (wire.Keys, error) {
	return question[wire.Keys](ctx, h, wire.KindLoadKeys, q)
}

func (h *host) PutKeys(ctx context.Context, q wire.PutKeys) (wire.Done, error) {
	return question[wire.Done](ctx, h, wire.KindPutKeys, q)
}

func (h *host) PutSnapshot(ctx context.Context, q wire.PutSnapshot) (wire.Done, error) {
	return question[wire.Done](ctx, h, wire.KindPutSnapshot, q)
}

func (h *host) PutObject(ctx context.Context, q wire.PutObject) error {
	done, err := question[wire.Done](ctx, h, wire.KindPutObject, q)
	if err == nil && !done.OK {
		err = errHostFailed
	}
	return err
}
