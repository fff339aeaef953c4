package core

import (
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
	// Proxy are those of the auth proxy, which are on unless switched off.
	Proxy ProxyRates
}

// ProxyRates are how much the auth proxy answers.
type ProxyRates = proxy.Rates

// withUsual puts the usual rates where there are none. An enclave on two processors answers
// some thousand signatures a second. A tenant's own users have at most half of that, so that
// one who loops leaves as much to the others; one key half of that again; an end user's
// sub-organization twenty a second. A bucket holds a whole minute's, so bursts pass.
func (r Rates) withUsual() Rates {
	usual := func(r *pace.Rate, count uint32) {
		if !r.On() {
			*r = pace.Rate{Count: count, Per: time.Minute}
		}
	}
	usual(&r.Organization, 30_000)
	usual(&r.SubOrganization, 1_200)
	usual(&r.Key, 15_000)
	return r
}

// maxBuckets is how many organizations of each level, and how many keys, are counted.
const maxBuckets = 1 << 16

// meter counts requests with a verified stamp of a credential in the newest state, so nobody
// can use up another's rate.
type meter struct {
	top, sub *pace.Buckets[org.ID]
	keys     *pace.Buckets[keyOf]
}

// keyOf is a credential: the same key in two organizations is two.
type keyOf struct {
	org org.ID
	key string
}

func newMeter(r Rates) *meter {
	return &meter{pace.New[org.ID](r.Organization, maxBuckets), pace.New[org.ID](r.SubOrganization, maxBuckets), pace.New[keyOf](r.Key, maxBuckets)}
}

// take counts a request of a key of an organization. Key "" is the auth proxy's, which has
// rates of its own. What the key's rate refuses does not count for the organization.
func (m *meter) take(id org.ID, sub bool, key string, now time.Time) (pace.Count, error) {
	var c pace.Count
	if key != "" {
		c = m.keys.Take(keyOf{id, key}, now)
	}
	if c.Refused {
		return c, fault.WithCode(fault.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "too many requests: key is rate limited, try again in %s: organizationId=%s publicKey=%s", c.Again(), id, key)
	}
	of := m.top
	if sub {
		of = m.sub
	}
	c = pace.Least(c, of.Take(id, now))
	if c.Refused {
		return c, fault.WithCode(fault.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "too many requests: organization is rate limited, try again in %s: organizationId=%s", c.Again(), id)
	}
	return c, nil
}

// A toll is what one call pays, once, however often its step runs again.
type toll struct {
	paid  bool
	count pace.Count
	err   error
}

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
	calls := 1
	if v.proving != nil {
		calls = 2 // to ask for the proof afterwards is another
	}
	for ; calls > 0 && t.err == nil; calls-- {
		var c pace.Count
		c, t.err = v.core.meter.take(tx.ID, !rec.Parent.Zero(), key, v.core.cfg.Clock.Now())
		t.count = pace.Least(t.count, c)
	}
	return t.err
}
