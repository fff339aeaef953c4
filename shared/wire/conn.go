package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Why a question has no answer, or a connection is no more.
var (
	ErrClosed   = errors.New("connection closed")
	ErrBreach   = errors.New("peer broke the protocol")
	ErrTimeout  = errors.New("peer too slow")
	ErrBusy     = errors.New("too many questions in flight")
	ErrTooLarge = errors.New("message too large")
)

// A Handler answers one question. It has a goroutine to itself while it runs and owns payload. The answer
// must be the kind that belongs to the question, or KindFailed, and within its size; anything else goes out
// as KindFailed. ctx ends when the asker gave up (then the answer is dropped), the answer is written, or the
// connection is closed. A panic is not caught here.
type Handler func(ctx context.Context, kind Kind, payload []byte) (Kind, []byte)

// Options say what a connection is for and what it may take.
type Options struct {
	Role Role
	Side Side

	// Handler answers the peer's questions; nil makes every question a breach.
	Handler Handler

	// OnBreach, if set, is told once why the peer was cut off, wrapping
	// ErrBreach or ErrTimeout. It is not called for a plain loss.
	OnBreach func(error)

	MaxInFlight int   // questions unanswered, each way; 0 means MaxInFlight of limits.go
	MaxWaiting  int64 // bytes of questions in work and of frames unwritten; 0 means MaxWaiting of limits.go

	// Now is the clock for the time-outs below. They need it.
	Now func() time.Time
	// FrameTimeout bounds the time from a frame's first byte to its last, and
	// until the first frame begins. Between frames a peer may be silent.
	FrameTimeout time.Duration
	// WriteTimeout bounds how long the peer may refuse to take bytes; it is kept to within a quarter.
	WriteTimeout time.Duration
	// FirstFrame makes FrameTimeout hold for the wait for the first frame.
	FirstFrame bool
}

// Stats are counts of one connection.
type Stats struct {
	Asked   int    // questions of ours without answer
	Serving int    // questions of theirs without answer
	Waiting int64  // bytes of questions in work and of frames unwritten
	Late    uint64 // answers nobody waited for
	Busy    uint64 // questions of theirs turned away
}

// frameCost is what a frame counts beside its payload, so that empty ones are bounded too.
const frameCost = 64

// unreadAnswers times MaxInFlight frames, and no more than maxUnread, may wait to be written before a peer that asks for more is
// cut off. An honest one, which cancels and asks anew, does not come near.
const (
	unreadAnswers = 64
	maxUnread     = 1 << 16
)

type frame struct {
	id      uint64
	kind    Kind
	payload []byte
	written context.CancelFunc // of an answer, or nil
}

type asking struct {
	expect Kind
	answer chan frame
}

type serving struct {
	cancel  context.CancelFunc
	dropped bool
}

// A Conn carries questions and answers both ways over one net.Conn. All
// methods may be called from many goroutines.
type Conn struct {
	nc      net.Conn
	options Options
	limits  *limits
	base    context.Context
	cancel  context.CancelFunc
	done    chan struct{}
	wake    chan struct{}
	jobs    chan job

	waiters atomic.Int32

	mu      sync.Mutex
	asked   map[uint64]asking
	serving map[uint64]serving
	lastOut uint64 // id of our newest question
	lastIn  uint64 // id of theirs
	out     []frame
	waiting int64
	idle    bool // the writer sleeps
	err     error
	late    uint64
	busy    uint64
}

// NewConn starts a connection over nc, behind its hello, and owns nc from now on. Close ends it. A time-out
// without a clock is a mistake of the caller and panics.
func NewConn(nc net.Conn, o Options) *Conn {
	if o.Now == nil && (o.FrameTimeout != 0 || o.WriteTimeout != 0) {
		panic("wire: time-outs without a clock")
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = MaxInFlight
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = MaxWaiting
	}
	c := &Conn{
		nc: nc, options: o, limits: limitsOf(o.Side, o.Role),
		done: make(chan struct{}), wake: make(chan struct{}, 1), jobs: make(chan job),
		asked: map[uint64]asking{}, serving: map[uint64]serving{},
	}
	c.base, c.cancel = context.WithCancel(context.Background())
	go c.read()
	go c.write()
	return c
}

// Done is closed when the connection is no more.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err tells why the connection is no more, nil while it stands.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stats returns the counts as they are.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{len(c.asked), len(c.serving), c.waiting, c.late, c.busy}
}

// Close ends the connection at once. Questions without answer get ErrClosed.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	return nil
}

// fail ends the connection with the first reason given.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	c.out = nil
	c.mu.Unlock()
	close(c.done)
	c.cancel()
	_ = c.nc.Close() // there is nobody left to tell
	if c.options.OnBreach != nil && (errors.Is(err, ErrBreach) || errors.Is(err, ErrTimeout)) {
		c.options.OnBreach(err)
	}
}

func breach(what string) error { return fmt.Errorf("%w: %s", ErrBreach, what) }

// Ask sends a question and waits for its answer, which may be KindFailed. When ctx ends the peer is told that
// nobody waits, and the error is ctx's. payload belongs to the connection until Ask returns and, if it
// returns early, must not be changed after.
func (c *Conn) Ask(ctx context.Context, kind Kind, payload []byte) (Kind, []byte, error) {
	most := c.limits.questionsOut[kind]
	if most == 0 {
		return 0, nil, fmt.Errorf("kind %d is not asked on this connection", kind)
	}
	if len(payload) >= most {
		return 0, nil, ErrTooLarge
	}
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	a := asking{c.limits.answerTo[kind], make(chan frame, 1)}
	id, err := c.register(a, kind, payload)
	if err != nil {
		return 0, nil, err
	}
	select {
	case f := <-a.answer:
		return f.kind, f.payload, nil
	case <-ctx.Done():
	case <-c.done:
	}
	if f, ok := c.unregister(id, a); ok {
		return f.kind, f.payload, nil
	}
	if c.Err() != nil {
		return 0, nil, c.closedError()
	}
	return 0, nil, ctx.Err()
}

// closedError is the error of a question on a connection that is no more.
func (c *Conn) closedError() error {
	err := c.Err()
	if errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// register numbers a question and queues it in one step: ids rise on the wire.
func (c *Conn) register(a asking, kind Kind, payload []byte) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, ErrClosed
	}
	if len(c.asked) >= c.options.MaxInFlight || c.waiting+int64(len(payload)) > c.options.MaxWaiting {
		return 0, ErrBusy
	}
	c.lastOut++
	c.asked[c.lastOut] = a
	c.queue(frame{id: c.lastOut, kind: kind, payload: payload})
	return c.lastOut, nil
}

// unregister gives up a question, unless its answer has come meanwhile.
func (c *Conn) unregister(id uint64, a asking) (frame, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.asked[id]; open {
		delete(c.asked, id)
		c.queue(frame{id: id, kind: KindCancel})
		return frame{}, false
	}
	return <-a.answer, true // it was put there before the question was removed
}

// queue hands a frame to the writer. The caller holds mu.
func (c *Conn) queue(f frame) {
	if c.err != nil {
		return
	}
	c.out = append(c.out, f)
	c.waiting += int64(len(f.payload)) + frameCost
	if c.idle {
		c.idle = false
		c.wake <- struct{}{} // never blocks: one token, and only for a sleeper
	}
}

// read takes frames until the connection ends.
func (c *Conn) read() {
	pace := &pacedReader{conn: c, begun: c.options.FirstFrame}
	r := bufio.NewReaderSize(pace, 64<<10)
	for {
		pace.begun = pace.begun && pace.first() || r.Buffered() > 0
		pace.timed = false
		if err := c.readFrame(r); err != nil {
			c.fail(c.endReason(err))
			return
		}
		pace.frames++
	}
}

// endReason names the reason why reading or writing ended.
func (c *Conn) endReason(err error) error {
	var slow net.Error
	switch {
	case errors.Is(err, ErrBreach):
		return err
	case errors.As(err, &slow) && slow.Timeout():
		return ErrTimeout
	default:
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
}

func (c *Conn) readFrame(r *bufio.Reader) error {
	head, err := r.Peek(headSize)
	if err != nil {
		if len(head) > 0 {
			return unexpectedEOF(err)
		}
		return err
	}
	length, id, kind := parseHead(head)
	if _, err := r.Discard(headSize); err != nil {
		return err
	}
	switch l := c.limits; {
	case l.questionsIn[kind] > 0:
		if length >= l.questionsIn[kind] && !lenient() {
			return breach("question too large")
		}
		return c.takeQuestion(r, frame{id: id, kind: kind}, length)
	case l.answersIn[kind] > 0:
		if length >= l.answersIn[kind] {
			return breach("answer too large")
		}
		return c.takeAnswer(r, frame{id: id, kind: kind}, length)
	case kind == KindCancel:
		if length != 0 {
			return breach("cancel with payload")
		}
		c.drop(id)
		return nil
	}
	return breach("kind not expected")
}

func readPayload(r *bufio.Reader, length int) ([]byte, error) {
	payload := make([]byte, length)
	_, err := io.ReadFull(r, payload)
	return payload, unexpectedEOF(err)
}

// skip takes a payload that nobody wants.
func skip(r *bufio.Reader, length int) error {
	_, err := r.Discard(length)
	return unexpectedEOF(err)
}

// unexpectedEOF is err for an end in the middle of a frame.
func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *Conn) takeAnswer(r *bufio.Reader, f frame, length int) error {
	c.mu.Lock()
	a, open := c.asked[f.id]
	wrong := open && f.kind != a.expect && f.kind != KindFailed
	if !open {
		c.late++
	}
	c.mu.Unlock()
	if wrong {
		return breach("answer of another kind")
	}
	if !open {
		return skip(r, length)
	}
	payload, err := readPayload(r, length)
	if err != nil {
		return err
	}
	f.payload = payload
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.asked[f.id]; open {
		delete(c.asked, f.id)
		a.answer <- f // never blocks: room for one, and there is one
	} else {
		c.late++
	}
	return nil
}

var busy = must(Marshal(Failed{Text: "busy"}))
var notAllowed = must(Marshal(Failed{Text: "answer not allowed"}))

func (c *Conn) takeQuestion(r *bufio.Reader, f frame, length int) error {
	if c.options.Handler == nil {
		return breach("nobody answers here")
	}
	c.mu.Lock()
	if f.id <= c.lastIn {
		c.mu.Unlock()
		return breach("id used before")
	}
	c.lastIn = f.id
	if len(c.serving) >= c.options.MaxInFlight || c.waiting+int64(length) > c.options.MaxWaiting {
		err := c.reject(f.id)
		c.mu.Unlock()
		if err == nil {
			err = skip(r, length)
		}
		return err
	}
	c.waiting += int64(length)
	c.mu.Unlock()
	payload, err := readPayload(r, length)
	if err != nil {
		return err
	}
	f.payload = payload
	ctx, cancel := context.WithCancel(c.base)
	c.mu.Lock()
	c.serving[f.id] = serving{cancel: cancel}
	c.mu.Unlock()
	c.start(job{ctx, f})
	return nil
}

// A job is one question in work.
type job struct {
	ctx   context.Context
	frame frame
}

// idleWorkers is how many goroutines of one connection wait for the next question. One that has served has a
// stack of the right size already: growing a new one for each question costs more than all else here.
const idleWorkers = 64

// start hands a job to a worker that waits, or to a new one.
func (c *Conn) start(j job) {
	select {
	case c.jobs <- j:
	default:
		go c.work(j)
	}
}

func (c *Conn) work(j job) {
	for {
		c.serve(j.ctx, j.frame)
		j = job{}
		if c.waiters.Add(1) > idleWorkers {
			c.waiters.Add(-1)
			return
		}
		select {
		case j = <-c.jobs:
			c.waiters.Add(-1)
		case <-c.done:
			return
		}
	}
}

// reject answers busy. Who asks on and on without taking even these answers
// is cut off. The caller holds mu.
func (c *Conn) reject(id uint64) error {
	c.busy++
	if len(c.out) > min(unreadAnswers*c.options.MaxInFlight, maxUnread) {
		return breach("asks but does not read")
	}
	c.queue(frame{id: id, kind: KindFailed, payload: busy})
	return nil
}

func (c *Conn) serve(ctx context.Context, f frame) {
	kind, payload := c.options.Handler(ctx, f.kind, f.payload)
	if kind != KindFailed && kind != c.limits.answerTo[f.kind] || len(payload) >= c.limits.answersOut[kind] {
		kind, payload = KindFailed, notAllowed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.serving[f.id]
	delete(c.serving, f.id)
	c.waiting -= int64(len(f.payload))
	if !s.dropped {
		c.queue(frame{f.id, kind, payload, s.cancel})
	}
}

// drop ends the work on a question nobody waits for any more.
func (c *Conn) drop(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.serving[id]; ok {
		s.cancel()
		s.dropped = true
		c.serving[id] = s
	}
}
