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

	"cloister/sim/client"
	"cloister/sim/rig"
)

var release = flag.String("release", "", "make the data directory of this release anew, in ../testdata/releases; see scripts/release-data.sh")

const releases = "../testdata/releases"

// A remembered organization is what a release left of one.
type remembered struct {
	ID        string
	Key       client.KeyPair
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
		Second                              client.KeyPair // whose vote is wanting
	}
	// Limited may sign with the root organization's first wallet and nothing else.
	Limited client.KeyPair
}

// then is a clock that was set back and runs as fast.
type then struct{ back time.Duration }

func (c then) Now() time.Time                         { return time.Now().Add(-c.back) }
func (c then) After(d time.Duration) <-chan time.Time { return time.After(d) }

// names asks for the names of something.
func names(u *client.User, op, rows, name string) []string {
	u.Test.Helper()
	m := u.Read(op, nil)
	list, ok := m[rows].([]any)
	if !ok {
		u.Test.Fatalf("%s: %v", op, m)
	}
	all := []string{}
	for _, x := range list {
		all = append(all, client.Text(x, name))
	}
	slices.Sort(all)
	return all
}

// remember reads what there is of an organization.
func remember(u *client.User) *remembered {
	u.Test.Helper()
	m := &remembered{ID: u.Organization, Key: u.Key, Accounts: map[string]string{}, Formats: map[string]string{}, Signed: map[string][]any{}, Keys: map[string]string{},
		Users: names(u, "list_users", "users", "userName"), UserTags: names(u, "list_user_tags", "userTags", "tagName"),
		Policies: names(u, "list_policies", "policies", "policyName")}
	for address, a := range addresses(u, nil) {
		m.Accounts[address], m.Formats[address], m.Signed[address] = a.publicKey, a.format, sign(u, address, a.format)
	}
	keys, _ := u.Read("list_private_keys", nil)["privateKeys"].([]any)
	for _, k := range keys {
		m.Keys[client.Text(k, "privateKeyId")] = client.Text(k, "publicKey")
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
		u := owner{m.ID, m.Key}.on(t, r)
		is := remember(u)
		is.Finished, is.Reference = m.Finished, finished(u, m.Finished)
		if !reflect.DeepEqual(is, m) {
			t.Errorf("%s is not what it was:\n%+v\n%+v", name, is, m)
		}
	}
	// What was pending is decided by the vote that was wanting.
	p := was.Pending
	second := owner{p.Organization, p.Second}.on(t, r)
	if got := second.Query("get_activity", object{"activityId": p.Activity}); got.Status != 200 || got.State() != "CONSENSUS_NEEDED" {
		t.Fatalf("the pending activity: %v", got)
	}
	second.Do("APPROVE_ACTIVITY", object{"fingerprint": p.Fingerprint})
	if got := second.Query("get_activity", object{"activityId": p.Activity}); !got.Completed() {
		t.Fatalf("the pending activity, approved: %v", got)
	}
	// Policies hold.
	root := was.Organizations["root"]
	limited := owner{root.ID, was.Limited}.on(t, r)
	if limited.Submit("CREATE_WALLET", client.Wallet("Not allowed", formats(0)...)).Completed() {
		t.Error("a user does what no policy allows")
	}
	for address, format := range root.Formats {
		sign(limited, address, format)
	}
	for name, n := range r.Counters() {
		if strings.HasPrefix(name, "alarm_") && n > 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}

// finished is the result of an activity, as text.
func finished(u *client.User, id string) string {
	u.Test.Helper()
	b, err := json.Marshal(client.Get(u.Read("get_activity", object{"activityId": id}), "activity", "result"))
	if err != nil {
		u.Test.Fatal(err)
	}
	return string(b)
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
	was := memory{Release: name, Organizations: map[string]*remembered{}, Limited: client.NewKey()}
	root := root(t, r)
	made := root.Submit("CREATE_WALLET", client.Wallet("First", append(formats(0), formats(1)...)...))
	if !made.Completed() {
		t.Fatal(made)
	}
	root.Do("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{object{"privateKeyName": "Key", "curve": "CURVE_SECP256K1",
		"privateKeyTags": []any{}, "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM"}}}})
	tag := root.Do("CREATE_USER_TAG", client.Tag("Signers"))["userTagId"]
	user := client.NewUser("Limited", was.Limited)
	user["userTags"] = []any{tag}
	root.Do("CREATE_USERS_V4", client.Users(user))
	root.Do("CREATE_POLICY_V3", client.Policy("Signers sign", "ALLOW", "activity.action == 'SIGN'", fmt.Sprintf("approvers.any(user, user.tags.contains('%s'))", tag)))
	for i := range 40 { // a history
		root.Do("SIGN_RAW_PAYLOAD_V2", words(client.Text(made.Result(), "addresses", "0"), strconv.Itoa(i)))
	}

	one, p := client.NewKey(), &was.Pending
	p.Second = client.NewKey()
	parameters := client.SubOrganization("Two hands", client.NewRootUser("One", one), client.NewRootUser("Two", p.Second))
	parameters["rootQuorumThreshold"], parameters["wallet"] = 2, client.Wallet("Joint", formats(0)...)
	p.Organization = client.Text(root.Do("CREATE_SUB_ORGANIZATION_V8", parameters), "subOrganizationId")
	asked := root.As(p.Organization, "", one).Submit("CREATE_WALLET", client.Wallet("Pending", formats(0)...))
	if asked.Status != 200 || asked.State() != "CONSENSUS_NEEDED" {
		t.Fatal(asked)
	}
	p.Activity, p.Fingerprint = asked.Text("activity", "id"), asked.Text("activity", "fingerprint")

	is := remember(root)
	is.Finished = made.Text("activity", "id")
	is.Reference = finished(root, is.Finished)
	was.Organizations["root"] = is
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
