package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"cloister/attestation"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/boot"
)

// Serving is what an enclave has once it serves. Only the ranges and the proof change.
type Serving struct {
	Ranges     *ranges.Ranges
	Manifest   *attestation.Manifest
	Deployment [32]byte
	Public     boot.PublicKeys
	// Live is the key that signs proofs and replies.
	Live *Key
	// RootPEM and RootSHA256 are of the module's root certificate, as its documents have it.
	RootPEM, RootSHA256 string

	manifestID [32]byte
	proof      bootProofOf
	count      int // of the deployment's ranges
	// ring is for the enclave that comes after this one. Without operators, who could approve
	// that one, it is nil.
	ring        *boot.Keyring
	keyrings    string // where the deployment's keyrings lie in the store
	seedSource  string // how this boot came by the keyring
	predecessor string // live key, in hex, of the enclave that handed it over; empty: none did
	setup       string // setup key, in hex, that it was handed to
	next        string // quorum public key, in hex, of the root secret that the manifest had made
}

// BootProof is the boot proof as it stands, as JSON.
func (s *Serving) BootProof(now time.Time) []byte { return s.proof.current(now).json }

// BootProofObject is where the store keeps the boot proof of a live key.
func BootProofObject(liveKeyHex string) string { return objectProof + hashHex(liveKeyHex) }

// Freshness is what a claim says of the state behind it; bootNumber counts how often the
// organization's range was taken.
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
func sharesOf(quorumHex string) string { return objectShares + hashHex(quorumHex)[:16] + "/" }

// keyringsOf is where the keyrings under a root secret lie. Those under the deployment's
// first one have a name without a key.
func keyringsOf(quorumHex, genesisHex string) string {
	if quorumHex == genesisHex {
		return objectKeyring
	}
	return "keyring-" + hashHex(quorumHex)[:16] + "/"
}

// hashHex is the SHA-256 of a text, in hex.
func hashHex(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// padded is a number in a name: of fixed length, so that names sort as numbers do.
func padded(n uint64) string { return fmt.Sprintf("%010d", n) }
