package egress

import (
	"context"
	"time"

	"cloister/shared/wire"
)

// Programs runs customers' programs as the enclave orders.
type Programs interface {
	// Tell carries out an order about a deployment; it is idempotent. runs reports whether the deployment keeps running.
	Tell(context.Context, *wire.Program) (runs bool, err error)
}

// again is the interval at which the send of a running deployment is opened again.
const again = 15 * time.Second

// tellPrograms passes an order about a deployment to Options.Programs. The send of a running deployment does not end: it is opened
// again at that interval, and so a restarted host gets it too.
func (a *attempt) tellPrograms(ctx context.Context) {
	o, err := a.sender.options.Enclave.OpenSend(ctx, a.send.ID)
	switch {
	case err != nil:
		a.retryLater("the enclave did not open it: " + err.Error())
	case !o.Found:
		a.handleLost()
	case o.Expired:
		a.end(wire.SendExpired, "it could not be brought in time")
	case o.Program == nil:
		a.retryLater("a send of a kind that this host does not know")
	case a.sender.options.Programs == nil:
		a.retryDelivery("this host runs no programs: see -programs")
	default:
		runs, err := a.sender.options.Programs.Tell(ctx, o.Program)
		switch {
		case err != nil:
			a.retryDelivery(err.Error())
		case runs && !o.Program.Once:
			a.send.State, a.send.Text, a.send.Tries = wire.SendAccepted, "", 0
			a.dueIn(again)
		default:
			a.end(wire.SendIncluded, "")
		}
	}
}
