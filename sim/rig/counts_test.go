package rig_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// Activities are counted by the time of their last change, for the organization that is asked about and nobody else's; how fast the
// deployment answers is told to the tenant alone.
func TestActivityCounts(t *testing.T) {
	clock := clocktest.New()
	r := rig.Start(t, rig.Options{Clock: clock})
	root := r.Root()
	sub := root.NewSubOrganization("Sub")
	begin := clock.Now()
	tag := func(u *client.User, name string, want int) {
		wants(t, name, u.Submit("CREATE_USER_TAG", map[string]any{"userTagName": name, "userIds": []string{}}), want, "")
	}
	tag(root, "first", 200)
	clock.Pass(time.Hour)
	tag(root, "second", 200)
	tag(root, "third", 200)
	tag(sub, "another's", 200)
	clock.Pass(time.Hour)

	type counted struct {
		Periods []struct {
			FromMs, UntilMs string
			Counts          []struct{ ActivityType, ActivityStatus, Count string }
		}
		Response []struct{ FromMs, Count, MedianMs, P95Ms string }
	}
	ask := func(u *client.User) (c counted) {
		var times []string
		for i := range 4 {
			times = append(times, strconv.FormatInt(begin.Add(time.Duration(i)*time.Hour).UnixMilli(), 10))
		}
		got := u.Query("get_activity_counts", map[string]any{"timesMs": times})
		wants(t, "get_activity_counts", got, 200, "")
		if err := json.Unmarshal(got.Body, &c); err != nil || len(c.Periods) != 3 {
			t.Fatalf("%s: %v", got.Body, err)
		}
		return c
	}
	number := func(c counted, period int) string {
		for _, x := range c.Periods[period].Counts {
			if x.ActivityType == "ACTIVITY_TYPE_CREATE_USER_TAG" && x.ActivityStatus == "ACTIVITY_STATUS_COMPLETED" {
				return x.Count
			}
		}
		return ""
	}
	all := ask(root)
	if got := fmt.Sprint(number(all, 0), number(all, 1), number(all, 2)); got != "12" {
		t.Errorf("the top-level organization: %+v", all)
	}
	if n := len(all.Response); n < 2 || all.Response[n-1].Count != "3" || all.Response[n-1].MedianMs != "0.10" {
		t.Errorf("the tenant's response times: %+v", all.Response)
	}
	for who, u := range map[string]*client.User{"the sub-organization": sub, "its parent": root.As(sub.Organization, "", root.Key)} {
		c := ask(u)
		if number(c, 0) != "" || number(c, 1) != "1" || number(c, 2) != "" || len(c.Response) != 0 {
			t.Errorf("%s: %+v", who, c)
		}
	}
}
