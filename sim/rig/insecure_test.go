//go:build cloister_insecure

package rig_test

import (
	"testing"
	"time"

	"cloister/enclave/core"
)

// TestWithoutQuorum runs the clients of TestWitnessLoss against an enclave whose replies wait for nobody: it must be seen.
func TestWithoutQuorum(t *testing.T) {
	for name, off := range map[string]bool{"without the check": true, "control": false} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t, strictLoss)
			defer l.end()
			l.back("with four")
			if !core.TestOnlySkip("quorum", off) {
				t.Fatal("there is no such check")
			}
			defer core.TestOnlySkip("quorum", false)
			for _, f := range l.fronts {
				f.Slow.Store(int64(20 * time.Millisecond))
			}
			for range 5 * lossClients {
				l.back("by slow witnesses")
			}
			l.end()
			core.TestOnlySkip("quorum", false)
			early := l.early()
			if off != (len(early) > 0) {
				t.Errorf("%d of %d replies left too early: %q", len(early), len(l.all), early)
			}
			t.Logf("counted: %s, %d of %d replies left before a quorum had cosigned them", name, len(early), len(l.all))
		})
	}
}
