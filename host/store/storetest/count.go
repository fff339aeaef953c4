package storetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"cloister/host/store"
	"cloister/shared/wire"
)

// naiveCounts answers a CountActivities from the whole ledger.
func naiveCounts(ledger []wire.Entry, timesMs []uint64) map[[2]string][]uint64 {
	seen := map[wire.ID]bool{}
	got := map[[2]string][]uint64{}
	for _, e := range slices.Backward(ledger) {
		if e.Activity == (wire.ID{}) || seen[e.Activity] {
			continue
		}
		seen[e.Activity] = true
		for i := range timesMs[1:] {
			if e.TimeMs >= timesMs[i] && e.TimeMs < timesMs[i+1] {
				k := [2]string{e.Type, string(rune('0' + e.Status))}
				if got[k] == nil {
					got[k] = make([]uint64, len(timesMs)-1)
				}
				got[k][i]++
			}
		}
	}
	return got
}

func testCount(t *testing.T, open Opener) {
	s, _ := open(t)
	w := newWriter(t, s)
	r := rand.New(rand.NewPCG(7, 7))
	x, y := id(1), id(2)
	ms := map[wire.ID]uint64{}
	for len(w.ledgers[x]) < 300 || len(w.ledgers[y]) < 30 {
		org := x
		if r.IntN(10) == 0 {
			org = y
		}
		e := step(w, r, org, 100)
		ms[org] += r.Uint64N(4) // several entries of the same millisecond, too
		e.TimeMs = ms[org]
		w.store(e)
	}
	for range 300 {
		org := x
		if r.IntN(4) == 0 {
			org = y
		}
		times := make([]uint64, 2+r.IntN(12))
		for i := range times {
			times[i] = r.Uint64N(ms[org] + 20)
		}
		slices.Sort(times)
		if times = slices.Compact(times); len(times) < 2 {
			continue
		}
		want := naiveCounts(w.ledgers[org], times)
		got := must(s.CountActivities(t.Context(), wire.CountActivities{Organization: org, TimesMs: times}))(t)
		if len(got.Rows) != len(want) {
			t.Fatalf("%v: %d rows, want %d", times, len(got.Rows), len(want))
		}
		for _, row := range got.Rows {
			if k := [2]string{row.Type, string(rune('0' + row.Status))}; !slices.Equal(row.Counts, want[k]) {
				t.Fatalf("%v: %s %d: %d, want %d", times, row.Type, row.Status, row.Counts, want[k])
			}
		}
	}
	if got := must(s.CountActivities(t.Context(), wire.CountActivities{Organization: id(3), TimesMs: []uint64{0, store.MaxTime}}))(t); len(got.Rows) != 0 {
		t.Errorf("an organization that is not there: %v", got)
	}
	for _, times := range [][]uint64{nil, {1}, {1, 1}, {2, 1}, {1, store.MaxTime + 1}, make([]uint64, wire.MaxTimes+1)} {
		if _, err := s.CountActivities(t.Context(), wire.CountActivities{Organization: x, TimesMs: times}); !errors.Is(err, store.ErrRefused) {
			t.Errorf("%v: %v", times, err)
		}
	}
}
