package monitor_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"cloister/attestation/monitor"
)

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// kept is a state as it is kept.
func kept(t testing.TB) string {
	o := newOwner(t)
	o.tiles = o.serve
	for range 5 {
		o.decide()
	}
	o.withheld = o.decide()
	if _, _, err := o.runOnce(); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(o.kept)
	must(t, err)
	return string(raw)
}

func TestStatesRefused(t *testing.T) {
	good := kept(t)
	if s, err := monitor.ParseState([]byte(good)); err != nil || s.Next != 7 || len(s.Edge) != 3 || len(s.Steps) != 1 || s.Consistent == "" {
		t.Fatalf("%+v, %v", s, err)
	}
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, text := range map[string]string{
		"nothing":             "",
		"no JSON":             "state",
		"cut":                 good[:len(good)-1],
		"twice":               good + good,
		"another format":      replace(`"format":1`, `"format":2`),
		"no format":           replace(`"format":1,`, ``),
		"an unknown member":   replace(`"format":1`, `"format":1,"more":1`),
		"more entries":        replace(`"next":7`, `"next":8`),
		"places of no entry":  replace(`"places":[`, `"places":[`+strings.Repeat(`{"entry":"`+strings.Repeat("0", 64)+`","generation":1,"leaf":1},`, 7)),
		"half a place's hash": replace(`"places":[{"entry":"`, `"places":[{"entry":"00`),
		"an edge before more": replace(`"places":[`, `"before":["`+strings.Repeat("0", 64)+`"],"places":[`),
		"a recovery of more":  replace(`"checkpoint":`, `"recovered":{"generation":1,"size":1,"lost":1},"checkpoint":`),
		"half a hash":         replace(`"edge":["`, `"edge":["00`),
		"no hex":              replace(`"edge":["`, `"edge":["g`),
		"a broken checkpoint": replace(`"checkpoint":"log`, `"checkpoint":" log`),
		"a head of no size":   replace(`"consistent":"log.example/00112233445566778899aabbccddeeff/0/1\n`, `"consistent":"log.example/00112233445566778899aabbccddeeff/0/1\n0`),
		"too long":            good + strings.Repeat(" ", monitor.MaxState),
	} {
		if s, err := monitor.ParseState([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	s, err := monitor.ParseState([]byte(good))
	must(t, err)
	if _, err := monitor.New(monitor.Options{Organization: "another"}, s); err == nil {
		t.Error("a state of another organization")
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(kept(f)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := monitor.ParseState(raw)
		if err != nil {
			return
		}
		once, err := json.Marshal(s)
		must(t, err)
		again, err := monitor.ParseState(once)
		must(t, err)
		if twice, err := json.Marshal(again); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%s became %s, %v", once, twice, err)
		}
	})
}

func TestMetrics(t *testing.T) {
	o := newOwner(t)
	m := o.monitor()
	o.decide()
	if err := m.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	must(t, m.WriteMetrics(&b))
	for _, line := range []string{
		`cloister_monitor_turns_total{result="whole"} 1`, `cloister_monitor_turns_total{result="broken"} 0`, `cloister_monitor_events_total{event="entry"} 2`,
		`cloister_monitor_entries 2`, `cloister_monitor_head_leaves{log="` + logs + `/1"} 6`, "cloister_monitor_head_timestamp_seconds", "cloister_monitor_last_turn_timestamp_seconds",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no %s in\n%s", line, b.String())
		}
	}
}
