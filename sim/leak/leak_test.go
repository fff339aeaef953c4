package leak_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/sim/client"
)

// tally counts finds by what was found, the control apart.
func tally(found map[find]int) (controls int, others map[string]int) {
	others = map[string]int{}
	for f := range found {
		if f.secret.kind == "control" {
			controls++
		} else {
			others[f.secret.kind+", "+f.encoding]++
		}
	}
	return controls, others
}

// clean fails unless the control was found in every encoding and nothing else
// was found at all.
func clean(t *testing.T, place string, bytes int64, secrets int, found map[find]int) {
	t.Helper()
	controls, others := tally(found)
	if controls != encodings {
		t.Errorf("%s: the planted control was found in %d of %d encodings", place, controls, encodings)
	}
	if len(others) != 0 {
		t.Errorf("%s: found %v", place, others)
	}
	t.Logf("counted: %s: %.1f MB searched for %d secrets in %d encodings: %d found; planted control found in %d encodings",
		place, float64(bytes)/1e6, secrets, encodings, len(others), controls)
}

func TestLeaks(t *testing.T) {
	wallets, signatures := 90, 2000
	if testing.Short() {
		wallets, signatures = 20, 300
	}
	began := time.Now()
	p := build(t, "runtimesecret")
	built := time.Since(began)
	s := up(t, p, settings{organizations: 3, control: newControl()})
	s.half()
	began = time.Now()
	l := s.work(wallets, signatures)
	for _, o := range s.tenants { // what the log's proofs open is on its way too
		o.Read("get_log_proof", client.Object{"seq": "1"})
	}
	idle := time.Now()
	took := idle.Sub(began)

	secrets := s.secretsOf(l)
	if want := (wallets + 1) * len(s.tenants); l.wallets != want {
		t.Fatalf("secrets of %d wallets are known, want %d", l.wallets, want)
	}
	scan := newScanner(append(slices.Clip(secrets), s.control))
	s.collected()
	inEnclave, size := s.frozen(scan)
	s.idleEnclave(l, inEnclave, size, true)

	s.plantInStore("leak-control-after") // into the write-ahead log
	s.pass()
	if _, err := s.log.Write(planted(s.control)); err != nil {
		t.Fatal(err)
	}
	found := map[find]int{}
	size = scan.memory(t, s.host.Cmd.Process.Pid, found)
	clean(t, "memory of the host", size, len(secrets), found)
	s.restsClean(scan, len(secrets))
	found = map[find]int{}
	clean(t, "traffic between host and enclave", scan.files(t, s.traffic, nothing, found), len(secrets), found)
	for k, n := range s.counters() {
		if strings.HasPrefix(k, "alarm_") && n != 0 {
			t.Errorf("%s = %d", k, n)
		}
	}
	t.Logf("counted: %d organizations, %d wallets, %d accounts, %d private keys, %d signatures in %.1f s; built in %.1f s, scanned in %.1f s",
		len(s.tenants), l.wallets, len(l.accounts), len(l.keys), l.signatures, took.Seconds(), built.Seconds(), time.Since(idle).Seconds())
}

// restsClean searches what rests on the disk: store, write-ahead log and logs, and
// what else lies in the data directory, but for what stands for the enclave's own.
func (s *stack) restsClean(scan *scanner, secrets int) {
	s.t.Helper()
	for _, place := range []struct {
		name, dir string
		skip      func(string) bool
	}{
		{"store", s.dir, func(p string) bool { return !strings.HasSuffix(p, "cloister.db") }},
		{"write-ahead log", s.dir, func(p string) bool { return !strings.HasSuffix(p, "-wal") }},
		{"logs", s.logs, nothing},
	} {
		found := map[find]int{}
		clean(s.t, place.name, scan.files(s.t, place.dir, place.skip, found), secrets, found)
	}
	found := map[find]int{}
	scan.files(s.t, s.dir, func(p string) bool { return strings.HasPrefix(p, filepath.Join(s.dir, "enclave")) }, found)
	if _, others := tally(found); len(others) != 0 {
		s.t.Errorf("data directory: found %v", others)
	}
}

func nothing(string) bool { return false }

// The plain build shows what erasing is for: the same enclave keeps keys that
// nobody uses.
func TestLeaksOfThePlainBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: leaks of the plain build")
	}
	s := up(t, build(t, ""), settings{organizations: 1, control: newControl()})
	l := s.work(30, 150)
	secrets := s.secretsOf(l)
	scan := newScanner(append(slices.Clip(secrets), s.control))
	s.collected()
	found, size := s.frozen(scan)
	s.idleEnclave(l, found, size, false)
}

// frozen searches the enclave's memory while it stands still.
func (s *stack) frozen(scan *scanner) (found map[find]int, size int64) {
	s.t.Helper()
	if err := s.enclave.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = s.enclave.Cmd.Process.Signal(syscall.SIGCONT) }()
	clocktest.Until(s.t, "the enclave stands still", func() bool { return s.state(s.enclave.Cmd.Process.Pid) == "T" })
	found = map[find]int{}
	return found, scan.memory(s.t, s.enclave.Cmd.Process.Pid, found)
}

// idleEnclave holds what was found in the enclave's memory against what it
// declares to keep: the keys in its cache, which are those that it signed with.
func (s *stack) idleEnclave(l *load, found map[find]int, size int64, erasing bool) {
	s.t.Helper()
	declared := s.counters()["derived_keys"]
	if int(declared) != len(l.signed) {
		s.t.Errorf("%d keys are declared, %d were signed with", declared, len(l.signed))
	}
	controls, others := tally(found)
	if controls != encodings {
		s.t.Errorf("memory of the enclave: the planted control was found in %d of %d encodings", controls, encodings)
	}
	distinct := map[string]map[*secret]bool{}
	for f := range found {
		if distinct[f.secret.kind] == nil {
			distinct[f.secret.kind] = map[*secret]bool{}
		}
		distinct[f.secret.kind][f.secret] = true
	}
	if len(distinct[kindUsed]) == 0 || len(distinct[kindUsed]) > int(declared) {
		s.t.Errorf("memory of the enclave: %d keys in use found, %d declared", len(distinct[kindUsed]), declared)
	}
	if keys, states := len(distinct["log-key"]), len(distinct["log-key state"]); keys == 0 || states != 4 {
		s.t.Errorf("memory of the enclave: %d keys of a log, which it signs with, and %d of the 4 halves of those that hide tips and authenticate headers: the scan looks for others", keys, states)
	}
	forgotten := 0
	for _, kind := range []string{kindEntropy, kindSeed, kindNode, kindUnused, kindTarget, kindKept, kindProxy, kindSpark} {
		forgotten += len(distinct[kind])
	}
	// Of the deployment only the storage key, the key under which heads are handed on, the
	// blind-index key, the keys that sign bundles, sessions, verification tokens and
	// webhooks, those that open OAuth and on-ramp credentials, the data keys of open
	// organizations, those of logs and the live key stay in use.
	idle := len(distinct["root-secret"]) + len(distinct["keyring"]) + max(0, len(distinct["sealing-key"])-2-len(s.tenants))
	if erasing && idle > 0 {
		s.t.Errorf("memory of the enclave: %d keys of the deployment that it should have forgotten", idle)
	}
	if erasing && forgotten > 0 {
		s.t.Errorf("memory of the enclave: %d keys, seeds and entropies that it should have forgotten", forgotten)
	}
	if !erasing && forgotten == 0 {
		s.t.Error("memory of the enclave: the plain build shows nothing, so the scan proves nothing")
	}
	for _, k := range slices.Sorted(maps.Keys(others)) {
		s.t.Logf("counted: memory of the enclave: %s: %d", k, others[k])
	}
	s.t.Logf("counted: memory of the idle enclave, erasing build %v: %.1f MB searched: %d of %d declared keys found, %d others",
		erasing, float64(size)/1e6, len(distinct[kindUsed]), declared, forgotten)
}

// state is the letter of a process's state.
func (s *stack) state(pid int) string {
	s.t.Helper()
	var id int
	var name, state string
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(b), "%d %s %s", &id, &name, &state); err != nil {
		s.t.Fatal(err)
	}
	return state
}
