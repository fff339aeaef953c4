package user_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
)

func TestCreateOauthProviders(t *testing.T) {
	w := activitytest.New(t)
	const google = "https://accounts.google.com"
	w.Identity(w.Root, google, "me", "web")
	add := func(ps ...object) object { return object{"userId": w.Root, "oauthProviders": ps} }
	ids := activitytest.List(w.Run("CREATE_OAUTH_PROVIDERS_V2", add(activitytest.Claims(google, "me", "ios"), activitytest.Claims(google, "me", "android"))), "providerIds")
	u := w.UserOf(w.Root)
	if len(ids) != 2 || len(u.OauthProviders) != 3 || u.OauthProviders[1].ID.String() != ids[0] || u.OauthProviders[2].Audience != "android" ||
		u.OauthProviders[1].Issuer != google || u.OauthProviders[1].Subject != "me" || u.OauthProviders[1].Name != "p" || u.OauthProviders[1].CreatedMs != activitytest.Start {
		t.Errorf("%v %+v", ids, u.OauthProviders)
	}
	bob := w.NewUser(activitytest.User("Bob", activitytest.APIKey("b", w.FreshKey())))
	nobody := w.NewID().String()
	with := func(k string, v any) object {
		p := activitytest.Claims(google, "me", "tv")
		p[k] = v
		return add(p)
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{object{"userId": nobody, "oauthProviders": []any{activitytest.Claims(google, "me", "tv")}}, 5, "user not found: " + nobody},
		{add(), 3, "missing field `oauthProviders`"},
		{add(activitytest.Claims(google, "other", "tv")), 3, "must share iss and sub"},
		{add(activitytest.Claims("https://other.example", "me", "tv")), 3, "must share iss and sub"},
		{add(activitytest.Claims(google, "me", "tv"), activitytest.Claims(google, "other", "tv")), 3, "must share iss and sub"},
		{object{"userId": bob, "oauthProviders": []any{activitytest.Claims(google, "me", "tv")}}, 3, "must share iss and sub"}, // another user's proves nothing
		{add(activitytest.Claims(google, "me", "web")), 3, "already exists"},
		{add(activitytest.Claims(google, "me", "tv"), activitytest.Claims(google, "me", "tv")), 3, "already exists"},
		{with("oidcToken", "x.y.z"), 3, "exactly one of oidcToken and oidcClaims"},
		{with("oidcClaims", nil), 3, "exactly one of oidcToken and oidcClaims"},
		{add(object{"providerName": "p", "oidcToken": ""}), 3, "exactly one of oidcToken and oidcClaims"},
		{add(object{"providerName": "p", "oidcToken": "x.y.z"}), 3, "not a signed token"},
		{with("providerName", ""), 3, "missing field"},
		{with("providerName", strings.Repeat("ä", 256)), 3, "1 to 255 characters"},
		{with("providerName", "a\nb"), 3, "1 to 255 characters"},
		{with("oidcClaims", object{"iss": google, "sub": "me"}), 3, "aud"},
		{with("oidcClaims", object{"iss": "", "sub": "me", "aud": "a"}), 3, "iss"},
		{add(activitytest.Claims(google, strings.Repeat("s", 256), "tv")), 3, "at most 255 bytes"},
		{add(activitytest.Claims(google, "me", strings.Repeat("a", 1025))), 3, "at most 1024 bytes"},
		{add(activitytest.Claims("x\x00", "me", "tv")), 3, "control characters"},
	} {
		w.Refuse("CREATE_OAUTH_PROVIDERS_V2", c.params, c.code, c.says)
	}
	w.Refuse("CREATE_OAUTH_PROVIDERS", add(object{"providerName": "p", "oidcToken": "x.y.z"}), 3, "not a signed token")
	w.Refuse("CREATE_OAUTH_PROVIDERS", add(activitytest.Claims(google, "me", "tv")), 3, "oidcClaims")
	_, err := w.Try("CREATE_OAUTH_PROVIDERS_V2", add(activitytest.Claims(google, "me", "web")))
	if e := fault.Of(err); e == nil || e.Name != "OAUTH_PROVIDER_ALREADY_EXISTS" || !slices.Contains(activitytest.API.Enums["TurnkeyErrorCode"], e.Name) || e.Violations[0].Field != "oauthProviders.0" {
		t.Errorf("%+v", err)
	}

	var more []object
	for i := range 8 {
		more = append(more, activitytest.Claims(google, "me", fmt.Sprint("client ", i)))
	}
	w.Refuse("CREATE_OAUTH_PROVIDERS_V2", add(more...), 8, "user has exceeded maximum oauth providers: 10")
	w.Run("CREATE_OAUTH_PROVIDERS_V2", add(more[:7]...))
	w.Refuse("CREATE_OAUTH_PROVIDERS_V2", add(more[7]), 8, "user has exceeded maximum oauth providers: 10")
}

// An identity is one user's in the parent and all of its sub-organizations.
func TestIdentitiesAreUniqueInTheTree(t *testing.T) {
	w := activitytest.New(t)
	child := func(name string) *world {
		return w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization(name, 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	}
	one, two := child("one"), child("two")
	const iss = "https://issuer.example"
	bob := one.NewUser(activitytest.User("Bob", activitytest.APIKey("b", w.FreshKey())))
	// Each of them has proven the same identity, to clients of his own.
	w.Identity(w.Root, iss, "s", "of the parent")
	one.Identity(one.Root, iss, "s", "of one")
	one.Identity(bob, iss, "s", "of Bob")
	two.Identity(two.Root, iss, "s", "of two")
	for _, c := range []struct {
		w    *world
		user string
		auds []string
	}{
		{w, w.Root, []string{"of the parent", "of one", "of Bob", "of two"}},
		{one, one.Root, []string{"of the parent", "of one", "of Bob", "of two"}},
		{two, two.Root, []string{"of the parent", "of one", "of Bob", "of two"}},
	} {
		for _, aud := range c.auds {
			c.w.Refuse("CREATE_OAUTH_PROVIDERS_V2", object{"userId": c.user, "oauthProviders": []any{activitytest.Claims(iss, "s", aud)}}, 3, "already exists")
		}
	}
	r := two.Run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": two.Root, "oauthProviders": []any{activitytest.Claims(iss, "s", "new")}})
	one.Refuse("CREATE_OAUTH_PROVIDERS_V2", object{"userId": bob, "oauthProviders": []any{activitytest.Claims(iss, "s", "new")}}, 3, "already exists")
	two.Run("DELETE_OAUTH_PROVIDERS", object{"userId": two.Root, "providerIds": r["providerIds"]})
	one.Run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": bob, "oauthProviders": []any{activitytest.Claims(iss, "s", "new")}})

	// Without the parent at hand it is asked for.
	v, err := kinds.Live.Lookup("create_oauth_providers", "ACTIVITY_TYPE_CREATE_OAUTH_PROVIDERS_V2")
	w.Must(err)
	in, err := v.Decode(activitytest.JSON(object{"userId": bob, "oauthProviders": []any{activitytest.Claims(iss, "s", "newer")}}))
	w.Must(err)
	if _, err := v.Run(&activity.Tx{Tx: one.Tx(), Rand: w.Rand}, in); !errors.Is(err, activity.ErrNeedsParent) {
		t.Error(err)
	}
}

func TestDeleteOauthProviders(t *testing.T) {
	w := activitytest.New(t)
	bob := w.NewUser(activitytest.User("Bob", activitytest.APIKey("b", w.FreshKey())))
	mine, his := w.Identity(w.Root, "i", "s", "a"), w.Identity(bob, "i", "s", "b")
	second := activitytest.List(w.Run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.Root, "oauthProviders": []any{activitytest.Claims("i", "s", "c")}}), "providerIds")[0]
	nobody := w.NewID().String()
	del := func(user string, ids ...string) object { return object{"userId": user, "providerIds": ids} }
	w.Refuse("DELETE_OAUTH_PROVIDERS", del(nobody, mine), 5, "user not found: "+nobody)
	w.Refuse("DELETE_OAUTH_PROVIDERS", del(w.Root, his), 5, "oauth provider not found: "+his)
	w.Refuse("DELETE_OAUTH_PROVIDERS", del(w.Root, mine, nobody), 5, "oauth provider not found: "+nobody)
	w.Refuse("DELETE_OAUTH_PROVIDERS", del(w.Root, mine, mine), 3, "named twice")
	w.Now += 1000
	if got := activitytest.List(w.Run("DELETE_OAUTH_PROVIDERS", del(w.Root, mine)), "providerIds"); len(got) != 1 || got[0] != mine {
		t.Error(got)
	}
	if u := w.UserOf(w.Root); len(u.OauthProviders) != 1 || u.OauthProviders[0].ID.String() != second || u.UpdatedMs != activitytest.Start+1000 {
		t.Errorf("%+v", u)
	}
}
