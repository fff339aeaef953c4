package attestation_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"strconv"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"cloister/attestation"
	"cloister/attestation/commitment"
)

// doc is the payload, open for every kind of damage.
type doc struct {
	ModuleID    string            `cbor:"module_id"`
	Digest      string            `cbor:"digest"`
	Timestamp   uint64            `cbor:"timestamp"`
	PCRs        map[uint64][]byte `cbor:"pcrs"`
	Certificate []byte            `cbor:"certificate"`
	CABundle    [][]byte          `cbor:"cabundle"`
	PublicKey   []byte            `cbor:"public_key"`
	UserData    []byte            `cbor:"user_data"`
	Nonce       []byte            `cbor:"nonce"`
}

// A maker is an enclave with its security module, written for these tests: the
// simulator's own stands in another room and is tested there.
type maker struct {
	t        testing.TB
	now      time.Time
	root     *x509.Certificate
	bundle   [][]byte
	leaf     []byte
	leafKey  *ecdsa.PrivateKey
	live     *ecdsa.PrivateKey
	liveHex  string
	manifest []byte
	pcrs     map[uint64][]byte
}

func newMaker(t testing.TB) *maker {
	return newMakerOn(t, elliptic.P384(), x509.KeyUsageDigitalSignature)
}

func newMakerOn(t testing.TB, leafCurve elliptic.Curve, usage x509.KeyUsage) *maker {
	m := &maker{t: t, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	parent, key := m.issue("test root", nil, nil, elliptic.P384(), x509.KeyUsageCertSign, 30*365*24*time.Hour)
	m.root = parent
	m.bundle = append(m.bundle, parent.Raw)
	for _, name := range []string{"region", "zone", "instance"} {
		parent, key = m.issue(name, parent, key, elliptic.P384(), x509.KeyUsageCertSign, 24*time.Hour)
		m.bundle = append(m.bundle, parent.Raw)
	}
	leaf, leafKey := m.issue("i-0-enc0", parent, key, leafCurve, usage, 3*time.Hour)
	m.leaf, m.leafKey = leaf.Raw, leafKey
	m.live = newKey(t, elliptic.P256())
	m.liveHex = hex.EncodeToString(append(point(t, newKey(t, elliptic.P256())), point(t, m.live)...))
	m.pcrs = map[uint64][]byte{}
	for i := range uint64(32) {
		m.pcrs[i] = make([]byte, 48)
	}
	for i := range uint64(3) {
		m.pcrs[i] = bytes.Repeat([]byte{byte(0xa0 + i)}, 48)
	}
	m.setManifest(testManifest(t))
	return m
}

func (m *maker) setManifest(man *attestation.Manifest) {
	raw, err := man.Encode()
	must(m.t, err)
	m.manifest = raw
	m.commit()
}

func (m *maker) commit() {
	c := commitment.LiveRegister(m.liveHex, attestation.Hash(m.manifest))
	m.pcrs[17] = c[:]
}

func (m *maker) issue(name string, parent *x509.Certificate, pk *ecdsa.PrivateKey, curve elliptic.Curve, usage x509.KeyUsage, life time.Duration) (*x509.Certificate, *ecdsa.PrivateKey) {
	key := newKey(m.t, curve)
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	must(m.t, err)
	tpl := &x509.Certificate{
		SerialNumber: serial, NotBefore: m.now.Add(-time.Hour), NotAfter: m.now.Add(life), BasicConstraintsValid: true,
		Subject: pkix.Name{CommonName: name}, SignatureAlgorithm: x509.ECDSAWithSHA384, KeyUsage: usage,
		IsCA: usage&x509.KeyUsageCertSign != 0,
	}
	if parent == nil {
		parent, pk = tpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, parent, &key.PublicKey, pk)
	must(m.t, err)
	c, err := x509.ParseCertificate(der)
	must(m.t, err)
	return c, key
}

func (m *maker) rootPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.root.Raw}))
}

// payload gives the document's payload after change, nil for none.
func (m *maker) payload(change func(*doc)) []byte {
	hash := attestation.Hash(m.manifest)
	live, err := hex.DecodeString(m.liveHex)
	must(m.t, err)
	d := doc{"i-0-enc0", "SHA384", uint64(m.now.UnixMilli()), map[uint64][]byte{}, m.leaf, append([][]byte{}, m.bundle...), live, hash[:], nil}
	for i, v := range m.pcrs {
		d.PCRs[i] = v
	}
	if change != nil {
		change(&d)
	}
	raw, err := cbor.Marshal(d)
	must(m.t, err)
	return raw
}

func (m *maker) document(change func(*doc)) []byte { return m.sign(m.payload(change)) }

func (m *maker) sign(payload []byte) []byte {
	prot := []byte{0xa1, 0x01, 0x38, 0x22}
	return m.wrap(prot, map[int]int{}, payload, m.signature(prot, payload))
}

func (m *maker) signature(prot, payload []byte) []byte {
	tbs, err := cbor.Marshal([]any{"Signature1", prot, []byte{}, payload})
	must(m.t, err)
	h := sha512.Sum384(tbs)
	r, s, err := ecdsa.Sign(rand.Reader, m.leafKey, h[:])
	must(m.t, err)
	sig := make([]byte, 96)
	r.FillBytes(sig[:48])
	s.FillBytes(sig[48:])
	return sig
}

func (m *maker) wrap(prot []byte, unprotected any, payload, sig []byte) []byte {
	raw, err := cbor.Marshal([]any{prot, unprotected, payload, sig})
	must(m.t, err)
	return raw
}

func (m *maker) policy() attestation.Policy {
	return attestation.Policy{SimulatorRootPEM: m.rootPEM(), ExpectedPCRs: map[int]string{
		0: hex.EncodeToString(m.pcrs[0]), 1: hex.EncodeToString(m.pcrs[1]), 2: hex.EncodeToString(m.pcrs[2]),
	}, Operators: testManifest(m.t).Operators}
}

func (m *maker) bootProof(change func(*doc)) attestation.BootProof {
	return attestation.BootProof{
		EphemeralPublicKeyHex:  m.liveHex,
		AWSAttestationDocB64:   base64.StdEncoding.EncodeToString(m.document(change)),
		QOSManifestB64:         base64.StdEncoding.EncodeToString(m.manifest),
		QOSManifestEnvelopeB64: base64.StdEncoding.EncodeToString(attestation.EncodeEnvelope(m.manifest, m.approval())),
		DeploymentLabel:        "test", EnclaveApp: "cloister", Owner: "somebody",
		CreatedAt: attestation.Timestamp{Seconds: strconv.FormatInt(m.now.Unix(), 10), Nanos: "0"},
	}
}

// approval is by one of the operators that testManifest names, which is their threshold.
func (m *maker) approval() attestation.ManifestApproval {
	a, err := attestation.ApproveManifest(fixedKey(m.t, 3), attestation.Hash(m.manifest))
	must(m.t, err)
	return a
}

func (m *maker) appProof(c attestation.Claim) attestation.AppProof {
	text, err := attestation.EncodePayload(m.now.Add(time.Minute), c)
	must(m.t, err)
	return m.signText(string(text))
}

func (m *maker) signText(text string) attestation.AppProof {
	h := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, m.live, h[:])
	must(m.t, err)
	if half := new(big.Int).Rsh(elliptic.P256().Params().N, 1); s.Cmp(half) > 0 {
		s.Sub(elliptic.P256().Params().N, s)
	}
	sig := make([]byte, 64)
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return attestation.AppProof{Scheme: attestation.Scheme, PublicKey: m.liveHex, ProofPayload: text, Signature: hex.EncodeToString(sig)}
}

// testManifest has fixed keys, so that fuzz seeds and goldens stay the same.
func testManifest(t testing.TB) *attestation.Manifest {
	pair := hex.EncodeToString(append(point(t, fixedKey(t, 1)), point(t, fixedKey(t, 2))...))
	return &attestation.Manifest{
		Format: 1, Kind: attestation.KindSimulator, Application: attestation.Application, Version: "0.1.0",
		ApplicationDigest: hexOf(7, 32), DeploymentLabel: "test", Owner: "somebody", Nonce: 3,
		PCRs:            attestation.Measurements{PCR0: hexOf(0xa0, 48), PCR1: hexOf(0xa1, 48), PCR2: hexOf(0xa2, 48)},
		QuorumPublicKey: pair,
		Operators:       attestation.Operators{Threshold: 1, PublicKeys: []string{compressed(t, fixedKey(t, 3)), compressed(t, fixedKey(t, 4))}},
		AdmissionKey:    compressed(t, fixedKey(t, 5)), SeedSource: attestation.SeedDevelopmentFile,
		Freshness: attestation.Freshness{Mode: attestation.FreshSinceBoot}, MinKeyringEpoch: 1,
	}
}

var fresh = &attestation.ClaimFreshness{Mode: "since-boot", BootNumber: "4", SeedSource: "development-file"}

func signatureClaim(body string) *attestation.SignatureMade {
	return &attestation.SignatureMade{
		OrganizationID: "11111111-1111-4111-8111-111111111111", ActivityID: "22222222-2222-4222-8222-222222222222",
		Fingerprint: attestation.Fingerprint([]byte(body)), PublicKey: "02" + hexOf(9, 32), Digests: []string{hexOf(5, 32)}, Freshness: fresh,
	}
}

func decodedClaim() *attestation.DecodedActivity {
	return &attestation.DecodedActivity{
		OrganizationID: "11111111-1111-4111-8111-111111111111", ActivityID: "22222222-2222-4222-8222-222222222222",
		Fingerprint: attestation.Fingerprint([]byte("body")), DecodedDigest: attestation.DecodedDigest([]byte(`{"format":"cloister.decoded/1"}`)), Freshness: fresh,
	}
}

func addressClaim() *attestation.AddressDerivation {
	return &attestation.AddressDerivation{
		OrganizationID: "11111111-1111-4111-8111-111111111111", WalletID: "w1", DerivationPath: "m/44'/60'/0'/0/0",
		Address: "0x58A57ed9d8d624cBD12e2C467D34787555bB1b25", Freshness: fresh,
	}
}

func policyClaim() *attestation.PolicyOutcome {
	return &attestation.PolicyOutcome{
		OrganizationID: "11111111-1111-4111-8111-111111111111", Outcome: "OUTCOME_ALLOW", DecisionContextDigest: hexOf(1, 32),
		OrganizationDataDigest: hexOf(2, 32), ParentOrganizationDataDigest: hexOf(3, 32),
		UserRequestApprovals: []attestation.Approval{{Scheme: "SIGNATURE_SCHEME_TK_API_P256", PublicKey: "02", Message: `{"a":"<&>"}`, Signature: "30"}},
		ActivityID:           "22222222-2222-4222-8222-222222222222", Fingerprint: attestation.Fingerprint([]byte("b")), Freshness: fresh,
	}
}

func newKey(t testing.TB, c elliptic.Curve) *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	must(t, err)
	return k
}

func fixedKey(t testing.TB, n byte) *ecdsa.PrivateKey {
	k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), append(make([]byte, 31), n))
	must(t, err)
	return k
}

func point(t testing.TB, k *ecdsa.PrivateKey) []byte {
	b, err := k.PublicKey.Bytes()
	must(t, err)
	return b
}

func compressed(t testing.TB, k *ecdsa.PrivateKey) string {
	b := point(t, k)
	return hex.EncodeToString(append([]byte{2 + b[64]&1}, b[1:33]...))
}

func hexOf(b byte, n int) string { return hex.EncodeToString(bytes.Repeat([]byte{b}, n)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err error, why string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted: %s", why)
	}
	t.Logf("%s: %v", why, err)
}
