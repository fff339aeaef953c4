package core

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"cloister/attestation"
	"cloister/enclave/core/internal/lifecycle"
	"cloister/enclave/core/internal/providers"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/insecure"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/enclave/internal/strictjson"
	"cloister/shared/pace"
	"cloister/shared/wire"
)

// queryCall is a call to the query endpoint.
type queryCall struct {
	core         *Core
	call         *callState
	requester    *requester
	from         string
	organization org.ID
	record       *org.Organization // as it was when the view was pinned
	readBytes    int64             // bytes of entries that were read for the answer
	req          *query.Request
	formatErr    error // error of operation or body; only for callers who may read
	query        *query.Query
	caller       *caller
	view         *ledger.View
	pendingSeqs  map[org.ID]uint64 // waiting activities, with the seq of their newest entries
	onRamps      *providers.OnRampLookups
}

// query answers a query from the newest state. It writes nothing.
func (c *Core) query(ctx context.Context, call *wire.Call, v *callState) (callAnswer, error) {
	r := &queryCall{core: c, call: v, from: call.From.Address}
	slot, err := c.readLarge(ctx, call, v)
	if err != nil {
		return callAnswer{}, err
	}
	defer slot.Release()
	if r.requester, err = v.readStamp(call); err != nil {
		return callAnswer{}, err
	}
	v.endPhase(phaseStamp)
	if _, r.organization, err = r.requester.organizationToSearch(); err != nil {
		return callAnswer{}, err
	}
	v.Computed += slot.Release()
	r.query, r.formatErr = query.Lookup(call.Op)
	if err = r.authenticateCaller(ctx, call.Op); err == nil {
		err = r.decode()
	}
	if err == nil && r.query.Fetches {
		from := sources{ctx, r}
		err = r.req.Fetch(from, from, from, from, from, from, from, from)
	}
	var body []byte
	if err == nil {
		body, err = r.answer(ctx)
	}
	if r.view != nil {
		v.Computed += r.view.ProcessorTime()
	}
	v.endPhase(phaseDecide)
	return callAnswer{status: 200, body: body}, err
}

// decode decodes the body, once the caller is authenticated.
func (r *queryCall) decode() (err error) {
	if r.formatErr != nil {
		return r.formatErr
	}
	if r.requester.session != nil {
		r.req, err = r.query.DecodeHostBody(r.requester.hostBody)
		return err
	}
	body, err := r.requester.body()
	if err == nil {
		r.req, err = r.query.Decode(body)
	}
	return err
}

// authenticateCaller finds the caller: a user of the organization or of its parent. Only whoami may name the
// parent of the organization in which the credential can stamp, and only whoami may be
// stamped by a recovery key.
func (r *queryCall) authenticateCaller(ctx context.Context, op string) error {
	err := r.call.WithLock(ctx, r.organization, func(t *ledger.Locked) (err error) {
		tx := t.Begin(r.core.now())
		who, refused := r.requester.authenticate(tx)
		if s, ok := errors.AsType[*unknownCredential](refused); ok && !s.deleted && op == "whoami" {
			if err := r.requester.redirectToChild(tx, &r.organization); err != nil {
				return err
			}
		}
		if err := r.pinView(t, tx); err != nil {
			return err
		}
		if refused != nil {
			return refused
		}
		t.Touch()
		r.caller = who
		return checkAllowlist(tx, who, r.from)
	})
	if errors.Is(err, ledger.ErrNoOrganization) {
		return activity.NoOrganization(r.organization)
	}
	if s, ok := errors.AsType[*unknownCredential](err); ok {
		r.caller, err = r.requester.callerInParent(ctx, s, r.organization, r.from)
	}
	if err == nil && r.caller.credential.Type == auth.TypeRecovery && op != "whoami" {
		err = errRecovery
	}
	return err
}

// pinView pins a view of the history as it is now, and of its waiting activities.
func (r *queryCall) pinView(t *ledger.Locked, tx *org.Tx) (err error) {
	r.view = t.View()
	o, err := tx.Organization()
	if err != nil {
		return err
	}
	if r.record = o; r.query == nil || !r.query.Fetches {
		return nil
	}
	r.pendingSeqs = map[org.ID]uint64{}
	return tx.EachPending(func(p *org.Pending) bool {
		r.pendingSeqs[p.Activity] = p.Last
		return true
	})
}

func (r *queryCall) answer(ctx context.Context) (body []byte, err error) {
	err = r.call.Transact(ctx, r.organization, func(t, parent *ledger.Locked) error {
		tx := t.Begin(r.core.now())
		v := &query.View{Tx: tx, Caller: r.caller.user, Credential: r.caller.credential, Home: r.caller.parent, Tariff: r.call, Steps: r.core.policySteps(), RecoveredMs: t.Ledger().RecoveredMs()}
		v.Tokens = r.core.serving.providers.Capabilities.Tokens
		v.Programs, v.Images = r.core.serving.providers.Capabilities.Programs, r.call.lookups
		r.call.lookups.Tenant = r.record.Tenant()
		top := t
		if parent != nil {
			v.Parent, top = parent.Begin(tx.NowMs), parent
		}
		if r.query.Fetches {
			if r.onRamps == nil {
				r.onRamps = r.core.serving.providers.OnRamps.Lookups(r.record.Tenant(), r.core.serving.Manifest.Drill)
			}
			key, keyID := top.Key()
			v.OnRamps = &query.OnRamps{OnRampStates: r.onRamps, Vault: activity.VaultOf(r.core.vault(top.ID(), key, keyID)), Rand: mixed{r.core}}
		}
		if strings.HasPrefix(r.query.Op, "list_") { // the approximate memory of all records
			if err := r.call.reply.grow(r.record.Tenant(), r.readBytes+min(int64(t.State.Bytes()), maxList)); err != nil {
				return err
			}
		}
		if body, err = r.req.Answer(v); err == nil {
			err = r.call.reply.grow(r.record.Tenant(), r.readBytes+int64(len(body)))
		}
		return err
	})
	return body, err
}

// countBytes adds entries to readBytes.
func (r *queryCall) countBytes(es ...*org.Entry) error {
	for _, e := range es {
		r.readBytes += int64(e.Size())
	}
	return r.call.reply.grow(r.record.Tenant(), r.readBytes)
}

// sources are the sources of one query's data: old entries, boot proofs, the index, chains.
type sources struct {
	ctx context.Context
	*queryCall
}

// Activity reads the newest entry of an activity. For a waiting one only the entry named in the
// state is accepted, for any other only the one that ended it: the host could return an
// earlier entry of either.
func (x sources) Activity(id org.ID) (*org.Entry, error) { return x.activity(id, false) }

// ActivityToDecode is Activity for a query that decodes the activity even if it is over.
func (x sources) ActivityToDecode(id org.ID) (*org.Entry, error) { return x.activity(id, true) }

func (x sources) activity(id org.ID, decodes bool) (e *org.Entry, err error) {
	if seq, waits := x.pendingSeqs[id]; waits {
		e, err = x.view.Entry(x.ctx, seq)
	} else {
		e, err = x.view.Activity(x.ctx, id)
	}
	if e != nil && err == nil {
		if decodes || !e.Status.Terminal() { // it is decoded for approvers, as it is for policies
			x.readBytes += decodedBytes(kinds.Live[e.Type], int64(len(e.Body)))
		}
		err = x.countBytes(e)
	}
	return e, err
}

// Page reads the newest entries of activities.
func (x sources) Page(p query.Page) ([]*org.Entry, error) {
	ask := ledger.Page{Types: p.Types, Statuses: p.Statuses, Before: p.Before, After: p.After, Limit: p.Limit}
	if p.UntilMs != nil {
		end, err := x.view.CountUntil(x.ctx, *p.UntilMs)
		if err != nil || end == 0 {
			return nil, err
		}
		ask.End = &end
	}
	es, err := x.view.Page(x.ctx, ask)
	if err == nil {
		err = x.countBytes(es...)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range es {
		seq, waits := x.pendingSeqs[e.Activity]
		if (e.Status.Terminal() == waits || waits && seq != e.Seq) && !insecure.Skip(insecure.Answer) {
			return nil, x.core.alarms.Breach(fault.AlarmIndex, "an earlier step of an activity than its newest")
		}
	}
	return es, nil
}

// Latest returns the boot proof of this boot.
func (x sources) Latest() ([]byte, error) {
	return x.core.serving.BootProof(x.core.cfg.Clock.Now()), nil
}

// ByKey returns the boot proof of a live key.
func (x sources) ByKey(publicKeyHex string) ([]byte, error) {
	return x.core.bootProof(x.ctx, publicKeyHex)
}

// bootProof returns the boot proof of a live key, nil if there is none. The host stores those of
// earlier boots, and the caller verifies them.
func (c *Core) bootProof(ctx context.Context, publicKeyHex string) ([]byte, error) {
	if publicKeyHex == c.serving.Live.PublicHex {
		return c.serving.BootProof(c.cfg.Clock.Now()), nil
	}
	raw, err := c.host.Object(ctx, lifecycle.BootProofObject(publicKeyHex))
	if err != nil {
		return nil, ledger.ErrBusy
	}
	if raw == nil {
		return nil, nil
	}
	var p attestation.BootProof
	if err := strictjson.Decode(raw, &p, strictjson.AllowUnknown()); err != nil || (p.EphemeralPublicKeyHex != publicKeyHex && !insecure.Skip(insecure.Answer)) {
		return nil, c.alarms.Breach(fault.AlarmIndex, "another boot proof than asked for")
	}
	// Encoded again, so that only the members of a proof are returned.
	return json.Marshal(&p)
}

// LogProof returns the log proof of an activity's entry, with the key of that log.
func (x sources) LogProof(id org.ID, seq *uint64) (*query.LogProof, error) {
	e, err := x.step(id, seq)
	if err != nil || e == nil {
		return nil, err
	}
	return x.core.logProof(x.ctx, x.view, e.Seq)
}

// step returns the newest entry of an activity, or the one at seq; of any activity or none if id is zero.
func (x sources) step(id org.ID, seq *uint64) (*org.Entry, error) {
	if seq == nil {
		return x.Activity(id)
	}
	if *seq >= x.view.Count() {
		return nil, nil
	}
	e, err := x.view.Entry(x.ctx, *seq)
	if err == nil {
		err = x.countBytes(e)
	}
	if err != nil || !id.Zero() && e.Activity != id {
		return nil, err
	}
	return e, nil
}

// Known returns the state of a chain.
func (x sources) Known(need *activity.ChainQuery) (*activity.ChainState, error) {
	return x.core.serving.providers.Chains.Known(x.ctx, x.organization, need)
}

// Standing returns the state of a send.
func (x sources) Standing(ref org.SendRef) (activity.Standing, error) {
	m, err := x.core.serving.providers.Chains.Standings(x.ctx, x.organization, []org.SendRef{ref})
	return m[ref], err
}

// Rivals reads the newest state, and the entries of the sends.
func (x sources) Rivals(c org.Counter, number uint64) (all []query.Rival, err error) {
	var refs []org.SendRef
	err = x.call.WithLock(x.ctx, x.organization, func(t *ledger.Locked) (err error) {
		refs, err = t.Begin(x.core.now()).Rivals(c, number)
		return err
	})
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	m, err := x.core.serving.providers.Chains.Standings(x.ctx, x.organization, refs)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		r := query.Rival{Standing: m[ref]}
		if r.State != org.SendIncluded && r.State != org.SendReverted {
			continue
		}
		e, err := x.step(org.ID{}, &ref.Seq)
		if err != nil {
			return nil, err
		}
		if e == nil || int(ref.Number) >= len(e.Sends) { // appended after the view was pinned
			continue
		}
		if r.Transaction, err = org.DecodeTransaction(e.Sends[ref.Number].Content); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// ReadChain reads balances or transactions of a chain.
func (x sources) ReadChain(q *query.ChainQuestion) (*query.ChainReading, error) {
	return x.core.serving.providers.Chains.Read(x.ctx, x.record.Tenant(), x.organization, q, func(c pace.Count) { x.call.rate.count = c })
}

// MailEvents returns the events of an address, which the top-level organization has.
func (x sources) MailEvents(address string) ([]org.MailEvent, error) {
	if !x.record.Parent.Zero() {
		return nil, fault.New(fault.InvalidArgument, "email events are kept by the organization of the top level: ask for its")
	}
	return x.core.serving.outbox.MailEvents(x.ctx, &x.call.Access, x.organization, address)
}

// Account reads the newest state.
func (x sources) Account(match string) (a *org.Account, err error) {
	err = x.call.WithLock(x.ctx, x.organization, func(t *ledger.Locked) error {
		tx := t.Begin(x.core.now())
		o, ok, err := tx.ByAddress(match)
		if err == nil && ok && o.No > 0 {
			a, err = tx.Account(o.ID, o.No)
		}
		return err
	})
	return a, err
}

// Deliveries asks the host for the deliveries to an endpoint, and shows those whose entries really have a send of an event
// to this endpoint of this organization. Entries of sub-organizations are read as they are when such a send is opened.
func (x sources) Deliveries(endpoint org.ID, failed bool, after *query.DeliveryPlace, limit int) (all []query.Delivery, next *query.DeliveryPlace, err error) {
	err = x.call.WithLock(x.ctx, x.organization, func(t *ledger.Locked) error {
		e, err := t.Begin(x.core.now()).WebhookEndpoint(endpoint)
		_, err = activity.OrNotFound(e, err, "webhook endpoint", endpoint.String())
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	ask := wire.Deliveries{Receiver: wire.ID(endpoint), Failed: failed, Limit: uint32(limit)}
	if after != nil {
		ask.After = &wire.DeliveryPlace{TimeMs: after.TimeMs, Send: wire.SendID{Organization: wire.ID(after.Send.Organization), Seq: after.Send.Seq, Number: after.Send.Number}}
	}
	got, err := x.core.host.Deliveries(x.ctx, ask)
	if err != nil {
		return nil, nil, err
	}
	if len(got.Deliveries) > limit {
		return nil, nil, x.core.alarms.Breach(fault.AlarmIndex, "more deliveries than asked for")
	}
	for i := range got.Deliveries {
		d, err := x.delivery(endpoint, &got.Deliveries[i])
		if err != nil {
			return nil, nil, err
		}
		if d != nil {
			all = append(all, *d)
		}
	}
	if n := len(got.Deliveries); n == limit {
		last := &got.Deliveries[n-1]
		next = &query.DeliveryPlace{TimeMs: last.TimeMs, Send: sendPlace(last.Send)}
	}
	return all, next, nil
}

func sendPlace(s wire.SendID) org.SendPlace {
	return org.SendPlace{Organization: org.ID(s.Organization), Seq: s.Seq, Number: s.Number}
}

// delivery reads the entries of a delivery that the host claims, nil if they have none to this endpoint.
func (x sources) delivery(endpoint org.ID, claimed *wire.Delivery) (*query.Delivery, error) {
	d := &query.Delivery{Place: sendPlace(claimed.Send), State: org.SendState(claimed.State), Tries: claimed.Tries, Text: providers.Printable(claimed.Text), TimeMs: claimed.TimeMs}
	if !query.IsDeliveryState(d.State) {
		return nil, x.core.alarms.Breach(fault.AlarmIndex, "a delivery in no state")
	}
	s, err := x.core.serving.outbox.Event(x.ctx, &x.call.Access, d.Place)
	if err != nil || s == nil || s.Owner != x.organization || s.Subscriber != endpoint {
		return nil, err
	}
	// Its memory is counted while it is read. Only the members that are shown are kept.
	if err := x.call.reply.grow(x.record.Tenant(), x.readBytes+int64(s.Entry.Size())); err != nil {
		return nil, err
	}
	d.First, d.Event, d.Activity, d.Type, d.Status, d.CreatedMs = s.Place, s.ID, s.Entry.Activity, s.Entry.Type, s.Entry.Status, s.MadeMs
	return d, nil
}
