package keys

import (
	"errors"
	"fmt"
	"reflect"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// ActionSign is the action for which Sign and SignAll spend a Grant.
const ActionSign = "SIGN"

// A Grant is a decision of the policies to let one activity do one action. It
// can be spent once: Spend answers an error when it was made for another
// action, was never granted or is already spent.
type Grant interface{ Spend(action string) error }

// ErrNoGrant is returned when there is no Grant at all.
var ErrNoGrant = errors.New("signing without a grant")

// spend refuses unless g could be spent. A nil pointer in the interface is no
// Grant, whatever its method would say.
func spend(g Grant) error {
	if v := reflect.ValueOf(g); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return ErrNoGrant
	}
	if err := g.Spend(ActionSign); err != nil {
		return fmt.Errorf("spending the grant: %w", err)
	}
	return nil
}

// Sign spends the grant and signs one payload, hashed as h says (see Digest).
func Sign(g Grant, k *PrivateKey, h HashFunction, payload []byte) (Signature, error) {
	if err := spend(g); err != nil {
		return Signature{}, err
	}
	message, err := Digest(k.curveOf(), h, payload)
	if err != nil {
		return Signature{}, err
	}
	return k.sign(message)
}

// SignAll spends the grant once and signs 1 to MaxBatch payloads with one key,
// all or none. Signatures come in the order of the payloads.
func SignAll(g Grant, k *PrivateKey, h HashFunction, payloads [][]byte) ([]Signature, error) {
	if err := spend(g); err != nil {
		return nil, err
	}
	if len(payloads) == 0 || len(payloads) > MaxBatch {
		return nil, fault.New(fault.InvalidArgument, "payloads must number 1 to %d", MaxBatch)
	}
	messages := make([][]byte, len(payloads))
	for i, p := range payloads {
		m, err := Digest(k.curveOf(), h, p)
		if err != nil {
			return nil, err
		}
		messages[i] = m
	}
	sigs := make([]Signature, len(payloads))
	for i, m := range messages {
		s, err := k.sign(m)
		if err != nil {
			return nil, err
		}
		sigs[i] = s
	}
	return sigs, nil
}

// curveOf is the key's curve, none for a nil key.
func (k *PrivateKey) curveOf() chain.Curve {
	if k == nil {
		return 0
	}
	return k.curve
}
