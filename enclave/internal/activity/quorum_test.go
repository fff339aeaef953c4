package activity_test

import (
	"testing"

	"cloister/enclave/internal/fault"
)

// people makes users with lasting keys and answers their ids.
func (w *world) people(names ...string) []string {
	w.t.Helper()
	var us []any
	for _, n := range names {
		us = append(us, user(n, apiKey("key", w.freshKey())))
	}
	return list(w.run("CREATE_USERS_V4", object{"users": us}), "userIds")
}

func TestUpdateRootQuorum(t *testing.T) {
	w := newWorld(t)
	ids := w.people("A", "B")
	w.now += 1000
	if r := w.run("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{ids[1], ids[0], w.root}}); len(r) != 0 {
		t.Error(r)
	}
	o := mustOrganization(w)
	if o.Threshold != 2 || len(o.RootUsers) != 3 || o.RootUsers[0] != mustID(ids[1]) || o.RootUsers[2] != w.user || o.UpdatedMs != start+1000 || o.Users != 3 {
		t.Errorf("%+v", o)
	}
	w.run("UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{ids[0]}})
	if o := mustOrganization(w); o.Threshold != 1 || len(o.RootUsers) != 1 || o.Root(w.user) {
		t.Errorf("%+v", o)
	}
}

func TestUpdateRootQuorumRefuses(t *testing.T) {
	w := newWorld(t)
	ids := w.people("A")
	weak := list(w.run("CREATE_USERS_V4", object{"users": []any{user("Weak", expiring("k", w.freshKey(), "900"))}}), "userIds")[0]
	for _, c := range []struct {
		threshold any
		users     []any
		says      string
	}{
		{0, []any{w.root}, "quorum threshold must be non-zero integer"},
		{-1, []any{w.root}, "quorum threshold must be non-zero integer"},
		{nil, []any{w.root}, "missing field `threshold`"},
		{1.5, []any{w.root}, "threshold"},
		{1, []any{}, "quorum users missing"},
		{1, nil, "quorum users missing"},
		{2, []any{w.root}, "threshold exceeds quorum size"},
		{2, []any{w.root, w.root}, "named twice"},
		{1, []any{w.newID().String()}, "quorum users missing"},
		{1, []any{w.root, w.newID().String()}, "quorum users missing"},
		{1, []any{"x"}, "userIds"},
		{1, []any{weak}, "quorum users have too few lasting credentials"},
		{2, []any{weak, ids[0]}, "1 of them can log in for good, the threshold is 2"},
	} {
		w.refused("UPDATE_ROOT_QUORUM", object{"threshold": c.threshold, "userIds": c.users}, 3, c.says)
	}
	w.run("UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{weak, ids[0]}})
	// In a sub-organization an address is a way back in; at the top it is not.
	mail := rootUser("Mail")
	mail["userEmail"] = "mail@example.org"
	sub := w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization("Sub", 1, mail, rootUser("Key", apiKey("k", w.freshKey()))))["subOrganizationId"])
	root := mustOrganization(sub).RootUsers
	sub.run("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": []any{root[0].String(), root[1].String()}})
	sub.refused("UPDATE_ROOT_QUORUM", object{"threshold": 1, "userIds": []any{w.root}}, fault.InvalidArgument, "quorum users missing") // the parent's
}
