package rig_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/host/store"
	"cloister/shared/wire"
	"cloister/sim/client"
)

// stripeKey is the operator's at the payment processor.
const stripeKey = "rk_test_cloister"

// stripe stands in for the payment processor: it remembers customers and what is attached to whom, and does nothing twice
// under one key. With behind set, that answers.
type stripe struct {
	mu        sync.Mutex
	asked     []told
	customers int
	attached  map[string]string // payment methods, with their customers
	done      map[string]string // answers by their keys
	behind    http.Handler
	away      func(path string) bool
	statuses  []int
}

// told is one request.
type told struct {
	path, key string
	form      url.Values
}

func (s *stripe) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	form, ferr := url.ParseQuery(string(b))
	s.mu.Lock()
	defer s.mu.Unlock()
	q := told{r.URL.Path, r.Header.Get("Idempotency-Key"), form}
	s.asked = append(s.asked, q)
	if err != nil || ferr != nil || r.Method != "POST" || r.Header.Get("Authorization") != "Bearer "+stripeKey || q.key == "" || r.Header.Get("Stripe-Version") == "" {
		rw.WriteHeader(401)
		return
	}
	if s.away != nil && s.away(q.path) {
		rw.WriteHeader(500)
		return
	}
	if s.behind != nil {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(b))), int64(len(b))
		w := &noted{ResponseWriter: rw, status: 200}
		s.behind.ServeHTTP(w, r)
		s.statuses = append(s.statuses, w.status)
		return
	}
	if s.done[q.key] == "" {
		s.done[q.key] = s.answer(q)
	}
	if strings.Contains(s.done[q.key], `"error"`) {
		rw.WriteHeader(400)
	}
	fmt.Fprint(rw, s.done[q.key])
}

type noted struct {
	http.ResponseWriter
	status int
}

func (w *noted) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (s *stripe) answer(q told) string {
	method, act, _ := strings.Cut(strings.TrimPrefix(q.path, "/v1/payment_methods/"), "/")
	customer := q.form.Get("customer")
	switch {
	case q.path == "/v1/billing/meter_events":
		return `{"object":"billing.meter_event"}`
	case strings.HasPrefix(q.path, "/v1/customers/cus_"):
		return fmt.Sprintf(`{"id":%q,"object":"customer"}`, strings.TrimPrefix(q.path, "/v1/customers/"))
	case q.path == "/v1/customers":
		s.customers++
		return fmt.Sprintf(`{"id":"cus_%d","object":"customer"}`, s.customers)
	case act == "attach" && strings.HasPrefix(method, "pm_bank"):
		return fmt.Sprintf(`{"id":%q,"customer":%q,"card":null,"us_bank_account":{"last4":"6789"}}`, method, customer)
	case act == "attach" && strings.HasPrefix(method, "pm_other"):
		return fmt.Sprintf(`{"id":"pm_9","customer":%q,"card":{"last4":"4242"}}`, customer)
	case act == "attach" && (s.attached[method] == "" || s.attached[method] == customer) && !strings.HasPrefix(method, "pm_declined"):
		s.attached[method] = customer
		return fmt.Sprintf(`{"id":%q,"customer":%q,"card":{"last4":"42%s"}}`, method, customer, method[len(method)-2:])
	case act == "attach":
		return `{"error":{"code":"card_declined","type":"card_error","message":"for people: <b>4242</b>"}}`
	case act == "detach" && s.attached[method] != "":
		delete(s.attached, method)
		return fmt.Sprintf(`{"id":%q,"customer":null,"card":{"last4":"4242"}}`, method)
	}
	return `{"error":{"type":"invalid_request_error"}}`
}

func (s *stripe) paths() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.asked {
		all = append(all, q.path)
	}
	s.asked = nil
	return all
}

func (s *stripe) holds(method string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attached[method]
}

// paying is a family with a payment processor and another tenant.
func paying(t *testing.T) (*payer, *stripe) {
	f := newFamily(t)
	s := &stripe{attached: map[string]string{}, done: map[string]string{}}
	f.w.site("api.stripe.com", s)
	p := payerOf(t, f.Rig, f.c)
	p.addSub()
	return p, s
}

func method(id string) map[string]any {
	return client.Object{"paymentMethodId": id, "cardHolderEmail": "payer@example.org", "cardHolderName": "Ada Payer"}
}

func (p *payer) asked(what string, s *stripe, want ...string) {
	p.t.Helper()
	if got := s.paths(); !slices.Equal(got, want) {
		p.t.Errorf("%s: the processor was asked %v, want %v", what, got, want)
	}
}

// A payment method is set, replaced and deleted at the processor, whose customer the organization is made once. What it refuses
// changes nothing; what it does not answer can be asked again.
func TestPaymentMethods(t *testing.T) {
	p, s := paying(t)
	top, sub := p.signers[0], p.signers[1]
	p.plans(1, "free", plan("free"), plan("paid", "needsPaymentMethod", true))
	set := func(id string) client.Reply { return top.Submit("SET_PAYMENT_METHOD_V2", method(id)) }
	remove := func(id string) client.Reply {
		return top.Submit("DELETE_PAYMENT_METHOD", client.Object{"paymentMethodId": id})
	}
	shows := func(what, id, four string) {
		t.Helper()
		m := p.billing()["paymentMethod"]
		if id == "" && m == nil {
			return
		}
		if client.Text(m, "id") != id || client.Text(m, "lastFour") != four || client.Text(m, "cardHolderName") != "Ada Payer" {
			t.Errorf("%s: %v", what, m)
		}
	}
	wants(t, "a sub-organization", sub.Submit("SET_PAYMENT_METHOD_V2", method("pm_11")), 400, "INVALID_ACTIVITY_CALLER")
	wants(t, "a sub-organization", sub.Submit("DELETE_PAYMENT_METHOD", client.Object{"paymentMethodId": "pm_11"}), 400, "INVALID_ACTIVITY_CALLER")
	for _, bad := range []string{"pm/../x", "pm_1?x=1", "pm 1", "pm_1\r\nX: y", "pm_ä", strings.Repeat("a", 257)} {
		wants(t, bad, set(bad), 400, none)
		wants(t, bad, remove(bad), 400, none)
	}
	wants(t, "none is there", remove("pm_11"), 404, none, "payment method not found")
	wants(t, "a plan that needs one", top.Submit("ACTIVATE_BILLING_TIER", client.Object{"productId": "paid"}), 400, none, "needs a payment method")
	p.asked("refused here", s)

	s.away = func(path string) bool { return strings.HasSuffix(path, "/attach") }
	body := top.Body("SET_PAYMENT_METHOD_V2", method("pm_11"))
	wants(t, "no answer", submit(top.User, "SET_PAYMENT_METHOD_V2", body), 503, "RPC_CALL_ERROR")
	shows("no answer", "", "")
	s.away = nil
	got := submit(top.User, "SET_PAYMENT_METHOD_V2", body)
	if r := got.Result(); client.Text(r, "lastFour") != "4211" || client.Text(r, "cardHolderName") != "Ada Payer" || client.Text(r, "cardHolderEmail") != "payer@example.org" {
		t.Fatalf("%v", got)
	}
	shows("the same body, asked again", "pm_11", "4211")
	if s.customers != 1 || s.holds("pm_11") != "cus_1" {
		t.Errorf("%d customers, %v", s.customers, s.attached)
	}
	s.paths()
	submit(top.User, "SET_PAYMENT_METHOD_V2", body)
	p.asked("a body that is done", s)

	wants(t, "declined", set("pm_declined"), 400, none, "card_declined")
	wants(t, "no card", set("pm_bank"), 400, none, "did not attach a card")
	wants(t, "an answer about another", set("pm_other"), 400, none, "did not attach a card")
	shows("refused there", "pm_11", "4211")
	s.paths()
	if got := set("pm_22"); got.Status != 200 {
		t.Fatal(got)
	}
	p.asked("another one", s, "/v1/payment_methods/pm_22/attach", "/v1/payment_methods/pm_11/detach")
	shows("another one", "pm_22", "4222")
	wants(t, "the one before", remove("pm_11"), 404, none)
	if got := top.Submit("ACTIVATE_BILLING_TIER", client.Object{"productId": "paid"}); got.Status != 200 {
		t.Fatal(got)
	}
	wants(t, "while the plan needs it", remove("pm_22"), 400, none, "plan needs a payment method")
	if got := top.Submit("ACTIVATE_BILLING_TIER", client.Object{"productId": "free"}); got.Status != 200 {
		t.Fatal(got)
	}
	s.mu.Lock()
	delete(s.attached, "pm_22") // by the operator, at the processor
	s.mu.Unlock()
	if got := remove("pm_22"); got.Status != 200 || client.Text(got.Result(), "paymentMethodId") != "pm_22" {
		t.Error(got)
	}
	shows("deleted", "", "")
	if p.billing()["paymentMethod"] != nil {
		t.Error("it is there still")
	}
}

// The address of invoices goes to the processor, which learns it with the customer where there is none yet. What it refuses, or does
// not answer, changes nothing.
func TestAddressOfInvoices(t *testing.T) {
	p, s := paying(t)
	top, sub := p.signers[0], p.signers[1]
	set := func(email string) client.Reply {
		return top.Submit("UPDATE_PAYMENT_METHOD", client.Object{"paymentEmail": email})
	}
	shows := func(what string, email any) {
		t.Helper()
		if got := p.billing()["paymentEmail"]; got != email {
			t.Errorf("%s: %v", what, got)
		}
	}
	sent := func() (all []told) {
		s.mu.Lock()
		defer s.mu.Unlock()
		all, s.asked = s.asked, nil
		return all
	}
	wants(t, "a sub-organization", sub.Submit("UPDATE_PAYMENT_METHOD", client.Object{"paymentEmail": "bills@example.org"}), 400, "INVALID_ACTIVITY_CALLER")
	for _, bad := range []string{"", "bills", "a@b", "bills@example.org\r\nX: y"} {
		wants(t, bad, set(bad), 400, none, "paymentEmail")
	}
	wants(t, "by a user whom no policy lets", top.NewUser("Clerk").Submit("UPDATE_PAYMENT_METHOD", client.Object{"paymentEmail": "clerk@example.org"}), 403, "REQUEST_NOT_AUTHORIZED")
	s.away = func(string) bool { return true }
	body := top.Body("UPDATE_PAYMENT_METHOD", client.Object{"paymentEmail": "bills@example.org"})
	wants(t, "no answer", submit(top.User, "UPDATE_PAYMENT_METHOD", body), 503, "RPC_CALL_ERROR")
	shows("no answer", nil)
	s.away = nil
	sent()
	if got := submit(top.User, "UPDATE_PAYMENT_METHOD", body); client.Text(got.Result(), "paymentEmail") != "bills@example.org" {
		t.Fatal(got)
	}
	shows("set", "bills@example.org")
	if all := sent(); len(all) != 1 || all[0].path != "/v1/customers" || all[0].form.Get("email") != "bills@example.org" || all[0].form.Get("metadata[organizationId]") != top.Organization {
		t.Errorf("%v", all)
	}
	if got := set("invoices@example.org"); got.Status != 200 {
		t.Fatal(got)
	}
	shows("changed", "invoices@example.org")
	if all := sent(); len(all) != 1 || all[0].path != "/v1/customers/cus_1" || len(all[0].form) != 1 || all[0].form.Get("email") != "invoices@example.org" {
		t.Errorf("%v", all)
	}
	if got := top.Submit("SET_PAYMENT_METHOD_V2", method("pm_11")); got.Status != 200 || s.customers != 1 {
		t.Errorf("%v, %d customers", got, s.customers)
	}
	shows("with a method", "invoices@example.org")
}

// Nobody pays by a method of another tenant, nor takes it away; and a user needs a policy.
func TestPaymentMethodsOfOthers(t *testing.T) {
	p, s := paying(t)
	top := p.signers[0]
	admission, err := p.Dir.AdmissionKey()
	if err != nil {
		t.Fatal(err)
	}
	key := client.NewKey()
	made := top.As("", "", admission).Post(wire.EndpointBoot, "create_organization",
		fmt.Appendf(nil, `{"organizationName":"Other","rootUserName":"Root","timestampMs":"%d","rootApiKey":{"apiKeyName":"key","publicKey":%q,"curveType":"API_KEY_CURVE_P256"}}`, p.NowMs(), key.PublicKey))
	if made.Status != 200 {
		t.Fatal(made)
	}
	other := top.As(made.Text("organizationId"), "", key)
	if got := top.Submit("SET_PAYMENT_METHOD_V2", method("pm_11")); got.Status != 200 {
		t.Fatal(got)
	}
	wants(t, "another's", other.Submit("SET_PAYMENT_METHOD_V2", method("pm_11")), 400, none, "refuses the payment method")
	wants(t, "another's", other.Submit("DELETE_PAYMENT_METHOD", client.Object{"paymentMethodId": "pm_11"}), 404, none)
	wants(t, "another's", top.As(top.Organization, "", key).Submit("DELETE_PAYMENT_METHOD", client.Object{"paymentMethodId": "pm_11"}), 401, "PUBLIC_KEY_NOT_FOUND")
	if s.holds("pm_11") != "cus_1" {
		t.Errorf("%v", s.attached)
	}
	// The customer that was made for the refused one is known: none is made again.
	if got := other.Submit("SET_PAYMENT_METHOD_V2", method("pm_33")); got.Status != 200 || s.customers != 2 || s.holds("pm_33") != "cus_2" {
		t.Errorf("%v, %d customers", got, s.customers)
	}
	clerk := top.NewUser("Clerk")
	s.paths()
	for _, typ := range []string{"SET_PAYMENT_METHOD_V2", "DELETE_PAYMENT_METHOD", "ACTIVATE_BILLING_TIER"} {
		in := map[string]client.Object{"SET_PAYMENT_METHOD_V2": method("pm_44"), "DELETE_PAYMENT_METHOD": {"paymentMethodId": "pm_11"}, "ACTIVATE_BILLING_TIER": {"productId": "self-hosted"}}[typ]
		wants(t, typ, clerk.Submit(typ, in), 403, "REQUEST_NOT_AUTHORIZED")
	}
	p.asked("denied", s)
	top.Do("CREATE_POLICY_V3", client.Policy("Pays", "ALLOW", "activity.resource == 'PAYMENT_METHOD' && activity.action == 'UPDATE'", "approvers.any(user, true)"))
	if got := clerk.Submit("SET_PAYMENT_METHOD_V2", method("pm_44")); got.Status != 200 {
		t.Error(got)
	}
	wants(t, "deleting is another action", clerk.Submit("DELETE_PAYMENT_METHOD", client.Object{"paymentMethodId": "pm_44"}), 403, "REQUEST_NOT_AUTHORIZED")
}

// A card's number is refused behind shape, stamp and policies, and no body of it is ever known.
func TestCardNumbers(t *testing.T) {
	p, s := paying(t)
	top := p.signers[0]
	in := client.Object{"number": "4242424242424242", "cvv": "123", "expiryMonth": "12", "expiryYear": "2030", "cardHolderEmail": "payer@example.org", "cardHolderName": "Ada"}
	clerk := top.NewUser("Clerk")
	body := top.Body("SET_PAYMENT_METHOD", in)
	for range 2 {
		wants(t, "by who may", submit(top.User, "SET_PAYMENT_METHOD", body), 400, none, "card numbers are not taken here")
	}
	wants(t, "by who may not", clerk.Submit("SET_PAYMENT_METHOD", in), 403, "REQUEST_NOT_AUTHORIZED")
	in["cvv"] = "12345"
	wants(t, "a bad shape", top.Submit("SET_PAYMENT_METHOD", in), 400, none, "cvv")
	if n := len(top.Query("list_activities", nil).Get("activities").([]any)); n != 2 { // a sub-organization and a user
		t.Errorf("%d activities", n)
	}
	p.asked("card numbers", s)
}

// Stripe's own mock holds every request against Stripe's published description.
func TestStripeMock(t *testing.T) {
	at := os.Getenv("STRIPE_MOCK")
	if at == "" {
		t.Skip("left to make campaign: payments at stripe-mock, which scripts/billing/test.sh starts")
	}
	to, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	p, s := paying(t)
	top := p.signers[0]
	s.behind = httputil.NewSingleHostReverseProxy(to)
	for _, id := range []string{"pm_card_1", "pm_card_2"} {
		got := top.Submit("SET_PAYMENT_METHOD_V2", method(id))
		if got.Status != 200 || client.Text(got.Result(), "lastFour") != "4242" {
			t.Fatalf("%v", got)
		}
	}
	if got := top.Submit("DELETE_PAYMENT_METHOD", client.Object{"paymentMethodId": "pm_card_2"}); got.Status != 200 {
		t.Fatal(got)
	}
	want := []string{"/v1/customers", "/v1/payment_methods/pm_card_1/attach", "/v1/payment_methods/pm_card_2/attach", "/v1/payment_methods/pm_card_1/detach", "/v1/payment_methods/pm_card_2/detach"}
	p.asked("recorded", s, want...)
	p.plans(1, "free", plan("free"))
	p.signers[0].address = wallet(top.User)
	p.answers("a signature", p.sign(p.signers[0], 3), 200)
	want = append(want, "/v1/billing/meter_events")
	for _, id := range p.usages() {
		p.c.Pass(25 * time.Hour)
		p.delivers("stripe-mock", id, wire.DeliverDone)
	}
	p.asked("recorded", s, want[len(want)-1])
	for i, status := range s.statuses {
		if status != 200 {
			t.Errorf("%s: status %d", want[i], status)
		}
	}
	if len(s.statuses) != len(want) {
		t.Errorf("%v", s.statuses)
	}
}

// usages are the sends of usage that wait, of any time.
func (p *payer) usages() (ids []wire.SendID) {
	p.t.Helper()
	lanes, err := p.Store.Due(p.t.Context(), store.Due{NowMs: math.MaxInt64, Kinds: []wire.SendKind{wire.SendUsage}, Limit: 100})
	if err != nil {
		p.t.Fatal(err)
	}
	if len(lanes) == 0 {
		return nil
	}
	all, err := p.Store.ClaimSends(p.t.Context(), store.ClaimSends{Claimant: wire.ID{1}, NowMs: math.MaxInt64, UntilMs: 1, Lanes: lanes})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

func (p *payer) delivers(what string, id wire.SendID, want wire.DeliverResult) {
	p.t.Helper()
	if d, err := p.Link.Deliver(p.t.Context(), id); err != nil || d.Result != want {
		p.t.Errorf("%s: %+v, %v", what, d, err)
	}
}

// A day's signatures are told to the processor once the day is over, once for an organization and all below it, however often
// the host asks; and nobody is told of an organization that has never had a payment method.
func TestUsage(t *testing.T) {
	p, s := paying(t)
	p.plans(1, "free", plan("free"))
	p.signers[0].address = wallet(p.signers[0].User)
	top, sub := p.signers[0], p.signers[1]
	p.answers("before a payment method", p.sign(top, 7), 200)
	if n := len(p.usages()); n != 0 {
		t.Fatalf("%d sends", n)
	}
	if got := top.Submit("SET_PAYMENT_METHOD_V2", method("pm_11")); got.Status != 200 {
		t.Fatal(got)
	}
	s.paths()
	now := p.c.Now().UTC()
	p.c.Pass(now.Truncate(24 * time.Hour).Add(36 * time.Hour).Sub(now)) // noon
	first := p.c.Now().UTC().Format(time.DateOnly)
	p.answers("below first", p.sign(sub, 1), 200)
	p.answers("several", p.sign(top, 5), 200)
	p.answers("below", p.sign(sub, 1), 200) // of a lease of two
	p.answers("below, which tells nobody yet", p.sign(sub, 1), 200)
	ids := p.usages()
	if len(ids) != 1 {
		t.Fatalf("%d sends of one day", len(ids))
	}
	p.delivers("before the day is over", ids[0], wire.DeliverTemporary)
	p.c.Pass(12*time.Hour + 5*time.Minute)
	p.delivers("right behind it", ids[0], wire.DeliverTemporary)
	p.asked("before", s)
	p.answers("the next day", p.sign(sub, 1), 200) // draws, and tells of the one before
	p.c.Pass(10 * time.Minute)
	s.away = func(string) bool { return true }
	p.delivers("no answer", ids[0], wire.DeliverTemporary)
	s.away = nil
	for range 3 {
		p.delivers("the day", ids[0], wire.DeliverDone)
	}
	told := func(q told, value string, day string) {
		t.Helper()
		f := q.form
		if q.path != "/v1/billing/meter_events" || q.key != "usage-"+top.Organization+"-"+day || f.Get("identifier") != q.key || f.Get("event_name") != "signatures" ||
			f.Get("payload[stripe_customer_id]") != "cus_1" || f.Get("payload[value]") != value || f.Get("timestamp") == "" || len(f) != 5 {
			t.Errorf("%+v, want %s", q, value)
		}
	}
	s.mu.Lock()
	asked := s.asked
	s.asked = nil
	s.mu.Unlock()
	if len(asked) != 2 {
		t.Fatalf("%+v", asked)
	}
	told(asked[1], "7", first)
	if asked[0].key != asked[1].key || asked[0].form.Encode() != asked[1].form.Encode() {
		t.Errorf("%+v", asked)
	}
	second := slices.DeleteFunc(p.usages(), func(id wire.SendID) bool { return id == ids[0] })
	p.c.Pass(24 * time.Hour)
	if len(second) != 1 {
		t.Fatalf("%d sends of the next day", len(second))
	}
	p.delivers("the next day", second[0], wire.DeliverDone)
	s.mu.Lock()
	asked = s.asked
	s.mu.Unlock()
	if len(asked) != 1 {
		t.Fatalf("%+v", asked)
	}
	next, err := time.Parse(time.DateOnly, first)
	if err != nil {
		t.Fatal(err)
	}
	told(asked[0], "2", next.Add(24*time.Hour).Format(time.DateOnly)) // its own, and the one of the lease
	if d, err := p.Link.Deliver(t.Context(), wire.SendID{Organization: ids[0].Organization, Seq: ids[0].Seq + 1}); err == nil && d.Found && d.Result == wire.DeliverDone {
		t.Errorf("%+v", d)
	}
}
