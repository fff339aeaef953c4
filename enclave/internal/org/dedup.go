package org

import (
	"errors"
	"maps"
	"slices"
)

// A DedupEntry is the fingerprint of one activity in a DedupWindow: the first 16 bytes of the body's SHA-256, the
// minute of its stamp, and the seq of its entry.
type DedupEntry struct {
	Fingerprint [16]byte
	Minute      uint32 // timestampMs / 60000
	Seq         uint64
}

// DedupEntrySize is the encoded size of a DedupEntry in bytes.
const DedupEntrySize = 28

// ChunkEntries is the number of entries in a full chunk of a DedupWindow in a snapshot.
const ChunkEntries = 8192

const (
	minuteBits = 26
	minuteMask = 1<<minuteBits - 1
)

// DedupWindow is the set of fingerprints above the low watermark, added in the order of entries. A body whose
// fingerprint is in it has been answered before.
type DedupWindow struct {
	seqs      map[[16]byte]uint64 // seq << minuteBits | minute
	full      []Chunk             // full chunks in the last snapshot
	tail      []DedupEntry        // entries after the full chunks, in order of seq
	lastChunk Chunk               // the part of tail in the last snapshot
	watermark uint32              // entries at or below this minute are dropped
	perMinute map[uint32]int      // number of entries by minute
}

// A Chunk identifies a stored run of entries, with the newest minute in it.
type Chunk struct {
	Ref     Hash   `cbor:"1,keyasint"`
	Newest  uint32 `cbor:"2,keyasint"`
	Entries uint32 `cbor:"3,keyasint"`
}

// NewDedupWindow is an empty window.
func NewDedupWindow() *DedupWindow {
	return &DedupWindow{seqs: map[[16]byte]uint64{}, perMinute: map[uint32]int{}}
}

// Len is the number of fingerprints.
func (w *DedupWindow) Len() int { return len(w.seqs) }

// CountAbove is the number of fingerprints after this minute, which raising the low watermark to it would leave.
func (w *DedupWindow) CountAbove(floor uint32) int {
	n := 0
	for m, k := range w.perMinute {
		if m > floor {
			n += k
		}
	}
	return n
}

// Bytes is the approximate memory of the window.
func (w *DedupWindow) Bytes() int { return 40*len(w.seqs) + 40*cap(w.tail) }

// Find returns the seq of the entry of an activity with this fingerprint.
func (w *DedupWindow) Find(print [16]byte) (seq uint64, ok bool) {
	v, ok := w.seqs[print]
	return v >> minuteBits, ok
}

// Add adds an entry. It ignores one at or below the low watermark.
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

// RaiseWatermark raises the low watermark to a minute and drops the entries at or below it. It never lowers it.
func (w *DedupWindow) RaiseWatermark(floor uint32) {
	if floor <= w.watermark {
		return
	}
	w.watermark = floor
	maps.DeleteFunc(w.perMinute, func(minute uint32, _ int) bool { return minute <= floor })
	maps.DeleteFunc(w.seqs, func(_ [16]byte, v uint64) bool { return uint32(v&minuteMask) <= floor })
}

// Compact returns the parts that a new snapshot must write, which are the newly full chunks and the rest, and the
// chunks that it drops. The next Compact returns parts again for which SetNames was not called.
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

// SetNames sets the names under which the parts of Compact are stored, in order. Entries may have been added since.
func (w *DedupWindow) SetNames(parts [][]DedupEntry, refs []Hash) {
	for i, ms := range parts {
		c := ChunkOf(refs[i], ms)
		if len(ms) < ChunkEntries {
			w.lastChunk = c
			return
		}
		w.full = append(w.full, c)
		w.tail = append([]DedupEntry(nil), w.tail[len(ms):]...) // slices.Clone of an empty slice would keep the array
	}
}

// ChunkOf makes the Chunk of a run of entries that is stored under ref.
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

// Restore adds a stored chunk. All chunks must be restored, in the order of Chunks, before the first Add.
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
