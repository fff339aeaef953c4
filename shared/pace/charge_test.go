package pace_test

import (
	"testing"
	"time"

	"cloister/shared/pace"
)

func TestCharge(t *testing.T) {
	const second = time.Second
	type step struct {
		at     time.Duration
		charge int64         // in thousandths
		lacks  int64         // is asked behind that, in thousandths
		wait   time.Duration // 0: there is as much
	}
	three := pace.Rate{Count: 3000, Per: time.Minute} // of three seconds a minute, in milliseconds
	for name, steps := range map[string][]step{
		"full at first":                        {{0, 0, 3000 * pace.Unit, 0}, {0, 0, 3000*pace.Unit + 1, 20 * time.Microsecond}},
		"thousandths count":                    {{0, 140, 3000*pace.Unit - 140, 0}, {0, 0, 3000 * pace.Unit, 2800 * time.Microsecond}},
		"one may overdraw, the next waits":     {{0, 4000 * pace.Unit, 1, 20*second + 20*time.Microsecond}, {20 * second, 0, 1, 20 * time.Microsecond}, {21 * second, 0, 1, 0}},
		"a debt is repaid in a minute":         {{0, 1e15, 1, 60*second + 20*time.Microsecond}, {60 * second, 0, 0, 0}, {60 * second, 1e18, 1, 60*second + 20*time.Microsecond}},
		"and the bucket is full a while later": {{0, 1e15, 0, 60 * second}, {120 * second, 0, 3000 * pace.Unit, 0}},
		"asking takes nothing":                 {{0, 0, 2000 * pace.Unit, 0}, {0, 0, 3000 * pace.Unit, 0}},
		"nothing and less than nothing":        {{0, 0, 0, 0}, {0, -5, 3000 * pace.Unit, 0}, {0, 0, -1, 0}},
		"a clock that goes back":               {{time.Hour, 3000 * pace.Unit, 1, 20 * time.Microsecond}, {0, 0, 1, 60*second + 20*time.Microsecond}},
	} {
		b := pace.New[string](three, 4)
		for i, s := range steps {
			now := epoch.Add(s.at)
			b.Charge("k", s.charge, now)
			got := b.HasLess("k", s.lacks, now)
			if got.Wait != s.wait || got.Refused != (s.wait > 0) || got.Limit != 3000 {
				t.Errorf("%s: step %d: %+v, want a wait of %v", name, i, got, s.wait)
			}
			if other := b.HasLess("other", 3000*pace.Unit, now); other.Refused {
				t.Errorf("%s: step %d: another's bucket: %+v", name, i, other)
			}
		}
	}
	off := pace.New[string](pace.Rate{}, 4)
	off.Charge("k", 1e15, epoch)
	if got := off.HasLess("k", 1e15, epoch); got != (pace.Count{}) || off.Len() != 0 {
		t.Errorf("no rate: %+v", got)
	}
}

// However many keys are charged, so many buckets are kept.
func TestChargedIsBounded(t *testing.T) {
	b := pace.New[int](pace.Rate{Count: 5, Per: time.Second}, 100)
	for i := range 1000 {
		b.Charge(i, pace.Unit, epoch)
	}
	if b.Len() > 100 || b.HasLess(999, 5*pace.Unit, epoch).Wait == 0 {
		t.Error(b.Len())
	}
}
