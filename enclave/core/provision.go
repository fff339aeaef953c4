package core

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"cloister/attestation"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/settings"
	"cloister/enclave/internal/strictjson"
)

// A setup document is for one use within setupLife on the enclave's clock; at
// most maxSetupNonces wait for theirs.
const (
	setupLife      = 10 * time.Minute
	maxSetupNonces = 256
)

// given is a manifest that was accepted, with what it was accepted for.
type given struct {
	manifest    *attestation.Manifest
	raw         []byte
	id          [32]byte // SHA-256 of raw
	approvals   []attestation.ManifestApproval
	predecessor []byte // the manifest before it, nil for a first one
	before      *attestation.Manifest
	set         *settings.Settings
}

func (g *given) envelope() []byte { return attestation.EncodeEnvelope(g.raw, g.approvals...) }

// waiting is an enclave in state seed: it has its manifest and a setup key, to
// which whoever holds part of the root secret encrypts it.
type waiting struct {
	*given
	key     *bootKey
	holders *holders
	nonces  map[[attestation.SetupNonceSize]byte]time.Time // of setup documents not used yet, and until when
}

var (
	errNotWaiting = fault.Named(fault.FailedPrecondition, "BOOT_NOT_WAITING", "the enclave is not waiting for its root secret")
	errDebugImage = fault.Named(fault.FailedPrecondition, "BOOT_DEBUG_IMAGE", "a debug image takes no secret and makes no deployment")
)

// readManifest takes the body of the operation manifest. Nothing has happened
// where it refuses.
func (c *Core) readManifest(body []byte) (*given, error) {
	var in struct {
		Manifest      string                         `json:"manifest" rule:"required"` // standard base64 of the exact bytes
		Configuration string                         `json:"configuration"`            // likewise; absent where the manifest names none
		Approvals     []attestation.ManifestApproval `json:"approvals" rule:"max=64"`  // of the operators
		Predecessor   string                         `json:"predecessor"`              // likewise; absent for a first manifest
	}
	if err := strictjson.Decode(body, &in); err != nil {
		return nil, err
	}
	g := new(given)
	var err error
	if g.raw, g.manifest, err = manifestOf("manifest", in.Manifest); err != nil {
		return nil, err
	}
	g.id, g.approvals = attestation.Hash(g.raw), attestation.SortApprovals(in.Approvals)
	if g.set, err = c.configuration(g.manifest, in.Configuration); err != nil {
		return nil, err
	}
	if in.Predecessor == "" && g.manifest.Predecessor == "" {
		if err := g.manifest.CheckOwnApprovals(g.id, g.approvals); err != nil {
			return nil, fault.Named(fault.PermissionDenied, "MANIFEST_NOT_APPROVED", "manifest refused: %v", err)
		}
		return g, nil
	}
	before, m, err := manifestOf("predecessor", in.Predecessor)
	if err != nil {
		return nil, err
	}
	if err := m.CheckSuccession(attestation.Hash(before), g.manifest, g.id, g.approvals); err != nil {
		return nil, fault.Named(fault.PermissionDenied, "MANIFEST_NOT_APPROVED", "manifest refused: %v", err)
	}
	g.predecessor, g.before = before, m
	return g, nil
}

func manifestOf(field, text string) ([]byte, *attestation.Manifest, error) {
	if len(text) > base64.StdEncoding.EncodedLen(attestation.MaxManifest) {
		return nil, nil, fault.Field(field, "%s is too long", field)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, nil, fault.Field(field, "%s is not base64", field)
	}
	m, err := attestation.ParseManifest(raw)
	if err != nil {
		return nil, nil, fault.Field(field, "%s refused: %v", field, err)
	}
	return raw, m, nil
}

// refuseDebug refuses to go on with an image whose console its parent reads. The
// simulator has no such mode.
func (c *Core) refuseDebug() error {
	if c.cfg.Simulator {
		return nil
	}
	pcr, _, err := c.cfg.Device.DescribePCR(0)
	if err != nil {
		return fmt.Errorf("reading PCR 0: %w", err)
	}
	for _, b := range pcr {
		if b != 0 {
			return nil
		}
	}
	return errDebugImage
}

// await goes from hello to seed: it makes the setup key and commits to it and to
// the manifest in PCR16, for good.
func (c *Core) await(ctx context.Context, g *given) ([]byte, error) {
	if err := c.refuseDebug(); err != nil {
		return nil, err
	}
	if err := c.fits(g.manifest); err != nil {
		return nil, fault.Named(fault.FailedPrecondition, "MANIFEST_OF_ANOTHER", "manifest refused: %v", err)
	}
	h, err := c.holdersOf(ctx, g)
	if err != nil {
		return nil, err
	}
	key, err := newBootKey(mixed{c})
	if err != nil {
		return nil, err
	}
	c.wait = &waiting{given: g, key: key, holders: h, nonces: map[[attestation.SetupNonceSize]byte]time.Time{}}
	if !c.state.CompareAndSwap(uint32(stateHello), uint32(stateSeed)) {
		return nil, errManifestGiven
	}
	if err := c.commitSetup(key.publicHex, g.id); err != nil {
		c.fence(fmt.Errorf("boot: %w", err)) // a register may be extended: no way back
		return nil, err
	}
	return json.Marshal(map[string]any{"manifestSha256": hex.EncodeToString(g.id[:]), "state": stateSeed.String(), "setupKey": key.publicHex, "shares": h.status()})
}

// commitSetup locks PCR16 behind the commitment: only locked registers stand in
// documents.
func (c *Core) commitSetup(keyHex string, manifest [32]byte) error {
	ext := attestation.SetupExtension(keyHex, manifest)
	if _, err := c.cfg.Device.ExtendPCR(attestation.SetupPCR, ext[:]); err != nil {
		return fmt.Errorf("extending PCR %d: %w", attestation.SetupPCR, err)
	}
	if err := c.cfg.Device.LockPCRs(attestation.SetupPCR + 1); err != nil {
		return fmt.Errorf("locking PCRs: %w", err)
	}
	return nil
}

// setupDocument answers who this enclave is, to somebody who chose the nonce. The
// nonce is remembered: what comes in answer to it is taken once, and soon.
func (c *Core) setupDocument(_ context.Context, body []byte) ([]byte, error) {
	var in struct {
		Nonce string `json:"nonce" rule:"required"` // 32 bytes, lower-case hex
	}
	if err := strictjson.Decode(body, &in); err != nil {
		return nil, err
	}
	nonce, err := nonceOf(in.Nonce)
	if err != nil {
		return nil, err
	}
	c.bootMu.Lock()
	defer c.bootMu.Unlock()
	w := c.wait
	if state(c.state.Load()) != stateSeed {
		return nil, errNotWaiting
	}
	now := c.cfg.Clock.Now()
	for n, until := range w.nonces {
		if !now.Before(until) {
			delete(w.nonces, n)
		}
	}
	if _, known := w.nonces[nonce]; !known && len(w.nonces) >= maxSetupNonces {
		return nil, fault.New(fault.ResourceExhausted, "too many setup documents wait for their use")
	}
	doc, err := c.cfg.Device.Attest(w.key.public, w.id[:], nonce[:])
	if err != nil {
		return nil, fmt.Errorf("attesting: %w", err)
	}
	w.nonces[nonce] = now.Add(setupLife)
	a := attestation.SetupAnswer{Document: base64.StdEncoding.EncodeToString(doc), Envelope: base64.StdEncoding.EncodeToString(w.envelope())}
	if w.predecessor != nil {
		a.Predecessor = base64.StdEncoding.EncodeToString(w.predecessor)
	}
	return json.Marshal(a)
}

func nonceOf(text string) (n [attestation.SetupNonceSize]byte, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(n) || hex.EncodeToString(b) != text {
		return n, fault.Field("nonce", "nonce is not %d bytes of lower-case hex", len(n))
	}
	return [attestation.SetupNonceSize]byte(b), nil
}

// answered tells whether the nonce is that of a setup document that may still be
// used. It can be used once: it is forgotten here.
func (w *waiting) answered(nonce [attestation.SetupNonceSize]byte, now time.Time) bool {
	until, known := w.nonces[nonce]
	delete(w.nonces, nonce)
	return known && now.Before(until)
}

var errManifestGiven = fault.New(fault.FailedPrecondition, "a manifest was given before")
