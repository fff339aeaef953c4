package core_test

import (
	"fmt"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/shared/clocktest"
	"cloister/sim/rig"
)

// Whoever loops is refused, at one instant: the production enclave has rates though
// nobody sets any, and a simulator has none.
func TestProductionHasRates(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	passes := func(c *core.Core, o *org.Organization, key func(int) string) (n int) {
		for ; n < 50_000; n++ {
			err := c.Take(o, key(n), now)
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
	top, other := &org.Organization{ID: org.ID{1}}, &org.Organization{ID: org.ID{2}}
	sub, sister := &org.Organization{ID: org.ID{3}, Parent: top.ID}, &org.Organization{ID: org.ID{4}, Parent: top.ID}
	for _, x := range []struct {
		name      string
		simulator bool
		of        *org.Organization
		key       func(int) string
		want      int
		apart     *org.Organization // which is not refused for that
	}{
		{"one key", false, top, one, 2_500, other},
		{"many keys of one tenant", false, top, many, 5_000, other},
		{"a sub-organization", false, sub, many, 200, sister},
		{"a simulator", true, top, one, 50_000, other},
	} {
		c := core.New(core.Config{Clock: clocktest.At(now), Simulator: x.simulator})
		if n := passes(c, x.of, x.key); n != x.want {
			t.Errorf("%s: %d requests at once, want %d", x.name, n, x.want)
		}
		if err := c.Take(x.apart, "key", now); err != nil {
			t.Errorf("%s: another organization: %v", x.name, err)
		}
	}
	// Those that it has made share what a tenant has.
	c := core.New(core.Config{Clock: clocktest.At(now)})
	for n := range byte(10) {
		if got := passes(c, &org.Organization{ID: org.ID{9, n}, Payer: top.ID}, many); (got == 5_000) != (n == 0) || got > 0 && n > 0 {
			t.Errorf("organization %d that another made: %d requests", n, got)
		}
	}
	if got := passes(c, top, many); got != 0 {
		t.Errorf("their maker: %d requests", got)
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
