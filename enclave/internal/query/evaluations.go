package query

import (
	"cmp"

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
	fetchQuery("evaluate_policies", fetchEvaluation, evaluatePolicies),
}

func answerEvaluations(v *View, e *org.Entry) ([]byte, error) {
	var bad error
	hidden, err := parentDecided(v, e)
	if err != nil {
		return nil, err
	}
	dst := array(nil, `{"policyEvaluations":`, e.Evaluations, func(dst []byte, ev org.Evaluation) []byte {
		outcomes, err := outcomesOf(v, &ev)
		if err != nil {
			bad = err
		}
		if hidden {
			outcomes, ev.Outcome = nil, cmp.Or(ev.Outcome, e.Outcome)
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

// parentDecided reports whether the parent's policies decided an activity that one of this organization's own users reads. He
// may not read the parent's policies, so he learns the outcome alone, as in the refusal.
func parentDecided(v *View, e *org.Entry) (bool, error) {
	o, err := v.Organization()
	if err != nil || o.Parent.Zero() || v.Home != nil {
		return false, err
	}
	initiator, err := v.User(e.Initiator)
	if err != nil || initiator != nil {
		return false, err
	}
	for i := range e.Evaluations { // of a user who was deleted since, the policies are here
		for _, p := range activity.Outcomes(&e.Evaluations[i]) {
			if own, err := v.Policy(p.Policy); own != nil || err != nil {
				return false, err
			}
		}
	}
	return true, nil
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

// PolicyDraft is a policy that was not saved. With an id it stands in the place of that policy.
type PolicyDraft struct {
	PolicyID   *string         `json:"policyId"`
	PolicyName string          `json:"policyName"`
	Effect     activity.Effect `json:"effect" rule:"required"`
	Consensus  string          `json:"consensus"`
	Condition  string          `json:"condition"`
	Time       string          `json:"time"`
	Notes      string          `json:"notes"`
}

// evaluateRequest asks how an activity would be decided: one that it has, or one that was submitted before.
type evaluateRequest struct {
	Head
	Activity          *Hypothesis  `json:"activity"`
	ActivityID        *string      `json:"activityId"`
	UserID            *string      `json:"userId"` // who would submit it; otherwise who submitted it, or the caller
	Policy            *PolicyDraft `json:"policy"`
	IncludeSuggestion bool         `json:"includeSuggestion"`
}

// evaluation is an evaluateRequest with the entry of the activity that it names.
type evaluation struct {
	*evaluateRequest
	entry *org.Entry
}

func fetchEvaluation(in *evaluateRequest, s *sources) (q evaluation, err error) {
	q.evaluateRequest = in
	switch {
	case (in.Activity == nil) == (in.ActivityID == nil):
		return q, fault.Field("activity", "want activity or activityId")
	case in.ActivityID != nil:
		q.entry, err = fetchActivity(&activityRequest{ActivityID: *in.ActivityID}, s)
	}
	return q, err
}

// hypothesis is the type, the intent and the submitter of the activity to evaluate.
func (q *evaluation) hypothesis(v *View) (ver *activity.Version, intent *activity.Intent, by *org.User, err error) {
	who := v.Caller.ID
	if q.entry != nil {
		who = q.entry.Initiator
		_, ver, intent, err = kinds.Live.Reread(q.entry)
	} else if !activity.KnownType(q.Activity.Type) {
		err = fault.Field("activity.type", "no activity type of the interface")
	} else if ver, err = kinds.Live.Lookup(activity.OpOf(q.Activity.Type), q.Activity.Type); err == nil {
		intent, err = ver.Decode(q.Activity.Parameters)
	}
	if err == nil && ver.Kind.Vote {
		err = fault.Field("activity.type", "votes are not decided by policies")
	}
	if err == nil && q.UserID != nil {
		who, err = id("userId", *q.UserID)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	by, err = v.User(who)
	switch {
	case err != nil:
	case by == nil:
		err = fault.New(fault.NotFound, "user not found: %s", who)
	case who != v.Caller.ID && !activity.CanStamp(by, v.NowMs):
		err = fault.Field("userId", "this user has no credential and cannot submit anything")
	}
	return ver, intent, by, err
}

// compile compiles a draft and finds the policy that it replaces.
func (p *PolicyDraft) compile(v *View) (*policy.Policy, error) {
	c := &policy.Policy{Name: p.PolicyName, Effect: p.Effect.Policy()}
	if p.PolicyID != nil {
		replaced, err := findNamed("policy", "policy.policyId", *p.PolicyID, v.Policy)
		if err != nil {
			return nil, err
		}
		c.ID = replaced.ID
	}
	var err error
	if c.Consensus, err = activity.CompileClause(policy.ClauseConsensus, "policy.consensus", p.Consensus); err != nil {
		return nil, err
	}
	if c.Condition, err = activity.CompileClause(policy.ClauseCondition, "policy.condition", p.Condition); err != nil {
		return nil, err
	}
	c.Time, err = activity.CompileClause(policy.ClauseTime, "policy.time", p.Time)
	return c, err
}

// withPolicy adds a policy to those that a state has, in the place of the one with its id.
func withPolicy(s policy.State, p *policy.Policy) policy.State {
	all := s.Policies
	s.Policies = func() (*policy.Set, error) {
		set, err := all()
		if err != nil {
			return nil, err
		}
		return set.With(p), nil
	}
	return s
}

var basisTexts = map[policy.Basis]string{
	policy.BasisNobody: "BASIS_NOBODY", policy.BasisScope: "BASIS_SESSION_SCOPE", policy.BasisAboutAnother: "BASIS_ABOUT_ANOTHER_USER",
	policy.BasisRootQuorum: "BASIS_ROOT_QUORUM", policy.BasisPolicies: "BASIS_POLICIES", policy.BasisSelfService: "BASIS_SELF_SERVICE",
	policy.BasisNoPolicy: "BASIS_NO_POLICY", policy.BasisSteps: "BASIS_STEPS",
}

// evaluatePolicies answers the decision that the activity would get if the user submitted it now. Nothing is written, and a
// grant is discarded. For the caller his present credential counts, and his MFA policies; for another user all his credentials
// do. A caller of the organization may read all policies and users, so he learns nothing that he could not find out.
func evaluatePolicies(v *View, in evaluation) ([]byte, error) {
	if v.Home != nil {
		return nil, fault.WithCode(fault.InvalidArgument, "ORGANIZATION_MISMATCH",
			"organization mismatch: activities of organization %s are decided for its own users", v.ID)
	}
	if v.Credential.Profile != (org.ID{}) {
		return nil, fault.New(fault.Unimplemented, "UNIMPLEMENTED: evaluate_policies by a session with a profile")
	}
	ver, intent, by, err := in.hypothesis(v)
	if err != nil {
		return nil, err
	}
	var draft *policy.Policy
	if in.Policy != nil {
		if draft, err = in.Policy.compile(v); err != nil {
			return nil, err
		}
	}
	q, err := ver.PolicyRequest(v.Tx, intent, org.ID{}, by.ID, false)
	if err != nil {
		return nil, err
	}
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	steps := v.Steps
	lacks, err := approveAs(v, by, &q, &steps)
	if err != nil {
		return nil, err
	}
	s := activity.PolicyState(v.Tx, o)
	s.Budget, s.Steps = v.Steps, &steps
	if draft != nil {
		s = withPolicy(s, draft)
	}
	d, basis := policy.Decision{Outcome: policy.RequiresAuthenticators}, "BASIS_MFA_POLICY"
	if lacks == nil {
		if d, err = policy.Decide(s, q); err != nil {
			return nil, err
		}
		basis = basisTexts[d.Basis]
	}
	e := activity.EvaluationOf(org.ID{}, org.ID{}, v.NowMs, &d)
	outcomes, err := outcomesOf(v, &e)
	if err != nil {
		return nil, err
	}
	for i := range outcomes {
		if draft != nil && outcomes[i].Policy == draft.ID {
			outcomes[i].Name = draft.Name
		}
	}
	if nearest := d.Evaluations.Nearest(); d.Outcome != policy.Allow && len(nearest) == len(outcomes) {
		sorted := make([]org.PolicyOutcome, len(outcomes))
		for at, i := range nearest {
			sorted[at] = outcomes[i]
		}
		outcomes = sorted
	}
	dst := text(nil, `{"outcome":`, d.Outcome.String())
	dst = text(dst, `,"status":`, statusOf(d.Outcome).String())
	dst = text(dst, `,"basis":`, basis)
	dst = ident(dst, `,"initiatorId":`, by.ID)
	dst = activity.AppendEvaluations(append(dst, `,"policyEvaluations":`...), outcomes)
	if in.IncludeSuggestion && d.Outcome != policy.Allow {
		if dst, err = appendSuggestion(dst, s, q); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// approveAs fills in the approval of who would submit a request. lacks is the MFA policy that the caller still has to meet.
func approveAs(v *View, by *org.User, q *policy.Request, steps *int) (lacks *org.MFAPolicy, err error) {
	if by.ID != v.Caller.ID {
		q.Approvals = []policy.Approval{activity.ApprovalByAll(by, v.NowMs)}
		return nil, nil
	}
	vote := org.PendingVote{User: by.ID, CreatedMs: v.NowMs, Credentials: []org.VoteCredential{v.Credential}}
	return activity.CountVotes(v.Tx, &org.Pending{Initiator: by.ID, OpenedMs: v.NowMs, Votes: []org.PendingVote{vote}}, q, v.Steps, steps)
}

// statusOf is the status that an activity with this outcome would get.
func statusOf(o policy.Outcome) org.Status {
	switch o {
	case policy.Allow:
		return org.StatusCompleted
	case policy.RequiresConsensus:
		return org.StatusConsensusNeeded
	case policy.RequiresAuthenticators:
		return org.StatusAuthenticatorsNeeded
	}
	return org.StatusFailed
}

// appendSuggestion writes the narrowest policy with which the request would be allowed, if there is one and it would be.
func appendSuggestion(dst []byte, s policy.State, q policy.Request) ([]byte, error) {
	consensus, condition, ok := policy.Narrowest(&q)
	if !ok {
		return dst, nil
	}
	draft := PolicyDraft{Effect: "EFFECT_ALLOW", Consensus: consensus, Condition: condition}
	p, err := draft.compile(nil)
	if err != nil {
		return nil, err
	}
	p.ID = suggestionID
	d, err := policy.Decide(withPolicy(s, p), q)
	if err != nil || d.Outcome != policy.Allow {
		return dst, err
	}
	dst = text(dst, `,"suggestion":{"effect":`, string(draft.Effect))
	dst = text(dst, `,"consensus":`, consensus)
	dst = text(dst, `,"condition":`, condition)
	return append(dst, '}'), nil
}

// suggestionID is the id of no policy.
var suggestionID = [16]byte{15: 1}

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
