//go:build cloister_insecure

package restart_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"cloister/enclave/core"
)

// tries is how often an attack is made until it succeeds, on each of so many histories: not every one that is drawn is of an organization
// that a run asks for.
const (
	tries     = 30
	histories = 5
)

// TestWithoutChecks makes the attacks that name a check against enclaves that leave it out. Each succeeds: what
// refuses it elsewhere is that check and nothing else.
func TestWithoutChecks(t *testing.T) {
	var all []*history // not every one has something for every kind: ids are random
	for i := range kinds {
		k := &kinds[i]
		if len(k.off) == 0 {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			for n := range histories {
				if n == len(all) {
					all = append(all, newHistory(uint64(n), false))
					all[n].abroad()
				}
				if all[n].succeeds(t, k) {
					return
				}
			}
			t.Errorf("never believed without %s", strings.Join(k.off, ", "))
		})
	}
	for _, h := range all {
		h.remove()
	}
}

// succeeds tells whether there was an attack that did.
func (h *history) succeeds(t *testing.T, k *kind) bool {
	skip := func(off bool) {
		for _, name := range k.off {
			if !core.TestOnlySkip(name, off) {
				t.Fatalf("there is no check %q", name)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range tries {
		p := k.plan(h, r)
		if p == nil {
			continue
		}
		skip(true)
		v := h.boot(r, p)
		skip(false)
		if len(v.untrue) > 0 {
			t.Logf("counted: believed without %s: %q", strings.Join(k.off, ", "), v.untrue)
			if v := h.boot(r, p); !v.fine() {
				t.Errorf("with it: wrong %q, not as planned %q", v.wrong, v.unlike)
			}
			return true
		}
	}
	return false
}
