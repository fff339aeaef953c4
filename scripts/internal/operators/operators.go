// Package operators makes the operators of a test's deployment, who start an enclave that believes itself a real one.
package operators

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"

	"cloister/attestation"
)

// Operators are some, with their keys in the order in which they are named.
type Operators struct {
	Named attestation.Operators
	Sign  []*ecdsa.PrivateKey
	Share []*ecdh.PrivateKey
}

// New makes n operators, threshold of whom act together.
func New(n, threshold int) (*Operators, error) {
	o := &Operators{Named: attestation.Operators{Threshold: threshold}}
	for range n {
		sign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		share, err := ecdh.P256().GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		point, err := sign.PublicKey.Bytes()
		if err != nil {
			return nil, err
		}
		o.Sign, o.Share = append(o.Sign, sign), append(o.Share, share)
		o.Named.PublicKeys = append(o.Named.PublicKeys, compress(point))
		o.Named.ShareKeys = append(o.Named.ShareKeys, compress(share.PublicKey().Bytes()))
	}
	return o, nil
}

// compress shortens a P-256 point by SEC 1: whether y is odd, and x.
func compress(point []byte) string {
	return hex.EncodeToString(append([]byte{2 | point[64]&1}, point[1:33]...))
}

// Manifest is the first manifest of these operators' deployment, but for what is to be filled in: version, enclave binary,
// label, owner, measurements, quorum key and admission key.
func (o *Operators) Manifest() attestation.Manifest {
	return attestation.Manifest{
		Format: 1, Kind: attestation.KindNitro, Application: attestation.Application, Nonce: 1, Operators: o.Named,
		SeedSource: attestation.SeedOperatorShares, Freshness: attestation.Freshness{Mode: attestation.FreshSinceBoot}, MinKeyringEpoch: 1,
	}
}

// ManifestBody is what the boot endpoint is asked with for its operation manifest: the manifest, and approvals by as many as the
// threshold.
func (o *Operators) ManifestBody(m attestation.Manifest) (map[string]any, error) {
	raw, err := m.Encode()
	if err != nil {
		return nil, err
	}
	var approvals []attestation.ManifestApproval
	for _, key := range o.Sign[:o.Named.Threshold] {
		a, err := attestation.ApproveManifest(key, attestation.Hash(raw))
		if err != nil {
			return nil, err
		}
		approvals = append(approvals, a)
	}
	return map[string]any{"manifest": raw, "approvals": approvals}, nil // bytes are base64 in JSON
}
