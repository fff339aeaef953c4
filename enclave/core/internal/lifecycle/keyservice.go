package lifecycle

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"cloister/attestation"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/kms"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

var errKeyService = fault.WithCode(fault.InvalidArgument, "KEY_SERVICE_ANSWER", "the key service's answer does not open, or is of another key")

// keyServiceRequest answers what the key service is to be asked, with this
// enclave's document as the recipient: in hello, for a genesis, a new data key; in
// seed the one that the share set names. A document holds for five minutes there.
func (e *Enclave) keyServiceRequest() ([]byte, error) {
	if err := e.refuseDebug(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.State()
	if s != stateHello && s != stateSeed || e.cfg.Root != nil {
		return nil, errNotWaiting
	}
	if s == stateSeed && e.waiting.holders.set.KeyService == nil {
		return nil, fault.WithCode(fault.FailedPrecondition, "KEY_SERVICE_NONE", "the root secret has no key service as a factor")
	}
	if e.recipient == nil {
		r, err := kms.NewRecipient(e.cfg.Mixed)
		if err != nil {
			return nil, err
		}
		e.recipient = r
	}
	var userData []byte
	if s == stateSeed {
		userData = e.waiting.id[:]
	}
	doc, err := e.cfg.Device.Attest(e.recipient.Public, userData, nil)
	if err != nil {
		return nil, fmt.Errorf("attesting: %w", err)
	}
	if s == stateHello {
		return kms.GenerateRequest(doc)
	}
	blob, err := hex.DecodeString(e.waiting.holders.set.KeyService.CiphertextBlob)
	if err != nil {
		return nil, err
	}
	return kms.DecryptRequest(blob, doc)
}

// newFactor opens the answer to GenerateDataKey. There is nothing to compare it
// with: a host that made it up knows the data key, and the shares are what is
// left.
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
		KeyID                  string `json:"KeyId"`                                  // what else the service says is not looked at
		KeyMaterialID          string `json:"KeyMaterialId"`
		EncryptionAlgorithm    string `json:"EncryptionAlgorithm"`
	}
	if err := strictjson.Decode(body, &in); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.State() != stateSeed {
		return nil, errNotWaiting
	}
	h := e.waiting.holders
	if h.set.KeyService == nil {
		return nil, fault.WithCode(fault.FailedPrecondition, "KEY_SERVICE_NONE", "the root secret has no key service as a factor")
	}
	key, err := e.openAnswer(in.CiphertextForRecipient)
	if err != nil {
		return nil, err
	}
	f := &boot.Factor{Key: key}
	if !f.Holds(h.set) { // one answer for all that is wrong: the service's has no integrity
		key.Wipe()
		return nil, errKeyService
	}
	if f.Blob, err = hex.DecodeString(h.set.KeyService.CiphertextBlob); err != nil {
		return nil, err
	}
	h.factor = f
	return e.proceed(ctx)
}

// proceed goes on to recovering once all that the root secret is made of is here.
func (e *Enclave) proceed(ctx context.Context) ([]byte, error) {
	w := e.waiting
	h := w.holders
	if len(h.parts) < h.set.Operators.Threshold || h.set.KeyService != nil && h.factor == nil {
		return json.Marshal(map[string]any{"state": stateSeed.String(), "shares": h.status()})
	}
	q, err := h.combine()
	defer q.Wipe()
	reply, err := e.begin(ctx, stateSeed, w.given, q, e.unwrapWith(ctx, q, err))
	if h.factor != nil {
		h.factor.Key.Wipe()
	}
	return reply, err
}

// fitsSource holds the share set against how the manifest says that the root
// secret comes back.
func fitsSource(m *attestation.Manifest, set *attestation.ShareSet) error {
	if (m.SeedSource == attestation.SeedCloudKMS) != (set.KeyService != nil) {
		return errors.New("the manifest names another source of the root secret than its share set")
	}
	return nil
}
