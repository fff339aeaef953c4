package rig_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/shared/clocktest"
	"cloister/shared/pace"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

func perMinute(n uint32) pace.Rate { return pace.Rate{Count: n, Per: time.Minute} }

// overdrawn holds a reply against the refusal of an account that has nothing left, and returns for how long.
func (a rateClient) overdrawn(what string, r *wire.Reply, of string, all bool) time.Duration {
	a.t.Helper()
	var e struct {
		Code             int
		Message          string
		TurnkeyErrorCode string
	}
	if err := json.Unmarshal(r.Body, &e); err != nil {
		a.t.Fatal(err)
	}
	if r.Status != 429 || e.Code != 8 || e.TurnkeyErrorCode != "RATE_LIMIT_EXCEEDED" || !strings.HasPrefix(e.Message, "too many requests: organization has used up its "+of+", try again in ") ||
		r.RetryMs == 0 || r.RefusesAll != all {
		a.t.Errorf("%s: %d %s; again in %d ms, all %t", what, r.Status, r.Body, r.RetryMs, r.RefusesAll)
	}
	return time.Duration(r.RetryMs) * time.Millisecond
}

func (a rateClient) passes(what string, r *wire.Reply, status int) {
	a.t.Helper()
	if int(r.Status) != status {
		a.t.Errorf("%s: %d %s", what, r.Status, r.Body)
	}
}

// fails is a body of so many bytes by a user of an organization that comes to nothing and is kept.
func (a rateClient) fails(organization string, key laptop.KeyPair, bytes int) (body []byte, r *wire.Reply) {
	a.t.Helper()
	body = a.as(organization, key).Body("SIGN_RAW_PAYLOAD_V2", map[string]any{"signWith": "0x0000000000000000000000000000000000000001",
		"payload": strings.Repeat("a", bytes), "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_SHA256"})
	return body, a.send(wire.EndpointSubmit, "sign_raw_payload", body, key)
}

// What the store gets of a sub-organization is charged to it, and to its tenant; what is refused leaves nothing behind, so the same
// body comes to what it would have.
func TestAccountOfStorage(t *testing.T) {
	c := clocktest.New()
	a := rateClient{t, rig.Start(t, rig.Options{Clock: c, Rates: core.Rates{EachSub: core.Spending{Stored: perMinute(200)}, EachTenant: core.Spending{Stored: perMinute(600)}}})}
	top, root := a.Credentials.OrganizationID, a.Credentials.RootAPIKey
	sub, key := a.sub()
	other, otherKey := a.sub()
	for n := range 2 { // 100 KB and what an entry takes besides: the second overdraws
		_, r := a.fails(sub, key, 100_000)
		a.passes(fmt.Sprint("number ", n), r, 404)
	}
	body, r := a.fails(sub, key, 1000)
	wait := a.overdrawn("the next", r, "storage", true)
	a.overdrawn("a query", a.whoami(sub, key), "storage", true)
	a.overdrawn("the same again", a.send(wire.EndpointSubmit, "sign_raw_payload", body, key), "storage", true)
	a.passes("another sub-organization", a.whoami(other, otherKey), 200)
	a.passes("the parent, below", a.whoami(sub, root), 200)
	a.passes("the parent", a.whoami(top, root), 200)
	c.Pass(wait - time.Millisecond)
	a.overdrawn("a moment too early", a.whoami(sub, key), "storage", true)
	c.Pass(time.Millisecond)
	a.passes("in its time", a.whoami(sub, key), 200)
	a.passes("the body that was refused", a.send(wire.EndpointSubmit, "sign_raw_payload", body, key), 404)

	// All below and the parent have the tenant's together.
	for n := range 8 {
		if _, r = a.fails(top, root, 100_000); r.Status == 429 {
			break
		}
		a.passes(fmt.Sprint("the parent's number ", n), r, 404)
	}
	a.overdrawn("the parent", r, "storage", true)
	a.overdrawn("a sub-organization that used nothing", a.whoami(other, otherKey), "storage", true)
	c.Pass(time.Minute)
	a.passes("a minute later", a.whoami(other, otherKey), 200)
}

// The processor time of a sub-organization's steps is charged to it.
func TestAccountOfProcessorTime(t *testing.T) {
	c := clocktest.New()
	var at atomic.Int64
	a := rateClient{t, rig.Start(t, rig.Options{Clock: c, Elapsed: func() time.Duration { return time.Duration(at.Add(int64(2 * time.Millisecond))) },
		Rates: core.Rates{EachSub: core.Spending{Processor: perMinute(60)}}})}
	sub, key := a.sub()
	other, otherKey := a.sub()
	var r *wire.Reply
	n := 0
	for ; n < 100; n++ {
		if r = a.whoami(sub, key); r.Status != 200 {
			break
		}
	}
	if wait := a.overdrawn("after some", r, "processor time", true); n < 3 || n > 30 || wait > 20*time.Second {
		t.Errorf("%d are answered, the next in %v", n, wait)
	}
	a.passes("another sub-organization", a.whoami(other, otherKey), 200)
	a.passes("the parent", a.whoami(sub, a.Credentials.RootAPIKey), 200)
	c.Pass(time.Minute)
	a.passes("a minute later", a.whoami(sub, key), 200)
}

// Strangers charge nobody, whatever it costs to find out that they are.
func TestUnknownCredentialsChargeNobody(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{Clock: clocktest.New(), Elapsed: func() func() time.Duration {
		var at atomic.Int64
		return func() time.Duration { return time.Duration(at.Add(int64(2 * time.Millisecond))) }
	}(), Rates: core.Rates{EachSub: core.Spending{Processor: perMinute(60), Stored: perMinute(60)}, EachTenant: core.Spending{Processor: perMinute(200), Stored: perMinute(60)}}})}
	sub, key := a.sub()
	unrelated := client.NewKey()
	for range 40 {
		a.passes("a stranger", a.whoami(sub, unrelated), 401)
		_, r := a.fails(sub, unrelated, 5000)
		a.passes("a stranger", r, 401)
	}
	a.passes("the sub-organization", a.whoami(sub, key), 200)
}

// Messages are charged as such: who has none left does everything else. One contact gets three in three minutes from all of a
// tenant's organizations together.
func TestAccountsOfMessages(t *testing.T) {
	c := clocktest.New()
	rates := core.Rates{Contact: pace.Rate{Count: 3, Per: 3 * time.Minute},
		EachSub: core.Spending{Mails: perHour(4), Texts: perHour(2)}, EachTenant: core.Spending{Mails: perHour(8), Texts: perHour(5)}}
	p := startPost(t, rig.Options{Clock: c, Rates: rates, Organizations: 1})
	a := rateClient{t, p.rig}
	subs := []*client.User{p.NewSubOrganization("One"), p.NewSubOrganization("Two"), p.NewSubOrganization("Three")}
	send := func(u *client.User, typ, contact string) *wire.Reply {
		return a.send(wire.EndpointSubmit, "init_otp", u.Body("INIT_OTP_V2", object{"otpType": typ, "contact": contact, "appName": "App"}), u.Key)
	}
	const mail, text = "OTP_TYPE_EMAIL", "OTP_TYPE_SMS"
	to := func(n int) string { return fmt.Sprintf("someone-%d@example.org", n) }
	// One contact, from anywhere.
	for n := range 3 {
		a.passes("to one contact", send(subs[n], mail, "One@example.org"), 200)
	}
	for _, u := range subs {
		if r := send(u, mail, "one@EXAMPLE.org"); r.Status != 429 || !strings.Contains(string(r.Body), "MAX_OTP_INITIATED") || r.RetryMs == 0 || r.RefusesAll {
			t.Errorf("a fourth to one contact: %d %s", r.Status, r.Body)
		}
	}
	others := a.Others()
	if len(others) != 1 {
		t.Fatalf("%d other tenants", len(others))
	}
	if r := send(others[0], mail, "one@example.org"); strings.Contains(string(r.Body), "MAX_OTP_INITIATED") {
		t.Errorf("from another tenant: %d %s", r.Status, r.Body)
	}
	// A sub-organization's mails, and the tenant's: three of its eight are sent.
	for n := range 3 {
		a.passes("a mail", send(subs[0], mail, to(n)), 200)
	}
	refused := subs[0].Body("INIT_OTP_V2", object{"otpType": mail, "contact": to(3), "appName": "App"})
	wait := a.overdrawn("the fifth", a.send(wire.EndpointSubmit, "init_otp", refused, subs[0].Key), "mails", false)
	a.passes("all else", a.whoami(subs[0].Organization, subs[0].Key), 200)
	a.passes("a text message", send(subs[0], text, "+15551234567"), 200)
	a.passes("another's", send(subs[1], mail, to(4)), 200)
	a.passes("another's", send(subs[1], mail, to(5)), 200)
	a.overdrawn("the tenant's ninth", send(subs[2], mail, to(6)), "mails", false)
	c.Pass(wait)
	a.passes("what was refused", a.send(wire.EndpointSubmit, "init_otp", refused, subs[0].Key), 200)
}

// Each organization is told what it has left, a sub-organization nothing of its tenant's.
func TestWhatIsLeft(t *testing.T) {
	rates := core.Rates{Organization: perHour(100), SubOrganization: perHour(50), EachSub: core.Spending{Stored: perMinute(200), Mails: perHour(4)}, EachTenant: core.Spending{Stored: perMinute(600)}}
	a := rateClient{t, rig.Start(t, rig.Options{Clock: clocktest.New(), Rates: rates})}
	root := a.Root()
	sub := root.NewSubOrganization("Sub")
	usage := func(u *client.User) string {
		got := u.Query("get_usage", nil)
		wants(t, "get_usage", got, 200, "")
		return string(got.Body)
	}
	one := func(resource string, limit, remaining int, period string) string {
		return fmt.Sprintf(`{"resource":%q,"limit":"%d","remaining":"%d","period":%q}`, resource, limit, remaining, period)
	}
	if got, want := usage(sub), `{"usage":[`+one("requests", 50, 49, "1h0m0s")+","+one("stored", 200, 200, "1m0s")+","+one("mails", 4, 4, "1h0m0s")+"]}"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for range 3 {
		a.fails(sub.Organization, sub.Key, 100_000)
	}
	var got struct {
		Usage []struct{ Resource, Remaining string }
	}
	if err := json.Unmarshal([]byte(usage(root.As(sub.Organization, "", root.Key))), &got); err != nil || len(got.Usage) != 3 || !strings.HasPrefix(got.Usage[1].Remaining, "-") || got.Usage[0].Remaining != "47" {
		t.Errorf("the parent is told of it: %v, %v", got, err)
	}
	if text := usage(root); strings.Contains(text, "mails") || !strings.Contains(text, `"resource":"stored","limit":"600"`) || strings.Contains(text, `"remaining":"600"`) {
		t.Errorf("the parent's: %s", text)
	}
}

// What the measured configuration says goes before what the process was started with.
func TestConfiguredRates(t *testing.T) {
	a := rateClient{t, rig.Start(t, rig.Options{Clock: clocktest.New(), Rates: core.Rates{SubOrganization: perHour(50), Key: perHour(60)},
		Configuration: []byte(`{"rates":{"subOrganization":"4/h","eachSubOrganization":{"mails":"7/h"}}}`)})}
	sub, key := a.sub()
	r := a.send(wire.EndpointQuery, "get_usage", []byte(`{"organizationId":"`+sub+`"}`), key)
	if want := `{"usage":[{"resource":"requests","limit":"4","remaining":"3","period":"1h0m0s"},{"resource":"mails","limit":"7","remaining":"7","period":"1h0m0s"}]}`; string(r.Body) != want {
		t.Errorf("%s\nwant %s", r.Body, want)
	}
	for range 3 {
		a.passes("within the rate", a.whoami(sub, key), 200)
	}
	a.want("over it", a.whoami(sub, key), 429, 4, 0)
}
