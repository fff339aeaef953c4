package link_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/host/link"
	"cloister/shared/wire"
)

// outside is one listener, whatever is asked for, or a verdict.
type outside struct {
	net.Listener
	verdict atomic.Uint32
	opened  atomic.Int32
	hang    bool
}

func newOutside(t *testing.T) *outside {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &outside{Listener: l}
}

func (o *outside) Open(ctx context.Context, _ string, _ uint16) (net.Conn, wire.DialVerdict, error) {
	o.opened.Add(1)
	if o.hang {
		<-ctx.Done()
		return nil, wire.DialAway, ctx.Err()
	}
	if v := o.verdict.Load(); v != 0 {
		return nil, wire.DialVerdict(v), errors.New("not there")
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", o.Addr().String())
	return c, wire.DialOpen, err
}

// An enclave for streams: its connection for dials, and the streams that come.
type dialing struct {
	conn    *wire.Conn
	streams chan net.Conn
	tickets chan wire.Ticket
}

func enclaveFor(t *testing.T, o *outside, change func(*link.Options)) (*dialing, *link.Link, func()) {
	l, err := link.Listen("unix:" + filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	d := &dialing{streams: make(chan net.Conn, 1000), tickets: make(chan wire.Ticket, 1000)}
	conns := make(chan *wire.Conn, 1)
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			h, err := wire.ReadHello(nc, time.Now().Add(time.Minute))
			switch {
			case err != nil:
				nc.Close()
			case h.Role == wire.RoleStream:
				d.streams <- nc
				d.tickets <- *h.Ticket
			default:
				c := wire.NewConn(nc, wire.Options{Role: h.Role, Side: wire.SideEnclave})
				if h.Role == wire.RoleDials {
					conns <- c
				}
			}
		}
	}()
	opts, _ := options(t, "unix:"+l.Addr().String())
	opts.Dialer = o
	if change != nil {
		change(&opts)
	}
	k, err := link.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { k.Run(ctx); close(done) }()
	stop := sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	d.conn = <-conns
	return d, k, stop
}

func (d *dialing) ask(t *testing.T, q wire.Dial) wire.DialVerdict {
	t.Helper()
	return ask[wire.Dialed](t, d.conn, wire.KindDial, wire.KindDialed, q).Verdict
}

var someDial = wire.Dial{Host: "mail.example", Port: 25, Ticket: wire.Ticket{7, 15: 9}, WithinMs: 10_000}

func TestStream(t *testing.T) {
	o := newOutside(t)
	d, _, _ := enclaveFor(t, o, nil)
	if v := d.ask(t, someDial); v != wire.DialOpen {
		t.Fatal(v)
	}
	enclave, far := <-d.streams, accept(t, o)
	if ticket := <-d.tickets; ticket != someDial.Ticket {
		t.Fatal(ticket)
	}
	// Much more than there is room for, both ways at once.
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	var all sync.WaitGroup
	for _, c := range []net.Conn{enclave, far} {
		all.Go(func() {
			if _, err := c.Write(big); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			got := make([]byte, len(big))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, big) {
				t.Error("it did not arrive as it was sent", err)
			}
		})
	}
	all.Wait()
	// One side ends, the other still speaks.
	if err := far.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(enclave); err != nil || len(b) != 0 {
		t.Fatal(b, err)
	}
	if _, err := enclave.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	enclave.Close()
	if b, err := io.ReadAll(far); err != nil || string(b) != "last words" {
		t.Fatalf("%q, %v", b, err)
	}
}

func accept(t *testing.T, o *outside) net.Conn {
	t.Helper()
	c, err := o.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// What one side cuts is cut for the other.
func TestStreamIsCut(t *testing.T) {
	o := newOutside(t)
	d, _, stop := enclaveFor(t, o, nil)
	for _, cut := range []func(enclave, far net.Conn) net.Conn{
		func(enclave, far net.Conn) net.Conn { enclave.Close(); return far },
		func(enclave, far net.Conn) net.Conn {
			_ = far.(*net.TCPConn).SetLinger(0)
			far.Close()
			return enclave
		},
		func(enclave, _ net.Conn) net.Conn { stop(); return enclave },
	} {
		if v := d.ask(t, someDial); v != wire.DialOpen {
			t.Fatal(v)
		}
		left := cut(<-d.streams, accept(t, o))
		_ = left.SetReadDeadline(time.Now().Add(5 * time.Minute))
		if _, err := io.Copy(io.Discard, left); err != nil {
			var slow net.Error
			if errors.As(err, &slow) && slow.Timeout() {
				t.Error("it stands")
			}
		}
	}
}

func TestDialVerdicts(t *testing.T) {
	o := newOutside(t)
	d, _, _ := enclaveFor(t, o, nil)
	change := func(f func(*wire.Dial)) wire.Dial { q := someDial; f(&q); return q }
	for name, q := range map[string]wire.Dial{
		"no host":   change(func(q *wire.Dial) { q.Host = "" }),
		"long host": change(func(q *wire.Dial) { q.Host = string(bytes.Repeat([]byte("a"), 254)) }),
		"no port":   change(func(q *wire.Dial) { q.Port = 0 }),
	} {
		if v := d.ask(t, q); v != wire.DialRefused || o.opened.Load() != 0 {
			t.Errorf("%s: %d", name, v)
		}
	}
	for _, want := range []wire.DialVerdict{wire.DialRefused, wire.DialAway} {
		o.verdict.Store(uint32(want))
		if v := d.ask(t, someDial); v != want {
			t.Errorf("%d, want %d", v, want)
		}
	}
	ask[wire.Failed](t, d.conn, wire.KindDial, wire.KindFailed, wire.Done{OK: true})
	if len(d.streams) != 0 {
		t.Error("there are streams")
	}
}

func TestNothingOutside(t *testing.T) {
	d, _, _ := enclaveFor(t, nil, func(o *link.Options) { o.Dialer = nil })
	if v := d.ask(t, someDial); v != wire.DialRefused {
		t.Error(v)
	}
}

// An outside that hangs is given up when the enclave no longer waits.
func TestDialThatHangs(t *testing.T) {
	o := newOutside(t)
	o.hang = true
	d, _, _ := enclaveFor(t, o, nil)
	q := someDial
	q.WithinMs = 20
	if v := d.ask(t, q); v != wire.DialAway {
		t.Error(v)
	}
	q.WithinMs = 0
	if v := d.ask(t, q); v != wire.DialAway {
		t.Error(v)
	}
}

// An enclave that cannot be reached when the outside can leaves no connection behind.
func TestEnclaveGoneMeanwhile(t *testing.T) {
	o := newOutside(t)
	var down atomic.Bool
	d, _, _ := enclaveFor(t, o, func(l *link.Options) {
		l.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			if down.Load() {
				return nil, errors.New("away")
			}
			return link.Dial(ctx, address)
		}
	})
	down.Store(true)
	if v := d.ask(t, someDial); v != wire.DialAway {
		t.Error(v)
	}
	far := accept(t, o)
	if b, err := io.ReadAll(far); err != nil || len(b) != 0 {
		t.Error(b, err)
	}
}

func TestTooManyStreams(t *testing.T) {
	o := newOutside(t)
	d, _, _ := enclaveFor(t, o, nil)
	var far []net.Conn
	for i := range wire.MaxStreams {
		if v := d.ask(t, someDial); v != wire.DialOpen {
			t.Fatal(i, v)
		}
		far = append(far, accept(t, o))
	}
	if v := d.ask(t, someDial); v != wire.DialBusy {
		t.Error(v)
	}
	// A place that is given back is used again.
	(<-d.streams).Close()
	far[0].Close()
	waitFor(t, func() bool { return d.ask(t, someDial) == wire.DialOpen })
}

// A stream on which nothing moves for two minutes is cut. The clock stands so that
// they are over soon after the last byte.
func TestIdleStream(t *testing.T) {
	o := newOutside(t)
	var behind atomic.Int64
	d, _, _ := enclaveFor(t, o, func(l *link.Options) {
		l.Now = func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }
	})
	if v := d.ask(t, someDial); v != wire.DialOpen {
		t.Fatal(v)
	}
	enclave, far := <-d.streams, accept(t, o)
	behind.Store(int64(2*time.Minute - 50*time.Millisecond))
	if _, err := enclave.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{enclave, far} {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Minute))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Error("it stands", err)
		}
	}
}
