package egress

import (
	"context"
	"strconv"
	"time"

	"cloister/shared/wire"
)

// Deliverer has the enclave deliver what the host must not see.
type Deliverer interface {
	Deliver(context.Context, wire.SendID) (*wire.Delivered, error)
}

// Times of a delivery.
const (
	firstDelivery = time.Second // pause behind the first failure; it doubles
	longDelivery  = 5 * time.Minute
)

// Names under which the servers of the enclave's configuration share the sender's
// places with the nodes of chains, and are left alone for a while when they are away.
var servers = map[wire.SendKind]string{wire.SendMail: "mail", wire.SendText: "text"}

// deliver has the enclave hand a mail or a text message to its server.
func (a *attempt) deliver(ctx context.Context) {
	server := servers[a.send.Kind]
	why, ok := a.sender.enter(server)
	if !ok {
		a.send.Tries-- // nobody was asked
		if why != "" {
			a.send.Text = clean(why)
		}
		a.dueIn(poll)
		return
	}
	a.at = server
	d, err := a.sender.options.Enclave.Deliver(ctx, a.send.ID)
	switch {
	case err != nil:
		a.retryDelivery("the enclave did not answer: " + err.Error())
	case !d.Found && a.send.Tries >= lostTries:
		a.end(wire.SendRefused, "the enclave knows of no such send")
	case !d.Found:
		a.retryLater("the enclave knows of no such send")
	case d.Expired:
		a.end(wire.SendExpired, "it could not be delivered in time")
	case d.Result == wire.DeliverDone:
		a.end(wire.SendIncluded, "")
	case d.Result == wire.DeliverByHost:
		a.handIn(ctx, d.Mail)
	case d.Result == wire.DeliverPermanent:
		a.end(wire.SendRefused, outcomeText(d))
	default:
		if d.Code == 0 { // nothing answered: others need not wait for it too
			a.sender.rest(server, outcomeText(d))
		}
		a.retryDelivery(outcomeText(d))
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
		if code == 0 {
			a.sender.rest(a.at, err.Error())
		}
		a.retryDelivery(withCode(err.Error(), code))
	}
}

// retryDelivery tries again after a pause that grows with each attempt.
func (a *attempt) retryDelivery(why string) {
	a.send.Text = clean(why)
	a.dueIn(min(longDelivery, firstDelivery<<min(max(a.send.Tries, 1)-1, 16)))
}

// outcomeText is what came of a delivery in words.
func outcomeText(d *wire.Delivered) string { return withCode(d.Text, int(d.Code)) }

func withCode(text string, code int) string {
	if code == 0 {
		return text
	}
	return text + " (code " + strconv.Itoa(code) + ")"
}
