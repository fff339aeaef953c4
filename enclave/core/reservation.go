package core

import (
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

const (
	// replyBytes bounds the memory of replies that are being built, wait for the store, or
	// wait for the host to read them.
	replyBytes = 256 << 20
	// smallReply is the size up to which a reply is counted but never refused: the connections limit those.
	smallReply = 64 << 10
	// maxList is the approximate maximal size of a list; see query.Answer.
	maxList = 7 << 20
)

// Kinds that decode data for policies reserve memory for the decoded data, up to 16 bytes for each byte of the
// data, which is two digits in the body. A small body is not counted.
const (
	decodedOfBody = 16 / 2
	smallBody     = 8 << 10
)

// decodedBytes is the memory to reserve for the decoded data of a body of n bytes of a version; v is nil
// if that is unknown.
func decodedBytes(v *activity.Version, n int64) int64 {
	if v == nil || !v.Kind.Decodes {
		return 0
	}
	return decodedOfBody * max(n-smallBody, 0)
}

// A replyReservation is the memory that one reply holds, charged to a tenant's share of replyBytes.
type replyReservation struct {
	portion *tenant.Portion[org.ID]
	tenant  org.ID
	bytes   int64
}

// grow enlarges the reservation to n bytes in all, or refuses. It is charged to the tenant of the first call.
func (r *replyReservation) grow(who org.ID, n int64) error {
	if n <= r.bytes {
		return nil
	}
	if r.tenant.Zero() {
		r.tenant = who
	}
	had := r.bytes
	r.setSize(0)
	if n > smallReply && !r.portion.Take(r.tenant, n) {
		r.setSize(had)
		return fault.WithCode(fault.ResourceExhausted, "REPLY_BYTES_EXCEEDED", "too many large replies are under way: wait for some of them, or ask for less at a time")
	}
	if n <= smallReply {
		r.portion.Add(r.tenant, n)
	}
	r.bytes = n
	return nil
}

// setSize sets the reservation to n bytes.
func (r *replyReservation) setSize(n int64) {
	if r.bytes != n && !r.tenant.Zero() {
		r.portion.Add(r.tenant, n-r.bytes)
		r.bytes = n
	}
}
