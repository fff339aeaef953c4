package monitor

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// metrics are the counters and gauges of WriteMetrics.
type metrics struct {
	mu        sync.Mutex
	polls     map[string]uint64 // by result
	last      time.Time         // the end of the last poll without an error
	events    map[Kind]uint64
	next      uint64
	origin    string
	size      uint64
	cosigned  time.Time
	witnesses map[string]witnessed
}

type witnessed struct {
	size     uint64
	answered bool
}

func (m *metrics) countPoll(now time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.polls == nil {
		m.polls = map[string]uint64{"whole": 0, "broken": 0}
	}
	if err != nil {
		m.polls["broken"]++
		return
	}
	m.polls["whole"]++
	m.last = now
}

func (m *metrics) event(e Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		m.events = map[Kind]uint64{}
	}
	m.events[e.Kind]++
}

func (m *metrics) entry(seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = seq + 1
}

func (m *metrics) lose(next uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = next
}

func (m *metrics) head(origin string, size uint64, cosigned time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.origin, m.size, m.cosigned = origin, size, cosigned
}

func (m *metrics) witness(name string, size uint64, answered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.witnesses == nil {
		m.witnesses = map[string]witnessed{}
	}
	m.witnesses[name] = witnessed{size, answered}
}

// WriteMetrics writes the monitor's metrics since its start in the text format of Prometheus. It may be called during a
// poll.
func (m *Monitor) WriteMetrics(w io.Writer) error {
	x := &m.metrics
	x.mu.Lock()
	defer x.mu.Unlock()
	var b strings.Builder
	family := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP cloister_monitor_%s %s\n# TYPE cloister_monitor_%s %s\n", name, help, name, kind)
	}
	family("turns_total", "counter", "Polls of the organization, by whether they were complete.")
	for _, result := range slices.Sorted(maps.Keys(x.polls)) {
		fmt.Fprintf(&b, "cloister_monitor_turns_total{result=%q} %d\n", result, x.polls[result])
	}
	if !x.last.IsZero() {
		family("last_turn_timestamp_seconds", "gauge", "When the last complete poll ended.")
		fmt.Fprintf(&b, "cloister_monitor_last_turn_timestamp_seconds %d\n", x.last.Unix())
	}
	family("events_total", "counter", "Events, by their kind.")
	for _, kind := range slices.Sorted(maps.Keys(x.events)) {
		fmt.Fprintf(&b, "cloister_monitor_events_total{event=%q} %d\n", kind, x.events[kind])
	}
	if x.origin != "" {
		family("entries", "gauge", "Entries of the ledger up to the newest that was shown.")
		fmt.Fprintf(&b, "cloister_monitor_entries %d\n", x.next)
		family("head_leaves", "gauge", "Leaves of the log under the newest head that was shown.")
		fmt.Fprintf(&b, "cloister_monitor_head_leaves{log=%q} %d\n", x.origin, x.size)
		family("head_timestamp_seconds", "gauge", "When a quorum of witnesses had cosigned it.")
		fmt.Fprintf(&b, "cloister_monitor_head_timestamp_seconds{log=%q} %d\n", x.origin, x.cosigned.Unix())
	}
	if len(x.witnesses) > 0 {
		family("witness_up", "gauge", "Whether a witness answered last.")
		for _, name := range slices.Sorted(maps.Keys(x.witnesses)) {
			fmt.Fprintf(&b, "cloister_monitor_witness_up{witness=%q} %d\n", name, map[bool]int{true: 1}[x.witnesses[name].answered])
		}
		family("witness_leaves", "gauge", "Leaves of the log that a witness says it has seen.")
		for _, name := range slices.Sorted(maps.Keys(x.witnesses)) {
			fmt.Fprintf(&b, "cloister_monitor_witness_leaves{witness=%q} %d\n", name, x.witnesses[name].size)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
