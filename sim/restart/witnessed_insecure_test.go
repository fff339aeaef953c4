//go:build cloister_insecure

package restart_test

import (
	"errors"
	"slices"
	"testing"

	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/sim/logmodel"
)

// modelled are the checks that are one rule of the model. The right to serve is none of its rules: all others are about it. Of its
// rules TestWithoutChecks leaves out that for MACs, and that for what is known is a verifier's.
var modelled = map[string]logmodel.Rule{
	"quorum": logmodel.LoggedFirst, "bootwait": logmodel.BootWait, "closed": logmodel.Closed, "generation": logmodel.Generation, "recovered": logmodel.Recovered,
	"policy": logmodel.Quorum, "stored": logmodel.StoredFirst, "sent": logmodel.SentRight, "closewait": logmodel.CloseRight,
}

// TestWithoutWitnesses makes the attacks that name a check of the right to serve against enclaves that leave it out: each
// succeeds, and does not with the check.
func TestWithoutWitnesses(t *testing.T) {
	h := newWitnessed(t, 1, tlog.ModeStrict)
	t.Cleanup(h.remove)
	for i := range witnessedKinds {
		k := &witnessedKinds[i]
		if k.off == "" {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			attempt := func(seed uint64, off bool) *attempt {
				if !core.TestOnlySkip(k.off, off) {
					t.Fatalf("there is no check %q", k.off)
				}
				defer core.TestOnlySkip(k.off, false)
				return h.attempt(t, sourceOf(seed, k.name), k)
			}
			for seed := range uint64(tries) {
				w := attempt(seed, true)
				if w.void || len(w.wrong) == 0 {
					continue
				}
				t.Logf("counted: succeeded without %s, %s: %q; the model: %v", k.off, w.note, w.wrong, w.refused)
				if w.refused == nil && w.beyond == 0 {
					t.Errorf("the model allows it")
				}
				if rule, is := modelled[k.off]; is {
					_, _, err := w.sit.record.follow(rule)
					t.Logf("the model without %v: %v", rule, err)
					if refusal, refused := errors.AsType[*logmodel.Refusal](err); refused && refusal.Promise == "" {
						t.Errorf("it is not for that rule that the model refuses it")
					}
				}
				if w := attempt(seed, false); !w.fine(k) {
					t.Errorf("with it: wrong %q, not as planned %q, the model: %v", w.wrong, w.unlike, w.refused)
				}
				return
			}
			t.Errorf("never succeeded without %s", k.off)
		})
	}
	for rule := logmodel.Quorum; rule <= logmodel.Known; rule <<= 1 {
		attacked := slices.ContainsFunc(witnessedKinds, func(k witnessedKind) bool { return modelled[k.off] == rule })
		if !attacked && rule != logmodel.MAC && rule != logmodel.Known {
			t.Errorf("no attack is made without %v", rule)
		}
	}
}
