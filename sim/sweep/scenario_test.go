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
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// done is one submit with its answer.
type done struct {
	op, organization string
	body             []byte
	key              laptop.KeyPair
	id               string
	result           any
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
	stampMs int64
	created []string // activity ids of the root organization, oldest first
	wallets []string
	sub     string
	subKey  laptop.KeyPair
	keyID   string
	key     laptop.KeyPair
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
			s.r = r
			return
		}
		r.Kill()
		if time.Now().After(end) {
			s.t.Fatalf("no boot succeeds: %v", err)
		}
	}
}

// ask sends until there is an answer that is not "try again".
func (s *script) ask(endpoint wire.Endpoint, op string, body []byte, key laptop.KeyPair) (int, map[string]any) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(3 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		reply, err := s.r.Send(ctx, endpoint, op, body, key)
		cancel()
		if reason := s.fence.Load(); reason != nil {
			s.t.Fatalf("%s: fenced: %v", op, *reason)
		}
		if err == nil && reply.Status < 500 {
			var m map[string]any
			if err := json.Unmarshal(reply.Body, &m); err != nil {
				s.t.Fatalf("%s: %v", op, err)
			}
			return int(reply.Status), m
		}
		if err == nil && reply.Status != 503 {
			s.t.Fatalf("%s: %d %s", op, reply.Status, reply.Body)
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: no answer: %v", op, err)
		}
	}
}

// submit makes an activity that must succeed and remembers what was told.
func (s *script) submit(organization string, key laptop.KeyPair, op, typ string, parameters any) map[string]any {
	s.t.Helper()
	s.stampMs++
	body, err := json.Marshal(map[string]any{"type": typ, "timestampMs": strconv.FormatInt(s.stampMs, 10), "organizationId": organization, "parameters": parameters})
	if err != nil {
		s.t.Fatal(err)
	}
	d := done{op: op, organization: organization, body: body, key: key}
	m := s.again(&d)
	s.all = append(s.all, d)
	if organization == s.r.Credentials.OrganizationID {
		s.created = append(s.created, d.id)
	}
	return m["activity"].(map[string]any)["result"].(map[string]any)
}

// again sends a body, for the first time or once more.
func (s *script) again(d *done) map[string]any {
	s.t.Helper()
	status, m := s.ask(wire.EndpointSubmit, d.op, d.body, d.key)
	if status != 200 {
		s.t.Fatalf("%s: %d %v", d.op, status, m)
	}
	id, result := rig.Text(m, "activity", "id"), rig.Get(m, "activity", "result")
	if d.id == "" {
		d.id, d.result = id, result
	}
	if d.id != id || !reflect.DeepEqual(d.result, result) {
		s.t.Fatalf("%s: one body, two activities: %s %v, %s %v", d.op, d.id, d.result, id, result)
	}
	return m
}

func (s *script) query(organization string, key laptop.KeyPair, op string, request map[string]any) (int, map[string]any) {
	s.t.Helper()
	request["organizationId"] = organization
	body, err := json.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.ask(wire.EndpointQuery, op, body, key)
}

// root is a submit of the root organization.
func (s *script) root(op, typ string, parameters any) map[string]any {
	s.t.Helper()
	return s.submit(s.r.Credentials.OrganizationID, s.r.Credentials.RootAPIKey, op, typ, parameters)
}

func account(curve, path, format string) map[string]any {
	return map[string]any{"curve": "CURVE_" + curve, "pathFormat": "PATH_FORMAT_BIP32", "path": path, "addressFormat": "ADDRESS_FORMAT_" + format}
}

func (s *script) sign(n int) {
	s.t.Helper()
	curves := []string{"HASH_FUNCTION_KECCAK256", "HASH_FUNCTION_NOT_APPLICABLE", "HASH_FUNCTION_SHA256"}
	r := s.root("sign_raw_payload", "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", map[string]any{"signWith": s.address[n], "payload": fmt.Sprintf("%02x", n),
		"encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": curves[n]})
	if rig.Get(r, "signRawPayloadResult", "s") == nil {
		s.t.Fatalf("no signature: %v", r)
	}
}

func (s *script) apiKey() (laptop.KeyPair, map[string]any) {
	k, err := laptop.NewKey()
	if err != nil {
		s.t.Fatal(err)
	}
	return k, map[string]any{"apiKeyName": "key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}
}

// play is the scenario.
func (s *script) play() {
	s.t.Helper()
	s.start()
	c := s.r.Credentials
	r := s.root("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "First", "accounts": []any{account("SECP256K1", "m/44'/60'/0'/0/0", "ETHEREUM")}})
	s.wallets = append(s.wallets, rig.Text(r, "createWalletResult", "walletId"))
	s.address = append(s.address, rig.Text(r, "createWalletResult", "addresses", "0"))
	r = s.root("create_wallet_accounts", "ACTIVITY_TYPE_CREATE_WALLET_ACCOUNTS", map[string]any{"walletId": s.wallets[0],
		"accounts": []any{account("ED25519", "m/44'/501'/0'/0'", "SOLANA"), account("P256", "m/1/2", "COMPRESSED")}})
	for i := range 2 {
		s.address = append(s.address, rig.Text(r, "createWalletAccountsResult", "addresses", strconv.Itoa(i)))
	}
	for n := range 3 {
		s.sign(n)
	}
	s.again(&s.all[2]) // the first signature
	var p map[string]any
	s.subKey, p = s.apiKey()
	r = s.root("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", map[string]any{"subOrganizationName": "Below", "rootQuorumThreshold": 1,
		"rootUsers": []any{map[string]any{"userName": "Root", "authenticators": []any{}, "oauthProviders": []any{}, "apiKeys": []any{p}}}})
	s.sub = rig.Text(r, "createSubOrganizationResultV7", "subOrganizationId")
	s.submit(s.sub, s.subKey, "create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "Below", "accounts": []any{}})
	s.key, p = s.apiKey()
	r = s.root("create_api_keys", "ACTIVITY_TYPE_CREATE_API_KEYS_V2", map[string]any{"userId": c.RootUserID, "apiKeys": []any{p}})
	s.keyID = rig.Text(r, "createApiKeysResult", "apiKeyIds", "0")
	s.submit(c.OrganizationID, s.key, "update_user_name", "ACTIVITY_TYPE_UPDATE_USER_NAME", map[string]any{"userId": c.RootUserID, "userName": "Renamed"})
	s.root("delete_api_keys", "ACTIVITY_TYPE_DELETE_API_KEYS", map[string]any{"userId": c.RootUserID, "apiKeyIds": []string{s.keyID}})
	s.listed()
	// Renewals come by the clock, snapshots beside the scenario.
	if s.f.at.name == "store own renew" || strings.HasSuffix(s.f.at.name, "put snapshot") && s.f.at.n == 1 {
		clocktest.Until(s.t, s.f.at.String()+" fails", s.f.hit)
	}
	s.stop()
	s.start()
	r = s.root("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "Second", "accounts": []any{}})
	s.wallets = append(s.wallets, rig.Text(r, "createWalletResult", "walletId"))
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
	c := s.r.Credentials
	var got []string
	for after := ""; ; {
		page := map[string]any{"limit": "4"}
		if after != "" {
			page["after"] = after
		}
		status, m := s.query(c.OrganizationID, c.RootAPIKey, "list_activities", map[string]any{"paginationOptions": page})
		if status != 200 {
			s.t.Fatalf("list_activities: %d %v", status, m)
		}
		as := m["activities"].([]any)
		for _, a := range as {
			after = rig.Text(a, "id")
			got = append(got, after)
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
	c := s.r.Credentials
	s.listed()
	for i := range s.all {
		d := &s.all[i]
		key := c.RootAPIKey
		if d.organization == s.sub {
			key = s.subKey
		}
		status, m := s.query(d.organization, key, "get_activity", map[string]any{"activityId": d.id})
		if status != 200 || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" || !reflect.DeepEqual(rig.Get(m, "activity", "result"), d.result) {
			s.t.Errorf("%s: acknowledged and not there: %d %v", d.op, status, m)
		}
		if d.key == s.key {
			continue // deleted since
		}
		s.again(d)
	}
	if status, m := s.query(c.OrganizationID, s.key, "whoami", map[string]any{}); status != 401 {
		s.t.Errorf("a deleted key is let in: %d %v", status, m)
	}
	if _, m := s.query(c.OrganizationID, c.RootAPIKey, "whoami", map[string]any{}); rig.Text(m, "username") != "Renamed" {
		s.t.Errorf("root user: %v", m)
	}
	s.same("list_wallets", c.OrganizationID, c.RootAPIKey, "wallets", "walletId", s.wallets)
	s.same("list_wallet_accounts", c.OrganizationID, c.RootAPIKey, "accounts", "address", s.address)
	status, m := s.query(s.sub, s.subKey, "list_wallets", map[string]any{})
	if status != 200 || len(m["wallets"].([]any)) != 1 {
		s.t.Errorf("wallets of the sub-organization: %d %v", status, m)
	}
	s.listed()                                     // the repeats made nothing
	s.ledger(c.OrganizationID, 1+len(s.created)+1) // and the first stamp of the sub-organization's key, which is noted here
	s.ledger(s.sub, 2)
	s.alarms()
}

// same compares a list with what was acknowledged.
func (s *script) same(op, organization string, key laptop.KeyPair, list, field string, want []string) {
	s.t.Helper()
	status, m := s.query(organization, key, op, map[string]any{})
	if status != 200 {
		s.t.Fatalf("%s: %d %v", op, status, m)
	}
	var got []string
	for _, x := range m[list].([]any) {
		got = append(got, rig.Text(x, field))
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
	s := &script{t: t, f: &faults{at: at, calls: map[string]int{}}, stampMs: time.Now().UnixMilli()}
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
