package restart_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloister/enclave/core"
	"cloister/host/link"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/logmodel"
)

// patience bounds one wait. It ends a test that hangs; nothing is measured by it.
const patience = time.Minute

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// rootSecret keeps a root secret in memory: the simulator's way to it, through a passphrase, takes half of
// a boot.
type rootSecret struct {
	laptop.SeedFile
	mu sync.Mutex
	q  core.Secret
}

func (s *rootSecret) Recover() (core.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.q.Len() == 0 && s.Seed == "" {
		return s.q, core.ErrNoRootSecret
	}
	if s.q.Len() == 0 {
		q, err := s.SeedFile.Recover()
		if err != nil {
			return q, err
		}
		s.q = q
	}
	return s.q.Clone(), nil
}

func (s *rootSecret) Keep(q core.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.q = q.Clone()
	return nil
}

// An account is an organization with a user of it who may do everything.
type account struct {
	id     string
	wid    wire.ID
	key    laptop.KeyPair
	parent *account // nil: of the top level
	of     wire.Range
	quiet  bool // writes nothing
}

func (h *history) account(id string, key laptop.KeyPair, parent *account) *account {
	wid := wire.ID(must(hex.DecodeString(strings.ReplaceAll(id, "-", ""))))
	return &account{id: id, wid: wid, key: key, parent: parent, of: wire.RangeOf(wid, h.ranges)}
}

// An enclave that runs over a store of its own.
type enclave struct {
	core    *core.Core
	link    *link.Link
	dir     *laptop.Dir
	address string
	store   *liar
	times   *client.Times
	within  time.Duration // for an answer
	stop    func()        // as a kill would: nothing is given back
}

// open starts an enclave over a store's file. It has not booted.
func (h *history) open(file string, limits core.Limits) (*enclave, error) {
	return h.openWitnessed(file, limits, nil)
}

// openWitnessed is open with who brings checkpoints to witnesses, given the store.
func (h *history) openWitnessed(file string, limits core.Limits, bring func(*liar) link.Witnesses) (*enclave, error) {
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return nil, err
	}
	e := &enclave{dir: h.dir, store: &liar{Store: s, kept: h.pages, network: h.network}, times: h.times, within: patience / 2}
	var witnesses link.Witnesses
	if bring != nil {
		witnesses = bring(e.store)
	}
	limits.Lease = restlessLease
	if e.core, err = h.dir.Enclave(core.Config{Limits: limits, Root: h.root, Clock: restless{}, Fault: func(string, error) {}}); err != nil {
		return nil, err
	}
	l := h.network.listen()
	ctx, cancel := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { _ = e.core.Serve(ctx, l) })
	e.address = l.Addr().Network() + "://" + l.Addr().String()
	e.link, err = link.New(link.Options{Address: e.address, Dial: h.network.dial, StoreTimeout: patience, Store: e.store, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: pause, Witnesses: witnesses})
	if err != nil {
		cancel()
		return nil, err
	}
	ran.Go(func() { e.link.Run(ctx) })
	e.stop = sync.OnceFunc(func() { cancel(); e.core.Close(); ran.Wait(); _ = s.Close() })
	return e, nil
}

// restless is the clock of enclaves that never find themselves idle: an idle one collects its garbage three times, which was a seventh of
// the time of all attacks, since what it waits for is over at once where time is virtual.
type restless struct{ laptop.Clock }

const (
	untilIdle     = 500 * time.Millisecond // as package core has it
	restlessLease = 5 * untilIdle          // renewed after a quarter, which must be no such time
)

// After is core.Clock.
func (c restless) After(d time.Duration) <-chan time.Time {
	if d == untilIdle {
		return nil
	}
	return c.Clock.After(d)
}

// pause is how long the host waits before it dials an enclave again, which here is there at once.
func pause(ctx context.Context, d time.Duration) { wait(ctx, min(d, 2*time.Millisecond)) }

// wait waits, unless ctx ends first.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// join boots an enclave of a deployment that is there.
func (e *enclave) join(h *history) error {
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	return h.dir.Join(ctx, e.address)
}

// finish gives the ranges back.
func (e *enclave) finish() error {
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	defer e.stop()
	return e.core.Stop(ctx)
}

// alarms counts what the enclave has refused of its host, by name.
func (e *enclave) alarms() map[string]uint64 {
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	d := must(e.dir.DialEnclave(ctx, e.address))
	defer d.Close()
	var s struct{ Counters map[string]uint64 }
	if err := d.Call(ctx, "status", nil, nil, &s); err != nil {
		panic(err)
	}
	for name, n := range s.Counters {
		if !strings.HasPrefix(name, "alarm_") || n == 0 {
			delete(s.Counters, name)
		}
	}
	return s.Counters
}

// An answer is what a caller gets; status 0: none.
type answer struct{ client.Reply }

// served tells that it says something of an organization.
func (a answer) served() bool { return a.Status == 200 }

// refused tells that the enclave did not believe its host.
func (a answer) refused() bool {
	return a.Status == 503 && strings.Contains(string(a.Body), "an answer that is not believed")
}

func (a answer) String() string { return fmt.Sprintf("%.200s", a.Reply) }

// failed is no answer.
func failed(err error) answer { return answer{client.Reply{Body: []byte(err.Error())}} }

// as makes the requests of the user of by in organization a.
func (e *enclave) as(a, by *account) *client.Client {
	return &client.Client{Times: e.times, Organization: a.id, Key: by.key}
}

// call sends a request, again while the enclave is busy or not connected yet.
func (e *enclave) call(q *client.Request) answer {
	c := q.Call()
	c.WithinMs = uint32(e.within.Milliseconds())
	ctx, done := context.WithTimeout(context.Background(), 3*e.within)
	defer done()
	for {
		reply, err := e.link.Call(ctx, c)
		if err != nil && ctx.Err() == nil {
			pause(ctx, 2*time.Millisecond)
			continue
		}
		if err != nil {
			return failed(err)
		}
		got := answer{client.Reply{Status: int(reply.Status), Body: reply.Body}}
		if got.Status != 503 || got.refused() || ctx.Err() != nil || !strings.Contains(string(got.Body), "busy") {
			return got
		}
		pause(ctx, 2*time.Millisecond)
	}
}

// tag makes the n-th tag of an organization.
func (e *enclave) tag(a *account, n int) answer {
	told := e.store.record.asks(e.store, a, logmodel.AskSubmit)
	got := e.call(must(e.as(a, a).Activity("CREATE_USER_TAG", client.Tag(tagName(n)))))
	told(got, 0)
	return got
}

func tagName(n int) string { return fmt.Sprintf("tag %d", n) }

// tags is how many tags an organization has, as by is told.
func (e *enclave) tags(a, by *account) (n int, got answer) {
	told := e.store.record.asks(e.store, a, logmodel.AskQuery)
	c := e.as(a, by)
	got = e.call(must(c.Request(wire.EndpointQuery, "list_user_tags", c.Ask(nil))))
	defer func() { told(got, n) }()
	if !got.served() {
		return 0, got
	}
	names := map[string]bool{}
	list, ok := got.Get("userTags").([]any)
	if !ok {
		panic(fmt.Sprint("list_user_tags: ", got))
	}
	for _, t := range list {
		if name := client.Text(t, "tagName"); strings.HasPrefix(name, "tag ") {
			names[name] = true
		}
	}
	for i := range len(names) {
		if !names[tagName(i+1)] {
			return -1, got // no state that there ever was
		}
	}
	return len(names), got
}

// send asks what a send holds that is due to leave, of which there is none: it is told as much.
func (e *enclave) send(a *account) answer {
	ctx, done := context.WithTimeout(context.Background(), e.within)
	defer done()
	told := e.store.record.asks(e.store, a, logmodel.AskQuery)
	if _, err := e.link.OpenSend(ctx, wire.SendID{Organization: a.wid}); err != nil {
		return failed(err)
	}
	got := answer{client.Reply{Status: 200}}
	told(got, 0)
	return got
}

// sub makes a sub-organization.
func (e *enclave) sub(h *history, parent *account, name string) *account {
	key := client.NewKey()
	got := e.call(must(e.as(parent, parent).Activity("CREATE_SUB_ORGANIZATION_V7", client.SubOrganization(name, client.NewRootUser("Root", key)))))
	if !got.Completed() {
		panic(fmt.Sprint("create_sub_organization: ", got))
	}
	return h.account(client.Text(got.Result(), "subOrganizationId"), key, parent)
}

func copyFile(from, to string) {
	in := must(os.Open(from))
	defer in.Close()
	out := must(os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600))
	must(io.Copy(out, in))
	if err := out.Close(); err != nil {
		panic(err)
	}
}

// copyStore copies a store with what is in its journal only.
func copyStore(from, to string) {
	for _, part := range []string{"", "-wal"} {
		if _, err := os.Stat(from + part); err == nil {
			copyFile(from+part, to+part)
		}
	}
}

// fold writes a store's journal into its file, once for all who copy it: otherwise everyone who opens a copy reads the journal, and writes
// it when closing.
func fold(file string) {
	s := must(sqlite.Open(context.Background(), file))
	if err := s.Close(); err != nil {
		panic(err)
	}
}

// scratch is where histories lie; TestMain removes it. That is in memory where there is room: what a disk keeps is nothing that these
// tests ask, and waiting for it was a third of their time.
var scratch string

const (
	inMemory     = "/dev/shm"
	scratchBytes = 256 << 20 // ten times what they have had at once
)

func TestMain(m *testing.M) {
	in := "" // the usual place
	if f := new(syscall.Statfs_t); syscall.Statfs(inMemory, f) == nil && f.Bavail*uint64(f.Bsize) >= scratchBytes {
		in = inMemory
	}
	scratch = must(os.MkdirTemp(in, "restart-"))
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

var files atomic.Int64

// scrap is a name for a file that is copied for one boot, and what removes it.
func scrap() (name string, remove func()) {
	name = filepath.Join(scratch, fmt.Sprintf("run-%d.db", files.Add(1)))
	return name, func() {
		for _, part := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(name + part)
		}
	}
}
