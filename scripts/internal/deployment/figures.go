package deployment

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloister/attestation/request"
)

// Pids are the processes of the simulator with this data directory, by their names.
func Pids(data string) (map[string]int, error) {
	text, err := os.ReadFile(filepath.Join(data, "pids"))
	all := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var pid int
		var name string
		if _, err := fmt.Sscan(line, &pid, &name); err != nil {
			return nil, err
		}
		all[name] = pid
	}
	return all, err
}

// Resident is what a process holds in memory, and the most that it ever held, in MiB.
func Resident(pid int) (now, peak float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if _, bad := fmt.Sscanf(line, "VmRSS: %f", &now); bad == nil {
			now /= 1 << 10
		}
		if _, bad := fmt.Sscanf(line, "VmHWM: %f", &peak); bad == nil {
			peak /= 1 << 10
		}
	}
	if err == nil && (now == 0 || peak == 0) {
		err = errors.New("no VmRSS or VmHWM")
	}
	return now, peak, err
}

// Counters are the enclave's own, as the host's metrics show them.
func Counters(over *http.Client, url string) (map[string]int64, error) {
	time.Sleep(1100 * time.Millisecond) // the host may show for a second what it has asked the enclave before
	r, err := over.Get(url + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	all := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, `cloister_enclave_counter{counter="`)
		name, rest, _ := strings.Cut(rest, `"`)
		if _, value, _ := strings.Cut(rest, "} "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return nil, err
			}
			all[name] = int64(f)
		}
	}
	if _, ok := all["organizations_open_bytes"]; err == nil && !ok {
		err = fmt.Errorf("%s: the metrics say nothing of opened organizations", r.Status)
	}
	return all, err
}

// Each runs one for the numbers from up to to, so many at a time, until one fails.
func Each(clients int, what string, from, to int, one func(n int) error) error {
	var next, done atomic.Int64
	next.Store(int64(from))
	var first error
	var once sync.Once
	var all sync.WaitGroup
	begun := time.Now()
	for range clients {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < to; n = int(next.Add(1)) - 1 {
				if err := one(n); err != nil {
					once.Do(func() { first = fmt.Errorf("%s %d: %w", what, n, err) })
					next.Add(int64(to))
					return
				}
				if d := done.Add(1); d%20_000 == 0 {
					fmt.Fprintf(os.Stderr, "%s %s: %d, %.0f/s\n", time.Now().Format(time.TimeOnly), what, int(d)+from, float64(d)/time.Since(begun).Seconds())
				}
			}
		})
	}
	all.Wait()
	return first
}

// A Table is what was measured, a column for each size, rows in the order of their first figure.
type Table struct {
	columns, rows []string
	cells         map[[2]string]string
}

// Column begins the next one.
func (t *Table) Column(what string) { t.columns = append(t.columns, what) }

// Put notes a figure, on standard error at once.
func (t *Table) Put(row, format string, a ...any) {
	if t.cells == nil {
		t.cells = map[[2]string]string{}
	}
	if !slices.Contains(t.rows, row) {
		t.rows = append(t.rows, row)
	}
	column, text := t.columns[len(t.columns)-1], fmt.Sprintf(format, a...)
	t.cells[[2]string{row, column}] = text
	fmt.Fprintf(os.Stderr, "%s | %s | %s | %s\n", time.Now().Format(time.TimeOnly), column, row, text)
}

// A Measure is something of which the time is measured.
type Measure struct {
	Row string
	Do  func() error
}

// Median measures one request behind the other.
func (t *Table) Median(reps int, m Measure) error {
	times := make([]time.Duration, reps)
	busy := 0
	for i := range times {
		begun := time.Now()
		for err := m.Do(); err != nil; err = m.Do() { // a caller would ask again as well
			var refusal *request.Error
			if busy++; busy > 1000 || !errors.As(err, &refusal) || refusal.Status != http.StatusServiceUnavailable {
				return fmt.Errorf("%s: %w", m.Row, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		times[i] = time.Since(begun)
	}
	slices.Sort(times)
	text := fmt.Sprintf("%.2f ms", times[reps/2].Seconds()*1e3)
	if busy > 0 {
		text += fmt.Sprintf(", busy %d times", busy)
	}
	t.Put(m.Row, "%s", text)
	return nil
}

// Print writes the table to standard output.
func (t *Table) Print() {
	fmt.Printf("| | %s |\n|---|%s\n", strings.Join(t.columns, " | "), strings.Repeat("---|", len(t.columns)))
	for _, row := range t.rows {
		fmt.Printf("| %s |", row)
		for _, c := range t.columns {
			fmt.Printf(" %s |", t.cells[[2]string{row, c}])
		}
		fmt.Println()
	}
	fmt.Println()
}
