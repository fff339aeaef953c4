//go:build !cloister_insecure

package hostile_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

const insecureBuild = false

// strikes is how often each attack is made, each time on another victim in
// another way. -short, as under the race detector, makes do with fewer.
var strikes = 50

// seed makes the attacks; what the enclave draws is its own.
const seed = 0x1057

func sourceOf(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// TestCampaign makes every attack of the table on a running enclave. Each is
// refused and counted under its own alarm and no other, while another
// organization is served, and the next good call on the victim tells the truth.
func TestCampaign(t *testing.T) {
	if testing.Short() {
		strikes = 10
	}
	g := newGround(t)
	t.Logf("seed %#x, %d strikes of each attack", seed, strikes)
	var mu sync.Mutex
	kinds, total := 0, 0
	counters := map[string]uint64{}
	t.Run("groups", func(t *testing.T) {
		for _, gr := range groups {
			t.Run(gr.name, func(t *testing.T) {
				t.Parallel()
				f := newField(t, g, gr.limits)
				for i := range gr.attacks {
					a := &gr.attacks[i]
					n := f.campaign(t, a)
					mu.Lock()
					kinds, total = kinds+1, total+strikes
					counters[a.counter] += n
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("counted: %d attacks, %d strikes, by counter %s (none: refused by status)", kinds, total, strings.Replace(fmt.Sprint(counters), "map[:", "map[none:", 1))
}

// campaign makes all strikes of one attack and returns how much its counter rose,
// or the strikes if it has none.
func (f *field) campaign(t *testing.T, a *attack) (counted uint64) {
	r := sourceOf(a.name)
	if a.prepare != nil {
		a.prepare(f)
	}
	for i := range strikes {
		v := f.victims[i%len(f.victims)]
		before := f.alarms()
		out := a.strike(f, v, r)
		after := out.after
		if out.before != nil {
			before = out.before
		} else {
			after = f.risen(a.counter, before)
		}
		counted += after[a.counter] - before[a.counter]
		if !out.refused || out.believed {
			t.Errorf("%s, strike %d: not refused: %s", a.name, i, out.note)
		}
		if a.counter != "" && after[a.counter] == before[a.counter] {
			t.Errorf("%s, strike %d: %s did not rise: %s", a.name, i, a.counter, out.note)
		}
		for k, n := range after {
			if strings.HasPrefix(k, "alarm_") && k != a.counter && n != before[k] {
				t.Errorf("%s, strike %d: %s rose, not %s", a.name, i, k, a.counter)
			}
		}
		f.good(v)
		if t.Failed() {
			t.FailNow()
		}
	}
	if a.counter == "" {
		counted = uint64(strikes)
	}
	t.Logf("%-52s %-22s %-18s %3d refused, counter +%d; %s", a.name, a.touches, a.counter, strikes, counted, a.describe())
	return counted
}
