// Package shares_test drills how a deployment's root secret is made in shares and
// comes back: the enclave, the host's link and the operators' side are the real
// ones; the store is a map, since it is asked for little, and between host and
// enclave lies a pipe.
package shares_test

import (
	"bytes"
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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/enclave/core"
	"cloister/host/link"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/nsm"
)

const program = "0707070707070707070707070707070707070707070707070707070707070707"

// memory is as much of a store as a boot asks for.
type memory struct {
	link.Store // nil: nothing else is asked
	mu         sync.Mutex
	objects    map[string][]byte
	epoch      uint64
	boot       wire.ID
	headers    [][]byte
}

func (m *memory) LoadTable(context.Context, wire.LoadTable) (wire.TipTable, error) {
	return wire.TipTable{}, nil
}

// LoadHeaders is asked from the beginning, and then from behind what it gave.
func (m *memory) LoadHeaders(_ context.Context, ask wire.LoadHeaders) (wire.Headers, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ask.Epoch > 0 {
		return wire.Headers{}, nil
	}
	return wire.Headers{Headers: slices.Clone(m.headers)}, nil
}

func (m *memory) Append(_ context.Context, b *wire.Batch) (wire.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.headers = append(m.headers, b.Header)
	return wire.Stored{Number: b.Number, Verdict: wire.VerdictStored}, nil
}

func (m *memory) Own(_ context.Context, ask wire.Own) (wire.Owned, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ok := true
	if ask.Action == wire.OwnTake {
		if ok = ask.Expect == m.epoch; ok {
			m.epoch, m.boot = m.epoch+1, ask.Boot
		}
	}
	return wire.Owned{OK: ok, Epoch: m.epoch, Boot: m.boot}, nil
}

func (m *memory) PutObject(_ context.Context, put wire.PutObject) (wire.Done, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, there := m.objects[put.Name]; there && put.Once && !bytes.Equal(old, put.Bytes) {
		return wire.Done{}, nil
	}
	m.objects[put.Name] = bytes.Clone(put.Bytes)
	return wire.Done{OK: true}, nil
}

func (m *memory) LoadObject(_ context.Context, ask wire.LoadObject) (wire.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := ask.Name
	if ask.Newest {
		for n := range m.objects {
			if strings.HasPrefix(n, ask.Name) && n > name {
				name = n
			}
		}
	}
	b, found := m.objects[name]
	return wire.Object{Found: found, Bytes: b}, nil
}

// swap writes one text for another in every object but share sets, which are attested.
func (m *memory) swap(text, other string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, b := range m.objects {
		if !strings.HasPrefix(name, "shares/") {
			m.objects[name] = bytes.ReplaceAll(b, []byte(text), []byte(other))
		}
	}
}

// pipes are a listener without a network.
type pipes struct {
	in   chan net.Conn
	done chan struct{}
	once sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.in:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.done) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.in <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// An operator has a key to sign with and one that shares are encrypted to.
type operator struct {
	sign  *ecdsa.PrivateKey
	share *ecdh.PrivateKey
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
	b, err := o.sign.PublicKey.Bytes()
	must(t, err)
	return compress(b)
}

// A world is a deployment in the making: a module root, a store, operators.
type world struct {
	t         testing.TB
	root      *nsm.Root
	store     *memory
	ahead     atomic.Int64 // of the enclave's clock
	operators []*operator
	named     attestation.Operators
	boots     int
	shares    []byte // the attested share set, as genesis answered it
	manifest  *attestation.Manifest
}

func (w *world) Now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func (w *world) After(d time.Duration) <-chan time.Time { return time.After(d) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func named(t testing.TB, threshold int, operators []*operator) attestation.Operators {
	o := attestation.Operators{Threshold: threshold}
	for _, op := range operators {
		o.PublicKeys = append(o.PublicKeys, op.public(t))
		o.ShareKeys = append(o.ShareKeys, compress(op.share.PublicKey().Bytes()))
	}
	return o
}

// newWorld makes a deployment of n operators, threshold of whom are needed, with
// its first manifest.
func newWorld(t testing.TB, root *nsm.Root, threshold, n int) *world {
	t.Helper()
	w := &world{t: t, root: root, store: &memory{objects: map[string][]byte{}}}
	for range n {
		w.operators = append(w.operators, newOperator(t))
	}
	w.named = named(t, threshold, w.operators)
	e := w.start()
	defer e.stop()
	got := e.mustAsk("genesis", map[string]any{"operators": w.named})
	var quorum string
	must(t, json.Unmarshal(got["quorumPublicKey"], &quorum))
	w.shares = got["shares"]
	w.manifest = w.first(quorum)
	return w
}

func pcrs() map[int]string {
	m := map[int]string{}
	for i, v := range laptop.Measurements(program) {
		m[i] = hex.EncodeToString(v[:])
	}
	return m
}

func (w *world) first(quorum string) *attestation.Manifest {
	p := pcrs()
	return &attestation.Manifest{
		Format: 1, Kind: attestation.KindSimulator, Application: attestation.Application, Version: "test", ApplicationDigest: program, DeploymentLabel: "drill",
		Nonce: 1, PCRs: attestation.Measurements{PCR0: p[0], PCR1: p[1], PCR2: p[2]}, QuorumPublicKey: quorum, Operators: w.named,
		AdmissionKey: newOperator(w.t).public(w.t), SeedSource: attestation.SeedOperatorShares,
		Freshness: attestation.Freshness{Mode: attestation.FreshSinceBoot}, MinKeyringEpoch: 1,
	}
}

// successor is a manifest that may come after m.
func successor(t testing.TB, m *attestation.Manifest) *attestation.Manifest {
	raw, err := m.Encode()
	must(t, err)
	h := attestation.Hash(raw)
	next := *m
	next.Predecessor, next.Nonce = hex.EncodeToString(h[:]), m.Nonce+1
	return &next
}

// An enclave is one boot with the host beside it.
type enclave struct {
	w      *world
	core   *core.Core
	link   *link.Link
	stop   func()
	fenced atomic.Bool
	seen   *attestation.Setup // once verified
}

func (w *world) start() *enclave { return w.startWith(func(*core.Config) {}) }

func (w *world) startWith(change func(*core.Config)) *enclave {
	w.t.Helper()
	device, err := nsm.New(nsm.Config{Root: w.root, Now: w.Now, Rand: rand.Reader, PCRs: laptop.Measurements(program)})
	must(w.t, err)
	e := &enclave{w: w}
	cfg := core.Config{Device: device, Clock: w, Rand: rand.Reader, Simulator: true, ApplicationDigest: program, Fence: func(error) { e.fenced.Store(true) },
		Fault: func(_ string, err error) { w.t.Logf("internal error: %v", err) }}
	change(&cfg)
	e.core = core.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	l := &pipes{in: make(chan net.Conn), done: make(chan struct{})}
	e.link, err = link.New(link.Options{Address: "tcp://127.0.0.1:1", StoreTimeout: clocktest.Patience, Store: w.store, Log: slog.New(slog.DiscardHandler), Now: time.Now, Dial: l.dial,
		Pause: func(ctx context.Context, d time.Duration) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}})
	must(w.t, err)
	var ran sync.WaitGroup
	ran.Go(func() { _ = e.core.Serve(ctx, l) })
	ran.Go(func() { e.link.Run(ctx) })
	clocktest.Until(w.t, "the link has all its connections", func() bool {
		s := e.link.Stats()
		return s.Wanted > 0 && s.Connected >= s.Wanted
	})
	e.stop = sync.OnceFunc(func() {
		cancel()
		e.core.Close()
		ran.Wait()
	})
	return e
}

// ask answers the reply, or the code of the refusal and its text.
func (e *enclave) ask(op string, body any) (map[string]json.RawMessage, string) {
	e.w.t.Helper()
	b, err := json.Marshal(body)
	must(e.w.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), clocktest.Patience)
	defer cancel()
	r, err := e.link.Call(ctx, &wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: b, WithinMs: uint32(wire.MaxWait.Milliseconds())})
	must(e.w.t, err)
	if r.Status != 200 {
		return nil, fmt.Sprintf("%d %s", r.Status, r.Body)
	}
	var m map[string]json.RawMessage
	must(e.w.t, json.Unmarshal(r.Body, &m))
	return m, ""
}

func (e *enclave) mustAsk(op string, body any) map[string]json.RawMessage {
	e.w.t.Helper()
	m, refusal := e.ask(op, body)
	if refusal != "" {
		e.w.t.Fatalf("%s: %s", op, refusal)
	}
	return m
}

func (e *enclave) state() string {
	m, _ := e.ask("status", nil)
	var text string
	must(e.w.t, json.Unmarshal(m["state"], &text))
	return text
}

// submission is the body of the operation manifest.
func submission(t testing.TB, m, before *attestation.Manifest, by []*operator) map[string]any {
	t.Helper()
	raw, err := m.Encode()
	must(t, err)
	list := []attestation.ManifestApproval{}
	for _, o := range by {
		a, err := attestation.ApproveManifest(o.sign, attestation.Hash(raw))
		must(t, err)
		list = append(list, a)
	}
	out := map[string]any{"manifest": base64.StdEncoding.EncodeToString(raw), "approvals": list}
	if before != nil {
		raw, err := before.Encode()
		must(t, err)
		out["predecessor"] = base64.StdEncoding.EncodeToString(raw)
	}
	return out
}

func (w *world) policy() attestation.Policy {
	return attestation.Policy{SimulatorRootPEM: w.root.PEM(), Operators: w.named, ExpectedPCRs: pcrs()}
}

// waiting is an enclave that has taken the world's manifest.
func (w *world) waiting() *enclave {
	w.t.Helper()
	return w.waitingUnder(w.manifest)
}

func (w *world) waitingUnder(m *attestation.Manifest) *enclave {
	w.t.Helper()
	e := w.start()
	got := e.mustAsk("manifest", submission(w.t, m, nil, w.operators))
	if w.boots++; w.boots%4 != 1 {
		raw, err := m.Encode()
		must(w.t, err)
		e.seen = &attestation.Setup{Manifest: m, ManifestHash: attestation.Hash(raw)}
		must(w.t, json.Unmarshal(got["setupKey"], &e.seen.PublicKeyHex))
	}
	return e
}

// setup is what an operator sees of an enclave. Of every fourth boot the first
// document is verified as the command does: there are thousands.
func (e *enclave) setup(p attestation.Policy) *attestation.Setup {
	e.w.t.Helper()
	var nonce [attestation.SetupNonceSize]byte
	_, _ = rand.Read(nonce[:])
	got := e.mustAsk("setup_document", map[string]string{"nonce": hex.EncodeToString(nonce[:])})
	if e.seen != nil {
		again := *e.seen
		again.Nonce = nonce
		return &again
	}
	raw, err := json.Marshal(got)
	must(e.w.t, err)
	var a attestation.SetupAnswer
	must(e.w.t, json.Unmarshal(raw, &a))
	s, err := attestation.VerifySetup(a, nonce, p)
	must(e.w.t, err)
	e.seen = s
	again := *s
	return &again
}

// submit is operator n's share, counted from 0, for an enclave. change, unless
// nil, alters the share before it is sealed.
func (w *world) submit(s *attestation.Setup, n int, change func([]byte)) *attestation.ShareSubmission {
	w.t.Helper()
	return submitOf(w.t, w.shares, w.policy(), w.operators[n], s, change)
}

// verified is a share set that an operator has looked at, once.
func verified(t testing.TB, shares []byte, p attestation.Policy) *attestation.ShareSet {
	t.Helper()
	if s, ok := sets.Load(string(shares)); ok {
		return s.(*attestation.ShareSet)
	}
	s, err := attestation.VerifyShares(shares, p)
	must(t, err)
	sets.Store(string(shares), s)
	return s
}

var sets sync.Map

func submitOf(t testing.TB, shares []byte, p attestation.Policy, o *operator, s *attestation.Setup, change func([]byte)) *attestation.ShareSubmission {
	t.Helper()
	set := verified(t, shares, p)
	raw, err := set.Encode()
	must(t, err)
	place := set.Operator(o.public(t))
	share, err := set.Open(place, o.share)
	must(t, err)
	if change != nil {
		change(share)
	}
	in, err := s.Submit(raw, place, share, o.sign)
	must(t, err)
	return in
}

// give gives the shares of operators, by their place from 0.
func (e *enclave) give(places ...int) {
	e.w.t.Helper()
	for _, n := range places {
		e.mustAsk("share", e.w.submit(e.setup(e.w.policy()), n, nil))
	}
}

func (e *enclave) wants(state string) {
	e.w.t.Helper()
	if got := e.state(); got != state {
		e.w.t.Fatalf("state is %s, want %s", got, state)
	}
}

// quorum is the public key of the deployment's secret as the genesis told it.
func (w *world) bootProof(e *enclave) {
	w.t.Helper()
	var proof attestation.BootProof
	w.store.mu.Lock()
	names := []string{}
	for n := range w.store.objects {
		if strings.HasPrefix(n, "bootproof/") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	var raw []byte
	for _, n := range names {
		raw = w.store.objects[n]
	}
	w.store.mu.Unlock()
	must(w.t, json.Unmarshal(raw, &proof))
	if _, err := attestation.VerifyBootProof(proof, w.policy()); err != nil {
		w.t.Fatal(err)
	}
}
