package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/host/api"
	"cloister/host/leaves/leavestest"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/host/store/storetest"
	"cloister/host/tail"
	"cloister/shared/wire"
	"cloister/sim/witness"
	"cloister/sim/witness/witnesstest"
)

// logStore is a store with the first leaves of a log and their checkpoint, whose witnesses have seen so many each.
func logStore(t *testing.T, size uint64, seen ...uint64) (path string, h *leavestest.History) {
	t.Helper()
	h = leavestest.New(0, 1)
	h.Grow(100)
	key := witnesstest.NewLog("log.example/00/0/1")
	checkpoint := func(n uint64) []byte {
		c := tlog.Checkpoint{Origin: key.Key.Name(), Size: n, Root: h.Roots[n]}
		return key.Sign(c.Text())
	}
	text, names := "", ""
	for i, n := range seen {
		w, err := witness.New(witness.Options{Name: fmt.Sprintf("w%d.example", i), Now: time.Now, Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, 32))})
		if err == nil {
			err = w.Add(key.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(w.Handler())
		t.Cleanup(server.Close)
		url := server.URL
		if n == 0 {
			url = "http://127.0.0.1:1"
		} else if r, err := http.Post(url+"/add-checkpoint", "text/plain", strings.NewReader("old 0\n\n"+string(checkpoint(n)))); err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		text += fmt.Sprintf("witness %s %s %s\n", w.Key().Name(), w.Key(), url)
		names += " " + w.Key().Name()
	}
	text += fmt.Sprintf("group all 3%s\nquorum all\n", names)
	path = filepath.Join(t.TempDir(), "cloister.db")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	rows := []store.Row{h.Owner()}
	for _, r := range h.Rows[:size] {
		rows = append(rows, r)
	}
	rows = append(rows, store.NewCheckpointRow(&store.Checkpoint{Generation: 1, Policy: text, Size: size, Signed: checkpoint(size)}))
	if err := s.Import(t.Context(), storetest.From(rows)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, h
}

func TestLogHeads(t *testing.T) {
	path, _ := logStore(t, 100, 100, 100, 99, 100)
	if r := runWith(t, "", nil, "log", "heads", "-store", path); r.code != exitDone || !strings.Contains(r.stdout, "nothing is lost") || strings.Contains(r.stdout, "[{") {
		t.Errorf("%+v", r)
	}
	path, _ = logStore(t, 100, 100, 100, 100, 0)
	if r := runWith(t, "", nil, "log", "heads", "-store", path); r.code != exitFailed || !strings.Contains(r.stdout, "1 did not answer") || !strings.Contains(r.stdout, "can start") {
		t.Errorf("%+v", r)
	}
	path, _ = logStore(t, 100, 100, 100, 0, 0)
	if r := runWith(t, "", nil, "log", "heads", "-store", path); r.code != exitFailed || !strings.Contains(r.stdout, `"size":100,`) || !strings.Contains(r.stdout, `"witnessed":100,"generation":2}]`) {
		t.Errorf("%+v", r)
	}
	path, h := logStore(t, 90, 100, 100, 100, 97)
	r := runWith(t, "", map[string]string{"CLOISTER_STORE": path}, "log", "heads")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	var recover []map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &recover); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	want := fmt.Sprint([]map[string]any{{"range": 0, "origin": "log.example/00/0/1", "size": 90, "root": hex.EncodeToString(h.Roots[90][:]), "witnessed": 100, "generation": 2}})
	if r.code != exitFailed || fmt.Sprint(recover) != want || !strings.Contains(r.stdout, "10 batches are missing: 3 of 4 witnesses have seen 100") || !strings.Contains(r.stdout, "log tail FROM") {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"log", "heads", "-store", path + "x"}, exitFailed, "no such file"},
		{[]string{"log", "heads", "more"}, exitUsage, "unexpected"},
		{[]string{"log", "heads", "-store", path, "-witness-roots", path}, exitFailed, "no certificate"},
		{[]string{"log", "frobnicate"}, exitUsage, "unexpected"},
		{[]string{"log", "-help"}, exitDone, "usage: cloister-host log"},
		{[]string{"log", "heads", "-help"}, exitDone, "usage: cloister-host log heads"},
	} {
		if r := runWith(t, "", nil, c.args...); r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.says) {
			t.Errorf("%v: %+v", c.args, r)
		}
	}
}

// From a store or a backup; what is put behind the other is the matter of package tail.
func TestLogTail(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	for _, name := range []string{path, other} {
		s, err := sqlite.Open(t.Context(), name)
		if err == nil {
			_, err = s.PutObject(t.Context(), wire.PutObject{Name: "genesis", Bytes: []byte("genesis")})
		}
		if err == nil && name == other {
			_, err = s.PutObject(t.Context(), wire.PutObject{Name: "keyring/1", Bytes: []byte("keyring")})
		}
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if r := runWith(t, "", nil, "backup", "-to", dir, "-store", other); r.code != exitDone {
		t.Fatalf("%+v", r)
	}
	made, err := filepath.Glob(filepath.Join(dir, "2*"))
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	for _, from := range []string{other, made[0]} {
		if r := runWith(t, "", map[string]string{"CLOISTER_STORE": path}, "log", "tail", from); r.code != exitDone || !strings.Contains(r.stdout, "nothing that the store lacks") {
			t.Errorf("%+v", r)
		}
	}
	someStore(t, filepath.Join(dir, "c.db"))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"log", "tail", "-store", path}, exitUsage, "want FROM"},
		{[]string{"log", "tail", "-store", path, other, "more"}, exitUsage, "want FROM"},
		{[]string{"log", "tail", "-store", path, filepath.Join(dir, "d.db")}, exitFailed, "no such file"},
		{[]string{"log", "tail", "-store", filepath.Join(dir, "d.db"), other}, exitFailed, "no such file"},
		{[]string{"log", "tail", "-store", path, dir}, exitFailed, "no whole backup"},
		{[]string{"log", "tail", "-store", path, filepath.Join(dir, "c.db")}, exitFailed, "does not fit"},
		{[]string{"log", "tail", "-help"}, exitDone, "usage: cloister-host log tail"},
	} {
		if r := runWith(t, "", nil, c.args...); r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.says) {
			t.Errorf("%v: %+v", c.args, r)
		}
	}
}

func TestLog(t *testing.T) {
	before := noon.Add(-1500 * time.Millisecond)
	long := noon.Add(-time.Hour)
	all := []api.LogStatus{{Origin: "log.example/00/0/1", Generation: 1, Quorum: 2, Size: 12, CosignedSize: 10, CosignedAt: &before,
		Witnesses: []api.LogWitness{{Name: "w0.example", Size: 12, SignedAt: &before}, {Name: "w1.example", Size: 10, SignedAt: &before, OwingSeconds: 1}, {Name: "w2.example", Size: 3, OwingSeconds: 2, Error: "it is away"}}}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/logz" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"logs": all})
	}))
	defer s.Close()
	show := func() result {
		return runWith(t, "", map[string]string{"CLOISTER_OPS_ADDR": strings.TrimPrefix(s.URL, "http://")}, "log")
	}
	r := show()
	for _, line := range []string{"range 0: log.example/00/0/1, generation 1", "12 leaves, 10 cosigned by a quorum of 2, 1.5s ago; 2 lack a quorum", "w0.example: 12 leaves, 1.5s ago\n", "w2.example: 3 leaves, none cosigned since this host was started; asked for more for 2 s: it is away"} {
		if r.code != exitDone || !strings.Contains(r.stdout, line) {
			t.Errorf("%q is not in %+v", line, r)
		}
	}
	all[0].Witnesses[2].OwingSeconds = 300
	if r := show(); r.code != exitFailed || !strings.Contains(r.stderr, "range 0: w2.example lags") {
		t.Errorf("%+v", r)
	}
	all[0].Witnesses[2].OwingSeconds, all[0].CosignedAt = 0, &long
	if r := show(); r.code != exitFailed || !strings.Contains(r.stderr, "no quorum for 1h") {
		t.Errorf("%+v", r)
	}
	all[0].CosignedAt = &before
	ms := uint64(1500)
	for _, c := range []struct {
		name   string
		report wire.LogStatus
		code   int
		says   string
	}{
		{"all well", wire.LogStatus{Size: 13, State: wire.LogServing, Quorum: 2, Unwitnessed: 1, UnwitnessedMs: 20, BoundMs: 2000, QuorumAgeMs: &ms}, exitDone,
			"  the enclave: 13 leaves, 1 of them without a quorum, the last one 1.5s ago. The range is served\n  12 leaves, 10 cosigned"},
		{"no quorum", wire.LogStatus{Size: 13, State: wire.LogStalled, Quorum: 2, Unwitnessed: 3, UnwitnessedMs: 9000, BoundMs: 2000, QuorumAgeMs: &ms, Missing: []string{"w1.example", "w2.example"}}, exitFailed,
			"The range is refused: for 9s fewer than 2 witnesses have signed; missing: w1.example, w2.example\n"},
		{"a boot waits for its quorum", wire.LogStatus{Size: 13, State: wire.LogStarting, WaitMs: 10_100, Quorum: 2, Unwitnessed: 3, UnwitnessedMs: 9000, BoundMs: 2000}, exitFailed,
			"3 of them without a quorum, and none since its start. The range starts: waits for 2 witnesses to sign its first leaf, and then 10.1s until no earlier enclave may serve\n"},
		{"a boot waits for the enclave before", wire.LogStatus{Size: 13, State: wire.LogWaiting, WaitMs: 700, Quorum: 2, QuorumAgeMs: &ms, BoundMs: 2000}, exitFailed, "The range starts: waits 700ms until no earlier enclave may serve\n"},
	} {
		all[0].Enclave = &c.report
		if r := show(); r.code != c.code || !strings.Contains(r.stdout, c.says) || (c.code == exitFailed) != strings.Contains(r.stderr, "range 0 ") {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	all = []api.LogStatus{{Origin: "cloister/00/0/1", Generation: 1, Enclave: &wire.LogStatus{Size: 3, State: wire.LogUnwitnessed}}}
	if r := show(); r.code != exitDone || r.stdout != "range 0: cloister/00/0/1, generation 1\n  the enclave: 3 leaves. The range is served, by a log without witnesses\n" {
		t.Errorf("%+v", r)
	}
	all = nil
	if r := show(); r.code != exitDone || !strings.Contains(r.stdout, "There is no log") {
		t.Errorf("%+v", r)
	}
	for _, url := range []string{s.URL + "/x", "http://127.0.0.1:1", ":"} {
		if r := runWith(t, "", nil, "log", "-url", url); r.code == exitDone {
			t.Errorf("%s: %+v", url, r)
		}
	}
}

// A drill is one under a manifest of a drill, of the deployment of the backup.
func TestDrillsManifest(t *testing.T) {
	of := wire.Hash{7}
	status := func(state, more string) []byte {
		return fmt.Appendf(nil, `{"state":%q,"deployment":"%x"%s}`, state, of, more)
	}
	for name, c := range map[string]struct {
		status []byte
		any    bool
		says   string // empty: it waits, or serves
		serves bool
	}{
		"a drill":             {status("serving", `,"drill":true`), false, "", true},
		"the running one":     {status("serving", ""), false, `"drill": true`, false},
		"no drill":            {status("serving", `,"drill":false`), false, `"drill": true`, false},
		"any":                 {status("serving", ""), true, "", true},
		"a drill, any":        {status("serving", `,"drill":true`), true, "", true},
		"another deployment":  {[]byte(`{"state":"serving","deployment":"00","drill":true}`), true, "another deployment", false},
		"no deployment":       {[]byte(`{"state":"serving","drill":true}`), false, "another deployment", false},
		"fenced":              {status("fenced", `,"drill":true`), true, "fenced", false},
		"waiting":             {status("seed", ""), false, "", false},
		"an answer of no use": {[]byte(`[]`), true, "", false},
	} {
		f := &drillFlags{any: c.any}
		serves, err := f.isServing(c.status, of)
		if serves != c.serves || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", name, serves, err)
		}
	}
}

// The copy of a drill is shown to no witness: an enclave that asks for that is a reason to end.
func TestDrillShowsNothing(t *testing.T) {
	n := new(noWitnesses)
	if got, err := n.Witness(t.Context(), wire.Witness{}); err == nil || got.Lines != nil {
		t.Error(got, err)
	}
	f := &drillFlags{wait: time.Minute}
	if err := f.awaitServing(t.Context(), nil, n, wire.Hash{}); !errors.Is(err, errDrillWitnessed) || !strings.Contains(err.Error(), `"drill": true`) {
		t.Error(err)
	}
}

func TestCheckedAgainst(t *testing.T) {
	for want, r := range map[string]tail.Range{
		"no checkpoint: FROM has none":                             {Before: 5, After: 9},
		"no checkpoint: FROM's newest has 5 leaves":                {Before: 5, After: 9, Signed: 5},
		"FROM's checkpoint of 6 leaves, which lacks the last ones": {Before: 5, After: 9, Signed: 6},
		"FROM's checkpoint of 9 leaves":                            {Before: 5, After: 9, Signed: 9},
		"FROM's checkpoint of 3 leaves":                            {Before: 5, After: 3, Signed: 3}, // of the next generation
		"FROM's checkpoint of 2 leaves, which lacks the last ones": {Before: 5, After: 3, Signed: 2},
	} {
		if got := checkedAgainst(r); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}
