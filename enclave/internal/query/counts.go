package query

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var counts = []*Query{fetchQuery("get_activity_counts", fetchCounts, answerCounts)}

// countsRequest asks how many activities changed last between neighbouring times.
type countsRequest struct {
	Head
	TimesMs []string `json:"timesMs"`
}

// MaxTimes is the most times in a request for counts.
const MaxTimes = 64

// A Count is how many activities of a type and status each period has.
type Count struct {
	Type   string
	Status org.Status
	Counts []uint64
}

// A ResponseHour is how long a tenant's requests for activities took in one hour, as the enclave measured it.
type ResponseHour struct {
	StartMs, Count uint64
	Median, P95    time.Duration
}

// Statistics tells how much is done, and how fast.
type Statistics interface {
	// Counts counts activities by the period of their last change. It is the host's word, but for the types and statuses that there are.
	Counts(timesMs []uint64) ([]Count, error)
	// Responses returns the last hours of the tenant, for the tenant itself alone: of a sub-organization it returns none.
	Responses() []ResponseHour
}

// statistics are the answer to a countsRequest.
type statistics struct {
	timesMs   []uint64
	counts    []Count
	responses []ResponseHour
}

func fetchCounts(in *countsRequest, s *sources) (got statistics, err error) {
	if len(in.TimesMs) < 2 || len(in.TimesMs) > MaxTimes {
		return got, fault.Field("timesMs", "must be 2 to %d times", MaxTimes)
	}
	for i, text := range in.TimesMs {
		ms, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return got, fault.Field("timesMs", "must be times in milliseconds")
		}
		if i > 0 && ms <= got.timesMs[i-1] {
			return got, fault.Field("timesMs", "must ascend")
		}
		got.timesMs = append(got.timesMs, ms)
	}
	all, err := s.Counts(got.timesMs)
	for _, c := range all {
		if activity.KnownType(c.Type) && c.Status.String() != "" && len(c.Counts) == len(got.timesMs)-1 {
			got.counts = append(got.counts, c)
		}
	}
	slices.SortFunc(got.counts, func(a, b Count) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Status, b.Status)) })
	got.responses = s.Responses()
	return got, err
}

func answerCounts(_ *View, got statistics) ([]byte, error) {
	dst := []byte(`{"periods":[`)
	for i, from := range got.timesMs[:len(got.timesMs)-1] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = number(dst, `{"fromMs":`, from)
		dst = number(dst, `,"untilMs":`, got.timesMs[i+1])
		dst = append(dst, `,"counts":[`...)
		first := true
		for _, c := range got.counts {
			if c.Counts[i] == 0 {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = text(dst, `{"activityType":`, c.Type)
			dst = text(dst, `,"activityStatus":`, c.Status.String())
			dst = append(number(dst, `,"count":`, c.Counts[i]), '}')
		}
		dst = append(dst, `]}`...)
	}
	dst = append(dst, `],"response":[`...)
	for i, h := range got.responses {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = number(dst, `{"fromMs":`, h.StartMs)
		dst = number(dst, `,"count":`, h.Count)
		dst = text(dst, `,"medianMs":`, milliseconds(h.Median))
		dst = append(text(dst, `,"p95Ms":`, milliseconds(h.P95)), '}')
	}
	return append(dst, `]}`...), nil
}

// milliseconds writes a duration with two decimals.
func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 2, 64)
}
