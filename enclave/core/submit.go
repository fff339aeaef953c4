package core

import (
	"context"
	"crypto/sha256"
	"errors"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// request is a submit on its way through the steps.
type request struct {
	c       *Core
	signer  *signer
	from    string // the address that the host says it came from
	sub     *activity.Submit
	version *activity.Version
	intent  *activity.Intent
	shape   error // what is wrong with type or parameters; told to who may ask
	print   org.Hash
	id      org.ID // of the activity that this body makes or made
	p       *phases

	known *activity.ChainKnown // what the activity needs of its chain, once it was asked for
	blind bool                 // it cannot be had, and a rejection goes on without
	asked int                  // how often the host was asked for it
	above *audience            // of the parent, once it was asked for

	asking   asking
	exchange *exchange // that the activity shares in
}

// submit is the whole life of a request to act, the first function to read.
func (c *Core) submit(ctx context.Context, call *wire.Call, p *phases) (answer, error) {
	r := &request{c: c, p: p, from: call.From.Address}
	defer func() { c.serve.providers.leave(r.exchange) }()
	var err error
	if r.signer, err = c.read(call, &p.toll); err != nil { // who signed these very bytes
		return answer{}, err
	}
	p.end(0)
	if r.sub, err = activity.ParseSubmit(r.signer.body); err != nil { // what they ask, from the same bytes
		return answer{}, err
	}
	r.print = sha256.Sum256(r.signer.body)
	r.asking.o = c.serve.providers
	r.read(call.Op)
	if r.signer.attested != nil && (r.shape != nil || !r.version.Kind.Attested) {
		return answer{}, errAttested
	}
	if r.signer.proxy && (r.shape != nil || !r.version.Kind.Proxied()) {
		return answer{}, fault.New(fault.PermissionDenied, "the auth proxy's key stamps only what the proxy asks for")
	}
	r.id = c.serve.activityID(r.sub.Organization, r.print, r.sub.TimestampMs)

	var a answer
	var old *found
	if r.shape == nil && r.version.Kind.Vote {
		a, old, err = r.vote(ctx)
	} else {
		a, old, err = r.act(ctx)
	}
	if errors.As(err, new(*stranger)) && r.shape == nil && r.version.Kind.ByCredential {
		var moved bool
		if moved, err = r.descend(ctx, err); moved {
			a, old, err = r.act(ctx)
		}
	}
	if errors.As(err, new(*stranger)) && r.shape == nil && r.version.Kind.FromAbove {
		a, old, err = r.actFromAbove(ctx, err)
	}
	switch {
	case errors.Is(err, ledger.ErrNoOrganization):
		err = unknownKey(r.sub.Organization, r.signer)
	case errors.As(err, new(*stranger)):
		a, err = c.foreign(ctx, r, a, err)
	case err == nil && old != nil:
		a, err = r.repeat(ctx, old)
	}
	a.batch = max(a.batch, r.signer.batch)
	return a, err
}

// act is a submission: authenticated, looked for among what is known, decided,
// done and made durable in one turn.
func (r *request) act(ctx context.Context) (a answer, old *found, err error) {
	err = r.turn(ctx, func(t, above *ledger.Turn) error {
		a, old = answer{batch: seen(t, above)}, nil
		tx, who, f, err := r.enter(t)
		if err != nil || f != nil {
			old = f
			return err
		}
		a, err = r.take(t, above, tx, tx, who, a.batch)
		return err
	})
	return a, old, err
}

// take is the step of a submission by a user of law: decided, done and made durable.
// batch is the last one seen before.
func (r *request) take(t, above *ledger.Turn, tx, law *org.Tx, who *caller, batch uint64) (a answer, err error) {
	a.batch = batch
	s, err := r.begin(t, above, tx, law, who)
	if err == nil {
		err = s.decide()
	}
	if err != nil {
		return a, err
	}
	a, err = s.commit(nil)
	a.batch = max(a.batch, batch) // also with an error: it tells of what was seen
	return a, err
}

// turn runs f in the organization's turn, again if it turns out that something from
// outside must be known.
func (r *request) turn(ctx context.Context, f func(t, above *ledger.Turn) error) error {
	return until(ctx, func() error { return r.turns(ctx, f) })
}

// turns runs f in the organization's turn, or if it turns out that what happens
// reaches into the parent, in those of both.
func (r *request) turns(ctx context.Context, f func(t, above *ledger.Turn) error) error {
	var parent org.ID
	err := r.c.turn(ctx, r.sub.Organization, r.signer, func(t *ledger.Turn) error {
		err := f(t, nil)
		if errors.Is(err, activity.ErrNeedsParent) {
			o, oerr := org.Begin(t.ID(), t.State, r.c.now()).Organization()
			if oerr != nil {
				return oerr
			}
			parent = o.Parent
		}
		return err
	})
	if errors.Is(err, activity.ErrNeedsParent) {
		err = r.c.pair(ctx, parent, r.sub.Organization, r.signer, f)
	}
	return err
}

// seen is the last batch that a step over these organizations has seen.
func seen(t, above *ledger.Turn) uint64 {
	if above == nil {
		return t.Batch()
	}
	return max(t.Batch(), above.Batch())
}

// enter is what every submission and vote passes: a credential of the
// organization, a body that is new, in time and in shape. A body that is not new
// is found.
func (r *request) enter(t *ledger.Turn) (*org.Tx, *caller, *found, error) {
	tx := org.Begin(t.ID(), t.State, r.c.now())
	who, err := r.c.credential(tx, r.signer)
	if err != nil {
		return nil, nil, nil, err
	}
	f, err := r.seen(t, tx, who)
	if err != nil {
		return nil, nil, nil, err
	}
	o, err := tx.Organization()
	if err != nil {
		return nil, nil, nil, err
	}
	if f == nil && o.Deleted {
		return nil, nil, nil, &stranger{o.Parent, true}
	}
	t.Renew()
	if err := r.c.allowed(tx, who, r.from); err != nil {
		return nil, nil, nil, err
	}
	if err := r.hold(tx, int64(len(r.signer.body))); err != nil {
		return nil, nil, nil, err
	}
	if f != nil { // a known body has its answer, whatever its age
		return tx, who, f, nil
	}
	return tx, who, nil, r.starts(tx, who)
}

// hold makes room for the reply to a body of n bytes, before anything is decided: what
// is done must not be left untold.
func (r *request) hold(tx *org.Tx, n int64) error {
	payer, err := tenant(tx)
	if err != nil {
		return err
	}
	return r.p.room.raise(payer, 3*n)
}

// starts is what only a body passes that is new: in time, in shape, and not beyond
// what its credential is for. law are the records of the credential's organization.
func (r *request) starts(law *org.Tx, who *caller) error {
	if err := live(law.NowMs, r.sub.TimestampMs); err != nil {
		return err
	}
	if err := r.decode(); err != nil {
		return err
	}
	if who.credential.Type == activity.TypeRecovery && r.version.Kind.Name != "RECOVER_USER" {
		return errRecovery
	}
	if who.passkey == nil || r.signer.counter == 0 {
		return nil
	}
	return r.count(law, who.passkey.ID)
}

// count remembers a passkey's counter. Another request of it may have come in
// between two turns of this one: the counter never goes back.
func (r *request) count(tx *org.Tx, authenticator org.ID) error {
	n, err := tx.Counter(authenticator)
	if err != nil || n >= r.signer.counter {
		return err
	}
	return tx.PutCounter(authenticator, r.signer.counter)
}

// read finds the version. What is wrong with type or parameters is told only behind
// authentication.
func (r *request) read(op string) {
	if insecure.Skip(insecure.Path) {
		op = activity.OpOf(r.sub.Type)
	}
	r.version, r.shape = activity.Lookup(op, r.sub.Type)
}

// decode reads the parameters, once: strangers cannot make the enclave do it.
func (r *request) decode() error {
	if r.shape == nil && r.intent == nil {
		r.intent, r.shape = r.version.Decode(r.sub.Parameters)
	}
	return r.shape
}

// found is where an earlier answer to this body may stand.
type found struct {
	view *ledger.View
	seq  uint64
	byID bool // below the floor: the host's index is asked
	who  *caller
}

// seen tells whether this body may have made an activity before.
func (r *request) seen(t *ledger.Turn, tx *org.Tx, who *caller) (*found, error) {
	if insecure.Skip(insecure.Repeat) {
		return nil, nil
	}
	if seq, ok := t.Known(r.print); ok {
		return &found{view: t.View(), seq: seq, who: who}, nil
	}
	if r.sub.TimestampMs <= t.FloorMs() {
		return &found{view: t.View(), byID: true, who: who}, nil
	}
	return nil, nil
}

// repeat answers a body that has been answered before: a refusal in the same
// words, an activity as it stands now.
func (r *request) repeat(ctx context.Context, f *found) (answer, error) {
	a := answer{batch: f.view.Batch()}
	var e *org.Entry
	var err error
	if f.byID {
		e, _, err = r.c.newest(ctx, r.sub.Organization, r.id)
	} else if e, err = f.view.Entry(ctx, f.seq); err == nil && !e.Status.Terminal() {
		e, _, err = r.c.newest(ctx, r.sub.Organization, e.Activity) // it has gone on since
	}
	if err != nil {
		return a, err
	}
	if e == nil || e.Fingerprint != r.print {
		// Nothing starts at or below the floor, so a host that hides an entry
		// gets a refusal and no second activity.
		return a, errTime
	}
	if e.Refused != 0 {
		a.status, a.body = int(e.Refused), e.Failure
		return a, nil
	}
	if err := r.p.room.raise(r.p.room.who, 3*entryBytes(e)); err != nil {
		return a, err
	}
	if r.version != nil && r.version.Kind.Vote && r.decode() == nil {
		if target, err := r.target(ctx, f); target != nil || err != nil {
			e = target
			if err != nil {
				return a, err
			}
		}
	}
	return r.c.render(ctx, r.sub.Organization, e, f.who.user)
}

// newest is the entry that shows an activity as it stands: the one that the state
// names while it waits, the one that ended it otherwise, nil if there is none.
func (c *Core) newest(ctx context.Context, id, act org.ID) (*org.Entry, *ledger.View, error) {
	var view *ledger.View
	var p *org.Pending
	err := c.serve.ranges.Turn(ctx, id, func(t *ledger.Turn) (err error) {
		view = t.View()
		p, err = org.Begin(t.ID(), t.State, c.now()).PendingActivity(act)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	var e *org.Entry
	if p != nil {
		e, err = view.Entry(ctx, p.Last)
	} else {
		e, err = view.Activity(ctx, act)
	}
	return e, view, err
}

// fail makes e a refusal that is kept.
func (r *request) fail(e *org.Entry, f *fault.Error) {
	e.Status, e.Refused = org.StatusFailed, uint16(f.Code.HTTPStatus())
	e.Failure = activity.AppendRefusal(nil, f, e.Activity, string(activity.AppendFingerprint(nil, e.Fingerprint)))
}
