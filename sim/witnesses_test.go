package main_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/attestation/tlog"
	sim "cloister/sim"
	"cloister/sim/rig"
)

// name puts terms into the manifest of a data directory, as if an enclave had booted under them.
func name(t *testing.T, dir string, terms *attestation.LogTerms) {
	t.Helper()
	file := filepath.Join(dir, "manifest.json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := attestation.ParseManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	m.Log, m.Freshness.Mode = terms, attestation.FreshWitnessed
	if b, err = m.Encode(); err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWitnesses(t *testing.T) {
	dir := t.TempDir()
	var before *attestation.LogTerms
	for _, mode := range []string{"bounded", "strict"} {
		all, terms, err := sim.StartWitnesses("-data-dir", dir, "-log", mode)
		if err != nil {
			t.Fatal(err)
		}
		all.Stop()
		p, err := tlog.ParsePolicy(terms.Policy)
		if err != nil || len(all) != 4 || p.Quorum() != 3 || !p.Tolerates(terms.Tolerates) || terms.Tolerates != 1 || (terms.Mode == "strict") != (mode == "strict") {
			t.Errorf("-log %s: %+v, %v", mode, terms, err)
		}
		for _, w := range all {
			if !strings.HasPrefix(w.Key().Name(), "same-machine-") || !strings.HasPrefix(w.URL, "http://127.0.0.1:") {
				t.Errorf("%s is at %s", w.Key().Name(), w.URL)
			}
		}
		if before != nil && before.Hash() != terms.Hash() {
			t.Error("they became others")
		}
		before = terms
	}
	if all, terms, err := sim.StartWitnesses("-data-dir", dir, "-log", "none"); err != nil || all != nil || terms != nil {
		t.Errorf("-log none without a manifest that names any: %v %v %v", all, terms, err)
	}
	all, terms, err := sim.StartWitnesses("-data-dir", dir)
	if err != nil || len(all) != 4 || terms == nil || terms.Mode != "bounded" {
		t.Errorf("a new data directory: %v %+v %v", all, terms, err)
	}
	all.Stop()

	// One from before there were witnesses keeps to what its manifest says.
	old := t.TempDir()
	rig.Start(t, rig.Options{Dir: old}).Kill()
	if all, terms, err := sim.StartWitnesses("-data-dir", old); err != nil || all != nil || terms != nil {
		t.Errorf("a data directory whose manifest names none: %v %v %v", all, terms, err)
	}
	if _, _, err := sim.StartWitnesses("-data-dir", dir, "-log", "open"); err == nil {
		t.Error("a mode that there is not was taken")
	}
}

// What a manifest names is there again: the same witnesses, at the same addresses unless others have them now.
func TestWitnessesAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: ports that are closed and bound again")
	}
	dir := t.TempDir()
	rig.Start(t, rig.Options{Dir: dir}).Kill()
	all, terms, err := sim.StartWitnesses("-data-dir", dir, "-log", "bounded")
	if err != nil {
		t.Fatal(err)
	}
	all.Stop()
	name(t, dir, terms)

	again, same, err := sim.StartWitnesses("-data-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Stop()
	if *same != *terms {
		t.Errorf("%+v became %+v", terms, same)
	}

	l, err := net.Listen("tcp", strings.TrimPrefix(all[1].URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	moved, other, err := sim.StartWitnesses("-data-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	moved.Stop()
	if other.Hash() != terms.Hash() || other.Policy == terms.Policy || moved[0].URL != all[0].URL || moved[1].URL == all[1].URL {
		t.Errorf("%s moved to %s", all[1].URL, moved[1].URL)
	}

	// No flag is what was before.
	strict := *terms
	strict.Mode, strict.BoundMs = "strict", 0
	name(t, dir, &strict)
	for _, mode := range []string{"", "strict", "bounded", "none"} {
		still, kept, err := sim.StartWitnesses("-data-dir", dir, "-log", mode)
		if weaker := mode == "bounded" || mode == "none"; (err != nil) != weaker || err == nil && kept.Mode != "strict" {
			t.Errorf("-log %s where it was strict: %+v, %v", mode, kept, err)
		}
		still.Stop()
	}

	// One has lost its key.
	if err := os.RemoveAll(filepath.Join(dir, "witnesses", "3")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-data-dir", dir}, {"-data-dir", dir, "-log", "strict"}} {
		if others, _, err := sim.StartWitnesses(args...); err == nil {
			others.Stop()
			t.Errorf("%q was taken", args)
		} else {
			t.Logf("%q: %v", args, err)
		}
	}
}

// A store from before there were witnesses gets some; what enclaves boot under is told by the manifest.
func TestWitnessesLater(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: rounds of real witnesses")
	}
	dir := t.TempDir()
	rig.Start(t, rig.Options{Dir: dir}).Kill()
	all, terms, err := sim.StartWitnesses("-data-dir", dir, "-log", "bounded")
	if err != nil || terms.Name != rig.LogName {
		t.Fatalf("%+v, %v", terms, err)
	}
	defer all.Stop()
	rig.Start(t, rig.Options{Dir: dir, Witnesses: &rig.Witnesses{Locals: all, Terms: *terms}})
	if b, err := os.ReadFile(filepath.Join(dir, "manifest.json")); err != nil || !strings.Contains(string(b), `"nonce":2,`) || !strings.Contains(string(b), `"witnessed"`) {
		t.Errorf("%s %v", b, err)
	}
}
