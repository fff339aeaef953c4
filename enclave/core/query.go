package core

import (
	"context"
	"encoding/json"
	"errors"

	"cloister/attestation"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/enclave/internal/stamp"
	"cloister/shared/wire"
)

// reading is a query on its way.
type reading struct {
	c     *Core
	who   *stamp.Caller
	id    org.ID
	req   *query.Request
	shape error // what is wrong with operation or body; told to who may ask
	q     *query.Query
	home  *org.Organization // the parent, when the caller is of it
	user  *org.User
	view  *ledger.View
	batch uint64
}

// query answers from the newest state. It writes nothing, and its answer waits
// like any other for what it has seen.
func (c *Core) query(ctx context.Context, call *wire.Call, p *phases) (answer, error) {
	r := &reading{c: c}
	var err error
	if r.who, err = c.verify(call); err != nil {
		return answer{}, err
	}
	p.end(0)
	if r.id, err = query.ParseHead(r.who.Body()); err != nil {
		return answer{}, err
	}
	if r.q, r.shape = query.Lookup(call.Op); r.shape == nil {
		r.req, r.shape = r.q.Decode(r.who.Body())
	}
	if err = r.admit(ctx, call.Op); err == nil {
		err = r.shape
	}
	if err == nil && r.q.Fetches {
		err = r.req.Fetch(history{ctx, r.view}, bootProofs{ctx, c})
	}
	var body []byte
	if err == nil {
		body, err = r.answer(ctx)
	}
	p.end(1)
	return answer{status: 200, body: body, batch: r.batch}, err
}

// admit finds who asks: a user of the organization or of its parent. Only whoami
// may name the parent of the organization in which the key can stamp.
func (r *reading) admit(ctx context.Context, op string) error {
	var s *stranger
	var below []org.ID
	err := r.c.serve.ledger.Turn(ctx, r.id, func(t *ledger.Turn) error {
		r.see(t.Batch())
		tx := org.Begin(t.ID(), t.State, r.c.now())
		who, err := r.c.authenticate(tx, r.who)
		if errors.As(err, &s) && op == "whoami" {
			var berr error
			if below, berr = tx.ChildrenBy(org.ChildCredential, r.who.Curve()+":"+r.who.PublicKey(), nil, 2); berr != nil {
				return berr
			}
		}
		r.view = t.View()
		if err != nil {
			return err
		}
		t.Renew()
		r.user = who.user
		return nil
	})
	switch {
	case errors.Is(err, ledger.ErrNoOrganization):
		return unknownKey(r.id, r.who)
	case !errors.As(err, &s):
		return err
	case len(below) > 1:
		return fault.Named(fault.Unauthenticated, "CREDENTIAL_CONFLICT", "more than one suborg associated with a public key")
	case len(below) == 1:
		r.id = below[0]
		return r.admit(ctx, "")
	}
	who, batch, err := r.c.inParent(ctx, s, r.id, r.who)
	r.see(batch)
	if err != nil {
		return err
	}
	r.user, r.home = who.user, who.home
	return nil
}

func (r *reading) see(batch uint64) { r.batch = max(r.batch, batch) }

func (r *reading) answer(ctx context.Context) (body []byte, err error) {
	err = r.c.serve.ledger.Turn(ctx, r.id, func(t *ledger.Turn) error {
		r.see(t.Batch())
		body, err = r.req.Answer(&query.View{Tx: org.Begin(t.ID(), t.State, r.c.now()), Caller: r.user, Home: r.home})
		return err
	})
	return body, err
}

// history reads an organization's old entries for one query.
type history struct {
	ctx context.Context
	v   *ledger.View
}

func (h history) Activity(id org.ID) (*org.Entry, error) { return h.v.Activity(h.ctx, id) }

func (h history) Page(p query.Page) ([]*org.Entry, error) {
	return h.v.Page(h.ctx, ledger.Page{Types: p.Types, Statuses: p.Statuses, Before: p.Before, After: p.After, Limit: p.Limit})
}

// bootProofs finds the proofs of this boot and of earlier ones. An old one is
// kept by the host and checks itself: who asks verifies it.
type bootProofs struct {
	ctx context.Context
	c   *Core
}

func (b bootProofs) Latest() ([]byte, error) { return b.c.serve.proof, nil }

func (b bootProofs) ByKey(publicKeyHex string) ([]byte, error) {
	if publicKeyHex == b.c.serve.live.publicHex {
		return b.c.serve.proof, nil
	}
	raw, err := b.c.object(b.ctx, objectProof+hashHex([]byte(publicKeyHex)))
	if err != nil {
		return nil, ledger.ErrBusy
	}
	if raw == nil {
		return nil, nil
	}
	var p attestation.BootProof
	if err := json.Unmarshal(raw, &p); err != nil || (p.EphemeralPublicKeyHex != publicKeyHex && !insecure.Skip(insecure.Answer)) {
		b.c.alarms.Raise(fault.AlarmIndex)
		return nil, fault.Breached(fault.AlarmIndex, "another boot proof than asked for")
	}
	// Written anew, so that nothing passes through but the members of a proof.
	return json.Marshal(&p)
}
