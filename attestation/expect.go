package attestation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// An Expectation is what a proof must say, by the caller's own request. An empty member is not compared; one
// that is set must be equal in the proof. So a true proof of another request, or an old one, is refused.
//
// Fingerprint binds best: the caller computes it from the body that it sent, and it belongs to
// one activity only.
type Expectation struct {
	Type           string // one of the Type constants
	OrganizationID string
	ActivityID     string
	Fingerprint    string    // see Fingerprint
	NotBefore      time.Time // the earliest time of the proof
	BootNumber     string    // of the claim's freshness, decimal

	// For TypeAddressDerivation.
	Address, WalletID, DerivationPath string
	// For TypePolicyOutcome.
	Outcome string
	// For TypeSignature.
	PublicKey string
	Digests   []string // all of them, in order
	// For TypeDecoded; see the function DecodedDigest.
	DecodedDigest string
}

// Check refuses a verified proof that is not the expected one.
func (e Expectation) Check(p *Proof) error {
	if p == nil || p.Claim == nil {
		return errors.New("no proof")
	}
	org, activity, fingerprint := p.Claim.Names()
	bootNumber := ""
	if f := p.Claim.Fresh(); f != nil {
		bootNumber = f.BootNumber
	}
	if err := cmp.Or(
		checkSame("type", e.Type, p.Claim.Type()),
		checkSame("organization", e.OrganizationID, org),
		checkSame("activity", e.ActivityID, activity),
		checkSame("fingerprint", e.Fingerprint, fingerprint),
		checkSame("boot number", e.BootNumber, bootNumber),
	); err != nil {
		return err
	}
	if p.Time.Before(e.NotBefore) {
		return errors.New("older than expected")
	}
	return e.checkClaim(p.Claim)
}

// checkClaim compares the fields of each type with the claim; a claim of another type has them all empty.
func (e Expectation) checkClaim(c Claim) error {
	var a AddressDerivation
	var o PolicyOutcome
	var s SignatureMade
	var d DecodedActivity
	switch c := c.(type) {
	case *AddressDerivation:
		a = *c
	case *PolicyOutcome:
		o = *c
	case *SignatureMade:
		s = *c
	case *DecodedActivity:
		d = *c
	}
	if err := cmp.Or(
		checkSame("address", e.Address, a.Address),
		checkSame("wallet", e.WalletID, a.WalletID),
		checkSame("derivation path", e.DerivationPath, a.DerivationPath),
		checkSame("outcome", e.Outcome, o.Outcome),
		checkSame("public key", e.PublicKey, s.PublicKey),
		checkSame("decoded digest", e.DecodedDigest, d.DecodedDigest),
	); err != nil {
		return err
	}
	if e.Digests != nil && !slices.Equal(e.Digests, s.Digests) {
		return errors.New("digests are not the expected ones")
	}
	return nil
}

func checkSame(name, want, got string) error {
	if want != "" && want != got {
		return fmt.Errorf("%s is not the expected one", name)
	}
	return nil
}

// VerifyAppProofs verifies all app proofs of a reply, 1 to MaxProofs, each under the boot proof of its live
// key, and checks each against the expectation. An empty list is an error: the proofs were withheld.
func VerifyAppProofs(proofs []AppProof, boots []BootProof, p Policy, e Expectation) ([]*Proof, error) {
	if len(proofs) == 0 || len(proofs) > MaxProofs {
		return nil, fmt.Errorf("%d app proofs, want 1 to %d", len(proofs), MaxProofs)
	}
	verified := make(map[string]*Boot)
	out := make([]*Proof, 0, len(proofs))
	for i, a := range proofs {
		boot := verified[a.PublicKey]
		if boot == nil {
			at := slices.IndexFunc(boots, func(b BootProof) bool { return b.EphemeralPublicKeyHex == a.PublicKey })
			if at < 0 {
				return nil, fmt.Errorf("proof %d: no boot proof for its key", i+1)
			}
			var err error
			if boot, err = VerifyBootProof(boots[at], p); err != nil {
				return nil, err
			}
			verified[a.PublicKey] = boot
		}
		proof, err := boot.VerifyAppProof(a)
		if err == nil {
			err = e.Check(proof)
		}
		if err != nil {
			return nil, fmt.Errorf("proof %d: %w", i+1, err)
		}
		out = append(out, proof)
	}
	return out, nil
}
