package lifecycle

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"

	"cloister/attestation"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
	"cloister/shared/wire"
)

// genesisBody is the body of the operation genesis.
type genesisBody struct {
	Ranges    uint32   `json:"ranges"` // 1 to wire.MaxRanges; 0 or absent: 1
	Operators struct { // as the first manifest will name them; only where the secret is made in shares
		Threshold  int32    `json:"threshold"`
		PublicKeys []string `json:"publicKeys" rule:"max=64"`
		ShareKeys  []string `json:"shareKeys" rule:"max=64"`
	} `json:"operators"`
	KeyService struct { // the answer to GenerateDataKey; absent: shares alone
		CiphertextBlob         string `json:"ciphertextBlob"`         // base64
		CiphertextForRecipient string `json:"ciphertextForRecipient"` // base64
	} `json:"keyService"`
}

// genesis makes a deployment: its root secret, outside of a simulator in shares, its keyring,
// its record. A deployment that is there already stays as it is.
func (e *Enclave) genesis(ctx context.Context, body []byte) ([]byte, error) {
	in := new(genesisBody)
	if len(body) > 0 {
		if err := strictjson.Decode(body, in); err != nil {
			return nil, err
		}
		if in.Ranges > wire.MaxRanges {
			return nil, fault.Field("ranges", "want 1 to %d", wire.MaxRanges)
		}
	}
	in.Ranges = max(in.Ranges, 1)
	if e.cfg.Root == nil {
		return e.genesisInShares(ctx, in)
	}
	record, err := e.cfg.Host.Object(ctx, objectGenesis)
	if err != nil {
		return nil, err
	}
	q, err := e.cfg.Root.Recover()
	if errors.Is(err, ErrNoRootSecret) {
		if record != nil { // a new secret would open nothing of it
			return nil, fault.WithCode(fault.FailedPrecondition, "STORE_OF_ANOTHER", "the store holds another deployment, whose root secret is not here")
		}
		if q, err = secret.New(e.cfg.Mixed, boot.SecretSize); err == nil {
			err = e.cfg.Root.Keep(q)
		}
	}
	defer func() { q.Wipe() }()
	if err != nil {
		return nil, err
	}
	pub, err := boot.QuorumPublicKey(q)
	if err != nil {
		return nil, err
	}
	if record != nil {
		if g, err := boot.ParseGenesis(record); err != nil || !bytes.Equal(g.Quorum, pub) {
			e.cfg.Alarms.Raise(fault.AlarmRecord)
			return nil, fault.WithCode(fault.FailedPrecondition, "STORE_OF_ANOTHER", "the store holds another deployment than the one of the root secret that is here")
		}
	}
	// Each step is done once: after a crash between them the next try does the rest.
	if record == nil {
		if record, err = boot.NewGenesis(e.cfg.Mixed, q, e.now(), int(in.Ranges)); err != nil {
			return nil, err
		}
		if err := e.cfg.Host.PutOnce(ctx, objectGenesis, record); err != nil {
			return nil, err
		}
	}
	ring, err := e.cfg.Host.Newest(ctx, objectKeyring)
	if err == nil && ring == nil {
		err = e.newKeyring(ctx, q, record, attestation.Operators{})
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"quorumPublicKey": hex.EncodeToString(pub)})
}

// newKeyring makes and stores a deployment's keyring and, if it has operators, its deployment state.
func (e *Enclave) newKeyring(ctx context.Context, q secret.Secret, record []byte, operators attestation.Operators) error {
	ring, err := boot.NewKeyring(e.cfg.Mixed)
	if err != nil {
		return err
	}
	defer ring.Wipe()
	deployment := boot.Deployment(record)
	if err := e.putKeyring(ctx, ring, q, deployment, objectKeyring); err != nil || !operators.Named() {
		return err
	}
	return e.putDeploymentState(ctx, ring, deployment, &boot.DeploymentState{Format: 1, Number: 1, Operators: operators.Digest()})
}

// genesisInShares makes a deployment whose root secret nobody holds: it is drawn, split
// among the operators and forgotten. The genesis record is stored last and makes the
// deployment. A genesis that breaks off earlier has to begin with an empty store.
func (e *Enclave) genesisInShares(ctx context.Context, in *genesisBody) ([]byte, error) {
	if err := e.refuseDebug(); err != nil {
		return nil, err
	}
	operators := attestation.Operators{Threshold: int(in.Operators.Threshold), PublicKeys: in.Operators.PublicKeys, ShareKeys: in.Operators.ShareKeys}
	if err := operators.CheckHolders(); err != nil {
		return nil, fault.Field("operators", "%v", err)
	}
	record, err := e.cfg.Host.Object(ctx, objectGenesis)
	if err != nil {
		return nil, err
	}
	if record != nil {
		return e.genesisAgain(ctx, record, operators)
	}
	for _, prefix := range []string{objectShares, objectKeyring, objectDeploymentState} {
		if left, err := e.cfg.Host.Newest(ctx, prefix); err != nil {
			return nil, err
		} else if left != nil {
			return nil, fault.WithCode(fault.FailedPrecondition, "GENESIS_BROKEN_OFF", "the store holds a genesis that broke off: begin with an empty one")
		}
	}
	factor, err := e.newFactor(in)
	if err != nil {
		return nil, err
	}
	if factor != nil {
		defer factor.Key.Wipe()
	}
	q, err := secret.New(e.cfg.Mixed, boot.SecretSize)
	if err != nil {
		return nil, err
	}
	defer q.Wipe()
	if record, err = boot.NewGenesis(e.cfg.Mixed, q, e.now(), int(in.Ranges)); err != nil {
		return nil, err
	}
	shares, err := e.storeShareSet(ctx, q, boot.Deployment(record), 1, operators, factor)
	if err != nil {
		return nil, err
	}
	if err := e.newKeyring(ctx, q, record, operators); err != nil {
		return nil, err
	}
	if err := e.cfg.Host.PutOnce(ctx, objectGenesis, record); err != nil {
		return nil, err
	}
	return genesisOf(record, shares)
}

// genesisAgain answers for a genesis that was made before, whose answer may be lost.
func (e *Enclave) genesisAgain(ctx context.Context, record []byte, operators attestation.Operators) ([]byte, error) {
	g, err := boot.ParseGenesis(record)
	if err != nil {
		return nil, err
	}
	shares, err := e.cfg.Host.Object(ctx, sharesOf(hex.EncodeToString(g.Quorum))+digits(1))
	if err != nil {
		return nil, err
	}
	_, set, _, err := attestation.ParseAttestedShares(shares)
	if err != nil || !set.Operators.Equal(operators) {
		return nil, fault.New(fault.AlreadyExists, "the store holds a deployment of other operators")
	}
	return genesisOf(record, shares)
}

func genesisOf(record, shares []byte) ([]byte, error) {
	_, set, _, err := attestation.ParseAttestedShares(shares)
	if err != nil {
		return nil, err
	}
	deployment := boot.Deployment(record)
	return json.Marshal(map[string]any{"quorumPublicKey": set.QuorumPublicKey, "deployment": hex.EncodeToString(deployment[:]), "shares": json.RawMessage(shares)})
}
