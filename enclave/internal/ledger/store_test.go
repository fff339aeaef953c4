package ledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"

	"github.com/transparency-dev/merkle/rfc6962"

	"cloister/attestation/tlog"
	"cloister/shared/wire"
)

// memStore is an honest store in memory: it does all that a host's store must
// do, slowly and plainly. The hooks make it a hostile one.
type memStore struct {
	mu      sync.Mutex
	row     wire.Owned
	orgs    map[wire.ID]*memOrg
	batches []wire.Batch
	last    [32]byte // hash of the owner's last batch
	table   []byte   // the tip table
	pages   map[wire.Hash][]byte

	witnesses []*seen // who cosigns; none: nobody answers

	// hooks stand between the enclave and the honest answer; nil leaves it.
	hooks hooks
}

type hooks struct {
	own     func(wire.Own, func() wire.Owned) (wire.Owned, error)
	append  func(ctx context.Context, b *wire.Batch, honest func() wire.Stored) (wire.Stored, error)
	org     func(wire.LoadOrganization, wire.Organization) (wire.Organization, error)
	entries func(context.Context, wire.LoadEntries, wire.Entries) (wire.Entries, error)
	pieces  func(context.Context, wire.LoadPieces, wire.Pieces) (wire.Pieces, error)
	proven  func(wire.Find, wire.Proven) (wire.Proven, error)
	page    func(wire.Page, wire.Proven) (wire.Proven, error)
	index   func(wire.PageIndex, wire.IndexRows) (wire.IndexRows, error)
	put     func(ctx context.Context, q wire.PutSnapshot, honest func() wire.Done) (wire.Done, error)
	keys    func(wire.LoadKeys, wire.Keys) (wire.Keys, error)
	headers func(wire.LoadHeaders, wire.Headers) (wire.Headers, error)
	tips    func(wire.LoadTips, wire.Tips) (wire.Tips, error)
	table   func(wire.TipTable) (wire.TipTable, error)
	pages   func(wire.LoadPages, wire.Pieces) (wire.Pieces, error)
	logged  func(wire.ProveLogged, wire.Logged) (wire.Logged, error)
	tabled  func(ctx context.Context, q wire.PutTable, honest func() wire.Done) (wire.Done, error)
}

type memOrg struct {
	entries []wire.Entry
	keys    []wire.WrappedKey
	snap    []byte
	covers  uint64
	pieces  map[wire.Hash][]byte
	history []wire.PutSnapshot // every snapshot there was
	all     map[wire.Hash][]byte
}

func newStore() *memStore { return &memStore{orgs: map[wire.ID]*memOrg{}} }

func (s *memStore) hook() hooks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hooks
}

// lie sets the hooks; the zero hooks make the store honest again.
func (s *memStore) lie(h hooks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = h
}

func (s *memStore) of(id wire.ID) *memOrg {
	o := s.orgs[id]
	if o == nil {
		o = &memOrg{pieces: map[wire.Hash][]byte{}, all: map[wire.Hash][]byte{}}
		s.orgs[id] = o
	}
	return o
}

// LoadHeaders gives three at a time, so that reading takes several questions.
func (s *memStore) LoadHeaders(_ context.Context, q wire.LoadHeaders) (wire.Headers, error) {
	s.mu.Lock()
	var got wire.Headers
	for i := range s.batches {
		b := &s.batches[i]
		if len(got.Headers) < 3 && b.Range == q.Range && (b.Epoch > q.Epoch || b.Epoch == q.Epoch && b.Number >= q.Number) {
			got.Headers = append(got.Headers, bytes.Clone(b.Header))
		}
	}
	s.mu.Unlock()
	if h := s.hook().headers; h != nil {
		return h(q, got)
	}
	return got, nil
}

func (s *memStore) LoadTips(_ context.Context, q wire.LoadTips) (wire.Tips, error) {
	s.mu.Lock()
	var got wire.Tips
	for id, o := range s.orgs {
		if len(o.entries) == 0 || bytes.Compare(id[:], q.From[:]) < 0 || bytes.Compare(id[:], q.To[:]) > 0 {
			continue
		}
		got.Tips = append(got.Tips, wire.Tip{Organization: id, Count: uint64(len(o.entries)), Root: rootOf(leaves(o.entries))})
	}
	s.mu.Unlock()
	slices.SortFunc(got.Tips, func(a, b wire.Tip) int { return bytes.Compare(a.Organization[:], b.Organization[:]) })
	got.Tips = got.Tips[:min(len(got.Tips), int(q.Limit))]
	if h := s.hook().tips; h != nil {
		return h(q, got)
	}
	return got, nil
}

func (s *memStore) LoadTable(context.Context, wire.LoadTable) (wire.TipTable, error) {
	s.mu.Lock()
	got := wire.TipTable{Table: bytes.Clone(s.table)}
	s.mu.Unlock()
	if h := s.hook().table; h != nil {
		return h(got)
	}
	return got, nil
}

func (s *memStore) LoadPages(_ context.Context, q wire.LoadPages) (wire.Pieces, error) {
	s.mu.Lock()
	var got wire.Pieces
	for _, h := range q.Pages {
		got.Pieces = append(got.Pieces, bytes.Clone(s.pages[h]))
	}
	s.mu.Unlock()
	if h := s.hook().pages; h != nil {
		return h(q, got)
	}
	return got, nil
}

func (s *memStore) PutTable(ctx context.Context, q wire.PutTable) (wire.Done, error) {
	honest := func() wire.Done {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.row.Boot != q.Boot || s.row.Epoch != q.Epoch || s.row.Released {
			return wire.Done{}
		}
		if len(q.Table) > 0 && !bytes.Equal(q.Table, s.table) {
			var over wire.Hash
			if len(s.table) > 0 {
				over = sha256.Sum256(s.table)
			}
			if over != q.Over {
				return wire.Done{}
			}
		}
		if s.pages == nil {
			s.pages = map[wire.Hash][]byte{}
		}
		for _, page := range q.Pages {
			s.pages[sha256.Sum256(page)] = bytes.Clone(page)
		}
		for _, h := range q.Drop {
			delete(s.pages, h)
		}
		if len(q.Table) > 0 {
			s.table = bytes.Clone(q.Table)
		}
		return wire.Done{OK: true}
	}
	if h := s.hook().tabled; h != nil {
		return h(ctx, q, honest)
	}
	return honest(), nil
}

func (s *memStore) LoadKeys(_ context.Context, q wire.LoadKeys) (wire.Keys, error) {
	s.mu.Lock()
	var got wire.Keys
	for id, o := range s.orgs {
		if bytes.Compare(id[:], q.From[:]) < 0 || bytes.Compare(id[:], q.To[:]) > 0 {
			continue
		}
		for _, k := range o.keys {
			if id != q.From || k.KeyID >= q.FromKey {
				got.Keys = append(got.Keys, k)
			}
		}
	}
	s.mu.Unlock()
	slices.SortFunc(got.Keys, func(a, b wire.WrappedKey) int {
		if c := bytes.Compare(a.Organization[:], b.Organization[:]); c != 0 {
			return c
		}
		return int(a.KeyID) - int(b.KeyID)
	})
	got.Keys = got.Keys[:min(len(got.Keys), int(q.Limit))]
	if h := s.hook().keys; h != nil {
		return h(q, got)
	}
	return got, nil
}

func (s *memStore) PutKeys(_ context.Context, q wire.PutKeys) (wire.Done, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.row.Boot != q.Boot || s.row.Epoch != q.Epoch || s.row.Released {
		return wire.Done{}, nil
	}
	for _, k := range q.Keys {
		for i, old := range s.of(k.Organization).keys {
			if old.KeyID == k.KeyID {
				s.of(k.Organization).keys[i] = k
			}
		}
	}
	return wire.Done{OK: true}, nil
}

func (s *memStore) Own(_ context.Context, q wire.Own) (wire.Owned, error) {
	honest := func() wire.Owned {
		s.mu.Lock()
		defer s.mu.Unlock()
		mine := s.row.Epoch == q.Expect && s.row.Boot == q.Boot && !s.row.Released
		ok := true
		switch q.Action {
		case wire.OwnTake:
			if ok = s.row.Epoch == q.Expect; ok {
				s.row, s.last = wire.Owned{Epoch: q.Expect + 1, Boot: q.Boot}, [32]byte{}
			}
		case wire.OwnRenew:
			ok = mine
		case wire.OwnRelease:
			if ok = mine; ok {
				s.row.Released = true
			}
		}
		got := s.row
		got.OK = ok
		return got
	}
	if h := s.hook().own; h != nil {
		return h(q, honest)
	}
	return honest(), nil
}

func (s *memStore) Append(ctx context.Context, msg []byte) (wire.Stored, error) {
	var b wire.Batch
	if err := wire.Unmarshal(msg, &b); err != nil {
		return wire.Stored{}, err
	}
	if len(msg) > wire.MaxFrame || len(b.Header) == 0 || len(b.Entries) > wire.MaxBatch {
		return wire.Stored{}, errors.New("batch out of bounds")
	}
	honest := func() wire.Stored { return s.append(&b, sha256.Sum256(msg)) }
	if h := s.hook().append; h != nil {
		return h(ctx, &b, honest)
	}
	return honest(), ctx.Err()
}

func (s *memStore) append(b *wire.Batch, hash [32]byte) wire.Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	verdict := func(v wire.Verdict) wire.Stored { return wire.Stored{Number: b.Number, Verdict: v} }
	switch {
	case s.row.Epoch != b.Epoch || s.row.Boot != b.Boot:
		return verdict(wire.VerdictSuperseded)
	case s.row.Batches == b.Number && s.last == hash:
		return verdict(wire.VerdictStored)
	case s.row.Batches+1 != b.Number:
		return verdict(wire.VerdictConflict)
	}
	next := map[wire.ID]uint64{}
	for _, e := range b.Entries {
		if _, seen := next[e.Organization]; !seen {
			next[e.Organization] = uint64(len(s.of(e.Organization).entries))
		}
		if e.Seq != next[e.Organization] {
			return verdict(wire.VerdictConflict)
		}
		next[e.Organization]++
	}
	for _, e := range b.Entries {
		o := s.of(e.Organization)
		o.entries = append(o.entries, e)
	}
	for _, k := range b.Keys {
		o := s.of(k.Organization)
		o.keys = append(o.keys, k)
	}
	s.row.Batches, s.last = b.Number, hash
	s.batches = append(s.batches, *b)
	return verdict(wire.VerdictStored)
}

func keysOf(o *memOrg) []wire.WrappedKey {
	ks := slices.Clone(o.keys)
	for i := range ks {
		ks[i].Sealed = bytes.Clone(ks[i].Sealed)
	}
	return ks
}

// perAnswer is how many entries one answer holds, so that loads take several.
const perAnswer = 500

func sealedOf(es []wire.Entry) (out [][]byte) {
	for _, e := range es[:min(len(es), perAnswer)] {
		out = append(out, bytes.Clone(e.Sealed))
	}
	return out
}

func (s *memStore) LoadOrganization(ctx context.Context, q wire.LoadOrganization) (wire.Organization, error) {
	s.mu.Lock()
	var got wire.Organization
	if o := s.orgs[q.Organization]; o != nil && len(o.entries) > 0 {
		got = wire.Organization{Count: uint64(len(o.entries)), Keys: keysOf(o), Snapshot: bytes.Clone(o.snap), From: o.covers, Entries: sealedOf(o.entries[o.covers:])}
	}
	s.mu.Unlock()
	if h := s.hook().org; h != nil {
		return h(q, got)
	}
	return got, ctx.Err()
}

func (s *memStore) LoadEntries(ctx context.Context, q wire.LoadEntries) (wire.Entries, error) {
	s.mu.Lock()
	var got wire.Entries
	if o := s.orgs[q.Organization]; o != nil && q.From < uint64(len(o.entries)) {
		got.Entries = sealedOf(o.entries[q.From:])
	}
	s.mu.Unlock()
	if h := s.hook().entries; h != nil {
		return h(ctx, q, got)
	}
	return got, ctx.Err()
}

func (s *memStore) LoadPieces(ctx context.Context, q wire.LoadPieces) (wire.Pieces, error) {
	s.mu.Lock()
	var got wire.Pieces
	for _, h := range q.Pieces {
		got.Pieces = append(got.Pieces, bytes.Clone(s.of(q.Organization).pieces[h]))
	}
	s.mu.Unlock()
	if h := s.hook().pieces; h != nil {
		return h(ctx, q, got)
	}
	return got, ctx.Err()
}

// ProveLogged finds the first batch that has the entry.
func (s *memStore) ProveLogged(_ context.Context, q wire.ProveLogged) (wire.Logged, error) {
	s.mu.Lock()
	got := s.loggedLocked(q)
	s.mu.Unlock()
	if h := s.hook().logged; h != nil {
		return h(q, got)
	}
	return got, nil
}

func (s *memStore) loggedLocked(q wire.ProveLogged) (got wire.Logged) {
	var all []wire.Hash
	for i := range s.batches {
		header := s.batches[i].Header
		h := new(wire.BatchHeader)
		if s.batches[i].Range != q.Range || wire.Unmarshal(header[:len(header)-sha256.Size], h) != nil || h.Generation != q.Generation || h.Position >= q.Size {
			continue
		}
		if all = append(all, tlog.HashLeaf(h.Leaf)); h.Position == 0 && q.Generation > 1 {
			got.First = h.Leaf
		}
		of := func(t wire.Tip) bool { return t.Organization == q.Organization && t.Count > q.Seq }
		// An index knows entries: no batch is found by it that says again where an organization stands.
		came := slices.ContainsFunc(s.batches[i].Entries, func(e wire.Entry) bool { return e.Organization == q.Organization && e.Seq >= q.Seq })
		if got.Header == nil && (bytes.Equal(q.Header, header) || len(q.Header) == 0 && came) && slices.ContainsFunc(h.Tips, of) {
			got.Header = bytes.Clone(header)
		}
	}
	if got.Header == nil || uint64(len(all)) != q.Size {
		return wire.Logged{}
	}
	h := new(wire.BatchHeader)
	_ = wire.Unmarshal(got.Header[:len(got.Header)-sha256.Size], h)
	got.Path = pathOf(int(h.Position), all)
	if q.Generation > 1 {
		got.FirstPath = pathOf(0, all)
	}
	return got
}

func leaves(es []wire.Entry) (out []wire.Hash) {
	for _, e := range es {
		out = append(out, tlog.HashStored(e.Sealed))
	}
	return out
}

// rootOf and pathOf are RFC 6962, section 2.1, word for word.
func rootOf(d []wire.Hash) wire.Hash {
	switch len(d) {
	case 0:
		return wire.Hash(rfc6962.DefaultHasher.EmptyRoot())
	case 1:
		return d[0]
	}
	k := split(len(d))
	l, r := rootOf(d[:k]), rootOf(d[k:])
	return wire.Hash(rfc6962.DefaultHasher.HashChildren(l[:], r[:]))
}

func pathOf(m int, d []wire.Hash) []wire.Hash {
	if len(d) <= 1 {
		return nil
	}
	k := split(len(d))
	if m < k {
		return append(pathOf(m, d[:k]), rootOf(d[k:]))
	}
	return append(pathOf(m-k, d[k:]), rootOf(d[:k]))
}

func split(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

func proven(es []wire.Entry, size uint64, seq int) wire.ProvenEntry {
	return wire.ProvenEntry{Seq: uint64(seq), Sealed: bytes.Clone(es[seq].Sealed), Proof: pathOf(seq, leaves(es[:size]))}
}

func (s *memStore) Find(_ context.Context, q wire.Find) (wire.Proven, error) {
	s.mu.Lock()
	var got wire.Proven
	o := s.of(q.Organization)
	size := min(q.TreeSize, uint64(len(o.entries)))
	for _, seq := range q.Seqs {
		if seq < size {
			got.Entries = append(got.Entries, proven(o.entries, size, int(seq)))
		}
	}
	for _, a := range q.Activities {
		for i := int(size) - 1; i >= 0; i-- {
			if o.entries[i].Activity == a {
				got.Entries = append(got.Entries, proven(o.entries, size, i))
				break
			}
		}
	}
	s.mu.Unlock()
	if h := s.hook().proven; h != nil {
		return h(q, got)
	}
	return got, nil
}

func (s *memStore) Page(_ context.Context, q wire.Page) (wire.Proven, error) {
	s.mu.Lock()
	var got wire.Proven
	o := s.of(q.Organization)
	size := min(q.TreeSize, uint64(len(o.entries)))
	at := func(id *wire.ID) int {
		for i := int(size) - 1; id != nil && i >= 0; i-- {
			if o.entries[i].Activity == *id {
				return i
			}
		}
		return -1
	}
	after := at(q.After)
	got.Unknown = q.After != nil && after < 0
	newer := map[uint64]bool{}
	for i := int(size) - 1; i >= 0 && !got.Unknown; i-- {
		e := &o.entries[i]
		if e.Prior > 0 {
			newer[e.Prior-1] = true
		}
		fits := e.Activity != wire.ID{} && !newer[e.Seq] && (after < 0 || i < after) && (q.End == nil || e.Seq < *q.End) &&
			(len(q.Types) == 0 || slices.Contains(q.Types, e.Type)) && (len(q.Statuses) == 0 || slices.Contains(q.Statuses, e.Status))
		if fits && len(got.Entries) < int(q.Limit) {
			got.Entries = append(got.Entries, proven(o.entries, size, i))
		}
	}
	s.mu.Unlock()
	if h := s.hook().page; h != nil {
		return h(q, got)
	}
	return got, nil
}

func (s *memStore) PutSnapshot(ctx context.Context, q wire.PutSnapshot) (wire.Done, error) {
	ahead := len(q.Snapshot) == 0
	switch {
	case len(q.Snapshot) > wire.MaxSnapshot, ahead && len(q.Pieces) == 0, ahead && len(q.Drop) > 0, !ahead && q.Over >= q.Count:
		return wire.Done{}, errors.New("snapshot out of bounds")
	case q.Count > s.stored(q.Organization):
		return wire.Done{}, errors.New("snapshot of entries that are not stored")
	}
	honest := func() wire.Done { return wire.Done{OK: s.putSnapshot(q)} }
	if h := s.hook().put; h != nil {
		return h(ctx, q, honest)
	}
	return honest(), ctx.Err()
}

func (s *memStore) stored(id wire.ID) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.of(id).entries))
}

func (s *memStore) putSnapshot(q wire.PutSnapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.of(q.Organization)
	switch {
	case s.row.Epoch != q.Epoch || s.row.Boot != q.Boot || s.row.Released:
		return false
	case len(q.Snapshot) > 0 && o.covers != q.Over:
		return o.covers == q.Count && bytes.Equal(o.snap, q.Snapshot)
	}
	for _, p := range q.Pieces {
		h := wire.Hash(sha256.Sum256(p))
		o.pieces[h], o.all[h] = p, p
	}
	if len(q.Snapshot) > 0 {
		o.snap, o.covers = q.Snapshot, q.Count
		o.history = append(o.history, q)
		for _, h := range q.Drop {
			delete(o.pieces, h)
		}
	}
	return true
}

// image is an organization as it stands, for an attack to bring back.
func (s *memStore) image(id wire.ID) wire.Organization {
	got, _ := s.LoadOrganization(context.Background(), wire.LoadOrganization{Organization: id})
	return got
}
