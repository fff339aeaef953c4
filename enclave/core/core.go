// Package core is the enclave's one door: a Call comes in, a decision comes out.
//
// It knows its host only as bytes on connections. It verifies who asks, decides
// in the organization's turn, lets the ledger make the decision durable, and
// only then answers. What it needs from outside (device, clock, randomness, root
// secret, connections, exit) is handed in; the simulator and the Nitro build
// differ in nothing else.
package core

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"cloister/attestation"
	"cloister/enclave/core/internal/link"
	"cloister/enclave/core/internal/outgoing"
	"cloister/enclave/core/internal/outside"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/kms"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/webhook"
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

// Clock is the enclave's time: the module's timestamp run forward.
type Clock = ledger.Clock

// RootSecret is where the deployment's root secret Q comes from at boot.
type RootSecret interface {
	// Source names the way, as the manifest and every proof name it.
	Source() string
	// Recover returns Q, which the caller wipes, or ErrNoRootSecret.
	Recover() (Secret, error)
	// Keep takes a new deployment's Q into safekeeping.
	Keep(q Secret) error
}

// Secret is private bytes: see secret.Secret.
type Secret = secret.Secret

// SecretFrom takes over and wipes the bytes that a RootSecret has read.
func SecretFrom(b []byte) (Secret, error) { return secret.From(b) }

// ErrNoRootSecret says that there is no deployment yet.
var ErrNoRootSecret = errors.New("no root secret yet")

// Config is what an enclave is started with.
type Config struct {
	Device Device
	Clock  Clock
	// Rand is the kernel's randomness with the module's mixed in.
	Rand io.Reader
	// Root is where the root secret lies, for a simulator. Nil: nowhere; it is made
	// in shares at genesis and brought in at every boot, to the attested setup key.
	Root RootSecret
	// Simulator must be true exactly when Device is no real one; a manifest of
	// the other kind is refused.
	Simulator bool
	// ApplicationDigest is the SHA-256 of this program, in hex.
	ApplicationDigest string
	// Limits bound memory; zero fields take the ledger's defaults.
	Limits Limits
	// Quotas are how much an organization may have; none is below what the
	// interface documents.
	Quotas Quotas
	// Rates are how many requests are answered; on outside of a simulator.
	Rates Rates
	// WebhookLoopback lets organizations name receivers of webhooks on the loopback
	// interface, also without TLS. For tests and laptops; a simulator's only.
	WebhookLoopback bool
	// Fence is called once this enclave may serve no longer. The process must end.
	Fence func(reason error)
	// Fault is told of errors that users see as internal, without their content.
	Fault func(reference string, err error)
}

// Limits bound an enclave's memory; see ledger.Limits.
type Limits = ledger.Limits

// Quotas bound what an organization and its users have; see org.Limits.
type Quotas = org.Limits

// state is how far boot has come. There is no way back.
type state = wire.State

const (
	stateHello      = wire.StateHello
	stateSeed       = wire.StateSeed
	stateRecovering = wire.StateRecovering
	stateServing    = wire.StateServing
	stateFenced     = wire.StateFenced
)

// Core is one enclave.
type Core struct {
	cfg     Config
	state   atomic.Uint32
	alarms  fault.Alarms
	host    *link.Host
	stamps  *stamp.Verifier
	keys    *keys.Cache[activity.KeyID]
	meter   *meter
	proxies proxies
	replies *tenant.Portion // of replyBytes

	bootMu    sync.Mutex     // one boot step at a time
	wait      *waiting       // in state seed; under bootMu
	recipient *kms.Recipient // of the key service's answers, once asked for; under bootMu
	handing   handing        // under bootMu
	serve     *serving       // set before state becomes serving
	refs      atomic.Uint64
	calls     atomic.Uint64 // begun and ended, those that only look at the enclave aside
	active    chan struct{} // holds one token once there was a call
}

// serving is what an enclave has once it serves.
type serving struct {
	ranges     *ranges.Ranges
	count      int // of the deployment's ranges
	live       *bootKey
	manifest   *attestation.Manifest
	manifestID [32]byte
	proof      bootProofOf
	// ring is for the enclave that comes after this one; nil where nobody could
	// approve one.
	ring        *boot.Keyring
	keyrings    string // where the deployment's keyrings lie in the store
	seedSource  string // how this boot came by it
	predecessor string // live key of the enclave that handed it over, in hex; empty: none did
	setup       string // setup key to which it did, in hex
	rootPEM     string // of the module, as it says itself
	rootSHA256  string
	public      boot.PublicKeys
	bundles     *bundle.Signer
	sessions    *login.Signer
	tokens      *login.Signer  // of verification tokens
	legacy      *login.Signer  // of verification tokens of the first form
	targets     *bundle.Signer // of keys to which passcodes are encrypted
	roles       *activity.Roles
	webhooks    *webhook.Signer
	published   keysDocument
	blind       func() hash.Hash // keyed by the blind-index key
	deployment  [32]byte
	next        string // quorum public key, in hex, of the root secret that the manifest had made
	admission   []byte // compressed P-256 key that may make organizations
	outside     *outside.Outside
	outgoing    *outgoing.Outgoing
}

// tokenKeys verify the enclave's verification tokens.
func (s *serving) tokenKeys() login.TokenKeys {
	return login.TokenKeys{Token: s.tokens.Public(), Legacy: s.legacy.Public()}
}

// keyCacheKeys and keyCacheBytes bound the derived keys kept ready.
const (
	keyCacheKeys  = 16384
	keyCacheBytes = 16 << 20
)

// SpareBytes is how much garbage the process of an enclave may gather before it
// is collected; its main hands it to collector.Spare.
const SpareBytes = 20 << 20

// TimerSlack is how much later than its time the process of an enclave may wake: its
// timers are leases, deadlines and pauses, of which none asks for more.
const TimerSlack = time.Millisecond

// New makes an enclave that waits for its manifest.
func New(cfg Config) *Core {
	if cfg.Root != nil && !cfg.Simulator {
		panic("core: a root secret at rest outside of a simulator") // wrong wiring
	}
	cfg.Quotas = cfg.Quotas.WithDefaults()
	if !cfg.Simulator {
		cfg.Rates = cfg.Rates.withUsual()
	}
	c := &Core{cfg: cfg, stamps: stamp.NewVerifier(), keys: keys.NewCache[activity.KeyID](keyCacheKeys, keyCacheBytes),
		meter: newMeter(cfg.Rates), proxies: newProxies(cfg.Rates.Proxy), replies: tenant.NewPortion(replyBytes), active: make(chan struct{}, 1)}
	c.host = link.New(link.Config{Clock: cfg.Clock, Rand: cfg.Rand, Alarms: &c.alarms, Call: c.frame})
	return c
}

// Serve answers connections from l until ctx ends. Whoever connects is the host.
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

// Stop ends service in good order: nothing new is decided, what is decided is
// stored, the store is given back.
func (c *Core) Stop(ctx context.Context) error {
	if state(c.state.Swap(uint32(stateFenced))) != stateServing {
		return nil
	}
	return c.serve.ranges.Release(ctx)
}

// Close ends service at once and gives nothing back, as the loss of the process
// would: what is not stored stays unknown.
func (c *Core) Close() {
	if state(c.state.Swap(uint32(stateFenced))) == stateServing {
		c.serve.ranges.Close()
	}
	c.host.Close()
}

// fence ends service at once.
func (c *Core) fence(reason error) {
	if state(c.state.Swap(uint32(stateFenced))) != stateFenced && c.cfg.Fence != nil {
		c.cfg.Fence(reason)
	}
}

// now is the enclave's time in milliseconds since the epoch.
func (c *Core) now() uint64 { return uint64(c.cfg.Clock.Now().UnixMilli()) }

// mixed draws randomness for secrets that live long: the kernel's and the
// module's, so that neither alone decides. The device may be slow, so nonces
// come from Config.Rand.
type mixed struct{ c *Core }

func (m mixed) Read(p []byte) (int, error) {
	if _, err := io.ReadFull(m.c.cfg.Rand, p); err != nil {
		return 0, err
	}
	own := make([]byte, len(p))
	defer clear(own)
	for b := own; len(b) > 0; {
		n := min(len(b), 256)
		if err := m.c.cfg.Device.Random(b[:n]); err != nil {
			return 0, fmt.Errorf("drawing from the security module: %w", err)
		}
		b = b[n:]
	}
	for i := range p {
		p[i] ^= own[i]
	}
	return len(p), nil
}

// vault seals the secrets of one organization's records under their owners' ids.
type vault struct {
	c    *Core
	name seal.Name
	key  *seal.Key
}
