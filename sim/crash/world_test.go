package crash_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/host/store/storetest"
	"cloister/shared/porttest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/process"
)

func sum(b []byte) wire.Hash { return sha256.Sum256(b) }

// setting is what a world is made of.
type setting struct {
	programs programs
	postgres bool
	lease    string // of the enclave; empty: its default
	// snapshots says that the enclave makes them often, so that kills meet them.
	snapshots bool
	enclave   []string // more flags of the enclave
	witnesses *seats   // of the log; nil: none
}

// victims are what a kill ends.
type victims uint8

const (
	killHost victims = 1 << iota
	killEnclave
	killPostgres
)

func (v victims) String() string {
	var names []string
	for i, name := range []string{"host", "enclave", "postgres", "witness 1", "witness 2", "witness 3", "witness 4"} {
		if v&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// world is a deployment under test, kept up by a supervisor that starts again
// what was killed.
type world struct {
	setting
	t        *testing.T
	dir      string
	store    string
	api      string // http://…
	proxy    *proxy
	pg       *storetest.Server
	pgDown   bool
	problems problems

	mu      sync.Mutex
	host    *process.Process
	enclave *process.Process
	booted  bool
	booting chan boot // nil: no boot is under way
	kills   atomic.Int64
	since   [2]int64 // kills before host and enclave were started

	credentials   laptop.Credentials
	organizations []laptop.Organization

	waiting sync.Map // fingerprints of bodies sent and not answered
	acked   atomic.Int64
	onAck   atomic.Pointer[chan struct{}]

	transport *http.Transport // of clients
	times     client.Times

	prober *worker  // makes an activity to see whether that is possible again
	probe  *request // the one under way
}

// problems are what must not happen, in order of appearance.
type problems struct {
	mu   sync.Mutex
	list []string
}

func (p *problems) add(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < 100 {
		p.list = append(p.list, fmt.Sprintf(format, args...))
	}
}

func (p *problems) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list
}

// topLevel is how many organizations there are besides the root organization.
const topLevel = 2

// newWorld makes a deployment and waits until it serves.
func newWorld(t *testing.T, s setting) *world {
	t.Helper()
	w := &world{setting: s, t: t, dir: t.TempDir(), proxy: newProxy(t)}
	w.store = "sqlite:" + filepath.Join(w.dir, "cloister.db")
	if s.postgres {
		w.pg = storetest.StartPostgres(t)
		w.store = w.pg.Database()
	}
	w.api = "http://" + porttest.Address(t)
	w.transport = &http.Transport{MaxIdleConnsPerHost: 4 * clients}
	err := w.recover()
	if err != nil {
		t.Fatal(err)
	}
	if w.organizations, err = (&laptop.Dir{Path: w.dir}).Organizations(); err != nil || len(w.organizations) != topLevel {
		t.Fatalf("%d organizations, %v", len(w.organizations), err)
	}
	return w
}

// kill ends processes with SIGKILL, all at once.
func (w *world) kill(v victims) {
	w.kills.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if v&killHost != 0 {
		w.host.Signal()
	}
	if v&killEnclave != 0 {
		w.enclave.Signal()
	}
	if v&killPostgres != 0 {
		w.pg.Kill9()
		w.pgDown = true
	}
	if w.witnesses != nil {
		w.witnesses.end(v)
	}
	if v&killHost != 0 {
		w.host.Kill()
	}
	if v&killEnclave != 0 {
		w.enclave.Kill()
	}
}

// recovery bounds the time to get up again.
const recovery = 5 * time.Minute

// recover starts what is down and waits until a query is answered and a new
// activity is acknowledged.
func (w *world) recover() error {
	for began := time.Now(); time.Since(began) < recovery; {
		up, err := w.raise()
		if err == nil && up && w.serves() {
			if up, err = w.acknowledges(); up {
				return nil
			}
		}
		if err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("not ready after %v\nhost: %s\nenclave: %s", recovery, w.tail("host"), w.tail("enclave"))
}

// raise does one round of the supervisor: everything that is down is started.
func (w *world) raise() (up bool, err error) {
	if w.pgDown {
		w.pg.Start()
		w.pgDown = false
	}
	if err := w.raiseWitnesses(); err != nil {
		return false, err
	}
	w.raiseHost()
	w.raiseEnclave()
	if w.booted {
		return true, nil
	}
	if w.booting == nil {
		w.booting = make(chan boot, 1)
		w.boot(w.enclave.Said, w.booting)
	}
	select {
	case b := <-w.booting:
		w.booting = nil
		return w.hasBooted(b), nil
	default:
		return false, nil // the host may have to be started for it again
	}
}

// hasBooted looks at what came of a boot. There is no way back for an enclave
// whose boot failed.
func (w *world) hasBooted(b boot) bool {
	if b.err == nil && w.credentials.OrganizationID != "" && b.OrganizationID != w.credentials.OrganizationID {
		b.err = errors.New("the root organization is another one")
	}
	if b.err == nil {
		w.booted, w.credentials = true, b.Credentials
		return true
	}
	w.mu.Lock()
	e, killed := w.enclave, w.kills.Load() > w.since[1]
	w.mu.Unlock()
	e.Kill()
	if !killed {
		w.problems.add("boot failed with nothing killed: %v", b.err)
	}
	return false
}

func (w *world) raiseWitnesses() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.witnesses == nil {
		return nil
	}
	return w.witnesses.raise(w.t, w.dir)
}

// launch starts a program with a log of its own.
func (w *world) launch(name, program string, args ...string) *process.Process {
	return process.Start(w.t, w.log(name), exec.Command(program, args...))
}

func (w *world) log(name string) string { return filepath.Join(w.dir, name+".log") }

func (w *world) raiseHost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.host.Alive() {
		return
	}
	if w.host != nil && !w.host.Killed() {
		w.problems.add("the host ended by itself: %s", w.tail("host"))
		time.Sleep(100 * time.Millisecond)
	}
	w.since[0] = w.kills.Load()
	w.host = w.launch("host", w.programs.host, "serve", "-enclave", w.proxy.address(), "-store", w.store,
		"-api-addr", strings.TrimPrefix(w.api, "http://"), "-auth-proxy-addr", "off")
}

func (w *world) raiseEnclave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.enclave.Alive() {
		return
	}
	if w.enclave != nil && !w.enclave.Killed() && (w.booted || w.kills.Load() == w.since[1]) {
		w.problems.add("the enclave ended by itself: %s", w.tail("enclave"))
	}
	w.booted, w.booting = false, nil // a boot that is under way ends with the enclave that it was for
	w.since[1] = w.kills.Load()
	args := append([]string{"enclave", "-data-dir", w.dir}, w.setting.enclave...)
	if w.lease != "" {
		args = append(args, "-lease", w.lease)
	}
	if w.snapshots {
		args = append(args, "-snapshot-every", "50")
	}
	w.enclave = process.Listen(w.t, w.log("enclave"), exec.Command(w.programs.sim, args...), "")
	w.proxy.target.Store(&w.enclave.Said)
}

// boot is what came of booting an enclave.
type boot struct {
	laptop.Credentials
	err error
}

// boot does what an operator does after an enclave has started, and tells how it
// went.
func (w *world) boot(address string, done chan<- boot) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	args := []string{"boot", "-enclave-addr", address, "-data-dir", w.dir, "-organizations", strconv.Itoa(topLevel), "-auth-proxy=false", "-boot-patience", patience.String()}
	if w.witnesses != nil {
		file, err := w.witnesses.file()
		if err != nil {
			w.t.Fatal(err)
		}
		args = append(args, "-log-terms", file)
		go w.witnesses.follow(ctx, address)
	}
	cmd := exec.CommandContext(ctx, w.programs.sim, args...)
	out := new(strings.Builder)
	cmd.Stdout, cmd.Stderr = out, out
	p := process.Start(w.t, "", cmd)
	go func() {
		defer cancel()
		var b boot
		if err := p.Wait(); err != nil {
			b.err = fmt.Errorf("%w: %s", err, strings.TrimSpace(out.String()))
		} else if c, err := (&laptop.Dir{Path: w.dir}).ReadCredentials(); err != nil || c == nil {
			b.err = fmt.Errorf("no credentials: %v", err)
		} else {
			b.Credentials = *c
		}
		done <- b
	}()
}

// serves asks one query as the root user.
func (w *world) serves() bool {
	r, err := w.root(5*time.Second).Query(context.Background(), "whoami", nil)
	return err == nil && r.Status == 200
}

// acknowledges makes an activity. Its body stands in a ledger like every other,
// and is the same until it is acknowledged.
func (w *world) acknowledges() (bool, error) {
	c := w.prober
	if c == nil {
		return true, nil
	}
	if w.probe == nil {
		r, err := c.prepare("UPDATE_USER_NAME", client.Object{"userId": w.credentials.RootUserID, "userName": fmt.Sprintf("Root %d", c.n)})
		if err != nil {
			return false, err
		}
		w.probe = r
	}
	a, refused, err := c.once(w.probe.op, w.probe.body)
	if err != nil {
		return false, nil // nothing is known
	}
	r := w.probe
	w.probe = nil
	return true, c.settle(r, a, refused)
}

// tail is the end of a process's log.
func (w *world) tail(name string) string {
	b, _ := os.ReadFile(w.log(name))
	return string(b[max(0, len(b)-2000):])
}

// counters are those of the running enclave.
func (w *world) counters() (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := laptop.DialEnclave(ctx, w.enclave.Said)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var s struct{ Counters map[string]uint64 }
	err = d.Call(ctx, "status", nil, nil, &s)
	return s.Counters, err
}

// bootEnded tells that an enclave ended before it served, as it must when its
// boot fails. Whether anything was killed meanwhile is looked at by raise.
func bootEnded(line string) bool { return strings.Contains(line, `"reason":"boot: `) }

// complaints are lines of the logs that no kill explains.
func (w *world) complaints() (found []string) {
	for name, words := range map[string][]string{
		"enclave": {"internal error", "fenced", "panic", "DATA RACE"},
		"host":    {"broke the protocol", "panic", "call failed", "DATA RACE"},
	} {
		b, err := os.ReadFile(w.log(name))
		if err != nil {
			found = append(found, err.Error())
		}
		for line := range strings.Lines(string(b)) {
			for _, word := range words {
				if strings.Contains(line, word) && !bootEnded(line) && len(found) < 20 {
					found = append(found, name+" logged: "+strings.TrimSpace(line[:min(len(line), 600)]))
				}
			}
		}
	}
	return found
}

// isWaiting tells whether a client waits for the answer to this body.
func (w *world) isWaiting(fingerprint wire.Hash) bool {
	_, ok := w.waiting.Load(fingerprint)
	return ok
}
