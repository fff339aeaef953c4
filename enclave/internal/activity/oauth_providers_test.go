package activity_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

func claims(iss, sub, aud string) object {
	return object{"providerName": "p", "oidcClaims": object{"iss": iss, "sub": sub, "aud": aud}}
}

// identity gives a user an identity as if a token had proven it, findable in the
// parent as after any activity.
func identity(w *world, user, iss, sub, aud string) string {
	w.t.Helper()
	id := w.newID()
	before := userOf(w, user)
	after := *before
	after.OauthProviders = append(slices.Clone(after.OauthProviders), org.OauthProvider{ID: id, Name: "proven", Issuer: iss, Subject: sub, Audience: aud, CreatedMs: w.now, UpdatedMs: w.now})
	alter(w, func(tx *org.Tx) { w.must(tx.PutUser(&after)) })
	if w.above != nil {
		alter(w.above, func(tx *org.Tx) {
			w.must(tx.LinkUser(&org.Child{ID: w.id, CreatedMs: mustOrganization(w).CreatedMs}, before, &after))
		})
	}
	return id.String()
}

func TestCreateOauthProviders(t *testing.T) {
	w := newWorld(t)
	const google = "https://accounts.google.com"
	identity(w, w.root, google, "me", "web")
	add := func(ps ...object) object { return object{"userId": w.root, "oauthProviders": ps} }
	ids := list(w.run("CREATE_OAUTH_PROVIDERS_V2", add(claims(google, "me", "ios"), claims(google, "me", "android"))), "providerIds")
	u := userOf(w, w.root)
	if len(ids) != 2 || len(u.OauthProviders) != 3 || u.OauthProviders[1].ID.String() != ids[0] || u.OauthProviders[2].Audience != "android" ||
		u.OauthProviders[1].Issuer != google || u.OauthProviders[1].Subject != "me" || u.OauthProviders[1].Name != "p" || u.OauthProviders[1].CreatedMs != start {
		t.Errorf("%v %+v", ids, u.OauthProviders)
	}
	bob := newUser(w, user("Bob", apiKey("b", w.freshKey())))
	nobody := w.newID().String()
	with := func(k string, v any) object {
		p := claims(google, "me", "tv")
		p[k] = v
		return add(p)
	}
	for _, c := range []struct {
		params any
		code   fault.Code
		says   string
	}{
		{object{"userId": nobody, "oauthProviders": []any{claims(google, "me", "tv")}}, 5, "user not found: " + nobody},
		{add(), 3, "missing field `oauthProviders`"},
		{add(claims(google, "other", "tv")), 3, "must share iss and sub"},
		{add(claims("https://other.example", "me", "tv")), 3, "must share iss and sub"},
		{add(claims(google, "me", "tv"), claims(google, "other", "tv")), 3, "must share iss and sub"},
		{object{"userId": bob, "oauthProviders": []any{claims(google, "me", "tv")}}, 3, "must share iss and sub"}, // another user's proves nothing
		{add(claims(google, "me", "web")), 3, "already exists"},
		{add(claims(google, "me", "tv"), claims(google, "me", "tv")), 3, "already exists"},
		{with("oidcToken", "x.y.z"), 3, "exactly one of oidcToken and oidcClaims"},
		{with("oidcClaims", nil), 3, "exactly one of oidcToken and oidcClaims"},
		{add(object{"providerName": "p", "oidcToken": ""}), 3, "exactly one of oidcToken and oidcClaims"},
		{add(object{"providerName": "p", "oidcToken": "x.y.z"}), 3, "not a signed token"},
		{with("providerName", ""), 3, "missing field"},
		{with("providerName", strings.Repeat("ä", 256)), 3, "1 to 255 characters"},
		{with("providerName", "a\nb"), 3, "1 to 255 characters"},
		{with("oidcClaims", object{"iss": google, "sub": "me"}), 3, "aud"},
		{with("oidcClaims", object{"iss": "", "sub": "me", "aud": "a"}), 3, "iss"},
		{add(claims(google, strings.Repeat("s", 256), "tv")), 3, "at most 255 bytes"},
		{add(claims(google, "me", strings.Repeat("a", 1025))), 3, "at most 1024 bytes"},
		{add(claims("x\x00", "me", "tv")), 3, "control characters"},
	} {
		w.refused("CREATE_OAUTH_PROVIDERS_V2", c.params, c.code, c.says)
	}
	w.refused("CREATE_OAUTH_PROVIDERS", add(object{"providerName": "p", "oidcToken": "x.y.z"}), 3, "not a signed token")
	w.refused("CREATE_OAUTH_PROVIDERS", add(claims(google, "me", "tv")), 3, "oidcClaims")
	_, err := w.try("CREATE_OAUTH_PROVIDERS_V2", add(claims(google, "me", "web")))
	if e := fault.Of(err); e == nil || e.Name != "OAUTH_PROVIDER_ALREADY_EXISTS" || !slices.Contains(api.Enums["TurnkeyErrorCode"], e.Name) || e.Violations[0].Field != "oauthProviders.0" {
		t.Errorf("%+v", err)
	}

	var more []object
	for i := range 8 {
		more = append(more, claims(google, "me", fmt.Sprint("client ", i)))
	}
	w.refused("CREATE_OAUTH_PROVIDERS_V2", add(more...), 8, "user has exceeded maximum oauth providers: 10")
	w.run("CREATE_OAUTH_PROVIDERS_V2", add(more[:7]...))
	w.refused("CREATE_OAUTH_PROVIDERS_V2", add(more[7]), 8, "user has exceeded maximum oauth providers: 10")
}

// An identity is one user's in the parent and all of its sub-organizations.
func TestIdentitiesAreUniqueInTheTree(t *testing.T) {
	w := newWorld(t)
	child := func(name string) *world {
		return w.sub(w.run("CREATE_SUB_ORGANIZATION_V8", subOrganization(name, 1, rootUser("Root", apiKey("r", w.freshKey()))))["subOrganizationId"])
	}
	one, two := child("one"), child("two")
	const iss = "https://issuer.example"
	bob := newUser(one, user("Bob", apiKey("b", w.freshKey())))
	// Each of them has proven the same identity, to clients of his own.
	identity(w, w.root, iss, "s", "of the parent")
	identity(one, one.root, iss, "s", "of one")
	identity(one, bob, iss, "s", "of Bob")
	identity(two, two.root, iss, "s", "of two")
	for _, c := range []struct {
		w    *world
		user string
		auds []string
	}{
		{w, w.root, []string{"of the parent", "of one", "of Bob", "of two"}},
		{one, one.root, []string{"of the parent", "of one", "of Bob", "of two"}},
		{two, two.root, []string{"of the parent", "of one", "of Bob", "of two"}},
	} {
		for _, aud := range c.auds {
			c.w.refused("CREATE_OAUTH_PROVIDERS_V2", object{"userId": c.user, "oauthProviders": []any{claims(iss, "s", aud)}}, 3, "already exists")
		}
	}
	r := two.run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": two.root, "oauthProviders": []any{claims(iss, "s", "new")}})
	one.refused("CREATE_OAUTH_PROVIDERS_V2", object{"userId": bob, "oauthProviders": []any{claims(iss, "s", "new")}}, 3, "already exists")
	two.run("DELETE_OAUTH_PROVIDERS", object{"userId": two.root, "providerIds": r["providerIds"]})
	one.run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": bob, "oauthProviders": []any{claims(iss, "s", "new")}})

	// Without the parent at hand it is asked for.
	v, err := kinds.Live.Lookup("create_oauth_providers", "ACTIVITY_TYPE_CREATE_OAUTH_PROVIDERS_V2")
	w.must(err)
	in, err := v.Decode(text(object{"userId": bob, "oauthProviders": []any{claims(iss, "s", "newer")}}))
	w.must(err)
	if _, err := v.Run(&activity.Tx{Tx: one.tx(), Rand: w.rand}, in); !errors.Is(err, activity.ErrNeedsParent) {
		t.Error(err)
	}
}

func TestDeleteOauthProviders(t *testing.T) {
	w := newWorld(t)
	bob := newUser(w, user("Bob", apiKey("b", w.freshKey())))
	mine, his := identity(w, w.root, "i", "s", "a"), identity(w, bob, "i", "s", "b")
	second := list(w.run("CREATE_OAUTH_PROVIDERS_V2", object{"userId": w.root, "oauthProviders": []any{claims("i", "s", "c")}}), "providerIds")[0]
	nobody := w.newID().String()
	del := func(user string, ids ...string) object { return object{"userId": user, "providerIds": ids} }
	w.refused("DELETE_OAUTH_PROVIDERS", del(nobody, mine), 5, "user not found: "+nobody)
	w.refused("DELETE_OAUTH_PROVIDERS", del(w.root, his), 5, "oauth provider not found: "+his)
	w.refused("DELETE_OAUTH_PROVIDERS", del(w.root, mine, nobody), 5, "oauth provider not found: "+nobody)
	w.refused("DELETE_OAUTH_PROVIDERS", del(w.root, mine, mine), 3, "named twice")
	w.now += 1000
	if got := list(w.run("DELETE_OAUTH_PROVIDERS", del(w.root, mine)), "providerIds"); len(got) != 1 || got[0] != mine {
		t.Error(got)
	}
	if u := userOf(w, w.root); len(u.OauthProviders) != 1 || u.OauthProviders[0].ID.String() != second || u.UpdatedMs != start+1000 {
		t.Errorf("%+v", u)
	}
}
