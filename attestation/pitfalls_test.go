package attestation_test

import (
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hf/nitrite"

	"cloister/attestation"
)

// What the library underneath takes and we do not. Each has a control, which shows
// that the library does take it: once that fails, the pitfall is gone.
func (m *maker) takenByLibrary(raw []byte) bool {
	pool := x509.NewCertPool()
	pool.AddCert(m.root)
	r, err := nitrite.Verify(raw, nitrite.VerifyOptions{Roots: pool, CurrentTime: m.now})
	return err == nil && r.SignatureOK
}

func TestWhatTheLibraryTakes(t *testing.T) {
	m := newMaker(t)
	prot := []byte{0xa1, 0x01, 0x38, 0x22}
	payload := m.payload(nil)
	for name, raw := range map[string][]byte{
		"zero measurements":      m.document(func(d *doc) { d.PCRs[0], d.PCRs[1], d.PCRs[2] = d.PCRs[31], d.PCRs[31], d.PCRs[31] }),
		"zero PCR 0":             m.document(func(d *doc) { d.PCRs[0] = d.PCRs[31] }),
		"a PCR of 32 bytes":      m.document(func(d *doc) { d.PCRs[7] = make([]byte, 32) }),
		"one PCR only, of 32":    m.document(func(d *doc) { d.PCRs = map[uint64][]byte{3: make([]byte, 32)} }),
		"one PCR only":           m.document(func(d *doc) { d.PCRs = map[uint64][]byte{3: make([]byte, 48)} }),
		"no PCR 0":               m.document(func(d *doc) { delete(d.PCRs, 0) }),
		"an unprotected header":  m.wrap(prot, map[int]string{4: "attacker's"}, payload, m.signature(prot, payload)),
		"an unprotected payload": m.wrap(prot, map[string][]byte{"payload": m.payload(func(d *doc) { d.UserData = nil })}, payload, m.signature(prot, payload)),
	} {
		t.Run(name, func(t *testing.T) {
			if !m.takenByLibrary(raw) {
				t.Error("the library refuses it now: this test shows nothing")
			}
			_, err := attestation.VerifyDocument(raw, attestation.Policy{SimulatorRootPEM: m.rootPEM()})
			refused(t, err, name)
		})
	}
}

// A document's age is nothing to the library: ours bounds it where it is asked to,
// on both sides.
func TestDocumentAge(t *testing.T) {
	m := newMaker(t)
	raw := m.document(nil)
	for at, ok := range map[time.Duration]bool{
		-100 * 24 * time.Hour: false, -attestation.Skew - time.Second: false, -attestation.Skew: true, 0: true, time.Hour: true, time.Hour + time.Second: false, 100 * 24 * time.Hour: false,
	} {
		p := attestation.Policy{SimulatorRootPEM: m.rootPEM(), Now: m.now.Add(at), MaxBootAge: time.Hour}
		if _, err := attestation.VerifyDocument(raw, p); (err == nil) != ok {
			t.Errorf("looked at %v later: %v", at, err)
		}
	}
}

// TestDocumentIsMalleable: one document has many spellings that all hold, so bytes
// of a document name nothing; what it says is the same.
func TestDocumentIsMalleable(t *testing.T) {
	m := newMaker(t)
	payload := m.payload(nil)
	prot := []byte{0xa1, 0x01, 0x38, 0x22}
	sig := m.signature(prot, payload)
	twin := append([]byte{}, sig...)
	new(big.Int).Sub(elliptic.P384().Params().N, new(big.Int).SetBytes(sig[48:])).FillBytes(twin[48:])
	p := attestation.Policy{SimulatorRootPEM: m.rootPEM(), Chains: new(attestation.Chains)}
	plain := m.wrap(prot, map[int]int{}, payload, sig)
	var seen []*attestation.Document
	for name, raw := range map[string][]byte{"plain": plain, "tagged": append([]byte{0xd2}, plain...), "twin": m.wrap(prot, map[int]int{}, payload, twin), "signed anew": m.sign(payload)} {
		d, err := attestation.VerifyDocument(raw, p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		seen = append(seen, d)
	}
	for _, d := range seen {
		if d.ModuleID != seen[0].ModuleID || !d.Time.Equal(seen[0].Time) || d.PCRs[17] != seen[0].PCRs[17] || string(d.PublicKey) != string(seen[0].PublicKey) {
			t.Error("the spellings say different things")
		}
	}
}

// TestChainsOfOtherShapes: authorities that are none, or of another curve.
func TestChainsOfOtherShapes(t *testing.T) {
	type link struct {
		curve elliptic.Curve
		usage x509.KeyUsage
	}
	authority := link{elliptic.P384(), x509.KeyUsageCertSign}
	for name, c := range map[string]struct {
		links []link
		ok    bool
	}{
		"as the module has it":         {[]link{authority, authority, authority}, true},
		"a shorter one":                {[]link{authority}, true},
		"a leaf in between":            {[]link{authority, {elliptic.P384(), x509.KeyUsageDigitalSignature}}, false},
		"an authority that signs none": {[]link{authority, {elliptic.P384(), 0}}, false},
		"an authority on P-256":        {[]link{authority, {elliptic.P256(), x509.KeyUsageCertSign}}, false},
		"an authority on P-521":        {[]link{{elliptic.P521(), x509.KeyUsageCertSign}, authority}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMaker(t)
			parent, key := m.issue("root", nil, nil, elliptic.P384(), x509.KeyUsageCertSign, time.Hour)
			m.root, m.bundle = parent, [][]byte{parent.Raw}
			for _, l := range c.links {
				parent, key = m.issue("authority", parent, key, l.curve, l.usage, time.Hour)
				m.bundle = append(m.bundle, parent.Raw)
			}
			leaf, leafKey := m.issue("leaf", parent, key, elliptic.P384(), x509.KeyUsageDigitalSignature, time.Hour)
			m.leaf, m.leafKey = leaf.Raw, leafKey
			_, err := attestation.VerifyDocument(m.document(nil), attestation.Policy{SimulatorRootPEM: m.rootPEM()})
			if (err == nil) != c.ok {
				t.Error(err)
			}
		})
	}
}

// Who runs the image, and who signed it, can be pinned beside it: the image itself
// anybody can run.
func TestRoleAndSignerArePinned(t *testing.T) {
	m := newMaker(t)
	m.pcrs[3], m.pcrs[8] = append([]byte{3}, make([]byte, 47)...), append([]byte{8}, make([]byte, 47)...)
	for _, i := range []int{3, 4, 8} {
		p := m.policy()
		p.ExpectedPCRs[i] = hex.EncodeToString(m.pcrs[uint64(i)])
		if _, err := attestation.VerifyBootProof(m.bootProof(nil), p); err != nil {
			t.Errorf("PCR%d: %v", i, err)
		}
		p.ExpectedPCRs[i] = hexOf(0xee, 48)
		_, err := attestation.VerifyBootProof(m.bootProof(nil), p)
		refused(t, err, "another role, instance or signer")
		// Pinned alone it is no image.
		_, err = attestation.VerifyBootProof(m.bootProof(nil), attestation.Policy{SimulatorRootPEM: m.rootPEM(), ExpectedPCRs: map[int]string{i: hex.EncodeToString(m.pcrs[uint64(i)])}})
		refused(t, err, "no image pinned")
	}
}

// TestBootProofsForEver: a leaf lives three hours, its proof for ever.
func TestBootProofsForEver(t *testing.T) {
	m := newMaker(t)
	b := m.bootProof(nil)
	for _, years := range []int{0, 1, 7, 25, 100} {
		p := m.policy()
		p.Now = m.now.AddDate(years, 0, 1)
		boot, err := attestation.VerifyBootProof(b, p)
		if err != nil {
			t.Fatalf("%d years on: %v", years, err)
		}
		if _, err := boot.VerifyAppProof(m.appProof(addressClaim())); err != nil {
			t.Errorf("%d years on: %v", years, err)
		}
		if s, sig := m.aReply(); boot.VerifyReply(s, sig) != nil {
			t.Errorf("%d years on: the reply no longer holds", years)
		}
	}
	// Its own time is what its chain is held against, and only that.
	p := m.policy()
	p.Now = m.now.AddDate(7, 0, 0)
	for name, at := range map[string]time.Time{"a document from after its leaf": m.now.Add(4 * time.Hour), "from before it": m.now.Add(-2 * time.Hour), "of today": p.Now} {
		_, err := attestation.VerifyBootProof(m.bootProof(func(d *doc) { d.Timestamp = uint64(at.UnixMilli()) }), p)
		refused(t, err, name)
	}
}

// TestChains: a chain that is remembered lets nothing through that would be refused
// without.
func TestChains(t *testing.T) {
	m, other := newMaker(t), newMaker(t)
	p := attestation.Policy{SimulatorRootPEM: m.rootPEM(), Chains: new(attestation.Chains)}
	for range 3 {
		for _, nonce := range []string{"one", "two"} {
			d, err := attestation.VerifyDocument(m.document(func(d *doc) { d.Nonce = []byte(nonce) }), p)
			if err != nil || string(d.Nonce) != nonce || len(d.PCRs) != 32 {
				t.Fatalf("%+v, %v", d, err)
			}
		}
	}
	good := m.document(nil)
	flipped := append([]byte{}, good...)
	flipped[len(flipped)-1] ^= 1
	prot := []byte{0xa1, 0x01, 0x38, 0x22}
	for name, raw := range map[string][]byte{
		"signature flipped":          flipped,
		"signature of zeros":         m.wrap(prot, map[int]int{}, m.payload(nil), make([]byte, 96)),
		"signed by another leaf":     m.wrap(prot, map[int]int{}, m.payload(nil), other.signature(prot, m.payload(nil))),
		"payload of another":         m.wrap(prot, map[int]int{}, m.payload(func(d *doc) { d.UserData = nil }), m.signature(prot, m.payload(nil))),
		"after the leaf":             m.document(func(d *doc) { d.Timestamp += 4 * 3600 * 1000 }),
		"before the leaf":            m.document(func(d *doc) { d.Timestamp -= 2 * 3600 * 1000 }),
		"the leaf without its chain": m.document(func(d *doc) { d.CABundle = d.CABundle[:1] }),
		"another's chain":            other.document(nil),
		"the leaf, another's chain":  m.document(func(d *doc) { d.CABundle = other.bundle }),
		"zero measurements":          m.document(func(d *doc) { d.PCRs[0] = d.PCRs[31] }),
		"an unprotected header":      m.wrap(prot, map[int]int{4: 1}, m.payload(nil), m.signature(prot, m.payload(nil))),
	} {
		_, err := attestation.VerifyDocument(raw, p)
		refused(t, err, name)
	}
	// The same chain under another root is another.
	p.SimulatorRootPEM = other.rootPEM()
	_, err := attestation.VerifyDocument(good, p)
	refused(t, err, "a chain that led to another root")
	p.SimulatorRootPEM = ""
	_, err = attestation.VerifyDocument(good, p)
	refused(t, err, "a simulator's chain under the AWS root")

	// Many leaves, and many at once.
	p.SimulatorRootPEM = m.rootPEM()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 4 {
				if _, err := attestation.VerifyDocument(good, p); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// A boot proof goes the same way as a document.
func TestBootProofWithPanickingLeaf(t *testing.T) {
	m := newMakerOn(t, elliptic.P521(), x509.KeyUsageDigitalSignature)
	b := newMaker(t).bootProof(nil)
	b.AWSAttestationDocB64 = base64.StdEncoding.EncodeToString(m.wrap([]byte{0xa1, 0x01, 0x38, 0x22}, map[int]int{}, m.payload(nil), make([]byte, 96)))
	_, err := attestation.VerifyBootProof(b, m.policy())
	refused(t, err, "P-521")
	if err != nil && strings.Contains(err.Error(), "broke off") {
		t.Error("the library was asked: the leaf is looked at too late")
	}
}

func BenchmarkVerifyDocumentChainKnown(b *testing.B) {
	m := newMaker(b)
	raw, p := m.document(nil), m.policy()
	p.Chains = new(attestation.Chains)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := attestation.VerifyDocument(raw, p); err != nil {
			b.Fatal(err)
		}
	}
}
