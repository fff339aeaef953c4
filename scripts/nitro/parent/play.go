package main

import (
	"crypto/rand"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"cloister/attestation"
	"cloister/scripts/internal/operators"
)

// everybody is how many operators there are, all of whom act together.
const everybody = 2

// play leads an enclave to where it waits for its root secret: a deployment in
// shares, manifests of other images, its own, and two documents.
func play(r *attestation.Release) error {
	all, err := operators.New(everybody, everybody)
	if err != nil {
		return err
	}
	if _, err := ask("status", nil); err != nil {
		return err
	}
	answer, err := ask("genesis", map[string]any{"operators": all.Named})
	if err != nil {
		return err
	}
	var made struct{ QuorumPublicKey string }
	if err := json.Unmarshal(answer, &made); err != nil {
		return fmt.Errorf("genesis: %w", err)
	}
	own := all.Manifest()
	own.Version, own.ApplicationDigest, own.DeploymentLabel = r.Version, r.ApplicationDigest, "test-nitro"
	own.PCRs = attestation.Measurements{PCR0: r.PCRs.PCR0, PCR1: r.PCRs.PCR1, PCR2: r.PCRs.PCR2}
	own.QuorumPublicKey, own.AdmissionKey = made.QuorumPublicKey, all.Named.PublicKeys[0]
	another := strings.Repeat("ab", sha512.Size384)
	for i := range 4 {
		m := own
		switch i {
		case 0:
			m.PCRs.PCR0 = another
		case 1:
			m.PCRs.PCR1 = another
		case 2:
			m.PCRs.PCR2 = another
		}
		approved, err := all.ManifestBody(m)
		if err != nil {
			return err
		}
		if _, err := ask("manifest", approved); err != nil {
			return err
		}
	}
	for range 2 {
		var nonce [attestation.SetupNonceSize]byte
		_, _ = rand.Read(nonce[:])
		if _, err := ask("setup_document", map[string]string{"nonce": hex.EncodeToString(nonce[:])}); err != nil {
			return err
		}
	}
	_, err = ask("status", nil)
	return err
}
