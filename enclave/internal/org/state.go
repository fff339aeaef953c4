// Package org holds an organization's records and one change to them.
//
// An organization's state is one sorted map from keys to record bytes, the fold of the writes in
// its ledger. A key begins with its collection. In memory the map is a list of pieces, runs of
// consecutive keys as the last snapshot has them, with what was written since laid over them.
// Pieces of small collections are always present. One of a large collection may be absent; reading
// it answers *Missing, and the caller gives up without effect, loads the piece and runs again.
// Pieces cover the key space without gaps, so they prove absence as well as presence.
//
// Nothing here reads a clock, draws randomness or talks to anybody. A State is not safe for
// concurrent use: its organization's turn guards it. A Folding goes on beside the turn.
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

// Bounds on what one organization may hold.
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

// Missing is the error of a decision that cannot be taken yet. It had no effect, and is to
// be taken again with what it needs. One of its members is set.
type Missing struct {
	Piece        Hash                        // a piece of the state, to be loaded
	Parent       bool                        // the turn of the organization's parent as well
	Organization ID                          // the turn of this organization instead
	Fetch        func(context.Context) error // gets something with no turn held
}

func (*Missing) Error() string { return "something is needed first" }

// Hash is the SHA-256 of a piece's sealed bytes.
type Hash [32]byte

// UnmarshalCBOR takes a byte string of exactly 32 bytes.
func (h *Hash) UnmarshalCBOR(b []byte) error {
	return readExactly(h[:], b, 0x58, byte(len(h)))
}

// slot is one record: its bytes and, once it was read, what they decode to.
type slot struct {
	bytes []byte
	obj   any
}

// run is the content of a piece: keys ascending, slots beside them.
type run struct {
	keys  []string
	slots []*slot
	size  int
}

// piece is a stretch of the key space from lo to the next piece's lo.
type piece struct {
	lo      string
	ref     Hash // name of the sealed bytes; zero while not stored yet
	records int  // how many
	size    int  // encoded bytes
	run     *run // nil when absent

	unstored bool     // its message is not stored yet, so it cannot be loaded
	parts    []*piece // what a fold has made of it
}

// bytes is about how much memory a present piece takes.
func (p *piece) bytes() int { return p.size + 80*p.records }

// State is an organization's records in memory.
type State struct {
	// mu guards runs that come and go: a fold looks for them without the turn.
	mu sync.Mutex

	pieces  []*piece         // ascending by lo; the first has lo ""
	over    map[string]*slot // written since the pieces were made; nil slot: deleted
	sorted  []string         // keys of over in order, without fresh; nil until it is needed
	fresh   []string         // keys of over that are not in sorted yet
	overLen int              // bytes in over
	resid   int              // bytes of present pieces

	policySet any // made of all policies; nil once one is written

	step interface{ Pause() } // see UsedBy
}

// NewState is the state before the first entry.
func NewState() *State {
	return &State{pieces: []*piece{{run: &run{}}}, over: map[string]*slot{}}
}

// UsedBy says what step the state is used by, each after the other. Its Pause lets others have the processor.
func (s *State) UsedBy(step interface{ Pause() }) { s.step = step }

// Bytes is about how many bytes the records in memory have.
func (s *State) Bytes() int { return s.overLen + s.resid + 64*len(s.pieces) }

// Memory is about how much memory the state takes. What was written since the last
// snapshot counts twice: a record that was used is there decoded as well.
func (s *State) Memory() int { return s.Bytes() + s.overLen }

// at is the place of the piece in whose stretch key lies.
func (s *State) at(key string) int {
	return sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].lo > key }) - 1
}

func (s *State) slot(key string) (*slot, error) {
	if v, ok := s.over[key]; ok {
		return v, nil
	}
	p := s.pieces[s.at(key)]
	if p.run == nil {
		return nil, &Missing{Piece: p.ref}
	}
	if i, ok := slices.BinarySearch(p.run.keys, key); ok {
		return p.run.slots[i], nil
	}
	return nil, nil
}

// Get returns the record under key, or nil when there is none.
func (s *State) Get(key []byte) ([]byte, error) {
	v, err := s.slot(string(key))
	if v == nil || err != nil {
		return nil, err
	}
	return v.bytes, nil
}

// order brings the keys written since the last snapshot into order. Few new ones are put
// into their places, so that a busy organization does not sort thousands for each scan.
func (s *State) order() []string {
	switch {
	case s.sorted == nil:
		s.sorted = slices.AppendSeq(make([]string, 0, len(s.over)), maps.Keys(s.over))
		slices.Sort(s.sorted)
	case len(s.fresh) > 64+len(s.sorted)/64:
		s.sorted = append(s.sorted, s.fresh...)
		slices.Sort(s.sorted)
	default:
		for _, k := range s.fresh {
			i, _ := slices.BinarySearch(s.sorted, k)
			s.sorted = slices.Insert(s.sorted, i, k)
		}
	}
	s.fresh = s.fresh[:0]
	return s.sorted
}

// Apply folds writes into the state.
func (s *State) Apply(ws []Write) {
	for _, w := range ws {
		var v *slot
		if w.Value != nil {
			v = &slot{bytes: w.Value}
		}
		s.put(string(w.Key), v)
	}
}

func (s *State) put(k string, v *slot) {
	if strings.HasPrefix(k, allPolicies) {
		s.policySet = nil
	}
	old, was := s.over[k]
	switch {
	case !was:
		s.overLen += len(k) + 96
		if s.sorted != nil {
			s.fresh = append(s.fresh, k)
		}
	case old != nil:
		s.overLen -= len(old.bytes)
	}
	if v != nil {
		s.overLen += len(v.bytes)
	}
	s.over[k] = v
}

// Check refuses a write that cannot be stored; a record too large for a piece as a *fault.Error.
func (w Write) Check() error {
	if len(w.Key) == 0 || len(w.Key) > MaxKey {
		return fmt.Errorf("key of %d bytes", len(w.Key))
	}
	if len(w.Value) > MaxValue {
		// Without any limit being met, a user may have more than fits into one record.
		return fault.New(fault.ResourceExhausted, "over quota: a record would have %d bytes, at most %d", len(w.Value), MaxValue)
	}
	return nil
}

// PieceRef names a piece in a snapshot: where it begins and its sealed bytes.
type PieceRef struct {
	Lo      []byte `cbor:"1,keyasint"`
	Ref     Hash   `cbor:"2,keyasint"`
	Records uint32 `cbor:"3,keyasint"`
	Size    uint32 `cbor:"4,keyasint"`
}

// A Folding lays what was written up to one moment into the pieces, one after the other,
// while the state is read and written further. So a snapshot needs memory for one message
// and not for all pieces, and nobody waits for it. Fold, End and Bytes need the
// organization's turn, as does SetStored after End. The other methods do not, so that a
// snapshot of thousands of pieces does not queue for thousands of turns.
//
//	f := s.Fold()
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
// A Folding that is left before End has changed nothing.
type Folding struct {
	state   *State
	over    map[string]*slot
	keys    []string // of over that are not laid into a piece yet, in order
	pieces  []*piece // not looked at yet
	out     []*piece
	dropped []Hash
	size    int
	held    int

	piece *piece   // the one that is changed now
	laid  []string // keys of over that are laid into it
	run   *run     // its records; nil when absent
	ended bool
}

// Fold begins to fold what was written since the last snapshot.
func (s *State) Fold() *Folding {
	f := &Folding{state: s, over: maps.Clone(s.over), keys: slices.Clone(s.order()), pieces: s.pieces, size: s.overLen}
	f.held = s.overLen + 256*len(s.pieces) // only f has values that are overwritten later
	for _, p := range s.pieces {
		f.size += p.size
	}
	return f
}

// Size is about how many bytes the pieces will have together.
func (f *Folding) Size() int { return f.size }

// Bytes is about how much memory the fold takes at most, without the state and parts that
// are not stored yet, which others count. It has the values as they were at the beginning,
// and a second list of the records of each piece in memory: 24 of the 80 bytes that count
// for a record beside its own.
func (f *Folding) Bytes() int { return f.held + f.state.resid/3 }

// MostRefs is how many pieces Refs will list at most, and how many bytes their first keys
// have. It is called before Next. For pieces in memory it counts the cuts that Parts will
// make, for an absent one that grows too large as many as there can be.
func (f *Folding) MostRefs() (refs, keys int) {
	refs, keys = 1+len(f.pieces), MaxKey // one more for the cut where large collections begin
	rest := f.keys
	for i, p := range f.pieces {
		end := keysBefore(rest, f.pieces[i+1:])
		size := p.size
		for _, k := range rest[:end] {
			if v := f.over[k]; v != nil {
				size += recordSize(k, v)
			}
		}
		if keys += len(p.lo); size > MaxPiecePart {
			if r := f.state.runOf(p); r != nil {
				for _, part := range cut(merge(r, rest[:end], f.over))[1:] {
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

// keysBefore is how many keys come before the next piece, all if there is none.
func keysBefore(keys []string, next []*piece) int {
	if len(next) == 0 {
		return len(keys)
	}
	n, _ := slices.BinarySearch(keys, next[0].lo)
	return n
}

func (s *State) runOf(p *piece) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.run
}

// Next goes to the next piece that changes or was never stored, and tells whether there is one.
func (f *Folding) Next() bool {
	for f.run = nil; len(f.pieces) > 0; {
		f.piece, f.pieces = f.pieces[0], f.pieces[1:]
		end := keysBefore(f.keys, f.pieces)
		if end > 0 || f.piece.ref == (Hash{}) {
			f.laid, f.keys = f.keys[:end], f.keys[end:]
			f.run = f.state.runOf(f.piece)
			return true
		}
		f.out = append(f.out, f.piece)
	}
	return false
}

// Absent names the piece, and tells whether Load must give its records.
func (f *Folding) Absent() (ref Hash, absent bool) { return f.piece.ref, f.run == nil }

// Load gives the records of an absent piece.
func (f *Folding) Load(records []Write) (err error) {
	f.run, err = f.piece.read(records, f.pieces)
	return err
}

// Parts are the pieces that replace the piece, none if it is empty: the one before then covers it.
func (f *Folding) Parts() (parts []NewPiece) {
	if f.piece.ref != (Hash{}) {
		f.dropped = append(f.dropped, f.piece.ref)
	}
	merged := merge(f.run, f.laid, f.over)
	if len(merged.keys) == 0 && len(f.out) > 0 {
		return nil
	}
	var news []*piece
	for i, r := range cut(merged) {
		lo := f.piece.lo
		if i > 0 {
			lo = r.keys[0]
		}
		np := &piece{lo: lo, records: len(r.keys), size: r.size, run: r, unstored: true}
		news, parts = append(news, np), append(parts, NewPiece{np, f.piece})
	}
	f.out = append(f.out, news...)
	f.state.mu.Lock()
	f.piece.parts = news
	f.state.mu.Unlock()
	return parts
}

// A NewPiece is a new piece on its way into a snapshot.
type NewPiece struct {
	piece *piece
	of    *piece // that it replaces, perhaps with others
}

// Records encodes the part.
func (p NewPiece) Records() []Write {
	ws := make([]Write, len(p.piece.run.keys))
	for i, k := range p.piece.run.keys {
		ws[i] = Write{Key: []byte(k), Value: p.piece.run.slots[i].bytes}
	}
	return ws
}

// SetName gives the part the hash of its sealed bytes.
func (p NewPiece) SetName(h Hash) { p.piece.ref = h }

// Refs lists all pieces in order, once Next has found no more.
func (f *Folding) Refs() []PieceRef { return refsOf(f.out) }

// Drops names the pieces that End replaces.
func (f *Folding) Drops() []Hash { return f.dropped }

// End puts the new pieces in the place of the old ones. All parts must have names.
func (f *Folding) End() {
	s := f.state
	since, size := map[string]*slot{}, 0
	for k, v := range s.over {
		if then, was := f.over[k]; was && then == v {
			continue
		}
		since[k] = v
		if size += len(k) + 96; v != nil {
			size += len(v.bytes)
		}
	}
	s.over, s.sorted, s.fresh, s.overLen = since, nil, nil, size
	s.pieces, s.resid, f.ended = f.out, 0, true
	for _, p := range s.pieces {
		if p.run != nil {
			s.resid += p.bytes()
		}
	}
}

// SetStored tells that parts can be loaded. Those that replace an absent piece leave memory.
func (f *Folding) SetStored(parts []NewPiece) {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	for _, part := range parts {
		p := part.piece
		if p.unstored = false; part.of.run != nil || p.run == nil {
			continue
		}
		if p.run = nil; f.ended {
			f.state.resid -= p.bytes()
		}
	}
}

func merge(r *run, keys []string, over map[string]*slot) *run {
	m := &run{keys: make([]string, 0, len(r.keys)+len(keys)), slots: make([]*slot, 0, len(r.keys)+len(keys))}
	r.visit(0, len(r.keys), keys, func(k string) *slot { return over[k] }, false, func(k string, v *slot) bool {
		m.keys, m.slots = append(m.keys, k), append(m.slots, v)
		m.size += recordSize(k, v)
		return true
	})
	return m
}

func recordSize(k string, v *slot) int { return len(k) + len(v.bytes) + 12 }

// cut splits a run where the large collections begin and wherever it is too large for a piece.
func cut(r *run) []*run {
	var out []*run
	rest := &run{}
	flush := func() {
		if len(rest.keys) > 0 {
			out = append(out, rest)
			rest = &run{}
		}
	}
	limit := MaxPiecePart
	if r.size > MaxPiecePart {
		limit = PieceTarget
	}
	for i, k := range r.keys {
		n := recordSize(k, r.slots[i])
		border := i > 0 && Large(k[0]) != Large(r.keys[i-1][0])
		if border || rest.size+n > limit {
			flush()
		}
		rest.keys, rest.slots = append(rest.keys, k), append(rest.slots, r.slots[i])
		rest.size += n
	}
	flush()
	if len(out) == 0 {
		out = append(out, &run{})
	}
	return out
}

// Refs lists the pieces in order, as a snapshot names them.
func (s *State) Refs() []PieceRef { return refsOf(s.pieces) }

func refsOf(pieces []*piece) []PieceRef {
	refs := make([]PieceRef, len(pieces))
	for i, p := range pieces {
		refs[i] = PieceRef{Lo: []byte(p.lo), Ref: p.ref, Records: uint32(p.records), Size: uint32(p.size)}
	}
	return refs
}

// FromRefs is a snapshot's state, with every piece absent. The small ones must be installed first.
func FromRefs(refs []PieceRef) (s *State, small []Hash, err error) {
	if len(refs) == 0 || len(refs[0].Lo) != 0 {
		return nil, nil, fmt.Errorf("snapshot does not begin at the first key")
	}
	s = &State{over: map[string]*slot{}}
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

// Install puts the records of the piece named ref in place. It refuses a ref that no piece
// has, and records that do not fit the piece.
func (s *State) Install(ref Hash, records []Write) error {
	i := slices.IndexFunc(s.pieces, func(p *piece) bool { return p.ref == ref })
	if i < 0 {
		return fmt.Errorf("no such piece")
	}
	p := s.pieces[i]
	if p.run != nil {
		return nil // another request has loaded it
	}
	r, err := p.read(records, s.pieces[i+1:])
	if err != nil {
		return err
	}
	s.mu.Lock()
	p.run = r
	s.mu.Unlock()
	s.resid += p.bytes()
	return nil
}

// read makes a run of records, which must be the piece's. next are the pieces behind it.
func (p *piece) read(records []Write, next []*piece) (*run, error) {
	r := &run{keys: make([]string, len(records)), slots: make([]*slot, len(records))}
	last := p.lo
	for j, w := range records {
		k := string(w.Key)
		if w.Value == nil || len(k) == 0 || k < last || (j > 0 && k == last) || (len(next) > 0 && k >= next[0].lo) {
			return nil, fmt.Errorf("record outside of its piece")
		}
		last = k
		r.keys[j], r.slots[j] = k, &slot{bytes: w.Value}
		r.size += recordSize(k, r.slots[j])
	}
	if len(records) != p.records || r.size != p.size {
		return nil, fmt.Errorf("piece of another size")
	}
	return r, nil
}

// Misses tells whether the piece named ref is one of the state's and absent.
func (s *State) Misses(ref Hash) bool {
	i := slices.IndexFunc(s.pieces, func(p *piece) bool { return p.ref == ref })
	return i >= 0 && s.pieces[i].run == nil
}

// Shed drops large pieces that can be loaded again, with the stored parts that a fold made of them.
func (s *State) Shed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pieces {
		if p.run == nil || p.ref == (Hash{}) || p.unstored || p.lo == "" || !Large(p.lo[0]) {
			continue
		}
		p.run = nil
		s.resid -= p.bytes()
		for _, part := range p.parts {
			if !part.unstored {
				part.run = nil
			}
		}
	}
}
