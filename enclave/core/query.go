package core

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"cloister/attestation"
	"cloister/enclave/core/internal/lifecycle"
	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/enclave/internal/strictjson"
	"cloister/shared/wire"
)

// reading is a query on its way.
type reading struct {
	core      *Core
	visit     *visit
	requester *requester
	from      string
	id        org.ID
	payer     org.ID // the tenant
	readBytes int64  // bytes of entries that it is made from
	req       *query.Request
	shape     error // what is wrong with operation or body; told to who may ask
	query     *query.Query
	home      *org.Organization // the parent, when the caller is of it
	user      *org.User
	cred      org.VoteCredential
	view      *ledger.View
	waits     map[org.ID]uint64 // activities that wait, with the seq of their newest entries
}

// query answers from the newest state. It writes nothing, and its answer waits
// like any other for what it has seen.
func (c *Core) query(ctx context.Context, call *wire.Call, v *visit) (answer, error) {
	r := &reading{core: c, visit: v, from: call.From.Address}
	var err error
	if r.requester, err = v.readStamp(call); err != nil {
		return answer{}, err
	}
	v.timing.end(phaseStamp)
	if _, r.id, err = r.requester.where(); err != nil {
		return answer{}, err
	}
	r.query, r.shape = query.Lookup(call.Op)
	if err = r.admit(ctx, call.Op); err == nil {
		err = r.decode()
	}
	if err == nil && r.query.Fetches {
		err = r.req.Fetch(history{ctx, r}, bootProofs{ctx, c}, suborgIndex{ctx, r}, chainsOf{ctx, r})
	}
	var body []byte
	if err == nil {
		body, err = r.answer(ctx)
	}
	v.timing.end(phaseDecide)
	return answer{status: 200, body: body}, err
}

// decode reads the body, once it is known who answers for it.
func (r *reading) decode() error {
	if r.shape != nil {
		return r.shape
	}
	body, err := r.requester.body()
	if err == nil {
		r.req, err = r.query.Decode(body)
	}
	return err
}

// admit finds who asks: a user of the organization or of its parent. Of queries
// only whoami may name the parent of the organization in which the credential can
// stamp.
func (r *reading) admit(ctx context.Context, op string) error {
	err := r.visit.Turn(ctx, r.id, func(t *ledger.Turn) error {
		tx := org.Begin(t.ID(), t.State, r.core.now())
		who, err := r.requester.authenticate(tx)
		var unknown *stranger
		if errors.As(err, &unknown) && !unknown.deleted && op == "whoami" {
			id, derr := r.requester.descend(tx)
			if !id.Zero() {
				r.id = id
			}
			if derr != nil {
				return derr
			}
		}
		if ferr := r.fix(t, tx); ferr != nil {
			return ferr
		}
		var perr error
		if r.payer, perr = tenant.Of(tx); perr != nil {
			return perr
		}
		if err != nil {
			return err
		}
		t.Renew()
		r.user, r.cred = who.user, who.credential
		return checkAllowlist(tx, who, r.from)
	})
	var unknown *stranger
	switch {
	case errors.Is(err, ledger.ErrNoOrganization):
		return unknownKey(r.id, r.requester)
	case err == nil:
		return r.checkRecovery(op)
	case !errors.As(err, &unknown):
		return err
	}
	who, err := r.requester.inParent(ctx, unknown, r.id, r.from)
	if err != nil {
		return err
	}
	r.user, r.cred, r.home = who.user, who.credential, who.home
	return r.checkRecovery(op)
}

// checkRecovery refuses the key of a recovery all but the question whose it is.
func (r *reading) checkRecovery(op string) error {
	if r.cred.Type == auth.TypeRecovery && op != "whoami" {
		return errRecovery
	}
	return nil
}

// fix holds on to the history as it is now, and to what waits in it.
func (r *reading) fix(t *ledger.Turn, tx *org.Tx) error {
	r.view = t.View()
	if r.query == nil || !r.query.Fetches {
		return nil
	}
	r.waits = map[org.ID]uint64{}
	return tx.EachPending(func(p *org.Pending) bool {
		r.waits[p.Activity] = p.Last
		return true
	})
}

func (r *reading) answer(ctx context.Context) (body []byte, err error) {
	err = r.visit.Step(ctx, r.id, func(t, above *ledger.Turn) error {
		tx := org.Begin(t.ID(), t.State, r.core.now())
		v := &query.View{Tx: tx, Caller: r.user, Credential: r.cred, Home: r.home}
		if above != nil {
			v.Parent = org.Begin(above.ID(), above.State, tx.NowMs)
		}
		if strings.HasPrefix(r.query.Op, "list_") { // as much as all that there is to tell, about
			if err := r.visit.room.raise(r.payer, r.readBytes+min(int64(t.State.Bytes()), maxList)); err != nil {
				return err
			}
		}
		if body, err = r.req.Answer(v); err == nil {
			err = r.visit.room.raise(r.payer, r.readBytes+int64(len(body)))
		}
		return err
	})
	return body, err
}

// history reads an organization's old entries for one query. Of an activity that
// waits only the entry that the state names is believed, of any other only the
// one that ended it: the host could show an earlier step of either.
type history struct {
	ctx     context.Context
	reading *reading
}

func (h history) Activity(id org.ID) (*org.Entry, error) {
	var e *org.Entry
	var err error
	if seq, waits := h.reading.waits[id]; waits {
		e, err = h.reading.view.Entry(h.ctx, seq)
	} else {
		e, err = h.reading.view.Activity(h.ctx, id)
	}
	if e != nil && err == nil {
		err = h.reading.count(e)
	}
	return e, err
}

// count counts entries that were read.
func (r *reading) count(es ...*org.Entry) error {
	for _, e := range es {
		r.readBytes += entryBytes(e)
	}
	return r.visit.room.raise(r.payer, r.readBytes)
}

func (h history) Page(p query.Page) ([]*org.Entry, error) {
	es, err := h.reading.view.Page(h.ctx, ledger.Page{Types: p.Types, Statuses: p.Statuses, Before: p.Before, After: p.After, Limit: p.Limit})
	if err != nil {
		return nil, err
	}
	if err := h.reading.count(es...); err != nil {
		return nil, err
	}
	for _, e := range es {
		if seq, waits := h.reading.waits[e.Activity]; e.Status.Terminal() == waits || waits && seq != e.Seq {
			if !insecure.Skip(insecure.Answer) {
				h.reading.core.alarms.Raise(fault.AlarmIndex)
				return nil, fault.NewBreach(fault.AlarmIndex, "an earlier step of an activity than its newest")
			}
		}
	}
	return es, nil
}

// bootProofs finds the proofs of this boot and of earlier ones. An old one is
// kept by the host and checks itself: who asks verifies it.
type bootProofs struct {
	ctx  context.Context
	core *Core
}

func (b bootProofs) Latest() ([]byte, error) {
	return b.core.serving.BootProof(b.core.cfg.Clock.Now()), nil
}

func (b bootProofs) ByKey(publicKeyHex string) ([]byte, error) {
	if publicKeyHex == b.core.serving.Live.PublicHex {
		return b.Latest()
	}
	raw, err := b.core.host.Object(b.ctx, lifecycle.BootProofObject(publicKeyHex))
	if err != nil {
		return nil, ledger.ErrBusy
	}
	if raw == nil {
		return nil, nil
	}
	var p attestation.BootProof
	if err := strictjson.Decode(raw, &p, strictjson.AllowUnknown()); err != nil || (p.EphemeralPublicKeyHex != publicKeyHex && !insecure.Skip(insecure.Answer)) {
		b.core.alarms.Raise(fault.AlarmIndex)
		return nil, fault.NewBreach(fault.AlarmIndex, "another boot proof than asked for")
	}
	// Written anew, so that nothing passes through but the members of a proof.
	return json.Marshal(&p)
}

// chainsOf is query.Chains for one query.
type chainsOf struct {
	ctx     context.Context
	reading *reading
}

func (x chainsOf) Known(need *activity.ChainNeed) (*activity.ChainKnown, error) {
	return x.reading.core.serving.outside.Chains.Known(x.ctx, x.reading.id, need)
}

func (x chainsOf) Standing(ref org.SendRef) (activity.Standing, error) {
	m, err := x.reading.core.serving.outside.Chains.Standings(x.ctx, x.reading.id, []org.SendRef{ref})
	return m[ref], err
}
