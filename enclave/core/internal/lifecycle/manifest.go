package lifecycle

import (
	"bytes"
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
	"cloister/attestation/commitment"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/settings"
	"cloister/enclave/internal/strictjson"
	"cloister/shared/wire"
)

// acceptedManifest is a manifest that was accepted, with what it was accepted for.
type acceptedManifest struct {
	manifest    *attestation.Manifest
	raw         []byte
	id          [32]byte // SHA-256 of raw
	approvals   []attestation.ManifestApproval
	predecessor []byte // the manifest before it, nil for a first one
	before      *attestation.Manifest
	settings    *settings.Settings
}

// envelope is the manifest with its approvals, in base64.
func (g *acceptedManifest) envelope() string {
	return base64.StdEncoding.EncodeToString(attestation.EncodeEnvelope(g.raw, g.approvals...))
}

// readManifest reads and verifies the body of the operation manifest.
func (e *Enclave) readManifest(body []byte) (*acceptedManifest, error) {
	var in struct {
		Manifest      string                         `json:"manifest" rule:"required"` // standard base64 of the exact bytes
		Configuration string                         `json:"configuration"`            // likewise; absent where the manifest names none
		Approvals     []attestation.ManifestApproval `json:"approvals" rule:"max=64"`  // of the operators
		Predecessor   string                         `json:"predecessor"`              // likewise; absent for a first manifest
	}
	if err := strictjson.Decode(body, &in); err != nil {
		return nil, err
	}
	g := new(acceptedManifest)
	var err error
	if g.raw, g.manifest, err = manifestOf("manifest", in.Manifest); err != nil {
		return nil, err
	}
	g.id, g.approvals = attestation.Hash(g.raw), attestation.SortApprovals(in.Approvals)
	if g.settings, err = e.configuration(g.manifest, in.Configuration); err != nil {
		return nil, err
	}
	if in.Predecessor == "" && g.manifest.Predecessor == "" {
		err = g.manifest.CheckOwnApprovals(g.id, g.approvals)
	} else {
		if g.predecessor, g.before, err = manifestOf("predecessor", in.Predecessor); err != nil {
			return nil, err
		}
		err = g.before.CheckSuccession(attestation.Hash(g.predecessor), g.manifest, g.id, g.approvals)
	}
	if err != nil {
		return nil, fault.WithCode(fault.PermissionDenied, "MANIFEST_NOT_APPROVED", "manifest refused: %v", err)
	}
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

// manifest takes the manifest. A simulator then recovers the keyring and serves; any other
// enclave waits for the root secret.
func (e *Enclave) manifest(ctx context.Context, body []byte) ([]byte, error) {
	g, err := e.readManifest(body)
	if err != nil {
		return nil, err
	}
	if e.cfg.Root == nil {
		return e.awaitRootSecret(ctx, g)
	}
	q, err := e.cfg.Root.Recover()
	defer q.Wipe()
	if err != nil {
		err = fmt.Errorf("root secret: %w", err)
	} else {
		err = e.checkManifestMatches(g.manifest)
	}
	return e.startServing(ctx, wire.StateHello, g, q, openWith(ctx, err))
}

// checkManifestMatches tells why a manifest is not for this enclave.
func (e *Enclave) checkManifestMatches(m *attestation.Manifest) error {
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

// configuration reads the configuration that a manifest names, from base64.
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

// bootWaiting is an enclave in state seed: it has its manifest and a setup key, to
// which whoever holds part of the root secret encrypts it.
type bootWaiting struct {
	*acceptedManifest
	*shareSet
	key    *Key
	nonces nonces // of setup documents
}

// refuseDebug refuses to go on in debug mode, in which the parent reads the console and
// PCR 0 is zero. Simulators have no such mode.
func (e *Enclave) refuseDebug() error {
	if e.cfg.Simulator {
		return nil
	}
	pcr, _, err := e.cfg.Device.DescribePCR(0)
	if err != nil {
		return fmt.Errorf("reading PCR 0: %w", err)
	}
	if len(bytes.Trim(pcr, "\x00")) == 0 {
		return errDebugImage
	}
	return nil
}

// awaitRootSecret goes from hello to seed: it makes the setup key and commits to it and to the
// manifest in PCR16, which cannot be undone.
func (e *Enclave) awaitRootSecret(ctx context.Context, g *acceptedManifest) ([]byte, error) {
	if err := e.refuseDebug(); err != nil {
		return nil, err
	}
	if err := e.checkManifestMatches(g.manifest); err != nil {
		return nil, fault.WithCode(fault.FailedPrecondition, "MANIFEST_OF_ANOTHER", "manifest refused: %v", err)
	}
	h, err := e.loadShareSet(ctx, g)
	if err != nil {
		return nil, err
	}
	key, err := newKey(e.cfg.Mixed)
	if err != nil {
		return nil, err
	}
	e.waiting = &bootWaiting{acceptedManifest: g, shareSet: h, key: key, nonces: nonces{}}
	if !e.state.CompareAndSwap(uint32(wire.StateHello), uint32(wire.StateSeed)) {
		return nil, errManifestGiven
	}
	if err := e.commitSetup(key.PublicHex, g.id); err != nil {
		e.Fence(fmt.Errorf("boot: %w", err)) // the register may be extended
		return nil, err
	}
	return json.Marshal(map[string]any{"manifestSha256": hex.EncodeToString(g.id[:]), "state": wire.StateSeed.String(), "setupKey": key.PublicHex, "shares": h.status()})
}

// commitSetup extends PCR16 and locks it: documents show only locked registers.
func (e *Enclave) commitSetup(keyHex string, manifest [32]byte) error {
	ext := commitment.Setup(keyHex, manifest)
	if _, err := e.cfg.Device.ExtendPCR(commitment.SetupPCR, ext[:]); err != nil {
		return fmt.Errorf("extending PCR %d: %w", commitment.SetupPCR, err)
	}
	if err := e.cfg.Device.LockPCRs(commitment.SetupPCR + 1); err != nil {
		return fmt.Errorf("locking PCRs: %w", err)
	}
	return nil
}

// setupDocument attests who this enclave is, with a nonce that the asker chose. What is sent
// in answer names the nonce, which is good for one use within setupLife.
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
	w := e.waiting
	if err := w.nonces.add(nonce, e.cfg.Clock.Now()); err != nil {
		return nil, err
	}
	doc, err := e.cfg.Device.Attest(w.key.Public, w.id[:], nonce[:])
	if err != nil {
		return nil, fmt.Errorf("attesting: %w", err)
	}
	return json.Marshal(attestation.SetupAnswer{Document: base64.StdEncoding.EncodeToString(doc), Envelope: w.envelope(),
		Predecessor: base64.StdEncoding.EncodeToString(w.predecessor)})
}

func nonceOf(text string) (n [attestation.SetupNonceSize]byte, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(n) || hex.EncodeToString(b) != text {
		return n, fault.Field("nonce", "nonce is not %d bytes of lower-case hex", len(n))
	}
	return [attestation.SetupNonceSize]byte(b), nil
}

// setupLife is how long the nonce of a setup document may be used, on the enclave's clock;
// maxSetupNonces is how many may be unused.
const (
	setupLife      = 10 * time.Minute
	maxSetupNonces = 256
)

// nonces are the unused ones of setup documents, and until when they may be used.
type nonces map[[attestation.SetupNonceSize]byte]time.Time

// add remembers a nonce, if too many do not wait already.
func (n nonces) add(nonce [attestation.SetupNonceSize]byte, now time.Time) error {
	maps.DeleteFunc(n, func(_ [attestation.SetupNonceSize]byte, until time.Time) bool { return !now.Before(until) })
	if _, known := n[nonce]; !known && len(n) >= maxSetupNonces {
		return fault.New(fault.ResourceExhausted, "too many setup documents wait for their use")
	}
	n[nonce] = now.Add(setupLife)
	return nil
}

// use uses a nonce up, and tells whether it was there in time.
func (n nonces) use(nonce [attestation.SetupNonceSize]byte, now time.Time) bool {
	until, known := n[nonce]
	delete(n, nonce)
	return known && now.Before(until)
}
