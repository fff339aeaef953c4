package query

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/strictjson"
)

var evaluations = []*Query{
	fetchQuery("get_policy_evaluations", fetchActivity, answerEvaluations),
	fetchQuery("get_mfa_status", fetchMFAStatus, answerMFAStatus),
	stateQuery("evaluate_policies", evaluatePolicies),
}

func answerEvaluations(v *View, e *org.Entry) ([]byte, error) {
	var bad error
	dst := array(nil, `{"policyEvaluations":`, e.Evaluations, func(dst []byte, ev org.Evaluation) []byte {
		outcomes, err := outcomesOf(v, &ev)
		if err != nil {
			bad = err
		}
		dst = ident(dst, `{"id":`, ev.ID)
		dst = ident(dst, `,"activityId":`, e.Activity)
		dst = ident(dst, `,"organizationId":`, v.ID)
		dst = ident(dst, `,"voteId":`, ev.Vote)
		dst = append(dst, `,"policyEvaluations":`...)
		if len(outcomes) == 0 && ev.Outcome != "" && ev.Outcome != policy.Allow.String() {
			// No policy was evaluated: only the activity's own outcome is shown.
			dst = text(dst, `[{"outcome":`, ev.Outcome)
			dst = append(dst, `}]`...)
		} else {
			dst = activity.AppendEvaluations(dst, outcomes)
		}
		dst = activity.AppendTime(append(dst, `,"createdAt":`...), ev.TimeMs)
		return append(dst, '}')
	})
	return append(dst, '}'), bad
}

// outcomesOf returns the outcomes of single policies, with the present names of the
// policies. A deleted policy has no name.
func outcomesOf(v *View, e *org.Evaluation) ([]org.PolicyOutcome, error) {
	os := activity.Outcomes(e)
	for i := range os {
		p, err := v.Policy(os[i].Policy)
		if err != nil {
			return nil, err
		}
		if p != nil {
			os[i].Name = p.Name
		}
	}
	return os, nil
}

// Hypothesis is an activity to evaluate without submitting it.
type Hypothesis struct {
	Type       string         `json:"type" rule:"required"`
	Parameters strictjson.Raw `json:"parameters" rule:"required"`
}

type evaluateRequest struct {
	Head
	Activity Hypothesis `json:"activity" rule:"required"`
}

// evaluatePolicies answers the decision that the activity would get if the caller submitted
// it now. Nothing is written, and a grant is discarded.
func evaluatePolicies(v *View, in *evaluateRequest) ([]byte, error) {
	if v.Home != nil {
		return nil, fault.WithCode(fault.InvalidArgument, "ORGANIZATION_MISMATCH",
			"organization mismatch: activities of organization %s are decided for its own users", v.ID)
	}
	if !activity.KnownType(in.Activity.Type) {
		return nil, fault.Field("activity.type", "no activity type of the interface")
	}
	ver, err := kinds.Live.Lookup(activity.OpOf(in.Activity.Type), in.Activity.Type)
	if err != nil {
		return nil, err
	}
	intent, err := ver.Decode(in.Activity.Parameters)
	if err != nil {
		return nil, err
	}
	if ver.Kind.Vote {
		return nil, fault.Field("activity.type", "votes are not decided by policies")
	}
	q, err := ver.PolicyRequest(v.Tx, intent, org.ID{}, v.Caller.ID, false)
	if err != nil {
		return nil, err
	}
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	vote := org.PendingVote{User: v.Caller.ID, CreatedMs: v.NowMs, Credentials: []org.VoteCredential{v.Credential}}
	steps := v.Steps
	lacks, err := activity.CountVotes(v.Tx, &org.Pending{Initiator: v.Caller.ID, OpenedMs: v.NowMs, Votes: []org.PendingVote{vote}}, &q, v.Steps, &steps)
	if err != nil {
		return nil, err
	}
	if v.Credential.Profile != (org.ID{}) {
		return nil, fault.New(fault.Unimplemented, "UNIMPLEMENTED: evaluate_policies by a session with a profile")
	}
	d := policy.Decision{Outcome: policy.RequiresAuthenticators}
	if lacks == nil {
		s := activity.PolicyState(v.Tx, o)
		s.Budget, s.Steps = v.Steps, &steps
		if d, err = policy.Decide(s, q); err != nil {
			return nil, err
		}
	}
	status := org.StatusFailed
	switch d.Outcome {
	case policy.Allow:
		status = org.StatusCompleted
	case policy.RequiresConsensus:
		status = org.StatusConsensusNeeded
	case policy.RequiresAuthenticators:
		status = org.StatusAuthenticatorsNeeded
	}
	e := activity.EvaluationOf(org.ID{}, org.ID{}, v.NowMs, &d)
	outcomes, err := outcomesOf(v, &e)
	if err != nil {
		return nil, err
	}
	dst := text(nil, `{"outcome":`, d.Outcome.String())
	dst = text(dst, `,"status":`, status.String())
	dst = activity.AppendEvaluations(append(dst, `,"policyEvaluations":`...), outcomes)
	return append(dst, '}'), nil
}

// mfaStatusRequest names an activity and optionally one of its voters.
type mfaStatusRequest struct {
	Head
	ActivityID string  `json:"activityId" rule:"required"`
	UserID     *string `json:"userId"`
}

// mfaAsked is an activity and the requested voter, nil for all.
type mfaAsked struct {
	entry *org.Entry
	voter *org.ID
}

func fetchMFAStatus(in *mfaStatusRequest, s *sources) (asked mfaAsked, err error) {
	if asked.entry, err = fetchActivity(&activityRequest{ActivityID: in.ActivityID}, s); err != nil || in.UserID == nil {
		return asked, err
	}
	voter, err := id("userId", *in.UserID)
	asked.voter = &voter
	return asked, err
}

// answerMFAStatus answers the factors required of those who voted on an activity, and
// the factors that they have proven. A finished activity requires none.
func answerMFAStatus(v *View, asked mfaAsked) ([]byte, error) {
	p, err := v.PendingActivity(asked.entry.Activity)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return []byte(`{"mfaStatuses":[]}`), nil
	}
	q, err := kinds.Live.PolicyRequestOf(v.Tx, asked.entry, p.Initiator)
	if err != nil {
		return nil, err
	}
	type demand struct {
		mfa  *org.MFAPolicy
		vote *org.PendingVote
	}
	var demands []demand
	share := activity.VoterSteps(v.Steps, p) // as in a decision
	for i := range p.Votes {
		vote := &p.Votes[i]
		u, err := v.User(vote.User)
		if err != nil {
			return nil, err
		}
		if u == nil || vote.Rejected || asked.voter != nil && vote.User != *asked.voter {
			continue
		}
		left := share
		for _, m := range activity.EnforcedMFA(u, &q, &left) {
			demands = append(demands, demand{m, vote})
		}
	}
	return many(`{"mfaStatuses":`, demands, nil, func(dst []byte, d demand) []byte {
		dst = ident(dst, `{"mfaPolicyId":`, d.mfa.ID)
		dst = ident(dst, `,"userId":`, d.vote.User)
		dst = flag(dst, `,"satisfied":`, activity.Satisfies(d.mfa, d.vote.Credentials))
		dst = activity.AppendList(dst, `,"satisfiedMethods":`, activity.FactorsMet(d.mfa, d.vote.Credentials), activity.AppendFactor)
		dst = activity.AppendList(dst, `,"requiredMethods":`, d.mfa.Required, activity.AppendMFAMethod)
		return append(dst, '}')
	})
}
