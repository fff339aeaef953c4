package egress

import (
	"context"
	"strconv"
	"time"

	"cloister/shared/wire"
)

// Deliverer has the enclave deliver messages whose content the host must not see.
type Deliverer interface {
	Deliver(context.Context, wire.SendID) (*wire.Delivered, error)
}

// Pauses between attempts at a delivery.
const (
	firstDelivery = time.Second // pause after the first failure; it doubles
	longDelivery  = 5 * time.Minute
)

// servers names the enclave's servers for mails, text messages and payments; the sender limits attempts at them as at nodes.
var servers = map[wire.SendKind]string{wire.SendMail: "mail", wire.SendText: "text", wire.SendUsage: "payments"}

// deliver has the enclave hand a message to its server.
func (a *attempt) deliver(ctx context.Context) {
	d, err := a.sender.options.Enclave.Deliver(ctx, a.send.ID)
	switch {
	case err != nil:
		a.retryDelivery("the enclave did not answer: " + err.Error())
	case !d.Found:
		a.handleLost()
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

// handIn submits a mail that the enclave's configuration leaves to the host.
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

// retryServer schedules another attempt after a server failed with a code. With code 0 the server did
// not answer: then other attempts at it are paused too.
func (a *attempt) retryServer(code int, why string) {
	if code == 0 {
		a.sender.pauseNode(a.at, why)
	}
	a.retryDelivery(why)
}

// retryDelivery schedules another attempt, after a pause that doubles with each.
func (a *attempt) retryDelivery(why string) {
	a.send.Text = clean(why)
	a.dueIn(min(longDelivery, firstDelivery<<min(max(a.send.Tries, 1)-1, 16)))
}

// outcomeText is the text of a delivery's result, with its code.
func outcomeText(d *wire.Delivered) string { return withCode(d.Text, int(d.Code)) }

func withCode(text string, code int) string {
	if code == 0 {
		return text
	}
	return text + " (code " + strconv.Itoa(code) + ")"
}
