package core

import (
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

const (
	// replyBytes is how much memory may be taken by replies that are being made, wait to be
	// stored, or wait for the host to take them.
	replyBytes = 256 << 20
	// smallReply is counted but never refused: a connection's own bounds limit those.
	smallReply = 64 << 10
	// maxList is about how long a list may be; see query.Answer.
	maxList = 7 << 20
)

// Kinds that decode data for policies reserve memory for what is decoded, up to 16 bytes for each byte of the
// data, which a body writes with two digits. What is in a small body is not counted.
const (
	decodedOfBody = 16 / 2
	smallBody     = 8 << 10
)

// decodedBytes is how much memory is reserved for what is decoded of a body of n bytes of a version; v is nil
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

// grow enlarges the reservation to n bytes in all, or refuses. The first tenant that it is called with pays.
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
