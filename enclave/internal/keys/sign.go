package keys

import (
	"crypto/ed25519"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/p256"
)

// Sign spends the Grant and signs 1 to MaxDigests digests with one key, all or none, in
// their order. The errors are *fault.Error, InvalidArgument: for a scheme that the key's
// curve does not allow, a digest that is not 32 bytes, a message over MaxPayload.
func (h *Holder) Sign(k *PrivateKey, digests ...chain.Digest) ([]Signature, error) {
	sigs, err := h.SignEach(KeyDigests{k, digests})
	if err != nil {
		return nil, err
	}
	return sigs[0], nil
}

// KeyDigests are the digests to be signed with one key.
type KeyDigests struct {
	Key     *PrivateKey
	Digests []chain.Digest
}

// SignEach is Sign for several keys: it spends the Grant once, for all keys, and returns the
// signatures of each, all or none.
func (h *Holder) SignEach(asked ...KeyDigests) ([][]Signature, error) {
	ids := make([]identity, len(asked))
	for i, a := range asked {
		if a.Key == nil {
			return nil, errWiped
		}
		ids[i] = a.Key.identity
	}
	if err := h.spendGrant(ActionSign, ids...); err != nil {
		return nil, err
	}
	for _, a := range asked {
		if err := a.check(); err != nil {
			return nil, err
		}
	}
	out := make([][]Signature, len(asked))
	for i, a := range asked {
		var err error
		if out[i], err = a.sign(h.Step); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (a *KeyDigests) check() error {
	if len(a.Digests) == 0 || len(a.Digests) > MaxDigests {
		return fault.New(fault.InvalidArgument, "there must be 1 to %d things to sign", MaxDigests)
	}
	for _, d := range a.Digests {
		if err := checkDigest(a.Key.curve, d); err != nil {
			return err
		}
	}
	return nil
}

func checkDigest(c chain.Curve, d chain.Digest) error {
	ok := false
	switch d.Scheme {
	case chain.ECDSA:
		ok = c == chain.Secp256k1 || c == chain.P256
	case chain.EdDSA:
		ok = c == chain.Ed25519
	case chain.Taproot, chain.Schnorr:
		ok = c == chain.Secp256k1
	}
	switch {
	case !ok:
		return fault.New(fault.InvalidArgument, "invalid curve: %v does not sign so", c)
	case d.Scheme != chain.EdDSA && len(d.Message) != 32:
		return fault.New(fault.InvalidArgument, "expected a 32-bytes-long digest, got %d bytes", len(d.Message))
	case len(d.Message) > MaxPayload:
		return errTooLarge
	}
	return nil
}

// verified implements curveKey.verify with the library's verifier. Every signature is verified
// before it is returned: RFC 6979 and RFC 8032 sign one message with the same nonce every
// time, and two such signatures, one of them with a fault, reveal the key. ECDSA on secp256k1
// is verified by keySecp256k1.verify instead, which says why.
type verified struct{}

func (verified) verify(s *Signature, p chain.PublicKey, scheme chain.Scheme, message []byte) bool {
	var b [64]byte
	switch {
	case scheme == chain.EdDSA && p.Curve() == chain.Ed25519:
		return ed25519.Verify(p.Bytes(), message, join(&b, s)) && s.V == 0
	case scheme == chain.ECDSA && p.Curve() == chain.P256:
		key, err := p256.ParsePublicKey(p.Bytes())
		return err == nil && p256.Verify(key, [32]byte(message), join(&b, s))
	case scheme == chain.Schnorr && p.Curve() == chain.Secp256k1:
		return verifySchnorr(p.Bytes()[1:33], message, s)
	case scheme == chain.Taproot:
		x, ok := p.Taproot()
		return ok && verifySchnorr(x[:], message, s)
	}
	return false
}

func verifySchnorr(x, digest []byte, s *Signature) bool {
	var b [64]byte
	key, err := schnorr.ParsePubKey(x)
	if err != nil {
		return false
	}
	sig, err := schnorr.ParseSignature(join(&b, s))
	return err == nil && s.V == 0 && sig.Verify(digest, key)
}

func join(b *[64]byte, s *Signature) []byte {
	copy(b[:32], s.R[:])
	copy(b[32:], s.S[:])
	return b[:]
}

// A ChainedSignature is a signing step whose digests depend on earlier signatures: Digests computes them from the signatures so far.
type ChainedSignature struct {
	Key     *PrivateKey
	Digests func(before [][]Signature) ([]chain.Digest, error)
}

// SignChained is SignEach for digests that depend on earlier signatures: it spends the Grant once, for all keys, and
// returns the signatures of each key, all or none.
func (h *Holder) SignChained(turns ...ChainedSignature) (out [][]Signature, err error) {
	ids := make([]identity, len(turns))
	for i, t := range turns {
		if t.Key == nil {
			return nil, errWiped
		}
		ids[i] = t.Key.identity
	}
	if err := h.spendGrant(ActionSign, ids...); err != nil {
		return nil, err
	}
	for _, t := range turns {
		a := KeyDigests{Key: t.Key}
		if a.Digests, err = t.Digests(out); err != nil {
			return nil, err
		}
		if err := a.check(); err != nil {
			return nil, err
		}
		made, err := a.sign(h.Step)
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// sign signs the digests. The caller must have spent a Grant.
func (a *KeyDigests) sign(in interface{ Pause() }) ([]Signature, error) {
	out := make([]Signature, len(a.Digests))
	for i, d := range a.Digests {
		var err error
		if out[i], err = a.Key.sign(d.Scheme, d.Message); err != nil {
			return nil, err
		}
		if in != nil {
			in.Pause()
		}
	}
	return out, nil
}
