package core

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
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

// request is a call to the submit endpoint, a submission or a vote.
type request struct {
	core         *Core
	call         *callState
	requester    *requester
	from         string // the caller's address, as the host claims it
	op           string
	where        stamp.Where // as in the body
	organization org.ID      // in which the caller is looked up; then the activity's
	version      *activity.Version
	formatErr    error // error of type or parameters; only for authenticated callers

	// Members of the body, once it is verified.
	body        stamp.Body
	sub         *activity.Submit
	intent      *activity.Intent
	fingerprint org.Hash
	id          org.ID // of this body's activity
}

// submit handles a submission or a vote from its stamp to its reply. Start reading here: attempt.go decides,
// vote.go handles votes, run.go executes.
func (c *Core) submit(ctx context.Context, call *wire.Call, v *callState) (a callAnswer, err error) {
	r := &request{core: c, call: v, from: call.From.Address, op: call.Op}
	defer v.lookups.End()
	slot, err := c.readLarge(ctx, call, v)
	if err != nil {
		return callAnswer{}, err
	}
	defer slot.Release()
	if r.requester, err = v.readStamp(call); err != nil { // verifies the signature over these exact bytes
		return callAnswer{}, err
	}
	v.endPhase(phaseStamp)
	if err := r.route(); err != nil {
		return callAnswer{}, err
	}
	v.Computed += slot.Release()
	if r.requester.attested != nil && (r.formatErr != nil || !r.version.Kind.Attested) {
		return callAnswer{}, errAttested
	}
	if r.requester.proxy && (r.formatErr != nil || !r.version.Kind.ByProxy) {
		return callAnswer{}, fault.New(fault.PermissionDenied, "the auth proxy's key stamps only what the proxy asks for")
	}
	var old *priorAnswer
	err = v.Transact(ctx, r.organization, func(t, parent *ledger.Locked) (err error) {
		a, old, err = r.attempt(t, parent)
		return err
	})
	unknown, ok := errors.AsType[*unknownCredential](err)
	switch {
	case errors.Is(err, ledger.ErrNoOrganization):
		err = activity.NoOrganization(r.organization)
	case ok:
		err = r.refuseUnknown(ctx, unknown)
	case err == nil && old != nil:
		a, err = r.answerRepeated(ctx, old)
	}
	if err == nil && v.proof != nil {
		a.body, err = v.appendProof(ctx, a.body)
	}
	return a, err
}

// route finds the organization in which to look up the caller: from the verified body or, where only the
// records can verify it, from the unverified one.
func (r *request) route() (err error) {
	if r.requester.caller != nil {
		return r.parseBody()
	}
	r.where, r.organization, err = r.requester.organizationToSearch()
	r.lookUpVersion(r.where.Type)
	return err
}

// parseBody parses the body, once it is verified.
func (r *request) parseBody() (err error) {
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
		r.lookUpVersion(sub.Type)
	} else if id, err := activity.ParseOrganization(r.where.Organization); err != nil || id != sub.Organization || r.where.Type != sub.Type {
		return fault.New(fault.InvalidArgument, "bad request body") // the caller was looked up in another organization
	}
	if r.formatErr == nil && r.version.Kind.Vote && len(r.body.Bytes()) > maxVote {
		r.formatErr = fault.New(fault.InvalidArgument, "invalid request body: a vote of more than %d bytes", maxVote)
	}
	r.sub, r.fingerprint = sub, sha256.Sum256(r.body.Bytes())
	return nil
}

// attempt runs the transaction of a submission or a vote once: it authenticates the caller, looks for an earlier
// answer, decides, executes and appends, all under the organization's lock. It is run again when data is
// missing; see ledger.Ledger.Transact.
func (r *request) attempt(t, parent *ledger.Locked) (a callAnswer, old *priorAnswer, err error) {
	s := &attempt{request: r, locked: t, parent: parent, tx: t.Begin(r.core.now()), policySteps: r.core.policySteps()}
	if old, err = s.admit(); err != nil {
		return a, nil, err
	}
	if old != nil {
		return s.repeat(old)
	}
	if r.version.Kind.Vote {
		a, err = s.vote()
		return a, nil, err
	}
	if err = s.beginActivity(); err == nil {
		err = s.decide()
	}
	if err == nil {
		a, err = s.commit()
	}
	return a, nil, err
}

// admit checks what every submission and vote must have: a credential of the organization or, for some kinds,
// of its parent, and a body that is new, in time and well formed. For a repeated body it returns
// where its answer is.
func (s *attempt) admit() (old *priorAnswer, err error) {
	r := s.request
	if err = s.authenticate(); err == nil {
		err = r.parseBody()
	}
	if err != nil {
		return nil, err
	}
	r.id = r.core.serving.activityID(r.organization, r.fingerprint, r.sub.TimestampMs)
	if old = s.priorAnswer(); old == nil {
		if err := s.redirectToEarlier(); err != nil {
			return nil, err
		}
	}
	o, err := s.tx.Organization()
	if err != nil {
		return nil, err
	}
	if o.Deleted && (old == nil || s.authority != s.tx) {
		return nil, &unknownCredential{o.Parent, true}
	}
	home := s.locked
	if s.authority != s.tx {
		home = s.parent
	}
	home.Touch()
	if err := checkAllowlist(s.authority, s.caller, r.from); err != nil {
		return nil, err
	}
	if err := s.reserveReply(int64(len(r.body.Bytes())), r.version); err != nil {
		return nil, err
	}
	if old != nil { // a repeated body gets its answer, whatever its age
		return old, nil
	}
	return nil, s.checkNewBody()
}

// authenticate finds the user whose credential made the stamp: one of the organization; for kinds with
// ByCredential one of the sub-organization that has the credential; for kinds with ByParent
// also one of the parent.
func (s *attempt) authenticate() (err error) {
	r := s.request
	s.authority = s.tx
	if s.caller, err = r.requester.credential(s.tx); err == nil {
		return s.bindToken()
	}
	unknown, ok := errors.AsType[*unknownCredential](err)
	if !ok || unknown.deleted || r.formatErr != nil {
		return err
	}
	if r.version.Kind.ByCredential {
		if err := r.requester.redirectToChild(s.tx, &r.organization); err != nil {
			return err
		}
	}
	switch {
	case !r.version.Kind.ByParent || unknown.parent.Zero():
		return unknown
	case s.parent == nil:
		return activity.ErrNeedsParent
	}
	s.authority = s.parent.Begin(s.tx.NowMs)
	s.caller, err = r.requester.authenticate(s.authority)
	return err
}

// reserveReply reserves memory for the reply to a body of n bytes, since a decided request must be answered, and for
// the data that a version of it decodes.
func (s *attempt) reserveReply(n int64, v *activity.Version) error {
	payer, err := tenant.Of(s.tx)
	if err != nil {
		return err
	}
	return s.request.call.reserve(payer, n, decodedBytes(v, n))
}

// checkNewBody checks a body that is not a repetition: recent, well formed, and allowed for its credential.
func (s *attempt) checkNewBody() error {
	r := s.request
	if err := checkTime(s.authority.NowMs, r.sub.TimestampMs); err != nil {
		return err
	}
	if err := r.decode(); err != nil {
		return err
	}
	if r.core.serving.Manifest.Drill && !slices.Contains(drills, r.version.Kind.Name) {
		return errDrill
	}
	if s.caller.credential.Type == auth.TypeRecovery && r.version.Kind.Name != "RECOVER_USER" {
		return errRecovery
	}
	if s.caller.passkey == nil || r.requester.counter == 0 {
		return nil
	}
	// Another request with the passkey may have come between two attempts of this transaction: its counter
	// must not decrease.
	n, err := s.authority.Counter(s.caller.passkey.ID)
	if err != nil || n >= r.requester.counter {
		return err
	}
	return s.authority.PutCounter(s.caller.passkey.ID, r.requester.counter)
}

// lookUpVersion looks up the version of the activity's type.
func (r *request) lookUpVersion(kind string) {
	if insecure.Skip(insecure.Path) {
		r.op = activity.OpOf(kind)
	}
	r.version, r.formatErr = kinds.Live.Lookup(r.op, kind)
}

// decode decodes the parameters, once. Only for authenticated callers.
func (r *request) decode() error {
	if r.formatErr == nil && r.intent == nil {
		r.intent, r.formatErr = r.version.Decode(r.sub.Parameters)
	}
	return r.formatErr
}

// priorAnswer is where an earlier answer to this body may be found.
type priorAnswer struct {
	view      *ledger.View
	seq       uint64
	byID      bool // not above the low watermark: query the host's index
	user      org.ID
	recovered bool // the low watermark is in the future: a recovery has raised it
}

// priorAnswer finds out whether this body may have made an activity before.
func (s *attempt) priorAnswer() *priorAnswer {
	if insecure.Skip(insecure.Repeat) {
		return nil
	}
	if seq, ok := s.locked.Seen(s.request.fingerprint); ok {
		return &priorAnswer{view: s.locked.View(), seq: seq, user: s.caller.user.ID}
	}
	if s.request.sub.TimestampMs <= s.locked.LowWatermarkMs() {
		return &priorAnswer{view: s.locked.View(), byID: true, user: s.caller.user.ID, recovered: s.locked.LowWatermarkMs() > s.tx.NowMs}
	}
	return nil
}

// namesParent reports whether the body names the parent of the organization that it is for.
func (r *request) namesParent() bool { return r.sub.Organization != r.organization }

// redirectToEarlier redirects a body that names the parent to the organization in which it has made an activity
// before. Its credential may belong to another organization since, and one body makes one activity. The parent stores
// the fingerprints of such bodies; it is locked until the transaction ends, so no other request intervenes.
func (s *attempt) redirectToEarlier() error {
	r := s.request
	if !r.namesParent() || insecure.Skip(insecure.Repeat) {
		return nil
	}
	if s.parent == nil {
		return activity.ErrNeedsParent
	}
	seq, ok := s.parent.Seen(r.fingerprint)
	if !ok {
		return s.checkWatermark(s.parent)
	}
	made, err := r.call.entryAt(s.parent, seq)
	if err != nil {
		return err
	}
	if made.Fingerprint != r.fingerprint || !made.Activity.Zero() || made.Other == s.tx.ID {
		return errTime // the parent's own, or too old to look up
	}
	r.organization = made.Other
	return &org.Retry{Redirect: made.Other}
}

// checkWatermark refuses a body at or below an organization's low watermark.
func (s *attempt) checkWatermark(t *ledger.Locked) error {
	switch {
	case s.request.sub.TimestampMs > t.LowWatermarkMs():
		return nil
	case t.LowWatermarkMs() > s.tx.NowMs:
		return errRecovered
	}
	return errTime
}

// entryAt returns an entry of the locked organization. It is fetched without a lock, so the transaction
// is run again.
func (v *callState) entryAt(t *ledger.Locked, seq uint64) (*org.Entry, error) {
	if v.earlierEntry != nil && v.earlierEntry.in == t.ID() && v.earlierEntry.Seq == seq {
		return v.earlierEntry.Entry, nil
	}
	view, id := t.View(), t.ID()
	return nil, &org.Retry{Prefetch: func(ctx context.Context) error {
		e, err := view.Entry(ctx, seq)
		if err == nil {
			v.earlierEntry = &locatedEntry{e, id}
		}
		return err
	}}
}

// A locatedEntry is an entry with its organization.
type locatedEntry struct {
	*org.Entry
	in org.ID
}

// answerRepeated answers a repeated body: with the same refusal, or with the activity's present
// state.
func (r *request) answerRepeated(ctx context.Context, f *priorAnswer) (a callAnswer, err error) {
	var e *org.Entry
	if f.byID {
		e, err = r.call.newestEntry(ctx, r.organization, r.id)
	} else {
		e, err = r.call.newestSince(ctx, r.organization, f.view, f.seq)
	}
	if err != nil {
		return a, err
	}
	if e == nil || e.Fingerprint != r.fingerprint {
		// No activity starts at or below the low watermark, so a host that hides an entry
		// causes a refusal and no second activity.
		if f.recovered {
			return a, errRecovered
		}
		return a, errTime
	}
	if e.Refused != 0 {
		a = callAnswer{status: int(e.Refused), body: e.Failure}
		if r.call.proof == nil {
			return a, nil
		}
		return a, r.call.WithLock(ctx, r.organization, func(t *ledger.Locked) error {
			r.call.noteEntry(t, e.Seq)
			return nil
		})
	}
	if err := r.call.reserve(r.call.reply.tenant, int64(e.Size()), 0); err != nil {
		return a, err
	}
	if r.version != nil && r.version.Kind.Vote && r.decode() == nil {
		target, err := r.votedActivity(ctx)
		if err != nil {
			return a, err
		}
		if target != nil {
			e = target
		}
	}
	// The reply shows users of the newest state, so it waits until that is stored.
	a.status = 200
	err = r.call.WithLock(ctx, r.organization, func(t *ledger.Locked) error {
		r.call.noteEntry(t, e.Seq)
		steps := r.core.policySteps()
		a.body, err = activityReply(e, t.Begin(r.core.now()), f.user, nil, nil, &steps)
		return err
	})
	return a, err
}

// newestEntry returns the entry with an activity's present state: the one named in the records while it waits,
// the one that ended it otherwise, nil if there is none.
func (v *callState) newestEntry(ctx context.Context, id, act org.ID) (*org.Entry, error) {
	var view *ledger.View
	var p *org.Pending
	err := v.WithLock(ctx, id, func(t *ledger.Locked) (err error) {
		view = t.View()
		p, err = t.Begin(v.core.now()).PendingActivity(act)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case p != nil:
		return view.Entry(ctx, p.Last)
	}
	return view.Activity(ctx, act)
}

// newestSince returns the newest entry of the activity whose entry has sequence number seq.
func (v *callState) newestSince(ctx context.Context, id org.ID, view *ledger.View, seq uint64) (*org.Entry, error) {
	e, err := view.Entry(ctx, seq)
	if err != nil || e.Status.Terminal() {
		return e, err
	}
	return v.newestEntry(ctx, id, e.Activity)
}

// maxAge and maxAhead are the liveness window of a stamped body.
const (
	maxAge   = time.Hour
	maxAhead = 5 * time.Minute
)

var errRecovered = fault.WithCode(fault.FailedPrecondition, "RECOVERED_RECENTLY", "the store was recovered without what was written last: nothing stamped before that, or up to five minutes behind, is begun; stamp the request again then")

var errTime = fault.WithCode(fault.InvalidArgument, "INVALID_TIME", "timestampMs outside of the accepted window")

func checkTime(nowMs, stampedMs uint64) error {
	if stampedMs+uint64(maxAge.Milliseconds()) <= nowMs || stampedMs > nowMs+uint64(maxAhead.Milliseconds()) {
		return errTime
	}
	return nil
}
