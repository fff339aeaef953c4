package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"cloister/attestation"
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/shared/wire"
)

// execute runs the activity that the policies have granted.
func (s *attempt) execute(g *policy.Grant) (err error) {
	if s.request.call.lookups.Tenant, err = tenant.Of(s.tx); err != nil {
		return err
	}
	if err := s.checkFrozen(); err != nil {
		return err
	}
	at := s.activityTx(g)
	if at.WantsProofs {
		if err := s.decodeForProof(); err != nil {
			return err
		}
	}
	if err := s.countSignatures(at); err != nil {
		return err
	}
	result, err := s.request.core.perform(s.version, at, s.intent)
	if _, over := errors.AsType[*overdraft](err); over {
		return err
	}
	if f := fault.Of(err); f != nil && f.Code != fault.Unimplemented && f.Code != fault.Unavailable {
		s.failActivity(f) // stored, so that the same body gets the same answer
		if rest := s.locked.Begin(s.tx.NowMs); at.KeptAfterRefusal(rest) {
			s.records = rest // persistent changes, such as spent tokens
		}
		return nil
	}
	if err != nil {
		return err // no effect
	}
	s.entry.Status, s.entry.Result, s.entry.Sends = org.StatusCompleted, result, at.Sends
	if s.parentRecords = at.Parent; s.parentRecords == nil {
		s.entry.Sends = append(s.entry.Sends, s.usageSends...)
	}
	if at.WantsProofs {
		s.entry.Proofs, err = s.signProofs(at.Claims)
	}
	return err
}

// decodeForProof decodes the activity as its approvers are shown it, before it changes anything, so that its app proofs can
// name that. One that needed no other's approval was shown to nobody.
func (s *attempt) decodeForProof() error {
	if s.previous == nil {
		return nil
	}
	_, err := s.decode()
	if fault.Of(err) != nil {
		return nil // it is not shown either
	}
	return err
}

// decode makes what approvers are shown of the activity that is voted on. It is called before the activity changes anything.
func (s *attempt) decode() (*show.Document, error) {
	if s.decoded == nil {
		d, err := kinds.Live.Document(s.tx, s.previous, s.request.core.serving.providers.Capabilities.Tokens)
		if err != nil {
			return nil, err
		}
		s.decoded = &d
	}
	return s.decoded, nil
}

// drillPrefix is the required prefix of everything signed in a drill; empty: no drill.
func (c *Core) drillPrefix() string {
	if c.serving.Manifest.Drill {
		return attestation.DrillPrefix
	}
	return ""
}

// drills are the kinds that a drill allows.
var drills = []string{"SIGN_RAW_PAYLOAD", "SIGN_RAW_PAYLOADS", "CREATE_WALLET_ACCOUNTS"}

var errDrill = fault.WithCode(fault.FailedPrecondition, "DRILL", "this is a drill on a copy of the deployment: it answers queries, derives accounts and signs raw payloads of a drill")

var errFrozen = fault.WithCode(fault.FailedPrecondition, "SIGNING_FROZEN", "the store was recovered without what was written last, so credentials that were removed then are back: look at them, and have the root quorum submit remove_organization_feature with the name %s", organization.FeatureFrozen)

// checkFrozen refuses the use of keys after a recovery until the organization's root quorum has allowed it.
// Nothing is stored, so that the same body may be sent again.
func (s *attempt) checkFrozen() error {
	if action := s.version.Kind.Action; s.request.core.serving.Manifest.Drill || action != keys.ActionSign && action != keys.ActionExport {
		return nil
	}
	o, err := s.tx.Organization()
	if err == nil && organization.Frozen(o, s.locked.Ledger().LastRecovery()) {
		err = errFrozen
	}
	return err
}

// activityTx makes the environment of the activity's function. It runs as the activity's initiator.
func (s *attempt) activityTx(g *policy.Grant) *activity.Tx {
	c, v := s.request.core, s.request.call
	key, keyID := s.locked.Key()
	at := &activity.Tx{
		Tx: s.tx, Limits: c.cfg.Quotas, Vault: activity.VaultOf(c.vault(s.tx.ID, key, keyID)), Rand: mixed{c}, Keys: c.keys, User: s.pending.Initiator, Activity: s.entry.Activity, Grant: g,
		WantsProofs: s.sub.WantsProofs || s.intent.WantsProofs, NewOrganization: func() (*activity.Tx, error) { return s.newOrganization(g) },
		Bundles: c.serving.bundles, Boot: c.serving.Ranges.Term(s.locked),
		Seq: s.seq(), Recovered: s.locked.Ledger().LastRecovery(), RecoveredMs: s.locked.Ledger().RecoveredMs(), Drill: c.drillPrefix(), Sessions: c.serving.sessions, Tokens: c.serving.tokens, LegacyTokens: c.serving.legacyTokens, PasscodeTargets: c.serving.passcodeTargets,
		ServiceKeys: c.serving.serviceKeys, Capabilities: c.serving.providers.Capabilities, Providers: v.lookups.For(s.entry.Activity),
		StoredEvents: v.storedEvents,
		Loopback:     c.cfg.Simulator && c.cfg.WebhookLoopback, From: s.request.from, Sender: v,
	}
	if by, ok := s.request.requester.voucher.(*verificationVoucher); ok && s.previous == nil {
		at.Verification = by.token
	}
	if vote := s.pending.VoteOf(s.pending.Initiator); vote != nil {
		at.Stamped = vote.Credentials[0]
	}
	if s.authority != s.tx {
		at.Parent = s.authority
	} else if s.parent != nil {
		at.Parent = s.parent.Begin(s.tx.NowMs)
	}
	if s.parent != nil {
		key, keyID := s.parent.Key()
		at.ParentVault = activity.VaultOf(c.vault(s.parent.ID(), key, keyID))
	}
	return at
}

// newOrganization creates a sub-organization. Its first entry and the activity's refer to each other.
func (s *attempt) newOrganization(g *policy.Grant) (*activity.Tx, error) {
	c := s.request.core
	id, err := org.NewChildID(mixed{c}, s.locked.ID())
	if err != nil {
		return nil, err
	}
	child, err := s.locked.Ledger().NewChild(id, s.tx.NowMs)
	if err != nil {
		return nil, err
	}
	tx := child.Tx()
	s.entry.Other = id
	s.children = append(s.children, ledger.Addition{Child: child, Tx: tx, Entry: s.companionEntry()})
	return &activity.Tx{Tx: tx, Vault: activity.VaultOf(c.vault(id, child.Key(), 1)), Rand: mixed{c}, Keys: c.keys, Activity: s.entry.Activity, Grant: g, Grantor: s.locked.ID(), Recovered: s.locked.Ledger().LastRecovery()}, nil
}

// decisionContext is the input of a decision besides the organization's records. A policy outcome
// proof contains the SHA-256 of its canonical CBOR.
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

// signProofs signs the app proofs of a completed activity. The digest of the organization's data is the root of
// its tree before the activity, which binds every record.
func (s *attempt) signProofs(claims []activity.Claim) ([]org.Proof, error) {
	c, t, e, k := s.request.core, s.locked, s.entry, s.version.Kind
	dc := decisionContext{Organization: wire.ID(t.ID()), Activity: wire.ID(e.Activity), Fingerprint: wire.Hash(e.Fingerprint),
		Kind: k.Name, Resource: k.Resource, Action: k.Action, TimeMs: e.TimeMs}
	approvals := []attestation.Approval{}
	for i := range e.Votes {
		v := &e.Votes[i]
		if !slices.ContainsFunc(s.policyRequest.Approvals, func(a policy.Approval) bool { return a.User == v.User }) {
			continue // rejected, lapsed, or not proven: it did not count
		}
		dc.Approvals = append(dc.Approvals, wire.ID(v.User))
		message := v.Message
		if len(message) == 0 {
			if s.version.Secret() {
				continue // a secret body must not be shown: the context names the approvers
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
	fresh := c.serving.Freshness(t.Ledger().BootNumber())
	id, act, fp := t.ID().String(), e.Activity.String(), string(activity.AppendFingerprint(nil, e.Fingerprint))
	all := append(make([]attestation.Claim, 0, 2+len(claims)), &attestation.PolicyOutcome{
		OrganizationID: id, Outcome: e.Outcome, DecisionContextDigest: hex.EncodeToString(digest[:]), OrganizationDataDigest: hex.EncodeToString(tip.Root[:]),
		UserRequestApprovals: approvals, ActivityID: act, Fingerprint: fp, Freshness: fresh,
	})
	if s.decoded != nil {
		digest := s.decoded.Digest()
		all = append(all, &attestation.DecodedActivity{OrganizationID: id, ActivityID: act, Fingerprint: fp, DecodedDigest: hex.EncodeToString(digest[:]), Freshness: fresh})
	}
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
		s.tx.Pause()
	}
	return out, nil
}

// storedEvents is activity.Tx.StoredEvents: the events are read with no lock held, and kept for the call.
func (v *callState) storedEvents(places []org.SendPlace) ([]*org.StoredEvent, error) {
	events := make([]*org.StoredEvent, len(places))
	for i, at := range places {
		event, read := v.events[at]
		if !read {
			return nil, &org.Retry{Prefetch: func(ctx context.Context) error { return v.readEvents(ctx, places) }}
		}
		events[i] = event
	}
	return events, nil
}

func (v *callState) readEvents(ctx context.Context, places []org.SendPlace) error {
	v.events = map[org.SendPlace]*org.StoredEvent{}
	for _, at := range places {
		s, err := v.core.serving.outbox.Event(ctx, &v.Access, at)
		if err != nil {
			return err
		}
		v.events[at] = nil
		if s != nil {
			v.events[at] = &s.StoredEvent
		}
	}
	return nil
}
