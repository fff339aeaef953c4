package core

import (
	"context"
	"slices"
	"time"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// attempt is one run of the transaction that decides a submission or a vote. A run that lacks something ends
// without effect, and the next one begins with a new attempt; what a call keeps from run to run is in its
// callState.
type attempt struct {
	request        *request
	locked, parent *ledger.Locked
	tx             *org.Tx
	authority      *org.Tx           // the records whose users submit and vote, and whose policies decide: tx, or the parent's
	organization   *org.Organization // the record of authority's organization
	caller         *caller           // the user of authority who has stamped

	// About the activity, which is the request's own or the one that it votes on.
	version  *activity.Version
	intent   *activity.Intent
	sub      *activity.Submit
	entry    *org.Entry   // as it will be appended
	pending  *org.Pending // votes that count; a copy
	previous *org.Entry   // the entry that a vote is added to; nil for a submission
	voteID   org.ID       // id of the vote that this attempt casts
	byBody   bool         // the vote is the activity's own body, sent by another user

	decoded            *show.Document // what approvers are shown of previous, once it was made
	policySteps        int            // steps left of the request's budget, for all evaluations
	policyRequest      policy.Request
	records            *org.Tx // changes of the organization, nil for none
	parentRecords      *org.Tx // changes of the parent
	children           []ledger.Addition
	webhookSubscribers []org.ID    // the parent's webhook endpoints that receive the activity
	refusal            []byte      // what the caller is answered where the entry says less; nil: the entry's
	mailed             []contactOf // approvers to whom the entry has mails
	usageSends         []org.Send  // use of a plan, for the organization that pays the bill
}

// errAtOnce refuses an activity in a sub-organization by a parent's user that would have to wait: only the
// sub-organization's own users vote there.
var errAtOnce = fault.New(fault.FailedPrecondition,
	"the parent organization's policies ask for more than one approval or factor: what its users start in a sub-organization must be allowed at once")

// beginActivity prepares the activity of the request's body.
func (s *attempt) beginActivity() (err error) {
	r, user, nowMs := s.request, s.caller.user.ID, s.tx.NowMs
	if s.organization, err = s.authority.Organization(); err != nil {
		return err
	}
	s.version, s.intent, s.sub = r.version, r.intent, r.sub
	s.pending = &org.Pending{Activity: r.id, Fingerprint: r.fingerprint, CreatedMs: nowMs, Initiator: user, OpenedMs: nowMs,
		Votes: []org.PendingVote{{User: user, CreatedMs: nowMs, Credentials: []org.VoteCredential{s.caller.credential}}}}
	if s.entry, err = s.ownEntry(); err != nil {
		return err
	}
	s.voteID = s.entry.Votes[0].ID
	if err := s.loadChainState(); err != nil {
		return err
	}
	return s.buildPolicyRequest()
}

// ownEntry makes the entry of the activity of the request's body, with status failed until it is decided.
func (s *attempt) ownEntry() (*org.Entry, error) {
	r, nowMs := s.request, s.tx.NowMs
	v, err := s.newVote(nil)
	return &org.Entry{
		Activity: r.id, Type: r.version.Type, Status: org.StatusFailed, Body: r.body.Bytes(), Fingerprint: r.fingerprint,
		StampedMs: r.sub.TimestampMs, CreatedMs: nowMs, TimeMs: nowMs, Initiator: s.caller.user.ID, Votes: []org.Vote{v},
	}, err
}

// newVote makes the record of the caller's vote. message is the signed text; nil means the entry's body.
func (s *attempt) newVote(message []byte) (org.Vote, error) {
	id, err := org.NewID(s.request.core.cfg.Rand)
	by := s.request.requester.caller
	return org.Vote{ID: id, User: s.caller.user.ID, UserName: s.caller.user.Name, Message: message, PublicKey: by.PublicKey(),
		Signature: by.Signature(), Scheme: by.Scheme().String(), CreatedMs: s.tx.NowMs}, err
}

// evaluatePolicies evaluates the policies with the votes that count now. If the initiator still lacks a factor,
// the decision is the one as if he had proven it, and missingMFA is the MFA policy that requires it.
func (s *attempt) evaluatePolicies() (d policy.Decision, missingMFA *org.MFAPolicy, err error) {
	if missingMFA, err = activity.CountVotes(s.authority, s.pending, &s.policyRequest, s.request.core.policySteps(), &s.policySteps); err != nil {
		return d, nil, err
	}
	q := s.policyRequest
	if missingMFA != nil {
		u, err := s.authority.User(s.pending.Initiator)
		if err != nil {
			return d, nil, err
		}
		if v := s.pending.VoteOf(s.pending.Initiator); v != nil && u != nil {
			q.Approvals = append([]policy.Approval{activity.Approval(u.ID, activity.ActiveCredentials(u, v, s.tx.NowMs))}, q.Approvals...)
		}
	}
	d, err = policy.Decide(s.policyState(), q)
	return d, missingMFA, err
}

// policyState is the state from which policies decide, with the steps left of the request's budget.
func (s *attempt) policyState() policy.State {
	state := activity.PolicyState(s.authority, s.organization)
	state.Budget, state.Steps = s.request.core.policySteps(), &s.policySteps
	return state
}

// policySteps is the budget of a request: the evaluation steps that its policies may take in all.
func (c *Core) policySteps() int { return policy.StepsPerPolicy * c.cfg.Quotas.Policies }

// buildPolicyRequest builds the policy request, without votes.
func (s *attempt) buildPolicyRequest() (err error) {
	u, v := s.caller.user, s.request.call
	// By far the most common case: one root user is enough, and he needs no other factor.
	bare := s.previous == nil && s.organization.Threshold == 1 && s.organization.Root(u.ID) && len(u.MFAPolicies) == 0 && s.caller.credential.Profile.Zero()
	s.policyRequest, err = s.version.PolicyRequest(s.tx, s.intent, s.entry.Activity, s.pending.Initiator, bare)
	if fault.Of(err) != nil && v.chainState != nil && s.request.version.Kind.Rejects() {
		// Chain data is not needed for a rejection. It made the request invalid, so evaluate again without it.
		v.chainState, v.withoutChainState = nil, true
		s.intent.SetChainState(nil)
		s.policyRequest, err = s.version.PolicyRequest(s.tx, s.intent, s.entry.Activity, s.pending.Initiator, bare)
	}
	if err != nil {
		return err
	}
	s.policyRequest.Scope, err = scope(s.authority, s.parent, &s.caller.credential)
	return err
}

// decide evaluates the policies and, if they grant the activity, executes it.
func (s *attempt) decide() error {
	d, missingMFA, err := s.evaluatePolicies()
	s.request.call.endPhase(phaseDecide)
	if err != nil {
		return err
	}
	s.records = s.tx
	denied := d.Outcome != policy.Allow && d.Outcome != policy.RequiresConsensus
	if never := s.version.Never(); never != nil {
		return s.refuseUnrecorded(&d, denied, never)
	}
	if missingMFA != nil && !denied && s.authority == s.tx {
		if err := s.keepEvaluation(&policy.Decision{Outcome: policy.RequiresAuthenticators}); err != nil {
			return err
		}
		return s.keepWaiting(org.StatusAuthenticatorsNeeded)
	}
	if err := s.keepEvaluation(&d); err != nil {
		return err
	}
	switch {
	case s.authority != s.tx && !denied && (missingMFA != nil || d.Outcome != policy.Allow):
		s.failActivity(errAtOnce)
		return nil
	case d.Outcome == policy.Allow:
		return s.execute(d.Grant)
	case d.Outcome == policy.RequiresConsensus,
		d.Outcome == policy.DenyImplicit && s.previous != nil && s.previous.Status == org.StatusConsensusNeeded: // waits until a user ends it
		return s.keepWaiting(org.StatusConsensusNeeded)
	}
	s.deny(&d)
	return nil
}

// refuseUnrecorded refuses a version whose bodies are never stored: with the policies' denial, or with the version's own error.
func (s *attempt) refuseUnrecorded(d *policy.Decision, denied bool, never *fault.Error) error {
	if !denied {
		return never
	}
	if err := s.keepEvaluation(d); err != nil { // in an entry that is not appended
		return err
	}
	return s.denial(d)
}

// canRootQuorumPass reports whether members who approved or may still approve can meet the root quorum.
func (s *attempt) canRootQuorumPass() (bool, error) {
	var able uint32
	for _, id := range s.organization.RootUsers {
		if slices.Contains(s.policyRequest.Rejections, [16]byte(id)) {
			continue
		}
		u, err := s.tx.User(id)
		if err != nil {
			return false, err
		}
		approved := slices.ContainsFunc(s.policyRequest.Approvals, func(a policy.Approval) bool { return a.User == id })
		if u != nil && (approved || activity.CanStamp(u, s.tx.NowMs)) {
			able++
		}
	}
	return able >= s.organization.Threshold, nil
}

// canOthersPass reports whether the policies let a user who has not voted still pass the activity.
func (s *attempt) canOthersPass() (can bool, err error) {
	state := s.policyState()
	eerr := s.tx.EachUser(func(u *org.User) bool {
		v := s.pending.VoteOf(u.ID)
		voted := v != nil && (v.Rejected || activity.IsApproval(s.pending, u, v, s.tx.NowMs))
		if !voted && activity.CanStamp(u, s.tx.NowMs) {
			can, err = policy.Counts(state, s.policyRequest, u.ID)
		}
		can = can || s.policySteps <= 0 // too much to find out: the root quorum may end it
		return !can && err == nil
	})
	if err == nil {
		err = eerr
	}
	return can, err
}

// keepEvaluation adds the evaluation after the newest vote to the entry.
func (s *attempt) keepEvaluation(d *policy.Decision) error {
	s.entry.Outcome = d.Outcome.String()
	if d.Outcome == policy.Allow && len(d.Evaluations.Verdicts) == 0 {
		return nil // the root quorum decided: there are no policy outcomes
	}
	id, err := org.NewID(s.request.core.cfg.Rand)
	if err != nil {
		return err
	}
	s.entry.Evaluations = activity.AddEvaluation(s.entry.Evaluations, activity.EvaluationOf(id, s.voteID, s.tx.NowMs, d))
	return nil
}

// deny ends the activity with the policies' denial. In a sub-organization in which the parent's policies decided, only the
// parent's user is told by which: the entry's readers may not read them.
func (s *attempt) deny(d *policy.Decision) {
	f := s.denial(d)
	s.failActivity(f)
	if s.authority != s.tx && !s.request.core.namePolicies {
		s.refusal = s.entry.Failure
		hidden := *f
		hidden.Evaluations = nil
		s.failActivity(&hidden)
	}
}

// denial is the error with the reasons of the policies' denial, from the entry's newest evaluation and names in d. What the
// auth proxy's callers get of it, package proxy decides.
func (s *attempt) denial(d *policy.Decision) *fault.Error {
	var es []fault.Evaluation
	if n := len(s.entry.Evaluations); n > 0 {
		es = activity.PolicyEvaluations(activity.Outcomes(&s.entry.Evaluations[n-1]))
		each := d.Evaluations.Each()
		for i := range each {
			es[i].Name = each[i].Name
		}
		if !s.request.core.omitExpressions {
			es = nearestFirst(es, each, d.Evaluations.Nearest())
		}
	}
	return denialOf(es)
}

func denialOf(es []fault.Evaluation) *fault.Error {
	return &fault.Error{Code: fault.PermissionDenied, Name: "REQUEST_NOT_AUTHORIZED", Denied: true, Evaluations: es, Message: activity.DenialMessage(es)}
}

// nearestFirst sorts evaluations, and adds to the first ones the expressions that decided. If no such expression is known,
// they stay as they are: a replay recognizes by the expressions whether they are sorted.
func nearestFirst(es []fault.Evaluation, each []policy.Evaluation, order []int) []fault.Evaluation {
	const most = 8 // expressions
	known, sorted := false, make([]fault.Evaluation, len(es))
	for at, i := range order {
		if sorted[at] = es[i]; at < most && es[i].Clause != "" {
			sorted[at].Expression = each[i].Expression
			known = known || each[i].Expression != ""
		}
	}
	if !known {
		return es
	}
	return sorted
}

// failActivity ends an activity as failed. A submission, and its body from now on, is answered with the refusal; a vote
// with the activity.
func (s *attempt) failActivity(f *fault.Error) {
	e := s.entry
	e.Status = org.StatusFailed
	e.Failure = activity.AppendRefusal(nil, f, e.Activity, string(activity.AppendFingerprint(nil, e.Fingerprint)))
	e.Refused = 0
	if s.previous == nil {
		e.Refused = uint16(f.Code.HTTPStatus())
	}
	e.Other, s.records, s.children = org.ID{}, nil, nil // a failed activity changes nothing, but for what execute adds
}

// keepWaiting leaves the activity waiting for other votes or another factor.
func (s *attempt) keepWaiting(status org.Status) error {
	s.entry.Status, s.pending.Status = status, status
	if most := s.request.core.cfg.Quotas.Pending; s.previous == nil && int(s.organization.Pending) >= most {
		return fault.New(fault.ResourceExhausted, "too many activities wait for approval: %d; approve or reject some", most)
	}
	if status == org.StatusConsensusNeeded {
		return s.mailApprovers()
	}
	return nil
}

// commit appends the entries of the decision. A vote has an entry of its own, before that of the activity, unless its body is the
// activity's.
func (s *attempt) commit() (a callAnswer, err error) {
	sender, others := s.request.core.serving.outbox, s.children
	entries := []*org.Entry{s.entry}
	if s.authority != s.tx && !s.request.core.keepReasons {
		// The entry's readers may not read the parent's policies: it has which were asked and their outcomes, not what they say.
		for i := range s.entry.Evaluations {
			s.entry.Evaluations[i].Reasons = nil
		}
	}
	if s.hasVoteEntry() {
		own, err := s.ownEntry()
		if err != nil {
			return a, err
		}
		own.Status, own.Outcome = org.StatusCompleted, policy.Allow.String()
		entries = append(entries, own)
	}
	if err := s.countPending(); err != nil {
		return a, err
	}
	if err := s.indexEntries(); err != nil {
		return a, err
	}
	if err := sender.Announce(s.recordsAfter(), s.webhookSubscribers, entries...); err != nil {
		return a, err
	}
	noted := s.request.namesParent() && !s.request.core.omitParentFingerprint
	if noted || s.parentRecords != nil && s.parentRecords.Changed() {
		s.entry.Other, s.entry.OtherSeq = s.parent.ID(), s.parent.Tip().Count
		parent := s.companionEntry()
		if noted {
			parent.StampedMs = s.entry.StampedMs // the parent records the fingerprint
		}
		if s.entry.Status == org.StatusCompleted {
			parent.Sends = s.usageSends
		}
		others = append(others, ledger.Addition{Locked: s.parent, Tx: s.parentRecords, Entry: parent})
	}
	first, records := s.entry, s.records
	if s.hasVoteEntry() {
		first, records = entries[1], nil
		others = append([]ledger.Addition{{Entry: s.entry, Tx: s.records}}, others...)
	}
	seq := s.seq()
	if _, err := s.locked.Append(first, records, others...); err != nil {
		return a, err
	}
	s.request.call.noteEntry(s.locked, seq)
	s.request.call.chargeSends(s.entry.Sends)
	s.request.call.chargeApprovalMails(s.locked.ID(), s.mailed)
	s.request.core.yieldToBatchWriter()
	sender.UpdateAudience(s.locked, s.records)
	if s.version.Kind.Plans {
		s.request.core.serving.plans.unchoose(s.locked.ID())
	}
	if s.parent != nil {
		sender.UpdateAudience(s.parent, s.parentRecords)
	}
	a.status = 200
	if s.entry.Refused != 0 {
		a.status, a.body = int(s.entry.Refused), s.entry.Failure
		if s.refusal != nil {
			a.body = s.refusal
		}
	} else {
		// It is decided: without data about who may vote, the reply leaves the flags out.
		a.body, _ = activityReply(s.entry, s.locked.Begin(s.entry.TimeMs), s.caller.user.ID, s.version, s.intent, &s.policySteps)
	}
	s.request.call.endPhase(phaseExecute)
	return a, nil
}

// activityReply writes {"activity":…} from an entry of tx's organization, as one of its users sees it. The evaluation of
// who may vote consumes steps. With an error, such as *org.Retry, it leaves out whether
// he may vote.
func activityReply(e *org.Entry, tx *org.Tx, who org.ID, v *activity.Version, in *activity.Intent, steps *int) ([]byte, error) {
	view := activity.ActivityView{Users: func(u org.ID) *org.User {
		rec, err := tx.User(u)
		if err != nil {
			return nil
		}
		return rec
	}}
	if in != nil {
		view.Intent = v.AppendIntent(make([]byte, 0, 512), in)
	}
	o, err := tx.Organization()
	if err == nil {
		err = view.ReadPending(tx, e)
	}
	if err == nil {
		most := min(activity.VotableSteps, *steps)
		left := most
		view.CanApprove, view.CanReject, err = kinds.Live.Votable(tx, o, e, who, &left)
		*steps -= most - left
	}
	// Allocate once: body, intent and proofs are each copied into the reply.
	size := 2048 + 3*len(e.Body) + len(e.Result)
	for i := range e.Proofs {
		size += 576 + 9*len(e.Proofs[i].Payload)/8
	}
	out := append(make([]byte, 0, size), `{"activity":`...)
	return append(kinds.Live.AppendActivity(out, e, tx.ID, view), '}'), err
}

// indexEntries adds to the entries their changes of the host's index.
func (s *attempt) indexEntries() (err error) {
	if s.records != nil {
		if s.entry.Index, err = s.request.core.serving.indexChanges(s.records); err != nil {
			return err
		}
	}
	for _, c := range s.children {
		if c.Entry.Index, err = s.request.core.serving.indexChanges(c.Tx); err != nil {
			return err
		}
	}
	return nil
}

// hasVoteEntry reports whether the request is a vote with an entry of its own.
func (s *attempt) hasVoteEntry() bool { return s.previous != nil && !s.byBody }

// seq is the sequence number of the activity's entry: after a vote's own entry, if there is one.
func (s *attempt) seq() uint64 {
	if s.hasVoteEntry() {
		return s.locked.Tip().Count + 1
	}
	return s.locked.Tip().Count
}

// companionEntry is the entry in the parent that refers to this one.
func (s *attempt) companionEntry() *org.Entry {
	return &org.Entry{Fingerprint: s.entry.Fingerprint, CreatedMs: s.entry.TimeMs, TimeMs: s.entry.TimeMs, Other: s.locked.ID(), OtherSeq: s.seq()}
}

// recordsAfter returns the organization's records after this attempt is committed.
func (s *attempt) recordsAfter() *org.Tx {
	if s.records != nil {
		return s.records
	}
	return s.locked.Begin(s.tx.NowMs)
}

// countPending updates the number of waiting activities, and the record of this one.
func (s *attempt) countPending() error {
	ends := s.entry.Status.Terminal()
	if ends && s.previous == nil {
		return nil
	}
	s.records = s.recordsAfter()
	rec, err := s.records.Organization() // the activity may have changed it
	if err != nil {
		return err
	}
	o := *rec
	if ends {
		s.records.DeletePending(s.pending)
		o.Pending--
	} else {
		s.pending.Last = s.seq()
		if err := s.records.PutPending(s.pending); err != nil || s.previous != nil {
			return err
		}
		o.Pending++
	}
	return s.records.PutOrganization(&o)
}

// maxChainStateAge is the maximal age of a chain state in a decision; package activity relies on it.
const maxChainStateAge = time.Minute

// loadChainState loads data that the decision needs from outside of the lock: the parent's subscribers and the state
// of the intent's chain. It returns an *org.Retry if that must be fetched first.
func (s *attempt) loadChainState() error {
	if err := s.resolveSubscribers(); err != nil {
		return err
	}
	r := s.request
	if p := s.intent.Payer(); p != nil {
		if err := p.LookUpPayer(s.topRecords); err != nil && !(fault.Of(err) != nil && r.version.Kind.Rejects()) {
			return err
		}
	}
	need, err := s.version.ChainQuery(s.tx, s.intent)
	if need == nil || err != nil || r.call.withoutChainState {
		return err
	}
	k := r.call.chainState
	if k == nil || s.tx.NowMs > k.ReadMs+uint64(maxChainStateAge.Milliseconds()) {
		return &org.Retry{Prefetch: func(ctx context.Context) (err error) {
			r.call.chainState, err = r.core.serving.providers.Chains.Known(ctx, r.organization, need)
			if err != nil && r.version.Kind.Rejects() { // a rejection signs nothing: decide it without
				r.call.chainState, r.call.withoutChainState, err = nil, true, nil
			}
			return err
		}}
	}
	s.intent.SetChainState(k)
	return nil
}

// topRecords returns the records of the top-level organization.
func (s *attempt) topRecords() (*org.Tx, error) {
	o, err := s.tx.Organization()
	switch {
	case err != nil || o.Parent.Zero():
		return s.tx, err
	case s.parent == nil:
		return nil, activity.ErrNeedsParent
	}
	return s.parent.Begin(s.tx.NowMs), nil
}

// resolveSubscribers finds the parent's webhook endpoints that receive the activity.
func (s *attempt) resolveSubscribers() error {
	o, err := s.tx.Organization()
	if err != nil || o.Parent.Zero() {
		return err
	}
	if s.parent != nil {
		s.webhookSubscribers, err = s.parent.Begin(s.tx.NowMs).Subscribers()
		return err
	}
	v, sender := s.request.call, s.request.core.serving.outbox
	a := sender.Audience(o.Parent)
	if a == nil {
		a = v.parentAudience // found by an earlier attempt, and evicted since
	}
	if a == nil || a.Organization != o.Parent {
		return &org.Retry{Prefetch: func(ctx context.Context) (err error) {
			v.parentAudience, err = sender.FindAudience(ctx, &v.Access, o.Parent)
			return err
		}}
	}
	s.webhookSubscribers = a.Subscribers
	return nil
}
