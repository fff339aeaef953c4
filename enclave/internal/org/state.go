// Package org is the state of an organization, its records, and transactions that change them.
//
// An organization's state is one sorted map from keys to record bytes, the result of all writes in its ledger.
// A key begins with its collection. In memory the map is a list of pieces, which are runs of consecutive keys in
// the last snapshot, with an overlay of later writes. Pieces of small collections are always in memory. A piece
// of a large collection may be absent; reading it returns *Retry, and the caller aborts without effect, loads
// the piece and runs again. Pieces cover the key space without gaps, so they prove absence as well as presence.
//
// The package reads no clock, draws no randomness except from its arguments, and does no I/O. A State is not safe
// for concurrent use: its organization's lock guards it. A Compaction runs without that lock.
package org

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"cloister/enclave/internal/fault"
)

// Limits of keys, records and pieces.
const (
	MaxKey       = 512       // bytes of a key
	MaxValue     = 192 << 10 // bytes of one record: it must fit into a piece
	PieceTarget  = 128 << 10 // a piece over MaxPieceBytes is cut to about this
	MaxPiecePart = 240 << 10 // encoded bytes of a piece before it is cut
)

// A Write puts a record under a key, or with a nil Value deletes it.
type Write struct {
	Key   []byte `cbor:"1,keyasint"`
	Value []byte `cbor:"2,keyasint"`
}

// Retry is the error of a transaction that cannot be decided yet. The transaction had no effect; the caller meets
// the request and runs it again. One field is set.
type Retry struct {
	LoadPiece  Hash                        // load this piece of the state
	LockParent bool                        // lock the organization's parent as well
	Redirect   ID                          // lock this organization instead
	Prefetch   func(context.Context) error // call this with no lock held
}

func (*Retry) Error() string { return "something is needed first" }

// Hash is the SHA-256 of a piece's sealed bytes.
type Hash [32]byte

// UnmarshalCBOR takes a byte string of exactly 32 bytes.
func (h *Hash) UnmarshalCBOR(b []byte) error {
	return readExactly(h[:], b, 0x58, byte(len(h)))
}

// record is one record: its bytes and, once it was read, its decoded value.
type record struct {
	bytes []byte
	obj   any
}

// content is a piece's content: sorted keys, and their records at the same indices.
type content struct {
	keys    []string
	records []*record
	size    int
}

// piece is the interval of the key space from lo to the next piece's lo.
type piece struct {
	lo      string
	ref     Hash     // name of the sealed bytes; zero while not stored yet
	records int      // number of records
	size    int      // encoded bytes
	content *content // nil when absent

	unstored bool     // not stored yet, so it cannot be loaded again
	parts    []*piece // its replacement by a compaction
}

// bytes is the approximate memory of a present piece.
func (p *piece) bytes() int { return p.size + 80*p.records }

// State is an organization's records in memory.
type State struct {
	// mu guards loading and dropping of contents: a compaction reads them without the organization's lock.
	mu sync.Mutex

	pieces        []*piece           // ascending by lo; the first has lo ""
	overlay       map[string]*record // written since the pieces were made; nil slot: deleted
	sorted        []string           // keys of overlay in order, without unsorted; nil until needed
	unsorted      []string           // keys of overlay that are not in sorted yet
	overlayBytes  int                // bytes in overlay
	residentBytes int                // bytes of present pieces

	policySet any // see Tx.KeepPolicySet; nil once a policy is written

	transaction interface{ Pause() } // see SetTransaction
}

// NewState is the state before the first entry.
func NewState() *State {
	return &State{pieces: []*piece{{content: &content{}}}, overlay: map[string]*record{}}
}

// SetTransaction sets the transaction that uses the state now. Its Pause yields the processor to other
// goroutines.
func (s *State) SetTransaction(step interface{ Pause() }) { s.transaction = step }

// Bytes is the approximate size of the records in memory.
func (s *State) Bytes() int { return s.overlayBytes + s.residentBytes + 64*len(s.pieces) }

// Memory is the approximate memory of the state. Writes since the last snapshot count
// twice, since a used record is also in memory in decoded form.
func (s *State) Memory() int { return s.Bytes() + s.overlayBytes }

// pieceIndex is the index of the piece that covers key.
func (s *State) pieceIndex(key string) int {
	return sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].lo > key }) - 1
}

func (s *State) lookUp(key string) (*record, error) {
	if v, ok := s.overlay[key]; ok {
		return v, nil
	}
	p := s.pieces[s.pieceIndex(key)]
	if p.content == nil {
		return nil, &Retry{LoadPiece: p.ref}
	}
	if i, ok := slices.BinarySearch(p.content.keys, key); ok {
		return p.content.records[i], nil
	}
	return nil, nil
}

// Get returns the record under key, or nil if there is none.
func (s *State) Get(key []byte) ([]byte, error) {
	v, err := s.lookUp(string(key))
	if v == nil || err != nil {
		return nil, err
	}
	return v.bytes, nil
}

// sortKeys sorts the keys written since the last snapshot. Few new ones are inserted in place, so that a busy
// organization does not sort thousands for each scan.
func (s *State) sortKeys() []string {
	switch {
	case s.sorted == nil:
		s.sorted = slices.AppendSeq(make([]string, 0, len(s.overlay)), maps.Keys(s.overlay))
		slices.Sort(s.sorted)
	case len(s.unsorted) > 64+len(s.sorted)/64:
		s.sorted = append(s.sorted, s.unsorted...)
		slices.Sort(s.sorted)
	default:
		for _, k := range s.unsorted {
			i, _ := slices.BinarySearch(s.sorted, k)
			s.sorted = slices.Insert(s.sorted, i, k)
		}
	}
	s.unsorted = s.unsorted[:0]
	return s.sorted
}

// Apply applies writes to the state.
func (s *State) Apply(ws []Write) {
	for _, w := range ws {
		var v *record
		if w.Value != nil {
			v = &record{bytes: w.Value}
		}
		s.put(string(w.Key), v)
	}
}

func (s *State) put(k string, v *record) {
	if strings.HasPrefix(k, allPolicies) {
		s.policySet = nil
	}
	old, was := s.overlay[k]
	switch {
	case !was:
		s.overlayBytes += len(k) + 96
		if s.sorted != nil {
			s.unsorted = append(s.unsorted, k)
		}
	case old != nil:
		s.overlayBytes -= len(old.bytes)
	}
	if v != nil {
		s.overlayBytes += len(v.bytes)
	}
	s.overlay[k] = v
}

// Check returns an error for a write that cannot be stored; for a record too large for a piece it is a *fault.Error.
func (w Write) Check() error {
	if len(w.Key) == 0 || len(w.Key) > MaxKey {
		return fmt.Errorf("key of %d bytes", len(w.Key))
	}
	if len(w.Value) > MaxValue {
		// A user's record may grow too large although no limit is reached.
		return fault.New(fault.ResourceExhausted, "over quota: a record would have %d bytes, at most %d", len(w.Value), MaxValue)
	}
	return nil
}

// PieceRef identifies a piece in a snapshot: its first key and the hash of its sealed bytes.
type PieceRef struct {
	Lo      []byte `cbor:"1,keyasint"`
	Ref     Hash   `cbor:"2,keyasint"`
	Records uint32 `cbor:"3,keyasint"`
	Size    uint32 `cbor:"4,keyasint"`
}

// A Compaction merges the writes up to one moment into the pieces, one after the other, while the state is read
// and written. So a snapshot needs memory for one message and not for all pieces, and blocks no transaction.
// Compact, End and Bytes need the organization's lock, as does SetStored after End. The other methods do not, so
// that a snapshot of thousands of pieces does not lock thousands of times.
//
//	f := s.Compact()
//	for f.Next() {
//		if ref, absent := f.Absent(); absent {
//			err = f.Load(records of ref)
//		}
//		for _, p := range f.Parts() {
//			p.SetName(hash of p.Records(), sealed)
//		}
//	}
//	f.End()
//
// A Compaction that is abandoned before End has changed nothing.
type Compaction struct {
	state     *State
	overlay   map[string]*record
	keys      []string // sorted keys of the overlay that are not merged yet
	pieces    []*piece // pieces that are not processed yet
	out       []*piece
	dropped   []Hash
	size      int
	heldBytes int

	piece   *piece   // the current piece
	merging []string // keys of the overlay to merge into it
	content *content // its records; nil when absent
	ended   bool
}

// Compact begins a Compaction of the writes since the last snapshot.
func (s *State) Compact() *Compaction {
	f := &Compaction{state: s, overlay: maps.Clone(s.overlay), keys: slices.Clone(s.sortKeys()), pieces: s.pieces, size: s.overlayBytes}
	f.heldBytes = s.overlayBytes + 256*len(s.pieces) // only f has values that are overwritten later
	for _, p := range s.pieces {
		f.size += p.size
	}
	return f
}

// Size is the approximate size of all pieces after the compaction, in bytes.
func (f *Compaction) Size() int { return f.size }

// Bytes is an upper estimate of the compaction's memory, without the state and the parts that are not stored yet,
// which are counted elsewhere. It holds the values from its beginning, and a second list of the records of each
// piece in memory: 24 of the 80 bytes that are counted for a record in addition to its own.
func (f *Compaction) Bytes() int { return f.heldBytes + f.state.residentBytes/3 }

// MaxRefs is the maximal number of pieces that Refs will list, and the bytes of their first keys. Call it before
// Next. For pieces in memory it counts the cuts that Parts will make; for an absent one that grows too large it
// counts the most possible.
func (f *Compaction) MaxRefs() (refs, keys int) {
	refs, keys = 1+len(f.pieces), MaxKey // one more for the cut where large collections begin
	rest := f.keys
	for i, p := range f.pieces {
		end := keysBefore(rest, f.pieces[i+1:])
		size := p.size
		for _, k := range rest[:end] {
			if v := f.overlay[k]; v != nil {
				size += recordSize(k, v)
			}
		}
		if keys += len(p.lo); size > MaxPiecePart {
			if r := f.state.contentOf(p); r != nil {
				for _, part := range cut(merge(r, rest[:end], f.overlay))[1:] {
					refs, keys = refs+1, keys+len(part.keys[0])
				}
			} else { // two neighbouring parts have more than PieceTarget
				n := 2 * size / PieceTarget
				refs, keys = refs+n, keys+n*MaxKey
			}
		}
		rest = rest[end:]
	}
	return refs, keys
}

// keysBefore is the number of keys before the next piece, all if there is none.
func keysBefore(keys []string, next []*piece) int {
	if len(next) == 0 {
		return len(keys)
	}
	n, _ := slices.BinarySearch(keys, next[0].lo)
	return n
}

func (s *State) contentOf(p *piece) *content {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.content
}

// Next advances to the next piece that changes or was never stored, and reports whether there is one.
func (f *Compaction) Next() bool {
	for f.content = nil; len(f.pieces) > 0; {
		f.piece, f.pieces = f.pieces[0], f.pieces[1:]
		end := keysBefore(f.keys, f.pieces)
		if end > 0 || f.piece.ref == (Hash{}) {
			f.merging, f.keys = f.keys[:end], f.keys[end:]
			f.content = f.state.contentOf(f.piece)
			return true
		}
		f.out = append(f.out, f.piece)
	}
	return false
}

// Absent returns the piece's hash, and whether Load must be called with its records.
func (f *Compaction) Absent() (ref Hash, absent bool) { return f.piece.ref, f.content == nil }

// Load sets the records of an absent piece.
func (f *Compaction) Load(records []Write) (err error) {
	f.content, err = f.piece.read(records, f.pieces)
	return err
}

// Parts returns the pieces that replace the current piece, none if it is empty: the piece before then covers its interval.
func (f *Compaction) Parts() (parts []NewPiece) {
	if f.piece.ref != (Hash{}) {
		f.dropped = append(f.dropped, f.piece.ref)
	}
	merged := merge(f.content, f.merging, f.overlay)
	if len(merged.keys) == 0 && len(f.out) > 0 {
		return nil
	}
	var news []*piece
	for i, r := range cut(merged) {
		lo := f.piece.lo
		if i > 0 {
			lo = r.keys[0]
		}
		np := &piece{lo: lo, records: len(r.keys), size: r.size, content: r, unstored: true}
		news, parts = append(news, np), append(parts, NewPiece{np, f.piece})
	}
	f.out = append(f.out, news...)
	f.state.mu.Lock()
	f.piece.parts = news
	f.state.mu.Unlock()
	return parts
}

// A NewPiece is a piece that a Compaction has made for a snapshot.
type NewPiece struct {
	piece *piece
	of    *piece // piece that it replaces, perhaps with others
}

// Records returns the piece's records for sealing.
func (p NewPiece) Records() []Write {
	ws := make([]Write, len(p.piece.content.keys))
	for i, k := range p.piece.content.keys {
		ws[i] = Write{Key: []byte(k), Value: p.piece.content.records[i].bytes}
	}
	return ws
}

// SetName sets the hash of the piece's sealed bytes.
func (p NewPiece) SetName(h Hash) { p.piece.ref = h }

// Refs lists all pieces in order. Call it once Next has returned false.
func (f *Compaction) Refs() []PieceRef { return refsOf(f.out) }

// Drops lists the hashes of the pieces that End replaces.
func (f *Compaction) Drops() []Hash { return f.dropped }

// End replaces the old pieces by the new ones. SetName must have been called on all parts.
func (f *Compaction) End() {
	s := f.state
	since, size := map[string]*record{}, 0
	for k, v := range s.overlay {
		if then, was := f.overlay[k]; was && then == v {
			continue
		}
		since[k] = v
		if size += len(k) + 96; v != nil {
			size += len(v.bytes)
		}
	}
	s.overlay, s.sorted, s.unsorted, s.overlayBytes = since, nil, nil, size
	s.pieces, s.residentBytes, f.ended = f.out, 0, true
	for _, p := range s.pieces {
		if p.content != nil {
			s.residentBytes += p.bytes()
		}
	}
}

// SetStored marks parts as stored, so that they can be loaded. Those that replace an absent piece are dropped from memory.
func (f *Compaction) SetStored(parts []NewPiece) {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	for _, part := range parts {
		p := part.piece
		if p.unstored = false; part.of.content != nil || p.content == nil {
			continue
		}
		if p.content = nil; f.ended {
			f.state.residentBytes -= p.bytes()
		}
	}
}

func merge(r *content, keys []string, over map[string]*record) *content {
	m := &content{keys: make([]string, 0, len(r.keys)+len(keys)), records: make([]*record, 0, len(r.keys)+len(keys))}
	r.visit(0, len(r.keys), keys, func(k string) *record { return over[k] }, false, func(k string, v *record) bool {
		m.keys, m.records = append(m.keys, k), append(m.records, v)
		m.size += recordSize(k, v)
		return true
	})
	return m
}

func recordSize(k string, v *record) int { return len(k) + len(v.bytes) + 12 }

// cut splits a content where the large collections begin and wherever it is too large for a piece.
func cut(r *content) []*content {
	var out []*content
	rest := &content{}
	flush := func() {
		if len(rest.keys) > 0 {
			out = append(out, rest)
			rest = &content{}
		}
	}
	limit := MaxPiecePart
	if r.size > MaxPiecePart {
		limit = PieceTarget
	}
	for i, k := range r.keys {
		n := recordSize(k, r.records[i])
		border := i > 0 && Large(k[0]) != Large(r.keys[i-1][0])
		if border || rest.size+n > limit {
			flush()
		}
		rest.keys, rest.records = append(rest.keys, k), append(rest.records, r.records[i])
		rest.size += n
	}
	flush()
	if len(out) == 0 {
		out = append(out, &content{})
	}
	return out
}

// Refs lists the pieces in order, for a snapshot.
func (s *State) Refs() []PieceRef { return refsOf(s.pieces) }

func refsOf(pieces []*piece) []PieceRef {
	refs := make([]PieceRef, len(pieces))
	for i, p := range pieces {
		refs[i] = PieceRef{Lo: []byte(p.lo), Ref: p.ref, Records: uint32(p.records), Size: uint32(p.size)}
	}
	return refs
}

// FromRefs makes a snapshot's state with every piece absent. The pieces in small must be installed first.
func FromRefs(refs []PieceRef) (s *State, small []Hash, err error) {
	if len(refs) == 0 || len(refs[0].Lo) != 0 {
		return nil, nil, fmt.Errorf("snapshot does not begin at the first key")
	}
	s = &State{overlay: map[string]*record{}}
	for i, r := range refs {
		if i > 0 && bytes.Compare(refs[i-1].Lo, r.Lo) >= 0 {
			return nil, nil, fmt.Errorf("snapshot pieces out of order")
		}
		s.pieces = append(s.pieces, &piece{lo: string(r.Lo), ref: r.Ref, records: int(r.Records), size: int(r.Size)})
		if len(r.Lo) == 0 || !Large(r.Lo[0]) {
			small = append(small, r.Ref)
		}
	}
	return s, small, nil
}

// Install sets the records of the piece with hash ref. It refuses a ref that no piece has, and
// records outside of the piece's interval.
func (s *State) Install(ref Hash, records []Write) error {
	i := slices.IndexFunc(s.pieces, func(p *piece) bool { return p.ref == ref })
	if i < 0 {
		return fmt.Errorf("no such piece")
	}
	p := s.pieces[i]
	if p.content != nil {
		return nil // another request has loaded it
	}
	r, err := p.read(records, s.pieces[i+1:])
	if err != nil {
		return err
	}
	s.mu.Lock()
	p.content = r
	s.mu.Unlock()
	s.residentBytes += p.bytes()
	return nil
}

// read makes a content of records, which must be in the piece's interval. next are the pieces after it.
func (p *piece) read(records []Write, next []*piece) (*content, error) {
	r := &content{keys: make([]string, len(records)), records: make([]*record, len(records))}
	last := p.lo
	for j, w := range records {
		k := string(w.Key)
		if w.Value == nil || len(k) == 0 || k < last || (j > 0 && k == last) || (len(next) > 0 && k >= next[0].lo) {
			return nil, fmt.Errorf("record outside of its piece")
		}
		last = k
		r.keys[j], r.records[j] = k, &record{bytes: w.Value}
		r.size += recordSize(k, r.records[j])
	}
	if len(records) != p.records || r.size != p.size {
		return nil, fmt.Errorf("piece of another size")
	}
	return r, nil
}

// IsAbsent reports whether the state has a piece with hash ref and it is absent.
func (s *State) IsAbsent(ref Hash) bool {
	i := slices.IndexFunc(s.pieces, func(p *piece) bool { return p.ref == ref })
	return i >= 0 && s.pieces[i].content == nil
}

// DropLoaded drops pieces of large collections from memory that can be loaded again, with their stored replacements of a compaction.
func (s *State) DropLoaded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pieces {
		if p.content == nil || p.ref == (Hash{}) || p.unstored || p.lo == "" || !Large(p.lo[0]) {
			continue
		}
		p.content = nil
		s.residentBytes -= p.bytes()
		for _, part := range p.parts {
			if !part.unstored {
				part.content = nil
			}
		}
	}
}
