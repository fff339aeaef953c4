package core

import (
	"context"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
)

type claim = activity.Claim

// activityReply writes {"activity":…} from an entry, as a member of the
// organization sees it. With an error, such as *org.Missing, it does not tell
// whether he may vote.
func activityReply(e *org.Entry, id org.ID, tx *org.Tx, who org.ID, v *activity.Version, in *activity.Intent) ([]byte, error) {
	view := activity.ActivityView{Users: func(u org.ID) *org.User {
		rec, err := tx.User(u)
		if err != nil {
			return nil
		}
		return rec
	}}
	if in != nil {
		view.Intent = v.AppendIntent(make([]byte, 0, 512), in)
	}
	o, err := tx.Organization()
	if err == nil {
		steps := activity.VotableSteps
		view.CanApprove, view.CanReject, err = kinds.Live.Votable(tx, o, e, who, &steps)
	}
	// Room for all of it at once: body, intent and proofs each stand in it.
	size := 2048 + 3*len(e.Body) + len(e.Result)
	for i := range e.Proofs {
		size += 576 + 9*len(e.Proofs[i].Payload)/8
	}
	out := append(make([]byte, 0, size), `{"activity":`...)
	return append(kinds.Live.AppendActivity(out, e, id, view), '}'), err
}

// render answers with an old entry. The users in it are shown as they are now, so
// the answer waits for what they are now to be stored.
func (v *visit) render(ctx context.Context, id org.ID, e *org.Entry, who *org.User) (a answer, err error) {
	a.status = 200
	err = v.Turn(ctx, id, func(t *ledger.Turn) error {
		a.body, err = activityReply(e, id, org.Begin(id, t.State, v.core.now()), who.ID, nil, nil)
		return err
	})
	return a, err
}
