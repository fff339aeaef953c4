package responses_test

import (
	"encoding/binary"
	"testing"
	"time"

	"cloister/enclave/core/internal/responses"
	"cloister/enclave/internal/org"
)

func tenant(n uint32) (id org.ID) {
	binary.BigEndian.PutUint32(id[:], n)
	return id
}

var noon = time.Date(2026, 11, 28, 12, 30, 0, 0, time.UTC)

func TestHours(t *testing.T) {
	all := responses.New()
	for range 90 {
		all.Add(tenant(1), noon, 2*time.Millisecond)
	}
	for range 10 {
		all.Add(tenant(1), noon, 300*time.Millisecond)
	}
	all.Add(tenant(1), noon.Add(-time.Hour), time.Hour)
	all.Add(tenant(2), noon, time.Nanosecond)

	got := all.Of(tenant(1), noon.Add(20*time.Minute))
	if len(got) != 2 || got[0].Count != 1 || got[1].Count != 100 || got[1].StartMs != uint64(noon.Add(-30*time.Minute).UnixMilli()) {
		t.Fatalf("%+v", got)
	}
	for what, d := range map[string][2]time.Duration{"median": {got[1].Median, 2 * time.Millisecond}, "95 percent": {got[1].P95, 300 * time.Millisecond}} {
		if d[0] < d[1] || d[0] > d[1]*119/100 {
			t.Errorf("%s: %v, want %v to 19 percent above", what, d[0], d[1])
		}
	}
	if h := got[0]; h.Median != h.P95 || h.Median < 30*time.Second {
		t.Errorf("an hour's request: %+v", h)
	}
	if h := all.Of(tenant(2), noon)[0]; h.Median != 100*time.Microsecond {
		t.Errorf("a request without duration: %+v", h)
	}
	if got := all.Of(tenant(3), noon); len(got) != 0 {
		t.Errorf("a tenant without requests: %+v", got)
	}
}

// Only the last hours are told and kept, whatever the order in which the clock gave them.
func TestHoursPass(t *testing.T) {
	all := responses.New()
	for i := range 60 {
		all.Add(tenant(1), noon.Add(time.Duration(i)*time.Hour), time.Millisecond)
	}
	all.Add(tenant(1), noon, time.Millisecond) // a clock that was set back far: nothing to tell
	last := noon.Add(59 * time.Hour)
	if got := all.Of(tenant(1), last); len(got) != responses.MaxHours || got[0].StartMs != uint64(last.Add(-23*time.Hour-30*time.Minute).UnixMilli()) {
		t.Errorf("%d hours: %+v", len(got), got)
	}
	if got := all.Of(tenant(1), last.Add(20*time.Hour)); len(got) != 4 {
		t.Errorf("%d hours", len(got))
	}
	if got := all.Of(tenant(1), last.Add(-58*time.Hour)); len(got) != 0 {
		t.Errorf("hours to come: %+v", got)
	}
}

// A tenant costs others at most what is kept of them, however many tenants there are.
func TestTenantsAreBounded(t *testing.T) {
	all := responses.New()
	for i := range uint32(3 * responses.MaxTenants) {
		all.Add(tenant(i), noon, time.Millisecond)
		if len(all.Of(tenant(i), noon)) != 1 {
			t.Fatalf("tenant %d is not counted", i)
		}
	}
	kept := 0
	for i := range uint32(3 * responses.MaxTenants) {
		kept += len(all.Of(tenant(i), noon))
	}
	if kept != responses.MaxTenants {
		t.Errorf("%d tenants are kept", kept)
	}
}
