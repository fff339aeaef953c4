//go:build cloister_insecure

package linear_test

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"cloister/enclave/core"
	"cloister/sim/rig"
)

// With replies released before they are stored, the same histories are not
// linearizable: what a client was told is gone after a loss.
func TestEarlyReplies(t *testing.T) {
	core.TestOnlySkip("release", true)
	t.Cleanup(func() { core.TestOnlySkip("release", false) })
	const tries = 8
	for i := range tries {
		w := newWorld(t, rig.Options{Limits: core.Limits{Lease: 300 * time.Millisecond}})
		history, err := acrossLosses(t, w, 5, 60)
		if err != nil { // an answer that no model has, such as a wallet that is gone
			t.Logf("counted: early replies noticed in try %d of %d: %v", i+1, tries, err)
			return
		}
		if porcupine.CheckOperationsTimeout(model, history, 2*time.Minute) == porcupine.Illegal {
			t.Logf("counted: early replies noticed in try %d of %d: not linearizable", i+1, tries)
			return
		}
	}
	t.Fatal("replies released too early were never noticed")
}
