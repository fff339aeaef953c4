package ranges_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/host/store/storetest"
	"cloister/shared/clocktest"
	"cloister/shared/porttest"
	"cloister/shared/wire"
	"cloister/sim/laptop"
)

// starts carries every start of a process to one thread that does not end, since a
// child's death signal comes when the thread that started it does.
var starts = make(chan func())

func TestMain(m *testing.M) {
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	os.Exit(m.Run())
}

// A process is a program of ours that runs.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	said string        // its first line
}

// launch starts a program. With listens it returns once it has said where it listens.
func launch(t *testing.T, dir, name string, listens bool, program string, args ...string) *process {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	starts <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(out)
		text, _ := lines.ReadString('\n')
		first <- strings.TrimSpace(text)
		_, _ = lines.WriteTo(nowhere{})
		_ = p.cmd.Wait()
		close(p.done)
	}()
	if listens {
		if p.said = <-first; p.said == "" {
			t.Fatalf("%s did not start; its log is in %s", name, dir)
		}
	}
	return p
}

type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// A deployment is two enclaves and two hosts over one PostgreSQL, as processes.
type deployment struct {
	t         *testing.T
	dir       string // logs and programs
	data      *laptop.Dir
	store     string
	enclaves  [2]*process
	addresses [2]string // of the enclaves
	hosts     [2]*process
	apis      [2]string // HOST:PORT
	orgs      []laptop.Organization
}

func build(t *testing.T, to, from string) string {
	t.Helper()
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	if out, err := exec.Command(tool, "build", "-trimpath", "-buildvcs=false", "-o", to, from).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", from, err, out)
	}
	return to
}

func (d *deployment) sim() string  { return filepath.Join(d.dir, "cloister-sim") }
func (d *deployment) host() string { return filepath.Join(d.dir, "cloister-host") }

// deploy starts enclaves, of which only the first of n is booted and serves what is
// asked of both hosts.
func deploy(t *testing.T, n, ranges, organizations int) *deployment {
	t.Helper()
	d := &deployment{t: t, dir: t.TempDir()}
	d.data = &laptop.Dir{Path: filepath.Join(d.dir, "data"), Ranges: ranges}
	d.store = storetest.StartPostgres(t).Database()
	build(t, d.sim(), "../../sim")
	build(t, d.host(), "../../host")
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"enclave0", "enclave1", "host0", "host1"} {
				b, _ := os.ReadFile(filepath.Join(d.dir, name+".log"))
				t.Logf("%s:\n%s", name, b[max(0, len(b)-3000):])
			}
		}
	})
	for i := range n {
		d.addresses[i] = "tcp://" + porttest.Address(t)
		d.startEnclave(i)
		d.apis[i] = porttest.Address(t)
	}
	for i := range n {
		d.startHost(i)
	}
	d.run("boot", "-boot-patience", "5m", "-ranges", fmt.Sprint(ranges), "-organizations", fmt.Sprint(organizations), "-enclave-addr", d.addresses[0], "-auth-proxy=false")
	for i := 1; i < n; i++ {
		d.join(i)
	}
	var err error
	if d.orgs, err = d.data.Organizations(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *deployment) startEnclave(i int) {
	d.enclaves[i] = launch(d.t, d.dir, fmt.Sprintf("enclave%d", i), true, d.sim(), "enclave", "-data-dir", d.data.Path, "-enclave-addr", strings.TrimPrefix(d.addresses[i], "tcp://"),
		"-quotas", "tags=1000")
	d.addresses[i] = d.enclaves[i].said
}

func (d *deployment) startHost(i int) {
	all := d.addresses[0]
	if d.addresses[1] != "" {
		all += "," + d.addresses[1]
	}
	d.hosts[i] = launch(d.t, d.dir, fmt.Sprintf("host%d", i), false, d.host(), "serve", "-enclave", all, "-store", d.store, "-api-addr", d.apis[i], "-auth-proxy-addr", "off")
}

// run runs a command of the simulator to its end.
func (d *deployment) run(args ...string) {
	d.t.Helper()
	args = append(args, "-data-dir", d.data.Path)
	if out, err := exec.Command(d.sim(), args...).CombinedOutput(); err != nil {
		d.t.Fatalf("cloister-sim %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// join boots one more enclave.
func (d *deployment) join(i int) {
	d.t.Helper()
	d.run("boot", "-boot-patience", "5m", "-join", "-enclave-addr", d.addresses[i], "-auth-proxy=false")
}

// table is what an enclave owns, nil if it does not say.
func (d *deployment) table(i int) *wire.Table {
	ctx, cancel := context.WithTimeout(d.t.Context(), clocktest.Patience)
	defer cancel()
	endpoint, err := laptop.DialEnclave(ctx, d.addresses[i])
	if err != nil {
		return nil
	}
	defer endpoint.Close()
	var signed jsonText
	if endpoint.Call(ctx, "ranges", nil, nil, &signed) != nil {
		return nil
	}
	t, _, err := wire.ParseTable(signed)
	if err != nil {
		d.t.Error(err)
	}
	return t
}

type jsonText []byte

func (j *jsonText) UnmarshalJSON(b []byte) error { *j = append([]byte{}, b...); return nil }

// level waits until both enclaves own half of the ranges each.
func (d *deployment) level(ranges int) time.Duration {
	d.t.Helper()
	began := time.Now()
	d.until("the ranges are shared out", func(a, b *wire.Table) bool { return len(a.Owned) == ranges/2 && len(b.Owned) == ranges/2 })
	return time.Since(began)
}

// until waits until both enclaves tell what they own, and that is so.
func (d *deployment) until(what string, so func(a, b *wire.Table) bool) {
	d.t.Helper()
	clocktest.Until(d.t, what, func() bool {
		a, b := d.table(0), d.table(1)
		return a != nil && b != nil && so(a, b)
	})
}

// retire has an enclave's ranges moved to the other, by the operator's command.
func (d *deployment) retire(i, ranges int) {
	d.t.Helper()
	began := time.Now()
	out, err := exec.Command(d.host(), "ranges", "-enclave", d.addresses[0]+","+d.addresses[1], "-retire", d.addresses[i]).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "retiring") {
		d.t.Fatalf("%v: %s", err, out)
	}
	handed := 0
	d.until("all has moved to the other", func(a, b *wire.Table) bool {
		from, to := a, b
		if i == 1 {
			from, to = b, a
		}
		handed = 0
		for _, r := range to.Owned {
			if r.Handed {
				handed++
			}
		}
		return len(from.Owned) == 0 && len(to.Owned) == ranges
	})
	d.t.Logf("enclave %d retired: all its ranges moved after %v, %d of %d owned with heads", i, time.Since(began).Round(10*time.Millisecond), handed, ranges)
	if handed < ranges/2 {
		d.t.Error("moved without heads")
	}
}
