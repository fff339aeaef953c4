package lifecycle

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"cloister/attestation"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// applyManifestChanges reshares for new operators and rotates the root secret as the manifest says. The
// deployment state is written last, so a crash makes the next boot repeat it.
func (r *startup) applyManifestChanges(ctx context.Context) error {
	s, m, set := r.serving, r.accepted.manifest, r.waiting.set
	if !set.Operators.Equal(m.Operators) {
		if r.root.Len() == 0 {
			return errors.New("new operators need the shares of the old ones")
		}
		if _, err := r.storeShareSet(ctx, r.root, s.Deployment, set.Generation+1, m.Operators, r.waiting.factor); err != nil {
			return err
		}
	}
	if r.deploymentState.Manifest == r.accepted.id {
		s.nextQuorumKey = hex.EncodeToString(r.deploymentState.Quorum)
		return nil
	}
	var made []byte
	if m.RotateRootSecret {
		if set.KeyService != nil && r.waiting.factor == nil { // after a hand-over
			return errors.New("a new root secret needs the key service that is a factor of the old one")
		}
		var err error
		if made, err = r.rotateSecret(ctx); err != nil {
			return err
		}
	}
	s.nextQuorumKey = hex.EncodeToString(made)
	return r.putDeploymentState(ctx, r.ring, s.Deployment, r.deploymentState.Next(m, r.accepted.id, made))
}

// rotateStorage does once what a manifest asks of the storage keys. The keyring with the
// epoch that the manifest names is stored before it is used. Entries stay as they are.
func (r *startup) rotateStorage(ctx context.Context) error {
	m, ring := r.accepted.manifest, r.ring
	if !m.RotateStorageKey && !m.ForgetStorageKey || r.deploymentState.Manifest == r.accepted.id || uint64(ring.Epoch) == m.MinKeyringEpoch {
		return nil
	}
	switch {
	case r.root.Len() == 0:
		return errors.New("storage keys change when an enclave is started by shares")
	case uint64(ring.Epoch)+1 != m.MinKeyringEpoch:
		return fmt.Errorf("minKeyringEpoch is %d, and of what the manifest asks comes epoch %d", m.MinKeyringEpoch, uint64(ring.Epoch)+1)
	}
	var err error
	if m.RotateStorageKey {
		err = ring.RotateStorage(r.cfg.Mixed)
	} else if err = r.checkAllWrapped(ctx); err == nil {
		err = ring.ForgetStorage()
	}
	if err != nil {
		return err
	}
	return r.putKeyring(ctx, ring, r.root, r.serving.Deployment, r.serving.keyrings)
}

// putKeyring stores a keyring under a root secret.
func (e *Enclave) putKeyring(ctx context.Context, ring *boot.Keyring, root secret.Secret, deployment [32]byte, keyrings string) error {
	sealed, err := ring.Wrap(e.cfg.Rand, root, deployment)
	if err != nil {
		return err
	}
	return e.cfg.Host.PutOnce(ctx, keyrings+digits(uint64(ring.Epoch)), sealed)
}

// checkAllWrapped refuses to forget a storage key that a data key in the store still needs.
func (r *startup) checkAllWrapped(ctx context.Context) error {
	storage, err := seal.NewKey(r.ring.Storage)
	if err != nil {
		return err
	}
	unopened, all, err := ledger.CountUnopened(ctx, r.cfg.Host, storage, r.serving.Deployment)
	if err == nil && unopened > 0 {
		err = fmt.Errorf("%d of %d data keys are still under the storage key before: let the enclave wrap them anew first", unopened, all)
	}
	return err
}

// rotateSecret draws a new root secret, splits it among the operators, and wraps the keyring
// under it. It returns the public key: the secret is in force once a manifest names that.
func (r *startup) rotateSecret(ctx context.Context) ([]byte, error) {
	next, err := secret.New(r.cfg.Mixed, boot.SecretSize)
	if err != nil {
		return nil, err
	}
	defer next.Wipe()
	public, err := boot.QuorumPublicKey(next)
	if err != nil {
		return nil, err
	}
	if err := r.putKeyring(ctx, r.ring, next, r.serving.Deployment, keyringsOf(hex.EncodeToString(public), "")); err != nil {
		return nil, err
	}
	_, err = r.storeShareSet(ctx, next, r.serving.Deployment, 1, r.accepted.manifest.Operators, r.waiting.factor)
	return public, err
}

// quorumKeySize is the length of a root secret's public key in bytes.
const quorumKeySize = 130

// storedShares answers with the newest share set of a root secret and the document that
// attests it, for operators who keep or check theirs.
func (e *Enclave) storedShares(ctx context.Context, body []byte) ([]byte, error) {
	var in struct {
		QuorumPublicKey string `json:"quorumPublicKey" rule:"required"` // as manifests name it
	}
	if err := strictjson.Decode(body, &in); err != nil {
		return nil, err
	}
	if b, err := hex.DecodeString(in.QuorumPublicKey); err != nil || len(b) != quorumKeySize {
		return nil, fault.Field("quorumPublicKey", "quorumPublicKey is not %d bytes of hex", quorumKeySize)
	}
	shares, err := e.cfg.Host.Newest(ctx, sharesOf(in.QuorumPublicKey))
	if err != nil {
		return nil, fmt.Errorf("loading the share set: %w", err)
	}
	if shares == nil {
		return nil, fault.New(fault.NotFound, "there are no shares of that secret")
	}
	if _, _, _, err := attestation.ParseAttestedShares(shares); err != nil {
		e.cfg.Alarms.Raise(fault.AlarmRecord)
		return nil, fault.New(fault.FailedPrecondition, "the share set in the store does not decode")
	}
	return json.Marshal(map[string]any{"quorumPublicKey": in.QuorumPublicKey, "shares": json.RawMessage(shares)})
}

// openDeploymentState opens the deployment state, and refuses a manifest that may not come after the last
// accepted one.
func (r *startup) openDeploymentState(ctx context.Context) error {
	sealed, err := r.cfg.Host.Newest(ctx, objectDeploymentState)
	if err != nil || sealed == nil {
		return errors.Join(errors.New("loading the deployment state"), err)
	}
	if r.deploymentState, err = r.ring.OpenDeploymentState(r.serving.Deployment, sealed); err == nil {
		err = r.deploymentState.Allows(r.accepted.manifest, r.accepted.id)
	}
	if err != nil {
		r.cfg.Alarms.Raise(fault.AlarmRecord)
	}
	return err
}

// putDeploymentState stores the manifest that is accepted from now on.
func (e *Enclave) putDeploymentState(ctx context.Context, ring *boot.Keyring, deployment [32]byte, l *boot.DeploymentState) error {
	sealed, err := ring.SealDeploymentState(e.cfg.Rand, deployment, l)
	if err != nil {
		return err
	}
	return e.cfg.Host.PutOnce(ctx, objectDeploymentState+digits(l.Number), sealed)
}
