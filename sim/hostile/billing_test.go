package hostile_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// The plans of a deployment are as fresh as any organization: a host that shows older ones after a restart, or none, has
// nothing signed, and is seen.
func TestOlderPlans(t *testing.T) {
	for name, before := range map[string]int{"none": 0, "of version 1": 1} {
		t.Run(name, func(t *testing.T) {
			f := newFamily(t, 1)
			var mu sync.Mutex
			var id wire.ID
			f.store.Do(func(_ context.Context, q any) (any, error, bool) {
				if b, ok := q.(*wire.Batch); ok && len(b.Entries) == 1 {
					mu.Lock()
					defer mu.Unlock()
					id = b.Entries[0].Organization
				}
				return nil, nil, false
			})
			put := func(version, quota int) {
				if r := f.PutPlans(version, "p", map[string]any{"id": "p", "name": "P", "signaturesPerMonth": quota}); r.Status != 200 {
					t.Fatal(r)
				}
			}
			// What the host keeps for later: unlimited by having none, or a bigger quota.
			put(1, 100)
			mu.Lock()
			plans := id
			mu.Unlock()
			old := must(f.store.Store.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: plans}))
			if before == 0 {
				old = wire.Organization{}
			}
			put(2, 0)
			f.store.Do(nil)
			sign := func() client.Reply {
				return f.subs[0].Submit("SIGN_RAW_PAYLOAD_V2", client.Payload(f.subs[0].address, strings.Repeat("ab", 32), "NO_OP"))
			}
			if r := sign(); r.Status != 429 {
				t.Fatalf("above the quota: %v", r)
			}
			f.Kill()
			f.Rig = rig.Start(t, rig.Options{Dir: f.Dir.Path, Store: f.store, Root: &f.root})
			f.store.Arm(func(question, answer any) bool {
				q, ok := question.(wire.LoadOrganization)
				if ok = ok && q.Organization == plans; ok {
					*answer.(*wire.Organization) = old
				}
				return ok
			})
			if r := sign(); r.Status != 503 {
				t.Errorf("under plans from before: %v", r)
			}
			if n := f.Counters()["alarm_tip"]; n == 0 || f.store.CountChanged() == 0 {
				t.Errorf("%d alarms, %d lies", n, f.store.CountChanged())
			}
			f.store.Disarm()
			if r := sign(); r.Status != 429 {
				t.Errorf("under the newest: %v", r)
			}
		})
	}
}
