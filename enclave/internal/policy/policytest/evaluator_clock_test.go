package policytest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones, wherever the tests run
)

// timestamp reads an RFC 3339 time of offset zero.
func timestamp(s string) (time.Time, error) {
	bad := fmt.Errorf("no time of offset zero: %q", s)
	const shape = "0000-00-00T00:00:00"
	if len(s) < len(shape) {
		return time.Time{}, bad
	}
	for i, c := range []byte(shape) {
		if c == '0' && !digit(s[i]) || c != '0' && c != s[i] {
			return time.Time{}, bad
		}
	}
	rest, fraction := s[len(shape):], 0
	if strings.HasPrefix(rest, ".") {
		digits := 0
		for digits+1 < len(rest) && digit(rest[digits+1]) {
			digits++
		}
		if digits == 0 || digits > 3 { // times have milliseconds
			return time.Time{}, bad
		}
		fraction, _ = strconv.Atoi((rest[1:1+digits] + "00000000")[:9])
		rest = rest[1+digits:]
	}
	if !slices.Contains([]string{"Z", "z", "+00:00", "-00:00"}, rest) {
		return time.Time{}, bad
	}
	number := func(from, to int) int { n, _ := strconv.Atoi(s[from:to]); return n }
	y, mo, d, h, mi, sec := number(0, 4), number(5, 7), number(8, 10), number(11, 13), number(14, 16), number(17, 19)
	t := time.Date(y, time.Month(mo), d, h, mi, sec, fraction, time.UTC)
	if t.Year() != y || int(t.Month()) != mo || t.Day() != d || t.Hour() != h || t.Minute() != mi || t.Second() != sec {
		return time.Time{}, bad
	}
	return t, nil
}

// span is a CronSpan.
type span struct {
	allowed  [5]map[int]bool // minute hour dom month dow
	starred  [5]bool
	duration time.Duration
	zone     *time.Location
}

func cronSpan(args []string) (s span, err error) {
	// The page is silent on more spaces than one, and on how many zeros may lead.
	fields := strings.Fields(args[0])
	if len(fields) != 5 {
		return s, fmt.Errorf("not five fields: %q", args[0])
	}
	least, most := [5]int{0, 0, 1, 1, 0}, [5]int{59, 23, 31, 12, 6}
	for i, field := range fields {
		s.allowed[i] = map[int]bool{}
		if s.starred[i] = field == "*"; s.starred[i] {
			continue
		}
		for _, item := range strings.Split(field, ",") {
			from, to, isRange := strings.Cut(item, "-")
			a, err := whole(from)
			b := a
			if isRange && err == nil {
				b, err = whole(to)
			}
			if err != nil || a < least[i] || b > most[i] || a > b || len(from) > 2 || len(to) > 2 {
				return s, fmt.Errorf("cron field %q", field)
			}
			for n := a; n <= b; n++ {
				s.allowed[i][n] = true
			}
		}
	}
	rest := args[1]
	for _, unit := range []struct {
		letter string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}} {
		if before, after, ok := strings.Cut(rest, unit.letter); ok {
			n, err := whole(before)
			if err != nil || n > 7*24*60 {
				return s, fmt.Errorf("duration %q", args[1])
			}
			s.duration += time.Duration(n) * unit.length
			rest = after
		}
	}
	if rest != "" || s.duration <= 0 || s.duration > 7*24*time.Hour {
		return s, fmt.Errorf("duration %q", args[1])
	}
	if args[2] == "" || args[2] == "Local" { // Go's own, no zones
		return s, fmt.Errorf("zone %q", args[2])
	}
	s.zone, err = time.LoadLocation(args[2])
	return s, err
}

// whole reads decimal digits.
func whole(s string) (int, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("no number: %q", s)
	}
	return strconv.Atoi(s)
}

// contains goes back from now, minute by minute, to as early as a fire could
// still be open, and looks whether there was one.
func (s span) contains(now time.Time) bool {
	for t := now.UTC().Truncate(time.Minute); now.Before(t.Add(s.duration)); t = t.Add(-time.Minute) {
		if s.fires(t) {
			return true
		}
	}
	return false
}

// fires tells whether the minute that starts at t is a fire: the clock on the
// wall shows a time that matches, and did not show it before.
func (s span) fires(t time.Time) bool {
	wall := t.In(s.zone)
	// Cheapest first; the order makes no difference to the answer.
	if !s.matches(0, wall.Minute()) || !s.matches(1, wall.Hour()) || !s.matches(3, int(wall.Month())) {
		return false
	}
	dom, dow := s.matches(2, wall.Day()), s.matches(4, int(wall.Weekday()))
	if !s.starred[2] && !s.starred[4] {
		if !dom && !dow {
			return false
		}
	} else if !dom || !dow {
		return false
	}
	shown := func(t time.Time) string { return t.Format("2006-01-02 15:04") }
	for back := time.Minute; back <= 26*time.Hour; back += time.Minute {
		earlier := t.Add(-back).In(s.zone)
		if earlier.Minute() == wall.Minute() && earlier.Day() == wall.Day() && shown(earlier) == shown(wall) {
			return false
		}
	}
	return true
}

func (s span) matches(field, n int) bool { return s.starred[field] || s.allowed[field][n] }
