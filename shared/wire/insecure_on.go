//go:build cloister_insecure

package wire

import "sync/atomic"

// TestOnlyLenient takes frames of any size and encoding, in builds for tests
// that show what the bounds are for.
var TestOnlyLenient atomic.Bool

func lenient() bool { return TestOnlyLenient.Load() }
