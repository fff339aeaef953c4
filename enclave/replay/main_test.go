package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/attestation/request"
	"cloister/sim/rig"
)

// said runs the command, and answers what it ends with and says.
func said(args ...string) (code int, out, problems string) {
	var o, p bytes.Buffer
	code = run(args, &o, &p)
	return code, o.String(), p.String()
}

// A history is fetched over HTTP, and replays; a bit of it that is another one is found.
func TestCommand(t *testing.T) {
	w := rig.StartWitnesses(t, rig.WitnessOptions{})
	r := rig.Start(t, rig.Options{Witnesses: w})
	url := r.Serve()
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	credentials, err := json.Marshal(r.Credentials)
	if err != nil {
		t.Fatal(err)
	}
	file, policy := write("credentials.json", credentials), write("witnesses", []byte(w.Terms.Policy))
	key, err := request.ParseKey(r.Credentials.RootAPIKey.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	client := &request.API{URL: url, OrganizationID: r.Credentials.OrganizationID, Key: key}
	act, err := client.Submit(t.Context(), "ACTIVITY_TYPE_EXPORT_HISTORY", map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	code, history, problems := said("fetch", "-credentials", file, "-api-url", url, "-activity", act.ID)
	if code != exitSame {
		t.Fatal(problems)
	}
	var boot struct {
		BootProof struct {
			Key string `json:"ephemeralPublicKeyHex"`
		} `json:"bootProof"`
	}
	if err := client.Query(t.Context(), "get_latest_boot_proof", map[string]any{"appName": "cloister"}, &boot); err != nil {
		t.Fatal(err)
	}
	good := write("history", []byte(history))
	code, out, problems := said("-live-key", boot.BootProof.Key, "-witnesses", policy, good)
	if code != exitSame || !strings.Contains(out, "every decision of 2 entries") || !strings.Contains(out, "cosigned by") || !strings.Contains(out, "ACTIVITY_TYPE_EXPORT_HISTORY") {
		t.Errorf("%d\n%s%s", code, out, problems)
	}
	bad := []byte(history)
	bad[len(bad)/2] ^= 4
	if code, out, _ := said("-live-key", boot.BootProof.Key, "-witnesses", policy, write("bad", bad)); code != exitDifferent || !strings.Contains(out, "NOT the history") {
		t.Errorf("%d\n%s", code, out)
	}
	for _, args := range [][]string{
		nil, {"-live-key", boot.BootProof.Key}, {good}, {"-live-key", "04", good}, {"-live-key", boot.BootProof.Key, filepath.Join(dir, "none")},
		{"-live-key", boot.BootProof.Key, "-witnesses", good, good}, {"-live-key", boot.BootProof.Key, "-witnesses", filepath.Join(dir, "none"), good},
		{"-limits", "users=1", "-live-key", boot.BootProof.Key, good}, {"fetch"}, {"fetch", "-credentials", file, "-activity", "x", "more"},
		{"fetch", "-credentials", filepath.Join(dir, "none"), "-activity", act.ID}, {"fetch", "-credentials", good, "-activity", act.ID},
		{"fetch", "-credentials", file, "-api-url", url, "-activity", r.Credentials.OrganizationID},
	} {
		if code, _, problems := said(args...); code != exitUnknown || problems == "" {
			t.Errorf("%q: %d %s", args, code, problems)
		}
	}
	if code, out, _ := said("kinds"); code != exitSame || !strings.Contains(out, "SIGN_TRANSACTION") {
		t.Errorf("%d\n%s", code, out)
	}
}
