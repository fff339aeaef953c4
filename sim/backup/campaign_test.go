package backup_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/host/backup"
	"cloister/host/store"
	"cloister/host/store/open"
	"cloister/host/store/storetest"
	"cloister/shared/clocktest"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// taken is a backup and what had been answered when it was begun.
type taken struct {
	of         *source
	folder     backup.Dir
	accounts   map[string]account
	activities map[string]owner
	summary    *backup.Summary
}

// count is how many backups the campaign takes: CLOISTER_BACKUPS, or 50, and
// with -short a few.
func count(t testing.TB) int {
	if text := os.Getenv("CLOISTER_BACKUPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatal("CLOISTER_BACKUPS: want a number from 1")
		}
		return n
	}
	if testing.Short() {
		return 4
	}
	return 50
}

// times are how long each step took.
type times struct {
	mu  sync.Mutex
	all map[string][]time.Duration
}

func (x *times) took(what string, since time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all[what] = append(x.all[what], time.Since(since))
}

func (x *times) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(x.all)) {
		d := x.all[what]
		slices.Sort(d)
		fmt.Fprintf(&b, "%s: median %v, longest %v; ", what, d[len(d)/2].Round(time.Millisecond), d[len(d)-1].Round(time.Millisecond))
	}
	return b.String()
}

// signatures are how many of each backup are compared. The first backup is taken when
// there are addresses enough.
const signatures = 100

// TestBackups takes backups of two deployments, one on SQLite, one on PostgreSQL,
// while clients make wallets and sign, and restores each on an empty machine, on
// SQLite and PostgreSQL by turns. Every address that had been answered before a
// backup was begun is there with its public key, none that never was, and 100
// signatures are those that the deployment itself makes.
func TestBackups(t *testing.T) {
	server := storetest.StartPostgres(t)
	steps := &times{all: map[string][]time.Duration{}}
	sources := []*source{newSource(t, nil), newSource(t, opened(t, server.Database()))}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var working sync.WaitGroup
	for i, s := range sources {
		top := root(t, s.r)
		for j, u := range []*client.User{top, top.NewSubOrganization("Sub 0"), top.NewSubOrganization("Sub 1")} {
			working.Go(func() {
				if err := s.work(ctx, u.Client, fmt.Sprintf("load %d/%d ", i, j)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for i, s := range sources {
		clocktest.Until(t, fmt.Sprintf("there are addresses enough in source %d", i), func() bool { return s.addresses()*payloads >= signatures })
	}
	all := make([]*taken, count(t))
	for i := range all {
		all[i] = take(t, sources[i%2], steps)
	}
	cancel()
	working.Wait()
	var names []string // of databases: made here, as the server's helper is for one test
	for i := range all {
		if i/2%2 == 0 {
			names = append(names, server.Database())
		} else {
			names = append(names, filepath.Join(t.TempDir(), "restored.db"))
		}
	}
	t.Run("restored", func(t *testing.T) {
		for i, b := range all {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				b.restore(t, names[i], steps)
			})
		}
	})
	t.Logf("%d backups; %v", len(all), steps)
}

func opened(t testing.TB, name string) store.Store {
	t.Helper()
	s, err := open.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func take(t *testing.T, s *source, steps *times) *taken {
	t.Helper()
	b := &taken{of: s, folder: backup.Dir{Path: filepath.Join(t.TempDir(), "backup")}}
	s.mu.Lock()
	b.accounts, b.activities = maps.Clone(s.accounts), maps.Clone(s.activities)
	s.mu.Unlock()
	began := time.Now()
	var err error
	if b.summary, err = backup.Write(t.Context(), s.r.Store, b.folder, "0.6", uint64(began.UnixMilli())); err != nil {
		t.Fatal(err)
	}
	steps.took("backup", began)
	return b
}

// restore brings a backup up on an empty machine and compares.
func (b *taken) restore(t *testing.T, name string, steps *times) {
	began := time.Now()
	if _, err := backup.Verify(t.Context(), b.folder, &b.summary.Header.Deployment, open.Schema(), backup.Trust{}); err != nil {
		t.Fatal(err)
	}
	steps.took("verify", began)
	to := opened(t, name)
	began = time.Now()
	if _, err := backup.Restore(t.Context(), b.folder, to, &b.summary.Header.Deployment); err != nil {
		t.Fatal(err)
	}
	steps.took("restore", began)
	began = time.Now()
	r := rig.Start(t, rig.Options{Dir: b.of.machine(t), Store: to})
	steps.took("boot", began)
	began = time.Now()
	b.compare(t, r)
	steps.took("compare and sign", began)
	for name, n := range r.Counters() {
		if strings.HasPrefix(name, "alarm_") && n > 0 {
			t.Errorf("%s: %d", name, n)
		}
	}
}

func (b *taken) compare(t *testing.T, r *rig.Rig) {
	if r.Credentials.OrganizationID != b.of.r.Credentials.OrganizationID {
		t.Fatal("another root organization")
	}
	owners := map[string]owner{}
	for _, a := range b.accounts {
		owners[a.of.id] = a.of
	}
	there := map[string]account{}
	for _, o := range owners {
		maps.Copy(there, addresses(o.on(t, r), nil))
	}
	for address, a := range b.accounts {
		if there[address] != a {
			t.Fatalf("address %s is %+v, was %+v", address, there[address], a)
		}
	}
	b.of.mu.Lock()
	known := maps.Clone(b.of.accounts)
	b.of.mu.Unlock()
	for address, a := range there {
		if known[address] != a {
			t.Fatalf("address %s was never answered: %+v", address, a)
		}
	}
	for id, o := range b.activities {
		if got := o.on(t, r).Query("get_activity", object{"activityId": id}); !got.Completed() {
			t.Fatalf("activity %s: %v", id, got)
		}
	}
	made := 0
	for address, a := range b.accounts {
		if made += payloads; made > signatures {
			return
		}
		want, got := b.of.signatures(t, address, a), sign(a.of.on(t, r), address, a.format)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("signatures of %s differ:\n%v\n%v", address, got, want)
		}
	}
	if made < signatures {
		t.Fatalf("%d signatures: the load made too few addresses", made)
	}
}

// TestForeign brings a backup to the machine of another deployment, whose enclave
// does not take it, and restores over what is there.
func TestForeign(t *testing.T) {
	a, b := newSource(t, nil), newSource(t, nil)
	steps := &times{all: map[string][]time.Duration{}}
	of := take(t, a, steps)
	if _, err := backup.Restore(t.Context(), of.folder, b.r.Store, nil); err == nil || !strings.Contains(err.Error(), "another deployment") {
		t.Errorf("restored over another deployment: %v", err)
	}
	if _, err := backup.Restore(t.Context(), of.folder, a.r.Store, nil); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("restored over a running deployment: %v", err)
	}
	to := opened(t, filepath.Join(t.TempDir(), "restored.db"))
	if _, err := backup.Restore(t.Context(), of.folder, to, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := rig.Try(t, rig.Options{Dir: b.machine(t), Store: to}); err == nil || !strings.Contains(err.Error(), "another deployment") {
		t.Errorf("the enclave of another deployment has booted: %v", err)
	}
}
