package core

import (
	"context"
	"errors"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/stamp"
	"cloister/shared/wire"
)

// request is a submit on its way through the steps.
type request struct {
	c       *Core
	caller  *stamp.Caller
	sub     *activity.Submit
	version *activity.Version
	intent  *activity.Intent
	shape   error // what is wrong with type or parameters; told to who may ask
	id      org.ID
	p       *phases
}

// submit is the whole life of an activity, the first function to read.
func (c *Core) submit(ctx context.Context, call *wire.Call, p *phases) (answer, error) {
	r := &request{c: c, p: p}
	var err error
	if r.caller, err = c.verify(call); err != nil { // who signed these very bytes
		return answer{}, err
	}
	p.end(0)
	if r.sub, err = activity.ParseSubmit(r.caller.Body()); err != nil { // what they ask, from the same bytes
		return answer{}, err
	}
	r.read(call.Op)
	fp := r.caller.Fingerprint()
	r.id = c.serve.activityID(r.sub.Organization, fp, r.sub.TimestampMs)

	var a answer
	var old *found
	err = c.serve.ledger.Turn(ctx, r.sub.Organization, func(t *ledger.Turn) error {
		a, old = answer{batch: t.Batch()}, nil
		tx := org.Begin(t.ID(), t.State, c.now())
		who, err := c.authenticate(tx, r.caller)
		if err != nil {
			return err
		}
		t.Renew()
		if old = r.seen(t, who); old != nil { // a known body has its answer, whatever its age
			return nil
		}
		if err := live(tx.NowMs, r.sub.TimestampMs); err != nil {
			return err
		}
		if r.shape != nil {
			return r.shape
		}
		e, children, err := r.decide(t, tx, who)
		if err != nil {
			return err
		}
		a, err = r.commit(t, tx, who, e, children)
		return err
	})
	switch {
	case errors.Is(err, ledger.ErrNoOrganization):
		return a, unknownKey(r.sub.Organization, r.caller)
	case errors.As(err, new(*stranger)):
		return c.foreign(ctx, r, a, err)
	case err == nil && old != nil:
		return r.repeat(ctx, old)
	}
	return a, err
}

// read finds the version and decodes the parameters. What is wrong with them is
// told only behind authentication.
func (r *request) read(op string) {
	if insecure.Skip(insecure.Path) {
		op = activity.OpOf(r.sub.Type)
	}
	if r.version, r.shape = activity.Lookup(op, r.sub.Type); r.shape == nil {
		r.intent, r.shape = r.version.Decode(r.sub.Parameters)
	}
}

// found is where an earlier answer to this body may stand.
type found struct {
	view *ledger.View
	seq  uint64
	byID bool // below the floor: the host's index is asked
	who  *caller
}

// seen tells whether this body may have made an activity before.
func (r *request) seen(t *ledger.Turn, who *caller) *found {
	if insecure.Skip(insecure.Repeat) {
		return nil
	}
	if seq, ok := t.Known(r.caller.Fingerprint()); ok {
		return &found{view: t.View(), seq: seq, who: who}
	}
	if r.sub.TimestampMs <= t.FloorMs() {
		return &found{view: t.View(), byID: true, who: who}
	}
	return nil
}

// repeat answers a body that has been answered before, in the same words.
func (r *request) repeat(ctx context.Context, f *found) (answer, error) {
	a := answer{batch: f.view.Batch()}
	var e *org.Entry
	var err error
	if f.byID {
		e, err = f.view.Activity(ctx, r.id)
	} else {
		e, err = f.view.Entry(ctx, f.seq)
	}
	if err != nil {
		return a, err
	}
	if e == nil || e.Fingerprint != org.Hash(r.caller.Fingerprint()) {
		// Nothing starts at or below the floor, so a host that hides an entry
		// gets a refusal and no second activity.
		return a, errTime
	}
	if e.Refused != 0 {
		a.status, a.body = int(e.Refused), e.Failure
		return a, nil
	}
	return r.c.render(ctx, r.sub.Organization, e, f.who.user)
}

// decide asks the policies and, if they grant it, runs the activity. What comes
// back is the entry as it will stand in the ledger.
func (r *request) decide(t *ledger.Turn, tx *org.Tx, who *caller) (*org.Entry, []ledger.Addition, error) {
	k := r.version.Kind
	rec, err := tx.Organization()
	if err != nil {
		return nil, nil, err
	}
	e := &org.Entry{
		Activity: r.id, Type: r.version.Type, Status: org.StatusFailed, Body: r.caller.Body(), Fingerprint: org.Hash(r.caller.Fingerprint()),
		StampedMs: r.sub.TimestampMs, CreatedMs: tx.NowMs, TimeMs: tx.NowMs,
	}
	vote, err := org.NewID(r.c.cfg.Rand)
	if err != nil {
		return nil, nil, err
	}
	e.Votes = []org.Vote{{ID: vote, User: who.user.ID, UserName: who.user.Name, PublicKey: r.caller.PublicKey(), Signature: r.caller.Signature(),
		Scheme: r.caller.Scheme().String(), CreatedMs: tx.NowMs}}
	root := make([][16]byte, len(rec.RootUsers))
	for i, u := range rec.RootUsers {
		root[i] = u
	}
	d, err := policy.Decide(policy.State{RootUsers: root, Threshold: rec.Threshold},
		policy.Request{Organization: t.ID(), Activity: r.id, Kind: k.Name, Resource: k.Resource, Action: k.Action, Approvals: []policy.Approval{{User: who.user.ID}}})
	if err != nil {
		return nil, nil, err
	}
	e.Outcome = d.Outcome.String()
	r.p.end(1)
	if d.Outcome != policy.Allow {
		r.fail(e, &fault.Error{Code: fault.PermissionDenied, Name: "REQUEST_NOT_AUTHORIZED", Message: "request not authorized", Denied: true})
		return e, nil, nil
	}
	run := &run{r: r, t: t, nowMs: tx.NowMs}
	at := r.c.activityTx(tx, who, r, run, d.Grant)
	result, err := r.version.Run(at, r.intent)
	if f := fault.Of(err); f != nil && f.Code != fault.Unimplemented && f.Code != fault.Unavailable {
		r.fail(e, f) // kept, so that the same body gets the same answer
		return e, nil, nil
	}
	if err != nil {
		return nil, nil, err // nothing happened
	}
	e.Status, e.Result = org.StatusCompleted, result
	children, err := run.entries(e)
	if err != nil {
		return nil, nil, err
	}
	if r.sub.WantsProofs || r.intent.WantsProofs {
		if e.Proofs, err = r.c.prove(t, rec, r, e, at.Claims); err != nil {
			return nil, nil, err
		}
	}
	return e, children, nil
}

// fail makes e a refusal that is kept.
func (r *request) fail(e *org.Entry, f *fault.Error) {
	e.Status, e.Refused = org.StatusFailed, uint16(f.Code.HTTPStatus())
	e.Failure = activity.AppendRefusal(nil, f, r.id, r.caller.Fingerprint().String())
}

// commit makes the decision durable and says what may be told once it is.
func (r *request) commit(t *ledger.Turn, tx *org.Tx, who *caller, e *org.Entry, children []ledger.Addition) (answer, error) {
	if e.Status != org.StatusCompleted {
		tx = nil // a refusal writes nothing
	}
	n, err := t.Append(e, tx, children...)
	if err != nil {
		return answer{batch: t.Batch()}, err
	}
	a := answer{status: 200, batch: n}
	if e.Refused != 0 {
		a.status, a.body = int(e.Refused), e.Failure
	} else {
		a.body = r.c.activityReply(e, t.ID(), org.Begin(t.ID(), t.State, e.TimeMs), who.user.ID, r.version, r.intent)
	}
	r.p.end(2)
	return a, nil
}
