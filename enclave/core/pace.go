package core

import (
	"sync/atomic"
	"time"

	"cloister/enclave/core/internal/proxy"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/settings"
	"cloister/shared/pace"
)

// Rates are the limits of requests and of resources. Zero is the default, in a simulator no limit; the measured
// configuration's rates take precedence. Each process counts by itself, in memory.
type Rates struct {
	Organization, SubOrganization, Key pace.Rate
	// EachSub is a sub-organization's rate, EachTenant that of a tenant with all its sub-organizations.
	EachSub, EachTenant Spending
	// Contact is the rate of messages to one contact from all organizations of a tenant.
	Contact pace.Rate
	// ApprovalMails is the rate of mails to an organization's approvers, Approver that of such mails to one contact from all
	// organizations of a tenant.
	ApprovalMails, Approver pace.Rate
	// Proxy are the rates of the auth proxy, which has defaults unless they are switched off.
	Proxy ProxyRates
}

// ProxyRates are the rates of the auth proxy.
type ProxyRates = proxy.Rates

// AddressRates are those of ProxyRates that one network address has.
type AddressRates = settings.AddressRates

// WithUsual replaces zero rates by the defaults. An enclave on two processors answers
// some thousand signatures a second. A tenant's own users have 500 of that continuously and 5,000 at
// once, so that bursts pass and a client in a loop delays others by a second or two; one key has half of
// that; an end user's sub-organization 20 a second and 200 at once.
func (r Rates) WithUsual() Rates {
	r = r.with(r.configurable().Or(usualRates))
	if !r.Contact.On() {
		r.Contact = pace.Rate{Count: org.PasscodeSends, Per: org.PasscodeWindowMs * time.Millisecond}
	}
	if !r.ApprovalMails.On() {
		r.ApprovalMails = pace.Rate{Count: 60, Per: time.Hour}
	}
	if !r.Approver.On() {
		r.Approver = pace.Rate{Count: 20, Per: time.Hour}
	}
	return r
}

// configurable returns the rates that the measured configuration may set.
func (r Rates) configurable() settings.Rates {
	return settings.Rates{Organization: r.Organization, SubOrganization: r.SubOrganization, Key: r.Key, EachSub: r.EachSub, EachTenant: r.EachTenant, AuthProxy: r.Proxy.AddressRates}
}

func (r Rates) with(s settings.Rates) Rates {
	r.Organization, r.SubOrganization, r.Key, r.EachSub, r.EachTenant = s.Organization, s.SubOrganization, s.Key, s.EachSub, s.EachTenant
	r.Proxy.AddressRates = s.AuthProxy
	return r
}

// maxBuckets bounds the buckets of organizations of each level, and of keys.
const maxBuckets = 1 << 16

// meter counts requests with a verified stamp of a credential in the newest state, so no one
// can use up another's rate.
type meter struct {
	rates                     Rates
	tenants, subOrganizations *pace.Buckets[org.ID]
	keys                      *pace.Buckets[keyOf]
	accounts                  [resources]*accounts
	contacts                  *pace.Buckets[contactOf]
	approvalMails             *pace.Buckets[org.ID]
	approvers                 *pace.Buckets[contactOf]
	refused                   [resources + 1]atomic.Uint64 // by accounts, and in the last element by rates
}

// keyOf is a credential: the same key in two organizations is two.
type keyOf struct {
	org org.ID
	key string
}

func newMeter(r Rates) *meter {
	m := &meter{rates: r, tenants: pace.New[org.ID](r.Organization, maxBuckets), subOrganizations: pace.New[org.ID](r.SubOrganization, maxBuckets), keys: pace.New[keyOf](r.Key, maxBuckets), contacts: pace.New[contactOf](r.Contact, maxBuckets),
		approvalMails: pace.New[org.ID](r.ApprovalMails, maxBuckets), approvers: pace.New[contactOf](r.Approver, maxBuckets)}
	for i := range m.accounts {
		m.accounts[i] = newAccounts(*r.EachSub.Of()[i], *r.EachTenant.Of()[i])
	}
	return m
}

// meter returns the current meter.
func (c *Core) meter() *meter { return c.metering.Load() }

// countRequest counts a request with a key of an organization. Key "" is the auth proxy's, which has
// rates of its own. A request that the key's rate refuses does not count for the organization. A top-level
// organization shares its rate with the others of the same tenant.
func (m *meter) countRequest(o *org.Organization, key string, now time.Time) (pace.Count, error) {
	var c pace.Count
	id := o.ID
	if key != "" {
		c = m.keys.Take(keyOf{id, key}, now)
	}
	if c.Refused {
		m.refused[resources].Add(1)
		return c, fault.WithCode(fault.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "too many requests: key is rate limited, try again in %s: organizationId=%s publicKey=%s", c.Again(), id, key)
	}
	of, whose := m.tenants, o.Tenant()
	if !o.Parent.Zero() {
		of, whose = m.subOrganizations, id
	}
	c = pace.Least(c, of.Take(whose, now))
	if c.Refused {
		m.refused[resources].Add(1)
		return c, fault.WithCode(fault.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "too many requests: organization is rate limited, try again in %s: organizationId=%s", c.Again(), id)
	}
	return c, nil
}

// A rateCharge is the charge of one call against its rates, made once, however often its transaction runs.
type rateCharge struct {
	done  bool
	proxy bool              // the auth proxy's key has stamped
	payer *org.Organization // the organization whose credential has stamped; nil: none so far
	count pace.Count
	err   error
}

// whoPays returns the payer of the call.
func (t *rateCharge) whoPays() payer { return payer{t.payer, t.proxy} }

// chargeRate counts the call for the organization of tx, whose user signed with key. A deleted organization is
// not charged, so that outsiders cannot find out that it existed.
func (v *callState) chargeRate(tx *org.Tx, key string) error {
	t := &v.rate
	if t.done {
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
		return err // an *org.Retry: the plans must be loaded first
	}
	t.done = true
	t.payer, t.proxy = rec, key == ""
	m, now := v.core.meter(), v.core.cfg.Clock.Now()
	for _, r := range []resource{processorTime, storedBytes} {
		if c := m.accounts[r].hasLess(t.whoPays(), 1, now); c.Refused {
			t.count, t.err = c, m.overdrawn(t.whoPays(), r, c)
			return t.err
		}
	}
	calls := 1
	if v.proof != nil {
		calls = 2 // the proof counts as another request
	}
	for ; calls > 0 && t.err == nil; calls-- {
		var c pace.Count
		c, t.err = m.countRequest(rec, key, now)
		t.count = pace.Least(t.count, c)
	}
	return t.err
}
