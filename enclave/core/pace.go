package core

import (
	"sync/atomic"
	"time"

	"cloister/enclave/core/internal/proxy"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/shared/pace"
)

// Rates are how much is answered: to the users of one organization of the top level, to
// those of one sub-organization, to one key. Zero is the usual rate, in a simulator no limit.
// This process counts for itself and forgets when it ends.
type Rates struct {
	Organization, SubOrganization, Key pace.Rate
	// EachSub is what a sub-organization may use, EachTenant what a tenant may with all that is below it.
	EachSub, EachTenant Spending
	// Contact is how many messages one contact is sent in the name of a tenant, from all of its organizations.
	Contact pace.Rate
	// Proxy are those of the auth proxy, which are on unless switched off.
	Proxy ProxyRates
}

// ProxyRates are how much the auth proxy answers.
type ProxyRates = proxy.Rates

// WithUsual puts the usual rates where there are none. An enclave on two processors answers
// some thousand signatures a second. A tenant's own users have 500 of that for as long as they like and 5,000 at
// once, so that bursts pass and one who loops keeps others waiting for a second or two; one key has half of
// that; an end user's sub-organization 20 a second and 200 at once.
func (r Rates) WithUsual() Rates {
	usual := func(r *pace.Rate, count uint32, per time.Duration) {
		if !r.On() {
			*r = pace.Rate{Count: count, Per: per}
		}
	}
	usual(&r.Organization, 5_000, 10*time.Second)
	usual(&r.SubOrganization, 200, 10*time.Second)
	usual(&r.Key, 2_500, 5*time.Second)
	usual(&r.Contact, org.PasscodeSends, org.PasscodeWindowMs*time.Millisecond)
	r.EachSub, r.EachTenant = r.EachSub.withUsual(usualSpending.sub), r.EachTenant.withUsual(usualSpending.tenant)
	return r
}

// maxBuckets is how many organizations of each level, and how many keys, are counted.
const maxBuckets = 1 << 16

// meter counts requests with a verified stamp of a credential in the newest state, so nobody
// can use up another's rate.
type meter struct {
	top, sub *pace.Buckets[org.ID]
	keys     *pace.Buckets[keyOf]
	accounts [resources]*accounts
	contacts *pace.Buckets[contactOf]
	refused  [resources + 1]atomic.Uint64 // by accounts, and at last by rates
}

// keyOf is a credential: the same key in two organizations is two.
type keyOf struct {
	org org.ID
	key string
}

func newMeter(r Rates) *meter {
	m := &meter{top: pace.New[org.ID](r.Organization, maxBuckets), sub: pace.New[org.ID](r.SubOrganization, maxBuckets), keys: pace.New[keyOf](r.Key, maxBuckets), contacts: pace.New[contactOf](r.Contact, maxBuckets)}
	for i := range m.accounts {
		m.accounts[i] = newAccounts(*r.EachSub.of()[i], *r.EachTenant.of()[i])
	}
	return m
}

// take counts a request of a key of an organization. Key "" is the auth proxy's, which has
// rates of its own. What the key's rate refuses does not count for the organization. One of the top
// level shares its rate with those that the same payer has.
func (m *meter) take(o *org.Organization, key string, now time.Time) (pace.Count, error) {
	var c pace.Count
	id := o.ID
	if key != "" {
		c = m.keys.Take(keyOf{id, key}, now)
	}
	if c.Refused {
		m.refused[resources].Add(1)
		return c, fault.WithCode(fault.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "too many requests: key is rate limited, try again in %s: organizationId=%s publicKey=%s", c.Again(), id, key)
	}
	of, whose := m.top, o.Tenant()
	if !o.Parent.Zero() {
		of, whose = m.sub, id
	}
	c = pace.Least(c, of.Take(whose, now))
	if c.Refused {
		m.refused[resources].Add(1)
		return c, fault.WithCode(fault.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "too many requests: organization is rate limited, try again in %s: organizationId=%s", c.Again(), id)
	}
	return c, nil
}

// A toll is what one call pays, once, however often its step runs again.
type toll struct {
	paid  bool
	proxy bool              // the auth proxy has stamped
	payer *org.Organization // whose credential has stamped; nil: nobody's so far
	count pace.Count
	err   error
}

// who pays what the call costs.
func (t *toll) who() payer { return payer{t.payer, t.proxy} }

// pay counts the call for the organization of tx, whose user signed with key. A deleted
// organization pays nothing, so that outsiders cannot tell that it was there.
func (v *visit) pay(tx *org.Tx, key string) error {
	t := &v.toll
	if t.paid {
		return t.err
	}
	rec, err := tx.Organization()
	if err != nil {
		return err
	}
	if rec.Deleted {
		return nil
	}
	if t.err = v.pacePlan(tx, rec); t.err != nil && fault.Of(t.err) == nil {
		err, t.err = t.err, nil
		return err // something must be known first
	}
	t.paid = true
	t.payer, t.proxy = rec, key == ""
	m, now := v.core.meter, v.core.cfg.Clock.Now()
	for _, r := range []resource{processorTime, storedBytes} {
		if c := m.accounts[r].lacks(t.who(), 1, now); c.Refused {
			t.count, t.err = c, m.overdrawn(t.who(), r, c)
			return t.err
		}
	}
	calls := 1
	if v.proving != nil {
		calls = 2 // to ask for the proof afterwards is another
	}
	for ; calls > 0 && t.err == nil; calls-- {
		var c pace.Count
		c, t.err = m.take(rec, key, now)
		t.count = pace.Least(t.count, c)
	}
	return t.err
}
