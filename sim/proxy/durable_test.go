package proxy_test

import (
	"strings"
	"testing"

	"cloister/sim/client"
	"cloister/sim/rig"
)

// Whatever ends the processes, the configuration is there afterwards, and there is
// one.
func TestProxySurvivesRestarts(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, rig.Options{Dir: dir, Rates: unlimited})
	config, k := w.config, client.NewKey()
	made := client.Text(w.ok("signup", signup(object{"apiKeys": list(key(k))})), "organizationId")
	for _, end := range []func(){w.Rig.Kill, w.Rig.Stop} {
		end()
		w = newWorld(t, rig.Options{Dir: dir, Rates: unlimited})
		if w.config != config {
			t.Fatalf("%s, then %s", config, w.config)
		}
		if got := w.ok("account", object{"filterType": "PUBLIC_KEY", "filterValue": k.PublicKey}); client.Text(got, "organizationId") != made {
			t.Error(got)
		}
		w.ok("signup", signup(object{"apiKeys": list(key(client.NewKey()))}))
		if m := w.root.Read("list_users", nil); len(m["users"].([]any)) != 2 {
			t.Errorf("%v", m)
		}
	}
	// What somebody turned off stays off.
	w.root.Do("DISABLE_AUTH_PROXY", object{})
	w.Kill()
	r := rig.Start(t, rig.Options{Dir: dir, AuthProxy: true})
	if r.Credentials.AuthProxyConfigID != "" {
		t.Error(r.Credentials.AuthProxyConfigID)
	}
	if m := r.Root().Read("list_users", nil); len(m["users"].([]any)) != 1 {
		t.Errorf("%v", m)
	}
}

// Deleting what the proxy acts with is a brake; turning it off and on repairs it.
func TestProxyWithoutUserKeyOrPolicy(t *testing.T) {
	for _, c := range []struct {
		what         string
		gone         func(w *world, user, key, policy string)
		status       int
		says         string
		accountsLast bool
	}{
		{"the user", func(w *world, user, _, _ string) {
			w.root.Do("DELETE_USERS", object{"userIds": list(user)})
		}, 403, "user or key was deleted", false},
		{"the key", func(w *world, user, key, _ string) {
			w.root.Do("DELETE_API_KEYS", object{"userId": user, "apiKeyIds": list(key)})
		}, 403, "user or key was deleted", false},
		{"the policy", func(w *world, _, _, policy string) {
			w.root.Do("DELETE_POLICY", object{"policyId": policy})
		}, 403, "request not authorized", true},
	} {
		w := newWorld(t, rig.Options{Rates: unlimited})
		m := w.root.Read("get_auth_proxy_config", nil)
		user, policy := client.Text(m, "authProxyConfig", "userId"), client.Text(m, "authProxyConfig", "policyId")
		m = w.root.Read("get_user", object{"userId": user})
		c.gone(w, user, client.Text(m, "user", "apiKeys", "0", "apiKeyId"), policy)
		r := w.ask("signup", signup(object{"apiKeys": list(key(client.NewKey()))}))
		w.refused(c.what, r, c.status, c.says)
		if c.accountsLast && !strings.Contains(string(r.Body), "PolicyEnginePermissionError") { // errors pass through
			t.Error(r)
		}
		r = w.ask("account", object{"filterType": "NAME", "filterValue": "x"})
		if (r.Status == 200) != c.accountsLast { // reading needs no policy
			t.Errorf("%s: %v", c.what, r)
		}
		w.root.Do("DISABLE_AUTH_PROXY", object{})
		w.config = enabled(w.root)
		w.ok("signup", signup(object{"apiKeys": list(key(client.NewKey()))}))
		users, rules := w.root.Read("list_users", nil), w.root.Read("list_policies", nil)
		if len(users["users"].([]any)) != 2 || len(rules["policies"].([]any)) != 1 {
			t.Errorf("%s: %v %v", c.what, users, rules)
		}
	}
}

// A policy that wants somebody's consent leaves the activity to wait; the caller is
// told, and a vote lets it through.
func TestProxyActivityThatNeedsConsent(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	m := w.root.Read("get_auth_proxy_config", nil)
	user, policy := client.Text(m, "authProxyConfig", "userId"), client.Text(m, "authProxyConfig", "policyId")
	w.root.Do("UPDATE_POLICY_V2", object{"policyId": policy,
		"policyConsensus": "approvers.any(user, user.id == '" + user + "') && approvers.any(user, user.id == '" + w.root.User + "')"})
	r := w.ask("signup", signup(object{"organizationName": "Waiting", "apiKeys": list(key(client.NewKey()))}))
	w.refused("a sign-up", r, 403, "only with the consent of others: activityId=")
	m = w.root.Read("list_activities", object{"filterByStatus": list("ACTIVITY_STATUS_CONSENSUS_NEEDED")})
	w.root.Do("APPROVE_ACTIVITY", object{"fingerprint": client.Text(m, "activities", "0", "fingerprint")})
	if got := w.ok("account", object{"filterType": "NAME", "filterValue": "Waiting"}); got["organizationId"] == nil {
		t.Error(got)
	}
}

// An IP allowlist is about users of the organization; the proxy's callers are none.
func TestAllowlistIsNotForTheProxy(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	w.root.Do("SET_IP_ALLOWLIST", object{"enabled": true, "rules": list(object{"cidr": "192.0.2.0/24", "label": "office"}), "onEvaluationError": "ALLOW"})
	w.ok("signup", signup(object{"apiKeys": list(key(client.NewKey()))}))
	w.ok("account", object{"filterType": "NAME", "filterValue": "x"})
	if r := w.root.Query("whoami", nil); r.Status != 403 {
		t.Errorf("the root user from elsewhere: %v", r)
	}
}
