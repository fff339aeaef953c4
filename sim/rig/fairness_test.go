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
	"cloister/sim/client"
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
	f := familyIn(w, c, o)
	others := f.Others()
	if len(others) != 1 {
		t.Fatalf("%d other tenants", len(others))
	}
	var refused atomic.Int64
	var all sync.WaitGroup
	for n := range subs {
		sub := f.Root().NewSubOrganization(fmt.Sprint("Sub ", n))
		for m := range each {
			issuer := fmt.Sprintf("https://silent-%d-%d.example", n, m)
			token := f.idp.token(f.idp.claims(c.Now(), "me", "web", "iss", issuer))
			all.Go(func() {
				user := client.NewUser("User")
				user["oauthProviders"] = []any{object{"providerName": "p", "oidcToken": token}}
				got := sub.Submit("CREATE_USERS_V4", client.Users(user))
				if got.Status == 200 {
					t.Errorf("an issuer that never answered: %v", got)
				}
				if strings.Contains(got.String(), "too many issuers are being asked") {
					refused.Add(1)
				}
			})
		}
	}
	clocktest.Until(t, "every request has begun or was refused", func() bool { return begun.Load()+refused.Load() >= subs*each })
	got := others[0].Submit("CREATE_SUB_ORGANIZATION_V8", f.family("log-in", f.idp.token(f.idp.claims(c.Now(), "me", "web"))))
	wants(t, "another tenant's provider", got, 200, "")
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
func startStalled(t *testing.T) (s *stalled, r *rig.Rig, root, sub, another *client.User) {
	s = new(stalled)
	var err error
	if s.Store, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "cloister.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Store.Close() })
	r = rig.Start(t, rig.Options{Store: s, Organizations: 1})
	root = r.Root()
	others := r.Others()
	if len(others) != 1 {
		t.Fatalf("%d other tenants", len(others))
	}
	return s, r, root, root.NewSubOrganization("Sub"), others[0]
}

// Replies wait for a store that takes its time. What they hold in the enclave is
// bounded for each tenant, whichever of its organizations asks; what is small passes,
// and so does what another tenant asks for.
func TestRepliesAreBounded(t *testing.T) {
	const share = 256 << 20 / 9 // an eighth of what is left
	s, r, root, sub, another := startStalled(t)
	filled := func(u *client.User) int64 {
		var all []any
		for n := range 100 {
			condition := "activity.type in [" + strings.Repeat("'ACTIVITY_TYPE_CREATE_WALLET', ", 100) + "'x']"
			all = append(all, client.Policy(fmt.Sprint("policy ", n), "DENY", condition, "true"))
		}
		for len(all) > 0 {
			u.Do("CREATE_POLICIES", object{"policies": all[:20]})
			all = all[20:]
		}
		list := u.Query("list_policies", nil)
		if list.Status != 200 {
			t.Fatalf("%s", list.Body)
		}
		return int64(len(list.Body))
	}
	size := filled(root)
	filled(sub)
	filled(another)

	s.gate.Lock()
	var waiting sync.WaitGroup
	waiting.Go(func() { wants(t, "a tag", root.Submit("CREATE_USER_TAG", client.Tag("tag")), 200, "") })
	held := func(what string, name string, least int64) (n int64) {
		clocktest.Until(t, what, func() bool {
			n = int64(r.Counters()[name])
			return n >= least
		})
		return n
	}
	held("something is decided", "unstored_bytes", 1)
	asked := share / size
	for n := range asked { // each made before the next: one in the making takes more
		waiting.Go(func() {
			if got := root.Query("list_policies", nil); got.Status != 200 {
				t.Errorf("a list that waited: %d", got.Status)
			}
		})
		if n := held("the lists wait", "reply_bytes", size*(n+1)); n > share {
			t.Errorf("replies hold %d bytes, want at most %d", n, share)
		}
	}
	if got := sub.Query("list_policies", nil); got.Status != 429 || !strings.Contains(string(got.Body), "REPLY_BYTES_EXCEEDED") {
		t.Errorf("one more list, of the same tenant: %d, %d bytes", got.Status, len(got.Body))
	}
	wants(t, "what is small", sub.Query("whoami", nil), 200, "")
	if got := another.Query("list_policies", nil); got.Status != 200 {
		t.Errorf("another tenant's list: %d", got.Status)
	}
	s.gate.Unlock()
	waiting.Wait()
	t.Logf("%d lists of %d bytes", asked, size)
	clocktest.Until(t, "no bytes are held of replies that were written", func() bool { return r.Counters()["reply_bytes"] == 0 })
	if got := sub.Query("list_policies", nil); got.Status != 200 {
		t.Errorf("a list when there is room again: %d", got.Status)
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
	s, r, root, sub, another := startStalled(t)
	whoami := func(u *client.User) client.Reply {
		return u.Post(wire.EndpointQuery, "whoami", fmt.Appendf(nil, `{"organizationId":%q%*s}`, u.Organization, size, ""))
	}

	s.gate.Lock()
	open := sync.OnceFunc(s.gate.Unlock)
	defer open()
	var waiting sync.WaitGroup
	decides := func(u *client.User) {
		before := r.Counters()["unstored_bytes"]
		waiting.Go(func() { wants(t, "a tag", u.Submit("CREATE_USER_TAG", client.Tag("tag")), 200, "") })
		clocktest.Until(t, "something is decided", func() bool { return r.Counters()["unstored_bytes"] > before })
	}
	taken := uint64(2)
	fill := func(what string, u *client.User) {
		var refused atomic.Int64
		for range share + 20 {
			waiting.Go(func() {
				switch got := whoami(u); {
				case got.Status == 429 && strings.Contains(string(got.Body), "REQUESTS_EXCEEDED"):
					refused.Add(1)
				case got.Status != 200:
					t.Errorf("%s: %v", what, got)
				}
			})
		}
		clocktest.Until(t, "all others wait", func() bool {
			return refused.Load() > 0 && r.Counters()["calls_under_way"] == taken+each*uint64(share+20-refused.Load())
		})
		if n := share + 20 - refused.Load(); n > share || n < share-20 {
			t.Errorf("%s: %d wait, want about %d", what, n, share)
		}
		taken = r.Counters()["calls_under_way"]
	}
	decides(root)
	decides(sub)
	fill("own users", root)
	fill("sub-organizations", sub)
	wants(t, "another tenant", whoami(another), 200, "")
	open()
	waiting.Wait()
	if n := r.Counters()["calls_under_way"]; n != 0 {
		t.Errorf("%d places are held when nothing is under way", n)
	}
	wants(t, "when there are places again", whoami(root), 200, "")
	wants(t, "when there are places again, below", whoami(sub), 200, "")
}
