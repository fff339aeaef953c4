package hostile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"cloister/shared/wire"
)

// A Frame as it goes over the line.
type Frame struct {
	ID      uint64
	Kind    wire.Kind
	Payload []byte
	// Length, if not 0, is announced instead of the payload's.
	Length int
}

const frameHead = 4 + 8 + 1

// Bytes is the frame on the line.
func (f Frame) Bytes() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, frameHead+len(f.Payload)), uint32(cmp.Or(f.Length, len(f.Payload))))
	b = binary.BigEndian.AppendUint64(b, f.ID)
	return append(append(b, byte(f.Kind)), f.Payload...)
}

// ReadFrame reads one frame.
func ReadFrame(r io.Reader) (Frame, error) {
	var h [frameHead]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(h[:])
	if n > 2*wire.MaxFrame {
		return Frame{}, fmt.Errorf("frame of %d bytes", n)
	}
	f := Frame{ID: binary.BigEndian.Uint64(h[4:]), Kind: wire.Kind(h[12]), Payload: make([]byte, n)}
	_, err := io.ReadFull(r, f.Payload)
	return f, err
}

// A Crossing is a frame on its way through the proxy.
type Crossing struct {
	Frame
	Role      wire.Role
	ToEnclave bool
	Question  *Frame // set for answers
	// Put writes to the enclave on this frame's connection, at any time.
	Put func(...Frame)
}

// A Hook tells what goes on instead of a crossing frame.
type Hook func(Crossing) []Frame

// Proxy stands between a host and its enclave and reads every frame.
type Proxy struct {
	Liar
	enclave  string
	listener net.Listener

	mu    sync.Mutex
	hook  Hook
	conns []net.Conn
	ended bool
	seen  map[wire.Kind]int
	wg    sync.WaitGroup
}

// NewProxy listens on loopback for the host of the enclave at a tcp:// address.
func NewProxy(enclave string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{enclave: strings.TrimPrefix(enclave, "tcp://"), listener: l, seen: map[wire.Kind]int{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Address is where the host dials.
func (p *Proxy) Address() string { return "tcp://" + p.listener.Addr().String() }

// Rewrite sets what is done to every frame; nil lets all pass.
func (p *Proxy) Rewrite(h Hook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = h
}

// Seen is how many frames of each kind have crossed.
func (p *Proxy) Seen() map[wire.Kind]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.seen)
}

// Close cuts everything.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.ended = true
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		h, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.carry(h) })
	}
}

// carry takes one connection of the host through to the enclave.
func (p *Proxy) carry(h net.Conn) {
	defer h.Close()
	hello, err := wire.ReadHello(h, time.Now().Add(5*time.Second))
	if err != nil {
		return
	}
	role := hello.Role
	e, err := dial(p.enclave, hello)
	if err != nil {
		return
	}
	defer e.Close()
	p.mu.Lock()
	ended := p.ended // Close would wait for one whom it does not know
	p.conns = append(p.conns, h, e)
	p.mu.Unlock()
	if ended {
		return
	}
	if role == wire.RoleStream {
		p.wg.Go(func() {
			_, _ = io.Copy(h, e)
			_, _ = h.Close(), e.Close()
		})
		_, _ = io.Copy(e, h)
		return
	}
	var mu sync.Mutex // over writes to the enclave
	put := func(fs ...Frame) {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range fs {
			if _, err := e.Write(f.Bytes()); err != nil {
				_ = e.Close()
				return
			}
		}
	}
	asked := new(questions)
	p.wg.Go(func() {
		p.pump(e, h, role, asked, put)
		_, _ = h.Close(), e.Close()
	})
	p.pump(h, e, role, asked, put)
}

// questions remembers what was asked on one connection. Only one side asks.
type questions struct {
	mu    sync.Mutex
	asked map[uint64]*Frame
}

// of returns the question that f answers, or notes f as a question.
func (q *questions) of(f Frame) *Frame {
	q.mu.Lock()
	defer q.mu.Unlock()
	if was := q.asked[f.ID]; was != nil {
		delete(q.asked, f.ID)
		return was
	}
	if q.asked == nil {
		q.asked = map[uint64]*Frame{}
	}
	q.asked[f.ID] = &f
	return nil
}

// pump carries frames from one side to the other; to is the enclave when put is to be used.
func (p *Proxy) pump(from, to net.Conn, role wire.Role, asked *questions, put func(...Frame)) {
	inward := to.RemoteAddr().String() == p.enclave
	for {
		f, err := ReadFrame(from)
		if err != nil {
			return
		}
		x := Crossing{Frame: f, Role: role, ToEnclave: inward, Put: put}
		if f.Kind != wire.KindCancel {
			x.Question = asked.of(f)
		}
		out := p.pass(x)
		if inward {
			put(out...)
			continue
		}
		for _, f := range out {
			if _, err := to.Write(f.Bytes()); err != nil {
				return
			}
		}
	}
}

func (p *Proxy) pass(x Crossing) []Frame {
	p.mu.Lock()
	p.seen[x.Kind]++
	hook := p.hook
	p.mu.Unlock()
	if x.ToEnclave && x.Question != nil && x.Question.Kind != wire.KindCall {
		p.lie(&x)
	}
	if hook != nil {
		return hook(x)
	}
	return []Frame{x.Frame}
}

// lie puts another answer into a frame, if a lie is armed that wants to.
func (p *Proxy) lie(x *Crossing) {
	question, err := Decode(x.Question.Kind, x.Question.Payload)
	if err != nil {
		return
	}
	answer, err := Decode(x.Kind, x.Payload)
	if err != nil || !p.tell(forms[x.Question.Kind].value(question), answer) {
		return
	}
	if b, err := wire.Marshal(answer); err == nil {
		x.Payload = b
	}
}

// Dial opens a connection of a role to an enclave and says hello, for frames that no host would send.
func Dial(enclave string, role wire.Role) (net.Conn, error) {
	return dial(enclave, wire.Hello{Role: role})
}

func dial(enclave string, h wire.Hello) (net.Conn, error) {
	c, err := net.Dial("tcp", strings.TrimPrefix(enclave, "tcp://"))
	if err != nil {
		return nil, err
	}
	if err := wire.WriteHello(c, h, time.Now().Add(5*time.Second)); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}
