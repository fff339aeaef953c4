package clocktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"cloister/shared/clocktest"
)

func TestStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Date(2026, 3, 9, 9, 29, 59, 0, time.UTC)
		c := clocktest.At(at)
		long, short := c.After(time.Hour), c.After(time.Minute)
		c.Pass(59 * time.Second)
		select {
		case <-short:
			t.Error("told a second too early")
		default:
		}
		c.Pass(time.Second)
		if got := <-short; !got.Equal(at.Add(time.Minute)) {
			t.Error(got)
		}
		begun := time.Now()
		if <-long; time.Since(begun) != time.Hour { // on the machine's clock
			t.Error(time.Since(begun))
		}
		if now := c.Now(); !now.Equal(at.Add(time.Minute)) {
			t.Errorf("it has moved to %v", now)
		}
	})
}

func TestRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begun := clocktest.Running(), time.Now()
		c.Pass(time.Hour)
		time.Sleep(time.Minute)
		if got := c.Now().Sub(begun); got != time.Hour+time.Minute {
			t.Error(got)
		}
	})
}

// failing is a test that ends when it fails.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Failed() bool { return false }

func (f *failing) Fatalf(format string, args ...any) {
	f.said = format
	panic(f)
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		clocktest.Until(t, "it has been asked ten times", func() bool { n++; return n == 10 })
		begun, f := time.Now(), &failing{TB: t}
		defer func() {
			if recover() != f || f.said == "" || time.Since(begun) < clocktest.Patience {
				t.Errorf("%q after %v", f.said, time.Since(begun))
			}
		}()
		clocktest.Until(f, "what never happens", func() bool { return false })
		t.Error("it ends")
	})
}
