package outage_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cloister/host/outage"
)

// A disk is full for an hour, and the enclave asks twice a second: a line a minute, and one when there is room again.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	l := outage.New(slog.New(slog.NewJSONHandler(&out, nil)), func() time.Time { return now })
	fail := func(name string) { l.LogFailure(slog.LevelError, name, "store failed", "question", name) }
	lines := func(what string, want int) (last map[string]any) {
		t.Helper()
		all := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Fatalf("%s: %d lines, want %d:\n%s", what, got, want, out.String())
		}
		if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil {
			t.Fatal(err)
		}
		return last
	}
	l.LogSuccess("batch", "store answers again") // nothing had failed
	for range 60 * 120 {
		fail("batch")
		now = now.Add(500 * time.Millisecond)
	}
	if last := lines("an hour", 60); last["unlogged"] != 119.0 || last["level"] != "ERROR" || last["question"] != "batch" {
		t.Errorf("%v", last)
	}
	fail("load_keys") // another thing is told of at once
	lines("another", 61)
	l.LogSuccess("batch", "store answers again")
	l.LogSuccess("batch", "store answers again")
	if last := lines("over", 62); last["after"] != "1h0m0s" || last["level"] != "INFO" {
		t.Errorf("%v", last)
	}
	// One that comes and goes is told of as seldom.
	now = now.Add(time.Minute)
	for range 120 {
		fail("batch")
		l.LogSuccess("batch", "store answers again")
		now = now.Add(500 * time.Millisecond)
	}
	lines("comes and goes", 64)
	fail("batch")
	if last := lines("goes on", 65); last["unlogged"] != 119.0 {
		t.Errorf("%v", last)
	}
}
