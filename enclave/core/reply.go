package core

import (
	"context"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
)

type claim = activity.Claim

// activityReply writes {"activity":…} from an entry, as a member of the
// organization sees it.
func (c *Core) activityReply(e *org.Entry, id org.ID, tx *org.Tx, who org.ID, v *activity.Version, in *activity.Intent) []byte {
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
	steps := activity.VotableSteps
	if rec, err := tx.Organization(); err == nil {
		view.CanApprove, view.CanReject, _ = activity.Votable(tx, rec, e, who, &steps)
	}
	// Room for all of it at once: body, intent and proofs each stand in it.
	size := 2048 + 3*len(e.Body) + len(e.Result)
	for i := range e.Proofs {
		size += 512 + 3*len(e.Proofs[i].Payload)/2
	}
	out := append(make([]byte, 0, size), `{"activity":`...)
	return append(activity.AppendActivity(out, e, id, view), '}')
}

// render answers with an old entry. The users in it are shown as they are now, so
// the answer waits for what they are now to be stored.
func (c *Core) render(ctx context.Context, id org.ID, e *org.Entry, who *org.User) (a answer, err error) {
	a.status = 200
	err = c.serve.ledger.Turn(ctx, id, func(t *ledger.Turn) error {
		a.batch = t.Batch()
		tx := org.Begin(id, t.State, c.now())
		o, err := tx.Organization()
		if err != nil {
			return err
		}
		steps := activity.VotableSteps
		if _, _, err := activity.Votable(tx, o, e, who.ID, &steps); err != nil {
			return err // a piece that it needs is brought in first
		}
		a.body = c.activityReply(e, id, tx, who.ID, nil, nil)
		return nil
	})
	return a, err
}
