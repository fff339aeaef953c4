package core

import (
	"context"
	"slices"
	"time"

	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// step is one step of one activity: its submission, or a vote on it.
type step struct {
	request     *request
	turn, above *ledger.Turn
	tx          *org.Tx
	law         *org.Tx           // whose users ask and vote, and whose policies decide: tx, or the parent's
	rec         *org.Organization // of law
	who         *caller           // whose turn it is

	version *activity.Version
	intent  *activity.Intent
	sub     *activity.Submit // the activity's own
	entry   *org.Entry       // as it will stand
	pending *org.Pending     // votes that count; a copy
	last    *org.Entry       // of the step before; nil for a submission, else the state holds a Pending
	ballot  org.ID           // of the vote that this step casts

	question policy.Request
	records  *org.Tx // what the step writes, nil for nothing
	parent   *org.Tx // and in the parent
	children []ledger.Addition
	heard    []org.ID // who in the parent hears of it
}

// errAtOnce refuses what a parent's user asks for in a sub-organization and what is
// not allowed at once: the sub-organization's activities are its own users' to vote
// on.
var errAtOnce = fault.New(fault.FailedPrecondition,
	"the parent organization's policies ask for more than one approval or factor: what its users start in a sub-organization must be allowed at once")

// begin is the step that submits an activity, by a user of law.
func (r *request) begin(t, above *ledger.Turn, tx, law *org.Tx, who *caller) (*step, error) {
	rec, err := law.Organization()
	if err != nil {
		return nil, err
	}
	s := &step{request: r, turn: t, above: above, tx: tx, law: law, rec: rec, who: who, version: r.version, intent: r.intent, sub: r.sub,
		entry: &org.Entry{
			Activity: r.id, Type: r.version.Type, Status: org.StatusFailed, Body: r.body.Bytes(), Fingerprint: r.fingerprint,
			StampedMs: r.sub.TimestampMs, CreatedMs: tx.NowMs, TimeMs: tx.NowMs, Initiator: who.user.ID,
		},
		pending: &org.Pending{Activity: r.id, Fingerprint: r.fingerprint, CreatedMs: tx.NowMs, Initiator: who.user.ID, OpenedMs: tx.NowMs},
	}
	s.pending.Votes = []org.PendingVote{{User: who.user.ID, CreatedMs: tx.NowMs, Credentials: []org.VoteCredential{who.credential}}}
	v, err := r.ballot(tx, who, nil)
	if err != nil {
		return nil, err
	}
	s.entry.Votes, s.ballot = []org.Vote{v}, v.ID
	if err := s.know(); err != nil {
		return nil, err
	}
	return s, s.pose()
}

// ballot is the record of the vote that this request casts; message is nil when
// the entry's body is what was signed.
func (r *request) ballot(tx *org.Tx, who *caller, message []byte) (org.Vote, error) {
	id, err := org.NewID(r.core.cfg.Rand)
	return org.Vote{ID: id, User: who.user.ID, UserName: who.user.Name, Message: message, PublicKey: r.requester.caller.PublicKey(),
		Signature: r.requester.caller.Signature(), Scheme: r.requester.caller.Scheme().String(), CreatedMs: tx.NowMs}, err
}

// ask puts the question to the policies, with the votes that count now. If the
// initiator still owes a factor, the decision is the one that would be if he had
// proven it.
func (s *step) ask() (d policy.Decision, lacks *org.MFAPolicy, err error) {
	steps := policy.MaxDecisionSteps
	if lacks, err = activity.Electorate(s.law, s.pending, &s.question, &steps); err != nil {
		return d, nil, err
	}
	q := s.question
	if lacks != nil {
		if v := s.voteOf(s.pending.Initiator); v != nil {
			q.Approvals = append([]policy.Approval{activity.Approval(v)}, q.Approvals...)
		}
	}
	d, err = policy.Decide(activity.PolicyState(s.law, s.rec), q)
	return d, lacks, err
}

// pose makes the question, without votes.
func (s *step) pose() (err error) {
	u := s.who.user
	// The common case by far: one root user is enough and nothing is demanded of him.
	bare := s.last == nil && s.rec.Threshold == 1 && s.rec.Root(u.ID) && len(u.MFAPolicies) == 0 && s.who.credential.Profile.Zero()
	s.question, err = s.version.Question(s.tx, s.intent, s.entry.Activity, s.pending.Initiator, bare)
	if fault.Of(err) != nil && s.request.visit.chain != nil && s.request.version.Kind.Rejects() {
		// What a chain says may be in the way of a transaction, never of its end.
		s.request.visit.chain, s.request.visit.blind = nil, true
		s.intent.Know(nil)
		s.question, err = s.version.Question(s.tx, s.intent, s.entry.Activity, s.pending.Initiator, bare)
	}
	if err != nil {
		return err
	}
	s.question.Scope, err = scope(s.law, s.above, &s.who.credential)
	return err
}

// decide asks the policies and, if they grant it, runs the activity.
func (s *step) decide() error {
	d, lacks, err := s.ask()
	s.request.visit.timing.end(phaseDecide)
	if err != nil {
		return err
	}
	s.records = s.tx
	denied := d.Outcome != policy.Allow && d.Outcome != policy.RequiresConsensus
	if lacks != nil && !denied && s.law == s.tx {
		if err := s.keepEvaluation(&policy.Decision{Outcome: policy.RequiresAuthenticators}); err != nil {
			return err
		}
		return s.wait(org.StatusAuthenticatorsNeeded)
	}
	if err := s.keepEvaluation(&d); err != nil {
		return err
	}
	switch {
	case s.law != s.tx && !denied && (lacks != nil || d.Outcome != policy.Allow):
		s.end(errAtOnce)
		return nil
	case d.Outcome == policy.Allow:
		return s.run(d.Grant)
	}
	switch d.Outcome {
	case policy.RequiresConsensus:
		return s.wait(org.StatusConsensusNeeded)
	case policy.DenyImplicit:
		if s.last != nil && s.last.Status == org.StatusConsensusNeeded { // what was let in waits until somebody ends it
			return s.wait(org.StatusConsensusNeeded)
		}
	}
	s.end(denial(s.entry, &d))
	return nil
}

// rootCan tells whether the root quorum can still be met: by members who have
// approved, or who have not rejected and could stamp.
func (s *step) rootCan() (bool, error) {
	var able uint32
	for _, id := range s.rec.RootUsers {
		if slices.Contains(s.question.Rejections, [16]byte(id)) {
			continue
		}
		u, err := s.tx.User(id)
		if err != nil {
			return false, err
		}
		if u == nil {
			continue
		}
		approved := slices.ContainsFunc(s.question.Approvals, func(a policy.Approval) bool { return a.User == id })
		if approved || activity.CanStamp(u, s.tx.NowMs) {
			able++
		}
	}
	return able >= s.rec.Threshold, nil
}

// othersCan tells whether somebody who has not voted could still carry it by a
// policy, whether or not that counts the initiator.
func (s *step) othersCan() (can bool, err error) {
	steps := activity.VotableSteps
	state := activity.PolicyState(s.tx, s.rec)
	state.Steps = &steps
	eerr := s.tx.EachUser(func(u *org.User) bool {
		voted := slices.ContainsFunc(s.pending.Votes, func(v org.PendingVote) bool { return v.User == u.ID && (v.Rejected || s.pending.Live(&v, s.tx.NowMs)) })
		if !voted && activity.CanStamp(u, s.tx.NowMs) {
			can, err = policy.Counts(state, s.question, u.ID)
		}
		can = can || steps <= 0 // too much to find out: it is left to the root quorum to end it
		return !can && err == nil
	})
	if err == nil {
		err = eerr
	}
	return can, err
}

// keepEvaluation keeps what the policies made of the newest vote.
func (s *step) keepEvaluation(d *policy.Decision) error {
	s.entry.Outcome = d.Outcome.String()
	if d.Outcome == policy.Allow && len(d.Evaluations.Verdicts) == 0 {
		return nil // the root quorum: there is nothing to tell
	}
	id, err := org.NewID(s.request.core.cfg.Rand)
	if err != nil {
		return err
	}
	s.entry.Evaluations = activity.AddEvaluation(s.entry.Evaluations, activity.EvaluationOf(id, s.ballot, s.tx.NowMs, d))
	return nil
}

// denial tells why the policies said no, from the entry's newest evaluation, with
// the names that they have in the decision.
func denial(e *org.Entry, d *policy.Decision) *fault.Error {
	f := &fault.Error{Code: fault.PermissionDenied, Name: "REQUEST_NOT_AUTHORIZED", Message: "request not authorized", Denied: true}
	if n := len(e.Evaluations); n > 0 {
		f.Evaluations = activity.PolicyEvaluations(activity.Outcomes(&e.Evaluations[n-1]))
		for i, one := range d.Evaluations.Each() {
			f.Evaluations[i].Name = one.Name
		}
	}
	return f
}

// end is the end of an activity that fails. A submission is answered by the
// refusal itself, for ever; a vote by the activity.
func (s *step) end(f *fault.Error) {
	s.request.fail(s.entry, f)
	s.records = nil // a refusal writes nothing, but for what run adds
	if s.last != nil {
		s.entry.Refused = 0
	}
}

// wait keeps the activity for later.
func (s *step) wait(status org.Status) error {
	s.entry.Status, s.pending.Status = status, status
	if s.last != nil {
		return nil
	}
	if most := s.request.core.cfg.Quotas.Pending; int(s.rec.Pending) >= most {
		return fault.New(fault.ResourceExhausted, "too many activities wait for approval: %d; approve or reject some", most)
	}
	return nil
}

// run executes what has been granted.
func (s *step) run(g *policy.Grant) (err error) {
	if s.request.visit.lookups.Tenant, err = tenant.Of(s.tx); err != nil {
		return err
	}
	n := &run{request: s.request, turn: s.turn, nowMs: s.tx.NowMs, activity: s.entry.Activity, grant: g}
	at := s.activityTx(n, g)
	result, err := s.version.Run(at, s.intent)
	if f := fault.Of(err); f != nil && f.Code != fault.Unimplemented && f.Code != fault.Unavailable {
		s.end(f) // kept, so that the same body gets the same answer
		if rest := org.Begin(s.tx.ID, s.turn.State, s.tx.NowMs); at.Remains(rest) {
			s.records = rest // what may happen once has happened
		}
		return nil
	}
	if err != nil {
		return err // nothing happened
	}
	s.entry.Status, s.entry.Result, s.entry.Sends = org.StatusCompleted, result, at.Sends
	s.parent = at.Parent
	if s.children, err = n.entries(s.entry, s.seq()); err != nil {
		return err
	}
	if at.WantsProofs {
		s.entry.Proofs, err = s.prove(at.Claims)
	}
	return err
}

// commit makes the decision durable and says what may be told once it is. A vote
// has a record of its own, ahead of the step that it led to.
func (s *step) commit(own *org.Entry) (answer, error) {
	tip := s.seq()
	if err := s.account(tip); err != nil {
		return answer{}, err
	}
	if err := s.index(); err != nil {
		return answer{}, err
	}
	if err := s.announce(own); err != nil {
		return answer{}, err
	}
	others := s.children
	if s.parent != nil && s.parent.Changed() {
		s.entry.Other, s.entry.OtherSeq = s.parent.ID, s.above.Tip().Count
		others = append(others, ledger.Addition{Turn: s.above, Tx: s.parent, Entry: &org.Entry{
			Fingerprint: s.entry.Fingerprint, CreatedMs: s.entry.TimeMs, TimeMs: s.entry.TimeMs, Other: s.turn.ID(), OtherSeq: tip,
		}})
	}
	var err error
	if own != nil {
		others = append([]ledger.Addition{{Entry: s.entry, Tx: s.records}}, others...)
		_, err = s.turn.Append(own, nil, others...)
	} else {
		_, err = s.turn.Append(s.entry, s.records, others...)
	}
	if err != nil {
		return answer{}, err
	}
	s.request.core.serving.outgoing.UpdateAudience(s.turn, s.records)
	if s.above != nil {
		s.request.core.serving.outgoing.UpdateAudience(s.above, s.parent)
	}
	a := answer{status: 200}
	if s.entry.Refused != 0 {
		a.status, a.body = int(s.entry.Refused), s.entry.Failure
	} else {
		// It is decided: what the reply cannot tell of who may vote it leaves out.
		a.body, _ = activityReply(s.entry, s.turn.ID(), org.Begin(s.turn.ID(), s.turn.State, s.entry.TimeMs), s.who.user.ID, s.version, s.intent)
	}
	s.request.visit.timing.end(phaseExecute)
	return a, nil
}

// index says what the host's index must change with the entries.
func (s *step) index() (err error) {
	if s.records != nil {
		if s.entry.Index, err = s.request.core.serving.indexChanges(s.records); err != nil {
			return err
		}
	}
	for i := range s.children {
		if s.children[i].Entry.Index, err = s.request.core.serving.indexChanges(s.children[i].Tx); err != nil {
			return err
		}
	}
	return nil
}

// seq is where the step's entry will stand: that of a vote behind the vote's own.
func (s *step) seq() uint64 {
	if s.last != nil {
		return s.turn.Tip().Count + 1
	}
	return s.turn.Tip().Count
}

// account brings the record of what waits up to date with the step.
func (s *step) account(seq uint64) error {
	ends := s.entry.Status.Terminal()
	if ends && s.last == nil {
		return nil
	}
	if s.records == nil {
		s.records = org.Begin(s.tx.ID, s.turn.State, s.tx.NowMs)
	}
	rec, err := s.records.Organization() // the activity may have changed it
	if err != nil {
		return err
	}
	o := *rec
	switch {
	case ends:
		s.records.DeletePending(s.pending)
		o.Pending--
	default:
		s.pending.Last = seq
		if err := s.records.PutPending(s.pending); err != nil || s.last != nil {
			return err
		}
		o.Pending++
	}
	return s.records.PutOrganization(&o)
}

// mayVote tells whether user's approval or rejection can matter.
func (s *step) mayVote(user org.ID) (bool, error) {
	return policy.MayVote(activity.PolicyState(s.tx, s.rec), s.question, user)
}

// voteOf returns a user's vote so far, or nil.
func (s *step) voteOf(user org.ID) *org.PendingVote {
	i := slices.IndexFunc(s.pending.Votes, func(v org.PendingVote) bool { return v.User == user })
	if i < 0 {
		return nil
	}
	return &s.pending.Votes[i]
}

// maxHeard is how old what the host has said of a chain may be when it is decided
// from; activity counts on it.
const maxHeard = time.Minute

// know hands the step what it needs from outside of the turn, or says what that is:
// who hears of it, and what its intent needs of its chain.
func (s *step) know() error {
	if err := s.hear(); err != nil {
		return err
	}
	need, err := s.version.Need(s.tx, s.intent)
	if need == nil || err != nil || s.request.visit.blind {
		return err
	}
	k := s.request.visit.chain
	if k == nil || s.tx.NowMs > k.HeardMs+uint64(maxHeard.Milliseconds()) {
		return &org.Missing{Fetch: func(ctx context.Context) error { return s.request.learn(ctx, need) }}
	}
	s.intent.Know(k)
	return nil
}

// learn asks for what a step needs. A rejection does not depend on it: nothing is
// signed by it.
func (r *request) learn(ctx context.Context, need *activity.ChainNeed) (err error) {
	r.visit.chain, err = r.core.serving.outside.Chains.Known(ctx, r.organization, need)
	if err != nil && r.version.Kind.Rejects() {
		r.visit.chain, r.visit.blind, err = nil, true, nil
	}
	return err
}

// hear finds who in the parent hears of the step.
func (s *step) hear() error {
	o, err := s.tx.Organization()
	if err != nil || o.Parent.Zero() {
		return err
	}
	if s.above != nil {
		s.heard, err = org.Begin(s.above.ID(), s.above.State, s.tx.NowMs).Subscribers()
		return err
	}
	a := s.request.core.serving.outgoing.Audience(o.Parent)
	if a == nil {
		a = s.request.visit.audience // known a moment ago, and forgotten for others since
	}
	if a == nil || a.Organization != o.Parent {
		return &org.Missing{Fetch: func(ctx context.Context) (err error) {
			s.request.visit.audience, err = s.request.core.serving.outgoing.FindAudience(ctx, s.request.visit.Visit, o.Parent)
			return err
		}}
	}
	s.heard = a.Subscribers
	return nil
}

// announce puts events into the step's entries; own, if there is one, is a vote's.
func (s *step) announce(own *org.Entry) error {
	after := s.records
	if after == nil {
		after = org.Begin(s.tx.ID, s.turn.State, s.tx.NowMs)
	}
	entries := []*org.Entry{s.entry}
	if own != nil {
		entries = append(entries, own)
	}
	return s.request.core.serving.outgoing.Announce(after, s.heard, entries...)
}
