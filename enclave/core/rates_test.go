package core_test

import (
	"fmt"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/sim/rig"
)

// Whoever loops is refused, at one instant: the production enclave has rates though
// nobody sets any, and a simulator has none.
func TestProductionHasRates(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	passes := func(c *core.Core, id org.ID, sub bool, key func(int) string) (n int) {
		for ; n < 50_000; n++ {
			err := c.Take(id, sub, key(n), now)
			if f := fault.Of(err); f != nil && f.Name == "RATE_LIMIT_EXCEEDED" && f.Code == fault.ResourceExhausted {
				return n
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	one := func(int) string { return "key" }
	many := func(n int) string { return fmt.Sprint(n) }
	for _, x := range []struct {
		name           string
		simulator, sub bool
		key            func(int) string
		want           int
	}{
		{"one key", false, false, one, 15_000},
		{"many keys of one tenant", false, false, many, 30_000},
		{"a sub-organization", false, true, many, 1_200},
		{"a simulator", true, false, one, 50_000},
	} {
		c := core.New(core.Config{Simulator: x.simulator})
		if n := passes(c, org.ID{1}, x.sub, x.key); n != x.want {
			t.Errorf("%s: %d requests at once, want %d", x.name, n, x.want)
		}
		if err := c.Take(org.ID{2}, x.sub, "key", now); err != nil {
			t.Errorf("%s: another organization: %v", x.name, err)
		}
	}
}

// What a request to a sub-organization then wants of the parent stands in the
// sub-organization's line there.
func TestCallWaitsForWhomItIsAbout(t *testing.T) {
	r := rig.Start(t, rig.Options{})
	first, err := org.ParseID(r.Credentials.OrganizationID)
	if err != nil {
		t.Fatal(err)
	}
	if by, err := r.Enclave.OnBehalf(t.Context(), first, org.ID{1}); err != nil || by != first {
		t.Error(by, err)
	}
}
