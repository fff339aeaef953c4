package restart_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"cloister/enclave/core"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
)

// A history is what a deployment did, with copies of its store.
type history struct {
	seed    uint64
	release bool // made by a release before logs
	ranges  int
	dir     *laptop.Dir
	root    *rootSecret
	pages   *pages
	times   *client.Times
	network *network
	orgs    []*account // all, in the order in which they were made
	shots   []*shot    // the last one is the newest
	// fork is what another boot made of the store as it was at shots[at], which goes on otherwise.
	fork   *shot
	at     int
	strays []*account // which this log never had, in the stores of fork and foreign
	// foreign is another deployment under the same root secret.
	foreign *shot

	mu         sync.Mutex
	controlled map[*shot]bool // those that have served untouched
}

// A shot is a copy of the store.
type shot struct {
	file string
	tags map[*account]int // of the organizations that there were
	read store.Store      // another copy
}

// remove removes the history's files.
func (h *history) remove() {
	for _, s := range append(h.shots, h.fork, h.foreign) {
		if s != nil {
			_ = s.read.Close()
		}
	}
	_ = os.RemoveAll(h.dir.Path)
}

func (h *history) newest() *shot { return h.shots[len(h.shots)-1] }

// shoot copies the store while nothing is written to it.
func (h *history) shoot(e *enclave, name string, tags map[*account]int) *shot {
	s := &shot{file: filepath.Join(h.dir.Path, name+".db"), tags: map[*account]int{}}
	e.store.gate.Lock()
	copyStore(h.storeFile(), s.file)
	e.store.gate.Unlock()
	fold(s.file)
	for a, n := range tags {
		s.tags[a] = n
	}
	read := filepath.Join(h.dir.Path, name+"-read.db")
	copyStore(s.file, read)
	s.read = must(sqlite.Open(context.Background(), read))
	return s
}

func (h *history) storeFile() string { return filepath.Join(h.dir.Path, "cloister.db") }

const oldRelease = "../testdata/releases/0.6"

// limits are small, so that a history of some dozen entries has several tip tables and snapshots.
func limits(r *rand.Rand) core.Limits {
	return core.Limits{TableEvery: 3 + r.Uint64N(14), TableTips: 3 + r.IntN(12), SnapshotEvery: 2 + r.IntN(6)}
}

// newHistory makes the history of a seed.
func newHistory(seed uint64, release bool) *history {
	r := rand.New(rand.NewPCG(seed, 1))
	h := &history{seed: seed, release: release, ranges: 2, root: new(rootSecret), times: new(client.Times), network: newNetwork(nil), pages: &pages{byHash: map[wire.Hash][]byte{}}, controlled: map[*shot]bool{}}
	h.dir = &laptop.Dir{Dial: h.network.dial, Path: must(os.MkdirTemp(scratch, "history-")), APIURL: "http://127.0.0.1:0", AuthProxyURL: "http://127.0.0.1:0", Ranges: h.ranges}
	if release {
		h.ranges, h.dir.Ranges = 1, 0
		if err := os.CopyFS(h.dir.Path, os.DirFS(oldRelease)); err != nil {
			panic(err)
		}
		h.root.Seed, h.root.Passphrase = filepath.Join(h.dir.Path, "enclave/seed"), filepath.Join(h.dir.Path, "enclave/passphrase")
	}
	e := must(h.open(h.storeFile(), limits(r)))
	tags := map[*account]int{}
	add := func(a *account) {
		h.orgs = append(h.orgs, a)
		tags[a] = 0
	}
	if release {
		if err := e.join(h); err != nil {
			panic(err)
		}
		for _, a := range h.left() {
			add(a)
		}
	} else {
		quiet := 0
		if r.IntN(2) == 0 {
			quiet = 70 // so that there are several pages
		}
		ctx, done := context.WithTimeout(context.Background(), patience)
		must(h.dir.Boot(ctx, e.address, 8+quiet))
		done()
		for i, o := range must(h.dir.Organizations()) {
			a := h.account(o.OrganizationID, o.RootAPIKey, nil)
			a.quiet = i >= 8
			add(a)
		}
	}
	h.run(r, e, tags, add)
	return h
}

// left are the organizations that a release has left.
func (h *history) left() (all []*account) {
	var was struct {
		Organizations map[string]struct {
			ID  string
			Key laptop.KeyPair
		}
		Pending struct {
			Organization string
			Second       laptop.KeyPair
		}
	}
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(h.dir.Path, "expected.json"))), &was); err != nil {
		panic(err)
	}
	top := h.account(was.Organizations["root"].ID, was.Organizations["root"].Key, nil)
	two := h.account(was.Pending.Organization, was.Pending.Second, top)
	two.quiet = true // whatever is done there takes two
	return []*account{top, two}
}

// run writes to organizations round by round, kills the enclave or stops it, copies the store at any time,
// and lets another boot go on from a copy.
func (h *history) run(r *rand.Rand, e *enclave, tags map[*account]int, add func(*account)) {
	write := func(e *enclave, tags map[*account]int, a *account) {
		if got := e.tag(a, tags[a]+1); !got.served() {
			panic(fmt.Sprint("writing history: ", got))
		}
		tags[a]++
	}
	var tops []*account
	for _, a := range h.orgs {
		if !a.quiet && a.parent == nil {
			tops = append(tops, a)
		}
	}
	rounds, subs := 6+r.IntN(3), 0
	for round := range rounds {
		for subs < 2+round && subs < 5 {
			add(e.sub(h, tops[r.IntN(len(tops))], fmt.Sprintf("Sub %d", subs)))
			subs++
		}
		shoot := r.IntN(len(h.orgs))
		for i, n := range r.Perm(len(h.orgs)) {
			if a := h.orgs[n]; !a.quiet && (round == 0 || r.IntN(3) > 0) {
				write(e, tags, a)
			}
			if i == shoot {
				h.shots = append(h.shots, h.shoot(e, fmt.Sprintf("shot-%d", round), tags))
			}
		}
		switch r.IntN(4) {
		case 0:
			e.stop()
		case 1:
			if err := e.finish(); err != nil {
				panic(err)
			}
		default:
			continue
		}
		e = must(h.open(h.storeFile(), limits(r)))
		if err := e.join(h); err != nil {
			panic(fmt.Sprint("an honest boot: ", err))
		}
	}
	h.shots = append(h.shots, h.shoot(e, "newest", tags))
	e.stop()

	h.at = 1 + r.IntN(len(h.shots)-2)
	from, kept := h.shots[h.at], h.storeFile()
	for _, part := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(kept + part)
	}
	copyStore(from.file, kept)
	e = must(h.open(kept, limits(r)))
	defer e.stop()
	if err := e.join(h); err != nil {
		panic(fmt.Sprint("an honest boot of a copy: ", err))
	}
	other := map[*account]int{}
	for a, n := range from.tags {
		other[a] = n
	}
	for _, a := range h.orgs {
		if _, is := from.tags[a]; is && !a.quiet && r.IntN(2) == 0 {
			write(e, other, a)
		}
	}
	stray := e.sub(h, tops[r.IntN(len(tops))], "Stray")
	other[stray] = 0
	for range 2 {
		write(e, other, stray)
	}
	h.strays = []*account{stray}
	h.fork = h.shoot(e, "fork", other)
}

// abroad makes another deployment under the same root secret.
func (h *history) abroad() {
	f := &history{network: h.network, ranges: h.ranges, root: h.root, times: h.times, pages: &pages{byHash: map[wire.Hash][]byte{}},
		dir: &laptop.Dir{Dial: h.network.dial, Path: must(os.MkdirTemp(scratch, "foreign-")), APIURL: h.dir.APIURL, AuthProxyURL: h.dir.AuthProxyURL, Ranges: h.dir.Ranges}}
	e := must(f.open(f.storeFile(), core.Limits{TableEvery: 3, SnapshotEvery: 3}))
	defer e.stop()
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	must(f.dir.Boot(ctx, e.address, 4))
	tags := map[*account]int{}
	for _, o := range must(f.dir.Organizations()) {
		a := f.account(o.OrganizationID, o.RootAPIKey, nil)
		for range 3 {
			if got := e.tag(a, tags[a]+1); !got.served() {
				panic(fmt.Sprint("writing abroad: ", got))
			}
			tags[a]++
		}
		h.strays = append(h.strays, a)
	}
	h.foreign = f.shoot(e, "foreign", tags)
}
