package hostile_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"cloister/shared/wire"
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
				if status, m := f.PutPlans(version, "p", map[string]any{"id": "p", "name": "P", "signaturesPerMonth": quota}); status != 200 {
					t.Fatalf("%d %v", status, m)
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
			sign := func() (int, map[string]any) {
				s := &f.subs[0]
				return f.as(s.key, wire.EndpointSubmit, "sign_raw_payload", f.BodyOf(s.id, "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", map[string]any{"signWith": s.address, "payload": strings.Repeat("ab", 32),
					"encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_NO_OP"}))
			}
			if status, m := sign(); status != 429 {
				t.Fatalf("above the quota: %d %v", status, m)
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
			if status, m := sign(); status != 503 {
				t.Errorf("under plans from before: %d %v", status, m)
			}
			if n := f.Counters()["alarm_tip"]; n == 0 || f.store.CountChanged() == 0 {
				t.Errorf("%d alarms, %d lies", n, f.store.CountChanged())
			}
			f.store.Disarm()
			if status, m := sign(); status != 429 {
				t.Errorf("under the newest: %d %v", status, m)
			}
		})
	}
}
