package core

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/pace"
	"cloister/shared/wire"
)

// The document of plans is a record in the ledger of a reserved organization without users, one in each range, so the log of the
// range proves which is the newest: a host that returns an older one, or none, is refused as with any organization's tip. The
// enclave caches it for as long as it owns the range, since no other can write there.

// planCache caches plans. The zero value is empty.
type planCache struct {
	byLedger sync.Map // *ledger.Ledger: *rangePlans

	mu     sync.Mutex
	chosen map[org.ID]string // plan of each top-level organization, for its rate
	paces  map[uint32]*pace.Buckets[org.ID]
}

// rangePlans is the document of one range. A reply from it waits for its batch.
type rangePlans struct {
	plans *billing.Plans // nil: none
	batch uint64
}

// maxChosen bounds planCache.chosen: some 4 MiB.
const maxChosen = 1 << 14

// PlansID is the organization whose ledger has the document of range of, given the number of ranges.
func PlansID(of wire.Range, ranges int) org.ID {
	h := sha256.Sum256([]byte("cloister plans 1"))
	id := org.ID(h[:16])
	id[0] = byte((int(of)*256 + ranges - 1) / ranges)
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// forget clears the cache: another enclave may have decided since.
func (f *planCache) forget() {
	f.byLedger.Clear()
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.chosen)
}

// choose caches the plan of a top-level organization. The organization is locked, so that it is
// the newest.
func (f *planCache) choose(id org.ID, plan string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.chosen == nil || len(f.chosen) >= maxChosen {
		f.chosen = map[org.ID]string{}
	}
	f.chosen[id] = plan
}

// unchoose removes an organization's plan from the cache. The organization is locked.
func (f *planCache) unchoose(id org.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.chosen, id)
}

// Plans returns the plans of the call's range, nil if there are none, or an *org.Retry that loads them.
func (v *callState) Plans() (*billing.Plans, error) {
	if v.core.recorded != nil {
		return v.core.recorded(), nil
	}
	f, l := &v.core.serving.plans, v.Ledger()
	if t, ok := f.byLedger.Load(l); ok {
		t := t.(*rangePlans)
		v.Batch = max(v.Batch, t.batch)
		return t.plans, nil
	}
	return nil, &org.Retry{Prefetch: func(ctx context.Context) error {
		of, all := v.Range()
		err := v.WithLock(ctx, PlansID(of, all), f.read)
		if errors.Is(err, ledger.ErrNoOrganization) {
			f.byLedger.LoadOrStore(l, new(rangePlans)) // keeps a document that was cached meanwhile
			return nil
		}
		return err
	}}
}

// read caches the document of the locked organization.
func (f *planCache) read(t *ledger.Locked) error {
	document, err := t.Begin(0).PlansDocument()
	if err != nil {
		return err
	}
	plans, err := billing.ParsePlans(document)
	if err != nil {
		return errPlansRecord
	}
	f.byLedger.Store(t.Ledger(), &rangePlans{plans, t.Batch()})
	return nil
}

// errPlansRecord is an internal error, not a refusal: the document was parsed before it was stored.
var errPlansRecord = errors.New("plans that were kept do not read")

// plansRecord is the reply: which ranges of this enclave have the document now.
type plansRecord struct {
	Version uint64 `json:"version,string"`
	Ranges  []int  `json:"ranges"`
	Of      int    `json:"of"`
}

// putPlans stores a document of plans that the admission key has stamped, in each range of this enclave. With several
// enclaves the operator calls each; the reply lists the ranges.
func (c *Core) putPlans(ctx context.Context, call *wire.Call, _ *callState) ([]byte, error) {
	who, err := c.admit(call)
	if err != nil {
		return nil, err
	}
	plans, err := billing.ParsePlans(who.Body().Bytes())
	if err != nil {
		return nil, err
	}
	owned, all := c.serving.Ranges.OwnedRanges()
	if r := plans.Range; r != nil {
		if int(*r) >= all {
			return nil, fault.Field("range", "there are %d ranges", all)
		}
		if !slices.Contains(owned, wire.Range(*r)) {
			return nil, &ranges.Moved{Range: wire.Range(*r)}
		}
		owned = []wire.Range{wire.Range(*r)}
	}
	if len(owned) == 0 {
		return nil, &ranges.Moved{} // other enclaves may own some
	}
	reply := plansRecord{Version: plans.Version, Of: all}
	for _, of := range owned {
		reply.Ranges = append(reply.Ranges, int(of))
		v := c.newCallState()
		if err := v.putPlans(ctx, PlansID(of, all), plans, who.Body().Bytes(), org.Hash(who.Fingerprint())); err != nil {
			return nil, err
		}
		if err := v.Wait(ctx); err != nil {
			return nil, err
		}
	}
	return json.Marshal(&reply)
}

// putPlans stores a document in the call's range.
func (v *callState) putPlans(ctx context.Context, id org.ID, plans *billing.Plans, document []byte, fp org.Hash) error {
	c := v.core
	l, err := v.LedgerFor(ctx, id)
	if err != nil {
		return err
	}
	fresh := func() error {
		if plans.TimestampMs <= l.RecoveryWatermark() { // another may have been stored in a time that was lost
			return errRecovered
		}
		return checkTime(c.now(), plans.TimestampMs)
	}
	entry := func(tx *org.Tx) (*org.Entry, error) {
		return &org.Entry{Fingerprint: fp, CreatedMs: tx.NowMs, TimeMs: tx.NowMs}, tx.PutPlansDocument(document)
	}
	err = v.WithLock(ctx, id, func(t *ledger.Locked) error {
		tx := t.Begin(c.now())
		old, err := tx.PlansDocument()
		if err != nil {
			return err
		}
		if string(old) != string(document) {
			if err := supersedes(old, plans); err != nil {
				return err
			}
			if err := fresh(); err != nil {
				return err
			}
			e, err := entry(tx)
			if err == nil {
				_, err = t.Append(e, tx)
			}
			if err != nil {
				return err
			}
		}
		return c.serving.plans.read(t)
	})
	if !errors.Is(err, ledger.ErrNoOrganization) {
		return err
	}
	if err := fresh(); err != nil {
		return err
	}
	child, err := l.NewChild(id, c.now())
	if err != nil {
		return err
	}
	tx := child.Tx()
	if err := tx.PutOrganization(&org.Organization{ID: id, Name: "plans", CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs, Deleted: true}); err != nil {
		return err
	}
	e, err := entry(tx)
	if err == nil {
		v.Batch, err = l.Create(child, e, tx)
	}
	if err == nil {
		err = v.WithLock(ctx, id, c.serving.plans.read)
	}
	return err
}

// supersedes refuses plans that are older than the stored ones, or different ones of the same version. The same ones may be
// stamped again, for a range that did not get them.
func supersedes(document []byte, plans *billing.Plans) error {
	old, err := billing.ParsePlans(document)
	if err != nil {
		return errPlansRecord
	}
	if plans.Version < old.Version {
		return fault.New(fault.FailedPrecondition, "plans of version %d are in force: these have version %d", old.Version, plans.Version)
	}
	same := *plans
	same.TimestampMs, same.Range = old.TimestampMs, old.Range
	if plans.Version == old.Version && !reflect.DeepEqual(&same, old) {
		return fault.New(fault.FailedPrecondition, "other plans of version %d are in force: give these the next one", old.Version)
	}
	return nil
}

// countSignatures counts the activity's use of the plan, and refuses use that exceeds it. A refused activity is not
// stored, so the same body may be sent again; the count is part of the activity's own change.
func (s *attempt) countSignatures(at *activity.Tx) error {
	n, kind := s.version.Signatures(s.intent), s.version.Kind
	if n == 0 && !kind.Plans || s.request.core.serving.Manifest.Drill {
		return nil
	}
	plans, err := s.request.call.Plans()
	if err != nil {
		return err
	}
	at.Plans = plans
	o, err := s.tx.Organization()
	switch {
	case plans == nil || err != nil:
	case n > 0 && o.Parent.Zero():
		s.usageSends, err = billing.Count(s.tx, plans, n)
	case n > 0:
		draws := false
		if s.usageSends, draws, err = billing.CountForChild(s.tx, at.Parent, plans, n); draws && at.Parent == nil {
			return activity.ErrNeedsParent
		}
	case kind.Name == "CREATE_SUB_ORGANIZATION":
		a, err := s.tx.Bill()
		if err != nil {
			return err
		}
		if most := plans.Of(chosen(a)).SubOrganizations; most != nil && o.Children >= *most {
			return activity.OverQuota(int(*most), "sub-organizations")
		}
	}
	return err
}

// chosen returns the plan of an account, empty for the default.
func chosen(a *org.Bill) string {
	if a == nil {
		return ""
	}
	return a.Plan
}

// planPaces is the burst of a plan's rate: requests of this time may come at once.
const planPaces = 10 * time.Second

// pacePlan counts a request of the top-level organization of tx, if its plan has a rate.
func (v *callState) pacePlan(tx *org.Tx, rec *org.Organization) error {
	if v.core.recorded != nil {
		return nil // a replay has no rates
	}
	plans, err := v.Plans()
	if plans == nil || err != nil {
		return err
	}
	f, top := &v.core.serving.plans, rec.Parent
	if top.Zero() {
		top = tx.ID
	}
	f.mu.Lock()
	id, known := f.chosen[top]
	f.mu.Unlock()
	if !known {
		return &org.Retry{Prefetch: func(ctx context.Context) error {
			return v.WithLock(ctx, top, func(t *ledger.Locked) error {
				a, err := t.Begin(v.core.now()).Bill()
				if err == nil {
					f.choose(top, chosen(a))
				}
				return err
			})
		}}
	}
	rate := plans.Of(id).RequestsPerSecond
	if rate == 0 {
		return nil
	}
	c := f.pace(rate).Take(top, v.core.cfg.Clock.Now())
	v.rate.count = pace.Least(v.rate.count, c)
	if c.Refused {
		return fault.WithCode(fault.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "too many requests for the plan: try again in %s: organizationId=%s", c.Again(), top)
	}
	return nil
}

// pace returns the buckets of one rate, shared by the plans with that rate.
func (f *planCache) pace(rate uint32) *pace.Buckets[org.ID] {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.paces[rate]
	if b == nil {
		if f.paces == nil || len(f.paces) >= billing.MaxPlans {
			f.paces = map[uint32]*pace.Buckets[org.ID]{}
		}
		b = pace.New[org.ID](pace.Rate{Count: rate * uint32(planPaces/time.Second), Per: planPaces}, maxBuckets)
		f.paces[rate] = b
	}
	return b
}
