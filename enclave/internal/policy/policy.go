// Package policy decides whether an activity may happen.
//
// Decide is a pure function. Its answer is an outcome and, only if that is ALLOW, a
// Grant: a permit for one action of one activity on the keys that it names. A Grant
// cannot be made elsewhere, used twice or spent on anything else. Package keys opens,
// derives, signs and exports only against a Grant.
//
// The root quorum decides first and alone. Below it, an activity is denied unless a
// policy allows it.
//
// README.md describes the language of policies for users. The files, in the order of
// reading: lex.go, parse.go and ast.go for the text; schema.go, the one table of what
// can be read; check.go; eval.go and cron.go; decide.go and reach.go for decisions,
// set.go for decisions by many policies; explain.go for people; narrow.go for what would
// allow a refused request; matched.go and broad.go for what a condition allows at all.
// lint.go is for package enclave/lint, and mistake.go, words.go,
// words_time.go, phrases.go and complete.go for package enclave/editor; the enclave links
// none of them.
package policy

import (
	"slices"
	"strings"
)

// Outcome is the result of a decision.
type Outcome uint8

// The outcomes of the interface.
const (
	DenyImplicit Outcome = iota // the zero value denies
	DenyExplicit
	Allow
	RequiresConsensus
	Rejected
	Error
	RequiresAuthenticators
	TimeInactive
)

var outcomeTexts = [...]string{"OUTCOME_DENY_IMPLICIT", "OUTCOME_DENY_EXPLICIT", "OUTCOME_ALLOW", "OUTCOME_REQUIRES_CONSENSUS", "OUTCOME_REJECTED", "OUTCOME_ERROR", "OUTCOME_REQUIRES_AUTHENTICATORS", "OUTCOME_TIME_INACTIVE"}

func (o Outcome) String() string {
	if int(o) < len(outcomeTexts) {
		return outcomeTexts[o]
	}
	return outcomeTexts[DenyImplicit]
}

// Effect is what a policy does when it applies.
type Effect uint8

// The effects.
const (
	EffectAllow Effect = iota + 1
	EffectDeny
)

// Policy is a compiled rule. A nil Program is true.
type Policy struct {
	ID                         [16]byte
	Name                       string
	Effect                     Effect
	Consensus, Condition, Time *Program
}

// User is somebody who may take part. Ids are UUIDs.
type User struct {
	ID          [16]byte
	Name, Email string
	Tags        [][16]byte
	Credentials []Credential // those that are active now
}

// Credential is what a user approves with.
type Credential struct {
	ID, User     [16]byte
	Type         string // CREDENTIAL_TYPE_…
	CredentialID string // of a passkey, base64url; otherwise ""
	PublicKey    string // lower-case hex
}

// Approval is a user's yes, with the credentials that gave it.
type Approval struct {
	User        [16]byte
	Credentials []Credential
}

// Request is what is decided about.
type Request struct {
	Organization [16]byte
	Activity     [16]byte
	Type         string // ACTIVITY_TYPE_…
	Kind         string // as in ACTIVITY_TYPE_<Kind>, without a version
	Resource     string // policy resource, such as WALLET
	Action       string // policy action, such as CREATE
	Params       Value  // activity.params, a Struct; absent if there are none
	Facts        Facts
	Keys         []Key // that the activity uses: what a Grant is for
	// Payloads are the roots of each payload, on top of Facts, where an activity is
	// about several. Each payload is decided about by itself, one that has the root
	// activity.params with these in the place of Params.
	Payloads    []Facts
	RootQuorum  bool // no policy can grant it
	SelfService bool // the initiator does this to himself: allowed where no policy speaks
	// AboutAnother: the activity must be about the initiator and is about somebody
	// else. It is denied, whoever asks.
	AboutAnother bool
	Scope        *Program // of the session of the one who asks now, or nil
	// Initiator is who submitted; zero: the first of Approvals. His own approval may
	// have lapsed.
	Initiator  [16]byte
	Approvals  []Approval // each user once
	Rejections [][16]byte
	NowMs      uint64
	// Pause, if not nil, is called every 2,048 steps of evaluating, so that others may
	// compute too.
	Pause interface{ Pause() }
}

// State is what a request is decided from. Users and Policies are called only when
// the root quorum does not decide; Decide returns their error.
type State struct {
	RootUsers [][16]byte
	Threshold uint32
	Users     func() ([]User, error)
	Policies  func() (*Set, error)
	// Budget is how many steps the request may take, for whatever is evaluated for it;
	// zero: MaxDecisionSteps.
	Budget int
	// Steps, if not nil, are those of the budget that are left, for all questions that
	// share it. With none left, policies allow nothing and nobody counts. Explanations
	// may bring it below zero, by an eighth of the budget at most.
	Steps *int
}

// A Verdict is what one policy made of a request, and the clause that decided, or 0.
// Ledgers hold both by their numbers.
type Verdict struct {
	Outcome Outcome
	Clause  Clause
}

// Evaluations are what policies made of a request, in the order of their ids. The zero
// value is of no policy.
type Evaluations struct {
	Verdicts []Verdict
	Reasons  []Reason // of those policies that were explained, in their order

	set *Set
}

// Evaluation is what one policy made of a request, and why.
type Evaluation struct {
	Policy [16]byte
	Name   string
	Verdict
	Position int         // in bytes, of the deepest expression of the clause that decided, or -1
	Values   []Explained // what that expression and its neighbours came to, as text
	// Expression is the text of that expression, at most 256 bytes. Records do not keep it.
	Expression string
}

// A Reason explains the verdict of one policy.
type Reason struct {
	At       int // of the policy among the evaluations
	Position int // as in Evaluation
	Values   []Explained

	Expression string // as in Evaluation
}

// Explained is an expression with its value or its error.
type Explained struct {
	Expression, Value string
}

// IDs are the ids of the policies, one behind the other. Nobody must change them.
func (e *Evaluations) IDs() []byte {
	if e.set == nil {
		return nil
	}
	return e.set.ids
}

// Each is all that is known of each policy.
func (e *Evaluations) Each() []Evaluation {
	es := make([]Evaluation, len(e.Verdicts))
	for i, v := range e.Verdicts {
		p := e.set.policies[i]
		es[i] = Evaluation{Policy: p.ID, Name: p.Name, Verdict: v, Position: -1}
	}
	for _, r := range e.Reasons {
		es[r.At].Position, es[r.At].Values, es[r.At].Expression = r.Position, r.Values, r.Expression
	}
	return es
}

// Nearest lists the evaluations by their places in Each: those that denied, then those that came nearest to allowing.
func (e *Evaluations) Nearest() []int {
	each := e.Each()
	order := make([]int, len(each))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return each[i].distance(e.set.policies[i].Effect) - each[j].distance(e.set.policies[j].Effect)
	})
	return order
}

// distance is how far a policy was from allowing: the further, the less there is to learn from it.
func (e *Evaluation) distance(effect Effect) int {
	ofKind := slices.ContainsFunc(roots[rootType:rootParams], func(r root) bool { return strings.Contains(e.Expression, r.name) })
	switch {
	case e.Outcome == DenyExplicit:
		return 0
	case effect != EffectAllow: // it denies nothing
		return 7
	case e.Outcome == RequiresConsensus:
		return 1
	case e.Outcome == DenyImplicit && e.Clause == ClauseCondition && !ofKind:
		return 2
	case e.Outcome == DenyImplicit && e.Clause == ClauseConsensus: // it is for others
		return 3
	case e.Outcome == Error:
		return 4
	case e.Outcome == TimeInactive:
		return 5
	}
	return 6 // it is about another kind of activity
}

// Decision is the answer.
type Decision struct {
	Outcome Outcome
	// Evaluations are empty when the root quorum decided: no policy was asked.
	Evaluations Evaluations
	Grant       *Grant // not nil exactly if Outcome is Allow
	Basis       Basis
}

// Basis is the rule that a decision rests on.
type Basis uint8

// The bases, in the order in which they are asked.
const (
	BasisNobody       Basis = iota // nobody asks, or who asked has taken it back or is no user any more
	BasisScope                     // the scope of the session forbids it
	BasisAboutAnother              // it must be about the initiator and is not
	BasisRootQuorum                // the root quorum allows it, or is all that can
	BasisPolicies                  // a policy allows, denies or waits for more approvals
	BasisSelfService               // no policy speaks and the initiator does it to himself
	BasisNoPolicy                  // nothing allows it
	BasisSteps                     // the policies take too many steps to evaluate
)
