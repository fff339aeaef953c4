//go:build cloister_insecure

package hostile_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/core"
)

const insecureBuild = true

// tries is how often an attack is made until it succeeds. One that flips a bit
// by chance may need several: not every bit makes a record that still decodes.
const tries = 200

// TestWithoutChecks makes the attacks of the table against enclaves that leave
// out the checks named there. Each succeeds: what refuses it elsewhere is that
// check and nothing else. Attacks behind which something else stands are not
// made here.
func TestWithoutChecks(t *testing.T) {
	sealed := newGround(t)
	skip(t, []string{"name"}, true)
	nameless := newGround(t) // sealed under no names
	skip(t, []string{"name"}, false)
	t.Log("seed 1, 2; at most", tries, "tries of each attack")
	made, left := 0, 0
	for _, gr := range groups {
		for i := range gr.attacks {
			a := &gr.attacks[i]
			if len(a.off) == 0 {
				left++
				continue
			}
			made++
			t.Run(strings.ReplaceAll(gr.name+" "+a.name, " ", "_"), func(t *testing.T) {
				g := sealed
				if slices.Contains(a.off, "name") {
					g = nameless
				}
				skip(t, a.off, true)
				defer skip(t, a.off, false)
				succeeds(t, newField(t, g, gr.limits), a)
			})
		}
	}
	t.Logf("counted: %d attacks succeed without their checks, %d have something else behind them", made, left)
}

func succeeds(t *testing.T, f *field, a *attack) {
	r := rand.New(rand.NewPCG(1, 2))
	if a.prepare != nil {
		a.prepare(f)
	}
	var notes []string
	for i := range tries {
		v := f.victims[i%len(f.victims)]
		if !a.closed {
			f.good(v)
		}
		out := a.strike(f, v, r)
		if out.believed {
			t.Logf("believed at try %d: %s", i+1, out.note)
			return
		}
		notes = append(notes, out.note)
	}
	t.Errorf("never believed without %s: %q", strings.Join(a.off, ", "), notes[:min(len(notes), 5)])
}

// skip switches checks off or on again.
func skip(t *testing.T, names []string, off bool) {
	for _, n := range names {
		if !core.TestOnlySkip(n, off) {
			t.Fatalf("there is no check %q", n)
		}
	}
}
