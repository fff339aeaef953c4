package keys

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/tally"
)

// Signature is a signature in the form of the public interface.
type Signature = chain.Signature

// A PrivateKey is a parsed private key. It cannot be printed, compared or encoded. It is safe for
// concurrent use; Wipe waits for signing in progress, and a wiped key returns errors.
type PrivateKey struct {
	secret.Unencodable
	identity
	curve  chain.Curve
	public chain.PublicKey
	open   func() *vault
	made   bool // new in this activity, not stored yet
}

type vault struct {
	mu  sync.RWMutex
	key curveKey // nil when wiped
}

// A curveKey is a parsed key of one curve.
type curveKey interface {
	// sign signs a message that has passed checkDigest. Only PrivateKey.sign calls it, and
	// verifies the signature.
	sign(out *Signature, public chain.PublicKey, scheme chain.Scheme, message []byte) error
	// verify reports whether sig is a correct result of sign.
	verify(sig *Signature, public chain.PublicKey, scheme chain.Scheme, message []byte) bool
	// bytes writes the private key: the scalar, or the seed for ed25519.
	bytes(out *[32]byte)
	// wipe overwrites the key.
	wipe()
}

const (
	privateKeySize = 32
	// drawAttempts bounds the draws of a new key. A random key is not below the curve's order
	// with a probability of at most 2^-32; after more draws the random source must be broken.
	drawAttempts = 4
)

var errPrivateKey = errors.New("no private key on this curve")

// NewPrivateKey generates a private key.
func (h *Holder) NewPrivateKey(rand io.Reader, c chain.Curve) (*PrivateKey, error) {
	if err := h.checkCreation(ActionCreate); err != nil {
		return nil, err
	}
	return markMade(generatePrivateKey(rand, c))
}

func generatePrivateKey(rand io.Reader, c chain.Curve) (*PrivateKey, error) {
	if schemes[c] == nil {
		return nil, fault.New(fault.InvalidArgument, "invalid curve")
	}
	for range drawAttempts {
		s, err := secret.New(rand, privateKeySize)
		if err != nil {
			return nil, err
		}
		k, err := privateKeyFromSecret(c, s)
		s.Wipe()
		if err == nil {
			return k, nil
		}
	}
	return nil, errors.New("randomness gives no private key")
}

// privateKeyFromSecret parses a private key of 32 bytes: a big-endian scalar from 1 to the order
// minus 1, or an ed25519 seed. The secret is neither kept nor wiped.
func privateKeyFromSecret(c chain.Curve, s secret.Secret) (*PrivateKey, error) {
	scheme := schemes[c]
	if scheme == nil {
		return nil, fault.New(fault.InvalidArgument, "invalid curve")
	}
	var p parsedKey
	var err error
	s.Use(func(b []byte) {
		if len(b) != privateKeySize {
			err = errPrivateKey
			return
		}
		err = p.parse(scheme, (*[32]byte)(b))
	})
	if err != nil {
		return nil, err
	}
	return p.key(c)
}

// parsedKey carries a key from parse, which runs inside erase.Do, to key, which does not.
type parsedKey struct {
	curveKey curveKey
	point    [65]byte
}

// parse parses the private bytes. The curveKey is allocated inside erase.Do, so that a key
// that is dropped without Wipe is erased when it is freed.
func (p *parsedKey) parse(s *scheme, raw *[32]byte) (err error) {
	if !s.accept(raw) {
		return errPrivateKey
	}
	p.curveKey, err = s.parse(&p.point, raw)
	return err
}

// key makes the PrivateKey of a parsed key.
func (p *parsedKey) key(c chain.Curve) (*PrivateKey, error) {
	point := p.point[:]
	if c == chain.Ed25519 {
		point = point[:32]
	}
	public, err := chain.NewPublicKey(c, point)
	if err != nil {
		p.curveKey.wipe()
		return nil, err
	}
	v := &vault{key: p.curveKey}
	return &PrivateKey{curve: c, public: public, open: func() *vault { return v }}, nil
}

// Curve is the key's curve.
func (k *PrivateKey) Curve() chain.Curve { return k.curve }

// Public is the public key; it stays valid after Wipe.
func (k *PrivateKey) Public() chain.PublicKey { return k.public }

// Wipe overwrites the key, after signing in progress. It may be called again.
func (k *PrivateKey) Wipe() {
	if k.open == nil {
		return
	}
	v := k.open()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.key != nil {
		v.key.wipe()
		v.key = nil
	}
}

// markMade marks a key as new in this activity.
func markMade(k *PrivateKey, err error) (*PrivateKey, error) {
	if err == nil {
		k.made = true
	}
	return k, err
}

// NewSecret returns the 32 private bytes of a key that NewPrivateKey, NewSponsor or ImportKey has made in this activity, to be sealed into an entry. The
// caller wipes it. For any other key use an export.
func (h *Holder) NewSecret(k *PrivateKey) (secret.Secret, error) {
	if k == nil || !k.made {
		return secret.Secret{}, errForeign
	}
	return k.secret()
}

// secret returns the key's private bytes in the form of privateKeyFromSecret.
func (k *PrivateKey) secret() (s secret.Secret, err error) {
	err = k.use(func(key curveKey) (err error) {
		s, err = secret.Make(32, func(b []byte) error {
			key.bytes((*[32]byte)(b))
			return nil
		})
		return err
	})
	return s, err
}

// use calls f with the parsed key, and delays Wipe until f returns.
func (k *PrivateKey) use(f func(curveKey) error) error {
	if k == nil || k.open == nil {
		return errWiped
	}
	v := k.open()
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.key == nil {
		return errWiped
	}
	return f(v.key)
}

// sign signs one message that has passed checkDigest, and verifies the signature.
// Callers must have spent a Grant.
func (k *PrivateKey) sign(scheme chain.Scheme, message []byte) (Signature, error) {
	var sig Signature
	err := k.use(func(s curveKey) error {
		if err := s.sign(&sig, k.public, scheme, message); err != nil {
			return err
		}
		if !s.verify(&sig, k.public, scheme, message) {
			return errFaulty
		}
		return nil
	})
	if err != nil {
		return Signature{}, fmt.Errorf("signing: %w", err)
	}
	if k.curve != chain.P256 { // p256 counts its own
		tally.SignaturesMade.Add(1)
		tally.SignaturesVerified.Add(1)
	}
	return sig, nil
}

var errFaulty = errors.New("the signature does not verify and was dropped")

// Format writes the type's name under every verb.
func (PrivateKey) Format(f fmt.State, _ rune) { io.WriteString(f, "keys.PrivateKey") }

// LogValue is the type's name.
func (PrivateKey) LogValue() slog.Value { return slog.StringValue("keys.PrivateKey") }

// NewSponsor generates the key of an account that pays for others' transactions, for an activity that changes the gas configuration.
func (h *Holder) NewSponsor(rand io.Reader, c chain.Curve) (*PrivateKey, error) {
	if err := h.Grant.Allows(h.useOf(actionUpdate)); err != nil {
		return nil, err
	}
	return markMade(generatePrivateKey(rand, c))
}
