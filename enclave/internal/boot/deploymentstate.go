package boot

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"

	"cloister/attestation"
	"cloister/enclave/internal/seal"
)

// DeploymentState records the last accepted manifest of a deployment with operators. It is stored sealed under
// a keyring key, so whoever recovers the keyring learns which operators must approve the next manifest.
type DeploymentState struct {
	Format    uint8    `cbor:"1,keyasint"`
	Number    uint64   `cbor:"2,keyasint"` // 1 at genesis; rises with every manifest
	Manifest  [32]byte `cbor:"3,keyasint"` // SHA-256 of the manifest; zero until the first
	Operators [32]byte `cbor:"4,keyasint"` // attestation.Operators.Digest of the present operators: genesis' or the manifest's
	// Quorum is the public key of the root secret that was made for the manifest, or empty.
	Quorum []byte `cbor:"5,keyasint,omitempty"`
}

// ErrNotSuccessor is the error for a manifest that may not follow the last accepted one.
var ErrNotSuccessor = errors.New("not the manifest that the deployment runs under, nor one that may come after it")

// Allows returns nil if a manifest with a hash is the current one, the first one, or one that names the current
// one as its predecessor. The caller must have checked the approvals by the predecessor's operators.
func (l *DeploymentState) Allows(m *attestation.Manifest, hash [32]byte) error {
	switch {
	case l.Manifest == hash:
		return nil
	case l.Manifest == [32]byte{} && m.Predecessor == "" && m.Operators.Digest() == l.Operators:
		return nil
	case l.Manifest != [32]byte{} && m.Predecessor == hex.EncodeToString(l.Manifest[:]):
		return nil
	}
	return ErrNotSuccessor
}

// Next returns the state after the manifest is accepted. quorum is the public key of the root secret made for it, or nil.
func (l *DeploymentState) Next(m *attestation.Manifest, hash [32]byte, quorum []byte) *DeploymentState {
	return &DeploymentState{Format: 1, Number: l.Number + 1, Manifest: hash, Operators: m.Operators.Digest(), Quorum: quorum}
}

// deploymentStateKey derives the sealing key from the blind-index key, which never rotates: the state must always open.
func (k *Keyring) deploymentStateKey() (*seal.Key, error) { return seal.Derive(k.Blind, "law") }

// SealDeploymentState seals the state of a deployment for the store.
func (k *Keyring) SealDeploymentState(rand io.Reader, deployment [32]byte, l *DeploymentState) ([]byte, error) {
	key, err := k.deploymentStateKey()
	if err != nil {
		return nil, err
	}
	plain, err := cbor.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encoding the deployment state: %w", err)
	}
	return key.Seal(rand, wrapName(seal.KindDeploymentState, deployment), plain)
}

// OpenDeploymentState decrypts and decodes a state of SealDeploymentState.
func (k *Keyring) OpenDeploymentState(deployment [32]byte, sealed []byte) (*DeploymentState, error) {
	key, err := k.deploymentStateKey()
	if err != nil {
		return nil, err
	}
	plain, err := key.Open(wrapName(seal.KindDeploymentState, deployment), sealed)
	if err != nil {
		return nil, fmt.Errorf("deployment state: %w", err)
	}
	l := new(DeploymentState)
	if !decodeExact(plain, l) || l.Format != 1 || l.Number == 0 || len(l.Quorum) != 0 && len(l.Quorum) != quorumSize {
		return nil, errors.New("deployment state does not decode")
	}
	return l, nil
}
