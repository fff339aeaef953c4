// Package link connects the enclave to its host: calls in, questions out, and byte streams to
// names outside.
//
// A frame is one of package wire or a breach that is counted, a question has the one answer
// of its kind, and a stream goes to the caller that drew its ticket. Whether an answer is
// true is for the caller to verify.
package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/shared/wire"
)

// Bounds on a host's connections. More are closed at once.
const (
	maxConnections = 256
	helloTimeout   = 5 * time.Second
	frameTimeout   = 30 * time.Second
	writeTimeout   = 10 * time.Second
)

// Config is what connections are served with.
type Config struct {
	Clock  ledger.Clock
	Rand   io.Reader // of tickets
	Alarms *fault.Alarms
	// Call answers one frame of a connection for calls.
	Call wire.Handler
}

// Host is the enclave's side of all connections. A question takes any one of the right role.
type Host struct {
	cfg     Config
	streams *streams

	mu    sync.Mutex
	all   map[*wire.Conn]wire.Role
	roles map[wire.Role][]*wire.Conn
	next  map[wire.Role]int
	more  chan struct{} // closed and replaced when a connection is added
	late  uint64        // answers that nobody waited for, on connections that are gone
}

// New makes one that has no connection yet.
func New(cfg Config) *Host {
	h := &Host{cfg: cfg, all: map[*wire.Conn]wire.Role{}, roles: map[wire.Role][]*wire.Conn{}, next: map[wire.Role]int{}, more: make(chan struct{})}
	h.streams = newStreams(h)
	return h
}

// Admit takes a connection in by its hello.
func (h *Host) Admit(nc net.Conn) {
	hello, err := wire.ReadHello(nc, h.cfg.Clock.Now().Add(helloTimeout))
	if err != nil {
		if !isConnectionLost(err) {
			h.cfg.Alarms.Raise(fault.AlarmFrame)
		}
		_ = nc.Close()
		return
	}
	role := hello.Role
	if role == wire.RoleStream {
		h.streams.attachStream(*hello.Ticket, nc)
		return
	}
	o := wire.Options{Role: role, Side: wire.SideEnclave, Now: h.cfg.Clock.Now, FrameTimeout: frameTimeout, WriteTimeout: writeTimeout,
		OnBreach: func(error) { h.cfg.Alarms.Raise(fault.AlarmFrame) }}
	if role == wire.RoleCalls {
		o.Handler = h.cfg.Call
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
	defer h.mu.Unlock()
	delete(h.all, conn)
	h.late += conn.Stats().Late
	h.roles[role] = slices.DeleteFunc(h.roles[role], func(k *wire.Conn) bool { return k == conn })
}

// isConnectionLost tells whether a connection went away before its hello, as an honest one may.
func isConnectionLost(err error) bool {
	slow, ok := errors.AsType[net.Error](err)
	return !errors.Is(err, wire.ErrHello) && !(ok && slow.Timeout())
}

// LateAnswers counts answers that nobody waited for any more: repeated, or past their
// deadline. An honest host that is slow gives them too, so they are no alarm.
func (h *Host) LateAnswers() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.late
	for c := range h.all {
		n += c.Stats().Late
	}
	return n
}

// Close ends all connections.
func (h *Host) Close() {
	h.streams.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.all {
		_ = c.Close()
	}
}

// What a question fails with when there is no answer.
var (
	ErrNoConnection = errors.New("no connection to the host")
	ErrFailed       = errors.New("the host could not answer")
)

// conn returns a standing connection of role, waiting for one until ctx ends.
func (h *Host) conn(ctx context.Context, role wire.Role) (*wire.Conn, error) {
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
			return nil, ErrNoConnection
		}
	}
}

// Away tells whether an error means that the host did not answer.
func Away(err error) bool {
	return errors.Is(err, wire.ErrClosed) || errors.Is(err, wire.ErrBusy) || errors.Is(err, ErrNoConnection) || errors.Is(err, ErrFailed)
}

// ask sends one of wire.Questions and decodes its one answer.
func (h *Host) ask(ctx context.Context, kind wire.Kind, payload []byte, into any) error {
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
		return ErrFailed
	}
	if err := wire.Unmarshal(b, into); err != nil {
		h.cfg.Alarms.Raise(fault.AlarmFrame)
		return err
	}
	return nil
}

func question[A, Q any](ctx context.Context, h *Host, kind wire.Kind, q Q) (a A, err error) {
	b, err := wire.Marshal(&q)
	if err != nil {
		return a, err
	}
	return a, h.ask(ctx, kind, b, &a)
}

// Object is an object of the store, nil if there is none.
func (h *Host) Object(ctx context.Context, name string) ([]byte, error) {
	return h.object(ctx, wire.LoadObject{Name: name})
}

// Newest is the object whose name comes last of those with a prefix, nil if there is none.
func (h *Host) Newest(ctx context.Context, prefix string) ([]byte, error) {
	return h.object(ctx, wire.LoadObject{Name: prefix, Newest: true})
}

func (h *Host) object(ctx context.Context, q wire.LoadObject) ([]byte, error) {
	got, err := h.LoadObject(ctx, q)
	if err != nil || !got.Found {
		return nil, err
	}
	return got.Bytes, nil
}

// PutOnce stores an object that is never replaced.
func (h *Host) PutOnce(ctx context.Context, name string, b []byte) error {
	if err := h.PutObject(ctx, wire.PutObject{Name: name, Bytes: b, Once: true}); err != nil {
		return fmt.Errorf("storing %s: %w", name, err)
	}
	return nil
}

// Chain asks how a chain stands.
func (h *Host) Chain(ctx context.Context, q wire.Chain) (wire.ChainState, error) {
	return question[wire.ChainState](ctx, h, wire.KindChain, q)
}

// ReadChain asks what there is on a chain.
func (h *Host) ReadChain(ctx context.Context, q wire.ReadChain) (wire.ChainReading, error) {
	return question[wire.ChainReading](ctx, h, wire.KindReadChain, q)
}

// Program asks how a deployment of a customer's program stands.
func (h *Host) Program(ctx context.Context, q wire.AboutProgram) (wire.ProgramStatus, error) {
	return question[wire.ProgramStatus](ctx, h, wire.KindProgram, q)
}

// CountActivities asks how many activities changed last in some periods.
func (h *Host) CountActivities(ctx context.Context, q wire.CountActivities) (wire.ActivityCounts, error) {
	return question[wire.ActivityCounts](ctx, h, wire.KindCountActivities, q)
}

// Sends asks where sends stand.
func (h *Host) Sends(ctx context.Context, q wire.Sends) (wire.SendStates, error) {
	return question[wire.SendStates](ctx, h, wire.KindSends, q)
}

// Deliveries asks for the sends for one receiver.
func (h *Host) Deliveries(ctx context.Context, q wire.Deliveries) (wire.DeliveryList, error) {
	return question[wire.DeliveryList](ctx, h, wire.KindDeliveries, q)
}

// What follows is ledger.Store.

func (h *Host) Own(ctx context.Context, q wire.Own) (wire.Owned, error) {
	return question[wire.Owned](ctx, h, wire.KindOwn, q)
}

func (h *Host) Append(ctx context.Context, batch []byte) (got wire.Stored, err error) {
	return got, h.ask(ctx, wire.KindBatch, batch, &got)
}

func (h *Host) LoadOrganization(ctx context.Context, q wire.LoadOrganization) (wire.Organization, error) {
	return question[wire.Organization](ctx, h, wire.KindLoadOrganization, q)
}

func (h *Host) LoadEntries(ctx context.Context, q wire.LoadEntries) (wire.Entries, error) {
	return question[wire.Entries](ctx, h, wire.KindLoadEntries, q)
}

func (h *Host) LoadPieces(ctx context.Context, q wire.LoadPieces) (wire.Pieces, error) {
	return question[wire.Pieces](ctx, h, wire.KindLoadPieces, q)
}

func (h *Host) Find(ctx context.Context, q wire.Find) (wire.Proven, error) {
	return question[wire.Proven](ctx, h, wire.KindFind, q)
}

func (h *Host) Page(ctx context.Context, q wire.Page) (wire.Proven, error) {
	return question[wire.Proven](ctx, h, wire.KindPage, q)
}

func (h *Host) PageIndex(ctx context.Context, q wire.PageIndex) (wire.IndexRows, error) {
	return question[wire.IndexRows](ctx, h, wire.KindPageIndex, q)
}

func (h *Host) LoadObject(ctx context.Context, q wire.LoadObject) (wire.Object, error) {
	return question[wire.Object](ctx, h, wire.KindLoadObject, q)
}

func (h *Host) LoadKeys(ctx context.Context, q wire.LoadKeys) (wire.Keys, error) {
	return question[wire.Keys](ctx, h, wire.KindLoadKeys, q)
}

func (h *Host) LoadHeaders(ctx context.Context, q wire.LoadHeaders) (wire.Headers, error) {
	return question[wire.Headers](ctx, h, wire.KindLoadHeaders, q)
}

func (h *Host) LoadTips(ctx context.Context, q wire.LoadTips) (wire.Tips, error) {
	return question[wire.Tips](ctx, h, wire.KindLoadTips, q)
}

func (h *Host) LoadTable(ctx context.Context, q wire.LoadTable) (wire.TipTable, error) {
	return question[wire.TipTable](ctx, h, wire.KindLoadTable, q)
}

func (h *Host) LoadPages(ctx context.Context, q wire.LoadPages) (wire.Pieces, error) {
	return question[wire.Pieces](ctx, h, wire.KindLoadPages, q)
}

func (h *Host) ProveLogged(ctx context.Context, q wire.ProveLogged) (wire.Logged, error) {
	return question[wire.Logged](ctx, h, wire.KindProveLogged, q)
}

func (h *Host) Witness(ctx context.Context, q wire.Witness) (wire.Cosigned, error) {
	return question[wire.Cosigned](ctx, h, wire.KindWitness, q)
}

func (h *Host) PutTable(ctx context.Context, q wire.PutTable) (wire.Done, error) {
	return question[wire.Done](ctx, h, wire.KindPutTable, q)
}

func (h *Host) PutKeys(ctx context.Context, q wire.PutKeys) (wire.Done, error) {
	return question[wire.Done](ctx, h, wire.KindPutKeys, q)
}

func (h *Host) PutSnapshot(ctx context.Context, q wire.PutSnapshot) (wire.Done, error) {
	return question[wire.Done](ctx, h, wire.KindPutSnapshot, q)
}

func (h *Host) PutObject(ctx context.Context, q wire.PutObject) error {
	done, err := question[wire.Done](ctx, h, wire.KindPutObject, q)
	if err == nil && !done.OK {
		err = ErrFailed
	}
	return err
}
