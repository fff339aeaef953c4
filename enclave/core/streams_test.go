package core_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/enclave/internal/org"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/rig"
)

// A liar is a host that answers dials as a test says.
type liar struct {
	t       *testing.T
	enclave string
	asked   atomic.Int32
	do      atomic.Pointer[func(context.Context, wire.Dial) any]
	conn    *wire.Conn
}

// lies connects a liar. The enclave asks it and the honest host in turn.
func lies(t *testing.T, r *rig.Rig) *liar {
	l := &liar{t: t, enclave: strings.TrimPrefix(r.Address, "tcp://")}
	nc := l.dial(wire.Hello{Role: wire.RoleDials})
	l.conn = wire.NewConn(nc, wire.Options{Role: wire.RoleDials, Side: wire.SideHost, Handler: l.answer})
	t.Cleanup(func() { l.conn.Close() })
	return l
}

func (l *liar) dial(h wire.Hello) net.Conn {
	c, err := net.Dial("tcp", l.enclave)
	if err == nil {
		err = wire.WriteHello(c, h, time.Now().Add(patience))
	}
	if err != nil {
		l.t.Error(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return c
}

func (l *liar) stream(t wire.Ticket) net.Conn {
	return l.dial(wire.Hello{Role: wire.RoleStream, Ticket: &t})
}

// garbage answers with bytes that are no message.
type garbage []byte

func (l *liar) answer(ctx context.Context, _ wire.Kind, payload []byte) (wire.Kind, []byte) {
	var ask wire.Dial
	if err := wire.Unmarshal(payload, &ask); err != nil {
		l.t.Error(err)
	}
	do := l.do.Load()
	if do == nil {
		return verdict(wire.DialAway)
	}
	l.asked.Add(1)
	switch a := (*do)(ctx, ask).(type) {
	case wire.DialVerdict:
		return verdict(a)
	case garbage:
		return wire.KindDialed, a
	}
	return wire.KindFailed, []byte{0xa0}
}

func verdict(v wire.DialVerdict) (wire.Kind, []byte) {
	b, err := wire.Marshal(&wire.Dialed{Verdict: v})
	if err != nil {
		panic(err)
	}
	return wire.KindDialed, b
}

// gone waits until the enclave has closed a connection.
func (l *liar) gone(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, c); err != nil {
		if n, ok := err.(net.Error); ok && n.Timeout() {
			l.t.Error("a connection that has no place stands")
		}
	}
}

// atLeisure is a send that no host claims by itself.
func atLeisure(s org.Send) org.Send {
	s.DueMs, s.ExpiresMs = 1<<50, 1<<51
	return s
}

func carry(a, b net.Conn, change func([]byte)) {
	go func() { _, _ = io.Copy(a, b) }()
	buf := make([]byte, 4096)
	for {
		n, err := a.Read(buf)
		change(buf[:n])
		if _, w := b.Write(buf[:n]); w != nil || err != nil {
			b.Close()
			return
		}
	}
}

func TestHostLiesAboutStreams(t *testing.T) {
	a, unrelated := newAuthority(t, mailHost), newAuthority(t, mailHost)
	box := newMailbox(t, a)
	foreign := newMailbox(t, unrelated)
	var honest atomic.Bool
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		if !honest.Load() {
			return nil, io.ErrUnexpectedEOF
		}
		return resourceNames{mailHost: box.Addr()}.dial(ctx, host, port)
	}})
	l := lies(t, r)
	to := func(addr net.Addr, ask wire.Dial, change func([]byte)) any {
		c, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() { c.Close() })
		s := l.stream(ask.Ticket)
		go carry(s, c, change)
		return wire.DialOpen
	}
	alarms := uint64(0)
	for _, c := range []struct {
		name   string
		alarms uint64
		says   string
		do     func(wire.Dial) any
	}{
		{"refuses", 0, "no connection", func(wire.Dial) any { return wire.DialRefused }},
		{"is busy", 0, "no connection", func(wire.Dial) any { return wire.DialBusy }},
		{"fails", 0, "no connection", func(wire.Dial) any { return nil }},
		{"gives no verdict", 0, "no connection", func(wire.Dial) any { return wire.DialVerdict(0) }},
		{"gives another verdict", 0, "no connection", func(wire.Dial) any { return wire.DialVerdict(99) }},
		{"answers garbage", 1, "no connection", func(wire.Dial) any { return garbage("garbage") }},
		{"answers too much", 1, "no connection", func(wire.Dial) any { return garbage{0xa2, 1, 1, 2, 1} }},
		{"cuts the stream", 0, "", func(q wire.Dial) any { l.stream(q.Ticket).Close(); return wire.DialOpen }},
		{"sends garbage", 0, "", func(q wire.Dial) any {
			c := l.stream(q.Ticket)
			_, _ = c.Write(bytes.Repeat([]byte{0x16, 0xff, 0}, 1000))
			return wire.DialOpen
		}},
		{"plays the server without TLS", 0, "", func(q wire.Dial) any {
			_, _ = l.stream(q.Ticket).Write([]byte("220 mail.example.com\r\n250 AUTH PLAIN\r\n235 welcome\r\n250 OK\r\n250 OK\r\n354 go on\r\n250 queued\r\n"))
			return wire.DialOpen
		}},
		{"leads to another server", 0, "the server's certificate does not hold", func(q wire.Dial) any { return to(foreign.Addr(), q, func([]byte) {}) }},
		{"flips bits of what goes out", 0, "the connection ended", func(q wire.Dial) any {
			n := 0
			return to(box.Addr(), q, func(b []byte) {
				if n++; n == 3 { // behind the handshake
					b[len(b)-1] ^= 1
				}
			})
		}},
		{"comes with another ticket", 1, "no connection", func(q wire.Dial) any {
			q.Ticket[0] ^= 1
			l.gone(l.stream(q.Ticket))
			return wire.DialAway
		}},
		{"comes twice", 1, "", func(q wire.Dial) any {
			both, turned := []net.Conn{l.stream(q.Ticket), l.stream(q.Ticket)}, make(chan int, 2)
			for i, c := range both {
				go func() { l.gone(c); turned <- i }()
			}
			both[1-<-turned].Close() // either may be the first
			return wire.DialOpen
		}},
		{"comes and says no", 0, "no connection", func(q wire.Dial) any {
			c := l.stream(q.Ticket)
			go l.gone(c)
			return wire.DialAway
		}},
	} {
		do := func(_ context.Context, q wire.Dial) any {
			if q.Host != mailHost || q.Port != 465 || q.WithinMs == 0 {
				t.Errorf("%+v", q)
			}
			return c.do(q)
		}
		id := put(t, r, atLeisure(letter(t, r, "secret")))
		l.asked.Store(0)
		l.do.Store(&do)
		var d *wire.Delivered
		clocktest.Until(t, "a question to the host that "+c.name, func() bool {
			var err error
			if d, err = r.Link.Deliver(t.Context(), id); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			return l.asked.Load() > 0
		})
		l.do.Store(nil)
		if d.Result != wire.DeliverTemporary || d.Code >= 400 || !strings.Contains(d.Text, c.says) {
			t.Errorf("%s: %+v", c.name, d)
		}
		alarms += c.alarms
		for start := time.Now(); time.Since(start) < patience; time.Sleep(time.Millisecond) { // a stream may end a moment after what was said over it
			if n := r.Counters(); n["streams"] == 0 && n["alarm_frame"] == alarms {
				break
			}
		}
		if n := r.Counters(); n["streams"] != 0 || n["alarm_frame"] != alarms {
			t.Errorf("%s: %d streams, %d alarms, want %d", c.name, n["streams"], n["alarm_frame"], alarms)
			alarms = n["alarm_frame"]
		}
	}
	if len(box.got()) > 0 || len(foreign.got()) > 0 || len(foreign.logins) > 0 {
		t.Errorf("something went out: %q %q %q", box.got(), foreign.got(), foreign.logins)
	}
	// Nothing of that has hurt.
	honest.Store(true)
	id := put(t, r, atLeisure(letter(t, r, "after all")))
	for range 10 {
		if d, err := r.Link.Deliver(t.Context(), id); err != nil || d.Result == wire.DeliverDone {
			break
		}
	}
	if n := len(box.got()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// Streams that nobody has asked for are closed, each an alarm; one that comes after
// the enclave has stopped waiting is what an honest host may send, once.
func TestStreamsNobodyWaitsFor(t *testing.T) {
	a := newAuthority(t, mailHost)
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: resourceNames{}.dial})
	l := lies(t, r)
	for i := range 300 {
		l.gone(l.stream(wire.Ticket{1, byte(i), byte(i >> 8)}))
	}
	if n := r.Counters(); n["alarm_frame"] != 300 || n["streams"] != 0 {
		t.Errorf("%d alarms, %d streams", n["alarm_frame"], n["streams"])
	}
	var given atomic.Pointer[wire.Ticket]
	do := func(_ context.Context, q wire.Dial) any {
		given.Store(&q.Ticket)
		return wire.DialAway
	}
	l.do.Store(&do)
	id := put(t, r, atLeisure(letter(t, r, "secret")))
	clocktest.Until(t, "a question for a stream", func() bool {
		if _, err := r.Link.Deliver(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return given.Load() != nil
	})
	for want := range uint64(3) {
		l.gone(l.stream(*given.Load()))
		if n := r.Counters()["alarm_frame"]; n != 300+want {
			t.Errorf("%d alarms, want %d", n, 300+want)
		}
	}
}

// Half of the streams is all that mail and text messages get: what waits for more is
// told so at once.
func TestStreamsAreBounded(t *testing.T) {
	a := newAuthority(t, mailHost)
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: func(ctx context.Context, _ string, _ uint16) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	const more = 10
	var ids []wire.SendID
	for range wire.MaxStreams/2 + more {
		ids = append(ids, put(t, r, atLeisure(letter(t, r, "secret"))))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	turned := make(chan struct{}, len(ids))
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			d, err := r.Link.Deliver(ctx, id)
			if err != nil {
				return // those that wait to the end
			}
			if d.Result != wire.DeliverTemporary {
				t.Errorf("%+v", d)
			}
			turned <- struct{}{}
		})
	}
	for range more {
		<-turned
	}
	if n := r.Counters()["streams"]; n != wire.MaxStreams/2 {
		t.Errorf("%d streams", n)
	}
	cancel()
	all.Wait()
	if n := len(turned); n != 0 {
		t.Errorf("%d more were turned away", n)
	}
	quiet(t, r)
}

// A host that never answers, or says that there is a stream and brings none, costs
// the time that a stream is waited for.
func TestHostThatNeverAnswers(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, mailHost)
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: resourceNames{}.dial})
	l := lies(t, r)
	var n atomic.Int32
	do := func(ctx context.Context, _ wire.Dial) any {
		if n.Add(1)%2 == 0 {
			return wire.DialOpen
		}
		<-ctx.Done()
		return nil
	}
	l.do.Store(&do)
	var all sync.WaitGroup
	for range 4 {
		id := put(t, r, atLeisure(letter(t, r, "secret")))
		all.Go(func() {
			if d, err := r.Link.Deliver(t.Context(), id); err != nil || d.Result != wire.DeliverTemporary {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
	all.Wait()
	if n := r.Counters()["streams"]; n != 0 {
		t.Errorf("%d streams are left", n)
	}
	quiet(t, r)
}

// What the host sees of a stream is TLS: the message and the password are not in it.
func TestHostReadsNothing(t *testing.T) {
	a := newAuthority(t, mailHost)
	box := newMailbox(t, a)
	var mu sync.Mutex
	var seen bytes.Buffer
	r := rig.Start(t, rig.Options{Configuration: configured(t, a), Outside: func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		c, err := resourceNames{mailHost: box.Addr()}.dial(ctx, host, port)
		return &tapped{c, &mu, &seen}, err
	}})
	if s := ended(t, r, put(t, r, letter(t, r, "Your code is 123456."))); s.State != wire.SendIncluded {
		t.Fatalf("%+v", s)
	}
	mu.Lock()
	defer mu.Unlock()
	if seen.Len() < 1000 {
		t.Fatalf("%d bytes seen", seen.Len())
	}
	for _, secret := range []string{"123456", "Your code", "ada@", "pass word", "AHVzZXI", "EHLO", "220 "} {
		if bytes.Contains(seen.Bytes(), []byte(secret)) {
			t.Errorf("%q can be read", secret)
		}
	}
}

// tapped notes what goes both ways.
type tapped struct {
	net.Conn
	mu   *sync.Mutex
	seen *bytes.Buffer
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.note(b[:n])
	return n, err
}

func (c *tapped) Write(b []byte) (int, error) {
	c.note(b)
	return c.Conn.Write(b)
}

func (c *tapped) note(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Write(b)
}
