package billing

import (
	"math"
	"slices"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// maxLease bounds what a sub-organization draws beyond what it needs at once. It begins with one signature and doubles
// with each draw in a month, so what it strands is less than it has signed; and it draws no more than this part of what is
// left, so that the last of a quota is signed and not leased.
const maxLease = 64

const partOfLeft = 64

// dayKept is for how many days a day's signatures are kept: the processor takes those of 35.
const dayKept = 34

// afterDay is how long after its end a day is told of, so that no clock that lags counts on it still.
const afterDay = 10 * time.Minute

const dayMs = 24 * 60 * 60 * 1000

// DayOf is the day of a time, UTC, as org.DayUse counts days.
func DayOf(ms uint64) uint32 { return uint32(ms / dayMs) }

// MonthOf is the calendar month of a time, UTC, as org.Bill counts months.
func MonthOf(ms uint64) uint32 {
	t := time.UnixMilli(int64(ms)).UTC()
	return uint32(t.Year()*12 + int(t.Month()) - 1)
}

// Period is when a month begins and when the next one does.
func Period(month uint32) (fromMs, toMs uint64) {
	at := func(m uint32) uint64 {
		return uint64(time.Date(int(m/12), time.Month(m%12+1), 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	}
	return at(month), at(month + 1)
}

// OverQuota refuses a signature above the quota, of an organization of the top level or of one below it.
func OverQuota(below bool) *fault.Error {
	whose := "this organization cannot execute activities because it is"
	if below {
		whose = "this sub-organization cannot execute activities because its parent is"
	}
	return fault.WithCode(fault.ResourceExhausted, "SIGNING_QUOTA_EXCEEDED", "%s over its allotted quota. Please ask the operator of this deployment for another plan", whose)
}

// Current is an account as it is at a time: a month that has passed is over. Months never go back, whatever the clock of the
// enclave says that serves it next.
func Current(a *org.Bill, nowMs uint64) org.Bill {
	now := org.Bill{}
	if a != nil {
		now = *a
	}
	if m := MonthOf(nowMs); m > now.Month {
		now.Month, now.Drawn, now.Leased = m, 0, 0
	}
	return now
}

// remainingQuota is how much of the quota is not drawn.
func remainingQuota(a *org.Bill) uint64 {
	switch {
	case a.Quota == nil:
		return math.MaxUint64
	case *a.Quota < a.Drawn: // the plan had more before
		return 0
	}
	return *a.Quota - a.Drawn
}

// load is an account of the top level as it is now, under the plan that is in force.
func load(tx *org.Tx, plans *Plans) (a org.Bill, err error) {
	old, err := tx.Bill()
	if err != nil {
		return a, err
	}
	a = Current(old, tx.NowMs)
	a.Quota = plans.Of(a.Plan).SignaturesPerMonth
	return a, nil
}

// Count counts n signatures of an organization of the top level, or refuses them. The first ones of a day make something to send,
// for an organization that the processor knows.
func Count(tx *org.Tx, plans *Plans, n uint64) ([]org.Send, error) {
	a, err := load(tx, plans)
	if err != nil {
		return nil, err
	}
	if n > remainingQuota(&a) {
		return nil, OverQuota(false)
	}
	a.Drawn += n
	sends, err := countSignatures(&a, tx.NowMs, n)
	if err != nil {
		return nil, err
	}
	return sends, tx.PutBill(&a)
}

// CountForChild counts n signatures of a sub-organization, from its lease, or refuses them. If that has too few it draws
// another one on its parent's account; draws tells that it must, and nothing is done while parent is nil.
func CountForChild(tx, parent *org.Tx, plans *Plans, n uint64) (sends []org.Send, draws bool, err error) {
	old, err := tx.Lease()
	if err != nil {
		return nil, false, err
	}
	var l org.Lease
	if old != nil {
		l = *old
	}
	if old != nil && l.Month >= MonthOf(tx.NowMs) && l.Left >= n {
		l.Left, l.Used = l.Left-n, l.Used+n
		return nil, false, tx.PutLease(&l)
	}
	if parent == nil {
		return nil, true, nil
	}
	a, err := load(parent, plans)
	if err != nil {
		return nil, true, err
	}
	if l.Month != a.Month { // what was left of the month before is void
		l.Month, l.Size, l.Left, l.Counted = a.Month, 0, 0, 0
	}
	remaining, need := remainingQuota(&a), n-min(n, l.Left)
	if need > remaining {
		return nil, true, OverQuota(true)
	}
	l.Size = min(max(2*l.Size, 1), maxLease, max(remaining/partOfLeft, 1))
	drawn := max(need, l.Size)
	l.Left = l.Left + drawn - n
	a.Drawn, a.Leased = a.Drawn+drawn, a.Leased+l.Left-l.Counted
	if sends, err = countSignatures(&a, tx.NowMs, l.Used+n); err != nil {
		return nil, true, err
	}
	l.Counted, l.Used = l.Left, 0
	if err := tx.PutLease(&l); err != nil {
		return nil, true, err
	}
	return sends, true, parent.PutBill(&a)
}

// countSignatures counts n signatures on their day, of an organization that the processor knows.
func countSignatures(a *org.Bill, nowMs, n uint64) ([]org.Send, error) {
	if a.Customer == "" {
		return nil, nil
	}
	day := DayOf(nowMs)
	if last := len(a.Days) - 1; last >= 0 && a.Days[last].Day >= day { // as months, days never go back
		a.Days = slices.Clone(a.Days)
		a.Days[last].Signatures += n
		return nil, nil
	}
	a.Days = append(slices.DeleteFunc(slices.Clone(a.Days), func(d org.DayUse) bool { return d.Day+dayKept < day }), org.DayUse{Day: day, Signatures: n})
	content, err := (&org.UsageDay{Day: day}).Encode()
	end := (uint64(day) + 1) * dayMs
	return []org.Send{{Kind: org.SendUsage, DueMs: end + uint64(afterDay.Milliseconds()), ExpiresMs: end + (dayKept-1)*dayMs, Content: content}}, err
}

// UsageQuestion is what the processor is told of a day that is over, nil if that is nothing.
func UsageQuestion(a *org.Bill, organization string, day uint32, meter string) *Question {
	if a == nil {
		return nil
	}
	i := slices.IndexFunc(a.Days, func(d org.DayUse) bool { return d.Day == day })
	if i < 0 {
		return nil
	}
	return meterEvent(meter, a.Customer, organization, day, a.Days[i].Signatures)
}
