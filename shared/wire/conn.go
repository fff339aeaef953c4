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

// Errors of Ask, and reasons why a connection ended.
var (
	ErrClosed   = errors.New("connection closed")
	ErrBreach   = errors.New("peer broke the protocol")
	ErrTimeout  = errors.New("peer too slow")
	ErrBusy     = errors.New("too many questions in flight")
	ErrTooLarge = errors.New("message too large")
)

// A Handler answers one question. It runs on its own goroutine and owns payload. The answer must have the kind
// that Questions lists for the question, or KindFailed, and must not exceed its size; Conn sends KindFailed in
// place of any other. ctx ends when the asker has cancelled (Conn then drops the answer), when the answer is
// written, or when the connection is closed. Conn doesn't recover from a Handler's panic.
type Handler func(ctx context.Context, kind Kind, payload []byte) (Kind, []byte)

// Options configure a connection: its role, its handler and its limits.
type Options struct {
	Role Role
	Side Side

	// Handler answers the peer's questions; nil makes every question a breach.
	Handler Handler

	// OnBreach, unless nil, is called at most once, when the connection ends because of the peer. The error wraps
	// ErrBreach or ErrTimeout. A lost or closed connection doesn't call it.
	OnBreach func(error)

	MaxInFlight int   // unanswered questions, each way; 0 means the constant MaxInFlight
	MaxWaiting  int64 // bytes of questions in work and of unwritten frames; 0 means the constant MaxWaiting

	// Now is the clock of the time-outs, and must be set if one of them is.
	Now func() time.Time
	// FrameTimeout bounds the time from a frame's first byte to its last; 0 means no bound. Between frames
	// the peer may be silent.
	FrameTimeout time.Duration
	// WriteTimeout bounds how long a write may block, within a quarter of itself; 0 means no bound.
	WriteTimeout time.Duration
	// FirstFrame applies FrameTimeout to the wait for the first frame, too.
	FirstFrame bool
}

// Stats are the counters of one connection.
type Stats struct {
	Asked   int    // unanswered questions to the peer
	Serving int    // unanswered questions of the peer
	Waiting int64  // bytes of questions in work and of unwritten frames
	Late    uint64 // answers to questions that had been given up
	Busy    uint64 // questions of the peer that were refused for lack of capacity
}

// frameCost is what each queued frame adds to Stats.Waiting beside its payload, so that empty frames are bounded too.
const frameCost = 64

// unreadAnswers times MaxInFlight, and at most maxUnread, is how many frames may wait to be written before a peer that asks more
// is disconnected. An honest peer, which cancels questions and asks new ones, doesn't come near.
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

// A Conn carries questions and answers both ways over one net.Conn. Its
// methods are safe for concurrent use.
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
	lastOut uint64 // id of the newest question to the peer
	lastIn  uint64 // id of the newest question of the peer
	out     []frame
	waiting int64
	idle    bool // the writer sleeps
	err     error
	late    uint64
	busy    uint64
}

// NewConn starts a connection over nc, after its hello, and owns nc from then on. Close ends it. NewConn panics
// if Options has a time-out without a clock.
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

// Done returns a channel that is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns the reason why the connection ended, nil while it is open.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stats returns the current counters.
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

// fail ends the connection for a reason. Only the first call has an effect.
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

// Ask sends a question and waits for its answer, which may be KindFailed. When ctx ends, Ask sends KindCancel and
// returns ctx's error. payload belongs to the connection until Ask returns and, if it returns an error, must not
// be changed afterwards.
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

// closedError is the error of a question on a connection that has ended.
func (c *Conn) closedError() error {
	err := c.Err()
	if errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// register gives a question its id and queues it, under one lock: ids must rise on the wire.
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

// unregister gives up a question and cancels it at the peer. If its answer has come meanwhile, it returns that.
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

// read reads frames until the connection ends.
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

// endReason is the reason for fail when reading or writing has ended with err.
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

// skip discards a payload.
func skip(r *bufio.Reader, length int) error {
	_, err := r.Discard(length)
	return unexpectedEOF(err)
}

// unexpectedEOF returns err, or io.ErrUnexpectedEOF for io.EOF: the stream ended within a frame.
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

// idleWorkers is how many goroutines of one connection may wait for the next question. A goroutine that has served
// has a stack of the right size: growing a new stack for each question costs more than the rest of the package.
const idleWorkers = 64

// start gives a job to an idle worker, or to a new one.
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

// reject answers a question with "busy". It fails if the peer asks on and on but
// doesn't read even these answers. The caller holds mu.
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

// drop cancels the work on a question that the peer has given up.
func (c *Conn) drop(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.serving[id]; ok {
		s.cancel()
		s.dropped = true
		c.serving[id] = s
	}
}
