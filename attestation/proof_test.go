package attestation_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/commitment"
)

func TestProofsAccepted(t *testing.T) {
	m := newMaker(t)
	boot, err := attestation.VerifyBootProof(m.bootProof(nil), m.policy())
	must(t, err)
	if boot.Manifest == nil || boot.Manifest.Owner != "somebody" || !boot.Pinned || len(boot.EncryptionKey()) != 65 {
		t.Fatalf("boot: %+v", boot)
	}
	for _, c := range []attestation.Claim{signatureClaim("body"), addressClaim(), policyClaim(), &attestation.AddressDerivation{OrganizationID: "o", Address: "a"}} {
		p, err := boot.VerifyAppProof(m.appProof(c))
		must(t, err)
		got, _ := json.Marshal(p.Claim)
		want, _ := json.Marshal(c)
		if string(got) != string(want) || !p.Time.Equal(m.now.Add(time.Minute)) || p.Boot != boot {
			t.Errorf("read %s, made %s", got, want)
		}
	}
	byManifest := attestation.Policy{SimulatorRootPEM: m.rootPEM(), AllowedManifestSHA256: []string{hexHash(m)}}
	if b, err := attestation.VerifyBootProof(m.bootProof(nil), byManifest); err != nil || !b.Pinned {
		t.Errorf("pinned by manifest: %v", err)
	}
	unpinned := attestation.Policy{SimulatorRootPEM: m.rootPEM(), AllowUnpinned: true}
	if b, err := attestation.VerifyBootProof(m.bootProof(nil), unpinned); err != nil || b.Pinned {
		t.Errorf("unpinned: %v", err)
	}
}

// The very same image under the very same root, with operators of somebody else's own
// who have approved it: what it claims besides is copied from ours.
func TestAnybodysDeployment(t *testing.T) {
	ours := newMaker(t)
	p := ours.policy()
	theirs := newMaker(t)
	theirs.root, theirs.leaf, theirs.leafKey, theirs.bundle = ours.root, ours.leaf, ours.leafKey, ours.bundle
	m := testManifest(t)
	m.Operators.PublicKeys = []string{compressed(t, fixedKey(t, 9))}
	theirs.setManifest(m)
	b := theirs.bootProof(nil)
	b.QOSManifestEnvelopeB64 = base64.StdEncoding.EncodeToString(attestation.EncodeEnvelope(theirs.manifest, approvals(t, attestation.Hash(theirs.manifest), fixedKey(t, 9))...))

	own := p
	own.Operators = m.Operators
	boot, err := attestation.VerifyBootProof(b, own)
	must(t, err)
	if !boot.Pinned || strings.Join(boot.Pins(), "; ") != "PCR 0, 1, 2; approval by at least 1 of 1 operators" {
		t.Errorf("pinned: %t, %q", boot.Pinned, boot.Pins())
	}
	manifest := attestation.Policy{SimulatorRootPEM: p.SimulatorRootPEM, AllowedManifestSHA256: []string{hexHash(ours)}}
	image := p
	image.Operators = attestation.Operators{}
	who := p
	who.ExpectedPCRs = nil
	for name, q := range map[string]attestation.Policy{"operators": p, "manifest": manifest, "image alone": image} {
		_, err := attestation.VerifyBootProof(b, q)
		refused(t, err, "theirs, pinned by "+name)
	}
	for name, q := range map[string]attestation.Policy{"image": image, "operators": who} {
		_, err := attestation.VerifyBootProof(ours.bootProof(nil), q)
		refused(t, err, "ours, pinned by "+name+" alone")
		q.AllowUnpinned = true
		if boot, err := attestation.VerifyBootProof(b, q); name == "image" && (err != nil || boot.Pinned) {
			t.Errorf("looked at: %v", err)
		}
	}
	foreign := p
	foreign.ForeignManifest = true
	_, err = attestation.VerifyBootProof(b, foreign)
	refused(t, err, "operators whose approval nobody reads")
}

// Forged: everything that a host could change or make up.
func TestForgedBootProofsRefused(t *testing.T) {
	m := newMaker(t)
	p := m.policy()
	other := newMaker(t)
	base := m.bootProof(nil)
	hash := attestation.Hash(m.manifest)
	shared := *testManifest(t)
	shared.Owner = "somebody else"
	second, err := shared.Encode()
	must(t, err)
	b64 := base64.StdEncoding.EncodeToString
	for name, b := range map[string]attestation.BootProof{
		"wrong root":            other.bootProof(nil),
		"nonce":                 m.bootProof(func(d *doc) { d.Nonce = []byte("n") }),
		"empty nonce":           m.bootProof(func(d *doc) { d.Nonce = []byte{} }),
		"user_data of 48 bytes": m.bootProof(func(d *doc) { d.UserData = make([]byte, 48) }),
		"user_data and more":    m.bootProof(func(d *doc) { d.UserData = append(hash[:], 0) }),
		"no user_data":          m.bootProof(func(d *doc) { d.UserData = nil }),
		"no key":                m.bootProof(func(d *doc) { d.PublicKey = nil }),
		"one key only":          m.bootProof(func(d *doc) { d.PublicKey = d.PublicKey[65:] }),
		"keys swapped":          m.bootProof(func(d *doc) { d.PublicKey = append(d.PublicKey[65:130:130], d.PublicKey[:65]...) }),
		"sixteen PCRs": m.bootProof(func(d *doc) {
			for i := range uint64(16) {
				delete(d.PCRs, 16+i)
			}
		}),
		"31 PCRs":                      m.bootProof(func(d *doc) { delete(d.PCRs, 31) }),
		"PCR17 not extended":           m.bootProof(func(d *doc) { d.PCRs[17] = make([]byte, 48) }),
		"PCR17 commits to setup":       m.bootProof(func(d *doc) { c := commitment.SetupRegister(m.liveHex, hash); d.PCRs[17] = c[:] }),
		"PCR17 commits to another key": m.bootProof(func(d *doc) { c := commitment.LiveRegister(other.liveHex, hash); d.PCRs[17] = c[:] }),
		"another image":                m.bootProof(func(d *doc) { d.PCRs[0] = d.PCRs[1] }),
		"debug mode":                   m.bootProof(func(d *doc) { d.PCRs[0], d.PCRs[1], d.PCRs[2] = d.PCRs[31], d.PCRs[31], d.PCRs[31] }),
		"manifest swapped":             alter(base, func(b *attestation.BootProof) { b.QOSManifestB64 = b64(second) }),
		"manifest missing":             alter(base, func(b *attestation.BootProof) { b.QOSManifestB64 = "" }),
		"manifest with a line break":   alter(base, func(b *attestation.BootProof) { b.QOSManifestB64 = b.QOSManifestB64[:4] + "\n" + b.QOSManifestB64[4:] }),
		"document with a line break":   alter(base, func(b *attestation.BootProof) { b.AWSAttestationDocB64 += "\n" }),
		"document missing":             alter(base, func(b *attestation.BootProof) { b.AWSAttestationDocB64 = "" }),
		"document unpadded": alter(base, func(b *attestation.BootProof) {
			b.AWSAttestationDocB64 = strings.TrimRight(b64(append(m.document(nil), 0)), "=") + "="
		}),
		"document too long":            alter(base, func(b *attestation.BootProof) { b.AWSAttestationDocB64 = strings.Repeat("AAAA", 10_000) }),
		"key in upper case":            alter(base, func(b *attestation.BootProof) { b.EphemeralPublicKeyHex = strings.ToUpper(b.EphemeralPublicKeyHex) }),
		"another key":                  alter(base, func(b *attestation.BootProof) { b.EphemeralPublicKeyHex = other.liveHex }),
		"label not the manifest's":     alter(base, func(b *attestation.BootProof) { b.DeploymentLabel = "production" }),
		"owner not the manifest's":     alter(base, func(b *attestation.BootProof) { b.Owner = "bank" }),
		"app not the manifest's":       alter(base, func(b *attestation.BootProof) { b.EnclaveApp = "signer" }),
		"envelope of another manifest": alter(base, func(b *attestation.BootProof) { b.QOSManifestEnvelopeB64 = b64(attestation.EncodeEnvelope(second)) }),
		"envelope with made-up approvals": alter(base, func(b *attestation.BootProof) {
			b.QOSManifestEnvelopeB64 = b64([]byte(strings.Replace(string(attestation.EncodeEnvelope(m.manifest)), "[]}", "[1]}", 1)))
		}),
		"createdAt is no number":     alter(base, func(b *attestation.BootProof) { b.CreatedAt.Seconds = "x" }),
		"createdAt with nanos 1e9":   alter(base, func(b *attestation.BootProof) { b.CreatedAt.Nanos = "1000000000" }),
		"version with control codes": alter(base, func(b *attestation.BootProof) { b.QOSManifestVersion = "\x1b[2J" }),
	} {
		t.Run(name, func(t *testing.T) {
			boot, err := attestation.VerifyBootProof(b, p)
			refused(t, err, name)
			if boot != nil {
				t.Fatal("a result beside the error")
			}
		})
	}
}

func alter(b attestation.BootProof, f func(*attestation.BootProof)) attestation.BootProof {
	f(&b)
	return b
}

// An image that is not the manifest's is refused even where the caller pinned
// only the manifest: anyone can put a known manifest's hash into user_data.
func TestForeignImageUnderKnownManifest(t *testing.T) {
	m := newMaker(t)
	p := attestation.Policy{SimulatorRootPEM: m.rootPEM(), AllowedManifestSHA256: []string{hexHash(m)}}
	_, err := attestation.VerifyBootProof(m.bootProof(func(d *doc) { d.PCRs[2] = d.PCRs[1] }), p)
	refused(t, err, "an attacker's image with our manifest")
	man := testManifest(t)
	man.Kind, man.SeedSource = attestation.KindNitro, attestation.SeedHandover
	m.setManifest(man)
	p.AllowedManifestSHA256 = nil
	p.AllowUnpinned = true
	_, err = attestation.VerifyBootProof(m.bootProof(nil), p)
	refused(t, err, "a manifest of kind nitro under a simulator root")
}

func TestDebugBootIsMarked(t *testing.T) {
	m := newMaker(t)
	p := m.policy()
	p.AllowDebug = true
	boot, err := attestation.VerifyBootProof(m.bootProof(func(d *doc) { d.PCRs[0], d.PCRs[1], d.PCRs[2] = d.PCRs[31], d.PCRs[31], d.PCRs[31] }), p)
	must(t, err)
	if !boot.Document.Debug || boot.Pinned {
		t.Fatal("a debug boot is not marked, or counts as pinned")
	}
}

func TestForgedAppProofsRefused(t *testing.T) {
	m, other := newMaker(t), newMaker(t)
	boot, err := attestation.VerifyBootProof(m.bootProof(nil), m.policy())
	must(t, err)
	good := m.appProof(signatureClaim("body"))
	with := func(f func(*attestation.AppProof)) attestation.AppProof { a := good; f(&a); return a }
	for name, a := range map[string]attestation.AppProof{
		"another boot's key":       other.appProof(signatureClaim("body")),
		"another boot's signature": with(func(a *attestation.AppProof) { a.Signature = other.appProof(signatureClaim("body")).Signature }),
		"another proof's payload":  with(func(a *attestation.AppProof) { a.ProofPayload = m.appProof(addressClaim()).ProofPayload }),
		"payload written anew":     with(func(a *attestation.AppProof) { a.ProofPayload = " " + a.ProofPayload }),
		"no scheme":                with(func(a *attestation.AppProof) { a.Scheme = "" }),
		"key in upper case":        with(func(a *attestation.AppProof) { a.PublicKey = strings.ToUpper(a.PublicKey) }),
		"signature upper case":     with(func(a *attestation.AppProof) { a.Signature = strings.ToUpper(a.Signature) }),
		"signature cut":            with(func(a *attestation.AppProof) { a.Signature = a.Signature[:126] }),
		"signature of zeros":       with(func(a *attestation.AppProof) { a.Signature = hexOf(0, 64) }),
		"no signature":             with(func(a *attestation.AppProof) { a.Signature = "" }),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := boot.VerifyAppProof(a)
			refused(t, err, name)
		})
	}
	_, err = (&attestation.Boot{}).VerifyAppProof(good)
	refused(t, err, "under a boot that nobody verified")
	for name, a := range map[string]attestation.AppProof{
		"encryption half off the curve": with(func(a *attestation.AppProof) { a.PublicKey = "04" + hexOf(1, 64) + a.PublicKey[130:] }),
		"signing half at infinity":      with(func(a *attestation.AppProof) { a.PublicKey = a.PublicKey[:130] + "00" + hexOf(0, 64) }),
		"compressed signing half":       with(func(a *attestation.AppProof) { a.PublicKey = a.PublicKey[:130] + "02" + a.PublicKey[132:] }),
	} {
		refused(t, attestation.VerifyAppProofSignature(a), name)
	}
}

// All of these are signed by the live key of a good boot.
func TestSignedPayloadsRefused(t *testing.T) {
	m := newMaker(t)
	boot, err := attestation.VerifyBootProof(m.bootProof(nil), m.policy())
	must(t, err)
	good := m.appProof(signatureClaim("body")).ProofPayload
	if _, err := boot.VerifyAppProof(m.signText(good)); err != nil {
		t.Fatal(err)
	}
	sub := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("payload holds no %q: %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	ms := `"timestampMs":"1777636860000"`
	for name, text := range map[string]string{
		"empty":                    "",
		"not JSON":                 "proof",
		"an array":                 "[" + good + "]",
		"null":                     "null",
		"trailing bytes":           good + "{}",
		"invalid UTF-8":            sub("since-boot", "since\xff"),
		"lone high surrogate":      sub("since-boot", `\ud800`),
		"lone low surrogate":       sub("since-boot", `\uDC00`),
		"unknown type":             sub("APP_PROOF_TYPE_SIGNATURE", "APP_PROOF_TYPE_OTHER"),
		"type of another claim":    sub("APP_PROOF_TYPE_SIGNATURE", attestation.TypePolicyOutcome),
		"no type":                  sub(`"type":"APP_PROOF_TYPE_SIGNATURE",`, ""),
		"no claim":                 `{"type":"APP_PROOF_TYPE_SIGNATURE",` + ms + `}`,
		"two claims":               sub(`"signatureProof"`, `"addressDerivationProof":{"organizationId":"o","address":"a"},"signatureProof"`),
		"claim twice":              sub(`"signatureProof"`, `"signatureProof":{},"signatureProof"`),
		"organization twice":       sub(`"organizationId"`, `"organizationId":"other","organizationId"`),
		"member in other case":     sub(`"organizationId"`, `"OrganizationId"`),
		"unknown member":           sub(`"organizationId"`, `"x":1,"organizationId"`),
		"null member":              sub(`"signatureProof"`, `"policyOutcomeProof":null,"signatureProof"`),
		"timestamp in seconds":     sub(ms, `"timestampMs":"1777636860"`),
		"timestamp as a number":    sub(ms, `"timestampMs":1777636860000`),
		"timestamp with a zero":    sub(ms, `"timestampMs":"01777636860000"`),
		"timestamp negative":       sub(ms, `"timestampMs":"-1"`),
		"no timestamp":             sub(ms+",", ""),
		"before the boot":          sub(ms, `"timestampMs":"1777636400000"`),
		"after the root":           sub(ms, `"timestampMs":"4777636860000"`),
		"no organization":          sub(`"organizationId":"11111111-1111-4111-8111-111111111111",`, ""),
		"no activity":              sub(`"activityId":"22222222-2222-4222-8222-222222222222",`, ""),
		"fingerprint without hash": sub("sha256:", ""),
		"fingerprint upper case":   sub("sha256:", "sha256:ABCDEF"),
		"public key not hex":       sub(`"publicKey":"02`, `"publicKey":"zz`),
		"no digests":               sub(`["`+hexOf(5, 32)+`"]`, "[]"),
		"digest of 31 bytes":       sub(`["05`, `["`),
		"other freshness":          sub("since-boot", "witnessed"),
		"boot number not decimal":  sub(`"bootNumber":"4"`, `"bootNumber":"four"`),
		"other seed source":        sub("development-file", "operator-shares"),
		"nested too deeply":        sub(`["`+hexOf(5, 32)+`"]`, strings.Repeat("[", 40)+strings.Repeat("]", 40)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := boot.VerifyAppProof(m.signText(text))
			refused(t, err, name)
		})
	}
}

func TestClaimsRefused(t *testing.T) {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	address := func(f func(*attestation.AddressDerivation)) attestation.Claim { c := *addressClaim(); f(&c); return &c }
	policy := func(f func(*attestation.PolicyOutcome)) attestation.Claim { c := *policyClaim(); f(&c); return &c }
	signature := func(f func(*attestation.SignatureMade)) attestation.Claim {
		c := *signatureClaim("b")
		f(&c)
		return &c
	}
	decoded := func(f func(*attestation.DecodedActivity)) attestation.Claim { c := *decodedClaim(); f(&c); return &c }
	for name, c := range map[string]attestation.Claim{
		"no address":                  address(func(c *attestation.AddressDerivation) { c.Address = "" }),
		"wallet without path":         address(func(c *attestation.AddressDerivation) { c.DerivationPath = "" }),
		"path without wallet":         address(func(c *attestation.AddressDerivation) { c.WalletID = "" }),
		"fingerprint, no activity":    address(func(c *attestation.AddressDerivation) { c.Fingerprint = attestation.Fingerprint(nil) }),
		"activity, no fingerprint":    address(func(c *attestation.AddressDerivation) { c.ActivityID = "a" }),
		"long address":                address(func(c *attestation.AddressDerivation) { c.Address = strings.Repeat("a", 256) }),
		"address with a line break":   address(func(c *attestation.AddressDerivation) { c.Address = "a\nb" }),
		"unknown outcome":             policy(func(c *attestation.PolicyOutcome) { c.Outcome = "OUTCOME_MAYBE" }),
		"no decision digest":          policy(func(c *attestation.PolicyOutcome) { c.DecisionContextDigest = "" }),
		"short organization digest":   policy(func(c *attestation.PolicyOutcome) { c.OrganizationDataDigest = hexOf(1, 31) }),
		"upper-case parent digest":    policy(func(c *attestation.PolicyOutcome) { c.ParentOrganizationDataDigest = strings.Repeat("AB", 32) }),
		"no approvals":                policy(func(c *attestation.PolicyOutcome) { c.UserRequestApprovals = nil }),
		"half an approval":            policy(func(c *attestation.PolicyOutcome) { c.UserRequestApprovals = []attestation.Approval{{Scheme: "s"}} }),
		"too many approvals":          policy(func(c *attestation.PolicyOutcome) { c.UserRequestApprovals = make([]attestation.Approval, 257) }),
		"too many digests":            signature(func(c *attestation.SignatureMade) { c.Digests = make([]string, 101) }),
		"short key":                   signature(func(c *attestation.SignatureMade) { c.PublicKey = hexOf(2, 31) }),
		"key with half a byte":        signature(func(c *attestation.SignatureMade) { c.PublicKey += "0" }),
		"short decoded digest":        decoded(func(c *attestation.DecodedActivity) { c.DecodedDigest = hexOf(1, 31) }),
		"decoded, no activity":        decoded(func(c *attestation.DecodedActivity) { c.ActivityID = "" }),
		"decoded, no fingerprint":     decoded(func(c *attestation.DecodedActivity) { c.Fingerprint = "" }),
		"fingerprint of another form": signature(func(c *attestation.SignatureMade) { c.Fingerprint = "md5:" + hexOf(1, 32) }),
	} {
		_, err := attestation.EncodePayload(at, c)
		refused(t, err, name)
	}
	for name, bad := range map[string]time.Time{"1970": time.UnixMilli(0), "before 1970": time.UnixMilli(-5), "far future": time.UnixMilli(1 << 60)} {
		_, err := attestation.EncodePayload(bad, addressClaim())
		refused(t, err, name)
	}
}

// Payloads are written by hand, and are what encoding/json would write.
func TestPayloadIsJSON(t *testing.T) {
	at := time.UnixMilli(1767225600123)
	texts := []string{"", "\"\\", "\u2028 \u2029 <&> \x7f", "\xff\xc3 é 日本 \U0001f600", `{"a":"b\"c"}`, strings.Repeat("\"", 300)}
	for c := range 256 {
		texts = append(texts, "a"+string([]byte{byte(c)})+"b")
	}
	for _, text := range texts {
		message := "m" + text
		full := policyClaim()
		full.UserRequestApprovals = []attestation.Approval{{Scheme: "s", PublicKey: "k", Message: message, Signature: "g"}, {Scheme: message, PublicKey: message, Message: "m", Signature: message}}
		bare := *full
		bare.UserRequestApprovals, bare.Freshness, bare.ActivityID, bare.Fingerprint = []attestation.Approval{}, nil, "", ""
		many := signatureClaim("body")
		many.Digests = append(many.Digests, many.Digests...)
		for member, c := range map[string]attestation.Claim{"policyOutcomeProof": full, "policyOutcomeProof ": &bare, "signatureProof": many, "addressDerivationProof": addressClaim(), "decodedProof": decodedClaim(),
			"publicKeysProof": &attestation.PublicKeys{Keys: someKeys(t), AttestationRootSHA256: strings.Repeat("0A", 32), Freshness: fresh},
			"logKeyProof":     logKeyClaim(t),
			"historyProof":    historyClaim()} {
			got, err := attestation.EncodePayload(at, c)
			must(t, err)
			var want strings.Builder
			want.WriteString(`{"type":"` + c.Type() + `","timestampMs":"1767225600123","` + strings.TrimSpace(member) + `":`)
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			must(t, enc.Encode(c))
			if want := strings.Replace(want.String(), "\n", "}", 1); string(got) != want {
				t.Fatalf("%q: %s\nwant %s", text, got, want)
			}
		}
	}
}

// The bytes that are signed are a format: a change here is a change of format.
func TestPayloadGolden(t *testing.T) {
	at := time.UnixMilli(1767225600123)
	var got strings.Builder
	for _, c := range []attestation.Claim{addressClaim(), policyClaim(), signatureClaim("body"), decodedClaim(),
		&attestation.PublicKeys{Keys: someKeys(t), AttestationRootSHA256: strings.Repeat("0A", 32), Freshness: fresh}, logKeyClaim(t)} {
		text, err := attestation.EncodePayload(at, c)
		must(t, err)
		again, claim, err := attestation.ParsePayload(string(text))
		must(t, err)
		if !again.Equal(at) || claim.Type() != c.Type() {
			t.Error("payload does not read back")
		}
		got.WriteString(string(text) + "\n")
	}
	raw, err := testManifest(t).Encode()
	must(t, err)
	got.Write(raw)
	got.WriteString("\n")
	want, err := os.ReadFile("testdata/golden.txt")
	must(t, err)
	if got.String() != string(want) {
		t.Errorf("encodings have changed:\n%s", got.String())
	}
}

// Mixed and stale: true proofs of something else.
func TestExpectation(t *testing.T) {
	m := newMaker(t)
	boot, err := attestation.VerifyBootProof(m.bootProof(nil), m.policy())
	must(t, err)
	prove := func(c attestation.Claim) *attestation.Proof {
		p, err := boot.VerifyAppProof(m.appProof(c))
		must(t, err)
		return p
	}
	sig, addr, pol, dec := prove(signatureClaim("body")), prove(addressClaim()), prove(policyClaim()), prove(decodedClaim())
	c := signatureClaim("body")
	for name, ok := range map[string]error{
		"nothing expected": attestation.Expectation{}.Check(sig),
		"signature": attestation.Expectation{Type: attestation.TypeSignature, OrganizationID: c.OrganizationID, ActivityID: c.ActivityID,
			Fingerprint: c.Fingerprint, PublicKey: c.PublicKey, Digests: c.Digests, BootNumber: "4", NotBefore: m.now}.Check(sig),
		"address": attestation.Expectation{Address: addressClaim().Address, WalletID: "w1", DerivationPath: "m/44'/60'/0'/0/0"}.Check(addr),
		"decoded": attestation.Expectation{Type: attestation.TypeDecoded, Fingerprint: c.Fingerprint, DecodedDigest: decodedClaim().DecodedDigest}.Check(dec),
		"policy":  attestation.Expectation{Outcome: "OUTCOME_ALLOW", ActivityID: c.ActivityID}.Check(pol),
	} {
		if ok != nil {
			t.Errorf("%s: %v", name, ok)
		}
	}
	for name, err := range map[string]error{
		"another organization":      attestation.Expectation{OrganizationID: "x"}.Check(sig),
		"another activity":          attestation.Expectation{ActivityID: "x"}.Check(sig),
		"another request":           attestation.Expectation{Fingerprint: attestation.Fingerprint([]byte("my body"))}.Check(sig),
		"another type":              attestation.Expectation{Type: attestation.TypePolicyOutcome}.Check(sig),
		"an older proof":            attestation.Expectation{NotBefore: m.now.Add(time.Hour)}.Check(sig),
		"another boot":              attestation.Expectation{BootNumber: "5"}.Check(sig),
		"another key":               attestation.Expectation{PublicKey: "03" + hexOf(9, 32)}.Check(sig),
		"another digest":            attestation.Expectation{Digests: []string{hexOf(6, 32)}}.Check(sig),
		"one digest more":           attestation.Expectation{Digests: []string{hexOf(5, 32), hexOf(5, 32)}}.Check(sig),
		"digests of an address":     attestation.Expectation{Digests: []string{hexOf(5, 32)}}.Check(addr),
		"address of a signature":    attestation.Expectation{Address: "a"}.Check(sig),
		"another address":           attestation.Expectation{Address: "0x0"}.Check(addr),
		"another wallet":            attestation.Expectation{WalletID: "w2"}.Check(addr),
		"another path":              attestation.Expectation{DerivationPath: "m/44'/60'/0'/0/1"}.Check(addr),
		"activity where none named": attestation.Expectation{ActivityID: "x"}.Check(addr),
		"another outcome":           attestation.Expectation{Outcome: "OUTCOME_DENY_EXPLICIT"}.Check(pol),
		"another document":          attestation.Expectation{DecodedDigest: attestation.DecodedDigest(nil)}.Check(dec),
		"document of a signature":   attestation.Expectation{DecodedDigest: decodedClaim().DecodedDigest}.Check(sig),
		"no proof":                  attestation.Expectation{}.Check(nil),
	} {
		refused(t, err, name)
	}
}

func TestVerifyAppProofs(t *testing.T) {
	m := newMaker(t)
	second := newMaker(t)
	// A second boot of the same deployment, under the same root.
	second.root, second.bundle, second.leaf, second.leafKey, second.now = m.root, m.bundle, m.leaf, m.leafKey, m.now
	boots := []attestation.BootProof{m.bootProof(nil), second.bootProof(nil)}
	e := attestation.Expectation{Fingerprint: attestation.Fingerprint([]byte("body"))}
	mine := []attestation.AppProof{m.appProof(signatureClaim("body")), second.appProof(signatureClaim("body"))}
	got, err := attestation.VerifyAppProofs(mine, boots, m.policy(), e)
	must(t, err)
	if len(got) != 2 || got[0].Boot.PublicKeyHex != m.liveHex || got[1].Boot.PublicKeyHex != second.liveHex {
		t.Fatal("proofs are not under their own boots")
	}
	_, err = attestation.VerifyAppProofs(nil, boots, m.policy(), e)
	refused(t, err, "a proof that was withheld")
	_, err = attestation.VerifyAppProofs(mine, boots[:1], m.policy(), e)
	refused(t, err, "no boot proof for a key")
	_, err = attestation.VerifyAppProofs(append(mine, m.appProof(signatureClaim("another body"))), boots, m.policy(), e)
	refused(t, err, "another request's proof among them")
	_, err = attestation.VerifyAppProofs(mine, []attestation.BootProof{boots[0], m.bootProof(nil)}, m.policy(), e)
	refused(t, err, "boot proofs of one boot only")
	_, err = attestation.VerifyAppProofs(mine, boots, attestation.Policy{}, e)
	refused(t, err, "a policy that pins nothing")
	// Boot proofs mixed: the document of one boot with the key of the other.
	mixed := boots[1]
	mixed.AWSAttestationDocB64 = boots[0].AWSAttestationDocB64
	_, err = attestation.VerifyAppProofs(mine[1:], []attestation.BootProof{mixed}, m.policy(), e)
	refused(t, err, "a document of another boot")
}

func TestAges(t *testing.T) {
	m := newMaker(t)
	a, b := m.appProof(addressClaim()), m.bootProof(nil)
	at := func(now time.Duration, maxProof, maxBoot time.Duration) error {
		p := m.policy()
		p.Now, p.MaxProofAge, p.MaxBootAge = m.now.Add(now), maxProof, maxBoot
		_, err := attestation.VerifyAppProof(a, b, p)
		return err
	}
	must(t, at(2*time.Minute, 5*time.Minute, time.Hour))
	must(t, at(-Skewed, 0, 0))
	refused(t, at(time.Hour, 5*time.Minute, 0), "a stale app proof")
	refused(t, at(2*time.Hour, 0, time.Hour), "an old boot")
	refused(t, at(-6*time.Minute, 0, 0), "a boot of the future")
	refused(t, at(-4*time.Minute-30*time.Second, 0, 0), "an app proof of the future")
}

// Skewed is within the tolerance even for a proof made a minute after the boot.
const Skewed = attestation.Skew - 2*time.Minute

func hexHash(m *maker) string {
	h := attestation.Hash(m.manifest)
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range h {
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

func FuzzPayload(f *testing.F) {
	for _, c := range []attestation.Claim{addressClaim(), policyClaim(), signatureClaim("b")} {
		text, err := attestation.EncodePayload(time.UnixMilli(1767225600000), c)
		must(f, err)
		f.Add(string(text))
	}
	f.Add(`{"type":"x","timestampMs":"1","signatureProof":{"digests":["\ud83d\ude00"]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		at, c, err := attestation.ParsePayload(text)
		if err != nil {
			return
		}
		if again, err := attestation.EncodePayload(at, c); err != nil && at.UnixMilli() > 0 {
			t.Fatalf("what was read cannot be written: %v", err)
		} else if _, _, err := attestation.ParsePayload(string(again)); err != nil && at.UnixMilli() > 0 {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}

func BenchmarkVerifyBootProof(b *testing.B) {
	m := newMaker(b)
	proof, p := m.bootProof(nil), m.policy()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := attestation.VerifyBootProof(proof, p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyAppProof(b *testing.B) {
	m := newMaker(b)
	boot, err := attestation.VerifyBootProof(m.bootProof(nil), m.policy())
	must(b, err)
	a := m.appProof(signatureClaim("body"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := boot.VerifyAppProof(a); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodePayload(b *testing.B) {
	c, at := signatureClaim("body"), time.UnixMilli(1767225600000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := attestation.EncodePayload(at, c); err != nil {
			b.Fatal(err)
		}
	}
}
