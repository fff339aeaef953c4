package fairness

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	only     = flag.String("attack", "", "measure one attack in this process and hold it against nothing")
	enclave  = flag.String("enclave", "", "be the enclave's process, with this data directory")
	together = flag.Bool("together", false, "enclave, host and clients in one process")
)

// An attack is what others do while the victim asks.
type attack struct {
	name string
	// tenants there are besides the victim.
	tenants int
	groups  func(*world) []group
	// crowded: more is asked than the enclave has places for, so 503 is a proper answer.
	crowded bool
	// more than the others' bar is allowed, in milliseconds.
	more float64
}

// idle is no attack: the yardstick.
var idle = attack{name: "idle", groups: func(*world) []group { return nil }}

var attacks = []attack{
	{name: "dear policies, 8 sub-organizations", tenants: 1, groups: func(w *world) []group { return []group{w.endUsers("policies", 8, 4, policies)} }},
	{name: "dear policies, 64 sub-organizations", tenants: 1, groups: func(w *world) []group { return []group{w.endUsers("policies", 64, 4, policies)} }},
	{name: "dear policies, 1000 sub-organizations", tenants: 1, crowded: true, more: 20, groups: func(w *world) []group { return []group{w.endUsers("policies", 1000, 1, policies)} }},
	{name: "dear policies, 50 tenants", tenants: 50, groups: func(w *world) []group { return []group{w.ofTenants("policies", w.tenants, 4, policies)} }},
	{name: "1000 addresses, 8 sub-organizations", tenants: 1, groups: func(w *world) []group { return []group{w.endUsers("addresses", 8, 4, addresses)} }},
	{name: "megabytes that fail, 8 sub-organizations", tenants: 1, groups: func(w *world) []group { return []group{w.endUsers("megabytes", 8, 4, megabytes)} }},
	{name: "signatures, 8 sub-organizations", tenants: 1, groups: func(w *world) []group { return []group{w.endUsers("signatures", 8, 32, signatures(2_000))} }},
	// No end user can do this, but the owner of a tenant: 5,000 requests at once, all of which go through the store.
	{name: "signatures of a tenant, 256 in flight", tenants: 1, more: 80, groups: func(w *world) []group { return []group{flood(w.tenants[0], 256)} }},
	{name: "mixed", tenants: 16, groups: func(w *world) []group {
		return []group{w.ofTenants("policies", w.tenants[:10], 4, policies), w.ofTenants("addresses", w.tenants[10:15], 4, addresses), w.endUsers("signatures", 8, 32, signatures(2_000))}
	}},
}

// step is how much longer the others' work may make a request of another tenant, in milliseconds: what clients, host and enclave do on the
// same processors, since no step keeps one from others for so long.
const step = 20

// TestOthersAreServed holds what another tenant's signatures take while one tenant does its worst: at the 99th percentile twice what
// they take when nobody else asks, and a step. Those who do their worst are answered too, and equals alike.
func TestOthersAreServed(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: what one tenant can make another wait")
	}
	if *enclave != "" {
		t.Fatal(serveEnclave(*enclave))
	}
	if *only != "" {
		all := append([]attack{idle}, attacks...)
		i := slices.IndexFunc(all, func(a attack) bool { return a.name == *only })
		if i < 0 {
			t.Fatalf("no attack %q", *only)
		}
		b, err := json.Marshal(all[i].measure(t))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s%s\n", measured, b)
		return
	}
	yardstick := start(t, idle)
	all := []Result{yardstick}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			r := start(t, a)
			all = append(all, r)
			a.judge(t, r, yardstick.Victim.P99)
		})
	}
	for line := range strings.Lines(table(all)) {
		t.Logf("counted: %s", strings.TrimRight(line, "\n"))
	}
}

// measured begins the line that the process which measured writes.
const measured = "measured: "

// start measures an attack in a process of its own: decisions that nobody waits for any more go on for minutes, and end with it.
func start(t *testing.T, a attack) (r Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := again(ctx, "-attack="+a.name, fmt.Sprint("-together=", *together))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal comes when the thread ends that started it
	defer runtime.UnlockOSThread()
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	_, line, ok := bytes.Cut(out, []byte(measured))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if !ok || json.Unmarshal(line, &r) != nil {
		t.Fatalf("%s: %v\n%s", a.name, err, out)
	}
	return r
}

// again is a command that runs this test in a process of its own.
func again(ctx context.Context, flags ...string) *exec.Cmd {
	return exec.CommandContext(ctx, os.Args[0], append([]string{"-test.run=^TestOthersAreServed$", "-test.v"}, flags...)...)
}

func (a attack) measure(t *testing.T) Result {
	var command func(dir string) *exec.Cmd
	if !*together {
		command = func(dir string) *exec.Cmd { return again(t.Context(), "-enclave="+dir) }
	}
	w := newWorld(t, command, a.tenants)
	r := w.measure(w.victim(), a.groups(w))
	r.Attack = a.name
	return r
}

// judge holds a result against the bar.
func (a attack) judge(t *testing.T, r Result, idleP99 float64) {
	if bar := 2*idleP99 + step + a.more; r.Victim.P99 > bar {
		t.Errorf("the victim's p99 is %.1f ms, and may be %.1f", r.Victim.P99, bar)
	}
	if v := r.Victim; v.Limited+v.Failed+v.Unanswered > 0 {
		t.Errorf("of the victim's %d requests %d were limited, %d failed and %d were not answered: %s", v.Asked, v.Limited, v.Failed, v.Unanswered, v.Said)
	}
	if n := int(window / every); r.Victim.Asked < n*3/4 {
		t.Errorf("the victim's client had a processor to ask with %d times of %d", r.Victim.Asked, n)
	}
	for _, s := range r.Served {
		if n := s.Failed + s.Unanswered; n > 0 && !a.crowded {
			t.Errorf("%s: %d failed, %d are not answered: %s", s.Name, s.Failed, s.Unanswered, s.Said)
		}
		// One more or less is where the window cuts.
		if s.Most-1 > 2*(s.Least+1) {
			t.Errorf("%s: one attacker got %d answers, and another %d", s.Name, s.Most, s.Least)
		}
	}
}

// table is all results, for people.
func table(all []Result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "attack\tp50\tp99\tlongest\tinside p99\tasked\tanswered\t429\tfailed\tunanswered\tcores\tenclave's\tset-up s\tattackers")
	for _, r := range all {
		v, times := r.Victim, "-\t-\t-\t-" // nobody was answered or waited
		if v.Answered+v.Unanswered > 0 {
			times = fmt.Sprintf("%.2f\t%.2f\t%.1f\t%.2f", v.P50, v.P99, v.Longest, v.InsideP99)
		}
		var served []string
		for _, s := range r.Served {
			served = append(served, fmt.Sprintf("%d %s: alone %.1f, of the enclave %.1f, slowest %.0f, done %d, denied %d, 429 %d, failed %d, unanswered %d, shares %d to %d", s.Attackers, s.Name, s.Alone, s.Enclave, s.Longest,
				s.Done, s.Denied, s.Limited, s.Failed, s.Unanswered, s.Least, s.Most))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.2f\t%.2f\t%.1f\t%s\n", r.Attack, times, v.Asked, v.Answered, v.Limited, v.Failed, v.Unanswered, r.Cores, r.Enclave, r.Setup, strings.Join(served, "; "))
	}
	w.Flush()
	return b.String()
}
