package ranges_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/host/store/storetest"
	"cloister/shared/clocktest"
	"cloister/shared/porttest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/process"
)

// A deployment is two enclaves and two hosts over one PostgreSQL, as processes.
type deployment struct {
	t         *testing.T
	dir       string // logs and programs
	data      *laptop.Dir
	store     string
	enclaves  [2]*process.Process
	addresses [2]string // of the enclaves
	hosts     [2]*process.Process
	apis      [2]string // HOST:PORT
	orgs      []laptop.Organization
	times     client.Times
}

func (d *deployment) sim() string  { return filepath.Join(d.dir, "cloister-sim") }
func (d *deployment) host() string { return filepath.Join(d.dir, "cloister-host") }

func (d *deployment) log(name string) string { return filepath.Join(d.dir, name+".log") }

// deploy starts enclaves, of which only the first of n is booted and serves what is
// asked of both hosts.
func deploy(t *testing.T, n, ranges, organizations int) *deployment {
	t.Helper()
	d := &deployment{t: t, dir: t.TempDir()}
	d.data = &laptop.Dir{Path: filepath.Join(d.dir, "data"), Ranges: ranges}
	d.store = storetest.StartPostgres(t).Database()
	process.Build(t, d.sim(), "../../sim", "")
	process.Build(t, d.host(), "../../host", "")
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"enclave0", "enclave1", "host0", "host1"} {
				b, _ := os.ReadFile(d.log(name))
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
	name := fmt.Sprint("enclave", i)
	cmd := exec.Command(d.sim(), "enclave", "-data-dir", d.data.Path, "-enclave-addr", strings.TrimPrefix(d.addresses[i], "tcp://"), "-quotas", "tags=1000")
	d.enclaves[i] = process.Listen(d.t, d.log(name), cmd, "")
	if d.addresses[i] = d.enclaves[i].Said; d.addresses[i] == "" {
		d.t.Fatalf("%s did not start", name)
	}
}

func (d *deployment) startHost(i int) {
	all := d.addresses[0]
	if d.addresses[1] != "" {
		all += "," + d.addresses[1]
	}
	d.hosts[i] = process.Start(d.t, d.log(fmt.Sprint("host", i)), exec.Command(d.host(), "serve", "-enclave", all, "-store", d.store, "-api-addr", d.apis[i],
		"-auth-proxy-addr", "off"))
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
