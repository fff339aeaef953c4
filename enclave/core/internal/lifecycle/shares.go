package lifecycle

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cloister/attestation"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/kms"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/shamir"
	"cloister/enclave/internal/strictjson"
	"cloister/shared/wire"
)

// storeShareSet makes a share set, attests it, keeps it in the store and answers it.
func (e *Enclave) storeShareSet(ctx context.Context, q secret.Secret, deployment [32]byte, number uint64, operators attestation.Operators, f *boot.Factor) ([]byte, error) {
	set, err := boot.NewShareSet(e.cfg.Mixed, q, deployment, number, operators, f)
	if err != nil {
		return nil, err
	}
	raw, err := set.Encode()
	if err != nil {
		return nil, err
	}
	digest := attestation.ShareSetDigest(raw)
	doc, err := e.cfg.Device.Attest(nil, digest[:], nil)
	if err != nil {
		return nil, fmt.Errorf("attesting: %w", err)
	}
	out := attestation.EncodeAttestedShares(raw, doc)
	return out, e.cfg.Host.PutOnce(ctx, sharesOf(set.QuorumPublicKey)+digits(number), out)
}

// shareSet are the share set that a waiting enclave takes shares of, and the shares so far.
type shareSet struct {
	set    *attestation.ShareSet
	digest [32]byte
	shares map[int]shamir.Part // by operator, from 1
	factor *boot.Factor        // of the key service, once it is here
}

// status tells what is here and what is missing.
func (h *shareSet) status() map[string]any {
	have := slices.AppendSeq([]int{}, maps.Keys(h.shares))
	slices.Sort(have)
	return map[string]any{"keyService": h.set.KeyService != nil, "keyServiceHere": h.factor != nil, "threshold": h.set.Operators.Threshold,
		"operators": len(h.set.Shares), "have": have, "generation": h.set.Generation, "shareSetDigest": hex.EncodeToString(h.digest[:])}
}

// loadShareSet loads the newest share set of the secret that a manifest names. It may be split
// among the manifest's operators or, where these change, among those of its predecessor.
// The set is the host's word until shares fit it: a wrong one keeps the enclave waiting.
func (e *Enclave) loadShareSet(ctx context.Context, g *acceptedManifest) (*shareSet, error) {
	shares, err := e.cfg.Host.Newest(ctx, sharesOf(g.manifest.QuorumPublicKey))
	if err != nil {
		return nil, fmt.Errorf("loading the share set: %w", err)
	}
	if shares == nil {
		return nil, fault.WithCode(fault.FailedPrecondition, "SHARES_MISSING", "the store holds no shares of the secret that the manifest names")
	}
	raw, set, _, err := attestation.ParseAttestedShares(shares)
	if err != nil {
		return nil, fault.WithCode(fault.FailedPrecondition, "SHARES_MISSING", "the share set in the store does not decode: %v", err)
	}
	record, err := e.cfg.Host.Object(ctx, objectGenesis)
	if err != nil {
		return nil, fmt.Errorf("loading the genesis record: %w", err)
	}
	deployment := boot.Deployment(record)
	fits := set.Operators.Equal(g.manifest.Operators) || g.before != nil && set.Operators.Equal(g.before.Operators)
	if set.QuorumPublicKey != g.manifest.QuorumPublicKey || set.Deployment != hex.EncodeToString(deployment[:]) || !fits {
		return nil, fault.WithCode(fault.FailedPrecondition, "SHARES_OF_ANOTHER", "the share set in the store is of another deployment, secret or set of operators than the manifest")
	}
	if (g.manifest.SeedSource == attestation.SeedCloudKMS) != (set.KeyService != nil) {
		return nil, fault.WithCode(fault.FailedPrecondition, "SHARES_OF_ANOTHER", "the manifest names another source of the root secret than its share set")
	}
	return &shareSet{set: set, digest: attestation.ShareSetDigest(raw), shares: map[int]shamir.Part{}}, nil
}

// share takes one operator's share. With the last one needed it goes on to recovering. A
// refusal names what is wrong and whose share it is.
func (e *Enclave) share(ctx context.Context, body []byte) ([]byte, error) {
	in, err := attestation.ParseShareSubmission(body)
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "%v", err)
	}
	if err := e.waiting.takeShare(in, e.cfg.Clock.Now()); err != nil {
		return nil, err
	}
	return e.startIfComplete(ctx)
}

// takeShare verifies a submission and keeps its share.
func (w *bootWaiting) takeShare(in *attestation.ShareSubmission, now time.Time) error {
	if in.Operator < 1 || in.Operator > len(w.set.Shares) {
		return fault.Field("operator", "there are operators 1 to %d", len(w.set.Shares))
	}
	if in.ManifestSHA256 != hex.EncodeToString(w.id[:]) {
		return fault.WithCode(fault.FailedPrecondition, "SHARE_FOR_ANOTHER_MANIFEST", "operator %d: the share was given for another manifest", in.Operator)
	}
	if in.ShareSetDigest != hex.EncodeToString(w.digest[:]) {
		return fault.WithCode(fault.FailedPrecondition, "SHARE_OF_ANOTHER_SET", "operator %d: the share is of another share set", in.Operator)
	}
	// Before the nonce, so that nobody else uses up an operator's.
	if err := in.Check(w.set.Operators.PublicKeys[in.Operator-1]); err != nil {
		return fault.WithCode(fault.PermissionDenied, "SHARE_NOT_SIGNED", "operator %d: not signed by that operator: %v", in.Operator, err)
	}
	nonce, err := nonceOf(in.Nonce)
	if err != nil {
		return err
	}
	if !w.nonces.use(nonce, now) {
		return fault.WithCode(fault.FailedPrecondition, "SHARE_STALE", "operator %d: the setup document is too old, was used, or is of another enclave", in.Operator)
	}
	box, err := hex.DecodeString(in.Box)
	if err != nil {
		return fault.Field("box", "box is not hex")
	}
	opened, err := w.key.open(in.Info(), box)
	if err != nil {
		return fault.WithCode(fault.InvalidArgument, "SHARE_NOT_FOR_US", "operator %d: the share was not encrypted to this enclave", in.Operator)
	}
	held := false
	opened.Use(func(b []byte) { held = w.set.Holds(in.Operator, b) })
	if !held {
		opened.Wipe()
		return fault.WithCode(fault.InvalidArgument, "SHARE_WRONG", "operator %d: the share is not the one that was given out", in.Operator)
	}
	w.shares[in.Operator].Y.Wipe() // if it came before
	w.shares[in.Operator] = shamir.Part{X: byte(in.Operator), Y: opened}
	return nil
}

// recoverSecret brings back the root secret and wipes the shares. The set is the host's word, so
// the secret is believed only if it has the public key that the manifest names.
func (h *shareSet) recoverSecret() (q secret.Secret, err error) {
	defer func() {
		for _, p := range h.shares {
			p.Y.Wipe()
		}
		clear(h.shares)
	}()
	combined, err := shamir.Combine(slices.Collect(maps.Values(h.shares)))
	if err != nil {
		return q, err
	}
	defer combined.Wipe()
	if q, err = h.factor.Reveal(h.set, combined); err != nil {
		return q, err
	}
	public, err := boot.QuorumPublicKey(q)
	if err != nil || hex.EncodeToString(public) != h.set.QuorumPublicKey {
		q.Wipe()
		return secret.Secret{}, errors.Join(errors.New("the shares make another secret than the set says"), err)
	}
	return q, nil
}

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
	return e.startIfComplete(ctx)
}

// startIfComplete goes on to recovering once all that the root secret is made of is here.
func (e *Enclave) startIfComplete(ctx context.Context) ([]byte, error) {
	w := e.waiting
	if len(w.shares) < w.set.Operators.Threshold || w.set.KeyService != nil && w.factor == nil {
		return json.Marshal(map[string]any{"state": wire.StateSeed.String(), "shares": w.status()})
	}
	q, err := w.recoverSecret()
	defer q.Wipe()
	reply, err := e.startServing(ctx, wire.StateSeed, w.acceptedManifest, q, openWith(ctx, err))
	if w.factor != nil {
		w.factor.Key.Wipe()
	}
	return reply, err
}
