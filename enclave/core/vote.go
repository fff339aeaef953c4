package core

import (
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

// maxFactors bounds with how many credentials one user may approve an activity: as
// many as he can have that are no sessions, about.
const maxFactors = 30

// maxVote bounds the body of a vote, which is kept in every later entry of the
// activity: nothing in it needs more.
const maxVote = 2 << 10

// vote approves or rejects an activity that waits. The activity's body lies in its
// newest entry, which the host has: it is fetched, and again if the activity has gone
// on meanwhile.
func (r *request) vote(t, above *ledger.Turn, tx *org.Tx, who *caller) (answer, error) {
	p, err := r.findPending(t, tx)
	if err != nil {
		return answer{}, err
	}
	last := r.visit.voted
	if last == nil || last.Activity != p.Activity || r.visit.votedSeq != p.Last {
		view, act, print, seq := t.View(), p.Activity, p.Fingerprint, p.Last
		return answer{}, &org.Missing{Fetch: func(ctx context.Context) error {
			e, err := view.Entry(ctx, seq)
			if err == nil && (e.Activity != act || e.Fingerprint != print) {
				err = errors.New("the state names an entry of another activity")
			}
			r.visit.voted, r.visit.votedSeq = e, seq
			return err
		}}
	}
	if err := r.hold(tx, entryBytes(last)); err != nil {
		return answer{}, err
	}
	s, err := r.resume(t, above, tx, who, p, last)
	if err != nil {
		return answer{}, err
	}
	return s.cast()
}

// findPending is the activity that the vote names.
func (r *request) findPending(t *ledger.Turn, tx *org.Tx) (*org.Pending, error) {
	target := r.intent.Target()
	p, err := tx.PendingBy(target)
	if p != nil || err != nil {
		return p, err
	}
	if _, ok := t.Known(target); ok {
		return nil, fault.New(fault.FailedPrecondition, "activity is over: it can be neither approved nor rejected")
	}
	return nil, fault.New(fault.NotFound, "No activity found with fingerprint %s", activity.AppendFingerprint(nil, target))
}

// resume is the step of a vote on an activity that waits, from its newest entry.
func (r *request) resume(t, above *ledger.Turn, tx *org.Tx, who *caller, p *org.Pending, last *org.Entry) (*step, error) {
	rec, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	sub, v, in, err := kinds.Live.Reread(last)
	if err != nil {
		return nil, err
	}
	e := *last
	e.TimeMs, e.Prior, e.Seq = tx.NowMs, last.Seq+1, 0
	e.Evaluations = slices.Clone(last.Evaluations)
	e.Votes = nil
	for _, v := range last.Votes { // those of users who are gone are gone
		u, err := tx.User(v.User)
		if err != nil {
			return nil, err
		}
		if u != nil {
			e.Votes = append(e.Votes, v)
		}
	}
	e.Other, e.OtherSeq, e.FloorMs, e.Writes, e.Sends = org.ID{}, 0, 0, nil, nil
	mine := *p
	mine.Votes = slices.DeleteFunc(slices.Clone(p.Votes), func(v org.PendingVote) bool {
		return !slices.ContainsFunc(e.Votes, func(o org.Vote) bool { return o.User == v.User })
	})
	s := &step{request: r, turn: t, above: above, tx: tx, law: tx, rec: rec, who: who, version: v, intent: in, sub: sub, entry: &e, pending: &mine, last: last}
	return s, s.know()
}

// cast records the vote and what comes of it.
func (s *step) cast() (answer, error) {
	if err := s.pose(); err != nil {
		return answer{}, err
	}
	steps := policy.MaxDecisionSteps
	if _, err := activity.Electorate(s.tx, s.pending, &s.question, &steps); err != nil {
		return answer{}, err
	}
	if !s.question.InScope() {
		return answer{}, denial(&org.Entry{}, nil)
	}
	s.question.Scope = nil // it holds: the policies need not ask again
	mine := s.voteOf(s.who.user.ID)
	if mine == nil || mine.User != s.pending.Initiator {
		if ok, err := s.mayVote(s.who.user.ID); err != nil || !ok {
			if err == nil {
				err = denial(&org.Entry{}, nil)
			}
			return answer{}, err
		}
	}
	if mine != nil && (mine.Rejected || !s.changes(mine)) {
		return s.same(mine)
	}
	if s.pending.Status == org.StatusAuthenticatorsNeeded && s.who.user.ID != s.pending.Initiator && !s.request.version.Kind.Rejects() {
		return answer{}, fault.New(fault.FailedPrecondition, "activity waits for its initiator's authenticators: it can be approved once he has proven them")
	}
	if mine != nil && !s.request.version.Kind.Rejects() && s.pending.Live(mine, s.tx.NowMs) && len(mine.Credentials) >= maxFactors {
		return answer{}, fault.New(fault.ResourceExhausted, "user has approved with %d credentials: more do not count", maxFactors)
	}
	if err := s.record(mine); err != nil {
		return answer{}, err
	}
	if err := s.consider(); err != nil {
		return answer{}, err
	}
	own, err := s.voteEntry()
	if err != nil {
		return answer{}, err
	}
	return s.commit(own)
}

// changes tells whether the vote makes a difference to the one before: a no to a
// yes, a yes that had lapsed, or one with another credential.
func (s *step) changes(before *org.PendingVote) bool {
	return s.request.version.Kind.Rejects() || !s.pending.Live(before, s.tx.NowMs) ||
		!slices.ContainsFunc(before.Credentials, func(c org.VoteCredential) bool { return c.ID == s.who.credential.ID })
}

// same answers a vote that changes nothing: the activity as it stands. Only a
// second no of who has rejected is taken as the wish to look again whether it can
// still pass: policies and users may have gone since.
func (s *step) same(mine *org.PendingVote) (answer, error) {
	if mine.Rejected && s.request.version.Kind.Rejects() {
		can, err := s.canPass()
		if err != nil {
			return answer{}, err
		}
		if !can {
			s.records = s.tx
			if i := slices.IndexFunc(s.entry.Votes, func(v org.Vote) bool { return v.User == mine.User }); i >= 0 {
				s.ballot = s.entry.Votes[i].ID
			}
			if err := s.reject(); err != nil {
				return answer{}, err
			}
			own, err := s.voteEntry()
			if err != nil {
				return answer{}, err
			}
			return s.commit(own)
		}
	}
	body, err := activityReply(s.last, s.turn.ID(), s.tx, s.who.user.ID, s.version, s.intent)
	return answer{status: 200, body: body}, err
}

// record puts the vote among those of the activity: one for each user.
func (s *step) record(before *org.PendingVote) error {
	no, now := s.request.version.Kind.Rejects(), s.tx.NowMs
	b, err := s.request.ballot(s.tx, s.who, s.request.body.Bytes())
	if err != nil {
		return err
	}
	b.Rejected = no
	s.ballot = b.ID
	v := org.PendingVote{User: s.who.user.ID, Rejected: no, CreatedMs: now, Credentials: []org.VoteCredential{s.who.credential}}
	if !no && now >= s.pending.OpenedMs+org.WindowMs {
		s.pending.OpenedMs = now // what was approved before has lapsed
	}
	if before != nil && !no && s.pending.Live(before, now) {
		// Another credential of one who has approved: no second vote.
		v.CreatedMs = before.CreatedMs
		v.Credentials = append(slices.Clone(before.Credentials), s.who.credential)
		s.pending.Votes[slices.IndexFunc(s.pending.Votes, func(v org.PendingVote) bool { return v.User == before.User })] = v
		if i := slices.IndexFunc(s.entry.Votes, func(o org.Vote) bool { return o.User == b.User }); i >= 0 {
			s.ballot = s.entry.Votes[i].ID
		}
		return nil
	}
	s.pending.Votes = append(slices.DeleteFunc(s.pending.Votes, func(o org.PendingVote) bool { return o.User == v.User }), v)
	if i := slices.IndexFunc(s.entry.Votes, func(o org.Vote) bool { return o.User == b.User }); i >= 0 {
		s.entry.Votes[i] = b // in its place: the first is the initiator's
	} else {
		s.entry.Votes = append(s.entry.Votes, b)
	}
	return nil
}

// consider asks again after a vote.
func (s *step) consider() error {
	if !s.request.version.Kind.Rejects() {
		return s.decide()
	}
	s.records = s.tx
	if s.who.user.ID == s.pending.Initiator {
		return s.reject() // he takes it back
	}
	can, err := s.canPass()
	if err != nil {
		return err
	}
	if can {
		return s.keepRejection() // a no never starts anything
	}
	return s.reject()
}

// canPass tells whether the root quorum or a policy that allows could still be met.
func (s *step) canPass() (bool, error) {
	d, _, err := s.ask()
	if err != nil {
		return false, err
	}
	if d.Outcome == policy.Allow || d.Outcome == policy.RequiresConsensus {
		return true, nil
	}
	if can, err := s.rootCan(); can || err != nil || d.Outcome != policy.DenyImplicit {
		return can, err
	}
	return s.othersCan()
}

func (s *step) reject() error {
	s.entry.Status = org.StatusRejected
	return s.keepEvaluation(&policy.Decision{Outcome: policy.Rejected})
}

func (s *step) keepRejection() error {
	s.entry.Status = s.pending.Status
	return s.keepEvaluation(&policy.Decision{Outcome: policy.Rejected})
}

// voteEntry is the record of the vote as an activity of its own.
func (s *step) voteEntry() (*org.Entry, error) {
	r := s.request
	v, err := r.ballot(s.tx, s.who, nil)
	return &org.Entry{
		Activity: r.id, Type: r.version.Type, Status: org.StatusCompleted, Body: r.body.Bytes(), Fingerprint: r.fingerprint, StampedMs: r.sub.TimestampMs,
		CreatedMs: s.tx.NowMs, TimeMs: s.tx.NowMs, Initiator: s.who.user.ID, Votes: []org.Vote{v}, Outcome: policy.Allow.String(),
	}, err
}

// target is the activity that a vote cast earlier was about, as it stands; nil
// when it cannot be found any more.
func (r *request) target(ctx context.Context, f *earlier) (e *org.Entry, err error) {
	var p *org.Pending
	var view *ledger.View
	var seq uint64
	var known bool
	err = r.visit.Turn(ctx, r.organization, func(t *ledger.Turn) (err error) {
		view = t.View()
		seq, known = t.Known(r.intent.Target())
		p, err = org.Begin(t.ID(), t.State, r.core.now()).PendingBy(r.intent.Target())
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case p != nil:
		return view.Entry(ctx, p.Last)
	case !known:
		return nil, nil
	}
	if e, err = view.Entry(ctx, seq); err != nil || e.Status.Terminal() {
		return e, err
	}
	e, _, err = r.visit.newest(ctx, r.organization, e.Activity)
	return e, err
}
