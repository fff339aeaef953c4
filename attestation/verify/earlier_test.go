package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// Proofs from before a restart verify after it, though the simulator runs under another manifest then; what runs has to run
// under the new one.
func TestProofsOfEarlierManifests(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, v any) string {
		b, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	credentials := filepath.Join(dir, "credentials.json")
	verify := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errs, os.ReadFile, nil)
		return code, out.String() + errs.String()
	}
	wants := func(what string, want int, args ...string) {
		t.Helper()
		if code, said := verify(args...); code != want {
			t.Errorf("%s: exit %d, want %d: %s", what, code, want, said)
		}
	}
	// Three boots, each under a configuration of its own and thus a manifest of its own.
	var boots, keys []string
	for i, configuration := range []string{`{"issuer":"http://127.0.0.1:1"}`, `{"issuer":"http://127.0.0.1:2"}`, ""} {
		r := rig.Start(t, rig.Options{Dir: dir, Configuration: []byte(configuration)})
		boots = append(boots, write("boot-"+string(rune('0'+i)), r.Root().Read("get_latest_boot_proof", map[string]any{"appName": "cloister"})))
		document, err := r.Link.Call(t.Context(), &wire.Call{Endpoint: wire.EndpointBoot, Op: wire.OpDiscoveryKeys, WithinMs: 60_000})
		if err != nil || document.Status != 200 {
			t.Fatal(document, err)
		}
		keys = append(keys, write("keys-"+string(rune('0'+i)), json.RawMessage(document.Body)))
		wants("its own", exitVerified, "-credentials", credentials, "-boot-proof", boots[i])
		r.Stop()
	}
	for i, boot := range boots {
		wants("kept", exitVerified, "-credentials", credentials, "-boot-proof", boot)
		want := exitRefused
		if i == len(boots)-1 {
			want = exitVerified
		}
		wants("keys of what runs", want, "keys", "-credentials", credentials, "-document", keys[i])
	}
	// The list is the user's: what he takes out of it is believed no more, and does not come back.
	var c laptop.Credentials
	b, err := os.ReadFile(credentials)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil || len(c.EarlierManifests) != 2 {
		t.Fatalf("%v, %v", c.EarlierManifests, err)
	}
	c.EarlierManifests = c.EarlierManifests[:1]
	write("credentials.json", c)
	rig.Start(t, rig.Options{Dir: dir}).Stop()
	wants("taken out", exitRefused, "-credentials", credentials, "-boot-proof", boots[0])
	wants("left in", exitVerified, "-credentials", credentials, "-boot-proof", boots[1])
	// A file that says nothing of earlier ones is from before there was the list.
	c.EarlierManifests = nil
	write("credentials.json", c)
	wants("no list", exitRefused, "-credentials", credentials, "-boot-proof", boots[1])
	wants("no list, the current one", exitVerified, "-credentials", credentials, "-boot-proof", boots[2])
}
