package core

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
	"strconv"
	"time"

	"cloister/attestation"
	"cloister/enclave/core/internal/outgoing"
	"cloister/enclave/core/internal/outside"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/boot"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/seal"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
	"cloister/enclave/internal/tally"
	"cloister/enclave/internal/webhook"
	"cloister/shared/wire"
)

// Names of the deployment's objects in the store.
const (
	objectGenesis = "genesis"
	objectKeyring = "keyring/"   // with the epoch behind it
	objectProof   = "bootproof/" // with the SHA-256 of the live key behind it
)

// bootDoor answers calls at the door boot, which wire.BootOperations lists. None of them is authenticated by
// where it comes from: genesis and manifest work once each, in that order,
// admission needs the admission key's stamp, and the others tell public things or
// bring what authority they need.
func (c *Core) bootDoor(ctx context.Context, call *wire.Call, v *visit) ([]byte, error) {
	op := wire.BootOperationOf(call.Op)
	if op == nil {
		return nil, fault.New(fault.NotFound, "no such boot operation")
	}
	// What ends a state looks again, with bootMu held.
	if s := state(c.state.Load()); !op.In(s) {
		switch {
		case op.In(stateServing):
			return nil, errNotServing
		case op.In(stateSeed):
			return nil, errNotWaiting
		}
		return nil, errManifestGiven
	}
	return bootHandlers[op.Name](c, ctx, call, v)
}

type bootHandler func(*Core, context.Context, *wire.Call, *visit) ([]byte, error)

// bare, withContext and withBody make handlers of methods that want less of a call.
func bare(f func(*Core) ([]byte, error)) bootHandler {
	return func(c *Core, _ context.Context, _ *wire.Call, _ *visit) ([]byte, error) { return f(c) }
}

func withContext(f func(*Core, context.Context) ([]byte, error)) bootHandler {
	return func(c *Core, ctx context.Context, _ *wire.Call, _ *visit) ([]byte, error) { return f(c, ctx) }
}

func withBody(f func(*Core, context.Context, []byte) ([]byte, error)) bootHandler {
	return func(c *Core, ctx context.Context, call *wire.Call, _ *visit) ([]byte, error) {
		return f(c, ctx, call.Body)
	}
}

// bootHandlers has a handler for each of wire.BootOperations.
var bootHandlers = map[string]bootHandler{
	wire.OpStatus:             bare((*Core).status),
	wire.OpGenesis:            withBody((*Core).genesis),
	wire.OpShares:             withBody((*Core).storedShares),
	wire.OpManifest:           withBody((*Core).manifest),
	wire.OpKeyServiceRequest:  bare((*Core).keyServiceRequest),
	wire.OpSetupDocument:      withBody((*Core).setupDocument),
	wire.OpKeyService:         withBody((*Core).keyService),
	wire.OpShare:              withBody((*Core).share),
	wire.OpTakeOver:           withBody((*Core).takeOver),
	wire.OpHandOverNonce:      bare((*Core).handOverNonce),
	wire.OpHandOver:           withBody((*Core).handOver),
	wire.OpFarewell:           withContext((*Core).farewell),
	wire.OpRanges:             bare((*Core).rangesOwned),
	wire.OpTake:               withBody((*Core).takeRanges),
	wire.OpGive:               withBody((*Core).giveRanges),
	wire.OpRetire:             bare((*Core).retire),
	wire.OpKeys:               bare((*Core).publicKeys),
	wire.OpDiscoveryKeys:      withContext((*Core).discoverKeys),
	wire.OpDiscoveryBootProof: withBody((*Core).discoverBootProof),
	wire.OpIssuer:             bare((*Core).discoverIssuer),
	wire.OpIssuerKeys:         bare((*Core).discoverIssuerKeys),
	wire.OpWebhookKeys:        bare((*Core).webhookKeys),
	wire.OpCreateOrganization: (*Core).createOrganization,
}

func (c *Core) status() ([]byte, error) {
	s := state(c.state.Load())
	out := map[string]any{"state": s.String(), "applicationDigest": c.cfg.ApplicationDigest, "counters": c.counters()}
	if s == stateSeed && c.bootMu.TryLock() { // a boot step may take a while
		out["shares"], out["manifestSha256"] = c.wait.holders.status(), hex.EncodeToString(c.wait.id[:])
		c.bootMu.Unlock()
	}
	if s == stateServing {
		now := c.cfg.Clock.Now()
		out["attestationAgeMs"] = now.Sub(c.serve.proof.current(now).at).Milliseconds()
		out["bootNumber"] = c.serve.ranges.BootNumber()
		out["deployment"] = hex.EncodeToString(c.serve.deployment[:])
		if c.serve.next != "" {
			out["nextQuorumPublicKey"] = c.serve.next
		}
	}
	return json.Marshal(out)
}

// counters are the alarms, caches, batches and dear operations, by name.
func (c *Core) counters() map[string]uint64 {
	m := map[string]uint64{"reply_bytes": uint64(c.replies.Given())}
	for k, n := range c.alarms.Counts() {
		m["alarm_"+k] = n
	}
	d := c.keys.Declared()
	m["derived_keys"], m["derived_key_hits"], m["derived_key_misses"] = uint64(d.Keys), d.Hits, d.Misses
	m["late_answers"], m["streams"] = c.host.LateAnswers(), c.host.Streams()
	maps.Copy(m, tally.Counts())
	if state(c.state.Load()) == stateServing {
		for k, n := range c.serve.ranges.Stats() {
			m[k] = n
		}
	}
	return m
}

// takeRanges is the boot operation take.
func (c *Core) takeRanges(ctx context.Context, body []byte) ([]byte, error) {
	if err := c.serve.ranges.Take(ctx, body); err != nil {
		return nil, err
	}
	return c.rangesOwned()
}

// giveRanges is the boot operation give.
func (c *Core) giveRanges(ctx context.Context, body []byte) ([]byte, error) {
	if err := c.serve.ranges.Give(ctx, body); err != nil {
		return nil, err
	}
	return c.rangesOwned()
}

// retire is the boot operation retire.
func (c *Core) retire() ([]byte, error) {
	c.serve.ranges.Retire()
	return c.rangesOwned()
}

// rangesOwned is the boot operation ranges: what this enclave owns now, signed by its
// live key.
func (c *Core) rangesOwned() ([]byte, error) {
	text, err := json.Marshal(c.serve.ranges.Table(c.now()))
	if err != nil {
		return nil, err
	}
	sig, err := c.serve.live.signText(wire.TableText(string(text)))
	if err != nil {
		return nil, err
	}
	return json.Marshal(&wire.SignedTable{Table: string(text), PublicKey: c.serve.live.publicHex, Signature: hex.EncodeToString(sig)})
}

// webhookKeys answers with the keys that verify webhooks, as a JWKS. Who does not
// want to believe the host finds the key in what discoverKeys answers too.
func (c *Core) webhookKeys() ([]byte, error) {
	return c.serve.webhooks.JWKS(), nil
}

func (c *Core) publicKeys() ([]byte, error) {
	return json.Marshal(c.serve.public)
}

var errNotServing = fault.New(fault.Unavailable, "the enclave is not serving yet")

// genesisBody says what a deployment is made of.
type genesisBody struct {
	Ranges    uint32   `json:"ranges"` // 1 to wire.MaxRanges; 0 or absent: 1
	Operators struct { // as the first manifest will name them; only where the secret is made in shares
		Threshold  int32    `json:"threshold"`
		PublicKeys []string `json:"publicKeys" rule:"max=64"`
		ShareKeys  []string `json:"shareKeys" rule:"max=64"`
	} `json:"operators"`
	KeyService struct { // the answer to GenerateDataKey; absent: shares alone
		CiphertextBlob         string `json:"ciphertextBlob"`         // base64
		CiphertextForRecipient string `json:"ciphertextForRecipient"` // base64
	} `json:"keyService"`
}

func (b *genesisBody) ranges() int { return max(int(b.Ranges), 1) }

// genesis makes a deployment: its root secret, its keyring, its record. The body says
// of how many ranges, {"ranges": 16}; one if it is empty. Where no root secret lies at
// hand it is made in shares. A deployment that is there already stays as it is.
func (c *Core) genesis(ctx context.Context, body []byte) ([]byte, error) {
	in := new(genesisBody)
	if len(body) > 0 {
		if err := strictjson.Decode(body, in); err != nil {
			return nil, err
		}
		if in.Ranges > wire.MaxRanges {
			return nil, fault.Field("ranges", "want 1 to %d", wire.MaxRanges)
		}
	}
	c.bootMu.Lock()
	defer c.bootMu.Unlock()
	if state(c.state.Load()) != stateHello {
		return nil, errManifestGiven
	}
	if c.cfg.Root == nil {
		return c.genesisInShares(ctx, in)
	}
	rand := mixed{c}
	q, err := c.cfg.Root.Recover()
	if errors.Is(err, ErrNoRootSecret) {
		if q, err = secret.New(rand, boot.SecretSize); err == nil {
			err = c.cfg.Root.Keep(q)
		}
	}
	defer func() { q.Wipe() }()
	if err != nil {
		return nil, err
	}
	// Each step is done once; a crash between them is made good by the next try.
	record, err := c.host.Object(ctx, objectGenesis)
	if err != nil {
		return nil, err
	}
	if record == nil {
		if record, err = boot.NewGenesis(rand, q, c.now(), in.ranges()); err != nil {
			return nil, err
		}
		if err := c.host.PutObject(ctx, wire.PutObject{Name: objectGenesis, Bytes: record, Once: true}); err != nil {
			return nil, err
		}
	}
	got, err := c.host.LoadObject(ctx, wire.LoadObject{Name: objectKeyring, Newest: true})
	if err != nil {
		return nil, err
	}
	if !got.Found {
		if err := c.newKeyring(ctx, rand, q, record, attestation.Operators{}); err != nil {
			return nil, err
		}
	}
	return genesisReply(q)
}

func (c *Core) newKeyring(ctx context.Context, rand mixed, q secret.Secret, record []byte, operators attestation.Operators) error {
	ring, err := boot.NewKeyring(rand)
	if err != nil {
		return err
	}
	defer ring.Wipe()
	sealed, err := ring.Wrap(c.cfg.Rand, q, boot.Deployment(record))
	if err != nil {
		return err
	}
	if err := c.putOnce(ctx, keyringName(ring.Epoch), sealed); err != nil || !operators.Named() {
		return err
	}
	return c.putLaw(ctx, ring, boot.Deployment(record), &boot.Law{Format: 1, Number: 1, Operators: operators.Digest()})
}

func keyringName(epoch uint32) string { return objectKeyring + fmt.Sprintf("%010d", epoch) }

func genesisReply(q secret.Secret) ([]byte, error) {
	pub, err := boot.QuorumPublicKey(q)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"quorumPublicKey": hex.EncodeToString(pub)})
}

// manifest takes the manifest. Where the root secret lies at hand it recovers the
// keyring and begins to serve; elsewhere it begins to wait for the secret.
func (c *Core) manifest(ctx context.Context, body []byte) ([]byte, error) {
	g, err := c.readManifest(body)
	if err != nil {
		return nil, err
	}
	c.bootMu.Lock()
	defer c.bootMu.Unlock()
	if state(c.state.Load()) != stateHello {
		return nil, errManifestGiven
	}
	if c.cfg.Root == nil {
		return c.await(ctx, g)
	}
	q, err := c.cfg.Root.Recover()
	defer q.Wipe()
	if err != nil {
		err = fmt.Errorf("root secret: %w", err)
	} else {
		err = c.fits(g.manifest)
	}
	return c.begin(ctx, stateHello, g, q, c.unwrapping(ctx, q, err))
}

// begin goes from one state to serving, with the root secret, empty where the
// enclave before this one gave the keyring; or to fenced, for good: the next try is
// another boot.
func (c *Core) begin(ctx context.Context, from state, g *given, q secret.Secret, ring func(*serving) (*boot.Keyring, error)) ([]byte, error) {
	if !c.state.CompareAndSwap(uint32(from), uint32(stateRecovering)) {
		return nil, errManifestGiven
	}
	s, err := c.recover(ctx, g, q, ring)
	if err != nil {
		c.fence(fmt.Errorf("boot: %w", err))
		return nil, fault.New(fault.FailedPrecondition, "boot failed: %v", err)
	}
	c.serve = s
	c.state.Store(uint32(stateServing))
	out := map[string]any{"manifestSha256": hex.EncodeToString(s.manifestID[:]), "keys": s.public, "bootNumber": s.ranges.BootNumber(),
		"deployment": hex.EncodeToString(s.deployment[:])}
	if s.next != "" {
		out["nextQuorumPublicKey"] = s.next
	}
	return json.Marshal(out)
}

// fits holds a manifest against this enclave.
func (c *Core) fits(m *attestation.Manifest) error {
	kind := attestation.KindNitro
	if c.cfg.Simulator {
		kind = attestation.KindSimulator
	}
	switch {
	case m.Kind != kind:
		return errors.New("manifest of another kind of enclave")
	case m.ApplicationDigest != c.cfg.ApplicationDigest:
		return errors.New("manifest of another program")
	case c.cfg.Root != nil && m.SeedSource != c.cfg.Root.Source(), c.cfg.Root == nil && m.SeedSource != attestation.SeedOperatorShares && m.SeedSource != attestation.SeedCloudKMS:
		return errors.New("manifest names another source of the root secret")
	case c.cfg.Root != nil && (m.RotateRootSecret || m.RotateStorageKey || m.ForgetStorageKey):
		return errors.New("manifest rotates keys of a root secret that lies at hand")
	}
	for i, want := range []string{m.PCRs.PCR0, m.PCRs.PCR1, m.PCRs.PCR2} {
		got, _, err := c.cfg.Device.DescribePCR(i)
		if err != nil {
			return fmt.Errorf("reading PCR %d: %w", i, err)
		}
		if hex.EncodeToString(got) != want {
			return fmt.Errorf("manifest names another PCR %d", i)
		}
	}
	return nil
}

// unwrapping opens the keyring with the root secret, if that is there.
func (c *Core) unwrapping(ctx context.Context, q secret.Secret, err error) func(*serving) (*boot.Keyring, error) {
	return func(s *serving) (*boot.Keyring, error) {
		if err != nil {
			return nil, err
		}
		return c.unwrap(ctx, q, s)
	}
}

// unwrap opens the deployment's keyring with the root secret.
func (c *Core) unwrap(ctx context.Context, q secret.Secret, s *serving) (*boot.Keyring, error) {
	quorum, err := boot.QuorumPublicKey(q)
	if err != nil {
		return nil, err
	}
	if s.manifest.QuorumPublicKey != hex.EncodeToString(quorum) {
		return nil, errors.New("manifest of another deployment")
	}
	return c.keyring(ctx, q, quorum, s)
}

// recover goes from manifest to serving: keyring, ownership of the store, live key,
// attestation. The keyring stays for the enclave that comes after this one, where
// there are operators who could approve one.
func (c *Core) recover(ctx context.Context, g *given, q secret.Secret, open func(*serving) (*boot.Keyring, error)) (*serving, error) {
	m, set := g.manifest, g.set
	s := &serving{manifest: m, manifestID: g.id, seedSource: m.SeedSource}
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
	if c.wait != nil {
		if law, err = c.law(ctx, ring, s, g); err != nil {
			return nil, err
		}
		if err := c.rotateStorage(ctx, q, ring, law, s, g); err != nil {
			return nil, err
		}
	}
	if uint64(ring.Epoch) < m.MinKeyringEpoch {
		c.alarms.Raise(fault.AlarmKey)
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
	// Of the blind-index key, which never rotates: enclaves of different epochs of the
	// keyring hand ranges to each other.
	hands, err := seal.Derive(ring.Blind, "tips of a range")
	if err != nil {
		return nil, err
	}
	if s.admission, err = hex.DecodeString(m.AdmissionKey); err != nil {
		return nil, err
	}
	if s.public, err = ring.Public(); err != nil {
		return nil, err
	}
	s.blind = ring.Hash()
	if s.bundles, err = bundle.NewSigner(ring.Signer); err != nil {
		return nil, err
	}
	if s.sessions, err = login.NewSigner(ring.Session); err != nil {
		return nil, err
	}
	if s.tokens, err = login.NewSigner(ring.Token); err != nil {
		return nil, err
	}
	if s.legacy, err = login.NewSigner(ring.TokenLegacy); err != nil {
		return nil, err
	}
	if s.targets, err = bundle.NewSigner(ring.Token); err != nil { // clients pin one key for both
		return nil, err
	}
	if s.outside, err = outside.New(outside.Config{Host: c.host, Clock: c.cfg.Clock, Rand: c.cfg.Rand, Alarms: &c.alarms, Simulator: c.cfg.Simulator},
		set, login.KeySetOf(s.tokens.Public())); err != nil {
		return nil, err
	}
	c.openProviders(s, ring, set)
	if s.webhooks, err = webhook.NewSigner(ring.Webhook); err != nil {
		return nil, err
	}
	s.outgoing = outgoing.New(outgoing.Config{Clock: c.cfg.Clock, Rand: c.cfg.Rand, Outside: s.outside, Webhooks: s.webhooks})
	var id wire.ID
	if _, err := (mixed{c}).Read(id[:]); err != nil {
		return nil, err
	}
	s.ranges = ranges.New(ranges.Config{
		Ledger: ledger.Config{Deployment: s.deployment, Boot: id, Storage: storage, Before: before, Store: c.host, Clock: c.cfg.Clock, Rand: c.cfg.Rand,
			Alarms: &c.alarms, Limits: c.cfg.Limits},
		Count: s.count, Hands: hands, Host: c.host, Rand: mixed{c}, Predecessor: s.predecessor, Setup: s.setup, Taken: s.outgoing.Forget, Fence: c.fence,
	})
	if err := s.ranges.Start(ctx); err != nil {
		return nil, fmt.Errorf("taking the store: %w", err)
	}
	if law != nil {
		if err := c.succeed(ctx, q, ring, law, s, g); err != nil {
			return nil, err
		}
	}
	if s.live, err = newBootKey(mixed{c}); err != nil {
		return nil, err
	}
	if err := c.attest(s, g); err != nil {
		return nil, err
	}
	if m.Operators.Named() {
		s.ring = ring
	}
	name := objectProof + hashHex([]byte(s.live.publicHex))
	if err := c.host.PutObject(ctx, wire.PutObject{Name: name, Bytes: s.proof.kept.Load().json, Once: true}); err != nil {
		return nil, fmt.Errorf("storing the boot proof: %w", err)
	}
	return s, nil
}

func hashHex(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// keyring opens the newest keyring of the deployment that Q belongs to.
func (c *Core) keyring(ctx context.Context, q secret.Secret, quorum []byte, s *serving) (*boot.Keyring, error) {
	record, err := c.host.Object(ctx, objectGenesis)
	if err != nil {
		return nil, fmt.Errorf("loading the genesis record: %w", err)
	}
	if record == nil {
		return nil, errors.New("the store holds no deployment")
	}
	g, err := boot.ParseGenesis(record)
	if err != nil || c.wait == nil && !bytes.Equal(g.Quorum, quorum) {
		c.alarms.Raise(fault.AlarmRecord)
		return nil, errors.New("the store holds another deployment")
	}
	s.deployment, s.count = boot.Deployment(record), int(g.Ranges)
	s.keyrings = keyringsOf(hex.EncodeToString(quorum), hex.EncodeToString(g.Quorum))
	got, err := c.host.LoadObject(ctx, wire.LoadObject{Name: s.keyrings, Newest: true})
	if err != nil || !got.Found {
		return nil, errors.Join(errors.New("loading the keyring"), err)
	}
	ring, err := boot.Unwrap(q, s.deployment, got.Bytes)
	if err != nil {
		c.alarms.Raise(fault.AlarmKey)
		return nil, err
	}
	return ring, nil
}

// attest commits to live key and manifest, locks the registers and keeps the
// boot proof. PCR16 commits to the setup key, and where there was none to the
// live key too.
func (c *Core) attest(s *serving, g *given) error {
	if c.wait == nil {
		if err := c.commitSetup(s.live.publicHex, s.manifestID); err != nil {
			return err
		}
	}
	live := attestation.LiveExtension(s.live.publicHex, s.manifestID)
	if _, err := c.cfg.Device.ExtendPCR(attestation.LivePCR, live[:]); err != nil {
		return fmt.Errorf("extending PCR %d: %w", attestation.LivePCR, err)
	}
	if err := c.cfg.Device.LockPCRs(32); err != nil {
		return fmt.Errorf("locking PCRs: %w", err)
	}
	raw, envelope := base64.StdEncoding.EncodeToString(g.raw), base64.StdEncoding.EncodeToString(g.envelope())
	s.proof.make = func(now time.Time) ([]byte, error) {
		doc, err := c.cfg.Device.Attest(s.live.public, s.manifestID[:], nil)
		if err != nil {
			return nil, fmt.Errorf("attesting: %w", err)
		}
		if s.rootPEM == "" { // of the first; the root is the module's for good
			if s.rootPEM, s.rootSHA256, err = attestation.DocumentRoot(doc); err != nil {
				return nil, err
			}
		}
		return json.Marshal(attestation.BootProof{
			EphemeralPublicKeyHex: s.live.publicHex, AWSAttestationDocB64: base64.StdEncoding.EncodeToString(doc),
			QOSManifestB64: raw, QOSManifestEnvelopeB64: envelope,
			DeploymentLabel: s.manifest.DeploymentLabel, EnclaveApp: s.manifest.Application, Owner: s.manifest.Owner,
			CreatedAt: attestation.Timestamp{Seconds: strconv.FormatInt(now.Unix(), 10), Nanos: strconv.Itoa(now.Nanosecond())},
		})
	}
	return s.proof.first(c.cfg.Clock.Now())
}

// freshness is what a claim says of the state behind it: how often the range was
// taken that it lies in.
func (s *serving) freshness(bootNumber uint64) *attestation.ClaimFreshness {
	return &attestation.ClaimFreshness{Mode: s.manifest.Freshness.Mode, BootNumber: strconv.FormatUint(bootNumber, 10), SeedSource: s.seedSource}
}

// activityID is the id of the activity that a body makes in an organization: a
// UUIDv7 whose time is the body's timestamp and whose other bits are a keyed
// hash of organization and fingerprint. One body has one id for ever, so the
// host's index by id finds an old activity for a repeated body, and the host
// learns nothing from it.
func (s *serving) activityID(organization [16]byte, fingerprint [32]byte, stampedMs uint64) (id [16]byte) {
	m := s.blind()
	m.Write([]byte("cloister activity 1"))
	m.Write(organization[:])
	m.Write(fingerprint[:])
	copy(id[:], m.Sum(nil))
	for i := range 6 {
		id[i] = byte(stampedMs >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// organizationID is the id of the organization that an admission makes: one
// body, one organization.
func (s *serving) organizationID(fingerprint [32]byte) (id [16]byte) {
	m := s.blind()
	m.Write([]byte("cloister organization 1"))
	m.Write(fingerprint[:])
	copy(id[:], m.Sum(nil))
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// maxAge and maxAhead are the liveness window of a stamped body.
const (
	maxAge   = time.Hour
	maxAhead = 5 * time.Minute
)

var errTime = fault.Named(fault.InvalidArgument, "INVALID_TIME", "timestampMs outside of the accepted window")

func live(nowMs, stampedMs uint64) error {
	if stampedMs+uint64(maxAge.Milliseconds()) <= nowMs || stampedMs > nowMs+uint64(maxAhead.Milliseconds()) {
		return errTime
	}
	return nil
}
