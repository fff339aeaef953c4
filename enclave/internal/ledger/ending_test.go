package ledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

func TestEnd(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	for n := range 5 {
		r.found(orgID(n))
	}
	// What is decided cannot be stored: the range is served on.
	away := errors.New("away")
	s.lie(hooks{append: func(context.Context, *wire.Batch, func() wire.Stored) (wire.Stored, error) {
		return wire.Stored{}, away
	}})
	if _, err := r.step(orgID(0), &org.Entry{TimeMs: 1}, nil); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if past, err := r.shutEnd(soon); past != nil || err == nil {
		t.Fatalf("ended with entries that are not stored: %v, %v", past, err)
	}
	s.lie(hooks{})
	r.found(orgID(5)) // it goes on
	// While the last is stored nothing is decided any more.
	storing, stored := make(chan struct{}), make(chan struct{})
	s.lie(hooks{append: func(_ context.Context, _ *wire.Batch, honest func() wire.Stored) (wire.Stored, error) {
		close(storing)
		<-stored
		return honest(), nil
	}})
	if _, err := r.step(orgID(0), &org.Entry{TimeMs: 1}, nil); err != nil {
		t.Fatal(err)
	}
	<-storing
	s.lie(hooks{})
	ended := make(chan *ledger.EndOfOwnership)
	go func() {
		past, err := r.shutEnd(ctx(t))
		if err != nil {
			t.Error(err)
		}
		ended <- past
	}()
	eventually(t, func() bool {
		_, err := r.l.Create(r.child(orgID(6), org.ID{}), &org.Entry{TimeMs: 1}, nil)
		return errors.Is(err, ledger.ErrHandedOver)
	}, func() string { return "decided while it ends" })
	if _, err := r.step(orgID(0), &org.Entry{TimeMs: 1}, nil); !errors.Is(err, ledger.ErrHandedOver) {
		t.Errorf("decided while it ends: %v", err)
	}
	close(stored)
	past := <-ended
	if past.Head() != s.head() || past.Head().Size < 9 {
		t.Errorf("ended at %+v, stored is %+v", past.Head(), s.head())
	}
	// Nothing is decided or answered, while the row is still its own.
	if row := s.row; row.Released || row.Epoch != 1 {
		t.Fatalf("%+v", row)
	}
	if err := r.l.Wait(ctx(t), 0); !errors.Is(err, ledger.ErrFenced) {
		t.Fatalf("answers after it ended: %v", err)
	}
	if _, err := r.step(orgID(0), &org.Entry{TimeMs: 1}, nil); err == nil {
		t.Fatal("decided after it ended")
	}
	if _, err := r.shutEnd(ctx(t)); !errors.Is(err, ledger.ErrHandedOver) {
		t.Fatalf("ended twice: %v", err)
	}
	s.lie(hooks{own: func(wire.Own, func() wire.Owned) (wire.Owned, error) { return wire.Owned{}, away }})
	if err := r.l.ReleaseOwnership(ctx(t)); !errors.Is(err, away) {
		t.Fatal(err)
	}
	s.lie(hooks{})
	if err := r.l.ReleaseOwnership(ctx(t)); err != nil || !s.row.Released {
		t.Fatalf("%+v, %v", s.row, err)
	}

	// The next goes on from there and from nowhere else. An organization that is shown older, or
	// not at all, is refused.
	for what, wrong := range map[string]ledger.Head{"more": {Size: past.Head().Size + 1, Last: past.Head().Last}, "another": {Size: past.Head().Size}} {
		n := unstarted(t, s.copy(), func(c *ledger.Config) { c.HandedHead = &wrong })
		if err := n.l.Take(ctx(t), nil); err == nil || n.alarms.Counts()["tip"] != 1 {
			t.Errorf("%s: %v, %v", what, err, n.alarms.Counts())
		}
	}
	head := past.Head()
	n := unstarted(t, s, func(c *ledger.Config) { c.HandedHead = &head })
	if err := n.l.Take(ctx(t), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := n.step(orgID(0), &org.Entry{TimeMs: 1}, nil); err != nil {
		t.Fatal(err)
	}
	s.lie(hooks{org: func(q wire.LoadOrganization, o wire.Organization) (wire.Organization, error) {
		if q.Organization == wid(orgID(1)) {
			return wire.Organization{}, nil
		}
		o.Count--
		o.Entries = o.Entries[:len(o.Entries)-1]
		return o, nil
	}})
	for _, id := range []org.ID{orgID(1), orgID(2)} {
		if _, err := n.step(id, &org.Entry{TimeMs: 1}, nil); err == nil || errors.Is(err, ledger.ErrNoOrganization) {
			t.Fatalf("an older state than handed on: %v", err)
		}
	}
	if n.alarms.Counts()["tip"] != 2 {
		t.Fatalf("%v", n.alarms.Counts())
	}
}

// head is where the log stands in the store.
func (s *memStore) head() ledger.Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ledger.Head{Size: uint64(len(s.batches)), Last: sha256.Sum256(s.batches[len(s.batches)-1].Header)}
}

// A boot that takes a range again believes what goes on from where it left it, and nothing else,
// also where the tip table covers what came in between: not the log of another boot that went on
// from an older state.
func TestTakenBack(t *testing.T) {
	for name, every := range map[string]uint64{"from headers": 1000, "from a table": 4} {
		t.Run(name, func(t *testing.T) {
			limit := func(c *ledger.Config) { c.Limits.TableEvery = every }
			s := newStore()
			r := start(t, s, limit)
			id := orgID(0)
			r.found(id)
			r.user(id, 1, "before")
			fork := s.copy()
			r.user(id, 2, "seen")
			past, err := r.shutEnd(ctx(t))
			if err != nil {
				t.Fatal(err)
			}
			goOn := func(s *memStore, names string) {
				o := start(t, s, limit)
				for n := range 6 {
					o.user(id, 10+n, names)
				}
				if every < 6 {
					o.tables(t, 1)
				}
				if _, err := o.shutEnd(ctx(t)); err != nil {
					t.Fatal(err)
				}
			}
			goOn(s, "honest")
			goOn(fork, "forked")
			passed := func(c *ledger.Config) { limit(c); c.LastOwned = past }
			back := start(t, s, passed)
			back.mustRead(id, 2, "seen")
			back.mustRead(id, 12, "honest")
			back.quiet()
			head := fork.head()
			for what, handed := range map[string]*ledger.Head{"handed on by nobody": nil, "handed on by the other": &head} {
				b := unstarted(t, fork.copy(), func(c *ledger.Config) { passed(c); c.HandedHead = handed })
				if err := b.l.Take(ctx(t), nil); err == nil {
					t.Errorf("%s: taken", what)
				}
			}
			for what, change := range map[string]func(all [][]byte) [][]byte{
				"withheld":   func([][]byte) [][]byte { return nil },
				"altered":    func(all [][]byte) [][]byte { all[0][9] ^= 1; return all },
				"left out":   func(all [][]byte) [][]byte { return all[1:] },
				"twice":      func(all [][]byte) [][]byte { return append(all[:1:1], all...) },
				"of another": func([][]byte) [][]byte { return [][]byte{fork.batches[len(fork.batches)-1].Header} },
			} {
				lied := s.copy()
				lied.lie(hooks{headers: func(q wire.LoadHeaders, h wire.Headers) (wire.Headers, error) {
					if q.Epoch == 1 && len(h.Headers) > 1 {
						h.Headers = change(h.Headers)
					}
					return h, nil
				}})
				if err := unstarted(t, lied, passed).l.Take(ctx(t), nil); err == nil {
					t.Errorf("%s: taken", what)
				}
			}
		})
	}
}

// tables waits until so many tip tables are kept.
func (r *rig) tables(t testing.TB, n uint64) {
	t.Helper()
	eventually(t, func() bool { return r.l.Stats()["tip_tables"] >= n }, func() string { return "no tip table" })
}

// copy is the store as it is now.
func (s *memStore) copy() *memStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := newStore()
	c.row, c.last, c.table, c.pages = s.row, s.last, bytes.Clone(s.table), maps.Clone(s.pages)
	c.batches = slices.Clone(s.batches)
	for i := range c.batches {
		c.batches[i].Header = bytes.Clone(c.batches[i].Header)
	}
	for id, o := range s.orgs {
		n := *o
		n.entries, n.history = slices.Clone(o.entries), slices.Clone(o.history)
		n.pieces, n.all = maps.Clone(o.pieces), maps.Clone(o.all)
		c.orgs[id] = &n
	}
	return c
}

// A ledger takes no organization of another range.
func TestRange(t *testing.T) {
	s := newStore()
	r := start(t, s, func(c *ledger.Config) { c.Range, c.Ranges = 1, 4 })
	in, out := orgID(0), orgID(1)
	in[0], out[0] = 0x7f, 0x80
	r.found(in)
	if _, err := r.l.NewChild(out, 1); !errors.Is(err, ledger.ErrRange) {
		t.Fatal(err)
	}
	if err := r.l.TransactOne(ctx(t), out, func(*ledger.Locked) error { return nil }); !errors.Is(err, ledger.ErrRange) {
		t.Fatal(err)
	}
	if err := r.l.Pair(ctx(t), in, out, func(_, _ *ledger.Locked) error { return nil }); !errors.Is(err, ledger.ErrRange) {
		t.Fatal(err)
	}
	err := r.l.TransactOne(ctx(t), in, func(tn *ledger.Locked) error {
		_, err := tn.Ledger().NewChild(out, 1)
		return err
	})
	if !errors.Is(err, ledger.ErrRange) {
		t.Fatal(err)
	}
}

// Taking refuses what its caller does not like of the row, and says when another was
// quicker.
func TestTakeFits(t *testing.T) {
	s := newStore()
	start(t, s, nil)
	no := errors.New("no")
	r := unstarted(t, s, func(c *ledger.Config) { c.Limits.Lease = time.Minute })
	if err := r.l.Take(ctx(t), func(row wire.Owned) error {
		if row.Epoch != 1 || row.Released {
			t.Errorf("%+v", row)
		}
		return no
	}); !errors.Is(err, no) || s.row.Epoch != 1 {
		t.Fatalf("%v, %+v", err, s.row)
	}
	err := r.l.Take(ctx(t), func(row wire.Owned) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.row = wire.Owned{Epoch: 2, Boot: wire.ID{7}}
		return nil
	})
	if !errors.Is(err, ledger.ErrTaken) {
		t.Fatal(err)
	}
}

// shutEnd ends a rig's ledger for nobody in particular.
func (r *rig) shutEnd(ctx context.Context) (*ledger.EndOfOwnership, error) {
	if err := r.l.CloseForWrites(ctx); err != nil {
		return nil, err
	}
	return r.l.SealForHandover(ctx, org.ID{})
}
