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
	"cloister/shared/wire"
	"cloister/sim/laptop"
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
		if status, m := r.Submit("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": string(rune('a' + i)), "accounts": []any{}}); status != 200 {
			t.Fatalf("start %d: %d %v", i, status, m)
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
	r := rig.Start(t, rig.Options{Witnesses: w})
	body := func(wallet string) []byte {
		return r.Body("ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": wallet, "accounts": []any{}})
	}
	if status, m := r.SubmitBody("create_wallet", body("with four")); status != 200 {
		t.Fatalf("%d %v", status, m)
	}
	w.Locals[0].Stop()
	if status, m := r.SubmitBody("create_wallet", body("with three")); status != 200 {
		t.Fatalf("%d %v", status, m)
	}
	w.Locals[1].Stop()
	answered, two := make(chan int, 1), body("with two")
	go func() {
		status, _ := r.SubmitBody("create_wallet", two)
		answered <- status
	}()
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
		status, m := r.SubmitBody("create_wallet", two)
		if status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with three of them back: %d %v", status, m)
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
	others, err := r.Dir.Organizations()
	if err != nil {
		t.Fatal(err)
	}
	submit := func(id string, key laptop.KeyPair, within time.Duration, op, parameters string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		body := fmt.Appendf(nil, `{"type":"ACTIVITY_TYPE_%s","timestampMs":"%d","organizationId":%q,"parameters":%s}`, strings.ToUpper(op), time.Now().UnixMilli(), id, parameters)
		head, err := laptop.Stamp(key, body)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := r.Link.Call(ctx, &wire.Call{Endpoint: wire.EndpointSubmit, Op: op, Head: head, Body: body, WithinMs: uint32(within.Milliseconds())})
		if err != nil {
			return 0, err.Error()
		}
		return int(reply.Status), string(reply.Body)
	}
	feature := func(op, parameters string, within time.Duration) (int, string) {
		return submit(r.Credentials.OrganizationID, r.Credentials.RootAPIKey, within, op, parameters)
	}
	const name = `{"name":"FEATURE_NAME_STRICT_LOG"`
	if status, m := feature("set_organization_feature", name+`,"value":"yes"}`, time.Minute); status != 400 {
		t.Errorf("with a value: %d %v", status, m)
	}
	if status, m := feature("set_organization_feature", name+`,"value":""}`, time.Minute); status != 200 {
		t.Fatalf("%d %v", status, m)
	}
	ask := func(id string, key laptop.KeyPair, within time.Duration) bool {
		status, _ := submit(id, key, within, "create_user_tag", fmt.Sprintf(`{"userTagName":"%d","userIds":[]}`, time.Now().UnixNano()))
		return status == 200
	}
	strict, bounded := r.Credentials, others[0]
	both := func(within time.Duration) (bool, bool) {
		return ask(strict.OrganizationID, strict.RootAPIKey, within), ask(bounded.OrganizationID, bounded.RootAPIKey, 10*time.Second)
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
	if status, m := feature("remove_organization_feature", name+"}", 500*time.Millisecond); status == 200 {
		t.Errorf("what makes it weaker is answered without witnesses: %v", m)
	}
	if s, b := both(10 * time.Second); !s || !b {
		t.Errorf("without witnesses, after the root quorum took it back: strict %v, bounded %v", s, b)
	}
}
