package lifecycle

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"cloister/attestation"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
	"cloister/shared/wire"
)

// begin goes from a state to serving, or for good to fenced: the next try is another boot.
// The root secret is empty after a hand-over, which brings the keyring itself.
func (e *Enclave) begin(ctx context.Context, from wire.State, g *given, q secret.Secret, ring func(*Serving) (*boot.Keyring, error)) ([]byte, error) {
	if !e.state.CompareAndSwap(uint32(from), uint32(wire.StateRecovering)) {
		return nil, errManifestGiven
	}
	s, err := e.recover(ctx, g, q, ring)
	if err != nil {
		e.Fence(fmt.Errorf("boot: %w", err))
		return nil, fault.New(fault.FailedPrecondition, "boot failed: %v", err)
	}
	e.serving = s
	e.state.Store(uint32(wire.StateServing))
	out := map[string]any{"manifestSha256": hex.EncodeToString(s.manifestID[:]), "keys": s.Public, "bootNumber": s.Ranges.BootNumber(),
		"deployment": hex.EncodeToString(s.Deployment[:])}
	if s.next != "" {
		out["nextQuorumPublicKey"] = s.next
	}
	return json.Marshal(out)
}

// unwrapWith opens the keyring with the root secret, if there was no error getting that.
func (e *Enclave) unwrapWith(ctx context.Context, q secret.Secret, err error) func(*Serving) (*boot.Keyring, error) {
	return func(s *Serving) (*boot.Keyring, error) {
		if err != nil {
			return nil, err
		}
		return e.keyring(ctx, q, s)
	}
}

// recover makes what serves: keyring, ownership of the store, live key, attestation.
func (e *Enclave) recover(ctx context.Context, g *given, q secret.Secret, open func(*Serving) (*boot.Keyring, error)) (*Serving, error) {
	m := g.manifest
	s := &Serving{Manifest: m, manifestID: g.id, seedSource: m.SeedSource}
	ring, err := open(s)
	if err != nil {
		return nil, err
	}
	defer func() {
		if s.ring == nil {
			ring.Wipe()
		}
	}()
	var law *boot.Law
	if e.waiting != nil {
		if law, err = e.law(ctx, ring, s, g); err != nil {
			return nil, err
		}
		if err := e.rotateStorage(ctx, q, ring, law, s, g); err != nil {
			return nil, err
		}
	}
	if uint64(ring.Epoch) < m.MinKeyringEpoch {
		e.cfg.Alarms.Raise(fault.AlarmKey)
		return nil, errors.New("keyring older than the manifest allows")
	}
	storage, err := seal.NewKey(ring.Storage)
	if err != nil {
		return nil, err
	}
	var before *seal.Key
	if ring.Before.Len() != 0 {
		if before, err = seal.NewKey(ring.Before); err != nil {
			return nil, err
		}
	}
	// Derived from the blind-index key, which never rotates: enclaves of different epochs of
	// the keyring hand ranges to each other.
	hands, err := seal.Derive(ring.Blind, "tips of a range")
	if err != nil {
		return nil, err
	}
	if s.Public, err = ring.Public(); err != nil {
		return nil, err
	}
	if err := e.cfg.Equip(s, ring, g.settings); err != nil {
		return nil, err
	}
	var id wire.ID
	if _, err := e.cfg.Mixed.Read(id[:]); err != nil {
		return nil, err
	}
	s.Ranges = ranges.New(ranges.Config{
		Ledger: ledger.Config{Deployment: s.Deployment, Boot: id, Storage: storage, Before: before, Store: e.cfg.Host, Clock: e.cfg.Clock, Rand: e.cfg.Rand,
			Alarms: e.cfg.Alarms, Limits: e.cfg.Limits},
		Count: s.count, Hands: hands, Host: e.cfg.Host, Rand: e.cfg.Mixed, Predecessor: s.predecessor, Setup: s.setup, Taken: e.cfg.Taken, Fence: e.Fence,
	})
	if err := s.Ranges.Start(ctx); err != nil {
		return nil, fmt.Errorf("taking the store: %w", err)
	}
	if law != nil {
		if err := e.succeed(ctx, q, ring, law, s, g); err != nil {
			return nil, err
		}
	}
	if s.Live, err = newKey(e.cfg.Mixed); err != nil {
		return nil, err
	}
	if err := e.attest(s, g); err != nil {
		return nil, err
	}
	if m.Operators.Named() {
		s.ring = ring
	}
	if err := e.cfg.Host.PutOnce(ctx, BootProofObject(s.Live.PublicHex), s.proof.kept.Load().json); err != nil {
		return nil, err
	}
	return s, nil
}

// keyring opens the newest keyring of the deployment that the root secret belongs to.
func (e *Enclave) keyring(ctx context.Context, q secret.Secret, s *Serving) (*boot.Keyring, error) {
	quorum, err := boot.QuorumPublicKey(q)
	if err != nil {
		return nil, err
	}
	if s.Manifest.QuorumPublicKey != hex.EncodeToString(quorum) {
		return nil, errors.New("manifest of another deployment")
	}
	record, err := e.cfg.Host.Object(ctx, objectGenesis)
	if err != nil {
		return nil, fmt.Errorf("loading the genesis record: %w", err)
	}
	if record == nil {
		return nil, errors.New("the store holds no deployment")
	}
	g, err := boot.ParseGenesis(record)
	if err != nil || e.waiting == nil && !bytes.Equal(g.Quorum, quorum) {
		e.cfg.Alarms.Raise(fault.AlarmRecord)
		return nil, errors.New("the store holds another deployment")
	}
	s.Deployment, s.count = boot.Deployment(record), int(g.Ranges)
	s.keyrings = keyringsOf(hex.EncodeToString(quorum), hex.EncodeToString(g.Quorum))
	wrapped, err := e.cfg.Host.Newest(ctx, s.keyrings)
	if err != nil || wrapped == nil {
		return nil, errors.Join(errors.New("loading the keyring"), err)
	}
	ring, err := boot.Unwrap(q, s.Deployment, wrapped)
	if err != nil {
		e.cfg.Alarms.Raise(fault.AlarmKey)
		return nil, err
	}
	return ring, nil
}

// attest commits to live key and manifest, locks the registers and makes the boot proof.
// PCR16 commits to the setup key, in a simulator to the live key instead.
func (e *Enclave) attest(s *Serving, g *given) error {
	if e.waiting == nil {
		if err := e.commitSetup(s.Live.PublicHex, s.manifestID); err != nil {
			return err
		}
	}
	live := attestation.LiveExtension(s.Live.PublicHex, s.manifestID)
	if _, err := e.cfg.Device.ExtendPCR(attestation.LivePCR, live[:]); err != nil {
		return fmt.Errorf("extending PCR %d: %w", attestation.LivePCR, err)
	}
	if err := e.cfg.Device.LockPCRs(32); err != nil {
		return fmt.Errorf("locking PCRs: %w", err)
	}
	raw, envelope := base64.StdEncoding.EncodeToString(g.raw), g.envelope()
	s.proof.make = func(now time.Time) ([]byte, error) {
		doc, err := e.cfg.Device.Attest(s.Live.Public, s.manifestID[:], nil)
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
	return s.proof.first(e.cfg.Clock.Now())
}
