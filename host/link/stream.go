package link

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"cloister/shared/wire"
)

// Dialer opens the enclave's outgoing connections.
type Dialer interface {
	// Open connects to a host: a name, or an IP address without brackets. The verdict is
	// wire.DialOpen if the error is nil, and another one otherwise.
	Open(ctx context.Context, host string, port uint16) (net.Conn, wire.DialVerdict, error)
}

// Images downloads container images from registries for the enclave.
type Images interface {
	// Open returns a stream of an image's blobs in the format of wire.Pull. Verdict and error are as in Dialer.
	Open(ctx context.Context, q *wire.Pull) (net.Conn, wire.DialVerdict, error)
}

// Programs reports the status of the customers' programs that this host runs.
type Programs interface {
	About(ctx context.Context, q *wire.AboutProgram) (wire.ProgramStatus, error)
}

// program handles one request for the status of a program; without Options.Programs it returns the zero status.
func (l *Link) program(ctx context.Context, payload []byte) (wire.Kind, []byte) {
	var q wire.AboutProgram
	err := wire.Unmarshal(payload, &q)
	said := wire.ProgramStatus{}
	if err == nil && l.options.Programs != nil {
		said, err = l.options.Programs.About(ctx, &q)
	}
	var out []byte
	if err == nil {
		out, err = wire.Marshal(&said)
	}
	if err != nil {
		l.options.Log.Error("question about a program not answered", "error", err)
		return wire.KindFailed, failed
	}
	return wire.KindProgramStatus, out
}

// Time limits of a stream, and its buffer size.
const (
	streamWait   = 15 * time.Second // to connect, at most
	streamIdle   = 2 * time.Minute  // without traffic in either direction
	streamLinger = 10 * time.Second // the same, after one side has closed its half
	streamBuffer = 32 << 10         // bytes in each direction
)

var errNoDialer = errors.New("nothing outside is configured")

// dial handles one request for a stream. It connects to the destination before the enclave, so that
// the enclave gets no stream without a destination.
func (l *Link) dial(ctx context.Context, kind wire.Kind, payload []byte) (wire.Kind, []byte) {
	if kind == wire.KindProgram {
		return l.program(ctx, payload)
	}
	d, err := l.destination(kind, payload)
	if err != nil {
		l.options.Log.Error("request for an outgoing connection not answered", "error", err)
		return wire.KindFailed, failed
	}
	begin := l.options.Now()
	verdict, err := l.open(ctx, d)
	if err != nil {
		l.options.Log.Warn("outgoing connection failed", "to", d.name, "verdict", verdict, "error", err)
	}
	if l.options.Observer != nil {
		l.options.Observer.Question(wire.QuestionOf(kind).Name, l.options.Now().Sub(begin), err != nil)
	}
	out, err := wire.Marshal(&wire.Dialed{Verdict: verdict})
	if err != nil {
		return wire.KindFailed, failed
	}
	return wire.KindDialed, out
}

// destination is the requested far end of a stream.
type destination struct {
	name   string // for the log
	ticket wire.Ticket
	within uint32 // milliseconds
	open   func(ctx context.Context) (net.Conn, wire.DialVerdict, error)
}

// destination decodes one request for a stream.
func (l *Link) destination(kind wire.Kind, payload []byte) (*destination, error) {
	refuse := func(why error) func(context.Context) (net.Conn, wire.DialVerdict, error) {
		return func(context.Context) (net.Conn, wire.DialVerdict, error) { return nil, wire.DialRefused, why }
	}
	if kind == wire.KindPull {
		var q wire.Pull
		if err := wire.Unmarshal(payload, &q); err != nil {
			return nil, err
		}
		d := &destination{name: q.Image, ticket: q.Ticket, within: q.WithinMs, open: refuse(errNoDialer)}
		if len(q.Image) > wire.MaxImageName || len(q.Auth) > wire.MaxAuth {
			d.open = refuse(errors.New("no such image"))
		} else if l.options.Images != nil {
			d.open = func(ctx context.Context) (net.Conn, wire.DialVerdict, error) { return l.options.Images.Open(ctx, &q) }
		}
		return d, nil
	}
	var q wire.Dial
	if err := wire.Unmarshal(payload, &q); err != nil {
		return nil, err
	}
	d := &destination{name: net.JoinHostPort(q.Host, strconv.Itoa(int(q.Port))), ticket: q.Ticket, within: q.WithinMs, open: refuse(errNoDialer)}
	switch {
	case l.options.Dialer == nil:
	case q.Host == "" || len(q.Host) > wire.MaxDialHost || q.Port == 0:
		d.open = refuse(errors.New("no such destination"))
	default:
		d.open = func(ctx context.Context) (net.Conn, wire.DialVerdict, error) {
			return l.options.Dialer.Open(ctx, q.Host, q.Port)
		}
	}
	return d, nil
}

// open connects both ends of a stream and starts it.
func (l *Link) open(ctx context.Context, d *destination) (wire.DialVerdict, error) {
	if !l.streams.add() {
		return wire.DialBusy, errors.New("too many streams")
	}
	ctx, cancel := context.WithTimeout(ctx, min(streamWait, time.Duration(d.within)*time.Millisecond))
	defer cancel()
	outside, verdict, err := d.open(ctx)
	if err != nil {
		l.streams.remove(nil)
		return verdict, err
	}
	enclave, err := l.options.Dial(ctx, l.options.Address)
	if err == nil {
		if err = wire.WriteHello(enclave, wire.Hello{Role: wire.RoleStream, Ticket: &d.ticket}, l.options.Now().Add(dialTimeout)); err != nil {
			_ = enclave.Close()
		}
	}
	if err != nil {
		_ = outside.Close()
		l.streams.remove(nil)
		return wire.DialAway, err
	}
	s := &stream{now: l.options.Now, idle: streamIdle, ends: [2]net.Conn{enclave, outside}}
	if !l.streams.run(s) {
		return wire.DialAway, ErrUnavailable
	}
	return wire.DialOpen, nil
}

// streams are the streams of one link.
type streams struct {
	mu     sync.Mutex
	open   int // including those still connecting
	closed bool
	all    map[*stream]bool
	ending sync.WaitGroup
}

func (x *streams) add() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || x.open >= wire.MaxStreams {
		return false
	}
	x.open++
	return true
}

func (x *streams) remove(s *stream) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open--
	delete(x.all, s)
}

// run starts a stream and reports whether it did; it closes the stream if the link has ended.
func (x *streams) run(s *stream) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		x.open--
		s.close()
		return false
	}
	if x.all == nil {
		x.all = map[*stream]bool{}
	}
	x.all[s] = true
	x.ending.Go(func() {
		s.carry()
		x.remove(s)
	})
	return true
}

// end closes all streams and waits for their goroutines.
func (x *streams) end() {
	x.mu.Lock()
	x.closed = true
	for s := range x.all {
		s.close()
	}
	x.mu.Unlock()
	x.ending.Wait()
}

// A stream relays bytes between two connections.
type stream struct {
	ends [2]net.Conn
	now  func() time.Time

	mu   sync.Mutex
	idle time.Duration
}

func (s *stream) close() {
	for _, c := range s.ends {
		_ = c.Close()
	}
}

// carry copies in both directions until both have ended, and closes the connections.
func (s *stream) carry() {
	defer s.close()
	s.extendDeadline(streamIdle)
	var both sync.WaitGroup
	both.Go(func() { s.copy(s.ends[0], s.ends[1]) })
	both.Go(func() { s.copy(s.ends[1], s.ends[0]) })
	both.Wait()
}

// extendDeadline sets the stream's deadline to idle from now. The shortest idle so far counts.
func (s *stream) extendDeadline(idle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = min(s.idle, idle)
	for _, c := range s.ends {
		_ = c.SetDeadline(s.now().Add(s.idle))
	}
}

// copy copies in one direction. At EOF it closes the write half of to, and the other direction stays
// open; any error closes both.
func (s *stream) copy(to, from net.Conn) {
	b := make([]byte, streamBuffer)
	for {
		n, err := from.Read(b)
		if n > 0 {
			s.extendDeadline(streamIdle)
			if _, err := to.Write(b[:n]); err != nil {
				s.close()
				return
			}
		}
		switch half, ok := to.(interface{ CloseWrite() error }); {
		case err == nil:
		case errors.Is(err, io.EOF) && ok && half.CloseWrite() == nil:
			s.extendDeadline(streamLinger)
			return
		default:
			s.close()
			return
		}
	}
}
