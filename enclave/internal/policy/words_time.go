package policy

import (
	"strconv"
	"strings"
)

// when describes a time, and tells whether it is always.
func (d *describer) when(p *Program) (phrase, bool) {
	if p == nil {
		return phrase{text: always}, true
	}
	d.source = p.source
	if yes, _ := known(p.root, false); yes == (kindSet{}).not() {
		return phrase{text: always + ": " + strings.TrimSpace(p.source) + " is always true"}, true
	}
	return d.test(p.root), false
}

// moment describes the comparison of the time with a moment.
func moment(o op, at string) string {
	switch o {
	case opLt:
		return "before " + at
	case opLe:
		return "until " + at
	case opGt:
		return "after " + at
	case opGe:
		return "from " + at + " on"
	case opNe:
		return "at any time but " + at
	}
	return "at " + at
}

var (
	weekdays = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
	months   = [...]string{1: "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
)

// cronSpan describes a window. What has no short words is given as the expression.
func (d *describer) cronSpan(n *node) string {
	fields := strings.Fields(n.kids[0].lit.string)
	minute, days, month, weekday := fields[0], fields[2], fields[3], fields[4]
	var from []string
	for hour := range strings.SplitSeq(fields[1], ",") {
		at := cronNumber(hour)
		if at < 0 || cronNumber(minute) < 0 {
			return d.text(n)
		}
		from = append(from, pad(at)+":"+pad(cronNumber(minute)))
	}
	var text string
	switch {
	case days != "*" && weekday != "*": // one of the two is enough
		return d.text(n)
	case weekday != "*":
		text = spanText(weekday, func(i int) string { return weekdays[i] })
	case days != "*":
		text = "on day " + spanText(days, strconv.Itoa) + " of the month"
	default:
		text = "every day"
	}
	if month != "*" {
		text += " in " + spanText(month, func(i int) string { return months[i] })
	}
	return text + " from " + join(from, " and ") + " for " + duration(n.kids[1].lit.string) + ", " + n.kids[2].lit.string
}

func pad(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

// spanText describes a field of a cron expression that is no star.
func spanText(field string, name func(int) string) string {
	var items []string
	for item := range strings.SplitSeq(field, ",") {
		from, to, isRange := strings.Cut(item, "-")
		text := name(cronNumber(from))
		if isRange {
			text += " to " + name(cronNumber(to))
		}
		items = append(items, text)
	}
	return join(items, " and ")
}

// duration describes a length such as 1d12h.
func duration(s string) string {
	var parts []string
	for s != "" {
		n := countFirst(s, digit)
		count, _ := strconv.Atoi(s[:n])
		unit := map[byte]string{'d': "day", 'h': "hour", 'm': "minute"}[s[n]]
		if count != 1 {
			unit += "s"
		}
		parts, s = append(parts, strconv.Itoa(count)+" "+unit), s[n+1:]
	}
	return strings.Join(parts, " ")
}
