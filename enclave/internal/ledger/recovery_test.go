package ledger_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// recoveryOf is what operators say who have looked at a store: it goes on from its head as the next generation.
func recoveryOf(s *memStore, lost uint64) *ledger.Recovery {
	tree := testonly.New(rfc6962.DefaultHasher)
	r := new(ledger.Recovery)
	for i := range s.batches {
		var h wire.BatchHeader
		if b := s.batches[i].Header; wire.Unmarshal(b[:len(b)-sha256.Size], &h) == nil {
			if h.Generation >= r.Generation {
				r.Generation, tree = h.Generation+1, testonly.New(rfc6962.DefaultHasher)
			}
			tree.AppendData(h.Leaf)
		}
	}
	r.Size, r.Root = tree.Size(), [32]byte(tree.Hash())
	r.Witnessed, r.Origin = r.Size+lost, fmt.Sprintf("log.example/%x/0/%d", deployment[:16], r.Generation-1)
	return r
}

// under is a boot under a recovery manifest.
func recovering(w *ledger.Terms, r *ledger.Recovery) func(*ledger.Config) {
	return func(c *ledger.Config) {
		witnessed(w)(c)
		c.Recover = r
	}
}

// lost is a deployment whose store lost what its witnesses have seen: two backups are left, an older and a newer one.
func lost(t testing.TB) (w *ledger.Terms, all []*seen, older, newer *memStore) {
	t.Helper()
	w, all = terms(t, tlog.ModeStrict)
	s := newStore()
	s.witnesses = all
	r := start(t, s, func(c *ledger.Config) { witnessed(w)(c); c.Limits.TableEvery = 16 })
	known(t, r, all)
	for i := range 40 {
		r.found(orgID(i))
	}
	r.tables(t, 1)
	r.user(orgID(1), 1, "older")
	older = s.copy().witnessedBy(all)
	r.user(orgID(1), 1, "newer")
	newer = s.copy().witnessedBy(all)
	for i := range 50 {
		r.user(orgID(i%40), 2, "lost")
	}
	r.quiet()
	r.l.Close()
	return w, all, older, newer
}

// Where a log stands still for good, operators have it go on from a backup, once.
func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all, older, newer := lost(t)
		if start(t, newer.copy().witnessedBy(all), witnessed(w)).l.Serving(soon(t, 4*w.Serve)) == nil {
			t.Fatal("a store that lost what witnesses have seen is served")
		}
		recovery := recoveryOf(newer, 50)
		s := newer.copy().witnessedBy(all)
		before := time.Now()
		r := start(t, s, recovering(w, recovery))
		known(t, r, all)
		must(t, r.l.Serving(ctx(t)))
		if took := time.Since(before); took < w.Serve {
			t.Errorf("serves after %v: whoever served the lost store may serve still", took)
		}
		if name := r.l.LogKey().Name(); !strings.HasSuffix(name, "/2") {
			t.Errorf("the log is %s", name)
		}
		r.mustRead(orgID(1), 1, "newer")
		floor := r.l.RecoveryWatermark()
		if ms := uint64(before.Add(5 * time.Minute).UnixMilli()); floor < ms || floor > ms+2*60_000 || (floor+1)%60_000 != 0 {
			t.Errorf("the floor is %d, recovered at %d", floor, before.UnixMilli())
		}
		if ms := uint64(before.UnixMilli()); r.l.RecoveredMs() < ms || r.l.RecoveredMs() > ms+60_000 {
			t.Errorf("recovered at %d, the log says at %d", ms, r.l.RecoveredMs())
		}
		at := r.l.RecoveredMs()
		if _, _, of := r.known(orgID(1), 1); of != floor || r.l.LastRecovery() != 2 {
			t.Errorf("an organization's floor is %d, not %d; recovered %d", of, floor, r.l.LastRecovery())
		}
		if of := adoptOf(t, s, 2); of.How != tlog.HowRecovered || of.Size != recovery.Size || of.Root != recovery.Root || of.Witnessed != recovery.Witnessed || of.Origin != recovery.Origin {
			t.Errorf("adopted %+v", of)
		}
		r.found(orgID(100))
		r.user(orgID(1), 1, "after")
		r.quiet()
		r.l.Close()

		// Later boots go on with it, whether their manifest says so still or not, and remember when it was.
		for i := range 3 {
			b := start(t, s, func(c *ledger.Config) {
				if recovering(w, recovery)(c); i == 2 {
					c.Recover = nil
				}
				often(c)
			})
			for n := range 40 {
				b.waitForCapacity(orgID(n))
				b.user(orgID(n), 3, fmt.Sprint("boot ", i))
			}
			b.waitForCapacity(orgID(1))
			b.mustRead(orgID(1), 1, "after")
			b.tables(t, 2)
			if b.l.RecoveryWatermark() != floor || b.l.LastRecovery() != 2 || b.l.RecoveredMs() != at {
				t.Errorf("boot %d: floor %d, recovered %d", i, b.l.RecoveryWatermark(), b.l.LastRecovery())
			}
			b.quiet()
			b.l.Close()
		}

		// The same again, from the same backup and from another, even with a manifest that says so.
		for what, again := range map[string]*memStore{"the same backup": newer, "another backup": older} {
			for _, of := range []*ledger.Recovery{recovery, recoveryOf(again, 60)} {
				c := again.copy().witnessedBy(all)
				e := unstarted(t, c, recovering(w, of))
				c.row.Released = true
				if e.l.Take(soon(t, time.Second), nil) == nil && e.l.Serving(soon(t, 4*w.Serve)) == nil {
					t.Errorf("recovered twice, from %s", what)
				}
			}
		}

		// It can be lost again, and recovered again.
		again := s.copy().witnessedBy(all)
		b := start(t, s, witnessed(w))
		b.user(orgID(1), 1, "lost again")
		b.l.Close()
		second := recoveryOf(again, 3)
		b = start(t, again, recovering(w, second))
		known(t, b, all)
		b.mustRead(orgID(1), 1, "after")
		b.user(orgID(1), 1, "third")
		if b.l.LastRecovery() != 3 || b.l.RecoveryWatermark() < floor || b.l.RecoveredMs() <= at {
			t.Errorf("recovered %d, floor %d", b.l.LastRecovery(), b.l.RecoveryWatermark())
		}
		b.quiet()
	})
}

// adoptOf is the first leaf of a generation in a store.
func adoptOf(t testing.TB, s *memStore, generation uint32) *tlog.Adopt {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.batches {
		var h wire.BatchHeader
		b := s.batches[i].Header
		must(t, wire.Unmarshal(b[:len(b)-sha256.Size], &h))
		if h.Generation == generation {
			l, err := tlog.ParseLeaf(h.Leaf)
			must(t, err)
			return l.Adopt
		}
	}
	t.Fatalf("there is no generation %d", generation)
	return nil
}

// A manifest takes exactly the head that it names.
func TestRecoveryOfAnotherHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all, older, newer := lost(t)
		for what, c := range map[string]struct {
			shown  *memStore
			change func(*ledger.Recovery)
		}{
			"an older store":       {older, func(*ledger.Recovery) {}},
			"no store":             {newStore(), func(*ledger.Recovery) {}},
			"fewer batches":        {newer, func(r *ledger.Recovery) { r.Size-- }},
			"more batches":         {newer, func(r *ledger.Recovery) { r.Size++ }},
			"another root":         {newer, func(r *ledger.Recovery) { r.Root[0]++ }},
			"a generation skipped": {newer, func(r *ledger.Recovery) { r.Generation++ }},
		} {
			r := *recoveryOf(newer, 50)
			c.change(&r)
			if code := refusal(t, c.shown.copy().witnessedBy(all), recovering(w, &r)); code != "RECOVERY_HEAD" {
				t.Errorf("%s: %s", what, code)
			}
		}
		cut := newer.copy().witnessedBy(all)
		cut.batches = cut.batches[:len(cut.batches)-1]
		if code := refusal(t, cut, recovering(w, recoveryOf(newer, 50))); code != "RECOVERY_HEAD" {
			t.Errorf("a log without its last leaf: %s", code)
		}
		hidden := newer.copy().witnessedBy(all)
		hidden.batches = append(hidden.batches[:len(hidden.batches)-2:len(hidden.batches)-2], hidden.batches[len(hidden.batches)-1])
		if code := refusal(t, hidden, recovering(w, recoveryOf(newer, 50))); code != "log" {
			t.Errorf("a log with a leaf left out: %s", code)
		}
	})
}

// A recovery goes to other witnesses where those before are gone for good, in no mode at least.
func TestRecoveryUnderOtherTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChange(t)
		s, r := c.served(t)
		r.l.Close()
		leaveAll(c.leaving, true)
		c.next.Mode = tlog.ModeBounded
		recovery := recoveryOf(s, 0) // nothing is lost
		recovery.Open = true
		b := start(t, s, func(cfg *ledger.Config) { c.under(cfg); cfg.Recover = recovery })
		known(t, b, c.joining)
		b.mustRead(orgID(1), 1, "before")
		b.user(orgID(1), 1, "after")
		if b.l.LastRecovery() != 0 || b.l.RecoveryWatermark() == 0 || b.l.RecoveredMs() == 0 {
			t.Errorf("organizations wait for %d, and their floor is %d", b.l.LastRecovery(), b.l.RecoveryWatermark())
		}
		b.quiet()
		// A manifest of witnesses that are for a later generation recovers none before.
		young := *c.next
		young.Generation = 3
		early := newStore()
		early.witnesses = c.all()
		other, _ := terms(t, tlog.ModeStrict)
		e := start(t, early, witnessed(other))
		e.l.Close()
		if code := refusal(t, early.copy().seenBy(c), recovering(&young, recoveryOf(early, 1))); code != "LOG_GENERATION" {
			t.Errorf("recovered for witnesses of a later generation: %s", code)
		}
	})
}

// Wherever a recovery breaks off, the next boot under its manifest goes on.
func TestRecoveryBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		for what, lie := range map[string]func() hooks{
			"nothing stored": func() hooks {
				return hooks{append: func(context.Context, *wire.Batch, func() wire.Stored) (wire.Stored, error) {
					return wire.Stored{}, away
				}}
			},
			"adopted": func() hooks {
				n := 0
				return hooks{append: func(_ context.Context, _ *wire.Batch, honest func() wire.Stored) (wire.Stored, error) {
					if n++; n == 1 {
						honest()
					}
					return wire.Stored{}, away
				}}
			},
			"table unknown": func() hooks {
				return hooks{tabled: func(_ context.Context, _ wire.PutTable, honest func() wire.Done) (wire.Done, error) {
					honest()
					return wire.Done{}, away
				}}
			},
			"table not taken": func() hooks {
				return hooks{tabled: func(context.Context, wire.PutTable, func() wire.Done) (wire.Done, error) { return wire.Done{}, away }}
			},
		} {
			w, all, _, s := lost(t)
			recovery := recoveryOf(s, 50)
			s.lie(lie())
			s.row.Released = true
			broken := unstarted(t, s, recovering(w, recovery))
			if err := broken.l.Take(soon(t, 300*time.Millisecond), nil); err == nil {
				t.Fatalf("%s: taken", what)
			}
			broken.l.Close()
			s.lie(hooks{})
			r := start(t, s, recovering(w, recovery))
			known(t, r, all)
			r.mustRead(orgID(1), 1, "newer")
			if _, err := r.step(orgID(1), &org.Entry{TimeMs: 1}, nil); err != nil || r.l.LastRecovery() != 2 || r.l.RecoveryWatermark() == 0 {
				t.Errorf("%s: recovered %d, floor %d: %v", what, r.l.LastRecovery(), r.l.RecoveryWatermark(), err)
			}
			r.quiet()
		}
	})
}

// Boots that are lost had numbers, which proofs of them tell. After a recovery no boot has one of these.
func TestRecoveryUsesNoBootNumberAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, all := terms(t, tlog.ModeStrict)
		s := newStore()
		s.witnesses = all
		boot := func(s *memStore, edit func(*ledger.Config)) (number uint64) {
			t.Helper()
			r := start(t, s, edit)
			known(t, r, all)
			must(t, r.l.Serving(ctx(t)))
			r.quiet()
			r.l.Close()
			return r.l.BootNumber()
		}
		if n := boot(s, witnessed(w)); n != 1 {
			t.Fatalf("the first boot has number %d", n)
		}
		backup := s.copy().witnessedBy(all)
		size, last := recoveryOf(s, 0).Size, uint64(0)
		for range 5 {
			last = boot(s, witnessed(w))
		}
		recovery := recoveryOf(backup, recoveryOf(s, 0).Size-size)
		began := boot(backup, recovering(w, recovery))
		if began <= last || began > 1+recovery.Witnessed-recovery.Size+1 {
			t.Errorf("number %d, and the lost boots had up to %d", began, last)
		}
		if n := boot(backup, func(c *ledger.Config) { recovering(w, recovery)(c); often(c) }); n != began+1 {
			t.Errorf("number %d after %d", n, began)
		}
		// A witness may say any size. No proof has a number that readers cannot count.
		most := recoveryOf(backup, 1<<53)
		if n := boot(backup, recovering(w, most)); n != 1<<52+1 {
			t.Errorf("number %d", n)
		}
		if n := boot(backup, recovering(w, recoveryOf(backup, 1<<53))); n != 1<<52+2 {
			t.Errorf("number %d", n)
		}
	})
}
