// Package billing is what organizations of the top level may use, and what a payment processor is asked and told.
//
// The operator is the provider: a document that his admission key has stamped says which plans there are. Signatures are
// counted for each calendar month, UTC, never above a plan's quota. What a sub-organization signs is on its parent's
// account, on which it draws leases, so that not every signature locks the parent.
//
// Nothing here asks anybody: requests go out and answers come in elsewhere.
package billing

import (
	"slices"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// Plan is what an organization of the top level may use, with all that is below it.
type Plan struct {
	ID   string `json:"id" rule:"required,label"`
	Name string `json:"name" rule:"required,label"`
	// SignaturesPerMonth and SubOrganizations are nil where the plan sets no limit; RequestsPerSecond is 0 then.
	SignaturesPerMonth *uint64 `json:"signaturesPerMonth"`
	RequestsPerSecond  uint32  `json:"requestsPerSecond" rule:"max=100000"`
	SubOrganizations   *uint64 `json:"subOrganizations"`
	Sponsorship        bool    `json:"sponsorship"`
	NeedsPaymentMethod bool    `json:"needsPaymentMethod"`
	Price              Price   `json:"price"`
}

// Price is what a plan costs. It is told, and nothing is computed from it.
type Price struct {
	Currency     string `json:"currency,omitempty" rule:"omitempty,len=3"`
	PerMonth     string `json:"perMonth,omitempty" rule:"max=32"`
	PerSignature string `json:"perSignature,omitempty" rule:"max=32"`
}

// Plans are a document of plans, as ParsePlans reads it. They do not change.
type Plans struct {
	// TimestampMs is when the document was stamped: it is good for as long as any stamped body is.
	TimestampMs uint64 `json:"timestampMs" rule:"required"`
	// Version counts documents: a lower one than is known is refused, and another one of the same version.
	Version uint64 `json:"version" rule:"required,min=1"`
	// Default is the plan on which organizations start, and those are whose plan is gone.
	Default string `json:"default" rule:"required"`
	Plans   []Plan `json:"plans" rule:"required,dive"`
	// Range is the one range that the document is for; nil: all of the enclave that is asked.
	Range *uint32 `json:"range"`
}

// MaxPlans bounds a document.
const MaxPlans = 100

// SelfHosted is the one plan of a deployment without a document: everything, unlimited.
var SelfHosted = &Plan{ID: "self-hosted", Name: "Self-hosted", Sponsorship: true}

// ParsePlans reads a document, strictly. The errors are *fault.Error.
func ParsePlans(document []byte) (*Plans, error) {
	p := new(Plans)
	if err := strictjson.Decode(document, p); err != nil {
		return nil, err
	}
	if len(p.Plans) > MaxPlans {
		return nil, fault.Field("plans", "must have 1 to %d elements", MaxPlans)
	}
	for i := range p.Plans {
		if slices.ContainsFunc(p.Plans[:i], func(other Plan) bool { return other.ID == p.Plans[i].ID }) {
			return nil, fault.Field("plans", "plan is listed twice: %s", p.Plans[i].ID)
		}
	}
	if p.Find(p.Default) == nil {
		return nil, fault.Field("default", "must be the id of one of the plans")
	}
	if p.Find(p.Default).NeedsPaymentMethod {
		return nil, fault.Field("default", "must be a plan that needs no payment method: organizations start on it")
	}
	return p, nil
}

// Find is the plan with this id, nil if there is none. There may be no document.
func (p *Plans) Find(id string) *Plan {
	if p == nil {
		if id == SelfHosted.ID {
			return SelfHosted
		}
		return nil
	}
	i := slices.IndexFunc(p.Plans, func(plan Plan) bool { return plan.ID == id })
	if i < 0 {
		return nil
	}
	return &p.Plans[i]
}

// Of is the plan of an organization that has chosen id, or nothing.
func (p *Plans) Of(id string) *Plan {
	if plan := p.Find(id); plan != nil {
		return plan
	}
	if p == nil {
		return SelfHosted
	}
	return p.Find(p.Default)
}
