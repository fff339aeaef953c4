package core

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// maxFactors bounds the credentials with which one user may approve an activity: about all that a user can have
// besides sessions.
const maxFactors = 30

// maxVote bounds the body of a vote, which every later entry of the activity contains.
const maxVote = 2 << 10

// repeat answers a body that was sent before. From another user of the organization, who has not voted, it is an approval while the
// activity waits, as SDKs expect who have each approver send the same request. Otherwise, as for a user who may not vote, it gets the
// earlier answer.
func (s *attempt) repeat(old *priorAnswer) (a callAnswer, _ *priorAnswer, err error) {
	if s.byBody, err = s.approvesByBody(); err != nil || !s.byBody {
		return a, old, err
	}
	a, err = s.voteOn(s.request.fingerprint)
	if fault.Of(err) != nil && s.voteID.Zero() {
		return a, old, nil
	}
	return a, nil, err
}

// approvesByBody reports whether a repeated body is to be taken as a vote. Nothing but its time keeps the host from sending it again, so
// it never replaces an earlier vote, not even one that counts no more.
func (s *attempt) approvesByBody() (bool, error) {
	r, user := s.request, s.caller.user.ID
	if r.formatErr != nil || r.version.Kind.Vote || r.requester.attested != nil || r.requester.proxy || s.authority != s.tx || r.namesParent() {
		return false, nil
	}
	p, err := s.tx.PendingBy(r.fingerprint)
	if err != nil || p == nil || p.Initiator == user || p.VoteOf(user) != nil {
		return false, err
	}
	err = s.checkNewBody()
	if fault.Of(err) != nil {
		return false, nil
	}
	return err == nil, err
}

// vote approves or rejects the activity that the request's intent names.
func (s *attempt) vote() (callAnswer, error) { return s.voteOn(s.request.intent.Target()) }

// voteOn votes on a waiting activity. Its body is in its newest entry, which is fetched from the host, and again if the
// activity has changed meanwhile.
func (s *attempt) voteOn(target org.Hash) (a callAnswer, err error) {
	r := s.request
	p, err := s.tx.PendingBy(target)
	if err != nil {
		return a, err
	}
	if p == nil {
		if seq, ok := s.locked.Seen(target); ok {
			made, err := r.call.entryAt(s.locked, seq)
			if err != nil {
				return a, err
			}
			if !made.Activity.Zero() { // zero: it is a sub-organization's
				return a, fault.New(fault.FailedPrecondition, "activity is over: it can be neither approved nor rejected")
			}
		}
		return a, fault.New(fault.NotFound, "No activity found with fingerprint %s", activity.AppendFingerprint(nil, target))
	}
	last := r.call.voted
	if last == nil || last.Activity != p.Activity || r.call.votedSeq != p.Last {
		view, act, print, seq := s.locked.View(), p.Activity, p.Fingerprint, p.Last
		return a, &org.Retry{Prefetch: func(ctx context.Context) error {
			e, err := view.Entry(ctx, seq)
			if err == nil && (e.Activity != act || e.Fingerprint != print) {
				err = errors.New("the state names an entry of another activity")
			}
			r.call.voted, r.call.votedSeq = e, seq
			return err
		}}
	}
	if err := s.reserveReply(int64(last.Size()), nil); err != nil {
		return a, err
	}
	if err := s.resumeActivity(p, last); err != nil {
		return a, err
	}
	if err := s.reserveReply(int64(last.Size()), s.version); err != nil {
		return a, err
	}
	return s.castVote()
}

// resumeActivity continues a waiting activity, from its newest entry.
func (s *attempt) resumeActivity(p *org.Pending, last *org.Entry) (err error) {
	if s.organization, err = s.tx.Organization(); err != nil {
		return err
	}
	if s.sub, s.version, s.intent, err = kinds.Live.Reread(last); err != nil {
		return err
	}
	e := *last
	e.TimeMs, e.Prior, e.Seq = s.tx.NowMs, last.Seq+1, 0
	e.Evaluations = slices.Clone(last.Evaluations)
	e.Votes = nil
	mine := *p
	mine.Votes = nil
	for i := range last.Votes { // without those of deleted users
		user := last.Votes[i].User
		u, err := s.tx.User(user)
		if err != nil {
			return err
		}
		cast := p.VoteOf(user)
		if u == nil {
			continue
		}
		if cast == nil || !activity.IsVoid(u, cast, s.tx.NowMs) {
			e.Votes = append(e.Votes, last.Votes[i])
		}
	}
	for _, v := range p.Votes {
		u, err := s.tx.User(v.User)
		if err != nil {
			return err
		}
		if u == nil {
			continue
		}
		if activity.IsVoid(u, &v, s.tx.NowMs) {
			v.CreatedMs = 0 // for good: the entry no longer has this vote
		}
		mine.Votes = append(mine.Votes, v)
	}
	e.Other, e.OtherSeq, e.LowWatermarkMs, e.Writes, e.Sends = org.ID{}, 0, 0, nil, nil
	s.entry, s.pending, s.previous = &e, &mine, last
	return s.loadChainState()
}

// castVote records the vote and decides the activity again.
func (s *attempt) castVote() (a callAnswer, err error) {
	if err := s.buildPolicyRequest(); err != nil {
		return a, err
	}
	s.policySteps *= 2 // the policies are evaluated twice: whether the vote counts, and the decision
	if _, err := activity.CountVotes(s.tx, s.pending, &s.policyRequest, s.request.core.policySteps(), &s.policySteps); err != nil {
		return a, err
	}
	if !s.policyRequest.InScope(&s.policySteps) {
		return a, denialOf(nil)
	}
	s.policyRequest.Scope = nil // it holds: the policies need not check it again
	user, no := s.caller.user.ID, s.request.version.Kind.Rejects()
	mine := s.pending.VoteOf(user)
	if mine == nil || user != s.pending.Initiator {
		ok, err := policy.MayVote(s.policyState(), s.policyRequest, user)
		if err == nil && !ok {
			err = denialOf(nil)
		}
		if err != nil {
			return a, err
		}
	}
	if !no {
		if err := s.checkDecoded(); err != nil {
			return a, err
		}
	}
	if mine != nil && (mine.Rejected || !s.changesVote(mine)) {
		return s.answerUnchangedVote(mine)
	}
	if s.pending.Status == org.StatusAuthenticatorsNeeded && user != s.pending.Initiator && !no {
		return a, fault.New(fault.FailedPrecondition, "activity waits for its initiator's authenticators: it can be approved once he has proven them")
	}
	if mine != nil && !no && activity.IsApproval(s.pending, s.caller.user, mine, s.tx.NowMs) && len(mine.Credentials) >= maxFactors {
		return a, fault.New(fault.ResourceExhausted, "user has approved with %d credentials: more do not count", maxFactors)
	}
	if err := s.recordVote(mine); err != nil {
		return a, err
	}
	decide := s.decide
	if no {
		decide = s.reject
	}
	if err := decide(); err != nil {
		return a, err
	}
	return s.commit()
}

// checkDecoded refuses an approval of something else than its voter was shown: an interface, a name or what the activity
// changes may have changed since. For the same reason earlier approvals that name another view do not count any more, nor do
// those that name none where the organization demands it. The initiator's is of his own request.
func (s *attempt) checkDecoded() error {
	want := s.request.intent.DecodedDigest()
	_, required := s.organization.Features[org.FeatureDecodedVotes]
	if want == nil && required {
		return fault.WithCode(fault.FailedPrecondition, "DECODED_DIGEST_REQUIRED",
			"the organization's approvals must name what the approver was shown: send the decodedDigest of get_activity with approve_activity")
	}
	earlier := func(v org.PendingVote) bool { return v.User != s.pending.Initiator && !v.Rejected && v.CreatedMs > 0 }
	if want == nil && !slices.ContainsFunc(s.pending.Votes, func(v org.PendingVote) bool { return earlier(v) && v.Decoded != nil }) {
		return nil // nobody asks
	}
	if kept := s.request.core.recordedVotes; kept != nil {
		s.voidVotes(func(v org.PendingVote) bool { return earlier(v) && !kept(v.User) })
		return nil
	}
	d, err := s.decode()
	if err != nil {
		return err
	}
	got := d.Digest()
	if want != nil && !bytes.Equal(got[:], want) {
		return fault.WithCode(fault.FailedPrecondition, "DECODED_DIGEST_DIFFERS",
			"the activity is not shown as decodedDigest says: a name or an interface may have changed; get the activity and look at it again")
	}
	s.voidVotes(func(v org.PendingVote) bool {
		return earlier(v) && (required || v.Decoded != nil) && !bytes.Equal(v.Decoded, got[:])
	})
	return nil
}

// voidVotes makes votes that neither count nor are shown any more.
func (s *attempt) voidVotes(isVoid func(org.PendingVote) bool) {
	for i := range s.pending.Votes {
		if v := &s.pending.Votes[i]; isVoid(*v) {
			v.CreatedMs = 0
			s.entry.Votes = slices.DeleteFunc(s.entry.Votes, func(e org.Vote) bool { return e.User == v.User })
		}
	}
}

// changesVote reports whether the vote differs from the user's earlier one: a rejection after an approval, an
// approval after one that counts no more, or one with another credential.
func (s *attempt) changesVote(before *org.PendingVote) bool {
	return s.request.version.Kind.Rejects() || !activity.IsApproval(s.pending, s.caller.user, before, s.tx.NowMs) ||
		!slices.ContainsFunc(before.Credentials, func(c org.VoteCredential) bool { return c.ID == s.caller.credential.ID })
}

// answerUnchangedVote answers a vote that changes nothing with the activity's present state. Only a second
// rejection by the same user evaluates again whether the activity can still pass: policies and users may have
// been deleted since.
func (s *attempt) answerUnchangedVote(mine *org.PendingVote) (a callAnswer, err error) {
	if mine.Rejected && s.request.version.Kind.Rejects() {
		can, err := s.canPass()
		if err != nil {
			return a, err
		}
		if !can {
			if v := s.voteIn(mine.User); v != nil {
				s.voteID = v.ID
			}
			if err := s.keepRejection(org.StatusRejected); err != nil {
				return a, err
			}
			return s.commit()
		}
	}
	s.request.call.noteEntry(s.locked, s.request.call.votedSeq)
	body, err := activityReply(s.previous, s.tx, s.caller.user.ID, s.version, s.intent, &s.policySteps)
	return callAnswer{status: 200, body: body}, err
}

// recordVote adds the vote to those of the activity, which has one for each user.
func (s *attempt) recordVote(before *org.PendingVote) error {
	no, now := s.request.version.Kind.Rejects(), s.tx.NowMs
	message := s.request.body.Bytes()
	if s.byBody {
		message = nil
	}
	b, err := s.newVote(message)
	if err != nil {
		return err
	}
	b.Rejected = no
	s.voteID = b.ID
	v := org.PendingVote{User: b.User, Rejected: no, CreatedMs: now, Credentials: []org.VoteCredential{s.caller.credential}, Decoded: s.request.intent.DecodedDigest()}
	if !no && now >= s.pending.OpenedMs+org.ApprovalWindowMs {
		s.pending.OpenedMs = now // the earlier approvals have lapsed
	}
	old := s.voteIn(b.User)
	if before != nil && !no && activity.IsApproval(s.pending, s.caller.user, before, now) {
		// An approval with another credential of the same user is no second vote.
		before.Credentials = append(slices.Clone(before.Credentials), s.caller.credential)
		if before.Decoded == nil {
			before.Decoded = v.Decoded
		}
		if old != nil {
			s.voteID = old.ID
		}
		return nil
	}
	s.pending.Votes = append(slices.DeleteFunc(s.pending.Votes, func(o org.PendingVote) bool { return o.User == v.User }), v)
	if old != nil {
		*old = b // at the same index: the first is the initiator's
	} else {
		s.entry.Votes = append(s.entry.Votes, b)
	}
	return nil
}

// voteIn returns a user's vote in the entry, or nil.
func (s *attempt) voteIn(user org.ID) *org.Vote {
	i := slices.IndexFunc(s.entry.Votes, func(v org.Vote) bool { return v.User == user })
	if i < 0 {
		return nil
	}
	return &s.entry.Votes[i]
}

// reject ends the activity if its initiator withdraws it or it cannot pass any more. A rejection never starts
// anything.
func (s *attempt) reject() error {
	can := false
	if s.caller.user.ID != s.pending.Initiator {
		var err error
		if can, err = s.canPass(); err != nil {
			return err
		}
	}
	if can {
		return s.keepRejection(s.pending.Status)
	}
	return s.keepRejection(org.StatusRejected)
}

// keepRejection records a rejection and sets the activity's status.
func (s *attempt) keepRejection(status org.Status) error {
	s.records, s.entry.Status = s.tx, status
	return s.keepEvaluation(&policy.Decision{Outcome: policy.Rejected})
}

// canPass reports whether the root quorum or a policy that allows could still be met.
func (s *attempt) canPass() (bool, error) {
	d, _, err := s.evaluatePolicies()
	if err != nil {
		return false, err
	}
	if d.Outcome == policy.Allow || d.Outcome == policy.RequiresConsensus {
		return true, nil
	}
	if can, err := s.canRootQuorumPass(); can || err != nil || d.Outcome != policy.DenyImplicit {
		return can, err
	}
	return s.canOthersPass()
}

// votedActivity returns the present state of the activity that an earlier vote was about, nil if it is not found.
func (r *request) votedActivity(ctx context.Context) (*org.Entry, error) {
	var view *ledger.View
	var seq uint64
	var known bool
	err := r.call.WithLock(ctx, r.organization, func(t *ledger.Locked) error {
		view = t.View()
		seq, known = t.Seen(r.intent.Target())
		p, err := t.Begin(r.core.now()).PendingBy(r.intent.Target())
		if p != nil {
			seq, known = p.Last, true
		}
		return err
	})
	if err != nil || !known {
		return nil, err
	}
	return r.call.newestSince(ctx, r.organization, view, seq)
}
