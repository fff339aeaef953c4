package organization_test

import (
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/fault"
)

func TestUpdateRootQuorum(t *testing.T) {
	w := activitytest.New(t)
	ids := w.People("A", "B")
	w.Now += 1000
	if r := w.Run("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{ids[1], ids[0], w.Root}}); len(r) != 0 {
		t.Error(r)
	}
	o := w.Organization()
	if o.Threshold != 2 || len(o.RootUsers) != 3 || o.RootUsers[0] != activitytest.MustID(ids[1]) || o.RootUsers[2] != w.User || o.UpdatedMs != activitytest.Start+1000 || o.Users != 3 {
		t.Errorf("%+v", o)
	}
	w.Run("UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{ids[0]}})
	if o := w.Organization(); o.Threshold != 1 || len(o.RootUsers) != 1 || o.Root(w.User) {
		t.Errorf("%+v", o)
	}
}

func TestUpdateRootQuorumRefuses(t *testing.T) {
	w := activitytest.New(t)
	ids := w.People("A")
	weak := activitytest.List(w.Run("CREATE_USERS_V4", object{"users": []any{activitytest.User("Weak", activitytest.Expiring("k", w.FreshKey(), "900"))}}), "userIds")[0]
	for _, c := range []struct {
		threshold any
		users     []any
		says      string
	}{
		{0, []any{w.Root}, "quorum threshold must be non-zero integer"},
		{-1, []any{w.Root}, "quorum threshold must be non-zero integer"},
		{nil, []any{w.Root}, "missing field `threshold`"},
		{1.5, []any{w.Root}, "threshold"},
		{1, []any{}, "quorum users missing"},
		{1, nil, "quorum users missing"},
		{2, []any{w.Root}, "threshold exceeds quorum size"},
		{2, []any{w.Root, w.Root}, "named twice"},
		{1, []any{w.NewID().String()}, "quorum users missing"},
		{1, []any{w.Root, w.NewID().String()}, "quorum users missing"},
		{1, []any{"x"}, "userIds"},
		{1, []any{weak}, "quorum users have too few lasting credentials"},
		{2, []any{weak, ids[0]}, "1 of them can log in for good, the threshold is 2"},
	} {
		w.Refuse("UPDATE_ROOT_QUORUM", object{"threshold": c.threshold, "userIds": c.users}, 3, c.says)
	}
	w.Run("UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{weak, ids[0]}})
	// In a sub-organization an address is a way back in; at the top it is not.
	mail := activitytest.RootUser("Mail")
	mail["userEmail"] = "mail@example.org"
	sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, mail, activitytest.RootUser("Key", activitytest.APIKey("k", w.FreshKey()))))["subOrganizationId"])
	root := sub.Organization().RootUsers
	sub.Run("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{root[0].String(), root[1].String()}})
	sub.Refuse("UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{w.Root}}, fault.InvalidArgument, "quorum users missing") // the parent's
}
