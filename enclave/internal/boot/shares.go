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

// A Factor is a key service's data key, and the same as the service encrypted it.
type Factor struct {
	Key  secret.Secret
	Blob []byte
}

// pad hides the secret from who has only the shares, and brings it back.
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

// Holds tells whether the set commits to this data key.
func (f *Factor) Holds(s *attestation.ShareSet) bool {
	return s.KeyService != nil && subtle.ConstantTimeCompare([]byte(f.commitment(s.Random)), []byte(s.KeyService.Commitment)) == 1
}

// Reveal takes off the pad that there is with a factor. The caller wipes the result.
func (f *Factor) Reveal(s *attestation.ShareSet, combined secret.Secret) (secret.Secret, error) {
	if f == nil {
		return combined.Clone(), nil
	}
	return f.pad(combined, s.Random)
}

// NewShareSet splits q, padded with a factor's key if there is one, and encrypts the shares.
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
