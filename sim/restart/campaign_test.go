//go:build !cloister_insecure

package restart_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	seeds = flag.Int("seeds", 0, "attacks of each kind, and a tenth as many after a release; 0: 20 and 5, with -short 20 and 2")
	from  = flag.Int("from", 0, "the first seed, a multiple of 10")
)

// perHistory is how many attacks of each kind are made on one history.
const perHistory = 10

// An outcome counts what came of the attacks of one kind.
type outcome struct {
	made                    int
	away                    int // the boot did not come up
	served, refused, absent int // organizations
	alarms                  map[string]int
}

// TestAttacks makes attacks of every kind on deployments that were made with a log.
func TestAttacks(t *testing.T) {
	n := *seeds
	if n == 0 {
		n = 20
	}
	attackAll(t, n, false)
}

// TestAttacksAfterRelease makes them where the log began with what a release before logs had left.
func TestAttacksAfterRelease(t *testing.T) {
	n := *seeds / 10
	if n == 0 {
		n = 5
	}
	attackAll(t, n, true)
}

func attackAll(t *testing.T, n int, release bool) {
	t.Parallel()
	each := perHistory
	if testing.Short() && release {
		each = 2
	}
	var mu sync.Mutex
	outcomes := make([]outcome, len(kinds))
	for first := 0; first < n && !t.Failed(); first += perHistory {
		seed := uint64(*from + first)
		t.Run(fmt.Sprintf("history %d", seed), func(t *testing.T) {
			h := newHistory(seed, release)
			h.abroad()
			t.Cleanup(h.remove)
			for i := range kinds {
				k, o := &kinds[i], &outcomes[i]
				if k.logged && release {
					continue
				}
				t.Run(k.name, func(t *testing.T) {
					t.Parallel()
					var ran sync.WaitGroup
					defer ran.Wait()
					slots := make(chan struct{}, 2) // most of a boot is waiting for the disk
					for at := seed; at < seed+uint64(min(each, n-first)); at++ {
						slots <- struct{}{}
						ran.Go(func() {
							defer func() { <-slots }()
							r := sourceOf(at, k.name)
							p := h.planned(r, k)
							if p == nil {
								return
							}
							v := h.play(r, p)
							mu.Lock()
							defer mu.Unlock()
							o.count(v)
							if !v.fine() {
								t.Errorf("seed %d, %s, %s: wrong %q, not as planned %q, alarms %v", at, filepath.Base(p.shot.file), p.note, v.wrong, v.unlike, v.alarms)
							}
						})
					}
				})
			}
		})
	}
	total := 0
	for i, o := range outcomes {
		if total += o.made; o.made == 0 {
			if !kinds[i].logged || !release {
				t.Errorf("%s: no history has anything to attack", kinds[i].name)
			}
			continue
		}
		t.Logf("%-48s %4d made, %3d boots refused; organizations: %5d served, %5d refused, %4d not there; alarms %s", kinds[i].name, o.made, o.away, o.served, o.refused, o.absent,
			strings.TrimPrefix(fmt.Sprint(o.alarms), "map"))
	}
	t.Logf("counted: %d attacks", total)
}

// planned draws until there is something to attack.
func (h *history) planned(r *rand.Rand, k *kind) *plan {
	for range 30 {
		if p := k.plan(h, r); p != nil {
			return p
		}
	}
	return nil
}

func (o *outcome) count(v *verdict) {
	o.made++
	if !v.comes {
		o.away++
	}
	o.served, o.refused, o.absent = o.served+v.served, o.refused+v.refused, o.absent+v.absent
	if o.alarms == nil {
		o.alarms = map[string]int{}
	}
	for name := range v.alarms {
		o.alarms[name]++
	}
}
