package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"cloister/attestation"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/p256"
)

// A Key is one of the boot's own keys: made at boot, attested, never stored.
// The live key signs app proofs and replies; the setup key receives the root secret.
type Key struct {
	open      boot.Opener
	sign      *p256.Signer
	Public    []byte // 130 bytes, encryption ‖ signing key, uncompressed
	PublicHex string
}

// newKey draws both private keys from rand, which the library's generators would not take.
func newKey(rand io.Reader) (*Key, error) {
	k := new(Key)
	var point [p256.PointSize]byte
	encrypt, err := boot.NewScalar(rand)
	if err == nil {
		defer encrypt.Wipe()
		k.open, k.Public, err = boot.NewOpener(encrypt)
	}
	sign, serr := boot.NewScalar(rand)
	if serr == nil {
		defer sign.Wipe()
		k.sign, point, serr = p256.NewSigner(sign)
	}
	if err = errors.Join(err, serr); err != nil {
		return nil, fmt.Errorf("making a boot key: %w", err)
	}
	k.Public = append(k.Public, point[:]...)
	k.PublicHex = hex.EncodeToString(k.Public)
	return k, nil
}

// Prove signs a claim as an app proof. The signature's nonce is that of RFC 6979, which is a
// fifth cheaper than the library's hedged one. A fault in the arithmetic could then give the
// key away; the hardware is trusted not to make one, and the key dies with the boot.
func (k *Key) Prove(at time.Time, c attestation.Claim) (org.Proof, error) {
	payload, err := attestation.EncodePayload(at, c)
	if err != nil {
		return org.Proof{}, fmt.Errorf("encoding a proof: %w", err)
	}
	sig, err := k.Sign(payload)
	if err != nil {
		return org.Proof{}, err
	}
	return org.Proof{Key: k.Public, Payload: payload, Signature: sig}, nil
}

// Sign signs a proof's payload or the text of a reply: r ‖ s with low s over SHA-256. Only
// the payload is JSON, so neither passes for the other.
func (k *Key) Sign(text []byte) ([]byte, error) {
	sig, err := k.sign.Sign(sha256.Sum256(text))
	if err != nil {
		return nil, fmt.Errorf("signing with the live key: %w", err)
	}
	return sig[:], nil
}

const (
	// renewAfter is the age from which an attestation document is replaced when it is asked
	// for. The module's certificates last about three hours; hosts take one of that age for
	// a failure.
	renewAfter = time.Hour
	// renewPause is how long the next attempt waits after one that failed.
	renewPause = time.Minute
)

// A bootProof is the JSON of an attestation.BootProof.
type bootProof struct {
	json []byte
	at   time.Time // on the enclave's clock
}

// proofRenewer renews the boot proof of this boot. Live key, manifest and registers stay the
// same, and older proofs stay valid. If the module fails, the last proof stays.
type proofRenewer struct {
	make func(now time.Time) ([]byte, error)

	proof   atomic.Pointer[bootProof]
	mu      sync.Mutex // held while one is made; nobody waits for it
	lastTry time.Time  // when that was tried last
}

// first makes the proof that the boot begins with.
func (b *proofRenewer) first(now time.Time) error {
	text, err := b.make(now)
	if err == nil {
		b.proof.Store(&bootProof{text, now})
	}
	return err
}

// current is the proof as it stands.
func (b *proofRenewer) current(now time.Time) *bootProof {
	p := b.proof.Load()
	if now.Sub(p.at) < renewAfter || !b.mu.TryLock() {
		return p
	}
	defer b.mu.Unlock()
	if p = b.proof.Load(); now.Sub(p.at) < renewAfter || !b.lastTry.IsZero() && now.Sub(b.lastTry) < renewPause {
		return p
	}
	b.lastTry = now
	if b.first(now) != nil {
		return p // the age that status tells shows it
	}
	return b.proof.Load()
}

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
	proof      proofRenewer
	ranges     int  // of the deployment's ranges
	logged     bool // it was made with logs
	// ring is for the next enclave, nil if no operators can approve one.
	ring          *boot.Keyring
	keyrings      string // where the deployment's keyrings lie in the store
	seedSource    string // how this boot came by the keyring
	predecessor   string // live key, in hex, of the enclave that handed it over; empty: none did
	setupKey      string // setup key, in hex, that it was handed to
	nextQuorumKey string // quorum public key, in hex, of the root secret that the manifest had made
}

// ForReplay is a Serving without a deployment, whose live key nobody vouches for: for who decides again what an
// enclave has decided.
func ForReplay(rand io.Reader) (*Serving, error) {
	live, err := newKey(rand)
	return &Serving{Ranges: new(ranges.Ranges), Live: live, seedSource: "none",
		Manifest: &attestation.Manifest{Freshness: attestation.Freshness{Mode: attestation.FreshSinceBoot}}}, err
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
	objectGenesis         = "genesis"
	objectKeyring         = "keyring/"   // with the epoch behind it
	objectProof           = "bootproof/" // with the SHA-256 of the live key behind it
	objectShares          = "shares/"    // with the start of the SHA-256 of the quorum key, and the generation, behind it
	objectDeploymentState = "law/"       // with the number behind it
	objectHandOver        = "handover/"  // with the SHA-256 of the next manifest and the nonce behind it: to whom the keyring was given
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

// digits are a number in a name: of fixed length, so that names sort as numbers do.
func digits(n uint64) string { return fmt.Sprintf("%010d", n) }
