package policytest

import (
	"slices"
	"strings"
	"time"
)

// The outcomes of policies and of requests.
const (
	Allow             = "OUTCOME_ALLOW"
	DenyExplicit      = "OUTCOME_DENY_EXPLICIT"
	DenyImplicit      = "OUTCOME_DENY_IMPLICIT"
	RequiresConsensus = "OUTCOME_REQUIRES_CONSENSUS"
	Error             = "OUTCOME_ERROR"
	TimeInactive      = "OUTCOME_TIME_INACTIVE"
)

// Credential is what a user approves with.
type Credential struct {
	ID, User, Type, CredentialID, PublicKey string
}

// User may take part. Credentials are those that are active.
type User struct {
	ID, Name, Email string
	Tags            []string
	Credentials     []Credential
}

// Policy is a policy.
type Policy struct {
	Deny                       bool
	Consensus, Condition, Time *Expression
}

// Organization is what is decided from.
type Organization struct {
	Root      []string
	Threshold int
	Users     []User
	Policies  []Policy
}

// Vote is a user's yes with the credentials that gave it.
type Vote struct {
	User        string
	Credentials []Credential
}

// Request is what is decided about. Facts are roots by their full name, such as
// "eth.tx".
type Request struct {
	Type, Kind, Resource, Action string
	Params                       any
	Facts                        map[string]any
	RootQuorum, Self, Foreign    bool
	Scope                        *Expression
	Votes                        []Vote
	Initiator                    string // "" is the first of Votes; otherwise he need not be among them any more
	Rejected                     []string
	Now                          time.Time
}

func (r Request) initiator() string {
	if r.Initiator == "" && len(r.Votes) > 0 {
		return r.Votes[0].User
	}
	return r.Initiator
}

// world is what conditions and times are evaluated in.
func (r Request) world() World {
	kind := r.Kind
	if r.RootQuorum {
		kind = "" // section 5: root-quorum activities have no kind
	}
	w := map[string]any{"activity": Struct{"type": Text{Value: r.Type}, "kind": Text{Value: kind}, "resource": Text{Value: r.Resource}, "action": Text{Value: r.Action}, "params": r.Params},
		"time": Struct{"now": r.Now}}
	for _, chain := range []string{"eth", "solana", "bitcoin", "tron", "tempo"} {
		w[chain] = Struct{} // its members may be missing
	}
	for name, v := range r.Facts {
		if outer, inner, ok := strings.Cut(name, "."); ok {
			w[outer].(Struct)[inner] = v
		} else {
			w[name] = v
		}
	}
	return World{Roots: w, Now: r.Now}
}

// besides are the lists of solana.tx in which stands what is given away without standing in a list of transfers.
var besides = map[string][]string{"transfers": {"authorities"}, "spl_transfers": {"spl_approvals", "spl_authorities", "spl_closes", "spl_burns", "spl_others"}}

// reads tells whether an expression reads a list of solana.tx.
func (n *node) reads(list string) bool {
	if n.op == "field" && n.text == list && n.kids[0].op == "field" && n.kids[0].text == "tx" && n.kids[0].kids[0].op == "name" && n.kids[0].kids[0].text == "solana" {
		return true
	}
	return slices.ContainsFunc(n.kids, func(k *node) bool { return k.reads(list) })
}

// permits is what a condition that allows, and a scope, come to: one that reads transfers does not hold for what is given
// away besides, unless it reads that too.
func permits(e *Expression, r Request) (bool, error) {
	yes, err := e.Eval(r.world())
	tx, _ := r.Facts["solana.tx"].(Struct)
	if e == nil || tx == nil || err != nil {
		return yes, err
	}
	for list, others := range besides {
		for _, other := range others {
			if l, _ := tx[other].([]any); e.root.reads(list) && !e.root.reads(other) && len(l) > 0 {
				return false, nil
			}
		}
	}
	return yes, nil
}

// consensus evaluates a policy's consensus for a set of approving users.
func consensus(o Organization, p Policy, votes []Vote) (bool, error) {
	approvers, credentials := []any{}, []any{}
	for _, v := range votes {
		u := o.Users[slices.IndexFunc(o.Users, func(u User) bool { return u.ID == v.User })]
		tags := []any{}
		for _, t := range u.Tags {
			tags = append(tags, Text{Value: t, Hex: true})
		}
		approvers = append(approvers, Struct{"id": Text{Value: u.ID, Hex: true}, "tags": tags, "email": Text{Value: u.Email, Hex: true}, "alias": Text{Value: u.Name}})
		for _, c := range v.Credentials {
			credentials = append(credentials, Struct{"id": Text{Value: c.ID, Hex: true}, "user_id": Text{Value: c.User, Hex: true}, "type": Text{Value: c.Type},
				"credential_id": Text{Value: c.CredentialID}, "public_key": Text{Value: c.PublicKey, Hex: true}})
		}
	}
	return p.Consensus.Eval(World{Roots: map[string]any{"approvers": approvers, "credentials": credentials}})
}

func has(votes []Vote, user string) bool {
	return slices.ContainsFunc(votes, func(v Vote) bool { return v.User == user })
}

// candidates are the sets T of section 7: each single other user, each pair, all
// others; and nobody, which is enough where somebody is counted as if he had
// voted.
func candidates(o Organization, r Request) (sets [][]Vote) {
	var others []Vote
	for _, u := range o.Users {
		if v, may := vote(r, u); may {
			others = append(others, v)
		}
	}
	sets = append(sets, nil)
	for _, v := range others {
		sets = append(sets, []Vote{v})
	}
	for i, v := range others {
		for _, w := range others[i+1:] {
			sets = append(sets, []Vote{v, w})
		}
	}
	return append(sets, others)
}

// vote is the hypothetical vote of a user, with all his active credentials, if he
// may still have one.
func vote(r Request, u User) (v Vote, may bool) {
	return Vote{u.ID, u.Credentials}, !has(r.Votes, u.ID) && !slices.Contains(r.Rejected, u.ID) && len(u.Credentials) > 0
}

// reachable tells whether more votes can make the consensus of p hold so that
// user counts towards it. If he is not among the votes, being a would-be approver
// or an initiator whose approval has lapsed, he is counted as if he were.
func reachable(o Organization, r Request, p Policy, user string) bool {
	if !has(r.Votes, user) {
		v, may := vote(r, o.Users[slices.IndexFunc(o.Users, func(u User) bool { return u.ID == user })])
		if !may {
			return false
		}
		r.Votes = append(slices.Clone(r.Votes), v)
	}
	known := map[string]bool{} // what consensus came to, by who votes: the same every time
	holds := func(votes []Vote) bool {
		key := ""
		for _, v := range votes {
			key += v.User
		}
		yes, ok := known[key]
		if !ok {
			var err error
			yes, err = consensus(o, p, votes)
			yes = yes && err == nil
			known[key] = yes
		}
		return yes
	}
	for _, t := range candidates(o, r) {
		w := slices.Concat(r.Votes, t)
		if holds(w) && has(minimal(w, user, holds), user) {
			return true
		}
	}
	return false
}

// minimal removes users from w, one at a time, while the consensus still holds.
// The page says who is tried last; before him everybody is tried once, in the
// order of the votes.
func minimal(w []Vote, last string, holds func([]Vote) bool) []Vote {
	var order []string
	for _, v := range w {
		if v.User != last {
			order = append(order, v.User)
		}
	}
	for _, user := range append(order, last) {
		if less := slices.DeleteFunc(slices.Clone(w), func(v Vote) bool { return v.User == user }); holds(less) {
			w = less
		}
	}
	return w
}

// outcome is what one policy comes to (section 7, step 8), and whether its
// condition is there and true (step 10).
func outcome(o Organization, r Request, p Policy) (out string, speaks bool) {
	w := r.world()
	active, err := p.Time.Eval(w)
	if err != nil {
		return Error, false
	}
	if !active {
		return TimeInactive, false
	}
	condition, err1 := p.Condition.Eval(w)
	if !p.Deny {
		condition, err1 = permits(p.Condition, r)
	}
	agreed, err2 := consensus(o, p, r.Votes)
	speaks = p.Condition != nil && err1 == nil && condition
	switch {
	case err1 != nil || err2 != nil:
		return Error, speaks
	case condition && agreed && p.Deny:
		return DenyExplicit, speaks
	case condition && agreed:
		return Allow, speaks
	case condition && !p.Deny && reachable(o, r, p, r.initiator()):
		return RequiresConsensus, speaks
	}
	return DenyImplicit, speaks
}

// Decide is section 7 from step 4. outcomes are nil if no policy was consulted.
func Decide(o Organization, r Request) (final string, outcomes []string) {
	if r.Scope != nil { // 4
		if in, err := permits(r.Scope, r); err != nil || !in {
			return DenyImplicit, nil
		}
	}
	if r.Foreign { // 5
		return DenyImplicit, nil
	}
	votes, possible := 0, 0
	for _, u := range o.Users {
		if !slices.Contains(o.Root, u.ID) {
			continue
		}
		switch {
		case has(r.Votes, u.ID):
			votes++
			possible++
		case len(u.Credentials) > 0 && !slices.Contains(r.Rejected, u.ID):
			possible++
		}
	}
	if o.Threshold > 0 && votes >= o.Threshold { // 6
		return Allow, nil
	}
	root := slices.Contains(o.Root, r.initiator())
	if r.RootQuorum { // 7
		if root {
			return RequiresConsensus, nil
		}
		return DenyImplicit, nil
	}
	outcomes = []string{}
	spoken := false
	for _, p := range o.Policies { // 8
		out, speaks := outcome(o, r, p)
		outcomes = append(outcomes, out)
		spoken = spoken || speaks
	}
	overridable := root && o.Threshold > 0 && possible >= o.Threshold
	switch { // 9
	case slices.Contains(outcomes, DenyExplicit) && overridable:
		return RequiresConsensus, outcomes
	case slices.Contains(outcomes, DenyExplicit):
		return DenyExplicit, outcomes
	case slices.Contains(outcomes, Allow):
		return Allow, outcomes
	case slices.Contains(outcomes, RequiresConsensus):
		return RequiresConsensus, outcomes
	case r.Self && !spoken && has(r.Votes, r.initiator()): // 10: it is the caller who does it to himself
		return Allow, outcomes
	case r.Self && !spoken: // the page knows no lapsed approvals: it waits for his
		return RequiresConsensus, outcomes
	case overridable:
		return RequiresConsensus, outcomes
	}
	return DenyImplicit, outcomes
}

// CanApprove tells whether the approval of a user who has not voted can matter: a
// root member's, or one that passes the test of reachability in the initiator's
// place.
func CanApprove(o Organization, r Request, user string) bool {
	if slices.Contains(o.Root, user) || user == r.initiator() {
		return true // an initiator whose approval has lapsed can give it again
	}
	if r.RootQuorum {
		return false
	}
	for _, p := range o.Policies {
		w := r.world()
		active, err1 := p.Time.Eval(w)
		condition, err2 := permits(p.Condition, r)
		if !p.Deny && err1 == nil && active && err2 == nil && condition && reachable(o, r, p, user) {
			return true
		}
	}
	return false
}
