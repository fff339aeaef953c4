package organization

import (
	"fmt"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// RootQuorum are the kinds that only the root quorum may submit: to replace it, and to export the organization's
// history.
var RootQuorum = activity.Family{
	activity.Kind[activity.Nothing, activity.Nothing]{Name: "EXPORT_HISTORY", RootQuorum: true, Run: exportHistory,
		Explain: func(_ *org.Tx, _ *activity.Nothing, o *show.Object) error {
			explainHistory(o)
			return nil
		}},
	activity.Kind[UpdateRootQuorum, activity.Nothing]{Name: "UPDATE_ROOT_QUORUM", RootQuorum: true, Run: updateRootQuorum, Explain: func(tx *org.Tx, in *UpdateRootQuorum, o *show.Object) error { return in.explain(tx, o) }},
}

// exportHistory does nothing: once it is allowed, its initiator may query get_history.
func exportHistory(_ *activity.Tx, in *activity.Nothing) (*activity.Nothing, error) { return in, nil }

// UpdateRootQuorum replaces the members and the threshold of the root quorum.
type UpdateRootQuorum struct {
	Threshold int32    `json:"threshold" rule:"required"`
	UserIDs   []string `json:"userIds" rule:"dive,uuid"`
}

func (in *UpdateRootQuorum) Check() error {
	switch {
	case in.Threshold < 1:
		return fault.Field("threshold", "quorum threshold must be non-zero integer")
	case len(in.UserIDs) == 0:
		return fault.Field("userIds", "quorum users missing")
	case int(in.Threshold) > len(in.UserIDs):
		return fault.Field("threshold", "threshold exceeds quorum size")
	}
	return activity.CheckDistinct("userIds", in.UserIDs)
}

func updateRootQuorum(tx *activity.Tx, in *UpdateRootQuorum) (*activity.Nothing, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	o := *old
	o.RootUsers, o.Threshold, o.UpdatedMs = make([]org.ID, len(in.UserIDs)), uint32(in.Threshold), tx.NowMs
	var able uint32
	for i, text := range in.UserIDs {
		id, _ := org.ParseID(text) // its rule requires a UUID
		u, err := tx.Tx.User(id)
		if err != nil {
			return nil, err
		}
		if u == nil {
			return nil, fault.Field(fmt.Sprintf("userIds.%d", i), "quorum users missing: %s", text)
		}
		o.RootUsers[i] = id
		if user.LoginMeans(u, &o, tx.NowMs) == user.MeansForGood {
			able++
		}
	}
	// A quorum that cannot reach its threshold could not be replaced either.
	if able < o.Threshold {
		return nil, fault.Field("userIds", "quorum users have too few lasting credentials: %d of them can log in for good, the threshold is %d", able, o.Threshold)
	}
	return &activity.Nothing{}, tx.PutOrganization(&o)
}
