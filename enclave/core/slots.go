package core

import (
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// Calls under way hold slots: one each, and one more for each slotBytes of its body. Slots are divided among
// customers, so that one whose calls wait leaves some for the others.
const (
	maxCallSlots = wire.MaxInFlight
	slotBytes    = wire.MaxWaiting / wire.MaxInFlight
)

// A customer is a tenant's own users, or its sub-organizations and the callers of its auth proxy. The zero
// customer is all calls together whose organization is not known yet.
type customer struct {
	tenant           org.ID
	subOrganizations bool
}

// A callSlot is a call's share of maxCallSlots.
type callSlot struct {
	customer customer
	proxy    bool // it came to the auth proxy
	taken    bool
	size     int32 // 0: the call is not counted
}

var errCallSlots = fault.WithCode(fault.ResourceExhausted, "REQUESTS_EXCEEDED", "too many requests are under way: wait for some of them")

// Admit takes the call's slots, once: from the customer's share as soon as the customer is known. It implements
// ledger.Admission.
func (v *callState) Admit(tenant org.ID) error {
	p := &v.slot
	if p.size == 0 || p.taken && (tenant.Zero() || !p.customer.tenant.Zero()) {
		return nil
	}
	v.releaseSlot()
	if !tenant.Zero() {
		p.customer = customer{tenant, p.proxy || tenant != v.Organization}
	}
	if p.taken = v.core.callSlots.Take(p.customer, int64(p.size)); !p.taken {
		v.core.callsRefused.Add(1)
		return errCallSlots
	}
	return nil
}

// releaseSlot releases the call's slots.
func (v *callState) releaseSlot() {
	if p := &v.slot; p.taken {
		v.core.callSlots.Add(p.customer, -int64(p.size))
		p.taken = false
	}
}
