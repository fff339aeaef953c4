package sweep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/enclave/core"
	"cloister/host/store/sqlite"
	"cloister/shared/clocktest"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// done is one submit with its answer.
type done struct {
	*client.Request
	by     *client.User
	id     string
	result any
}

// script is one run of the scenario.
type script struct {
	t     testing.TB
	f     *faults
	o     rig.Options
	r     *rig.Rig
	boots int
	fence atomic.Pointer[error]

	all     []done
	times   client.Times
	root    *client.User
	sub     *client.User
	deleted *client.User // the root user by a key that is deleted
	created []string     // activity ids of the root organization, oldest first
	wallets []string
	address []string
}

// Bounds of one wait. They end a test that hangs; nothing is measured by them.
const patience = 5 * time.Minute

// start boots until it succeeds: an enclave whose boot failed ends, and whoever
// watches over it starts the next.
func (s *script) start() {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		s.boots++
		var booted atomic.Bool
		s.o.Fence = func(reason error) {
			if booted.Load() {
				s.fence.Store(&reason)
			}
		}
		r, err := rig.Try(s.t, s.o)
		if err == nil {
			booted.Store(true)
			s.r, s.root = r, s.user(r.Credentials.OrganizationID, r.Credentials.RootUserID, r.Credentials.RootAPIKey)
			return
		}
		r.Kill()
		if time.Now().After(end) {
			s.t.Fatalf("no boot succeeds: %v", err)
		}
	}
}

// user is a user who sends as the scenario does.
func (s *script) user(organization, id string, key client.KeyPair) *client.User {
	return (&client.Client{Send: s.send, Times: &s.times, Organization: organization, User: id, Key: key}).In(s.t)
}

// send sends until there is an answer that is not "try again".
func (s *script) send(_ context.Context, q *client.Request) (reply client.Reply, err error) {
	for end := time.Now().Add(patience); ; time.Sleep(3 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		reply, err = client.Link(s.r.Link)(ctx, q)
		cancel()
		if reason := s.fence.Load(); reason != nil {
			return reply, fmt.Errorf("%s: fenced: %v", q.Op, *reason)
		}
		if err == nil && reply.Status < 500 {
			return reply, json.Unmarshal(reply.Body, new(client.Object))
		}
		if err == nil && reply.Status != 503 {
			return reply, fmt.Errorf("%s: %v", q.Op, reply)
		}
		if time.Now().After(end) {
			return reply, fmt.Errorf("%s: no answer: %v", q.Op, err)
		}
	}
}

// submit makes an activity that must succeed and remembers what was told.
func (s *script) submit(by *client.User, typ string, parameters any) client.Object {
	s.t.Helper()
	q, err := by.Activity(typ, parameters)
	if err != nil {
		s.t.Fatal(err)
	}
	d := done{Request: q, by: by}
	r := s.again(&d)
	s.all = append(s.all, d)
	if by.Organization == s.root.Organization {
		s.created = append(s.created, d.id)
	}
	return r.Result()
}

// again sends a body, for the first time or once more.
func (s *script) again(d *done) client.Reply {
	s.t.Helper()
	r := d.by.Post(d.Endpoint, d.Op, d.Body)
	if r.Status != 200 {
		s.t.Fatalf("%s: %v", d.Op, r)
	}
	id, result := r.Text("activity", "id"), r.Get("activity", "result")
	if d.id == "" {
		d.id, d.result = id, result
	}
	if d.id != id || !reflect.DeepEqual(d.result, result) {
		s.t.Fatalf("%s: one body, two activities: %s %v, %s %v", d.Op, d.id, d.result, id, result)
	}
	return r
}

func (s *script) sign(n int) {
	s.t.Helper()
	hash := []string{"KECCAK256", "NOT_APPLICABLE", "SHA256"}[n]
	r := s.submit(s.root, "SIGN_RAW_PAYLOAD_V2", client.Payload(s.address[n], fmt.Sprintf("%02x", n), hash))
	if r["s"] == nil {
		s.t.Fatalf("no signature: %v", r)
	}
}

// play is the scenario.
func (s *script) play() {
	s.t.Helper()
	s.start()
	r := s.submit(s.root, "CREATE_WALLET", client.Wallet("First", client.Ethereum))
	s.wallets = append(s.wallets, client.Text(r, "walletId"))
	s.address = append(s.address, client.Text(r, "addresses", "0"))
	r = s.submit(s.root, "CREATE_WALLET_ACCOUNTS", client.Object{"walletId": s.wallets[0], "accounts": []any{client.Solana, client.Account("P256", "m/1/2", "COMPRESSED")}})
	for i := range 2 {
		s.address = append(s.address, client.Text(r, "addresses", strconv.Itoa(i)))
	}
	for n := range 3 {
		s.sign(n)
	}
	s.again(&s.all[2]) // the first signature
	key := client.NewKey()
	r = s.submit(s.root, "CREATE_SUB_ORGANIZATION_V7", client.SubOrganization("Below", client.NewRootUser("Root", key)))
	s.sub = s.root.As(client.Text(r, "subOrganizationId"), "", key)
	s.submit(s.sub, "CREATE_WALLET", client.Wallet("Below"))
	s.deleted = s.root.As(s.root.Organization, s.root.User, client.NewKey())
	r = s.submit(s.root, "CREATE_API_KEYS_V2", client.Object{"userId": s.root.User, "apiKeys": []any{client.APIKey("key", s.deleted.Key)}})
	s.submit(s.deleted, "UPDATE_USER_NAME", client.Object{"userId": s.root.User, "userName": "Renamed"})
	s.submit(s.root, "DELETE_API_KEYS", client.Object{"userId": s.root.User, "apiKeyIds": r["apiKeyIds"]})
	s.listed()
	// Renewals come by the clock, snapshots beside the scenario.
	if s.f.at.name == "store own renew" || strings.HasSuffix(s.f.at.name, "put snapshot") && s.f.at.n == 1 {
		clocktest.Until(s.t, s.f.at.String()+" fails", s.f.hit)
	}
	s.stop()
	s.start()
	r = s.submit(s.root, "CREATE_WALLET", client.Wallet("Second"))
	s.wallets = append(s.wallets, client.Text(r, "walletId"))
	s.again(&s.all[0])
	s.sign(0)
}

// stop ends in good order. Giving the store back may be what fails: then the
// next boot waits for the lease to run out.
func (s *script) stop() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.alarms()
	if err := s.r.Enclave.Stop(ctx); err != nil && !s.f.hit() {
		s.t.Errorf("stopping: %v", err)
	}
	s.r.Kill()
}

// alarms fails when the enclave believes to have caught its host.
func (s *script) alarms() {
	s.t.Helper()
	for k, n := range s.r.Counters() {
		if len(k) > 6 && k[:6] == "alarm_" && n != 0 {
			s.t.Errorf("%s = %d", k, n)
		}
	}
	if reason := s.fence.Load(); reason != nil {
		s.t.Errorf("fenced: %v", *reason)
	}
}

// listed pages through the root organization's activities: every one that was
// acknowledged is there once, newest first, and nothing else.
func (s *script) listed() {
	s.t.Helper()
	var got []string
	for before := ""; ; {
		page := client.Object{"limit": "4"}
		if before != "" {
			page["before"] = before
		}
		as := s.root.Read("list_activities", client.Object{"paginationOptions": page})["activities"].([]any)
		for _, a := range as {
			before = client.Text(a, "id")
			got = append(got, before)
		}
		if len(as) < 4 {
			break
		}
	}
	slices.Reverse(got)
	if !slices.Equal(got, s.created) {
		s.t.Fatalf("activities listed, oldest first:\n%v\nacknowledged:\n%v", got, s.created)
	}
}

// judge holds everything that was acknowledged against what is there.
func (s *script) judge() {
	s.t.Helper()
	s.listed()
	for i := range s.all {
		d := &s.all[i]
		reader := s.root
		if d.by == s.sub {
			reader = s.sub
		}
		r := reader.Query("get_activity", client.Object{"activityId": d.id})
		if !r.Completed() || !reflect.DeepEqual(r.Get("activity", "result"), d.result) {
			s.t.Errorf("%s: acknowledged and not there: %v", d.Op, r)
		}
		if d.by == s.deleted {
			continue // deleted since
		}
		s.again(d)
	}
	if r := s.deleted.Query("whoami", nil); r.Status != 401 {
		s.t.Errorf("a deleted key is let in: %v", r)
	}
	if r := s.root.Query("whoami", nil); r.Text("username") != "Renamed" {
		s.t.Errorf("root user: %v", r)
	}
	s.same("list_wallets", "wallets", "walletId", s.wallets)
	s.same("list_wallet_accounts", "accounts", "address", s.address)
	if r := s.sub.Query("list_wallets", nil); r.Status != 200 || len(r.Get("wallets").([]any)) != 1 {
		s.t.Errorf("wallets of the sub-organization: %v", r)
	}
	s.listed()                                        // the repeats made nothing
	s.ledger(s.root.Organization, 1+len(s.created)+1) // and the first stamp of the sub-organization's key, which is noted here
	s.ledger(s.sub.Organization, 2)
	s.alarms()
}

// same compares a list of the root organization with what was acknowledged.
func (s *script) same(op, list, field string, want []string) {
	s.t.Helper()
	var got []string
	for _, x := range s.root.Read(op, nil)[list].([]any) {
		got = append(got, client.Text(x, field))
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: %v, acknowledged %v", op, got, want)
	}
}

// ledger counts the entries of an organization in the store.
func (s *script) ledger(organization string, want int) {
	s.t.Helper()
	got, err := s.o.Store.LoadOrganization(s.t.Context(), wire.LoadOrganization{Organization: parseID(s.t, organization), MaxBytes: 4 << 20})
	if err != nil || int(got.Count) != want {
		s.t.Errorf("ledger of %s: %d entries, want %d (%v)", organization, got.Count, want, err)
	}
}

// root keeps the root secret in memory.
type root struct{ q core.Secret }

func (*root) Source() string { return attestation.SeedDevelopmentFile }

func (r *root) Keep(q core.Secret) error {
	r.q = q.Clone()
	return nil
}

func (r *root) Recover() (core.Secret, error) {
	if r.q.Len() == 0 {
		return r.q, core.ErrNoRootSecret
	}
	return r.q.Clone(), nil
}

// runScript plays the scenario with one call failing, and judges.
func runScript(t testing.TB, at point) *script {
	dir := t.TempDir()
	real, err := sqlite.Open(t.Context(), filepath.Join(dir, "cloister.db"))
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, f: &faults{at: at, calls: map[string]int{}}}
	s.o = rig.Options{Dir: dir, Store: &faultyStore{real, s.f}, Root: new(root), Limits: core.Limits{Lease: lease, SnapshotEvery: 4},
		Between: func(address string) string { return s.f.between(t, address) }}
	t.Cleanup(func() {
		if s.r != nil {
			s.r.Kill()
		}
		_ = real.Close()
	})
	s.play()
	s.f.stop()
	s.judge()
	s.r.Kill()
	return s
}
