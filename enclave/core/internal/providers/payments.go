package providers

import (
	"context"
	"errors"

	"cloister/enclave/core/internal/tenant"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/netclient"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/settings"
)

// maxPaymentAsks is how many questions a payment processor is asked at a time, divided among tenants.
const maxPaymentAsks = 32

// Payments asks the payment processor, for requests that have authenticated.
type Payments struct {
	client    *netclient.Client
	processor *settings.Payments // nil: the operator has set up none
	asks      *tenant.Portion[org.ID]
}

// paid is what came of a question, within one request.
type paid struct {
	answer *billing.Answer
	err    error
}

// Pay returns the processor's answer to a question, or an *org.Retry that asks it. Whatever an activity asks it can be
// asked again: the processor does it once.
func (x ofActivity) Pay(q *billing.Question) (*billing.Answer, error) {
	o := x.services.Payments
	if o.processor == nil {
		return nil, activity.ErrNoProcessor
	}
	if p := x.paid[q.Text()]; p != nil {
		return p.answer, p.err
	}
	return nil, x.fetch(func(ctx context.Context) error {
		if !o.asks.Take(x.Tenant, 1) {
			return errPayment("too much is being asked")
		}
		defer o.asks.Add(x.Tenant, -1)
		p := new(paid)
		status, body, err := send(ctx, o.client, "the payment processor", q.Request(o.processor.Base, o.processor.Key))
		if f := fault.Of(err); f != nil {
			p.err = f.WithName(rpcError)
		} else if p.answer, err = billing.Read(status, body); errors.Is(err, billing.ErrAnswer) {
			p.err = errPayment(err.Error())
		} else {
			p.err = err
		}
		if x.paid == nil {
			x.paid = map[string]*paid{}
		}
		x.paid[q.Text()] = p
		return nil
	})
}

// SendUsage tells the processor of a usage. It counts once, however often it is told.
func (o *Payments) SendUsage(ctx context.Context, q *billing.Question) netclient.Outcome {
	status, _, err := send(ctx, o.client, "the payment processor", q.Request(o.processor.Base, o.processor.Key))
	switch {
	case err != nil:
		return netclient.Outcome{Result: netclient.Temporary, Err: err}
	case status == 200:
		return netclient.Outcome{Result: netclient.Delivered}
	}
	came := netclient.Outcome{Result: netclient.Temporary, Code: status, Err: errors.New("the payment processor refuses the usage")}
	if status == 400 || status == 404 {
		came.Result = netclient.Permanent
	}
	return came
}

func errPayment(why string) error {
	return fault.WithCode(fault.Unavailable, rpcError, "the payment processor could not be asked: %s; try again", why)
}
