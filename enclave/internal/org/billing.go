package org

// Bill is what a top-level organization has used of its plan, with all that is below it.
type Bill struct {
	Plan string `cbor:"1,keyasint,omitempty"` // empty: the one that the plans call default
	// Month is the calendar month, UTC, that Drawn and Leased are of: the year times twelve and the month from 0.
	Month uint32 `cbor:"2,keyasint,omitempty"`
	Drawn uint64 `cbor:"3,keyasint,omitempty"` // signatures made, or leased to sub-organizations
	// Leased are those of Drawn that sub-organizations had not used yet when they drew last.
	Leased uint64 `cbor:"4,keyasint,omitempty"`
	// Quota is how many Drawn could be when it was counted last; nil: any number.
	Quota *uint64 `cbor:"5,keyasint,omitempty"`

	Customer string         `cbor:"6,keyasint,omitempty"` // the payment processor's name for the organization
	Method   *PaymentMethod `cbor:"7,keyasint,omitempty"`
	// Days are the signatures that the processor is told of, by days, the oldest first. Those of a lease are counted when the
	// sub-organization draws the next one.
	Days []DayUse `cbor:"8,keyasint,omitempty"`
}

// DayUse is how many signatures were counted on a day, UTC, which is a number of days since the epoch.
type DayUse struct {
	Day        uint32 `cbor:"1,keyasint"`
	Signatures uint64 `cbor:"2,keyasint"`
}

// PaymentMethod is one that is kept at the processor.
type PaymentMethod struct {
	ID       string `cbor:"1,keyasint"`
	LastFour string `cbor:"2,keyasint"`
	Name     string `cbor:"3,keyasint"`
	Email    string `cbor:"4,keyasint"`
}

// Lease is what a sub-organization may sign before it draws on its parent's account again.
type Lease struct {
	Month uint32 `cbor:"1,keyasint"` // as in Bill
	Size  uint64 `cbor:"2,keyasint"` // drawn last
	Left  uint64 `cbor:"3,keyasint,omitempty"`
	// Counted is what of Left stands in the bill's Leased.
	Counted uint64 `cbor:"4,keyasint,omitempty"`
	// Used are the signatures since the last draw, which no day of the bill has yet.
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

// Bill returns what is counted of a top-level organization, nil before anything was.
func (t *Tx) Bill() (*Bill, error) { return get[Bill](t, billKey) }

// PutBill stores b.
func (t *Tx) PutBill(b *Bill) error { return put(t, billKey, b) }

// Lease returns what a sub-organization has drawn, nil if that is nothing.
func (t *Tx) Lease() (*Lease, error) { return get[Lease](t, leaseKey) }

// PutLease stores l.
func (t *Tx) PutLease(l *Lease) error { return put(t, leaseKey, l) }

// PlansDocument returns the newest document of plans, nil if there is none. It stands in a ledger of its own in each range.
func (t *Tx) PlansDocument() ([]byte, error) {
	p, err := get[plansRecord](t, plansKey)
	if p == nil {
		return nil, err
	}
	return p.Document, nil
}

// PutPlansDocument stores it.
func (t *Tx) PutPlansDocument(document []byte) error {
	return put(t, plansKey, &plansRecord{document})
}
