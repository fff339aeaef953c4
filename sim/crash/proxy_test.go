package crash_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/shared/wire"
)

// proxy stands between host and enclave and knows where frames begin and end.
// It carries them unchanged, and can stop at one of them.
type proxy struct {
	l      net.Listener
	target atomic.Pointer[string] // where the enclave listens now
	trap   atomic.Pointer[trap]
	mu     sync.Mutex
	open   map[net.Conn]bool
	ended  bool // what comes to stand now is cut at once
}

// frame is one frame on its way.
type frame struct {
	role     wire.Role
	fromHost bool
	kind     wire.Kind
	payload  []byte
}

// trap waits for one frame. The frame is held back until carryOn or drop is
// called; with passed, it is carried on first.
type trap struct {
	want   func(*frame) bool
	passed bool
	taken  atomic.Bool
	hit    chan struct{}
	answer chan bool
}

func newProxy(t testing.TB) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, open: map[net.Conn]bool{}}
	go p.accept()
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
		for c := range p.open {
			c.Close()
		}
	})
	return p
}

func (p *proxy) address() string { return "tcp://" + p.l.Addr().String() }

// set arms a trap for the next frame that is wanted.
func (p *proxy) set(passed bool, want func(*frame) bool) *trap {
	t := &trap{want: want, passed: passed, hit: make(chan struct{}), answer: make(chan bool, 1)}
	p.trap.Store(t)
	return t
}

// carryOn and drop let go of the trapped frame. Dropping it closes its
// connection, as it is when either end is dead.
func (t *trap) carryOn() { t.answer <- true }
func (t *trap) drop()    { t.answer <- false }

func (p *proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		go p.connect(c)
	}
}

func (p *proxy) keep(c net.Conn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[c] = open; !open {
		delete(p.open, c)
	}
	if !open || p.ended {
		c.Close()
	}
}

func (p *proxy) connect(host net.Conn) {
	p.keep(host, true)
	defer p.keep(host, false)
	hello, err := wire.ReadHello(host, time.Now().Add(patience))
	target := p.target.Load()
	if err != nil || target == nil {
		return
	}
	enclave, err := net.Dial("tcp", strings.TrimPrefix(*target, "tcp://"))
	if err != nil {
		return
	}
	p.keep(enclave, true)
	defer p.keep(enclave, false)
	if err := wire.WriteHello(enclave, hello, time.Now().Add(patience)); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	if hello.Role == wire.RoleStream { // no frames
		go func() { _, _ = io.Copy(enclave, host); ended <- struct{}{} }()
		go func() { _, _ = io.Copy(host, enclave); ended <- struct{}{} }()
		<-ended
		return
	}
	go func() { p.carry(hello.Role, true, host, enclave); ended <- struct{}{} }()
	go func() { p.carry(hello.Role, false, enclave, host); ended <- struct{}{} }()
	<-ended
}

// carry carries frames one way until either end is gone.
func (p *proxy) carry(role wire.Role, fromHost bool, from, to net.Conn) {
	in := bufio.NewReaderSize(from, 64<<10)
	var head [13]byte // length, id, kind
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(head[:4])
		if n > wire.MaxFrame {
			return
		}
		b := make([]byte, len(head)+int(n))
		copy(b, head[:])
		if _, err := io.ReadFull(in, b[len(head):]); err != nil {
			return
		}
		f := &frame{role, fromHost, wire.Kind(head[12]), b[len(head):]}
		t := p.trap.Load()
		if t != nil && t.want(f) && t.taken.CompareAndSwap(false, true) {
			p.trap.CompareAndSwap(t, nil)
		} else {
			t = nil
		}
		if t != nil && !t.passed {
			close(t.hit)
			if !<-t.answer {
				return
			}
		}
		if _, err := to.Write(b); err != nil {
			return
		}
		if t != nil && t.passed {
			close(t.hit)
		}
	}
}

// The frames at which requests are caught. undecided tells whether a body is on
// its way: sent by a client that has no reply yet.

func isCall(undecided func(wire.Hash) bool) func(*frame) bool {
	return func(f *frame) bool {
		var c wire.Call
		return f.fromHost && f.kind == wire.KindCall && wire.Unmarshal(f.payload, &c) == nil && c.Endpoint == wire.EndpointSubmit && undecided(sum(c.Body))
	}
}

func isBatch(f *frame) bool { return !f.fromHost && f.kind == wire.KindBatch }

func isSnapshot(f *frame) bool { return !f.fromHost && f.kind == wire.KindPutSnapshot }

func isStored(f *frame) bool {
	var s wire.Stored
	return f.fromHost && f.kind == wire.KindStored && wire.Unmarshal(f.payload, &s) == nil && s.Verdict == wire.VerdictStored
}

func isReply(undecided func(wire.Hash) bool) func(*frame) bool {
	return func(f *frame) bool {
		var r wire.Reply
		return !f.fromHost && f.kind == wire.KindReply && wire.Unmarshal(f.payload, &r) == nil && r.Status == 200 && undecided(r.Request)
	}
}
