package policy

import (
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the zones are part of the enclave image
)

// lastMs is the end of the year 9999, beyond which there are no dates.
const lastMs = 253402300799999

// timestamp reads RFC 3339 in UTC, to the millisecond at most, as milliseconds
// since 1970. The second result is what is wrong.
func timestamp(s string) (int64, string) {
	const layout = "2006-01-02T15:04:05"
	if len(s) <= len(layout) || s[10] != 'T' && s[10] != 't' {
		return 0, "not a time such as 2026-01-31T12:00:00Z"
	}
	date, rest := s[:10]+"T"+s[11:len(layout)], s[len(layout):]
	t, err := time.Parse(layout, date)
	if err != nil || t.Format(layout) != date {
		return 0, "not a time such as 2026-01-31T12:00:00Z"
	}
	ms := t.UnixMilli()
	if rest[0] == '.' {
		n := 1 + countFirst(rest[1:], digit)
		if n == 1 || n > 4 {
			return 0, "fractions of a second have one to three digits"
		}
		part, _ := strconv.Atoi((rest[1:n] + "00")[:3])
		ms, rest = ms+int64(part), rest[n:]
	}
	switch rest {
	case "Z", "z", "+00:00", "-00:00":
		return ms, ""
	}
	return 0, "the offset of a time must be zero: Z"
}

// A cronSpan is open for a while after each of the local times that a cron
// expression names.
type cronSpan struct {
	minutes  uint64 // bit n: minute n
	hours    uint32
	days     uint32 // of the month
	months   uint16
	weekdays uint8 // bit 0: Sunday
	either   bool  // day of the month or day of the week is enough, as both are restricted
	length   int64 // in seconds
	zone     *time.Location
}

const (
	daySeconds = 24 * 60 * 60
	maxSpan    = 7 * daySeconds
)

// newCronSpan reads the three arguments. It says which one is wrong, and why.
func newCronSpan(cron, duration, zone string) (s *cronSpan, which int, why string) {
	fields := strings.Fields(cron)
	if len(fields) != 5 {
		return nil, 0, "want five fields: minute hour day-of-month month day-of-week"
	}
	var masks [5]uint64
	for i, limits := range [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
		if masks[i], why = cronField(fields[i], limits[0], limits[1]); why != "" {
			return nil, 0, why
		}
	}
	s = &cronSpan{minutes: masks[0], hours: uint32(masks[1]), days: uint32(masks[2]), months: uint16(masks[3]), weekdays: uint8(masks[4]),
		either: fields[2] != "*" && fields[4] != "*"}
	if s.length, why = spanLength(duration); why != "" {
		return nil, 1, why
	}
	if s.zone, why = zoneOf(zone); why != "" {
		return nil, 2, why
	}
	return s, 0, ""
}

// cronField reads numbers, ranges and lists of them, or the star.
func cronField(field string, low, high int) (mask uint64, why string) {
	if field == "*" {
		field = strconv.Itoa(low) + "-" + strconv.Itoa(high)
	}
	for _, item := range strings.Split(field, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		a, b := cronNumber(from), cronNumber(to)
		if a < 0 || b < 0 {
			return 0, "a cron field holds numbers, ranges, lists or *, not " + strconv.Quote(shorten(item, 40))
		}
		if a < low || b > high || a > b {
			return 0, strconv.Quote(shorten(item, 40)) + " is not within " + strconv.Itoa(low) + " to " + strconv.Itoa(high)
		}
		for n := a; n <= b; n++ {
			mask |= 1 << n
		}
	}
	return mask, ""
}

func cronNumber(s string) int {
	if len(s) == 0 || len(s) > 2 || !digit(s[0]) || !digit(s[len(s)-1]) {
		return -1
	}
	n, _ := strconv.Atoi(s)
	return n
}

// spanLength reads days, hours and minutes, in this order, each at most once.
func spanLength(s string) (seconds int64, why string) {
	const want = "a duration is such as 30m, 8h or 1d12h"
	rest := s
	for _, unit := range []struct {
		name   byte
		length int64
	}{{'d', daySeconds}, {'h', 3600}, {'m', 60}} {
		n := countFirst(rest, digit)
		if n == len(rest) || rest[n] != unit.name {
			continue
		}
		if n == 0 || n > 6 {
			return 0, want
		}
		count, _ := strconv.Atoi(rest[:n])
		seconds, rest = seconds+int64(count)*unit.length, rest[n+1:]
	}
	switch {
	case rest != "" || s == "":
		return 0, want
	case seconds == 0 || seconds > maxSpan:
		return 0, "a duration is above zero and at most 7d"
	}
	return seconds, ""
}

func zoneOf(name string) (*time.Location, string) {
	such := func(c byte) bool { return letterOrDigit(c) || c == '/' || c == '-' || c == '+' }
	if name != "" && name != "Local" && len(name) <= 60 && countFirst(name, such) == len(name) {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone, ""
		}
	}
	return nil, "no time zone " + strconv.Quote(shorten(name, 60))
}

// open tells whether a time, in milliseconds since 1970, lies in a window.
//
// It looks at the zone's periods of constant offset, latest first, as far back as
// one window. Within a period local time runs evenly. A skipped local time is in no
// period. A repeated one is in two, and fires in the earlier.
func (s *cronSpan) open(nowMs int64) bool {
	now := floorDiv(nowMs, 1000)
	first := now - s.length + 1 // the earliest beginning of a window that is open now
	for end := now; end >= first; {
		t := time.Unix(end, 0).In(s.zone)
		_, offset := t.Zone()
		local, begin, low := int64(offset), first, first+int64(offset)
		if start, _ := t.ZoneBounds(); !start.IsZero() {
			_, before := start.Add(-time.Second).Zone()
			begin = max(first, start.Unix())
			low = max(begin+local, start.Unix()+int64(before)) // what the clocks showed before shows again
		}
		if s.firesBetween(low, end+local) {
			return true
		}
		end = begin - 1
	}
	return false
}

// firesBetween tells whether a fire lies between two local times, both included, in seconds
// since 1970 on the local clock. They are at most a week apart; low may be above high.
func (s *cronSpan) firesBetween(low, high int64) bool {
	firstMinute, lastMinute := ceilDiv(low, 60), floorDiv(high, 60)
	for day := floorDiv(lastMinute, 24*60); day >= floorDiv(firstMinute, 24*60); day-- {
		if !s.on(day) {
			continue
		}
		from, to := max(firstMinute-day*24*60, 0), min(lastMinute-day*24*60, 24*60-1)
		for hour := to / 60; hour >= from/60; hour-- {
			minutes := s.minutes
			if hour == from/60 {
				minutes &= ^uint64(0) << (from % 60)
			}
			if hour == to/60 {
				minutes &= 1<<(to%60+1) - 1
			}
			if s.hours&(1<<hour) != 0 && minutes != 0 {
				return true
			}
		}
	}
	return false
}

// on tells whether the span begins on a day, counted from 1970-01-01.
func (s *cronSpan) on(day int64) bool {
	t := time.Unix(day*daySeconds, 0).UTC()
	year, month, dom := t.Date()
	if year < 0 || s.months&(1<<month) == 0 {
		return false
	}
	inMonth, inWeek := s.days&(1<<dom) != 0, s.weekdays&(1<<t.Weekday()) != 0
	if s.either {
		return inMonth || inWeek
	}
	return inMonth && inWeek
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if q*b > a {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }
