package billing

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// StripeAPI is where Stripe is asked; a simulator may ask elsewhere.
const StripeAPI = "https://api.stripe.com"

// stripeVersion fixes what answers look like, whatever the operator's account says.
const stripeVersion = "2024-06-20"

// A Question is what the processor is asked. Asked again under its key it does nothing more, for a day or longer.
type Question struct {
	path string
	form url.Values
	key  string
}

// Request makes it one HTTP request to what begins with base, in the name of who has the secret.
func (q *Question) Request(base string, key secret.Secret) *login.Request {
	r := &login.Request{Method: "POST", URL: base + q.path, Body: []byte(q.form.Encode())}
	key.Use(func(b []byte) {
		r.Header = append(r.Header, login.HeaderField{Name: "Authorization", Value: append([]byte("Bearer "), b...)})
	})
	for _, h := range [][2]string{{"Content-Type", "application/x-www-form-urlencoded"}, {"Idempotency-Key", q.key}, {"Stripe-Version", stripeVersion}} {
		r.Header = append(r.Header, login.HeaderField{Name: h[0], Value: []byte(h[1])})
	}
	return r
}

// Text tells questions apart.
func (q *Question) Text() string { return q.path + " " + q.key + " " + q.form.Encode() }

// MakeCustomer makes an organization known to the processor, for an activity, as are those below.
func MakeCustomer(organization, email, name, activity string) *Question {
	return &Question{"/v1/customers", url.Values{"email": {email}, "name": {name}, "metadata[organizationId]": {organization}}, "customer-" + activity}
}

// UpdateCustomer changes the address to which a customer's invoices go.
func UpdateCustomer(customer, email, activity string) *Question {
	return &Question{"/v1/customers/" + customer, url.Values{"email": {email}}, "email-" + activity}
}

// Attach makes a payment method the customer's. The processor refuses one that is another's.
func Attach(method, customer, activity string) *Question {
	return &Question{"/v1/payment_methods/" + method + "/attach", url.Values{"customer": {customer}}, "attach-" + activity}
}

// Detach takes a payment method from its customer.
func Detach(method, activity string) *Question {
	return &Question{"/v1/payment_methods/" + method + "/detach", url.Values{}, "detach-" + activity}
}

// meterEvent tells how many signatures an organization has made on a day. Its identifier is of both, so that it counts once.
func meterEvent(meter, customer, organization string, day uint32, signatures uint64) *Question {
	last := time.UnixMilli((int64(day)+1)*dayMs - 1).UTC()
	name := "usage-" + organization + "-" + last.Format(time.DateOnly)
	return &Question{"/v1/billing/meter_events", url.Values{"event_name": {meter}, "identifier": {name}, "timestamp": {strconv.FormatInt(last.Unix(), 10)},
		"payload[stripe_customer_id]": {customer}, "payload[value]": {strconv.FormatUint(signatures, 10)}}, name}
}

// maxName bounds the processor's names of things.
const maxName = 256

// IsName tells whether text can be the processor's name of something. It stands in paths.
func IsName(text string) bool {
	return text != "" && len(text) <= maxName && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_'
	})
}

// An Answer is what the processor said.
type Answer struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Card     *struct {
		Last4 string `json:"last4"`
	} `json:"card"`
}

// answerLimits bound what an answer's JSON can blow up to.
var answerLimits = strictjson.Limits{Depth: 31, Items: 1000, Members: 1000, Values: 20_000}

// ErrAnswer is of an answer that makes no sense, or of a processor that has a trouble of its own.
var ErrAnswer = errors.New("its answer is not what it should be")

// Read reads an answer. A *fault.Error is the processor's refusal, with its code; any other means that it may be asked again.
func Read(status int, body []byte) (*Answer, error) {
	if status == 400 || status == 402 || status == 404 {
		var refusal struct {
			Error struct {
				Code string `json:"code"`
				Type string `json:"type"`
			} `json:"error"`
		}
		why := "no reason"
		if strictjson.Decode(body, &refusal, strictjson.AllowUnknown(), strictjson.Within(answerLimits)) == nil {
			for _, text := range []string{refusal.Error.Type, refusal.Error.Code} {
				if IsName(text) {
					why = text
				}
			}
		}
		return nil, fault.New(fault.FailedPrecondition, "the payment processor refuses the payment method: %s", why)
	}
	a := new(Answer)
	if status != 200 || strictjson.Decode(body, a, strictjson.AllowUnknown(), strictjson.Within(answerLimits)) != nil || !IsName(a.ID) {
		return nil, ErrAnswer
	}
	return a, nil
}

// LastFour are the card's last digits, if the answer is of one that is this customer's now.
func (a *Answer) LastFour(method, customer string) (string, error) {
	if a.ID != method || a.Customer != customer || a.Card == nil || len(a.Card.Last4) != 4 || strings.ContainsFunc(a.Card.Last4, func(c rune) bool { return c < '0' || c > '9' }) {
		return "", ErrAnswer
	}
	return a.Card.Last4, nil
}
