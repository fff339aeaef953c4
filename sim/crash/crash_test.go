package crash_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	flagKills = flag.Int("kills", 0, "kills in all, for a long run (go test -timeout 0); 0: as many as the regular test has")
	flagSeed  = flag.Uint64("seed", 0, "seed of the campaign; 0: another one each time")
)

// shortLease makes an enclave ready sooner after one that was killed, so that
// more kills fit into the time of a test.
const shortLease = "500ms"

// share is how many kills a campaign has: those of the regular test, few of them
// with -short, or its part of a long run.
func share(regular, perMille int) int {
	if *flagKills > 0 {
		return max(1, *flagKills*perMille/1000)
	}
	if testing.Short() {
		return max(1, regular/10)
	}
	return regular
}

func seed(t *testing.T) uint64 {
	s := *flagSeed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("seed %d", s)
	return s
}

// think is how long clients pause at most; in a long run longer, or reading all
// of it back would take as long as the run.
func think() time.Duration {
	if *flagKills > 0 {
		return 60 * time.Millisecond
	}
	return 20 * time.Millisecond
}

func crash(t *testing.T, s setting, n int, choices ...victims) *campaign {
	t.Helper()
	at := seed(t)
	k := newCampaign(newWorld(t, s), at, think())
	fail(t, k.world, k.run(at, blows(n, k.rng, choices...)))
	return k
}

// atLeast requires that every phase was struck as often as asked.
func (k *campaign) atLeast(n int) {
	k.t.Helper()
	for p := range storing {
		have := 0
		for b, m := range k.count {
			if b.phase == p {
				have += m
			}
		}
		if have < n {
			k.t.Errorf("%d kills in phase %v, want %d", have, p, n)
		}
	}
}

func TestCrashSQLite(t *testing.T) {
	n := share(60, 650)
	k := crash(t, setting{programs: build(t, ""), lease: shortLease, snapshots: true}, n, killHost, killEnclave, killHost|killEnclave)
	k.atLeast(n / 6)
}

func TestCrashPostgreSQL(t *testing.T) {
	n := share(18, 300)
	k := crash(t, setting{programs: build(t, ""), postgres: true, lease: shortLease, snapshots: true}, n,
		killPostgres, killHost, killEnclave, killHost|killEnclave|killPostgres)
	k.atLeast(n / 6)
}

// TestCrashDefaults measures the time to ready as a user has it.
func TestCrashDefaults(t *testing.T) {
	crash(t, setting{programs: build(t, "")}, share(6, 50), killEnclave, killHost|killEnclave, killHost)
}

// TestEarlyReleaseIsFound runs the same campaign against an enclave that lets
// replies go before their batch is stored: then acknowledged activities are
// lost, and the oracle must say so.
func TestEarlyReleaseIsFound(t *testing.T) {
	at := seed(t)
	for name, flags := range map[string][]string{"released early": {"-insecure-test-skip", "release"}, "control": nil} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			w := newWorld(t, setting{programs: build(t, "cloister_insecure"), lease: shortLease, enclave: flags})
			k := newCampaign(w, at, think())
			tries := 3
			if flags != nil { // until more replies come out than can be to batches before
				tries = 100
				k.linger = func() bool {
					before := k.acked.Load()
					for range 100 { // by then the enclave has no lease
						if k.acked.Load() > before+clients {
							return true
						}
						time.Sleep(5 * time.Millisecond)
					}
					return false
				}
			}
			wrong := k.run(at, slices.Repeat([]blow{{sent, killEnclave | killHost}}, tries))
			if flags == nil {
				fail(t, w, wrong)
				return
			}
			lost := 0
			for _, s := range wrong {
				if strings.HasPrefix(s, "acknowledged activity lost") {
					lost++
				}
			}
			t.Logf("counted: with early release the oracle found %d things wrong, %d of them losses", len(wrong), lost)
			if lost == 0 {
				t.Errorf("early release of replies was not noticed: %q", wrong)
			}
		})
	}
}
