package boot

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"cloister/attestation"
	"cloister/enclave/internal/secret"
)

// Shamir's scheme over GF(2^8) with the polynomial of AES, byte by byte: the secret is the value at
// 0 of a random polynomial of degree threshold-1, and share x, 1 to 255, its value at x. The field
// is written here because the well-kept libraries are part of a large program, or work on scalars
// with big.Int, whose time depends on them. No secret is the index of a table or decides a branch.

// times multiplies in the field.
func times(a, b byte) (p byte) {
	for range 8 {
		p ^= a & -(b & 1)
		a = a<<1 ^ 0x1b&-(a>>7)
		b >>= 1
	}
	return p
}

// inverse is a^254; of 0 it is 0.
func inverse(a byte) byte {
	r := byte(1)
	for range 7 { // 254 = 0b11111110
		a = times(a, a)
		r = times(r, a)
	}
	return r
}

// A Part is one share of a secret: the polynomials' values at X, which is not 0.
type Part struct {
	X byte
	Y secret.Secret
}

// Split makes n shares of which any threshold bring the secret back and fewer
// tell nothing. Share i stands at X = i+1. The caller wipes them.
func Split(rand io.Reader, q secret.Secret, threshold, n int) ([]Part, error) {
	if q.Len() != SecretSize || threshold < 2 || threshold > n || n > 255 {
		return nil, errors.New("no such split")
	}
	parts := make([]Part, n)
	var err error
	q.Use(func(q []byte) {
		coefficients := make([]byte, (threshold-1)*SecretSize)
		defer clear(coefficients)
		if _, err = io.ReadFull(rand, coefficients); err != nil {
			err = fmt.Errorf("drawing shares: %w", err)
			return
		}
		for i := range parts {
			parts[i].X = byte(i + 1)
			parts[i].Y, err = secret.Make(SecretSize, func(share []byte) error {
				for at := range share {
					var y byte // Horner, from the highest coefficient down
					for c := threshold - 2; c >= 0; c-- {
						y = times(y, parts[i].X) ^ coefficients[c*SecretSize+at]
					}
					share[at] = times(y, parts[i].X) ^ q[at]
				}
				return nil
			})
			if err != nil {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return parts, nil
}

// Combine brings back the secret of these shares, which are at different X. With fewer than
// the threshold or with wrong ones, another secret comes out. The caller wipes it.
func Combine(parts []Part) (secret.Secret, error) {
	if len(parts) < 2 {
		return secret.Secret{}, errNoSecret
	}
	return secret.Make(SecretSize, func(q []byte) error {
		for i := range parts {
			basis := byte(1) // Lagrange's at 0; public, as the places are
			for j := range parts {
				if i == j {
					continue
				}
				if parts[i].X == 0 || parts[i].X == parts[j].X {
					return fmt.Errorf("%w: two of one place, or one of none", errNoSecret)
				}
				basis = times(basis, times(parts[j].X, inverse(parts[i].X^parts[j].X)))
			}
			if parts[i].Y.Len() != SecretSize {
				return errNoSecret
			}
			parts[i].Y.Use(func(share []byte) {
				for at := range share {
					q[at] ^= times(basis, share[at])
				}
			})
		}
		return nil
	})
}

var errNoSecret = errors.New("shares make no secret")

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
	parts, err := Split(rand, split, operators.Threshold, len(operators.PublicKeys))
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
