package activity_test

import (
	"fmt"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/org"
	"cloister/sim/authenticator"
)

// full is an organization that has as many of everything as an operator allows,
// without most of the records, but for one more of each.
func full(w *world, l org.Limits) {
	w.TB.Helper()
	w.Alter(func(tx *org.Tx) {
		old, err := tx.Organization()
		w.Must(err)
		o := *old
		o.Users, o.Policies, o.Tags, o.Wallets = uint32(l.Users-1), uint32(l.Policies-1), uint32(l.Tags-1), uint32(l.Wallets-1)
		if !o.Parent.Zero() {
			o.Tags = uint32(l.TagsOfChild - 1)
		}
		o.PrivateKeys, o.Interfaces, o.Profiles, o.Invitations = uint32(l.PrivateKeys-1), uint32(l.Interfaces-1), uint32(l.Profiles-1), uint32(l.Invitations-1)
		w.Must(tx.PutOrganization(&o))
		root, err := tx.User(w.User)
		w.Must(err)
		u := *root
		u.APIKeys, u.Authenticators, u.OauthProviders = nil, make([]org.Authenticator, l.Authenticators-1), nil
		for range l.LongLivedKeys - 1 {
			u.APIKeys = append(u.APIKeys, org.APIKey{ID: w.NewID(), PublicKey: w.FreshKey(), Type: "CREDENTIAL_TYPE_API_KEY_SECP256K1"})
		}
		for range l.OauthProviders - 1 {
			u.OauthProviders = append(u.OauthProviders, org.OauthProvider{ID: w.NewID(), Issuer: "i", Subject: "s", Audience: w.NewID().String()})
		}
		w.Must(tx.PutUser(&u))
	})
}

// Of everything one more is let in up to the limit in force, and the next is
// refused by its name.
func TestLimits(t *testing.T) {
	raised := org.Limits{Users: 101, Policies: 102, Tags: 103, TagsOfChild: 14, Invitations: 105, Wallets: 106, PrivateKeys: 1007, Interfaces: 1008, Profiles: 109,
		LongLivedKeys: 11, ExpiringAPIKeys: 12, Authenticators: 13, OauthProviders: 14}
	lowered := org.Limits{Users: 1, Policies: 1, Tags: 1, TagsOfChild: 1, Invitations: 1, Wallets: 1, PrivateKeys: 1, Interfaces: 1, Profiles: 1,
		LongLivedKeys: 1, ExpiringAPIKeys: 1, Authenticators: 1, OauthProviders: -1}
	for name, given := range map[string]org.Limits{"documented": {}, "lowered": lowered, "raised": raised, "to the top": org.MostLimits(), "over it": {Users: 1 << 30, TagsOfChild: 1 << 30, Authenticators: 1 << 30}} {
		t.Run(name, func(t *testing.T) {
			w := activitytest.New(t)
			w.Limits = given
			sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
			sub.Limits = given
			l := given.WithDefaults()
			full(w, l)
			full(sub, l)
			for _, c := range []struct {
				w     *world
				typ   string
				limit int
				says  string
				one   func(name string) object
			}{
				{w, "CREATE_USERS_V4", l.Users, "organization over quota: at most %d users", func(n string) object {
					return object{"users": []any{activitytest.User(n, activitytest.APIKey("k", w.FreshKey()))}}
				}},
				{w, "CREATE_POLICY_V3", l.Policies, "organization over quota: at most %d policies", func(n string) object { return activitytest.Rule(n, "condition", "true") }},
				{w, "CREATE_USER_TAG", l.Tags, "organization over quota: at most %d tags", func(n string) object { return object{"userTagName": n, "userIds": []string{}} }},
				{sub, "CREATE_USER_TAG", l.TagsOfChild, "organization over quota: at most %d tags", func(n string) object { return object{"userTagName": n, "userIds": []string{}} }},
				{w, "CREATE_INVITATIONS", l.Invitations, "organization over quota: at most %d invitations", func(n string) object { return activitytest.Invitations(activitytest.Invitation(n, w.Root)) }},
				{w, "CREATE_WALLET", l.Wallets, "organization over quota: at most %d wallets", func(n string) object { return activitytest.Wallet(n) }},
				{w, "CREATE_PRIVATE_KEYS_V2", l.PrivateKeys, "organization over quota: at most %d private keys", func(n string) object { return object{"privateKeys": []any{activitytest.PrivateKey(n, "SECP256K1")}} }},
				{w, "CREATE_SMART_CONTRACT_INTERFACE", l.Interfaces, "organization over quota: at most %d smart contract interfaces", func(n string) object {
					return activitytest.ABI(n, fmt.Sprintf("0x%x", w.NewID().String()[:20]), activitytest.SomeABI)
				}},
				{w, "CREATE_SESSION_PROFILE", l.Profiles, "organization over quota: at most %d session profiles", func(n string) object { return object{"sessionProfileName": n, "scope": "true"} }},
				{w, "CREATE_API_KEYS_V2", l.LongLivedKeys, "user has exceeded maximum long-lived api keys: %d", func(n string) object {
					return object{"userId": w.Root, "apiKeys": []any{activitytest.APIKey(n, w.FreshKey())}}
				}},
				{w, "CREATE_AUTHENTICATORS_V2", l.Authenticators, "user has exceeded maximum authenticators: %d", func(string) object { _, p := w.NewPasskey(authenticator.None); return activitytest.Passkeys(w.Root, p) }},
				{w, "CREATE_OAUTH_PROVIDERS_V2", l.OauthProviders, "user has exceeded maximum oauth providers: %d", func(n string) object {
					return object{"userId": w.Root, "oauthProviders": []any{activitytest.Claims("i", "s", n)}}
				}},
			} {
				c.w.Run(c.typ, c.one(c.typ+" one more"))
				c.w.Refuse(c.typ, c.one(c.typ+" two more"), 8, fmt.Sprintf(c.says, c.limit))
			}
			many := func(n int) object {
				keys := make([]object, n)
				for i := range keys {
					keys[i] = activitytest.Expiring(fmt.Sprint(i), w.FreshKey(), "60")
				}
				return object{"userId": sub.Root, "apiKeys": keys}
			}
			sub.Refuse("CREATE_API_KEYS_V2", many(l.ExpiringAPIKeys+1), 8, fmt.Sprintf("user has exceeded maximum short-lived api keys: %d", l.ExpiringAPIKeys))
			sub.Run("CREATE_API_KEYS_V2", many(l.ExpiringAPIKeys))
			sub.Run("CREATE_API_KEYS_V2", many(1))
			if n := len(sub.UserOf(sub.Root).APIKeys); n != l.LongLivedKeys-1+l.ExpiringAPIKeys {
				t.Errorf("%d keys are left", n)
			}
		})
	}
}

// What is made all at once, whole or not at all, is held to the same limits.
func TestLimitsOfMany(t *testing.T) {
	for _, given := range []org.Limits{{}, {Users: 101, Policies: 101, LongLivedKeys: 11}} {
		w := activitytest.New(t)
		w.Limits = given
		l := given.WithDefaults()
		roots := func(n int) (us []object) {
			for i := range n {
				us = append(us, activitytest.RootUser(fmt.Sprint(i), activitytest.APIKey("k", w.FreshKey())))
			}
			return us
		}
		w.Refuse("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, roots(l.Users+1)...), 8, fmt.Sprintf("organization over quota: at most %d users", l.Users))
		sub := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, roots(l.Users)...))["subOrganizationId"])
		sub.Limits = given
		sub.Refuse("CREATE_USERS_V4", object{"users": []any{activitytest.User("more", activitytest.APIKey("k", w.FreshKey()))}}, 8, "over quota")

		keys := func(n int) object {
			u := activitytest.RootUser("Root")
			var ks []object
			for i := range n {
				ks = append(ks, activitytest.APIKey(fmt.Sprint(i), w.FreshKey()))
			}
			u["apiKeys"] = ks
			return u
		}
		w.Refuse("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, keys(l.LongLivedKeys+1)), 8, fmt.Sprintf("maximum long-lived api keys: %d", l.LongLivedKeys))
		w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("Sub", 1, keys(l.LongLivedKeys)))

		policies := func(n int) object {
			ps := make([]object, n)
			for i := range ps {
				ps[i] = activitytest.Rule(fmt.Sprint(i), "condition", "true")
			}
			return object{"policies": ps}
		}
		w.Refuse("CREATE_POLICIES", policies(l.Policies+1), 8, fmt.Sprintf("organization over quota: at most %d policies", l.Policies))
		w.Run("CREATE_POLICIES", policies(l.Policies))
		w.Refuse("CREATE_POLICIES", policies(1), 8, "over quota")
	}
}
