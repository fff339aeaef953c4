package collector_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"cloister/shared/collector"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		spare, live uint64
		want        int
	}{
		{24 * mib, 0, 1000}, {24 * mib, mib, 1000}, {24 * mib, 12 * mib, 199}, {24 * mib, 24 * mib, 100}, {24 * mib, 1024 * mib, 100}, {0, mib, 100},
	} {
		if got := collector.Percent(c.spare, c.live); got < c.want-1 || got > c.want+1 {
			t.Errorf("%d spare, %d live: %d %%, want %d", c.spare, c.live, got, c.want)
		}
	}
}

func TestSpareFollowsTheHeap(t *testing.T) {
	defer debug.SetGCPercent(100)
	collector.Spare(16 << 20)
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	for _, keep := range []int{0, 64 << 20, 0} {
		kept := make([]byte, keep)
		for i := 0; i < len(kept); i += 4096 {
			kept[i] = 1
		}
		settled := false
		for range 200 { // finalizers run some time after a collection
			runtime.GC()
			runtime.Gosched()
			if p := percent(); (keep > 0) == (p == 100) {
				settled = true
				break
			}
		}
		if !settled {
			t.Errorf("with %d bytes kept the percentage stays at %d", keep, percent())
		}
		runtime.KeepAlive(kept)
	}
}

func TestLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	limit := collector.Limit()
	if got := debug.SetMemoryLimit(-1); got != limit || limit < 64<<20 || limit > 1<<50 {
		t.Errorf("the limit is %d, and that of the machine %d", got, limit)
	}
}
