package org_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"cloister/enclave/internal/org"
)

// model is a state, the plain map that it must equal, and the pieces that a
// store would hold.
type model struct {
	t     *testing.T
	r     *rand.Rand
	state *org.State
	want  map[string][]byte
	store map[org.Hash][]org.Write
	next  uint64
	big   int // largest value drawn
	miss  int // pieces loaded on demand
}

func newModel(t *testing.T, seed int64) *model {
	m := &model{t: t, r: rand.New(rand.NewSource(seed)), state: org.NewState(), want: map[string][]byte{}, store: map[org.Hash][]org.Write{}}
	m.big = []int{40, 3000, 60_000, org.MaxValue}[seed%4]
	return m
}

func (m *model) key() string {
	const collections = "ABEFabde"
	k := string(collections[m.r.Intn(len(collections))])
	for range m.r.Intn(4) {
		k += string(rune('p' + m.r.Intn(5)))
	}
	return k
}

func (m *model) value() []byte {
	n := m.r.Intn(40)
	if m.r.Intn(4) == 0 {
		n = m.r.Intn(m.big + 1)
	}
	b := make([]byte, n)
	m.r.Read(b)
	return b
}

// install loads the piece that err misses. It tells whether err was that.
func (m *model) install(err error) bool {
	m.t.Helper()
	var miss *org.Retry
	if !errors.As(err, &miss) {
		if err != nil {
			m.t.Fatal(err)
		}
		return false
	}
	ws, ok := m.store[miss.LoadPiece]
	if !ok {
		m.t.Fatalf("asks for a piece that no snapshot holds: %x", miss.LoadPiece[:4])
	}
	if err := m.state.Install(miss.LoadPiece, copied(ws)); err != nil {
		m.t.Fatal(err)
	}
	m.miss++
	return true
}

func copied(ws []org.Write) []org.Write {
	out := make([]org.Write, len(ws))
	for i, w := range ws {
		out[i] = org.Write{Key: bytes.Clone(w.Key), Value: append([]byte{}, w.Value...)}
	}
	return out
}

// write makes one change and keeps it, or leaves it.
func (m *model) write() {
	tx := org.Begin(org.ID{1}, m.state, 0)
	mine := map[string][]byte{}
	for range m.r.Intn(12) {
		k := m.key()
		if m.r.Intn(3) == 0 {
			tx.DeleteRaw(k)
			mine[k] = nil
			continue
		}
		v := m.value()
		tx.PutRaw(k, v)
		mine[k] = v
	}
	want := map[string][]byte{}
	for k, v := range m.want {
		want[k] = v
	}
	for k, v := range mine {
		if want[k] = v; v == nil {
			delete(want, k)
		}
	}
	m.compare(tx, want)
	m.compare(org.Begin(org.ID{1}, m.state, 0), m.want) // nobody else sees it
	switch m.r.Intn(4) {
	case 0: // given up without effect
		return
	case 1: // folded in from an entry, as a replay does
		ws, err := tx.Writes()
		if err != nil {
			m.t.Fatal(err)
		}
		m.state.Apply(ws)
	default:
		if _, err := tx.Writes(); err != nil {
			m.t.Fatal(err)
		}
		tx.Apply()
	}
	m.want = want
}

// compare reads at random through tx and holds it against want.
func (m *model) compare(tx *org.Tx, want map[string][]byte) {
	m.t.Helper()
	for range 3 {
		k := m.key()
		got, err := tx.GetRaw(k)
		for m.install(err) {
			got, err = tx.GetRaw(k)
		}
		if v, ok := want[k]; ok != (got != nil) || !bytes.Equal(got, v) {
			m.t.Fatalf("%q is %d bytes (there: %v), want %d bytes (there: %v)", k, len(got), got != nil, len(v), ok)
		}
	}
	prefix := m.key()
	prefix = prefix[:1+m.r.Intn(len(prefix))]
	from := ""
	if m.r.Intn(2) == 0 {
		from = m.key()
	}
	limit := m.r.Intn(40)
	var keys []string
	for k := range want {
		if strings.HasPrefix(k, prefix) && k >= from {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	keys = keys[:min(len(keys), limit+1)]
	var got []string
	scan := func() error {
		got = nil
		return tx.ScanRaw(prefix, from, func(k string, b []byte) bool {
			if !bytes.Equal(b, want[k]) {
				m.t.Fatalf("scan shows other bytes under %q", k)
			}
			got = append(got, k)
			return len(got) <= limit
		})
	}
	for m.install(scan()) {
	}
	if !slices.Equal(got, keys) {
		m.t.Fatalf("scan of %q from %q shows\n%q, want\n%q", prefix, from, got, keys)
	}
	m.compareDown(tx, want, prefix)
}

// fold makes a snapshot and checks every promise about its pieces.
func (m *model) fold() {
	if m.r.Intn(3) == 0 { // one that comes to nothing
		m.folded(false)
	}
	m.folded(true)
	if f := m.state.Compact(); f.Next() {
		m.t.Fatal("folding nothing changes a piece")
	}
	refs := m.state.Refs()
	named := map[org.Hash]bool{}
	var all []string
	for i, r := range refs {
		ws, ok := m.store[r.Ref]
		if !ok || named[r.Ref] {
			m.t.Fatalf("piece %d of %d is not stored, or twice", i, len(refs))
		}
		named[r.Ref] = true
		m.checkPiece(refs, i, ws)
		for _, w := range ws {
			all = append(all, string(w.Key))
			if !bytes.Equal(w.Value, m.want[string(w.Key)]) {
				m.t.Fatalf("a piece holds other bytes under %q", w.Key)
			}
		}
	}
	if len(all) != len(m.want) || !slices.IsSorted(all) {
		m.t.Fatalf("pieces hold %d records, want %d", len(all), len(m.want))
	}
	if len(named) != len(m.store) {
		m.t.Fatalf("%d pieces named, %d stored", len(named), len(m.store))
	}
	if m.state.UnsavedBytes() != 0 {
		m.t.Fatalf("%d bytes unsaved", m.state.UnsavedBytes())
	}
}

// folded folds, to its end or not, piece by piece from the store where one is absent.
func (m *model) folded(end bool) {
	f := m.state.Compact()
	most, mostKeys := f.MaxRefs()
	var sent []org.NewPiece
	onWay := map[org.Hash][]org.Write{}
	stored := func() {
		if end {
			maps.Copy(m.store, onWay)
		}
		f.SetStored(sent)
		sent = nil
	}
	for f.Next() {
		if m.r.Intn(8) == 0 {
			m.state.DropLoaded()
		}
		if m.r.Intn(8) == 0 {
			m.compare(org.Begin(org.ID{}, m.state, 0), m.want)
		}
		if ref, absent := f.Absent(); absent {
			m.must(f.Load(copied(m.store[ref])))
		}
		for _, p := range f.Parts() {
			m.next++
			var h org.Hash
			binary.BigEndian.PutUint64(h[:], m.next)
			p.SetName(h)
			sent, onWay[h] = append(sent, p), copied(p.Records())
			if m.r.Intn(3) == 0 {
				stored()
			}
		}
		if !end && m.r.Intn(3) == 0 {
			return
		}
	}
	if !end {
		return
	}
	keys := 0
	for _, ref := range f.Refs() {
		keys += len(ref.Lo)
	}
	if n := len(f.Refs()); n > most || keys > mostKeys {
		m.t.Fatalf("%d pieces that begin with %d bytes, at most %d with %d", n, keys, most, mostKeys)
	}
	f.End()
	for _, ref := range f.Drops() {
		if _, ok := m.store[ref]; !ok {
			m.t.Fatal("drops a piece that no snapshot holds")
		}
		delete(m.store, ref)
	}
	if m.r.Intn(2) == 0 { // before what is not stored yet has come to be
		m.state.DropLoaded()
		m.compare(org.Begin(org.ID{}, m.state, 0), m.want)
	}
	stored()
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) checkPiece(refs []org.PieceRef, i int, ws []org.Write) {
	r := refs[i]
	if i > 0 && bytes.Compare(refs[i-1].Lo, r.Lo) >= 0 || i == 0 && len(r.Lo) != 0 {
		m.t.Fatalf("piece %d begins at %q", i, r.Lo)
	}
	size := 0
	for j, w := range ws {
		if bytes.Compare(w.Key, r.Lo) < 0 || i+1 < len(refs) && bytes.Compare(w.Key, refs[i+1].Lo) >= 0 {
			m.t.Fatalf("%q lies in the piece from %q", w.Key, r.Lo)
		}
		if j > 0 && org.Large(w.Key[0]) != org.Large(ws[0].Key[0]) {
			m.t.Fatal("a piece holds records of small and large collections")
		}
		size += len(w.Key) + len(w.Value) + 12
	}
	if size != int(r.Size) || len(ws) != int(r.Records) || i > 0 && len(ws) == 0 {
		m.t.Fatalf("piece of %d records in %d bytes says %d in %d", len(ws), size, r.Records, r.Size)
	}
	if b, err := cbor.Marshal(ws); err != nil || len(b) > org.MaxPiecePart {
		m.t.Fatalf("piece of %d bytes, %v", len(b), err)
	}
}

// reload opens the last snapshot as another boot would.
func (m *model) reload() {
	m.fold()
	s, small, err := org.FromRefs(m.state.Refs())
	if err != nil {
		m.t.Fatal(err)
	}
	m.state = s
	for _, ref := range small {
		if err := s.Install(ref, copied(m.store[ref])); err != nil {
			m.t.Fatal(err)
		}
	}
	// Of small collections nothing is ever missing.
	for _, prefix := range "ABCDEF" {
		if err := org.Begin(org.ID{}, s, 0).ScanRaw(string(prefix), "", func(string, []byte) bool { return true }); err != nil {
			m.t.Fatalf("%c: %v", prefix, err)
		}
	}
}

func TestStateAgainstMap(t *testing.T) {
	misses := 0
	for seed := range int64(48) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newModel(t, seed)
			for range 300 {
				switch m.r.Intn(12) {
				case 0:
					m.fold()
				case 1:
					m.reload()
				case 2:
					m.state.DropLoaded()
				case 3:
					for range 3 {
						m.compare(org.Begin(org.ID{}, m.state, 0), m.want)
					}
				default:
					m.write()
				}
			}
			m.reload()
			misses += m.miss
		})
	}
	if misses < 100 {
		t.Fatalf("%d pieces loaded on demand: the test does not reach them", misses)
	}
}

// record is a write of n bytes under a key.
func record(key string, n int) org.Write {
	return org.Write{Key: []byte(key), Value: bytes.Repeat([]byte{'v'}, n)}
}

func TestGrownPieceIsCut(t *testing.T) {
	m := newModel(t, 0)
	for i := range 3000 {
		w := record(fmt.Sprintf("d%05d", i), 200)
		m.state.Apply([]org.Write{w})
		m.want[string(w.Key)] = w.Value
	}
	m.fold()
	before := m.state.Refs()
	if len(before) < 5 {
		t.Fatalf("%d pieces of 3,000 records", len(before))
	}
	// One record more rewrites one piece and leaves the others.
	w := record("d01500x", 200)
	m.state.Apply([]org.Write{w})
	m.want[string(w.Key)] = w.Value
	m.fold()
	same := 0
	for _, r := range m.state.Refs() {
		for _, b := range before {
			if r.Ref == b.Ref {
				same++
			}
		}
	}
	if same != len(before)-1 {
		t.Fatalf("%d of %d pieces stay", same, len(before))
	}
}

func TestLargestRecords(t *testing.T) {
	m := newModel(t, 0)
	for i := range 8 {
		w := record(strings.Repeat("e", org.MaxKey-1)+fmt.Sprint(i), org.MaxValue)
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		m.state.Apply([]org.Write{w})
		m.want[string(w.Key)] = w.Value
	}
	m.reload()
	if n := len(m.state.Refs()); n < 8 {
		t.Fatalf("%d pieces", n)
	}
}

func TestWriteBounds(t *testing.T) {
	for name, w := range map[string]org.Write{
		"no key":       {Value: []byte{1}},
		"long key":     record(strings.Repeat("k", org.MaxKey+1), 1),
		"long record":  record("k", org.MaxValue+1),
		"long, no key": record("", org.MaxValue+1),
	} {
		if w.Check() == nil {
			t.Errorf("%s: could be stored", name)
		}
		tx := org.Begin(org.ID{}, org.NewState(), 0)
		tx.PutRaw("a good one", []byte{1})
		tx.PutRaw(string(w.Key), w.Value)
		if ws, err := tx.Writes(); err == nil {
			t.Errorf("%s: %d writes", name, len(ws))
		}
	}
	for _, w := range []org.Write{{Key: []byte("k")}, record("k", 0), record(strings.Repeat("k", org.MaxKey), org.MaxValue)} {
		if err := w.Check(); err != nil {
			t.Error(err)
		}
	}
}

// large is a state whose collection d lies in absent pieces around "d5".
func large(t *testing.T) (s *org.State, store map[org.Hash][]org.Write, refs []org.PieceRef) {
	m := newModel(t, 0)
	for i := range 10 {
		for _, c := range "Ad" {
			w := record(fmt.Sprintf("%c%d", c, i), 60<<10)
			m.state.Apply([]org.Write{w})
			m.want[string(w.Key)] = w.Value
		}
	}
	m.reload()
	return m.state, m.store, m.state.Refs()
}

func TestAbsenceIsProven(t *testing.T) {
	s, store, _ := large(t)
	tx := org.Begin(org.ID{}, s, 0)
	var miss *org.Retry
	for _, k := range []string{"d5", "d5x", "d", "d9z", "e", "zzz"} {
		if k == "d" { // before the first large key: the last small piece covers it
			if v, err := tx.GetRaw(k); v != nil || err != nil {
				t.Fatalf("%q: %v", k, err)
			}
			continue
		}
		if _, err := tx.GetRaw(k); !errors.As(err, &miss) {
			t.Fatalf("%q is answered without its piece: %v", k, err)
		}
	}
	if _, err := tx.GetRaw("d5x"); !errors.As(err, &miss) {
		t.Fatal(err)
	}
	if err := s.Install(miss.LoadPiece, copied(store[miss.LoadPiece])); err != nil {
		t.Fatal(err)
	}
	if v, err := tx.GetRaw("d5x"); v != nil || err != nil {
		t.Fatalf("there is no d5x: %d bytes, %v", len(v), err)
	}
	// A key that was written since needs no piece, nor does a deleted one.
	tx.PutRaw("d1", []byte{1})
	tx.DeleteRaw("d9")
	if v, err := tx.GetRaw("d1"); len(v) != 1 || err != nil {
		t.Fatal(err)
	}
	if v, err := tx.GetRaw("d9"); v != nil || err != nil {
		t.Fatal(err)
	}
	if err := tx.ScanRaw("d", "", func(string, []byte) bool { return true }); !errors.As(err, &miss) {
		t.Fatalf("a scan over absent pieces: %v", err)
	}
}

func TestFoldNeedsTheTouchedPieceOnly(t *testing.T) {
	s, store, refs := large(t)
	s.Apply([]org.Write{{Key: []byte("d5"), Value: []byte("new")}, {Key: []byte("A1"), Value: []byte("new")}})
	before := s.Bytes()
	f := s.Compact()
	absent, parts := 0, 0
	for f.Next() {
		if ref, ok := f.Absent(); ok {
			absent++
			if f.Load(store[ref][1:]) == nil || f.Load(append(copied(store[ref]), record("d9", 5))) == nil {
				t.Fatal("takes other records than the piece's")
			}
			if err := f.Load(copied(store[ref])); err != nil {
				t.Fatal(err)
			}
		}
		ps := f.Parts()
		for _, p := range ps {
			parts++
			p.SetName(org.Hash{9, byte(parts)})
		}
		f.SetStored(ps)
	}
	if absent != 1 || parts != 2 || s.Bytes() != before {
		t.Fatalf("%d absent, %d parts, %d bytes more", absent, parts, s.Bytes()-before)
	}
	f.End()
	if len(f.Drops()) != 2 || len(s.Refs()) != len(refs) || s.Bytes() > before {
		t.Fatalf("%d dropped, %d pieces, %d bytes more", len(f.Drops()), len(s.Refs()), s.Bytes()-before)
	}
	if _, err := s.Get([]byte("d5")); !errors.As(err, new(*org.Retry)) {
		t.Fatalf("a piece that was absent stays: %v", err)
	}
}

// What is shed while a fold is under way the fold does not hold either: a piece that it
// has not come to, nor one that it has made and that is stored.
func TestShedDuringAFold(t *testing.T) {
	s, store, _ := large(t)
	for i := range 10 {
		k := fmt.Sprint("d", i)
		var miss *org.Retry
		if _, err := s.Get([]byte(k)); errors.As(err, &miss) {
			if err := s.Install(miss.LoadPiece, copied(store[miss.LoadPiece])); err != nil {
				t.Fatal(err)
			}
		}
		s.Apply([]org.Write{record(k, 7)})
	}
	before := s.Bytes()
	f := s.Compact()
	if f.Bytes() < s.UnsavedBytes() || f.Bytes() > before {
		t.Errorf("the fold counts %d bytes, the state %d", f.Bytes(), before)
	}
	var loaded, changed int
	for shed := false; f.Next(); {
		if ref, absent := f.Absent(); absent {
			if !shed {
				t.Fatal("absent before anything was shed")
			}
			loaded++
			if err := f.Load(copied(store[ref])); err != nil {
				t.Fatal(err)
			}
		} else if shed {
			t.Error("the fold has a piece that was shed")
		}
		parts := f.Parts()
		for _, p := range parts {
			changed++
			p.SetName(org.Hash{7, byte(changed)})
			store[org.Hash{7, byte(changed)}] = copied(p.Records())
		}
		if f.SetStored(parts); !shed {
			s.DropLoaded()
			shed = true
		}
	}
	if f.End(); loaded < 2 || changed != loaded+1 || s.Bytes() >= before/2 {
		t.Errorf("%d pieces changed, %d loaded, %d bytes of %d", changed, loaded, s.Bytes(), before)
	}
	for i := range 10 {
		k := fmt.Sprint("d", i)
		var miss *org.Retry
		_, err := s.Get([]byte(k))
		if errors.As(err, &miss) {
			err = s.Install(miss.LoadPiece, store[miss.LoadPiece])
		} else if i == 0 {
			t.Error("what the fold had made stays")
		}
		if v, _ := s.Get([]byte(k)); err != nil || len(v) != 7 {
			t.Errorf("%s: %d bytes, %v", k, len(v), err)
		}
	}
}

// A fold beside turns that shed, and beside such that load: for the race detector.
func TestFoldBesideTransactions(t *testing.T) {
	for name, shed := range map[string]bool{"shed": true, "load": false} {
		t.Run(name, func(t *testing.T) {
			s, store, _ := large(t)
			load := func() {
				for ref, ws := range store {
					if s.IsAbsent(ref) {
						if err := s.Install(ref, copied(ws)); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			for i := range 10 {
				s.Apply([]org.Write{record(fmt.Sprint("d", i), 7)})
			}
			toggle := load
			if shed {
				load()
				toggle = s.DropLoaded
			}
			f := s.Compact()
			folded := make(chan struct{})
			go func() {
				defer close(folded)
				for n := byte(0); f.Next(); {
					if ref, absent := f.Absent(); absent {
						if err := f.Load(copied(store[ref])); err != nil {
							t.Error(err)
						}
					}
					parts := f.Parts()
					for _, p := range parts {
						n++
						p.SetName(org.Hash{7, n})
						_ = p.Records()
					}
					f.SetStored(parts)
				}
			}()
			for done := false; !done; {
				select {
				case <-folded:
					done = true
				default:
				}
				if v, err := s.Get([]byte("d5")); err != nil || len(v) != 7 {
					t.Fatal(len(v), err)
				}
				toggle()
			}
			if f.End(); s.UnsavedBytes() != 0 {
				t.Errorf("%d bytes unsaved", s.UnsavedBytes())
			}
		})
	}
}

// The bound for present pieces is what comes of them, but for one.
func TestMostRefsOfPresentPieces(t *testing.T) {
	s := org.NewState()
	for i := range 1000 {
		s.Apply([]org.Write{record(fmt.Sprintf("d%05d", i), 3000)})
	}
	foldAll(s)
	for i := range 1000 {
		s.Apply([]org.Write{record(fmt.Sprintf("d%05d-", i), 6000)})
	}
	f := s.Compact()
	refs, keys := f.MaxRefs()
	foldAll(s)
	if n := len(s.Refs()); refs != n+1 || keys > 8*n+org.MaxKey {
		t.Errorf("%d pieces at most with %d bytes of keys; %d pieces", refs, keys, n)
	}
}

// What is written while a fold is under way is in the state and not in the fold.
func TestWritesDuringAFold(t *testing.T) {
	s, store, _ := large(t)
	s.Apply([]org.Write{record("d1", 7), record("d2", 7), {Key: []byte("d3")}, {Key: []byte("d4")}, record("A1", 7)})
	f := s.Compact()
	s.Apply([]org.Write{record("d1", 8), {Key: []byte("d2")}, record("d3", 8), record("d6", 8)})
	var held []string
	for f.Next() {
		if ref, ok := f.Absent(); ok {
			if err := f.Load(copied(store[ref])); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range f.Parts() {
			p.SetName(org.Hash{8, byte(len(held))})
			for _, w := range p.Records() {
				if len(w.Value) < 10 {
					held = append(held, fmt.Sprint(string(w.Key), len(w.Value)))
				}
			}
		}
	}
	f.End()
	if !slices.Equal(held, []string{"A17", "d17", "d27"}) {
		t.Errorf("the fold holds %v", held)
	}
	for k, want := range map[string]int{"d1": 8, "d2": 0, "d3": 8, "d4": 0, "d6": 8, "A1": 7} {
		if v, err := s.Get([]byte(k)); len(v) != want || err != nil {
			t.Errorf("%s has %d bytes, want %d: %v", k, len(v), want, err)
		}
	}
	if s.UnsavedBytes() == 0 {
		t.Error("nothing is unsaved")
	}
}

func TestInstallRefuses(t *testing.T) {
	s, store, refs := large(t)
	at := slices.IndexFunc(refs, func(r org.PieceRef) bool { return len(r.Lo) > 0 && r.Lo[0] == 'd' && string(r.Lo) > "d3" })
	ref := refs[at].Ref
	good := store[ref]
	bad := map[string][]org.Write{
		"nothing":             {},
		"one missing":         good[1:],
		"the first missing":   good[:len(good)-1],
		"one more":            append(copied(good), record(string(good[len(good)-1].Key)+"x", 1)),
		"another piece":       store[refs[at+1].Ref],
		"the piece before":    store[refs[at-1].Ref],
		"out of order":        {good[1], good[0]},
		"one twice":           {good[0], good[0]},
		"a shorter record":    {record(string(good[0].Key), 5), good[1]},
		"one as large as two": {record(string(good[0].Key), 2*(60<<10)+14)},
		"a longer record":     {record(string(good[0].Key), org.MaxValue), good[1]},
		"a key before":        {record("d0", 60<<10), good[1]},
		"a key behind":        {good[0], record("d9", 60<<10)},
		"a small collection":  {record("A0", 60<<10), good[1]},
		"an empty key":        {record("", 60<<10), good[1]},
		"a deleted record":    {good[0], {Key: good[1].Key}},
		"records of no bytes": {record(string(good[0].Key), 0), record(string(good[1].Key), 0)},
	}
	if len(good) != 2 {
		t.Fatalf("%d records in the piece", len(good))
	}
	for name, ws := range bad {
		if s.Install(ref, copiedNil(ws)) == nil {
			t.Fatalf("%s: installed", name)
		}
		if _, err := org.Begin(org.ID{}, s, 0).GetRaw(string(good[0].Key)); !errors.As(err, new(*org.Retry)) {
			t.Fatalf("%s: the piece is there", name)
		}
	}
	if s.Install(org.Hash{1, 2, 3}, good) == nil {
		t.Fatal("a piece that no snapshot names is installed")
	}
	bytesBefore := s.Bytes()
	if err := s.Install(ref, copied(good)); err != nil {
		t.Fatal(err)
	}
	grown := s.Bytes() - bytesBefore
	if err := s.Install(ref, copied(good)); err != nil || s.Bytes() != bytesBefore+grown || grown < 120<<10 {
		t.Fatalf("installed twice: %v, %d bytes more", err, grown)
	}
	if s.DropLoaded(); s.Bytes() != bytesBefore {
		t.Fatalf("shedding leaves %d bytes", s.Bytes()-bytesBefore)
	}
}

func copiedNil(ws []org.Write) []org.Write {
	out := copied(ws)
	for i := range ws {
		if ws[i].Value == nil {
			out[i].Value = nil
		}
	}
	return out
}

func TestFromRefsRefuses(t *testing.T) {
	ref := func(lo string) org.PieceRef { return org.PieceRef{Lo: []byte(lo), Ref: org.Hash{1}} }
	for name, refs := range map[string][]org.PieceRef{
		"none":            nil,
		"a hole at first": {ref("A")},
		"out of order":    {ref(""), ref("b"), ref("a")},
		"one twice":       {ref(""), ref("b"), ref("b")},
		"the first twice": {ref(""), ref("")},
	} {
		if s, _, err := org.FromRefs(refs); err == nil || s != nil {
			t.Errorf("%s: a state", name)
		}
	}
	if _, small, err := org.FromRefs([]org.PieceRef{ref(""), ref("C"), ref("a"), ref("z")}); err != nil || len(small) != 2 {
		t.Fatalf("%d small pieces, %v", len(small), err)
	}
}

func TestShedKeepsWhatIsNotStored(t *testing.T) {
	s := org.NewState()
	s.Apply([]org.Write{record("A", 5), record("d1", 5)})
	f := s.Compact()
	for i := byte(1); f.Next(); i++ {
		for j, p := range f.Parts() {
			p.SetName(org.Hash{i, byte(j)})
		}
	}
	f.End() // and nothing is stored
	s.Apply([]org.Write{record("d2", 5)})
	s.DropLoaded()
	for _, k := range []string{"A", "d1", "d2"} {
		if v, err := s.Get([]byte(k)); len(v) != 5 || err != nil {
			t.Fatalf("%s is gone: %v", k, err)
		}
	}
}

func TestBytesFollowWrites(t *testing.T) {
	s := org.NewState()
	empty := s.Bytes()
	s.Apply([]org.Write{record("d1", 1000)})
	one := s.Bytes()
	s.Apply([]org.Write{record("d1", 1000)})
	if s.Bytes() != one || one < empty+1000 {
		t.Fatalf("%d, then %d, then %d bytes", empty, one, s.Bytes())
	}
	s.Apply([]org.Write{{Key: []byte("d1")}})
	if got := s.Bytes(); got >= one-900 || got <= empty {
		t.Fatalf("deleted: %d bytes", got)
	}
	if foldAll(s); s.Bytes() != empty {
		t.Fatalf("folded: %d bytes", s.Bytes())
	}
}

func BenchmarkFold(b *testing.B) {
	s := org.NewState()
	for i := range 20_000 {
		s.Apply([]org.Write{record(fmt.Sprintf("a%06d", i), 150)})
	}
	for b.Loop() {
		for i := range 64 {
			s.Apply([]org.Write{record(fmt.Sprintf("a%06d", i*300), 150)})
		}
		foldAll(s)
	}
}

// foldAll folds a state of which nothing is absent.
func foldAll(s *org.State) map[org.Hash][]org.Write {
	stored := map[org.Hash][]org.Write{}
	f := s.Compact()
	for f.Next() {
		ps := f.Parts()
		for _, p := range ps {
			h := org.Hash(sha256.Sum256(fmt.Append(nil, p.Records())))
			p.SetName(h)
			stored[h] = copied(p.Records())
		}
		f.SetStored(ps)
	}
	f.End()
	return stored
}

func BenchmarkGet(b *testing.B) {
	s := org.NewState()
	for i := range 20_000 {
		s.Apply([]org.Write{record(fmt.Sprintf("a%06d", i), 150)})
	}
	foldAll(s)
	k := []byte("a012345")
	b.ReportAllocs()
	for b.Loop() {
		if v, err := s.Get(k); v == nil || err != nil {
			b.Fatal(err)
		}
	}
}
