package org_test

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"cloister/enclave/internal/org"
)

// windowModel is a window, the marks that it must hold, and the chunks that a
// store would hold.
type windowModel struct {
	t     *testing.T
	r     *rand.Rand
	w     *org.DedupWindow
	marks []org.DedupEntry // all ever added, in order
	floor uint32
	store map[org.Hash][]org.DedupEntry
	since int // marks that no snapshot holds
	seq   uint64
	name  uint64
}

func print16(n uint64) (p [16]byte) {
	binary.BigEndian.PutUint64(p[:], n*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(p[8:], n)
	return p
}

func (m *windowModel) add(n int) {
	base := m.floor + 20
	for range n {
		m.seq++
		mark := org.DedupEntry{Fingerprint: print16(m.seq), Minute: base - 30 + uint32(m.r.Intn(60)), Seq: m.seq}
		m.w.Add(mark)
		m.marks = append(m.marks, mark)
		m.since++
	}
}

func (m *windowModel) raise() {
	f := m.floor + uint32(m.r.Intn(15)) - 3
	m.w.RaiseWatermark(f)
	m.floor = max(m.floor, f)
}

// check holds the window against the plain list.
func (m *windowModel) check() {
	m.t.Helper()
	live, above := 0, 0
	for _, x := range m.marks {
		seq, ok := m.w.Find(x.Fingerprint)
		if ok != (x.Minute > m.floor) || ok && seq != x.Seq {
			m.t.Fatalf("mark of minute %d with the floor at %d: found %v at %d, want %d", x.Minute, m.floor, ok, seq, x.Seq)
		}
		if ok {
			live++
		}
		if x.Minute > m.floor+7 {
			above++
		}
	}
	if m.w.Len() != live || m.w.CountAbove(m.floor) != live || m.w.CountAbove(m.floor+7) != above {
		m.t.Fatalf("%d marks, %d above the floor, %d above 7 more; want %d and %d", m.w.Len(), m.w.CountAbove(m.floor), m.w.CountAbove(m.floor+7), live, above)
	}
	if _, ok := m.w.Find(print16(1 << 40)); ok {
		m.t.Fatal("finds what was never added")
	}
}

func (m *windowModel) fold() {
	parts, dropped := m.w.Compact()
	if m.r.Intn(5) == 0 { // the snapshot came to nothing: the next one says it all again
		again, more := m.w.Compact()
		if len(more) != 0 || len(again) != len(parts) {
			m.t.Fatalf("folding again gives %d parts and drops %d", len(again), len(more))
		}
	}
	for _, h := range dropped {
		if _, ok := m.store[h]; !ok {
			m.t.Fatal("drops a chunk that is not stored")
		}
		delete(m.store, h)
	}
	refs := make([]org.Hash, len(parts))
	for i, ms := range parts {
		if len(ms) == 0 || len(ms) > org.ChunkEntries || i+1 < len(parts) && len(ms) != org.ChunkEntries {
			m.t.Fatalf("part %d of %d has %d marks", i, len(parts), len(ms))
		}
		m.name++
		binary.BigEndian.PutUint64(refs[i][:], m.name)
		m.store[refs[i]] = slices.Clone(ms)
	}
	m.w.SetNames(parts, refs)
	m.since = 0
	chunks := m.w.Chunks()
	m.add(m.r.Intn(3)) // what comes later is not in the snapshot
	if !slices.Equal(chunks, m.w.Chunks()) {
		m.t.Fatal("the stored chunks change with a mark added")
	}
	m.since = len(m.marks) - int(m.checkChunks(chunks))
}

// checkChunks answers how many marks lie before the snapshot's end.
func (m *windowModel) checkChunks(chunks []org.Chunk) (end uint64) {
	if len(chunks) != len(m.store) {
		m.t.Fatalf("%d chunks named, %d stored", len(chunks), len(m.store))
	}
	stored := map[uint64]bool{}
	for _, c := range chunks {
		ms := m.store[c.Ref]
		newest := uint32(0)
		for _, x := range ms {
			newest = max(newest, x.Minute)
			if stored[x.Seq] {
				m.t.Fatal("a mark is stored twice")
			}
			stored[x.Seq] = true
			end = max(end, x.Seq)
		}
		if c.Entries != uint32(len(ms)) || c.Newest != newest || newest <= m.floor {
			m.t.Fatalf("chunk of %d marks up to minute %d says %d up to %d; the floor is %d", len(ms), newest, c.Entries, c.Newest, m.floor)
		}
	}
	for _, x := range m.marks {
		if x.Seq <= end && x.Minute > m.floor && !stored[x.Seq] {
			m.t.Fatal("a live mark is in no chunk")
		}
	}
	return end
}

// reload opens the last snapshot and adds what came after it, as a replay does.
func (m *windowModel) reload() {
	m.fold()
	chunks := m.w.Chunks()
	end := m.checkChunks(chunks)
	w := org.NewDedupWindow()
	w.RaiseWatermark(m.floor)
	for _, c := range chunks {
		if err := w.Restore(c, slices.Clone(m.store[c.Ref])); err != nil {
			m.t.Fatal(err)
		}
	}
	if !slices.Equal(w.Chunks(), chunks) {
		m.t.Fatal("restored with other chunks")
	}
	for _, x := range m.marks {
		if x.Seq > end {
			w.Add(x)
		}
	}
	m.w = w
}

func TestWindowAgainstList(t *testing.T) {
	for seed := range int64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &windowModel{t: t, r: rand.New(rand.NewSource(seed)), w: org.NewDedupWindow(), floor: 1000, store: map[org.Hash][]org.DedupEntry{}}
			m.w.RaiseWatermark(1000)
			for range 60 {
				switch m.r.Intn(6) {
				case 0:
					m.raise()
				case 1:
					m.fold()
				case 2:
					m.reload()
				case 3:
					if len(m.marks) < 30_000 {
						m.add(m.r.Intn(int(4096 << (seed % 3))))
					}
				default:
					m.add(m.r.Intn(50))
				}
			}
			m.check()
			m.reload()
			m.check()
		})
	}
}

func TestFullChunksAreNotRewritten(t *testing.T) {
	m := &windowModel{t: t, r: rand.New(rand.NewSource(1)), w: org.NewDedupWindow(), store: map[org.Hash][]org.DedupEntry{}}
	add := func(n int) {
		for range n {
			m.seq++
			x := org.DedupEntry{Fingerprint: print16(m.seq), Minute: 1 + uint32(m.seq/1000*3), Seq: m.seq}
			m.w.Add(x)
		}
	}
	add(2*org.ChunkEntries + 5)
	fold := func(refs ...byte) (parts [][]org.DedupEntry, dropped []org.Hash) {
		parts, dropped = m.w.Compact()
		hs := make([]org.Hash, len(refs))
		for i, r := range refs {
			hs[i] = org.Hash{r}
		}
		m.w.SetNames(parts, hs)
		return parts, dropped
	}
	if parts, dropped := fold(1, 2, 3); len(parts) != 3 || len(dropped) != 0 || len(parts[2]) != 5 {
		t.Fatalf("%d parts, %d dropped", len(parts), len(dropped))
	}
	add(5)
	if parts, dropped := fold(4); len(parts) != 1 || len(parts[0]) != 10 || !slices.Equal(dropped, []org.Hash{{3}}) {
		t.Fatalf("%d parts, dropped %v", len(parts), dropped)
	}
	add(org.ChunkEntries - 10)
	if parts, dropped := fold(5); len(parts) != 1 || len(parts[0]) != org.ChunkEntries || !slices.Equal(dropped, []org.Hash{{4}}) {
		t.Fatalf("%d parts, dropped %v", len(parts), dropped)
	}
	if parts, dropped := fold(); len(parts) != 0 || len(dropped) != 0 || len(m.w.Chunks()) != 3 {
		t.Fatalf("%d parts, dropped %v, %d chunks", len(parts), dropped, len(m.w.Chunks()))
	}
	// The first chunk's newest minute is that of mark 8,192. One below it keeps it.
	newest := m.w.Chunks()[0].Newest
	m.w.RaiseWatermark(newest - 1)
	if _, dropped := fold(); len(dropped) != 0 {
		t.Fatalf("dropped %v with a minute above the floor", dropped)
	}
	m.w.RaiseWatermark(newest)
	if _, dropped := fold(); !slices.Equal(dropped, []org.Hash{{1}}) {
		t.Fatalf("dropped %v", dropped)
	}
}

func TestFloorMinute(t *testing.T) {
	w := org.NewDedupWindow()
	w.RaiseWatermark(100)
	for i, minute := range []uint32{99, 100, 101, 102} {
		w.Add(org.DedupEntry{Fingerprint: print16(uint64(i)), Minute: minute, Seq: uint64(i)})
	}
	for i, want := range []bool{false, false, true, true} {
		if _, ok := w.Find(print16(uint64(i))); ok != want {
			t.Errorf("minute %d: %v", 99+i, ok)
		}
	}
	w.RaiseWatermark(99) // never back
	w.Add(org.DedupEntry{Fingerprint: print16(9), Minute: 100, Seq: 9})
	if _, ok := w.Find(print16(9)); ok || w.Len() != 2 {
		t.Fatal("the floor went back")
	}
	w.RaiseWatermark(101)
	if w.Len() != 1 {
		t.Fatalf("%d marks above minute 101", w.Len())
	}
}

func TestMarkAddedTwiceCountsOnce(t *testing.T) {
	w := org.NewDedupWindow()
	w.Add(org.DedupEntry{Fingerprint: print16(1), Minute: 5, Seq: 1})
	w.Add(org.DedupEntry{Fingerprint: print16(1), Minute: 8, Seq: 2})
	if seq, _ := w.Find(print16(1)); seq != 2 || w.Len() != 1 || w.CountAbove(0) != 1 || w.CountAbove(5) != 1 || w.CountAbove(8) != 0 {
		t.Fatalf("seq %d, %d marks, %d above", seq, w.Len(), w.CountAbove(0))
	}
	if w.RaiseWatermark(5); w.Len() != 1 {
		t.Fatal("the newer mark went with the older minute")
	}
}

func TestLargeSeqAndMinute(t *testing.T) {
	w := org.NewDedupWindow()
	x := org.DedupEntry{Fingerprint: print16(1), Minute: 1<<26 - 1, Seq: 1<<38 - 1}
	w.Add(x)
	if seq, ok := w.Find(x.Fingerprint); !ok || seq != x.Seq {
		t.Fatalf("%d, %v", seq, ok)
	}
	if w.RaiseWatermark(1<<26 - 2); w.Len() != 1 {
		t.Fatal("dropped early")
	}
}

func TestRestoreRefuses(t *testing.T) {
	two := []org.DedupEntry{{Fingerprint: print16(1), Minute: 1, Seq: 1}, {Fingerprint: print16(2), Minute: 1, Seq: 2}}
	for name, n := range map[string]uint32{"none": 0, "fewer": 1, "more": 3, "many": 1 << 31} {
		if org.NewDedupWindow().Restore(org.Chunk{Entries: n, Newest: 1}, two) == nil {
			t.Errorf("%s: restored", name)
		}
	}
	w := org.NewDedupWindow()
	if err := w.Restore(org.Chunk{Entries: 2, Newest: 1}, two); err != nil {
		t.Fatal(err)
	}
	if w.Restore(org.Chunk{Entries: 2, Newest: 1}, two) == nil {
		t.Error("a short chunk that is not the last is restored")
	}
	w = org.NewDedupWindow()
	w.Add(org.DedupEntry{Fingerprint: print16(3), Minute: 9, Seq: 9})
	if w.Restore(org.Chunk{Entries: 2, Newest: 1}, two) == nil {
		t.Error("restored behind a mark that was added")
	}
}

func BenchmarkWindowAdd(b *testing.B) {
	w := org.NewDedupWindow()
	b.ReportAllocs()
	for n := uint64(0); b.Loop(); n++ {
		w.Add(org.DedupEntry{Fingerprint: print16(n), Minute: uint32(n>>10) + 1, Seq: n})
	}
}
