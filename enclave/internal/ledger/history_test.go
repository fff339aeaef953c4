package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"cloister/attestation/tlog"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/shared/wire"
)

// annals is two organizations with activities of two types, some of which failed.
func annals(t *testing.T) (*rig, *memStore) {
	s := newStore()
	r := start(t, s, every(8))
	for o := range 2 {
		r.found(orgID(o))
		for i := range 20 {
			r.activity(orgID(o), 100*o+i, 0)
		}
	}
	return r, s
}

func (r *rig) activity(id org.ID, n int, prior uint64) {
	r.t.Helper()
	status := org.StatusCompleted
	if n%5 == 0 {
		status = org.StatusFailed
	}
	e := &org.Entry{Activity: itemID(n), Type: fmt.Sprint("TYPE_", n%2), Status: status, TimeMs: uint64(n), Prior: prior, Body: fmt.Append(nil, "body ", n)}
	batch, err := r.step(id, e, nil)
	if err == nil {
		err = r.l.Wait(ctx(r.t), batch)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestHistory(t *testing.T) {
	r, _ := annals(t)
	v := r.view(orgID(0))
	for i := range 20 {
		for _, read := range []func() (*org.Entry, error){
			func() (*org.Entry, error) { return v.Entry(ctx(t), uint64(i+1)) },
			func() (*org.Entry, error) { return v.Activity(ctx(t), itemID(i)) },
		} {
			if e, err := read(); err != nil || e == nil || e.Activity != itemID(i) || string(e.Body) != fmt.Sprint("body ", i) || e.Boot != 1 {
				t.Fatalf("entry of activity %d: %+v, %v", i, e, err)
			}
		}
	}
	// Another organization's activity is not there, nor is one of nobody.
	for _, n := range []int{100, 105, 999} {
		if e, err := v.Activity(ctx(t), itemID(n)); e != nil || err != nil {
			t.Fatalf("activity %d: %+v, %v", n, e, err)
		}
	}
	pages := func(p ledger.Page) (got []int) {
		t.Helper()
		es, err := v.Page(ctx(t), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			got = append(got, int(e.TimeMs))
		}
		return got
	}
	after := itemID(15)
	for _, c := range []struct {
		p    ledger.Page
		want []int
	}{
		{ledger.Page{Limit: 3}, []int{19, 18, 17}},
		{ledger.Page{Limit: 3, After: &after}, []int{14, 13, 12}},
		{ledger.Page{Limit: 4, Types: []string{"TYPE_1"}}, []int{19, 17, 15, 13}},
		{ledger.Page{Limit: 10, Statuses: []org.Status{org.StatusFailed}}, []int{15, 10, 5, 0}},
		{ledger.Page{Limit: 10, Statuses: []org.Status{org.StatusFailed}, Types: []string{"TYPE_0"}}, []int{10, 0}},
		{ledger.Page{Limit: 10, Types: []string{"TYPE_2"}}, nil},
		{ledger.Page{Limit: 3, End: new(uint64(13))}, []int{11, 10, 9}}, // the organization's first entry is no activity's
		{ledger.Page{Limit: 3, End: new(uint64(13)), After: &after}, []int{11, 10, 9}},
		{ledger.Page{Limit: 3, End: new(uint64(18)), After: &after}, []int{14, 13, 12}},
		{ledger.Page{Limit: 3, End: new(uint64(1))}, nil},
		{ledger.Page{Limit: 3, End: new(uint64(99))}, []int{19, 18, 17}},
	} {
		if got := pages(c.p); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.p, got, c.want)
		}
	}
	for ms, want := range map[uint64]uint64{0: 2, 7: 9, 18: 20, 19: 21, 1 << 40: 21} {
		if got, err := v.CountUntil(ctx(t), ms); err != nil || got != want {
			t.Errorf("%d entries until %d, %v", got, ms, err)
		}
	}
	nobody := itemID(999)
	if _, err := v.Page(ctx(t), ledger.Page{Limit: 3, After: &nobody}); !errors.Is(err, ledger.ErrCursor) {
		t.Fatal(err)
	}
	r.quiet()
}

// A view is of its turn: what came later is not in it, and it stays provable.
func TestViewStands(t *testing.T) {
	r, _ := annals(t)
	v := r.view(orgID(0))
	for i := 20; i < 40; i++ {
		r.activity(orgID(0), i, 0)
	}
	if e, err := v.Entry(ctx(t), 7); err != nil || e.Activity != itemID(6) {
		t.Fatal(err)
	}
	if e, err := v.Activity(ctx(t), itemID(25)); e != nil || err != nil {
		t.Fatal("a later activity", err)
	}
	if es, err := v.Page(ctx(t), ledger.Page{Limit: 1}); err != nil || es[0].Activity != itemID(19) {
		t.Fatal("a later page", err)
	}
	if e, err := v.Entry(ctx(t), 30); e != nil || err == nil {
		t.Fatal("an entry beyond the view")
	}
}

// TestHistoryLies has the host answer each kind of question with something that
// is not the answer.
func TestHistoryLies(t *testing.T) {
	r, s := annals(t)
	for i := range 3 { // later steps of an activity; the first of them did not end it
		e := &org.Entry{Activity: itemID(50), Type: "TYPE_0", Status: []org.Status{org.StatusConsensusNeeded, org.StatusPending, org.StatusCompleted}[i], TimeMs: 50}
		if i > 0 {
			e.Prior = uint64(20 + i + 1)
		}
		n, err := r.step(orgID(0), e, nil)
		if err == nil {
			err = r.l.Wait(ctx(t), n)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	v, w := r.view(orgID(0)), r.view(orgID(1))
	at := func(o int, size uint64, seq int) wire.ProvenEntry {
		s.mu.Lock()
		defer s.mu.Unlock()
		return proven(s.of(wid(orgID(o))).entries, size, seq)
	}
	const size = 24
	type lie struct {
		name  string
		alarm fault.Alarm
		tell  func(p *wire.Proven)
	}
	first := func(f func(e *wire.ProvenEntry)) func(p *wire.Proven) {
		return func(p *wire.Proven) { f(&p.Entries[0]) }
	}
	// Of every question: an entry that is not what its proof says.
	general := []lie{
		{"another organization's entry", fault.AlarmInclusion, func(p *wire.Proven) { p.Entries[0] = at(1, 21, int(p.Entries[0].Seq)%21) }},
		{"another organization's bytes", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Sealed = at(1, 21, int(e.Seq)%21).Sealed })},
		{"a proof of an older tree", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) {
			for older := uint64(size - 1); older > e.Seq; older-- {
				if p := at(0, older, int(e.Seq)).Proof; !slices.Equal(p, e.Proof) {
					e.Proof = p
					return
				}
			}
			e.Proof = nil
		})},
		{"another entry's proof", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Proof = at(0, size, int(e.Seq+1)%size).Proof })},
		{"another place", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Seq ^= 1 })},
		{"a place beyond the tree", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Seq += 1 << 40 })},
		{"a place just beyond the tree", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Seq = size })},
		{"no proof", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Proof = nil })},
		{"half a proof", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Proof = e.Proof[1:] })},
		{"a proof and a half", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Proof = append(e.Proof, wire.Hash{}) })},
		{"an endless proof", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Proof = make([]wire.Hash, 10_000) })},
		{"a node for an entry", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Sealed, e.Proof = append(e.Proof[0][:], e.Proof[1][:]...), e.Proof[2:] })},
		{"nothing for an entry", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Sealed = nil })},
		{"bytes behind", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Sealed = append(e.Sealed, 0) })},
		{"cut", fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Sealed = e.Sealed[:len(e.Sealed)-1] })},
	}
	for i := range 5 {
		general = append(general, lie{fmt.Sprint("a flip in proof hash ", i), fault.AlarmInclusion, first(func(e *wire.ProvenEntry) {
			e.Proof[i%len(e.Proof)][7*i] ^= 1
		})})
	}
	for i := 0; i < 200; i += 9 {
		general = append(general, lie{fmt.Sprint("a flip in the entry at ", i), fault.AlarmInclusion, first(func(e *wire.ProvenEntry) { e.Sealed[i%len(e.Sealed)] ^= 4 })})
	}
	put := func(seqs ...int) func(p *wire.Proven) {
		return func(p *wire.Proven) {
			p.Entries = nil
			for _, seq := range seqs {
				p.Entries = append(p.Entries, at(0, size, seq))
			}
		}
	}
	entry := append(slices.Clone(general),
		lie{"withheld", fault.AlarmIndex, put()},
		lie{"the one before", fault.AlarmIndex, put(9)},
		lie{"the first", fault.AlarmIndex, put(0)},
		lie{"two", fault.AlarmIndex, put(10, 10)},
		lie{"two others", fault.AlarmIndex, put(11, 12)})
	entry = slices.DeleteFunc(entry, func(l lie) bool { // what names another place fails before the proof is looked at
		return l.name == "another place" || l.name == "a place beyond the tree" || l.name == "a place just beyond the tree"
	})
	activity := append(slices.Clone(general),
		lie{"another activity", fault.AlarmIndex, put(9)},
		lie{"no activity", fault.AlarmIndex, put(0)},
		lie{"two", fault.AlarmIndex, put(10, 10)},
		lie{"an earlier step", fault.AlarmIndex, put(21)})
	page := append(slices.Clone(general),
		lie{"not newest first", fault.AlarmIndex, put(9, 10)},
		lie{"one twice", fault.AlarmIndex, put(10, 10)},
		lie{"reordered", fault.AlarmIndex, put(20, 18, 19)},
		lie{"another type", fault.AlarmIndex, put(20, 19)},
		lie{"another status", fault.AlarmIndex, put(20, 16)},
		lie{"no activity", fault.AlarmIndex, put(0)},
		lie{"more than asked for", fault.AlarmIndex, put(20, 18, 14, 12, 10)},
		lie{"an unknown cursor where there was none", fault.AlarmIndex, func(p *wire.Proven) { p.Unknown = true }})
	told := 0
	run := func(what string, lies []lie, ask func() error, tell func(lie) hooks) {
		t.Helper()
		if err := ask(); err != nil {
			t.Fatalf("%s, honest: %v", what, err)
		}
		for _, l := range lies {
			before := r.alarms.Counts()
			s.lie(tell(l))
			if err := r.breached(ask(), l.alarm, before); err != nil {
				t.Errorf("%s, %s: %v", what, l.name, err)
			}
			told++
			if e, err := w.Entry(ctx(t), 3); err != nil || e.Activity != itemID(102) {
				t.Errorf("%s, %s: the twin: %v", what, l.name, err)
			}
			s.lie(hooks{})
		}
		if err := ask(); err != nil {
			t.Fatalf("%s, honest again: %v", what, err)
		}
	}
	found := func(l lie) hooks {
		return hooks{proven: func(q wire.Find, p wire.Proven) (wire.Proven, error) {
			if q.Organization == wid(orgID(0)) {
				l.tell(&p)
			}
			return p, nil
		}}
	}
	run("entry", entry, func() error { _, err := v.Entry(ctx(t), 10); return err }, found)
	run("activity", activity, func() error {
		e, err := v.Activity(ctx(t), itemID(9))
		if err == nil && (e == nil || e.Activity != itemID(9)) {
			err = errors.New("another activity")
		}
		return err
	}, found)
	run("finished activity", []lie{{"its first step", fault.AlarmIndex, put(21)}, {"its second step", fault.AlarmIndex, put(22)}}, func() error {
		_, err := v.Activity(ctx(t), itemID(50))
		return err
	}, found)
	run("page", page, func() error {
		_, err := v.Page(ctx(t), ledger.Page{Limit: 4, Types: []string{"TYPE_1"}, Statuses: []org.Status{org.StatusCompleted}})
		return err
	}, func(l lie) hooks {
		return hooks{page: func(q wire.Page, p wire.Proven) (wire.Proven, error) { l.tell(&p); return p, nil }}
	})
	run("page with an end", []lie{{"an entry at the end", fault.AlarmIndex, put(13)}, {"an entry beyond it", fault.AlarmIndex, put(20)}}, func() error {
		_, err := v.Page(ctx(t), ledger.Page{Limit: 4, End: new(uint64(13))})
		return err
	}, func(l lie) hooks {
		return hooks{page: func(q wire.Page, p wire.Proven) (wire.Proven, error) { l.tell(&p); return p, nil }}
	})
	if told < 100 {
		t.Fatalf("%d lies", told)
	}
	// An activity hidden altogether is none: the caller refuses it.
	s.lie(hooks{proven: func(wire.Find, wire.Proven) (wire.Proven, error) { return wire.Proven{}, nil }})
	if e, err := v.Activity(ctx(t), itemID(9)); e != nil || err != nil {
		t.Fatal(e, err)
	}
	s.lie(hooks{proven: func(wire.Find, wire.Proven) (wire.Proven, error) { return wire.Proven{}, errors.New("later") }})
	if _, err := v.Entry(ctx(t), 3); !errors.Is(err, ledger.ErrBusy) {
		t.Fatal(err)
	}
}

func TestEntryOfTheWholeHistory(t *testing.T) {
	s := newStore()
	r := start(t, s, nil)
	r.found(orgID(0))
	for size := 1; size < 40; size++ {
		v := r.view(orgID(0))
		for seq := range size {
			if _, err := v.Entry(ctx(t), uint64(seq)); err != nil {
				t.Fatalf("entry %d of %d: %v", seq, size, err)
			}
		}
		r.activity(orgID(0), size, 0)
	}
	r.quiet()
	es := s.image(wid(orgID(0))).Entries
	for i := range es {
		for j := range i {
			if bytes.Equal(es[i], es[j]) {
				t.Fatal("two entries alike")
			}
		}
	}
}

// All entries are opened in order, as they were written; a host that shows others, or fewer, is caught.
func TestOpenHistory(t *testing.T) {
	r, s := annals(t)
	v := r.view(orgID(0))
	for _, bytes := range []int{1, 2000, 1 << 20} {
		var from uint64
		for from < v.Tip().Count {
			got, err := v.Open(ctx(t), from, bytes)
			if err != nil || len(got) == 0 || bytes == 1 && len(got) > 1 || bytes == 1<<20 && len(got) != 21 {
				t.Fatalf("%d bytes from %d: %d entries, %v", bytes, from, len(got), err)
			}
			for _, o := range got {
				e, at, err := o.Parts.Decode()
				if err != nil || at.Seq != from || from > 0 && e.Activity != itemID(int(from-1)) {
					t.Fatalf("entry %d: %+v %v", from, at, err)
				}
				hashes := o.Parts.Hashes()
				if tlog.HashEntry(tlog.Commitment(&hashes), o.Stored) != o.Leaf {
					t.Errorf("entry %d: another leaf", from)
				}
				from++
			}
		}
	}
	for name, lie := range map[string]func(*wire.Proven){
		"none":     func(p *wire.Proven) { p.Entries = nil },
		"swapped":  func(p *wire.Proven) { p.Entries[0], p.Entries[1] = p.Entries[1], p.Entries[0] },
		"left out": func(p *wire.Proven) { p.Entries = p.Entries[1:] },
		"twice":    func(p *wire.Proven) { p.Entries[1] = p.Entries[0] },
		"a bit": func(p *wire.Proven) {
			p.Entries[3].Sealed = bytes.Clone(p.Entries[3].Sealed)
			p.Entries[3].Sealed[50] ^= 1
		},
		"no proof": func(p *wire.Proven) { p.Entries[2].Proof = nil },
		"too many": func(p *wire.Proven) {
			for len(p.Entries) < 100 {
				p.Entries = append(p.Entries, p.Entries[0])
			}
		},
	} {
		s.lie(hooks{proven: func(_ wire.Find, got wire.Proven) (wire.Proven, error) {
			lie(&got)
			return got, nil
		}})
		if _, err := v.Open(ctx(t), 0, 1<<20); !errors.As(err, new(*fault.Breach)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A host whose answers hold fewer is asked for one after the other.
	s.lie(hooks{proven: func(q wire.Find, got wire.Proven) (wire.Proven, error) {
		if len(q.Seqs) > 1 {
			return wire.Proven{}, errors.New("too large")
		}
		return got, nil
	}})
	if got, err := v.Open(ctx(t), 0, 1<<20); err != nil || len(got) != 21 {
		t.Errorf("%d entries, %v", len(got), err)
	}
}
