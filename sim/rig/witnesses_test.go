package rig_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/sim/client"
	"cloister/sim/rig"
)

func manifestOf(t *testing.T, dir string) *attestation.Manifest {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := attestation.ParseManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A deployment without witnesses gets some; from then on every manifest names them, and is the same one while they are.
func TestWitnesses(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: rounds of real witnesses")
	}
	dir := t.TempDir()
	w := rig.StartWitnesses(t, rig.WitnessOptions{})
	var nonces []uint64
	for i, o := range []rig.Options{{Dir: dir}, {Dir: dir, Witnesses: w}, {Dir: dir, Witnesses: w}, {Dir: dir}} {
		r := rig.Start(t, o)
		if got := r.Root().Submit("CREATE_WALLET", client.Wallet(string(rune('a'+i)))); got.Status != 200 {
			t.Fatalf("start %d: %v", i, got)
		}
		r.Kill()
		m := manifestOf(t, dir)
		nonces = append(nonces, m.Nonce)
		if (m.Log != nil) != (i > 0) || i > 0 && (*m.Log != w.Terms || m.Freshness.Mode != attestation.FreshWitnessed) {
			t.Errorf("start %d: %+v", i, m.Log)
		}
	}
	if nonces[1] != nonces[0]+1 || nonces[3] != nonces[1] {
		t.Errorf("nonces %d", nonces)
	}
}

func TestWitnessOptions(t *testing.T) {
	w := rig.StartWitnesses(t, rig.WitnessOptions{Count: 3, Quorum: 2, Mode: tlog.ModeStrict, Serve: 300 * time.Millisecond})
	l := w.Terms
	if len(w.Locals) != 3 || l.Mode != "strict" || l.ServeMs != 300 || l.BoundMs != 0 || l.Tolerates != 0 || !strings.Contains(l.Policy, "group all 2 ") {
		t.Errorf("%d witnesses, %+v", len(w.Locals), l)
	}
	if _, err := rig.Try(t, rig.Options{Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{Count: 3, Quorum: 2, Tolerates: 1})}); err == nil || !strings.Contains(err.Error(), "tolerate") {
		t.Errorf("a manifest whose witnesses can be had twice: %v", err)
	}
}

// With two of four away nothing leaves; with one of them back it does.
func TestWitnessesAway(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: witnesses that are away for a real bound")
	}
	w := rig.StartWitnesses(t, rig.WitnessOptions{Mode: tlog.ModeStrict, Serve: 500 * time.Millisecond})
	root := rig.Start(t, rig.Options{Witnesses: w}).Root()
	if got := root.Submit("CREATE_WALLET", client.Wallet("with four")); got.Status != 200 {
		t.Fatal(got)
	}
	w.Locals[0].Stop()
	if got := root.Submit("CREATE_WALLET", client.Wallet("with three")); got.Status != 200 {
		t.Fatal(got)
	}
	w.Locals[1].Stop()
	answered, two := make(chan int, 1), root.Body("CREATE_WALLET", client.Wallet("with two"))
	again := func() client.Reply { return submit(root, "CREATE_WALLET", two) }
	go func() { answered <- again().Status }()
	select {
	case status := <-answered:
		if answered <- status; status != 503 {
			t.Errorf("%d with two witnesses", status)
		}
	case <-time.After(time.Second):
	}
	if err := w.Locals[0].Start(); err != nil {
		t.Fatal(err)
	}
	<-answered // however that ended, the same body ends well now
	for deadline := time.Now().Add(time.Minute); ; {
		got := again()
		if got.Status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with three of them back: %v", got)
		}
	}
}

// In bounded mode an organization that wants it so waits for the witnesses all the same, and another does not.
func TestStrictOrganization(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: witnesses that are away for a real bound")
	}
	w := rig.StartWitnesses(t, rig.WitnessOptions{Serve: time.Minute, Bound: time.Minute})
	r := rig.Start(t, rig.Options{Witnesses: w, Organizations: 1})
	strict, bounded := r.Root(), r.Others()[0]
	submit := func(u *client.User, within time.Duration, typ string, parameters object) client.Reply {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		q, err := u.Activity(typ, parameters)
		if err != nil {
			t.Fatal(err)
		}
		call := q.Call()
		call.WithinMs = uint32(within.Milliseconds())
		reply, err := r.Link.Call(ctx, call)
		if err != nil {
			return client.Reply{Body: []byte(err.Error())}
		}
		return client.Reply{Status: int(reply.Status), Body: reply.Body}
	}
	feature := object{"name": "FEATURE_NAME_STRICT_LOG", "value": "yes"}
	wants(t, "with a value", submit(strict, time.Minute, "SET_ORGANIZATION_FEATURE", feature), 400, "")
	feature["value"] = ""
	if got := submit(strict, time.Minute, "SET_ORGANIZATION_FEATURE", feature); got.Status != 200 {
		t.Fatal(got)
	}
	ask := func(u *client.User, within time.Duration) bool {
		return submit(u, within, "CREATE_USER_TAG", client.Tag(fmt.Sprint(time.Now().UnixNano()))).Status == 200
	}
	both := func(within time.Duration) (bool, bool) {
		return ask(strict, within), ask(bounded, 10*time.Second)
	}
	if s, b := both(10 * time.Second); !s || !b {
		t.Errorf("with all witnesses: strict %v, bounded %v", s, b)
	}
	w.Stop()
	if s, b := both(500 * time.Millisecond); s || !b {
		t.Errorf("without witnesses: strict %v, bounded %v", s, b)
	}
	for _, l := range w.Locals {
		if err := l.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if s, b := both(20 * time.Second); !s || !b {
		t.Errorf("with witnesses again: strict %v, bounded %v", s, b)
	}
	w.Stop()
	delete(feature, "value")
	if got := submit(strict, 500*time.Millisecond, "REMOVE_ORGANIZATION_FEATURE", feature); got.Status == 200 {
		t.Errorf("what makes it weaker is answered without witnesses: %v", got)
	}
	if s, b := both(10 * time.Second); !s || !b {
		t.Errorf("without witnesses, after the root quorum took it back: strict %v, bounded %v", s, b)
	}
}
