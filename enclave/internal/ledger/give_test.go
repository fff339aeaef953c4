package ledger_test

import (
	"bytes"
	"errors"
	"maps"
	"testing"
	"time"

	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

func TestGive(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	for n := range 5 {
		r.found(orgID(n))
	}
	var tips map[org.ID]ledger.Tip
	refuse := errors.New("not now")
	if ended, err := r.l.Give(ctx(t), func(map[org.ID]ledger.Tip) error { return refuse }); ended || !errors.Is(err, refuse) {
		t.Fatalf("given although the tips were not handed on: %v, %v", ended, err)
	}
	r.found(orgID(5)) // it goes on
	ended, err := r.l.Give(ctx(t), func(all map[org.ID]ledger.Tip) error {
		tips = all
		// Nothing is decided any more, and queries are answered.
		if _, err := r.l.Found(r.child(orgID(6), org.ID{}), &org.Entry{TimeMs: 1}, nil); !errors.Is(err, ledger.ErrGiven) {
			t.Errorf("decided while it is given: %v", err)
		}
		if _, err := r.step(orgID(0), &org.Entry{TimeMs: 1}, nil); !errors.Is(err, ledger.ErrGiven) {
			t.Errorf("decided while it is given: %v", err)
		}
		return r.l.Wait(ctx(t), 0)
	})
	if !ended || err != nil || len(tips) != 6 {
		t.Fatalf("%v, %v, %d tips", ended, err, len(tips))
	}
	if err := r.l.Wait(ctx(t), 0); !errors.Is(err, ledger.ErrFenced) {
		t.Fatalf("answers after it was given: %v", err)
	}
	if ended, err := r.l.Give(ctx(t), nil); ended || !errors.Is(err, ledger.ErrGiven) {
		t.Fatalf("given twice: %v, %v", ended, err)
	}
	if row := s.row; !row.Released || row.Epoch != 1 {
		t.Fatalf("%+v", row)
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

// A range that cannot be released is nobody's.
func TestGiveWithoutTheStore(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(0))
	s.lie(hooks{own: func(wire.Own, func() wire.Owned) (wire.Owned, error) { return wire.Owned{}, errors.New("away") }})
	ended, err := r.l.Give(ctx(t), nil)
	if !ended || err == nil {
		t.Fatalf("%v, %v", ended, err)
	}
	if err := r.l.Wait(ctx(t), 0); !errors.Is(err, ledger.ErrFenced) {
		t.Fatal(err)
	}
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
		_, err := tn.NewChild(out, 1)
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
