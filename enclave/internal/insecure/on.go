//go:build cloister_insecure

package insecure

import "sync/atomic"

var off [checks]atomic.Bool

// Skip tells whether a test has switched c off.
func Skip(c Check) bool { return off[c].Load() }

// TestOnlySkip switches a check off or on again, by its name. It exists only
// in builds for tests that show what the check is for.
func TestOnlySkip(name string, skip bool) bool {
	for i, n := range names {
		if n == name {
			off[i].Store(skip)
			return true
		}
	}
	return false
}
