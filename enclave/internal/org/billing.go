package org

// Bill is the use that a top-level organization and its sub-organizations have made of its plan.
type Bill struct {
	Plan string `cbor:"1,keyasint,omitempty"` // empty: the plans' default
	// Month is the calendar month, UTC, of Drawn and Leased: the year times twelve plus the month from 0.
	Month uint32 `cbor:"2,keyasint,omitempty"`
	Drawn uint64 `cbor:"3,keyasint,omitempty"` // signatures made, or leased to sub-organizations
	// Leased is the part of Drawn that sub-organizations had not used yet at their last draw.
	Leased uint64 `cbor:"4,keyasint,omitempty"`
	// Quota is the upper limit of Drawn at the last count; nil: no limit.
	Quota *uint64 `cbor:"5,keyasint,omitempty"`

	Customer string         `cbor:"6,keyasint,omitempty"` // the payment processor's name for the organization
	Method   *PaymentMethod `cbor:"7,keyasint,omitempty"`
	// Days are the signatures per day to be reported to the processor, the oldest first. Those of a lease are counted when the
	// sub-organization draws the next lease.
	Days []DayUse `cbor:"8,keyasint,omitempty"`
	// Email is the address of invoices, if it was set by itself.
	Email string `cbor:"9,keyasint,omitempty"`
}

// DayUse is the number of signatures counted on a day, UTC. The day is in days since the Unix epoch.
type DayUse struct {
	Day        uint32 `cbor:"1,keyasint"`
	Signatures uint64 `cbor:"2,keyasint"`
}

// PaymentMethod is a payment method that the processor stores.
type PaymentMethod struct {
	ID       string `cbor:"1,keyasint"`
	LastFour string `cbor:"2,keyasint"`
	Name     string `cbor:"3,keyasint"`
	Email    string `cbor:"4,keyasint"`
}

// Lease is the number of signatures that a sub-organization may make before it draws on its parent's account again.
type Lease struct {
	Month uint32 `cbor:"1,keyasint"` // as in Bill
	Size  uint64 `cbor:"2,keyasint"` // signatures of the last draw
	Left  uint64 `cbor:"3,keyasint,omitempty"`
	// Counted is the part of Left that the bill's Leased includes.
	Counted uint64 `cbor:"4,keyasint,omitempty"`
	// Used is the number of signatures since the last draw; the bill's Days do not include them yet.
	Used uint64 `cbor:"5,keyasint,omitempty"`
}

type plansRecord struct {
	Document []byte `cbor:"1,keyasint"`
}

var (
	billKey  = key(collectionBill)
	leaseKey = key(collectionLease)
	plansKey = key(collectionPlans)
)

// Bill returns the bill of a top-level organization, nil before the first count.
func (t *Tx) Bill() (*Bill, error) { return get[Bill](t, billKey) }

// PutBill stores b.
func (t *Tx) PutBill(b *Bill) error { return put(t, billKey, b) }

// Lease returns the lease of a sub-organization, nil before its first draw.
func (t *Tx) Lease() (*Lease, error) { return get[Lease](t, leaseKey) }

// PutLease stores l.
func (t *Tx) PutLease(l *Lease) error { return put(t, leaseKey, l) }

// PlansDocument returns the newest document of plans, nil if there is none. Each range has a separate ledger for it.
func (t *Tx) PlansDocument() ([]byte, error) {
	p, err := get[plansRecord](t, plansKey)
	if p == nil {
		return nil, err
	}
	return p.Document, nil
}

// PutPlansDocument stores the document of plans.
func (t *Tx) PutPlansDocument(document []byte) error {
	return put(t, plansKey, &plansRecord{document})
}
