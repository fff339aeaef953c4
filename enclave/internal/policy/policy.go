// Package policy decides whether an activity may happen.
//
// Decide is a pure function of what it is given. Its answer is an outcome and,
// only when that is ALLOW, a Grant: a permit for one action of one activity that
// cannot be made elsewhere, copied into use twice or spent on anything else.
// keys signs and exports only against a Grant.
//
// The root quorum decides first and alone; whoever is not enough of it needs a
// policy that allows, and without one is denied.
package policy

import (
	"errors"
	"sync/atomic"
)

// Outcome is what a decision comes to.
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

// Request is what is decided about. Ids are UUIDs.
type Request struct {
	Organization [16]byte
	Activity     [16]byte
	Kind         string // as in ACTIVITY_TYPE_<Kind>, without a version
	Resource     string // policy resource, such as WALLET
	Action       string // policy action, such as CREATE
	// Approvals are the users who have approved, the submitter first, each once.
	Approvals [][16]byte
}

// State is what it is decided from.
type State struct {
	RootUsers [][16]byte
	Threshold uint32
}

// Decision is the answer.
type Decision struct {
	Outcome Outcome
	Grant   *Grant // not nil exactly when Outcome is Allow
}

// Decide answers a request from a state.
func Decide(s State, r Request) Decision {
	var votes uint32
	for i, u := range r.Approvals {
		if contains(s.RootUsers, u) && !contains(r.Approvals[:i], u) {
			votes++
		}
	}
	if s.Threshold >= 1 && votes >= s.Threshold {
		return Decision{Allow, &Grant{organization: r.Organization, activity: r.Activity, action: r.Action}}
	}
	return Decision{Outcome: DenyImplicit}
}

func contains(ids [][16]byte, id [16]byte) bool {
	for _, x := range ids {
		if x == id {
			return true
		}
	}
	return false
}

// A Grant permits one activity once. Only Decide makes one.
type Grant struct {
	_                      [0]func() // no comparing, no copying by accident into maps
	organization, activity [16]byte
	action                 string
	spent                  atomic.Bool
}

var (
	errNoGrant = errors.New("no grant")
	errSpent   = errors.New("grant already spent")
	errOther   = errors.New("grant for another action")
)

// Spend uses the grant up for one action. It fails for a nil or zero grant, for
// another action, and the second time.
func (g *Grant) Spend(action string) error {
	switch {
	case g == nil || g.action == "":
		return errNoGrant
	case g.action != action:
		return errOther
	case !g.spent.CompareAndSwap(false, true):
		return errSpent
	}
	return nil
}
