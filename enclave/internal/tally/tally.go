// Package tally counts the dear operations of the process since it started: what an
// operator divides by requests, and what a test holds against a budget (sim/budget).
// Counting is one atomic addition; nothing in the enclave is decided by it.
package tally

import "sync/atomic"

// The counts. They tell how often, never with what.
var (
	AEADSeals          atomic.Uint64 // by authenticated encryption
	AEADOpens          atomic.Uint64 // those that failed too
	SignaturesMade     atomic.Uint64
	SignaturesVerified atomic.Uint64 // those that did not verify too
	Erasures           atomic.Uint64 // calls of erase.Do
)

// Counts are all of them by name.
func Counts() map[string]uint64 {
	return map[string]uint64{
		"aead_seals": AEADSeals.Load(), "aead_opens": AEADOpens.Load(),
		"signatures_made": SignaturesMade.Load(), "signatures_verified": SignaturesVerified.Load(),
		"erasures": Erasures.Load(),
	}
}
