package pace_test

import (
	"testing"
	"time"

	"cloister/shared/pace"
)

// A refusal ends, in ten seconds at most; a longer one that comes while it lasts changes nothing.
func TestRefusals(t *testing.T) {
	var f pace.Refusals[int]
	if !f.None() || f.Wait(1, epoch) != 0 {
		t.Error("somebody is refused from the beginning")
	}
	f.Note(1, epoch, time.Hour)
	f.Note(1, epoch.Add(time.Second), time.Hour)
	for after, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 9999 * ms: ms, 10 * time.Second: 0} {
		if got := f.Wait(1, epoch.Add(after)); got != want {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
	}
	if f.Wait(2, epoch) != 0 {
		t.Error("another is refused")
	}
	f.Wait(1, epoch.Add(time.Minute))
	if !f.None() {
		t.Error("what has ended is remembered")
	}
}

// However many are refused, so many are remembered.
func TestRefusalsAreBounded(t *testing.T) {
	var f pace.Refusals[int]
	for i := range 1<<16 + 1 {
		f.Note(i, epoch, time.Second)
	}
	if f.Wait(0, epoch) != 0 || f.Wait(1<<16, epoch) != time.Second {
		t.Error("all are remembered, or none")
	}
}
