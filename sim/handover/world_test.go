package handover_test

import (
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/enclave/core"
	"cloister/host/link"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/nsm"
	"cloister/sim/rig"
)

// ranges of the deployment.
const ranges = 4

// Programs: the one that runs, and the one after it.
var (
	program = strings.Repeat("07", 32)
	newer   = strings.Repeat("08", 32)
)

// An operator has a key to sign with and one that shares are encrypted to.
type operator struct {
	sign  *ecdsa.PrivateKey
	share *ecdh.PrivateKey
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newOperator(t testing.TB) *operator {
	t.Helper()
	s, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	e, err := ecdh.P256().GenerateKey(rand.Reader)
	must(t, err)
	return &operator{s, e}
}

func compress(point []byte) string {
	return hex.EncodeToString(append([]byte{2 | point[64]&1}, point[1:33]...))
}

func (o *operator) public(t testing.TB) string {
	t.Helper()
	b, err := o.sign.PublicKey.Bytes()
	must(t, err)
	return compress(b)
}

// keeps is a store that remembers what was put last under a name, to be shown again.
type keeps struct {
	store.Store
	mu    sync.Mutex
	lose  func(name string) bool // what is to seem not to be there
	words []string               // names of the farewells that were put
	every string                 // which of them is shown as every one
	hide  bool                   // data keys
}

func (k *keeps) LoadKeys(ctx context.Context, ask wire.LoadKeys) (wire.Keys, error) {
	k.mu.Lock()
	hide := k.hide
	k.mu.Unlock()
	if hide {
		return wire.Keys{}, nil
	}
	return k.Store.LoadKeys(ctx, ask)
}

func (k *keeps) LoadObject(ctx context.Context, ask wire.LoadObject) (wire.Object, error) {
	k.mu.Lock()
	lose := k.lose
	if k.every != "" && strings.HasPrefix(ask.Name, "farewell/") {
		ask.Name = k.every
	}
	k.mu.Unlock()
	if lose != nil && lose(ask.Name) {
		return wire.Object{}, nil
	}
	return k.Store.LoadObject(ctx, ask)
}

func (k *keeps) PutObject(ctx context.Context, put wire.PutObject) (wire.Done, error) {
	k.mu.Lock()
	if strings.HasPrefix(put.Name, "farewell/") {
		k.words = append(k.words, put.Name)
	}
	k.mu.Unlock()
	return k.Store.PutObject(ctx, put)
}

// words are the names of all farewells.
func (w *world) words() []string {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return slices.Clone(w.store.words)
}

// A world is a deployment of two operators, both needed, that enclaves come and go in.
type world struct {
	t         testing.TB
	root      *nsm.Root
	store     *keeps
	file      string // of the store
	operators []*operator
	admission laptop.KeyPair
	manifest  *attestation.Manifest
	// configuration is what manifests with a hash of one name.
	configuration []byte
	shares        []byte
	times         client.Times
	signed        atomic.Int64 // signatures that clients got
	// witnesses cosign the logs, brought there by cosigner.
	witnesses *rig.Witnesses
	cosigner  link.Witnesses
}

func newWorld(t testing.TB) *world {
	t.Helper()
	root, err := nsm.NewRoot(rand.Reader, time.Now())
	must(t, err)
	return newWorldUnder(t, root)
}

// newWorldUnder is newWorld on hardware of a root.
func newWorldUnder(t testing.TB, root *nsm.Root) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloister.db")
	s, err := sqlite.Open(context.Background(), file)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	w := &world{t: t, root: root, store: &keeps{Store: s}, file: file, operators: []*operator{newOperator(t), newOperator(t)}}
	w.admission = client.NewKey()
	named := attestation.Operators{Threshold: len(w.operators)}
	for _, o := range w.operators {
		named.PublicKeys = append(named.PublicKeys, o.public(t))
		named.ShareKeys = append(named.ShareKeys, compress(o.share.PublicKey().Bytes()))
	}
	w.witnesses = rig.StartWitnesses(t, rig.WitnessOptions{Serve: 500 * time.Millisecond})
	w.cosigner, _ = rig.NewCosigner(t, w.store, pause)
	e := w.start(program, nil)
	got := e.must("genesis", map[string]any{"operators": named, "ranges": ranges})
	w.shares = got["shares"]
	var quorum string
	must(t, json.Unmarshal(got["quorumPublicKey"], &quorum))
	w.manifest = &attestation.Manifest{
		Format: 1, Kind: attestation.KindSimulator, Application: attestation.Application, Version: "one", ApplicationDigest: program, DeploymentLabel: "hand-over",
		Nonce: 1, PCRs: measured(program), QuorumPublicKey: quorum, Operators: named, AdmissionKey: w.admission.PublicKey,
		SeedSource: attestation.SeedOperatorShares, Freshness: attestation.Freshness{Mode: attestation.FreshWitnessed}, MinKeyringEpoch: 1,
		Log: &w.witnesses.Terms,
	}
	e.stop()
	return w
}

func measured(program string) attestation.Measurements {
	m := laptop.Measurements(program)
	return attestation.Measurements{PCR0: hex.EncodeToString(m[0][:]), PCR1: hex.EncodeToString(m[1][:]), PCR2: hex.EncodeToString(m[2][:])}
}

// after is a manifest that may come after m, of the newer program.
func after(t testing.TB, m *attestation.Manifest) *attestation.Manifest {
	t.Helper()
	raw, err := m.Encode()
	must(t, err)
	h := attestation.Hash(raw)
	next := *m
	next.Predecessor, next.Nonce, next.Version = hex.EncodeToString(h[:]), m.Nonce+1, "two"
	next.ApplicationDigest, next.PCRs = newer, measured(newer)
	return &next
}

// An enclave is one boot, with a host's link to it.
type enclave struct {
	w       *world
	core    *core.Core
	link    *link.Link
	address string
	fenced  atomic.Bool
	stop    func()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// start starts a program, measured as it is, on an instance whose PCR 3 role is given.
func (w *world) start(program string, change func(*nsm.Config, *core.Config)) *enclave {
	w.t.Helper()
	e := &enclave{w: w}
	device := nsm.Config{Root: w.root, Now: time.Now, Rand: rand.Reader, PCRs: laptop.Measurements(program)}
	cfg := core.Config{Clock: clocktest.Running(), Rand: rand.Reader, Simulator: true, ApplicationDigest: program, Limits: core.Limits{Lease: 500 * time.Millisecond},
		Quotas: core.Quotas{Tags: 1_000_000}, Fence: func(error) { e.fenced.Store(true) },
		Fault: func(ref string, err error) { w.t.Logf("internal error %s: %v", ref, err) }}
	if change != nil {
		change(&device, &cfg)
	}
	var err error
	cfg.Device, err = nsm.New(device)
	must(w.t, err)
	e.core = core.New(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.t, err)
	e.address = "tcp://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { _ = e.core.Serve(ctx, l) })
	e.link = w.linkTo(e.address)
	ran.Go(func() { e.link.Run(ctx) })
	ran.Go(func() { w.witnesses.Follow(ctx, w.t, e.address) })
	e.stop = sync.OnceFunc(func() { cancel(); e.core.Close(); ran.Wait() })
	w.t.Cleanup(e.stop)
	clocktest.Until(w.t, "the link has all its connections", func() bool {
		s := e.link.Stats()
		return s.Wanted > 0 && s.Connected >= s.Wanted
	})
	return e
}

func (w *world) linkTo(address string) *link.Link {
	w.t.Helper()
	l, err := link.New(link.Options{Address: address, StoreTimeout: clocktest.Patience, Store: w.store, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: pause, Witnesses: w.cosigner, Chains: quietChain{}})
	must(w.t, err)
	return l
}

// quietChain is what a host says of a chain whose accounts have sent nothing.
type quietChain struct{}

func (quietChain) Chain(context.Context, wire.Chain) wire.ChainState {
	return wire.ChainState{Verdict: wire.ChainKnown, BaseFee: 1_000_000_000, Tip: 1, Gas: 21_000}
}

func (quietChain) Read(context.Context, wire.ReadChain) wire.ChainReading { return wire.ChainReading{} }

// A caller is a host's link to one enclave, or to all.
type caller interface {
	Call(ctx context.Context, call *wire.Call) (*wire.Reply, error)
}

// asked is ask as the command has it.
func (e *enclave) asked(ctx context.Context, op string, body []byte) ([]byte, error) {
	return link.AskOnce(ctx, e.address, op, body, time.Now)
}

// ask asks a boot operation, and answers the reply or the refusal.
func (e *enclave) ask(op string, body any) (map[string]json.RawMessage, string) {
	e.w.t.Helper()
	var b []byte
	if body != nil {
		var err error
		b, err = json.Marshal(body)
		must(e.w.t, err)
	}
	r, err := e.link.Call(context.Background(), &wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: b, WithinMs: uint32(wire.MaxWait.Milliseconds())})
	must(e.w.t, err)
	if r.Status != 200 {
		return nil, fmt.Sprintf("%d %s", r.Status, r.Body)
	}
	var m map[string]json.RawMessage
	must(e.w.t, json.Unmarshal(r.Body, &m))
	return m, ""
}

func (e *enclave) must(op string, body any) map[string]json.RawMessage {
	e.w.t.Helper()
	m, refusal := e.ask(op, body)
	if refusal != "" {
		e.w.t.Fatalf("%s: %s", op, refusal)
	}
	return m
}

func (e *enclave) state() string {
	e.w.t.Helper()
	var s string
	must(e.w.t, json.Unmarshal(e.must("status", nil)["state"], &s))
	return s
}

// submission is the body of the operation manifest.
func (w *world) submission(m, before *attestation.Manifest, by []*operator) map[string]any {
	w.t.Helper()
	raw, err := m.Encode()
	must(w.t, err)
	list := []attestation.ManifestApproval{}
	for _, o := range by {
		a, err := attestation.ApproveManifest(o.sign, attestation.Hash(raw))
		must(w.t, err)
		list = append(list, a)
	}
	out := map[string]any{"manifest": base64.StdEncoding.EncodeToString(raw), "approvals": list}
	if m.ConfigurationSHA256 != "" {
		out["configuration"] = base64.StdEncoding.EncodeToString(w.configuration)
	}
	if before != nil {
		raw, err := before.Encode()
		must(w.t, err)
		out["predecessor"] = base64.StdEncoding.EncodeToString(raw)
	}
	return out
}

// serving is an enclave of the first manifest that the operators have started.
func (w *world) serving() *enclave {
	w.t.Helper()
	e := w.start(program, nil)
	e.must("manifest", w.submission(w.manifest, nil, w.operators))
	e.shares(w.manifest)
	return e
}

// shares starts an enclave that waits, as its operators do.
func (e *enclave) shares(m *attestation.Manifest) {
	e.w.t.Helper()
	if refusal := e.give(m); refusal != "" {
		e.w.t.Fatalf("share: %s", refusal)
	}
	if s := e.state(); s != "serving" {
		e.w.t.Fatalf("state is %s", s)
	}
}

// give gives all shares to an enclave of a manifest's program, up to the first that is refused, and answers why that one is.
func (e *enclave) give(m *attestation.Manifest) (refusal string) {
	w := e.w
	w.t.Helper()
	set, err := attestation.VerifyShares(w.shares, w.policy(w.manifest))
	must(w.t, err)
	raw, err := set.Encode()
	must(w.t, err)
	for _, o := range w.operators {
		var nonce [attestation.SetupNonceSize]byte
		_, _ = rand.Read(nonce[:])
		s, err := attestation.VerifySetup(w.setup(e, hex.EncodeToString(nonce[:])), nonce, w.policy(m))
		must(w.t, err)
		place := set.Operator(o.public(w.t))
		share, err := set.Open(place, o.share)
		must(w.t, err)
		in, err := s.Submit(raw, place, share, o.sign)
		must(w.t, err)
		if _, refusal = e.ask("share", in); refusal != "" {
			break
		}
	}
	return refusal
}

// policy is what operators verify an enclave of a manifest's program by.
func (w *world) policy(m *attestation.Manifest) attestation.Policy {
	return attestation.Policy{SimulatorRootPEM: w.root.PEM(), Operators: w.manifest.Operators,
		ExpectedPCRs: map[int]string{0: m.PCRs.PCR0, 1: m.PCRs.PCR1, 2: m.PCRs.PCR2}}
}

// waiting is an enclave of the newer program that waits under a manifest.
func (w *world) waiting(m *attestation.Manifest, before *attestation.Manifest, change func(*nsm.Config, *core.Config)) *enclave {
	w.t.Helper()
	e := w.start(newer, change)
	e.must("manifest", w.submission(m, before, w.operators))
	return e
}

// upgrade has one enclave follow another, as the command does.
func (w *world) upgrade(from, to *enclave) {
	w.t.Helper()
	must(w.t, link.Upgrade(w.t.Context(), from.asked, to.asked, time.Now, pause, told(w.t)))
}

// An organization is its root user, whose calls tests send to one enclave or another, and has one signing key.
type organization struct {
	*client.User
	key string
}

func (w *world) user(organization string, key client.KeyPair) *client.User {
	return (&client.Client{Times: &w.times, Organization: organization, Key: key}).In(w.t)
}

// creation is a call that makes an organization.
func (w *world) creation(root client.KeyPair) *wire.Call {
	w.t.Helper()
	b, err := json.Marshal(client.Object{"organizationName": "An organization", "rootUserName": "Root user",
		"timestampMs": strconv.FormatInt(w.times.Next(), 10), "rootApiKey": client.APIKey("k", root)})
	must(w.t, err)
	q, err := w.user("", w.admission).Request(wire.EndpointBoot, "create_organization", b)
	must(w.t, err)
	return q.Call()
}

// organization makes one, and a key in it.
func (w *world) organization(to caller) *organization {
	w.t.Helper()
	root := client.NewKey()
	o := &organization{User: w.user(send(w.t, to, w.creation(root)).Text("organizationId"), root)}
	made := send(w.t, to, o.activity("CREATE_PRIVATE_KEYS_V2", client.Object{"privateKeys": []any{
		client.Object{"privateKeyName": "k", "curve": "CURVE_SECP256K1", "privateKeyTags": []string{}, "addressFormats": []string{}}}}))
	if !made.Completed() {
		w.t.Fatal(made)
	}
	o.key = client.Text(made.Result(), "privateKeys", "0", "privateKeyId")
	return o
}

func (o *organization) activity(typ string, parameters client.Object) *wire.Call {
	o.Test.Helper()
	q, err := o.Activity(typ, parameters)
	must(o.Test, err)
	return q.Call()
}

func (o *organization) query(op string, request client.Object) *wire.Call {
	o.Test.Helper()
	q, err := o.Request(wire.EndpointQuery, op, o.Ask(request))
	must(o.Test, err)
	return q.Call()
}

func (o *organization) sign(payload []byte) *wire.Call { return o.signHashed(payload, "SHA256") }

func (o *organization) signHashed(payload []byte, hash string) *wire.Call {
	o.Test.Helper()
	return o.activity("SIGN_RAW_PAYLOAD_V2", client.Payload(o.key, hex.EncodeToString(payload), hash))
}

// export is a call for the signing key, encrypted to an operator.
func (o *organization) export(to *operator) *wire.Call {
	return o.activity("EXPORT_PRIVATE_KEY", client.Object{"privateKeyId": o.key, "targetPublicKey": hex.EncodeToString(to.share.PublicKey().Bytes())})
}

func send(t testing.TB, to caller, c *wire.Call) client.Reply {
	t.Helper()
	var r *wire.Reply
	clocktest.Until(t, c.Op+" is answered with another status than 503", func() bool {
		var err error
		r, err = to.Call(context.Background(), c)
		must(t, err)
		return r.Status != 503
	})
	if r.Status != 200 {
		t.Fatalf("%s: %d %s", c.Op, r.Status, r.Body)
	}
	return client.Reply{Status: int(r.Status), Body: r.Body}
}

// signature is what an activity's reply says was signed; empty: nothing.
func signature(body []byte) string {
	if got := (client.Reply{Body: body}).Get("activity", "result", "signRawPayloadResult"); got != nil {
		return fmt.Sprint(got)
	}
	return ""
}
