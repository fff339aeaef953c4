package ledger_test

import (
	"crypto/sha256"
	"testing"
	"testing/synctest"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/ledger"
	"cloister/shared/wire"
)

func drilling(c *ledger.Config) { c.Drill = true }

// A drill works on a copy with all that is in it. No witness hears of it, no other enclave believes what it wrote, and the one
// that serves is not hindered.
func TestDrill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeStrict)
		s := newStore()
		s.witnesses = all
		r := start(t, s, func(c *ledger.Config) { witnessed(w)(c); c.Limits.TableEvery = 16 })
		known(t, r, all)
		for i := range 40 {
			r.found(orgID(i))
		}
		r.user(orgID(1), 1, "kept")
		r.tables(t, 1)
		backup := s.copy() // as new as can be
		lies := 0
		for name, c := range map[string]*memStore{"a copy": backup.copy().witnessedBy(all), "a copy without its table": backup.copy().witnessedBy(all)} {
			if lies++; lies == 2 {
				c.table, c.pages = nil, nil
			}
			d := start(t, c, func(c *ledger.Config) { drilling(c); often(c) })
			for i := range 40 {
				d.waitForCapacity(orgID(i))
				d.user(orgID(i), 2, "drilled")
			}
			d.waitForCapacity(orgID(1))
			d.mustRead(orgID(1), 1, "kept")
			d.tables(t, 2)
			d.quiet()
			d.l.Close()
			again := start(t, c.copy(), drilling)
			again.mustRead(orgID(39), 2, "drilled")
			again.l.Close()
			for what, edit := range map[string]func(*ledger.Config){"witnesses": witnessed(w), "none": nil} {
				if code := refusal(t, c.copy().witnessedBy(all), edit); code != "LOG_DRILLED" {
					t.Errorf("%s: a drilled one is served with %s: %s", name, what, code)
				}
			}
			// What the drill wrote behind what there was is nothing to an enclave that serves.
			joined := backup.copy().witnessedBy(all)
			joined.batches = append(joined.batches, c.batches[len(joined.batches):]...)
			if code := refusal(t, joined, witnessed(w)); code != "log" {
				t.Errorf("%s: what a drill wrote is believed: %s", name, code)
			}
			for _, b := range c.batches[len(backup.batches):] {
				var h wire.BatchHeader
				must(t, wire.Unmarshal(b.Header[:len(b.Header)-sha256.Size], &h))
				if h.Generation < 1<<31 {
					t.Fatalf("%s: a drill writes into generation %d", name, h.Generation)
				}
			}
		}
		for _, w := range all {
			for origin := range w.sizes {
				if origin != r.l.LogKey().Name() {
					t.Errorf("a witness has heard of %s", origin)
				}
			}
		}
		r.user(orgID(1), 1, "served on")
		r.quiet()
		if code := refusal(t, newStore(), drilling); code != "LOG_DRILLED" {
			t.Errorf("a drill of nothing: %s", code)
		}
	})
}
