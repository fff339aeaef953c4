package org

import (
	"errors"
	"maps"
	"slices"
)

// A Mark is one activity's fingerprint in the window: the first 16 bytes of the
// body's SHA-256, the minute of its stamp, and its entry.
type Mark struct {
	Print  [16]byte
	Minute uint32 // timestampMs / 60000
	Seq    uint64
}

// MarkSize is the encoded size of a mark.
const MarkSize = 28

// ChunkMarks is how many marks make a full chunk of the window in a snapshot.
const ChunkMarks = 8192

const (
	minuteBits = 26
	minuteMask = 1<<minuteBits - 1
)

// Window is the set of fingerprints above the floor, added in the order of entries.
type Window struct {
	marks map[[16]byte]uint64 // seq << minuteBits | minute
	full  []Chunk             // full chunks, as in the last snapshot
	tail  []Mark              // behind the full chunks, in order of seq
	saved Chunk               // what the last snapshot has of tail
	floor uint32              // no mark at or below this minute is kept
	each  map[uint32]int      // how many marks each minute has
}

// A Chunk names a stored run of marks and the newest minute in it.
type Chunk struct {
	Ref    Hash   `cbor:"1,keyasint"`
	Newest uint32 `cbor:"2,keyasint"`
	Marks  uint32 `cbor:"3,keyasint"`
}

// NewWindow is an empty window.
func NewWindow() *Window { return &Window{marks: map[[16]byte]uint64{}, each: map[uint32]int{}} }

// Len is how many fingerprints are kept.
func (w *Window) Len() int { return len(w.marks) }

// Above is how many fingerprints raising the floor to this minute would leave.
func (w *Window) Above(floor uint32) int {
	n := 0
	for m, k := range w.each {
		if m > floor {
			n += k
		}
	}
	return n
}

// Bytes is about how much memory the window takes.
func (w *Window) Bytes() int { return 40*len(w.marks) + 40*cap(w.tail) }

// Find returns the entry that an activity with this fingerprint stands in.
func (w *Window) Find(print [16]byte) (seq uint64, ok bool) {
	v, ok := w.marks[print]
	return v >> minuteBits, ok
}

// Add puts a mark in. Marks at or below the floor are not kept.
func (w *Window) Add(m Mark) {
	w.tail = append(w.tail, m)
	w.keep(m)
}

func (w *Window) keep(m Mark) {
	m.Minute &= minuteMask
	if m.Minute <= w.floor {
		return
	}
	if old, ok := w.marks[m.Print]; ok {
		w.each[uint32(old&minuteMask)]--
	}
	w.marks[m.Print] = m.Seq<<minuteBits | uint64(m.Minute)
	w.each[m.Minute]++
}

// Raise drops the marks of minutes at or below floor. It never goes back.
func (w *Window) Raise(floor uint32) {
	if floor <= w.floor {
		return
	}
	w.floor = floor
	maps.DeleteFunc(w.each, func(minute uint32, _ int) bool { return minute <= floor })
	maps.DeleteFunc(w.marks, func(_ [16]byte, v uint64) bool { return uint32(v&minuteMask) <= floor })
}

// Fold returns what a new snapshot must write, the chunks that are full now and the rest,
// and which chunks it drops. Parts that SetNames has not named are in the next Fold again.
func (w *Window) Fold() (parts [][]Mark, dropped []Hash) {
	w.full = slices.DeleteFunc(slices.Clone(w.full), func(c Chunk) bool {
		old := c.Newest <= w.floor
		if old {
			dropped = append(dropped, c.Ref)
		}
		return old
	})
	if w.saved != (Chunk{}) {
		dropped = append(dropped, w.saved.Ref)
		w.saved = Chunk{}
	}
	w.tail = slices.DeleteFunc(w.tail, func(m Mark) bool { return m.Minute <= w.floor })
	return slices.Collect(slices.Chunk(w.tail, ChunkMarks)), dropped
}

// SetNames names the parts of Fold, in order. Marks may have been added since.
func (w *Window) SetNames(parts [][]Mark, refs []Hash) {
	for i, ms := range parts {
		c := ChunkOf(refs[i], ms)
		if len(ms) < ChunkMarks {
			w.saved = c
			return
		}
		w.full = append(w.full, c)
		w.tail = append([]Mark(nil), w.tail[len(ms):]...) // a clone of nothing would keep the array
	}
}

// ChunkOf names a run of marks that is stored under ref.
func ChunkOf(ref Hash, ms []Mark) Chunk {
	c := Chunk{Ref: ref, Marks: uint32(len(ms))}
	for _, m := range ms {
		c.Newest = max(c.Newest, m.Minute)
	}
	return c
}

// Chunks lists the stored chunks in order; the last one may be short.
func (w *Window) Chunks() []Chunk {
	cs := slices.Clone(w.full)
	if w.saved != (Chunk{}) {
		cs = append(cs, w.saved)
	}
	return cs
}

// Restore puts back a stored chunk. All are put back, in the order of Chunks, before the first Add.
func (w *Window) Restore(c Chunk, ms []Mark) error {
	if int(c.Marks) != len(ms) || len(w.tail) > 0 {
		return errors.New("window chunk of another size")
	}
	for _, m := range ms {
		w.keep(m)
	}
	if len(ms) == ChunkMarks {
		w.full = append(w.full, c)
		return nil
	}
	w.tail = append(w.tail, ms...)
	w.saved = c
	return nil
}
