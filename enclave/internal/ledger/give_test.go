package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"cloister/enclave/internal/fault"
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
	if tips, err := r.l.End(soon); tips != nil || err == nil {
		t.Fatalf("ended with entries that are not stored: %d tips, %v", len(tips), err)
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
	ended := make(chan map[org.ID]ledger.Tip)
	go func() {
		tips, err := r.l.End(ctx(t))
		if err != nil {
			t.Error(err)
		}
		ended <- tips
	}()
	eventually(t, func() bool {
		_, err := r.l.Create(r.child(orgID(6), org.ID{}), &org.Entry{TimeMs: 1}, nil)
		return errors.Is(err, ledger.ErrGiven)
	}, func() string { return "decided while it ends" })
	if _, err := r.step(orgID(0), &org.Entry{TimeMs: 1}, nil); !errors.Is(err, ledger.ErrGiven) {
		t.Errorf("decided while it ends: %v", err)
	}
	close(stored)
	tips := <-ended
	for n := range 6 {
		if stood := s.stored(wid(orgID(n))); tips[orgID(n)].Count != stood || stood == 0 {
			t.Errorf("organization %d ended at %d, stored are %d", n, tips[orgID(n)].Count, stood)
		}
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
	if _, err := r.l.End(ctx(t)); !errors.Is(err, ledger.ErrGiven) {
		t.Fatalf("ended twice: %v", err)
	}
	s.lie(hooks{own: func(wire.Own, func() wire.Owned) (wire.Owned, error) { return wire.Owned{}, away }})
	if err := r.l.Free(ctx(t)); !errors.Is(err, away) {
		t.Fatal(err)
	}
	s.lie(hooks{})
	if err := r.l.Free(ctx(t)); err != nil || !s.row.Released {
		t.Fatalf("%+v, %v", s.row, err)
	}

	// The next believes the tips: an organization that is shown older, or not at all,
	// is refused.
	n := unstarted(t, s, func(c *ledger.Config) {
		c.Tips = maps.Clone(tips)
		c.Tips[orgID(1)] = ledger.Tip{Count: 2, Root: tips[orgID(1)].Root}
		c.Tips[orgID(77)] = ledger.Tip{Count: 1}
	})
	if err := n.l.Take(ctx(t), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := n.step(orgID(0), &org.Entry{TimeMs: 1}, nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []org.ID{orgID(1), orgID(77)} {
		if _, err := n.step(id, &org.Entry{TimeMs: 1}, nil); err == nil || errors.Is(err, ledger.ErrNoOrganization) {
			t.Fatalf("an older state than handed on: %v", err)
		}
	}
	if n.alarms.Counts()["tip"] != 2 {
		t.Fatalf("%v", n.alarms.Counts())
	}
}

// A boot that takes a range again believes what goes on from where it left it, and
// nothing else, however many entries there are: not those of another boot that went on
// from an older state, and not behind a snapshot either.
func TestTakenBack(t *testing.T) {
	for name, every := range map[string]int{"from entries": 1000, "from a snapshot": 4} {
		t.Run(name, func(t *testing.T) {
			limit := func(c *ledger.Config) { c.Limits.SnapshotEvery = every }
			s := newStore()
			r := start(t, s, limit)
			id := orgID(0)
			r.found(id)
			r.user(id, 1, "before")
			fork := s.copy()
			r.user(id, 2, "seen")
			floor, err := r.l.End(ctx(t))
			if err != nil {
				t.Fatal(err)
			}
			goOn := func(s *memStore, names string) {
				o := start(t, s, limit)
				for n := range 6 {
					o.user(id, 10+n, names)
				}
				if every < 6 {
					o.snapshots(1)
				}
				if _, err := o.l.End(ctx(t)); err != nil {
					t.Fatal(err)
				}
			}
			goOn(s, "honest")
			goOn(fork, "forked")
			floored := func(c *ledger.Config) { limit(c); c.Floor = floor }
			back := start(t, s, floored)
			back.mustRead(id, 2, "seen")
			back.mustRead(id, 12, "honest")
			back.quiet()
			for what, tips := range map[string]map[org.ID]ledger.Tip{"with nobody's tips": nil, "with the other's tips": tipsIn(fork, id)} {
				b := start(t, fork, func(c *ledger.Config) { floored(c); c.Tips = tips })
				before := b.alarms.Counts()
				_, err := b.read(id, 1)
				if err := b.breached(err, fault.AlarmTip, before); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			for what, h := range map[string]hooks{
				"withheld": {proven: func(wire.Find, wire.Proven) (wire.Proven, error) { return wire.Proven{}, nil }},
				"another entry": {proven: func(q wire.Find, p wire.Proven) (wire.Proven, error) {
					return wire.Proven{Entries: []wire.ProvenEntry{proven(s.of(q.Organization).entries, q.TreeSize, int(q.Seqs[0])+1)}}, nil
				}},
			} {
				s.lie(h)
				b := start(t, s, floored)
				if _, err := b.read(id, 1); err == nil {
					t.Errorf("%s: believed", what)
				}
				s.lie(hooks{})
			}
		})
	}
}

// copy is the store as it is now.
func (s *memStore) copy() *memStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := newStore()
	c.row = s.row
	for id, o := range s.orgs {
		n := *o
		n.entries, n.history = slices.Clone(o.entries), slices.Clone(o.history)
		n.pieces, n.all = maps.Clone(o.pieces), maps.Clone(o.all)
		c.orgs[id] = &n
	}
	return c
}

// tipsIn is where an organization stands in a store.
func tipsIn(s *memStore, id org.ID) map[org.ID]ledger.Tip {
	es := s.of(wid(id)).entries
	return map[org.ID]ledger.Tip{id: {Count: uint64(len(es)), Root: rootOf(leaves(es))}}
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
	if err := r.l.Turn(ctx(t), out, func(*ledger.Turn) error { return nil }); !errors.Is(err, ledger.ErrRange) {
		t.Fatal(err)
	}
	if err := r.l.Pair(ctx(t), in, out, func(_, _ *ledger.Turn) error { return nil }); !errors.Is(err, ledger.ErrRange) {
		t.Fatal(err)
	}
	err := r.l.Turn(ctx(t), in, func(tn *ledger.Turn) error {
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

func tipsOf(n int) map[org.ID]ledger.Tip {
	tips := map[org.ID]ledger.Tip{}
	for i := range n {
		tips[orgID(i)] = ledger.Tip{Count: uint64(i + 1), Root: wire.Hash(bytes.Repeat([]byte{byte(i)}, 32))}
	}
	return tips
}

func decodeTips(parts ...[]byte) (map[org.ID]ledger.Tip, error) {
	tips, last := map[org.ID]ledger.Tip{}, org.ID{}
	for _, p := range parts {
		if err := ledger.DecodeTips(tips, &last, p); err != nil {
			return nil, err
		}
	}
	return tips, nil
}

func TestTips(t *testing.T) {
	for _, n := range []int{0, 1, 2, ledger.MaxTips, ledger.MaxTips + 1, 2*ledger.MaxTips + 5} {
		tips := tipsOf(n)
		parts := ledger.EncodeTips(tips)
		if want := max(1, (n+ledger.MaxTips-1)/ledger.MaxTips); len(parts) != want {
			t.Fatalf("%d tips in %d parts", n, len(parts))
		}
		back, err := decodeTips(parts...)
		if err != nil || !maps.Equal(back, tips) {
			t.Fatalf("%d tips come back as %d, %v", n, len(back), err)
		}
		if len(parts) > 1 {
			if _, err := decodeTips(parts[1], parts[0]); err == nil {
				t.Fatal("parts in another order")
			}
		}
	}
	one := ledger.EncodeTips(tipsOf(2))[0]
	for what, b := range map[string][]byte{
		"cut": one[:len(one)-1], "more": append(bytes.Clone(one), 0), "twice": append(bytes.Clone(one), one...),
		"the other way round": append(bytes.Clone(one[56:]), one[:56]...), "no entry": append(append(bytes.Clone(one[:16]), make([]byte, 8)...), one[24:]...),
		"of nobody": append(make([]byte, 16), one[16:56]...), "too many": make([]byte, 56*(ledger.MaxTips+1)),
	} {
		if _, err := decodeTips(b); err == nil {
			t.Errorf("%s: decodes", what)
		}
	}
}

func FuzzDecodeTips(f *testing.F) {
	f.Add(ledger.EncodeTips(tipsOf(3))[0])
	f.Fuzz(func(t *testing.T, b []byte) {
		tips, err := decodeTips(b)
		if err != nil {
			return
		}
		if again := ledger.EncodeTips(tips); len(again) != 1 || !bytes.Equal(again[0], b) {
			t.Fatal("two encodings of the same tips")
		}
	})
}
