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

// succeed makes what a new manifest asks for: shares for new operators, a new root secret.
// The law is written last, so that after a crash the next boot does it again.
func (e *Enclave) succeed(ctx context.Context, q secret.Secret, ring *boot.Keyring, law *boot.Law, s *Serving, g *given) error {
	m, set := g.manifest, e.waiting.set
	if !set.Operators.Equal(m.Operators) {
		if q.Len() == 0 {
			return errors.New("new operators need the shares of the old ones")
		}
		if _, err := e.split(ctx, q, s.Deployment, set.Generation+1, m.Operators, e.waiting.factor); err != nil {
			return err
		}
	}
	if law.Manifest == g.id {
		s.next = hex.EncodeToString(law.Quorum)
		return nil
	}
	var made []byte
	if m.RotateRootSecret {
		if set.KeyService != nil && e.waiting.factor == nil { // after a hand-over
			return errors.New("a new root secret needs the key service that is a factor of the old one")
		}
		var err error
		if made, err = e.rotateSecret(ctx, ring, s.Deployment, m.Operators); err != nil {
			return err
		}
	}
	s.next = hex.EncodeToString(made)
	return e.putLaw(ctx, ring, s.Deployment, law.Next(m, g.id, made))
}

// rotateStorage does once what a manifest asks of the storage keys. The keyring with the
// epoch that the manifest names is stored before it is used. Entries stay as they are.
func (e *Enclave) rotateStorage(ctx context.Context, q secret.Secret, ring *boot.Keyring, law *boot.Law, s *Serving, g *given) error {
	m := g.manifest
	if !m.RotateStorageKey && !m.ForgetStorageKey || law.Manifest == g.id || uint64(ring.Epoch) == m.MinKeyringEpoch {
		return nil
	}
	switch {
	case q.Len() == 0:
		return errors.New("storage keys change when an enclave is started by shares")
	case uint64(ring.Epoch)+1 != m.MinKeyringEpoch:
		return fmt.Errorf("minKeyringEpoch is %d, and of what the manifest asks comes epoch %d", m.MinKeyringEpoch, uint64(ring.Epoch)+1)
	}
	var err error
	if m.RotateStorageKey {
		err = ring.RotateStorage(e.cfg.Mixed)
	} else if err = e.checkAllWrapped(ctx, ring, s.Deployment); err == nil {
		err = ring.ForgetStorage()
	}
	if err != nil {
		return err
	}
	sealed, err := ring.Wrap(e.cfg.Rand, q, s.Deployment)
	if err != nil {
		return err
	}
	return e.cfg.Host.PutOnce(ctx, s.keyrings+digits(uint64(ring.Epoch)), sealed)
}

// checkAllWrapped refuses to forget a storage key that a data key in the store still needs.
func (e *Enclave) checkAllWrapped(ctx context.Context, ring *boot.Keyring, deployment [32]byte) error {
	storage, err := seal.NewKey(ring.Storage)
	if err != nil {
		return err
	}
	unopened, all, err := ledger.CountUnopened(ctx, e.cfg.Host, storage, deployment)
	if err == nil && unopened > 0 {
		err = fmt.Errorf("%d of %d data keys are still under the storage key before: let the enclave wrap them anew first", unopened, all)
	}
	return err
}

// rotateSecret draws a new root secret, splits it among the operators, and wraps the keyring
// under it. It returns the public key: the secret is in force once a manifest names that.
func (e *Enclave) rotateSecret(ctx context.Context, ring *boot.Keyring, deployment [32]byte, operators attestation.Operators) ([]byte, error) {
	q, err := secret.New(e.cfg.Mixed, boot.SecretSize)
	if err != nil {
		return nil, err
	}
	defer q.Wipe()
	public, err := boot.QuorumPublicKey(q)
	if err != nil {
		return nil, err
	}
	sealed, err := ring.Wrap(e.cfg.Rand, q, deployment)
	if err != nil {
		return nil, err
	}
	if err := e.cfg.Host.PutOnce(ctx, keyringsOf(hex.EncodeToString(public), "")+digits(uint64(ring.Epoch)), sealed); err != nil {
		return nil, err
	}
	_, err = e.split(ctx, q, deployment, 1, operators, e.waiting.factor)
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

// law opens the law that the deployment runs under, and refuses a manifest that it forbids.
func (e *Enclave) law(ctx context.Context, ring *boot.Keyring, s *Serving, g *given) (*boot.Law, error) {
	sealed, err := e.cfg.Host.Newest(ctx, objectLaw)
	if err != nil || sealed == nil {
		return nil, errors.Join(errors.New("loading the law"), err)
	}
	l, err := ring.OpenLaw(s.Deployment, sealed)
	if err == nil {
		err = l.Allows(g.manifest, g.id)
	}
	if err != nil {
		e.cfg.Alarms.Raise(fault.AlarmRecord)
		return nil, err
	}
	return l, nil
}

// putLaw stores what the deployment runs under from now on.
func (e *Enclave) putLaw(ctx context.Context, ring *boot.Keyring, deployment [32]byte, l *boot.Law) error {
	sealed, err := ring.SealLaw(e.cfg.Rand, deployment, l)
	if err != nil {
		return err
	}
	return e.cfg.Host.PutOnce(ctx, objectLaw+digits(l.Number), sealed)
}
