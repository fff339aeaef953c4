package core_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/enclave/core"
	"cloister/sim/laptop"
	"cloister/sim/nsm"
)

// A hand is an enclave in a test's process, asked at its door boot.
type hand struct {
	t      *testing.T
	core   *core.Core
	root   *nsm.Root
	pcrs   [3][48]byte
	ahead  atomic.Int64 // of its clock, in nanoseconds
	fenced atomic.Int32
}

const digest = "0707070707070707070707070707070707070707070707070707070707070707"

func (h *hand) Now() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

func (h *hand) After(d time.Duration) <-chan time.Time { return time.After(d) }

func newHand(t *testing.T, change func(*core.Config)) *hand {
	t.Helper()
	root, err := nsm.NewRoot(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h := &hand{t: t, root: root, pcrs: laptop.Measurements(digest)}
	cfg := core.Config{Clock: h, Rand: rand.Reader, Simulator: true, ApplicationDigest: digest, Fence: func(error) { h.fenced.Add(1) }}
	if change != nil {
		change(&cfg)
	}
	if cfg.Device, err = nsm.New(nsm.Config{Root: root, Now: h.Now, Rand: rand.Reader, PCRs: h.pcrs}); err != nil {
		t.Fatal(err)
	}
	h.core = core.New(cfg)
	return h
}

// ask answers the reply, or the error's text.
func (h *hand) ask(op string, body any) (map[string]any, string) {
	h.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		h.t.Fatal(err)
	}
	raw, err := h.core.Boot(context.Background(), op, b)
	if err != nil {
		return nil, err.Error()
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		h.t.Fatal(err)
	}
	return m, ""
}

func p256Key(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := k.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return k, hex.EncodeToString(append([]byte{2 | b[64]&1}, b[1:33]...))
}

// named is a manifest of a simulator with two operators, both needed.
func (h *hand) named() (*attestation.Manifest, []*ecdsa.PrivateKey) {
	m := &attestation.Manifest{
		Format: 1, Kind: attestation.KindSimulator, Application: attestation.Application, Version: "test", ApplicationDigest: digest, DeploymentLabel: "test",
		Nonce: 1, Operators: attestation.Operators{Threshold: 2}, SeedSource: attestation.SeedOperatorShares,
		Freshness: attestation.Freshness{Mode: attestation.FreshSinceBoot}, MinKeyringEpoch: 1,
		PCRs: attestation.Measurements{PCR0: hex.EncodeToString(h.pcrs[0][:]), PCR1: hex.EncodeToString(h.pcrs[1][:]), PCR2: hex.EncodeToString(h.pcrs[2][:])},
	}
	var keys []*ecdsa.PrivateKey
	for range 2 {
		k, public := p256Key(h.t)
		_, share := p256Key(h.t)
		keys = append(keys, k)
		m.Operators.PublicKeys = append(m.Operators.PublicKeys, public)
		m.Operators.ShareKeys = append(m.Operators.ShareKeys, share)
	}
	_, m.AdmissionKey = p256Key(h.t)
	one, _ := p256Key(h.t)
	b, err := one.PublicKey.Bytes()
	if err != nil {
		h.t.Fatal(err)
	}
	m.QuorumPublicKey = strings.Repeat(hex.EncodeToString(b), 2)
	return m, keys
}

// body is that of the operation manifest, approved by keys.
func (h *hand) body(m *attestation.Manifest, keys ...*ecdsa.PrivateKey) map[string]any {
	h.t.Helper()
	raw, err := m.Encode()
	if err != nil {
		h.t.Fatal(err)
	}
	list := []attestation.ManifestApproval{}
	for _, k := range keys {
		a, err := attestation.ApproveManifest(k, attestation.Hash(raw))
		if err != nil {
			h.t.Fatal(err)
		}
		list = append(list, a)
	}
	return map[string]any{"manifest": base64.StdEncoding.EncodeToString(raw), "approvals": list}
}

func (h *hand) state() string {
	m, _ := h.ask("status", nil)
	text, _ := m["state"].(string)
	return text
}

func (h *hand) policy(m *attestation.Manifest) attestation.Policy {
	return attestation.Policy{SimulatorRootPEM: h.root.PEM(), Operators: m.Operators,
		ExpectedPCRs: map[int]string{0: m.PCRs.PCR0, 1: m.PCRs.PCR1, 2: m.PCRs.PCR2}}
}

// A manifest that may not be is refused before anything has happened.
func TestManifestNotApproved(t *testing.T) {
	h := newHand(t, nil)
	m, keys := h.named()
	stranger, _ := p256Key(t)
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	hash := attestation.Hash(raw)
	next := *m
	next.Predecessor, next.Nonce = hex.EncodeToString(hash[:]), 2
	after := h.body(&next, keys...)
	after["predecessor"] = base64.StdEncoding.EncodeToString(raw)
	stranded := h.body(&next, stranger)
	stranded["predecessor"] = after["predecessor"]
	foreign := *m
	foreign.Predecessor, foreign.Nonce = strings.Repeat("01", 32), 2
	orphan := h.body(&foreign, keys...)
	orphan["predecessor"] = after["predecessor"]
	for name, body := range map[string]any{
		"by nobody":                          h.body(m),
		"by one of two":                      h.body(m, keys[0]),
		"by one, twice":                      h.body(m, keys[0], keys[0]),
		"by one and a stranger":              h.body(m, keys[0], stranger),
		"by strangers of a predecessor":      stranded,
		"of another predecessor":             orphan,
		"of a predecessor that is not there": h.body(&next, keys...),
	} {
		if r, refusal := h.ask("manifest", body); refusal == "" {
			t.Errorf("%s: %v", name, r)
		}
		if s := h.state(); s != "hello" || h.fenced.Load() != 0 {
			t.Fatalf("%s: state is %s", name, s)
		}
	}
	if _, refusal := h.ask("setup_document", map[string]string{"nonce": strings.Repeat("01", 32)}); refusal == "" {
		t.Error("a setup document before the manifest")
	}
	if _, refusal := h.ask("manifest", after); refusal != "" {
		t.Error(refusal)
	}
}

func TestSetupDocument(t *testing.T) {
	h := newHand(t, nil)
	m, keys := h.named()
	if _, refusal := h.ask("manifest", h.body(m, keys...)); refusal != "" {
		t.Fatal(refusal)
	}
	if s := h.state(); s != "seed" {
		t.Fatalf("state is %s", s)
	}
	if _, refusal := h.ask("manifest", h.body(m, keys...)); refusal == "" {
		t.Error("a second manifest")
	}
	nonce := [32]byte{1, 2, 3}
	answer := func(nonce [32]byte) (a attestation.SetupAnswer) {
		t.Helper()
		r, refusal := h.ask("setup_document", map[string]string{"nonce": hex.EncodeToString(nonce[:])})
		if refusal != "" {
			t.Fatal(refusal)
		}
		b, _ := json.Marshal(r)
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := answer(nonce)
	p := h.policy(m)
	s, err := attestation.VerifySetup(a, nonce, p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := attestation.VerifySetup(answer([32]byte{9}), [32]byte{9}, p); err != nil || again.PublicKeyHex != s.PublicKeyHex {
		t.Errorf("another setup key in the same boot: %v", err)
	}
	other := newHand(t, nil)
	if _, refusal := other.ask("manifest", other.body(m, keys...)); refusal != "" {
		t.Fatal(refusal)
	}
	stranger, _ := h.named()
	for name, c := range map[string]struct {
		a      attestation.SetupAnswer
		nonce  [32]byte
		change func(*attestation.Policy)
	}{
		"another nonce": {a, [32]byte{1}, nil},
		"another root":  {a, nonce, func(p *attestation.Policy) { p.SimulatorRootPEM = other.root.PEM() }},
		"another image": {a, nonce, func(p *attestation.Policy) {
			p.ExpectedPCRs = map[int]string{0: m.PCRs.PCR1, 1: m.PCRs.PCR1, 2: m.PCRs.PCR2}
		}},
		"no image expected":      {a, nonce, func(p *attestation.Policy) { p.ExpectedPCRs = nil }},
		"another manifest":       {a, nonce, func(p *attestation.Policy) { p.AllowedManifestSHA256 = []string{digest} }},
		"other operators":        {a, nonce, func(p *attestation.Policy) { p.Operators = stranger.Operators }},
		"no operators":           {a, nonce, func(p *attestation.Policy) { p.Operators = attestation.Operators{} }},
		"a debug image":          {a, nonce, func(p *attestation.Policy) { p.AllowDebug = true }},
		"any image":              {a, nonce, func(p *attestation.Policy) { p.AllowUnpinned = true }},
		"any manifest":           {a, nonce, func(p *attestation.Policy) { p.ForeignManifest = true }},
		"no document":            {attestation.SetupAnswer{Envelope: a.Envelope}, nonce, nil},
		"no envelope":            {attestation.SetupAnswer{Document: a.Document}, nonce, nil},
		"a predecessor too many": {attestation.SetupAnswer{Document: a.Document, Envelope: a.Envelope, Predecessor: base64.StdEncoding.EncodeToString([]byte("{}"))}, nonce, nil},
	} {
		p := h.policy(m)
		if c.change != nil {
			c.change(&p)
		}
		if _, err := attestation.VerifySetup(c.a, c.nonce, p); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, nonce := range map[string]string{"none": "", "short": "01", "capitals": strings.Repeat("AB", 32), "no hex": strings.Repeat("zz", 32)} {
		if _, refusal := h.ask("setup_document", map[string]string{"nonce": nonce}); refusal == "" {
			t.Errorf("a document for a nonce that is %s", name)
		}
	}
}

func TestSetupDocumentsAreBounded(t *testing.T) {
	h := newHand(t, nil)
	m, keys := h.named()
	if _, refusal := h.ask("manifest", h.body(m, keys...)); refusal != "" {
		t.Fatal(refusal)
	}
	ask := func(n int) string {
		_, refusal := h.ask("setup_document", map[string]string{"nonce": hex.EncodeToString(append(make([]byte, 30), byte(n>>8), byte(n)))})
		return refusal
	}
	for n := range 256 {
		if refusal := ask(n); refusal != "" {
			t.Fatal(refusal)
		}
	}
	if ask(256) == "" {
		t.Error("without a bound")
	}
	h.ahead.Store(int64(10 * time.Minute))
	if refusal := ask(256); refusal != "" {
		t.Errorf("old ones are not forgotten: %s", refusal)
	}
}

// An image whose measurements are zero shows its console to its parent.
func TestDebugImageTakesNoManifest(t *testing.T) {
	h := newHand(t, func(c *core.Config) { c.Simulator = false })
	h.pcrs = [3][48]byte{}
	device, err := nsm.New(nsm.Config{Root: h.root, Now: h.Now, Rand: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	h.core = core.New(core.Config{Clock: h, Rand: rand.Reader, ApplicationDigest: digest, Device: device})
	m, keys := h.named()
	m.Kind = attestation.KindNitro
	if _, refusal := h.ask("manifest", h.body(m, keys...)); !strings.Contains(refusal, "debug image") {
		t.Errorf("refusal is %q", refusal)
	}
	if s := h.state(); s != "hello" {
		t.Errorf("state is %s", s)
	}
}
