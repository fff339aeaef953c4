package pace_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/shared/pace"
)

// An ask is so many requests from addresses, each made of a format and a number, of which so many pass.
type ask struct {
	at     time.Duration
	key    string
	format string // {x} or {d} stands for the number of the request
	n      int
	passed int
}

func TestSources(t *testing.T) {
	two := pace.Rate{Count: 2, Per: time.Hour}
	for _, c := range []struct {
		name string
		do   []ask
	}{
		{"a /64 as one", []ask{{0, "", "2001:db8::{x}", 9, 2}, {0, "", "2001:db8::ffff:{x}:0:0", 9, 0}}},
		{"a /56 that changes its /64s has 4 times the rate", []ask{{0, "", "2001:db8:0:{x}::1", 256, 8}, {0, "", "2001:db8:0:100::1", 1, 1}}},
		{"a /48 that changes its /56s has 16 times", []ask{{0, "", "2001:db8:0:{x}00::1", 256, 32}, {0, "", "2001:db8:0:fff{x}::1", 16, 0}, {0, "", "2001:db8:1::1", 3, 2}}},
		{"a /48 that changes all", []ask{{0, "", "2001:db8:0:{x}::{x}", 20_000, 32}}},
		{"customers in two /48s", []ask{{0, "", "2001:db8:a:{x}::1", 256, 8}, {0, "", "2001:db8:b:{x}::1", 256, 8}, {0, "", "2001:db8:a:{x}00::1", 256, 24}, {0, "", "2001:db8:b:{x}00::1", 256, 24}}},
		{"an IPv4 address", []ask{{0, "", "192.0.2.1", 9, 2}, {0, "", "::ffff:192.0.2.1", 9, 0}, {0, "", "192.0.2.2", 9, 2}}},
		{"a /24 has 64 times", []ask{{0, "", "192.0.2.1{d}", 100, 100}, {0, "", "192.0.2.9{d}", 10, 10}, {0, "", "192.0.2.7{d}", 10, 10}, {0, "", "192.0.2.6{d}", 9, 8},
			{0, "", "192.0.2.200", 1, 0}, {0, "", "::ffff:c000:2c8", 1, 0}, {0, "", "192.0.3.200", 1, 1}}},
		{"what the /64 refuses does not count for the /56", []ask{{0, "", "2001:db8:0:1::1", 100, 2}, {0, "", "2001:db8:0:2{x}::1", 8, 6}}},
		{"what the /56 refuses does not count for the /48", []ask{{0, "", "2001:db8:0:{x}::1", 256, 8}, {0, "", "2001:db8:0:1{x}00::1", 16, 16}, {0, "", "2001:db8:0:2{x}00::1", 16, 8}}},
		{"what the /48 refuses does not count for the /64", []ask{{0, "", "2001:db8:0:{x}00::1", 256, 32}, {30 * time.Minute, "", "2001:db8:0:ffff::1", 2, 2}, {30 * time.Minute, "", "2001:db8:0:ffff::1", 1, 0}}},
		{"what the /24 refuses does not count for the address", []ask{{0, "", "192.0.2.{d}", 256, 128}, {30 * time.Minute, "", "192.0.2.255", 3, 2}}},
		{"keys are apart", []ask{{0, "a", "2001:db8:0:{x}00::1", 256, 32}, {0, "b", "2001:db8:0:{x}00::1", 256, 32}, {0, "a", "192.0.2.1", 3, 2}, {0, "b", "192.0.2.1", 3, 2}}},
		{"what cannot be read, together", []ask{{0, "", "nonsense {x}", 9, 2}, {0, "", "", 1, 0}, {0, "", "192.0.2.1:80", 1, 0}, {0, "", "::/64", 1, 0}, {0, "", "::", 1, 1}, {0, "", "0.0.0.0", 1, 1}}},
		{"a zone does not matter", []ask{{0, "", "fe80::1%eth{x}", 9, 2}}},
		{"it comes back evenly", []ask{{0, "", "2001:db8:0:{x}00::1", 256, 32}, {time.Hour / 32, "", "2001:db8:0:{x}00::1", 256, 1}, {time.Hour, "", "2001:db8:0:{x}00::1", 256, 31}}},
	} {
		b := pace.NewSources[string](two, 1<<16)
		for i, a := range c.do {
			passed := 0
			for n := range a.n {
				address := strings.NewReplacer("{x}", strconv.FormatInt(int64(n), 16), "{d}", strconv.Itoa(n)).Replace(a.format)
				if !b.Take(a.key, pace.SourceOf(address), epoch.Add(a.at)).Refused {
					passed++
				}
			}
			if passed != a.passed {
				t.Errorf("%s: %d: %d of %d pass, want %d", c.name, i, passed, a.n, a.passed)
			}
		}
	}
}

// The Count is that of the bucket with the least left, or which refuses longest.
func TestCountOfSources(t *testing.T) {
	b := pace.NewSources[int](pace.Rate{Count: 3, Per: 3 * time.Hour}, 1<<16)
	for i, c := range []struct {
		address string
		want    pace.Count
	}{
		{"2001:db8::1", pace.Count{Limit: 3, Remaining: 2}},
		{"2001:db8::1", pace.Count{Limit: 3, Remaining: 1}},
		{"2001:db8::1", pace.Count{Limit: 3}},
		{"2001:db8::1", pace.Count{Refused: true, Limit: 3, Wait: time.Hour}},
		{"2001:db8:0:1::1", pace.Count{Limit: 3, Remaining: 2}}, // 8 of the /56
		{"2001:db8:0:2::1", pace.Count{Limit: 3, Remaining: 2}},
		{"2001:db8:0:3::1", pace.Count{Limit: 3, Remaining: 2}},
		{"2001:db8:0:4::1", pace.Count{Limit: 3, Remaining: 2}},
		{"2001:db8:0:5::1", pace.Count{Limit: 3, Remaining: 2}},
		{"2001:db8:0:6::1", pace.Count{Limit: 3, Remaining: 2}}, // 3 of the /56
		{"2001:db8:0:7::1", pace.Count{Limit: 3, Remaining: 2}},
		{"2001:db8:0:8::1", pace.Count{Limit: 12, Remaining: 1}},
		{"2001:db8:0:9::1", pace.Count{Limit: 12}},
		{"2001:db8:0:a::1", pace.Count{Refused: true, Limit: 12, Wait: time.Hour / 4}},
		{"2001:db8::1", pace.Count{Refused: true, Limit: 3, Wait: time.Hour}}, // both refuse
		{"", pace.Count{Limit: 3, Remaining: 2}},
	} {
		if got := b.Take(7, pace.SourceOf(c.address), epoch); got != c.want {
			t.Errorf("%d, %s: %+v, want %+v", i, c.address, got, c.want)
		}
	}
}

func TestSourcesOffCountNothing(t *testing.T) {
	b := pace.NewSources[int](pace.Rate{}, 10)
	for i := range 100 {
		if got := b.Take(0, pace.SourceOf(fmt.Sprintf("192.0.2.%d", i%3)), epoch); got != (pace.Count{}) {
			t.Fatal(got)
		}
	}
	if b.Len() != 0 {
		t.Fatal("buckets are kept for no rate")
	}
}

// However many networks come, a bounded number is kept; and who changes the /64 in a /48 that is refused pushes nobody out.
func TestSourcesAreBounded(t *testing.T) {
	const most = 100
	b := pace.NewSources[int](pace.Rate{Count: 1, Per: time.Hour}, most)
	for i := range 20_000 {
		b.Take(0, pace.SourceOf(fmt.Sprintf("2001:%x:%x:%x::", i%7, i/3, i)), epoch)
		b.Take(0, pace.SourceOf(fmt.Sprintf("10.%d.%d.1", i>>8, i&0xff)), epoch)
		if n := b.Len(); n > most*5/2 {
			t.Fatalf("%d buckets after %d networks", n, i)
		}
	}
	b = pace.NewSources[int](pace.Rate{Count: 1, Per: time.Hour}, most)
	b.Take(0, pace.SourceOf("192.0.2.1"), epoch)
	for i := range 20_000 {
		b.Take(0, pace.SourceOf(fmt.Sprintf("2001:db8:0:%x::", i)), epoch)
	}
	if !b.Take(0, pace.SourceOf("192.0.2.1"), epoch).Refused {
		t.Error("an address is forgotten for others that were refused")
	}
}

func TestLine(t *testing.T) {
	line := func(address string) string { return pace.SourceOf(address).Line().String() }
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3::4": "2001:db8:1::", "2001:db8:1:ffff::": "2001:db8:1::", "fe80::1%eth0": "fe80::", "": "invalid IP", "x": "invalid IP",
	} {
		if got := line(address); got != want {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
	}
}

// What is given back was never taken, and a bucket is no fuller than full.
func TestReturn(t *testing.T) {
	b := pace.New[string](pace.Rate{Count: 2, Per: time.Hour}, 10)
	b.Take("a", epoch)
	b.Take("a", epoch)
	b.Return("a", epoch)
	if got := b.Take("a", epoch); got.Refused || got.Remaining != 0 {
		t.Error(got)
	}
	for range 5 {
		b.Return("a", epoch)
		b.Return("b", epoch)
	}
	for _, key := range []string{"a", "b"} {
		if got := b.Take(key, epoch); got.Remaining != 1 {
			t.Errorf("%s: %+v", key, got)
		}
	}
	pace.New[string](pace.Rate{}, 10).Return("a", epoch)
}

// Whatever the address, its networks hold each other, and no bucket lets more pass than its rate.
func FuzzSources(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "2001:db8::1", "::ffff:1.2.3.4", "fe80::1%x", "", "nonsense"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		b := pace.NewSources[int](pace.Rate{Count: 2, Per: time.Hour}, 10)
		s := pace.SourceOf(address)
		for i := range 3 {
			if c := b.Take(0, s, epoch); c.Refused != (i == 2) || c.Limit != 2 {
				t.Fatalf("%q: %d: %+v", address, i, c)
			}
		}
		if line := s.Line(); line.IsValid() && pace.SourceOf(line.String()).Line() != line {
			t.Fatalf("%q: line %v", address, line)
		}
	})
}

func BenchmarkSources(b *testing.B) {
	sources := pace.NewSources[int](pace.Rate{Count: 10, Per: time.Second}, 1<<16)
	all := make([]pace.Source, 1<<12)
	for i := range all {
		all[i] = pace.SourceOf(fmt.Sprintf("2001:db8:%x:%x::1", i&0xff, i))
	}
	b.ReportAllocs()
	for i := range b.N {
		sources.Take(0, all[i&0xfff], epoch)
	}
}
