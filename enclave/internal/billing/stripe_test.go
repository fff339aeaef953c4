package billing_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret/secrettest"
)

// Questions are requests in the operator's name, each under a key of its activity; nothing in one changes another.
func TestQuestions(t *testing.T) {
	key := secrettest.Of([]byte("rk_1"))
	seen := map[string]bool{}
	for want, q := range map[string]*billing.Question{
		"/v1/customers email=a%26b%40c.org&metadata%5BorganizationId%5D=org&name=A+%26+B": billing.MakeCustomer("org", "a&b@c.org", "A & B", "act"),
		"/v1/payment_methods/pm_1/attach customer=cus_1":                                  billing.Attach("pm_1", "cus_1", "act"),
		"/v1/payment_methods/pm_1/detach ":                                                billing.Detach("pm_1", "act"),
	} {
		r := q.Request("https://api.example", key)
		head := map[string]string{}
		for _, h := range r.Header {
			head[h.Name] = string(h.Value)
		}
		if got := strings.TrimPrefix(r.URL, "https://api.example") + " " + string(r.Body); got != want || r.Method != "POST" {
			t.Errorf("%s %s, want %s", r.Method, got, want)
		}
		if k := head["Idempotency-Key"]; head["Authorization"] != "Bearer rk_1" || head["Stripe-Version"] == "" || !strings.HasSuffix(k, "-act") || seen[k] || seen[q.Text()] {
			t.Errorf("%v", head)
		}
		seen[head["Idempotency-Key"]], seen[q.Text()] = true, true
	}
}

func TestAnswers(t *testing.T) {
	const card = `{"id":"pm_1","customer":"cus_1","card":{"last4":"4242","brand":"visa"},"object":"payment_method"}`
	a, err := billing.Read(200, []byte(card))
	if err != nil {
		t.Fatal(err)
	}
	if four, err := a.LastFour("pm_1", "cus_1"); four != "4242" || err != nil {
		t.Error(four, err)
	}
	for what, of := range map[string][2]string{"another method": {"pm_2", "cus_1"}, "another customer": {"pm_1", "cus_2"}} {
		if _, err := a.LastFour(of[0], of[1]); err == nil {
			t.Error(what)
		}
	}
	for _, bad := range []string{`{"id":"pm_1","customer":"cus_1"}`, `{"id":"pm_1","customer":"cus_1","card":{"last4":"42424"}}`, `{"id":"pm_1","customer":"cus_1","card":{"last4":"<b>1"}}`, `{"id":"pm_1","customer":null,"card":{"last4":"4242"}}`} {
		a, err := billing.Read(200, []byte(bad))
		if err != nil {
			continue
		}
		if _, err := a.LastFour("pm_1", "cus_1"); err == nil {
			t.Error(bad)
		}
	}
	for what, c := range map[string]struct {
		status int
		body   string
		says   string // of a refusal; empty: it may be asked again
	}{
		"declined":             {402, `{"error":{"code":"card_declined","message":"text for people"}}`, "card_declined"},
		"of a type":            {400, `{"error":{"type":"invalid_request_error"}}`, "invalid_request_error"},
		"a code of its own":    {400, `{"error":{"code":"<script>"}}`, "no reason"},
		"not there":            {404, `nothing`, "no reason"},
		"a key that is wrong":  {401, `{"error":{"code":"x"}}`, ""},
		"a key that is in use": {409, `{"error":{"code":"x"}}`, ""},
		"too many":             {429, ``, ""},
		"a trouble":            {500, card, ""},
		"another status":       {201, card, ""},
		"no JSON":              {200, `x`, ""},
		"no id":                {200, `{"customer":"cus_1"}`, ""},
		"an id that is none":   {200, `{"id":"../x"}`, ""},
	} {
		_, err := billing.Read(c.status, []byte(c.body))
		if f := fault.Of(err); err == nil || (f != nil) != (c.says != "") || f != nil && (f.Code != fault.FailedPrecondition || !strings.HasSuffix(f.Message, c.says)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(200, []byte(`{"id":"pm_1","customer":"cus_1","card":{"last4":"4242"}}`))
	f.Add(402, []byte(`{"error":{"code":"card_declined"}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		a, err := billing.Read(status, body)
		if err != nil {
			return
		}
		if four, err := a.LastFour("pm_1", "cus_1"); status != 200 || !billing.IsName(a.ID) || err == nil && (len(four) != 4 || a.ID != "pm_1") {
			t.Errorf("%d %q: %+v", status, body, a)
		}
	})
}
