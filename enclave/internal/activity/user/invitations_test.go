package user_test

import (
	"fmt"
	"slices"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func invite(w *world, i object) string {
	w.TB.Helper()
	return activitytest.List(w.Run("CREATE_INVITATIONS", activitytest.Invitations(i)), "invitationIds")[0]
}

func invitationOf(w *world, text string) *org.Invitation {
	w.TB.Helper()
	id, err := org.ParseID(text)
	w.Must(err)
	i, err := w.Tx().Invitation(id)
	w.Must(err)
	return i
}

func accept(w *world, id string) object {
	return object{"invitationId": id, "userId": id, "authenticator": activitytest.PasskeyOf(w, "guest's")}
}

const day = 24 * 60 * 60 * 1000

func TestInvitations(t *testing.T) {
	w := activitytest.New(t)
	one := w.Run("CREATE_USER_TAG", object{"userTagName": "one", "userIds": []string{}})["userTagId"].(string)
	two := w.Run("CREATE_USER_TAG", object{"userTagName": "two", "userIds": []string{}})["userTagId"].(string)
	ids := activitytest.List(w.Run("CREATE_INVITATIONS", activitytest.Invitations(activitytest.Invitation("Guest", w.Root, "receiverUserTags", []any{one, two}), activitytest.Invitation("Second", w.Root))), "invitationIds")
	i := invitationOf(w, ids[0])
	if i.UserName != "Guest" || i.Email != "guest@example.org" || len(i.Tags) != 2 || i.AccessType != "ACCESS_TYPE_WEB" || i.Status != "INVITATION_STATUS_CREATED" ||
		i.Sender != w.User || i.CreatedMs != activitytest.Start || w.Organization().Invitations != 2 {
		t.Errorf("%+v", i)
	}
	for _, wrong := range activitytest.API.Check("Invitation", activity.AppendInvitation(nil, i)) {
		t.Error(wrong)
	}
	// Who comes after a tag was removed does not bear it.
	w.Run("DELETE_USER_TAGS", object{"userTagIds": []string{one}})
	w.Now += day - 1
	r := w.Run("ACCEPT_INVITATION_V2", accept(w, ids[0]))
	if r["invitationId"] != ids[0] || r["userId"] != ids[0] {
		t.Error(r)
	}
	u := w.UserOf(ids[0])
	if u.Name != "Guest" || u.Email != "guest@example.org" || u.EmailVerified || len(u.Tags) != 1 || u.Tags[0].String() != two || len(u.Authenticators) != 1 ||
		u.Authenticators[0].Name != "guest's" || len(u.APIKeys) != 0 || u.CreatedMs != w.Now {
		t.Errorf("%+v", u)
	}
	if i := invitationOf(w, ids[0]); i.Status != "INVITATION_STATUS_ACCEPTED" || i.UpdatedMs != w.Now || w.Organization().Users != 2 {
		t.Errorf("%+v", i)
	}
	w.Refuse("ACCEPT_INVITATION_V2", accept(w, ids[0]), 3, "no longer open")
	w.Refuse("DELETE_INVITATION", object{"invitationId": ids[0]}, 3, "no longer open")
	if r := w.Run("DELETE_INVITATION", object{"invitationId": ids[1]}); r["invitationId"] != ids[1] || invitationOf(w, ids[1]).Status != "INVITATION_STATUS_REVOKED" {
		t.Error(r)
	}
	w.Refuse("ACCEPT_INVITATION_V2", accept(w, ids[1]), 3, "no longer open")
	w.Refuse("DELETE_INVITATION", object{"invitationId": ids[1]}, 3, "no longer open")
	// Version 1 brings the passkey as browsers first gave it.
	third := invite(w, activitytest.Invitation("Third", w.Root))
	p := activitytest.PasskeyOf(w, "x")
	att := p["attestation"].(object)
	old := object{"authenticatorName": "old", "userId": third, "challenge": p["challenge"], "attestation": object{
		"id": att["credentialId"], "type": "public-key", "rawId": att["credentialId"], "clientExtensionResults": object{},
		"response": object{"clientDataJson": att["clientDataJson"], "attestationObject": att["attestationObject"]}}}
	w.Run("ACCEPT_INVITATION", object{"invitationId": third, "userId": third, "authenticator": old})
	if u := w.UserOf(third); u.Name != "Third" || len(u.Authenticators) != 1 || u.Authenticators[0].Name != "old" {
		t.Errorf("%+v", u)
	}
}

func TestInvitationsAreRefused(t *testing.T) {
	w := activitytest.New(t)
	nobody := w.NewID().String()
	tag := w.Run("CREATE_USER_TAG", object{"userTagName": "tag", "userIds": []string{}})["userTagId"].(string)
	keyTag := w.Run("CREATE_PRIVATE_KEY_TAG", object{"privateKeyTagName": "tag", "privateKeyIds": []string{}})["privateKeyTagId"].(string)
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{activitytest.Invitations(), 3, "missing field `invitations`"},
		{activitytest.Invitations(activitytest.Invitation("Root", w.Root)), 3, "user label must be unique"},
		{activitytest.Invitations(activitytest.Invitation("", w.Root)), 3, "missing field"},
		{activitytest.Invitations(activitytest.Invitation(" x", w.Root)), 3, "receiverUserName"},
		{activitytest.Invitations(activitytest.Invitation("Guest", nobody)), 5, "user not found: " + nobody},
		{activitytest.Invitations(activitytest.Invitation("Guest", "root")), 3, "UUID"},
		{activitytest.Invitations(activitytest.Invitation("Guest", w.Root, "receiverUserEmail", "")), 3, "missing field"},
		{activitytest.Invitations(activitytest.Invitation("Guest", w.Root, "receiverUserEmail", "guest@")), 3, "invalid email address"},
		{activitytest.Invitations(activitytest.Invitation("Guest", w.Root, "receiverUserTags", []any{nobody})), 5, "user tag not found: " + nobody},
		{activitytest.Invitations(activitytest.Invitation("Guest", w.Root, "receiverUserTags", []any{keyTag})), 5, "user tag not found: " + keyTag},
		{activitytest.Invitations(activitytest.Invitation("Guest", w.Root, "receiverUserTags", []any{tag, tag})), 3, "named twice"},
		{activitytest.Invitations(activitytest.Invitation("Guest", w.Root, "accessType", "WEB")), 3, "accessType"},
		{activitytest.Invitations(activitytest.Invitation("Guest", w.Root), activitytest.Invitation("Other", nobody)), 5, "user not found"},
	} {
		w.Refuse("CREATE_INVITATIONS", c.params, c.code, c.says)
	}
	_, err := w.Try("CREATE_INVITATIONS", activitytest.Invitations(activitytest.Invitation("Guest", w.Root, "receiverUserEmail", "guest@")))
	if e := fault.Of(err); e == nil || e.Name != "INVALID_EMAIL" {
		t.Errorf("%+v", err)
	}

	id := invite(w, activitytest.Invitation("Guest", w.Root))
	with := func(k string, v any) object {
		in := accept(w, id)
		in[k] = v
		return in
	}
	spoiled := activitytest.PasskeyOf(w, "p")
	spoiled["challenge"] = "b3RoZXI"
	missing := accept(w, nobody)
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{missing, 5, "invitation not found: " + nobody},
		{with("userId", w.Root), 3, "must be the id of the invitation"},
		{with("userId", nobody), 3, "must be the id of the invitation"},
		{with("authenticator", activitytest.Sample("AuthenticatorParamsV2")), 3, "invalid attestation"},
		{with("authenticator", spoiled), 3, "challenge does not match"},
		{with("authenticator", nil), 3, "missing field `authenticator`"},
	} {
		w.Refuse("ACCEPT_INVITATION_V2", c.params, c.code, c.says)
	}
	old := activitytest.Sample("AuthenticatorParams")
	old["userId"] = nobody
	w.Refuse("ACCEPT_INVITATION", object{"invitationId": id, "userId": id, "authenticator": old}, 3, "must be the user that userId names")
	w.Refuse("DELETE_INVITATION", object{"invitationId": nobody}, 5, "invitation not found: "+nobody)
	w.Refuse("DELETE_INVITATION", object{"invitationId": w.Root}, 5, "invitation not found: "+w.Root)
	// Somebody took the name in the meantime.
	guest := w.NewUser(activitytest.User("Guest", activitytest.APIKey("g", w.FreshKey())))
	w.Refuse("ACCEPT_INVITATION_V2", accept(w, id), 3, "user label must be unique")
	w.Run("UPDATE_USER_NAME", object{"userId": guest, "userName": "Host"})
	w.Now += day
	w.Refuse("ACCEPT_INVITATION_V2", accept(w, id), 3, "invitation has expired")
	w.Run("DELETE_INVITATION", object{"invitationId": id})
}

func TestInvitationLimits(t *testing.T) {
	w := activitytest.New(t)
	many := func(n int, name string) object {
		is := make([]object, n)
		for i := range is {
			is[i] = activitytest.Invitation(fmt.Sprint(name, i), w.Root)
		}
		return activitytest.Invitations(is...)
	}
	w.Refuse("CREATE_INVITATIONS", many(101, "x"), 8, "at most 100 invitations")
	first := activitytest.List(w.Run("CREATE_INVITATIONS", many(3, "first")), "invitationIds")
	w.Now += 1000
	rest := activitytest.List(w.Run("CREATE_INVITATIONS", many(97, "rest")), "invitationIds")
	w.Refuse("CREATE_INVITATIONS", many(1, "x"), 8, "at most 100 invitations")
	// Those that have ended make room, the oldest first; the others stay.
	w.Run("DELETE_INVITATION", object{"invitationId": first[1]})
	w.Run("DELETE_INVITATION", object{"invitationId": rest[5]})
	w.Refuse("CREATE_INVITATIONS", many(3, "x"), 8, "at most 100 invitations")
	w.Run("CREATE_INVITATIONS", many(1, "one more"))
	if invitationOf(w, first[1]) != nil || invitationOf(w, rest[5]) == nil || invitationOf(w, first[0]) == nil || w.Organization().Invitations != 100 {
		t.Error("not the oldest made room")
	}
	w.Now = activitytest.Start + day // the first have expired
	w.Refuse("CREATE_INVITATIONS", many(4, "x"), 8, "at most 100 invitations")
	w.Run("CREATE_INVITATIONS", many(3, "more"))
	gone := func(ids ...string) (n int) {
		for _, id := range ids {
			if invitationOf(w, id) == nil {
				n++
			}
		}
		return n
	}
	if gone(first...) != 3 || gone(rest...) != 1 || w.Organization().Invitations != 100 {
		t.Errorf("%d and %d are gone", gone(first...), gone(rest...))
	}
	// A full organization takes nobody in.
	open := rest[slices.IndexFunc(rest, func(id string) bool { return invitationOf(w, id) != nil })]
	us := make([]any, 99)
	for i := range us {
		us[i] = activitytest.User(fmt.Sprint("user ", i), activitytest.APIKey("k", w.FreshKey()))
	}
	w.Run("CREATE_USERS_V4", object{"users": us})
	w.Refuse("ACCEPT_INVITATION_V2", accept(w, open), 8, "at most 100 users")
}
