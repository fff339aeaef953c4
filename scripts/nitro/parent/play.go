package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"cloister/attestation"
)

// operators is how many there are, all of whom act together.
const operators = 2

// play leads an enclave to where it waits for its root secret: a deployment in
// shares, manifests of other images, its own, and two documents.
func play(r *attestation.Release) error {
	named := attestation.Operators{Threshold: operators}
	var hold []*ecdsa.PrivateKey
	for range operators {
		key, signs, err := newKey()
		if err != nil {
			return err
		}
		_, receives, err := newKey()
		if err != nil {
			return err
		}
		hold = append(hold, key)
		named.PublicKeys, named.ShareKeys = append(named.PublicKeys, signs), append(named.ShareKeys, receives)
	}
	if _, err := ask("status", nil); err != nil {
		return err
	}
	answer, err := ask("genesis", map[string]any{"operators": named})
	if err != nil {
		return err
	}
	var made struct{ QuorumPublicKey string }
	if err := json.Unmarshal(answer, &made); err != nil {
		return fmt.Errorf("genesis: %w", err)
	}
	own := attestation.Manifest{
		Format: 1, Kind: attestation.KindNitro, Application: attestation.Application, Version: r.Version, ApplicationDigest: r.ApplicationDigest,
		DeploymentLabel: "test-nitro", Nonce: 1, PCRs: attestation.Measurements{PCR0: r.PCRs.PCR0, PCR1: r.PCRs.PCR1, PCR2: r.PCRs.PCR2},
		QuorumPublicKey: made.QuorumPublicKey, Operators: named, AdmissionKey: named.PublicKeys[0], SeedSource: attestation.SeedOperatorShares,
		Freshness: attestation.Freshness{Mode: attestation.FreshSinceBoot}, MinKeyringEpoch: 1,
	}
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
		raw, err := m.Encode()
		if err != nil {
			return err
		}
		var approvals []attestation.ManifestApproval
		for _, key := range hold {
			approval, err := attestation.ApproveManifest(key, attestation.Hash(raw))
			if err != nil {
				return err
			}
			approvals = append(approvals, approval)
		}
		if _, err := ask("manifest", map[string]any{
			"manifest": base64.StdEncoding.EncodeToString(raw), "approvals": approvals,
		}); err != nil {
			return err
		}
	}
	for range 2 {
		var nonce [attestation.SetupNonceSize]byte
		if _, err := rand.Read(nonce[:]); err != nil {
			return err
		}
		if _, err := ask("setup_document", map[string]string{"nonce": hex.EncodeToString(nonce[:])}); err != nil {
			return err
		}
	}
	_, err = ask("status", nil)
	return err
}

// newKey is a P-256 key with its public half, compressed in hex.
func newKey() (key *ecdsa.PrivateKey, compressed string, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, "", err
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return nil, "", err
	}
	// SEC 1: whether y is odd, and x.
	return key, hex.EncodeToString(append([]byte{2 | point[64]&1}, point[1:33]...)), nil
}
