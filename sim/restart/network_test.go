package restart_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// virtually runs f in a bubble of testing/synctest, where time jumps ahead once everything waits. What f has started must have ended
// a while after it.
func virtually(t *testing.T, f func()) {
	synctest.Test(t, func(*testing.T) {
		f()
		time.Sleep(patience) // a store ends what it has begun
	})
}

// A network connects enclaves and their hosts in memory. So that not all happens at once where time is virtual,
// everything takes a while, which is drawn: what overtakes what is another thing with every seed.
type network struct {
	mu    sync.Mutex
	r     *rand.Rand // nil: time is real, and nothing takes longer than it does
	there map[string]*listener
	made  int
}

func newNetwork(r *rand.Rand) *network {
	n := &network{there: map[string]*listener{}}
	if r != nil {
		n.r = rand.New(rand.NewPCG(r.Uint64(), 4))
	}
	return n
}

// How long things take at most.
const (
	onTheWay  = 3 * time.Millisecond
	inStore   = 5 * time.Millisecond
	toWitness = 30 * time.Millisecond
)

// lag is how long something takes, mostly a tenth of what it may.
func (n *network) lag(most time.Duration) time.Duration {
	if n.r == nil {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.r.IntN(8) > 0 {
		most /= 10
	}
	return time.Duration(n.r.Int64N(int64(most)))
}

// takes waits for as long as something takes. Who holds a lock must not: time stands still while
// somebody waits for a lock.
func (n *network) takes(ctx context.Context, most time.Duration) {
	if n.r != nil {
		wait(ctx, n.lag(most))
	}
}

func (n *network) listen() *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made++
	l := &listener{name: fmt.Sprint(n.made), coming: make(chan net.Conn), closed: make(chan struct{})}
	n.there["memory://"+l.name] = l
	return l
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.there[address]
	n.mu.Unlock()
	n.takes(ctx, onTheWay)
	there, back := newQueue(n), newQueue(n)
	select {
	case l.coming <- &pipe{in: there, out: back}:
		return &pipe{in: back, out: there}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type listener struct {
	name   string
	coming chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.coming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return memory(l.name) }

type memory string

func (memory) Network() string  { return "memory" }
func (m memory) String() string { return string(m) }

// A queue is one direction of a connection. Nobody waits to write.
type queue struct {
	network *network
	changed chan struct{} // holds one token; one goroutine reads

	mu     sync.Mutex
	parts  []part
	ended  bool // nothing comes behind them
	closed bool // nobody reads any more
	until  time.Time
}

// A part arrives at a time, not before those ahead of it.
type part struct {
	at time.Time
	b  []byte
}

func newQueue(n *network) *queue { return &queue{network: n, changed: make(chan struct{}, 1)} }

func (q *queue) change(f func()) {
	q.mu.Lock()
	f()
	q.mu.Unlock()
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

func (q *queue) put(b []byte) (err error) {
	at := time.Now().Add(q.network.lag(onTheWay))
	q.change(func() {
		if q.ended || q.closed {
			err = io.ErrClosedPipe
			return
		}
		if i := len(q.parts); i > 0 && at.Before(q.parts[i-1].at) {
			at = q.parts[i-1].at
		}
		q.parts = append(q.parts, part{at, append([]byte(nil), b...)})
	})
	return err
}

// take gives what has arrived, or tells until when there is nothing: for ever at a zero time.
func (q *queue) take(b []byte) (n int, later time.Time, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	switch {
	case q.closed:
		return 0, later, net.ErrClosed
	case !q.until.IsZero() && !now.Before(q.until):
		return 0, later, os.ErrDeadlineExceeded
	case len(q.parts) == 0 && q.ended:
		return 0, later, io.EOF
	}
	for len(q.parts) > 0 && n < len(b) {
		p := &q.parts[0]
		if now.Before(p.at) {
			break
		}
		some := copy(b[n:], p.b)
		n += some
		if p.b = p.b[some:]; len(p.b) == 0 {
			q.parts = q.parts[1:]
		}
	}
	if later = q.until; len(q.parts) > 0 && (later.IsZero() || q.parts[0].at.Before(later)) {
		later = q.parts[0].at
	}
	return n, later, nil
}

// A pipe is one end of a connection.
type pipe struct{ in, out *queue }

func (p *pipe) Read(b []byte) (int, error) {
	for {
		n, later, err := p.in.take(b)
		if n > 0 || err != nil {
			return n, err
		}
		var came <-chan time.Time
		if !later.IsZero() {
			came = time.After(time.Until(later))
		}
		select {
		case <-p.in.changed:
		case <-came:
		}
	}
}

func (p *pipe) Write(b []byte) (int, error) {
	if err := p.out.put(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (p *pipe) Close() error {
	p.in.change(func() { p.in.closed, p.in.parts = true, nil })
	p.out.change(func() { p.out.ended = true })
	return nil
}

func (p *pipe) SetReadDeadline(t time.Time) error {
	p.in.change(func() { p.in.until = t })
	return nil
}

func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

func (p *pipe) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

func (p *pipe) LocalAddr() net.Addr  { return memory("here") }
func (p *pipe) RemoteAddr() net.Addr { return memory("there") }
