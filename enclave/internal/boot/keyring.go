// Package boot is how a deployment's root secret comes to be and what it wraps.
//
// The root secret Q is made once, in the enclave. It wraps a keyring of independent random
// keys, one for each role that clients pin or that protects something of its own, so that
// operators, Q and storage keys can change without each other. The genesis record names
// the deployment: its hash is in the name of every sealed object.
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

// decoding is strict: no key twice, none unknown, nothing of indefinite length.
var decoding = must(cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
	ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, MaxNestedLevels: 4, MaxArrayElements: 16, MaxMapPairs: 32}.DecMode())

var encoding = must(cbor.EncOptions{}.UserBufferEncMode())

func must[T any](mode T, err error) T {
	if err != nil {
		panic(err) // options are right or wrong for good
	}
	return mode
}

// decodeExact reads a record into v, and tells whether it is the one encoding of it.
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
// decryption keys are P-256 scalars except Webhook and Log, which are Ed25519 seeds.
type Keyring struct {
	Epoch         uint32        // rises with every rotation
	Storage       secret.Secret // wraps each organization's data key
	Blind         secret.Secret // keyed hashes that the host may search by
	Signer        secret.Secret // signs import and export bundles
	SignerEncrypt secret.Secret // the other half of the signer pair
	Session       secret.Secret // signs sessions
	Token         secret.Secret // signs verification tokens and passcode targets
	TokenLegacy   secret.Secret // signs verification tokens of the first form
	FetcherSecret secret.Secret // decrypts OAuth client secrets
	OnRamp        secret.Secret
	Webhook       secret.Secret
	Log           secret.Secret
	// Before is the previous storage key, kept while a data key is under it; or empty.
	Before secret.Secret
}

// record is a keyring as it is encoded. It lives inside erase.Do alone.
type record struct {
	Epoch uint32 `cbor:"1,keyasint"`
	// In the order of Keyring.keys.
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

// NewKeyring draws a keyring.
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

// RotateStorage draws a new storage key and keeps the old one. It refuses if an older one is kept.
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

// ForgetStorage forgets the previous storage key.
func (k *Keyring) ForgetStorage() error {
	if k.Before.Len() == 0 {
		return errors.New("no storage key before this one is kept")
	}
	k.Before.Wipe()
	k.Before = secret.Secret{}
	k.Epoch++
	return nil
}

// NewScalar draws a P-256 private key; the first try fails once in 2^32.
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

// publicKey is the uncompressed public point of a P-256 scalar.
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

// Hash is the hash that the blind-index key keys. The key lies behind it for the
// whole boot, so that hashing erases nothing.
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

// encode writes the keyring.
func (k *Keyring) encode() (encoded secret.Secret, err error) {
	erase.Do(func() {
		r := &record{Epoch: k.Epoch}
		to := r.keys()
		for i, s := range k.keys() {
			s.Use(func(b []byte) { copy(to[i][:], b) })
		}
		defer func() { *r = record{} }()
		// The encoder keeps buffers of its own for later; this one is wiped.
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

// decode reads what encode wrote, and wipes it.
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

// Wrap seals the keyring under Q for one deployment.
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

// Unwrap opens what Wrap sealed under the same Q and deployment.
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

// Genesis is the record whose hash is the deployment.
type Genesis struct {
	Format    uint8    `cbor:"1,keyasint"`
	CreatedMs uint64   `cbor:"2,keyasint"`
	Quorum    []byte   `cbor:"3,keyasint"` // quorum public key, 130 bytes
	Random    [32]byte `cbor:"4,keyasint"`
	// Ranges is how many ranges the deployment's organizations lie in, for good. It
	// is there in format 2 and more than 1, and in format 3; a record of format 1 means 1.
	Ranges uint8 `cbor:"5,keyasint,omitempty"`
}

// Logged tells whether the deployment was made with a log for each range: format 3. Ranges of
// an earlier one got theirs later.
func (g *Genesis) Logged() bool { return g.Format >= 3 }

// MaxRanges bounds Genesis.Ranges.
const MaxRanges = 64

// NewGenesis makes the record of a new deployment with root secret q and 1 to MaxRanges ranges.
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

// Deployment is the name of the deployment that a genesis record starts.
func Deployment(genesis []byte) [32]byte { return sha256.Sum256(genesis) }

// QuorumPublicKey is Q's public encryption and signing key, two uncompressed P-256 points.
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

// quorumPoint fails if the nth try derives no key.
func quorumPoint(q secret.Secret, use string, n int) ([]byte, error) {
	derived, err := q.Derive("", fmt.Sprintf("cloister quorum 1 %s %d", use, n), SecretSize)
	if err != nil {
		return nil, err
	}
	defer derived.Wipe()
	return publicKey(derived)
}

// PublicKeys are the texts that clients pin, as the interface writes them.
type PublicKeys struct {
	Signer         string `json:"signer"`
	Session        string `json:"session"`
	OTP            string `json:"otp"`
	FetcherEncrypt string `json:"fetcherEncrypt"`
	OnRamp         string `json:"onRamp"`
	OTPLegacy      string `json:"otpLegacy"`
	SignerPair     string `json:"signerPair"`
}

// Public tells the keyring's public halves.
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

// compress shortens the text of an uncompressed point.
func compress(text string) string {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 65 {
		return ""
	}
	return hex.EncodeToString(append([]byte{2 | b[64]&1}, b[1:33]...))
}

// ParseGenesis reads a genesis record, of which there is one encoding, and sets Ranges.
// Whether it is the right one, its hash or quorum key must tell.
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

// An Opener opens what attestation.SealTo encrypted to one key, which it hides from printing.
type Opener func(info, box []byte) (secret.Secret, error)

// NewOpener makes an Opener of a P-256 private key. point is its public half, uncompressed.
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

// EncryptFor encrypts the keyring to the next enclave's setup key. It opens under the same info only.
func (k *Keyring) EncryptFor(setupKeyHex string, info []byte) (box []byte, err error) {
	encoded, err := k.encode()
	if err != nil {
		return nil, err
	}
	defer encoded.Wipe()
	encoded.Use(func(b []byte) { box, err = attestation.SealTo(setupKeyHex, info, b) })
	return box, err
}

// TakeOver opens what HandTo made, with the Opener of the setup key.
func TakeOver(open Opener, info, box []byte) (*Keyring, error) {
	encoded, err := open(info, box)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return decode(encoded)
}
