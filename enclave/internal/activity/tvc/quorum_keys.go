package tvc

import (
	"crypto/ecdh"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/shamir"
	"cloister/shared/tvc"
)

// maxShares is the maximal number of shares of the secret-sharing field: its elements but zero and one other.
const maxShares = 254

// CreateQuorumKey creates a key that is given out only in shares, one for each operator.
type CreateQuorumKey struct {
	Threshold           uint32   `json:"threshold" rule:"required"`
	OperatorEncryptKeys []string `json:"operatorEncryptKeys" rule:"required"`

	to   []*ecdh.PublicKey
	keys []string // in their stored encoding
}

// Check refuses an intent that is invalid whatever the organization's records are.
func (in *CreateQuorumKey) Check() error {
	n := len(in.OperatorEncryptKeys)
	if n > maxShares {
		return fault.Field("operatorEncryptKeys", "must have at most %d elements", maxShares)
	}
	if in.Threshold < 2 || in.Threshold > uint32(n) {
		return fault.Field("threshold", "must be 2 to the number of operators, %d", n)
	}
	for i, text := range in.OperatorEncryptKeys {
		text = strings.ToLower(text)
		field := fmt.Sprintf("operatorEncryptKeys.%d", i)
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != tvc.PointSize {
			return fault.Field(field, "must be the hex of an uncompressed point of P-256, 65 bytes")
		}
		point, err := ecdh.P256().NewPublicKey(raw)
		if err != nil {
			return fault.Field(field, "not a point of P-256")
		}
		if slices.Contains(in.keys, text) {
			return fault.Field(field, "named twice")
		}
		in.keys, in.to = append(in.keys, text), append(in.to, point)
	}
	return nil
}

// QuorumKeyResult is the result of creating a quorum key.
type QuorumKeyResult struct {
	QuorumKeyID     string   `json:"quorumKeyId"`
	QuorumPublicKey string   `json:"quorumPublicKey"`
	ShareIDs        []string `json:"shareIds"`
}

func createQuorumKey(tx *activity.Tx, in *CreateQuorumKey) (*QuorumKeyResult, error) {
	if err := activity.CheckTopLevel(tx, "quorum keys"); err != nil {
		return nil, err
	}
	if err := checkCount(tx.EachTVCQuorumKey, org.MaxTVCQuorumKeys, "quorum keys"); err != nil {
		return nil, err
	}
	k := &org.TVCQuorumKey{Threshold: in.Threshold, CreatedMs: tx.NowMs, Shares: make([]org.TVCShare, len(in.to))}
	for _, id := range append([]*org.ID{&k.ID}, shareIDs(k)...) {
		var err error
		if *id, err = org.NewID(tx.Rand); err != nil {
			return nil, err
		}
	}
	if err := fillShares(tx, in, k); err != nil {
		return nil, err
	}
	r := &QuorumKeyResult{QuorumKeyID: k.ID.String(), QuorumPublicKey: k.PublicKey, ShareIDs: activity.MapList(k.Shares, func(s *org.TVCShare) string { return s.ID.String() })}
	return r, tx.PutTVCQuorumKey(k)
}

func shareIDs(k *org.TVCQuorumKey) []*org.ID {
	return activity.MapList(k.Shares, func(s *org.TVCShare) *org.ID { return &s.ID })
}

// fillShares draws the key, splits it, encrypts the shares and wipes the key.
func fillShares(tx *activity.Tx, in *CreateQuorumKey, k *org.TVCQuorumKey) error {
	seed, err := newSeed(tx, k)
	if err != nil {
		return err
	}
	defer seed.Wipe()
	parts, err := shamir.Split(tx.Rand, seed, int(in.Threshold), len(in.to))
	if err != nil {
		return err
	}
	for i := range parts {
		defer parts[i].Y.Wipe()
		k.Shares[i].EncryptKey = in.keys[i]
		parts[i].Y.Use(func(values []byte) {
			share := append([]byte{parts[i].X}, values...)
			defer clear(share)
			k.Shares[i].Sealed, err = tvc.Seal(tx.Rand, in.to[i], share)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// newSeed draws a seed that gives a valid key, and stores the public half in k.
func newSeed(tx *activity.Tx, k *org.TVCQuorumKey) (seed secret.Secret, err error) {
	for range 4 {
		if seed, err = secret.New(tx.Rand, tvc.SeedSize); err != nil {
			return secret.Secret{}, err
		}
		var pair *tvc.Keys
		seed.Use(func(b []byte) { pair, err = tvc.NewKeys(b) })
		if err == nil {
			k.PublicKey = pair.Hex()
			return seed, nil
		}
		seed.Wipe()
	}
	return secret.Secret{}, errors.New("randomness gives no quorum key")
}

// verifyQuorumKey compares the recorded result with the request: the shares have the size of encrypted shares, for the named keys.
func verifyQuorumKey(tx *org.Tx, in *CreateQuorumKey, r *QuorumKeyResult, _ []org.Send) error {
	id, err := org.ParseID(r.QuorumKeyID)
	if err != nil {
		return err
	}
	k, err := tx.TVCQuorumKey(id)
	if err != nil {
		return err
	}
	if _, err := tvc.ParsePair(r.QuorumPublicKey); err != nil || k == nil || k.PublicKey != r.QuorumPublicKey || len(k.Shares) != len(in.keys) || len(r.ShareIDs) != len(k.Shares) {
		return errors.New("another quorum key than the result's")
	}
	for i, s := range k.Shares {
		if s.ID.String() != r.ShareIDs[i] || s.EncryptKey != in.keys[i] || len(s.Sealed) != tvc.ShareBoxSize {
			return errors.New("a share of another operator, or none")
		}
	}
	return nil
}
