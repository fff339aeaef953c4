package core

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"cloister/attestation"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/shared/wire"
)

// decisionContext is what the digest of that name in a policy outcome proof is
// the SHA-256 of, in canonical CBOR: all that the decision was made from besides
// the organization's records.
type decisionContext struct {
	Organization wire.ID   `cbor:"1,keyasint"`
	Activity     wire.ID   `cbor:"2,keyasint"`
	Fingerprint  wire.Hash `cbor:"3,keyasint"`
	Kind         string    `cbor:"4,keyasint"`
	Resource     string    `cbor:"5,keyasint"`
	Action       string    `cbor:"6,keyasint"`
	Approvals    []wire.ID `cbor:"7,keyasint"`
	TimeMs       uint64    `cbor:"8,keyasint"`
}

// prove signs what app proofs can say of a completed activity. The digest of
// the organization's data is the root of its ledger's tree before the activity:
// it binds every record that the decision could read.
func (s *step) prove(claims []claim) ([]org.Proof, error) {
	c, t, e, k := s.request.core, s.turn, s.entry, s.version.Kind
	dc := decisionContext{Organization: wire.ID(t.ID()), Activity: wire.ID(e.Activity), Fingerprint: wire.Hash(e.Fingerprint),
		Kind: k.Name, Resource: k.Resource, Action: k.Action, TimeMs: e.TimeMs}
	approvals := []attestation.Approval{}
	for i := range e.Votes {
		v := &e.Votes[i]
		if !slices.ContainsFunc(s.question.Approvals, func(a policy.Approval) bool { return a.User == v.User }) {
			continue // rejected, lapsed, or not proven: it did not count
		}
		dc.Approvals = append(dc.Approvals, wire.ID(v.User))
		message := v.Message
		if len(message) == 0 {
			if s.version.Secret() {
				continue // the body is not to be shown: the context names who approved
			}
			message = e.Body
		}
		approvals = append(approvals, attestation.Approval{Scheme: v.Scheme, PublicKey: v.PublicKey, Message: string(message), Signature: v.Signature})
	}
	b, err := wire.Marshal(&dc)
	if err != nil {
		return nil, fmt.Errorf("encoding a decision: %w", err)
	}
	digest := sha256.Sum256(b)
	tip := t.Tip()
	fresh := c.serving.Freshness(t.BootNumber())
	id, act, fp := t.ID().String(), e.Activity.String(), string(activity.AppendFingerprint(nil, e.Fingerprint))
	all := []attestation.Claim{&attestation.PolicyOutcome{
		OrganizationID: id, Outcome: e.Outcome, DecisionContextDigest: hex.EncodeToString(digest[:]), OrganizationDataDigest: hex.EncodeToString(tip.Root[:]),
		UserRequestApprovals: approvals, ActivityID: act, Fingerprint: fp, Freshness: fresh,
	}}
	for _, cl := range claims {
		switch {
		case cl.Address != nil:
			all = append(all, &attestation.AddressDerivation{OrganizationID: cl.Address.Organization.String(), WalletID: cl.Address.WalletID,
				DerivationPath: cl.Address.Path, Address: cl.Address.Address, ActivityID: act, Fingerprint: fp, Freshness: fresh})
		case cl.Signature != nil:
			all = append(all, &attestation.SignatureMade{OrganizationID: id, ActivityID: act, Fingerprint: fp,
				PublicKey: cl.Signature.PublicKey, Digests: cl.Signature.Digests, Freshness: fresh})
		}
	}
	out := make([]org.Proof, len(all))
	now := c.cfg.Clock.Now()
	for i, cl := range all {
		if out[i], err = c.serving.Live.Prove(now, cl); err != nil {
			return nil, err
		}
	}
	return out, nil
}
