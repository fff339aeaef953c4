package core

import (
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/enclave/internal/settings"
	"cloister/shared/pace"
)

// The cost of requests is charged to accounts: buckets that fill at a rate, and that a request may overdraw,
// since its cost is known only when it is done. The next request waits until the debt is repaid, in a minute at
// most. Each sub-organization has accounts, and so has each tenant, for itself and all its sub-organizations;
// see org.Organization.Tenant.
//
// The payer is the organization whose credential stamped. Requests without a valid credential are not charged: otherwise
// anyone could use up another's account.

// A resource is one that is limited, counted in the unit of its rates.
type resource uint8

const (
	processorTime resource = iota // of transactions, in milliseconds
	storedBytes                   // in thousands
	mails
	texts
	fetches // requests to external servers
	resources
)

// resourceNames are the names of the resources.
var resourceNames [resources]string = settings.Resources

// accountTexts name the resources in errors.
var accountTexts = [resources]string{"processor time", "storage", "mails", "text messages", "questions to servers outside"}

// Spending is a rate for each resource.
type Spending = settings.Spending

// usualRates are the rates of Rates.WithUsual. An end user gets seventeen times the processor time and storage of 1,200
// signatures in a minute. A tenant's processor time is not limited: tenants share the
// processors; see package fairqueue.
var usualRates = settings.Rates{
	Organization: pace.Rate{Count: 5_000, Per: 10 * time.Second}, SubOrganization: pace.Rate{Count: 200, Per: 10 * time.Second}, Key: pace.Rate{Count: 2_500, Per: 5 * time.Second},
	EachSub: Spending{Processor: pace.Rate{Count: 3000, Per: time.Minute}, Stored: pace.Rate{Count: 4000, Per: time.Minute},
		Mails: pace.Rate{Count: 30, Per: time.Hour}, Texts: pace.Rate{Count: 10, Per: time.Hour}, Fetches: pace.Rate{Count: 60, Per: time.Minute}},
	EachTenant: Spending{Stored: pace.Rate{Count: 64_000, Per: time.Minute},
		Mails: pace.Rate{Count: 18_000, Per: time.Hour}, Texts: pace.Rate{Count: 1800, Per: time.Hour}, Fetches: pace.Rate{Count: 600, Per: time.Minute}},
}

// proxyShare is the rate of a tenant's auth proxy, in rates of a sub-organization: its callers have no account yet.
const proxyShare = 20

// accounts are the accounts of one resource. A payer is charged on all of his at a time.
type accounts struct {
	tenants *pace.Buckets[org.ID]
	subs    *pace.Buckets[org.ID]
	proxies *pace.Buckets[org.ID] // of tenants
}

func newAccounts(sub, tenant pace.Rate) *accounts {
	proxy := sub
	proxy.Count = min(proxy.Count*proxyShare, pace.MaxCount)
	return &accounts{pace.New[org.ID](tenant, maxBuckets), pace.New[org.ID](sub, maxBuckets), pace.New[org.ID](proxy, maxBuckets)}
}

// A payer is the organization whose accounts are charged. The zero payer is none.
type payer struct {
	*org.Organization
	proxy bool // the call came to its auth proxy
}

// narrower returns the narrower of the payer's two accounts; a tenant's own users have only the tenant's.
func (a *accounts) narrower(p payer) (of *pace.Buckets[org.ID], key org.ID) {
	switch {
	case p.proxy:
		return a.proxies, p.Tenant()
	case !p.Parent.Zero():
		return a.subs, p.ID
	}
	return nil, key
}

// hasLess reports whether one of the payer's accounts has less than amount, in thousandths.
func (a *accounts) hasLess(p payer, amount int64, now time.Time) pace.Count {
	c := a.tenants.HasLess(p.Tenant(), amount, now)
	if of, key := a.narrower(p); of != nil {
		c = pace.Least(of.HasLess(key, amount, now), c)
	}
	return c
}

func (a *accounts) charge(p payer, amount int64, now time.Time) {
	if p.Organization == nil {
		return
	}
	a.tenants.Charge(p.Tenant(), amount, now)
	if of, key := a.narrower(p); of != nil {
		of.Charge(key, amount, now)
	}
}

// An overdraft is the error of a request whose payer has used up a resource. Nothing is stored, so the same body may be sent again.
type overdraft struct{ refusal *fault.Error }

func (o *overdraft) Error() string { return o.refusal.Error() }
func (o *overdraft) Unwrap() error { return o.refusal }

// overdrawn returns the error of a payer who has used up a resource.
func (m *meter) overdrawn(p payer, r resource, c pace.Count) error {
	m.refused[r].Add(1)
	return &overdraft{fault.WithCode(fault.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "too many requests: organization has used up its %s, try again in %s: organizationId=%s", accountTexts[r], c.Again(), p.ID)}
}

// chargeCost charges the cost of the call to the organization whose credential stamped it.
func (v *callState) chargeCost() {
	p, all, now := v.rate.whoPays(), &v.core.meter().accounts, v.core.cfg.Clock.Now()
	all[processorTime].charge(p, v.Computed.Microseconds(), now)
	all[storedBytes].charge(p, int64(v.Stored), now)
}

// chargeSends charges the messages among an activity's sends.
func (v *callState) chargeSends(all []org.Send) {
	for i := range all {
		if r, ok := messages[all[i].Kind]; ok {
			v.core.meter().accounts[r].charge(v.rate.whoPays(), pace.Unit, v.core.cfg.Clock.Now())
		}
	}
}

// messages are the resources that sends of messages use.
var messages = map[org.SendKind]resource{org.SendMail: mails, org.SendText: texts}

// checkAccount refuses the call if its payer has used up a resource.
func (v *callState) checkAccount(p payer, r resource) error {
	c := v.core.meter().accounts[r].hasLess(p, pace.Unit, v.core.cfg.Clock.Now())
	if !c.Refused {
		return nil
	}
	v.rate.count = c
	return v.core.meter().overdrawn(p, r, c)
}

// MayAsk refuses a request to an external server if the account is used up, and charges it. A
// request before the caller is authenticated is charged to the tenant's auth proxy.
func (v *callState) MayAsk(tenant org.ID) error {
	p := v.rate.whoPays()
	if p.Organization == nil {
		p = payer{&org.Organization{ID: tenant}, true}
	}
	if err := v.checkAccount(p, fetches); err != nil {
		return err
	}
	v.core.meter().accounts[fetches].charge(p, pace.Unit, v.core.cfg.Clock.Now())
	return nil
}

// MaySend refuses a message to a contact if the account or the contact's rate is used up. Messages are charged once they are
// decided; the contact, to which all of a tenant's organizations may send, is counted here, once for each call.
func (v *callState) MaySend(kind org.SendKind, contact org.Hash) error {
	p, m := v.rate.whoPays(), v.core.meter()
	if err := v.checkAccount(p, messages[kind]); err != nil || v.contactCounted {
		return err
	}
	c := m.contacts.Take(contactOf{p.Tenant(), contact}, v.core.cfg.Clock.Now())
	if v.contactCounted = !c.Refused; v.contactCounted {
		return nil
	}
	v.rate.count = c
	return &overdraft{fault.WithCode(fault.ResourceExhausted, "MAX_OTP_INITIATED", "Max number of OTPs have been initiated for this contact, try again in %s", c.Again())}
}

// contactOf is a contact of one tenant.
type contactOf struct {
	tenant  org.ID
	contact org.Hash
}

// Usage returns what an organization may use and has left of each limited resource.
func (v *callState) Usage(o *org.Organization) []query.Usage {
	m, now := v.core.meter(), v.core.cfg.Clock.Now()
	rates, top := m.rates, o.Parent.Zero()
	requests, rate, whose := m.subOrganizations, rates.SubOrganization, o.ID
	if top {
		requests, rate, whose = m.tenants, rates.Organization, o.Tenant()
	}
	var all []query.Usage
	tell := func(name string, r pace.Rate, of *pace.Buckets[org.ID]) {
		if r.On() {
			all = append(all, query.Usage{Resource: name, Limit: r.Count, Remaining: of.Left(whose, now), Per: r.Per})
		}
	}
	tell("requests", rate, requests)
	for r, name := range resourceNames {
		if a := m.accounts[r]; top {
			tell(name, *rates.EachTenant.Of()[r], a.tenants)
		} else {
			tell(name, *rates.EachSub.Of()[r], a.subs)
		}
	}
	return all
}
