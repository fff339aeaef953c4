package main_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	sim "cloister/sim"
)

// A command line is everybody's on the machine, so nothing secret is in the host's. What this one inherits stays in its environment.
func TestHostCommandHidesPasswords(t *testing.T) {
	const store = "postgres://cloister:hunter2@127.0.0.1:5432/cloister"
	secrets := map[string]string{"CLOISTER_STORE": store, "CLOISTER_SMTP": "smtps://u:hunter2@mail", "CLOISTER_SMS": "http://u:hunter2@sms/", "CLOISTER_IDP_CLIENTS": "web=hunter2"}
	for what, args := range map[string][]string{"from the environment": nil, "as flags": {"-store", store, "-smtp", "smtps://u:hunter2@mail", "-idp-clients", "web=hunter2"}} {
		env := secrets
		if args != nil {
			env = nil
		}
		h, err := sim.HostCommand(env, "tcp://127.0.0.1:1", args...)
		if err != nil {
			t.Fatal(err)
		}
		if line := strings.Join(h.Args, " "); strings.Contains(line, "hunter2") || !strings.Contains(line, "-enclave tcp://127.0.0.1:1") {
			t.Errorf("%s: %s", what, line)
		}
		if !slices.Contains(h.Env, "CLOISTER_STORE="+store) {
			t.Errorf("%s: the host is not told of its store", what)
		}
	}
}

// A second simulator on a data directory ends before it has touched anything of the first.
func TestSecondSimulatorIsKeptOff(t *testing.T) {
	dir := t.TempDir()
	unlock, err := sim.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pids", "credentials.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("the first's"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	code := sim.Dispatch(t.Context(), &stdout, &stderr, "-data-dir", dir, "-api-addr", "127.0.0.1:0", "-auth-proxy-addr", "127.0.0.1:0", "-host-binary", filepath.Join(dir, "none"))
	want := "cloister-sim: data directory " + dir + ": another simulator runs on it, process " + strconv.Itoa(os.Getpid()) + ": stop that one, or name another -data-dir\n"
	if code != 1 || stderr.String() != want || stdout.Len() > 0 {
		t.Errorf("exit %d: %s%s", code, &stdout, &stderr)
	}
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != 3 { // with the lock
		t.Errorf("%v %v", all, err)
	}
	for _, name := range []string{"pids", "credentials.json"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "the first's" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	unlock()
	again, err := sim.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
