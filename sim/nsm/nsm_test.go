package nsm_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hf/nitrite"

	"cloister/attestation"
	"cloister/attestation/commitment"
	"cloister/sim/nsm"
)

// device is what the enclave needs of a security module.
type device interface {
	Attest(publicKey, userData, nonce []byte) ([]byte, error)
	ExtendPCR(index int, data []byte) ([]byte, error)
	DescribePCR(index int) (value []byte, locked bool, err error)
	LockPCRs(upTo int) error
	Random(p []byte) error
	Now() time.Time
}

var _ device = (*nsm.Device)(nil)

// clock is moved by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time      { c.mu.Lock(); defer c.mu.Unlock(); return c.at }
func (c *clock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

// stream is a fixed stream of bytes, different for each seed.
type stream struct {
	block [32]byte
	left  []byte
}

func (s *stream) Read(p []byte) (int, error) {
	for i := range p {
		if len(s.left) == 0 {
			s.block = sha256.Sum256(s.block[:])
			s.left = s.block[:]
		}
		p[i], s.left = s.left[0], s.left[1:]
	}
	return len(p), nil
}

func measured() (p [3][48]byte) {
	for i := range p {
		p[i] = sha512.Sum384([]byte{byte(i)})
	}
	return p
}

func setup(t testing.TB) (*nsm.Device, *nsm.Root, *clock) {
	c := &clock{at: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	random := &stream{block: [32]byte{1}}
	root, err := nsm.NewRoot(random, c.now())
	must(t, err)
	d, err := nsm.New(nsm.Config{Root: root, Now: c.now, Rand: random, PCRs: measured()})
	must(t, err)
	return d, root, c
}

func TestDocumentsVerify(t *testing.T) {
	d, root, c := setup(t)
	must(t, d.LockPCRs(32))
	raw, err := d.Attest([]byte("key"), []byte("user"), []byte("nonce"))
	must(t, err)
	if !bytes.HasPrefix(raw, []byte{0x84, 0x44, 0xa1, 0x01, 0x38, 0x22, 0xa0, 0x59}) {
		t.Errorf("begins with %x", raw[:8])
	}
	t.Logf("document of %d bytes", len(raw))
	doc, err := attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: root.PEM()})
	must(t, err)
	m := measured()
	if !doc.Time.Equal(c.now()) || len(doc.PCRs) != 32 || doc.PCRs[0] != m[0] || doc.PCRs[2] != m[2] ||
		string(doc.PublicKey) != "key" || string(doc.UserData) != "user" || string(doc.Nonce) != "nonce" || !doc.Simulator {
		t.Errorf("read %+v", doc)
	}

	// The published library agrees, and sees five levels.
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(root.PEM()))
	res, err := nitrite.Verify(raw, nitrite.VerifyOptions{Roots: pool, CurrentTime: c.now()})
	must(t, err)
	if len(res.Certificates) != 5 {
		t.Errorf("%d certificates", len(res.Certificates))
	}
	for i, cert := range res.Certificates {
		leaf := i == 0
		if cert.IsCA == leaf || cert.KeyUsage&x509.KeyUsageCertSign != 0 == leaf || !cert.BasicConstraintsValid {
			t.Errorf("certificate %d: CA %v, usage %v", i, cert.IsCA, cert.KeyUsage)
		}
	}
	if life := res.Certificates[0].NotAfter.Sub(c.now()); life != 3*time.Hour {
		t.Errorf("leaf lives %v", life)
	}

	raw, err = d.Attest(nil, nil, []byte{})
	must(t, err)
	doc, err = attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: root.PEM()})
	must(t, err)
	if doc.PublicKey != nil || doc.UserData != nil || doc.Nonce != nil {
		t.Error("absent fields are not null")
	}
}

// Nobody believes the simulator by accident.
func TestOtherRootsRefuse(t *testing.T) {
	d, _, c := setup(t)
	other, err := nsm.NewRoot(rand.Reader, c.now())
	must(t, err)
	raw, err := d.Attest(nil, nil, nil)
	must(t, err)
	for name, p := range map[string]attestation.Policy{"AWS": {}, "another simulator": {SimulatorRootPEM: other.PEM()}} {
		if _, err := attestation.VerifyDocument(raw, p); err == nil {
			t.Errorf("%s root believes it", name)
		}
	}
}

// An enclave's way to its boot proof, under the simulator.
func TestBootCommitment(t *testing.T) {
	d, root, _ := setup(t)
	manifest := []byte("any manifest")
	hash := attestation.Hash(manifest)
	key := hex.EncodeToString(bytes.Repeat([]byte{4}, 130))
	ext := commitment.Live(key, hash)
	got, err := d.ExtendPCR(commitment.LivePCR, ext[:])
	must(t, err)
	want := commitment.LiveRegister(key, hash)
	if !bytes.Equal(got, want[:]) {
		t.Fatalf("PCR17 is %x, want %x", got, want)
	}
	must(t, d.LockPCRs(32))
	raw, err := d.Attest(nil, hash[:], nil)
	must(t, err)
	doc, err := attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: root.PEM()})
	must(t, err)
	if doc.PCRs[17] != want {
		t.Error("the document does not hold the commitment")
	}
}

func TestRegisters(t *testing.T) {
	d, root, _ := setup(t)
	wantErr := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	extend := func(i int, data []byte) error { _, err := d.ExtendPCR(i, data); return err }
	describe := func(i int) error { _, _, err := d.DescribePCR(i); return err }

	one, err := d.ExtendPCR(16, []byte("a"))
	must(t, err)
	if want := sha512.Sum384(append(make([]byte, 48), 'a')); !bytes.Equal(one, want[:]) {
		t.Error("extension from zero is wrong")
	}
	two, err := d.ExtendPCR(16, []byte("b"))
	must(t, err)
	if want := sha512.Sum384(append(bytes.Clone(one), 'b')); !bytes.Equal(two, want[:]) {
		t.Error("second extension is wrong")
	}
	must(t, d.LockPCR(16))
	wantErr("extend locked", extend(16, []byte("c")), nsm.ErrReadOnlyIndex)
	wantErr("lock locked", d.LockPCR(16), nsm.ErrReadOnlyIndex)
	value, locked, err := d.DescribePCR(16)
	must(t, err)
	if !locked || !bytes.Equal(value, two) {
		t.Error("a locked register changed")
	}
	value[0] ^= 1 // the caller's copy
	if again, _, _ := d.DescribePCR(16); !bytes.Equal(again, two) {
		t.Error("a caller can write registers")
	}
	for i := range 16 {
		wantErr("extend of a register locked at start", extend(i, []byte("x")), nsm.ErrReadOnlyIndex)
	}
	for _, i := range []int{-1, 32, 1 << 40} {
		wantErr("extend", extend(i, []byte("x")), nsm.ErrInvalidIndex)
		wantErr("describe", describe(i), nsm.ErrInvalidIndex)
		wantErr("lock", d.LockPCR(i), nsm.ErrInvalidIndex)
	}
	wantErr("extend by nothing", extend(17, nil), nsm.ErrInvalidArgument)
	wantErr("extend by much", extend(17, make([]byte, 513)), nsm.ErrInputTooLarge)
	wantErr("lock up to 33", d.LockPCRs(33), nsm.ErrInvalidIndex)
	wantErr("lock up to -1", d.LockPCRs(-1), nsm.ErrInvalidIndex)

	pcrs := func() int {
		raw, err := d.Attest(nil, nil, nil)
		must(t, err)
		doc, err := attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: root.PEM()})
		must(t, err)
		return len(doc.PCRs)
	}
	if n := pcrs(); n != 17 {
		t.Errorf("%d registers attested, want the 17 locked", n)
	}
	must(t, d.LockPCRs(32))
	must(t, d.LockPCRs(32)) // again changes nothing
	wantErr("extend after locking all", extend(17, []byte("x")), nsm.ErrReadOnlyIndex)
	if n := pcrs(); n != 32 {
		t.Errorf("%d registers attested, want 32", n)
	}
}

func TestInputLimits(t *testing.T) {
	d, root, _ := setup(t)
	for name, f := range map[string][3]int{"key": {1025, 0, 0}, "user data": {0, 513, 0}, "nonce": {0, 0, 513}} {
		if _, err := d.Attest(make([]byte, f[0]), make([]byte, f[1]), make([]byte, f[2])); !errors.Is(err, nsm.ErrInputTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, d.LockPCRs(32))
	raw, err := d.Attest(make([]byte, 1024), make([]byte, 512), make([]byte, 512))
	must(t, err)
	if _, err := attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: root.PEM()}); err != nil {
		t.Errorf("the largest document (%d bytes): %v", len(raw), err)
	}
}

// The leaf is made anew when its three hours end, the levels above when theirs
// do, and each document verifies at its own time for ever.
func TestRenewal(t *testing.T) {
	d, root, c := setup(t)
	must(t, d.LockPCRs(32))
	leaves, instances := map[string]bool{}, map[string]bool{}
	var kept [][]byte
	for range 40 { // ten days, in steps of six hours and a half
		raw, err := d.Attest(nil, nil, nil)
		must(t, err)
		again, err := d.Attest(nil, nil, nil)
		must(t, err)
		if !bytes.Equal(raw, again) {
			t.Fatal("two documents of one moment differ: the leaf was made twice")
		}
		kept = append(kept, raw)
		certs := certificates(t, root, raw, c.now())
		leaves[string(certs[0].Raw)] = true
		instances[string(certs[4].Raw)] = true
		c.add(390 * time.Minute)
	}
	if len(leaves) != 40 || len(instances) < 10 || len(instances) > 20 {
		t.Errorf("%d leaves and %d instance certificates", len(leaves), len(instances))
	}
	c.add(5 * 365 * 24 * time.Hour)
	for i, raw := range kept {
		if _, err := attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: root.PEM(), Now: c.now()}); err != nil {
			t.Errorf("document %d, years later: %v", i, err)
		}
	}
}

func TestLeafKeptWithinItsLife(t *testing.T) {
	d, root, c := setup(t)
	leaf := func() string {
		raw, err := d.Attest(nil, nil, nil)
		must(t, err)
		return string(certificates(t, root, raw, c.now())[0].Raw)
	}
	first := leaf()
	c.add(2*time.Hour + 54*time.Minute)
	if leaf() != first {
		t.Error("a leaf was replaced too early")
	}
	c.add(2 * time.Minute)
	second := leaf()
	if second == first {
		t.Error("a leaf near its end was kept")
	}
	c.add(-24 * time.Hour)
	if leaf() == second {
		t.Error("a leaf of the future was used after the clock went back")
	}
	for _, far := range []time.Duration{-2 * 365 * 24 * time.Hour, 40 * 365 * 24 * time.Hour} {
		c.add(far)
		if _, err := d.Attest(nil, nil, nil); err == nil {
			t.Error("attested outside the root's validity")
		}
		c.add(-far)
	}
}

func certificates(t *testing.T, root *nsm.Root, raw []byte, at time.Time) []*x509.Certificate {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(root.PEM()))
	res, err := nitrite.Verify(raw, nitrite.VerifyOptions{Roots: pool, CurrentTime: at})
	must(t, err)
	return res.Certificates
}

func TestRootIsKept(t *testing.T) {
	d, root, c := setup(t)
	old, err := d.Attest(nil, nil, nil)
	must(t, err)
	stored, err := root.Marshal()
	must(t, err)
	back, err := nsm.ParseRoot(stored)
	must(t, err)
	if back.PEM() != root.PEM() {
		t.Fatal("another root was read back")
	}
	second, err := nsm.New(nsm.Config{Root: back, Now: c.now, Rand: rand.Reader, PCRs: measured(), ModuleID: "i-1-enc1"})
	must(t, err)
	fresh, err := second.Attest(nil, nil, nil)
	must(t, err)
	for _, raw := range [][]byte{old, fresh} {
		if _, err := attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: root.PEM()}); err != nil {
			t.Error(err)
		}
	}
	other, err := nsm.NewRoot(rand.Reader, c.now())
	must(t, err)
	foreign, err := other.Marshal()
	must(t, err)
	_, foreignKey := pem.Decode(foreign)
	for name, bad := range map[string][]byte{
		"nothing":             nil,
		"certificate only":    []byte(root.PEM()),
		"key of another root": append([]byte(root.PEM()), foreignKey...),
		"trailing bytes":      append(bytes.Clone(stored), '\n', 'x'),
		"cut":                 stored[:len(stored)-40],
		"key first":           append(bytes.Clone(foreignKey), []byte(root.PEM())...),
		"too long":            append(bytes.Repeat([]byte("x"), 1<<14), stored...),
		"broken certificate":  bytes.Replace(stored, []byte("MII"), []byte("AAA"), 1),
	} {
		if _, err := nsm.ParseRoot(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The same randomness and clock give the same bytes; the enclave's tests need it.
func TestDeterminism(t *testing.T) {
	document := func() []byte {
		d, _, _ := setup(t)
		raw, err := d.Attest([]byte("k"), nil, nil)
		must(t, err)
		return raw
	}
	if !bytes.Equal(document(), document()) {
		t.Error("two devices from the same bytes differ")
	}
}

func TestRandomAndFailingRandomness(t *testing.T) {
	d, root, c := setup(t)
	a, b := make([]byte, 300), make([]byte, 300)
	must(t, d.Random(a))
	must(t, d.Random(b))
	if bytes.Equal(a, b) || bytes.Equal(a, make([]byte, 300)) {
		t.Error("randomness repeats")
	}
	dry, err := nsm.New(nsm.Config{Root: root, Now: c.now, Rand: bytes.NewReader(make([]byte, 20)), PCRs: measured()})
	must(t, err)
	if err := dry.Random(a); err == nil {
		t.Error("randomness that ended was taken")
	}
	if _, err := dry.Attest(nil, nil, nil); err == nil {
		t.Error("attested without randomness for keys")
	}
	zeros, err := nsm.New(nsm.Config{Root: root, Now: c.now, Rand: zero{}, PCRs: measured()})
	must(t, err)
	if _, err := zeros.Attest(nil, nil, nil); err == nil {
		t.Error("a key was made from zeros")
	}
	for name, cfg := range map[string]nsm.Config{
		"root":      {Now: c.now, Rand: rand.Reader},
		"clock":     {Root: root, Rand: rand.Reader},
		"random":    {Root: root, Now: c.now},
		"module id": {Root: root, Now: c.now, Rand: rand.Reader, ModuleID: string(make([]byte, 256))},
	} {
		if _, err := nsm.New(cfg); err == nil {
			t.Errorf("made without a proper %s", name)
		}
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestManyAtOnce(t *testing.T) {
	d, root, c := setup(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5 {
				raw, err := d.Attest([]byte{byte(i)}, nil, nil)
				if err == nil {
					_, err = attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: root.PEM()})
				}
				if err != nil {
					t.Error(err)
				}
				_, _ = d.ExtendPCR(16+i, []byte("x"))
				_ = d.Random(make([]byte, 8))
				c.add(time.Hour)
			}
		})
	}
	wg.Wait()
}

func FuzzParseRoot(f *testing.F) {
	root, err := nsm.NewRoot(&stream{block: [32]byte{2}}, time.Unix(1_780_000_000, 0))
	must(f, err)
	stored, err := root.Marshal()
	must(f, err)
	f.Add(stored)
	f.Add([]byte(root.PEM()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := nsm.ParseRoot(raw); (r == nil) == (err == nil) {
			t.Fatal("result and error do not exclude each other")
		}
	})
}

func BenchmarkAttest(b *testing.B) {
	d, _, _ := setup(b)
	must(b, d.LockPCRs(32))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Attest(make([]byte, 130), make([]byte, 32), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
