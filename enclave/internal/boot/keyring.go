// Package boot defines the formats of a deployment's secrets: root secret, shares, keyring, genesis record and
// deployment state.
//
// The root secret Q is made in an enclave. It wraps a keyring of independent random keys, one for each
// purpose, so that operators, Q and the storage key can change independently, and the keys that clients pin
// stay. The genesis record identifies the deployment: its hash is in the name of every sealed object.
package boot

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"cloister/attestation"
	"cloister/enclave/internal/erase"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
)

// decoding is strict CBOR: no repeated or unknown map keys, no tags, no indefinite lengths.
var decoding = must(cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
	ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxNestedLevels: 4, MaxArrayElements: 16, MaxMapPairs: 32}.DecMode())

var encoding = must(cbor.EncOptions{}.UserBufferEncMode())

func must[T any](mode T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return mode
}

// decodeExact decodes a record into v and reports whether the record is v's only encoding.
func decodeExact(record []byte, v any) bool {
	if decoding.Unmarshal(record, v) != nil {
		return false
	}
	again, err := cbor.Marshal(v)
	return err == nil && bytes.Equal(again, record)
}

// SecretSize is the size of Q and of every key of the keyring.
const SecretSize = 32

// Keyring is the deployment's independent keys, SecretSize bytes each. Signing and
// decryption keys are P-256 scalars, except Webhook, an Ed25519 seed, and Log, a secret for key derivation.
type Keyring struct {
	Epoch         uint32        // rises with every rotation
	Storage       secret.Secret // wraps each organization's data key
	Blind         secret.Secret // key of the hashes by which the host may search
	Signer        secret.Secret // signs import and export bundles
	SignerEncrypt secret.Secret // the other half of the signer pair
	Session       secret.Secret // signs sessions
	Token         secret.Secret // signs verification tokens and passcode targets
	TokenLegacy   secret.Secret // signs verification tokens of the first format
	FetcherSecret secret.Secret // decrypts OAuth client secrets
	OnRamp        secret.Secret // decrypts on-ramp credentials and pull secrets of image registries
	Webhook       secret.Secret // signs webhooks
	Log           secret.Secret // derives the keys of ranges' logs
	// Before is the previous storage key, kept while it wraps a data key; otherwise empty.
	Before secret.Secret
}

// record is the encoded form of a keyring. It exists only inside erase.Do.
type record struct {
	Epoch uint32 `cbor:"1,keyasint"`
	// The keys, in the order of Keyring.keys.
	Storage       [SecretSize]byte `cbor:"2,keyasint"`
	Blind         [SecretSize]byte `cbor:"3,keyasint"`
	Signer        [SecretSize]byte `cbor:"4,keyasint"`
	SignerEncrypt [SecretSize]byte `cbor:"5,keyasint"`
	Session       [SecretSize]byte `cbor:"6,keyasint"`
	Token         [SecretSize]byte `cbor:"7,keyasint"`
	TokenLegacy   [SecretSize]byte `cbor:"8,keyasint"`
	FetcherSecret [SecretSize]byte `cbor:"9,keyasint"`
	OnRamp        [SecretSize]byte `cbor:"10,keyasint"`
	Webhook       [SecretSize]byte `cbor:"11,keyasint"`
	Log           [SecretSize]byte `cbor:"12,keyasint"`
	Before        [SecretSize]byte `cbor:"13,keyasint,omitzero"` // zero: none
}

func (r *record) keys() []*[SecretSize]byte {
	return []*[SecretSize]byte{&r.Storage, &r.Blind, &r.Signer, &r.SignerEncrypt, &r.Session, &r.Token, &r.TokenLegacy, &r.FetcherSecret, &r.OnRamp, &r.Webhook, &r.Log, &r.Before}
}

func (k *Keyring) keys() []*secret.Secret {
	return []*secret.Secret{&k.Storage, &k.Blind, &k.Signer, &k.SignerEncrypt, &k.Session, &k.Token, &k.TokenLegacy, &k.FetcherSecret, &k.OnRamp, &k.Webhook, &k.Log, &k.Before}
}

func (k *Keyring) scalars() []*secret.Secret {
	return []*secret.Secret{&k.Signer, &k.SignerEncrypt, &k.Session, &k.Token, &k.TokenLegacy, &k.FetcherSecret, &k.OnRamp}
}

// NewKeyring draws a keyring of epoch 1.
func NewKeyring(rand io.Reader) (k *Keyring, err error) {
	k = &Keyring{Epoch: 1}
	for _, s := range k.scalars() {
		if *s, err = NewScalar(rand); err != nil {
			return nil, err
		}
	}
	for _, s := range []*secret.Secret{&k.Storage, &k.Blind, &k.Webhook, &k.Log} {
		if *s, err = secret.New(rand, SecretSize); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// RotateStorage draws a new storage key and keeps the old one in Before. It fails if Before has an older one.
func (k *Keyring) RotateStorage(rand io.Reader) error {
	if k.Before.Len() != 0 {
		return errors.New("the storage key before this one is still kept: forget it first")
	}
	drawn, err := secret.New(rand, SecretSize)
	if err != nil {
		return fmt.Errorf("drawing a storage key: %w", err)
	}
	k.Before, k.Storage = k.Storage, drawn
	k.Epoch++
	return nil
}

// ForgetStorage wipes the previous storage key. It fails if there is none.
func (k *Keyring) ForgetStorage() error {
	if k.Before.Len() == 0 {
		return errors.New("no storage key before this one is kept")
	}
	k.Before.Wipe()
	k.Before = secret.Secret{}
	k.Epoch++
	return nil
}

// NewScalar draws a P-256 private key. It draws again if the bytes are no valid scalar, once in 2^32.
func NewScalar(rand io.Reader) (secret.Secret, error) {
	for range 8 {
		s, err := secret.New(rand, SecretSize)
		if err != nil {
			return s, err
		}
		if _, err := publicKey(s); err == nil {
			return s, nil
		}
		s.Wipe()
	}
	return secret.Secret{}, errors.New("randomness gives no key")
}

// publicKey returns the public key of a P-256 scalar, an uncompressed point.
func publicKey(s secret.Secret) (point []byte, err error) {
	s.Use(func(b []byte) {
		var k *ecdh.PrivateKey
		if k, err = ecdh.P256().NewPrivateKey(b); err == nil {
			point = k.PublicKey().Bytes()
		}
	})
	return point, err
}

// Wipe overwrites the keyring.
func (k *Keyring) Wipe() {
	for _, s := range k.keys() {
		s.Wipe()
	}
	*k = Keyring{}
}

// Hash returns HMAC-SHA-256 under the blind-index key, safe for concurrent use. The key stays in
// memory for the whole boot, in the closure: hashing needs no erasing of memory.
func (k *Keyring) Hash() func(text []byte) [sha256.Size]byte {
	var key []byte
	k.Blind.Use(func(b []byte) { key = bytes.Clone(b) })
	ready := sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}
	return func(text []byte) [sha256.Size]byte {
		m := ready.Get().(hash.Hash)
		defer ready.Put(m)
		m.Reset()
		m.Write(text)
		return [sha256.Size]byte(m.Sum(nil))
	}
}

// encode returns the keyring's encoding. The caller wipes it.
func (k *Keyring) encode() (encoded secret.Secret, err error) {
	erase.Do(func() {
		r := &record{Epoch: k.Epoch}
		to := r.keys()
		for i, s := range k.keys() {
			s.Use(func(b []byte) { copy(to[i][:], b) })
		}
		defer func() { *r = record{} }()
		// Not the encoder's own buffers, which it keeps: this one is wiped.
		plain := bytes.NewBuffer(make([]byte, 0, 1024))
		if err = encoding.MarshalToBuffer(r, plain); err == nil {
			encoded, err = secret.From(plain.Bytes())
		}
	})
	if err != nil {
		return encoded, fmt.Errorf("encoding the keyring: %w", err)
	}
	return encoded, nil
}

// decode decodes a keyring of encode, and wipes the encoding.
func decode(encoded secret.Secret) (k *Keyring, err error) {
	defer encoded.Wipe()
	k = new(Keyring)
	encoded.Use(func(b []byte) {
		r := new(record)
		defer func() { *r = record{} }()
		if err = decoding.Unmarshal(b, r); err != nil {
			return
		}
		k.Epoch = r.Epoch
		from := r.keys()
		for i, s := range k.keys() {
			if s != &k.Before || *from[i] != [SecretSize]byte{} {
				*s, err = secret.From(from[i][:])
			}
		}
	})
	if err != nil || k.Epoch == 0 {
		k.Wipe()
		return nil, errors.New("keyring does not decode")
	}
	return k, nil
}

func wrapName(kind seal.Kind, deployment [32]byte) seal.Name {
	return seal.Name{Kind: kind, Deployment: deployment}
}

// Wrap seals the keyring under Q, for one deployment.
func (k *Keyring) Wrap(rand io.Reader, q secret.Secret, deployment [32]byte) ([]byte, error) {
	key, err := seal.Derive(q, "keyring")
	if err != nil {
		return nil, err
	}
	encoded, err := k.encode()
	if err != nil {
		return nil, err
	}
	defer encoded.Wipe()
	return key.SealSecret(rand, wrapName(seal.KindKeyring, deployment), encoded)
}

// Unwrap opens a keyring that Wrap has sealed, under the same Q and deployment.
func Unwrap(q secret.Secret, deployment [32]byte, sealed []byte) (*Keyring, error) {
	key, err := seal.Derive(q, "keyring")
	if err != nil {
		return nil, err
	}
	encoded, err := key.OpenSecret(wrapName(seal.KindKeyring, deployment), sealed)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return decode(encoded)
}

const quorumSize = 130

// Genesis is the genesis record of a deployment. The deployment's id is the SHA-256 of its encoding.
type Genesis struct {
	Format    uint8    `cbor:"1,keyasint"`
	CreatedMs uint64   `cbor:"2,keyasint"`
	Quorum    []byte   `cbor:"3,keyasint"` // quorum public key, 130 bytes
	Random    [32]byte `cbor:"4,keyasint"`
	// Ranges is the number of the deployment's ranges, which never changes. In format 1 it is absent and
	// means 1, in format 2 it is more than 1, in format 3 at least 1.
	Ranges uint8 `cbor:"5,keyasint,omitempty"`
}

// Logged reports whether each range has had a log since genesis (format 3). Ranges of older
// deployments got their logs later.
func (g *Genesis) Logged() bool { return g.Format >= 3 }

// MaxRanges is the largest value of Genesis.Ranges.
const MaxRanges = 64

// NewGenesis returns the encoded genesis record of a new deployment with root secret q and 1 to MaxRanges ranges.
func NewGenesis(rand io.Reader, q secret.Secret, nowMs uint64, ranges int) ([]byte, error) {
	if ranges < 1 || ranges > MaxRanges {
		return nil, fmt.Errorf("a deployment of %d ranges", ranges)
	}
	pub, err := QuorumPublicKey(q)
	if err != nil {
		return nil, err
	}
	g := Genesis{Format: 3, CreatedMs: nowMs, Quorum: pub, Ranges: uint8(ranges)}
	if _, err := io.ReadFull(rand, g.Random[:]); err != nil {
		return nil, fmt.Errorf("drawing a deployment: %w", err)
	}
	return cbor.Marshal(&g)
}

// Deployment returns the deployment's id, the SHA-256 of its genesis record.
func Deployment(genesis []byte) [32]byte { return sha256.Sum256(genesis) }

// QuorumPublicKey returns the encryption and signing public keys that are derived from Q, two uncompressed P-256 points.
func QuorumPublicKey(q secret.Secret) ([]byte, error) {
	var out []byte
	for _, use := range []string{"encrypt", "sign"} {
		point, err := quorumPoint(q, use, 0)
		for n := 1; err != nil && n <= 8; n++ {
			point, err = quorumPoint(q, use, n)
		}
		if err != nil {
			return nil, errors.New("root secret gives no quorum key")
		}
		out = append(out, point...)
	}
	return out, nil
}

// quorumPoint derives a public key from Q for a use. It fails if try n derives no valid scalar.
func quorumPoint(q secret.Secret, use string, n int) ([]byte, error) {
	derived, err := q.Derive("", fmt.Sprintf("cloister quorum 1 %s %d", use, n), SecretSize)
	if err != nil {
		return nil, err
	}
	defer derived.Wipe()
	return publicKey(derived)
}

// PublicKeys are the deployment's public keys, which clients pin, in hex as the API writes them.
type PublicKeys struct {
	Signer         string `json:"signer"`
	Session        string `json:"session"`
	OTP            string `json:"otp"`
	FetcherEncrypt string `json:"fetcherEncrypt"`
	OnRamp         string `json:"onRamp"`
	OTPLegacy      string `json:"otpLegacy"`
	SignerPair     string `json:"signerPair"`
}

// Public returns the public keys of the keyring's P-256 keys.
func (k *Keyring) Public() (PublicKeys, error) {
	var texts [7]string
	for i, s := range k.scalars() {
		p, err := publicKey(*s)
		if err != nil {
			return PublicKeys{}, errors.New("keyring holds no key")
		}
		texts[i] = hex.EncodeToString(p)
	}
	return PublicKeys{
		Signer: texts[0], SignerPair: texts[1] + texts[0], Session: texts[2], OTP: texts[3],
		OTPLegacy: compress(texts[4]), FetcherEncrypt: texts[5], OnRamp: compress(texts[6]),
	}, nil
}

// compress returns the hex of a point in compressed form, given that of its uncompressed form.
func compress(text string) string {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 65 {
		return ""
	}
	return hex.EncodeToString(append([]byte{2 | b[64]&1}, b[1:33]...))
}

// ParseGenesis decodes a genesis record, refuses all but its only encoding, and sets Ranges. The caller must
// compare the record's hash or quorum key with the expected one.
func ParseGenesis(record []byte) (*Genesis, error) {
	g := new(Genesis)
	if !decodeExact(record, g) || len(g.Quorum) != quorumSize {
		return nil, errors.New("genesis record does not decode")
	}
	one, more := g.Format == 1 && g.Ranges == 0, g.Format == 2 && g.Ranges > 1 && g.Ranges <= MaxRanges
	if logged := g.Format == 3 && g.Ranges >= 1 && g.Ranges <= MaxRanges; !one && !more && !logged {
		return nil, errors.New("genesis record of another format")
	}
	g.Ranges = max(g.Ranges, 1)
	return g, nil
}

// An Opener decrypts boxes of attestation.SealTo. It is a closure over its private key, so that nothing prints the key.
type Opener func(info, box []byte) (secret.Secret, error)

// NewOpener returns an Opener with a P-256 private key, and the public key, an uncompressed point.
func NewOpener(private secret.Secret) (open Opener, point []byte, err error) {
	var key *ecdh.PrivateKey
	private.Use(func(b []byte) { key, err = ecdh.P256().NewPrivateKey(b) })
	if err != nil {
		return nil, nil, errors.New("no private key of P-256")
	}
	return func(info, box []byte) (opened secret.Secret, err error) {
		erase.Do(func() {
			var plain []byte
			if plain, err = attestation.OpenBox(key, info, box); err == nil {
				opened, err = secret.From(plain)
			}
		})
		return opened, err
	}, key.PublicKey().Bytes(), nil
}

// EncryptFor encrypts the keyring to the next enclave's setup key. TakeOver decrypts it, with the same info only.
func (k *Keyring) EncryptFor(setupKeyHex string, info []byte) (box []byte, err error) {
	encoded, err := k.encode()
	if err != nil {
		return nil, err
	}
	defer encoded.Wipe()
	encoded.Use(func(b []byte) { box, err = attestation.SealTo(setupKeyHex, info, b) })
	return box, err
}

// TakeOver decrypts a keyring of EncryptFor, with the Opener of the setup key.
func TakeOver(open Opener, info, box []byte) (*Keyring, error) {
	encoded, err := open(info, box)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return decode(encoded)
}
