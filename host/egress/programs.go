package egress

import (
	"context"
	"time"

	"cloister/shared/wire"
)

// Programs runs customers' programs, as the enclave says.
type Programs interface {
	// Tell does what the enclave says of a deployment; the same again changes nothing. It tells whether the deployment runs on.
	Tell(context.Context, *wire.Program) (runs bool, err error)
}

// again is how often the enclave is asked anew about a deployment that runs.
const again = 15 * time.Second

// tellPrograms passes on what the enclave says of a deployment. The send of one that runs does not end: it is opened again from time
// to time, and so by a host that begins anew.
func (a *attempt) tellPrograms(ctx context.Context) {
	o, err := a.sender.options.Enclave.OpenSend(ctx, a.send.ID)
	switch {
	case err != nil:
		a.retryLater("the enclave did not open it: " + err.Error())
	case !o.Found:
		a.lost()
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
