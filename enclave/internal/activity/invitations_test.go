package activity_test

import (
	"fmt"
	"slices"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func invitation(name, sender string, change ...any) object {
	i := object{"receiverUserName": name, "receiverUserEmail": "guest@example.org", "receiverUserTags": []any{}, "accessType": "ACCESS_TYPE_WEB", "senderUserId": sender}
	for n := 0; n+1 < len(change); n += 2 {
		i[change[n].(string)] = change[n+1]
	}
	return i
}

func invitations(is ...object) object { return object{"invitations": is} }

func invite(w *world, i object) string {
	w.t.Helper()
	return list(w.run("CREATE_INVITATIONS", invitations(i)), "invitationIds")[0]
}

func invitationOf(w *world, text string) *org.Invitation {
	w.t.Helper()
	id, err := org.ParseID(text)
	w.must(err)
	i, err := w.tx().Invitation(id)
	w.must(err)
	return i
}

func accept(w *world, id string) object {
	return object{"invitationId": id, "userId": id, "authenticator": passkeyOf(w, "guest's")}
}

const day = 24 * 60 * 60 * 1000

func TestInvitations(t *testing.T) {
	w := newWorld(t)
	one := w.run("CREATE_USER_TAG", tagSorts[0].create("one"))["userTagId"].(string)
	two := w.run("CREATE_USER_TAG", tagSorts[0].create("two"))["userTagId"].(string)
	ids := list(w.run("CREATE_INVITATIONS", invitations(invitation("Guest", w.root, "receiverUserTags", []any{one, two}), invitation("Second", w.root))), "invitationIds")
	i := invitationOf(w, ids[0])
	if i.UserName != "Guest" || i.Email != "guest@example.org" || len(i.Tags) != 2 || i.AccessType != "ACCESS_TYPE_WEB" || i.Status != "INVITATION_STATUS_CREATED" ||
		i.Sender != w.user || i.CreatedMs != start || mustOrganization(w).Invitations != 2 {
		t.Errorf("%+v", i)
	}
	for _, wrong := range api.Check("Invitation", activity.AppendInvitation(nil, i)) {
		t.Error(wrong)
	}
	// Who comes after a tag was removed does not bear it.
	w.run("DELETE_USER_TAGS", tagSorts[0].remove(one))
	w.now += day - 1
	r := w.run("ACCEPT_INVITATION_V2", accept(w, ids[0]))
	if r["invitationId"] != ids[0] || r["userId"] != ids[0] {
		t.Error(r)
	}
	u := userOf(w, ids[0])
	if u.Name != "Guest" || u.Email != "guest@example.org" || u.EmailVerified || len(u.Tags) != 1 || u.Tags[0].String() != two || len(u.Authenticators) != 1 ||
		u.Authenticators[0].Name != "guest's" || len(u.APIKeys) != 0 || u.CreatedMs != w.now {
		t.Errorf("%+v", u)
	}
	if i := invitationOf(w, ids[0]); i.Status != "INVITATION_STATUS_ACCEPTED" || i.UpdatedMs != w.now || mustOrganization(w).Users != 2 {
		t.Errorf("%+v", i)
	}
	w.refused("ACCEPT_INVITATION_V2", accept(w, ids[0]), 3, "no longer open")
	w.refused("DELETE_INVITATION", object{"invitationId": ids[0]}, 3, "no longer open")
	if r := w.run("DELETE_INVITATION", object{"invitationId": ids[1]}); r["invitationId"] != ids[1] || invitationOf(w, ids[1]).Status != "INVITATION_STATUS_REVOKED" {
		t.Error(r)
	}
	w.refused("ACCEPT_INVITATION_V2", accept(w, ids[1]), 3, "no longer open")
	w.refused("DELETE_INVITATION", object{"invitationId": ids[1]}, 3, "no longer open")
	// Version 1 brings the passkey as browsers first gave it.
	third := invite(w, invitation("Third", w.root))
	p := passkeyOf(w, "x")
	att := p["attestation"].(object)
	old := object{"authenticatorName": "old", "userId": third, "challenge": p["challenge"], "attestation": object{
		"id": att["credentialId"], "type": "public-key", "rawId": att["credentialId"], "clientExtensionResults": object{},
		"response": object{"clientDataJson": att["clientDataJson"], "attestationObject": att["attestationObject"]}}}
	w.run("ACCEPT_INVITATION", object{"invitationId": third, "userId": third, "authenticator": old})
	if u := userOf(w, third); u.Name != "Third" || len(u.Authenticators) != 1 || u.Authenticators[0].Name != "old" {
		t.Errorf("%+v", u)
	}
}

func TestInvitationsAreRefused(t *testing.T) {
	w := newWorld(t)
	nobody := w.newID().String()
	tag := w.run("CREATE_USER_TAG", tagSorts[0].create("tag"))["userTagId"].(string)
	keyTag := w.run("CREATE_PRIVATE_KEY_TAG", tagSorts[1].create("tag"))["privateKeyTagId"].(string)
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{invitations(), 3, "missing field `invitations`"},
		{invitations(invitation("Root", w.root)), 3, "user label must be unique"},
		{invitations(invitation("", w.root)), 3, "missing field"},
		{invitations(invitation(" x", w.root)), 3, "receiverUserName"},
		{invitations(invitation("Guest", nobody)), 5, "user not found: " + nobody},
		{invitations(invitation("Guest", "root")), 3, "UUID"},
		{invitations(invitation("Guest", w.root, "receiverUserEmail", "")), 3, "missing field"},
		{invitations(invitation("Guest", w.root, "receiverUserEmail", "guest@")), 3, "invalid email address"},
		{invitations(invitation("Guest", w.root, "receiverUserTags", []any{nobody})), 5, "user tag not found: " + nobody},
		{invitations(invitation("Guest", w.root, "receiverUserTags", []any{keyTag})), 5, "user tag not found: " + keyTag},
		{invitations(invitation("Guest", w.root, "receiverUserTags", []any{tag, tag})), 3, "named twice"},
		{invitations(invitation("Guest", w.root, "accessType", "WEB")), 3, "accessType"},
		{invitations(invitation("Guest", w.root), invitation("Other", nobody)), 5, "user not found"},
	} {
		w.refused("CREATE_INVITATIONS", c.params, c.code, c.says)
	}
	_, err := w.try("CREATE_INVITATIONS", invitations(invitation("Guest", w.root, "receiverUserEmail", "guest@")))
	if e := fault.Of(err); e == nil || e.Name != "INVALID_EMAIL" {
		t.Errorf("%+v", err)
	}

	id := invite(w, invitation("Guest", w.root))
	with := func(k string, v any) object {
		in := accept(w, id)
		in[k] = v
		return in
	}
	spoiled := passkeyOf(w, "p")
	spoiled["challenge"] = "b3RoZXI"
	missing := accept(w, nobody)
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{missing, 5, "invitation not found: " + nobody},
		{with("userId", w.root), 3, "must be the id of the invitation"},
		{with("userId", nobody), 3, "must be the id of the invitation"},
		{with("authenticator", sample("AuthenticatorParamsV2")), 3, "invalid attestation"},
		{with("authenticator", spoiled), 3, "challenge does not match"},
		{with("authenticator", nil), 3, "missing field `authenticator`"},
	} {
		w.refused("ACCEPT_INVITATION_V2", c.params, c.code, c.says)
	}
	old := sample("AuthenticatorParams")
	old["userId"] = nobody
	w.refused("ACCEPT_INVITATION", object{"invitationId": id, "userId": id, "authenticator": old}, 3, "must be the user that userId names")
	w.refused("DELETE_INVITATION", object{"invitationId": nobody}, 5, "invitation not found: "+nobody)
	w.refused("DELETE_INVITATION", object{"invitationId": w.root}, 5, "invitation not found: "+w.root)
	// Somebody took the name in the meantime.
	guest := newUser(w, user("Guest", apiKey("g", w.freshKey())))
	w.refused("ACCEPT_INVITATION_V2", accept(w, id), 3, "user label must be unique")
	w.run("UPDATE_USER_NAME", object{"userId": guest, "userName": "Host"})
	w.now += day
	w.refused("ACCEPT_INVITATION_V2", accept(w, id), 3, "invitation has expired")
	w.run("DELETE_INVITATION", object{"invitationId": id})
}

func TestInvitationLimits(t *testing.T) {
	w := newWorld(t)
	many := func(n int, name string) object {
		is := make([]object, n)
		for i := range is {
			is[i] = invitation(fmt.Sprint(name, i), w.root)
		}
		return invitations(is...)
	}
	w.refused("CREATE_INVITATIONS", many(101, "x"), 8, "at most 100 invitations")
	first := list(w.run("CREATE_INVITATIONS", many(3, "first")), "invitationIds")
	w.now += 1000
	rest := list(w.run("CREATE_INVITATIONS", many(97, "rest")), "invitationIds")
	w.refused("CREATE_INVITATIONS", many(1, "x"), 8, "at most 100 invitations")
	// Those that have ended make room, the oldest first; the others stay.
	w.run("DELETE_INVITATION", object{"invitationId": first[1]})
	w.run("DELETE_INVITATION", object{"invitationId": rest[5]})
	w.refused("CREATE_INVITATIONS", many(3, "x"), 8, "at most 100 invitations")
	w.run("CREATE_INVITATIONS", many(1, "one more"))
	if invitationOf(w, first[1]) != nil || invitationOf(w, rest[5]) == nil || invitationOf(w, first[0]) == nil || mustOrganization(w).Invitations != 100 {
		t.Error("not the oldest made room")
	}
	w.now = start + day // the first have expired
	w.refused("CREATE_INVITATIONS", many(4, "x"), 8, "at most 100 invitations")
	w.run("CREATE_INVITATIONS", many(3, "more"))
	gone := func(ids ...string) (n int) {
		for _, id := range ids {
			if invitationOf(w, id) == nil {
				n++
			}
		}
		return n
	}
	if gone(first...) != 3 || gone(rest...) != 1 || mustOrganization(w).Invitations != 100 {
		t.Errorf("%d and %d are gone", gone(first...), gone(rest...))
	}
	// A full organization takes nobody in.
	open := rest[slices.IndexFunc(rest, func(id string) bool { return invitationOf(w, id) != nil })]
	us := make([]any, 99)
	for i := range us {
		us[i] = user(fmt.Sprint("user ", i), apiKey("k", w.freshKey()))
	}
	w.run("CREATE_USERS_V4", object{"users": us})
	w.refused("ACCEPT_INVITATION_V2", accept(w, open), 8, "at most 100 users")
}
