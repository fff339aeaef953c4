package lifecycle

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/kms"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

var errKeyService = fault.WithCode(fault.InvalidArgument, "KEY_SERVICE_ANSWER", "the key service's answer does not open, or is of another key")

// errNoKeyService says that the shares alone are enough.
var errNoKeyService = fault.WithCode(fault.FailedPrecondition, "KEY_SERVICE_NONE", "the root secret has no key service as a factor")

// keyServiceRequest is what the key service is to be asked: in hello, for a genesis, a new
// data key; in seed the one that the share set names. It holds this enclave's document as
// the recipient, which the service takes for five minutes.
func (e *Enclave) keyServiceRequest(context.Context, []byte) ([]byte, error) {
	if err := e.refuseDebug(); err != nil {
		return nil, err
	}
	if e.cfg.Root != nil {
		return nil, errNotWaiting
	}
	var userData, blob []byte
	var err error
	if w := e.waiting; w != nil {
		if w.set.KeyService == nil {
			return nil, errNoKeyService
		}
		userData = w.id[:]
		if blob, err = hex.DecodeString(w.set.KeyService.CiphertextBlob); err != nil {
			return nil, err
		}
	}
	if e.recipient == nil {
		if e.recipient, err = kms.NewRecipient(e.cfg.Mixed); err != nil {
			return nil, err
		}
	}
	doc, err := e.cfg.Device.Attest(e.recipient.Public, userData, nil)
	if err != nil {
		return nil, fmt.Errorf("attesting: %w", err)
	}
	if e.waiting == nil {
		return kms.GenerateRequest(doc)
	}
	return kms.DecryptRequest(blob, doc)
}

// newFactor opens the answer to GenerateDataKey, nil if there is none. Nothing tells
// whether the host made it up: a host that did knows the data key, and the secret is as
// safe as its shares.
func (e *Enclave) newFactor(b *genesisBody) (*boot.Factor, error) {
	if b.KeyService.CiphertextForRecipient == "" && b.KeyService.CiphertextBlob == "" {
		return nil, nil
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(b.KeyService.CiphertextBlob)
	if err != nil || len(blob) == 0 || len(blob) > kms.MaxBlob {
		return nil, fault.Field("keyService.ciphertextBlob", "ciphertextBlob is no base64 of 1 to %d bytes", kms.MaxBlob)
	}
	key, err := e.openAnswer(b.KeyService.CiphertextForRecipient)
	if err != nil {
		return nil, err
	}
	return &boot.Factor{Key: key, Blob: blob}, nil
}

func (e *Enclave) openAnswer(text string) (key secret.Secret, err error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || e.recipient == nil {
		return key, errKeyService
	}
	if key, err = e.recipient.Open(raw); err != nil {
		return key, errKeyService
	}
	return key, nil
}

// keyService takes the answer to Decrypt, as the service gave it.
func (e *Enclave) keyService(ctx context.Context, body []byte) ([]byte, error) {
	var in struct {
		CiphertextForRecipient string `json:"CiphertextForRecipient" rule:"required"` // base64
		KeyID                  string `json:"KeyId"`                                  // this and what follows is not looked at
		KeyMaterialID          string `json:"KeyMaterialId"`
		EncryptionAlgorithm    string `json:"EncryptionAlgorithm"`
	}
	if err := strictjson.Decode(body, &in); err != nil {
		return nil, err
	}
	w := e.waiting
	if w.set.KeyService == nil {
		return nil, errNoKeyService
	}
	key, err := e.openAnswer(in.CiphertextForRecipient)
	if err != nil {
		return nil, err
	}
	f := &boot.Factor{Key: key}
	if !f.Holds(w.set) { // whatever is wrong with the answer, which has no integrity of its own
		key.Wipe()
		return nil, errKeyService
	}
	if f.Blob, err = hex.DecodeString(w.set.KeyService.CiphertextBlob); err != nil {
		return nil, err
	}
	w.factor = f
	return e.proceed(ctx)
}

// proceed goes on to recovering once all that the root secret is made of is here.
func (e *Enclave) proceed(ctx context.Context) ([]byte, error) {
	w := e.waiting
	if len(w.parts) < w.set.Operators.Threshold || w.set.KeyService != nil && w.factor == nil {
		return json.Marshal(map[string]any{"state": stateSeed.String(), "shares": w.status()})
	}
	q, err := w.combine()
	defer q.Wipe()
	reply, err := e.begin(ctx, stateSeed, w.given, q, e.unwrapWith(ctx, q, err))
	if w.factor != nil {
		w.factor.Key.Wipe()
	}
	return reply, err
}
