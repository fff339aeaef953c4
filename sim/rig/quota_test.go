package rig_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/enclave/core"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// A quota that was raised reaches the activities: one more than is documented
// waits for votes, and none above that. A lowered one is as documented.
func TestQuotaOfPending(t *testing.T) {
	for given, limit := range map[int]int{1: 1000, 1001: 1001} {
		root := rig.Start(t, rig.Options{Quotas: core.Quotas{Pending: given}}).Root()
		root.Do("UPDATE_ROOT_QUORUM", client.Object{"threshold": 2, "userIds": []any{root.User, root.NewUser("Second").User}})
		ask := func(i int) client.Reply { return root.Submit("CREATE_USER_TAG", client.Tag(fmt.Sprint(i))) }
		var next, waiting atomic.Int64
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for i := next.Add(1); i <= int64(limit); i = next.Add(1) {
					if r := ask(int(i)); r.Status == 200 && r.State() == "CONSENSUS_NEEDED" {
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
			t.Errorf("quota %d, one more: %v", given, r)
		}
	}
}

// Raised quotas are those of activities, and of the organizations that they make.
func TestQuotasOfActivities(t *testing.T) {
	for _, q := range []struct {
		given          core.Quotas
		policies, keys int
	}{{core.Quotas{}, 100, 10}, {core.Quotas{Policies: 101, LongLivedKeys: 12}, 101, 12}, {core.Quotas{Policies: 5, LongLivedKeys: -1}, 100, 10}} {
		root := rig.Start(t, rig.Options{Quotas: q.given}).Root()
		policies := func(n int) (ps []any) {
			for i := range n {
				ps = append(ps, client.Policy(fmt.Sprint(i), "ALLOW", "false", ""))
			}
			return ps
		}
		keys := func(n int) (ks []client.KeyPair) {
			for range n {
				ks = append(ks, client.NewKey())
			}
			return ks
		}
		for extra, want := range []int{200, 429} {
			if got := root.Submit("CREATE_POLICIES", client.Object{"policies": policies(q.policies)[:q.policies*(1-extra)+extra]}); got.Status != want {
				t.Errorf("%+v, policies: %v", q.given, got)
			}
			sub := client.SubOrganization("Sub", client.NewRootUser("Root", keys(q.keys+extra)...))
			if got := root.Submit("CREATE_SUB_ORGANIZATION_V8", sub); got.Status != want {
				t.Errorf("%+v, a sub-organization: %v", q.given, got)
			}
		}
	}
}
