package clocktest

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen. It ends a test that hangs; nothing is measured by it.
const Patience = 5 * time.Minute

// Until waits until something has happened, which it asks once a millisecond; it ends the test that has waited for Patience
// on the machine's clock, or that has failed meanwhile, and says what it waited for. Only the test's goroutine may call it.
func Until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for begun := time.Now(); !happened(); time.Sleep(time.Millisecond) {
		if waited := time.Since(begun); t.Failed() || waited > Patience {
			t.Fatalf("not after %v: %s", waited.Round(time.Second), what)
		}
	}
}
