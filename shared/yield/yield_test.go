package yield_test

import (
	"testing"

	"cloister/shared/yield"
)

// It comes back, and costs no more than looking: it stands in the loops of every long decision.
func TestThread(t *testing.T) {
	if n := testing.AllocsPerRun(100, yield.Thread); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkThread(b *testing.B) {
	for b.Loop() {
		yield.Thread()
	}
}
