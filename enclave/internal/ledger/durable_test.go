package ledger_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// gate holds every batch at the store until it is opened.
type gate struct {
	open chan struct{}
	seen chan *wire.Batch // every batch that has come to the gate
}

func newGate(s *memStore) *gate {
	g := &gate{open: make(chan struct{}), seen: make(chan *wire.Batch, 1000)}
	s.lie(hooks{append: func(c context.Context, b *wire.Batch, honest func() wire.Stored) (wire.Stored, error) {
		g.seen <- b
		select {
		case <-g.open:
			return honest(), nil
		case <-c.Done():
			return wire.Stored{}, c.Err()
		}
	}})
	return g
}

func TestReplyWaitsForItsBatch(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(1))
	g := newGate(s)
	n, err := r.step(orgID(1), &org.Entry{}, func(tx *org.Tx) error { return tx.PutUser(&org.User{ID: itemID(1), Name: "x"}) })
	if err != nil {
		t.Fatal(err)
	}
	<-g.seen
	waited := make(chan error, 1)
	go func() { waited <- r.l.Wait(ctx(t), n) }()
	// A reader sees the decided state and must wait for the same batch.
	r.mustRead(orgID(1), 1, "x")
	var batch uint64
	if err := r.l.TransactOne(ctx(t), orgID(1), func(t *ledger.Locked) error { batch = t.Batch(); return nil }); err != nil || batch != n {
		t.Fatalf("batch %d, want %d; %v", batch, n, err)
	}
	// A deadline ends the waiting and not the entry.
	short, cancel := context.WithCancel(context.Background())
	cancel()
	err = r.l.Wait(short, n)
	if f := fault.Of(err); f == nil || f.Code != fault.Unavailable {
		t.Fatalf("told %v of what is not stored", err)
	}
	if _, err := r.view(orgID(1)).Entry(short, 1); err == nil {
		t.Fatal("history is read of what is not stored")
	}
	select {
	case err := <-waited:
		t.Fatalf("released before it was stored: %v", err)
	default:
	}
	close(g.open)
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if e, err := r.view(orgID(1)).Entry(ctx(t), 1); err != nil || len(e.Writes) != 1 {
		t.Fatal(err)
	}
	r.quiet()
}

func TestLostAnswerIsAskedAgain(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(1))
	var mu sync.Mutex
	sent := map[uint64][]*wire.Batch{}
	s.lie(hooks{append: func(_ context.Context, b *wire.Batch, honest func() wire.Stored) (wire.Stored, error) {
		mu.Lock()
		defer mu.Unlock()
		sent[b.Number] = append(sent[b.Number], b)
		switch len(sent[b.Number]) {
		case 1: // never arrived
			return wire.Stored{}, errors.New("lost")
		case 2: // stored, the answer lost
			honest()
			return wire.Stored{}, errors.New("lost")
		case 3: // an answer about another batch
			return wire.Stored{Number: b.Number - 1, Verdict: wire.VerdictStored}, nil
		case 4:
			return wire.Stored{Number: b.Number + 1, Verdict: wire.VerdictStored}, nil
		}
		return honest(), nil
	}})
	for i := range 5 {
		r.user(orgID(1), i, "x")
	}
	s.lie(hooks{})
	if n := s.image(wid(orgID(1))).Count; n != 6 {
		t.Fatalf("%d entries", n)
	}
	for n, bs := range sent {
		if len(bs) != 5 {
			t.Errorf("batch %d was sent %d times", n, len(bs))
		}
		for _, b := range bs {
			if !reflect.DeepEqual(b, bs[0]) {
				t.Errorf("batch %d was sent with other bytes", n)
			}
		}
	}
	if n := r.alarms.Counts()["late"]; n != 10 {
		t.Errorf("%d answers for another batch counted", n)
	}
}

func TestFencing(t *testing.T) {
	for name, c := range map[string]struct {
		verdict wire.Verdict
		alarm   string
	}{
		"conflict":   {wire.VerdictConflict, "conflict"},
		"superseded": {wire.VerdictSuperseded, "superseded"},
		"nonsense":   {77, "conflict"},
		"nothing":    {0, "conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			r := start(t, s, nil)
			r.found(orgID(1))
			r.found(orgID(2))
			v := r.view(orgID(1))
			appends := 0
			s.lie(hooks{append: func(_ context.Context, b *wire.Batch, _ func() wire.Stored) (wire.Stored, error) {
				appends++
				return wire.Stored{Number: b.Number, Verdict: c.verdict}, nil
			}})
			n, err := r.step(orgID(1), &org.Entry{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.l.Wait(ctx(t), n); err == nil {
				t.Fatal("a reply goes out")
			}
			<-r.fences
			s.lie(hooks{})
			refused := func(what string, err error) {
				t.Helper()
				if f := fault.Of(err); f == nil || f.Code != fault.Unavailable {
					t.Errorf("%s: %v", what, err)
				}
			}
			for range 3 {
				for o := 1; o < 4; o++ {
					_, err = r.read(orgID(o), 1)
					refused("turn", err)
				}
				refused("serving", r.l.Serving(ctx(t)))
				refused("an earlier batch", r.l.Wait(ctx(t), n-1))
				refused("no batch", r.l.Wait(ctx(t), 0))
				_, err := v.Entry(ctx(t), 0)
				if err == nil {
					refused("the reply after history", r.l.Wait(ctx(t), v.Batch()))
				}
				ch := r.child(orgID(9), org.ID{})
				n, err := r.l.Create(ch, &org.Entry{}, ch.Tx())
				if err == nil {
					err = r.l.Wait(ctx(t), n)
				}
				refused("found", err)
			}
			r.l.Close()
			select {
			case err := <-r.fences:
				t.Errorf("fenced again: %v", err)
			default:
			}
			if appends != 1 || r.alarms.Counts()[c.alarm] != 1 {
				t.Errorf("%d appends, alarms %v", appends, r.alarms.Counts())
			}
			if got := s.image(wid(orgID(1))).Count; got != 1 {
				t.Errorf("%d entries are stored", got)
			}
		})
	}
}

// Two enclaves on one store: one goes on, the other is fenced, no place holds two.
func TestSecondEnclaveFencesTheFirst(t *testing.T) {
	s := newStore()
	one := start(t, s, nil)
	one.found(orgID(1))
	two := start(t, s, nil)
	two.user(orgID(1), 1, "two")
	n, err := one.step(orgID(1), &org.Entry{}, nil)
	if err == nil {
		err = one.l.Wait(ctx(t), n)
	}
	if !errors.Is(err, ledger.ErrFenced) {
		t.Fatal(err)
	}
	<-one.fences
	two.user(orgID(1), 2, "still two")
	if s.image(wid(orgID(1))).Count != 3 {
		t.Fatal("another count")
	}
	two.quiet()
}

func TestUnstoredBytesAreBounded(t *testing.T) {
	s := newStore()
	r := start(t, s, func(c *ledger.Config) { c.Limits.UnstoredBytes = 64 << 10 })
	r.found(orgID(1))
	r.found(orgID(2))
	g := newGate(s)
	decided := 0
	var last uint64
	for {
		n, err := r.step(orgID(1+decided%2), &org.Entry{Body: make([]byte, 1000)}, nil)
		if err != nil {
			if !errors.Is(err, ledger.ErrBusy) {
				t.Fatal(err)
			}
			break
		}
		last = n
		if decided++; decided > 100 {
			t.Fatal("no bound")
		}
	}
	if decided < 30 {
		t.Fatalf("%d entries and full", decided)
	}
	c := r.child(orgID(3), org.ID{})
	if _, err := r.l.Create(c, &org.Entry{}, c.Tx()); !errors.Is(err, ledger.ErrBusy) {
		t.Fatalf("found over the bound: %v", err)
	}
	// Nothing of what was refused is decided.
	tips := r.tip(orgID(1)).Count + r.tip(orgID(2)).Count
	if int(tips) != decided+2 {
		t.Fatalf("%d entries decided, %d counted", tips, decided)
	}
	close(g.open)
	if err := r.l.Wait(ctx(t), last); err != nil {
		t.Fatal(err)
	}
	if r.l.Stats()["unstored_bytes"] != 0 {
		t.Fatal(r.l.Stats())
	}
	r.user(orgID(1), 1, "room again")
	r.quiet()
}

func TestUnstoredIsNeverEvicted(t *testing.T) {
	s := newStore()
	r := start(t, s, tiny)
	for i := range 20 {
		r.found(orgID(i))
	}
	g := newGate(s)
	r.waitForCapacity(orgID(0))
	n, err := r.step(orgID(0), &org.Entry{}, func(tx *org.Tx) error { return tx.PutUser(&org.User{ID: itemID(1), Name: "x"}) })
	if err != nil {
		t.Fatal(err)
	}
	<-g.seen
	loads := r.l.Stats()["organization_loads"]
	for i := range 20 {
		_, err := r.read(orgID(i), 1)
		if i > 0 && err == nil {
			continue // another one may be open beside it, one at a time
		}
		if i > 0 && !errors.Is(err, ledger.ErrBusy) {
			t.Fatal(err)
		}
		r.mustRead(orgID(0), 1, "x")
	}
	s.mu.Lock()
	s.hooks.org = func(q wire.LoadOrganization, o wire.Organization) (wire.Organization, error) {
		if q.Organization == wid(orgID(0)) {
			t.Error("an organization with an unstored entry is loaded again")
		}
		return o, nil
	}
	s.mu.Unlock()
	for range 3 {
		for i := range 20 {
			_, _ = r.read(orgID(i), 1)
		}
		r.mustRead(orgID(0), 1, "x")
	}
	close(g.open)
	if err := r.l.Wait(ctx(t), n); err != nil {
		t.Fatal(err)
	}
	s.lie(hooks{})
	for i := range 20 {
		r.waitForCapacity(orgID(i))
	}
	if st := r.l.Stats(); st["organization_loads"] == loads || st["tips"] != 20 || st["organizations_open"] > 2 {
		t.Fatal(st)
	}
	r.mustRead(orgID(0), 1, "x")
	r.quiet()
}

// What nobody authenticated has used is the first to go.
func TestHotOrganizationsStay(t *testing.T) {
	s := newStore()
	r := start(t, s, func(c *ledger.Config) { c.Limits.StateBytes = 20_000 })
	for i := range 200 {
		r.found(orgID(i))
	}
	for range 2 {
		for i := range 3 {
			if _, err := r.step(orgID(i), &org.Entry{}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, func() bool { return r.l.Stats()["unstored_bytes"] == 0 }, func() string { return "unstored" })
	loaded := map[wire.ID]int{}
	s.lie(hooks{org: func(q wire.LoadOrganization, o wire.Organization) (wire.Organization, error) {
		s.mu.Lock()
		loaded[q.Organization]++
		s.mu.Unlock()
		return o, nil
	}})
	for i := range 100 {
		if _, err := r.read(orgID(50+i), 1); err != nil { // a stranger knocks everywhere
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if _, err := r.read(orgID(i), 1); err != nil || loaded[wid(orgID(i))] != 0 {
			t.Errorf("organization %d was pushed out, %v", i, err)
		}
	}
}

// Organizations that were opened at the same time may be too many together. The next use
// of one makes room, also when it changes nothing.
func TestReadingUnloads(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	for i := range 2 {
		r.found(orgID(i))
	}
	eventually(t, func() bool { return r.l.Stats()["unstored_bytes"] == 0 }, func() string { return "unstored" })
	r.l.Close()
	var asked, inside, left sync.WaitGroup
	asked.Add(2)
	inside.Add(2)
	s.lie(hooks{org: func(_ wire.LoadOrganization, o wire.Organization) (wire.Organization, error) {
		asked.Done()
		asked.Wait()
		return o, nil
	}})
	r = start(t, s, tiny)
	for i := range 2 {
		left.Go(func() {
			if err := r.l.TransactOne(ctx(t), orgID(i), func(*ledger.Locked) error {
				inside.Done()
				inside.Wait()
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	left.Wait()
	s.lie(hooks{})
	r.waitForCapacity(orgID(0))
	if n := r.l.Stats()["organizations_open"]; n != 1 {
		t.Errorf("%d organizations are open where there is room for one", n)
	}
	r.quiet()
}

// checkHeaders holds a boot's batches against the chain that they must form.
func checkHeaders(t *testing.T, s *memStore, epoch uint64) (batches int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var before [32]byte
	number := uint64(0)
	for position, b := range s.batches {
		var h wire.BatchHeader
		if err := wire.Unmarshal(b.Header[:len(b.Header)-sha256.Size], &h); err != nil {
			t.Fatal(err)
		}
		leaf, err := tlog.ParseLeaf(h.Leaf)
		if err != nil {
			t.Fatal(err)
		}
		if h.Format != 2 || h.Deployment != deployment || h.Position != uint64(position) || h.Previous != before {
			t.Fatalf("batch %d has header %+v", position, h)
		}
		before = sha256.Sum256(b.Header)
		if b.Epoch != epoch {
			continue
		}
		number++
		if leaf.Boot != [16]byte(b.Boot) || leaf.Epoch != epoch || leaf.Number != number || b.Number != number {
			t.Fatalf("batch %d has leaf %+v", number, leaf)
		}
		want := map[wire.ID]uint64{}
		for _, e := range b.Entries {
			want[e.Organization] = e.Seq + 1
		}
		if len(h.Tips) != len(want) {
			t.Fatalf("batch %d moves %d tips, its header %d", number, len(want), len(h.Tips))
		}
		for _, tip := range h.Tips {
			tip := wire.Tip{Organization: tip.Organization, Count: tip.Count, Root: tip.Root}
			if root := rootOf(leaves(s.of(tip.Organization).entries[:tip.Count])); want[tip.Organization] != tip.Count || tip.Root != root {
				t.Fatalf("batch %d: tip at %d, want %d, or another root", number, tip.Count, want[tip.Organization])
			}
		}
	}
	return int(number)
}

func TestBatches(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	for i := range 8 {
		r.found(orgID(i))
	}
	g := newGate(s)
	first, err := r.step(orgID(0), &org.Entry{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-g.seen // on its way: the next one fills
	var last uint64
	for i := range 40 {
		if last, err = r.step(orgID(i%8), &org.Entry{}, nil); err != nil {
			t.Fatal(err)
		}
		if last != first+1 {
			t.Fatalf("entry in batch %d", last)
		}
	}
	// A parent and its children are in one batch, even where that cuts it.
	var made uint64
	err = r.l.TransactOne(ctx(t), orgID(0), func(locked *ledger.Locked) error {
		var adds []ledger.Addition
		for i := range 3 {
			c := r.child(orgID(100+i), orgID(0))
			adds = append(adds, ledger.Addition{Entry: &org.Entry{Body: make([]byte, 1<<20)}, Tx: c.Tx(), Child: c})
		}
		var err error
		made, err = locked.Append(&org.Entry{Body: make([]byte, 1<<20)}, nil, adds...)
		return err
	})
	if err != nil || made != last+1 {
		t.Fatalf("batch %d after %d, %v", made, last, err)
	}
	big := made
	for range 12 {
		if big, err = r.step(orgID(1), &org.Entry{Body: make([]byte, 1<<20)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if big < made+3 {
		t.Fatalf("12 MiB in %d batches", big-made)
	}
	close(g.open)
	if err := r.l.Wait(ctx(t), big); err != nil {
		t.Fatal(err)
	}
	s.lie(hooks{})
	r.found(orgID(50))
	if n := checkHeaders(t, s, 1); n < 12 {
		t.Fatalf("%d batches", n)
	}
	s.mu.Lock()
	for _, b := range s.batches {
		orgs, size := map[wire.ID]bool{}, 0
		for _, e := range b.Entries {
			orgs[e.Organization] = true
			size += len(e.Sealed)
		}
		if size > wire.MaxBatchBytes+4096 {
			t.Errorf("batch %d has %d bytes", b.Number, size)
		}
		if b.Number == first+1 && len(orgs) != 8 {
			t.Errorf("the batch that filled has %d organizations", len(orgs))
		}
		if b.Number == made && (len(orgs) != 4 || len(b.Keys) != 3) {
			t.Errorf("parent and children: %d organizations, %d keys", len(orgs), len(b.Keys))
		}
	}
	s.mu.Unlock()
	for i := range 3 {
		if tip := r.tip(orgID(100 + i)); tip.Count != 1 {
			t.Fatal(tip)
		}
	}
	r.quiet()
	r.l.Close()
	r = start(t, s, nil)
	r.user(orgID(101), 1, "a child goes on")
	checkHeaders(t, s, 2)
}

func TestTogetherTooLarge(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(0))
	var adds []ledger.Addition
	for i := range 3 {
		c := r.child(orgID(100+i), orgID(0))
		adds = append(adds, ledger.Addition{Entry: &org.Entry{Body: make([]byte, 3<<20)}, Tx: c.Tx(), Child: c})
	}
	err := r.l.TransactOne(ctx(t), orgID(0), func(locked *ledger.Locked) error {
		_, err := locked.Append(&org.Entry{}, nil, adds...)
		return err
	})
	if f := fault.Of(err); f == nil || f.Code != fault.InvalidArgument {
		t.Fatalf("9 MiB in one batch: %v", err)
	}
	if _, err := r.read(orgID(100), 1); !errors.Is(err, ledger.ErrNoOrganization) || r.tip(orgID(0)).Count != 1 {
		t.Fatalf("something came of it: %v", err)
	}
	r.user(orgID(0), 1, "and on it goes")
	r.quiet()
}

// A child is one organization for whoever asks for it while it is being made.
func TestChildIsOpenedOnce(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(0))
	s.lie(hooks{append: func(_ context.Context, b *wire.Batch, honest func() wire.Stored) (wire.Stored, error) {
		got := honest()
		for _, k := range b.Keys { // the host sees the new id and has a client ask at once
			go func() { _, _ = r.read(org.ID(k.Organization), 1) }()
		}
		return got, nil
	}, org: func(q wire.LoadOrganization, o wire.Organization) (wire.Organization, error) {
		t.Error("an organization that is being made is loaded")
		return o, nil
	}})
	for i := range 200 {
		c := r.child(orgID(100+i), orgID(0))
		var n uint64
		err := r.l.TransactOne(ctx(t), orgID(0), func(locked *ledger.Locked) (err error) {
			n, err = locked.Append(&org.Entry{}, nil, ledger.Addition{Entry: &org.Entry{}, Tx: c.Tx(), Child: c})
			return err
		})
		if err == nil {
			err = r.l.Wait(ctx(t), n)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.user(orgID(100+i), 1, "x")
	}
	if st := r.l.Stats(); st["organizations_open"] != 201 {
		t.Fatal(st)
	}
	r.quiet()
}

func TestConcurrentTransactions(t *testing.T) {
	s := newStore()
	r := start(t, s, func(c *ledger.Config) { c.Limits.SnapshotEvery, c.Limits.StateBytes = 16, 60_000 })
	const orgs, each, clients = 6, 40, 8
	for o := range orgs {
		r.found(orgID(o))
	}
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				o := (c + i) % orgs
				for {
					n, err := r.step(orgID(o), &org.Entry{}, func(tx *org.Tx) error {
						u, err := tx.User(itemID(0))
						if err != nil {
							return err
						}
						next := org.User{ID: itemID(0)}
						if u != nil {
							next = *u
						}
						next.CreatedMs++
						return tx.PutUser(&next)
					})
					if err == nil {
						err = r.l.Wait(ctx(t), n)
					}
					if err == nil {
						break
					}
					if !errors.Is(err, ledger.ErrBusy) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	r.quiet()
	r.l.Close()
	r = start(t, s, nil)
	total := uint64(0)
	for o := range orgs {
		_ = r.l.TransactOne(ctx(t), orgID(o), func(locked *ledger.Locked) error {
			u, err := org.Begin(orgID(o), locked.State, 1).User(itemID(0))
			if err != nil || u == nil || u.CreatedMs != locked.Tip().Count-1 {
				t.Errorf("organization %d: %+v, %v", o, u, err)
				return err
			}
			total += u.CreatedMs
			return nil
		})
	}
	if total != each*clients {
		t.Fatalf("%d additions of %d", total, each*clients)
	}
	checkHeaders(t, s, 1)
}

// ours counts goroutines of the ledger.
func ours() (n int, all string) {
	buf := make([]byte, 1<<20)
	all = string(buf[:runtime.Stack(buf, true)])
	for _, g := range strings.Split(all, "\n\n") {
		if strings.Contains(g, "internal/ledger.(") && !strings.Contains(g, "testing.tRunner") {
			n++
		}
	}
	return n, all
}

func TestNothingIsLeftRunning(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"close": func(r *rig) { r.l.Close() },
		"release": func(r *rig) {
			if err := r.l.Release(ctx(r.t)); err != nil {
				r.t.Error(err)
			}
		},
		"release that cannot": func(r *rig) {
			newGate(r.store)
			if _, err := r.step(orgID(0), &org.Entry{}, nil); err != nil {
				r.t.Error(err)
			}
			short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			if err := r.l.Release(short); err == nil {
				r.t.Error("released with an entry that is not stored")
			}
			r.l.Close()
		},
		"close with everything stuck": func(r *rig) {
			stuck := func(c context.Context) error { <-c.Done(); return c.Err() }
			r.store.lie(hooks{
				put: func(c context.Context, _ wire.PutSnapshot, _ func() wire.Done) (wire.Done, error) {
					return wire.Done{}, stuck(c)
				},
				entries: func(c context.Context, _ wire.LoadEntries, e wire.Entries) (wire.Entries, error) { return e, stuck(c) },
				org: func(_ wire.LoadOrganization, o wire.Organization) (wire.Organization, error) {
					o.Count += 5
					return o, nil
				},
			})
			for range 5 {
				if _, err := r.step(orgID(0), &org.Entry{}, nil); err != nil {
					r.t.Error(err)
				}
			}
			short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			_ = r.l.TransactOne(short, orgID(2), func(*ledger.Locked) error { return nil })
			r.l.Close()
		},
		"fence": func(r *rig) {
			r.store.mu.Lock()
			r.store.row.Epoch++
			r.store.mu.Unlock()
			if _, err := r.step(orgID(0), &org.Entry{}, nil); err != nil {
				r.t.Error(err)
			}
			<-r.fences
			r.l.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			before := start(t, s, nil)
			for i := range 3 {
				before.found(orgID(i))
			}
			before.l.Close()
			r := start(t, s, every(2))
			for i := range 2 {
				r.user(orgID(i), 1, "x")
			}
			end(r)
			eventually(t, func() bool { n, _ := ours(); return n == 0 }, func() string { _, all := ours(); return all })
			if _, err := r.read(orgID(0), 1); name != "release that cannot" && !errors.Is(err, ledger.ErrFenced) {
				t.Errorf("a turn after the end: %v", err)
			}
			r.l.Close()
		})
	}
}

func TestCloseTwiceAndConcurrently(t *testing.T) {
	r := start(t, newStore(), every(1))
	r.found(orgID(0))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				_, _ = r.step(orgID(0), &org.Entry{}, nil)
			}
		})
		if i == 4 {
			wg.Go(r.l.Close)
			wg.Go(r.l.Close)
		}
	}
	wg.Wait()
	if _, err := r.step(orgID(0), &org.Entry{}, nil); !errors.Is(err, ledger.ErrFenced) {
		t.Fatal(err)
	}
}
