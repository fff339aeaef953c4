package proxy_test

import (
	"strings"
	"testing"

	"cloister/sim/rig"
)

// Whatever ends the processes, the configuration is there afterwards, and there is
// one.
func TestProxySurvivesRestarts(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, rig.Options{Dir: dir, Rates: unlimited})
	config, k := w.config, w.newKey()
	made := rig.Text(w.ok("signup", signup(object{"apiKeys": list(key(k))})), "organizationId")
	for _, end := range []func(){w.Rig.Kill, w.Rig.Stop} {
		end()
		w = newWorld(t, rig.Options{Dir: dir, Rates: unlimited})
		if w.config != config {
			t.Fatalf("%s, then %s", config, w.config)
		}
		if got := w.ok("account", object{"filterType": "PUBLIC_KEY", "filterValue": k.PublicKey}); rig.Text(got, "organizationId") != made {
			t.Error(got)
		}
		w.ok("signup", signup(object{"apiKeys": list(key(w.newKey()))}))
		if _, m := w.Query("list_users", nil); len(m["users"].([]any)) != 2 {
			t.Errorf("%v", m)
		}
	}
	// What somebody turned off stays off.
	w.submit("disable_auth_proxy", "ACTIVITY_TYPE_DISABLE_AUTH_PROXY", object{})
	w.Kill()
	r := rig.Start(t, rig.Options{Dir: dir, AuthProxy: true})
	if r.Credentials.AuthProxyConfigID != "" {
		t.Error(r.Credentials.AuthProxyConfigID)
	}
	if _, m := r.Query("list_users", nil); len(m["users"].([]any)) != 1 {
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
			w.submit("delete_users", "ACTIVITY_TYPE_DELETE_USERS", object{"userIds": list(user)})
		}, 403, "user or key was deleted", false},
		{"the key", func(w *world, user, key, _ string) {
			w.submit("delete_api_keys", "ACTIVITY_TYPE_DELETE_API_KEYS", object{"userId": user, "apiKeyIds": list(key)})
		}, 403, "user or key was deleted", false},
		{"the policy", func(w *world, _, _, policy string) {
			w.submit("delete_policy", "ACTIVITY_TYPE_DELETE_POLICY", object{"policyId": policy})
		}, 403, "request not authorized", true},
	} {
		w := newWorld(t, rig.Options{Rates: unlimited})
		_, m := w.Query("get_auth_proxy_config", nil)
		user, policy := rig.Text(m, "authProxyConfig", "userId"), rig.Text(m, "authProxyConfig", "policyId")
		_, m = w.Query("get_user", object{"userId": user})
		c.gone(w, user, rig.Text(m, "user", "apiKeys", "0", "apiKeyId"), policy)
		r := w.ask("signup", signup(object{"apiKeys": list(key(w.newKey()))}))
		w.refused(c.what, r, c.status, c.says)
		if c.accountsLast && !strings.Contains(r.body, "PolicyEnginePermissionError") { // errors pass through
			t.Error(r.body)
		}
		r = w.ask("account", object{"filterType": "NAME", "filterValue": "x"})
		if (r.status == 200) != c.accountsLast { // reading needs no policy
			t.Errorf("%s: %d %s", c.what, r.status, r.body)
		}
		w.submit("disable_auth_proxy", "ACTIVITY_TYPE_DISABLE_AUTH_PROXY", object{})
		w.submit("enable_auth_proxy", "ACTIVITY_TYPE_ENABLE_AUTH_PROXY", object{})
		_, configs := w.Query("get_organization_configs", nil)
		w.config = rig.Text(configs, "configs", "features", "0", "value")
		w.ok("signup", signup(object{"apiKeys": list(key(w.newKey()))}))
		_, users := w.Query("list_users", nil)
		_, rules := w.Query("list_policies", nil)
		if len(users["users"].([]any)) != 2 || len(rules["policies"].([]any)) != 1 {
			t.Errorf("%s: %v %v", c.what, users, rules)
		}
	}
}

// A policy that wants somebody's consent leaves the activity to wait; the caller is
// told, and a vote lets it through.
func TestProxyActivityThatNeedsConsent(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	_, m := w.Query("get_auth_proxy_config", nil)
	user, policy := rig.Text(m, "authProxyConfig", "userId"), rig.Text(m, "authProxyConfig", "policyId")
	w.submit("update_policy", "ACTIVITY_TYPE_UPDATE_POLICY_V2", object{"policyId": policy,
		"policyConsensus": "approvers.any(user, user.id == '" + user + "') && approvers.any(user, user.id == '" + w.Credentials.RootUserID + "')"})
	r := w.ask("signup", signup(object{"organizationName": "Waiting", "apiKeys": list(key(w.newKey()))}))
	w.refused("a sign-up", r, 403, "only with the consent of others: activityId=")
	_, m = w.Query("list_activities", object{"filterByStatus": list("ACTIVITY_STATUS_CONSENSUS_NEEDED")})
	w.submit("approve_activity", "ACTIVITY_TYPE_APPROVE_ACTIVITY", object{"fingerprint": rig.Text(m, "activities", "0", "fingerprint")})
	if got := w.ok("account", object{"filterType": "NAME", "filterValue": "Waiting"}); got["organizationId"] == nil {
		t.Error(got)
	}
}

// An IP allowlist is about users of the organization; the proxy's callers are none.
func TestAllowlistIsNotForTheProxy(t *testing.T) {
	w := newWorld(t, rig.Options{Rates: unlimited})
	w.submit("set_ip_allowlist", "ACTIVITY_TYPE_SET_IP_ALLOWLIST", object{"enabled": true, "rules": list(object{"cidr": "192.0.2.0/24", "label": "office"}), "onEvaluationError": "ALLOW"})
	w.ok("signup", signup(object{"apiKeys": list(key(w.newKey()))}))
	w.ok("account", object{"filterType": "NAME", "filterValue": "x"})
	if r := w.stampedBy(w.Credentials.RootAPIKey, "query", "whoami", object{"organizationId": w.Credentials.OrganizationID}); r.status != 403 {
		t.Errorf("the root user from elsewhere: %d %s", r.status, r.body)
	}
}
