package hostile_test

import (
	"bytes"
	"context"
	"encoding/hex"
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
	"cloister/sim/client"
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

// times are of all bodies.
var times client.Times

// A victim is an organization with a history: entries 0 to 10, snapshots that
// cover 4 and 8 of them, and one more entry that an earlier boot made and the
// host has hidden since. Its root user's requests are sent by a field.
type victim struct {
	client.Client
	name            string // of the root user
	wallet, address string
	wid             wire.ID
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
	g := &ground{dir: must(os.MkdirTemp(scratch, "ground-")), common: client.NewKey()}
	ctx := t.Context()
	quick := core.Limits{SnapshotEvery: snapshotEvery, Lease: lease}
	f := &field{t: t, g: g, dir: g.dir}
	f.boot(quick, organizations)
	for _, u := range f.rig.Others() {
		u.Send, u.Times = nil, &times
		g.victims = append(g.victims, &victim{Client: *u.Client, wid: wideID(u.Organization)})
	}
	f.victims = g.victims
	f.each(func(v *victim) {
		f.mustSubmit(v, "CREATE_API_KEYS", client.Object{"userId": v.User, "apiKeys": []any{client.Object{"apiKeyName": "Common", "publicKey": g.common.PublicKey}}})
		made := f.mustSubmit(v, "CREATE_WALLET", client.Wallet("First", client.Ethereum)).Result()
		v.wallet, v.address = client.Text(made, "walletId"), client.Text(made, "addresses", "0")
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
			f.mustSubmit(v, "CREATE_WALLET", client.Wallet(fmt.Sprint("Late ", len(v.activities)), client.Ethereum))
		}
		v.name = "Name 007"
	})
	f.stop()
	base := filepath.Join(g.dir, "base.db")
	copyFile(t, file, base)
	f.boot(core.Limits{SnapshotEvery: 1000, Lease: lease}, 0)
	f.each(func(v *victim) {
		c := *v
		v.hiddenActivity = f.mustSubmit(&c, "UPDATE_USER_NAME", client.Object{"userId": v.User, "userName": "Hidden 1"}).Text("activity", "id")
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
	id := wideID(f.rig.Credentials.OrganizationID)
	g.foreign.organization = must(f.store.Store.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: id, MaxBytes: 1 << 20}))
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

// wideID is an id as a host has it.
func wideID(id string) wire.ID {
	return wire.ID(must(hex.DecodeString(strings.ReplaceAll(id, "-", ""))))
}

// An answer is what a caller gets. Status 0: no answer.
type answer struct{ client.Reply }

// refused tells that the enclave did not believe its host.
func (a answer) refused() bool {
	return a.Status == 503 && bytes.Contains(a.Body, []byte("an answer that is not believed"))
}

// by is the victim's organization as somebody with another key asks it.
func (v *victim) by(key laptop.KeyPair) *client.Client { return v.As(v.Organization, "", key) }

// call is a request that is waited for as long as an enclave does by itself.
func call(q *client.Request, err error) *wire.Call {
	c := must(q, err).Call()
	c.WithinMs = 0
	return c
}

// briefly is a call of little time.
func briefly(c *wire.Call) *wire.Call {
	c.WithinMs = uint32(impatience.Milliseconds())
	return c
}

func (f *field) send(call *wire.Call) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := f.rig.Link.Call(ctx, call)
	if err != nil {
		return answer{client.Reply{Body: []byte(err.Error())}}
	}
	a := answer{client.Reply{Status: int(reply.Status), Body: reply.Body}}
	if a.JSON() == nil {
		f.t.Errorf("%s: reply is no JSON", call.Op)
	}
	// A panic of the enclave, or an error it has no name for, is answered so.
	if a.Status == 500 && !insecureBuild {
		f.t.Errorf("%s: %s", call.Op, a.Body)
	}
	return a
}

// signing is a request for a signature over bytes in hex.
func (v *victim) signing(payload string) *wire.Call {
	return call(v.Activity("SIGN_RAW_PAYLOAD_V2", client.Payload(v.address, payload, "SHA256")))
}

// mustSubmit submits as the victim's root user until it is done.
func (f *field) mustSubmit(v *victim, typ string, parameters client.Object) answer {
	f.t.Helper()
	c := call(v.Activity(typ, parameters))
	a := f.served(func() answer { return f.send(c) })
	v.activities = append(v.activities, a.Text("activity", "id"))
	v.body = c.Body
	return a
}

func (f *field) rename(v *victim, name string) {
	f.mustSubmit(v, "UPDATE_USER_NAME", client.Object{"userId": v.User, "userName": name})
	v.name = name
}

// query asks as the victim's root user.
func (f *field) query(v *victim, op string, more client.Object) answer {
	return f.queryBy(&v.Client, op, more)
}

func (f *field) queryBy(c *client.Client, op string, more client.Object) answer {
	return f.send(call(c.Request(wire.EndpointQuery, op, c.Ask(more))))
}

func (f *field) whoami(v *victim) answer { return f.query(v, "whoami", nil) }

// served repeats a call that must be answered, while the enclave says that it is
// busy or a cut connection is being made anew.
func (f *field) served(call func() answer) answer {
	f.t.Helper()
	var a answer
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if a = call(); a.Status == 200 {
			return a
		}
		if a.Status != 503 && a.Status != 0 || a.refused() {
			break
		}
	}
	f.t.Errorf("an honest call was answered %v", a)
	return a
}

// good is the next good call on a victim: its state is the true one.
func (f *field) good(v *victim) {
	f.t.Helper()
	if a := f.served(func() answer { return f.whoami(v) }); a.Status == 200 && a.Text("username") != v.name {
		f.t.Errorf("after the attack the user is %q, not %q", a.Text("username"), v.name)
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
