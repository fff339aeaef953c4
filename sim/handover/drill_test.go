package handover_test

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/shared/wire"
	"cloister/sim/client"
)

// A backup is tried out under a manifest for that: it answers, and signs what is worth nothing, while the deployment serves on.
func TestDrill(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: a drill under real witnesses")
	}
	w := newWorld(t)
	first := w.serving()
	o := w.organization(first.link)
	send(t, first.link, o.sign([]byte("kept")))
	first.stop()
	backup := w.copyOf(w.file)
	served := w.serving()
	served.takeAll()
	if status, code := served.answer(o.sign([]byte("later"))); status != 200 {
		t.Fatalf("%d %s", status, code)
	}
	deployment, cosigner := w.store, w.cosigner
	w.restore(backup)
	m := after(t, w.manifest)
	m.Drill, m.Log, m.Freshness.Mode = true, nil, attestation.FreshSinceBoot
	e := w.waiting(m, w.manifest, nil)
	e.shares(m)
	e.takeAll()
	w.store, w.cosigner = deployment, cosigner
	if logs := e.logs(); len(logs) != 0 {
		t.Errorf("it tells of its logs: %v", logs)
	}
	if drill := string(e.must("status", nil)["drill"]); drill != "true" || served.must("status", nil)["drill"] != nil {
		t.Errorf("it says that it is a drill: %q", drill)
	}
	digest := attestation.DrillPrefix + strings.Repeat("d", 32-len(attestation.DrillPrefix))
	for what, c := range map[string]struct {
		call   *wire.Call
		status int
		code   string
	}{
		"a query":              {o.query("whoami", nil), 200, ""},
		"a drill's payload":    {o.signHashed([]byte(attestation.DrillPrefix+"one"), "KECCAK256"), 200, ""},
		"a payload":            {o.sign([]byte("worth something")), 400, "DRILL"},
		"a digest":             {o.signHashed([]byte(digest), "NO_OP"), 400, "DRILL"},
		"the prefix within":    {o.sign([]byte("x" + attestation.DrillPrefix)), 400, "DRILL"},
		"an export":            {o.export(w.operators[0]), 400, "DRILL"},
		"a tag":                {o.activity("CREATE_USER_TAG", client.Tag("t")), 400, "DRILL"},
		"another organization": {w.creation(o.Key), 400, "DRILL"},
	} {
		if status, code := e.answer(c.call); status != c.status || code != c.code {
			t.Errorf("%s: %d %q, want %d %q", what, status, code, c.status, c.code)
		}
	}
	// Who verifies does not take it for the deployment, unless it is what he means.
	r := send(t, e.link, o.query("get_latest_boot_proof", client.Object{"appName": "cloister"}))
	var got struct{ BootProof attestation.BootProof }
	must(t, json.Unmarshal(r.Body, &got))
	proof := got.BootProof
	p := attestation.Policy{SimulatorRootPEM: w.root.PEM(), Operators: w.manifest.Operators}
	if _, err := attestation.VerifyBootProof(proof, p); err == nil || !strings.Contains(err.Error(), "drill") {
		t.Errorf("a drill's boot proof: %v", err)
	}
	raw, err := m.Encode()
	must(t, err)
	hash := attestation.Hash(raw)
	p.AllowedManifestSHA256 = []string{hex.EncodeToString(hash[:])}
	if _, err := attestation.VerifyBootProof(proof, p); err != nil {
		t.Errorf("a drill's boot proof, by its manifest: %v", err)
	}
	if status, code := served.answer(o.sign([]byte("on"))); status != 200 {
		t.Errorf("the deployment serves on: %d %s", status, code)
	}
	// Nothing comes after it, and nobody hands over to it.
	next := after(t, m)
	next.Drill, next.Log, next.Freshness.Mode = false, w.manifest.Log, attestation.FreshWitnessed
	if _, refusal := w.start(newer, nil).ask("manifest", w.submission(next, m, w.operators)); !strings.Contains(refusal, "nothing comes after a drill") {
		t.Errorf("a manifest after a drill's: %q", refusal)
	}
	waiting := w.waiting(m, w.manifest, nil)
	if _, refusal := served.ask("hand_over", w.documents(served, waiting).body()); !strings.Contains(refusal, "a drill is of a copy") {
		t.Errorf("handed over to a drill: %q", refusal)
	}
}
