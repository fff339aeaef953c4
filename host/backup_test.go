package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/host/backup"
	"cloister/host/logcheck"
	"cloister/host/store/sqlite"
	"cloister/host/store/storetest"
	"cloister/shared/wire"
)

// someStore is a store with something of everything in it.
func someStore(t *testing.T, path string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Full(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBackupCommands(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "a.db"), filepath.Join(dir, "backups")
	someStore(t, path)
	sum := sha256.Sum256([]byte("genesis"))
	deployment := hex.EncodeToString(sum[:])

	r := runWith(t, "", map[string]string{"CLOISTER_STORE": path}, "backup", "-to", to)
	if r.code != exitDone || !strings.Contains(r.stdout, deployment) || !strings.Contains(r.stdout, "307\n") {
		t.Fatalf("%+v", r)
	}
	made, err := filepath.Glob(filepath.Join(to, "*"))
	if err != nil || len(made) != 1 || !strings.Contains(r.stdout, made[0]) {
		t.Fatal(made, err, r.stdout)
	}
	from := made[0]
	// The headers of that store are none: verify says where, and what is damaged can be restored.
	if r := runWith(t, "", nil, "backup", "verify", "-from", from, "-deployment", deployment); r.code != exitFailed || !strings.Contains(r.stderr, "range 0: batch 1 of epoch 1: its header cannot be read") ||
		!strings.Contains(r.stderr, "runbook") {
		t.Fatalf("%+v", r)
	}
	back := filepath.Join(dir, "b.db")
	r = runWith(t, "", nil, "restore", "-from", from, "-store", back, "-deployment", deployment)
	if r.code != exitDone || !strings.Contains(r.stdout, "5 sends had not ended") {
		t.Fatalf("%+v", r)
	}
	if r := runWith(t, "", nil, "backup", "-to", to, "-store", back); r.code != exitDone {
		t.Fatalf("a backup of what was restored: %+v", r)
	}

	policy := func(text string) string {
		name := filepath.Join(t.TempDir(), "policy")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	other := strings.Repeat("00", 32)
	missing := filepath.Join(dir, "c.db")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"backup"}, exitUsage, "want -to"},
		{[]string{"backup", "-to", "ftp://x", "-store", path}, exitUsage, "want a folder"},
		{[]string{"backup", "-to", to, "-store", missing}, exitFailed, "no such file"},
		{[]string{"backup", "-to", to, "more"}, exitUsage, "unexpected"},
		{[]string{"backup", "verify"}, exitUsage, "want -from"},
		{[]string{"backup", "verify", "-from", from, "-deployment", "12"}, exitUsage, "64 hexadecimal"},
		{[]string{"backup", "verify", "-from", from, "-witnesses", missing}, exitFailed, "no such file"},
		{[]string{"backup", "verify", "-from", from, "-witnesses", policy("policy")}, exitUsage, "-witnesses"},
		{[]string{"backup", "verify", "-from", from, "-witnesses", policy("")}, exitFailed, "it is empty"},
		{[]string{"backup", "verify", "-from", from, "-log-key", "key"}, exitUsage, "-log-key"},
		{[]string{"backup", "verify", "-from", from, "-deployment", other}, exitFailed, "another deployment"},
		{[]string{"backup", "verify", "-from", dir}, exitFailed, "no whole backup"},
		{[]string{"backup", "verify", "-from", "s3://b/x", "-s3-roots", path}, exitFailed, "no certificate"},
		{[]string{"restore", "-store", missing}, exitUsage, "want -from"},
		{[]string{"restore", "-from", from, "-store", back}, exitFailed, "not empty"},
		{[]string{"restore", "-from", from, "-store", missing, "-deployment", other}, exitFailed, "another deployment"},
	} {
		r := runWith(t, "", nil, c.args...)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%v: %+v", c.args, r)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		r := runWith(t, "", nil, "backup", "-to", to, "-store", missing)
		if r.code == exitDone {
			t.Error("a refused restore left something behind")
		}
	}
	// A mistyped name makes nothing, whatever is asked of it: neither file nor folder, and no table in a file of others.
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"webhooks", "list"}, {"webhooks", "resend", "all"}, {"backup", "-to", filepath.Join(dir, "none")}, {"log", "heads"}, {"log", "tail", from},
		{"restore", "-from", filepath.Join(dir, "none")}, {"restore", "-from", from, "-deployment", other},
		{"drill", "-from", filepath.Join(dir, "none"), "-enclave", "unix:" + filepath.Join(dir, "none"), "-credentials", empty, "-scratch", filepath.Join(dir, "none")}} {
		for name, where := range map[string]string{"CLOISTER_DATA_DIR": filepath.Join(dir, "none"), "CLOISTER_STORE": empty} {
			if c[0] == "restore" && name == "CLOISTER_STORE" && c[1] == "-from" && c[2] == from {
				continue // restores into what is empty
			}
			if r := runWith(t, "", map[string]string{name: where}, c...); r.code != exitFailed || r.stdout != "" || r.stderr == "" {
				t.Errorf("%v with %s: %+v", c, name, r)
			}
			if _, err := os.Lstat(filepath.Join(dir, "none")); err == nil {
				t.Fatalf("%v with %s made a folder", c, name)
			}
			if b, err := os.ReadFile(empty); err != nil || len(b) > 0 {
				t.Fatalf("%v with %s wrote %d bytes into a file that is no store: %v", c, name, len(b), err)
			}
		}
	}
	for _, args := range [][]string{{"backup", "-help"}, {"backup", "verify", "-help"}, {"restore", "-help"}} {
		if r := runWith(t, "", nil, args...); r.code != exitDone || r.stderr != "" || !strings.Contains(r.stdout, "usage: cloister-host") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// A backup of a store without batches has no log to check.
func TestBackupWithoutLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	s, err := sqlite.Open(t.Context(), path)
	for _, name := range []string{"genesis", "keyring/1"} {
		if err == nil {
			_, err = s.PutObject(t.Context(), wire.PutObject{Name: name, Bytes: []byte(name)})
		}
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if r := runWith(t, "", nil, "backup", "-to", dir, "-store", path); r.code != exitDone {
		t.Fatalf("%+v", r)
	}
	made, err := filepath.Glob(filepath.Join(dir, "2*"))
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	if r := runWith(t, "", nil, "backup", "verify", "-from", made[0]); r.code != exitDone || !strings.HasPrefix(r.stdout, "whole: ") || strings.Contains(r.stdout, "  log ") {
		t.Errorf("%+v", r)
	}
}

func TestLogText(t *testing.T) {
	for _, c := range []struct {
		of   logcheck.Checked
		want string
	}{
		{logcheck.Checked{}, "generation 2, 9 leaves; no checkpoint of it to check them against"},
		{logcheck.Checked{Origin: "o"}, "generation 2, 9 leaves; its checkpoint is too old to check them against"},
		{logcheck.Checked{Origin: "o", Signed: 8}, "generation 2, 9 leaves; those of the log's checkpoint of 8, whose signature was not verified (-log-key); no checkpoint with a quorum"},
		{logcheck.Checked{Origin: "o", Signed: 8, Cosigned: 7, Cosignatures: 3, Witnesses: 4},
			"generation 2, 9 leaves; those of the log's checkpoint of 8, whose signature was not verified (-log-key); 3 of 4 witnesses have cosigned the first 7, by the policy in the backup"},
		{logcheck.Checked{Origin: "o", Signed: 8, Cosigned: 7, Cosignatures: 3, Witnesses: 4, Verified: true, Given: true},
			"generation 2, 9 leaves; those of the log's checkpoint of 8, signed by its key; 3 of 4 witnesses have cosigned the first 7, by -witnesses"},
	} {
		if got := logText(&backup.LogSummary{Generation: 2, Leaves: 9, Checked: c.of}); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}
