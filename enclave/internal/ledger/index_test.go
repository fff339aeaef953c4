package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// PageIndex is the honest answer, from the entries that are stored.
func (s *memStore) PageIndex(_ context.Context, q wire.PageIndex) (wire.IndexRows, error) {
	if q.Limit == 0 || q.Limit > wire.MaxRows {
		return wire.IndexRows{}, errors.New("page out of bounds")
	}
	s.mu.Lock()
	var rows []wire.IndexRow
	for id, o := range s.orgs {
		there := map[uint64]bool{}
		for _, e := range o.entries {
			for _, c := range e.Index {
				if c.Key == q.Key {
					there[c.Rank] = !c.Drop
				}
			}
		}
		for rank, yes := range there {
			if r := (wire.IndexRow{Rank: rank, Organization: id}); yes && (q.After == nil || before(*q.After, r)) && (q.Before == nil || before(r, *q.Before)) {
				rows = append(rows, r)
			}
		}
	}
	s.mu.Unlock()
	slices.SortFunc(rows, func(a, b wire.IndexRow) int {
		if before(a, b) {
			return -1
		}
		return 1
	})
	if n := int(q.Limit); q.Before != nil {
		rows = rows[max(0, len(rows)-n):]
	} else {
		rows = rows[:min(n, len(rows))]
	}
	got := wire.IndexRows{Rows: rows}
	if h := s.hook().index; h != nil {
		return h(q, got)
	}
	return got, nil
}

func before(a, b wire.IndexRow) bool {
	return a.Rank < b.Rank || a.Rank == b.Rank && slices.Compare(a.Organization[:], b.Organization[:]) < 0
}

// indexed makes organizations 1 to n whose entries put key, in order of rank.
func (r *rig) indexed(key org.Hash, n int) (rows []ledger.IndexRow) {
	r.t.Helper()
	for i := range n {
		row := ledger.IndexRow{Rank: uint64(10 + i/2), ID: orgID(1 + i)}
		c := r.child(row.ID, orgID(0))
		batch, err := r.l.Create(c, &org.Entry{TimeMs: 1, Index: []org.IndexChange{{Key: key, Rank: row.Rank}}}, c.Tx())
		if err == nil {
			err = r.l.Wait(ctx(r.t), batch)
		}
		if err != nil {
			r.t.Fatal(err)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b ledger.IndexRow) int {
		if before(wire.IndexRow{Rank: a.Rank, Organization: wid(a.ID)}, wire.IndexRow{Rank: b.Rank, Organization: wid(b.ID)}) {
			return -1
		}
		return 1
	})
	return rows
}

func TestIndexGoesWithItsEntry(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(0))
	key := org.Hash{7}
	rows := r.indexed(key, 7)
	v := r.view(orgID(0))
	for _, c := range []struct {
		before, after *ledger.IndexRow
		limit         int
		want          []ledger.IndexRow
	}{
		{nil, nil, 3, rows[:3]}, {nil, nil, 100, rows}, {nil, &rows[2], 2, rows[3:5]}, {nil, &rows[6], 2, nil}, {&rows[5], nil, 2, rows[3:5]},
		{&rows[1], nil, 5, rows[:1]}, {&rows[0], nil, 5, nil}, {nil, &ledger.IndexRow{}, 1, rows[:1]}, {nil, nil, 100_000, rows},
	} {
		got, err := v.PageIndex(ctx(t), key, c.before, c.after, c.limit)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	if got, err := v.PageIndex(ctx(t), org.Hash{8}, nil, nil, 5); err != nil || len(got) != 0 {
		t.Errorf("another key: %v, %v", got, err)
	}
	// Every addition of a step has its own changes.
	var batch uint64
	err := r.l.TransactOne(ctx(t), orgID(0), func(locked *ledger.Locked) (err error) {
		c := r.child(orgID(50), orgID(0))
		batch, err = locked.Append(&org.Entry{TimeMs: 2, Index: []org.IndexChange{{Key: org.Hash{8}, Rank: 3}}}, nil,
			ledger.Addition{Child: c, Tx: c.Tx(), Entry: &org.Entry{TimeMs: 2, Index: []org.IndexChange{{Key: org.Hash{8}, Rank: 2}}}})
		return err
	})
	if err == nil {
		batch, err = r.step(orgID(1), &org.Entry{TimeMs: 3, Index: []org.IndexChange{{Key: key, Rank: 10, Drop: true}}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.l.Wait(ctx(t), batch); err != nil {
		t.Fatal(err)
	}
	if got, err := v.PageIndex(ctx(t), org.Hash{8}, nil, nil, 5); err != nil || !slices.Equal(got, []ledger.IndexRow{{Rank: 2, ID: orgID(50)}, {Rank: 3, ID: orgID(0)}}) {
		t.Errorf("of a step over two: %v, %v", got, err)
	}
	if got, err := v.PageIndex(ctx(t), key, nil, nil, 100); err != nil || len(got) != 6 {
		t.Errorf("after a drop: %v, %v", got, err)
	}
	r.quiet()
}

func TestIndexIsBounded(t *testing.T) {
	r := start(t, newStore(), nil)
	r.found(orgID(1))
	tip := r.tip(orgID(1))
	changes := func(n int) *org.Entry { return &org.Entry{TimeMs: 2, Index: make([]org.IndexChange, n)} }
	if _, err := r.step(orgID(1), changes(wire.MaxIndex+1), nil); fault.Of(err) == nil || fault.Of(err).Code != fault.InvalidArgument {
		t.Errorf("too many changes: %v", err)
	}
	if r.tip(orgID(1)) != tip {
		t.Error("an entry that was refused stands")
	}
	// Changes count for the size of a batch: many of them do not overflow a frame.
	var last uint64
	for range 24 {
		n, err := r.step(orgID(1), changes(wire.MaxIndex), nil)
		if err != nil {
			t.Fatal(err)
		}
		last = n
	}
	if err := r.l.Wait(ctx(t), last); err != nil {
		t.Fatal(err)
	}
	var adds []ledger.Addition
	for n := range 10 {
		c := r.child(orgID(100+n), orgID(1))
		adds = append(adds, ledger.Addition{Entry: changes(wire.MaxIndex), Tx: c.Tx(), Child: c})
	}
	err := r.l.TransactOne(ctx(t), orgID(1), func(locked *ledger.Locked) error {
		_, err := locked.Append(&org.Entry{TimeMs: 3}, nil, adds...)
		return err
	})
	if fault.Of(err) == nil || fault.Of(err).Code != fault.InvalidArgument {
		t.Errorf("a step that no batch holds: %v", err)
	}
	r.quiet()
}

// What a host can say of the index is held against the question; whether it is
// true, the organizations tell.
func TestHostileIndex(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(0))
	key := org.Hash{7}
	rows := r.indexed(key, 9)
	v := r.view(orgID(0))
	wires := func(rows ...ledger.IndexRow) (out []wire.IndexRow) {
		for _, r := range rows {
			out = append(out, wire.IndexRow{Rank: r.Rank, Organization: wid(r.ID)})
		}
		return out
	}
	for _, c := range []struct {
		what          string
		before, after *ledger.IndexRow
		told          []wire.IndexRow
	}{
		{"more than asked for", nil, nil, wires(rows[:4]...)},
		{"one twice", nil, nil, wires(rows[0], rows[0])},
		{"one twice, apart", nil, nil, wires(rows[0], rows[1], rows[0])},
		{"the wrong way round", nil, nil, wires(rows[1], rows[0])},
		{"the cursor itself", nil, &rows[3], wires(rows[3])},
		{"what is above the cursor", nil, &rows[3], wires(rows[2], rows[4])},
		{"the cursor itself, from below", &rows[3], nil, wires(rows[3])},
		{"what is behind the cursor", &rows[3], nil, wires(rows[2], rows[4])},
		{"of one rank, ids falling", nil, nil, []wire.IndexRow{{Rank: 1, Organization: wire.ID{2}}, {Rank: 1, Organization: wire.ID{1}}}},
		{"a rank past all", &rows[3], nil, []wire.IndexRow{{Rank: 1<<64 - 1}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			counts := r.alarms.Counts()
			s.lie(hooks{index: func(wire.PageIndex, wire.IndexRows) (wire.IndexRows, error) { return wire.IndexRows{Rows: c.told}, nil }})
			_, err := v.PageIndex(ctx(t), key, c.before, c.after, 3)
			if err := r.breached(err, fault.AlarmIndex, counts); err != nil {
				t.Error(err)
			}
		})
	}
	s.lie(hooks{index: func(wire.PageIndex, wire.IndexRows) (wire.IndexRows, error) {
		return wire.IndexRows{}, fmt.Errorf("away")
	}})
	if _, err := v.PageIndex(ctx(t), key, nil, nil, 3); !errors.Is(err, ledger.ErrBusy) {
		t.Errorf("a store that is away: %v", err)
	}
	// Left out is what the host may leave out.
	s.lie(hooks{index: func(wire.PageIndex, wire.IndexRows) (wire.IndexRows, error) {
		return wire.IndexRows{Rows: wires(rows[1], rows[5])}, nil
	}})
	if got, err := v.PageIndex(ctx(t), key, nil, nil, 3); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}
