package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation/monitor"
	"cloister/host/api"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/host/tiles"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// A hiding store leaves the newest activities out of lists.
type hiding struct {
	store.Store
	newest atomic.Int32
}

func (h *hiding) Page(ctx context.Context, ask wire.Page) (wire.Proven, error) {
	got, err := h.Store.Page(ctx, ask)
	got.Entries = got.Entries[min(len(got.Entries), int(h.newest.Load())):]
	return got, err
}

// A watched is a deployment with witnesses, real but for the machine, and what somebody needs who watches it.
type watched struct {
	*rig.Rig
	t    *testing.T
	host *hiding
	url  string
	args []string
}

func newWatched(t *testing.T) *watched {
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := &watched{t: t, host: &hiding{Store: s}}
	w.Rig = rig.Start(t, rig.Options{Store: w.host, Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{Serve: time.Second})})
	w.url = rig.ServeHTTP(t, rig.NewAPI(w.Link, func(o *api.Options) { o.Tiles = tiles.New(w.host, time.Now) }).Public(true))
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	pcrs, err := json.Marshal(w.Credentials.PCRs)
	if err != nil {
		t.Fatal(err)
	}
	w.args = []string{"monitor", "-url", w.url, "-organization", w.Credentials.OrganizationID, "-key-file", write("key", w.Credentials.RootAPIKey.PrivateKey),
		"-state", filepath.Join(dir, "state"), "-simulator-root", write("root.pem", w.Credentials.AttestationRootPEM), "-measurements", write("pcrs", string(pcrs)),
		"-manifest-sha256", w.Credentials.ManifestSHA256}
	return w
}

func (w *watched) decide(n int) {
	for range n {
		root := w.Root()
		root.Do("CREATE_USER_TAG", client.Tag(fmt.Sprint("t", root.Times.Next())))
	}
}

// once looks once: the exit status, and what it told.
func (w *watched) once(args ...string) (int, []monitor.Event) {
	w.t.Helper()
	var out, errs bytes.Buffer
	code := run(slices.Concat(w.args, []string{"-once"}, args), strings.NewReader(""), &out, &errs, os.ReadFile, time.Now)
	if errs.Len() > 0 {
		w.t.Log(errs.String())
	}
	return code, events(w.t, out.Bytes())
}

func events(t *testing.T, out []byte) (all []monitor.Event) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var e monitor.Event
		if err := d.Decode(&e); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		all = append(all, e)
	}
	return all
}

// expect wants these events, of which so many are entries.
func (w *watched) expect(code, entries int, kinds []monitor.Kind, args ...string) []monitor.Event {
	w.t.Helper()
	got, all := w.once(args...)
	var others []monitor.Kind
	n := 0
	for _, e := range all {
		if e.Kind == monitor.KindEntry {
			n++
			continue
		}
		others = append(others, e.Kind)
	}
	if got != code || n != entries || !slices.Equal(others, kinds) {
		w.t.Fatalf("exit %d, %d entries, %v; want %d, %d, %v\n%+v", got, n, others, code, entries, kinds, all)
	}
	return all
}

func TestMonitorOfARunningDeployment(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: a monitor beside real rounds of witnesses")
	}
	w := newWatched(t)
	w.decide(3)
	// Everything from the first entry on, and then what is new.
	_, all := w.once("-from", "0")
	if len(all) < 5 || all[0].Kind != monitor.KindLog || slices.ContainsFunc(all, func(e monitor.Event) bool { return e.Alert }) {
		t.Fatalf("%+v", all)
	}
	for i, e := range all[1:] {
		if e.Kind != monitor.KindEntry || *e.Seq != uint64(i) || e.Mode != "bounded" {
			t.Errorf("%+v", e)
		}
	}
	if last := all[len(all)-1]; last.Type != "ACTIVITY_TYPE_CREATE_USER_TAG" || last.Status != "ACTIVITY_STATUS_COMPLETED" {
		t.Errorf("%+v", last)
	}
	w.expect(exitVerified, 0, nil)
	w.decide(2)
	w.expect(exitVerified, 2, nil)

	// A host that withholds what it should list: the entry tells on it.
	w.decide(1)
	w.host.newest.Store(1)
	withheld := w.expect(exitRefused, 1, []monitor.Kind{monitor.KindWithheld})
	if withheld[0].Activity != withheld[1].Activity {
		t.Errorf("%+v", withheld)
	}
	w.host.newest.Store(0)
	w.expect(exitVerified, 0, nil)

	// With the log's tiles, which the host publishes.
	for range 3 {
		w.decide(2)
		w.expect(exitVerified, 2, nil, "-log-url", w.url+"/log/0")
	}

	// Whoever begins without having seen anything begins at the newest.
	w.expect(exitVerified, 1, []monitor.Kind{monitor.KindLog}, "-state", filepath.Join(t.TempDir(), "state"))

	// Another deployment than the one that is pinned.
	if code, all := w.once("-manifest-sha256", strings.Repeat("ab", 32), "-state", filepath.Join(t.TempDir(), "state")); code != exitVerified {
		t.Errorf("two manifests may be pinned: exit %d, %+v", code, all)
	}
	w.args[len(w.args)-1] = strings.Repeat("ab", 32)
	w.expect(exitRefused, 0, []monitor.Kind{monitor.KindUnseen})
}

// As a program that runs: it tells of what comes, and its metrics say so, until it is told to end.
func TestMonitorRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: a monitor beside real rounds of witnesses")
	}
	w := newWatched(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	ctx, end := context.WithCancel(t.Context())
	out := &lines{}
	o, err := parseMonitorFlags(slices.Concat(w.args[1:], []string{"-every", "1s", "-metrics", address}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	m := &watch{monitorOptions: o, stdout: out, stderr: io.Discard, now: time.Now}
	if err := m.prepare(&input{readFile: os.ReadFile}); err != nil {
		t.Fatal(err)
	}
	var code int
	var ran sync.WaitGroup
	ran.Go(func() { code = m.run(ctx) })
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s", what, out)
			}
		}
	}
	await("its first entry", func() bool { return strings.Contains(out.String(), `"event":"entry"`) })
	w.decide(1)
	await("the next one", func() bool { return strings.Contains(out.String(), "ACTIVITY_TYPE_CREATE_USER_TAG") })
	var said string
	await("its metrics", func() bool {
		a, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		said = string(b)
		return err == nil && strings.Contains(said, `cloister_monitor_turns_total{result="whole"}`) && strings.Count(said, "cloister_monitor_witness_up{") == 4
	})
	if !strings.Contains(said, `cloister_monitor_turns_total{result="broken"} 0`) || strings.Contains(said, "_up{witness=\"rig-1\"} 0") {
		t.Error(said)
	}
	end()
	ran.Wait()
	if code != exitVerified {
		t.Errorf("exit %d", code)
	}
	if slices.ContainsFunc(events(t, []byte(out.String())), func(e monitor.Event) bool { return e.Alert }) {
		t.Error(out)
	}
}

// lines are what was written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
