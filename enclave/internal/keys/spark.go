package keys

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"io"
	"slices"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/spark"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/policy"
	"cloister/enclave/internal/tally"
)

// A FrostSigning is one signing of Spark's FROST, for which the key at a path of a wallet makes its signature share.
type FrostSigning struct {
	Path string
	*spark.Signing
}

// A SparkGroup is the group of operators of a secret sharing, in the order of their shares, with the number of shares
// that recover the secret.
type SparkGroup struct {
	Operators []SparkOperator
	Threshold int
}

// A SparkOperator is an operator that gets a share, with its encryption key.
type SparkOperator struct {
	ID  string
	Key chain.PublicKey
}

// A SparkTransfer is an outgoing transfer of leaves: for each, the operators get shares of the difference of old and new
// key, and the receiver gets the new key.
type SparkTransfer struct {
	Account  spark.Account
	ID       [16]byte
	Text     string // ID in the request's spelling
	Leaves   []SparkSent
	Group    SparkGroup
	Receiver chain.PublicKey
}

// A SparkSent is a leaf of an outgoing transfer, with the paths of its keys.
type SparkSent struct {
	ID, Old, New string
	Refunds      [3][]byte
}

// A SparkClaim is an incoming transfer of leaves. The caller has verified the sender's signatures.
type SparkClaim struct {
	Account spark.Account
	Leaves  []SparkReceived
	Group   SparkGroup
}

// A SparkReceived is a leaf of an incoming transfer; its key is encrypted in the cipher.
type SparkReceived struct {
	ID     string
	Cipher []byte
}

// SparkPackages are the encrypted packages for the operators, in their order, with the new public keys of the leaves.
type SparkPackages struct {
	Packages []spark.Entry
	Keys     []chain.PublicKey
	// Signature is the transfer sender's signature over the packages, in DER.
	Signature []byte
}

// Refusals that depend on private keys. A replay without the keys recognizes them by their exact text, so they contain no list index.
var (
	ErrOwnVerifyingKey = fault.Field("signatures", "a verifyingKey is not to be the user's key alone: no operator would have to sign")
	ErrNoLeafKey       = fault.Field("claim.leaves", "a ciphertext does not hold a key for this account to take over")
)

// SignFrost spends the Grant and makes signature shares with keys of one wallet, all or none, in their order.
func (h *Holder) SignFrost(rand io.Reader, w *Wallet, asked []FrostSigning) ([]spark.Share, error) {
	if err := h.spendGrant(ActionSign, w.identity); err != nil {
		return nil, err
	}
	out := make([]spark.Share, len(asked))
	for i, a := range asked {
		err := w.withSparkKey(a.Path, func(k *PrivateKey) (err error) {
			if bytes.Equal(k.public.Bytes()[1:33], a.VerifyingKey.Bytes()[1:33]) {
				return ErrOwnVerifyingKey
			}
			out[i], err = k.frost(rand, a.Signing)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// frost makes a signature share and verifies it. Its nonces do not leave this function.
func (k *PrivateKey) frost(rand io.Reader, s *spark.Signing) (made spark.Share, err error) {
	err = k.useScalar(func(key *spark.Scalar) error {
		d, err := frostNonce(rand, 'D', key, s)
		if err != nil {
			return err
		}
		e, err := frostNonce(rand, 'E', key, s)
		if err != nil {
			return err
		}
		defer d.Zero()
		defer e.Zero()
		if made.Hiding, err = pointOf(&d); err != nil {
			return err
		}
		if made.Binding, err = pointOf(&e); err != nil {
			return err
		}
		t, err := s.Terms(made.Hiding, made.Binding)
		if err != nil {
			return err
		}
		made.Share = frostShare(key, &d, &e, t)
		return nil
	})
	if err != nil {
		return made, err
	}
	if !s.Verify(k.public, &made) {
		return spark.Share{}, errFaulty
	}
	tally.SignaturesMade.Add(1)
	tally.SignaturesVerified.Add(1)
	return made, nil
}

// frostNonce derives a nonce from fresh randomness, the key and all inputs of the challenge. Two shares with one nonce for
// two challenges reveal the key. Even if the randomness repeats, as in a copied machine, another message, key or
// commitment gives another nonce, and the same ones give the same share.
func frostNonce(rand io.Reader, which byte, key *spark.Scalar, s *spark.Signing) (n spark.Scalar, err error) {
	var fresh, private [32]byte
	if _, err := io.ReadFull(rand, fresh[:]); err != nil {
		return n, err
	}
	key.PutBytes(&private)
	n = spark.HashToScalar("FROST-secp256k1-SHA256-TR-v1nonce", fresh[:], private[:], []byte{which}, s.Context())
	clear(private[:])
	clear(fresh[:])
	if n.IsZero() {
		return n, errSignature
	}
	return n, nil
}

// frostShare is ±(d + rho*e) + c*(±key).
func frostShare(key, d, e *spark.Scalar, t *spark.Terms) [32]byte {
	z, k := *e, *key
	z.Mul(&t.Binding).Add(d)
	if t.NegateNonces {
		z.Negate()
	}
	if t.NegateKey {
		k.Negate()
	}
	z.Add(k.Mul(&t.Challenge))
	k.Zero()
	return z.Bytes()
}

// PrepareTransfer spends the Grant and makes the packages of an outgoing transfer.
func (h *Holder) PrepareTransfer(rand io.Reader, w *Wallet, t *SparkTransfer) (*SparkPackages, error) {
	if err := h.spendGrant(ActionSign, w.identity); err != nil {
		return nil, err
	}
	out := new(SparkPackages)
	err := w.withSparkKey(t.Account.Identity(), func(identity *PrivateKey) error {
		tweaks := make([]leafTweak, len(t.Leaves))
		for i, l := range t.Leaves {
			made := &tweaks[i]
			made.ID, made.Refunds = l.ID, l.Refunds
			err := w.withSparkKey(l.Old, func(before *PrivateKey) error {
				return w.withSparkKey(l.New, func(after *PrivateKey) error {
					out.Keys = append(out.Keys, after.public)
					return before.useScalar(func(from *spark.Scalar) error {
						return after.useScalar(func(to *spark.Scalar) (err error) {
							raw := to.Bytes()
							defer clear(raw[:])
							if made.Cipher, err = sealTo(rand, t.Receiver, raw[:]); err != nil {
								return err
							}
							made.shares, err = differ(rand, from, to, &t.Group)
							return err
						})
					})
				})
			})
			if err != nil {
				return err
			}
			hash := spark.LeafHash(l.ID, t.Text, made.Cipher)
			sig, err := identity.sign(chain.ECDSA, hash[:])
			if err != nil {
				return err
			}
			made.Signature = slices.Concat(sig.R[:], sig.S[:])
		}
		var err error
		if out.Packages, err = t.Group.packages(rand, tweaks); err != nil {
			return err
		}
		hash := spark.PackageHash(t.ID, out.Packages)
		sig, err := identity.sign(chain.ECDSA, hash[:])
		if err != nil {
			return err
		}
		var r, s spark.Scalar
		r.SetBytes(&sig.R)
		s.SetBytes(&sig.S)
		out.Signature = ecdsa.NewSignature(&r, &s).Serialize()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ClaimTransfer spends the Grant and makes the packages of an incoming transfer: the operators get shares of the difference
// of the received key and the leaf's own. A cipher that does not open, or holds the leaf's own key, is a *fault.Error.
func (h *Holder) ClaimTransfer(rand io.Reader, w *Wallet, c *SparkClaim) (*SparkPackages, error) {
	if err := h.spendGrant(ActionSign, w.identity); err != nil {
		return nil, err
	}
	out := new(SparkPackages)
	err := w.withSparkKey(c.Account.Identity(), func(identity *PrivateKey) (err error) {
		tweaks := make([]leafTweak, len(c.Leaves))
		for i, l := range c.Leaves {
			tweaks[i].ID = l.ID
			err := w.withSparkKey(c.Account.Leaf(l.ID), func(own *PrivateKey) error {
				out.Keys = append(out.Keys, own.public)
				return identity.useScalar(func(opens *spark.Scalar) error {
					return own.useScalar(func(to *spark.Scalar) (err error) {
						var from spark.Scalar
						defer from.Zero()
						raw, err := openFrom(rand, opens, l.Cipher)
						defer clear(raw)
						if err != nil || len(raw) != 32 || from.SetBytes((*[32]byte)(raw)) != 0 || from.IsZero() || from.Equals(to) {
							return ErrNoLeafKey
						}
						tweaks[i].shares, err = differ(rand, &from, to, &c.Group)
						return err
					})
				})
			})
			if err != nil {
				return err
			}
		}
		out.Packages, err = c.Group.packages(rand, tweaks)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// SharePreimage spends the Grant for a key and shares a new random preimage among operators. Only a threshold of them can
// recover the preimage. It returns its SHA-256.
func (h *Holder) SharePreimage(rand io.Reader, key policy.Key, g *SparkGroup) (packages []spark.Entry, hash [32]byte, err error) {
	if err := h.spendGrant(ActionSign, identity{h.Organization, key}); err != nil {
		return nil, hash, err
	}
	erase.Do(func() {
		var preimage spark.Scalar
		defer preimage.Zero()
		if err = drawScalar(rand, &preimage); err != nil {
			return
		}
		raw := preimage.Bytes()
		hash = sha256.Sum256(raw[:])
		clear(raw[:])
		var of shares
		if of, err = share(rand, &preimage, g); err != nil {
			return
		}
		packages, err = g.seal(rand, func(i int) []byte { return spark.AppendSecretShare(nil, &of.operators[i]) })
	})
	if err != nil {
		return nil, hash, err
	}
	return packages, hash, nil
}

// withSparkKey derives a key of the wallet and wipes it after use.
func (w *Wallet) withSparkKey(path string, use func(*PrivateKey) error) error {
	p, err := ParsePath(path)
	if err != nil {
		return err
	}
	k, err := w.Derive(chain.Secp256k1, p)
	if err != nil {
		return err
	}
	defer k.Wipe()
	return use(k)
}

// useScalar calls f with the scalar of a secp256k1 key, inside erase.Do.
func (k *PrivateKey) useScalar(f func(*spark.Scalar) error) error {
	return k.use(func(c curveKey) (err error) {
		of, ok := c.(*keySecp256k1)
		if !ok {
			return errPrivateKey
		}
		erase.Do(func() { err = f(&of.private.Key) })
		return err
	})
}

func pointOf(n *spark.Scalar) (chain.PublicKey, error) {
	return chain.NewPublicKey(chain.Secp256k1, secp256k1.NewPrivateKey(n).PubKey().SerializeUncompressed())
}

// drawScalar draws a random scalar from 1 to the order minus 1. It runs inside erase.Do.
func drawScalar(rand io.Reader, n *spark.Scalar) error {
	for range drawAttempts {
		var b [32]byte
		if _, err := io.ReadFull(rand, b[:]); err != nil {
			return err
		}
		over := n.SetBytes(&b)
		clear(b[:])
		if over == 0 && !n.IsZero() {
			return nil
		}
	}
	return errors.New("randomness gives no number")
}

// shares are the Feldman shares of one scalar, by operator, with the public key of each share.
type shares struct {
	operators []spark.SecretShare
	public    []spark.Entry
}

// A leafTweak is the shared key difference of a leaf, before it is encoded for each operator.
type leafTweak struct {
	spark.LeafTweak
	shares
}

// differ shares the difference of two keys, which must not be zero. It runs inside erase.Do.
func differ(rand io.Reader, from, to *spark.Scalar, g *SparkGroup) (shares, error) {
	var tweak spark.Scalar
	defer tweak.Zero()
	tweak.NegateVal(to).Add(from)
	if tweak.IsZero() {
		return shares{}, errSignature
	}
	return share(rand, &tweak, g)
}

// share shares a scalar by Shamir's scheme: operator i gets the value at i+1 of a polynomial whose constant is the scalar and
// whose other coefficients are random. It runs inside erase.Do.
func share(rand io.Reader, number *spark.Scalar, g *SparkGroup) (out shares, err error) {
	coefficients := make([]spark.Scalar, g.Threshold)
	proofs := make([][]byte, g.Threshold)
	for i := range coefficients {
		if i == 0 {
			coefficients[i].Set(number)
		} else if err := drawScalar(rand, &coefficients[i]); err != nil {
			return out, err
		}
		p, err := pointOf(&coefficients[i])
		if err != nil {
			return out, err
		}
		proofs[i] = p.Compressed()
	}
	for i, o := range g.Operators {
		var at, value spark.Scalar
		at.SetInt(uint32(i + 1))
		for _, c := range slices.Backward(coefficients) {
			value.Mul(&at).Add(&c)
		}
		p, err := pointOf(&value)
		if err != nil {
			return out, err // the value is zero, with a probability of 2^-256
		}
		raw := value.Bytes()
		out.operators = append(out.operators, spark.SecretShare{Share: raw[:], Proofs: proofs})
		out.public = append(out.public, spark.Entry{Operator: o.ID, Value: p.Compressed()})
	}
	return out, nil
}

// packages encodes and encrypts the package of each operator.
func (g *SparkGroup) packages(rand io.Reader, leaves []leafTweak) (out []spark.Entry, err error) {
	erase.Do(func() {
		out, err = g.seal(rand, func(i int) []byte {
			of := make([]spark.LeafTweak, len(leaves))
			for j := range leaves {
				of[j] = leaves[j].LeafTweak
				of[j].Share, of[j].Shares = leaves[j].operators[i], leaves[j].public
			}
			return spark.AppendLeafTweaks(nil, of)
		})
	})
	return out, err
}

func (g *SparkGroup) seal(rand io.Reader, plain func(i int) []byte) ([]spark.Entry, error) {
	out := make([]spark.Entry, len(g.Operators))
	for i, o := range g.Operators {
		box, err := sealTo(rand, o.Key, plain(i))
		if err != nil {
			return nil, err
		}
		out[i] = spark.Entry{Operator: o.ID, Value: box}
	}
	return out, nil
}

// Sizes in a box of Spark's ECIES: a point of 65 bytes, a nonce of 16, a tag of 16, and the ciphertext.
const (
	boxPoint = 65
	boxNonce = 16
	boxTag   = 16
	boxHead  = boxPoint + boxNonce + boxTag
)

// sealTo encrypts plain to a public key by ECIES. It runs inside erase.Do.
func sealTo(rand io.Reader, to chain.PublicKey, plain []byte) ([]byte, error) {
	var ephemeral spark.Scalar
	defer ephemeral.Zero()
	if err := drawScalar(rand, &ephemeral); err != nil {
		return nil, err
	}
	point, err := pointOf(&ephemeral)
	if err != nil {
		return nil, err
	}
	aead, err := boxCipher(rand, &ephemeral, point, to)
	if err != nil {
		return nil, err
	}
	out := make([]byte, boxHead, boxHead+len(plain)+boxTag)
	copy(out, point.Bytes())
	if _, err := io.ReadFull(rand, out[boxPoint:boxPoint+boxNonce]); err != nil {
		return nil, err
	}
	out = aead.Seal(out, out[boxPoint:boxPoint+boxNonce], plain, nil)
	end := len(out) - boxTag
	copy(out[boxPoint+boxNonce:], out[end:]) // the tag comes before the ciphertext
	return out[:end], nil
}

var errBox = errors.New("a box that does not open")

// openFrom decrypts a box with the private key. It runs inside erase.Do.
func openFrom(rand io.Reader, key *spark.Scalar, box []byte) ([]byte, error) {
	if len(box) < boxHead {
		return nil, errBox
	}
	point, err := chain.NewPublicKey(chain.Secp256k1, box[:boxPoint])
	if err != nil {
		return nil, errBox
	}
	aead, err := boxCipher(rand, key, point, point)
	if err != nil {
		return nil, err
	}
	sealed := slices.Concat(box[boxHead:], box[boxPoint+boxNonce:boxHead])
	plain, err := aead.Open(nil, box[boxPoint:boxPoint+boxNonce], sealed, nil)
	if err != nil {
		return nil, errBox
	}
	return plain, nil
}

// boxCipher is AES-256-GCM with a key derived from the Diffie-Hellman secret of key and point.
func boxCipher(rand io.Reader, key *spark.Scalar, ephemeral, point chain.PublicKey) (cipher.AEAD, error) {
	common, err := multiply(rand, key, point)
	if err != nil {
		return nil, err
	}
	secret, err := hkdf.Key(sha256.New, slices.Concat(ephemeral.Bytes(), common.Bytes()), nil, "", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithNonceSize(block, boxNonce)
}
