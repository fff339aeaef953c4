package lifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"cloister/attestation"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/boot"
	"cloister/shared/wire"
)

// Serving is what an enclave has once it serves. It does not change but for the ranges.
type Serving struct {
	Ranges     *ranges.Ranges
	Manifest   *attestation.Manifest
	Deployment [32]byte
	Public     boot.PublicKeys
	// Live is the key that signs proofs and replies.
	Live *Key
	// RootPEM and RootSHA256 are of the module, as it says itself.
	RootPEM, RootSHA256 string

	manifestID [32]byte
	proof      bootProofOf
	count      int // of the deployment's ranges
	// ring is for the enclave that comes after this one; nil where nobody could
	// approve one.
	ring        *boot.Keyring
	keyrings    string // where the deployment's keyrings lie in the store
	seedSource  string // how this boot came by it
	predecessor string // live key of the enclave that handed it over, in hex; empty: none did
	setup       string // setup key to which it did, in hex
	next        string // quorum public key, in hex, of the root secret that the manifest had made
}

// BootProof is the boot proof as it stands, as JSON.
func (s *Serving) BootProof(now time.Time) []byte { return s.proof.current(now).json }

// BootProofObject is where the store keeps the boot proof of a live key.
func BootProofObject(liveKeyHex string) string { return objectProof + hashHex([]byte(liveKeyHex)) }

// Freshness is what a claim says of the state behind it: how often the range was
// taken that it lies in.
func (s *Serving) Freshness(bootNumber uint64) *attestation.ClaimFreshness {
	return &attestation.ClaimFreshness{Mode: s.Manifest.Freshness.Mode, BootNumber: strconv.FormatUint(bootNumber, 10), SeedSource: s.seedSource}
}

// Names of the deployment's objects in the store.
const (
	objectGenesis  = "genesis"
	objectKeyring  = "keyring/"   // with the epoch behind it
	objectProof    = "bootproof/" // with the SHA-256 of the live key behind it
	objectShares   = "shares/"    // with the start of the SHA-256 of the quorum key, and the generation, behind it
	objectLaw      = "law/"       // with the number behind it
	objectHandOver = "handover/"  // with the SHA-256 of the next manifest and the nonce behind it: to whom the keyring was given
)

// sharesOf is where the share sets of a root secret lie.
func sharesOf(quorumHex string) string {
	sum := sha256.Sum256([]byte(quorumHex))
	return objectShares + hex.EncodeToString(sum[:8]) + "/"
}

func (e *Enclave) putOnce(ctx context.Context, name string, b []byte) error {
	if err := e.cfg.Host.PutObject(ctx, wire.PutObject{Name: name, Bytes: b, Once: true}); err != nil {
		return fmt.Errorf("storing %s: %w", name, err)
	}
	return nil
}

// keyringsOf is where the keyrings under a root secret lie: those under the first
// one where they always were, those under a later one by its public key.
func keyringsOf(quorumHex, genesisHex string) string {
	if quorumHex == genesisHex {
		return objectKeyring
	}
	sum := sha256.Sum256([]byte(quorumHex))
	return "keyring-" + hex.EncodeToString(sum[:8]) + "/"
}

func keyringName(epoch uint32) string { return objectKeyring + fmt.Sprintf("%010d", epoch) }

func hashHex(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func generation(n uint64) string { return fmt.Sprintf("%010d", n) }
