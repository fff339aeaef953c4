package attestation_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"testing"
	"time"

	"cloister/attestation"
)

// Two proofs that a real enclave made, of an operator who is not us: the
// documents verify under the default root, years after their leaves ended.
func TestGenuineDocuments(t *testing.T) {
	raw, err := os.ReadFile("testdata/aws.json")
	must(t, err)
	var pairs []struct {
		AppProof  attestation.AppProof
		BootProof attestation.BootProof
	}
	must(t, json.Unmarshal(raw, &pairs))
	if len(pairs) != 2 {
		t.Fatalf("%d pairs", len(pairs))
	}
	flipped := 0
	for _, p := range pairs {
		doc, err := base64.StdEncoding.DecodeString(p.BootProof.AWSAttestationDocB64)
		must(t, err)
		d, err := attestation.VerifyDocument(doc, attestation.Policy{Now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)})
		must(t, err)
		if d.Simulator || d.Debug || len(d.PCRs) != 16 || len(d.PublicKey) != 130 || d.Nonce != nil {
			t.Errorf("read %+v", d)
		}
		must(t, attestation.VerifyAppProofSignature(p.AppProof))
		_, claim, err := attestation.ParsePayload(p.AppProof.ProofPayload)
		must(t, err)
		if claim.Type() != attestation.TypeAddressDerivation {
			t.Error(claim.Type())
		}
		for i := 0; i < len(doc); i += 41 {
			doc[i] ^= 1
			if flipped++; accepted(doc) {
				t.Errorf("accepted with byte %d flipped", i)
			}
			doc[i] ^= 1
		}
		// It commits to nothing in PCR17, so it is no boot proof of ours.
		_, err = attestation.VerifyAppProof(p.AppProof, p.BootProof, attestation.Policy{AllowUnpinned: true, ForeignManifest: true})
		refused(t, err, "16 PCRs")
	}
	t.Logf("2 genuine documents accepted, %d with a byte flipped refused", flipped)
}

func accepted(doc []byte) bool {
	_, err := attestation.VerifyDocument(doc, attestation.Policy{})
	return err == nil
}
