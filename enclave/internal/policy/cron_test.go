package policy_test

import (
	"testing"
	"time"

	"cloister/enclave/internal/policy"
)

// at reads a time with an offset.
func at(t testing.TB, s string) uint64 {
	t.Helper()
	when, err := time.Parse("2006-01-02T15:04:05.999Z07:00", s)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(when.UnixMilli())
}

func holdsAt(t testing.TB, source, now string) bool {
	t.Helper()
	yes, err := compile(t, timeOf, source).Holds(&policy.Request{NowMs: at(t, now)})
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

func TestCronSpan(t *testing.T) {
	const newYork, lordHowe, apia, kathmandu = "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"
	for _, c := range []struct {
		cron, length, zone string
		open, closed       []string
	}{
		{"0 9 * * 1-5", "8h", newYork, []string{"2026-01-14T09:00:00-05:00", "2026-01-14T16:59:59.999-05:00", "2026-07-15T09:00:00-04:00"},
			[]string{"2026-01-14T08:59:59.999-05:00", "2026-01-14T17:00:00-05:00", "2026-07-15T08:59:59-04:00", "2026-07-18T12:00:00-04:00", "2026-07-19T12:00:00-04:00"}},
		{"0 22 * * *", "8h", "Etc/UTC", []string{"2026-03-10T22:00:00Z", "2026-03-11T05:59:59Z"}, []string{"2026-03-11T06:00:00Z", "2026-03-10T21:59:59.999Z"}},
		{"15,45 * * * *", "1m", "Etc/UTC", []string{"2026-03-10T10:15:00Z", "2026-03-10T10:45:59Z", "2026-03-10T00:15:30Z"}, []string{"2026-03-10T10:14:59Z", "2026-03-10T10:16:00Z", "2026-03-10T10:46:00Z"}},
		{"0 0 1-7,15 * *", "1d", "Etc/UTC", []string{"2026-03-07T23:59:59Z", "2026-03-15T00:00:00Z"}, []string{"2026-03-08T00:00:00Z", "2026-03-14T23:59:59Z", "2026-03-16T00:00:00Z"}},
		{"0 0 * 2 *", "1d", "Etc/UTC", []string{"2028-02-29T12:00:00Z"}, []string{"2028-03-01T00:00:00Z", "2028-01-31T23:59:59Z"}},
		{"0 0 29 2 *", "7d", "Etc/UTC", []string{"2028-02-29T00:00:00Z", "2028-03-06T23:59:59Z"}, []string{"2028-03-07T00:00:00Z", "2027-03-01T00:00:00Z"}},
		{"0 0 31 4 *", "7d", "Etc/UTC", nil, []string{"2026-04-30T12:00:00Z", "2026-05-01T12:00:00Z"}},
		{"0 9 1 * 1", "30m", "Etc/UTC", []string{"2026-03-09T09:29:59Z", "2026-04-01T09:00:00Z"}, []string{"2026-03-10T09:00:00Z", "2026-03-09T09:30:00Z"}},
		{"0 9 * * 1", "30m", "Etc/UTC", []string{"2026-03-09T09:00:00Z"}, []string{"2026-04-01T09:00:00Z"}},
		{"0 9 1 * *", "30m", "Etc/UTC", []string{"2026-04-01T09:00:00Z"}, []string{"2026-03-09T09:00:00Z"}},
		{"0 0 * * 0", "7d", "Etc/UTC", []string{"2026-03-08T00:00:00Z", "2026-03-14T23:59:59.999Z"}, nil},
		{"0 0 * * *", "1d", kathmandu, []string{"2026-03-10T00:00:00+05:45", "2026-03-10T23:59:59+05:45"}, nil},
		{"0 0 * * *", "1m", kathmandu, []string{"2026-03-10T00:00:30+05:45"}, []string{"2026-03-10T00:00:30Z", "2026-03-10T00:01:00+05:45"}},
		{"59 23 31 12 *", "2m", "Etc/UTC", []string{"2027-01-01T00:00:59Z"}, []string{"2027-01-01T00:01:00Z"}},

		// 2026-03-08: 02:00 to 03:00 do not exist in New York.
		{"0 22 * * *", "8h", newYork, []string{"2026-03-08T06:59:59-04:00"}, []string{"2026-03-08T07:00:00-04:00"}},
		{"30 2 * * *", "2h", newYork, []string{"2026-03-07T02:30:00-05:00", "2026-03-09T02:30:00-04:00"}, []string{"2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00", "2026-03-08T04:29:59-04:00"}},
		{"0 3 8 3 *", "1m", newYork, []string{"2026-03-08T03:00:00-04:00"}, []string{"2026-03-08T01:59:59-05:00"}},
		{"* * 8 3 *", "1m", newYork, []string{"2026-03-08T01:59:59-05:00", "2026-03-08T03:00:00-04:00"}, nil},
		{"59 1 8 3 *", "2m", newYork, []string{"2026-03-08T03:00:59-04:00"}, []string{"2026-03-08T03:01:00-04:00"}},

		// 2026-11-01: 01:00 to 02:00 come twice in New York, and fire once.
		{"30 1 * * *", "15m", newYork, []string{"2026-11-01T01:30:00-04:00"}, []string{"2026-11-01T01:30:00-05:00", "2026-11-01T01:44:59-05:00"}},
		{"30 1 * * *", "90m", newYork, []string{"2026-11-01T01:30:00-05:00", "2026-11-01T01:59:59-05:00"}, []string{"2026-11-01T02:00:00-05:00"}},
		{"0 2 * * *", "1m", newYork, []string{"2026-11-01T02:00:00-05:00"}, []string{"2026-11-01T01:00:00-05:00"}},
		{"0 1 * * *", "1m", newYork, []string{"2026-11-01T01:00:00-04:00"}, []string{"2026-11-01T01:00:00-05:00"}},
		{"* * * * *", "1m", newYork, []string{"2026-11-01T01:59:30-04:00", "2026-11-01T02:00:00-05:00"}, []string{"2026-11-01T01:00:00-05:00", "2026-11-01T01:59:59-05:00"}},
		{"0 0 * * *", "7d", newYork, []string{"2026-11-01T12:00:00-05:00"}, nil},

		// Half an hour, a whole day.
		{"45 1 * * *", "1m", lordHowe, []string{"2026-04-05T01:45:00+11:00"}, []string{"2026-04-05T01:45:00+10:30"}},
		{"15 2 4 10 *", "1m", lordHowe, nil, []string{"2026-10-04T02:00:00+10:30", "2026-10-04T02:45:00+11:00"}},
		{"0 12 30 12 *", "1m", apia, []string{"2012-12-30T12:00:00+14:00"}, []string{"2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00"}},
		{"0 12 29 12 *", "2d", apia, []string{"2011-12-31T12:00:00+14:00", "2012-01-01T11:59:59+14:00"}, []string{"2012-01-01T12:00:00+14:00"}},

		// The ends of time.
		{"0 0 1 1 *", "1d", "Etc/UTC", []string{"1970-01-01T00:00:00Z"}, nil},
		{"0 0 31 12 *", "7d", "Etc/UTC", []string{"1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"}, nil},
	} {
		source := "CronSpan('" + c.cron + "', '" + c.length + "', '" + c.zone + "')"
		for _, now := range c.open {
			if !holdsAt(t, source, now) {
				t.Errorf("%s is closed at %s", source, now)
			}
		}
		for _, now := range c.closed {
			if holdsAt(t, source, now) {
				t.Errorf("%s is open at %s", source, now)
			}
		}
	}
}

// A second evaluator, slow and plain: every minute of the window is looked at on
// the clock of the zone.
func TestCronSpanAgainstMinutes(t *testing.T) {
	for _, zone := range []string{"America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Europe/London", "America/Sao_Paulo", "Pacific/Apia"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		p := compile(t, timeOf, "CronSpan('7,30 1-2 * * 0,6', '5h', '"+zone+"')")
		fires := func(f time.Time) bool {
			l := f.In(loc)
			if d := l.Weekday(); (d != 0 && d != 6) || (l.Hour() != 1 && l.Hour() != 2) || (l.Minute() != 7 && l.Minute() != 30) {
				return false
			}
			for back := time.Minute; back <= 3*time.Hour; back += time.Minute { // the same local time before
				if e := f.Add(-back).In(loc); e.Day() == l.Day() && e.Hour() == l.Hour() && e.Minute() == l.Minute() {
					return false
				}
			}
			return true
		}
		for _, around := range []string{"2026-03-08T00:00:00Z", "2026-11-01T00:00:00Z", "2026-04-04T12:00:00Z", "2026-10-03T12:00:00Z", "2026-02-15T00:00:00Z", "2026-03-22T00:00:00Z", "2018-11-04T00:00:00Z", "2018-02-18T00:00:00Z"} {
			start := time.UnixMilli(int64(at(t, around)))
			for now := start; now.Before(start.Add(36 * time.Hour)); now = now.Add(11 * time.Minute) {
				want := false
				for f := now.Truncate(time.Minute); f.After(now.Add(-5 * time.Hour)); f = f.Add(-time.Minute) {
					want = want || fires(f)
				}
				if got, err := p.Holds(&policy.Request{NowMs: uint64(now.UnixMilli())}); err != nil || got != want {
					t.Fatalf("%s at %s: %v, want %v", zone, now.In(loc), got, want)
				}
			}
		}
	}
}

func TestTimestamps(t *testing.T) {
	for _, c := range []struct {
		source, now string
		want        bool
	}{
		{"time.now == Timestamp('2026-03-10T12:00:00Z')", "2026-03-10T12:00:00Z", true},
		{"time.now == Timestamp('2026-03-10t12:00:00.5z')", "2026-03-10T12:00:00.5Z", true},
		{"time.now >= Timestamp('2026-03-10T12:00:00.501+00:00')", "2026-03-10T12:00:00.5Z", false},
		{"time.now < Timestamp('2026-03-10T12:00:00-00:00')", "2026-03-10T11:59:59.999Z", true},
		{"time.now < Timestamp('2026-03-10T12:00:00Z')", "2026-03-10T12:00:00Z", false},
		{"Timestamp('2028-02-29T00:00:00Z') <= time.now", "2028-02-29T00:00:00Z", true},
		{"Timestamp('2026-01-01T00:00:00Z') != Timestamp('2026-01-01T00:00:00.000Z')", "2026-01-01T00:00:00Z", false},
		{"time.now in [Timestamp('2026-01-01T00:00:00Z')]", "2026-01-01T00:00:00Z", true},
	} {
		if got := holdsAt(t, c.source, c.now); got != c.want {
			t.Errorf("%s at %s: %v", c.source, c.now, got)
		}
	}
	// A clock that is wrong beyond all dates neither panics nor opens anything.
	for _, now := range []uint64{1<<64 - 1, 1 << 63, 1<<63 - 1} {
		if yes, err := compile(t, timeOf, "time.now < Timestamp('9999-12-31T00:00:00Z') || CronSpan('0 0 1 6 *', '7d', 'Europe/Paris')").Holds(&policy.Request{NowMs: now}); yes || err != nil {
			t.Error(now, yes, err)
		}
	}
}
