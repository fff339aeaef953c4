package query

import (
	"strconv"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/strictjson"
)

var evaluations = []*Query{
	historyQuery("get_policy_evaluations", fetchEvaluations, answerEvaluations),
	historyQuery("get_mfa_status", fetchMFAStatus, answerMFAStatus),
	stateQuery("evaluate_policies", evaluatePolicies),
}

func fetchEvaluations(in *ActivityRequest, r *Request, h History, _ BootProofs) error {
	e, err := findNamed("activity", "activityId", in.ActivityID, h.Activity)
	r.entries = []*org.Entry{e}
	return err
}

func answerEvaluations(v *View, r *Request) ([]byte, error) {
	e := r.entries[0]
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
			// Nothing was asked of a policy: the activity's own outcome stands alone.
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

// outcomesOf is what an evaluation tells of each policy, with the names that they
// have now; those that are gone have none.
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

// Hypothesis is an activity that nobody has submitted.
type Hypothesis struct {
	Type       string         `json:"type" rule:"required"`
	Parameters strictjson.Raw `json:"parameters" rule:"required"`
}

// EvaluateRequest asks what the policies would say.
type EvaluateRequest struct {
	Head
	Activity Hypothesis `json:"activity" rule:"required"`
}

// evaluatePolicies answers what would be decided now if the caller submitted the
// activity. Nothing is written and nothing granted is used.
func evaluatePolicies(v *View, in *EvaluateRequest) ([]byte, error) {
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
	q, err := ver.Question(v.Tx, intent, org.ID{}, v.Caller.ID, false)
	if err != nil {
		return nil, err
	}
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	vote := org.PendingVote{User: v.Caller.ID, CreatedMs: v.NowMs, Credentials: []org.VoteCredential{v.Credential}}
	steps := policy.MaxDecisionSteps
	lacks, err := activity.Electorate(v.Tx, &org.Pending{Initiator: v.Caller.ID, OpenedMs: v.NowMs, Votes: []org.PendingVote{vote}}, &q, &steps)
	if err != nil {
		return nil, err
	}
	if v.Credential.Profile != (org.ID{}) {
		return nil, fault.New(fault.Unimplemented, "UNIMPLEMENTED: evaluate_policies by a session with a profile")
	}
	d := policy.Decision{Outcome: policy.RequiresAuthenticators}
	if lacks == nil {
		if d, err = policy.Decide(activity.PolicyState(v.Tx, o), q); err != nil {
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

// MFAStatusRequest names an activity and perhaps one of its voters.
type MFAStatusRequest struct {
	Head
	ActivityID string  `json:"activityId" rule:"required"`
	UserID     *string `json:"userId"`
}

func fetchMFAStatus(in *MFAStatusRequest, r *Request, h History, _ BootProofs) error {
	e, err := findNamed("activity", "activityId", in.ActivityID, h.Activity)
	r.entries = []*org.Entry{e}
	return err
}

// answerMFAStatus tells, of those who voted on an activity, what was demanded of
// them and what they have proven. Of a finished activity nothing is owed.
func answerMFAStatus(v *View, r *Request) ([]byte, error) {
	in, e := r.in.(*MFAStatusRequest), r.entries[0]
	var only org.ID
	if in.UserID != nil {
		var err error
		if only, err = id("userId", *in.UserID); err != nil {
			return nil, err
		}
	}
	dst := append([]byte(nil), `{"mfaStatuses":[`...)
	p, err := v.PendingActivity(e.Activity)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return append(dst, `]}`...), nil
	}
	q, err := kinds.Live.QuestionOf(v.Tx, e, p.Initiator)
	if err != nil {
		return nil, err
	}
	first, share := true, activity.VoterSteps(policy.MaxDecisionSteps, p) // as when it is decided
	for i := range p.Votes {
		vote := &p.Votes[i]
		u, err := v.User(vote.User)
		if err != nil {
			return nil, err
		}
		if u == nil || vote.Rejected || in.UserID != nil && vote.User != only {
			continue
		}
		left := share
		for _, m := range activity.EnforcedMFA(u, &q, &left) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = ident(dst, `{"mfaPolicyId":`, m.ID)
			dst = ident(dst, `,"userId":`, u.ID)
			dst = strconv.AppendBool(append(dst, `,"satisfied":`...), activity.Satisfies(m, vote.Credentials))
			dst = activity.AppendList(dst, `,"satisfiedMethods":`, activity.FactorsMet(m, vote.Credentials), activity.AppendFactor)
			dst = activity.AppendList(dst, `,"requiredMethods":`, m.Required, activity.AppendMFAMethod)
			dst = append(dst, '}')
		}
	}
	return append(dst, `]}`...), nil
}
