package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// A change is of a log's witnesses: the terms before, and those of the next manifest.
type change struct {
	left, next       *ledger.Terms
	leaving, joining []*seen
}

func newChange(t testing.TB) *change {
	c := new(change)
	c.left, c.leaving = terms(t, tlog.ModeStrict)
	c.next, c.joining = termsOf(t, tlog.ModeStrict, "v")
	c.next.Generation = 2
	return c
}

// all are both sets: a store's witnesses.
func (c *change) all() []*seen { return slices.Concat(c.leaving, c.joining) }

// under is a boot under the next manifest.
func (c *change) under(cfg *ledger.Config) {
	witnessed(c.next)(cfg)
	cfg.PreviousWitnesses = c.left
}

// served is a store with a log that the witnesses before have seen, with an organization.
func (c *change) served(t testing.TB) (*memStore, *rig) {
	t.Helper()
	s := newStore()
	s.witnesses = c.all()
	r := start(t, s, witnessed(c.left))
	known(t, r, c.leaving)
	for i := range 40 {
		r.found(orgID(i))
	}
	r.user(orgID(1), 1, "before")
	return s, r
}

// refusal is the code of a refused boot.
func refusal(t testing.TB, s *memStore, edit func(*ledger.Config)) string {
	t.Helper()
	s.mu.Lock()
	s.row.Released = true
	s.mu.Unlock()
	err := unstarted(t, s, edit).l.Take(soon(t, time.Second), nil)
	var f *fault.Error
	var b *fault.Breach
	switch {
	case err == nil:
		return "taken"
	case errors.As(err, &f):
		return f.Name
	case errors.As(err, &b):
		return b.Alarm.String()
	}
	return err.Error()
}

// The next manifest has other witnesses: the log is closed under those before, and the next generation begins with all that
// it holds. Who was named serves at once.
func TestOtherWitnesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChange(t)
		s, r := c.served(t)
		if code := refusal(t, s.copy().seenBy(c), witnessed(c.next)); code != "LOG_WITNESSES_CHANGED" {
			t.Errorf("other witnesses without a word of those before: %s", code)
		}
		next := wire.ID{77}
		key, err := r.l.NextLogKey(c.next.Name)
		if err == nil {
			err = r.l.CloseForWrites(ctx(t))
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.joining {
			must(t, w.Add(key))
		}
		past, err := r.l.SealForHandover(ctx(t), org.ID(next))
		if err != nil {
			t.Fatal(err)
		}
		head := past.Head()
		c.next.Serve, c.left.Serve = time.Minute, time.Minute // it would wait for longer than the test
		second := start(t, s, func(cfg *ledger.Config) { c.under(cfg); cfg.Boot, cfg.HandedHead = next, &head })
		second.mustRead(orgID(1), 1, "before")
		second.user(orgID(1), 1, "after")
		if name := second.l.LogKey().Name(); name != key.Name() || !strings.HasSuffix(name, "/2") || second.l.LogKey().String() != key.String() {
			t.Errorf("the log is %s, was to be %s", second.l.LogKey(), key)
		}
		// The witnesses before are not needed any more, and what they have seen is done for.
		leaveAll(c.leaving, true)
		second.quiet()
		second.l.Close()
		c.next.Serve, c.left.Serve = 300*time.Millisecond, 300*time.Millisecond
		if code := refusal(t, s.copy().seenBy(c), witnessed(c.left)); code != "LOG_WITNESSES_CHANGED" {
			t.Errorf("the manifest before: %s", code)
		}
		// From now on boots follow each other, from the table that was adopted and from later ones.
		for i := range 3 {
			b := start(t, s, func(cfg *ledger.Config) {
				if often(cfg); i == 1 {
					witnessed(c.next)(cfg)
					return
				}
				c.under(cfg)
			})
			for n := range 40 {
				b.waitForCapacity(orgID(n))
				if _, err := b.read(orgID(n), 1); err != nil {
					t.Fatal(n, err)
				}
				b.user(orgID(n), 2, fmt.Sprint("boot ", i))
			}
			b.waitForCapacity(orgID(1))
			b.mustRead(orgID(1), 1, "after")
			b.tables(t, 2)
			b.quiet()
			b.l.Close()
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seenBy gives a copy of a store the witnesses of both manifests.
func (s *memStore) seenBy(c *change) *memStore {
	s.witnesses = c.all()
	return s
}

// Wherever a move breaks off, the next boot under the next manifest goes on, and waits.
func TestMoveBreaksOff(t *testing.T) {
	away := errors.New("away")
	kind := func(b *wire.Batch) (l *tlog.Leaf) {
		var h wire.BatchHeader
		if wire.Unmarshal(b.Header[:len(b.Header)-32], &h) == nil {
			l, _ = tlog.ParseLeaf(h.Leaf)
		}
		return l
	}
	// until stores batches up to one that is, or is not, and none behind it.
	until := func(last func(*tlog.Leaf) bool, stored bool) hooks {
		over := false
		return hooks{append: func(_ context.Context, b *wire.Batch, honest func() wire.Stored) (wire.Stored, error) {
			if !over && (!last(kind(b)) || stored) {
				over = last(kind(b))
				if got := honest(); !over {
					return got, nil
				}
			}
			return wire.Stored{}, away
		}}
	}
	closes := func(l *tlog.Leaf) bool { return l.Close != nil }
	adopts := func(l *tlog.Leaf) bool { return l.Adopt != nil }
	starts := func(l *tlog.Leaf) bool { return l.Start != nil }
	for what, lie := range map[string]hooks{
		"nothing stored":  until(closes, false),
		"closed":          until(closes, true),
		"closed and seen": until(adopts, false),
		"adopted":         until(adopts, true),
		"table unknown": {tabled: func(_ context.Context, q wire.PutTable, honest func() wire.Done) (wire.Done, error) {
			honest()
			return wire.Done{}, away
		}},
		"table not taken": {tabled: func(context.Context, wire.PutTable, func() wire.Done) (wire.Done, error) { return wire.Done{}, away }},
		"not started":     until(starts, false),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChange(t)
				s, r := c.served(t)
				r.l.Close()
				s.lie(lie)
				broken := unstarted(t, s, c.under)
				if err := broken.l.Take(soon(t, 300*time.Millisecond), nil); err == nil {
					t.Fatal("taken")
				}
				broken.l.Close()
				s.lie(hooks{})
				if what != "nothing stored" {
					if code := refusal(t, s.copy().seenBy(c), witnessed(c.left)); code != "LOG_WITNESSES_CHANGED" {
						t.Errorf("the manifest before: %s", code)
					}
				}
				began := time.Now()
				next := start(t, s, c.under)
				known(t, next, c.joining)
				if err := next.l.Serving(ctx(t)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < c.left.Serve {
					t.Errorf("serves after %v", took)
				}
				next.mustRead(orgID(1), 1, "before")
				next.user(orgID(1), 1, "after")
				next.quiet()
				next.l.Close()
				last := start(t, s, c.under)
				last.mustRead(orgID(1), 1, "after")
				last.quiet()
			})
		})
	}
}

// What a host may show an enclave under the next manifest is the log where its witnesses have seen it closed, and no other.
func TestMoveRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChange(t)
		unwitnessed := newStore()
		start(t, unwitnessed, nil).found(orgID(1))
		young := unwitnessed.copy()
		s := young.copy()
		s.witnesses = c.all()
		r := start(t, s, witnessed(c.left))
		known(t, r, c.leaving)
		key, err := r.l.NextLogKey(c.next.Name)
		must(t, err)
		for _, w := range c.joining { // whatever they are told
			must(t, w.Add(key))
			must(t, w.Add(r.l.LogKey()))
		}
		r.user(orgID(1), 1, "before")
		old := s.copy()
		r.user(orgID(1), 1, "after")
		r.l.Close()
		whole := s.copy()
		for what, shown := range map[string]struct {
			store *memStore
			want  string
		}{
			"nothing":                         {newStore(), "LOG_GENERATION"},
			"the log before it had witnesses": {young.copy(), "LOG_GENERATION"},
			"the log before its end":          {old.copy(), "LOG_UNAVAILABLE"}, // the witnesses before have seen more
		} {
			if code := refusal(t, shown.store.seenBy(c), c.under); code != shown.want {
				t.Errorf("%s: %s", what, code)
			}
		}
		// Two enclaves adopt one log, each on a store of its own: one of them serves.
		one, two := start(t, whole.copy().seenBy(c), c.under), (*rig)(nil)
		must(t, one.l.Serving(ctx(t)))
		other := one.store.copy().seenBy(c)
		cut := slices.IndexFunc(other.batches, func(b wire.Batch) bool {
			return strings.Contains(string(b.Header), "log.example") && b.Epoch == other.row.Epoch
		})
		other.batches = other.batches[:cut+1] // up to the leaf that closes it: the next generation is hidden
		other.table, other.pages = whole.table, whole.copy().pages
		closed := other.copy()
		two = start(t, other, c.under)
		if err := two.l.Serving(soon(t, 5*c.next.Serve)); err == nil {
			t.Error("two enclaves serve from one log that was closed")
		}
		one.user(orgID(1), 1, "later")
		// The manifest before does not go on with it either: what it closed with is seen.
		if err := start(t, whole.copy().seenBy(c), witnessed(c.left)).l.Serving(soon(t, 5*c.left.Serve)); err == nil {
			t.Error("the manifest before serves a log that was closed")
		}
		// Nor does another manifest, for which it was not closed.
		foreign := *c
		foreign.next, foreign.joining = termsOf(t, tlog.ModeStrict, "u")
		foreign.next.Generation = 2
		if code := refusal(t, closed.copy().seenBy(c), foreign.under); code != "LOG_WITNESSES_CHANGED" {
			t.Errorf("a manifest that the log was not closed for: %s", code)
		}
		named := *c.next
		named.Name = "other.example"
		foreign.next = &named
		if code := refusal(t, closed.copy().seenBy(c), foreign.under); code != "LOG_WITNESSES_CHANGED" {
			t.Errorf("another origin than the log was closed for: %s", code)
		}
	})
}

// Of three manifests each has other witnesses, and the first let an enclave serve for longer than the others do. The second
// breaks off once it has moved the log: the third waits for an enclave of the first.
func TestMoveWaitsForTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChange(t)
		c.left.Serve, c.left.Bound = 2*time.Second, 2*time.Second
		s, r := c.served(t)
		r.l.Close()
		second := start(t, s, c.under)
		known(t, second, c.joining)
		second.l.Close()
		then := change{left: c.next, leaving: c.joining}
		then.next, then.joining = termsOf(t, tlog.ModeStrict, "u")
		then.next.Generation = 3
		s.witnesses = slices.Concat(c.all(), then.joining)
		began := time.Now()
		third := start(t, s, then.under)
		known(t, third, then.joining)
		must(t, third.l.Serving(ctx(t)))
		if took := time.Since(began); took < c.left.Serve {
			t.Errorf("serves after %v, and an enclave of the first manifest may for %v", took, c.left.Serve)
		}
		third.mustRead(orgID(1), 1, "before")
		// Once it serves nobody has to wait for that one any more.
		eventually(t, func() bool { return s.kept(t).WaitMs == 0 }, func() string { return "the table says that it waits" })
		third.user(orgID(1), 1, "after")
		third.quiet()
		third.l.Close()
		last := start(t, s, then.under)
		last.mustRead(orgID(1), 1, "after")
		last.quiet()
	})
}

// blockOf is the hash of a tip table's only block.
func blockOf(t testing.TB, table []byte) wire.Hash {
	t.Helper()
	k, err := wire.ParseKeptTable(table)
	must(t, err)
	if all := k.BlockHashes(); len(all) == 1 {
		return all[0]
	}
	t.Fatal("it has more blocks than one")
	return wire.Hash{}
}

// kept is what the store has of the tip table.
func (s *memStore) kept(t testing.TB) *wire.KeptTable {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := wire.ParseKeptTable(s.table)
	must(t, err)
	return k
}
