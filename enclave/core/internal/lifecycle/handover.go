package lifecycle

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cloister/attestation"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
	"cloister/shared/wire"
)

// How an enclave hands over to the next one, without anybody bringing the root secret:
//  1. the next one takes its manifest, which names this one's as its predecessor and which this one's
//     operators approved, and waits (manifest);
//  2. this one draws a nonce (hand_over_nonce), the next one makes a setup document for it
//     (setup_document), this one verifies document and manifest, stores for everybody whom it gives to, and
//     gives the keyring to the attested setup key (hand_over);
//  3. the next one verifies that the giver is an enclave under its predecessor manifest, takes the keyring
//     and serves, without a range (take_over);
//  4. ranges are moved one by one with the heads of their logs (give, take);
//  5. this one stores a notice that it owns nothing and never will, and ends (farewell).
//
// Between 3 and 5 both have the keyring. Until the retirement notice the next one takes only ranges that are
// handed to it with the heads of their logs: a host that shows the two different stores gets neither to serve
// what the other serves.
//
// An enclave hands over to exactly one successor. It stores that one's setup key first, and never gives keyring
// or retirement notice to another. And an enclave that was handed over to hands over only once its own
// predecessor has retired, so that its notice is true of all before it. If the successor is lost before the
// notice, operators start another by shares.
//
// Callers are not authenticated: what operators have not approved gets nothing.

// retireAfter is how long an enclave still answers after its retirement notice, so that every host learns that
// another one has its ranges.
const retireAfter = 3 * time.Second

// handover is the giving side.
type handover struct {
	nonces nonces // drawn for setup documents
	to     string // the one setup key that gets the keyring and the retirement notice; empty: none yet
}

var (
	errNoSuccessor = fault.WithCode(fault.FailedPrecondition, "HAND_OVER_WITHOUT_OPERATORS", "the manifest names no operators, so nobody could approve the one that comes after it")
	errHandedOver  = fault.WithCode(fault.FailedPrecondition, "HAND_OVER_TO_ANOTHER", "the keyring was given to another enclave, and is given once: without that one the next is started by shares")
	errNotReleased = fault.WithCode(fault.FailedPrecondition, "HAND_OVER_TOO_EARLY", "the enclave before this one has not said farewell: this one has nothing to hand over yet")
	errStaleNonce  = fault.WithCode(fault.FailedPrecondition, "HAND_OVER_STALE", "the nonce is too old, was used, or is not of this enclave")
)

func refusedHandOver(err error) error {
	return fault.WithCode(fault.PermissionDenied, "HAND_OVER_REFUSED", "hand-over refused: %v", err)
}

// handOverNonce draws a nonce for one setup document.
func (e *Enclave) handOverNonce(context.Context, []byte) ([]byte, error) {
	if !e.serving.Manifest.Operators.Named() {
		return nil, errNoSuccessor
	}
	var nonce [attestation.SetupNonceSize]byte
	if _, err := e.cfg.Mixed.Read(nonce[:]); err != nil {
		return nil, err
	}
	if err := e.handover.nonces.add(nonce, e.cfg.Clock.Now()); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"nonce": hex.EncodeToString(nonce[:])})
}

// handOver gives the keyring to the next enclave.
func (e *Enclave) handOver(ctx context.Context, body []byte) ([]byte, error) {
	var in struct {
		Nonce string                  `json:"nonce" rule:"required"`
		Setup attestation.SetupAnswer `json:"setup" rule:"required"` // what the next enclave answered to setup_document with that nonce
	}
	if err := strictjson.Decode(body, &in); err != nil {
		return nil, err
	}
	nonce, err := nonceOf(in.Nonce)
	if err != nil {
		return nil, err
	}
	s := e.serving
	if !e.handover.nonces.use(nonce, e.cfg.Clock.Now()) {
		return nil, errStaleNonce
	}
	next, err := e.verifySuccessor(in.Setup, nonce)
	if err != nil {
		return nil, refusedHandOver(err)
	}
	if e.handover.to != "" && e.handover.to != next.PublicKeyHex {
		return nil, errHandedOver
	}
	if alone, err := s.Ranges.PredecessorRetired(ctx); err != nil {
		return nil, err
	} else if !alone {
		return nil, errNotReleased
	}
	if err := e.storeRecipient(ctx, next, in.Setup); err != nil {
		return nil, err
	}
	if err := s.Ranges.Publish(ctx, next.ManifestHash); err != nil {
		return nil, err
	}
	e.handover.to = next.PublicKeyHex
	s.Ranges.MarkSucceeded(nextLogs(s.Manifest, next.Manifest))
	box, err := s.ring.EncryptFor(next.PublicKeyHex, attestation.HandOverInfo(s.Deployment, next.ManifestHash, nonce))
	if err != nil {
		return nil, err
	}
	h := attestation.HandOver{Nonce: in.Nonce, Deployment: hex.EncodeToString(s.Deployment[:]), Box: base64.StdEncoding.EncodeToString(box)}
	if err := strictjson.Decode(s.proof.current(e.cfg.Clock.Now()).json, &h.BootProof); err != nil {
		return nil, err
	}
	text, err := h.Text(next.PublicKeyHex, next.ManifestHash)
	if err != nil {
		return nil, err
	}
	sig, err := s.Live.Sign(text)
	if err != nil {
		return nil, err
	}
	h.Signature = hex.EncodeToString(sig)
	return json.Marshal(&h)
}

// nextLogs returns the name of the logs that a manifest begins after the one before it, empty if it continues the
// same ones.
func nextLogs(before, next *attestation.Manifest) string {
	if before.Log.Continues(next.Log) {
		return ""
	}
	return next.Log.Name
}

// peerPolicy is the policy to verify another enclave of the deployment by. The module's root is
// the pinned one, in a simulator its own module's.
func (e *Enclave) peerPolicy(manifest [32]byte, operators attestation.Operators) (attestation.Policy, error) {
	p := attestation.Policy{AllowedManifestSHA256: []string{hex.EncodeToString(manifest[:])}, Operators: operators}
	if !e.cfg.Simulator {
		return p, nil
	}
	doc, err := e.cfg.Device.Attest(nil, nil, nil)
	if err != nil {
		return p, fmt.Errorf("attesting: %w", err)
	}
	p.SimulatorRootPEM, _, err = attestation.DocumentRoot(doc)
	return p, err
}

// verifySuccessor verifies that a waiting enclave may take over from this one. The manifest pins the image, and
// the operators approve the manifest.
func (e *Enclave) verifySuccessor(a attestation.SetupAnswer, nonce [attestation.SetupNonceSize]byte) (*attestation.Setup, error) {
	envelope, err := base64.StdEncoding.Strict().DecodeString(a.Envelope)
	if err != nil || len(envelope) > attestation.MaxEnvelope {
		return nil, errors.New("envelope is not base64 or too long")
	}
	manifest, _, err := attestation.ParseEnvelope(envelope)
	if err != nil {
		return nil, err
	}
	own := e.serving.Manifest
	p, err := e.peerPolicy(attestation.Hash(manifest), own.Operators)
	if err != nil {
		return nil, err
	}
	next, err := attestation.VerifySetup(a, nonce, p)
	if err != nil {
		return nil, err
	}
	if next.Manifest.Drill {
		return nil, errors.New("a drill is of a copy, which is started by shares")
	}
	if err := own.Log.CheckNext(next.Manifest.Log); err != nil {
		return nil, err
	}
	switch {
	case next.Manifest.Predecessor != hex.EncodeToString(e.serving.manifestID[:]):
		return nil, errors.New("not the manifest that comes after this enclave's")
	case next.Manifest.QuorumPublicKey != own.QuorumPublicKey:
		return nil, errors.New("manifest of another root secret")
	case len(next.Manifest.Recover) > 0:
		return nil, errors.New("a log is recovered when an enclave is started by shares")
	case next.Manifest.RotateStorageKey || next.Manifest.ForgetStorageKey:
		return nil, errors.New("storage keys change when an enclave is started by shares")
	case !next.Manifest.Operators.Equal(own.Operators):
		return nil, errors.New("other operators: they change when an enclave is started by shares")
	case next.Manifest.MinKeyringEpoch > uint64(e.serving.ring.Epoch):
		return nil, errors.New("manifest asks for a newer keyring than there is")
	}
	return next, e.sameRole(next.Document)
}

// sameRole wants the other enclave's parent to have the role of this one's. Otherwise anybody
// could run an approved image in an account of his own.
func (e *Enclave) sameRole(doc *attestation.Document) error {
	role, _, err := e.cfg.Device.DescribePCR(3)
	if err != nil {
		return fmt.Errorf("reading PCR 3: %w", err)
	}
	if theirs, ok := doc.PCRs[3]; !ok || hex.EncodeToString(theirs[:]) != hex.EncodeToString(role) {
		return errors.New("the parent instance has another role (PCR 3)")
	}
	return nil
}

// storeRecipient stores which setup key the keyring is about to be given to, for whoever reads the store. A
// host that deletes it cannot delete it from earlier copies.
func (e *Enclave) storeRecipient(ctx context.Context, next *attestation.Setup, a attestation.SetupAnswer) error {
	b, err := json.Marshal(map[string]any{"timeMs": e.now(), "setup": a, "by": e.serving.Live.PublicHex})
	if err != nil {
		return err
	}
	return e.cfg.Host.PutOnce(ctx, fmt.Sprintf("%s%x/%x", objectHandOver, next.ManifestHash, next.Nonce), b)
}

// takeOver takes the keyring from the enclave before this one and serves, without a range.
func (e *Enclave) takeOver(ctx context.Context, body []byte) ([]byte, error) {
	h, err := attestation.ParseHandOver(body)
	if err != nil {
		return nil, fault.New(fault.InvalidArgument, "%v", err)
	}
	nonce, err := nonceOf(h.Nonce)
	if err != nil {
		return nil, err
	}
	w := e.waiting
	giver, err := e.verifyGiver(w, h)
	if err != nil {
		return nil, refusedHandOver(err)
	}
	deployment, box, err := h.Verify(giver, w.key.PublicHex, w.id)
	if err != nil {
		return nil, refusedHandOver(err)
	}
	// After the signature, so that nobody else uses up a nonce.
	if !w.nonces.use(nonce, e.cfg.Clock.Now()) {
		return nil, errStaleNonce
	}
	ring, err := boot.TakeOver(w.key.open, attestation.HandOverInfo(deployment, w.id, nonce), box)
	if err != nil {
		return nil, refusedHandOver(err)
	}
	return e.startServing(ctx, wire.StateSeed, w.acceptedManifest, secret.Secret{}, func(r *startup) error {
		s := r.serving
		s.predecessor, s.setupKey, s.seedSource = giver.PublicKeyHex, w.key.PublicHex, attestation.SeedHandover
		r.ring = ring
		return r.readDeployment(ctx, deployment)
	})
}

// verifyGiver verifies the boot proof of an enclave under the manifest before this one's.
func (e *Enclave) verifyGiver(w *bootWaiting, h *attestation.HandOver) (*attestation.Boot, error) {
	if w.before == nil {
		return nil, errors.New("a first manifest has nobody before it")
	}
	p, err := e.peerPolicy(attestation.Hash(w.predecessor), attestation.Operators{})
	if err != nil {
		return nil, err
	}
	giver, err := attestation.VerifyBootProof(h.BootProof, p)
	if err != nil {
		return nil, err
	}
	return giver, e.sameRole(giver.Document)
}

// readDeployment reads the genesis record of the deployment that was handed over.
func (r *startup) readDeployment(ctx context.Context, deployment [32]byte) error {
	record, err := r.cfg.Host.Object(ctx, objectGenesis)
	if err != nil {
		return fmt.Errorf("loading the genesis record: %w", err)
	}
	if boot.Deployment(record) != deployment {
		r.cfg.Alarms.Raise(fault.AlarmRecord)
		return errors.New("the store holds another deployment")
	}
	g, err := boot.ParseGenesis(record)
	if err != nil {
		return err
	}
	r.serving.Deployment, r.serving.ranges, r.serving.logged = deployment, int(g.Ranges), g.Logged()
	return nil
}

// retire ends this enclave for good, once it owns nothing: it stores its retirement notice for the enclave that
// got the keyring, and is fenced.
func (e *Enclave) retire(ctx context.Context, _ []byte) ([]byte, error) {
	if e.handover.to == "" {
		return nil, fault.WithCode(fault.FailedPrecondition, "FAREWELL_TO_NOBODY", "nobody comes after this enclave")
	}
	if err := e.serving.Ranges.RetireFor(ctx, e.handover.to, e.serving.Live.PublicHex); err != nil {
		return nil, err
	}
	go func() {
		<-e.cfg.Clock.After(retireAfter)
		e.Fence(errors.New("handed over"))
	}()
	return json.Marshal(map[string]string{"state": wire.StateFenced.String()})
}
