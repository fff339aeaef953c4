package org

import (
	"errors"
	"maps"
	"slices"
)

// A DedupEntry is the fingerprint of one activity in the window: the first 16 bytes of the body's SHA-256, the
// minute of its stamp, and its entry.
type DedupEntry struct {
	Fingerprint [16]byte
	Minute      uint32 // timestampMs / 60000
	Seq         uint64
}

// DedupEntrySize is the encoded size of a DedupEntry in bytes.
const DedupEntrySize = 28

// ChunkEntries is how many entries make a full chunk of the window in a snapshot.
const ChunkEntries = 8192

const (
	minuteBits = 26
	minuteMask = 1<<minuteBits - 1
)

// DedupWindow is the set of fingerprints above the low watermark, added in the order of entries. A body whose
// fingerprint is in it has been answered before.
type DedupWindow struct {
	seqs      map[[16]byte]uint64 // seq << minuteBits | minute
	full      []Chunk             // full chunks, as in the last snapshot
	tail      []DedupEntry        // behind the full chunks, in order of seq
	lastChunk Chunk               // what the last snapshot has of tail
	watermark uint32              // no entry at or below this minute is kept
	perMinute map[uint32]int      // how many entries each minute has
}

// A Chunk names a stored run of entries and the newest minute in it.
type Chunk struct {
	Ref     Hash   `cbor:"1,keyasint"`
	Newest  uint32 `cbor:"2,keyasint"`
	Entries uint32 `cbor:"3,keyasint"`
}

// NewDedupWindow is an empty window.
func NewDedupWindow() *DedupWindow {
	return &DedupWindow{seqs: map[[16]byte]uint64{}, perMinute: map[uint32]int{}}
}

// Len is how many fingerprints are kept.
func (w *DedupWindow) Len() int { return len(w.seqs) }

// CountAbove is how many fingerprints raising the low watermark to this minute would leave.
func (w *DedupWindow) CountAbove(floor uint32) int {
	n := 0
	for m, k := range w.perMinute {
		if m > floor {
			n += k
		}
	}
	return n
}

// Bytes is about how much memory the window takes.
func (w *DedupWindow) Bytes() int { return 40*len(w.seqs) + 40*cap(w.tail) }

// Find returns the entry that an activity with this fingerprint stands in.
func (w *DedupWindow) Find(print [16]byte) (seq uint64, ok bool) {
	v, ok := w.seqs[print]
	return v >> minuteBits, ok
}

// Add adds an entry. One at or below the low watermark is not kept.
func (w *DedupWindow) Add(m DedupEntry) {
	w.tail = append(w.tail, m)
	w.index(m)
}

func (w *DedupWindow) index(m DedupEntry) {
	m.Minute &= minuteMask
	if m.Minute <= w.watermark {
		return
	}
	if old, ok := w.seqs[m.Fingerprint]; ok {
		w.perMinute[uint32(old&minuteMask)]--
	}
	w.seqs[m.Fingerprint] = m.Seq<<minuteBits | uint64(m.Minute)
	w.perMinute[m.Minute]++
}

// RaiseWatermark drops the entries of minutes at or below a minute. It never goes back.
func (w *DedupWindow) RaiseWatermark(floor uint32) {
	if floor <= w.watermark {
		return
	}
	w.watermark = floor
	maps.DeleteFunc(w.perMinute, func(minute uint32, _ int) bool { return minute <= floor })
	maps.DeleteFunc(w.seqs, func(_ [16]byte, v uint64) bool { return uint32(v&minuteMask) <= floor })
}

// Compact returns what a new snapshot must write, the chunks that are full now and the rest, and which chunks
// it drops. Parts that SetNames has not named are in the next Compact again.
func (w *DedupWindow) Compact() (parts [][]DedupEntry, dropped []Hash) {
	w.full = slices.DeleteFunc(slices.Clone(w.full), func(c Chunk) bool {
		old := c.Newest <= w.watermark
		if old {
			dropped = append(dropped, c.Ref)
		}
		return old
	})
	if w.lastChunk != (Chunk{}) {
		dropped = append(dropped, w.lastChunk.Ref)
		w.lastChunk = Chunk{}
	}
	w.tail = slices.DeleteFunc(w.tail, func(m DedupEntry) bool { return m.Minute <= w.watermark })
	return slices.Collect(slices.Chunk(w.tail, ChunkEntries)), dropped
}

// SetNames names the parts of Compact, in order. Entries may have been added since.
func (w *DedupWindow) SetNames(parts [][]DedupEntry, refs []Hash) {
	for i, ms := range parts {
		c := ChunkOf(refs[i], ms)
		if len(ms) < ChunkEntries {
			w.lastChunk = c
			return
		}
		w.full = append(w.full, c)
		w.tail = append([]DedupEntry(nil), w.tail[len(ms):]...) // a clone of nothing would keep the array
	}
}

// ChunkOf names a run of entries that is stored under ref.
func ChunkOf(ref Hash, ms []DedupEntry) Chunk {
	c := Chunk{Ref: ref, Entries: uint32(len(ms))}
	for _, m := range ms {
		c.Newest = max(c.Newest, m.Minute)
	}
	return c
}

// Chunks lists the stored chunks in order; the last one may be short.
func (w *DedupWindow) Chunks() []Chunk {
	cs := slices.Clone(w.full)
	if w.lastChunk != (Chunk{}) {
		cs = append(cs, w.lastChunk)
	}
	return cs
}

// Restore puts back a stored chunk. All are put back, in the order of Chunks, before the first Add.
func (w *DedupWindow) Restore(c Chunk, ms []DedupEntry) error {
	if int(c.Entries) != len(ms) || len(w.tail) > 0 {
		return errors.New("window chunk of another size")
	}
	for _, m := range ms {
		w.index(m)
	}
	if len(ms) == ChunkEntries {
		w.full = append(w.full, c)
		return nil
	}
	w.tail = append(w.tail, ms...)
	w.lastChunk = c
	return nil
}
