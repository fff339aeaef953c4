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

// Dialer connects to names outside for the enclave.
type Dialer interface {
	// Open connects to a host, a name or an IP address without brackets. With a connection the
	// verdict is wire.DialOpen, with an error another one.
	Open(ctx context.Context, host string, port uint16) (net.Conn, wire.DialVerdict, error)
}

// Images gets images from registries for the enclave.
type Images interface {
	// Open is a stream over which an image's blobs are given as wire.Pull says. Verdict and error are as those of Outside.
	Open(ctx context.Context, q *wire.Pull) (net.Conn, wire.DialVerdict, error)
}

// Programs tells how customers' programs stand here.
type Programs interface {
	About(ctx context.Context, q *wire.AboutProgram) (wire.ProgramStatus, error)
}

// program answers one question about a deployment. What does not run here is not known.
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

// Times and room of a stream.
const (
	streamWait   = 15 * time.Second // until it stands, at most
	streamIdle   = 2 * time.Minute  // without a byte either way
	streamLinger = 10 * time.Second // likewise, once one side has ended
	streamBuffer = 32 << 10         // each way
)

var errNoDialer = errors.New("nothing outside is configured")

// dial answers one question for a stream. It connects to the outside first, so that the enclave
// sees no stream that leads nowhere.
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

// destination is where a stream is to lead.
type destination struct {
	name   string // for the log
	ticket wire.Ticket
	within uint32 // milliseconds
	open   func(ctx context.Context) (net.Conn, wire.DialVerdict, error)
}

// destination reads one question for a stream.
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

// open makes and starts a stream.
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
	open   int // including those being made
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

// run starts a stream, unless the link has ended.
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

// end cuts all streams and waits for them.
func (x *streams) end() {
	x.mu.Lock()
	x.closed = true
	for s := range x.all {
		s.close()
	}
	x.mu.Unlock()
	x.ending.Wait()
}

// A stream joins two connections.
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

// carry copies both ways until both have ended.
func (s *stream) carry() {
	defer s.close()
	s.touch(streamIdle)
	var both sync.WaitGroup
	both.Go(func() { s.copy(s.ends[0], s.ends[1]) })
	both.Go(func() { s.copy(s.ends[1], s.ends[0]) })
	both.Wait()
}

// touch lets a stream without traffic live for idle more, or less if it was told so before.
func (s *stream) touch(idle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = min(s.idle, idle)
	for _, c := range s.ends {
		_ = c.SetDeadline(s.now().Add(s.idle))
	}
}

// copy copies one way. It passes on an orderly end, and the other way stays open; anything else ends
// both.
func (s *stream) copy(to, from net.Conn) {
	b := make([]byte, streamBuffer)
	for {
		n, err := from.Read(b)
		if n > 0 {
			s.touch(streamIdle)
			if _, err := to.Write(b[:n]); err != nil {
				s.close()
				return
			}
		}
		switch half, ok := to.(interface{ CloseWrite() error }); {
		case err == nil:
		case errors.Is(err, io.EOF) && ok && half.CloseWrite() == nil:
			s.touch(streamLinger)
			return
		default:
			s.close()
			return
		}
	}
}
