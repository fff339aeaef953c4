package tenant_test

import (
	"slices"
	"testing"

	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/org"
)

// Tenants that take all they can, one after another, of sixty-four places.
func TestPortions(t *testing.T) {
	p := tenant.NewPortion[org.ID](64)
	greedy := func(n byte) (has int64) {
		for p.Take(org.ID{n}, 1) {
			has++
		}
		return has
	}
	var got []int64
	for n := range byte(16) {
		got = append(got, greedy(n))
	}
	if want := []int64{7, 6, 5, 5, 4, 4, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("sixteen have %v, want %v", got, want)
	}
	for n := byte(100); n < 113; n++ { // who has none is given some
		if !p.Take(org.ID{n}, 1) {
			t.Errorf("tenant %d is given nothing", n)
		}
	}
	if p.Take(org.ID{200}, 1) || p.Given() != 64 {
		t.Errorf("%d of 64 are given away", p.Given())
	}
	p.Add(org.ID{0}, -7)
	if n := greedy(200); n != 1 {
		t.Errorf("of seven that are left one tenant takes %d", n)
	}
	if p.Take(org.ID{201}, 7) || !p.Take(org.ID{201}, 6) || p.Given() != 64 {
		t.Error("who has none is given what is left, and no more")
	}
}
