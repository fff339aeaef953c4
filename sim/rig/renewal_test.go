package rig_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/rig"
)

// TestAttestationIsRenewed lets hours pass: the document that is told and given out
// is a new one, which leads to the same live key, and the first is still as good.
func TestAttestationIsRenewed(t *testing.T) {
	c := clocktest.New()
	a := rateClient{t, rig.Start(t, rig.Options{Clock: c})}
	policy := attestation.Policy{SimulatorRootPEM: a.Credentials.AttestationRootPEM, AllowedManifestSHA256: []string{a.Credentials.ManifestSHA256}}
	age := func() time.Duration {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		r, err := a.Link.Call(ctx, &wire.Call{Endpoint: wire.EndpointBoot, Op: "status", Body: []byte("{}"), WithinMs: 300_000})
		if err != nil {
			t.Fatal(err)
		}
		var s struct{ AttestationAgeMs int64 }
		if err := json.Unmarshal(r.Body, &s); err != nil {
			t.Fatal(err)
		}
		return time.Duration(s.AttestationAgeMs) * time.Millisecond
	}
	latest := func() (attestation.BootProof, *attestation.Boot) {
		t.Helper()
		body, err := json.Marshal(map[string]string{"organizationId": a.Credentials.OrganizationID, "appName": attestation.Application})
		if err != nil {
			t.Fatal(err)
		}
		r := a.send(wire.EndpointQuery, "get_latest_boot_proof", body, a.Credentials.RootAPIKey)
		var got struct{ BootProof attestation.BootProof }
		if err := json.Unmarshal(r.Body, &got); err != nil || r.Status != 200 {
			t.Fatalf("%d %s %v", r.Status, r.Body, err)
		}
		b, err := attestation.VerifyBootProof(got.BootProof, policy)
		if err != nil {
			t.Fatal(err)
		}
		return got.BootProof, b
	}
	first, boot := latest()
	for range 3 {
		c.Pass(59 * time.Minute)
		before, _ := latest()
		c.Pass(2 * time.Minute)
		after, b := latest()
		if before.AWSAttestationDocB64 == after.AWSAttestationDocB64 || b.PublicKeyHex != boot.PublicKeyHex {
			t.Error("the document was not renewed, or is of another key")
		}
		if old := age(); old > time.Minute {
			t.Errorf("its age is %v", old)
		}
	}
	if _, err := attestation.VerifyBootProof(first, policy); err != nil {
		t.Error("the first proof:", err)
	}
}
