package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/shared/wire"
)

// How the enclave reaches names outside: it draws a ticket and asks the host to dial. The
// host connects to the name and, with the ticket, to the enclave, and joins the two. It may
// lead the stream anywhere, cut it and change it, so TLS is spoken over it.

const (
	// dialWait bounds how long a stream is waited for.
	dialWait = 15 * time.Second
	// ticketKept is how long a ticket that was given up is remembered: an honest host may
	// come with it a little late. maxKept is how many of them are.
	ticketKept = time.Minute
	maxKept    = 4 * wire.MaxStreams
)

var errStreams = errors.New("too many streams")

// streams are the byte streams to names outside.
type streams struct {
	host *Host

	mu       sync.Mutex
	taken    int // places: streams that stand or are waited for
	waiting  map[wire.Ticket]chan net.Conn
	kept     map[wire.Ticket]time.Time // given up; until then they raise no alarm
	standing map[*stream]bool
	over     bool
}

func newStreams(h *Host) *streams {
	return &streams{host: h, waiting: map[wire.Ticket]chan net.Conn{}, kept: map[wire.Ticket]time.Time{}, standing: map[*stream]bool{}}
}

// A Lane is a share of the streams, for one kind of server.
type Lane struct {
	of    *streams
	most  int
	taken int // under of.mu
}

// Lane makes one of at most so many streams.
func (h *Host) Lane(most int) *Lane { return &Lane{of: h.streams, most: most} }

// Dial is a netclient.Dial. Of what the host says its errors tell only the verdict.
func (l *Lane) Dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	return l.open(ctx, wire.KindDial, func(t wire.Ticket) any {
		return &wire.Dial{Host: host, Port: port, Ticket: t, WithinMs: uint32(dialWait.Milliseconds())}
	})
}

// Pull opens a stream over which the host gives an image's blobs.
func (l *Lane) Pull(ctx context.Context, q wire.Pull) (net.Conn, error) {
	return l.open(ctx, wire.KindPull, func(t wire.Ticket) any {
		q.Ticket, q.WithinMs = t, uint32(dialWait.Milliseconds())
		return &q
	})
}

// open asks for a stream by the question that ask makes with its ticket.
func (l *Lane) open(ctx context.Context, kind wire.Kind, ask func(wire.Ticket) any) (net.Conn, error) {
	x := l.of
	var ticket wire.Ticket
	if _, err := io.ReadFull(x.host.cfg.Rand, ticket[:]); err != nil {
		return nil, err
	}
	came, err := l.wait(ticket)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	conn, err := x.ask(ctx, kind, ask(ticket), came)
	if err != nil {
		l.giveUp(ticket, came)
		return nil, err
	}
	s := &stream{Conn: conn, lane: l}
	x.mu.Lock()
	over := x.over
	x.standing[s] = true
	x.mu.Unlock()
	if over {
		_ = s.Close()
		return nil, ErrNoConnection
	}
	return s, nil
}

// ask has the host make a stream, and waits for it.
func (x *streams) ask(ctx context.Context, kind wire.Kind, q any, came <-chan net.Conn) (net.Conn, error) {
	b, err := wire.Marshal(q)
	if err != nil {
		return nil, err
	}
	var a wire.Dialed
	err = x.host.ask(ctx, kind, b, &a)
	if err != nil {
		return nil, err
	}
	if a.Verdict != wire.DialOpen {
		return nil, fmt.Errorf("the host did not dial: verdict %d", a.Verdict)
	}
	select {
	case conn := <-came:
		return conn, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait makes a place for a stream.
func (l *Lane) wait(t wire.Ticket) (chan net.Conn, error) {
	x := l.of
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || l.taken >= l.most || x.taken >= wire.MaxStreams {
		return nil, errStreams
	}
	came := make(chan net.Conn, 1)
	x.taken, l.taken, x.waiting[t] = x.taken+1, l.taken+1, came
	return came, nil
}

// giveUp ends the wait for a stream. One that came in the end is closed.
func (l *Lane) giveUp(t wire.Ticket, came <-chan net.Conn) {
	x := l.of
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taken, l.taken = x.taken-1, l.taken-1
	if _, waits := x.waiting[t]; !waits {
		_ = (<-came).Close()
		return
	}
	delete(x.waiting, t)
	now := x.host.cfg.Clock.Now()
	maps.DeleteFunc(x.kept, func(_ wire.Ticket, until time.Time) bool { return !now.Before(until) })
	if len(x.kept) < maxKept {
		x.kept[t] = now.Add(ticketKept)
	}
}

// attachStream hands a connection to the caller that waits for it. No honest host comes with a
// ticket that nobody has drawn, or twice with one.
func (x *streams) attachStream(t wire.Ticket, conn net.Conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if came := x.waiting[t]; came != nil {
		delete(x.waiting, t)
		came <- conn // never blocks: the channel holds one, and this is the one
		return
	}
	until, late := x.kept[t]
	delete(x.kept, t)
	if !late || !x.host.cfg.Clock.Now().Before(until) {
		x.host.cfg.Alarms.Raise(fault.AlarmFrame)
	}
	_ = conn.Close() // last: the host that sees it closed sees the alarm
}

// close ends all streams, for good.
func (x *streams) close() {
	x.mu.Lock()
	x.over = true
	all := slices.Collect(maps.Keys(x.standing))
	x.mu.Unlock()
	for _, s := range all {
		_ = s.Close()
	}
}

// Streams is how many streams stand or are waited for.
func (h *Host) Streams() uint64 {
	x := h.streams
	x.mu.Lock()
	defer x.mu.Unlock()
	return uint64(x.taken)
}

// A stream gives its place back when it is closed.
type stream struct {
	net.Conn
	lane *Lane
	once sync.Once
}

// Close ends the stream.
func (s *stream) Close() error {
	s.once.Do(func() {
		x := s.lane.of
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.standing, s)
		x.taken, s.lane.taken = x.taken-1, s.lane.taken-1
	})
	return s.Conn.Close()
}
