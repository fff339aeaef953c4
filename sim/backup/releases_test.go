package backup_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

var release = flag.String("release", "", "make the data directory of this release anew, in ../testdata/releases; see scripts/release-data.sh")

const releases = "../testdata/releases"

// A remembered organization is what a release left of one.
type remembered struct {
	ID        string
	Key       laptop.KeyPair
	Accounts  map[string]string // address to public key
	Formats   map[string]string // address to its format
	Signed    map[string][]any  // address to signatures of the campaign's payloads
	Keys      map[string]string // private key id to public key
	Users     []string
	UserTags  []string
	Policies  []string
	Finished  string // a finished activity
	Reference string // its result, as text
}

// A memory is expected.json of a release's directory.
type memory struct {
	Release       string
	Now           time.Time // when the release was done with it
	Organizations map[string]*remembered
	Pending       struct {
		Organization, Activity, Fingerprint string
		Second                              laptop.KeyPair // whose vote is wanting
	}
	// Limited may sign with the root organization's first wallet and nothing else.
	Limited laptop.KeyPair
}

// then is a clock that was set back and runs as fast.
type then struct{ back time.Duration }

func (c then) Now() time.Time                         { return time.Now().Add(-c.back) }
func (c then) After(d time.Duration) <-chan time.Time { return time.After(d) }

// names asks for the names of something.
func names(t *testing.T, r *rig.Rig, o owner, op, rows, name string) []string {
	t.Helper()
	m, err := query(r, o, op, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	list, ok := m[rows].([]any)
	if !ok {
		t.Fatalf("%s: %v", op, m)
	}
	all := []string{}
	for _, x := range list {
		all = append(all, rig.Text(x, name))
	}
	slices.Sort(all)
	return all
}

// remember reads what there is of an organization.
func remember(t *testing.T, r *rig.Rig, o owner, signatures bool) *remembered {
	t.Helper()
	m := &remembered{ID: o.id, Key: o.key, Accounts: map[string]string{}, Formats: map[string]string{}, Signed: map[string][]any{}, Keys: map[string]string{},
		Users: names(t, r, o, "list_users", "users", "userName"), UserTags: names(t, r, o, "list_user_tags", "userTags", "tagName"),
		Policies: names(t, r, o, "list_policies", "policies", "policyName")}
	all, err := addresses(r, o, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	for address, a := range all {
		m.Accounts[address], m.Formats[address] = a.publicKey, a.format
		if signatures {
			if m.Signed[address], err = sign(r, address, account{o, a.publicKey, a.format}); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := query(r, o, "list_private_keys", map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	keys, _ := got["privateKeys"].([]any)
	for _, k := range keys {
		m.Keys[rig.Text(k, "privateKeyId")] = rig.Text(k, "publicKey")
	}
	return m
}

// TestReleases opens a copy of the data directory that each release left, as that
// release's operator would after an update.
func TestReleases(t *testing.T) {
	if *release != "" {
		makeRelease(t, *release)
	}
	dirs, err := filepath.Glob(filepath.Join(releases, "*", "expected.json"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no release has left anything", err)
	}
	for _, file := range dirs {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) { openRelease(t, filepath.Dir(file)) })
	}
}

func openRelease(t *testing.T, from string) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"enclave", "enclave/seed", "enclave/passphrase", "enclave/module-root"} {
		if err := os.Chmod(filepath.Join(dir, secret), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var was memory
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err == nil {
		err = json.Unmarshal(b, &was)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := rig.Start(t, rig.Options{Dir: dir, Clock: then{time.Since(was.Now.Add(time.Minute))}})
	for name, m := range was.Organizations {
		o := owner{m.ID, m.Key}
		is := remember(t, r, o, true)
		is.Finished, is.Reference = m.Finished, finished(t, r, o, m.Finished)
		if !reflect.DeepEqual(is, m) {
			t.Errorf("%s is not what it was:\n%+v\n%+v", name, is, m)
		}
	}
	// What was pending is decided by the vote that was wanting.
	p := was.Pending
	second := owner{p.Organization, p.Second}
	if m, err := query(r, second, "get_activity", map[string]any{"activityId": p.Activity}); err != nil || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
		t.Fatalf("the pending activity: %v, %v", m, err)
	}
	if _, err := submit(r, second, "approve_activity", "APPROVE_ACTIVITY", map[string]any{"fingerprint": p.Fingerprint}); err != nil {
		t.Fatal(err)
	}
	m, err := query(r, second, "get_activity", map[string]any{"activityId": p.Activity})
	if err != nil || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_COMPLETED" {
		t.Fatalf("the pending activity, approved: %v, %v", m, err)
	}
	// Policies hold.
	root := was.Organizations["root"]
	limited := owner{root.ID, was.Limited}
	if _, err := submit(r, limited, "create_wallet", "CREATE_WALLET", map[string]any{"walletName": "Not allowed", "accounts": formats(0)}); err == nil {
		t.Error("a user does what no policy allows")
	}
	for address, format := range root.Formats {
		if _, err := sign(r, address, account{limited, "", format}); err != nil {
			t.Errorf("a user may not sign with %s any more: %v", address, err)
		}
	}
	for name, n := range r.Counters() {
		if strings.HasPrefix(name, "alarm_") && n > 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}

// finished is the result of an activity, as text.
func finished(t *testing.T, r *rig.Rig, o owner, id string) string {
	t.Helper()
	m, err := query(r, o, "get_activity", map[string]any{"activityId": id})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(rig.Get(m, "activity", "result"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func apiKeyUser(name string, k laptop.KeyPair) map[string]any {
	return map[string]any{"userName": name, "apiKeys": []any{map[string]any{"apiKeyName": name, "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}},
		"authenticators": []any{}, "oauthProviders": []any{}}
}

// makeRelease leaves what this release makes.
func makeRelease(t *testing.T, name string) {
	to := filepath.Join(releases, name)
	if err := os.MkdirAll(releases, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Fatalf("%s is there: what a release has left is not made again", to)
	}
	dir := t.TempDir()
	r := rig.Start(t, rig.Options{Dir: dir})
	must := func(o owner, op, typ string, parameters any) map[string]any {
		t.Helper()
		a, err := submit(r, o, op, typ, parameters)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	key := func() laptop.KeyPair {
		k, err := laptop.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	was := memory{Release: name, Organizations: map[string]*remembered{}, Limited: key()}
	root := owner{r.Credentials.OrganizationID, r.Credentials.RootAPIKey}
	made := must(root, "create_wallet", "CREATE_WALLET", map[string]any{"walletName": "First", "accounts": append(formats(0), formats(1)...)})
	must(root, "create_private_keys", "CREATE_PRIVATE_KEYS_V2", map[string]any{"privateKeys": []any{map[string]any{"privateKeyName": "Key", "curve": "CURVE_SECP256K1",
		"privateKeyTags": []any{}, "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}}}})
	tag := rig.Text(must(root, "create_user_tag", "CREATE_USER_TAG", map[string]any{"userTagName": "Signers", "userIds": []any{}}), "result", "createUserTagResult", "userTagId")
	user := apiKeyUser("Limited", was.Limited)
	user["userTags"] = []any{tag}
	must(root, "create_users", "CREATE_USERS_V4", map[string]any{"users": []any{user}})
	must(root, "create_policy", "CREATE_POLICY_V3", map[string]any{"policyName": "Signers sign", "effect": "EFFECT_ALLOW",
		"consensus": fmt.Sprintf("approvers.any(user, user.tags.contains('%s'))", tag), "condition": "activity.action == 'SIGN'", "notes": ""})
	for i := range 40 { // a history
		must(root, "sign_raw_payload", "SIGN_RAW_PAYLOAD_V2", map[string]any{"signWith": rig.Text(made, "result", "createWalletResult", "addresses", "0"), "payload": strconv.Itoa(i),
			"encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_KECCAK256"})
	}

	sub := owner{key: key()}
	was.Pending.Second = key()
	a := must(root, "create_sub_organization", "CREATE_SUB_ORGANIZATION_V8", map[string]any{"subOrganizationName": "Two hands", "rootQuorumThreshold": 2,
		"rootUsers": []any{apiKeyUser("One", sub.key), apiKeyUser("Two", was.Pending.Second)},
		"wallet":    map[string]any{"walletName": "Joint", "accounts": formats(0)}})
	sub.id = rig.Text(a, "result", "createSubOrganizationResultV8", "subOrganizationId")
	m, err := call(r, wire.EndpointSubmit, "create_wallet", r.BodyOf(sub.id, "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "Pending", "accounts": formats(0)}), sub)
	if err != nil || rig.Text(m, "activity", "status") != "ACTIVITY_STATUS_CONSENSUS_NEEDED" {
		t.Fatal(m, err)
	}
	was.Pending.Organization, was.Pending.Activity, was.Pending.Fingerprint = sub.id, rig.Text(m, "activity", "id"), rig.Text(m, "activity", "fingerprint")

	was.Organizations["root"] = remember(t, r, root, true)
	was.Organizations["root"].Finished = rig.Text(made, "id")
	was.Organizations["root"].Reference = finished(t, r, root, rig.Text(made, "id"))
	r.Stop()
	was.Now = time.Now().UTC()
	b, err := json.MarshalIndent(&was, "", "\t")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "expected.json"), append(b, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cloister.db-wal", "cloister.db-shm", "credentials.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	var sizes = map[string]int64{}
	total := int64(0)
	err = filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			i, e := d.Info()
			if e != nil {
				return e
			}
			sizes[path] = i.Size()
			total += i.Size()
		}
		return err
	})
	if err != nil || total > 400<<10 {
		t.Fatalf("%d bytes in %v, %v", total, slices.Sorted(maps.Keys(sizes)), err)
	}
	t.Logf("%d bytes in %v", total, sizes)
}
