package rig_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// One tenant, through sixteen sub-organizations, has the enclave ask issuers that
// never answer. It gets an eighth of the places whichever way it asks, and another
// tenant's provider is asked at once.
func TestSilentIssuersAreTheirTenantsAlone(t *testing.T) {
	const subs, each, share = 16, 4, 7
	w, c := newWorldOutside(t), clocktest.New()
	o := w.options()
	o.Clock, o.Organizations = c, 1
	var begun, standing, most atomic.Int64
	over := make(chan struct{})
	real := o.Outside
	o.Outside = func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		if !strings.HasPrefix(host, "silent-") {
			return real(ctx, host, port)
		}
		begun.Add(1)
		n := standing.Add(1)
		defer standing.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		select {
		case <-ctx.Done():
		case <-over:
		}
		return nil, net.ErrClosed
	}
	f := &family{rateClient: rateClient{t, rig.Start(t, o)}, w: w, c: c}
	f.id, f.root, f.idp = f.Credentials.OrganizationID, f.Credentials.RootAPIKey, w.provider("accounts.example")

	var refused atomic.Int64
	var all sync.WaitGroup
	for n := range subs {
		id, key := f.sub()
		for m := range each {
			issuer := fmt.Sprintf("https://silent-%d-%d.example", n, m)
			token := f.idp.token(f.idp.claims(c.Now(), "me", "web", "iss", issuer))
			all.Go(func() {
				got := f.submit(key, id, "CREATE_USERS_V4", map[string]any{"users": []any{map[string]any{"userName": "User", "apiKeys": []any{}, "authenticators": []any{},
					"userTags": []any{}, "oauthProviders": []any{map[string]any{"providerName": "p", "oidcToken": token}}}}})
				if got.status == 200 {
					t.Errorf("an issuer that never answered: %v", got)
				}
				if strings.Contains(fmt.Sprint(got), "too many issuers are being asked") {
					refused.Add(1)
				}
			})
		}
	}
	clocktest.Until(t, "every request has begun or was refused", func() bool { return begun.Load()+refused.Load() >= subs*each })
	others, err := f.Dir.Organizations()
	if err != nil || len(others) != 1 {
		t.Fatal(err, len(others))
	}
	other := others[0]
	got := f.submit(other.RootAPIKey, other.OrganizationID, "CREATE_SUB_ORGANIZATION_V8", f.family("log-in", f.idp.token(f.idp.claims(c.Now(), "me", "web"))))
	if got.status != 200 {
		t.Errorf("another tenant's provider: %v", got)
	}
	close(over)
	all.Wait()
	if n := most.Load(); n < 1 || n > share {
		t.Errorf("%d places at a time for one tenant, want at most %d", n, share)
	}
	t.Logf("%d issuers asked, %d at a time, %d refused", begun.Load(), most.Load(), refused.Load())
}

// stalled is a store that takes no batch for a while.
type stalled struct {
	store.Store
	gate sync.RWMutex
}

func (s *stalled) Append(ctx context.Context, b *wire.Batch) (wire.Stored, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.Store.Append(ctx, b)
}

// startStalled starts a deployment of two tenants on a store that can be stalled.
func startStalled(t *testing.T) (*stalled, rateClient, laptop.Organization) {
	s := new(stalled)
	var err error
	if s.Store, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "cloister.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Store.Close() })
	a := rateClient{t, rig.Start(t, rig.Options{Store: s, Organizations: 1})}
	others, err := a.Dir.Organizations()
	if err != nil || len(others) != 1 {
		t.Fatal(err, len(others))
	}
	return s, a, others[0]
}

// Replies wait for a store that takes its time. What they hold in the enclave is
// bounded for each tenant, whichever of its organizations asks; what is small passes,
// and so does what another tenant asks for.
func TestRepliesAreBounded(t *testing.T) {
	const share = 256 << 20 / 9 // an eighth of what is left
	s, a, another := startStalled(t)
	id, key := a.Credentials.OrganizationID, a.Credentials.RootAPIKey
	sub, subKey := a.sub()
	other, otherKey := another.OrganizationID, another.RootAPIKey
	filled := func(key laptop.KeyPair, id string) int64 {
		var all []any
		for n := range 100 {
			all = append(all, map[string]any{"policyName": fmt.Sprint("policy ", n), "effect": "EFFECT_DENY", "notes": "", "consensus": "true",
				"condition": "activity.type in [" + strings.Repeat("'ACTIVITY_TYPE_CREATE_WALLET', ", 100) + "'x']"})
		}
		for len(all) > 0 {
			a.done(key, id, "CREATE_POLICIES", map[string]any{"policies": all[:20]})
			all = all[20:]
		}
		list := a.send(wire.EndpointQuery, "list_policies", fmt.Appendf(nil, `{"organizationId":%q}`, id), key)
		if list.Status != 200 {
			t.Fatalf("%s", list.Body)
		}
		return int64(len(list.Body))
	}
	size := filled(key, id)
	filled(subKey, sub)
	filled(otherKey, other)

	s.gate.Lock()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if got := a.submit(key, id, "CREATE_USER_TAG", map[string]any{"userTagName": "tag", "userIds": []any{}}); got.status != 200 {
			t.Error(got)
		}
	})
	held := func(what string, name string, least int64) (n int64) {
		clocktest.Until(t, what, func() bool {
			n = int64(a.Counters()[name])
			return n >= least
		})
		return n
	}
	held("something is decided", "unstored_bytes", 1)
	asked := share / size
	for n := range asked { // each made before the next: one in the making takes more
		waiting.Go(func() {
			if got := a.ask(key, id, "list_policies"); got.status != 200 {
				t.Errorf("a list that waited: %d", got.status)
			}
		})
		if n := held("the lists wait", "reply_bytes", size*(n+1)); n > share {
			t.Errorf("replies hold %d bytes, want at most %d", n, share)
		}
	}
	body := func(id string) []byte { return fmt.Appendf(nil, `{"organizationId":%q}`, id) }
	if r := a.send(wire.EndpointQuery, "list_policies", body(sub), subKey); r.Status != 429 || !strings.Contains(string(r.Body), "REPLY_BYTES_EXCEEDED") {
		t.Errorf("one more list, of the same tenant: %d, %d bytes", r.Status, len(r.Body))
	}
	if got := a.ask(subKey, sub, "whoami"); got.status != 200 {
		t.Errorf("what is small: %v", got)
	}
	if got := a.ask(otherKey, other, "list_policies"); got.status != 200 {
		t.Errorf("another tenant's list: %d", got.status)
	}
	s.gate.Unlock()
	waiting.Wait()
	t.Logf("%d lists of %d bytes", asked, size)
	clocktest.Until(t, "no bytes are held of replies that were written", func() bool { return a.Counters()["reply_bytes"] == 0 })
	if got := a.ask(subKey, sub, "list_policies"); got.status != 200 {
		t.Errorf("a list when there is room again: %d", got.status)
	}
}

// Calls wait for a store that takes its time. A tenant's own users get no more than a ninth of the places, its
// sub-organizations as many; to other tenants, and to who has none, a place is given.
func TestCallsUnderWayAreBounded(t *testing.T) {
	const (
		size  = 60 << 10
		each  = 1 + size/(wire.MaxWaiting/wire.MaxInFlight) // places
		share = wire.MaxInFlight / 9 / each
	)
	s, a, another := startStalled(t)
	id, key := a.Credentials.OrganizationID, a.Credentials.RootAPIKey
	sub, subKey := a.sub()
	other, otherKey := another.OrganizationID, another.RootAPIKey
	whoami := func(id string, key laptop.KeyPair) *wire.Reply {
		return a.send(wire.EndpointQuery, "whoami", fmt.Appendf(nil, `{"organizationId":%q%*s}`, id, size, ""), key)
	}

	s.gate.Lock()
	open := sync.OnceFunc(s.gate.Unlock)
	defer open()
	var waiting sync.WaitGroup
	decides := func(id string, key laptop.KeyPair) {
		before := a.Counters()["unstored_bytes"]
		waiting.Go(func() {
			if got := a.submit(key, id, "CREATE_USER_TAG", map[string]any{"userTagName": "tag", "userIds": []any{}}); got.status != 200 {
				t.Error(got)
			}
		})
		clocktest.Until(t, "something is decided", func() bool { return a.Counters()["unstored_bytes"] > before })
	}
	taken := uint64(2)
	fill := func(what, id string, key laptop.KeyPair) {
		var refused atomic.Int64
		for range share + 20 {
			waiting.Go(func() {
				switch r := whoami(id, key); {
				case r.Status == 429 && strings.Contains(string(r.Body), "REQUESTS_EXCEEDED"):
					refused.Add(1)
				case r.Status != 200:
					t.Errorf("%s: %d %s", what, r.Status, r.Body)
				}
			})
		}
		clocktest.Until(t, "all others wait", func() bool {
			return refused.Load() > 0 && a.Counters()["calls_under_way"] == taken+each*uint64(share+20-refused.Load())
		})
		if n := share + 20 - refused.Load(); n > share || n < share-20 {
			t.Errorf("%s: %d wait, want about %d", what, n, share)
		}
		taken = a.Counters()["calls_under_way"]
	}
	decides(id, key)
	decides(sub, subKey)
	fill("own users", id, key)
	fill("sub-organizations", sub, subKey)
	if r := whoami(other, otherKey); r.Status != 200 {
		t.Errorf("another tenant: %d %s", r.Status, r.Body)
	}
	open()
	waiting.Wait()
	if n := a.Counters()["calls_under_way"]; n != 0 {
		t.Errorf("%d places are held when nothing is under way", n)
	}
	for _, r := range []*wire.Reply{whoami(id, key), whoami(sub, subKey)} {
		if r.Status != 200 {
			t.Errorf("when there are places again: %d %s", r.Status, r.Body)
		}
	}
}
