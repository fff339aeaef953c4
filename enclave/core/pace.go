package core

import (
	"time"

	"cloister/enclave/core/internal/proxy"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/shared/pace"
)

// Rates are how much is answered: to the users of one organization of the top
// level, to those of one sub-organization, to one key. Zero is the usual rate, and
// in a simulator no limit: load is measured there. They are of this process alone
// and forgotten with it.
type Rates struct {
	Organization, SubOrganization, Key pace.Rate
	// Proxy are those of the auth proxy, which are on unless switched off.
	Proxy ProxyRates
}

// ProxyRates are how much the auth proxy answers.
type ProxyRates = proxy.Rates

// usualRates are those of an enclave that nobody gave any: the production enclave. An
// enclave on two processors answers some thousand signatures a second. One tenant's
// own users have half of that at the most, so that one that loops leaves as much to
// the others; one key half of that again, four times what the published service
// sells at the highest; an end user's sub-organization twenty a second, far more than
// a person causes. A bucket holds a whole minute's: what comes in bursts passes.
var usualRates = Rates{
	Organization:    pace.Rate{Count: 30_000, Per: time.Minute},
	SubOrganization: pace.Rate{Count: 1_200, Per: time.Minute},
	Key:             pace.Rate{Count: 15_000, Per: time.Minute},
}

// withUsual puts the usual rates where there are none.
func (r Rates) withUsual() Rates {
	for _, f := range []struct{ own, usual *pace.Rate }{
		{&r.Organization, &usualRates.Organization}, {&r.SubOrganization, &usualRates.SubOrganization}, {&r.Key, &usualRates.Key},
	} {
		if !f.own.On() {
			*f.own = *f.usual
		}
	}
	return r
}

// maxBuckets is how many organizations of each level, and how many keys, are
// counted at a time.
const maxBuckets = 1 << 16

// meter counts requests. What is counted has a verified stamp of a credential
// in the newest state, so nobody can use up what is another's.
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

// take counts a request of a key of an organization, which counts for itself and
// not for its parent. Key "" is the auth proxy's, which many share: it has rates of
// its own. The key comes first: one that is over its rate takes
// nothing from the organization.
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

// A toll is what one call pays. It pays once, however often its turn runs again.
type toll struct {
	paid  bool
	count pace.Count
	err   error
}

// pay counts the call for the organization of tx, whose user signed with key. A
// deleted one pays nothing: it must not be told from one that never was.
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
	t.paid = true
	c, err := v.core.meter.take(tx.ID, !rec.Parent.Zero(), key, v.core.cfg.Clock.Now())
	t.count, t.err = pace.Least(t.count, c), err
	return err
}
