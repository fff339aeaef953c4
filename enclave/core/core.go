// Package core handles every call from the host: it authenticates the caller, decides while it holds the
// organization's lock, has the decision stored, and replies.
//
// All external dependencies (device, clock, randomness, root secret, connections, exit) are in Config; the
// simulator and the Nitro build differ in nothing else.
//
// Start at submit.go: it, attempt.go, vote.go and run.go decide, query.go answers queries, call.go dispatches.
// What comes before and after a decision is in packages of its own under internal.
package core

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"cloister/enclave/core/internal/lifecycle"
	"cloister/enclave/core/internal/link"
	"cloister/enclave/core/internal/responses"
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/fairqueue"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/stamp"
)

// RootSecret stores the deployment's root secret in a simulator.
type RootSecret = lifecycle.RootSecret

// Secret is private bytes: see secret.Secret.
type Secret = secret.Secret

// SecretFrom takes over and wipes the bytes that a RootSecret has read.
func SecretFrom(b []byte) (Secret, error) { return secret.From(b) }

// ErrNoRootSecret is the error of a store without a root secret: there is no deployment yet.
var ErrNoRootSecret = lifecycle.ErrNoRootSecret

// Clock is the enclave's time: the module's timestamp run forward.
type Clock = ledger.Clock

// Config is the configuration of an enclave.
type Config struct {
	Device lifecycle.Device // the security module
	Clock  Clock
	// Rand is the kernel's randomness mixed with the module's.
	Rand io.Reader
	// Elapsed is a monotonic clock, by which the processor time of transactions is measured; nil: Clock is one.
	Elapsed func() time.Duration
	// Yield lets another thread of this process run; see fairqueue.Config.
	Yield func()
	// Root is for simulators; see lifecycle.Config.
	Root RootSecret
	// Simulator must be true exactly when Device is no real one.
	Simulator bool
	// ApplicationDigest is the SHA-256 of this program, in hex.
	ApplicationDigest string
	// Limits bound memory; zero fields have the ledger's defaults.
	Limits Limits
	// Quotas are limits of an organization's objects.
	Quotas Quotas
	// Rates are limits of requests and of resources.
	Rates Rates
	// WebhookLoopback lets organizations name receivers of webhooks on the loopback
	// interface, also without TLS. Only simulators set it.
	WebhookLoopback bool
	// Fence is called when this enclave has lost the right to serve. The process must end.
	Fence func(reason error)
	// Fault is called with errors that users see as internal, without their content.
	Fault func(reference string, err error)
}

// Limits bound an enclave's memory; see ledger.Limits.
type Limits = ledger.Limits

// Quotas bound what an organization and its users have; see org.Limits.
type Quotas = org.Limits

// Core is one enclave.
type Core struct {
	cfg            Config
	alarms         fault.Alarms
	host           *link.Host
	life           *lifecycle.Enclave
	stamps         *stamp.Verifier
	keys           *keys.Cache[activity.KeyID]
	metering       atomic.Pointer[meter]
	processorQueue *fairqueue.Queue
	replies        *tenant.Portion[org.ID] // of replyBytes
	responses      *responses.Times        // how long requests for activities took
	proofWaits     *tenant.Portion[org.ID] // of maxProofWaits
	callSlots      *tenant.Portion[customer]
	callsRefused   atomic.Uint64 // calls without a slot

	// perform runs a granted activity. Only a replay sets a function other than activity.Version.Run.
	perform func(*activity.Version, *activity.Tx, *activity.Intent) (result []byte, err error)
	// recorded, in a replay, returns the plans that the activity was decided under, as far as its records contain them.
	recorded func() *billing.Plans
	// omitParentFingerprint, in a replay, means that the parent has no record of a body which names it: an older release decided it.
	omitParentFingerprint bool
	// recordedVotes, in a replay, reports whether the activity's record has a vote of this user. Which earlier votes counted is taken
	// from there, as is what voters and proofs name as shown: another release shows it otherwise.
	recordedVotes func(user org.ID) bool
	// namePolicies, in a replay, means that a refusal names policies whoever may read them: an older release decided it.
	namePolicies bool
	// keepReasons, in a replay, means that a sub-organization's entry has reasons of its parent's policies: an older release decided it.
	keepReasons bool
	// omitExpressions, in a replay, means that a refusal by policies has no expressions: an older release decided it.
	omitExpressions bool

	serving       *serving      // set before the enclave serves
	refs          atomic.Uint64 // number of errors that users see as internal
	callsUnderWay atomic.Int32  // calls under way
	calls         atomic.Uint64 // begun and ended, except queries of the enclave's state
	active        chan struct{} // holds one token after a call
	idle          atomic.Uint64 // times garbage was collected after a series of calls
}

// keyCacheKeys and keyCacheBytes bound the cache of derived keys.
const (
	keyCacheKeys  = 16384
	keyCacheBytes = 16 << 20
)

// SpareBytes is the garbage that may accumulate; main passes it to collector.Spare.
const SpareBytes = 20 << 20

// New makes an enclave that waits for its manifest.
func New(cfg Config) *Core {
	if cfg.Root != nil && !cfg.Simulator {
		panic("core: a root secret at rest outside of a simulator") // a programming error
	}
	cfg.Quotas = cfg.Quotas.WithDefaults()
	if !cfg.Simulator {
		cfg.Rates = cfg.Rates.WithUsual()
	}
	if cfg.Elapsed == nil {
		began := cfg.Clock.Now()
		cfg.Elapsed = func() time.Duration { return cfg.Clock.Now().Sub(began) }
	}
	c := &Core{cfg: cfg, processorQueue: fairqueue.New(fairqueue.Config{Slots: runtime.GOMAXPROCS(0), Elapsed: cfg.Elapsed, Yield: cfg.Yield}), stamps: stamp.NewVerifier(), keys: keys.NewCache[activity.KeyID](keyCacheKeys, keyCacheBytes),
		replies: tenant.NewPortion[org.ID](replyBytes), responses: responses.New(), proofWaits: tenant.NewPortion[org.ID](maxProofWaits), callSlots: tenant.NewPortion[customer](maxCallSlots), active: make(chan struct{}, 1), perform: (*activity.Version).Run}
	c.metering.Store(newMeter(cfg.Rates))
	c.host = link.New(link.Config{Clock: cfg.Clock, Rand: cfg.Rand, Alarms: &c.alarms, Call: c.answerFrame})
	c.life = lifecycle.New(lifecycle.Config{Device: cfg.Device, Clock: cfg.Clock, Rand: cfg.Rand, Mixed: mixed{c}, Root: cfg.Root, Simulator: cfg.Simulator,
		ApplicationDigest: cfg.ApplicationDigest, Limits: cfg.Limits, Processors: c.processorQueue, Alarms: &c.alarms, Host: c.host, InstallServices: c.installServices,
		OnTake: func() { c.serving.outbox.Forget(); c.serving.plans.forget() }, Fence: cfg.Fence})
	return c
}

// Serve answers connections from l until ctx ends. The peer is always the host.
func (c *Core) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	go c.collectWhenIdle(ctx)
	for {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accepting: %w", err)
		}
		go c.host.Admit(nc)
	}
}

// Stop ends service in order: decisions are stored, and the ranges are released.
func (c *Core) Stop(ctx context.Context) error {
	if s := c.life.End(); s != nil {
		return s.Ranges.Release(ctx)
	}
	return nil
}

// Close ends service at once, like a crash of the process.
func (c *Core) Close() {
	if s := c.life.End(); s != nil {
		s.Ranges.Close()
	}
	c.host.Close()
}

// now is the enclave's time in milliseconds since the epoch.
func (c *Core) now() uint64 { return uint64(c.cfg.Clock.Now().UnixMilli()) }

// mixed is randomness for long-lived secrets: the kernel's xor the module's, so that
// neither alone decides. The module may be slow, so nonces come from Config.Rand.
type mixed struct{ core *Core }

func (m mixed) Read(p []byte) (int, error) {
	if _, err := io.ReadFull(m.core.cfg.Rand, p); err != nil {
		return 0, err
	}
	own := make([]byte, len(p))
	defer clear(own)
	for b := range slices.Chunk(own, 256) {
		if err := m.core.cfg.Device.Random(b); err != nil {
			return 0, fmt.Errorf("drawing from the security module: %w", err)
		}
	}
	return subtle.XORBytes(p, p, own), nil
}

// An idle enclave collects garbage. secret.Secret and runtime/secret erase their own memory
// at once. What libraries allocate while they use a key (a parsed P-256 scalar, the blocks
// of PBKDF2, an expanded ed25519 seed) is erased when a collection frees it. A busy enclave
// collects anyway; an idle one would keep such memory for up to two minutes.
const (
	// idleStep is the time without a call after which the enclave is idle: it collects 0.5 to 1 s after the last.
	idleStep = 500 * time.Millisecond
	// idleCollections is the number of collections that free a sync.Pool's content (two) and objects with a
	// cleanup or finalizer.
	idleCollections = 3
)

// noteWork records that a call may have used keys.
func (c *Core) noteWork() {
	c.calls.Add(1)
	select {
	case c.active <- struct{}{}:
	default:
	}
}

// collectWhenIdle collects once after every series of calls, until ctx ends.
func (c *Core) collectWhenIdle(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.active:
		}
		for before := uint64(0); before != c.calls.Load(); {
			select {
			case <-c.active: // this call is counted below
			default:
			}
			before = c.calls.Load()
			select {
			case <-ctx.Done():
				return
			case <-c.cfg.Clock.After(idleStep):
			}
		}
		for range idleCollections {
			runtime.GC()
		}
		c.idle.Add(1)
	}
}
