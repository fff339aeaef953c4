package ledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// often makes a tip table every few batches and opens every organization anew.
func often(c *ledger.Config) {
	c.Limits.TableEvery, c.Limits.StateBytes = 4, 1
}

func nobody(c *ledger.Config) { c.Logged = false }

// Boots follow each other; each makes tables while it works, opens all that is there where it
// stands, and tells of nothing that is not there, without a look at what the host shows.
func TestTipTables(t *testing.T) {
	s := newStore()
	made := 0
	for boot := range 4 {
		r := start(t, s, often)
		for range 40 {
			r.found(orgID(made))
			r.user(orgID(made), 1, fmt.Sprint("boot ", boot))
			made++
		}
		// A table that is begun now names every organization; one that is being made need not. Batches bring the next one.
		for first, tries := r.l.Stats()["tip_tables"], 0; r.l.Stats()["tip_tables"] < first+2; tries++ {
			if tries == 10_000 {
				t.Fatalf("%d tip tables after as many batches more", r.l.Stats()["tip_tables"]-first)
			}
			r.user(orgID(made-1), 1, fmt.Sprint("boot ", boot))
		}
		for i := range made {
			r.waitForCapacity(orgID(i))
			r.mustRead(orgID(i), 1, fmt.Sprint("boot ", i/40))
		}
		asked := atomic.Uint64{}
		s.lie(hooks{org: func(_ wire.LoadOrganization, o wire.Organization) (wire.Organization, error) {
			asked.Add(1)
			return o, nil
		}})
		for i := range 20 {
			if _, err := r.read(orgID(1000+i), 1); !errors.Is(err, ledger.ErrNoOrganization) {
				t.Errorf("an organization that nobody made: %v", err)
			}
		}
		if n := asked.Load(); n != 0 {
			t.Errorf("the host was asked %d times for organizations that the log does not have", n)
		}
		s.lie(hooks{})
		r.quiet()
		if err := r.l.Release(ctx(t)); err != nil {
			t.Fatal(err)
		}
		for epoch := range uint64(boot + 1) {
			checkHeaders(t, s, epoch+1)
		}
	}
	// What no table names was dropped: one page for each 32 organizations is left, and one block.
	if n := len(s.pages); n != (made+31)/32+1 {
		t.Errorf("%d pages and blocks are kept for %d organizations", n, made)
	}
}

// A boot's number is one more than that of the boot before in the log, through tables, whatever the
// host counts.
func TestBootNumber(t *testing.T) {
	s := newStore()
	for boot, skips := range []uint64{0, 0, 7, 0, 1 << 40} {
		s.row.Epoch += skips
		r := start(t, s, often)
		if got, want := r.l.BootNumber(), uint64(boot)+1; got != want {
			t.Errorf("boot %d has number %d, the host counts %d", want, got, r.l.Epoch())
		}
		r.found(orgID(boot))
		if boot > 1 {
			for i := range 8 {
				r.user(orgID(boot), i, "")
			}
			r.tables(t, 1)
		}
		if err := r.l.Release(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// No boot goes on under a manifest before the one that the log was last written under, though the log say so
// in its tip table only.
func TestOlderManifest(t *testing.T) {
	s := newStore()
	nonce := func(n uint64) func(*ledger.Config) {
		return func(c *ledger.Config) { often(c); c.Start.ManifestNonce = n }
	}
	for _, n := range []uint64{1, 1, 7} {
		r := start(t, s, nonce(n))
		r.found(orgID(int(s.row.Epoch)))
		if s.row.Epoch > 1 {
			for i := range 8 {
				r.user(orgID(int(s.row.Epoch)), i, "")
			}
			r.tables(t, 1)
		}
		if err := r.l.Release(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}
	r := unstarted(t, s, nonce(6))
	if err := r.l.Take(ctx(t), nil); fault.Of(err) == nil || fault.Of(err).Name != "LOG_MANIFEST" {
		t.Errorf("under the manifest before: %v", err)
	}
	for _, n := range []uint64{7, 8} {
		if err := start(t, s, nonce(n)).l.Release(ctx(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever the store does not answer or refuses while a table is made, the next boot begins.
func TestTableBreaksOff(t *testing.T) {
	away := errors.New("away")
	for name, lie := range map[string]hooks{
		"pages unknown": {tabled: func(_ context.Context, q wire.PutTable, honest func() wire.Done) (wire.Done, error) {
			if len(q.Pages) > 0 {
				honest()
				return wire.Done{}, away
			}
			return honest(), nil
		}},
		"table unknown": {tabled: func(_ context.Context, q wire.PutTable, honest func() wire.Done) (wire.Done, error) {
			if honest(); len(q.Table) > 0 {
				return wire.Done{}, away
			}
			return wire.Done{OK: true}, nil
		}},
		"table not taken": {tabled: func(_ context.Context, q wire.PutTable, honest func() wire.Done) (wire.Done, error) {
			if len(q.Table) > 0 {
				return wire.Done{}, away
			}
			return honest(), nil
		}},
		"refused": {tabled: func(context.Context, wire.PutTable, func() wire.Done) (wire.Done, error) { return wire.Done{}, nil }},
		"pages withheld": {pages: func(wire.LoadPages, wire.Pieces) (wire.Pieces, error) {
			return wire.Pieces{}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			r := start(t, s, often)
			for i := range 20 {
				r.found(orgID(i))
			}
			r.tables(t, 1)
			eventually(t, func() bool { return r.l.Stats()["tips"] < 4 }, func() string { return "no second table" })
			s.lie(lie)
			for i := 20; i < 40; i++ {
				r.found(orgID(i))
			}
			s.lie(hooks{})
			r.l.Close()
			next := start(t, s, often)
			for i := range 40 {
				next.waitForCapacity(orgID(i))
				if _, err := next.read(orgID(i), 1); err != nil {
					t.Fatal(i, err)
				}
			}
			next.user(orgID(39), 1, "later")
			next.tables(t, 1)
			next.quiet()
		})
	}
}

// A store of a release before logs is adopted as it is found, if it may be; a deployment that was made
// with a log adopts nothing.
func TestAdopt(t *testing.T) {
	old := newStore()
	r := start(t, old, often)
	for i := range 100 {
		r.found(orgID(i))
		r.user(orgID(i), 1, "before")
	}
	r.l.Close()
	old.table, old.pages = nil, nil
	for i := range old.batches {
		old.batches[i].Header = []byte{0xa1, 1, 1} // format 1 had no MAC
	}
	if err := unstarted(t, old.copy(), often).l.Take(ctx(t), nil); err == nil {
		t.Error("a log that was lost is begun anew")
	}
	bare := old.copy()
	bare.batches = nil
	n := start(t, bare, often)
	if _, err := n.read(orgID(1), 1); !errors.Is(err, ledger.ErrNoOrganization) {
		t.Errorf("an organization beside the log: %v", err)
	}

	earlier := func(c *ledger.Config) { often(c); nobody(c) }
	check := func(r *rig, name string) {
		t.Helper()
		for i := range 100 {
			r.waitForCapacity(orgID(i))
			r.mustRead(orgID(i), 1, name)
		}
		if _, err := r.read(orgID(100), 1); !errors.Is(err, ledger.ErrNoOrganization) {
			t.Error(err)
		}
		r.quiet()
	}
	// The first boot with a log breaks off before anything is said in it.
	away := errors.New("away")
	for what, lie := range map[string]hooks{
		"append": {append: func(context.Context, *wire.Batch, func() wire.Stored) (wire.Stored, error) {
			return wire.Stored{}, away
		}},
		"table": {tabled: func(context.Context, wire.PutTable, func() wire.Done) (wire.Done, error) { return wire.Done{}, away }},
	} {
		old.lie(lie)
		soon, cancel := context.WithCancel(ctx(t))
		b := unstarted(t, old, earlier)
		go cancel()
		if err := b.l.Take(soon, nil); err == nil {
			t.Errorf("%s: taken", what)
		}
		b.l.Close()
		old.lie(hooks{})
	}
	r = start(t, old, earlier)
	check(r, "before")
	shown := old.image(wid(orgID(5)))
	r.user(orgID(5), 1, "after")
	r.l.Close()
	// From now on the log says where they stand.
	old.lie(hooks{tips: func(wire.LoadTips, wire.Tips) (wire.Tips, error) {
		t.Error("tips are asked for again")
		return wire.Tips{}, nil
	}, org: func(q wire.LoadOrganization, o wire.Organization) (wire.Organization, error) {
		if q.Organization == wid(orgID(5)) {
			return shown, nil
		}
		return o, nil
	}})
	r = start(t, old, earlier)
	before := r.alarms.Counts()
	_, err := r.read(orgID(5), 1)
	if err := r.breached(err, fault.AlarmTip, before); err != nil {
		t.Error(err)
	}

	for what, lie := range map[string]func(*wire.Tips){
		"twice":      func(q *wire.Tips) { q.Tips = append(q.Tips, q.Tips[0]) },
		"too many":   func(q *wire.Tips) { q.Tips = slices.Repeat(q.Tips, 100) },
		"no entries": func(q *wire.Tips) { q.Tips[3].Count = 0 },
	} {
		s := bare.copy()
		s.lie(hooks{tips: func(_ wire.LoadTips, q wire.Tips) (wire.Tips, error) { lie(&q); return q, nil }})
		s.batches, s.table = nil, nil
		if err := unstarted(t, s, earlier).l.Take(ctx(t), nil); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// numbered is the tip of the n-th organization by ascending id.
func numbered(n int) (t wire.Tip) {
	binary.BigEndian.PutUint32(t.Organization[:], uint32(n)<<8)
	t.Organization[15], t.Count, t.Root = 1, 1, wire.Hash{1}
	return t
}

// listing are count tips of a host that goes on where it was asked to.
func listing(q wire.LoadTips, count int) (t wire.Tips) {
	from := int(binary.BigEndian.Uint32(q.From[:])) >> 8
	if q.From[15] > 1 {
		from++
	}
	for n := range count {
		t.Tips = append(t.Tips, numbered(from+n))
	}
	return t
}

// A host that lists the tips of a range without a log can't do so without end, or twice: it is refused at the first
// page that can be no answer, and the error says what it did.
func TestHostileTips(t *testing.T) {
	const page, most = wire.MaxTipsPage, 2*wire.MaxTipsPage + 100
	for name, c := range map[string]struct {
		list  func(q wire.LoadTips, asked int) wire.Tips
		asked int
		says  string // empty: it is honest
	}{
		"as many as a table holds": {func(q wire.LoadTips, asked int) wire.Tips { return listing(q, min(page, most-(asked-1)*page)) }, 3, ""},
		"a last page that is full": {func(q wire.LoadTips, asked int) wire.Tips { return listing(q, (2-asked)*page) }, 2, ""},
		"no end":                   {func(q wire.LoadTips, _ int) wire.Tips { return listing(q, page) }, 3, "the host listed more than 8292"},
		"one more than a table":    {func(q wire.LoadTips, asked int) wire.Tips { return listing(q, min(page, most+1-(asked-1)*page)) }, 3, "the host listed more than 8292"},
		"a page again":             {func(wire.LoadTips, int) wire.Tips { return listing(wire.LoadTips{}, page) }, 2, "asked for 000fff"},
		"a tip again": {func(q wire.LoadTips, asked int) wire.Tips {
			got := listing(q, page)
			if asked == 2 {
				got.Tips[0] = numbered(page - 1)
			}
			return got
		}, 2, "asked for 000fff"},
		"one twice on a page": {func(q wire.LoadTips, _ int) wire.Tips {
			got := listing(q, 10)
			got.Tips[5] = got.Tips[4]
			return got
		}, 1, "the host listed 00000400000000000000000000000001 after 00000400000000000000000000000001"},
		"descending": {func(q wire.LoadTips, _ int) wire.Tips {
			got := listing(q, page)
			slices.Reverse(got.Tips)
			return got
		}, 1, "the host listed 000ffe00000000000000000000000001 after 000fff00000000000000000000000001"},
		"of another range": {func(q wire.LoadTips, _ int) wire.Tips {
			got := listing(q, 10)
			got.Tips[9].Organization[0] = 0x80
			return got
		}, 1, "the host listed 80000900000000000000000000000001, asked for 000000"},
		"more than asked for": {func(q wire.LoadTips, _ int) wire.Tips { return listing(q, page+1) }, 1, "the host listed 4097 at once, asked for 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			s, asked := newStore(), 0
			s.lie(hooks{tips: func(q wire.LoadTips, _ wire.Tips) (wire.Tips, error) {
				asked++
				return c.list(q, asked), nil
			}})
			r := unstarted(t, s, func(cfg *ledger.Config) { nobody(cfg); cfg.Ranges, cfg.Limits.MaxTips = 2, most })
			before := r.alarms.Counts()
			err := r.l.Take(ctx(t), nil)
			if asked != c.asked {
				t.Errorf("asked %d times, not %d", asked, c.asked)
			}
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if wrong := r.breached(err, fault.AlarmLog, before); wrong != nil {
				t.Error(wrong)
			} else if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, not %s", err, c.says)
			}
		})
	}
}

// A range makes a tip table an hour after the one before, however few batches it has stored since, and none that would
// name the same tips.
func TestTableByTheHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := start(t, s, nil)
		tables := func(want uint64, when string) {
			t.Helper()
			if synctest.Wait(); r.l.Stats()["tip_tables"] != want {
				t.Errorf("%s: %d tables, not %d", when, r.l.Stats()["tip_tables"], want)
			}
		}
		r.found(orgID(1))
		time.Sleep(ledger.DefaultTableAge - time.Second)
		r.found(orgID(2))
		tables(0, "within the hour")
		time.Sleep(time.Second)
		tables(1, "an hour after the boot, without another batch")
		if n := r.l.Stats()["tips"]; n != 0 {
			t.Errorf("%d tips outside of the table", n)
		}
		size := r.l.Stats()["log_size"]
		time.Sleep(10 * ledger.DefaultTableAge)
		tables(1, "hours without a change")
		if r.l.Stats()["log_size"] != size {
			t.Error("an idle range goes on with its log")
		}
		r.user(orgID(1), 1, "Ada")
		tables(2, "a change after hours")
		r.user(orgID(1), 1, "Grace")
		tables(2, "a change right behind")
		time.Sleep(ledger.DefaultTableAge)
		tables(3, "an hour later")
		r.quiet()
		r.l.Close()
		next := start(t, s, nil)
		next.mustRead(orgID(1), 1, "Grace")
		next.quiet()
	})
}

// A host that shows a boot pages, or a table, that the log does not name is refused, and what
// it says of an organization is held against the log.
func TestTableLies(t *testing.T) {
	s := newStore()
	r := start(t, s, often)
	for i := range 80 {
		r.found(orgID(i))
	}
	eventually(t, func() bool { return r.l.Stats()["tips"] < 4 }, func() string { return fmt.Sprint(r.l.Stats()) })
	tables, pages := [][]byte{bytes.Clone(s.table)}, []map[wire.Hash][]byte{s.copy().pages}
	for i := range 80 {
		r.user(orgID(i), 1, "later")
	}
	eventually(t, func() bool { return r.l.Stats()["tips"] < 4 }, func() string { return fmt.Sprint(r.l.Stats()) })
	r.l.Close()
	tables, pages = append(tables, bytes.Clone(s.table)), append(pages, s.copy().pages)

	older := s.copy()
	older.table, older.pages = tables[0], maps.Clone(pages[0])
	o := start(t, older, often) // legal: the headers behind it are all there
	for i := range 80 {
		o.waitForCapacity(orgID(i))
		o.mustRead(orgID(i), 1, "later")
	}
	block := blockOf(t, s.table)
	for what, change := range map[string]func(*memStore){
		"pages of another time": func(s *memStore) { s.pages = maps.Clone(pages[0]) },
		"no pages":              func(s *memStore) { clear(s.pages) },
		"empty pages": func(s *memStore) {
			for h := range s.pages {
				s.pages[h] = nil
			}
		},
		"a changed bit": func(s *memStore) {
			for h, page := range s.pages {
				s.pages[h] = bytes.Clone(page)
				s.pages[h][20] ^= 1
			}
		},
	} {
		lied := s.copy()
		change(lied)
		lied.pages[block] = s.pages[block] // what the pages are: a boot asks for it
		b := start(t, lied, nil)
		refused := 0
		for i := range 80 {
			if _, err := b.read(orgID(i), 1); errors.Is(err, ledger.ErrNoOrganization) {
				t.Errorf("%s: organization %d does not exist", what, i)
			} else if err != nil {
				refused++
			}
		}
		if refused == 0 || b.alarms.Counts()["log"] == 0 {
			t.Errorf("%s: %d refused, %v", what, refused, b.alarms.Counts())
		}
	}
	for what, change := range map[string]func(*memStore){
		"a table that nobody made": func(s *memStore) { s.table[40] ^= 1 },
		"a cut table":              func(s *memStore) { s.table = s.table[:len(s.table)-1] },
		"no block":                 func(s *memStore) { delete(s.pages, block) },
		"a block of another time":  func(s *memStore) { s.pages[block] = pages[0][blockOf(t, tables[0])] },
		"a changed block":          func(s *memStore) { s.pages[block] = bytes.Clone(s.pages[block]); s.pages[block][40] ^= 1 },
		"a table and block that nobody made": func(s *memStore) {
			k := s.kept(t)
			b := bytes.Clone(s.pages[block])
			b[40] ^= 1
			sum := sha256.Sum256(b)
			k.Blocks, s.pages[sum] = sum[:], b
			var err error
			s.table, err = wire.Marshal(k)
			must(t, err)
		},
		"a table without headers": func(s *memStore) { s.batches = nil },
		"headers up to the table": func(s *memStore) { s.batches = s.batches[:len(s.batches)-30] },
		"an earlier table's headers left out": func(s *memStore) {
			s.table = tables[0]
			n := len(s.batches) - 40
			s.batches = append(slices.Clone(s.batches[:n]), s.batches[n+1:]...)
		},
	} {
		lied := s.copy()
		change(lied)
		if err := unstarted(t, lied, nil).l.Take(ctx(t), nil); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// Organizations that moved at the same time as a table is made are where they moved to.
func TestTableWhileDeciding(t *testing.T) {
	s := newStore()
	r := start(t, s, often)
	for i := range 8 {
		r.found(orgID(i))
	}
	done := make(chan struct{})
	for i := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for n := 0; n < 60; n++ {
				batch, err := r.step(orgID(i), &org.Entry{Activity: itemID(n), Type: "T", Status: org.StatusCompleted, TimeMs: 1}, func(tx *org.Tx) error {
					return tx.PutUser(&org.User{ID: itemID(1), Name: fmt.Sprint(n)})
				})
				if errors.Is(err, ledger.ErrBusy) {
					n-- // no room for all of them at once
					continue
				}
				if err == nil {
					err = r.l.Wait(ctx(t), batch)
				}
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
	r.tables(t, 5)
	want := map[int]ledger.Tip{}
	for i := range 8 {
		r.waitForCapacity(orgID(i))
		want[i] = r.tip(orgID(i))
	}
	r.quiet()
	r.l.Close()
	next := start(t, s, nil)
	for i := range 8 {
		if got := next.tip(orgID(i)); got != want[i] {
			t.Errorf("organization %d: %+v, was at %+v", i, got, want[i])
		}
	}
	next.quiet()
}
