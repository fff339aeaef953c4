package keys

import (
	"errors"
	"fmt"
	"reflect"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// ActionSign is the action for which Sign spends a Grant.
const ActionSign = "SIGN"

// A Grant is a decision of the policies to let one activity do one action. It
// can be spent once: Spend answers an error when it was made for another
// action, was never granted or is already spent.
type Grant interface{ Spend(action string) error }

// ErrNoGrant is returned when there is no Grant at all.
var ErrNoGrant = errors.New("signing without a grant")

// Spend uses g up for an action, or refuses. A nil pointer in the interface is no
// Grant, whatever its method would say.
func Spend(g Grant, action string) error {
	if v := reflect.ValueOf(g); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return ErrNoGrant
	}
	if err := g.Spend(action); err != nil {
		return fmt.Errorf("spending the grant: %w", err)
	}
	return nil
}

// Sign spends the grant once and signs 1 to MaxDigests digests with one key, all
// or none, in their order. The errors are *fault.Error, InvalidArgument, for a
// scheme that does not go with the key's curve, a digest that is not 32 bytes,
// and a message over MaxPayload.
func Sign(g Grant, k *PrivateKey, digests ...chain.Digest) ([]Signature, error) {
	if err := Spend(g, ActionSign); err != nil {
		return nil, err
	}
	a := Asked{k, digests}
	if err := a.check(); err != nil {
		return nil, err
	}
	return a.sign()
}

// Asked is what one key is asked to sign.
type Asked struct {
	Key     *PrivateKey
	Digests []chain.Digest
}

// SignEach is Sign for an activity that several keys sign: it spends the grant
// once and answers the signatures of each, all or none.
func SignEach(g Grant, asked ...Asked) ([][]Signature, error) {
	if err := Spend(g, ActionSign); err != nil {
		return nil, err
	}
	if len(asked) == 0 {
		return nil, fault.New(fault.InvalidArgument, "there must be something to sign")
	}
	for i := range asked {
		if err := asked[i].check(); err != nil {
			return nil, err
		}
	}
	out := make([][]Signature, len(asked))
	for i := range asked {
		var err error
		if out[i], err = asked[i].sign(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (a *Asked) check() error {
	if len(a.Digests) == 0 || len(a.Digests) > MaxDigests {
		return fault.New(fault.InvalidArgument, "there must be 1 to %d things to sign", MaxDigests)
	}
	for _, d := range a.Digests {
		if err := checkDigest(a.Key.curveOf(), d); err != nil {
			return err
		}
	}
	return nil
}

// sign makes the signatures; the caller has spent a Grant and checked.
func (a *Asked) sign() ([]Signature, error) {
	sigs := make([]Signature, len(a.Digests))
	for i, d := range a.Digests {
		s, err := a.Key.sign(d.Scheme, d.Message)
		if err != nil {
			return nil, err
		}
		sigs[i] = s
	}
	return sigs, nil
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
		return fault.New(fault.InvalidArgument, "payload too large")
	}
	return nil
}

// curveOf is the key's curve, none for a nil key.
func (k *PrivateKey) curveOf() chain.Curve {
	if k == nil {
		return 0
	}
	return k.curve
}
