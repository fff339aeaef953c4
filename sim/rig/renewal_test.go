package rig_test

import (
	"encoding/json"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// TestAttestationIsRenewed lets hours pass: the document that is told and given out
// is a new one, which leads to the same live key, and the first is still as good.
func TestAttestationIsRenewed(t *testing.T) {
	c := clocktest.New()
	r := rig.Start(t, rig.Options{Clock: c})
	root := r.Root()
	policy := attestation.Policy{SimulatorRootPEM: r.Credentials.AttestationRootPEM, AllowedManifestSHA256: []string{r.Credentials.ManifestSHA256}}
	age := func() time.Duration {
		t.Helper()
		got := with(root).Post(wire.EndpointBoot, "status", []byte("{}"))
		var s struct{ AttestationAgeMs int64 }
		if err := json.Unmarshal(got.Body, &s); err != nil {
			t.Fatal(err)
		}
		return time.Duration(s.AttestationAgeMs) * time.Millisecond
	}
	latest := func() (attestation.BootProof, *attestation.Boot) {
		t.Helper()
		reply := root.Query("get_latest_boot_proof", client.Object{"appName": attestation.Application})
		var got struct{ BootProof attestation.BootProof }
		if err := json.Unmarshal(reply.Body, &got); err != nil || reply.Status != 200 {
			t.Fatal(reply, err)
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
