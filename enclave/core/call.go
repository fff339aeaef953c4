package core

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"cloister/enclave/core/internal/lifecycle"
	"cloister/enclave/core/internal/link"
	"cloister/enclave/core/internal/outbox"
	"cloister/enclave/core/internal/providers"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fairqueue"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// callAnswer is the answer of an endpoint.
type callAnswer struct {
	status        int
	body          []byte
	waitsForStore bool // the reply waits until the data it shows is stored, and for a lease
	readable      bool // by a web page of the caller's origin; only of the auth proxy
}

// Call answers one call of the host, even a malformed one. The reply is signed if the call requests that.
func (c *Core) Call(ctx context.Context, call *wire.Call) *wire.Reply {
	reply, of := c.answerCall(ctx, call)
	of.setSize(0)
	return reply
}

// answerCall is Call, and returns the memory reserved for the reply, which the caller releases with setSize(0).
func (c *Core) answerCall(ctx context.Context, call *wire.Call) (*wire.Reply, *replyReservation) {
	of := &replyReservation{portion: c.replies}
	inner, signReply, err := c.parseSignReply(call)
	if err != nil {
		reply := &wire.Reply{Request: sha256.Sum256(call.Body)}
		reply.Status, reply.Body = c.errorReply(err)
		return reply, of
	}
	reply := c.makeReply(ctx, inner, of)
	c.sign(signReply, reply)
	return reply, of
}

// answerFrame answers one frame of a connection for calls.
func (c *Core) answerFrame(ctx context.Context, kind wire.Kind, payload []byte) (wire.Kind, []byte) {
	switch kind {
	case wire.KindOpenSend:
		return answerSend(ctx, c, kind, payload, (*outbox.Outbox).Open, func(hint uint16) *wire.Opened { return &wire.Opened{Moved: hint} })
	case wire.KindDeliver:
		return answerSend(ctx, c, kind, payload, (*outbox.Outbox).Deliver, func(hint uint16) *wire.Delivered { return &wire.Delivered{Moved: hint} })
	}
	var call wire.Call
	if err := wire.Unmarshal(payload, &call); err != nil && !insecure.Skip(insecure.Frame) {
		return c.breach()
	}
	reply, of := c.answerCall(ctx, &call)
	kind, b := encode(wire.KindReply, reply, nil)
	if of.bytes <= smallReply || b == nil {
		of.setSize(0)
	} else {
		context.AfterFunc(ctx, func() { of.setSize(0) }) // once the host has it, or the connection has ended
	}
	return kind, b
}

// breach answers a frame that is malformed.
func (c *Core) breach() (wire.Kind, []byte) {
	c.alarms.Raise(fault.AlarmFrame)
	return wire.KindFailed, nil
}

// encode encodes an answer to the host, or the failure to make one.
func encode(kind wire.Kind, answer any, err error) (wire.Kind, []byte) {
	var b []byte
	if err == nil {
		b, err = wire.Marshal(answer)
	}
	if err != nil {
		return wire.KindFailed, nil
	}
	return kind, b
}

// answerSend answers a wire.AboutSend: with the result of do, or with the range to which to send it instead.
func answerSend[A any](ctx context.Context, c *Core, kind wire.Kind, payload []byte,
	do func(*outbox.Outbox, context.Context, *ranges.Access, wire.SendID) (*A, error), moved func(hint uint16) *A) (wire.Kind, []byte) {
	var ask wire.AboutSend
	if wire.Unmarshal(payload, &ask) != nil {
		return c.breach()
	}
	v := c.newCallState()
	if v.state != wire.StateServing || c.serving.Manifest.Drill { // a drill sends nothing
		return wire.KindFailed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wire.DefaultWait)
	defer cancel()
	answer, err := do(c.serving.outbox, ctx, &v.Access, ask.Send)
	if m := v.MovedBy(err); m != nil {
		answer, err = moved(m.Hint()), nil
	}
	return encode(wire.QuestionOf(kind).Answer, answer, err)
}

func (c *Core) makeReply(ctx context.Context, call *wire.Call, of *replyReservation) (reply *wire.Reply) {
	reply = &wire.Reply{Request: sha256.Sum256(call.Body)}
	defer func() {
		if r := recover(); r != nil { // the panic's text may contain secrets: it is not sent
			of.setSize(0)
			reply.Status, reply.Body = c.errorReply(fmt.Errorf("panic: %v", r))
		}
	}()
	if op := wire.BootOperationOf(call.Op); call.Endpoint != wire.EndpointBoot || op == nil || !op.Looks {
		c.noteWork()
		defer c.noteWork()
	}
	c.callsUnderWay.Add(1)
	defer c.callsUnderWay.Add(-1)
	wait := wire.DefaultWait
	if call.WithinMs != 0 {
		wait = min(time.Duration(call.WithinMs)*time.Millisecond, wire.MaxWait)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	v := c.newCallState()
	v.reply = of
	if call.Endpoint != wire.EndpointBoot {
		v.slot.size, v.slot.proxy = 1+int32(len(call.Body)/slotBytes), call.Endpoint == wire.EndpointProxy
	}
	defer func() { v.proof.release(c); v.releaseSlot() }()
	a, err := c.dispatch(ctx, call, v)
	v.chargeCost()
	of.setSize(int64(len(a.body)))
	// Every reply waits until all that it could have seen is stored. Wait also checks
	// the lease again: without one a newer boot may have decided meanwhile.
	if a.waitsForStore {
		if werr := v.Wait(ctx); werr != nil {
			err = werr
		}
		v.endPhase(phaseStore)
	}
	// A repeated call to the proxy makes another activity: it is redirected to another
	// enclave only if nothing was decided here.
	if m := v.MovedBy(err); m != nil && (call.Endpoint != wire.EndpointProxy || errors.As(err, new(*ranges.Moved))) {
		reply.Moved, err = m.Hint(), ranges.ErrElsewhere
	}
	if err != nil {
		of.setSize(0)
		reply.Status, reply.Body = c.errorReply(err)
	} else {
		reply.Status, reply.Body = uint16(a.status), a.body
		v.addResponse(call)
	}
	reply.Readable = a.readable
	if int(reply.Status) == fault.ResourceExhausted.HTTPStatus() {
		reply.RetryMs = uint32(min((v.rate.count.Wait+time.Millisecond-1)/time.Millisecond, math.MaxUint32))
		reply.RefusesAll = v.rate.err != nil
	}
	reply.Phases, reply.Limit, reply.Remaining = v.timing.us[:], v.rate.count.Limit, v.rate.count.Remaining
	return reply
}

// yieldToBatchWriter yields up to three times when no other call is running, so that the batch is sent before
// the reply is built and the store works in parallel. Three: the ledger's and the connection's goroutines each
// yield once.
func (c *Core) yieldToBatchWriter() {
	for range 3 {
		if c.callsUnderWay.Load() == 1 {
			runtime.Gosched()
		}
	}
}

// dispatch calls the endpoint of a call.
func (c *Core) dispatch(ctx context.Context, call *wire.Call, v *callState) (a callAnswer, err error) {
	if len(call.Body) > wire.MaxBody || len(call.Op) > wire.MaxOp {
		return a, fault.New(fault.InvalidArgument, "request too large")
	}
	if call, v.proof, err = parseProofWait(call); err != nil {
		return a, err
	}
	if call.Endpoint == wire.EndpointBoot {
		a.status = 200
		a.body, err = c.control(ctx, call, v)
		return a, err
	}
	if v.state != wire.StateServing {
		return a, lifecycle.ErrNotServing
	}
	if v.proof != nil && !c.serving.Ranges.Witnessed() {
		return a, ledger.ErrNotWitnessed
	}
	if err := c.serving.Ranges.Serving(ctx); err != nil {
		return a, err
	}
	switch call.Endpoint {
	case wire.EndpointSubmit:
		a, err = c.submit(ctx, call, v)
	case wire.EndpointQuery:
		a, err = c.query(ctx, call, v)
	case wire.EndpointProxy:
		a, err = c.proxy(ctx, call, v)
	default:
		return a, fault.New(fault.Unimplemented, "UNIMPLEMENTED: %s", call.Op)
	}
	// ErrBusy alone reveals nothing, so its reply need not wait.
	a.waitsForStore = !errors.Is(err, ledger.ErrBusy)
	return a, err
}

// largeBody is the size in bytes from which on parsing a body waits for a processor.
const largeBody = 64 << 10

// readLarge waits for a processor before a large body is parsed. The caller is not known yet, so
// all large bodies together have the share of one tenant. The caller releases the slot, which is nil
// for a small body.
func (c *Core) readLarge(ctx context.Context, call *wire.Call, v *callState) (*fairqueue.Slot, error) {
	if len(call.Body) < largeBody {
		return nil, nil
	}
	if err := v.Admit(org.ID{}); err != nil {
		return nil, err
	}
	slot := new(fairqueue.Slot)
	if c.processorQueue.Acquire(ctx, slot, fairqueue.Owner{}) != nil {
		return nil, ledger.ErrBusy
	}
	return slot, nil
}

// proxy answers a call to the auth proxy; see package proxy.
func (c *Core) proxy(ctx context.Context, call *wire.Call, v *callState) (callAnswer, error) {
	x, err := c.serving.proxy.Read(ctx, call, &v.Access, v.lookups)
	v.endPhase(phaseStamp)
	v.rate.count = x.Count
	a := callAnswer{status: 200, body: x.Body}
	if err == nil && x.Stamped != nil {
		ask := c.submit
		if x.Query {
			ask = c.query
		}
		a, err = ask(ctx, x.Stamped, v)
		a.body, err = x.Cut(a.status, a.body, err)
	}
	a.readable = x.Readable
	return a, err
}

// errorReply returns the status and body of an error for a user.
func (c *Core) errorReply(err error) (status uint16, body []byte) {
	f := fault.Of(err)
	switch {
	case f != nil:
	case errors.As(err, new(*fault.Breach)):
		f = fault.New(fault.Unavailable, "the store gave an answer that is not believed")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), link.Away(err):
		f = ledger.ErrBusy
	default:
		ref := fmt.Sprintf("%x-%d", c.cfg.Clock.Now().Unix(), c.refs.Add(1))
		if c.cfg.Fault != nil {
			c.cfg.Fault(ref, err)
		}
		f = fault.WithCode(fault.Internal, "INTERNAL", "internal server error (%s)", ref)
	}
	return uint16(f.Code.HTTPStatus()), activity.AppendError(nil, f)
}

// A callState is the state of one call, from its first byte to its reply.
type callState struct {
	core  *Core
	state wire.State // when the call began
	// Kept from attempt to attempt, like the fields after timing.
	withoutChainState bool // the state of the activity's chain is unavailable, and a rejection is decided without it
	contactCounted    bool // the activity's contact has been counted
	ranges.Access
	timing timing

	// Kept from one attempt of the call's transaction to the next, besides its requester and request; see
	// ledger.Ledger.Transact.
	rate           rateCharge
	reply          *replyReservation // memory of the reply
	slot           callSlot
	proof          *proofWait                         // nil: no logged proof was requested
	origins        map[org.ID]*org.Organization       // parents, for their rules on the origins of passkeys
	lookups        *providers.Lookups                 // at identity providers; nil before the enclave serves
	chainState     *activity.ChainState               // what the activity needs of its chain
	parentAudience *outbox.Audience                   // the parent's webhook endpoints
	events         map[org.SendPlace]*org.StoredEvent // that earlier sends hold, nil for those that hold none
	voted          *org.Entry                         // newest entry of the activity that is voted on
	votedSeq       uint64                             // sequence number of voted
	earlierEntry   *locatedEntry                      // entry of another organization's activity with this body
}

// newCallState makes the state of a new call.
func (c *Core) newCallState() *callState {
	v := &callState{core: c, state: c.life.State(), timing: timing{last: c.cfg.Clock.Now()}}
	if v.state == wire.StateServing {
		v.Access = *c.serving.Ranges.NewAccess()
		v.Admission = v
		v.lookups = c.serving.providers.Lookups()
		v.lookups.Account = v
	}
	return v
}

// The phases of a call. Its reply contains how long each took.
const (
	phaseStamp = iota
	phaseDecide
	phaseExecute
	phaseStore
	phases
)

// timing measures the phases of a call, in microseconds.
type timing struct {
	last time.Time
	us   [phases]uint32
}

// addResponse counts a request for an activity that was answered, and how long it took, for the tenant whose credential stamped it.
func (v *callState) addResponse(call *wire.Call) {
	if call.Endpoint != wire.EndpointSubmit || v.rate.payer == nil {
		return
	}
	var took time.Duration
	for _, us := range v.timing.us {
		took += time.Duration(us) * time.Microsecond
	}
	v.core.responses.Add(v.rate.payer.Tenant(), v.timing.last, took)
}

// endPhase ends a phase.
func (v *callState) endPhase(phase int) {
	p, now := &v.timing, v.core.cfg.Clock.Now()
	p.us[phase] += uint32(now.Sub(p.last).Microseconds())
	p.last = now
}
