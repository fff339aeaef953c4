package main_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloister/shared/variables"
	sim "cloister/sim"
	"cloister/sim/rig"
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
	code := sim.Dispatch(t.Context(), &stdout, &stderr, nil, "-data-dir", dir, "-api-addr", "127.0.0.1:0", "-auth-proxy-addr", "127.0.0.1:0", "-host-binary", filepath.Join(dir, "none"))
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

// The reason of a failed start is the last line that whoever ended has said.
func TestReasonOfEnd(t *testing.T) {
	for said, want := range map[string]string{
		"": "",
		"cloister-host serve: -api-addr: listen tcp: address already in use\n":                                                                   "cloister-host serve: -api-addr: listen tcp: address already in use",
		"{\"level\":\"INFO\",\"msg\":\"listening\"}\n":                                                                                           "",
		"{\"level\":\"INFO\",\"msg\":\"x\"}\n{\"level\":\"ERROR\",\"msg\":\"fenced\",\"reason\":\"boot: the store holds another deployment\"}\n": "fenced: boot: the store holds another deployment",
		"{\"level\":\"ERROR\",\"msg\":\"store failed\",\"error\":\"database or disk is full (13)\"}\n\n":                                         "store failed: database or disk is full (13)",
		"one\ntwo\nthree":                   "two", // which has not ended
		strings.Repeat("x", 100_000) + "\n": strings.Repeat("x", 4096),
	} {
		for _, size := range []int{1, 7, 1 << 20} { // it comes in pieces
			var out bytes.Buffer
			l := sim.NewLastLine(&out)
			for piece := range slices.Chunk([]byte(said), size) {
				if n, err := l.Write(piece); n != len(piece) || err != nil {
					t.Fatal(n, err)
				}
			}
			l.Mute()
			if n, err := l.Write([]byte("bye")); n != 3 || err != nil {
				t.Fatal(n, err)
			}
			if got := l.Reason(); got != want || out.String() != said {
				t.Errorf("%.100q in pieces of %d: %.100q, want %.100q", said, size, got, want)
			}
		}
	}
}

// A store that was deleted, or another one, is no reason to make an organization anew: its wallets are gone.
func TestEmptyStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "cloister.db")
	check := func(what string, says string, more ...string) {
		t.Helper()
		err := sim.CheckStore(t.Context(), append([]string{"-data-dir", dir}, more...)...)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
	}
	check("the first start", "")
	r := rig.Start(t, rig.Options{Dir: dir})
	id := r.Credentials.OrganizationID
	r.Stop()
	check("another start", "")
	check("a store elsewhere that is not there", "organization "+id, "-store", filepath.Join(dir, "none.db"))
	if _, err := os.Stat(filepath.Join(dir, "none.db")); err == nil {
		t.Error("looking made a store")
	}
	kept := map[string][]byte{}
	for _, name := range []string{store, store + "-wal", store + "-shm"} {
		if b, err := os.ReadFile(name); err == nil {
			kept[name] = b
		}
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	check("deleted", "the store is empty, and organization "+id)
	before, err := os.ReadFile(filepath.Join(dir, "credentials.json"))
	if err != nil {
		t.Fatal(err)
	}
	// Whoever boots by hand gets as far as the enclave, and no credentials of the new organization in the place of the old.
	if _, err := rig.Try(t, rig.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "the store has lost organization "+id) {
		t.Errorf("%v", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "credentials.json")); err != nil || !bytes.Equal(before, after) {
		t.Error("the credentials of what was lost are lost too", err)
	}
	for name, b := range kept {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check("put back", "")
	// The enclave's folder deleted: the store is another deployment's for a new root secret, which is not made.
	if err := os.RemoveAll(filepath.Join(dir, "enclave")); err != nil {
		t.Fatal(err)
	}
	if _, err := rig.Try(t, rig.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "genesis: the store holds another deployment, whose root secret is not here (STORE_OF_ANOTHER)") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "enclave", "seed")); err == nil {
		t.Error("a root secret was made that opens nothing")
	}
}

// A variable that is misspelt is refused by every command, before anything is made.
func TestMisspeltVariable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for _, command := range []string{"", "enclave", "boot", "drill", "beside"} {
		var stdout, stderr bytes.Buffer
		args := []string{command, "-data-dir", dir}
		if command == "" {
			args = args[1:]
		}
		code := sim.Dispatch(t.Context(), &stdout, &stderr, []string{"CLOISTER_DATA_DIR=" + dir, "CLOISTER_API_ADR=127.0.0.1:1"}, args...)
		if want := "cloister-sim: environment: CLOISTER_API_ADR is no variable of ours; the nearest one is CLOISTER_API_ADDR\n"; code != 2 || stderr.String() != want {
			t.Errorf("%s: exit %d: %s", command, code, &stderr)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a data directory was made")
	}
	flags := sim.Flags()
	if len(flags) < 40 {
		t.Fatal(flags)
	}
	for _, name := range flags {
		if err := variables.CheckEnvironment([]string{"CLOISTER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "=x"}); err != nil {
			t.Error(err)
		}
	}
}
