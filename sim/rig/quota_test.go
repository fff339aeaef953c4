package rig_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/enclave/core"
	"cloister/shared/wire"
	"cloister/sim/rig"
)

// A quota that was raised reaches the activities: one more than is documented
// waits for votes, and none above that. A lowered one is as documented.
func TestQuotaOfPending(t *testing.T) {
	for given, limit := range map[int]int{1: 1000, 1001: 1001} {
		a := rateClient{t, rig.Start(t, rig.Options{Quotas: core.Quotas{Pending: given}})}
		root := a.Credentials.RootAPIKey
		status, m := a.Submit("create_users", "ACTIVITY_TYPE_CREATE_USERS_V4", map[string]any{"users": []any{map[string]any{"userName": "Second", "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{},
			"apiKeys": []any{map[string]any{"apiKeyName": "key", "publicKey": newKey(t).PublicKey, "curveType": "API_KEY_CURVE_P256"}}}}})
		second := rig.Text(m, "activity", "result", "createUsersResult", "userIds", "0")
		if status != 200 || second == "" {
			t.Fatal(status, m)
		}
		if status, m = a.Submit("update_root_quorum", "ACTIVITY_TYPE_UPDATE_ROOT_QUORUM", map[string]any{"threshold": 2, "userIds": []any{a.Credentials.RootUserID, second}}); status != 200 {
			t.Fatal(status, m)
		}
		ask := func(i int) *wire.Reply {
			return a.send(wire.EndpointSubmit, "create_user_tag", a.Body("ACTIVITY_TYPE_CREATE_USER_TAG", map[string]any{"userTagName": fmt.Sprint(i), "userIds": []any{}}), root)
		}
		var next, waiting atomic.Int64
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for i := next.Add(1); i <= int64(limit); i = next.Add(1) {
					if r := ask(int(i)); r.Status == 200 && strings.Contains(string(r.Body), `"ACTIVITY_STATUS_CONSENSUS_NEEDED"`) {
						waiting.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := waiting.Load(); n != int64(limit) {
			t.Errorf("quota %d: %d activities wait", given, n)
		}
		if r := ask(0); r.Status != 429 || !strings.Contains(string(r.Body), fmt.Sprintf("too many activities wait for approval: %d;", limit)) {
			t.Errorf("quota %d, one more: %d %s", given, r.Status, r.Body)
		}
	}
}

// Raised quotas are those of activities, and of the organizations that they make.
func TestQuotasOfActivities(t *testing.T) {
	for _, q := range []struct {
		given          core.Quotas
		policies, keys int
	}{{core.Quotas{}, 100, 10}, {core.Quotas{Policies: 101, LongLivedKeys: 12}, 101, 12}, {core.Quotas{Policies: 5, LongLivedKeys: -1}, 100, 10}} {
		a := rateClient{t, rig.Start(t, rig.Options{Quotas: q.given})}
		policies := func(n int) (ps []any) {
			for i := range n {
				ps = append(ps, map[string]any{"policyName": fmt.Sprint(i), "effect": "EFFECT_ALLOW", "condition": "false", "notes": ""})
			}
			return ps
		}
		keys := func(n int) (ks []any) {
			for range n {
				k := newKey(t).PublicKey
				ks = append(ks, map[string]any{"apiKeyName": k, "publicKey": k, "curveType": "API_KEY_CURVE_P256"})
			}
			return ks
		}
		for extra, want := range []int{200, 429} {
			if status, m := a.Submit("create_policies", "ACTIVITY_TYPE_CREATE_POLICIES", map[string]any{"policies": policies(q.policies)[:q.policies*(1-extra)+extra]}); status != want {
				t.Errorf("%+v, policies: %d %v", q.given, status, m)
			}
			if status, m := a.Submit("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V8", map[string]any{"subOrganizationName": "Sub", "rootQuorumThreshold": 1,
				"rootUsers": []any{map[string]any{"userName": "Root", "authenticators": []any{}, "oauthProviders": []any{}, "apiKeys": keys(q.keys + extra)}}}); status != want {
				t.Errorf("%+v, a sub-organization: %d %v", q.given, status, m)
			}
		}
	}
}
