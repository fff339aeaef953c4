package core

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/shared/wire"
)

// request is a submit on its way through the steps.
type request struct {
	core         *Core
	visit        *visit
	requester    *requester
	from         string // the address that the host says it came from
	op           string
	where        stamp.Where // as the body says
	organization org.ID      // in which it is looked for who asks, and then the activity's
	version      *activity.Version
	shape        error // what is wrong with type or parameters; told to who may ask

	// What the body says, once it is verified.
	body        stamp.Body
	sub         *activity.Submit
	intent      *activity.Intent
	fingerprint org.Hash
	id          org.ID // of the activity that this body makes or made
}

// submit is the whole life of a request to act, the first function to read.
func (c *Core) submit(ctx context.Context, call *wire.Call, v *visit) (a answer, err error) {
	r := &request{core: c, visit: v, from: call.From.Address, op: call.Op}
	defer v.lookups.End()
	if r.requester, err = v.readStamp(call); err != nil { // who signed these very bytes
		return answer{}, err
	}
	v.timing.end(phaseStamp)
	if err := r.route(); err != nil {
		return answer{}, err
	}
	if r.requester.attested != nil && (r.shape != nil || !r.version.Kind.Attested) {
		return answer{}, errAttested
	}
	if r.requester.proxy && (r.shape != nil || !r.version.Kind.ByProxy) {
		return answer{}, fault.New(fault.PermissionDenied, "the auth proxy's key stamps only what the proxy asks for")
	}
	var old *earlier
	err = v.Step(ctx, r.organization, func(t, above *ledger.Turn) (err error) {
		a, old, err = r.step(t, above)
		return err
	})
	var unknown *stranger
	switch {
	case errors.Is(err, ledger.ErrNoOrganization):
		err = unknownKey(r.organization, r.requester)
	case errors.As(err, &unknown):
		err = r.foreign(ctx, unknown)
	case err == nil && old != nil:
		a, err = r.repeat(ctx, old)
	}
	return a, err
}

// route finds out where to look for who asks: from the body that is verified, or else
// from as much as one tells that is not.
func (r *request) route() (err error) {
	if r.requester.caller != nil {
		return r.open()
	}
	r.where, r.organization, err = r.requester.where()
	r.lookup(r.where.Type)
	return err
}

// open takes the body apart, once it is known who answers for it.
func (r *request) open() (err error) {
	if r.sub != nil {
		return nil
	}
	if r.body, err = r.requester.body(); err != nil {
		return err
	}
	sub, err := activity.ParseSubmit(r.body)
	if err != nil {
		return err
	}
	if r.organization.Zero() {
		r.organization = sub.Organization
		r.lookup(sub.Type)
	} else if id, err := activity.ParseOrganization(r.where.Organization); err != nil || id != sub.Organization || r.where.Type != sub.Type {
		return fault.New(fault.InvalidArgument, "bad request body") // it was looked for elsewhere
	}
	if r.shape == nil && r.version.Kind.Vote && len(r.body.Bytes()) > maxVote {
		r.shape = fault.New(fault.InvalidArgument, "invalid request body: a vote of more than %d bytes", maxVote)
	}
	r.sub, r.fingerprint = sub, sha256.Sum256(r.body.Bytes())
	return nil
}

// step is the step of a submission or vote: authenticated, looked for among what is
// known, decided, done and made durable in one turn. It is run again when it lacks
// something; see ledger.Step.
func (r *request) step(t, above *ledger.Turn) (a answer, old *earlier, err error) {
	tx, law, who, old, err := r.enter(t, above)
	if err != nil || old != nil {
		return a, old, err
	}
	if r.version.Kind.Vote {
		a, err = r.vote(t, above, tx, who)
		return a, nil, err
	}
	s, err := r.begin(t, above, tx, law, who)
	if err == nil {
		err = s.decide()
	}
	if err == nil {
		a, err = s.commit(nil)
	}
	return a, nil, err
}

// enter is what every submission and vote passes: a credential of the organization or,
// for some kinds, its parent's, of which law are the records; a body that is new, in
// time and in shape. A body that is not new is found.
func (r *request) enter(t, above *ledger.Turn) (tx, law *org.Tx, who *caller, old *earlier, err error) {
	tx = org.Begin(t.ID(), t.State, r.core.now())
	if law, who, err = r.authenticate(tx, above); err == nil {
		err = r.open()
	}
	if err != nil {
		return nil, nil, nil, nil, err
	}
	r.id = r.core.serving.activityID(r.organization, r.fingerprint, r.sub.TimestampMs)
	if old, err = r.lookBack(t, tx, who); err != nil {
		return nil, nil, nil, nil, err
	}
	o, err := tx.Organization()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	if o.Deleted && (old == nil || law != tx) {
		return nil, nil, nil, nil, &stranger{o.Parent, true}
	}
	home := t
	if law != tx {
		home = above
	}
	home.Renew()
	if err := checkAllowlist(law, who, r.from); err != nil {
		return nil, nil, nil, nil, err
	}
	if err := r.hold(tx, int64(len(r.body.Bytes()))); err != nil {
		return nil, nil, nil, nil, err
	}
	if old != nil { // a known body has its answer, whatever its age
		return nil, nil, nil, old, nil
	}
	return tx, law, who, nil, r.starts(law, who)
}

// authenticate finds whose credential made the stamp: a user's of the organization; for
// kinds that are asked for in the parent's name, one's of the organization below that knows
// it; for kinds that a parent's users may ask for as well, one's of the parent.
func (r *request) authenticate(tx *org.Tx, above *ledger.Turn) (law *org.Tx, who *caller, err error) {
	who, err = r.requester.credential(tx)
	var unknown *stranger
	if !errors.As(err, &unknown) || unknown.deleted || r.shape != nil {
		return tx, who, err
	}
	if r.version.Kind.ByCredential {
		id, err := r.requester.descend(tx)
		if !id.Zero() {
			r.organization = id
		}
		if err != nil {
			return nil, nil, err
		}
	}
	switch {
	case !r.version.Kind.FromAbove || unknown.parent.Zero():
		return nil, nil, unknown
	case above == nil:
		return nil, nil, activity.ErrNeedsParent
	}
	law = org.Begin(above.ID(), above.State, tx.NowMs)
	who, err = r.requester.authenticate(law)
	return law, who, err
}

// hold makes room for the reply to a body of n bytes, before anything is decided: what
// is done must not be left untold.
func (r *request) hold(tx *org.Tx, n int64) error {
	payer, err := tenant.Of(tx)
	if err != nil {
		return err
	}
	return r.visit.room.raise(payer, 3*n)
}

// starts is what only a body passes that is new: in time, in shape, and not beyond
// what its credential is for. law are the records of the credential's organization.
func (r *request) starts(law *org.Tx, who *caller) error {
	if err := checkTime(law.NowMs, r.sub.TimestampMs); err != nil {
		return err
	}
	if err := r.decode(); err != nil {
		return err
	}
	if who.credential.Type == auth.TypeRecovery && r.version.Kind.Name != "RECOVER_USER" {
		return errRecovery
	}
	if who.passkey == nil || r.requester.counter == 0 {
		return nil
	}
	return r.count(law, who.passkey.ID)
}

// count remembers a passkey's counter. Another request of it may have come in
// between two turns of this one: the counter never goes back.
func (r *request) count(tx *org.Tx, authenticator org.ID) error {
	n, err := tx.Counter(authenticator)
	if err != nil || n >= r.requester.counter {
		return err
	}
	return tx.PutCounter(authenticator, r.requester.counter)
}

// lookup finds the version. What is wrong with type or parameters is told only behind
// authentication.
func (r *request) lookup(kind string) {
	if insecure.Skip(insecure.Path) {
		r.op = activity.OpOf(kind)
	}
	r.version, r.shape = kinds.Live.Lookup(r.op, kind)
}

// decode reads the parameters, once: strangers cannot make the enclave do it.
func (r *request) decode() error {
	if r.shape == nil && r.intent == nil {
		r.intent, r.shape = r.version.Decode(r.sub.Parameters)
	}
	return r.shape
}

// earlier is where an earlier answer to this body may stand.
type earlier struct {
	view *ledger.View
	seq  uint64
	byID bool // below the floor: the host's index is asked
	who  *caller
}

// lookBack tells whether this body may have made an activity before.
func (r *request) lookBack(t *ledger.Turn, tx *org.Tx, who *caller) (*earlier, error) {
	if insecure.Skip(insecure.Repeat) {
		return nil, nil
	}
	if seq, ok := t.Known(r.fingerprint); ok {
		return &earlier{view: t.View(), seq: seq, who: who}, nil
	}
	if r.sub.TimestampMs <= t.FloorMs() {
		return &earlier{view: t.View(), byID: true, who: who}, nil
	}
	return nil, nil
}

// repeat answers a body that has been answered before: a refusal in the same
// words, an activity as it stands now.
func (r *request) repeat(ctx context.Context, f *earlier) (answer, error) {
	var a answer
	var e *org.Entry
	var err error
	if f.byID {
		e, _, err = r.visit.newest(ctx, r.organization, r.id)
	} else if e, err = f.view.Entry(ctx, f.seq); err == nil && !e.Status.Terminal() {
		e, _, err = r.visit.newest(ctx, r.organization, e.Activity) // it has gone on since
	}
	if err != nil {
		return a, err
	}
	if e == nil || e.Fingerprint != r.fingerprint {
		// Nothing starts at or below the floor, so a host that hides an entry
		// gets a refusal and no second activity.
		return a, errTime
	}
	if e.Refused != 0 {
		a.status, a.body = int(e.Refused), e.Failure
		return a, nil
	}
	if err := r.visit.room.raise(r.visit.room.who, 3*entryBytes(e)); err != nil {
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
	return r.visit.render(ctx, r.organization, e, f.who.user)
}

// newest is the entry that shows an activity as it stands: the one that the state
// names while it waits, the one that ended it otherwise, nil if there is none.
func (v *visit) newest(ctx context.Context, id, act org.ID) (*org.Entry, *ledger.View, error) {
	var view *ledger.View
	var p *org.Pending
	err := v.Turn(ctx, id, func(t *ledger.Turn) (err error) {
		view = t.View()
		p, err = org.Begin(t.ID(), t.State, v.core.now()).PendingActivity(act)
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

// maxAge and maxAhead are the liveness window of a stamped body.
const (
	maxAge   = time.Hour
	maxAhead = 5 * time.Minute
)

var errTime = fault.WithCode(fault.InvalidArgument, "INVALID_TIME", "timestampMs outside of the accepted window")

func checkTime(nowMs, stampedMs uint64) error {
	if stampedMs+uint64(maxAge.Milliseconds()) <= nowMs || stampedMs > nowMs+uint64(maxAhead.Milliseconds()) {
		return errTime
	}
	return nil
}
