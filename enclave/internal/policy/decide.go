package policy

import (
	"maps"
	"slices"
)

// maxReachSteps bounds the search for those who could still fulfil one consensus.
const maxReachSteps = 2_000_000

const (
	// StepsPerPolicy is the share in the budget of a request for each policy that its
	// organization may have. The budget is for all that the request evaluates: the scope
	// of a session, MFA policies, policies for all payloads, and who may vote. It is 1.4
	// times what the dearest policies take that honest organizations were found to have,
	// and about 20 ms for 100 policies.
	StepsPerPolicy = 4_000
	// MaxDecisionSteps is the budget where an organization may have 100 policies, the
	// least. Beyond a budget policies allow nothing.
	MaxDecisionSteps = 100 * StepsPerPolicy
)

// Decide answers a request from a state. It is a pure function of them.
func Decide(s State, r Request) (Decision, error) {
	if who := r.initiator(); who == nobody || slices.Contains(r.Rejections, who) {
		return Decision{Basis: BasisNobody}, nil
	}
	if s.Steps == nil && (r.Scope != nil || len(r.Payloads) > 0) {
		s.Steps = new(s.budget())
	}
	if r.Scope != nil && !r.InScope(s.Steps) {
		return Decision{Basis: BasisScope}, nil
	}
	if r.AboutAnother {
		return Decision{Basis: BasisAboutAnother}, nil
	}
	if s.Threshold >= 1 && rootVotes(&s, &r) >= s.Threshold {
		return Decision{Outcome: Allow, Basis: BasisRootQuorum, Grant: r.grant()}, nil
	}
	return decideEach(s, r)
}

// Each is the request once for each of its payloads, or as it is. A payload may have parameters of its own.
func (r *Request) Each() []Request {
	if len(r.Payloads) == 0 {
		return []Request{*r}
	}
	rs := make([]Request, len(r.Payloads))
	for i, facts := range r.Payloads {
		rs[i] = *r
		rs[i].Payloads, rs[i].Facts = nil, make(Facts, len(r.Facts)+len(facts))
		maps.Copy(rs[i].Facts, r.Facts)
		maps.Copy(rs[i].Facts, facts)
		if params, own := facts[roots[rootParams].name]; own {
			rs[i].Params = params
		}
	}
	return rs
}

// decideEach decides about every payload. It answers the worst of these decisions: all
// are allowed only if each is. Only that one is explained.
func decideEach(s State, r Request) (Decision, error) {
	if len(r.Payloads) == 0 {
		d := newDecider(&s, &r)
		out, err := d.decide()
		if err == nil {
			d.explain(&out)
		}
		return out, err
	}
	var worst Decision
	var by *decider
	rs := r.Each()
	for i := range rs {
		d := newDecider(&s, &rs[i])
		out, err := d.decide()
		if err != nil {
			return Decision{}, err
		}
		if i == 0 || severity[out.Outcome] > severity[worst.Outcome] {
			worst, by = out, d
		}
		if worst.Outcome == DenyExplicit || *s.Steps <= 0 { // no other payload can be worse
			break
		}
	}
	by.explain(&worst)
	return worst, nil
}

// severity orders what a decision can come to below the quorum.
var severity = map[Outcome]int{Allow: 0, RequiresConsensus: 1, DenyImplicit: 2, DenyExplicit: 3}

var nobody [16]byte

// initiator is who submitted, even if his approval has lapsed.
func (r *Request) initiator() [16]byte {
	if r.Initiator == nobody && len(r.Approvals) > 0 {
		return r.Approvals[0].User
	}
	return r.Initiator
}

// InScope tells whether the scope of the session holds, if it has one. A scope that is
// an error does not, nor does one that passes over a part of the transaction, or that
// takes more steps than are left.
func (r Request) InScope(steps *int) bool {
	if yes, err := r.Scope.HoldsWithin(&r, steps); !yes || err != nil {
		return false
	}
	return !r.Scope.mayPassOver() || !slices.ContainsFunc(r.Each(), func(each Request) bool { return r.Scope.passesOver(&each) != "" })
}

func rootVotes(s *State, r *Request) (votes uint32) {
	for i := range r.Approvals {
		if slices.Contains(s.RootUsers, r.Approvals[i].User) && r.approves(i) {
			votes++
		}
	}
	return votes
}

// approves tells whether approval i counts: it is the first of its user, who has not
// rejected.
func (r *Request) approves(i int) bool {
	user := r.Approvals[i].User
	for j := range r.Approvals[:i] {
		if r.Approvals[j].User == user {
			return false
		}
	}
	return !slices.Contains(r.Rejections, user)
}

// decide goes on where the root quorum has not decided.
func (d *decider) decide() (Decision, error) {
	r := d.request
	defer d.chargeCaller()
	if r.RootQuorum {
		if slices.Contains(d.state.RootUsers, r.initiator()) {
			if err := d.load(); err != nil {
				return Decision{}, err
			}
		}
		return Decision{Outcome: d.orQuorum(DenyImplicit), Basis: BasisRootQuorum}, nil
	}
	if err := d.load(); err != nil {
		return Decision{}, err
	}
	if !slices.ContainsFunc(d.users, func(u User) bool { return u.ID == r.initiator() }) {
		return Decision{Basis: BasisNobody}, nil
	}
	if err := d.policies(); err != nil {
		return Decision{}, err
	}
	out := Decision{Evaluations: Evaluations{set: d.set, Verdicts: make([]Verdict, d.set.len())}}
	var allows, denies, waits bool
	for i := range out.Evaluations.Verdicts {
		v := d.evaluatePolicy(i)
		out.Evaluations.Verdicts[i] = v
		if v.Outcome == Error && v.Clause != 0 && d.machine.why.reason == failedSteps {
			d.endless = append(d.endless, i)
			d.denyUndetermined = d.denyUndetermined || d.set.policies[i].Effect != EffectAllow
		}
		allows = allows || v.Outcome == Allow
		denies = denies || v.Outcome == DenyExplicit
		waits = waits || v.Outcome == RequiresConsensus
	}
	switch out.Basis = BasisPolicies; {
	case denies:
		out.Outcome = d.orQuorum(DenyExplicit)
	case d.spent >= d.limit || d.denyUndetermined:
		out.Outcome, out.Basis = d.orQuorum(DenyImplicit), BasisSteps
	case allows:
		out.Outcome, out.Grant = Allow, r.grant()
	case waits:
		out.Outcome = RequiresConsensus
	case r.SelfService && !d.conditionMatched && r.approved(r.initiator()): // by himself, not by others in his name
		out.Outcome, out.Basis, out.Grant = Allow, BasisSelfService, r.grant()
	case r.SelfService && !d.conditionMatched: // his approval has lapsed
		out.Outcome, out.Basis = RequiresConsensus, BasisSelfService
	default:
		out.Outcome, out.Basis = d.orQuorum(DenyImplicit), BasisNoPolicy
	}
	return out, nil
}

// MayVote tells whether a user's vote on the request can matter: that of the initiator,
// of a member of the root quorum, or of one who Counts. His vote so far is left out.
func MayVote(s State, r Request, user [16]byte) (bool, error) {
	switch {
	case r.initiator() == nobody:
		return false, nil
	case slices.Contains(s.RootUsers, user), r.initiator() == user:
		return true, nil
	}
	return Counts(s, r, user)
}

// Counts tells whether a matching policy that allows has a consensus that can count the
// user, in the root quorum or not. His vote so far is left out.
func Counts(s State, r Request, user [16]byte) (bool, error) {
	if r.initiator() == nobody || r.RootQuorum || r.AboutAnother {
		return false, nil
	}
	if len(r.Payloads) > 1 && s.Steps == nil {
		s.Steps = new(s.budget())
	}
	for _, each := range r.Each() {
		if yes, err := voteCounts(s, each, user); yes || err != nil {
			return yes, err
		}
	}
	return false, nil
}

func voteCounts(s State, r Request, user [16]byte) (bool, error) {
	r.Approvals = slices.DeleteFunc(slices.Clone(r.Approvals), func(a Approval) bool { return a.User == user })
	r.Rejections = slices.DeleteFunc(slices.Clone(r.Rejections), func(u [16]byte) bool { return u == user })
	d := newDecider(&s, &r)
	defer d.chargeCaller()
	if err := d.load(); err != nil {
		return false, err
	}
	i := slices.IndexFunc(d.remainingVoters(), func(v voter) bool { return v.id == user })
	if i < 0 {
		return false, nil // gone, or without a credential
	}
	who := d.others[i]
	d.others = slices.Delete(d.others, i, i+1)
	d.voters = append(d.voters, who)
	if err := d.policies(); err != nil {
		return false, err
	}
	for i := range d.set.len() {
		p := d.set.policies[i]
		if p.Effect != EffectAllow || p.Consensus == nil || d.spent >= d.limit {
			continue
		}
		d.pauseIfDue()
		if timely, _ := d.run(p.Time); !timely {
			continue
		}
		if matches, _ := d.matches(i); !matches || p.Condition.passesOver(d.request) != "" {
			continue
		}
		if counts, _ := d.reach(p.Consensus, who, true); counts {
			return true, nil
		}
	}
	return false, nil
}

// A decider answers one request for all policies.
type decider struct {
	state   *State
	request *Request
	machine machine
	set     *Set
	inputs  inputValues
	voters  []voter // have approved, in this order
	others  []voter // could: they have a credential and have not rejected
	users   []User
	spent   int // steps of all policies so far
	limit   int // of spent, which never exceeds it
	// denyUndetermined: a policy that denies took too many steps, so nothing is allowed.
	denyUndetermined bool
	// conditionMatched: the condition of a policy is true, so self-service is off.
	conditionMatched bool
	// endless are the policies of which a clause took too many steps.
	endless []int
}

func (s *State) budget() int {
	if s.Budget == 0 {
		return MaxDecisionSteps
	}
	return s.Budget
}

func newDecider(s *State, r *Request) *decider {
	d := &decider{state: s, request: r, limit: s.budget()}
	if s.Steps != nil {
		d.limit = max(*s.Steps, 0)
	}
	return d
}

// chargeCaller takes what was spent off what the caller has left.
func (d *decider) chargeCaller() {
	if d.state.Steps != nil {
		*d.state.Steps -= d.spent
	}
}

// A voter is a user as a consensus sees him.
type voter struct {
	id          [16]byte
	user        Value
	credentials []Value
	source      *User // until user and credentials are made
}

// load asks for the users and finds those who have approved. Policies do not count
// anybody who is no longer a user.
func (d *decider) load() (err error) {
	if d.state.Users != nil {
		if d.users, err = d.state.Users(); err != nil {
			return err
		}
	}
	r := d.request
	d.voters = make([]voter, 0, len(r.Approvals)+1)
	for i := range r.Approvals {
		a := &r.Approvals[i]
		if !r.approves(i) {
			continue
		}
		if j := slices.IndexFunc(d.users, func(u User) bool { return u.ID == a.User }); j >= 0 {
			v := voter{id: a.User, user: userValue(&d.users[j])}
			for k := range a.Credentials {
				v.credentials = append(v.credentials, credentialValue(&a.Credentials[k]))
			}
			d.voters = append(d.voters, v)
		}
	}
	d.machine = machine{request: r, voters: true, untilPause: stepsToPause(d.limit)}
	return nil
}

func (d *decider) remainingVoters() []voter {
	if d.others == nil {
		d.others = make([]voter, 0, len(d.users))
		for i := range d.users {
			u := &d.users[i]
			if len(u.Credentials) > 0 && !slices.Contains(d.request.Rejections, u.ID) && !d.request.approved(u.ID) {
				d.others = append(d.others, voter{id: u.ID, source: u})
			}
		}
	}
	return d.others
}

func (r *Request) approved(user [16]byte) bool {
	return slices.ContainsFunc(r.Approvals, func(a Approval) bool { return a.User == user })
}

// policies asks for the policies and reads the inputs of their predicates.
func (d *decider) policies() (err error) {
	if d.state.Policies == nil {
		return nil
	}
	if d.set, err = d.state.Policies(); err == nil && d.set != nil && d.limit > 0 {
		d.inputs = d.set.readInputs(&d.machine)
	}
	return err
}

// orQuorum is RequiresConsensus instead of a denial while the initiator is in the root
// quorum and the quorum can still be reached: it overrides every policy.
func (d *decider) orQuorum(denial Outcome) Outcome {
	s := d.state
	if s.Threshold == 0 || !slices.Contains(s.RootUsers, d.request.initiator()) {
		return denial
	}
	votes := rootVotes(s, d.request)
	for _, v := range d.remainingVoters() {
		if slices.Contains(s.RootUsers, v.id) {
			votes++
		}
	}
	if votes < s.Threshold {
		return denial
	}
	return RequiresConsensus
}

// stepsLeft are the steps that no policy has taken yet.
func (d *decider) stepsLeft() int { return d.limit - d.spent }

// run evaluates a clause, with no more steps than are left. A nil one is true.
func (d *decider) run(p *Program) (yes, ok bool) {
	if p == nil {
		return true, true
	}
	m, steps := &d.machine, min(maxSteps, d.stepsLeft())
	m.allow(steps)
	if p.clause == ClauseConsensus {
		m.setVoters(d.voters)
	}
	yes, ok = m.evaluateBool(p.root)
	d.spent += steps - max(m.end(), 0)
	return yes && ok, ok
}

// spend takes the steps of a predicate, if it has so many. Otherwise its expression must be
// walked, up to where they end.
func (d *decider) spend(steps int) bool {
	if steps > maxSteps || steps > d.limit-d.spent {
		return false
	}
	d.spent += steps
	d.machine.untilPause -= steps
	return true
}

// pauseIfDue pauses for the steps of predicates: no machine takes them.
func (d *decider) pauseIfDue() {
	if d.machine.untilPause < 0 {
		d.machine.pause()
	}
}

// matches evaluates the condition of policy i.
func (d *decider) matches(i int) (yes, ok bool) {
	c := &d.set.conditions[i]
	if !c.ok {
		return d.run(d.set.policies[i].Condition)
	}
	if d.inputs.errors&c.mask != 0 {
		for _, r := range c.reads {
			if d.inputs.errors>>r.input&1 == 1 {
				if !d.spend(r.steps) {
					return d.run(d.set.policies[i].Condition)
				}
				d.machine.why = d.inputs.seen[r.input].why
				return false, false
			}
		}
	}
	if !d.spend(c.steps) {
		return d.run(d.set.policies[i].Condition)
	}
	return c.test.isTrueFor(&d.inputs), true
}

// agrees evaluates the consensus of policy i.
func (d *decider) agrees(i int) (yes, ok bool) {
	c := &d.set.consensuses[i]
	if !c.ok {
		return d.run(d.set.policies[i].Consensus)
	}
	if d.inputs.voters == nil {
		d.inputs.voters = d.set.readApprovers(d.voters)
	}
	steps := c.steps
	for j := range d.inputs.voters {
		steps += c.stepsPerApprover + c.listSteps + c.stepsPerTag*len(d.inputs.voters[j].tags)
	}
	if !d.spend(steps) {
		return d.run(d.set.policies[i].Consensus)
	}
	return c.test.isTrueFor(&d.inputs), true
}

// evaluatePolicy is what policy i makes of the request.
func (d *decider) evaluatePolicy(i int) Verdict {
	p := d.set.policies[i]
	if d.spent >= d.limit {
		return Verdict{Outcome: Error}
	}
	d.pauseIfDue()
	if p.Time != nil {
		switch timely, ok := d.run(p.Time); {
		case !ok:
			return Verdict{Error, ClauseTime}
		case !timely:
			return Verdict{TimeInactive, ClauseTime}
		}
	}
	matches, ok := d.matches(i)
	if !ok {
		return Verdict{Error, ClauseCondition}
	}
	matches = matches && (p.Effect != EffectAllow || p.Condition.passesOver(d.request) == "")
	d.conditionMatched = d.conditionMatched || matches && p.Condition != nil
	if !matches {
		// A consensus that cannot fail cannot change the outcome either.
		if p.Consensus != nil && p.Consensus.fails {
			if _, ok := d.run(p.Consensus); !ok {
				return Verdict{Error, ClauseConsensus}
			}
		}
		return Verdict{DenyImplicit, ClauseCondition}
	}
	agreed, ok := d.agrees(i)
	switch {
	case !ok:
		return Verdict{Error, ClauseConsensus}
	case agreed && p.Effect == EffectAllow && len(d.voters) == 0: // all approvals have lapsed
		return Verdict{RequiresConsensus, ClauseConsensus}
	case agreed && p.Effect == EffectAllow:
		return Verdict{Outcome: Allow}
	// Any other effect denies, an unknown one too.
	case agreed && p.Condition == nil && p.Consensus != nil:
		return Verdict{DenyExplicit, ClauseConsensus}
	case agreed && p.Condition == nil:
		return Verdict{Outcome: DenyExplicit}
	case agreed:
		return Verdict{DenyExplicit, ClauseCondition}
	case p.Effect != EffectAllow:
		return Verdict{DenyImplicit, ClauseConsensus}
	}
	counts, ok := d.awaits(i)
	switch {
	case !ok:
		return Verdict{Error, ClauseConsensus}
	case counts:
		return Verdict{RequiresConsensus, ClauseConsensus}
	}
	return Verdict{DenyImplicit, ClauseConsensus}
}

// awaits tells whether the consensus of policy i, which does not hold, could hold with
// more approvals and count the initiator. If his approval has lapsed, it must be
// among the new ones.
func (d *decider) awaits(i int) (counts, ok bool) {
	p, short := d.set.policies[i].Consensus, &d.set.consensuses[i]
	who := d.request.initiator()
	is := func(v voter) bool { return v.id == who }
	if at := slices.IndexFunc(d.voters, is); at >= 0 {
		if short.ok { // reach would begin by asking it all of him
			v := &d.inputs.voters[at]
			if steps := short.stepsPerApprover + short.stepsPerTag*len(v.tags); !short.test.anyHolds(v) && d.spend(steps) {
				return false, true
			}
		}
		return d.reach(p, d.voters[at], false)
	}
	at := slices.IndexFunc(d.remainingVoters(), is)
	if at < 0 {
		return false, true // gone, or without a credential
	}
	voters, others := d.voters, d.others
	d.voters = append(slices.Clone(voters), others[at])
	d.others = slices.Delete(slices.Clone(others), at, at+1)
	counts, ok = d.reach(p, d.voters[len(d.voters)-1], true)
	d.voters, d.others = voters, others
	return counts, ok
}
