package boot

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"

	"cloister/attestation"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/shamir"
)

// A Factor is a second factor to operators' shares: a data key of a key service (KMS), plain and as the service encrypted it.
type Factor struct {
	Key  secret.Secret
	Blob []byte
}

// pad XORs q with a pad that is derived from the data key: holders of shares alone don't get q. A second pad undoes it.
func (f *Factor) pad(q secret.Secret, random string) (secret.Secret, error) {
	pad, err := f.Key.Derive(random, "cloister key service pad 1", SecretSize)
	if err != nil {
		return secret.Secret{}, err
	}
	defer pad.Wipe()
	return secret.Make(SecretSize, func(out []byte) error {
		pad.Use(func(pad []byte) {
			q.Use(func(b []byte) { subtle.XORBytes(out, pad, b) })
		})
		return nil
	})
}

func (f *Factor) commitment(random string) string {
	var sum [sha256.Size]byte
	f.Key.Use(func(key []byte) {
		sum = sha256.Sum256(append([]byte("cloister key service commitment 1\n"+random+"\n"), key...))
	})
	return hex.EncodeToString(sum[:])
}

// Holds reports whether the share set commits to this data key.
func (f *Factor) Holds(s *attestation.ShareSet) bool {
	return s.KeyService != nil && subtle.ConstantTimeCompare([]byte(f.commitment(s.Random)), []byte(s.KeyService.Commitment)) == 1
}

// Reveal returns the root secret, given the secret combined from shares: it removes the pad unless f is nil. The caller
// wipes the result.
func (f *Factor) Reveal(s *attestation.ShareSet, combined secret.Secret) (secret.Secret, error) {
	if f == nil {
		return combined.Clone(), nil
	}
	return f.pad(combined, s.Random)
}

// NewShareSet splits q, padded with the factor's data key unless f is nil, and encrypts each share to its operator.
func NewShareSet(rand io.Reader, q secret.Secret, deployment [32]byte, generation uint64, operators attestation.Operators, f *Factor) (*attestation.ShareSet, error) {
	if err := operators.CheckHolders(); err != nil {
		return nil, err
	}
	public, err := QuorumPublicKey(q)
	if err != nil {
		return nil, err
	}
	var random [32]byte
	if _, err := io.ReadFull(rand, random[:]); err != nil {
		return nil, fmt.Errorf("drawing shares: %w", err)
	}
	s := &attestation.ShareSet{Format: 1, Deployment: hex.EncodeToString(deployment[:]), QuorumPublicKey: hex.EncodeToString(public),
		Generation: generation, Random: hex.EncodeToString(random[:]), Operators: operators}
	split := q
	if f != nil {
		s.KeyService = &attestation.KeyService{CiphertextBlob: hex.EncodeToString(f.Blob), Commitment: f.commitment(s.Random)}
		if split, err = f.pad(q, s.Random); err != nil {
			return nil, err
		}
		defer split.Wipe()
	}
	parts, err := shamir.Split(rand, split, operators.Threshold, len(operators.PublicKeys))
	if err != nil {
		return nil, err
	}
	for i := range parts {
		defer parts[i].Y.Wipe()
		parts[i].Y.Use(func(share []byte) { err = s.Add(share) })
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}
