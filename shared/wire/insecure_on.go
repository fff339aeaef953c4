//go:build cloister_insecure

package wire

import "sync/atomic"

// TestOnlyLenient turns off the limits on questions' sizes and on encodings, in builds
// for tests that show what the limits prevent.
var TestOnlyLenient atomic.Bool

func lenient() bool { return TestOnlyLenient.Load() }
