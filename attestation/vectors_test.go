package attestation_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"cloister/attestation"
	"cloister/attestation/commitment"
)

type vectorFile struct {
	SimulatorRootPEM string `json:"simulator_root_pem"`
	QOSPolicy        struct {
		ExpectedPCRs          map[int]string `json:"expectedPcrs"`
		AllowedManifestSHA256 []string       `json:"allowedManifestSha256"`
	} `json:"qos_policy"`
	PCRs    map[string]string `json:"pcrs"`
	Key     string            `json:"ephemeral_public_key"`
	Hash    string            `json:"manifest_sha256"`
	Vectors []struct {
		Name      string                `json:"name"`
		AppProof  attestation.AppProof  `json:"appProof"`
		BootProof attestation.BootProof `json:"bootProof"`
		Outcomes  struct {
			Policy string `json:"verifyWithQosPolicy_root_replaced"`
		} `json:"outcomes"`
	} `json:"vectors"`
}

func readVectors(t testing.TB) (vectorFile, attestation.Policy) {
	raw, err := os.ReadFile("testdata/app_proofs.json")
	must(t, err)
	var f vectorFile
	must(t, json.Unmarshal(raw, &f))
	return f, attestation.Policy{
		SimulatorRootPEM: f.SimulatorRootPEM, ExpectedPCRs: f.QOSPolicy.ExpectedPCRs,
		AllowedManifestSHA256: f.QOSPolicy.AllowedManifestSHA256, ForeignManifest: true,
	}
}

// The outcome of every vector is that of the published policy verifier, except
// that it does not hash the manifest that is sent along, and we do.
func TestVectors(t *testing.T) {
	f, p := readVectors(t)
	accepted, rejected := 0, 0
	for _, v := range f.Vectors {
		want := v.Outcomes.Policy == "ok" && v.Name != "reject_manifest_swapped"
		proof, err := attestation.VerifyAppProof(v.AppProof, v.BootProof, p)
		if (err == nil) != want {
			t.Errorf("%s: got %v, the published verifier says %q", v.Name, err, v.Outcomes.Policy)
		}
		if (proof == nil) == (err == nil) {
			t.Errorf("%s: result and error do not exclude each other", v.Name)
		}
		if err != nil {
			rejected++
			t.Logf("%-36s %v", v.Name, err)
		} else {
			accepted++
		}
	}
	t.Logf("%d vectors: %d accepted, %d refused", len(f.Vectors), accepted, rejected)
	if accepted < 5 || rejected < 16 {
		t.Fatal("vectors are missing")
	}
}

// Under the AWS root, which is the default, no vector is accepted, nor under our
// own manifest format, nor unpinned.
func TestVectorsUnderOtherPolicies(t *testing.T) {
	f, p := readVectors(t)
	for name, change := range map[string]func(*attestation.Policy){
		"AWS root":          func(p *attestation.Policy) { p.SimulatorRootPEM = "" },
		"our own manifest":  func(p *attestation.Policy) { p.ForeignManifest = false },
		"a binary in it":    func(p *attestation.Policy) { p.ExpectedApplicationDigest = strings.Repeat("0", 64) },
		"unpinned":          func(p *attestation.Policy) { p.ExpectedPCRs = nil },
		"pinned in part":    func(p *attestation.Policy) { p.ExpectedPCRs = map[int]string{0: p.ExpectedPCRs[0]} },
		"another manifest":  func(p *attestation.Policy) { p.AllowedManifestSHA256 = []string{hexOf(1, 32)} },
		"bad manifest hash": func(p *attestation.Policy) { p.AllowedManifestSHA256 = []string{"x"} },
		"another measurement": func(p *attestation.Policy) {
			p.ExpectedPCRs = map[int]string{0: hexOf(1, 48), 1: p.ExpectedPCRs[1], 2: p.ExpectedPCRs[2]}
		},
	} {
		q := p
		change(&q)
		for _, v := range f.Vectors {
			if _, err := attestation.VerifyAppProof(v.AppProof, v.BootProof, q); err == nil {
				t.Errorf("%s: %s accepted", name, v.Name)
			}
		}
	}
}

func TestCommitmentsOfVectors(t *testing.T) {
	f, _ := readVectors(t)
	raw, err := hex.DecodeString(f.Hash)
	must(t, err)
	live := commitment.LiveRegister(f.Key, [32]byte(raw))
	if got := hex.EncodeToString(live[:]); got != f.PCRs["17"] {
		t.Errorf("PCR17 is %s, want %s", got, f.PCRs["17"])
	}
	setup := commitment.SetupRegister(f.Key, [32]byte(raw))
	if got := hex.EncodeToString(setup[:]); got != f.PCRs["16"] {
		t.Errorf("PCR16 is %s, want %s", got, f.PCRs["16"])
	}
}

// Every accepted vector, damaged by one bit in every byte of what is signed or
// compared. The document is taken apart: a flip in its payload breaks the
// signature, one outside breaks the form.
func TestOneByteFlipped(t *testing.T) {
	f, p := readVectors(t)
	counts := map[string]int{}
	for _, v := range f.Vectors {
		if _, err := attestation.VerifyAppProof(v.AppProof, v.BootProof, p); err != nil {
			continue
		}
		boot, err := attestation.VerifyBootProof(v.BootProof, p)
		must(t, err)
		app := func(part string, get func(*attestation.AppProof) *string) {
			for i := range *get(&v.AppProof) {
				a := v.AppProof
				*get(&a) = flip(*get(&a), i)
				counts[part]++
				if _, err := boot.VerifyAppProof(a); err == nil {
					t.Fatalf("%s: %s accepted with byte %d flipped", v.Name, part, i)
				}
			}
		}
		app("payload", func(a *attestation.AppProof) *string { return &a.ProofPayload })
		app("signature", func(a *attestation.AppProof) *string { return &a.Signature })
		app("public key", func(a *attestation.AppProof) *string { return &a.PublicKey })
		app("scheme", func(a *attestation.AppProof) *string { return &a.Scheme })
		b64 := func(part string, step int, get func(*attestation.BootProof) *string) {
			raw, err := base64.StdEncoding.DecodeString(*get(&v.BootProof))
			must(t, err)
			for i := 0; i < len(raw); i += step {
				b := v.BootProof
				raw[i] ^= 1
				*get(&b) = base64.StdEncoding.EncodeToString(raw)
				raw[i] ^= 1
				counts[part]++
				if _, err := attestation.VerifyBootProof(b, p); err == nil {
					t.Fatalf("%s: %s accepted with byte %d flipped", v.Name, part, i)
				}
			}
		}
		b64("manifest", 1, func(b *attestation.BootProof) *string { return &b.QOSManifestB64 })
		// A prime step over the document spreads over all its parts; the last 96
		// bytes are the signature.
		b64("document", 31, func(b *attestation.BootProof) *string { return &b.AWSAttestationDocB64 })
		doc, err := base64.StdEncoding.DecodeString(v.BootProof.AWSAttestationDocB64)
		must(t, err)
		for i := len(doc) - 96; i < len(doc); i += 5 {
			b := v.BootProof
			doc[i] ^= 1
			b.AWSAttestationDocB64 = base64.StdEncoding.EncodeToString(doc)
			doc[i] ^= 1
			counts["document signature"]++
			if _, err := attestation.VerifyBootProof(b, p); err == nil {
				t.Fatalf("%s: document signature accepted with byte %d flipped", v.Name, i)
			}
		}
		for i := 0; i < len(v.BootProof.EphemeralPublicKeyHex); i += 13 {
			b := v.BootProof
			b.EphemeralPublicKeyHex = flip(b.EphemeralPublicKeyHex, i)
			counts["boot key"]++
			if _, err := attestation.VerifyAppProof(v.AppProof, b, p); err == nil {
				t.Fatalf("%s: boot key accepted with byte %d flipped", v.Name, i)
			}
		}
	}
	t.Logf("refused with one byte flipped: %v", counts)
	for _, part := range []string{"payload", "signature", "public key", "document signature", "manifest", "document", "boot key"} {
		if counts[part] < 100 {
			t.Errorf("%s: only %d flips", part, counts[part])
		}
	}
}

func flip(s string, i int) string {
	b := []byte(s)
	b[i] ^= 1
	return string(b)
}

func TestWycheproofP1363(t *testing.T) {
	raw, err := os.ReadFile("testdata/ecdsa_secp256r1_sha256_p1363_test.json")
	must(t, err)
	var f struct {
		TestGroups []struct {
			PublicKey struct {
				Uncompressed string `json:"uncompressed"`
			} `json:"publicKey"`
			Tests []struct {
				TcID             int
				Msg, Sig, Result string
			} `json:"tests"`
		} `json:"testGroups"`
	}
	must(t, json.Unmarshal(raw, &f))
	valid, invalid, flipped := 0, 0, 0
	for _, g := range f.TestGroups {
		for _, c := range g.Tests {
			msg, err := hex.DecodeString(c.Msg)
			must(t, err)
			a := attestation.AppProof{Scheme: attestation.Scheme, PublicKey: strings.Repeat(g.PublicKey.Uncompressed, 2), ProofPayload: string(msg), Signature: c.Sig}
			err = attestation.VerifyAppProofSignature(a)
			if (err == nil) != (c.Result == "valid") {
				t.Errorf("test %d: %s, got %v", c.TcID, c.Result, err)
			}
			if c.Result != "valid" {
				invalid++
				continue
			}
			valid++
			for i := 0; i < len(c.Sig); i += 31 {
				a.Signature = flip(c.Sig, i)
				if flipped++; attestation.VerifyAppProofSignature(a) == nil {
					t.Errorf("test %d: accepted with byte %d flipped", c.TcID, i)
				}
			}
		}
	}
	t.Logf("%d valid accepted, %d invalid refused, %d flipped refused", valid, invalid, flipped)
	if valid < 100 || invalid < 50 {
		t.Fatal("cases are missing")
	}
}
