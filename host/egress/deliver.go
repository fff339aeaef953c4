package egress

import (
	"context"
	"strconv"
	"time"

	"cloister/shared/wire"
)

// Deliverer lets the enclave deliver what the host must not see.
type Deliverer interface {
	Deliver(context.Context, wire.SendID) (*wire.Delivered, error)
}

// Times of a delivery.
const (
	firstDelivery = time.Second // pause after the first failure; it doubles
	longDelivery  = 5 * time.Minute
)

// servers are the enclave's own, of mails, texts and payments, among the sender's nodes.
var servers = map[wire.SendKind]string{wire.SendMail: "mail", wire.SendText: "text", wire.SendUsage: "payments"}

// deliver lets the enclave hand a message to its server.
func (a *attempt) deliver(ctx context.Context) {
	d, err := a.sender.options.Enclave.Deliver(ctx, a.send.ID)
	switch {
	case err != nil:
		a.retryDelivery("the enclave did not answer: " + err.Error())
	case !d.Found:
		a.lost()
	case d.Expired:
		a.end(wire.SendExpired, "it could not be delivered in time")
	case d.Result == wire.DeliverDone:
		a.end(wire.SendIncluded, "")
	case d.Result == wire.DeliverByHost:
		a.handIn(ctx, d.Mail)
	case d.Result == wire.DeliverPermanent:
		a.end(wire.SendRefused, outcomeText(d))
	default:
		a.retryServer(int(d.Code), outcomeText(d))
	}
}

// handIn hands in a mail that the enclave's configuration leaves to this host.
func (a *attempt) handIn(ctx context.Context, m *wire.Mail) {
	mailer := a.sender.options.Mailer
	if mailer == nil || m == nil {
		a.retryDelivery("the enclave leaves its mails to this host, which has no mail server: see -smtp")
		return
	}
	code, final, err := mailer.Submit(ctx, m)
	switch {
	case err == nil:
		a.end(wire.SendIncluded, "")
	case final:
		a.end(wire.SendRefused, withCode(err.Error(), code))
	default:
		a.retryServer(code, withCode(err.Error(), code))
	}
}

// retryServer tries again after a server failed with a code, 0 if it did not answer: then other
// attempts need not wait for it too.
func (a *attempt) retryServer(code int, why string) {
	if code == 0 {
		a.sender.rest(a.at, why)
	}
	a.retryDelivery(why)
}

// retryDelivery tries again after a pause that grows with each attempt.
func (a *attempt) retryDelivery(why string) {
	a.send.Text = clean(why)
	a.dueIn(min(longDelivery, firstDelivery<<min(max(a.send.Tries, 1)-1, 16)))
}

// outcomeText says in words how a delivery ended.
func outcomeText(d *wire.Delivered) string { return withCode(d.Text, int(d.Code)) }

func withCode(text string, code int) string {
	if code == 0 {
		return text
	}
	return text + " (code " + strconv.Itoa(code) + ")"
}
