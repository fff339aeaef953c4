package core

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// run is one execution of an activity and the organizations that it makes.
type run struct {
	r        *request
	t        *ledger.Turn
	nowMs    uint64
	children []*ledger.Child
}

// activityTx is what the activity's function may touch.
func (c *Core) activityTx(tx *org.Tx, who *caller, r *request, run *run, g *policy.Grant) *activity.Tx {
	key, keyID := run.t.Key()
	return &activity.Tx{
		Tx: tx, Vault: c.vault(tx.ID, key, keyID), Rand: mixed{c}, Keys: c.keys, User: who.user.ID, Activity: r.id, Grant: g,
		WantsProofs: r.sub.WantsProofs || r.intent.WantsProofs, NewOrganization: run.newOrganization,
	}
}

func (n *run) newOrganization() (*activity.Tx, error) {
	c := n.r.c
	id, err := org.NewID(mixed{c})
	if err != nil {
		return nil, err
	}
	child, err := c.serve.ledger.NewChild(id, n.nowMs)
	if err != nil {
		return nil, err
	}
	n.children = append(n.children, child)
	return &activity.Tx{Tx: child.Tx(), Vault: c.vault(id, child.Key(), 1), Rand: mixed{c}, Keys: c.keys, Activity: n.r.id}, nil
}

// entries makes the first entry of each new organization. It and the parent's
// entry name each other.
func (n *run) entries(e *org.Entry) ([]ledger.Addition, error) {
	var out []ledger.Addition
	for _, c := range n.children {
		e.Other = c.Tx().ID
		out = append(out, ledger.Addition{Child: c, Tx: c.Tx(), Entry: &org.Entry{
			Fingerprint: e.Fingerprint, CreatedMs: e.TimeMs, TimeMs: e.TimeMs, Other: n.t.ID(), OtherSeq: n.t.Tip().Count,
		}})
	}
	return out, nil
}
