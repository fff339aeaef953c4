//go:build cloister_insecure

package attestation

import "sync/atomic"

// TestOnlyAnyQuorum lets terms tolerate more faulty witnesses than their quorum can stand, in builds for tests that show
// what such terms lead to.
var TestOnlyAnyQuorum atomic.Bool

func anyQuorum() bool { return TestOnlyAnyQuorum.Load() }
