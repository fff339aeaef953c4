package query_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"cloister/enclave/internal/query"
)

func TestCounts(t *testing.T) {
	w := newWorld(t)
	got := w.get("get_activity_counts", object{"timesMs": []string{"1", "20", "300"}})
	text, _ := json.Marshal(got)
	const want = `{"periods":[{"counts":[{"activityStatus":"ACTIVITY_STATUS_FAILED","activityType":"ACTIVITY_TYPE_CREATE_POLICY_V3","count":"7"}],"fromMs":"1","untilMs":"20"},` +
		`{"counts":[],"fromMs":"20","untilMs":"300"}],"response":[{"count":"3","fromMs":"3600000","medianMs":"1.23","p95Ms":"2000.00"}]}`
	if string(text) != want || !slices.Equal(w.counted, []uint64{1, 20, 300}) {
		t.Errorf("%s\nfor %d", text, w.counted)
	}
}

func TestCountsRefuse(t *testing.T) {
	w := newWorld(t)
	many := make([]string, query.MaxTimes+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	w.get("get_activity_counts", object{"timesMs": many[:query.MaxTimes]})
	for _, c := range []struct {
		times any
		why   string
	}{
		{nil, "2 to 64"}, {[]string{}, "2 to 64"}, {[]string{"1"}, "2 to 64"}, {many, "2 to 64"}, {[]string{"2", "2"}, "ascend"}, {[]string{"2", "1"}, "ascend"},
		{[]string{"1", "x"}, "milliseconds"}, {[]string{"-1", "1"}, "milliseconds"}, {[]string{"1", "9223372036854775808"}, "milliseconds"}, {[]int{1, 2}, "timesMs"},
	} {
		w.refused("get_activity_counts", object{"timesMs": c.times}, 3, c.why)
	}
}
