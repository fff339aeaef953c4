package hostile_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/hostile"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// Bounds of one wait. They end a test that hangs; nothing is measured by them.
const patience = 5 * time.Minute

const (
	organizations = 10
	snapshotEvery = 4
	lease         = 100 * time.Millisecond
)

var account = map[string]any{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}

// A victim is an organization with a history: entries 0 to 10, snapshots that
// cover 4 and 8 of them, and one more entry that an earlier boot made and the
// host has hidden since.
type victim struct {
	id, user, name  string
	wallet, address string
	wid             wire.ID
	key             laptop.KeyPair
	activities      []string // by seq - 1
	body            []byte   // of the last activity
	early, old      wire.Organization
	puts            []wire.PutSnapshot
	hidden          []byte // the sealed entry 11 of an earlier boot
	hiddenActivity  string
}

// A ground is a data directory from which fields are copied, with what the host
// has kept beside it.
type ground struct {
	dir     string // cloister.db as it stands, before.db as it stood at entry 8
	victims []*victim
	common  laptop.KeyPair // an API key in every organization
	root    rootSecret
	foreign struct { // another deployment under the same root secret
		organization     wire.Organization
		keyring, genesis []byte
	}
}

// rootSecret keeps the root secret of a ground in memory: the simulator's way to
// it, through a passphrase, takes half of a boot, and there are many boots here.
type rootSecret struct {
	laptop.SeedFile
	mu sync.Mutex
	q  core.Secret
}

func (s *rootSecret) Recover() (core.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.q.Len() == 0 {
		return s.q, core.ErrNoRootSecret
	}
	return s.q.Clone(), nil
}

func (s *rootSecret) Keep(q core.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q = q.Clone()
	return nil
}

// scratch is where grounds lie; TestMain removes it.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "hostile-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newGround builds a ground with the enclave itself, over three boots.
func newGround(t testing.TB) *ground {
	g := &ground{dir: must(os.MkdirTemp(scratch, "ground-")), common: must(laptop.NewKey())}
	ctx := t.Context()
	quick := core.Limits{SnapshotEvery: snapshotEvery, Lease: lease}
	f := &field{t: t, g: g, dir: g.dir}
	f.boot(quick, organizations)
	var rows []laptop.Organization
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(g.dir, "organizations.json"))), &rows); err != nil {
		t.Fatal(err)
	}
	for _, o := range rows {
		wid := must(hex.DecodeString(strings.ReplaceAll(o.OrganizationID, "-", "")))
		g.victims = append(g.victims, &victim{id: o.OrganizationID, user: o.RootUserID, key: o.RootAPIKey, wid: wire.ID(wid)})
	}
	f.victims = g.victims
	f.each(func(v *victim) {
		f.mustSubmit(v, "create_api_keys", map[string]any{"userId": v.user, "apiKeys": []any{map[string]any{"apiKeyName": "Common", "publicKey": g.common.PublicKey}}})
		m := f.mustSubmit(v, "create_wallet", map[string]any{"walletName": "First", "accounts": []any{account}})
		v.wallet = rig.Text(m, "activity", "result", "createWalletResult", "walletId")
		v.address = rig.Text(m, "activity", "result", "createWalletResult", "addresses", "0")
		f.rename(v, "Name 003")
		v.early = f.snapshotAt(v, 4)
		for _, n := range []string{"Name 004", "Name 005", "Name 006", "Name 007"} {
			f.rename(v, n)
		}
		v.old = f.snapshotAt(v, 8)
		v.puts = f.store.Snapshots(v.wid)
		if len(v.puts) != 2 || v.early.Count != 4 || v.old.Count != 8 || len(v.old.Entries) != 0 {
			t.Errorf("a history of another shape: %d snapshots, %d and %d entries", len(v.puts), v.early.Count, v.old.Count)
		}
	})
	f.stop()
	file := filepath.Join(g.dir, "cloister.db")
	copyFile(t, file, filepath.Join(g.dir, "before.db"))
	f.boot(core.Limits{SnapshotEvery: 1000, Lease: lease}, 0)
	f.each(func(v *victim) {
		for range 3 {
			f.mustSubmit(v, "create_wallet", map[string]any{"walletName": fmt.Sprint("Late ", len(v.activities)), "accounts": []any{account}})
		}
		v.name = "Name 007"
	})
	f.stop()
	base := filepath.Join(g.dir, "base.db")
	copyFile(t, file, base)
	f.boot(core.Limits{SnapshotEvery: 1000, Lease: lease}, 0)
	f.each(func(v *victim) {
		c := *v
		m := f.mustSubmit(&c, "update_user_name", map[string]any{"userId": v.user, "userName": "Hidden 1"})
		v.hiddenActivity = rig.Text(m, "activity", "id")
		v.hidden = must(f.store.Store.LoadEntries(ctx, wire.LoadEntries{Organization: v.wid, From: 11, MaxBytes: 1 << 20})).Entries[0]
	})
	f.stop()
	if err := os.Rename(base, file); err != nil {
		t.Fatal(err)
	}
	g.makeForeign(t)
	return g
}

// makeForeign makes another deployment under the same root secret: the host has
// withheld the genesis record, so the enclave made a new one.
func (g *ground) makeForeign(t testing.TB) {
	dir := must(os.MkdirTemp(scratch, "foreign-"))
	copyDir(t, filepath.Join(g.dir, "enclave"), filepath.Join(dir, "enclave"))
	f := &field{t: t, g: g, dir: dir}
	f.boot(core.Limits{Lease: lease}, 1)
	id := must(hex.DecodeString(strings.ReplaceAll(f.rig.Credentials.OrganizationID, "-", "")))
	g.foreign.organization = must(f.store.Store.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: wire.ID(id), MaxBytes: 1 << 20}))
	g.foreign.keyring = must(f.store.Store.LoadObject(t.Context(), wire.LoadObject{Name: "keyring/", Newest: true})).Bytes
	g.foreign.genesis = must(f.store.Store.LoadObject(t.Context(), wire.LoadObject{Name: "genesis"})).Bytes
	f.stop()
}

// A field is one enclave and its hostile host.
type field struct {
	t          testing.TB
	g          *ground
	dir        string
	limits     core.Limits
	victims    []*victim
	rig        *rig.Rig
	honest     store.Store
	before     store.Store // the whole store as it was at entry 8
	store      *hostile.Store
	proxy      *hostile.Proxy
	boots      int
	earlierKey string // of a boot before this one
}

// newField copies a ground and boots an enclave on it.
func newField(t testing.TB, g *ground, limits core.Limits) *field {
	f := &field{t: t, g: g, dir: t.TempDir()}
	copyDir(t, g.dir, f.dir)
	for _, v := range g.victims {
		c := *v
		c.activities = append([]string(nil), v.activities...)
		f.victims = append(f.victims, &c)
	}
	f.before = must(sqlite.Open(t.Context(), filepath.Join(f.dir, "before.db")))
	t.Cleanup(func() { _ = f.before.Close() })
	f.boot(limits, 0)
	return f
}

// open opens the store, unless it is.
func (f *field) open() {
	if f.honest != nil {
		return
	}
	f.honest = must(sqlite.Open(context.Background(), filepath.Join(f.dir, "cloister.db")))
	f.t.Cleanup(f.close)
}

func (f *field) close() {
	if f.honest != nil {
		_ = f.honest.Close()
		f.honest = nil
	}
}

// boot starts the next enclave of the data directory behind a store and a proxy
// of its own.
func (f *field) boot(limits core.Limits, n int) {
	f.t.Helper()
	r, s, p, err := f.try(limits, n)
	if err != nil {
		f.t.Fatalf("boot: %v", err)
	}
	f.rig, f.store, f.proxy = r, s, p
}

func (f *field) try(limits core.Limits, n int, spoil ...func(*hostile.Store)) (r *rig.Rig, s *hostile.Store, p *hostile.Proxy, err error) {
	f.open()
	f.limits = limits
	s = hostile.NewStore(f.honest)
	for _, v := range f.victims {
		for _, put := range v.puts {
			s.Hoard(put)
		}
	}
	for _, do := range spoil {
		do(s)
	}
	r, err = rig.Try(f.t, rig.Options{Dir: f.dir, Store: s, Root: &f.g.root, Limits: limits, Organizations: n,
		Between: func(address string) string {
			p = must(hostile.NewProxy(address))
			f.t.Cleanup(p.Close)
			return p.Address()
		},
		Pause: func(ctx context.Context, _ time.Duration) {
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}})
	f.boots++
	return r, s, p, err
}

// stop ends the enclave in good order and closes the store.
func (f *field) stop() {
	f.rig.Stop()
	f.proxy.Close()
	f.close()
}

// each runs do for every victim at once.
func (f *field) each(do func(*victim)) {
	var wg sync.WaitGroup
	for _, v := range f.victims {
		wg.Go(func() { do(v) })
	}
	wg.Wait()
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// An answer is what a caller gets. Status 0: no answer.
type answer struct {
	status int
	m      map[string]any
	text   string
}

// refused tells that the enclave did not believe its host.
func (a answer) refused() bool {
	return a.status == 503 && strings.Contains(a.text, "an answer that is not believed")
}

// ask sends a stamped call. within 0: patiently.
func (f *field) ask(endpoint wire.Endpoint, op string, body []byte, key laptop.KeyPair, within time.Duration) answer {
	return f.send(&wire.Call{Endpoint: endpoint, Op: op, Head: must(laptop.Stamp(key, body)), Body: body, WithinMs: uint32(within.Milliseconds())})
}

func (f *field) send(call *wire.Call) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := f.rig.Link.Call(ctx, call)
	if err != nil {
		return answer{text: err.Error()}
	}
	a := answer{status: int(reply.Status), text: string(reply.Body)}
	if err := json.Unmarshal(reply.Body, &a.m); err != nil {
		f.t.Errorf("%s: reply is no JSON", call.Op)
	}
	// A panic of the enclave, or an error it has no name for, is answered so.
	if a.status == 500 && !insecureBuild {
		f.t.Errorf("%s: %s", call.Op, a.text)
	}
	return a
}

func typeOf(op string) string { return "ACTIVITY_TYPE_" + strings.ToUpper(op) }

// submitBody is a body of the victim's organization.
func (f *field) submitBody(v *victim, op string, parameters map[string]any) []byte {
	return f.rig.BodyOf(v.id, typeOf(op), parameters)
}

// signBody asks for a signature over bytes in hex.
func (f *field) signBody(v *victim, payload string) []byte {
	return f.rig.BodyOf(v.id, "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", map[string]any{"signWith": v.address, "payload": payload,
		"encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"})
}

// mustSubmit submits as the victim's root user until it is done.
func (f *field) mustSubmit(v *victim, op string, parameters map[string]any) map[string]any {
	f.t.Helper()
	body := f.submitBody(v, op, parameters)
	a := f.served(func() answer { return f.ask(wire.EndpointSubmit, op, body, v.key, 0) })
	v.activities = append(v.activities, rig.Text(a.m, "activity", "id"))
	v.body = body
	return a.m
}

func (f *field) rename(v *victim, name string) {
	f.mustSubmit(v, "update_user_name", map[string]any{"userId": v.user, "userName": name})
	v.name = name
}

// query asks as the victim's root user.
func (f *field) query(v *victim, op string, more map[string]any) answer {
	q := map[string]any{"organizationId": v.id}
	for k, x := range more {
		q[k] = x
	}
	return f.ask(wire.EndpointQuery, op, must(json.Marshal(q)), v.key, 0)
}

func (f *field) whoami(v *victim) answer { return f.query(v, "whoami", nil) }

// served repeats a call that must be answered, while the enclave says that it is
// busy or a cut connection is being made anew.
func (f *field) served(call func() answer) answer {
	f.t.Helper()
	var a answer
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if a = call(); a.status == 200 {
			return a
		}
		if a.status != 503 && a.status != 0 || a.refused() {
			break
		}
	}
	f.t.Errorf("an honest call was answered %d %s", a.status, a.text)
	return a
}

// good is the next good call on a victim: its state is the true one.
func (f *field) good(v *victim) {
	f.t.Helper()
	if a := f.served(func() answer { return f.whoami(v) }); a.status == 200 && rig.Text(a.m, "username") != v.name {
		f.t.Errorf("after the attack the user is %q, not %q", rig.Text(a.m, "username"), v.name)
	}
}

// twin is another organization than v.
func (f *field) twin(v *victim) *victim {
	for _, w := range f.victims {
		if w != v {
			return w
		}
	}
	return nil
}

// other is another organization than v, by chance.
func (f *field) other(v *victim, r *rand.Rand) *victim {
	for {
		if w := f.victims[r.IntN(len(f.victims))]; w != v {
			return w
		}
	}
}

// told is how many lies have been told since arm.
func (f *field) told() int { return f.store.CountChanged() + f.proxy.CountChanged() }

// arm lets store or proxy tell the lie.
func (f *field) arm(r *rand.Rand, lie hostile.Lie) {
	if r.IntN(2) == 0 {
		f.store.Arm(lie)
		f.proxy.Arm(nil)
	} else {
		f.proxy.Arm(lie)
		f.store.Arm(nil)
	}
}

func (f *field) disarm() {
	f.store.Disarm()
	f.proxy.Disarm()
}

// provoke repeats a call until a lie has been told to it. In between others are
// used, so that v must be loaded anew.
func (f *field) provoke(v *victim, call func() answer) answer {
	f.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if a := call(); f.told() > 0 {
			return a
		}
		f.whoami(f.twin(v))
	}
	f.t.Fatal("the enclave never asked for what the lie is about")
	return answer{}
}

// alarms are the enclave's counters, by name.
func (f *field) alarms() map[string]uint64 { return f.rig.Counters() }

// risen are the counters once the one named is above what it was: a connection
// that is cut is counted just after those who waited on it were told.
func (f *field) risen(counter string, before map[string]uint64) map[string]uint64 {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		now := f.alarms()
		if counter == "" || now[counter] > before[counter] || time.Now().After(end) {
			return now
		}
	}
}

// snapshotAt waits for the organization's snapshot that covers count entries.
func (f *field) snapshotAt(v *victim, count uint64) wire.Organization {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		o := must(f.store.Store.LoadOrganization(context.Background(), wire.LoadOrganization{Organization: v.wid, MaxBytes: 1 << 20}))
		if o.From == count {
			return o
		}
	}
	f.t.Errorf("no snapshot of %d entries", count)
	return wire.Organization{}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in := must(os.Open(from))
	defer in.Close()
	out := must(os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600))
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func copyDir(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(name, 0o700)
		}
		copyFile(t, path, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
