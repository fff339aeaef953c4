package rig_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// payer is a top-level organization with sub-organizations that sign.
type payer struct {
	*rig.Rig
	t       *testing.T
	c       *clocktest.Clock
	signers []branch // the organization itself first
}

type branch struct {
	*client.User
	address string
}

func newPayer(t *testing.T, subs int) *payer {
	c := clocktest.Running()
	p := payerOf(t, rig.Start(t, rig.Options{Clock: c, Organizations: 1}), c)
	for range subs {
		p.addSub()
	}
	p.signers[0].address = wallet(p.signers[0].User)
	return p
}

// payerOf is a payer without sub-organizations. Its users are the same after a restart.
func payerOf(t *testing.T, r *rig.Rig, c *clocktest.Clock) *payer {
	p := &payer{Rig: r, t: t, c: c}
	root := r.Root()
	root.Send = func(ctx context.Context, q *client.Request) (client.Reply, error) { return client.Link(p.Link)(ctx, q) }
	p.signers = []branch{{User: root}}
	return p
}

func (p *payer) addSub() {
	s := branch{User: p.signers[0].NewSubOrganization("Sub")}
	s.address = wallet(s.User)
	p.signers = append(p.signers, s)
}

var salt atomic.Int64

// payloads is a body that signs n payloads, another one each time.
func (p *payer) payloads(s branch, n int) []byte {
	var all []any
	for range n {
		all = append(all, fmt.Sprintf("%064x", salt.Add(1)))
	}
	in := client.Payload(s.address, "", "NO_OP")
	delete(in, "payload")
	in["payloads"] = all
	return s.Body("SIGN_RAW_PAYLOADS", in)
}

func (p *payer) sign(s branch, n int) client.Reply {
	p.t.Helper()
	return submit(s.User, "SIGN_RAW_PAYLOADS", p.payloads(s, n))
}

// answers holds a reply against a status, and a refusal's words and machine code.
func (p *payer) answers(what string, r client.Reply, status int, words ...string) {
	p.t.Helper()
	if r.Status != status {
		p.t.Errorf("%s: status %d, want %d: %s", what, r.Status, status, r.Body)
	}
	for _, w := range words {
		if !strings.Contains(string(r.Body), w) {
			p.t.Errorf("%s: %s, want %q", what, r.Body, w)
		}
	}
}

func (p *payer) plans(version int, byDefault string, plans ...any) {
	p.t.Helper()
	if r := p.PutPlans(version, byDefault, plans...); r.Status != 200 {
		p.t.Fatal(r)
	}
}

func (p *payer) billing() map[string]any {
	p.t.Helper()
	return p.signers[0].Read("get_billing", nil)
}

func (p *payer) used(what, signatures, leased string) {
	p.t.Helper()
	if u := client.Get(p.billing(), "usage"); client.Text(u, "signatures") != signatures || client.Text(u, "leased") != leased {
		p.t.Errorf("%s: %v, want %s signatures and %s leased", what, u, signatures, leased)
	}
}

func (p *payer) activate(product string) client.Reply {
	p.t.Helper()
	return p.signers[0].Submit("ACTIVATE_BILLING_TIER", client.Object{"productId": product})
}

func plan(id string, more ...any) map[string]any {
	m := map[string]any{"id": id, "name": id}
	for i := 0; i < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return m
}

const (
	overQuota      = "this organization cannot execute activities because it is over its allotted quota"
	parentOver     = "this sub-organization cannot execute activities because its parent is over its allotted quota"
	quotaExceeded  = `"SIGNING_QUOTA_EXCEEDED"`
	completedState = "ACTIVITY_STATUS_COMPLETED"
)

// Without plans there is one, and nothing is counted. Plans are the admission key's alone, the newest hold, and an old stamp
// brings none back.
func TestPlans(t *testing.T) {
	p := newPayer(t, 1)
	if m := p.billing(); client.Text(m, "plan", "id") != "self-hosted" || m["usage"] != nil || m["paymentMethod"] != nil || client.Get(m, "limits", "signaturesPerMonth") != nil {
		t.Errorf("%v", m)
	}
	for range 3 {
		p.answers("no plans", p.sign(p.signers[1], 50), 200)
	}
	if got := p.activate("free"); got.Status != 404 {
		t.Error(got)
	}
	if got := p.activate("self-hosted"); got.Status != 200 || client.Text(got.Result(), "productId") != "self-hosted" {
		t.Error(got)
	}
	document := func(version, quota int) []byte {
		b, err := json.Marshal(map[string]any{"timestampMs": strconv.FormatInt(p.NowMs(), 10), "version": version, "default": "free", "plans": []any{plan("free", "signaturesPerMonth", quota)}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	admission, err := p.Dir.AdmissionKey()
	if err != nil {
		t.Fatal(err)
	}
	put := func(body []byte, key laptop.KeyPair) client.Reply {
		return p.signers[0].As("", "", key).Post(wire.EndpointBoot, "put_plans", body)
	}
	first, second := document(1, 3), document(2, 5)
	p.answers("a tenant's key", put(first, p.signers[0].Key), 401, "PUBLIC_KEY_NOT_FOUND")
	p.used0("refused plans")
	p.answers("the first ones", put(first, admission), 200, `"version":"1"`, `"ranges":[0]`)
	p.answers("the same body", put(first, admission), 200, `"version":"1"`)
	p.answers("others of the version", put(document(1, 4), admission), 400, "other plans of version 1")
	p.answers("the same ones, stamped anew", put(document(1, 3), admission), 200)
	p.used("what was signed before counts nothing", "0", "0")
	p.answers("more than the quota at once", p.sign(p.signers[0], 4), 429, overQuota, quotaExceeded)
	p.answers("the quota", p.sign(p.signers[0], 3), 200)
	p.answers("more", p.sign(p.signers[0], 1), 429, overQuota, quotaExceeded)
	p.answers("more, below", p.sign(p.signers[1], 1), 429, parentOver, quotaExceeded)
	p.answers("newer ones", put(second, admission), 200)
	p.answers("older ones again", put(first, admission), 400, "version 2 are in force")
	p.answers("two more, below", p.sign(p.signers[1], 2), 200)
	p.answers("more", p.sign(p.signers[0], 1), 429)
	p.used("all of it", "5", "0")
	late := document(3, 1000)
	p.c.Pass(2 * time.Hour)
	p.answers("ones that were held back", put(late, admission), 400, "INVALID_TIME")
	p.answers("the newest ones, again", put(second, admission), 200) // nothing changes

	dir := p.Dir.Path
	p.Kill()
	p.Rig = rig.Start(t, rig.Options{Clock: p.c, Dir: dir})
	p.used("after a restart", "5", "0")
	p.answers("more, after a restart", p.sign(p.signers[1], 1), 429, parentOver)
	p.answers("older ones, after a restart", put(document(1, 1000), admission), 400, "version 2 are in force")
	// Reading and what does not sign go on; another tenant has an account of its own.
	p.answers("a wallet", p.signers[0].Submit("CREATE_USER_TAG", client.Tag("Tag")), 200)
	other := branch{User: p.Others()[0]}
	other.address = wallet(other.User)
	p.answers("another tenant", p.sign(other, 5), 200)
	p.answers("another tenant", p.sign(other, 1), 429, overQuota)
	p.used("another tenant's are its own", "5", "0")
	p.answers("another tenant's bill", other.Query("get_billing", client.Object{"organizationId": p.signers[0].Organization}), 401)
}

func (p *payer) used0(what string) {
	p.t.Helper()
	if m := p.billing(); m["usage"] != nil {
		p.t.Errorf("%s: %v", what, m)
	}
}

// Who may be on which plan, and what a plan has besides signatures.
func TestActivateBillingTier(t *testing.T) {
	p := newPayer(t, 1)
	free, big := plan("free", "signaturesPerMonth", 3, "subOrganizations", 2), plan("big", "signaturesPerMonth", 50, "price", map[string]any{"currency": "usd", "perMonth": "49"})
	p.plans(1, "free", free, big, plan("paid", "needsPaymentMethod", true))
	p.answers("a sub-organization's user", p.signers[1].Submit("ACTIVATE_BILLING_TIER", client.Object{"productId": "big"}), 400, "INVALID_ACTIVITY_CALLER")
	p.answers("a sub-organization's bill", p.signers[1].Query("get_billing", nil), 400, "INVALID_ACTIVITY_CALLER")
	for product, want := range map[string]int{"gone": 404, "paid": 400, "big": 200} {
		if got := p.activate(product); got.Status != want {
			t.Errorf("%s: %v", product, got)
		}
	}
	if m := p.billing(); client.Text(m, "plan", "id") != "big" || client.Text(m, "plan", "price", "perMonth") != "49" || client.Text(m, "limits", "signaturesPerMonth") != "50" {
		t.Errorf("%v", m)
	}
	p.answers("a bigger quota, at once", p.sign(p.signers[1], 10), 200)
	p.answers("down with more used than the plan has", p.activate("free"), 400, "3 signatures a month")
	for range 2 {
		p.addSub() // three now
	}
	p.c.Pass(32 * 24 * time.Hour)
	p.answers("down with more sub-organizations than the plan has", p.activate("free"), 400, "2 sub-organizations")
	// The plan is gone: the default holds.
	p.plans(2, "free", free)
	if m := p.billing(); client.Text(m, "plan", "id") != "free" {
		t.Errorf("%v", m)
	}
	make := p.signers[0].Body("CREATE_SUB_ORGANIZATION_V8", client.SubOrganization("Sub", client.NewRootUser("Root", client.NewKey())))
	creates := func() client.Reply { return submit(p.signers[0].User, "CREATE_SUB_ORGANIZATION_V8", make) }
	p.answers("one sub-organization more", creates(), 429, "at most 2 sub-organizations")
	p.plans(3, "free", plan("free", "subOrganizations", 4))
	p.answers("the same body, under other plans", creates(), 200)
}

// Whose transactions are paid for is in the plan, before it is used and for as long as it is.
func TestSponsorshipIsInThePlan(t *testing.T) {
	p := newPayer(t, 0)
	limits := func(enabled bool) client.Reply {
		in := client.Object{"orgWindowLimitUsd": "1", "subOrgWindowLimitUsd": "1", "windowDurationMinutes": "60", "enabled": enabled}
		return p.signers[0].Submit("UPSERT_GAS_USAGE_CONFIG", in)
	}
	p.plans(1, "free", plan("free"), plan("pro", "sponsorship", true))
	p.answers("a plan without it", limits(true), 400, "does not include sponsored transactions")
	for _, step := range []struct {
		product string
		want    int
	}{{"pro", 200}, {"free", 400}} {
		p.answers(step.product, p.activate(step.product), step.want)
		p.answers("a plan with it", limits(true), 200)
	}
	p.answers("turned off", limits(false), 200)
	p.answers("down", p.activate("free"), 200)
	p.answers("a plan without it, again", limits(true), 400, "does not include sponsored transactions")
}

// A plan's rate is one for the whole tree.
func TestRatesOfPlans(t *testing.T) {
	p := newPayer(t, 1)
	p.plans(1, "slow", plan("slow", "requestsPerSecond", 1), plan("fast", "requestsPerSecond", 1000), plan("free"))
	refused := 0
	for i := range 40 {
		if r := p.signers[i%2].Query("whoami", nil); r.Status == 429 {
			refused++
			p.answers("over the rate", r, 429, "RATE_LIMIT_EXCEEDED", p.signers[0].Organization)
		}
	}
	if refused == 0 || refused > 30 { // ten at once, and those of the time that it takes
		t.Errorf("%d refused of 40", refused)
	}
	p.c.Pass(time.Minute)
	if got := p.activate("fast"); got.Status != 200 {
		t.Fatal(got)
	}
	for i := range 40 {
		p.answers("within the rate", p.signers[i%2].Query("whoami", nil), 200)
	}
}

// Under load from an organization and those below it, with the enclave killed meanwhile: what is signed is the quota but for
// what leases strand, however often bodies are sent again; and by the count of what was completed.
func TestQuotaIsExact(t *testing.T) {
	requests, quota, kills := 1000, 700, 3
	if testing.Short() {
		requests, quota, kills = 120, 90, 1
	}
	const subs = 3
	p := newPayer(t, subs)
	p.plans(1, "p", plan("p", "signaturesPerMonth", quota))
	var world sync.RWMutex // held for writing while the enclave is exchanged
	var signed, over, next atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(requests); i = next.Add(1) {
				s := p.signers[i%(subs+1)]
				body := p.payloads(s, 1)
				for {
					world.RLock()
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					r, err := s.Client.Post(ctx, wire.EndpointSubmit, "sign_raw_payloads", body)
					cancel()
					world.RUnlock()
					if err != nil || r.Status == 503 {
						continue
					}
					switch {
					case r.Status == 200 && strings.Contains(string(r.Body), completedState):
						signed.Add(1)
					case r.Status == 429 && strings.Contains(string(r.Body), quotaExceeded):
						over.Add(1)
					default:
						p.t.Error(r)
					}
					break
				}
			}
		})
	}
	dir := p.Dir.Path
	for k := range kills {
		clocktest.Until(t, "enough requests were begun", func() bool { return next.Load() >= int64(requests*(k+1)/(kills+2)) })
		p.Rig.Kill() // with requests under way
		world.Lock()
		p.Rig = rig.Start(t, rig.Options{Clock: p.c, Dir: dir})
		world.Unlock()
	}
	all.Wait()
	if signed.Load()+over.Load() != int64(requests) || signed.Load() > int64(quota) {
		t.Fatalf("%d signed and %d refused of %d, with a quota of %d", signed.Load(), over.Load(), requests, quota)
	}
	for p.sign(p.signers[0], 1).Status == 200 {
		signed.Add(1)
	}
	stranded := int64(0)
	for _, s := range p.signers[1:] {
		for p.sign(s, 1).Status == 200 {
			stranded++
		}
	}
	if signed.Load()+stranded != int64(quota) || stranded >= subs*64 {
		t.Errorf("%d signed, %d left in leases, of %d", signed.Load(), stranded, quota)
	}
	if got := client.Text(p.billing(), "usage", "signatures"); got != fmt.Sprint(quota) {
		t.Errorf("%s counted of %d", got, quota)
	}
	completed := 0
	for _, s := range p.signers {
		completed += p.completed(s)
	}
	if completed != quota {
		t.Errorf("%d activities completed of %d", completed, quota)
	}
}

// completed counts what an organization has signed.
func (p *payer) completed(s branch) (n int) {
	p.t.Helper()
	page := client.Object{"limit": "100"}
	for {
		m := s.Read("list_activities", client.Object{"filterByType": []any{"ACTIVITY_TYPE_SIGN_RAW_PAYLOADS"}, "filterByStatus": []any{completedState}, "paginationOptions": page})
		all := m["activities"].([]any)
		if n += len(all); len(all) < 100 {
			return n
		}
		page["before"] = client.Text(all[99], "id")
	}
}

// A month is over when the enclave's clock says so, also for what was leased in it.
func TestQuotaOfMonths(t *testing.T) {
	p := newPayer(t, 1)
	p.plans(1, "p", plan("p", "signaturesPerMonth", 4))
	p.answers("all of it", p.sign(p.signers[0], 3), 200)
	p.answers("all of it", p.sign(p.signers[1], 1), 200)
	p.answers("more", p.sign(p.signers[1], 1), 429)
	end, err := strconv.ParseInt(client.Text(p.billing(), "period", "end"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p.c.Pass(time.UnixMilli(end).Add(-30 * time.Second).Sub(p.c.Now()))
	p.answers("at the end of the month", p.sign(p.signers[0], 1), 429)
	p.c.Pass(30 * time.Second)
	p.answers("in the next one", p.sign(p.signers[1], 3), 200)
	p.answers("in the next one", p.sign(p.signers[0], 1), 200)
	p.answers("in the next one", p.sign(p.signers[0], 1), 429)
	if m := p.billing(); client.Text(m, "period", "start") != fmt.Sprint(end) {
		t.Errorf("%v", m)
	}
}

// An activity over the quota that waits for votes stays as it is: the vote that would have it signed is refused and can be
// cast again.
func TestQuotaOfVotes(t *testing.T) {
	p := newPayer(t, 0)
	root := p.signers[0]
	second := root.NewUser("Second")
	root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 2, "userIds": []any{root.User.User, second.User}})
	p.plans(1, "p", plan("p", "signaturesPerMonth", 1))
	asked := p.sign(root, 2)
	p.answers("waits", asked, 200, "ACTIVITY_STATUS_CONSENSUS_NEEDED")
	vote := func() client.Reply { return second.Submit("APPROVE_ACTIVITY", voteOn(asked)) }
	p.answers("the last vote", vote(), 429, quotaExceeded)
	p.used("the last vote", "0", "0")
	p.plans(2, "p", plan("p", "signaturesPerMonth", 2))
	p.answers("the last vote, cast again", vote(), 200, completedState)
	p.used("the last vote, cast again", "2", "0")
}

// What fails counts nothing.
func TestQuotaOfFailures(t *testing.T) {
	p := newPayer(t, 1)
	p.plans(1, "p", plan("p", "signaturesPerMonth", 2))
	for _, s := range p.signers {
		s.address = "0x000000000000000000000000000000000000dEaD"
		for range 3 {
			if r := p.sign(s, 1); r.Status == 200 || r.Status == 429 {
				t.Error(r)
			}
		}
	}
	p.used("failures", "0", "0")
}
