package shares_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/enclave/core"
	"cloister/sim/nsm"
)

// A manifest that may not be is refused before anything has happened.
func TestManifestNotApproved(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 2)
	e := w.start()
	defer e.stop()
	unrelated := newOperator(t)
	m, next := w.manifest, successor(t, w.manifest)
	orphan := *next
	orphan.Predecessor = strings.Repeat("01", 32)
	one := w.operators[:1]
	for name, body := range map[string]any{
		"by nobody":                          submission(t, m, nil, nil),
		"by one of two":                      submission(t, m, nil, one),
		"by one, twice":                      submission(t, m, nil, append(one[:1:1], one[0])),
		"by one and a stranger":              submission(t, m, nil, append(one[:1:1], unrelated)),
		"by a stranger to its predecessor":   submission(t, next, m, append(one[:1:1], unrelated)),
		"of another predecessor":             submission(t, &orphan, m, w.operators),
		"of a predecessor that is not there": submission(t, next, nil, w.operators),
		"with a predecessor that it has not": submission(t, m, next, w.operators),
	} {
		if _, refusal := e.ask("manifest", body); refusal == "" {
			t.Errorf("%s: taken", name)
		}
		if e.wants("hello"); e.fenced.Load() {
			t.Fatalf("%s: fenced", name)
		}
	}
	foreign := *m
	foreign.ApplicationDigest = strings.Repeat("01", 32)
	image := *m
	image.PCRs.PCR2 = strings.Repeat("01", 48)
	file := *m
	file.SeedSource = attestation.SeedDevelopmentFile
	for name, m := range map[string]*attestation.Manifest{"another program": &foreign, "another image": &image, "a seed at rest": &file} {
		if _, refusal := e.ask("manifest", submission(t, m, nil, w.operators)); !strings.Contains(refusal, "MANIFEST_OF_ANOTHER") {
			t.Errorf("%s: %q", name, refusal)
		}
		e.wants("hello")
	}
	for _, op := range []string{"setup_document", "share"} {
		if _, refusal := e.ask(op, map[string]string{"nonce": strings.Repeat("01", 32)}); refusal == "" {
			t.Errorf("%s before the manifest", op)
		}
	}
	e.mustAsk("manifest", submission(t, m, nil, w.operators))
	e.wants("seed")
	if _, refusal := e.ask("manifest", submission(t, m, nil, w.operators)); refusal == "" {
		t.Error("a second manifest")
	}
}

func (e *enclave) answer(nonce [32]byte) (a attestation.SetupAnswer) {
	e.w.t.Helper()
	raw, err := json.Marshal(e.mustAsk("setup_document", map[string]string{"nonce": hex.EncodeToString(nonce[:])}))
	must(e.w.t, err)
	must(e.w.t, json.Unmarshal(raw, &a))
	return a
}

func TestSetupDocument(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 2)
	e := w.waiting()
	defer e.stop()
	nonce := [32]byte{1, 2, 3}
	a := e.answer(nonce)
	s, err := attestation.VerifySetup(a, nonce, w.policy())
	must(t, err)
	if again, err := attestation.VerifySetup(e.answer([32]byte{9}), [32]byte{9}, w.policy()); err != nil || again.PublicKeyHex != s.PublicKeyHex {
		t.Errorf("another setup key in the same boot: %v", err)
	}
	other := newWorld(t, newRoot(t), 2, 2)
	for name, c := range map[string]struct {
		a      attestation.SetupAnswer
		nonce  [32]byte
		change func(*attestation.Policy)
	}{
		"another nonce":          {a, [32]byte{1}, nil},
		"another root":           {a, nonce, func(p *attestation.Policy) { p.SimulatorRootPEM = other.root.PEM() }},
		"another image":          {a, nonce, func(p *attestation.Policy) { p.ExpectedPCRs[0] = p.ExpectedPCRs[1] }},
		"no image expected":      {a, nonce, func(p *attestation.Policy) { p.ExpectedPCRs = nil }},
		"another manifest":       {a, nonce, func(p *attestation.Policy) { p.AllowedManifestSHA256 = []string{program} }},
		"other operators":        {a, nonce, func(p *attestation.Policy) { p.Operators = other.named }},
		"no operators":           {a, nonce, func(p *attestation.Policy) { p.Operators = attestation.Operators{} }},
		"a debug image":          {a, nonce, func(p *attestation.Policy) { p.AllowDebug = true }},
		"any image":              {a, nonce, func(p *attestation.Policy) { p.AllowUnpinned = true }},
		"any manifest":           {a, nonce, func(p *attestation.Policy) { p.ForeignManifest = true }},
		"an old one":             {a, nonce, func(p *attestation.Policy) { p.Now, p.MaxBootAge = time.Now().Add(time.Hour), time.Minute }},
		"no document":            {attestation.SetupAnswer{Envelope: a.Envelope}, nonce, nil},
		"no envelope":            {attestation.SetupAnswer{Document: a.Document}, nonce, nil},
		"a predecessor too many": {attestation.SetupAnswer{Document: a.Document, Envelope: a.Envelope, Predecessor: base64.StdEncoding.EncodeToString([]byte("{}"))}, nonce, nil},
	} {
		p := w.policy()
		if c.change != nil {
			c.change(&p)
		}
		if _, err := attestation.VerifySetup(c.a, c.nonce, p); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, nonce := range map[string]string{"none": "", "short": "01", "capitals": strings.Repeat("AB", 32), "no hex": strings.Repeat("zz", 32)} {
		if _, refusal := e.ask("setup_document", map[string]string{"nonce": nonce}); refusal == "" {
			t.Errorf("a document for a nonce that is %s", name)
		}
	}
	// A boot proof's document is none of a setup: it has other registers and no nonce.
	e.give(0, 1)
	e.wants("serving")
	if _, refusal := e.ask("setup_document", map[string]string{"nonce": strings.Repeat("01", 32)}); !strings.Contains(refusal, "BOOT_NOT_WAITING") {
		t.Errorf("a setup document of an enclave that serves: %q", refusal)
	}
}

func TestSetupDocumentsAreBounded(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 2)
	e := w.waiting()
	defer e.stop()
	ask := func(n int) string {
		_, refusal := e.ask("setup_document", map[string]string{"nonce": hex.EncodeToString(append(make([]byte, 30), byte(n>>8), byte(n)))})
		return refusal
	}
	for n := range 256 {
		if refusal := ask(n); refusal != "" {
			t.Fatal(refusal)
		}
	}
	if refusal := ask(256); !strings.HasPrefix(refusal, "429") {
		t.Errorf("without a bound: %q", refusal)
	}
	w.ahead.Store(int64(10 * time.Minute))
	if refusal := ask(256); refusal != "" {
		t.Errorf("old ones are not forgotten: %s", refusal)
	}
}

// An image whose measurements are zero shows its console to its parent.
func TestDebugImage(t *testing.T) {
	w := newWorld(t, newRoot(t), 2, 2)
	e := w.startWith(func(c *core.Config) {
		device, err := nsm.New(nsm.Config{Root: w.root, Now: w.Now, Rand: rand.Reader}) // PCR 0 to 2 are zero
		must(t, err)
		c.Device, c.Simulator = device, false
	})
	defer e.stop()
	m := *w.manifest
	m.Kind = attestation.KindNitro
	zero := strings.Repeat("00", 48)
	m.PCRs = attestation.Measurements{PCR0: zero, PCR1: zero, PCR2: zero}
	for op, body := range map[string]any{"manifest": submission(t, &m, nil, w.operators), "genesis": map[string]any{"operators": w.named}} {
		if _, refusal := e.ask(op, body); !strings.Contains(refusal, "BOOT_DEBUG_IMAGE") {
			t.Errorf("%s: %q", op, refusal)
		}
	}
	e.wants("hello")
}
