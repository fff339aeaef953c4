// Package shamir splits a secret so that any threshold of its shares bring it back and fewer tell nothing.
//
// It is Shamir's scheme over GF(2^8) with the polynomial of AES, byte by byte: the secret is the value at
// 0 of a random polynomial of degree threshold-1, and share x, 1 to 255, its value at x. The field
// is written here because the well-kept libraries are part of a large program, or work on scalars
// with big.Int, whose time depends on them. No secret is the index of a table or decides a branch.
package shamir

import (
	"errors"
	"fmt"
	"io"

	"cloister/enclave/internal/secret"
)

// Size is that of a secret and of each share, in bytes.
const Size = 32

// multiply multiplies in the field.
func multiply(a, b byte) (p byte) {
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
		a = multiply(a, a)
		r = multiply(r, a)
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
	if q.Len() != Size || threshold < 2 || threshold > n || n > 255 {
		return nil, errors.New("no such split")
	}
	parts := make([]Part, n)
	var err error
	q.Use(func(q []byte) {
		coefficients := make([]byte, (threshold-1)*Size)
		defer clear(coefficients)
		if _, err = io.ReadFull(rand, coefficients); err != nil {
			err = fmt.Errorf("drawing shares: %w", err)
			return
		}
		for i := range parts {
			parts[i].X = byte(i + 1)
			parts[i].Y, err = secret.Make(Size, func(share []byte) error {
				for at := range share {
					var y byte // Horner, from the highest coefficient down
					for c := threshold - 2; c >= 0; c-- {
						y = multiply(y, parts[i].X) ^ coefficients[c*Size+at]
					}
					share[at] = multiply(y, parts[i].X) ^ q[at]
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
	return secret.Make(Size, func(q []byte) error {
		for i := range parts {
			basis := byte(1) // Lagrange's at 0; public, as the places are
			for j := range parts {
				if i == j {
					continue
				}
				if parts[i].X == 0 || parts[i].X == parts[j].X {
					return fmt.Errorf("%w: two of one place, or one of none", errNoSecret)
				}
				basis = multiply(basis, multiply(parts[j].X, inverse(parts[i].X^parts[j].X)))
			}
			if parts[i].Y.Len() != Size {
				return errNoSecret
			}
			parts[i].Y.Use(func(share []byte) {
				for at := range share {
					q[at] ^= multiply(basis, share[at])
				}
			})
		}
		return nil
	})
}

var errNoSecret = errors.New("shares make no secret")
