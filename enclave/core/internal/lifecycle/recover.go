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
	"strconv"
	"time"

	"cloister/attestation"
	"cloister/attestation/commitment"
	"cloister/attestation/tlog"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
	"cloister/shared/wire"
)

// A startup goes from a manifest to serving.
type startup struct {
	*Enclave
	accepted        *acceptedManifest
	serving         *Serving      // in the making
	root            secret.Secret // the root secret; empty after a hand-over, which brings the keyring itself
	ring            *boot.Keyring
	deploymentState *boot.DeploymentState // nil in a simulator
}

// startServing goes from a state to serving, or for good to fenced: the next try is another boot.
// open gives the recovery its keyring.
func (e *Enclave) startServing(ctx context.Context, from wire.State, g *acceptedManifest, root secret.Secret, open func(*startup) error) ([]byte, error) {
	if !e.state.CompareAndSwap(uint32(from), uint32(wire.StateRecovering)) {
		return nil, errManifestGiven
	}
	s := &Serving{Manifest: g.manifest, manifestID: g.id, seedSource: g.manifest.SeedSource}
	r := &startup{Enclave: e, accepted: g, serving: s, root: root}
	err := r.run(ctx, open)
	if err == nil {
		e.serving = s
		if !e.state.CompareAndSwap(uint32(wire.StateRecovering), uint32(wire.StateServing)) {
			err = ledger.ErrFenced // meanwhile
		}
	}
	if err != nil {
		e.Fence(fmt.Errorf("boot: %w", err))
		if s.Ranges != nil {
			s.Ranges.Close() // what it has taken so far
		}
		failed := fault.New(fault.FailedPrecondition, "boot failed: %v", err)
		if why := fault.Of(err); why != nil { // such as a log that this manifest does not fit
			failed.Name = why.Name
		}
		return nil, failed
	}
	out := map[string]any{"manifestSha256": hex.EncodeToString(s.manifestID[:]), "keys": s.Public, "bootNumber": s.Ranges.BootNumber(),
		"deployment": hex.EncodeToString(s.Deployment[:])}
	if s.nextQuorumKey != "" {
		out["nextQuorumPublicKey"] = s.nextQuorumKey
	}
	return json.Marshal(out)
}

// openWith opens the keyring with the root secret, if there was no error getting that.
func openWith(ctx context.Context, err error) func(*startup) error {
	return func(r *startup) error {
		if err != nil {
			return err
		}
		return r.openKeyring(ctx)
	}
}

// run makes what serves: keyring, ownership of the store, live key, attestation.
func (r *startup) run(ctx context.Context, open func(*startup) error) (err error) {
	if err := open(r); err != nil {
		return err
	}
	s, ring := r.serving, r.ring
	defer func() {
		if s.ring == nil {
			ring.Wipe()
		}
	}()
	if r.waiting != nil {
		if err := r.openDeploymentState(ctx); err != nil {
			return err
		}
		if err := r.rotateStorage(ctx); err != nil {
			return err
		}
	}
	if uint64(ring.Epoch) < s.Manifest.MinKeyringEpoch {
		r.cfg.Alarms.Raise(fault.AlarmKey)
		return errors.New("keyring older than the manifest allows")
	}
	storage, err := seal.NewKey(ring.Storage)
	if err != nil {
		return err
	}
	var before *seal.Key
	if ring.Before.Len() != 0 {
		if before, err = seal.NewKey(ring.Before); err != nil {
			return err
		}
	}
	// Derived from the blind-index key, which never rotates: enclaves of different epochs of
	// the keyring hand ranges to each other. The name is from before there were logs.
	hands, err := seal.Derive(ring.Blind, "tips of a range")
	if err != nil {
		return err
	}
	if s.Public, err = ring.Public(); err != nil {
		return err
	}
	if err := r.cfg.InstallServices(s, ring, r.accepted.settings); err != nil {
		return err
	}
	var id wire.ID
	if _, err := r.cfg.Mixed.Read(id[:]); err != nil {
		return err
	}
	if s.Live, err = newKey(r.cfg.Mixed); err != nil {
		return err
	}
	// The keyring is wiped, and ranges may be taken later.
	logs, err := ring.Log.Derive("", "logs of ranges", boot.SecretSize)
	if err != nil {
		return err
	}
	terms, err := witnessTerms(s.Manifest.Log)
	if err != nil {
		return err
	}
	var left *ledger.Terms
	if before := r.accepted.before; before != nil && !s.Manifest.Drill && !before.Log.Continues(s.Manifest.Log) {
		if left, err = witnessTerms(before.Log); err != nil {
			return err
		}
	}
	start := tlog.Start{Manifest: s.manifestID, ManifestNonce: s.Manifest.Nonce, LiveKey: sha256.Sum256(s.Live.Public), Mode: tlog.ModeNone, Seed: s.seedSource}
	if terms != nil {
		start.Policy, start.Mode = terms.Hash, terms.Mode
	}
	s.Ranges = ranges.New(ranges.Config{
		Ledger: ledger.Config{Deployment: s.Deployment, Boot: id, Storage: storage, PreviousStorage: before, Log: logs, Logged: s.logged || !r.adoptsLog(), Witnesses: terms, PreviousWitnesses: left, Drill: s.Manifest.Drill, Start: start,
			Store: r.cfg.Host, Clock: r.cfg.Clock, Rand: r.cfg.Rand,
			Alarms: r.cfg.Alarms, Limits: r.cfg.Limits, Processors: r.cfg.Processors},
		Count: s.ranges, Recover: recoveredLogs(s.Manifest), HandoverKey: hands, Host: r.cfg.Host, Rand: r.cfg.Mixed, Predecessor: s.predecessor, Setup: s.setupKey, OnTake: r.cfg.OnTake, Fence: r.Fence,
	})
	if err := s.Ranges.Start(ctx); err != nil {
		return fmt.Errorf("taking the store: %w", err)
	}
	if r.deploymentState != nil && !s.Manifest.Drill {
		if err := r.applyManifestChanges(ctx); err != nil {
			return err
		}
	}
	if err := r.attest(); err != nil {
		return err
	}
	if s.Manifest.Operators.Named() {
		s.ring = ring
	}
	return r.cfg.Host.PutOnce(ctx, BootProofObject(s.Live.PublicHex), s.proof.proof.Load().json)
}

// recoveredLogs are where a manifest says that ranges go on.
func recoveredLogs(m *attestation.Manifest) map[wire.Range]*ledger.Recovery {
	all := map[wire.Range]*ledger.Recovery{}
	for i := range m.Recover {
		r := &m.Recover[i]
		all[wire.Range(r.Range)] = &ledger.Recovery{Origin: r.Origin, Size: r.Size, Witnessed: r.Witnessed, Root: r.Root256(), Generation: r.Generation,
			Open: m.SigningAfterRecovery == attestation.SigningOpen}
	}
	return all
}

// witnessTerms are what a manifest says of the log, nil if it says nothing.
func witnessTerms(l *attestation.LogTerms) (*ledger.Terms, error) {
	if l == nil {
		return nil, nil
	}
	policy, err := tlog.ParsePolicy(l.Policy)
	if err != nil {
		return nil, err
	}
	mode, err := tlog.ParseMode(l.Mode)
	if err != nil {
		return nil, err
	}
	t := &ledger.Terms{Name: l.Name, Policy: policy, Text: l.Policy, Hash: l.Hash(), Generation: l.FirstGeneration(), Mode: mode, Serve: time.Duration(l.ServeMs) * time.Millisecond,
		Bound: time.Duration(l.BoundMs) * time.Millisecond}
	if mode == tlog.ModeStrict {
		t.Bound = t.Serve // without a quorum for so long nothing could be answered
	}
	return t, nil
}

// adoptsLog tells whether a range without a log may get one that begins with what the store
// holds: where the operators say so, and where there are none.
func (r *startup) adoptsLog() bool {
	m := r.serving.Manifest
	return m.AdoptLog || m.Kind == attestation.KindSimulator && !m.Operators.Named()
}

// openKeyring opens the newest keyring of the deployment that the root secret belongs to.
func (r *startup) openKeyring(ctx context.Context) error {
	s := r.serving
	quorum, err := boot.QuorumPublicKey(r.root)
	if err != nil {
		return err
	}
	if s.Manifest.QuorumPublicKey != hex.EncodeToString(quorum) {
		return errors.New("manifest of another deployment")
	}
	record, err := r.cfg.Host.Object(ctx, objectGenesis)
	if err != nil {
		return fmt.Errorf("loading the genesis record: %w", err)
	}
	if record == nil {
		return errors.New("the store holds no deployment")
	}
	g, err := boot.ParseGenesis(record)
	if err != nil || r.waiting == nil && !bytes.Equal(g.Quorum, quorum) {
		r.cfg.Alarms.Raise(fault.AlarmRecord)
		return errors.New("the store holds another deployment")
	}
	s.Deployment, s.ranges, s.logged = boot.Deployment(record), int(g.Ranges), g.Logged()
	s.keyrings = keyringsOf(hex.EncodeToString(quorum), hex.EncodeToString(g.Quorum))
	wrapped, err := r.cfg.Host.Newest(ctx, s.keyrings)
	if err != nil || wrapped == nil {
		return errors.Join(errors.New("loading the keyring"), err)
	}
	if r.ring, err = boot.Unwrap(r.root, s.Deployment, wrapped); err != nil {
		r.cfg.Alarms.Raise(fault.AlarmKey)
	}
	return err
}

// attest commits to live key and manifest, locks the registers and makes the boot proof.
// PCR16 commits to the setup key, in a simulator to the live key instead.
func (r *startup) attest() error {
	s := r.serving
	if r.waiting == nil {
		if err := r.commitSetup(s.Live.PublicHex, s.manifestID); err != nil {
			return err
		}
	}
	live := commitment.Live(s.Live.PublicHex, s.manifestID)
	if _, err := r.cfg.Device.ExtendPCR(commitment.LivePCR, live[:]); err != nil {
		return fmt.Errorf("extending PCR %d: %w", commitment.LivePCR, err)
	}
	if err := r.cfg.Device.LockPCRs(32); err != nil {
		return fmt.Errorf("locking PCRs: %w", err)
	}
	device, raw, envelope := r.cfg.Device, base64.StdEncoding.EncodeToString(r.accepted.raw), r.accepted.envelope()
	s.proof.make = func(now time.Time) ([]byte, error) {
		doc, err := device.Attest(s.Live.Public, s.manifestID[:], nil)
		if err != nil {
			return nil, fmt.Errorf("attesting: %w", err)
		}
		if s.RootPEM == "" { // the root never changes
			if s.RootPEM, s.RootSHA256, err = attestation.DocumentRoot(doc); err != nil {
				return nil, err
			}
		}
		return json.Marshal(attestation.BootProof{
			EphemeralPublicKeyHex: s.Live.PublicHex, AWSAttestationDocB64: base64.StdEncoding.EncodeToString(doc),
			QOSManifestB64: raw, QOSManifestEnvelopeB64: envelope,
			DeploymentLabel: s.Manifest.DeploymentLabel, EnclaveApp: s.Manifest.Application, Owner: s.Manifest.Owner,
			CreatedAt: attestation.Timestamp{Seconds: strconv.FormatInt(now.Unix(), 10), Nanos: strconv.Itoa(now.Nanosecond())},
		})
	}
	return s.proof.first(r.cfg.Clock.Now())
}
