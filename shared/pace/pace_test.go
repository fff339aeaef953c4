package pace_test

import (
	"flag"
	"math/rand"
	"testing"
	"time"

	"cloister/shared/pace"
)

var epoch = time.Unix(1_700_000_000, 0)

func TestParse(t *testing.T) {
	for text, want := range map[string]pace.Rate{
		"": {}, "off": {}, "1/s": {1, time.Second}, "10/s": {10, time.Second}, "600/m": {600, time.Minute}, "5000/h": {5000, time.Hour}, "1000000/s": {1000000, time.Second},
		"200/10s": {200, 10 * time.Second}, "2500/5m": {2500, 5 * time.Minute}, "1/99h": {1, 99 * time.Hour}, "60/90s": {60, 90 * time.Second},
	} {
		got, err := pace.Parse(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if back, err := pace.Parse(got.String()); err != nil || back != got {
			t.Errorf("%q: written as %q, which is %v, %v", text, got, back, err)
		}
	}
	for _, text := range []string{"0/s", "10", "10/", "/s", "s", "10/d", "10/ms", "10/0s", "10/1s", "10/05s", "10/100s", "10/-5s", "10/+5s", "10/5", "10/5.0s", "10/ 5s", "10/5 s", "-1/s", "+1/s", "1.5/s", "1e3/s", "010/s", " 10/s", "10/s ", "10/S", "10 /s", "10/s/s", "1000001/s",
		"4294967296/s", "18446744073709551617/s", "Off", "on", "unlimited", "0", "١/s"} {
		if got, err := pace.Parse(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	for _, r := range []pace.Rate{{0, time.Second}, {5, 0}, {5, -time.Second}, {5, time.Millisecond}, {5, 1500 * time.Millisecond}, {5, 101 * time.Second}} {
		if r.String() != pace.Off {
			t.Errorf("%#v is written as %q", r, r)
		}
	}
}

func TestFlag(t *testing.T) {
	var r pace.Rate
	f := flag.NewFlagSet("", flag.ContinueOnError)
	f.SetOutput(discard{})
	f.TextVar(&r, "rate", pace.Rate{}, "")
	if err := f.Parse([]string{"-rate", "3/s"}); err != nil || r != (pace.Rate{Count: 3, Per: time.Second}) {
		t.Fatal(r, err)
	}
	if err := f.Parse([]string{"-rate", "3"}); err == nil {
		t.Fatal("a rate without a period is taken")
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// A step is a request of key at a time after the epoch, and what it must get.
type step struct {
	at        time.Duration
	key       string
	remaining int // -1: refused
	wait      time.Duration
}

const ms = time.Millisecond

func TestTake(t *testing.T) {
	for _, c := range []struct {
		name string
		rate pace.Rate
		most int
		do   []step
	}{
		{"burst, then one for each interval", pace.Rate{Count: 3, Per: 3 * time.Second}, 10, []step{
			{0, "a", 2, 0}, {0, "a", 1, 0}, {0, "a", 0, 0}, {0, "a", -1, time.Second}, {999 * ms, "a", -1, ms}, {time.Second, "a", 0, 0},
			{time.Second, "a", -1, time.Second}, {2500 * ms, "a", 0, 0}, {2500 * ms, "a", -1, 500 * ms}, {3000 * ms, "a", 0, 0}}},
		{"never fuller than full", pace.Rate{Count: 2, Per: time.Second}, 10, []step{
			{0, "a", 1, 0}, {time.Hour, "a", 1, 0}, {time.Hour, "a", 0, 0}, {time.Hour, "a", -1, 500 * ms}}},
		{"a refusal costs nothing", pace.Rate{Count: 1, Per: time.Second}, 10, []step{
			{0, "a", 0, 0}, {500 * ms, "a", -1, 500 * ms}, {900 * ms, "a", -1, 100 * ms}, {time.Second, "a", 0, 0}}},
		{"keys are apart", pace.Rate{Count: 1, Per: time.Second}, 10, []step{
			{0, "a", 0, 0}, {0, "b", 0, 0}, {0, "", 0, 0}, {0, "a", -1, time.Second}, {0, "b", -1, time.Second}, {0, "", -1, time.Second}}},
		{"an interval that does not divide", pace.Rate{Count: 7, Per: time.Second}, 10, []step{
			{0, "a", 6, 0}, {0, "a", 5, 0}, {0, "a", 4, 0}, {0, "a", 3, 0}, {0, "a", 2, 0}, {0, "a", 1, 0}, {0, "a", 0, 0}, {0, "a", -1, 142857142}}},
		{"a clock that goes back empties at most", pace.Rate{Count: 2, Per: 2 * time.Second}, 10, []step{
			{time.Hour, "a", 1, 0}, {0, "a", -1, time.Second}, {time.Second, "a", 0, 0}, {3 * time.Second, "a", 1, 0}}},
		{"forgotten only after half as many others", pace.Rate{Count: 1, Per: time.Hour}, 4, []step{
			{0, "a", 0, 0}, {0, "b", 0, 0}, {0, "c", 0, 0}, {0, "a", -1, time.Hour}, // seen again: of the newest
			{0, "d", 0, 0}, {0, "a", -1, time.Hour}, {0, "e", 0, 0}, {0, "f", 0, 0}, {0, "g", 0, 0}, {0, "h", 0, 0}, {0, "a", 0, 0}}},
		{"room for one", pace.Rate{Count: 1, Per: time.Hour}, 0, []step{{0, "a", 0, 0}, {0, "a", -1, time.Hour}, {0, "b", 0, 0}, {0, "a", -1, time.Hour}}},
	} {
		b := pace.New[string](c.rate, c.most)
		for i, s := range c.do {
			want := pace.Count{Limit: c.rate.Count, Remaining: uint32(max(s.remaining, 0)), Refused: s.remaining < 0, Wait: s.wait}
			if got := b.Take(s.key, epoch.Add(s.at)); got != want {
				t.Errorf("%s: step %d: %+v, want %+v", c.name, i, got, want)
			}
		}
	}
}

func TestOffCountsNothing(t *testing.T) {
	b := pace.New[int](pace.Rate{}, 10)
	for i := range 100 {
		if got := b.Take(i%3, epoch); got != (pace.Count{}) {
			t.Fatal(got)
		}
	}
	if b.Len() != 0 {
		t.Fatal("buckets are kept for no rate")
	}
}

// However many keys come, at most so many buckets are kept.
func TestBounded(t *testing.T) {
	b := pace.New[int](pace.Rate{Count: 5, Per: time.Second}, 100)
	for i := range 10_000 {
		b.Take(i, epoch)
		b.Take(i/2, epoch)
		if b.Len() > 100 {
			t.Fatalf("%d buckets after %d keys", b.Len(), i)
		}
	}
}

// In any stretch of time at most a full bucket and what was refilled passes, and
// a client that keeps to the rate is never refused.
func TestRateHolds(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 50 {
		rate := pace.Rate{Count: uint32(1 + r.Intn(50)), Per: time.Second}
		b := pace.New[string](rate, 8)
		now, passed := epoch, 0
		for range 2000 {
			now = now.Add(time.Duration(r.Int63n(int64(time.Second) / int64(rate.Count))))
			if !b.Take("greedy", now).Refused {
				passed++
			}
			most := float64(rate.Count) + now.Sub(epoch).Seconds()*float64(rate.Count)*1.000001
			if float64(passed) > most {
				t.Fatalf("%v: %d passed in %v", rate, passed, now.Sub(epoch))
			}
		}
		for i := range 2000 {
			if b.Take("steady", epoch.Add(time.Duration(i)*time.Second/time.Duration(rate.Count)+time.Duration(i))).Refused {
				t.Fatalf("%v: a steady client is refused at %d", rate, i)
			}
		}
	}
}

func TestAgain(t *testing.T) {
	for wait, want := range map[time.Duration]string{0: "0s", 1: "1ms", ms: "1ms", ms + 1: "2ms", 999*ms + 1: "1s", 90 * time.Second: "1m30s"} {
		if got := (pace.Count{Wait: wait}).Again(); got != want {
			t.Errorf("%v: %s", wait, got)
		}
	}
}

func TestLeast(t *testing.T) {
	none, few, many := pace.Count{}, pace.Count{Limit: 10, Remaining: 2}, pace.Count{Limit: 5, Remaining: 4}
	refused := pace.Count{Limit: 9, Refused: true, Wait: 1}
	for i, c := range []struct{ a, b, want pace.Count }{
		{none, none, none}, {none, few, few}, {few, none, few}, {few, many, few}, {many, few, few}, {few, refused, refused}, {refused, few, refused},
		{refused, none, refused}, {pace.Count{Limit: 3}, refused, refused},
	} {
		if got := pace.Least(c.a, c.b); got != c.want {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "off", "10/s", "600/m", "0/s", "1000001/h", "10/", "200/10s", "1/60m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := pace.Parse(s)
		if err != nil {
			if r != (pace.Rate{}) {
				t.Fatalf("%q: refused, and still %v", s, r)
			}
			return
		}
		// One rate may be written as of a minute and as of 60 seconds; what String writes is that rate.
		if again, err := pace.Parse(r.String()); err != nil || again != r || len(r.String()) > max(len(s), len(pace.Off)) {
			t.Fatalf("%q is %q: %v, %v", s, r.String(), again, err)
		}
	})
}

func BenchmarkTake(b *testing.B) {
	buckets := pace.New[int](pace.Rate{Count: 10, Per: time.Second}, 1<<16)
	for i := range b.N {
		buckets.Take(i&0xffff, epoch)
	}
}
