package attestation_test

import (
	"bytes"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/hf/nitrite"

	"cloister/attestation"
)

func TestAWSRootIsPinned(t *testing.T) {
	if !attestation.IsAWSRoot() {
		t.Fatal("the root that comes with the dependency is not the pinned one")
	}
}

func TestDocumentAccepted(t *testing.T) {
	m := newMaker(t)
	raw := m.document(func(d *doc) { d.Nonce = []byte("nonce") })
	for name, in := range map[string][]byte{"as the module writes it": raw, "with tag 18": append([]byte{0xd2}, raw...)} {
		d, err := attestation.VerifyDocument(in, attestation.Policy{SimulatorRootPEM: m.rootPEM()})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		hash := attestation.Hash(m.manifest)
		if !d.Time.Equal(m.now) || len(d.PCRs) != 32 || hex.EncodeToString(d.PublicKey) != m.liveHex || d.Debug || !d.Simulator ||
			!bytes.Equal(d.UserData, hash[:]) || string(d.Nonce) != "nonce" || d.ModuleID != "i-0-enc0" {
			t.Fatalf("%s: read %+v", name, d)
		}
	}
}

// Each of these is signed properly and under the right root.
func TestSignedDocumentsRefused(t *testing.T) {
	m := newMaker(t)
	cases := map[string]func(*doc){
		"no module id":           func(d *doc) { d.ModuleID = "" },
		"long module id":         func(d *doc) { d.ModuleID = strings.Repeat("i", 256) },
		"digest SHA256":          func(d *doc) { d.Digest = "SHA256" },
		"no timestamp":           func(d *doc) { d.Timestamp = 0 },
		"timestamp out of range": func(d *doc) { d.Timestamp = 1 << 60 },
		"timestamp before leaf":  func(d *doc) { d.Timestamp -= 2 * 3600 * 1000 },
		"timestamp after leaf":   func(d *doc) { d.Timestamp += 4 * 3600 * 1000 },
		"no PCRs":                func(d *doc) { d.PCRs = nil },
		"PCR of 32 bytes":        func(d *doc) { d.PCRs[4] = make([]byte, 32) },
		"PCR of 64 bytes":        func(d *doc) { d.PCRs[4] = make([]byte, 64) },
		"all PCRs of 32 bytes":   func(d *doc) { d.PCRs = map[uint64][]byte{0: bytes.Repeat([]byte{1}, 32)} },
		"PCR 4 only":             func(d *doc) { d.PCRs = map[uint64][]byte{4: make([]byte, 48)} },
		"no PCR 2":               func(d *doc) { delete(d.PCRs, 2) },
		"PCR index 32":           func(d *doc) { d.PCRs[32] = d.PCRs[31]; delete(d.PCRs, 31) },
		"33 PCRs":                func(d *doc) { d.PCRs[32] = d.PCRs[31] },
		"debug mode":             func(d *doc) { d.PCRs[0], d.PCRs[1], d.PCRs[2] = d.PCRs[31], d.PCRs[31], d.PCRs[31] },
		"PCR 0 zero":             func(d *doc) { d.PCRs[0] = d.PCRs[31] },
		"PCR 1 zero":             func(d *doc) { d.PCRs[1] = d.PCRs[31] },
		"PCR 2 zero":             func(d *doc) { d.PCRs[2] = d.PCRs[31] },
		"empty cabundle":         func(d *doc) { d.CABundle = nil },
		"empty bundle item":      func(d *doc) { d.CABundle[1] = nil },
		"missing intermediate":   func(d *doc) { d.CABundle = append(d.CABundle[:2:2], d.CABundle[3]) },
		"bundle of nine":         func(d *doc) { d.CABundle = append(d.CABundle, m.bundle...); d.CABundle = append(d.CABundle, m.leaf) },
		"no certificate":         func(d *doc) { d.Certificate = nil },
		"an authority as leaf":   func(d *doc) { d.Certificate = d.CABundle[3] },
		"certificate of 1025":    func(d *doc) { d.Certificate = make([]byte, 1025) },
		"garbage certificate":    func(d *doc) { d.Certificate = d.Certificate[:100] },
		"public key of 1025":     func(d *doc) { d.PublicKey = make([]byte, 1025) },
		"user data of 513":       func(d *doc) { d.UserData = make([]byte, 513) },
		"nonce of 513":           func(d *doc) { d.Nonce = make([]byte, 513) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := attestation.VerifyDocument(m.document(change), attestation.Policy{SimulatorRootPEM: m.rootPEM()})
			refused(t, err, name)
		})
	}
}

func TestDocumentFormRefused(t *testing.T) {
	m := newMaker(t)
	prot := []byte{0xa1, 0x01, 0x38, 0x22}
	payload := m.payload(nil)
	sig := m.signature(prot, payload)
	good := m.sign(payload)
	text384, _ := cbor.Marshal(map[int]string{1: "ES384"})
	es256 := []byte{0xa1, 0x01, 0x26}
	pair := func(name string, v any) []byte {
		k, _ := cbor.Marshal(name)
		b, _ := cbor.Marshal(v)
		more := append(append(append([]byte{}, payload...), k...), b...)
		more[0]++
		return m.sign(more)
	}
	// 31 PCRs and once more index 0, in its long form.
	short := m.payload(func(d *doc) { delete(d.PCRs, 31) })
	at := bytes.Index(short, []byte("dpcrs")) + 5
	if short[at] != 0xb8 || short[at+1] != 31 {
		t.Fatal("the map of PCRs is not where it was")
	}
	twice := append(append(append([]byte{}, short[:at]...), 0xb8, 32, 0x18, 0x00, 0x58, 48), bytes.Repeat([]byte{0xa0}, 48)...)
	twice = append(twice, short[at+2:]...)

	cases := map[string][]byte{
		"empty":                          {},
		"too long":                       make([]byte, attestation.MaxDocument+1),
		"a trailing byte":                append(append([]byte{}, good...), 0),
		"cut":                            good[:len(good)-1],
		"tag 17":                         append([]byte{0xd1}, good...),
		"tag 18 twice":                   append([]byte{0xd2, 0xd2}, good...),
		"array of three":                 append([]byte{0x83}, good[1:]...),
		"indefinite array":               append(append([]byte{0x9f}, good[1:]...), 0xff),
		"algorithm as text":              m.wrap(text384, map[int]int{}, payload, m.signature(text384, payload)),
		"algorithm ES256":                m.wrap(es256, map[int]int{}, payload, m.signature(es256, payload)),
		"unprotected header with an alg": m.wrap(prot, map[int]int{1: -35}, payload, sig),
		"unprotected header as an array": m.wrap(prot, []int{}, payload, sig),
		"signature of 95 bytes":          m.wrap(prot, map[int]int{}, payload, sig[:95]),
		"signature of zeros":             m.wrap(prot, map[int]int{}, payload, make([]byte, 96)),
		"signature of another payload":   m.wrap(prot, map[int]int{}, m.payload(func(d *doc) { d.Timestamp++ }), sig),
		"user_data twice":                pair("user_data", []byte("other")),
		"unknown member":                 pair("comment", "x"),
		"member in other case":           pair("User_Data", []byte("other")),
		"PCR 0 twice, long index":        m.sign(twice),
	}
	for name, raw := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: m.rootPEM()})
			refused(t, err, name)
		})
	}
	// The control: the library alone takes a member twice.
	pool := x509.NewCertPool()
	pool.AddCert(m.root)
	if _, err := nitrite.Verify(pair("user_data", []byte("other")), nitrite.VerifyOptions{Roots: pool, CurrentTime: m.now}); err != nil {
		t.Fatalf("the double member is refused for another reason: %v", err)
	}
}

// A leaf on P-521 makes the library panic; nobody may do that to a verifier.
func TestLeafOnOtherCurves(t *testing.T) {
	for name, c := range map[string]elliptic.Curve{"P-521": elliptic.P521(), "P-256": elliptic.P256(), "P-224": elliptic.P224()} {
		m := newMakerOn(t, c, x509.KeyUsageDigitalSignature)
		prot := []byte{0xa1, 0x01, 0x38, 0x22}
		raw := m.wrap(prot, map[int]int{}, m.payload(nil), make([]byte, 96))
		_, err := attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: m.rootPEM()})
		refused(t, err, name)
		if c == elliptic.P521() && !panics(func() { _, _ = nitrite.Verify(raw, nitrite.VerifyOptions{CurrentTime: m.now}) }) {
			t.Fatal("the library no longer panics; this test shows nothing")
		}
	}
	m := newMakerOn(t, elliptic.P384(), x509.KeyUsageKeyEncipherment)
	_, err := attestation.VerifyDocument(m.document(nil), attestation.Policy{SimulatorRootPEM: m.rootPEM()})
	refused(t, err, "leaf that is not for signatures")
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestPanicsBecomeErrors(t *testing.T) {
	refused(t, attestation.Guarded(func() error { panic("anything") }), "panic")
	must(t, attestation.Guarded(func() error { return nil }))
}

func TestRoots(t *testing.T) {
	m, other := newMaker(t), newMaker(t)
	raw := m.document(nil)
	leafPEM := newMaker(t)
	leafPEM.root, _ = x509.ParseCertificate(leafPEM.bundle[1])
	cases := map[string]attestation.Policy{
		"AWS root":              {},
		"another root":          {SimulatorRootPEM: other.rootPEM()},
		"AWS root as simulator": {SimulatorRootPEM: nitrite.DefaultCARoots},
		"two roots":             {SimulatorRootPEM: m.rootPEM() + other.rootPEM()},
		"text":                  {SimulatorRootPEM: "root"},
		"long text":             {SimulatorRootPEM: strings.Repeat("-", 10_000)},
		"an intermediate":       {SimulatorRootPEM: leafPEM.rootPEM()},
	}
	for name, p := range cases {
		d, err := attestation.VerifyDocument(raw, p)
		refused(t, err, name)
		if d != nil {
			t.Fatalf("%s: a result beside the error", name)
		}
	}
	// The control: the library does hand out a result for a foreign chain.
	if r, err := nitrite.Verify(raw, nitrite.VerifyOptions{CurrentTime: m.now}); err == nil || r == nil || !r.SignatureOK {
		t.Fatal("the library's result beside its error is gone; this test shows less")
	}
}

func TestDocumentPolicy(t *testing.T) {
	m := newMaker(t)
	raw := m.document(nil)
	debug := m.document(func(d *doc) { d.PCRs[0], d.PCRs[1], d.PCRs[2] = d.PCRs[31], d.PCRs[31], d.PCRs[31] })
	base := attestation.Policy{SimulatorRootPEM: m.rootPEM()}
	with := func(f func(*attestation.Policy)) attestation.Policy { p := base; f(&p); return p }

	accepted := map[string]attestation.Policy{
		"expected PCRs": m.policy(),
		"young":         with(func(p *attestation.Policy) { p.Now, p.MaxBootAge = m.now.Add(time.Hour), 2*time.Hour }),
		"years later":   with(func(p *attestation.Policy) { p.Now = m.now.AddDate(5, 0, 0) }),
	}
	for name, p := range accepted {
		if _, err := attestation.VerifyDocument(raw, p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]attestation.Policy{
		"other PCR 1":     with(func(p *attestation.Policy) { p.ExpectedPCRs = map[int]string{1: hexOf(1, 48)} }),
		"absent PCR":      with(func(p *attestation.Policy) { p.ExpectedPCRs = map[int]string{32: hexOf(0, 48)} }),
		"PCR upper case":  with(func(p *attestation.Policy) { p.ExpectedPCRs = map[int]string{0: strings.ToUpper(hexOf(0xa0, 48))} }),
		"PCR too short":   with(func(p *attestation.Policy) { p.ExpectedPCRs = map[int]string{0: hexOf(0xa0, 47)} }),
		"too old":         with(func(p *attestation.Policy) { p.Now, p.MaxBootAge = m.now.Add(3*time.Hour), 2*time.Hour }),
		"future":          with(func(p *attestation.Policy) { p.Now = m.now.Add(-time.Hour) }),
		"age without now": with(func(p *attestation.Policy) { p.MaxBootAge = time.Hour }),
	} {
		_, err := attestation.VerifyDocument(raw, p)
		refused(t, err, name)
	}
	_, err := attestation.VerifyDocument(debug, base)
	refused(t, err, "debug image")
	p := base
	p.AllowDebug = true
	d, err := attestation.VerifyDocument(debug, p)
	must(t, err)
	if !d.Debug {
		t.Fatal("debug image is not marked")
	}
	_, err = attestation.VerifyDocument(m.document(func(d *doc) { d.PCRs[0] = d.PCRs[31] }), p)
	refused(t, err, "only PCR 0 zero, with AllowDebug")
}

func FuzzDocument(f *testing.F) {
	m := newMaker(f)
	f.Add(m.document(nil))
	f.Add(append([]byte{0xd2}, m.document(func(d *doc) { d.PCRs = map[uint64][]byte{0: make([]byte, 48)} })...))
	f.Add([]byte{0x84, 0x44, 0xa1, 0x01, 0x38, 0x22, 0xa0})
	p := attestation.Policy{SimulatorRootPEM: m.rootPEM()}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := attestation.VerifyDocument(raw, p)
		if (d == nil) == (err == nil) {
			t.Fatal("result and error do not exclude each other")
		}
		if err == nil && (d.Debug || len(d.PCRs) < 3) {
			t.Fatal("accepted a weak document")
		}
	})
}

func BenchmarkVerifyDocument(b *testing.B) {
	m := newMaker(b)
	raw, p := m.document(nil), m.policy()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := attestation.VerifyDocument(raw, p); err != nil {
			b.Fatal(err)
		}
	}
}
