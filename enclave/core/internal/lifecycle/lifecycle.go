// Package lifecycle is how an enclave comes to serve, and how it ends: genesis, manifest, root
// secret, rotation, hand-over to the enclave that comes after it.
//
// It is a state machine with no way back. An enclave serves only under a manifest that its
// operators approved and that its registers commit to, with the keyring of the deployment
// that the manifest names. It gives a secret only to an enclave that has proven the same.
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
	"cloister/enclave/internal/fairqueue"
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

// Config is what an enclave needs on its way to serving.
type Config struct {
	Device Device
	Clock  ledger.Clock
	// Rand is the kernel's randomness; Mixed has the module's mixed in, for secrets that
	// live long.
	Rand, Mixed io.Reader
	// Root is nil outside of simulators: the root secret is then made in shares at genesis
	// and brought to the attested setup key at every boot.
	Root              RootSecret
	Simulator         bool
	ApplicationDigest string
	Limits            ledger.Limits
	Processors        *fairqueue.Queue // see ledger.Config
	Alarms            *fault.Alarms
	Host              *link.Host
	// InstallServices takes from the keyring what calls are answered with, before any range is
	// taken. It copies: the keyring may be wiped afterwards.
	InstallServices func(s *Serving, ring *boot.Keyring, set *settings.Settings) error
	// OnTake is called when a range was taken; see ranges.Config.
	OnTake func()
	// Fence is called once this enclave may serve no longer.
	Fence func(reason error)
}

// Enclave is one enclave on its way through its states.
type Enclave struct {
	cfg   Config
	state atomic.Uint32

	mu        sync.Mutex     // held by an operation
	waiting   *bootWaiting   // in state seed
	recipient *kms.Recipient // of the key service's answers, once asked for
	handover  handover

	serving *Serving // set before state becomes serving
}

// New makes an enclave that waits for its manifest.
func New(cfg Config) *Enclave {
	return &Enclave{cfg: cfg, handover: handover{nonces: nonces{}}}
}

// State is how far it has come.
func (e *Enclave) State() wire.State { return wire.State(e.state.Load()) }

// End ends service and returns what served, nil if nothing did.
func (e *Enclave) End() *Serving {
	if wire.State(e.state.Swap(uint32(wire.StateFenced))) != wire.StateServing {
		return nil
	}
	return e.serving
}

// Fence ends service at once, for a reason.
func (e *Enclave) Fence(reason error) {
	if wire.State(e.state.Swap(uint32(wire.StateFenced))) != wire.StateFenced && e.cfg.Fence != nil {
		e.cfg.Fence(reason)
	}
}

// now is the enclave's time in milliseconds since the epoch.
func (e *Enclave) now() uint64 { return uint64(e.cfg.Clock.Now().UnixMilli()) }

// ErrNotServing refuses calls that come too early.
var ErrNotServing = fault.New(fault.Unavailable, "the enclave is not serving yet")

var (
	errManifestGiven = fault.New(fault.FailedPrecondition, "a manifest was given before")
	errNotWaiting    = fault.WithCode(fault.FailedPrecondition, "BOOT_NOT_WAITING", "the enclave is not waiting for its root secret")
	errDebugImage    = fault.WithCode(fault.FailedPrecondition, "BOOT_DEBUG_IMAGE", "a debug image takes no secret and makes no deployment")
)

// Operations are those of wire.BootOperations that lead from state to state, by their names.
var Operations = map[string]func(*Enclave, context.Context, []byte) ([]byte, error){
	wire.OpGenesis:           (*Enclave).genesis,
	wire.OpShares:            (*Enclave).storedShares,
	wire.OpManifest:          (*Enclave).manifest,
	wire.OpKeyServiceRequest: (*Enclave).keyServiceRequest,
	wire.OpSetupDocument:     (*Enclave).setupDocument,
	wire.OpKeyService:        (*Enclave).keyService,
	wire.OpShare:             (*Enclave).share,
	wire.OpTakeOver:          (*Enclave).takeOver,
	wire.OpHandOverNonce:     (*Enclave).handOverNonce,
	wire.OpHandOver:          (*Enclave).handOver,
	wire.OpFarewell:          (*Enclave).retire,
}

// Operate runs one of Operations. Those that belong to a state run one at a time.
func (e *Enclave) Operate(ctx context.Context, op *wire.BootOperation, body []byte) ([]byte, error) {
	if op.States != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if err := Allows(op, e.State()); err != nil { // the one before may have ended the state
			return nil, err
		}
	}
	return Operations[op.Name](e, ctx, body)
}

// Allows refuses an operation that does not work in a state.
func Allows(op *wire.BootOperation, s wire.State) error {
	switch {
	case op.In(s):
		return nil
	case op.In(wire.StateServing):
		return ErrNotServing
	case op.In(wire.StateSeed):
		return errNotWaiting
	}
	return errManifestGiven
}

// Status is the boot operation status, with the counters that it tells.
func (e *Enclave) Status(counters map[string]uint64) ([]byte, error) {
	s := e.State()
	out := map[string]any{"state": s.String(), "applicationDigest": e.cfg.ApplicationDigest, "counters": counters}
	if s == wire.StateSeed && e.mu.TryLock() { // a boot operation may take a while
		out["shares"], out["manifestSha256"] = e.waiting.status(), hex.EncodeToString(e.waiting.id[:])
		e.mu.Unlock()
	}
	if s == wire.StateServing {
		now := e.cfg.Clock.Now()
		out["attestationAgeMs"] = now.Sub(e.serving.proof.current(now).at).Milliseconds()
		out["bootNumber"] = e.serving.Ranges.BootNumber()
		out["deployment"] = hex.EncodeToString(e.serving.Deployment[:])
		out["logs"] = e.serving.Ranges.Logs()
		if e.serving.Manifest.Drill {
			out["drill"] = true
		}
		if e.serving.nextQuorumKey != "" {
			out["nextQuorumPublicKey"] = e.serving.nextQuorumKey
		}
	}
	return json.Marshal(out)
}
