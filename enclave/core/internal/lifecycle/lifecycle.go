// Package lifecycle is how an enclave comes to serve, and how it ends: genesis, manifest,
// the root secret out of shares or a key service, rotation, hand-over to the enclave that
// comes after it.
//
// It is a state machine with no way back. It promises that an enclave serves only under a
// manifest that its operators approved and that its registers commit to, with the keyring
// of the deployment that the manifest names, and that a secret is given to nobody but an
// enclave that has proven the same. It lives before the four moments of a call: until it
// says that the enclave serves there is nothing to read from.
package lifecycle

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"cloister/enclave/core/internal/link"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/kms"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/settings"
	"cloister/shared/wire"
)

// Device is the security module.
type Device interface {
	// Attest returns an attestation document, an untagged COSE_Sign1.
	Attest(publicKey, userData, nonce []byte) ([]byte, error)
	ExtendPCR(index int, data []byte) ([]byte, error)
	DescribePCR(index int) (value []byte, locked bool, err error)
	LockPCRs(upTo int) error
	Random(p []byte) error
	Now() time.Time
}

// RootSecret is where the deployment's root secret Q comes from at boot.
type RootSecret interface {
	// Source names the way, as the manifest and every proof name it.
	Source() string
	// Recover returns Q, which the caller wipes, or ErrNoRootSecret.
	Recover() (secret.Secret, error)
	// Keep takes a new deployment's Q into safekeeping.
	Keep(q secret.Secret) error
}

// ErrNoRootSecret says that there is no deployment yet.
var ErrNoRootSecret = errors.New("no root secret yet")

// Config is what an enclave is started with, as far as its way to serving is concerned.
type Config struct {
	Device Device
	Clock  ledger.Clock
	// Rand is the kernel's randomness; Mixed has the module's mixed in, for secrets that
	// live long.
	Rand, Mixed io.Reader
	// Root is where the root secret lies, for a simulator. Nil: nowhere; it is made in
	// shares at genesis and brought in at every boot, to the attested setup key.
	Root              RootSecret
	Simulator         bool
	ApplicationDigest string
	Limits            ledger.Limits
	Alarms            *fault.Alarms
	Host              *link.Host
	// Equip takes from the keyring what calls are answered with, before any range is
	// taken. The keyring is wiped or kept behind it.
	Equip func(s *Serving, ring *boot.Keyring, set *settings.Settings) error
	// Taken is called when a range was taken; see ranges.Config.
	Taken func()
	// Fence is called once this enclave may serve no longer.
	Fence func(reason error)
}

const (
	stateHello      = wire.StateHello
	stateSeed       = wire.StateSeed
	stateRecovering = wire.StateRecovering
	stateServing    = wire.StateServing
	stateFenced     = wire.StateFenced
)

// Enclave is one enclave on its way through its states. There is no way back.
type Enclave struct {
	cfg   Config
	state atomic.Uint32

	mu          sync.Mutex     // one step at a time
	waiting     *waiting       // in state seed
	recipient   *kms.Recipient // of the key service's answers, once asked for
	handingOver handingOver

	serving *Serving // set before state becomes serving
}

// New makes an enclave that waits for its manifest.
func New(cfg Config) *Enclave { return &Enclave{cfg: cfg} }

// State is how far it has come.
func (e *Enclave) State() wire.State { return wire.State(e.state.Load()) }

// End ends service and answers what served, nil if nothing did.
func (e *Enclave) End() *Serving {
	if wire.State(e.state.Swap(uint32(stateFenced))) != stateServing {
		return nil
	}
	return e.serving
}

// Fence ends service at once, for a reason.
func (e *Enclave) Fence(reason error) {
	if wire.State(e.state.Swap(uint32(stateFenced))) != stateFenced && e.cfg.Fence != nil {
		e.cfg.Fence(reason)
	}
}

// now is the enclave's time in milliseconds since the epoch.
func (e *Enclave) now() uint64 { return uint64(e.cfg.Clock.Now().UnixMilli()) }

// ErrNotServing refuses who comes too early.
var ErrNotServing = fault.New(fault.Unavailable, "the enclave is not serving yet")

var (
	errManifestGiven = fault.New(fault.FailedPrecondition, "a manifest was given before")
	errNotWaiting    = fault.WithCode(fault.FailedPrecondition, "BOOT_NOT_WAITING", "the enclave is not waiting for its root secret")
	errDebugImage    = fault.WithCode(fault.FailedPrecondition, "BOOT_DEBUG_IMAGE", "a debug image takes no secret and makes no deployment")
)

// Operations are the boot operations that lead from state to state and what belongs to
// them, by their names in wire.BootOperations.
var Operations = map[string]func(*Enclave, context.Context, []byte) ([]byte, error){
	wire.OpGenesis:           (*Enclave).genesis,
	wire.OpShares:            (*Enclave).storedShares,
	wire.OpManifest:          (*Enclave).manifest,
	wire.OpKeyServiceRequest: bare((*Enclave).keyServiceRequest),
	wire.OpSetupDocument:     (*Enclave).setupDocument,
	wire.OpKeyService:        (*Enclave).keyService,
	wire.OpShare:             (*Enclave).share,
	wire.OpTakeOver:          (*Enclave).takeOver,
	wire.OpHandOverNonce:     bare((*Enclave).handOverNonce),
	wire.OpHandOver:          (*Enclave).handOver,
	wire.OpFarewell:          func(e *Enclave, ctx context.Context, _ []byte) ([]byte, error) { return e.farewell(ctx) },
}

// bare is an operation that wants nothing of a call.
func bare(f func(*Enclave) ([]byte, error)) func(*Enclave, context.Context, []byte) ([]byte, error) {
	return func(e *Enclave, _ context.Context, _ []byte) ([]byte, error) { return f(e) }
}

// Allows refuses an operation that is none of a state's. What ends a state looks again,
// with mu held.
func Allows(op *wire.BootOperation, s wire.State) error {
	switch {
	case op.In(s):
		return nil
	case op.In(stateServing):
		return ErrNotServing
	case op.In(stateSeed):
		return errNotWaiting
	}
	return errManifestGiven
}

// Status is the boot operation status, with the counters that it tells.
func (e *Enclave) Status(counters map[string]uint64) ([]byte, error) {
	s := e.State()
	out := map[string]any{"state": s.String(), "applicationDigest": e.cfg.ApplicationDigest, "counters": counters}
	if s == stateSeed && e.mu.TryLock() { // a boot step may take a while
		out["shares"], out["manifestSha256"] = e.waiting.holders.status(), hex.EncodeToString(e.waiting.id[:])
		e.mu.Unlock()
	}
	if s == stateServing {
		now := e.cfg.Clock.Now()
		out["attestationAgeMs"] = now.Sub(e.serving.proof.current(now).at).Milliseconds()
		out["bootNumber"] = e.serving.Ranges.BootNumber()
		out["deployment"] = hex.EncodeToString(e.serving.Deployment[:])
		if e.serving.next != "" {
			out["nextQuorumPublicKey"] = e.serving.next
		}
	}
	return json.Marshal(out)
}
