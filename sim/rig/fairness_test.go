package rig_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloister/sim/rig"
)

// One tenant, through sixteen sub-organizations, has the enclave ask issuers that
// never answer. It gets an eighth of the places whichever way it asks, and another
// tenant's provider is asked at once.
func TestSilentIssuersAreTheirTenantsAlone(t *testing.T) {
	const subs, each, share = 16, 4, 7
	w, c := newWorldOutside(t), new(clock)
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
	f := &family{asker: asker{t, rig.Start(t, o)}, w: w, c: c}
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
	for end := time.Now().Add(20 * time.Second); begun.Load()+refused.Load() < subs*each && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
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
