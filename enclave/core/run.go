package core

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// run is one execution of an activity and the organizations that it makes.
type run struct {
	request  *request
	turn     *ledger.Turn
	nowMs    uint64
	children []*ledger.Child
	activity org.ID
	grant    *policy.Grant
}

// activityTx is what the activity's function may touch. It runs as whoever
// submitted the activity, whoever's vote let it.
func (s *step) activityTx(n *run, g *policy.Grant) *activity.Tx {
	c := s.request.core
	key, keyID := s.turn.Key()
	at := &activity.Tx{
		Tx: s.tx, Limits: c.cfg.Quotas, Vault: c.vault(s.tx.ID, key, keyID), Rand: mixed{c}, Keys: c.keys, User: s.pending.Initiator, Activity: s.entry.Activity, Grant: g,
		WantsProofs: s.sub.WantsProofs || s.intent.WantsProofs, NewOrganization: n.newOrganization, Bundles: c.serving.bundles, Boot: c.serving.Ranges.Term(s.turn),
		Seq: s.seq(), Sessions: c.serving.sessions, Tokens: c.serving.tokens, LegacyTokens: c.serving.legacy, PasscodeTargets: c.serving.targets,
		Roles: c.serving.roles, Outside: c.serving.outside.Told, Providers: s.request.visit.lookups.For(s.entry.Activity),
		Loopback: c.cfg.Simulator && c.cfg.WebhookLoopback,
	}
	if v, ok := s.request.requester.voucher.(*verificationVoucher); ok && s.last == nil {
		at.Verification = v.token
	}
	if v := s.voteOf(s.pending.Initiator); v != nil {
		at.Stamped = v.Credentials[0]
	}
	if s.law != s.tx {
		at.Parent = s.law
	} else if s.above != nil {
		at.Parent = org.Begin(s.above.ID(), s.above.State, s.tx.NowMs)
	}
	return at
}

func (n *run) newOrganization() (*activity.Tx, error) {
	c := n.request.core
	id, err := org.NewIDBelow(mixed{c}, n.turn.ID())
	if err != nil {
		return nil, err
	}
	child, err := n.turn.NewChild(id, n.nowMs)
	if err != nil {
		return nil, err
	}
	n.children = append(n.children, child)
	return &activity.Tx{Tx: child.Tx(), Vault: c.vault(id, child.Key(), 1), Rand: mixed{c}, Keys: c.keys, Activity: n.activity, Grant: n.grant, Grantor: n.turn.ID()}, nil
}

// entries makes the first entry of each new organization. It and the parent's
// entry name each other.
func (n *run) entries(e *org.Entry, seq uint64) ([]ledger.Addition, error) {
	var out []ledger.Addition
	for _, c := range n.children {
		e.Other = c.Tx().ID
		out = append(out, ledger.Addition{Child: c, Tx: c.Tx(), Entry: &org.Entry{
			Fingerprint: e.Fingerprint, CreatedMs: e.TimeMs, TimeMs: e.TimeMs, Other: n.turn.ID(), OtherSeq: seq,
		}})
	}
	return out, nil
}
