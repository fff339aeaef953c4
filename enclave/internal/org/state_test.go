package org_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
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
	var miss *org.Missing
	if !errors.As(err, &miss) {
		if err != nil {
			m.t.Fatal(err)
		}
		return false
	}
	ws, ok := m.store[miss.Piece]
	if !ok {
		m.t.Fatalf("asks for a piece that no snapshot holds: %x", miss.Piece[:4])
	}
	if err := m.state.Install(miss.Piece, copied(ws)); err != nil {
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
		tx.Keep()
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
	changed, dropped, err := m.state.Fold()
	for m.install(err) {
		changed, dropped, err = m.state.Fold()
	}
	for _, ref := range dropped {
		if _, ok := m.store[ref]; !ok {
			m.t.Fatal("drops a piece that no snapshot holds")
		}
		delete(m.store, ref)
	}
	for _, p := range changed {
		if m.r.Intn(10) == 0 {
			continue // sealing failed: it is among the changed again the next time
		}
		m.name(p)
	}
	changed, dropped, err = m.state.Fold()
	if err != nil || len(dropped) > 0 {
		m.t.Fatalf("folding nothing drops %d, %v", len(dropped), err)
	}
	for _, p := range changed {
		m.name(p)
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

func (m *model) name(p org.NewPiece) {
	m.next++
	var h org.Hash
	binary.BigEndian.PutUint64(h[:], m.next)
	m.store[h] = copied(p.Records())
	p.SetName(h)
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
					m.state.Shed()
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
	var miss *org.Missing
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
	if err := s.Install(miss.Piece, copied(store[miss.Piece])); err != nil {
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
	unsaved := s.UnsavedBytes()
	_, _, err := s.Fold()
	var miss *org.Missing
	if !errors.As(err, &miss) || s.UnsavedBytes() != unsaved {
		t.Fatalf("folded without the piece: %v", err)
	}
	if err := s.Install(miss.Piece, copied(store[miss.Piece])); err != nil {
		t.Fatal(err)
	}
	changed, dropped, err := s.Fold()
	if err != nil || len(changed) != 2 || len(dropped) != 2 || len(s.Refs()) != len(refs) {
		t.Fatalf("%d changed, %d dropped, %d pieces; %v", len(changed), len(dropped), len(s.Refs()), err)
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
		if _, err := org.Begin(org.ID{}, s, 0).GetRaw(string(good[0].Key)); !errors.As(err, new(*org.Missing)) {
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
	if s.Shed(); s.Bytes() != bytesBefore {
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
	if _, _, err := s.Fold(); err != nil { // and nothing is named
		t.Fatal(err)
	}
	s.Apply([]org.Write{record("d2", 5)})
	s.Shed()
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
	if _, _, err := s.Fold(); err != nil || s.Bytes() != empty {
		t.Fatalf("folded: %d bytes, %v", s.Bytes(), err)
	}
}

func BenchmarkFold(b *testing.B) {
	s := org.NewState()
	for i := range 20_000 {
		s.Apply([]org.Write{record(fmt.Sprintf("a%06d", i), 150)})
	}
	var h org.Hash
	for b.Loop() {
		for i := range 64 {
			s.Apply([]org.Write{record(fmt.Sprintf("a%06d", i*300), 150)})
		}
		changed, _, err := s.Fold()
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range changed {
			binary.BigEndian.PutUint64(h[:], binary.BigEndian.Uint64(h[:])+1)
			p.SetName(h)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := org.NewState()
	for i := range 20_000 {
		s.Apply([]org.Write{record(fmt.Sprintf("a%06d", i), 150)})
	}
	if _, _, err := s.Fold(); err != nil {
		b.Fatal(err)
	}
	k := []byte("a012345")
	b.ReportAllocs()
	for b.Loop() {
		if v, err := s.Get(k); v == nil || err != nil {
			b.Fatal(err)
		}
	}
}
