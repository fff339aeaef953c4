package lifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"cloister/attestation"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/settings"
	"cloister/enclave/internal/strictjson"
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

// readManifest takes the body of the operation manifest. Nothing has happened
// where it refuses.
func (e *Enclave) readManifest(body []byte) (*given, error) {
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
	if g.set, err = e.configuration(g.manifest, in.Configuration); err != nil {
		return nil, err
	}
	if in.Predecessor == "" && g.manifest.Predecessor == "" {
		if err := g.manifest.CheckOwnApprovals(g.id, g.approvals); err != nil {
			return nil, fault.WithCode(fault.PermissionDenied, "MANIFEST_NOT_APPROVED", "manifest refused: %v", err)
		}
		return g, nil
	}
	before, m, err := manifestOf("predecessor", in.Predecessor)
	if err != nil {
		return nil, err
	}
	if err := m.CheckSuccession(attestation.Hash(before), g.manifest, g.id, g.approvals); err != nil {
		return nil, fault.WithCode(fault.PermissionDenied, "MANIFEST_NOT_APPROVED", "manifest refused: %v", err)
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

// manifest takes the manifest. Where the root secret lies at hand it recovers the
// keyring and begins to serve; elsewhere it begins to wait for the secret.
func (e *Enclave) manifest(ctx context.Context, body []byte) ([]byte, error) {
	g, err := e.readManifest(body)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.State() != stateHello {
		return nil, errManifestGiven
	}
	if e.cfg.Root == nil {
		return e.await(ctx, g)
	}
	q, err := e.cfg.Root.Recover()
	defer q.Wipe()
	if err != nil {
		err = fmt.Errorf("root secret: %w", err)
	} else {
		err = e.fits(g.manifest)
	}
	return e.begin(ctx, stateHello, g, q, e.unwrapWith(ctx, q, err))
}

// fits holds a manifest against this enclave.
func (e *Enclave) fits(m *attestation.Manifest) error {
	kind := attestation.KindNitro
	if e.cfg.Simulator {
		kind = attestation.KindSimulator
	}
	switch {
	case m.Kind != kind:
		return errors.New("manifest of another kind of enclave")
	case m.ApplicationDigest != e.cfg.ApplicationDigest:
		return errors.New("manifest of another program")
	case e.cfg.Root != nil && m.SeedSource != e.cfg.Root.Source(), e.cfg.Root == nil && m.SeedSource != attestation.SeedOperatorShares && m.SeedSource != attestation.SeedCloudKMS:
		return errors.New("manifest names another source of the root secret")
	case e.cfg.Root != nil && (m.RotateRootSecret || m.RotateStorageKey || m.ForgetStorageKey):
		return errors.New("manifest rotates keys of a root secret that lies at hand")
	}
	for i, want := range []string{m.PCRs.PCR0, m.PCRs.PCR1, m.PCRs.PCR2} {
		got, _, err := e.cfg.Device.DescribePCR(i)
		if err != nil {
			return fmt.Errorf("reading PCR %d: %w", i, err)
		}
		if hex.EncodeToString(got) != want {
			return fmt.Errorf("manifest names another PCR %d", i)
		}
	}
	return nil
}

// configuration reads the configuration that a manifest names, from the base64 of
// its bytes. The errors are *fault.Error.
func (e *Enclave) configuration(m *attestation.Manifest, text string) (*settings.Settings, error) {
	if len(text) > base64.StdEncoding.EncodedLen(settings.Max) {
		return nil, fault.Field("configuration", "configuration is longer than %d bytes", settings.Max)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fault.Field("configuration", "configuration is not base64")
	}
	defer clear(raw)
	named := ""
	if len(raw) > 0 {
		sum := sha256.Sum256(raw)
		named = hex.EncodeToString(sum[:])
	}
	if named != m.ConfigurationSHA256 {
		return nil, fault.Field("configuration", "configuration is not the one whose hash the manifest holds")
	}
	return settings.Parse(raw, e.cfg.Simulator)
}

// waiting is an enclave in state seed: it has its manifest and a setup key, to
// which whoever holds part of the root secret encrypts it.
type waiting struct {
	*given
	key     *Key
	holders *holders
	nonces  nonces // of setup documents
}

// refuseDebug refuses to go on with an image whose console its parent reads. The
// simulator has no such mode.
func (e *Enclave) refuseDebug() error {
	if e.cfg.Simulator {
		return nil
	}
	pcr, _, err := e.cfg.Device.DescribePCR(0)
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
func (e *Enclave) await(ctx context.Context, g *given) ([]byte, error) {
	if err := e.refuseDebug(); err != nil {
		return nil, err
	}
	if err := e.fits(g.manifest); err != nil {
		return nil, fault.WithCode(fault.FailedPrecondition, "MANIFEST_OF_ANOTHER", "manifest refused: %v", err)
	}
	h, err := e.holdersOf(ctx, g)
	if err != nil {
		return nil, err
	}
	key, err := newKey(e.cfg.Mixed)
	if err != nil {
		return nil, err
	}
	e.waiting = &waiting{given: g, key: key, holders: h}
	if !e.state.CompareAndSwap(uint32(stateHello), uint32(stateSeed)) {
		return nil, errManifestGiven
	}
	if err := e.commitSetup(key.PublicHex, g.id); err != nil {
		e.Fence(fmt.Errorf("boot: %w", err)) // a register may be extended: no way back
		return nil, err
	}
	return json.Marshal(map[string]any{"manifestSha256": hex.EncodeToString(g.id[:]), "state": stateSeed.String(), "setupKey": key.PublicHex, "shares": h.status()})
}

// commitSetup locks PCR16 behind the commitment: only locked registers stand in
// documents.
func (e *Enclave) commitSetup(keyHex string, manifest [32]byte) error {
	ext := attestation.SetupExtension(keyHex, manifest)
	if _, err := e.cfg.Device.ExtendPCR(attestation.SetupPCR, ext[:]); err != nil {
		return fmt.Errorf("extending PCR %d: %w", attestation.SetupPCR, err)
	}
	if err := e.cfg.Device.LockPCRs(attestation.SetupPCR + 1); err != nil {
		return fmt.Errorf("locking PCRs: %w", err)
	}
	return nil
}

// setupDocument answers who this enclave is, to somebody who chose the nonce. The
// nonce is remembered: what comes in answer to it is taken once, and soon.
func (e *Enclave) setupDocument(_ context.Context, body []byte) ([]byte, error) {
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
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.waiting
	if e.State() != stateSeed {
		return nil, errNotWaiting
	}
	if err := w.nonces.add(nonce, e.cfg.Clock.Now()); err != nil {
		return nil, err
	}
	doc, err := e.cfg.Device.Attest(w.key.Public, w.id[:], nonce[:])
	if err != nil {
		return nil, fmt.Errorf("attesting: %w", err)
	}
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

// A setup document is for one use within setupLife on the enclave's clock; at
// most maxSetupNonces wait for theirs.
const (
	setupLife      = 10 * time.Minute
	maxSetupNonces = 256
)

// nonces are those of setup documents that were not used yet, and until when they may be.
type nonces map[[attestation.SetupNonceSize]byte]time.Time

// add remembers a nonce, if too many do not wait already.
func (n *nonces) add(nonce [attestation.SetupNonceSize]byte, now time.Time) error {
	if *n == nil {
		*n = nonces{}
	}
	maps.DeleteFunc(*n, func(_ [attestation.SetupNonceSize]byte, until time.Time) bool { return !now.Before(until) })
	if _, known := (*n)[nonce]; !known && len(*n) >= maxSetupNonces {
		return fault.New(fault.ResourceExhausted, "too many setup documents wait for their use")
	}
	(*n)[nonce] = now.Add(setupLife)
	return nil
}

// use tells whether a nonce was added and may still be used. It can be used once: it
// is forgotten here.
func (n nonces) use(nonce [attestation.SetupNonceSize]byte, now time.Time) bool {
	until, known := n[nonce]
	delete(n, nonce)
	return known && now.Before(until)
}
