//go:build !cloister_insecure

package restart_test

import (
	"fmt"
	"sync"
	"testing"

	"cloister/attestation/tlog"
)

// witnessedPerHistory is how many attacks of each kind are made on one history. The last of four histories is of bounded mode.
const witnessedPerHistory = 5

// TestWitnessedAttacks makes attacks that headers and tables cannot tell, since all of what the host shows is authentic.
func TestWitnessedAttacks(t *testing.T) {
	t.Parallel()
	n, each := *seeds, witnessedPerHistory
	if n == 0 {
		n = 20
	}
	var mu sync.Mutex
	made, followed, beyond := make([]int, len(witnessedKinds)), make([]int, len(witnessedKinds)), make([]int, len(witnessedKinds))
	for first := 0; first < n && !t.Failed(); first += witnessedPerHistory {
		seed := uint64(*from + first)
		mode := tlog.ModeStrict
		if seed/witnessedPerHistory%4 == 3 {
			mode = tlog.ModeBounded
		}
		t.Run(fmt.Sprintf("history %d %s", seed, mode), func(t *testing.T) {
			h := newWitnessed(t, seed, mode)
			t.Cleanup(h.remove)
			slots := make(chan struct{}, 4) // some of an attack is waiting for the disk
			for i := range witnessedKinds {
				k := &witnessedKinds[i]
				t.Run(k.name, func(t *testing.T) {
					t.Parallel()
					var ran sync.WaitGroup
					defer ran.Wait()
					for at := seed; at < seed+uint64(min(each, n-first)); at++ {
						slots <- struct{}{}
						ran.Go(func() {
							defer func() { <-slots }()
							w := h.attempt(t, sourceOf(at, k.name), k)
							if w.void {
								return
							}
							mu.Lock()
							defer mu.Unlock()
							made[i]++
							followed[i] += w.followed
							beyond[i] += w.beyond
							if !w.fine(k) {
								t.Errorf("seed %d, %s: wrong %q, not as planned %q, the model: %v", at, w.note, w.wrong, w.unlike, w.refused)
							}
						})
					}
				})
			}
		})
	}
	total, through := 0, 0
	for i, n := range made {
		through += followed[i]
		if total += n; n == 0 {
			t.Errorf("%s: no history has anything to attack", witnessedKinds[i].name)
		}
		t.Logf("%-50s %4d made, %4d logs followed by the model, %d beyond it", witnessedKinds[i].name, n, followed[i], beyond[i])
	}
	if through == 0 {
		t.Error("the model has followed none of what was recorded")
	}
	t.Logf("counted: %d attacks, %d logs of them followed by the model", total, through)
}
