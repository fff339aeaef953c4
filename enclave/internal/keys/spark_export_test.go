package keys

import (
	"io"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/spark"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/secret"
)

// FrostShare is the share of a key with nonces that are given.
func FrostShare(key, d, e *spark.Scalar, s *spark.Signing) (spark.Share, error) {
	made := spark.Share{}
	var err error
	if made.Hiding, err = pointOf(d); err != nil {
		return made, err
	}
	if made.Binding, err = pointOf(e); err != nil {
		return made, err
	}
	t, err := s.Terms(made.Hiding, made.Binding)
	if err == nil {
		made.Share = frostShare(key, d, e, t)
	}
	return made, err
}

// Frost is a share without a grant.
func (k *PrivateKey) Frost(rand io.Reader, s *spark.Signing) (spark.Share, error) {
	return k.frost(rand, s)
}

// MaskedNonces gives the nonces that a share has with this randomness to the memory scan, each xored with mask.
func (k *PrivateKey) MaskedNonces(rand io.Reader, s *spark.Signing, mask [32]byte) (out [2][32]byte) {
	k.useScalar(func(key *spark.Scalar) error {
		for i, which := range "DE" {
			n, err := frostNonce(rand, byte(which), key, s)
			if err != nil {
				return err
			}
			n.PutBytes(&out[i])
			for j := range out[i] {
				out[i][j] ^= mask[j]
			}
		}
		return nil
	})
	return out
}

// BareNonces makes the nonces of a share with this randomness outside of erase.Do, and leaves them where they are.
func (k *PrivateKey) BareNonces(rand io.Reader, s *spark.Signing) error {
	var key spark.Scalar
	k.useScalar(func(of *spark.Scalar) error { key = *of; return nil })
	var nonces [2]spark.Scalar
	for i, which := range "DE" {
		var err error
		if nonces[i], err = frostNonce(rand, byte(which), &key, s); err != nil {
			return err
		}
	}
	return nil
}

// SealTo and OpenFrom are Spark's ECIES.
func SealTo(rand io.Reader, to chain.PublicKey, plain []byte) (box []byte, err error) {
	erase.Do(func() { box, err = sealTo(rand, to, plain) })
	return box, err
}

func (k *PrivateKey) OpenFrom(rand io.Reader, box []byte) (plain []byte, err error) {
	err = k.useScalar(func(key *spark.Scalar) (err error) {
		plain, err = openFrom(rand, key, box)
		return err
	})
	return plain, err
}

// Share shares a number.
func Share(rand io.Reader, number *spark.Scalar, g *SparkGroup) ([]spark.SecretShare, []spark.Entry, error) {
	s, err := share(rand, number, g)
	return s.operators, s.public, err
}

// StoredWallet is a wallet that a grant can be for.
func StoredWallet(entropy secret.Secret) (*Wallet, policy.Key, error) {
	w, err := openWallet(entropy, secret.Secret{})
	if err != nil {
		return nil, policy.Key{}, err
	}
	w.identity = identity{organization: Owner}
	w.key.No = made.Add(1)
	w.key.Owner = [16]byte{14: 1}
	return w, w.key, nil
}
