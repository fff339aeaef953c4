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
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// payer is a top-level organization with sub-organizations that sign.
type payer struct {
	rateClient
	c       *clocktest.Clock
	signers []branch // the organization itself first
}

type branch struct {
	id, address string
	key         laptop.KeyPair
}

func newPayer(t *testing.T, subs int) *payer {
	c := clocktest.Running()
	p := &payer{rateClient: rateClient{t, rig.Start(t, rig.Options{Clock: c, Organizations: 1})}, c: c}
	p.signers = []branch{{id: p.Credentials.OrganizationID, key: p.Credentials.RootAPIKey}}
	for range subs {
		p.addSub()
	}
	p.signers[0].address = p.wallet(p.signers[0])
	return p
}

func (p *payer) addSub() {
	id, key := p.sub()
	s := branch{id: id, key: key}
	s.address = p.wallet(s)
	p.signers = append(p.signers, s)
}

func (p *payer) wallet(s branch) string {
	p.t.Helper()
	body := p.BodyOf(s.id, "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "Wallet", "accounts": []any{map[string]any{
		"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}}})
	r := p.send(wire.EndpointSubmit, "create_wallet", body, s.key)
	var m any
	if err := json.Unmarshal(r.Body, &m); err != nil || r.Status != 200 {
		p.t.Fatalf("%d %s", r.Status, r.Body)
	}
	return rig.Text(m, "activity", "result", "createWalletResult", "addresses", "0")
}

var salt atomic.Int64

// payloads is a body that signs n payloads, another one each time.
func (p *payer) payloads(s branch, n int) []byte {
	var all []any
	for range n {
		all = append(all, fmt.Sprintf("%064x", salt.Add(1)))
	}
	return p.BodyOf(s.id, "ACTIVITY_TYPE_SIGN_RAW_PAYLOADS", map[string]any{"signWith": s.address, "payloads": all, "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_NO_OP"})
}

func (p *payer) sign(s branch, n int) *wire.Reply {
	p.t.Helper()
	return p.send(wire.EndpointSubmit, "sign_raw_payloads", p.payloads(s, n), s.key)
}

// answers holds a reply against a status, and a refusal's words and machine code.
func (p *payer) answers(what string, r *wire.Reply, status int, words ...string) {
	p.t.Helper()
	if int(r.Status) != status {
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
	if status, m := p.PutPlans(version, byDefault, plans...); status != 200 {
		p.t.Fatalf("%d %v", status, m)
	}
}

func (p *payer) billing() map[string]any {
	p.t.Helper()
	status, m := p.Query("get_billing", nil)
	if status != 200 {
		p.t.Fatalf("%d %v", status, m)
	}
	return m
}

func (p *payer) used(what, signatures, leased string) {
	p.t.Helper()
	if u := rig.Get(p.billing(), "usage"); rig.Text(u, "signatures") != signatures || rig.Text(u, "leased") != leased {
		p.t.Errorf("%s: %v, want %s signatures and %s leased", what, u, signatures, leased)
	}
}

func (p *payer) activate(product string) (int, map[string]any) {
	p.t.Helper()
	return p.Submit("activate_billing_tier", "ACTIVITY_TYPE_ACTIVATE_BILLING_TIER", map[string]any{"productId": product})
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
	if m := p.billing(); rig.Text(m, "plan", "id") != "self-hosted" || m["usage"] != nil || m["paymentMethod"] != nil || rig.Get(m, "limits", "signaturesPerMonth") != nil {
		t.Errorf("%v", m)
	}
	for range 3 {
		p.answers("no plans", p.sign(p.signers[1], 50), 200)
	}
	if status, m := p.activate("free"); status != 404 {
		t.Errorf("%d %v", status, m)
	}
	if status, m := p.activate("self-hosted"); status != 200 || rig.Text(m, "activity", "result", "activateBillingTierResult", "productId") != "self-hosted" {
		t.Errorf("%d %v", status, m)
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
	put := func(body []byte, key laptop.KeyPair) *wire.Reply {
		return p.send(wire.EndpointBoot, "put_plans", body, key)
	}
	first, second := document(1, 3), document(2, 5)
	p.answers("a tenant's key", put(first, p.signers[0].key), 401, "PUBLIC_KEY_NOT_FOUND")
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
	p.answers("a wallet", p.send(wire.EndpointSubmit, "create_user_tag", p.Body("ACTIVITY_TYPE_CREATE_USER_TAG", map[string]any{"userTagName": "Tag", "userIds": []any{}}), p.signers[0].key), 200)
	others, err := p.Dir.Organizations()
	if err != nil {
		t.Fatal(err)
	}
	other := branch{id: others[0].OrganizationID, key: others[0].RootAPIKey}
	other.address = p.wallet(other)
	p.answers("another tenant", p.sign(other, 5), 200)
	p.answers("another tenant", p.sign(other, 1), 429, overQuota)
	p.used("another tenant's are its own", "5", "0")
	p.answers("another tenant's bill", p.send(wire.EndpointQuery, "get_billing", fmt.Appendf(nil, `{"organizationId":%q}`, p.signers[0].id), other.key), 401)
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
	body := p.BodyOf(p.signers[1].id, "ACTIVITY_TYPE_ACTIVATE_BILLING_TIER", map[string]any{"productId": "big"})
	p.answers("a sub-organization's user", p.send(wire.EndpointSubmit, "activate_billing_tier", body, p.signers[1].key), 400, "INVALID_ACTIVITY_CALLER")
	p.answers("a sub-organization's bill", p.send(wire.EndpointQuery, "get_billing", fmt.Appendf(nil, `{"organizationId":%q}`, p.signers[1].id), p.signers[1].key), 400, "INVALID_ACTIVITY_CALLER")
	for product, want := range map[string]int{"gone": 404, "paid": 400, "big": 200} {
		if status, m := p.activate(product); status != want {
			t.Errorf("%s: %d %v", product, status, m)
		}
	}
	if m := p.billing(); rig.Text(m, "plan", "id") != "big" || rig.Text(m, "plan", "price", "perMonth") != "49" || rig.Text(m, "limits", "signaturesPerMonth") != "50" {
		t.Errorf("%v", m)
	}
	p.answers("a bigger quota, at once", p.sign(p.signers[1], 10), 200)
	if status, m := p.activate("free"); status != 400 || !strings.Contains(fmt.Sprint(m), "3 signatures a month") {
		t.Errorf("down with more used than the plan has: %d %v", status, m)
	}
	for range 2 {
		p.addSub() // three now
	}
	p.c.Pass(32 * 24 * time.Hour)
	if status, m := p.activate("free"); status != 400 || !strings.Contains(fmt.Sprint(m), "2 sub-organizations") {
		t.Errorf("down with more sub-organizations than the plan has: %d %v", status, m)
	}
	// The plan is gone: the default holds.
	p.plans(2, "free", free)
	if m := p.billing(); rig.Text(m, "plan", "id") != "free" {
		t.Errorf("%v", m)
	}
	sub := map[string]any{"subOrganizationName": "Sub", "rootQuorumThreshold": 1, "rootUsers": []any{map[string]any{"userName": "Root", "authenticators": []any{}, "oauthProviders": []any{},
		"apiKeys": []any{map[string]any{"apiKeyName": "key", "publicKey": newKey(t).PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}}
	make := p.Body("ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8", sub)
	p.answers("one sub-organization more", p.send(wire.EndpointSubmit, "create_sub_organization", make, p.signers[0].key), 429, "at most 2 sub-organizations")
	p.plans(3, "free", plan("free", "subOrganizations", 4))
	p.answers("the same body, under other plans", p.send(wire.EndpointSubmit, "create_sub_organization", make, p.signers[0].key), 200)
}

// Whose transactions are paid for is in the plan, before it is used and for as long as it is.
func TestSponsorshipIsInThePlan(t *testing.T) {
	p := newPayer(t, 0)
	limits := func(enabled bool) *wire.Reply {
		in := map[string]any{"orgWindowLimitUsd": "1", "subOrgWindowLimitUsd": "1", "windowDurationMinutes": "60", "enabled": enabled}
		return p.send(wire.EndpointSubmit, "upsert_gas_usage_config", p.Body("ACTIVITY_TYPE_UPSERT_GAS_USAGE_CONFIG", in), p.signers[0].key)
	}
	p.plans(1, "free", plan("free"), plan("pro", "sponsorship", true))
	p.answers("a plan without it", limits(true), 400, "does not include sponsored transactions")
	for _, step := range []struct {
		product string
		want    int
	}{{"pro", 200}, {"free", 400}} {
		if status, m := p.activate(step.product); status != step.want {
			t.Errorf("%s: %d %v", step.product, status, m)
		}
		p.answers("a plan with it", limits(true), 200)
	}
	p.answers("turned off", limits(false), 200)
	if status, m := p.activate("free"); status != 200 {
		t.Errorf("%d %v", status, m)
	}
	p.answers("a plan without it, again", limits(true), 400, "does not include sponsored transactions")
}

// A plan's rate is one for the whole tree.
func TestRatesOfPlans(t *testing.T) {
	p := newPayer(t, 1)
	p.plans(1, "slow", plan("slow", "requestsPerSecond", 1), plan("fast", "requestsPerSecond", 1000), plan("free"))
	ask := func(s branch) *wire.Reply { return p.whoami(s.id, s.key) }
	refused := 0
	for i := range 40 {
		if r := ask(p.signers[i%2]); r.Status == 429 {
			refused++
			p.answers("over the rate", r, 429, "RATE_LIMIT_EXCEEDED", p.signers[0].id)
		}
	}
	if refused == 0 || refused > 30 { // ten at once, and those of the time that it takes
		t.Errorf("%d refused of 40", refused)
	}
	p.c.Pass(time.Minute)
	if status, m := p.activate("fast"); status != 200 {
		t.Fatal(status, m)
	}
	for i := range 40 {
		p.answers("within the rate", ask(p.signers[i%2]), 200)
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
					r, err := p.Send(ctx, wire.EndpointSubmit, "sign_raw_payloads", body, s.key)
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
						p.t.Errorf("%d %s", r.Status, r.Body)
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
	if got := rig.Text(p.billing(), "usage", "signatures"); got != fmt.Sprint(quota) {
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
	page := map[string]any{"limit": "100"}
	for {
		b, err := json.Marshal(map[string]any{"organizationId": s.id, "filterByType": []any{"ACTIVITY_TYPE_SIGN_RAW_PAYLOADS"}, "filterByStatus": []any{completedState}, "paginationOptions": page})
		if err != nil {
			p.t.Fatal(err)
		}
		var m struct{ Activities []struct{ ID string } }
		if r := p.send(wire.EndpointQuery, "list_activities", b, s.key); json.Unmarshal(r.Body, &m) != nil || r.Status != 200 {
			p.t.Fatalf("%s", r.Body)
		}
		n += len(m.Activities)
		if len(m.Activities) < 100 {
			return n
		}
		page["after"] = m.Activities[99].ID
	}
}

// A month is over when the enclave's clock says so, also for what was leased in it.
func TestQuotaOfMonths(t *testing.T) {
	p := newPayer(t, 1)
	p.plans(1, "p", plan("p", "signaturesPerMonth", 4))
	p.answers("all of it", p.sign(p.signers[0], 3), 200)
	p.answers("all of it", p.sign(p.signers[1], 1), 200)
	p.answers("more", p.sign(p.signers[1], 1), 429)
	end, err := strconv.ParseInt(rig.Text(p.billing(), "period", "end"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p.c.Pass(time.UnixMilli(end).Add(-30 * time.Second).Sub(p.c.Now()))
	p.answers("at the end of the month", p.sign(p.signers[0], 1), 429)
	p.c.Pass(30 * time.Second)
	p.answers("in the next one", p.sign(p.signers[1], 3), 200)
	p.answers("in the next one", p.sign(p.signers[0], 1), 200)
	p.answers("in the next one", p.sign(p.signers[0], 1), 429)
	if m := p.billing(); rig.Text(m, "period", "start") != fmt.Sprint(end) {
		t.Errorf("%v", m)
	}
}

// An activity over the quota that waits for votes stays as it is: the vote that would have it signed is refused and can be
// cast again.
func TestQuotaOfVotes(t *testing.T) {
	p := newPayer(t, 0)
	second := newKey(t)
	status, m := p.Submit("create_users", "ACTIVITY_TYPE_CREATE_USERS_V4", map[string]any{"users": []any{map[string]any{"userName": "Second", "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{},
		"apiKeys": []any{map[string]any{"apiKeyName": "key", "publicKey": second.PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}})
	user := rig.Text(m, "activity", "result", "createUsersResult", "userIds", "0")
	if status != 200 {
		t.Fatal(status, m)
	}
	if status, m = p.Submit("update_root_quorum", "ACTIVITY_TYPE_UPDATE_ROOT_QUORUM", map[string]any{"threshold": 2, "userIds": []any{p.Credentials.RootUserID, user}}); status != 200 {
		t.Fatal(status, m)
	}
	p.plans(1, "p", plan("p", "signaturesPerMonth", 1))
	body := p.payloads(p.signers[0], 2)
	r := p.send(wire.EndpointSubmit, "sign_raw_payloads", body, p.signers[0].key)
	p.answers("waits", r, 200, "ACTIVITY_STATUS_CONSENSUS_NEEDED")
	if err := json.Unmarshal(r.Body, &m); err != nil {
		t.Fatal(err)
	}
	vote := func() *wire.Reply {
		return p.send(wire.EndpointSubmit, "approve_activity", p.Body("ACTIVITY_TYPE_APPROVE_ACTIVITY", map[string]any{"fingerprint": rig.Text(m, "activity", "fingerprint")}), second)
	}
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
				t.Errorf("%d %s", r.Status, r.Body)
			}
		}
	}
	p.used("failures", "0", "0")
}
