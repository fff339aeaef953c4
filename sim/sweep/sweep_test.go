package sweep_test

import (
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/shared/wire"
)

// lease is short, so that the boot behind one that could not give the store
// back need not wait long.
const lease = 400 * time.Millisecond

func parseID(t testing.TB, text string) wire.ID {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != 16 {
		t.Fatalf("%q is no id", text)
	}
	return wire.ID(b)
}

// points are all failures of a scenario that makes these calls.
func points(calls map[string]int) []point {
	var ps []point
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		ms := []mode{before}
		switch {
		case strings.HasPrefix(name, "frame "):
			ms = []mode{before, half, after}
		case writes(name):
			ms = []mode{before, after}
		}
		for n := range calls[name] {
			for _, m := range ms {
				ps = append(ps, point{name, n + 1, m})
			}
		}
	}
	return ps
}

func TestEveryCallFailsOnce(t *testing.T) {
	began := time.Now()
	calm := runScript(t, point{})
	if calm.boots != 2 {
		t.Fatalf("%d boots without a failure, want 2", calm.boots)
	}
	alone := time.Since(began)
	// The lease is renewed by the clock, so how often is not the scenario's.
	calm.f.calls["store own renew"] = 2
	// Nor is whether somebody stops waiting for an answer.
	delete(calm.f.calls, "frame cancel")
	ps := points(calm.f.calls)
	if testing.Short() {
		all := ps
		ps = nil
		for i := 0; i < len(all); i += 7 {
			ps = append(ps, all[i])
		}
	}
	struck, boots := sweep(t, ps)
	total := map[bool]int{}
	for _, name := range slices.Sorted(maps.Keys(calm.f.calls)) {
		n := calm.f.calls[name]
		total[strings.HasPrefix(name, "frame ")] += n
		for m := range mode(len(modes)) {
			p := point{name: name, mode: m}
			if struck[p] > 0 {
				t.Logf("counted: %s, %s: %d of %d", name, modes[m], struck[p], n)
			}
		}
	}
	n := 0
	for _, k := range struck {
		n += k
	}
	t.Logf("counted: %d store calls and %d frames in an undisturbed run of %.2f s; %d runs, %d failures injected, one in each, %d boots, %.0f s",
		total[false], total[true], alone.Seconds(), len(ps), n, boots, time.Since(began).Seconds())
	for _, p := range ps {
		// A run makes some calls once more or less often by the clock; the first of each name it always makes.
		if p.n == 1 && struck[point{name: p.name, mode: p.mode}] == 0 {
			t.Errorf("nothing failed at %v", p)
		}
	}
}

// sweep runs the scenario once for each point and counts the failures by name
// and mode, and the boots that it took.
func sweep(t *testing.T, ps []point) (struck map[point]int, boots int) {
	struck = map[point]int{}
	var mu sync.Mutex
	next := 0
	take := func() (p point, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(ps) || t.Failed() {
			return p, false
		}
		next++
		return ps[next-1], true
	}
	var work sync.WaitGroup
	for range 6 { // most of a run is waiting
		work.Go(func() {
			for p, ok := take(); ok; p, ok = take() {
				t.Run(p.String(), func(t *testing.T) {
					s := runScript(t, p)
					mu.Lock()
					defer mu.Unlock()
					boots += s.boots
					if s.f.hit() {
						p.n = 0
						struck[p]++
					}
				})
			}
		})
	}
	work.Wait()
	return struck, boots
}
